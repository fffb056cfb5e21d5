/* symbol.c: device variables by their host shadow, of chapter "Memory Management". The first use loads the variable's
   image. */
#include "cpu/client/runtime/runtime.h"

static int find(core_context **context, const void *symbol, uint64_t *address, size_t *size)
{
    int error = runtime_enter(context);
    return error ? error : runtime_symbol(*context, symbol, address, size);
}

static int get_address(void **pointer, const void *symbol)
{
    core_context *context;
    uint64_t address;
    size_t size;
    int error = find(&context, symbol, &address, &size);
    if (error)
        return error;
    if (!pointer)
        return cudaErrorInvalidValue;
    *pointer = (void *)(uintptr_t)address;
    return cudaSuccess;
}

static int get_size(size_t *out, const void *symbol)
{
    core_context *context;
    uint64_t address;
    size_t size;
    int error = find(&context, symbol, &address, &size);
    if (error)
        return error;
    if (!out)
        return cudaErrorInvalidValue;
    *out = size;
    return cudaSuccess;
}

cudaError_t runtime_cudaGetSymbolAddress(void **pointer, const void *symbol)
{
    return runtime_waited(get_address(pointer, symbol));
}

cudaError_t runtime_cudaGetSymbolSize(size_t *size, const void *symbol)
{
    return runtime_waited(get_size(size, symbol));
}

/* The part of the symbol that is meant, or an error. `one_way`: the other kind that is allowed beside device to device
   and default. Where more than one thing is wrong, a blocking call of NVIDIA's runtime looks at the kind last, others
   look at it first. */
static int part(core_context **context, const void *symbol, size_t count, size_t offset, int kind, int one_way,
                bool blocking, void **place)
{
    uint64_t address;
    size_t size;
    int error = runtime_enter(context);
    if (error)
        return error;
    bool contrary = kind != one_way && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault;
    if (contrary && !blocking)
        return cudaErrorInvalidMemcpyDirection;
    if ((error = runtime_symbol(*context, symbol, &address, &size)))
        return error;
    if (offset > size || count > size - offset)
        return cudaErrorInvalidValue;
    *place = (void *)(uintptr_t)(address + offset);
    return contrary ? cudaErrorInvalidMemcpyDirection : cudaSuccess;
}

int runtime_symbol_part(const void *symbol, size_t count, size_t offset, int kind, int one_way, void **place)
{
    core_context *context;
    return part(&context, symbol, count, offset, kind, one_way, false, place);
}

static int copy_to(const void *symbol, const void *from, size_t count, size_t offset, int kind, core_stream stream,
                   bool blocking)
{
    core_context *context;
    void *place;
    if (!count)
        return runtime_enter_unless(true, &context); /* whatever else is said */
    int error = part(&context, symbol, count, offset, kind, cudaMemcpyHostToDevice, blocking, &place);
    return error ? error : runtime_copy(context, stream, place, from, count, kind, blocking);
}

static int copy_from(void *to, const void *symbol, size_t count, size_t offset, int kind, core_stream stream,
                     bool blocking)
{
    core_context *context;
    void *place;
    if (!count)
        return runtime_enter_unless(true, &context);
    int error = part(&context, symbol, count, offset, kind, cudaMemcpyDeviceToHost, blocking, &place);
    return error ? error : runtime_copy(context, stream, to, place, count, kind, blocking);
}

cudaError_t runtime_cudaMemcpyToSymbol(const void *symbol, const void *from, size_t count, size_t offset,
                                       cudaMemcpyKind kind)
{
    return runtime_waited(copy_to(symbol, from, count, offset, kind, 0, true));
}

cudaError_t runtime_cudaMemcpyToSymbol_ptds(const void *symbol, const void *from, size_t count, size_t offset,
                                            cudaMemcpyKind kind)
{
    return runtime_waited(copy_to(symbol, from, count, offset, kind, CORE_STREAM_PER_THREAD, true));
}

cudaError_t runtime_cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t count, size_t offset,
                                            cudaMemcpyKind kind, cudaStream_t stream)
{
    return runtime_return(copy_to(symbol, from, count, offset, kind, stream, false));
}

cudaError_t runtime_cudaMemcpyFromSymbol(void *to, const void *symbol, size_t count, size_t offset, cudaMemcpyKind kind)
{
    return runtime_waited(copy_from(to, symbol, count, offset, kind, 0, true));
}

cudaError_t runtime_cudaMemcpyFromSymbol_ptds(void *to, const void *symbol, size_t count, size_t offset,
                                              cudaMemcpyKind kind)
{
    return runtime_waited(copy_from(to, symbol, count, offset, kind, CORE_STREAM_PER_THREAD, true));
}

cudaError_t runtime_cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t count, size_t offset,
                                              cudaMemcpyKind kind, cudaStream_t stream)
{
    return runtime_return(copy_from(to, symbol, count, offset, kind, stream, false));
}
