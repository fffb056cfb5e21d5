/* driver_names.c: see driver_names.h. CUDA reference: Error Handling, Driver Entry Point Access. */
#include "cpu/common/driver_names.h"

#include <string.h>

static const struct error { int code; const char *name, *text; } errors[] = {
#define ERROR(code, name, text) { code, name, text },
#include "api/driver/errors.inc"
#undef ERROR
};

static const struct error *error_find(int code)
{
    size_t low = 0, high = sizeof errors / sizeof errors[0];
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (errors[middle].code == code)
            return &errors[middle];
        if (errors[middle].code < code)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const char *driver_error_name(int code)
{
    const struct error *error = error_find(code);
    return error ? error->name : NULL;
}

const char *driver_error_text(int code)
{
    const struct error *error = error_find(code);
    return error ? error->text : NULL;
}

/* ---- entry points ---- */

/* The first row of this name and form; count: none. */
static size_t first_row(const struct driver_entry *table, size_t count, const char *name, int per_thread)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(table[middle].name, name);
        if (order < 0 || (order == 0 && table[middle].per_thread < per_thread))
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && strcmp(table[low].name, name) == 0 && table[low].per_thread == per_thread ? low : count;
}

void (*driver_entry_find(const struct driver_entry *table, size_t count, const char *name, int version, uint64_t flags,
                         enum driver_entry_status *status))(void)
{
    enum { PER_THREAD_FORMS = 2 };
    int per_thread = flags & PER_THREAD_FORMS ? 1 : 0;
    size_t row = first_row(table, count, name, per_thread);
    if (row == count && per_thread) {    /* a name without such forms means the same to everybody */
        per_thread = 0;
        row = first_row(table, count, name, per_thread);
    }
    *status = row == count ? DRIVER_ENTRY_UNKNOWN : DRIVER_ENTRY_TOO_OLD;
    void (*found)(void) = NULL;
    for (; row < count && strcmp(table[row].name, name) == 0 && table[row].per_thread == per_thread; row++)
        if ((unsigned)table[row].version <= (unsigned)version) {
            found = table[row].address;
            *status = DRIVER_ENTRY_FOUND;
        }
    return found;
}
