/*
 * record.h: writes the launches of a test program down, so that tests/gpu/replay.py can make cases of them that run on
 * another driver. EXEC_TEST_RECORD=FILE: the launches are appended to FILE, and device memory lies at RECORD_BASE.
 *
 * FILE: for each launch a line of its program, kernel, shape and lengths; a line for each argument (bytes, value) and
 * each variable of the module (name, address, bytes); the PTX; the memory before the launch. A launch that was waited
 * for while no other one ran is followed by a line with its result.
 */
#ifndef FLYT_TESTS_EXEC_RECORD_H
#define FLYT_TESTS_EXEC_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/exec/harness.h"

#define RECORD_BASE 0x300000000000

/* Whether EXEC_TEST_RECORD is set. */
bool record_wanted(void);
/* The PTX of a module, which stays until record_forget. */
void record_module(unsigned number, const char *ptx);
void record_forget(unsigned number);
/* A launch of a kernel of that module. memory: the `used` bytes that tests have. */
void record_launch(unsigned module, const char *kernel, const struct gpu_shape *, const struct ptx_module *,
                   const uint64_t *addresses, const struct ptx_function *, const uint64_t *arguments,
                   const void *memory, size_t used);
void record_result(int error);
#endif
