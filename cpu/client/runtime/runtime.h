/*
 * runtime.h: what the chapters of the Runtime API share.
 *
 * The runtime holds what NVIDIA's holds above the driver: per host thread the last error, the current device and
 * the configurations of pending `<<<>>>` launches (state.c); per process the kernels and variables that programs
 * registered, by host address (registration.c). Everything else is the core's.
 *
 * The exported functions are generated from cpu/api/runtime.api. Each calls its body, which is written by hand:
 *     cudaError_t runtime_cudaX(…) { return runtime_return(x(…)); }
 * where x() begins with runtime_enter(), which connects and makes the device's primary context as NVIDIA's lazy
 * initialisation does, and runtime_return() records the error for cudaGetLastError. runtime_waited() also
 * delivers what earlier asynchronous work left behind; runtime_local() counts a call that needed no server.
 * The generated form for a per-thread default stream (_ptsz) calls the same body with that stream.
 */
#ifndef FLYT_RUNTIME_RUNTIME_H
#define FLYT_RUNTIME_RUNTIME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/client/core/core.h"
#include "cpu/client/core/wire/trace.h"
#include "cpu/client/runtime/abi.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define RUNTIME_API __attribute__((visibility("default")))

/* ---- per thread (state.c) ---- */

struct runtime_configuration { dim3 grid, block; size_t shared; core_stream stream; };

enum { RUNTIME_PENDING_INLINE = 2 };     /* a launch among the arguments of a launch is already rare */

struct runtime_thread {
    int last_error;
    int device;                          /* 1 + current device; 0: none chosen yet */
    core_context *context;               /* what the thread's calls work in; NULL: not used by this thread yet */
    core_context *seen;                  /* core_current, when the two above were last chosen */
    int chosen;                          /* as `device`: by the last cudaSetDevice */
    bool taken_away;                     /* the Driver API has left the thread without a context */
    unsigned pending;                    /* configurations pushed and not popped */
    struct runtime_configuration inline_pending[RUNTIME_PENDING_INLINE];
    struct runtime_configuration *more_pending;
    unsigned more_capacity;
};

/* initial-exec: launches read it. Small, because it comes out of glibc's reserve when the library is dlopened. */
extern _Thread_local struct runtime_thread runtime_thread
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

int runtime_enter_slow(core_context **);

/* The thread's context, unless the Driver API has made another one current since: NULL then, as for a new thread. */
static inline core_context *runtime_context(void)
{
    core_context *context = runtime_thread.context;
    return LIKELY(context == core_current) ? context : NULL;
}

/* The context that the Driver API has made current, or else the primary one of the thread's device, alive. The
   process's sticky error, when there is one, is the answer. */
static inline int runtime_enter(core_context **context)
{
    core_context *current = runtime_context();
    if (LIKELY(current && !core_context_enter(current))) {
        *context = current;
        return cudaSuccess;
    }
    return runtime_enter_slow(context);
}
/* runtime_enter for a call that has nothing to do where `nothing` is true: as with NVIDIA's runtime, it then succeeds
   also behind an error that sticks. */
static inline int runtime_enter_unless(bool nothing, core_context **context)
{
    int error = runtime_enter(context);
    return UNLIKELY(error) && nothing && error == core_sticky() ? cudaSuccess : error;
}
/* The device that runtime_enter has found. */
static inline int runtime_current(void) { return runtime_thread.device - 1; }
/* The device's primary context, made if need be. This library becomes one of its owners, once. */
int runtime_retain(int device, core_context **);
/* It is no owner any more, since the context has been reset. Whether it was one: then it has an owner to give back. */
bool runtime_released(int device);

/* Connects only: for calls that ask about devices and make no context. */
int runtime_attach(int *device_count);
/* Connects, and checks an ordinal: 101. */
int runtime_attach_device(int device);
/* runtime_attach_device for a caller that will retain the device's primary context at once. */
int runtime_attach_to_use(int device);
/* The thread's device without making it current or alive. */
int runtime_device(void);
/* The thread's calls go to this device, and the context becomes current. NULL: the device's context is made later. */
void runtime_choose(int device, core_context *context);

/* "Not ready" is no error, by the programming guide. */
static inline int runtime_return(int error)
{
    if (error != cudaSuccess && error != cudaErrorNotReady)
        runtime_thread.last_error = error;
    return error;
}
static inline int runtime_waited(int error) { return runtime_return(error ? error : core_take_latched()); }
static inline int runtime_local(int error)
{
    core_count_local();
    return runtime_return(error);
}
int runtime_unsupported(const char *name);
/* What an entry point does with an error that it returns: the process's log of errors has it (error.c). */
cudaError_t runtime_failed(cudaError_t, const char *function) __attribute__((cold, noinline));

/* Stream 0 of an entry point whose name ends in _ptsz or _ptds. */
static inline core_stream runtime_per_thread(core_stream stream) { return stream ? stream : CORE_STREAM_PER_THREAD; }

/* ---- devices (device.c) ---- */

/* The CUDA release that this library implements. */
enum { RUNTIME_VERSION = FLYT_CUDART == 11 ? 11080 : FLYT_CUDART == 12 ? 12090 : 13000 };

enum { RUNTIME_MAX_DEVICES = 64 };       /* per-device tables; devices beyond it work, a little slower */

/* ---- registered code (registration.c) ---- */

struct runtime_image;

struct runtime_function {
    const void *key;
    struct runtime_function *next_same;      /* registered later under the same address, by another image */
    struct runtime_function *next_of_image;
    struct runtime_image *image;
    const char *name;
    _Atomic(core_function *) core;
};

struct runtime_variable {
    const void *key;
    struct runtime_variable *next_same;
    struct runtime_variable *next_of_image;
    struct runtime_image *image;
    const char *name;
    size_t size;
    bool constant;
    void **slot;                             /* of a __managed__ variable: the host's pointer to it; else NULL */
    _Atomic(core_variable *) core;
};

/* Since 12.9 NVIDIA's runtime takes for a kernel's handle what is no registered function. */
enum { RUNTIME_NO_KERNEL = RUNTIME_VERSION >= 12090 ? cudaErrorInvalidResourceHandle : cudaErrorInvalidDeviceFunction };
/* A kernel by the address that programs pass (host function or handle): RUNTIME_NO_KERNEL when there is none; 98:
   NULL. */
int runtime_function(const void *key, core_function **);
struct runtime_function *runtime_function_record(const void *key);
struct runtime_variable *runtime_variable_record(const void *key);
int runtime_image_core(const struct runtime_image *, core_image **); /* what is wrong with the image; else 0 */
#if FLYT_CUDART == 11
/* texref.c: texture and surface references, which end with their image. */
void runtime_texrefs_forget(const struct runtime_image *);
#endif
/* A variable's place on the device: 13 when there is none. */
int runtime_symbol(core_context *, const void *key, uint64_t *address, size_t *size);

/* ---- launches (execution.c) ---- */

/* More attributes than there are kinds of them mean that one is given twice. */
enum { RUNTIME_LAUNCH_ATTRIBUTES = 32 };
/* Everything of the launch but its function and arguments; the attributes lie in the caller's array of so many. */
int runtime_launch_read(const cudaLaunchConfig_t *, struct core_launch_attribute *attributes, struct core_launch *);

/* Called once, at the first connection: NVIDIA's driver reads this setting when it is initialised. */
void runtime_read_launch_blocking(void);

/* ---- FLYT_TRACE (trace.c), used by the generated entry points ---- */

extern bool runtime_traced __attribute__((visibility("hidden")));
extern const struct trace_front runtime_front __attribute__((visibility("hidden")));

/* ---- copies (copy.c), used by memory, symbols and peer ---- */

/* Whether a graph can copy that: 1 or 12. */
int runtime_copy_fits(const cudaMemcpy3DParms *);
bool runtime_is_kind(int);
/* Of several rows, none runs into the next. */
bool runtime_rows_fit(size_t pitch, size_t width, size_t height);
/* Whether the strides hold such a region; if not, native's code is 12. */
bool runtime_strides_fit(const cudaPitchedPtr *, const cudaExtent *);
/* Where a position in pitched memory is: 1: rows would run into each other, or there is no memory. */
int runtime_pitched_box(const cudaPitchedPtr *, const cudaPos *, const cudaExtent *, struct core_box *);
/* The part of a symbol that a copy means (symbol.c). one_way: the kind that is allowed beside device to device and
   default. */
int runtime_symbol_part(const void *symbol, size_t count, size_t offset, int kind, int one_way, void **place);
int runtime_copy(core_context *, core_stream, void *to, const void *from, size_t size, int kind, bool blocking);

#endif
