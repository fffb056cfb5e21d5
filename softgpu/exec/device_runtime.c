/*
 * device_runtime.c: what libcudadevrt asks of the driver (dynamic parallelism). Programs are linked with the PTX of
 * that library, which calls these functions for launches, streams, events and questions about the device; its copies
 * and memsets are kernels that it launches.
 *
 * Arguments of a launch are written by the kernel into a buffer that it gets first: a slot of the block in a window of
 * the address space of its own. Results are the library's error numbers.
 */
#include "softgpu/exec/access.h"
#include "softgpu/exec/call.h"
#include "softgpu/exec/family.h"

#include <cuda.h>
#include <stdlib.h>

#include "softgpu/memory.h"

enum { FINE, INVALID = 1, INVALID_DEVICE = 3, NO_MEMORY = 4, TOO_DEEP = 5, OUT_OF_RESOURCES = 6, CONFIGURATION = 7,
       NO_SUCH_LIMIT = 13, INVALID_CLUSTER = 14 };
enum { DEEPEST = 24 };
enum { NON_BLOCKING = 1, DISABLE_TIMING = 2 };

/* The entry that a pointer of the kernel names. NULL: none, or one that cannot be executed. */
static sg_kernel *kernel_at(const struct exec_warp *w, uint64_t address)
{
    sg_program *p = w->block->grid->kernel->program;
    uint32_t index = exec_code_index(p, address);
    sg_kernel *k = NULL;
    if (index == UINT32_MAX || !p->module->functions[index].is_entry || !p->module->functions[index].defined)
        return NULL;
    return sg_program_entry(p, index, &k, NULL, 0) ? NULL : k;
}

static void read_dim(struct exec_warp *w, const struct exec_call *c, uint32_t argument, unsigned lane, uint32_t to[3])
{
    const struct exec_value *v = &c->arguments[argument];
    memset(to, 0, 3 * sizeof *to);
    if (argument < c->argument_count && !v->in_row && v->size >= 12)
        exec_local_read(w, lane, w->frame->local_base + v->at, (unsigned char *)to, 12);
}

static bool read_device(struct exec_warp *w, unsigned lane, uint64_t from, void *to, unsigned size)
{
    for (unsigned i = 0; i < size; i += 4) {
        const void *p = exec_address_lane(w, lane, from + i, 4, SG_READ);
        if (!p)
            return false;
        uint32_t v = exec_load32(p);
        memcpy((char *)to + i, &v, 4);
    }
    return true;
}

/* Writes a result of 4 or 8 bytes where the kernel wants it. */
static uint32_t give(struct exec_warp *w, const struct exec_insn *i, unsigned lane, uint64_t address, uint64_t value,
                     unsigned size)
{
    void *p = address ? exec_address_lane(w, lane, address, size, SG_WRITE) : NULL;
    if (!address)
        return INVALID;
    if (!p)
        exec_fault_address(w, i, CUDA_ERROR_ILLEGAL_ADDRESS, "result of a call of the device runtime", lane, address);
    else if (size == 8)
        exec_store64(p, value);
    else
        exec_store32(p, (uint32_t)value);
    return FINE;
}

/* --- launches --- */

static uint64_t buffer_new(struct exec_block *b, sg_kernel *k, const uint32_t grid[3], const uint32_t block[3],
                           uint64_t shared)
{
    struct exec_buffer **slot = k ? exec_buffer_new(b, k) : NULL;
    if (!slot)
        return 0;
    const struct sg_launch *own = &b->grid->launch;
    struct exec_buffer *buffer = *slot;
    buffer->launch = (struct sg_launch){ .kernel = k, .dynamic_shared = shared, .stack = own->stack, .heap = own->heap,
                                         .print = own->print, .attribute = own->attribute, .device = own->device,
                                         .limit_count = own->limit_count,
                                         .graph = own->graph, .launch_graph = own->launch_graph,
                                         .params = buffer->bytes, .params_size = k->ptx->param_size };
    memcpy(buffer->launch.limits, own->limits, sizeof buffer->launch.limits);
    memcpy(buffer->launch.grid, grid, sizeof buffer->launch.grid);
    memcpy(buffer->launch.block, block, sizeof buffer->launch.block);
    return EXEC_WINDOW_BASE(EXEC_WINDOW_LAUNCH) + ((uint64_t)(slot - b->buffers) << EXEC_LAUNCH_SHIFT);
}

static uint32_t check(const struct exec_block *b, const struct sg_launch *l)
{
    const struct sg_limits *limits = &b->grid->engine->limits;
    const struct ptx_function *f = l->kernel->ptx;
    struct sg_kernel_info info;
    uint64_t threads = 1;
    sg_kernel_describe(l->kernel, &info);
    for (int i = 0; i < 3; i++) {
        if (!l->grid[i] || !l->block[i] || l->grid[i] > limits->max_grid[i] || l->block[i] > limits->max_block[i] ||
            (f->req_ntid[0] && l->block[i] != (f->req_ntid[i] ? f->req_ntid[i] : 1)))
            return CONFIGURATION;
        threads *= l->block[i];
    }
    if (threads > limits->max_threads_per_block || l->dynamic_shared > limits->shared_per_block_optin ||
        l->dynamic_shared + info.static_shared > limits->shared_per_block_optin)
        return CONFIGURATION;
    return threads > info.max_threads ? OUT_OF_RESOURCES : FINE;
}

static uint32_t translate(int error)
{
    return error == CUDA_SUCCESS                      ? FINE
           : error == CUDA_ERROR_OUT_OF_MEMORY        ? NO_MEMORY
           : error == CUDA_ERROR_INVALID_CLUSTER_SIZE ? INVALID_CLUSTER
           : error == CUDA_ERROR_INVALID_HANDLE       ? INVALID
           : error == CUDA_ERROR_INVALID_VALUE        ? CONFIGURATION
                                                      : OUT_OF_RESOURCES;
}

static uint32_t launch_buffer(struct exec_block *b, uint64_t address, uint64_t stream)
{
    uint64_t offset = address - EXEC_WINDOW_BASE(EXEC_WINDOW_LAUNCH), slot = offset >> EXEC_LAUNCH_SHIFT;
    if (address >> 32 != EXEC_WINDOW_LAUNCH || slot >= b->buffer_count || !b->buffers[slot])
        return INVALID;
    struct exec_buffer *buffer = b->buffers[slot];
    sg_launch_shape(buffer->launch.kernel->ptx, buffer->launch.grid, buffer->launch.block);
    uint32_t result = b->grid->depth >= DEEPEST ? TOO_DEEP : check(b, &buffer->launch);
    if (result == FINE)
        result = translate(exec_launch_child(b, &buffer->launch, stream));
    free(buffer);
    b->buffers[slot] = NULL;
    return result;
}

/* GetParameterBufferV2(function, grid, block, shared) */
static uint64_t get_buffer2(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    const struct exec_call *c = i->extra;
    uint32_t grid[3], block[3];
    read_dim(w, c, 1, lane, grid);
    read_dim(w, c, 2, lane, block);
    return buffer_new(w->block, kernel_at(w, exec_call_argument(w, c, 0, lane)), grid, block,
                      exec_call_argument(w, c, 3, lane));
}

static uint64_t launch2(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    return launch_buffer(w->block, exec_call_argument(w, i->extra, 0, lane), exec_call_argument(w, i->extra, 1, lane));
}

/* GetParameterBuffer(alignment, size): which kernel it is for comes with the launch, so memory of malloc() holds the
   arguments until then. */
static uint64_t get_buffer1(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    return exec_heap_take(w->block->grid->launch.heap, (uint32_t)exec_call_argument(w, i->extra, 1, lane) + 16);
}

/* LaunchDevice(function, parameters, &grid, &block, shared, stream) */
static uint64_t launch1(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    const struct exec_call *c = i->extra;
    struct exec_block *b = w->block;
    uint32_t grid[3], block[3];
    uint64_t from = exec_call_argument(w, c, 1, lane);
    sg_kernel *k = kernel_at(w, exec_call_argument(w, c, 0, lane));
    if (!k || !read_device(w, lane, exec_call_argument(w, c, 2, lane), grid, sizeof grid) ||
        !read_device(w, lane, exec_call_argument(w, c, 3, lane), block, sizeof block))
        return INVALID;
    uint64_t to = buffer_new(b, k, grid, block, exec_call_argument(w, c, 4, lane));
    if (!to)
        return NO_MEMORY;
    for (size_t at = 0; at < k->ptx->param_size; at++) {
        const void *p = exec_address_lane(w, lane, from + at, 1, SG_READ);
        if (!p)
            return INVALID;
        *(unsigned char *)exec_buffer_address(b, (to & UINT32_MAX) + at, 1) = exec_load8(p);
    }
    if (from)
        exec_heap_give(b->grid->launch.heap, from);
    return launch_buffer(b, to, exec_call_argument(w, c, 5, lane));
}

/* --- streams and events --- */

static uint64_t create(struct exec_warp *w, const struct exec_insn *i, unsigned lane, bool event, uint64_t flags)
{
    sg_grid *g = w->block->grid;
    if (exec_call_argument(w, i->extra, 1, lane) != flags)
        return INVALID;
    pthread_mutex_lock(&g->engine->lock);
    uint64_t handle = exec_family_create(g, event);
    pthread_mutex_unlock(&g->engine->lock);
    return handle ? give(w, i, lane, exec_call_argument(w, i->extra, 0, lane), handle, 8) : NO_MEMORY;
}

static uint64_t destroy(struct exec_warp *w, const struct exec_insn *i, unsigned lane, bool event)
{
    sg_grid *g = w->block->grid;
    pthread_mutex_lock(&g->engine->lock);
    bool found = exec_family_destroy(g, exec_call_argument(w, i->extra, 0, lane), event);
    pthread_mutex_unlock(&g->engine->lock);
    return found ? FINE : INVALID;
}

static uint64_t stream_create(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    return create(w, i, lane, false, NON_BLOCKING);
}
static uint64_t event_create(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    return create(w, i, lane, true, DISABLE_TIMING);
}
static uint64_t stream_destroy(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    return destroy(w, i, lane, false);
}
static uint64_t event_destroy(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    return destroy(w, i, lane, true);
}

static uint64_t order(struct exec_warp *w, const struct exec_insn *i, unsigned lane,
                      enum exec_family (*act)(struct exec_block *, uint64_t, uint64_t))
{
    sg_engine *e = w->block->grid->engine;
    pthread_mutex_lock(&e->lock);
    enum exec_family r =
        act(w->block, exec_call_argument(w, i->extra, 0, lane), exec_call_argument(w, i->extra, 1, lane));
    pthread_mutex_unlock(&e->lock);
    return r == EXEC_FAMILY_FINE ? FINE : r == EXEC_FAMILY_NO_STREAM ? INVALID : NO_MEMORY;
}
static uint64_t event_record(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    return order(w, i, lane, exec_family_record);
}
static uint64_t stream_wait(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    return order(w, i, lane, exec_family_wait);
}

/* --- the last error of a thread: CUDA's numbers --- */

static uint64_t get_error(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    (void)i;
    return w->block->errors ? w->block->errors[w->index * SG_LANES + lane] : 0;
}

static uint64_t set_error(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    struct exec_block *b = w->block;
    uint64_t code = exec_call_argument(w, i->extra, 0, lane);
    if (!b->errors)
        b->errors = calloc(b->warp_count * SG_LANES, sizeof *b->errors);
    if (b->errors)
        b->errors[w->index * SG_LANES + lane] = (uint32_t)code;
    return code;
}

/* --- questions --- */

static uint64_t device_count(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    return give(w, i, lane, exec_call_argument(w, i->extra, 0, lane), 1, 4);
}
static uint64_t device(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    return give(w, i, lane, exec_call_argument(w, i->extra, 0, lane), w->block->grid->engine->ordinal, 4);
}
static uint64_t attribute(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    const struct sg_launch *l = &w->block->grid->launch;
    if (exec_call_argument(w, i->extra, 2, lane) != w->block->grid->engine->ordinal || !l->attribute)
        return INVALID_DEVICE;
    int value = l->attribute(l->device, (int)(uint32_t)exec_call_argument(w, i->extra, 1, lane));
    return give(w, i, lane, exec_call_argument(w, i->extra, 0, lane), (uint32_t)value, 4);
}
static uint64_t limit(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    const struct sg_launch *l = &w->block->grid->launch;
    uint64_t which = exec_call_argument(w, i->extra, 1, lane);
    if (which >= l->limit_count)
        return NO_SUCH_LIMIT;
    return give(w, i, lane, exec_call_argument(w, i->extra, 0, lane), l->limits[which], 8);
}
static uint64_t no_preference(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    return give(w, i, lane, exec_call_argument(w, i->extra, 0, lane), 0, 4);
}
static uint64_t four_byte_banks(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    return give(w, i, lane, exec_call_argument(w, i->extra, 0, lane), 1, 4);
}

/* FuncGetAttribute(to, CUfunction_attribute, function); the caller has cleared the upper half of what is larger. */
static uint64_t function_attribute(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    struct sg_kernel_info info;
    const sg_kernel *k = kernel_at(w, exec_call_argument(w, i->extra, 2, lane));
    if (!k)
        return INVALID;
    sg_kernel_describe(k, &info);
    const uint64_t values[] = { info.max_threads, info.static_shared, info.const_bytes,   info.stack_bytes,
                                info.registers,   info.ptx_version,   info.binary_version };
    uint64_t which = exec_call_argument(w, i->extra, 1, lane);
    if (which >= sizeof values / sizeof *values)
        return INVALID;
    return give(w, i, lane, exec_call_argument(w, i->extra, 0, lane), values[which], 4);
}

/* MaxActiveBlocksPerMultiprocessor…(to, function, block size, dynamic shared memory, flags) */
static uint64_t occupancy(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    const sg_kernel *k = kernel_at(w, exec_call_argument(w, i->extra, 1, lane));
    if (!k)
        return INVALID;
    unsigned n = sg_occupancy(&w->block->grid->engine->limits, k, (uint32_t)exec_call_argument(w, i->extra, 2, lane),
                              exec_call_argument(w, i->extra, 3, lane));
    return give(w, i, lane, exec_call_argument(w, i->extra, 0, lane), n, 4);
}

/* --- the table --- */

typedef uint64_t one_lane(struct exec_warp *, const struct exec_insn *, unsigned lane);

static void run_each(struct exec_warp *w, const struct exec_insn *i, one_lane *one)
{
    for (uint32_t m = w->mask; m && !w->block->failed; m &= m - 1) {
        unsigned lane = (unsigned)__builtin_ctz(m);
        exec_call_result(w, i->extra, 0, lane, one(w, i, lane));
    }
}

#define CALLS(call)                                                                                                \
    call(DeviceGetAttribute, attribute) call(EventCreate, event_create) call(EventDestroy, event_destroy)          \
    call(EventRecord, event_record) call(FuncGetAttribute, function_attribute) call(GetCacheConfig, no_preference) \
    call(GetDevice, device) call(GetDeviceCount, device_count) call(GetLastError, get_error)                       \
    call(GetLimit, limit) call(GetParameterBuffer, get_buffer1) call(GetParameterBufferV2, get_buffer2)            \
    call(GetSharedMemConfig, four_byte_banks) call(LaunchDevice, launch1) call(LaunchDeviceV2, launch2)            \
    call(MaxActiveBlocksPerMultiprocessor, occupancy) call(MaxActiveBlocksPerMultiprocessorWithFlags, occupancy)   \
    call(SetLastError, set_error) call(StreamCreate, stream_create) call(StreamDestroy, stream_destroy)            \
    call(StreamWaitEvent, stream_wait)

#define HANDLER(name, one) \
    static void run_##name(struct exec_warp *w, const struct exec_insn *i) { run_each(w, i, one); }
CALLS(HANDLER)

exec_handler *exec_runtime_find(const char *name)
{
#define ROW(name, one) { "__cuda_syscall_cnpv2" #name, run_##name },
    static const struct { const char *name; exec_handler *run; } table[] = { CALLS(ROW) };
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (!strcmp(table[k].name, name))
            return table[k].run;
    return NULL;
}
