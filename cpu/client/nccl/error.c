/* error.c: why the last call has failed, and the texts of results. */
#include "cpu/client/nccl/nccl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cpu/common/env.h"
#include "cpu/common/log.h"

enum { TEXT = 600 };

/* The last one of the process: a program may ask in another thread. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last[TEXT];

nccl_result nccl_fail(nccl_result result, const char *format, ...)
{
    va_list list;
    char text[TEXT];
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    pthread_mutex_lock(&lock);
    memcpy(last, text, sizeof last);
    pthread_mutex_unlock(&lock);
    const char *debug = env_get("NCCL_DEBUG");
    if (debug && *debug && strcmp(debug, "VERSION") != 0)
        log_warning("NCCL: %s", text);
    return result;
}

nccl_result nccl_of_core(int code, const char *what, const char *why)
{
    const char *separator = why && *why ? ": " : "";
    why = why ? why : "";
    switch (code) {
    case CORE_OK: return NCCL_SUCCESS;
    case CORE_NOT_SUPPORTED:
        return nccl_fail(NCCL_INVALID_USAGE, "%s: the GPU server does not support it%s%s", what, separator, why);
    case CORE_NOT_READY: return nccl_fail(NCCL_SYSTEM_ERROR, "%s: not now, try again%s%s", what, separator, why);
    case CORE_INVALID_VALUE:
    case CORE_INVALID_HANDLE: return nccl_fail(NCCL_INVALID_ARGUMENT, "%s (error %d)%s%s", what, code, separator, why);
    case CORE_DEVICE_UNAVAILABLE: return nccl_fail(NCCL_REMOTE_ERROR, "%s (error %d)%s%s", what, code, separator, why);
    case CORE_OUT_OF_MEMORY: return nccl_fail(NCCL_SYSTEM_ERROR, "%s: no memory%s%s", what, separator, why);
    default: return nccl_fail(NCCL_CUDA_ERROR, "%s (error %d)%s%s", what, code, separator, why);
    }
}

nccl_result nccl_of_errno(int status, const char *what, const char *why)
{
    return status < 0 ? nccl_fail(NCCL_SYSTEM_ERROR, "%s: %s", what, why && *why ? why : strerror(-status))
                      : NCCL_SUCCESS;
}

nccl_result nccl_unsupported(const char *name, bool of_device)
{
    static atomic_bool said;
    if (!of_device)
        core_unsupported(name);
    else if (!atomic_exchange(&said, true))
        log_warning("%s: Flyt's libnccl.so.2 has no device API; with FLYT_NCCL=program the program uses its own NCCL",
                    name);
    return nccl_fail(NCCL_INVALID_USAGE, "%s is not supported by Flyt's libnccl.so.2%s", name,
                     of_device ? ", which has no device API; FLYT_NCCL=program uses the program's own" : "");
}

const char *ncclGetErrorString(nccl_result result)
{
    static const char *const texts[NCCL_RESULTS] = {
        [NCCL_SUCCESS] = "no error",
        [NCCL_CUDA_ERROR] = "unhandled cuda error",
        [NCCL_SYSTEM_ERROR] = "unhandled system error",
        [NCCL_INTERNAL_ERROR] = "internal error",
        [NCCL_INVALID_ARGUMENT] = "invalid argument",
        [NCCL_INVALID_USAGE] = "invalid usage",
        [NCCL_REMOTE_ERROR] = "remote process exited or there was a network error",
        [NCCL_IN_PROGRESS] = "NCCL operation in progress",
    };
    return (unsigned)result < NCCL_RESULTS ? texts[result] : "unknown result code";
}

const char *ncclGetLastError(const struct nccl_comm *comm)
{
    static _Thread_local char text[TEXT];
    (void)comm;
    pthread_mutex_lock(&lock);
    memcpy(text, last, sizeof text);
    pthread_mutex_unlock(&lock);
    return text;
}

void ncclResetDebugInit(void) {}
