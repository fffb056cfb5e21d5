/* null.h: what null.c (device, streams), null_memory.c (memory, copies) and null_code.c (modules, launches) share. */
#ifndef FLYT_SERVER_GPU_NULL_H
#define FLYT_SERVER_GPU_NULL_H

#include <stdatomic.h>
#include <stdint.h>

#include "cpu/server/gpu/gpu.h"

enum {
    NULL_STREAM = 0x53545245,
    NULL_EVENT = 0x4556454e,
    NULL_MODULE = 0x4d4f4455,
    NULL_FUNCTION = 0x46554e43,
    NULL_MEMORY = 0x4d454d4f,
    NULL_CONTEXT = 0x43545854,
    NULL_DEAD = 0x44454144
};

/* Of an H100, as the compute capability is: libraries choose kernels by these figures. */
enum {
    NULL_MULTIPROCESSORS = 16,
    NULL_BLOCKS_PER_SM = 32,
    NULL_SHARED_PER_SM = 233472,
    NULL_RESERVED_SHARED = 1024,
    NULL_MAX_SHARED = NULL_SHARED_PER_SM - NULL_RESERVED_SHARED
};

#define NULL_TOTAL_MEMORY ((uint64_t)24 << 30)

struct null_object {
    uint32_t magic;
}; /* first member of every object */

bool null_is(const void *object, uint32_t magic);
/* Counts an operation of a stream, or says what is wrong with the stream or the thread's context. */
CUresult null_work(_Atomic unsigned long *counter, CUstream stream);
CUresult null_check(void); /* has the thread a context? */
/* Addresses of a module's variables; MemAddressFree gives them back. */
CUresult null_reserve_variables(CUdeviceptr *address, size_t size);

extern _Atomic unsigned long null_launches, null_copies, null_sets, null_held, null_ran;
void null_hold(void);
void null_run(int here);
extern _Atomic uint64_t null_used; /* bytes of memory created */

/* The functions of the table. */
#define FUNCTION(field, parameters) CUresult null_##field parameters;
#include "api/driver/null.inc"
#undef FUNCTION

#endif
