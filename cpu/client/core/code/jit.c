/*
 * jit.c: what options for the driver's compiler (CUjit_option) say of registers. The server's driver gets it with the
 * code: see bundle_bound.
 */
#include <stdint.h>

#include "cpu/client/core/api_code.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/api_session.h"

/* Of CUjit_option, and of CUdevice_attribute. */
enum { MAX_REGISTERS = 0, THREADS_PER_BLOCK = 1, LAST = 34 };
enum { WARP_SIZE = 10, REGISTERS_PER_BLOCK = 12 };
/* The compiler takes fewer than LEAST for LEAST, and no bound above MOST. A warp gets registers in steps. */
enum { LEAST = 24, MOST = 255, STEP = 8 };

/* So many that a block of so many threads can be launched. */
static unsigned registers_for(unsigned threads)
{
    int all = 0, warp = 0;
    if (!threads || core_device_attribute(0, REGISTERS_PER_BLOCK, &all) ||
        core_device_attribute(0, WARP_SIZE, &warp) || all <= 0 || warp <= 0)
        return 0;
    uint64_t whole = ((uint64_t)threads + (unsigned)warp - 1) / (unsigned)warp * (unsigned)warp;
    uint64_t registers = (unsigned)all / whole / STEP * STEP;
    return registers < LEAST ? LEAST : registers > MOST ? MOST : (unsigned)registers;
}

int core_jit_options(unsigned count, const int *options, void *const *values, unsigned *registers)
{
    *registers = 0;
    if (count && (!options || !values))
        return CORE_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        unsigned value = (unsigned)(uintptr_t)values[i], bound = 0;
        if (options[i] < 0 || options[i] > LAST)
            return CORE_INVALID_VALUE;
        if (options[i] == MAX_REGISTERS && value <= MOST)
            bound = value;
        if (options[i] == THREADS_PER_BLOCK)
            bound = registers_for(value);
        if (bound && (!*registers || bound < *registers))
            *registers = bound;
    }
    return CORE_OK;
}
