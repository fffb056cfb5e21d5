/*
 * config.c: a file is read twice: once along the table, which fills the struct with what is given or the initial
 * value, and once along the file, which finds what the table does not know.
 */
#include "control-managers/common/config.h"

#include <ctype.h>
#include <errno.h>
#include <libconfig.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "control-managers/common/protocol.h"

enum { MAX_PATH = 128, MAX_PROBLEMS_SIZE = 1 << 20 };

struct config {
    const struct config_schema *schema;
    char  *file;                        /* "" when there is none */
    void  *values;
    int   *lines;                       /* of each key, 0: not given */
    char  *problems;
    size_t problems_size;
    char   where[1024];
};

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

static __attribute__((format(printf, 3, 4))) void complain_line(struct config *config, int line, const char *format,
                                                                ...)
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

/* ---- values from text ---- */

int config_parse_size(const char *text, uint64_t *out)
{
    static const char units[] = "KMGTP";
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)*text))
        return -EINVAL;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno)
        return -EINVAL;
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (*end && unit) {
        unsigned shift = 10 * (unsigned)(unit - units + 1);
        if (value > UINT64_MAX >> shift)
            return -EINVAL;
        value <<= shift;
        end++;
        if (*end == 'i')
            end++;
    }
    if (*end == 'B' || *end == 'b')
        end++;
    if (*end)
        return -EINVAL;
    *out = value;
    return 0;
}

static const char *kind_text(enum config_kind kind)
{
    switch (kind) {
    case CONFIG_STRING:  return "a string";
    case CONFIG_PATH:    return "an absolute path, as a string";
    case CONFIG_URI:     return "an address, as a string: \"tcp://host:port\" or \"unix:///path\"";
    case CONFIG_SECRET:  return "a string that says where the secret is: \"file:/path\" or \"env:NAME\"";
    case CONFIG_NAME:    return "a name, as a string: letters, digits, and . _ : -";
    case CONFIG_INT:     return "a whole number";
    case CONFIG_PORT:    return "a port, a number from 0 to 65535";
    case CONFIG_SECONDS: return "a number of seconds";
    case CONFIG_SIZE:    return "a size: \"512M\", \"2G\", or a number of bytes";
    case CONFIG_BOOL:    return "true or false";
    case CONFIG_CHOICE:  return "one of the words that it allows, as a string";
    case CONFIG_SHARING: return "kinds of sharing: exclusive, mig, time-slice, mps, any";
    case CONFIG_STRINGS: return "a list of strings";
    }
    return "something else";
}

static bool in_range(const struct config_key *key, double value)
{
    return (key->min == 0 && key->max == 0) || (value >= key->min && value <= key->max);
}

static void complain_range(struct config *config, const struct config_key *key, int line, const char *text)
{
    complain_line(config, line, "%s is %s; it may be from %.15g to %.15g", key->path, text, key->min, key->max);
}

static bool set_string(char **slot, const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        return false;
    free(*slot);
    *slot = copy;
    return true;
}

/* Splits text at commas. */
static bool set_strings(struct config_strings *strings, const char *text)
{
    while (*(text += strspn(text, ", "))) {
        size_t length = strcspn(text, ",");
        char **items = realloc(strings->items, (strings->count + 1) * sizeof *items);
        if (!items)
            return false;
        strings->items = items;
        if (!(items[strings->count] = strndup(text, length)))
            return false;
        strings->count++;
        text += length;
    }
    return true;
}

static bool string_good(enum config_kind kind, const char *text)
{
    if (!*text)
        return true;
    switch (kind) {
    case CONFIG_PATH:   return *text == '/';
    case CONFIG_URI:    return strncmp(text, "tcp://", 6) == 0 || strncmp(text, "unix:///", 8) == 0;
    case CONFIG_SECRET: return strncmp(text, "file:/", 6) == 0 || (strncmp(text, "env:", 4) == 0 && text[4]);
    case CONFIG_NAME:   return protocol_name_valid(text);
    default:            return true;
    }
}

static int choice_of(const struct config_key *key, const char *text)
{
    for (int i = 0; key->choices[i]; i++)
        if (strcasecmp(key->choices[i], text) == 0)
            return i;
    return -1;
}

static void complain_choice(struct config *config, const struct config_key *key, int line, const char *text)
{
    char words[512] = "";
    for (int i = 0; key->choices[i]; i++) {
        size_t at = strlen(words);
        snprintf(words + at, sizeof words - at, "%s%s", i ? ", " : "", key->choices[i]);
    }
    complain_line(config, line, "%s is \"%s\"; it may be one of: %s", key->path, text, words);
}

/* line 0: the initial value, which is always good. */
static void set_text(struct config *config, const struct config_key *key, const char *text, int line)
{
    void *slot = (char *)config->values + key->offset;
    char *end = NULL;
    errno = 0;
    switch (key->kind) {
    case CONFIG_STRING: case CONFIG_PATH: case CONFIG_URI: case CONFIG_SECRET: case CONFIG_NAME:
        if (!string_good(key->kind, text))
            complain_line(config, line, "%s is \"%s\"; expected %s", key->path, text, kind_text(key->kind));
        else if (!set_string(slot, text))
            complain_line(config, line, "no memory");
        return;
    case CONFIG_INT: case CONFIG_PORT: {
        long long value = strtoll(text, &end, 10);
        bool good = key->kind == CONFIG_PORT ? value >= 0 && value <= 65535 : in_range(key, (double)value);
        if (end == text || *end || errno)
            complain_line(config, line, "%s is \"%s\"; expected %s", key->path, text, kind_text(key->kind));
        else if (!good && key->kind == CONFIG_PORT)
            complain_line(config, line, "%s is %s; a port is from 0 to 65535", key->path, text);
        else if (!good)
            complain_range(config, key, line, text);
        else
            *(int64_t *)slot = value;
        return;
    }
    case CONFIG_SECONDS: {
        double value = strtod(text, &end);
        if (end == text || *end || !isfinite(value))
            complain_line(config, line, "%s is \"%s\"; expected %s", key->path, text, kind_text(key->kind));
        else if (!in_range(key, value))
            complain_range(config, key, line, text);
        else
            *(double *)slot = value;
        return;
    }
    case CONFIG_SIZE:
        if (config_parse_size(text, slot) < 0)
            complain_line(config, line, "%s is \"%s\"; expected %s", key->path, text, kind_text(key->kind));
        else if (!in_range(key, (double)*(uint64_t *)slot))
            complain_range(config, key, line, text);
        return;
    case CONFIG_BOOL:
        *(bool *)slot = strcmp(text, "true") == 0;
        return;
    case CONFIG_CHOICE:
        *(int *)slot = choice_of(key, text);
        if (*(int *)slot < 0)
            complain_choice(config, key, line, text);
        return;
    case CONFIG_SHARING:
        *(unsigned *)slot = protocol_sharing_parse(text);
        if (!*(unsigned *)slot)
            complain_line(config, line, "%s is \"%s\"; expected %s", key->path, text, kind_text(key->kind));
        return;
    case CONFIG_STRINGS:
        if (!set_strings(slot, text))
            complain_line(config, line, "no memory");
        return;
    }
}

/* ---- values from settings ---- */

static bool type_good(enum config_kind kind, int type)
{
    bool number = type == CONFIG_TYPE_INT || type == CONFIG_TYPE_INT64;
    bool list = type == CONFIG_TYPE_LIST || type == CONFIG_TYPE_ARRAY;
    switch (kind) {
    case CONFIG_INT: case CONFIG_PORT:        return number;
    case CONFIG_SECONDS:                      return number || type == CONFIG_TYPE_FLOAT;
    case CONFIG_SIZE:                         return number || type == CONFIG_TYPE_STRING;
    case CONFIG_BOOL:                         return type == CONFIG_TYPE_BOOL;
    case CONFIG_SHARING: case CONFIG_STRINGS: return list || type == CONFIG_TYPE_STRING;
    default:                                  return type == CONFIG_TYPE_STRING;
    }
}

/* false: an element of the list is no string. */
static bool list_text(const config_setting_t *setting, char *text, size_t size)
{
    *text = '\0';
    for (int i = 0; i < config_setting_length(setting); i++) {
        const char *item = config_setting_get_string_elem(setting, i);
        size_t at = strlen(text);
        if (!item || strchr(item, ',') || at + strlen(item) + 2 > size)
            return false;
        snprintf(text + at, size - at, "%s%s", at ? "," : "", item);
    }
    return true;
}

static void set_setting(struct config *config, const struct config_key *key, const config_setting_t *setting)
{
    char text[8192];
    int line = (int)config_setting_source_line(setting), type = config_setting_type(setting);
    if (type == CONFIG_TYPE_BOOL && key->when_true) {
        set_text(config, key, config_setting_get_bool(setting) ? key->when_true : key->when_false, line);
        return;
    }
    if (!type_good(key->kind, type)) {
        complain_line(config, line, "%s has the wrong type; expected %s", key->path, kind_text(key->kind));
        return;
    }
    switch (type) {
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INT64:
        snprintf(text, sizeof text, "%lld", config_setting_get_int64(setting));
        break;
    case CONFIG_TYPE_FLOAT:
        snprintf(text, sizeof text, "%.17g", config_setting_get_float(setting));
        break;
    case CONFIG_TYPE_BOOL:
        snprintf(text, sizeof text, "%s", config_setting_get_bool(setting) ? "true" : "false");
        break;
    case CONFIG_TYPE_STRING:
        if (strlen(config_setting_get_string(setting)) >= sizeof text) {
            complain_line(config, line, "%s is too long", key->path);
            return;
        }
        snprintf(text, sizeof text, "%s", config_setting_get_string(setting));
        break;
    default:
        if (!list_text(setting, text, sizeof text)) {
            complain_line(config, line, "%s is a list of something else; expected %s", key->path, kind_text(key->kind));
            return;
        }
    }
    set_text(config, key, text, line);
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
            complain_line(config, line, "%s would have no effect: %s. Leave it out", path, absent->why);
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
        complain_line(config, line, "%s does not know the key %s: is %s meant?", config->schema->daemon, path, nearest);
    else
        complain_line(config, line, "%s does not know the key %s", config->schema->daemon, path);
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
            complain_line(config, line, "a key is longer than %d characters", MAX_PATH - 1);
        else if (is_group(config->schema, path) && config_setting_is_group(setting))
            find_unknown(config, setting, path);
        else if (is_group(config->schema, path))
            complain_line(config, line, "%s is a group: write %s = { … };", path, path);
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
                set_text(config, key, key->initial, 0);
            set_setting(config, key, setting);
        } else if (key->initial) {
            set_text(config, key, key->initial, 0);
        } else {
            complain_line(config, 0, "%s is missing: %s", key->path, key->help);
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
        complain_line(config, 0, "cannot be read: %s", strerror(errno));
        return;
    }
    config_init(&file);
    if (config_read(&file, stream) != CONFIG_TRUE) {
        char text[512];
        snprintf(text, sizeof text, "%s", config_error_text(&file));
        if (strstr(text, "duplicate"))
            explain_twice(path, config_error_line(&file), text, sizeof text);
        complain_line(config, config_error_line(&file), "%s", text);
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
        complain_line(config, 0, "the values do not fit together");
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

static bool is_string(enum config_kind kind)
{
    return kind == CONFIG_STRING || kind == CONFIG_PATH || kind == CONFIG_URI || kind == CONFIG_SECRET ||
           kind == CONFIG_NAME;
}

void config_free(struct config *config)
{
    if (!config)
        return;
    for (size_t i = 0; config->values && i < config->schema->count; i++) {
        void *slot = (char *)config->values + config->schema->keys[i].offset;
        if (is_string(config->schema->keys[i].kind)) {
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

static bool same(const struct config_key *key, const void *a, const void *b)
{
    const void *x = (const char *)a + key->offset, *y = (const char *)b + key->offset;
    if (is_string(key->kind))
        return strcmp(*(char *const *)x, *(char *const *)y) == 0;
    switch (key->kind) {
    case CONFIG_INT: case CONFIG_PORT: return *(const int64_t *)x == *(const int64_t *)y;
    case CONFIG_SIZE:                  return *(const uint64_t *)x == *(const uint64_t *)y;
    case CONFIG_SECONDS:               return fabs(*(const double *)x - *(const double *)y) < 1e-9;
    case CONFIG_BOOL:                  return *(const bool *)x == *(const bool *)y;
    case CONFIG_CHOICE:                return *(const int *)x == *(const int *)y;
    case CONFIG_SHARING:               return *(const unsigned *)x == *(const unsigned *)y;
    default: break;
    }
    const struct config_strings *p = x, *q = y;
    bool equal = p->count == q->count;
    for (size_t i = 0; equal && i < p->count; i++)
        equal = strcmp(p->items[i], q->items[i]) == 0;
    return equal;
}

size_t config_needs_restart(const struct config *old, const struct config *new_, char *buffer, size_t size)
{
    size_t count = 0;
    *buffer = '\0';
    for (size_t i = 0; i < old->schema->count; i++) {
        const struct config_key *key = &old->schema->keys[i];
        if (key->reload || same(key, old->values, new_->values))
            continue;
        size_t at = strlen(buffer);
        snprintf(buffer + at, size - at, "%s%s", count ? ", " : "", key->path);
        count++;
    }
    return count;
}

static size_t value_size(enum config_kind kind)
{
    if (is_string(kind))
        return sizeof(char *);
    switch (kind) {
    case CONFIG_INT: case CONFIG_PORT: return sizeof(int64_t);
    case CONFIG_SIZE:                  return sizeof(uint64_t);
    case CONFIG_SECONDS:               return sizeof(double);
    case CONFIG_BOOL:                  return sizeof(bool);
    case CONFIG_CHOICE:                return sizeof(int);
    case CONFIG_SHARING:               return sizeof(unsigned);
    default:                           return sizeof(struct config_strings);
    }
}

void config_keep_until_restart(struct config *fresh, struct config *running)
{
    for (size_t i = 0; i < fresh->schema->count; i++) {
        const struct config_key *key = &fresh->schema->keys[i];
        char *a = (char *)fresh->values + key->offset, *b = (char *)running->values + key->offset;
        char kept[sizeof(struct config_strings)];
        size_t size = value_size(key->kind);
        if (key->reload)
            continue;
        memcpy(kept, a, size);
        memcpy(a, b, size);
        memcpy(b, kept, size);
    }
}

void config_print_schema(const struct config_schema *schema, FILE *out)
{
    fprintf(out, "# %s: all keys, with their initial values\n", schema->daemon);
    for (size_t i = 0; i < schema->count; i++) {
        const struct config_key *key = &schema->keys[i];
        bool quoted = is_string(key->kind) || key->kind == CONFIG_CHOICE || key->kind == CONFIG_SIZE ||
                      key->kind == CONFIG_SHARING || key->kind == CONFIG_STRINGS;
        const char *quote = quoted ? "\"" : "";
        size_t length = strlen(key->help);
        length -= length && key->help[length - 1] == '.';
        fprintf(out, "\n# %.*s (%s%s)\n", (int)length, key->help, kind_text(key->kind),
                key->reload ? "; SIGHUP changes it" : "");
        if (key->initial)
            fprintf(out, "# %s = %s%s%s;\n", key->path, quote, key->initial, quote);
        else
            fprintf(out, "# %s must be given\n", key->path);
    }
}
