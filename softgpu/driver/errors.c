/* errors.c: names and texts of CUresult values. The names come from the toolkit's header at build time. */
#include "softgpu/driver/driver.h"

#include <ctype.h>
#include <string.h>

struct name { CUresult code; const char *name; };
static const struct name names[] = {
#define ERROR(code) { code, #code },
#include "softgpu/error_names.h"
#undef ERROR
};

/* Where the text is not just the name in words. */
static const struct name texts[] = {
    { CUDA_SUCCESS, "no error" },
    { CUDA_ERROR_INVALID_VALUE, "invalid argument" },
    { CUDA_ERROR_OUT_OF_MEMORY, "out of memory" },
    { CUDA_ERROR_NOT_INITIALIZED, "initialization error" },
    { CUDA_ERROR_DEINITIALIZED, "driver shutting down" },
    { CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected" },
    { CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal" },
    { CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid" },
    { CUDA_ERROR_INVALID_CONTEXT, "invalid device context" },
    { CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device" },
    { CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed" },
    { CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain." },
    { CUDA_ERROR_FILE_NOT_FOUND, "file not found" },
    { CUDA_ERROR_INVALID_HANDLE, "invalid resource handle" },
    { CUDA_ERROR_NOT_FOUND, "named symbol not found" },
    { CUDA_ERROR_NOT_READY, "device not ready" },
    { CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered" },
    { CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch" },
    { CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated" },
    { CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled" },
    { CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled" },
    { CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed" },
    { CUDA_ERROR_ASSERT, "device-side assert triggered" },
    { CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part or all of the requested memory range is already mapped" },
    { CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region" },
    { CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error" },
    { CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered" },
    { CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address" },
    { CUDA_ERROR_INVALID_ADDRESS_SPACE, "operation not supported on global/shared address space" },
    { CUDA_ERROR_INVALID_PC, "invalid program counter" },
    { CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure" },
    { CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch" },
    { CUDA_ERROR_NOT_PERMITTED, "operation not permitted" },
    { CUDA_ERROR_NOT_SUPPORTED, "operation not supported" },
    { CUDA_ERROR_UNKNOWN, "unknown error" },
};

/* "CUDA_ERROR_STREAM_CAPTURE_MERGE" → "stream capture merge", made at first need; both are called without locks. */
static const char *in_words(size_t index)
{
    static char words[sizeof names / sizeof *names][64];
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    char *text = words[index];
    pthread_mutex_lock(&making);
    if (!*text) {
        const char *from = names[index].name + strlen("CUDA_ERROR_");
        size_t i = 0;
        for (; i < sizeof words[0] - 1 && from[i]; i++)
            text[i] = from[i] == '_' ? ' ' : (char)tolower((unsigned char)from[i]);
    }
    pthread_mutex_unlock(&making);
    return text;
}

static size_t find(const struct name *table, size_t count, CUresult code)
{
    size_t i = 0;
    while (i < count && table[i].code != code)
        i++;
    return i;
}

CUresult cuGetErrorName(CUresult code, const char **out)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    size_t count = sizeof names / sizeof *names, i = find(names, count, code);
    *out = i < count ? names[i].name : NULL;
    return i < count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char **out)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    size_t count = sizeof names / sizeof *names, i = find(names, count, code);
    size_t text_count = sizeof texts / sizeof *texts, t = find(texts, text_count, code);
    *out = t < text_count ? texts[t].name : i < count ? in_words(i) : NULL;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
