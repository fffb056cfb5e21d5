/*
 * config.c: a file is read twice: once along the table, which fills the struct with what is given or the initial
 * value, and once along the file, which finds what the table does not know.
 */
#include "control-managers/common/config_state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PATH = 128, MAX_PROBLEMS_SIZE = 1 << 20 };

/* ---- complaints ---- */

static __attribute__((format(printf, 3, 0))) void complain_at(struct config *config, int line, const char *format,
                                                              va_list list)
{
    char text[1024], *grown;
    int at = line > 0 ? snprintf(text, sizeof text, "%s:%d: ", config->file, line)
                      : snprintf(text, sizeof text, "%s: ", config->file);
    if (at < 0 || at >= (int)sizeof text)
        at = 0;
    vsnprintf(text + at, sizeof text - (size_t)at, format, list);
    size_t length = strlen(text);
    if (config->problems_size + length + 2 > MAX_PROBLEMS_SIZE ||
        !(grown = realloc(config->problems, config->problems_size + length + 2)))
        return;
    config->problems = grown;
    memcpy(grown + config->problems_size, text, length);
    config->problems_size += length;
    grown[config->problems_size++] = '\n';
    grown[config->problems_size] = '\0';
}

void config_complain_line(struct config *config, int line, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    complain_at(config, line, format, list);
    va_end(list);
}

static int key_index(const struct config_schema *schema, const char *path)
{
    for (size_t i = 0; i < schema->count; i++)
        if (strcmp(schema->keys[i].path, path) == 0)
            return (int)i;
    return -1;
}

void config_complain(struct config *config, const char *path, const char *format, ...)
{
    int index = key_index(config->schema, path);
    va_list list;
    va_start(list, format);
    complain_at(config, index >= 0 ? config->lines[index] : 0, format, list);
    va_end(list);
}

bool config_check_tls(struct config *config, const char *ca, const char *certificate, const char *key)
{
    int given = (*ca != 0) + (*certificate != 0) + (*key != 0);
    if (given == 0 || given == 3)
        return true;
    config_complain(config, "tls.ca", "ca, certificate and key belong together: give all three or none");
    return false;
}

const char *config_where(struct config *config, const char *path)
{
    int index = key_index(config->schema, path);
    if (index >= 0 && config->lines[index])
        snprintf(config->where, sizeof config->where, "%s:%d", config->file, config->lines[index]);
    else
        snprintf(config->where, sizeof config->where, "%s (%s is not given)", *config->file ? config->file : "built-in",
                 path);
    return config->where;
}

/* ---- unknown keys ---- */

static size_t distance(const char *a, const char *b)
{
    size_t row[MAX_PATH + 1], length = strlen(b);
    if (length > MAX_PATH)
        return MAX_PATH;
    for (size_t j = 0; j <= length; j++)
        row[j] = j;
    for (size_t i = 1; *a; a++, i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            size_t other = diagonal + (*a != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < other)
                other = row[j] + 1;
            if (row[j - 1] + 1 < other)
                other = row[j - 1] + 1;
            row[j] = other;
        }
    }
    return row[length];
}

static void complain_unknown(struct config *config, const char *path, int line)
{
    const char *nearest = NULL;
    size_t best = 4;
    for (const struct config_absent *absent = config->schema->absent; absent && absent->path; absent++)
        if (strcmp(absent->path, path) == 0) {
            config_complain_line(config, line, "%s would have no effect: %s. Leave it out", path, absent->why);
            return;
        }
    for (size_t i = 0; i < config->schema->count; i++) {
        size_t far = distance(path, config->schema->keys[i].path);
        if (far < best) {
            best = far;
            nearest = config->schema->keys[i].path;
        }
    }
    if (nearest)
        config_complain_line(config, line, "%s does not know the key %s: is %s meant?", config->schema->daemon, path,
                             nearest);
    else
        config_complain_line(config, line, "%s does not know the key %s", config->schema->daemon, path);
}

static bool is_group(const struct config_schema *schema, const char *path)
{
    size_t length = strlen(path);
    for (size_t i = 0; i < schema->count; i++)
        if (strncmp(schema->keys[i].path, path, length) == 0 && schema->keys[i].path[length] == '.')
            return true;
    return false;
}

static void find_unknown(struct config *config, const config_setting_t *group, const char *prefix)
{
    for (int i = 0; i < config_setting_length(group); i++) {
        config_setting_t *setting = config_setting_get_elem(group, (unsigned)i);
        char path[MAX_PATH];
        int line = (int)config_setting_source_line(setting);
        if (snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", config_setting_name(setting)) >=
            (int)sizeof path)
            config_complain_line(config, line, "a key is longer than %d characters", MAX_PATH - 1);
        else if (is_group(config->schema, path) && config_setting_is_group(setting))
            find_unknown(config, setting, path);
        else if (is_group(config->schema, path))
            config_complain_line(config, line, "%s is a group: write %s = { … };", path, path);
        else if (key_index(config->schema, path) < 0)
            complain_unknown(config, path, line);
    }
}

/* ---- a whole file ---- */

static void read_keys(struct config *config, const config_t *file)
{
    for (size_t i = 0; i < config->schema->count; i++) {
        const struct config_key *key = &config->schema->keys[i];
        const config_setting_t *setting = file ? config_lookup(file, key->path) : NULL;
        if (setting) {
            config->lines[i] = (int)config_setting_source_line(setting);
            if (key->kind != CONFIG_STRINGS && key->initial)
                config_set_text(config, key, key->initial, 0);
            config_set_setting(config, key, setting);
        } else if (key->initial) {
            config_set_text(config, key, key->initial, 0);
        } else {
            config_complain_line(config, 0, "%s is missing: %s", key->path, key->help);
        }
    }
}

/* The name with which a line begins, "" for none. Returns its length. */
static size_t first_name(const char *line, char name[MAX_PATH])
{
    const char *at = line + strspn(line, " \t{");
    size_t length = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_*-");
    snprintf(name, MAX_PATH, "%.*s", (int)length, at);
    return length;
}

/* libconfig says only where a name is that was given before. text stays as it is where the first place is not found. */
static void explain_twice(const char *path, int line, char *text, size_t size)
{
    char read[1024], name[MAX_PATH], wanted[MAX_PATH] = "";
    FILE *stream = fopen(path, "re");
    for (int pass = 0; stream && pass < 2; pass++, rewind(stream))
        for (int at = 1; at <= line - pass && fgets(read, sizeof read, stream); at++) {
            if (pass == 0 && at == line)
                first_name(read, wanted);
            if (pass == 0 || !first_name(read, name) || strcmp(name, wanted) != 0)
                continue;
            snprintf(text, size, "%s is given a second time: the first is in line %d. Change that one, since each name "
                     "may stand here once", name, at);
            fclose(stream);
            return;
        }
    if (stream)
        fclose(stream);
}

static void read_file(struct config *config, const char *path)
{
    config_t file;
    FILE *stream = fopen(path, "re");
    if (!stream) {
        config_complain_line(config, 0, "cannot be read: %s", strerror(errno));
        return;
    }
    config_init(&file);
    if (config_read(&file, stream) != CONFIG_TRUE) {
        char text[512];
        snprintf(text, sizeof text, "%s", config_error_text(&file));
        if (strstr(text, "duplicate"))
            explain_twice(path, config_error_line(&file), text, sizeof text);
        config_complain_line(config, config_error_line(&file), "%s", text);
    } else {
        read_keys(config, &file);
        find_unknown(config, config_root_setting(&file), "");
    }
    config_destroy(&file);
    fclose(stream);
}

struct config *config_load(const struct config_schema *schema, const char *path, char **problems)
{
    struct config *config = calloc(1, sizeof *config);
    *problems = NULL;
    if (config) {
        config->schema = schema;
        config->file = strdup(path ? path : "");
        config->values = calloc(1, schema->size);
        config->lines = calloc(schema->count, sizeof *config->lines);
    }
    if (!config || !config->file || !config->values || !config->lines) {
        config_free(config);
        *problems = strdup("no memory to read the configuration\n");
        return NULL;
    }
    if (path)
        read_file(config, path);
    else
        read_keys(config, NULL);
    if (!config->problems && schema->check && !schema->check(config->values, config) && !config->problems)
        config_complain_line(config, 0, "the values do not fit together");
    if (config->problems) {
        *problems = config->problems;
        config->problems = NULL;
        config_free(config);
        return NULL;
    }
    return config;
}

void config_problems_join(const char *problems, char *text, size_t size)
{
    size_t at = strlen(text);
    for (const char *c = problems; *c && at + 3 < size; c++) {
        if (*c != '\n')
            text[at++] = *c;
        else if (c[1])
            at += (size_t)snprintf(text + at, size - at, "; ");
    }
    text[at] = '\0';
}

const void *config_values(const struct config *config)
{
    return config->values;
}

void config_free(struct config *config)
{
    if (!config)
        return;
    for (size_t i = 0; config->values && i < config->schema->count; i++) {
        void *slot = (char *)config->values + config->schema->keys[i].offset;
        if (config_is_string(config->schema->keys[i].kind)) {
            free(*(char **)slot);
        } else if (config->schema->keys[i].kind == CONFIG_STRINGS) {
            struct config_strings *strings = slot;
            for (size_t j = 0; j < strings->count; j++)
                free(strings->items[j]);
            free(strings->items);
        }
    }
    free(config->file);
    free(config->values);
    free(config->lines);
    free(config->problems);
    free(config);
}

size_t config_needs_restart(const struct config *old, const struct config *new_, char *buffer, size_t size)
{
    size_t count = 0;
    *buffer = '\0';
    for (size_t i = 0; i < old->schema->count; i++) {
        const struct config_key *key = &old->schema->keys[i];
        if (key->reload || config_value_same(key, old->values, new_->values))
            continue;
        size_t at = strlen(buffer);
        snprintf(buffer + at, size - at, "%s%s", count ? ", " : "", key->path);
        count++;
    }
    return count;
}

static void write_value(const struct config_key *key, const void *values, char *buffer, size_t size)
{
    size_t at = strlen(buffer);
    snprintf(buffer + at, size - at, "%s%s = ", at ? ", " : "", key->path);
    config_value_write(key, values, buffer, size);
}

void config_changes(const struct config *old, const struct config *new_, char *before, char *after, size_t size)
{
    *before = *after = '\0';
    for (size_t i = 0; i < old->schema->count; i++) {
        const struct config_key *key = &old->schema->keys[i];
        if (!key->reload || config_value_same(key, old->values, new_->values))
            continue;
        write_value(key, old->values, before, size);
        write_value(key, new_->values, after, size);
    }
}

void config_keep_until_restart(struct config *fresh, struct config *running)
{
    for (size_t i = 0; i < fresh->schema->count; i++) {
        const struct config_key *key = &fresh->schema->keys[i];
        char *a = (char *)fresh->values + key->offset, *b = (char *)running->values + key->offset;
        char kept[sizeof(struct config_strings)];
        size_t size = config_value_size(key->kind);
        if (key->reload)
            continue;
        memcpy(kept, a, size);
        memcpy(a, b, size);
        memcpy(b, kept, size);
    }
}

/* Prints which values a key takes. */
static void print_kind(const struct config_key *key, FILE *out)
{
    if (key->kind != CONFIG_CHOICE) {
        fputs(config_kind_text(key->kind), out);
        return;
    }
    for (int i = 0; key->choices[i]; i++)
        fprintf(out, "%s\"%s\"", !i ? "" : key->choices[i + 1] ? ", " : " or ", key->choices[i]);
}

void config_print_schema(const struct config_schema *schema, FILE *out)
{
    fprintf(out, "# %s: all keys, with their initial values\n", schema->daemon);
    for (size_t i = 0; i < schema->count; i++) {
        const struct config_key *key = &schema->keys[i];
        bool quoted = config_is_string(key->kind) || key->kind == CONFIG_CHOICE || key->kind == CONFIG_SIZE ||
                      key->kind == CONFIG_SHARING || key->kind == CONFIG_STRINGS;
        const char *quote = quoted ? "\"" : "";
        size_t length = strlen(key->help);
        length -= length && key->help[length - 1] == '.';
        fprintf(out, "\n# %.*s (", (int)length, key->help);
        print_kind(key, out);
        fprintf(out, "%s)\n", key->reload ? "; SIGHUP changes it" : "");
        if (key->initial)
            fprintf(out, "# %s = %s%s%s;\n", key->path, quote, key->initial, quote);
        else
            fprintf(out, "# %s must be given\n", key->path);
    }
}
