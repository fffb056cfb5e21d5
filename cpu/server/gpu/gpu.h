/*
 * gpu.h: the CUDA driver functions that the server uses, as a table.
 *
 * Which functions these are is said in cpu/api/driver.api, by the words server and null.
 * The table is filled from libcuda.so.1 (nvidia) or libsoftgpu.so (software) with dlopen, or with the null
 * device's functions (null.c). Nothing above knows which. A field is the function's name without "cu"; the
 * symbol is the one that the driver exports for that signature, with its version suffix, so that the meaning of
 * a field does not depend on the cuda.h this is built with (11.8 to 13).
 *
 * There is one driver per process: gpu_open may be called again and gives the same table.
 * Follows: CUDA Driver API reference.
 */
#ifndef FLYT_SERVER_GPU_H
#define FLYT_SERVER_GPU_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/common/softgpu.h"

enum gpu_extent { GPU_EXTENT_FREED, GPU_EXTENT_ALLOCATED, GPU_EXTENT_NOBODYS };

struct gpu {
    const char *kind;                 /* "nvidia", "software", "null" */
#define REQUIRED(field, symbol, parameters) CUresult (CUDAAPI *field) parameters;
/* Newer or not everywhere: NULL where the driver lacks it; whoever uses one has a second way. */
#define OPTIONAL REQUIRED
#include "api/driver/server.inc"
#undef REQUIRED
#undef OPTIONAL
    /* The software GPU's: text of the last failure of the calling thread; its length. NULL elsewhere. */
    size_t (*last_log)(char *buffer, size_t size);
    /* The software GPU's: what is allocated of mapped memory. Returns whether it watches accesses
       (FLYT_SOFTGPU_MEMCHECK); size 0 only asks. NULL elsewhere. */
    int (*extent)(uint64_t address, uint64_t size, int state);
    /* The software GPU's: says what becomes of cudaGraphLaunch in kernels. NULL elsewhere. */
    void (*graphs)(softgpu_graph_launch *);
    /* The software GPU's: says who brings memory that a kernel touches and that is not there, or shut. NULL
       elsewhere. */
    void (*absences)(softgpu_absent *);
    /* With it: sets the function that kernels call at a fence of system scope and before a release. */
    void (*releases)(softgpu_released *);
    /* With it: MemHostRegister of memory that is shut, and shutting and opening a part of it. */
    CUresult (*register_shut)(void *, size_t, unsigned flags);
    void (*shut)(uint64_t address, uint64_t size, bool shut);
    /* The software GPU's: asks for a compute capability, times ten, before the first context. insists: also where the
       environment names one. Returns the one that holds, times ten. NULL elsewhere. */
    unsigned (*capability)(unsigned wanted, bool insists);
    /* The software GPU's: words that say from now on how much memory each device has, and on how many multiprocessors
       blocks are placed; 0: as at the start. They stay valid as long as the process lives. NULL elsewhere. */
    void (*limits)(const _Atomic uint64_t *memory, const _Atomic uint32_t *sms);
    /* The software GPU's: memory that another process has made and exported, which is about to end, becomes this one's,
       as MemCreate makes it: exactly `size` bytes. fd stays the caller's. NULL elsewhere. */
    CUresult (*adopt_memory)(CUmemGenericAllocationHandle *, int fd, size_t size, int device);
    /* The software GPU's: what is made next in the current context has this handle, or lies there. NULL elsewhere. */
    CUresult (*place_object)(uint64_t handle);
    void (*retire_object)(uint64_t handle);       /* none ever has it */
    CUresult (*place_module)(const struct softgpu_module_place *);
    CUresult (*place_heap)(uint64_t address);
    /* With it: the heap of kernels of the current context; size: bytes of its state, 0: there is none. */
    CUresult (*heap)(uint64_t *address, uint64_t *size);
    CUresult (*heap_state)(uint64_t offset, void *, uint64_t size, bool write);
    CUresult (*module_place)(CUmodule, struct softgpu_module_place *);
    /* The software GPU's: where this process finds device memory that is mapped, all of it for reading and writing, or
       NULL. written: bytes have come there in this way. NULL elsewhere. */
    void *(*host_view)(uint64_t address, uint64_t size, bool written);
    /* The software GPU's: read() gets bytes of device memory where they lie; meanwhile nothing is unmapped, so it must
       be short. False: they cannot be read. NULL elsewhere. */
    bool (*read)(uint64_t address, uint64_t size, void (*read)(const void *, uint64_t, void *), void *context);
    /* The software GPU's: which granules of a reservation were written since the last question, as a bit each;
       softgpu/driver/calls/watch.c says more. Waits for turns of blocks. NULL elsewhere. */
    CUresult (*watch)(uint64_t base, uint8_t *changed, uint64_t size, uint64_t *granule, bool again);
    /* The software GPU's: values in the memory at this address change only where `look` is called behind that, so that
       streams which wait for them go on at once, and nobody looks often. NULL elsewhere. */
    void (*announce)(uint64_t address);
    void (*look)(void);
    /* The software GPU's: between hold and run, launches of the calling thread wake no thread of the software GPU where
       their kernels are known to be very short. `run` runs them in the calling thread, which holds no lock, for some
       ten microseconds or a turn of a block, and wakes others for the rest; not here: for all. NULL elsewhere. */
    void (*hold)(void);
    void (*run)(int here);
    /* The software GPU's: what its compiler has done, for FLYT_STATS=1, a text at a time. NULL elsewhere. */
    void (*tell_compiled)(void (*say)(const char *));
};

enum { GPU_ERROR_SIZE = 512 };

/* kind: "auto", "nvidia", "software" or "null". Loads the driver, initialises it and looks for a device; auto is
   nvidia where libcuda.so.1 loads and has a device, else software. 0, or -1 and a sentence in error
   (GPU_ERROR_SIZE bytes). *out stays valid as long as the process lives. Thread-safe. */
int gpu_open(const char *kind, const struct gpu **out, char *error);

/* "CUDA_ERROR_INVALID_VALUE (1)"; for messages. The text is the driver's or in buffer. */
const char *gpu_error_name(const struct gpu *, CUresult, char *buffer, size_t size);

/* null.c: fills the table. */
void gpu_null_fill(struct gpu *);
/* Operations that the null device has been given so far, for tests and measurements. held, ran: launches of a thread
   that held, and those behind which it has run. */
struct gpu_null_count { unsigned long launches, copies, sets, waits, mapped, held, ran; };
void gpu_null_counted(struct gpu_null_count *);

#endif
