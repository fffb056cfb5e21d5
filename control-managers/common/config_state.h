/*
 * config_state.h: what config.c (the file and its keys) and config_values.c (one value) share.
 */
#ifndef FLYT_CONTROL_CONFIG_STATE_H
#define FLYT_CONTROL_CONFIG_STATE_H

#include <libconfig.h>

#include "control-managers/common/config.h"

struct config {
    const struct config_schema *schema;
    char *file; /* "" when there is none */
    void *values;
    int *lines; /* of each key, 0: not given */
    char *problems;
    size_t problems_size;
    char where[1024];
};

/* A mistake in that line; 0: in the whole file. */
void config_complain_line(struct config *, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- config_values.c ---- */

/* Sets the key's value from text, or complains. line 0: the initial value, which is always good. */
void config_set_text(struct config *, const struct config_key *, const char *text, int line);
/* Sets the key's value from what the file has, or complains. */
void config_set_setting(struct config *, const struct config_key *, const config_setting_t *);
/* What a value of this kind looks like, for messages. */
const char *config_kind_text(enum config_kind);
/* Whether the value is a char *. */
bool config_is_string(enum config_kind);
size_t config_value_size(enum config_kind);
/* Whether two structs of the daemon have the same value of this key. */
bool config_value_same(const struct config_key *, const void *a, const void *b);
/* The value, as a file has it, behind what `buffer` (size) has; cut off where there is no room. */
void config_value_write(const struct config_key *, const void *values, char *buffer, size_t size);

#endif
