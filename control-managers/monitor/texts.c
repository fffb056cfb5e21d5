/* texts.c: see texts.h. */
#include "control-managers/monitor/texts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/common/protocol.h"

struct row_at {
    size_t at, size;
    char vm[CTL_MAX_NAME + 1];
};
/* A sample of a VM; name: hash_of its name. */
struct sample_at {
    size_t at, size, head, head_size;
    uint64_t name;
};
struct monitor_text {
    atomic_uint references;
    char *bytes;
    size_t size;
    struct row_at *rows; /* of an array */
    size_t row_count;
    struct sample_at *samples; /* of all VMs, in the order of `name`; made when they are asked for first */
    size_t sample_count;
    bool sorted;
};

static atomic_size_t held;

/* Of `sorted` and what it says is there. */
static pthread_mutex_t sorting = PTHREAD_MUTEX_INITIALIZER;

struct monitor_text *text_make(char *bytes, size_t size)
{
    struct monitor_text *text = bytes ? malloc(sizeof *text) : NULL;
    if (!text) {
        free(bytes);
        return NULL;
    }
    *text = (struct monitor_text){ .bytes = bytes, .size = size };
    atomic_init(&text->references, 1);
    atomic_fetch_add(&held, size);
    return text;
}

size_t texts_held(void) { return atomic_load(&held); }

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
    atomic_fetch_sub(&held, text->size);
    free(text->bytes);
    free(text->rows);
    free(text->samples);
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

/* The value of the line's label vm. NULL: it has none. */
static const char *find_vm(const char *line, size_t line_size, size_t *size)
{
    static const char label[] = "vm=\"";
    const char *end = line + line_size;
    /* A value of a label has no quotation mark that is not escaped, and this one stands behind a { or a comma. */
    for (const char *at = line, *found; (found = memmem(at, (size_t)(end - at), label, sizeof label - 1));
         at = found + 1) {
        const char *value = found + sizeof label - 1, *quote = memchr(value, '"', (size_t)(end - value));
        if (!quote || found == line || (found[-1] != '{' && found[-1] != ','))
            continue;
        *size = (size_t)(quote - value);
        return value;
    }
    return NULL;
}

static uint64_t hash_of(const char *name, size_t size)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (uint8_t)name[i]) * UINT64_C(1099511628211);
    return hash;
}

static bool add_sample(struct monitor_text *text, size_t *room, const struct sample_at *sample)
{
    if (text->sample_count == *room) {
        *room = *room ? 2 * *room : 1024;
        struct sample_at *more = realloc(text->samples, *room * sizeof *more);
        if (!more)
            return false;
        text->samples = more;
    }
    text->samples[text->sample_count++] = *sample;
    return true;
}

static int compare_samples(const void *a, const void *b)
{
    const struct sample_at *one = a, *other = b;
    if (one->name != other->name)
        return one->name > other->name ? 1 : -1;
    return (one->at > other->at) - (one->at < other->at);
}

/* Where the samples of each VM are: looked for once in a text, and not for each VM that asks, since it may have many
   megabytes. The lock is held. false: no memory. */
static bool sort_samples(struct monitor_text *text)
{
    size_t room = 0, head = 0, head_size = 0; /* the lines that describe the samples which follow */
    bool in_head = false, good = !text->sorted;
    for (size_t at = 0, next; good && at < text->size; at = next) {
        const char *line = text->bytes + at, *end = memchr(line, '\n', text->size - at);
        next = end ? (size_t)(end - text->bytes) + 1 : text->size;
        struct sample_at sample = { .at = at, .size = next - at, .head = head, .head_size = head_size };
        if (*line == '#') {
            head = in_head ? head : at;
            head_size = next - head;
            in_head = true;
            continue;
        }
        in_head = false;
        size_t vm_size;
        const char *vm = find_vm(line, sample.size, &vm_size);
        if (vm) {
            sample.name = hash_of(vm, vm_size);
            good = add_sample(text, &room, &sample);
        }
    }
    if (good && text->sample_count)
        qsort(text->samples, text->sample_count, sizeof *text->samples, compare_samples);
    else if (!text->sorted)
        text->sample_count = 0;
    text->sorted |= good;
    return text->sorted;
}

/* The first sample of that name. */
static size_t find_first(const struct monitor_text *text, uint64_t name)
{
    size_t low = 0, high = text->sample_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (text->samples[middle].name < name)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void write_samples(const struct monitor_text *text, const char *vm, FILE *file)
{
    const size_t vm_size = strlen(vm);
    const uint64_t name = hash_of(vm, vm_size);
    size_t head = SIZE_MAX, size;
    for (size_t i = find_first(text, name); i < text->sample_count && text->samples[i].name == name; i++) {
        const struct sample_at *one = &text->samples[i];
        const char *found = find_vm(text->bytes + one->at, one->size, &size);
        if (!found || size != vm_size || memcmp(found, vm, size) != 0)
            continue;
        if (one->head != head)
            fwrite(text->bytes + one->head, 1, one->head_size, file);
        head = one->head;
        fwrite(text->bytes + one->at, 1, one->size, file);
    }
}

struct monitor_text *text_samples_of_vm(struct monitor_text *text, const char *vm)
{
    char *bytes = NULL;
    size_t size = 0;
    pthread_mutex_lock(&sorting);
    const bool sorted = sort_samples(text);
    pthread_mutex_unlock(&sorting);
    FILE *file = sorted ? open_memstream(&bytes, &size) : NULL;
    if (!file)
        return NULL;
    write_samples(text, vm, file);
    if (fclose(file) != 0) {
        free(bytes);
        return NULL;
    }
    return text_make(bytes, size);
}
