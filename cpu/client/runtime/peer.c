/* peer.c: chapter "Peer Device Memory Access", and the peer questions of "Device Management". */
#include "cpu/client/runtime/runtime.h"

#include "api/forward/core.h"

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
    if (!error && (!value || attribute < P2P_RANK || attribute > P2P_LAST))
        error = cudaErrorInvalidValue;
    if (error || (error = two_devices(source, target)))
        return error;
    return source == target ? cudaErrorInvalidDevice : core_device_get_p2p_attribute(value, attribute, source, target);
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
