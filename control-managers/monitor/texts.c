/* texts.c: see texts.h. */
#include "control-managers/monitor/texts.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/common/protocol.h"

struct row_at {
    size_t at, size;
    char vm[CTL_MAX_NAME + 1];
};
struct monitor_text {
    atomic_uint references;
    char *bytes;
    size_t size;
    struct row_at *rows; /* of an array */
    size_t row_count;
};

struct monitor_text *text_make(char *bytes, size_t size)
{
    struct monitor_text *text = bytes ? malloc(sizeof *text) : NULL;
    if (!text) {
        free(bytes);
        return NULL;
    }
    *text = (struct monitor_text){ .bytes = bytes, .size = size };
    atomic_init(&text->references, 1);
    return text;
}

const char *text_bytes(const struct monitor_text *text, size_t *size)
{
    *size = text->size;
    return text->bytes;
}

struct monitor_text *text_hold(struct monitor_text *text)
{
    if (text)
        atomic_fetch_add(&text->references, 1);
    return text;
}

void text_release(void *object)
{
    struct monitor_text *text = object;
    if (!text || atomic_fetch_sub(&text->references, 1) != 1)
        return;
    free(text->bytes);
    free(text->rows);
    free(text);
}

/* ---- arrays of rows ---- */

struct text_rows {
    FILE *file;
    char *bytes;
    size_t size;
    struct row_at *rows;
    size_t count, room, at;
    bool failed;
};

struct text_rows *text_rows_begin(void)
{
    struct text_rows *rows = calloc(1, sizeof *rows);
    if (rows)
        rows->file = open_memstream(&rows->bytes, &rows->size);
    if (!rows || !rows->file) {
        free(rows);
        return NULL;
    }
    fputc('[', rows->file);
    rows->at = 1;
    return rows;
}

void text_rows_add(struct text_rows *rows, const char *row, const char *vm)
{
    size_t size = strlen(row);
    if (rows->count == rows->room) {
        size_t room = rows->room ? 2 * rows->room : 64;
        struct row_at *more = realloc(rows->rows, room * sizeof *more);
        rows->failed |= !more;
        if (!more)
            return;
        rows->rows = more;
        rows->room = room;
    }
    if (rows->count) {
        fputc(',', rows->file);
        rows->at++;
    }
    struct row_at *at = &rows->rows[rows->count++];
    *at = (struct row_at){ .at = rows->at, .size = size };
    snprintf(at->vm, sizeof at->vm, "%s", vm);
    fwrite(row, 1, size, rows->file);
    rows->at += size;
}

struct monitor_text *text_rows_end(struct text_rows *rows)
{
    fputc(']', rows->file);
    rows->failed |= fclose(rows->file) != 0;
    struct monitor_text *text = rows->failed ? NULL : text_make(rows->bytes, rows->size);
    if (rows->failed)
        free(rows->bytes);
    if (text) {
        text->rows = rows->rows;
        text->row_count = rows->count;
    } else {
        free(rows->rows);
    }
    free(rows);
    return text;
}

/* ---- what is about one VM ---- */

struct monitor_text *text_rows_of_vm(const struct monitor_text *text, const char *vm)
{
    char *bytes = malloc(text->size + 2);
    size_t size = 0;
    if (!bytes)
        return NULL;
    bytes[size++] = '[';
    for (size_t i = 0; i < text->row_count; i++) {
        const struct row_at *row = &text->rows[i];
        if (strcmp(row->vm, vm) != 0)
            continue;
        if (size > 1)
            bytes[size++] = ',';
        memcpy(bytes + size, text->bytes + row->at, row->size);
        size += row->size;
    }
    bytes[size++] = ']';
    return text_make(bytes, size);
}

struct monitor_text *text_samples_of_vm(const struct monitor_text *text, const char *vm)
{
    char label[CTL_MAX_NAME + 16], *bytes = malloc(text->size + 1);
    size_t size = 0, head = 0, head_size = 0; /* the lines that describe the samples which follow */
    snprintf(label, sizeof label, "vm=\"%s\"", vm);
    size_t label_size = strlen(label);
    for (size_t at = 0, next; bytes && at < text->size; at = next) {
        const char *line = text->bytes + at, *end = memchr(line, '\n', text->size - at);
        next = end ? (size_t)(end - text->bytes) + 1 : text->size;
        if (*line == '#') {
            bool more = head_size && head + head_size == at;
            head = more ? head : at;
            head_size = next - head;
            continue;
        }
        /* A value of a label has no quotation mark that is not escaped, and this one stands behind a { or a comma. */
        const char *found = memmem(line, next - at, label, label_size);
        if (!found || found == line || (found[-1] != '{' && found[-1] != ','))
            continue;
        memcpy(bytes + size, text->bytes + head, head_size);
        size += head_size;
        head_size = 0;
        memcpy(bytes + size, line, next - at);
        size += next - at;
    }
    return text_make(bytes, size);
}
