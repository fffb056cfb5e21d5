/*
 * config_values.c: one value of a configuration file: read, checked, compared.
 */
#include "control-managers/common/config_state.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "control-managers/common/protocol.h"

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

const char *config_kind_text(enum config_kind kind)
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
    case CONFIG_NUMBER: return "a number";
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

static void complain_expected(struct config *config, const struct config_key *key, int line, const char *text)
{
    config_complain_line(config, line, "%s is \"%s\"; expected %s", key->path, text, config_kind_text(key->kind));
}

static void complain_range(struct config *config, const struct config_key *key, int line, const char *text)
{
    config_complain_line(config, line, "%s is %s; it may be from %.15g to %.15g", key->path, text, key->min, key->max);
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
    config_complain_line(config, line, "%s is \"%s\"; it may be one of: %s", key->path, text, words);
}

void config_set_text(struct config *config, const struct config_key *key, const char *text, int line)
{
    void *slot = (char *)config->values + key->offset;
    char *end = NULL;
    errno = 0;
    switch (key->kind) {
    case CONFIG_STRING: case CONFIG_PATH: case CONFIG_URI: case CONFIG_SECRET: case CONFIG_NAME:
        if (!string_good(key->kind, text))
            complain_expected(config, key, line, text);
        else if (!set_string(slot, text))
            config_complain_line(config, line, "no memory");
        return;
    case CONFIG_INT: case CONFIG_PORT: {
        long long value = strtoll(text, &end, 10);
        bool good = key->kind == CONFIG_PORT ? value >= 0 && value <= 65535 : in_range(key, (double)value);
        if (end == text || *end || errno)
            complain_expected(config, key, line, text);
        else if (!good && key->kind == CONFIG_PORT)
            config_complain_line(config, line, "%s is %s; a port is from 0 to 65535", key->path, text);
        else if (!good)
            complain_range(config, key, line, text);
        else
            *(int64_t *)slot = value;
        return;
    }
    case CONFIG_SECONDS:
    case CONFIG_NUMBER: {
        double value = strtod(text, &end);
        if (end == text || *end || !isfinite(value))
            complain_expected(config, key, line, text);
        else if (!in_range(key, value))
            complain_range(config, key, line, text);
        else
            *(double *)slot = value;
        return;
    }
    case CONFIG_SIZE:
        if (config_parse_size(text, slot) < 0)
            complain_expected(config, key, line, text);
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
            complain_expected(config, key, line, text);
        return;
    case CONFIG_STRINGS:
        if (!set_strings(slot, text))
            config_complain_line(config, line, "no memory");
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
    case CONFIG_SECONDS:
    case CONFIG_NUMBER: return number || type == CONFIG_TYPE_FLOAT;
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

void config_set_setting(struct config *config, const struct config_key *key, const config_setting_t *setting)
{
    char text[8192];
    int line = (int)config_setting_source_line(setting), type = config_setting_type(setting);
    if (type == CONFIG_TYPE_BOOL && key->when_true) {
        config_set_text(config, key, config_setting_get_bool(setting) ? key->when_true : key->when_false, line);
        return;
    }
    if (!type_good(key->kind, type)) {
        config_complain_line(config, line, "%s has the wrong type; expected %s", key->path,
                             config_kind_text(key->kind));
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
            config_complain_line(config, line, "%s is too long", key->path);
            return;
        }
        snprintf(text, sizeof text, "%s", config_setting_get_string(setting));
        break;
    default:
        if (!list_text(setting, text, sizeof text)) {
            config_complain_line(config, line, "%s is a list of something else; expected %s", key->path,
                                 config_kind_text(key->kind));
            return;
        }
    }
    config_set_text(config, key, text, line);
}

/* ---- all kinds ---- */

bool config_is_string(enum config_kind kind)
{
    return kind == CONFIG_STRING || kind == CONFIG_PATH || kind == CONFIG_URI || kind == CONFIG_SECRET ||
           kind == CONFIG_NAME;
}

size_t config_value_size(enum config_kind kind)
{
    if (config_is_string(kind))
        return sizeof(char *);
    switch (kind) {
    case CONFIG_INT: case CONFIG_PORT: return sizeof(int64_t);
    case CONFIG_SIZE:                  return sizeof(uint64_t);
    case CONFIG_SECONDS:
    case CONFIG_NUMBER: return sizeof(double);
    case CONFIG_BOOL:                  return sizeof(bool);
    case CONFIG_CHOICE:                return sizeof(int);
    case CONFIG_SHARING:               return sizeof(unsigned);
    default:                           return sizeof(struct config_strings);
    }
}

void config_value_write(const struct config_key *key, const void *values, char *buffer, size_t size)
{
    const void *slot = (const char *)values + key->offset;
    char sharing[PROTOCOL_SHARING_SIZE];
    size_t at = strlen(buffer);
    char *out = buffer + at;
    size -= at;
    switch (key->kind) {
    case CONFIG_INT: case CONFIG_PORT: snprintf(out, size, "%lld", (long long)*(const int64_t *)slot); return;
    case CONFIG_SIZE:    snprintf(out, size, "%llu", (unsigned long long)*(const uint64_t *)slot); return;
    case CONFIG_SECONDS:
    case CONFIG_NUMBER:  snprintf(out, size, "%g", *(const double *)slot); return;
    case CONFIG_BOOL:    snprintf(out, size, "%s", *(const bool *)slot ? "true" : "false"); return;
    case CONFIG_CHOICE:  snprintf(out, size, "%s", key->choices[*(const int *)slot]); return;
    case CONFIG_SHARING: snprintf(out, size, "%s", protocol_sharing_text(*(const unsigned *)slot, sharing)); return;
    case CONFIG_STRINGS: break;
    default:             snprintf(out, size, "%s", *(char *const *)slot); return;
    }
    const struct config_strings *strings = slot;
    for (size_t i = 0; i < strings->count; i++) {
        at = strlen(out);
        snprintf(out + at, size - at, "%s%s", i ? " " : "", strings->items[i]);
    }
}

bool config_value_same(const struct config_key *key, const void *a, const void *b)
{
    const void *x = (const char *)a + key->offset, *y = (const char *)b + key->offset;
    if (config_is_string(key->kind))
        return strcmp(*(char *const *)x, *(char *const *)y) == 0;
    switch (key->kind) {
    case CONFIG_INT: case CONFIG_PORT: return *(const int64_t *)x == *(const int64_t *)y;
    case CONFIG_SIZE:                  return *(const uint64_t *)x == *(const uint64_t *)y;
    case CONFIG_SECONDS:
    case CONFIG_NUMBER: return fabs(*(const double *)x - *(const double *)y) < 1e-9;
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
