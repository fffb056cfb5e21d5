/*
 * engine.h: what softgpu/driver/ (the CUDA driver API) asks of softgpu/exec/ (the machine).
 *
 * An engine is one software GPU: a number of SMs whose resident blocks take bounded turns on the host's
 * cores. The driver gives it grids in the order in which streams allow them to start and is informed when each
 * has ended. Error codes are CUresult values (cuda.h).
 */
#ifndef SOFTGPU_ENGINE_H
#define SOFTGPU_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "cpu/common/softgpu.h"
#include "softgpu/ptx/ptx.h"

typedef struct sg_engine sg_engine;
typedef struct sg_program sg_program;       /* a loaded module: code and the addresses of its variables */
typedef struct sg_kernel sg_kernel;         /* an entry, decoded and ready to run */
typedef struct sg_heap sg_heap;
typedef struct sg_print sg_print;
typedef struct sg_grid sg_grid;             /* one launch */
struct sg_binding;                          /* softgpu/texture.h */

/* The limits of one consistent device; figures: what the driver makes of it unless configured otherwise. */
struct sg_limits {
    unsigned sm_count;                      /* 4 */
    unsigned cc_major, cc_minor;            /* 13, 0 */
    unsigned warp_size;                     /* 32 */
    unsigned max_threads_per_block;         /* 1024 */
    unsigned max_block[3], max_grid[3];
    unsigned max_threads_per_sm, max_blocks_per_sm;
    unsigned regs_per_sm, regs_per_block;
    size_t   shared_per_sm, shared_per_block, shared_per_block_optin, shared_reserved;
    size_t local_memory; /* of all threads that run at a time; 0: no limit */
    unsigned clock_khz;
};

/* On how many multiprocessors blocks are placed from now on, where that is not 0; NULL: as described. Kernels and
   callers go on seeing sm_count. With a smaller number, blocks that run come to their end, and cooperative grids, whose
   size was checked by sm_count, get all of these. */
extern _Atomic(const _Atomic uint32_t *) sg_active_sms;

/* threads: host threads that run blocks; 0: as many as there are cores (FLYT_SOFTGPU_THREADS). ordinal selects
   the rights in sg_memory. chaos: seed, 0 off (reorders turns, delays ends). Threads start with the first grid. */
int  sg_engine_create(const struct sg_limits *, unsigned ordinal, unsigned threads, uint64_t chaos, sg_engine **);
/* Other figures, of as many multiprocessors; nothing has been loaded into the engine. */
void sg_engine_describe(sg_engine *, const struct sg_limits *);
/* It is a part of its device, and never has more than its sm_count. Before the first launch. */
void sg_engine_is_part(sg_engine *);
void sg_engine_destroy(sg_engine *);        /* waits for nothing: grids still running are cancelled */

/* What the kernels of one CUDA context share. The driver names both in each launch; they must outlive its grid. The
   heap of malloc(): its memory is [base, base + size), device memory that the driver allocated. NULL: no host
   memory. */
sg_heap *sg_heap_create(uint64_t base, size_t size);
void sg_heap_destroy(sg_heap *);            /* NULL is allowed */
/* What is allocated, and what is in it, as bytes, for a heap of the same base and size elsewhere. Reads, or writes, a
   part; false: there is no such part. No kernel runs that uses the heap, or it finds anything there. */
uint64_t sg_heap_state_size(const sg_heap *);
bool sg_heap_state(sg_heap *, uint64_t offset, void *bytes, uint64_t size, bool write);
/* What printf() has written and nobody has flushed: whole calls, the oldest go when `bytes` are full. */
sg_print *sg_print_create(void);            /* of 1 MiB; NULL: no host memory */
void sg_print_destroy(sg_print *);          /* with what it holds; NULL is allowed */
void sg_print_resize(sg_print *, size_t bytes);
void sg_print_flush(sg_print *);            /* writes what has been printed so far to stdout, and fflush */

/* Takes the module (freed with the program). address_of[i] is the device address of module->variables[i]
   (.global, .const, and managed); initial values have been written by the driver. Programs of one space (a CUDA
   context) can call each other's functions by pointer. */
int sg_program_create(sg_engine *, struct ptx_module *module, const uint64_t *address_of, const void *space,
                      sg_program **);
/* code: the address of its first function, 0: a new one. 208: another program has some of those addresses; then, as
   after every error, the module is still the caller's. */
int sg_program_create_at(sg_engine *, struct ptx_module *module, const uint64_t *address_of, const void *space,
                         uint64_t code, sg_program **);
uint64_t sg_program_code(const sg_program *);
/* The driver has seen to it that no grid of it runs. A grid of another program that calls its functions may: it ends
   with CUDA_ERROR_INVALID_PC when it does so again. */
void sg_program_destroy(sg_program *);
const struct ptx_module *sg_program_module(const sg_program *);

/* Does a call of it need the heap of malloc()? The old form of device-side launches keeps arguments there. */
bool sg_is_of_heap(const struct ptx_function *);

/* Address that a function pointer to functions[index] has (for initialisers that hold it). */
uint64_t sg_program_function_address(sg_program *, uint32_t index);

/* Decodes the entry of that name, and what it calls. Not found: CUDA_ERROR_NOT_FOUND. An instruction that
   cannot be executed: CUDA_ERROR_INVALID_PTX … and a message naming it and its line in log. Kept: asked
   twice, the same. Thread-safe. */
int sg_program_kernel(sg_program *, const char *name, sg_kernel **, char *log, size_t log_size);
/* Decodes module->functions[index], which is an entry, as sg_program_kernel does. */
int sg_program_entry(sg_program *, uint32_t index, sg_kernel **, char *log, size_t log_size);

/* What a compiler said of a kernel when it made machine code of it, which lies beside the PTX in a fat binary. */
struct sg_machine_code {
    uint8_t registers;       /* of a thread; 0: nothing is known */
    bool runs;               /* a device of this capability would run it: the number is its own, and no estimate */
    uint16_t capability;     /* of the GPU that it was made for: 75, 121 */
    uint16_t threads_per_sm; /* of that GPU, at most */
};
/* Of functions[index], an entry that nobody has asked for yet. Without it registers are an estimate from the PTX.
   False: no memory. Not thread-safe. */
bool sg_program_machine_code(sg_program *, uint32_t index, struct sg_machine_code);

/* For a survey of what programs need: from now on an instruction that cannot be executed does not end the decoding of
   its kernel. Instead, unknown() is called for each of them; log says why. Such a kernel must not be launched. */
typedef void sg_unknown(void *context, const struct ptx_function *, const struct ptx_instruction *, const char *log);
void sg_program_survey(sg_program *, sg_unknown *unknown, void *context);
/* Frees what sg_program_entry made of functions[index]. The kernel must not be in use. */
void sg_program_forget(sg_program *, uint32_t index);

struct sg_kernel_info {
    const struct ptx_function *function;    /* name, parameters with offsets and sizes */
    unsigned max_threads;                   /* per block, from .maxntid/.reqntid and registers */
    unsigned registers;                     /* as the device would count them, for occupancy */
    size_t static_shared, const_bytes;
    size_t local_bytes;                     /* of a thread, here: variables, and arguments of calls */
    size_t stack_bytes;                     /* of a thread, as a GPU counts them: arguments are in registers */
    unsigned ptx_version, binary_version; /* 90, 130 */
    unsigned uses;                          /* SOFTGPU_USES_... */
    bool calls_pointers;                    /* it may call functions of other modules */
};
void sg_kernel_describe(const sg_kernel *, struct sg_kernel_info *);
/* A kernel with .blocksareclusters (__block_size__): a launch's grid counts clusters, and a block of one thread stands
   for the block that the kernel was compiled for. Makes them blocks and threads, as for any other kernel. */
static inline void sg_launch_shape(const struct ptx_function *f, uint32_t grid[3], uint32_t block[3])
{
    bool one = block[0] == 1 && block[1] == 1 && block[2] == 1;
    for (int i = 0; i < 3 && f->blocks_are_clusters; i++) {
        grid[i] *= f->req_cluster[i] ? f->req_cluster[i] : 1;
        block[i] = one && f->req_ntid[i] ? f->req_ntid[i] : block[i];
    }
}

enum { SG_GRID_COOPERATIVE = 1 };
enum { SG_LIMITS = 8 };

struct sg_launch {
    const sg_kernel *kernel;
    uint32_t grid[3], block[3];
    uint32_t cluster[3];                    /* blocks of a cluster; 0: as the kernel says, or none */
    size_t dynamic_shared;
    size_t stack;                           /* bytes per thread for calls whose depth is not known before */
    sg_heap *heap;                          /* of malloc() in kernels; NULL: it finds no room */
    sg_print *print;                        /* takes what kernels printf; NULL: it is lost */
    /* For kernels that ask: a device attribute, and what the context's limits were at the launch, by CUlimit. */
    int (*attribute)(const void *device, int attribute);
    const void *device;                     /* it outlives the grid */
    size_t limits[SG_LIMITS], limit_count;
    unsigned flags;
    struct softgpu_graph graph;             /* executable 0: it is part of none */
    softgpu_graph_launch *launch_graph;     /* for kernels of a graph; NULL: they launch none */
    const void *params;                     /* the parameter block, copied */
    size_t params_size;
    const struct sg_binding *bindings; /* of the module's texture references; they outlive the grid. May be NULL */
    size_t binding_count;
    /* Runs once in an engine thread when the last block has ended, or the grid was cancelled. error is
       CUDA_SUCCESS, CUDA_ERROR_ILLEGAL_ADDRESS, _LAUNCH_FAILED (trap), _ASSERT, _MISALIGNED_ADDRESS,
       _ILLEGAL_INSTRUCTION, _INVALID_PC, _HARDWARE_STACK_ERROR, _LAUNCH_TIMEOUT … */
    void (*done)(void *context, int error);
    void *context;
};

/* The grid's blocks become resident as SMs have room, in index order; several grids share the SMs.
   Parameters were checked by the driver (limits, sizes); a cooperative grid was checked to fit at once. */
int sg_engine_launch(sg_engine *, const struct sg_launch *);
/*
 * Waking a thread of the engine takes longer than a short kernel does. Between sg_hold and sg_run, a launch of this
 * thread wakes nobody where the kernel's blocks have been so short of late that all of them take a moment. sg_run runs
 * such blocks in this thread, for some ten microseconds or a turn of a block, and wakes other threads for what is left;
 * not `here`: for all of them. It calls `done` of the launches. The caller holds no lock that those take, and none that
 * what kernels call takes (cpu/common/softgpu.h). A thread that has held calls sg_run soon.
 */
void sg_hold(void);
void sg_run(bool here);
/* After a fault: every running grid of the engine ends with `error`. Returns at once. */
void sg_engine_cancel(sg_engine *, int error);

/* Notes which turns of blocks are under way; whether all of these have ended. The next note must come behind that. */
void sg_engine_turns_note(sg_engine *);
bool sg_engine_turns_passed(sg_engine *);

/* Blocks per SM for these resources (CUDA's occupancy rules for the device of sg_limits). */
unsigned sg_occupancy(const struct sg_limits *, const sg_kernel *, unsigned block_size, size_t dynamic_shared);

#endif
