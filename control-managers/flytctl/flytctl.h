/*
 * flytctl.h: the administrator's command line.
 *
 * A command is a row of a table (struct command): its words, its arguments, its options, its function. Parsing, help,
 * completion and the test of the manual work from that table. A command asks the cluster manager (ask), makes JSON of
 * the answer, and prints that JSON: as it is with --json, else as a table (columns name the JSON's keys). So both show
 * the same, and nothing can be seen in one only.
 *
 * Exit codes are part of the interface, see enum exit_code and the manual.
 */
#ifndef FLYT_FLYTCTL_H
#define FLYT_FLYTCTL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/common/explain.h"
#include "control-managers/common/link.h"
#include "control-managers/common/protocol.h"

enum exit_code {
    EXIT_FINE = 0,
    EXIT_FAILED = 1, /* anything else */
    EXIT_USAGE = 2,
    EXIT_UNREACHABLE = 3, /* the cluster manager cannot be reached, or did not answer */
    EXIT_DENIED = 4,
    EXIT_NOT_FOUND = 5,
    EXIT_EXISTS = 6,
    EXIT_BUSY = 7, /* in use: --force, or another time */
    EXIT_NO_ROOM = 8,
    EXIT_NOT_SUPPORTED = 9, /* this version cannot do that */
    EXIT_BAD_CONFIG = 10,   /* config check or reload found mistakes */
    EXIT_DB_AWAY = 11,      /* the resource DB does not answer, and nothing was changed: try again later */
    EXIT_UNKNOWN = 12       /* whether the change was made is not known: look */
};

/* An option of a command. argument NULL: it takes none. repeat: may be given several times. */
struct option_row {
    const char *name;
    char letter;
    const char *argument;
    const char *help;
    bool repeat;
};

struct flytctl;

struct command {
    const char *group; /* "vm"; NULL: the command is one word */
    const char *name;
    const char *arguments; /* "NAME..." for the help; "" for none */
    int min, max;          /* how many; max -1: any number */
    const char *complete;  /* what its arguments are, for complete.c: "vm", "node", ":file", ":dir,role," … */
    const char *help;      /* one sentence */
    const struct option_row *options; /* ended by a NULL name; NULL for none */
    int (*run)(struct flytctl *);
};

enum { MAX_OPTIONS = 24, MAX_REPEATED = 16, MAX_WORDS = 256 };

struct flytctl {
    /* global options */
    const char *manager, *secret, *tls_folder, *as, *config;
    bool json, wide;
    unsigned timeout_ms;
    /* this command */
    const struct command *command;
    int argc;
    char *argv[MAX_WORDS];
    const char *values[MAX_OPTIONS][MAX_REPEATED];
    int given[MAX_OPTIONS];
    /* the connection */
    struct loop *loop;
    struct link *link;
    char manager_uri[CTL_MAX_URI + 1];
    struct loop_timer tell; /* says that it still waits */
    struct flytctl_config *settings;
    char look[256]; /* what shows whether the change that is asked for was made; "": it is no change */
};

extern const struct command commands[]; /* ended by a NULL name */
extern const struct option_row global_options[];

/* ---- options.c ---- */

/* Fills command, arguments, options. EXIT_FINE: run it; -1: nothing to be done (help, version were printed); else
 * exit. */
int options_parse(struct flytctl *, int argc, char **argv);
/* The row of a command's words, of an option's name (length bytes) or letter ('\0': by its name); NULL: there is
 * none. */
const struct command *command_find(const char *first, const char *second);
const struct option_row *option_find(const struct option_row *, const char *name, size_t length, char letter);
/* If this is one of the options that say how to reach the cluster manager: takes its value. */
bool option_connection(struct flytctl *, const struct option_row *, const char *value);
/* NULL: not given. The name must be one of the command's. */
const char *option(const struct flytctl *, const char *name);
int option_count(const struct flytctl *, const char *name);
const char *option_at(const struct flytctl *, const char *name, int index);
int command_complete(struct flytctl *);  /* complete.c */
int command_help(struct flytctl *);

/* Values of options; not given: *out stays. false: complained, EXIT_USAGE. */
bool option_number(struct flytctl *, const char *name, uint64_t min, uint64_t max, uint64_t *out);
/* 512M, 2G; a plain number is MiB. */
bool option_size(struct flytctl *, const char *name, uint64_t *bytes);
bool option_switch(struct flytctl *, const char *name, bool *on);
/* cmd_change.c: --within, of commands that change the share of what runs. */
#define WITHIN \
    { "within", 0, "SECONDS", "take unused memory back, and wait so long until it fits (0)", false }
bool option_within(struct flytctl *, unsigned *within_ms);
bool parse_id(struct flytctl *, const char *text, uint64_t *id);
/* since.c: a moment, in microseconds since 1970; now: the same. false: it is none. */
bool parse_since(const char *text, int64_t now, int64_t *when);

/* ---- session.c ---- */

void session_close(struct flytctl *);
/* Calls; *result is to be freed by protocol_free if EXIT_FINE is returned. All results but those of listings begin with
   a ctl_status, and so do they: it is looked at, and what is not CTL_OK is complained of. */
int ask(struct flytctl *, uint32_t procedure, const void *args, void *result);
/* Calls, and leaves status codes other than CTL_OK to the caller: EXIT_FINE is returned for them, too. */
int ask_raw(struct flytctl *, uint32_t procedure, const void *args, void *result);
/* For the next call: it changes something, and this command shows whether the change was made. */
void look_with(struct flytctl *, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As ask, and says the status' text, or `done`, when it went well. */
/* secret.c: makes a call whose answer is a new secret, and prints that or writes it to --secret-file. noun: VM, node;
   what: added, changed. */
int ask_for_secret(struct flytctl *, uint32_t procedure, const void *args, const char *noun, const char *what,
                   const char *name);
int ask_plain(struct flytctl *, uint32_t procedure, const void *args, const char *done, ...)
    __attribute__((format(printf, 4, 5)));
int exit_of_code(ctl_code);

/* ---- output.c ---- */

/* On stderr, and with --json as an object on stdout. Returns code. */
int complain(struct flytctl *, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Complains with further members of the object, which are taken over (may be NULL). */
int complain_more(struct flytctl *, int code, json_t *members, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int complain_status(struct flytctl *, const ctl_status *);
/* What went well: a line, or { "ok": true, "message": … } with further members, which are taken over (may be NULL). */
void report(struct flytctl *, json_t *members, const char *format, ...) __attribute__((format(printf, 3, 4)));

enum column_kind {
    COLUMN_TEXT,
    COLUMN_END,
    COLUMN_NUMBER,
    COLUMN_SIZE,
    COLUMN_AGO,
    COLUMN_YES,
    COLUMN_PART,
    COLUMN_PART_SIZE,
    COLUMN_LIST
};
/* key2: of the whole, for COLUMN_PART. rank: 0: always shown; else, where there is no room, those with higher ranks go
   first. COLUMN_END is a text of which the end is kept if it has to be cut. */
struct column {
    const char *title, *key;
    enum column_kind kind;
    const char *key2;
    int rank;
};
/* An array of objects. Takes it over. */
int print_rows(struct flytctl *, json_t *rows, const struct column *, size_t columns, const char *when_empty);
/* One object, a line each. Takes it over. */
int print_object(struct flytctl *, json_t *object, const struct column *, size_t columns);
/* Just the table, from rows that stay the caller's. */
void print_table(const struct flytctl *, const json_t *rows, const struct column *, size_t columns);
/* Words, `gap` blanks behind the `at` columns that the line has, further lines from column `indent` on; within the
   terminal, or within `wide` columns. */
void print_text(const struct flytctl *, const char *text, int at, int gap, int indent);
void print_wrapped(const char *text, int at, int gap, int indent, int wide);
/* Padded to `pad` columns; cut where the line would not fit the terminal. Returns how many columns it took. */
int print_name(const struct flytctl *, const char *name, int at, int pad);
/* One line of JSON. Takes it over. */
void print_json_line(json_t *);
void print_json(json_t *); /* many lines; takes it over */

json_t *json_time(int64_t microseconds); /* RFC 3339; null for 0 */
json_t *json_text(const char *);
char *text_size(uint64_t bytes, char *buffer, size_t size);
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* ---- rows.c: what the cluster manager says, as JSON ---- */

json_t *row_status(const admin_status_result *);
json_t *row_server(const admin_server *);
json_t *row_vm(const admin_vm *);
json_t *row_event(const admin_event *);
/* All pages. only, vm, node may be NULL. */
int list_nodes(struct flytctl *, const char *only, json_t **);
int list_vms(struct flytctl *, const char *only, json_t **);
int list_servers(struct flytctl *, const char *vm, const char *node, json_t **);
int list_programs(struct flytctl *, const char *vm, const char *node, json_t **);

/* ---- files with verifiers of secrets (cmd_vm_file.c) ---- */

/* Hexadecimal, or null where there is none. verifier_read: false where it is broken; CTL_PROOF_SIZE bytes. */
json_t *verifier_text(const u_char *bytes, unsigned size);
bool verifier_read(const json_t *, u_char *bytes);
/* For its owner only. EXIT_FINE or complained. */
int file_write(struct flytctl *, const char *path, const json_t *file);
/* The rows of a file, "-": of standard input: those of the list `key`, of a list, or one after the other. NULL:
   complained, and *code is the exit status. */
json_t *file_read(struct flytctl *, const char *path, const char *key, int *code);

/* ---- commands ---- */

extern const struct option_row node_add_options[], drain_options[], vm_add_options[], vm_set_options[],
    vm_import_options[], status_options[], events_options[], top_options[], change_options[], program_migrate_options[],
    program_suspend_options[], program_resume_options[], move_cancel_options[], migrate_options[],
    migrate_auto_options[], grouping_options[], config_check_options[], ca_create_options[], ca_issue_options[],
    ca_revoke_options[], node_import_options[];

int command_vm_add(struct flytctl *), command_vm_set(struct flytctl *), command_vm_remove(struct flytctl *),
    command_vm_list(struct flytctl *), command_vm_show(struct flytctl *), command_vm_import(struct flytctl *),
    command_vm_export(struct flytctl *);
int command_node_list(struct flytctl *), command_node_show(struct flytctl *), command_node_add(struct flytctl *),
    command_node_drain(struct flytctl *), command_node_undrain(struct flytctl *), command_node_remove(struct flytctl *);
int command_node_export(struct flytctl *), command_node_import(struct flytctl *);
int command_server_list(struct flytctl *), command_server_stop(struct flytctl *),
    command_program_list(struct flytctl *), command_program_kill(struct flytctl *);
int command_status(struct flytctl *), command_events(struct flytctl *), command_top(struct flytctl *),
    command_reload(struct flytctl *), command_key_rotate(struct flytctl *);
int status_check(struct flytctl *); /* status --check; its exit statuses are not those above */
int command_change(struct flytctl *), command_migrate(struct flytctl *), command_grouping(struct flytctl *);
int command_program_suspend(struct flytctl *), command_program_resume(struct flytctl *),
    command_program_checkpoint(struct flytctl *), command_checkpoint_show(struct flytctl *);
int command_program_migrate(struct flytctl *), command_move_list(struct flytctl *),
    command_move_cancel(struct flytctl *);
/* Moves all programs of a node to other GPUs, so many at a time. The status of the first that does not move. */
int move_programs_away(struct flytctl *, const char *node, size_t at_once);
int command_config_check(struct flytctl *), command_config_keys(struct flytctl *);
int command_ca_create(struct flytctl *), command_ca_issue(struct flytctl *), command_ca_show(struct flytctl *),
    command_ca_revoke(struct flytctl *);

#endif
