/*
 * clear.c: device memory that the driver hands out may hold what another tenant has left there. NVIDIA's reference does
 * not say that its driver clears it (cuMemCreate, cuMemAlloc), so the server does, before the client can name it.
 * FLYT_CLEAR_MEMORY: always, never, or auto, which leaves out drivers that are known to clear: the software GPU, whose
 * memory comes from Linux, and the null device, which has none.
 *
 * The memory is set in a stream of its own, which waits for no other one, and MAP is answered when that is done: so
 * nothing of the program can come before it, in whichever stream. A kernel that fills the whole GPU makes it wait, as
 * it makes any other kernel wait. What the client keeps mapped and gives out again was this program's before: it is not
 * cleared again.
 */
#include "cpu/server/memory/clear.h"

#include <pthread.h>
#include <string.h>

#include "cpu/common/env.h"
#include "cpu/common/lock.h"
#include "cpu/common/log.h"

enum clear { CLEAR_AUTO, CLEAR_ALWAYS, CLEAR_NEVER };

static enum clear setting;

static void read_setting(void)
{
    const char *text = env_get("FLYT_CLEAR_MEMORY");
    if (!text || !*text || strcmp(text, "auto") == 0)
        setting = CLEAR_AUTO;
    else if (strcmp(text, "always") == 0)
        setting = CLEAR_ALWAYS;
    else if (strcmp(text, "never") == 0)
        setting = CLEAR_NEVER;
    else
        log_warning("event=setting-ignored name=FLYT_CLEAR_MEMORY why=\"'%s' is none of auto, always and never\"",
                    text);
}

static bool wanted(const struct gpu *gpu)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_setting);
    return setting == CLEAR_ALWAYS || (setting == CLEAR_AUTO && strcmp(gpu->kind, "nvidia") == 0);
}

static CUresult set_zero(const struct gpu *gpu, uint64_t address, uint64_t size)
{
    CUstream stream;
    CUresult r = gpu->StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0);
    if (r != CUDA_SUCCESS)
        return r;
    r = gpu->MemsetD8Async(address, 0, size, stream);
    if (r == CUDA_SUCCESS)
        r = gpu->StreamSynchronize(stream);
    CUresult gone = gpu->StreamDestroy(stream);
    return r ? r : gone;
}

CUresult clear_mapped(struct session *session, uint64_t address, uint64_t size)
{
    return wanted(session->gpu) ? set_zero(session->gpu, address, size) : CUDA_SUCCESS;
}

/* The end of the window has room where the client has mapped nothing; 0: it has not. */
static uint64_t room_for(const struct window *window, uint64_t size)
{
    uint64_t granules = window->at ? window->size / window->granularity : 0, need = size / window->granularity;
    for (uint64_t i = granules, free_ones = 0; i-- > 0;) {
        free_ones = window->at[i] ? 0 : free_ones + 1;
        if (free_ones == need)
            return window->base + i * window->granularity;
    }
    return 0;
}

/* For as long as session.lock is held, at an address of the window that the client does not use. */
static CUresult clear_somewhere(struct session *session, const struct device *device,
                                CUmemGenericAllocationHandle handle, uint64_t size)
{
    const struct gpu *gpu = session->gpu;
    CUmemAccessDesc access = { .location = memory_properties(session, device).location,
                               .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    uint64_t at = room_for(&session->window, size);
    CUresult r = at ? gpu->MemMap(at, size, 0, handle, 0) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS)
        return r;
    r = gpu->MemSetAccess(at, size, &access, 1);
    if (r == CUDA_SUCCESS)
        r = set_zero(gpu, at, size);
    CUresult gone = gpu->MemUnmap(at, size);
    return r ? r : gone;
}

CUresult clear_handle(struct session *session, const struct device *device, CUmemGenericAllocationHandle handle,
                      uint64_t size)
{
    const struct gpu *gpu = session->gpu;
    CUcontext context;
    FLYT_ASSERT_HELD(&session->lock);
    if (!wanted(gpu))
        return CUDA_SUCCESS;
    /* A handle needs no context of the client's: the device's own is there for this moment. */
    CUresult r = gpu->DevicePrimaryCtxRetain(&context, device->handle);
    if (r != CUDA_SUCCESS)
        return r;
    context_use_none(session);
    r = gpu->CtxSetCurrent(context);
    if (r == CUDA_SUCCESS)
        r = clear_somewhere(session, device, handle, size);
    gpu->CtxSetCurrent(NULL);
    gpu->DevicePrimaryCtxRelease(device->handle);
    return r;
}
