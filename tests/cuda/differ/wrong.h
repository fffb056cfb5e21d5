// wrong.h: arguments that are refused, and with which code.
#ifndef DIFFER_WRONG_H
#define DIFFER_WRONG_H

#include "model.h"

#define FAILS(code, call)                                                        \
    do {                                                                         \
        expect(t, #call, code, call);                                            \
        expect(t, "the last error after it", code, cudaPeekAtLastError());       \
        expect(t, "the last error after it", code, cudaGetLastError());          \
        expect(t, "the last error after that", cudaSuccess, cudaGetLastError()); \
    } while (0)

static int runtime_version()
{
    int runtime = 0;
    cudaRuntimeGetVersion(&runtime);
    return runtime;
}

// From 12.9 on a function that is not registered counts as a kernel's handle.
static cudaError_t no_kernel()
{
    return runtime_version() < 12090 ? cudaErrorInvalidDeviceFunction : cudaErrorInvalidResourceHandle;
}

// NVIDIA's runtime of 13.0 passes the driver's answer on.
static cudaError_t impossible()
{
    return runtime_version() < 13000 ? cudaErrorInvalidConfiguration : cudaErrorInvalidValue;
}

__global__ void needs_shared(byte *p)
{
    extern __shared__ byte room[];
    room[threadIdx.x] = 1;
    *p = room[0];
}

static void CUDART_CB never(void *) { fprintf(stderr, "a host function that was refused runs\n"); abort(); }
static void CUDART_CB never_back(cudaStream_t, cudaError_t, void *) { never(NULL); }

static void fail_copies(Thread *t, Memory *d, Memory *h, Memory *p, cudaStream_t s)
{
    size_t n = d->model.size();
    byte *host = h->at, *pinned = p->at, *spare = NULL;
    cudaPitchedPtr pitched = make_cudaPitchedPtr(d->at, 100, 100, 4), in_host = make_cudaPitchedPtr(host, 100, 100, 4);
    cudaMemcpy3DParms cube = {};
    switch (draw(t, 24)) {
    case 0: FAILS(cudaErrorInvalidMemcpyDirection, cudaMemcpy(d->at, host, 1, (cudaMemcpyKind)5)); break;
    case 1: FAILS(cudaErrorInvalidMemcpyDirection, cudaMemcpyAsync(d->at, host, 1, (cudaMemcpyKind)-1, s)); break;
    case 2: FAILS(cudaErrorInvalidValue, cudaMemcpyAsync(NULL, host, 1, cudaMemcpyHostToDevice, s)); break;
    case 3: FAILS(cudaErrorInvalidValue, cudaMemcpy(d->at, NULL, 1, cudaMemcpyDefault)); break;
    case 4: FAILS(cudaErrorInvalidValue, cudaMemcpyAsync(pinned, d->at + 1, n, cudaMemcpyDeviceToHost, s)); break;
    case 5: FAILS(cudaErrorInvalidValue, cudaMemcpyAsync(d->at + n - 1, pinned, 2, cudaMemcpyHostToDevice, s)); break;
    case 6: FAILS(cudaErrorInvalidValue, cudaMemcpyAsync(d->at + 5, d->at, n, cudaMemcpyDeviceToDevice, s)); break;
    case 7: FAILS(cudaErrorInvalidValue, cudaMemcpyAsync(host, host + 1, 1, cudaMemcpyHostToDevice, s)); break;
    case 8: FAILS(cudaErrorInvalidValue, cudaMemcpyAsync(d->at, host, 1, cudaMemcpyDeviceToDevice, s)); break;
    case 9: FAILS(cudaErrorInvalidValue, cudaMemcpy(host, d->at, 1, cudaMemcpyHostToDevice)); break;
    case 10: FAILS(cudaErrorInvalidValue, cudaMemsetAsync(d->at + 1, 0, n, s)); break;
    case 11: FAILS(cudaErrorInvalidValue, cudaMemset(NULL, 0, 1)); break;
    case 12: FAILS(cudaErrorInvalidValue, cudaMemset2DAsync(d->at, n, 0, n, 2, s)); break;
    case 13:
        FAILS(cudaErrorInvalidPitchValue, cudaMemcpy2DAsync(d->at, 9, host, 10, 10, 2, cudaMemcpyHostToDevice, s));
        break;
    case 14: FAILS(cudaErrorInvalidPitchValue, cudaMemcpy2D(d->at, 10, host, 9, 10, 2, cudaMemcpyHostToDevice)); break;
    case 15:
        FAILS(cudaErrorInvalidValue, cudaMemcpy2DAsync(d->at, n, host, 10, 10, 2, cudaMemcpyHostToDevice, s));
        break;
    case 16:
        cube.srcPtr = in_host, cube.dstPtr = pitched, cube.kind = cudaMemcpyHostToDevice;
        cube.extent = make_cudaExtent(101, 1, 1);
        FAILS(cudaErrorInvalidValue, cudaMemcpy3DAsync(&cube, s));
        break;
    case 17:
        cube.srcPtr = in_host, cube.dstPtr = pitched, cube.kind = cudaMemcpyHostToDevice;
        cube.extent = make_cudaExtent(100, 4, 1 + n / 400);
        FAILS(cudaErrorInvalidValue, cudaMemcpy3D(&cube));
        break;
    case 18:
        FAILS(cudaErrorInvalidValue,
              cudaMemcpyToSymbolAsync(symbols, host, 2, sizeof symbols - 1, cudaMemcpyHostToDevice, s));
        break;
    case 19:
        FAILS(cudaErrorInvalidMemcpyDirection, cudaMemcpyToSymbol(symbols, host, 1, 0, cudaMemcpyDeviceToHost));
        break;
    case 20: FAILS(cudaErrorInvalidSymbol, cudaMemcpyFromSymbol(host, host, 1)); break;
    case 21:
        GOOD(t, cudaMalloc((void **)&spare, 3000));
        GOOD(t, cudaFree(spare));
        if (t->alone) // else another thread may have got the address meanwhile
            FAILS(cudaErrorInvalidValue, cudaFree(spare));
        break;
    case 22:
        FAILS(cudaErrorInvalidMemcpyDirection,
              cudaMemcpyFromSymbolAsync(host, symbols, 1, 0, cudaMemcpyHostToDevice, s));
        break;
    default: FAILS(cudaErrorInvalidDevice, cudaMemcpyPeerAsync(d->at, 99, d->at, 0, 1, s));
    }
}

static void fail_memory(Thread *t, Memory *d, Memory *h, Memory *p, Memory *r)
{
    void *out;
    unsigned flags;
    switch (draw(t, 20)) {
    case 0: FAILS(cudaErrorInvalidValue, cudaFree(d->at + 1)); break;
    case 1: FAILS(cudaErrorInvalidValue, cudaFree(h->at)); break;
    case 2: FAILS(cudaErrorInvalidValue, cudaFree(p->at)); break;
    case 3: FAILS(cudaErrorInvalidValue, cudaFreeHost(d->at)); break;
    case 4: FAILS(cudaErrorInvalidValue, cudaFreeHost(h->at)); break;
    case 5: FAILS(cudaErrorInvalidValue, cudaFreeHost(p->at + 1)); break;
    case 6: FAILS(cudaErrorMemoryAllocation, cudaMalloc(&out, (size_t)1 << 50)); break;
    case 7: FAILS(cudaErrorMemoryAllocation, cudaMallocHost(&out, (size_t)1 << 50)); break;
    case 8: FAILS(cudaErrorInvalidValue, cudaMalloc((void **)NULL, 1)); break;
    case 9: FAILS(cudaErrorInvalidValue, cudaHostAlloc(&out, 1, 0x100)); break;
    case 10: FAILS(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(r->at, 1, 0)); break;
    case 11: FAILS(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(h->at)); break;
    case 12: FAILS(cudaErrorInvalidValue, cudaHostRegister(NULL, 1, 0)); break;
    case 13: FAILS(cudaErrorInvalidValue, cudaHostRegister(h->at, 0, 0)); break;
    case 14: FAILS(cudaErrorInvalidValue, cudaHostRegister(h->at, 1, 0x100)); break;
    case 15: FAILS(cudaErrorInvalidValue, cudaHostGetDevicePointer(&out, h->at, 0)); break;
    case 16: FAILS(cudaErrorInvalidValue, cudaHostGetDevicePointer(&out, p->at, 1)); break;
    case 17: FAILS(cudaErrorInvalidValue, cudaHostGetFlags(&flags, h->at)); break;
    case 18: FAILS(cudaErrorInvalidValue, cudaMallocHost((void **)NULL, 1)); break;
    default: FAILS(cudaErrorInvalidValue, cudaHostRegister(p->at, 1, 0));
    }
}

#define FAILS_TO_LAUNCH(code, ...)       \
    do {                                 \
        __VA_ARGS__;                     \
        FAILS_LATER(code, #__VA_ARGS__); \
    } while (0)
#define FAILS_LATER(code, text)                                                  \
    do {                                                                         \
        expect(t, text, code, cudaGetLastError());                               \
        expect(t, "the last error after that", cudaSuccess, cudaGetLastError()); \
    } while (0)

static void fail_rest(Thread *t, Memory *d, cudaStream_t s, int device)
{
    cudaStream_t stream;
    cudaEvent_t event, plain;
    cudaFuncAttributes attributes;
    cudaDeviceProp properties;
    float time;
    int number;
    void *address;
    GOOD(t, cudaSetDevice(device));
    GOOD(t, cudaEventCreate(&event));
    switch (draw(t, 28)) {
    case 0: FAILS(cudaErrorInvalidValue, cudaStreamAddCallback(s, NULL, NULL, 0)); break;
    case 1: FAILS(cudaErrorInvalidValue, cudaMemsetAsync(d->at + d->model.size(), 0, 1, s)); break;
    case 2: FAILS(cudaErrorInvalidResourceHandle, cudaStreamDestroy(0)); break;
    case 3: FAILS(cudaErrorInvalidResourceHandle, cudaEventRecord(NULL, s)); break;
    case 4: FAILS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&time, event, event)); break;
    case 5:
        GOOD(t, cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
        GOOD(t, cudaEventRecord(plain, s));
        GOOD(t, cudaEventRecord(event, s));
        GOOD(t, cudaEventSynchronize(event));
        FAILS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&time, plain, event));
        GOOD(t, cudaEventDestroy(plain));
        break;
    case 6: FAILS(cudaErrorInvalidValue, cudaEventElapsedTime(NULL, event, event)); break;
    case 7: FAILS(cudaErrorInvalidValue, cudaStreamCreateWithFlags(&stream, 8)); break;
    case 8: FAILS(cudaErrorInvalidValue, cudaStreamCreate(NULL)); break;
    case 9: FAILS(cudaErrorInvalidValue, cudaEventCreateWithFlags(&plain, 0x80)); break;
    case 10: FAILS(cudaErrorInvalidValue, cudaLaunchHostFunc(s, NULL, NULL)); break;
    case 11: FAILS(cudaErrorInvalidValue, cudaStreamAddCallback(s, never_back, NULL, 1)); break;
    case 12: FAILS(cudaErrorInvalidDevice, cudaSetDevice(-1)); break;
    case 13: FAILS(cudaErrorInvalidDevice, cudaSetDevice(99)); break;
    case 14: FAILS(cudaErrorInvalidDevice, cudaGetDeviceProperties(&properties, -1)); break;
    case 15: FAILS(cudaErrorInvalidDevice, cudaDeviceGetAttribute(&number, cudaDevAttrWarpSize, 99)); break;
    case 16: FAILS(cudaErrorInvalidValue, cudaDeviceGetAttribute(&number, (cudaDeviceAttr)100000, 0)); break;
    case 17: FAILS(no_kernel(), cudaFuncGetAttributes(&attributes, (const void *)&draw)); break;
    case 18:
        FAILS(cudaErrorInvalidValue,
              cudaFuncSetAttribute(affine, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 24));
        break;
    case 19: FAILS(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&address, number)); break;
    case 20: FAILS_TO_LAUNCH(impossible(), affine<<<0, 1, 0, s>>>(d->at, 1, 1, 1)); break;
    case 21: FAILS_TO_LAUNCH(impossible(), affine<<<1, 1025, 0, s>>>(d->at, 1, 1, 1)); break;
    case 22:
        FAILS_TO_LAUNCH(impossible(), affine<<<dim3(1, 1, 70000), 1, 0, s>>>(d->at, 1, 1, 1));
        break;
    case 23: FAILS_TO_LAUNCH(cudaErrorInvalidValue, needs_shared<<<1, 32, 1 << 20, s>>>(d->at)); break;
    case 24: FAILS_TO_LAUNCH(impossible(), affine<<<1, dim3(1, 1, 65), 0, s>>>(d->at, 1, 1, 1)); break;
    case 25: FAILS(cudaErrorInvalidValue, cudaStreamWaitEvent(s, event, 0x80)); break;
    case 26: FAILS(cudaErrorInvalidResourceHandle, cudaStreamWaitEvent(s, NULL, 0)); break;
    default:
        if (t->devices > 1) {                            // things of one device on another
            GOOD(t, cudaSetDevice(1 - device));
            GOOD(t, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
            FAILS(cudaErrorInvalidResourceHandle, cudaEventRecord(event, stream));
            GOOD(t, cudaSetDevice(device));
            FAILS_TO_LAUNCH(cudaErrorInvalidResourceHandle, affine<<<1, 1, 0, stream>>>(d->at, 1, 1, 1));
            GOOD(t, cudaStreamDestroy(stream));
        }
    }
    GOOD(t, cudaEventDestroy(event));
    expect(t, "the last error", cudaSuccess, cudaGetLastError());
}

#endif
