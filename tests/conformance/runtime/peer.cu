// shows: conformance: peer access, copies between devices, pools for other devices, line by line with NVIDIA's runtime
#include "../suite.h"

#include <sys/wait.h>
#include <unistd.h>

__attribute__((constructor)) static void two_devices() { setenv("FLYT_SOFTGPU_DEVICES", "2", 1); }

__global__ void write(int *p) { *p = 7; }

static void questions()
{
    int value = 9;
    WORKS(cudaDeviceCanAccessPeer(&value, 0, 1), "the other");
    VALUE("can", "%d", value);
    WORKS(cudaDeviceCanAccessPeer(&value, 1, 1), "itself");
    VALUE("can", "%d", value);
    GIVES(cudaErrorInvalidDevice, cudaDeviceCanAccessPeer(&value, 0, 2), "no peer");
    GIVES(cudaErrorInvalidDevice, cudaDeviceCanAccessPeer(&value, 2, 0), "no device");
    GIVES(cudaErrorInvalidDevice, cudaDeviceCanAccessPeer(&value, -1, 0), "device -1");
    SAYS(cudaDeviceCanAccessPeer(NULL, 0, 1), "null pointer");
    for (int attribute = 0; attribute < 6; attribute++) {
        printf("attribute %d\n", attribute);
        SAYS(cudaDeviceGetP2PAttribute(&value, (cudaDeviceP2PAttr)attribute, 0, 1), "the other");
        VALUE("value", "%d", value);
        value = 9;
    }
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 1, 1), "itself");
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 1, 2), "no peer");
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, -1, 0), "device -1");
    GIVES(cudaErrorInvalidValue, cudaDeviceGetP2PAttribute(NULL, cudaDevP2PAttrAccessSupported, 0, 1), "null pointer");
    SAYS(cudaDeviceGetP2PAttribute(&value, (cudaDeviceP2PAttr)99, 1, 1), "attribute 99 of itself");
    SAYS(cudaDeviceGetP2PAttribute(&value, (cudaDeviceP2PAttr)99, 1, 2), "attribute 99 of no peer");
}

static void permission()
{
    MUST(cudaSetDevice(0));
    GIVES(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(1), "never enabled");
    GIVES(cudaErrorPeerAccessUnsupported, cudaDeviceEnablePeerAccess(0, 0), "itself");
    GIVES(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(0), "itself");
    GIVES(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(2, 0), "no device");
    GIVES(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(-1, 0), "device -1");
    GIVES(cudaErrorInvalidDevice, cudaDeviceDisablePeerAccess(2), "no device");
    GIVES(cudaErrorInvalidValue, cudaDeviceEnablePeerAccess(1, 1), "flags");
    SAYS(cudaDeviceEnablePeerAccess(0, 1), "itself, flags");
    WORKS(cudaDeviceEnablePeerAccess(1, 0), "the other");
    GIVES(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(1, 0), "again");
    SAYS(cudaDeviceEnablePeerAccess(1, 1), "again, flags");
    MUST(cudaSetDevice(1));
    GIVES(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(0), "the other direction");
    WORKS(cudaDeviceEnablePeerAccess(0, 0), "the other direction");
    WORKS(cudaDeviceReset(), "of device 1");
    GIVES(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(0), "behind its own reset");
    MUST(cudaSetDevice(0));
    GIVES(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(1), "behind the other's reset");
    WORKS(cudaDeviceEnablePeerAccess(1, 0), "behind the other's reset");
    WORKS(cudaDeviceDisablePeerAccess(1), "enabled");
    GIVES(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(1), "again");
}

static void copies()
{
    void *a, *b;
    char host[64] = "";
    cudaMemcpy3DPeerParms p;
    memset(&p, 0, sizeof p);
    MUST(cudaSetDevice(1));
    MUST(cudaMalloc(&b, 4096));
    MUST(cudaSetDevice(0));
    MUST(cudaMalloc(&a, 4096));
    for (int access = 0; access < 2; access++) {
        printf("access %d\n", access);
        if (access)
            MUST(cudaDeviceEnablePeerAccess(1, 0));
        WORKS(cudaMemcpyPeer(a, 0, b, 1, 4096), "usual");
        WORKS(cudaMemcpyPeer(a, 0, b, 1, 0), "nothing");
        GIVES(cudaErrorInvalidDevice, cudaMemcpyPeer(a, 2, b, 1, 4), "no target device");
        GIVES(cudaErrorInvalidDevice, cudaMemcpyPeer(a, 0, b, -1, 4), "no source device");
        SAYS(cudaMemcpyPeer(a, 1, b, 0, 4), "devices exchanged");
        SAYS(cudaMemcpyPeer(NULL, 0, b, 1, 4), "null target");
        SAYS(cudaMemcpyPeer(a, 0, b, 1, 4097), "too much");
        SAYS(cudaMemcpyPeer(a, 0, host, 1, 4), "from the host");
        WORKS(cudaMemcpyPeerAsync(a, 0, b, 1, 4096, 0), "usual");
        GIVES(cudaErrorInvalidDevice, cudaMemcpyPeerAsync(a, 0, b, 2, 4, 0), "no source device");
        SAYS(cudaMemcpyPeerAsync(a, 0, b, 1, 4097, 0), "too much");
        WORKS(cudaMemcpy(a, b, 4096, cudaMemcpyDeviceToDevice), "usual");
        WORKS(cudaMemcpyAsync(b, a, 4096, cudaMemcpyDefault, 0), "usual");
        SAYS(cudaMemcpy3DPeer(NULL), "null pointer");
        SAYS(cudaMemcpy3DPeer(&p), "empty");
        cudaMemcpy3DPeerParms q = p;
        q.srcPtr = make_cudaPitchedPtr(b, 64, 64, 4);
        q.dstPtr = make_cudaPitchedPtr(a, 128, 128, 4);
        q.extent = make_cudaExtent(64, 4, 2);
        q.srcDevice = 1;
        WORKS(cudaMemcpy3DPeer(&q), "usual");
        WORKS(cudaMemcpy3DPeerAsync(&q, 0), "usual");
        q.srcDevice = 2;
        GIVES(cudaErrorInvalidDevice, cudaMemcpy3DPeer(&q), "no source device");
        q.srcDevice = 0;
        SAYS(cudaMemcpy3DPeer(&q), "not the source's device");
        q.extent.depth = 100;
        SAYS(cudaMemcpy3DPeer(&q), "too deep");
        SAYS(cudaMemcpy3DPeerAsync(&q, 0), "too deep");
        WORKS(cudaDeviceSynchronize(), "behind the copies");
    }
    struct cudaPointerAttributes attributes;
    WORKS(cudaPointerGetAttributes(&attributes, b), "of the other device");
    VALUE("type", "%d", (int)attributes.type);
    VALUE("device", "%d", attributes.device);
    VALUE("the same pointer", "%d", attributes.devicePointer == b);
    WORKS(cudaDeviceDisablePeerAccess(1), "behind the copies");
    WORKS(cudaPointerGetAttributes(&attributes, b), "without access");
    VALUE("device", "%d", attributes.device);
    VALUE("the same pointer", "%d", attributes.devicePointer == b);
    WORKS(cudaFree(b), "of the other device");
    WORKS(cudaFree(a), "its own");
}

static void pools()
{
    cudaMemPool_t pool;
    cudaMemAccessDesc access = { { cudaMemLocationTypeDevice, 1 }, cudaMemAccessFlagsProtReadWrite };
    cudaMemLocation where = { cudaMemLocationTypeDevice, 1 };
    cudaMemAccessFlags flags;
    MUST(cudaDeviceGetDefaultMemPool(&pool, 0));
    WORKS(cudaMemPoolGetAccess(&flags, pool, &where), "before");
    VALUE("flags", "%d", (int)flags);
    WORKS(cudaMemPoolSetAccess(pool, &access, 1), "read and write");
    WORKS(cudaMemPoolGetAccess(&flags, pool, &where), "read and write");
    VALUE("flags", "%d", (int)flags);
    access.flags = cudaMemAccessFlagsProtRead;
    SAYS(cudaMemPoolSetAccess(pool, &access, 1), "read");
    WORKS(cudaMemPoolGetAccess(&flags, pool, &where), "read");
    VALUE("flags", "%d", (int)flags);
    access.flags = (cudaMemAccessFlags)2;
    SAYS(cudaMemPoolSetAccess(pool, &access, 1), "flags 2");
    access.flags = cudaMemAccessFlagsProtNone;
    WORKS(cudaMemPoolSetAccess(pool, &access, 1), "none");
    WORKS(cudaMemPoolGetAccess(&flags, pool, &where), "none");
    VALUE("flags", "%d", (int)flags);
    where.id = access.location.id = 2;
    SAYS(cudaMemPoolSetAccess(pool, &access, 1), "no device");
    SAYS(cudaMemPoolGetAccess(&flags, pool, &where), "no device");
    access.location.id = 0;
    SAYS(cudaMemPoolSetAccess(pool, &access, 1), "none for its own device");
    SAYS(cudaMemPoolSetAccess(pool, &access, 0), "nothing");
}

// A kernel of device 0 writes to device 1's memory. In a process of its own, before this one uses CUDA.
static void in_child(bool enabled)
{
    fflush(stdout);
    pid_t child = fork();
    if (child) {
        waitpid(child, NULL, 0);
        return;
    }
    int *p, value = 0;
    printf("enabled %d\n", enabled);
    MUST(cudaSetDevice(1));
    MUST(cudaMalloc((void **)&p, 64));
    MUST(cudaSetDevice(0));
    if (enabled)
        MUST(cudaDeviceEnablePeerAccess(1, 0));
    write<<<1, 1>>>(p);
    GIVES(enabled ? cudaSuccess : cudaErrorIllegalAddress, cudaDeviceSynchronize(), "a kernel wrote there");
    SAYS(cudaMemcpy(&value, p, sizeof value, cudaMemcpyDeviceToHost), "what it wrote");
    VALUE("value", "%d", value);
    SAYS(cudaDeviceEnablePeerAccess(1, 0), "behind that");
    SAYS(cudaDeviceDisablePeerAccess(1), "behind that");
    int can;
    SAYS(cudaDeviceCanAccessPeer(&can, 0, 1), "behind that");
    _exit(0);
}

int main()
{
    in_child(true);
    in_child(false);
    questions();
    permission();
    copies();
    pools();
    return 0;
}
