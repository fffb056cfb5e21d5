/* symbol.c: device variables by their host shadow, of chapter "Memory Management". First use loads the variable's image. */
#include "cpu/client/runtime/runtime.h"

static int find(int *device, const void *symbol, uint64_t *address, size_t *size) {
    int error = runtime_enter(device);
    return error ? error : runtime_symbol(*device, symbol, address, size);
}

static int get_address(void **pointer, const void *symbol) {
    int device;
    uint64_t address;
    size_t size;
    int error = find(&device, symbol, &address, &size);
    if (error)
        return error;
    if (!pointer)
        return CUDART_INVALID_VALUE;
    *pointer = (void *)(uintptr_t)address;
    return CUDART_OK;
}

static int get_size(size_t *out, const void *symbol) {
    int device;
    uint64_t address;
    size_t size;
    int error = find(&device, symbol, &address, &size);
    if (error)
        return error;
    if (!out)
        return CUDART_INVALID_VALUE;
    *out = size;
    return CUDART_OK;
}

RUNTIME_API int cudaGetSymbolAddress(void **pointer, const void *symbol) { return runtime_waited(get_address(pointer, symbol)); }
RUNTIME_API int cudaGetSymbolSize(size_t *size, const void *symbol) { return runtime_waited(get_size(size, symbol)); }

/* The part of the symbol that is meant, or an error. `one_way`: the other kind that is allowed beside device to device
   and default. */
static int part(int *device, const void *symbol, size_t count, size_t offset, int kind, int one_way, void **place) {
    uint64_t address;
    size_t size;
    int error = runtime_enter(device);
    if (error)
        return error;
    if (kind != one_way && kind != CUDART_DEVICE_TO_DEVICE && kind != CUDART_COPY_DEFAULT)
        return CUDART_INVALID_DIRECTION;
    if ((error = runtime_symbol(*device, symbol, &address, &size)))
        return error;
    if (offset > size || count > size - offset)
        return CUDART_INVALID_VALUE;
    *place = (void *)(uintptr_t)(address + offset);
    return CUDART_OK;
}

static int copy_to(const void *symbol, const void *from, size_t count, size_t offset, int kind, core_stream stream, bool blocking) {
    int device;
    void *place;
    int error = part(&device, symbol, count, offset, kind, CUDART_HOST_TO_DEVICE, &place);
    return error ? error : runtime_copy(device, stream, place, from, count, kind, blocking);
}

static int copy_from(void *to, const void *symbol, size_t count, size_t offset, int kind, core_stream stream, bool blocking) {
    int device;
    void *place;
    int error = part(&device, symbol, count, offset, kind, CUDART_DEVICE_TO_HOST, &place);
    return error ? error : runtime_copy(device, stream, to, place, count, kind, blocking);
}

RUNTIME_API int cudaMemcpyToSymbol(const void *symbol, const void *from, size_t count, size_t offset, int kind) {
    return runtime_waited(copy_to(symbol, from, count, offset, kind, 0, true));
}
RUNTIME_API int cudaMemcpyToSymbol_ptds(const void *symbol, const void *from, size_t count, size_t offset, int kind) {
    return runtime_waited(copy_to(symbol, from, count, offset, kind, CORE_STREAM_PER_THREAD, true));
}
RUNTIME_API int cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t count, size_t offset, int kind, core_stream stream) {
    return runtime_return(copy_to(symbol, from, count, offset, kind, stream, false));
}
RUNTIME_API int cudaMemcpyToSymbolAsync_ptsz(const void *symbol, const void *from, size_t count, size_t offset, int kind, core_stream stream) {
    return runtime_return(copy_to(symbol, from, count, offset, kind, runtime_per_thread(stream), false));
}
RUNTIME_API int cudaMemcpyFromSymbol(void *to, const void *symbol, size_t count, size_t offset, int kind) {
    return runtime_waited(copy_from(to, symbol, count, offset, kind, 0, true));
}
RUNTIME_API int cudaMemcpyFromSymbol_ptds(void *to, const void *symbol, size_t count, size_t offset, int kind) {
    return runtime_waited(copy_from(to, symbol, count, offset, kind, CORE_STREAM_PER_THREAD, true));
}
RUNTIME_API int cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t count, size_t offset, int kind, core_stream stream) {
    return runtime_return(copy_from(to, symbol, count, offset, kind, stream, false));
}
RUNTIME_API int cudaMemcpyFromSymbolAsync_ptsz(void *to, const void *symbol, size_t count, size_t offset, int kind, core_stream stream) {
    return runtime_return(copy_from(to, symbol, count, offset, kind, runtime_per_thread(stream), false));
}
