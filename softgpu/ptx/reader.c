/* What all files of the reader need: errors, memory, lists that grow. They call it; it calls none of them. */
#include "softgpu/ptx/reader.h"

#include "softgpu/ptx/budget.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool reader_error(struct ptx_reader *reader, uint32_t line, const char *format, ...)
{
    if (reader->failed)
        return false;                                  /* what follows from the first error says nothing new */
    reader->failed = true;
    reader->token.kind = TOKEN_END;
    if (!reader->log || reader->log_size == 0)
        return false;
    int at = line ? snprintf(reader->log, reader->log_size, "%s:%u: ", reader->unit_name, line)
                  : snprintf(reader->log, reader->log_size, "%s: ", reader->unit_name);
    if (at < 0 || (size_t)at >= reader->log_size)
        return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reader->log + at, reader->log_size - (size_t)at, format, arguments);
    va_end(arguments);
    return false;
}

bool reader_read_now(struct ptx_reader *reader)
{
    if (!reader->checking)
        return false;
    reader->unfit = reader->failed = true;
    reader->token.kind = TOKEN_END;
    return true;
}

void *reader_alloc(struct ptx_reader *reader, size_t count, size_t item)
{
    void *result = ptx_arena_array(reader->results, count, item);
    if (!result)
        reader_error(reader, reader->token.line, "out of memory for %zu items of %zu bytes", count, item);
    return result;
}

void *reader_scratch(struct ptx_reader *reader, size_t size)
{
    void *result = ptx_arena_alloc(reader->scratch, size);
    if (!result)
        reader_error(reader, reader->token.line, "out of memory for %zu bytes", size);
    return result;
}

bool reader_grow(struct reader_vector *vector, size_t capacity, size_t item)
{
    size_t more = (capacity - vector->capacity) * item;
    if (capacity > UINT32_MAX || !ptx_budget_take(more))
        return false;
    void *items = reallocarray(vector->items, capacity, item);
    if (!items) {
        ptx_budget_give(more);
        return false;
    }
    vector->items = items;
    vector->capacity = capacity;
    vector->taken += more;
    return true;
}

void *reader_push(struct ptx_reader *reader, struct reader_vector *vector, size_t item)
{
    if (vector->count == vector->capacity) {
        size_t capacity = vector->capacity ? vector->capacity * 2 : 16;
        if (!reader_grow(vector, capacity, item)) {
            reader_error(reader, reader->token.line, "out of memory for %zu items of %zu bytes", capacity, item);
            return NULL;
        }
    }
    void *result = (char *)vector->items + vector->count++ * item;
    memset(result, 0, item);
    return result;
}

const void *reader_keep(struct ptx_reader *reader, const struct reader_vector *vector, size_t first, size_t item)
{
    size_t count = vector->count - first;
    void *copy = reader_alloc(reader, count, item);
    if (copy && count)
        memcpy(copy, (const char *)vector->items + first * item, count * item);
    return copy;
}

void reader_drop_lists(struct ptx_reader *reader)
{
    struct reader_vector *vectors[] = {
        &reader->variables,  &reader->functions, &reader->relocations, &reader->pending, &reader->aliases,
        &reader->files,      &reader->bytes,     &reader->registers,   &reader->locals,  &reader->instructions,
        &reader->prototypes, &reader->operands,  &reader->params,
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        free(vectors[i]->items);
        ptx_budget_give(vectors[i]->taken);
        *vectors[i] = (struct reader_vector){ 0 };
    }
}
