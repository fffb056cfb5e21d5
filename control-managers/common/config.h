/*
 * config.h: configuration files in libconfig's syntax, checked against a table.
 *
 * Each daemon has its table in <daemon>/schema.c (nothing but the table and the struct that it fills, so that
 * `flytctl config check` can link all of them). Every mistake is reported with file and line, all of them at once:
 * unknown keys (with the nearest known one), wrong types, values out of range, keys given twice, missing ones.
 */
#ifndef FLYT_CONTROL_CONFIG_H
#define FLYT_CONTROL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum config_kind {
    CONFIG_STRING,  /* char *: "" unless given */
    CONFIG_PATH,    /* char *: absolute, or "" */
    CONFIG_URI,     /* char *: tcp://host:port or unix:///path, or "" */
    CONFIG_SECRET,  /* char *: file:/path, env:NAME; kept as written, resolved by secret_resolve */
    CONFIG_NAME,    /* char *: protocol_name_valid, or "" */
    CONFIG_INT,     /* int64_t, min to max */
    CONFIG_PORT,    /* int64_t, 0 to 65535 */
    CONFIG_SECONDS, /* double, min to max */
    CONFIG_NUMBER,  /* the same, of something else: days, percent, a factor */
    CONFIG_SIZE,    /* uint64_t bytes: 512M, 2G as a string, or a number of bytes; min to max */
    CONFIG_BOOL,    /* bool */
    CONFIG_CHOICE,  /* int: index into choices */
    CONFIG_SHARING, /* unsigned: CTL_SHARING_ bits, from "mps,exclusive" or ("mps", "exclusive") */
    CONFIG_STRINGS  /* struct config_strings, from a list or an array */
};

struct config_strings {
    size_t count;
    char **items;
};

struct config_key {
    const char *path; /* "ports.node" */
    enum config_kind kind;
    size_t offset;              /* in the daemon's struct */
    const char *initial;        /* as it would be written, without quotes; NULL: it must be given */
    double min, max;            /* of numbers; both 0: any */
    const char *const *choices; /* NULL-terminated */
    /* of a choice that was a boolean in older files: what true and false mean */
    const char *when_true, *when_false;
    bool reload;      /* can change on SIGHUP; others are reported as needing a restart */
    const char *help; /* one sentence */
};

struct config; /* a file as read: values and where they stood */

struct config_schema {
    const char *daemon; /* "flyt-cluster-manager" */
    const struct config_key *keys;
    size_t count;
    size_t size; /* of the struct */
    /* Rules between keys; may be NULL. Reports by config_complain, returns false then. */
    bool (*check)(const void *values, struct config *);
    /* Groups and keys of existing installations that would have no effect: refused, saying why. May be NULL; ends with
       a NULL path. */
    const struct config_absent {
        const char *path, *why;
    } * absent;
};

/* Reads path (NULL: all initial values). NULL when there was a mistake: then each is a line "file:line: what" in
   *problems (malloced text, to be freed; always set, NULL when there is none). */
struct config *config_load(const struct config_schema *, const char *path, char **problems);
/* Appends the problems to `text` (size) as one line, for a log. */
void config_problems_join(const char *problems, char *text, size_t size);
void config_free(struct config *);                /* NULL is allowed */
const void *config_values(const struct config *); /* the daemon's struct; lives as long as the config */
/* "file:12" of a key, or "file (not given)". The same buffer as long as the config lives. */
const char *config_where(struct config *, const char *path);
void config_complain(struct config *, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* For a check: the keys of a group `tls` are given all three or not at all; complains where not. */
bool config_check_tls(struct config *, const char *ca, const char *certificate, const char *key);
/* Keys whose values differ and that are not `reload`: their paths, separated by ", "; "" when none. Buffer: size. */
size_t config_needs_restart(const struct config *old, const struct config *new_, char *buffer, size_t size);
/* Keys whose values differ and that are `reload`, for a person: "placement.policy = best-fit, …" with the old values in
   before, and with the new ones in after; size: of each. */
void config_changes(const struct config *old, const struct config *new_, char *before, char *after, size_t size);
/* Gives `fresh` the values of `running` for all keys that are not `reload` (and `running` those of `fresh`): what holds
   until a restart. The file's values are compared with these by the next reload too. Both have the same schema. */
void config_keep_until_restart(struct config *fresh, struct config *running);
/* All keys with kind, initial value and help, as a commented file. */
void config_print_schema(const struct config_schema *, FILE *);

/* "512M", "2G", "1T", "4096" (bytes), also with "iB" or "B"; powers of 1024. 0 or -EINVAL. */
int config_parse_size(const char *, uint64_t *);

#endif
