/* program.h: what a program of the core at a real server does, in one line each: kernels (kernels.h), and memory. */
#ifndef TESTS_CORE_PROGRAM_H
#define TESTS_CORE_PROGRAM_H

#include <stdio.h>

#include "cpu/client/core/core.h"
#include "isolated.h"
#include "on.h"

#define MIB ((size_t)1 << 20)

extern const char program_code[];      /* PTX: each test program has its own */
static core_image *image;              /* of it; NULL: no kernel has been asked for */

static inline core_function *function(const char *name)
{
    core_function *f;
    if (!image)
        CHECK(core_image_add(program_code, &image) == 0);
    CHECK(core_function_add(image, name, &f) == 0);
    return f;
}

/* One block of 32 threads. */
static inline int launch(core_context *c, core_stream stream, const char *name, void **arguments)
{
    return core_launch(c, &(struct core_launch){ .function = function(name), .stream = stream, .grid = { 1, 1, 1 },
                                                 .block = { 32, 1, 1 }, .arguments = arguments });
}

static inline int fill(core_context *c, core_stream stream, uint64_t address, uint32_t count, uint32_t value)
{
    return launch(c, stream, "fill", (void *[]){ &address, &count, &value });
}

static inline uint64_t allocate(core_context *c, size_t size)
{
    uint64_t address = 0;
    CHECK(core_memory_allocate(c, size, &address) == 0);
    return address;
}

static inline uint32_t word_at(core_context *c, uint64_t address)
{
    uint32_t word = 0;
    int code = copy_out(c, 0, &word, address, sizeof word, true);
    if (code)
        fprintf(stderr, "0x%llx cannot be read: %d\n", (unsigned long long)address, code);
    CHECK(code == 0);
    return word;
}

#endif
