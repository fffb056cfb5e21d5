// shows: conformance: the runtime's device while the Driver API makes contexts current, takes them away and ends them
#include "../suite.h"

#include <cuda.h>

__attribute__((constructor)) static void two_devices() { setenv("FLYT_SOFTGPU_DEVICES", "2", 1); }

static CUresult (*set_current)(CUcontext);
static CUresult (*get_current)(CUcontext *);
static CUresult (*create)(CUcontext *, unsigned, CUdevice);
static CUresult (*destroy)(CUcontext);
static CUresult (*retain)(CUcontext *, CUdevice);

static void *entry(const char *name)
{
    void *found = NULL;
#if RUNTIME >= 13
    MUST(cudaGetDriverEntryPointByVersion(name, &found, 11000, cudaEnableDefault, NULL));
#elif RUNTIME == 12
    MUST(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, NULL));
#else
    MUST(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault));
#endif
    return found;
}

static void where(const char *when)
{
    int device = -1;
    CUcontext context = NULL;
    SAYS(cudaGetDevice(&device), when);
    VALUE("device", "%d", device);
    get_current(&context);
    VALUE("has a context", "%d", context != NULL);
}

static void look(const char *when)
{
    where(when);
    SAYS(cudaFree(NULL), when);
    where("behind a call that needs a context");
}

static void *fresh(void *)
{
    CUcontext first = NULL, second = NULL, own = NULL;
    retain(&first, 0);
    retain(&second, 1);
    look("a new thread");
    MUST(cudaSetDevice(1));
    where("device 1");
    set_current(first);
    where("the driver's device 0");
    set_current(NULL);
    look("none");
    MUST(cudaSetDevice(1));
    cudaFree(NULL);
    set_current(NULL);
    look("none behind device 1");
    set_current(second);
    where("the driver's device 1");
    set_current(NULL);
    look("none again");
    MUST(cudaSetDevice(0));
    MUST(cudaFree(NULL));
    create(&own, 0, 1);
    where("a context of device 1");
    destroy(own);
    where("it has ended, and the one below is current");
    MUST(cudaSetDevice(1));
    MUST(cudaFree(NULL));
    set_current(NULL);
    create(&own, 0, 1);
    destroy(own);
    look("it has ended, and there is none below");
    set_current(NULL);
    MUST(cudaSetDevice(1));
    look("device 1 behind none");
    return NULL;
}

int main()
{
    pthread_t thread;
    *(void **)&set_current = entry("cuCtxSetCurrent");
    *(void **)&get_current = entry("cuCtxGetCurrent");
    *(void **)&create = entry("cuCtxCreate");
    *(void **)&destroy = entry("cuCtxDestroy");
    *(void **)&retain = entry("cuDevicePrimaryCtxRetain");
    cudaFree(NULL);
    pthread_create(&thread, NULL, fresh, NULL);
    pthread_join(thread, NULL);
    return 0;
}
