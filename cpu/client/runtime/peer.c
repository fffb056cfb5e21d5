/* peer.c: chapter "Peer Device Memory Access", and the peer questions of "Device Management". */
#include "cpu/client/runtime/runtime.h"

#include "api/forward/core.h"
#include "cpu/client/core/stream/link_atomics.h"

enum { P2P_RANK = 1, P2P_LAST = 5 };

static int two_devices(int device, int peer)
{
    int error = runtime_attach_device(device);
    return error ? error : runtime_attach_device(peer);
}

static int can_access(int *answer, int device, int peer)
{
    int error = two_devices(device, peer);
    if (error)
        return error;
    return answer ? core_device_can_access_peer(answer, device, peer) : cudaErrorInvalidValue;
}

/* The primary contexts of the current device and of the other one. */
static int enter_both(int peer, core_context **own, core_context **other)
{
    int error = runtime_enter(own);
    if (!error)
        error = runtime_attach_device(peer);
    return error ? error : runtime_retain(peer, other);
}

static int enable(int peer, unsigned flags)
{
    core_context *own, *other;
    int error = enter_both(peer, &own, &other);
    if (!error && flags)
        error = cudaErrorInvalidValue;
    if (!error && own == other)
        error = cudaErrorPeerAccessUnsupported;
    return error ? error : core_peer_enable(own, other);
}

static int disable(int peer)
{
    core_context *own, *other;
    int error = enter_both(peer, &own, &other);
    return error ? error : core_peer_disable(own, other);
}

static int get_attribute(int *value, int attribute, int source, int target)
{
    int error = runtime_attach(NULL);
    if (!error && !value)
        error = cudaErrorInvalidValue;
    if (error || (error = two_devices(source, target)))
        return error;
    if (source == target)
        return cudaErrorInvalidDevice;
    return attribute < P2P_RANK || attribute > P2P_LAST
               ? cudaErrorInvalidValue
               : core_device_get_p2p_attribute(value, attribute, source, target);
}

cudaError_t runtime_cudaDeviceCanAccessPeer(int *answer, int device, int peer)
{
    return runtime_waited(can_access(answer, device, peer));
}

cudaError_t runtime_cudaDeviceEnablePeerAccess(int peer, unsigned flags) { return runtime_waited(enable(peer, flags)); }
cudaError_t runtime_cudaDeviceDisablePeerAccess(int peer) { return runtime_waited(disable(peer)); }
cudaError_t runtime_cudaDeviceGetP2PAttribute(int *value, cudaDeviceP2PAttr attribute, int source, int target)
{
    return runtime_waited(get_attribute(value, attribute, source, target));
}

#if FLYT_CUDART >= 13
/* ---- atomic operations over a link ---- */

static int check_operations(const unsigned *capabilities, const cudaAtomicOperation *operations, unsigned count)
{
    if (!capabilities || !operations || !count)
        return cudaErrorInvalidValue;
    for (unsigned i = 0; i < count; i++)
        if ((int)operations[i] < 0 || (int)operations[i] >= LINK_ATOMIC_OPERATIONS)
            return cudaErrorInvalidValue;
    return cudaSuccess;
}

/* Flyt's hostNativeAtomicSupported is 0: between program and device lies a network, or at best a bus. */
cudaError_t runtime_cudaDeviceGetHostAtomicCapabilities(unsigned *capabilities, const cudaAtomicOperation *operations,
                                                        unsigned count, int device)
{
    int error = runtime_attach_device(device);
    if (!error)
        error = check_operations(capabilities, operations, count);
    for (unsigned i = 0; i < count && !error; i++)
        capabilities[i] = 0;
    return runtime_local(error);
}

static int between(unsigned *capabilities, const cudaAtomicOperation *operations, unsigned count, int source,
                   int target)
{
    enum { NATIVE_ATOMICS = 3 };          /* CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED */
    int native = 0, error = capabilities ? two_devices(source, target) : cudaErrorInvalidValue;
    if (error)
        return error;
    if (source == target)
        return cudaErrorInvalidDevice;
    if ((error = check_operations(capabilities, operations, count)) ||
        (error = core_device_get_p2p_attribute(&native, NATIVE_ATOMICS, source, target)))
        return error;
    for (unsigned i = 0; i < count; i++)
        capabilities[i] = native ? link_atomic_capabilities((int)operations[i]) : 0;
    return cudaSuccess;
}

cudaError_t runtime_cudaDeviceGetP2PAtomicCapabilities(unsigned *capabilities, const cudaAtomicOperation *operations,
                                                       unsigned count, int source, int target)
{
    return runtime_waited(between(capabilities, operations, count, source, target));
}
#endif
