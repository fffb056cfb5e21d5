/*
 * harness.h: a small driver for tests of the executor: one window of device memory, modules from PTX text, launches
 * with a time limit. Everything fails the running cmocka test with the reason.
 */
#ifndef TESTS_EXEC_HARNESS_H
#define TESTS_EXEC_HARNESS_H

#include "softgpu/engine.h"
#include "tests/lib/unit.h"

struct gpu_config { unsigned threads; uint64_t chaos; size_t stack, heap, fifo; };

/* One engine per test program. */
void gpu_start(const struct gpu_config *);
void gpu_stop(void);
sg_engine *gpu_engine(void);
sg_print *gpu_print(void);
void gpu_set_stack(size_t bytes);                   /* of later launches */

void *gpu_alloc(size_t size);                       /* zeroed device memory, until gpu_reset */
void gpu_reset(void);                               /* frees memory and modules */

/* Loads PTX; lines before the first .version may be left out (".version 8.5 .target sm_90 .address_size 64" is put
 * in). */
void gpu_load(const char *ptx);
void *gpu_variable(const char *name);
/* Several modules: the number of the one loaded last; kernels are those of `module` from now on; it goes. */
unsigned gpu_module(void);
void gpu_select(unsigned module);
void gpu_unload(unsigned module);
void gpu_set_space(const void *); /* of modules that are loaded from now on, until gpu_reset */
/* The message that asking for this kernel gives; NULL: it is fine. */
const char *gpu_refuses(const char *ptx, const char *kernel);

struct gpu_shape { uint32_t grid[3], block[3]; size_t shared; unsigned flags; uint32_t cluster[3]; };
/* Runs a kernel of the module loaded last; arguments are packed by the kernel's parameter list from 64-bit values.
   Returns its CUresult, or fails the test after `seconds`. */
int gpu_run(const char *kernel, uint32_t grid, uint32_t block, unsigned count, ...);
int gpu_launch(const char *kernel, const struct gpu_shape *, unsigned count, const uint64_t *arguments, double seconds);
/* Runs a kernel whose one argument is new memory of so many bytes, all zeros. It must end well. That memory. */
void *gpu_written(const char *kernel, uint32_t grid, uint32_t block, size_t bytes);

/* The same without waiting: gpu_wait gives the result. */
struct gpu_running;
struct gpu_running *gpu_begin(const char *kernel, const struct gpu_shape *, unsigned count, const uint64_t *arguments);
int gpu_wait(struct gpu_running *, double seconds);
/* It is over, and the calling thread has run its last block. */
bool gpu_ended_here(struct gpu_running *);
sg_kernel *gpu_kernel(const char *name);
const struct sg_limits *gpu_limits(void);

#define ARG(x) ((uint64_t)(uintptr_t)(x))
#endif
