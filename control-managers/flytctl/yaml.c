/* yaml.c: JSON as YAML. Every text that another reader could take for a number, a truth value or nothing is quoted. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "control-managers/flytctl/flytctl.h"

/* Readers of YAML 1.1 take these words for something else than a text. */
static bool is_a_word_of_yaml(const char *text)
{
    static const char *const words[] = { "y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf" };
    for (size_t i = 0; i < COUNT(words); i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return false;
}

/* Letters first, and nothing behind that means something to YAML. */
static bool is_plain(const char *text)
{
    if (!isalpha((unsigned char)*text) || is_a_word_of_yaml(text))
        return false;
    return strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/") == strlen(text);
}

static bool emit(yaml_emitter_t *emitter, yaml_event_t *event) { return yaml_emitter_emit(emitter, event); }

static bool emit_scalar(yaml_emitter_t *emitter, const char *text, bool quoted)
{
    yaml_event_t event;
    return yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text, (int)strlen(text), !quoted, true,
                                        quoted ? YAML_DOUBLE_QUOTED_SCALAR_STYLE : YAML_PLAIN_SCALAR_STYLE) &&
           emit(emitter, &event);
}

static bool emit_value(yaml_emitter_t *, const json_t *);

static bool emit_object(yaml_emitter_t *emitter, const json_t *object)
{
    yaml_event_t event;
    const char *key;
    json_t *value;
    bool fine =
        yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE) && emit(emitter, &event);
    json_object_foreach((json_t *)(uintptr_t)object, key, value) fine =
        fine && emit_scalar(emitter, key, !is_plain(key)) && emit_value(emitter, value);
    return fine && yaml_mapping_end_event_initialize(&event) && emit(emitter, &event);
}

static bool emit_array(yaml_emitter_t *emitter, const json_t *array)
{
    yaml_event_t event;
    size_t i;
    json_t *value;
    bool fine =
        yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_BLOCK_SEQUENCE_STYLE) && emit(emitter, &event);
    json_array_foreach(array, i, value) fine = fine && emit_value(emitter, value);
    return fine && yaml_sequence_end_event_initialize(&event) && emit(emitter, &event);
}

/* Readers of YAML 1.1 want a point in a real number. */
static bool emit_real(yaml_emitter_t *emitter, double value)
{
    char text[64], whole[80];
    snprintf(text, sizeof text, "%.17g", value);
    size_t digits = strcspn(text, "e");
    bool pointed = strchr(text, '.') != NULL;
    snprintf(whole, sizeof whole, "%.*s%s%s", (int)digits, text, pointed ? "" : ".0", text + digits);
    return emit_scalar(emitter, whole, false);
}

static bool emit_value(yaml_emitter_t *emitter, const json_t *value)
{
    char number[32];
    switch (json_typeof(value)) {
    case JSON_OBJECT: return emit_object(emitter, value);
    case JSON_ARRAY: return emit_array(emitter, value);
    case JSON_STRING: return emit_scalar(emitter, json_string_value(value), !is_plain(json_string_value(value)));
    case JSON_INTEGER:
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return emit_scalar(emitter, number, false);
    case JSON_REAL: return emit_real(emitter, json_real_value(value));
    case JSON_TRUE: return emit_scalar(emitter, "true", false);
    case JSON_FALSE: return emit_scalar(emitter, "false", false);
    case JSON_NULL: break;
    }
    return emit_scalar(emitter, "null", false);
}

static bool emit_document(yaml_emitter_t *emitter, const json_t *value)
{
    yaml_event_t event;
    return yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) && emit(emitter, &event) &&
           yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1) && emit(emitter, &event) &&
           emit_value(emitter, value) && yaml_document_end_event_initialize(&event, 1) && emit(emitter, &event) &&
           yaml_stream_end_event_initialize(&event) && emit(emitter, &event);
}

void print_yaml(const json_t *value)
{
    yaml_emitter_t emitter;
    if (!yaml_emitter_initialize(&emitter)) {
        fprintf(stderr, "flytctl: no memory for YAML\n");
        return;
    }
    yaml_emitter_set_output_file(&emitter, stdout);
    yaml_emitter_set_unicode(&emitter, 1);
    yaml_emitter_set_width(&emitter, -1); /* one line for a text, however long */
    if (!emit_document(&emitter, value))
        fprintf(stderr, "flytctl: YAML: %s\n", emitter.problem ? emitter.problem : "no memory");
    yaml_emitter_delete(&emitter);
}
