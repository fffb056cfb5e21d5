/* peer.c: chapter "Peer Context Memory Access". cuDeviceCanAccessPeer is a forwarded call. */
#include "cpu/client/driver/driver.h"

#include "api/forward/core.h"

static int get_attribute(int *value, int attribute, CUdevice source, CUdevice target)
{
    enum {
        FIRST = CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK,
        LAST = CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED
    };
    int error = driver_ready();
    if (!error && !value)
        error = CUDA_ERROR_INVALID_VALUE;
    if (error || (error = driver_device(source)) || (error = driver_device(target)))
        return error;
    if (source == target)
        return CUDA_ERROR_INVALID_DEVICE;
    return attribute < FIRST || attribute > LAST ? CUDA_ERROR_INVALID_VALUE
                                                 : core_device_get_p2p_attribute(value, attribute, source, target);
}

CUresult driver_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice source, CUdevice target)
{
    return driver_waited(get_attribute(value, (int)attribute, source, target));
}

static int enable(CUcontext peer, unsigned flags)
{
    core_context *own;
    int error = driver_enter(&own);
    if (!error && flags)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = peer ? driver_context(peer, &peer) : CUDA_ERROR_INVALID_CONTEXT;
    return error ? error : core_peer_enable(own, peer);
}

static int disable(CUcontext peer)
{
    core_context *own;
    int error = driver_enter(&own);
    if (!error)
        error = peer ? driver_context(peer, &peer) : CUDA_ERROR_INVALID_CONTEXT;
    return error ? error : core_peer_disable(own, peer);
}

CUresult driver_cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) { return driver_waited(enable(peer, flags)); }
CUresult driver_cuCtxDisablePeerAccess(CUcontext peer) { return driver_waited(disable(peer)); }
