/*
 * flytctl.h: the administrator's command line.
 *
 * A command is a row of a table (struct command): its words, its arguments, its options, its function. Parsing, help,
 * completion and the test of the manual work from that table. A command asks the cluster manager (ask), makes JSON of
 * the answer, and prints that JSON in the form that --output names: as it is, as YAML, CSV, names, or as a table
 * (columns name the JSON's keys). So all forms show the same, and nothing can be seen in one only.
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
#include "control-managers/rows/rows.h"

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

/* The forms of --output. WIDE: a table of all columns. */
enum output_form { FORM_TABLE, FORM_WIDE, FORM_JSON, FORM_YAML, FORM_NAME, FORM_CSV, FORM_CUSTOM };
enum color_when { WHEN_AUTO, WHEN_ALWAYS, WHEN_NEVER };

enum { MAX_OPTIONS = 24, MAX_REPEATED = 16, MAX_WORDS = 256 };

struct flytctl {
    /* global options */
    const char *manager, *secret, *tls_folder, *as, *config;
    enum output_form form;
    const char *custom; /* HEAD:key,… of FORM_CUSTOM */
    enum color_when color;
    bool json; /* the form is JSON or YAML: every answer is an object */
    bool wide, utc;
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
    bool lasts, away, hushed; /* session_lasts; the cluster manager has gone; nothing is said of that */
    unsigned returns;         /* so often it came back */
    int64_t returned;         /* when, in seconds */
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
/* since.c: a moment, in microseconds since 1970; now: the same. Times without a Z behind them are local, or UTC.
   false: it is none. */
bool parse_since(const char *text, int64_t now, bool utc, int64_t *when);
int64_t since_now(void); /* microseconds since 1970 */

/* ---- session.c ---- */

void session_close(struct flytctl *);
/* The command goes on until it is interrupted: where the cluster manager goes once it has answered, calls wait until it
   is back; flytctl reports both on standard error. */
void session_lasts(struct flytctl *);
/* Whether complaints with this exit code are about a cluster manager that is away. */
bool session_hushes(int code);
/* The cluster manager came back a moment ago: nodes may not have yet. */
bool session_settles(const struct flytctl *);
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
/* ask, for rows_list. */
struct rows_asker row_asker(struct flytctl *);

/* ---- output.c ---- */

/* On stderr, and with --json as an object on stdout. Returns code. */
int complain(struct flytctl *, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Complains with further members of the object, which are taken over (may be NULL). */
int complain_more(struct flytctl *, int code, json_t *members, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int complain_status(struct flytctl *, const ctl_status *);
/* What went well: a line, or { "ok": true, "message": … } with further members, which are taken over (may be NULL). */
void report(struct flytctl *, json_t *members, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* While a command waits: one line of a terminal's stderr, which the next one, a complaint or a report replaces. Nothing
   elsewhere, and with --json. */
void show_line(struct flytctl *, const char *format, ...) __attribute__((format(printf, 2, 3)));

enum column_kind {
    COLUMN_TEXT,
    COLUMN_END,
    COLUMN_NUMBER,
    COLUMN_SIZE,
    COLUMN_AGO,
    COLUMN_TIME,
    COLUMN_YES,
    COLUMN_PART,
    COLUMN_PART_SIZE,
    COLUMN_LIST,
    COLUMN_ANY
};
/* key2: of the whole, for COLUMN_PART. rank: 0: always shown; else, where there is no room, those with higher ranks go
   first. COLUMN_END is a text of which the end is kept if it has to be cut. COLUMN_ANY: the value as CSV has it.
   COLUMN_TIME: to the second, on the clock here, or in UTC with --utc. */
struct column {
    const char *title, *key;
    enum column_kind kind;
    const char *key2;
    int rank;
};
/* An array of objects, in the form that is asked for. Takes it over. when_empty: a sentence in place of a table without
   rows; it is a title, which --no-headers leaves out. */
int print_rows(struct flytctl *, json_t *rows, const struct column *, size_t columns, const char *when_empty);
/* One object, a line each. Takes it over. */
int print_object(struct flytctl *, json_t *object, const struct column *, size_t columns);
/* Just the table, from rows that stay the caller's. */
void print_table(const struct flytctl *, const json_t *rows, const struct column *, size_t columns);
/* How many columns the output has; very many where it is no terminal. */
int table_width(const struct flytctl *);
/* Words, `gap` blanks behind the `at` columns that the line has, further lines from column `indent` on; within the
   terminal, or within `wide` columns. */
void print_text(const struct flytctl *, const char *text, int at, int gap, int indent);
void print_wrapped(const char *text, int at, int gap, int indent, int wide);
/* Padded to `pad` columns; cut where the line would not fit the terminal. Returns how many columns it took. */
int print_name(const struct flytctl *, const char *name, int at, int pad);
/* JSON, whatever form is asked for; takes it over. */
void print_json(json_t *);
/* An answer as JSON or YAML. print_data_line: one of several, on one line, or as one YAML document. Take it over. */
void print_data(const struct flytctl *, json_t *);
void print_data_line(const struct flytctl *, json_t *);

char *text_size(uint64_t bytes, char *buffer, size_t size);
/* "2026-11-26T16:06:22.123456Z" to the second, on the clock here, or in UTC with --utc; "-" for NULL. */
void text_time(const struct flytctl *, const char *when, char *buffer, size_t size);
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* color.c: what to print before and behind a text; "" without colours. value: of a state or severity. */
const char *color_of(const struct flytctl *, const char *key, const char *value);
const char *color_title(const struct flytctl *);
const char *color_end(const char *begun);

/* yaml.c */
void print_yaml(const json_t *); /* one document, without its marks */

/* forms.c: NAME, CSV and CUSTOM. The rows stay the caller's. headers: with a line of titles. */
/* forms.c: whether rows such as these have the keys of --output custom. */
int check_custom(struct flytctl *, const json_t *rows);
int print_form(struct flytctl *, const json_t *rows, const struct column *, size_t columns, bool headers);
/* A value as text: lists with commas, objects as JSON. text holds `size` bytes. */
void value_text(const json_t *value, char *text, size_t size);
/* What a key of a row names: "name", or "gpus.id" for a list of what each has. New reference; NULL: there is none. */
json_t *value_at(const json_t *row, const char *key);
/* --no-headers was not given. */
bool with_headers(const struct flytctl *);

/* ---- kinds.c: what there is in a cluster, and how it is listed and shown ---- */

struct row_kind {
    const char *name, *key; /* "vm"; the key that names one row */
    const char *when_empty;
    const struct column *columns, *fields; /* of lists; of one */
    size_t count, field_count;
    enum rows_kind source;
    bool of_nodes; /* GPUs: they come with the nodes */
};
extern const struct row_kind all_kinds[]; /* ended by a NULL name */
const struct row_kind *kind_find(const char *name);
/* All rows, or those of the query. */
int kind_rows(struct flytctl *, const struct row_kind *, const struct rows_query *, json_t **rows);
/* The row of that name or id. *row NULL: complained, there is none. */
int kind_row(struct flytctl *, const struct row_kind *, const char *name, json_t **row);
json_t *kind_example(const struct row_kind *); /* has all keys */
/* usage_rows.c: has all keys of the rows of `usage --by BY`; NULL: there is no such way to sum. */
json_t *usage_example(const char *by);
/* table.c: a list without one column. */
void print_table_without(const struct flytctl *, const json_t *rows, const struct row_kind *, const char *key);
/* select.c: rows that --filter wants, in the order of --sort-by. EXIT_FINE or complained. */
int select_rows(struct flytctl *, json_t *rows, json_t *example);
/* Rows with equal values stay in their order. */
int sort_rows(struct flytctl *, json_t *rows, const char *key, bool reverse);

/* move_line.c */
void show_progress(struct flytctl *, const admin_move_row *);

/* The options of all lists. */
#define LIST_OPTIONS                                                                                   \
    { "filter", 0, "KEY=VALUE", "only these; also KEY!=VALUE; * in VALUE stands for anything", true }, \
        { "sort-by", 0, "KEY", "in the order of this key; -KEY: the largest first", false },           \
        { "no-headers", 0, NULL, "no line of titles", false },                                         \
        { "watch", 'w', NULL, "show it again and again", false },                                      \
        { "interval", 'd', "SECONDS", "with --watch: between two pictures, 1 to 60 (2)", false },      \
    {                                                                                                  \
        "count", 'n', "N", "with --watch: as many pictures (until interrupted)", false                 \
    }
/* list.c: a whole list command: --vm, --node, what LIST_OPTIONS says, and the form. */
int list_kind(struct flytctl *, const char *kind);

/* watch.c: pictures of --watch and top. A key, or how the wait ended. */
enum { KEY_NONE, KEY_END = -1, KEY_UP = 256, KEY_DOWN, KEY_PAGE_UP, KEY_PAGE_DOWN, KEY_HOME, KEY_LAST, KEY_RESIZED };
/* The terminal gives single keys, until screen_close; false: there is no terminal to read keys from. */
bool screen_open(void);
void screen_close(void);
void screen_clear(void);
int screen_height(void);
/* Waits for a key, at most so long. KEY_END: interrupted, or nobody reads any more. */
int screen_key(unsigned ms);

/* ---- events (events.c) ---- */

/* The last `count` events for which `wanted` is true, oldest first. */
struct event_filter {
    const char *vm, *node;
    uint64_t server, program;
    int64_t since;
    const char *const *kinds; /* ended by NULL; NULL: all */
};
/* *after: where to begin; then the last that was looked at. */
int events_past(struct flytctl *, const struct event_filter *, uint64_t newest, uint64_t *after, uint64_t count,
                json_t **rows);
void print_event_table(const struct flytctl *, const json_t *rows, bool headers);
/* --since of a command that shows events: an age or a time. false: complained. */
bool option_since(struct flytctl *, int64_t *when);

/* ---- files with verifiers of secrets (cmd_vm_file.c) ---- */

/* Hexadecimal, or null where there is none. verifier_read: false where it is broken; CTL_PROOF_SIZE bytes. */
json_t *verifier_text(const u_char *bytes, unsigned size);
bool verifier_read(const json_t *, u_char *bytes);
/* For its owner only. EXIT_FINE or complained. */
int file_write(struct flytctl *, const char *path, const json_t *file);
/* The rows of a file, "-": of standard input: those of the list `key`, of a list, or one after the other. NULL:
   complained, and *code is the exit status. */
json_t *file_read(struct flytctl *, const char *path, const char *key, int *code);

/* ---- cmd_checkpoint.c ---- */

/* The key of a machine's checkpoints (cpu/checkpoint), from its file. EXIT_FINE or complained. */
int checkpoint_key_file(struct flytctl *, const char *path, uint8_t *key);

/* ---- commands ---- */

extern const struct option_row node_add_options[], drain_options[], vm_add_options[], vm_set_options[],
    vm_import_options[], status_options[], events_options[], top_options[], describe_options[], usage_options[],
    list_options[], logs_options[], comm_list_options[], comm_dump_options[], change_options[],
    program_migrate_options[], program_suspend_options[], program_checkpoint_options[], checkpoint_show_options[],
    program_resume_options[], move_cancel_options[], migrate_options[], migrate_auto_options[], grouping_options[],
    config_check_options[], ca_create_options[], ca_issue_options[], ca_revoke_options[], node_import_options[];

int command_vm_add(struct flytctl *), command_vm_set(struct flytctl *), command_vm_remove(struct flytctl *),
    command_vm_list(struct flytctl *), command_vm_show(struct flytctl *), command_vm_import(struct flytctl *),
    command_vm_export(struct flytctl *);
int command_node_list(struct flytctl *), command_node_show(struct flytctl *), command_node_add(struct flytctl *),
    command_node_drain(struct flytctl *), command_node_undrain(struct flytctl *), command_node_remove(struct flytctl *);
int command_node_export(struct flytctl *), command_node_import(struct flytctl *);
int command_server_list(struct flytctl *), command_server_stop(struct flytctl *),
    command_program_list(struct flytctl *), command_program_kill(struct flytctl *);
int command_server_logs(struct flytctl *);
int command_comm_list(struct flytctl *);
int command_comm_show(struct flytctl *);
int command_comm_dump(struct flytctl *);
/* comm_rows.c: prints the names of communicators that begin so, a line each. */
void suggest_communicators(struct flytctl *, const char *begun);
int command_usage(struct flytctl *), command_program_why(struct flytctl *);
int command_gpu_list(struct flytctl *), command_describe(struct flytctl *);
int command_whoami(struct flytctl *);
int command_status(struct flytctl *), command_events(struct flytctl *), command_top(struct flytctl *),
    command_reload(struct flytctl *), command_key_rotate(struct flytctl *);
int status_check(struct flytctl *); /* status --check; its exit statuses are not those above */
int command_change(struct flytctl *), command_migrate(struct flytctl *), command_grouping(struct flytctl *);
int command_program_suspend(struct flytctl *), command_program_resume(struct flytctl *),
    command_program_checkpoint(struct flytctl *), command_checkpoint_show(struct flytctl *),
    command_checkpoint_key(struct flytctl *), command_checkpoint_compact(struct flytctl *);
int command_program_migrate(struct flytctl *), command_move_list(struct flytctl *),
    command_move_cancel(struct flytctl *);
/* Moves all programs of a node to other GPUs, so many at a time. The status of the first that does not move. */
int move_programs_away(struct flytctl *, const char *node, size_t at_once);
int command_config_check(struct flytctl *), command_config_keys(struct flytctl *);
int command_ca_create(struct flytctl *), command_ca_issue(struct flytctl *), command_ca_show(struct flytctl *),
    command_ca_revoke(struct flytctl *);

#endif
