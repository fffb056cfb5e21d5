/* random.h: kernels that are put together by chance, a line after the other. */
#ifndef TESTS_EXEC_RANDOM_H
#define TESTS_EXEC_RANDOM_H

#include "tests/lib/dice.h"
#include "tests/lib/unit.h"

static uint64_t seed = 20261129;
static inline uint32_t any(uint32_t below) { return dice(&seed, below); }

/* The text to which put() adds. */
static struct { char text[1 << 18]; size_t length; } kernel;

static inline void kernel_begin(void) { kernel.length = 0; }

static inline void put(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline void put(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    kernel.length += (size_t)vsnprintf(kernel.text + kernel.length, sizeof kernel.text - kernel.length, format,
                                       arguments);
    va_end(arguments);
    assert_true(kernel.length < sizeof kernel.text);
}

/* An instruction in whose text A stands for the address. */
static inline void put_access(const char *guard, const char *text, const char *address)
{
    const char *mark = strchr(text, 'A');
    put("%s%.*s%s%s\n", guard, (int)(mark - text), text, address, mark + 1);
}

#endif
