/*
 * peer.c: chapter "Peer Device Memory Access", and the peer questions of "Device Management". Copies between devices
 * work; kernels reach only the memory of their own device, so no access is offered.
 */
#include "cpu/client/runtime/runtime.h"

enum { P2P_RANK = 1, P2P_LAST = 4 };

static int can_access(int *answer, int device, int peer)
{
    int error = runtime_attach_device(device);
    if (!error)
        error = runtime_attach_device(peer);
    if (error)
        return error;
    if (!answer)
        return cudaErrorInvalidValue;
    *answer = 0;
    return cudaSuccess;
}

static int peer_of_current(int peer)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (!error)
        error = runtime_attach_device(peer);
    return error ? error : peer == runtime_current() ? cudaErrorInvalidDevice : cudaSuccess;
}

static int enable(int peer, unsigned flags)
{
    int error = peer_of_current(peer);
    if (error)
        return error;
    return flags ? cudaErrorInvalidValue : cudaErrorPeerAccessUnsupported;
}

static int disable(int peer)
{
    int error = peer_of_current(peer);
    return error ? error : cudaErrorPeerAccessNotEnabled;
}

static int get_attribute(int *value, int attribute, int source, int target)
{
    int error = can_access(value, source, target);
    if (error)
        return error;
    if (attribute < P2P_RANK || attribute > P2P_LAST)
        return cudaErrorInvalidValue;
    return source == target ? cudaErrorInvalidDevice : cudaSuccess;
}

cudaError_t runtime_cudaDeviceCanAccessPeer(int *answer, int device, int peer)
{
    return runtime_local(can_access(answer, device, peer));
}

cudaError_t runtime_cudaDeviceEnablePeerAccess(int peer, unsigned flags) { return runtime_local(enable(peer, flags)); }
cudaError_t runtime_cudaDeviceDisablePeerAccess(int peer) { return runtime_local(disable(peer)); }
cudaError_t runtime_cudaDeviceGetP2PAttribute(int *value, cudaDeviceP2PAttr attribute, int source, int target)
{
    return runtime_local(get_attribute(value, attribute, source, target));
}
