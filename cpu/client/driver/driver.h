/*
 * driver.h: what the chapters of the Driver API share.
 *
 * libcuda.so.1 for programs is a second front end on the client core. The core owns sessions, contexts, memory,
 * streams and code; here are the stack of current contexts of each thread, the handles of modules and libraries, and
 * what the API checks.
 *
 * The exported functions are generated from cpu/api/driver.api. Each calls its body, which is written by hand:
 *     CUresult driver_cuX(…) { return driver_waited(x(…)); }
 * Where x() begins with driver_enter() (the current context), driver_ready() (after cuInit) or driver_device().
 * driver_waited() also delivers what earlier asynchronous work left behind; driver_local() counts a call that needed
 * no server.
 *
 * Handles: a CUcontext is the core's context, a CUstream and a CUevent are its tokens. CUfunction and CUkernel are
 * both the core's function, so either may stand where the other is expected, as natively.
 */
#ifndef FLYT_DRIVER_DRIVER_H
#define FLYT_DRIVER_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/driver/driver.h"
#include "cpu/client/core/core.h"
#include "cpu/client/core/wire/trace.h"
#include "cpu/common/driver_names.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define DRIVER_API __attribute__((visibility("default")))

/* ---- entering (state.c) ---- */

/* 0 after a successful cuInit, else 3; 3 also in the child of a fork. */
int driver_ready(void);
/* driver_ready, and checks that the device exists: 101. */
int driver_device(CUdevice);
/* What cuInit does. Waits, the first time. */
int driver_initialise(void);
/* Whether exit() has come to what this library registered with it (ending.c), and what registers it. */
bool driver_ending(void);
void driver_watch_ending(void);

/* Of the calling thread; NULL: none. It may have ended meanwhile. A runtime in the same process makes its own context
   current, too. */
#define driver_current core_current
int driver_enter_slow(core_context **);
/* The thread's context, in a host function, too. That one may make a context current and ask about it; every other
   call there gives 800. */
core_context *driver_thread_context(void);
void driver_hold(core_context *); /* makes it current in a host function */

/* The thread's current context, usable: 3, 201 (there is none), 709 (it has ended), 800 (a host function calls), or the
   process's sticky error. */
static inline int driver_enter(core_context **context)
{
    if (LIKELY(driver_current && !core_context_enter(driver_current))) {
        *context = driver_current;
        return CUDA_SUCCESS;
    }
    return driver_enter_slow(context);
}

/* Whether a handle that the program passes is a context that can be used: 201. NULL stands for the current one. For
   questions: what waits for the context must look at core_in_host_function. */
int driver_context(CUcontext, core_context **);
/* Checks such a handle, and accepts a primary context that nobody retains, which may be made current. NULL: 201. */
int driver_context_known(CUcontext);

static inline CUresult driver_waited(int error) { return (CUresult)(error ? error : core_take_latched()); }
static inline CUresult driver_local(int error)
{
    core_count_local();
    return (CUresult)error;
}
CUresult driver_unsupported(const char *name);
/* What an entry point does with an error that it returns: the process's log of errors has it (log.c). */
CUresult driver_failed(CUresult, const char *function) __attribute__((cold, noinline));

/* Stream 0 of an entry point whose name ends in _ptsz. */
static inline core_stream driver_per_thread(core_stream stream) { return stream ? stream : CORE_STREAM_PER_THREAD; }

/* ---- what a context has here (storage.c, context.c) ---- */

struct driver_storage;
struct driver_coredump;

/* Made at the first use, and kept: contexts come again at the same address. */
struct driver_context {
    unsigned cache, bank;
    atomic_uint attached;             /* uses beside that of who made the context (cuCtxAttach) */
    struct driver_storage *storage;
    struct driver_coredump *coredump; /* coredump.c; NULL: it has no values of its own */
};
struct driver_context *driver_context_state(core_context *);
/* Before a context ends, and after it has: what belongs to it here is dropped. */
void driver_context_ended(core_context *);
void driver_coredump_forget(struct driver_context *);
/* A number that no other context ever has. */
int driver_context_id(core_context *, unsigned long long *);

/* Context-local storage (storage.c), for the private tables of NVIDIA's driver. */
typedef void (*driver_storage_end)(CUcontext, void *key, void *value);
int driver_storage_put(core_context *, void *key, void *value, driver_storage_end);
int driver_storage_get(core_context *, void *key, void **value); /* 400: none */
int driver_storage_remove(core_context *, void *key);
void driver_storage_drop(core_context *);

/* ---- code (module.c, library.c, function.c) ---- */

/* A function that the program passes: 400. *context, the current one, becomes the function's own where it has one. */
int driver_function(core_context **context, core_function *);
/* Whether it is a CUkernel, which belongs to no context. */
bool driver_function_is_kernel(core_function *);
int driver_module_load(const void *image, CUmodule *);
int driver_module_of_library(core_context *, core_library *, core_image *, CUmodule *);
void driver_modules_forget_context(core_context *);
void driver_modules_forget_library(core_library *);
CUmodule driver_module_of(const core_image *, const core_context *);
/* 400: there is no such module. */
int driver_module_image(CUmodule, core_context **, core_image **);
int driver_symbol(core_context *, core_image *, const char *name, CUdeviceptr *, size_t *);
/* get is called for each function of a module. */
int driver_module_each(CUmodule, void (*get)(void *user, CUfunction, CUmodule), void *user);
/* jit.c: writes the logs where the options want them, and their lengths in place of the sizes of those buffers. */
void driver_jit_finish(unsigned count, const CUjit_option *, void **values, const char *info, const char *error);
/* What the compiler says of each kernel of a module that has been loaded, where the options ask for it; the caller
   frees it. NULL: they do not, or there is no memory. Waits. */
char *driver_jit_describe(core_context *, core_image *, unsigned count, const CUjit_option *, void **values);

/* ---- copies (copy.c) ---- */

/* Whether a graph can copy that, and in which direction. */
int driver_copy_check(core_context *, const CUDA_MEMCPY3D *, enum core_direction *);

/* ---- launches (execution.c) ---- */

/* More attributes than there are kinds of them mean that one is given twice. */
enum { DRIVER_LAUNCH_ATTRIBUTES = 32 };
/* All but the parameters. 1: it cannot be read. */
int driver_launch_read(const CUlaunchConfig *, CUfunction, core_stream default_stream,
                       struct core_launch_attribute[DRIVER_LAUNCH_ATTRIBUTES], struct core_launch *);

/* ---- tables of cuGetProcAddress and cuGetExportTable ---- */

extern const struct driver_entry driver_entries[] __attribute__((visibility("hidden")));
extern const size_t driver_entry_count __attribute__((visibility("hidden")));

/* A private table of NVIDIA's driver (export_tables.c), or NULL. */
const void *driver_export_table(const CUuuid *);

/* CUDA_LAUNCH_BLOCKING=1: a launch returns when the kernel has ended, with its error. Read by cuInit. */
extern bool driver_launches_block __attribute__((visibility("hidden")));

/* ---- FLYT_TRACE (trace.c), used by the generated entry points ---- */

extern bool driver_traced __attribute__((visibility("hidden")));
extern const struct trace_front driver_front __attribute__((visibility("hidden")));

#endif
