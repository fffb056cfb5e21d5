/*
 * staging.c: pinned memory of the host as a buffer. The GPU server carries collectives out on device memory: in the
 * operation's stream a buffer of the device's takes the place of the program's, gets its bytes before the operation,
 * and gives them back behind it. The same in a captured stream, where all of that becomes nodes.
 */
#include "cpu/client/graph/capture.h"
#include "cpu/client/nccl/nccl.h"

static int allocate(core_context *context, core_stream stream, uint64_t size, uint64_t *address)
{
    bool kept = false;
    int code = capture_any() ? capture_allocate(context, stream, 0, size, address, &kept) : CORE_OK;
    return kept ? code : core_pool_allocate(context, stream, 0, size, address);
}

static int release(core_context *context, core_stream stream, uint64_t address)
{
    bool kept = false;
    int code = capture_any() ? capture_free(context, stream, address, &kept) : CORE_OK;
    return kept ? code : core_pool_free(context, stream, address);
}

static void *pointer(uint64_t address) { return (void *)(uintptr_t)address; }

int nccl_stage_begin(core_context *context, core_stream stream, uint64_t *address, uint64_t size, bool read)
{
    struct core_range range;
    const uint64_t host = core_host_behind(*address);
    if (!size || !core_address_lookup(host, &range) || range.kind == CORE_DEVICE_MEMORY)
        return CORE_OK;
    uint64_t device;
    int code = allocate(context, stream, size, &device);
    if (!code && read)
        code = issue_copy(context, stream, pointer(device), pointer(host), size, CORE_HOST_TO_DEVICE, false);
    if (!code)
        *address = device;
    return code;
}

int nccl_stage_end(core_context *context, core_stream stream, uint64_t program, uint64_t staged, uint64_t size,
                   bool written)
{
    if (program == staged)
        return CORE_OK;
    int code = CORE_OK;
    if (written)
        code = issue_copy(context, stream, pointer(core_host_behind(program)), pointer(staged), size,
                          CORE_DEVICE_TO_HOST, false);
    int freed = release(context, stream, staged);
    return code ? code : freed;
}
