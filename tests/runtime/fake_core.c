/*
 * fake_core.c: see fake_core.h. Device memory is a range without access rights (so that whoever follows a device
 * address crashes) in front of a shadow that holds the bytes.
 */
#include "tests/runtime/fake_core.h"

#include "cpu/client/managed/managed.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

_Thread_local core_context *core_current;
atomic_bool core_initialised;

static struct fake_core fake;
struct core_context { int device; bool active; unsigned flags; };
static core_context contexts[FAKE_DEVICES];
static char *window, *shadow;
static size_t used;

enum { RANGES = 64 };
static struct core_range ranges[RANGES];

struct core_image { const void *wrapper; };
struct core_function { core_image *image; char name[64]; };
struct core_variable { core_image *image; char name[64]; size_t size; uint64_t address; };
static struct core_function functions[FAKE_NAMES];
static struct core_variable variables[FAKE_NAMES];
static struct core_stream_info streams[FAKE_STREAMS];
static bool stream_alive[FAKE_STREAMS];
static int events_alive;

struct fake_core *fake_core(void) { return &fake; }

void fake_core_reset(void)
{
    memset(&fake, 0, sizeof fake);
    core_current = NULL;
    for (int i = 0; i < FAKE_DEVICES; i++)
        contexts[i] = (core_context){.device = i};
    memset(ranges, 0, sizeof ranges);
    memset(functions, 0, sizeof functions);
    memset(variables, 0, sizeof variables);
    memset(stream_alive, 0, sizeof stream_alive);
    fake.device_count = FAKE_DEVICES;
    used = 0;
}

/* One error, once, for the next call that asks. */
static int answer(const char *call)
{
    fake.last_call = call;
    if (fake.sticky)
        return fake.sticky;
    int error = fake.next_error;
    fake.next_error = 0;
    return error;
}

static pthread_once_t window_once = PTHREAD_ONCE_INIT;

static void window_make(void)
{
    window = mmap(NULL, FAKE_MEMORY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    shadow = mmap(NULL, FAKE_MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (window == MAP_FAILED || shadow == MAP_FAILED)
        abort();
}

int core_attach(void)
{
    if (getenv("FAKE_CORE_TRACE"))
        fprintf(stderr, "attached\n");
    if (fake.forked)
        return CORE_NOT_INITIALIZED;
    if (fake.attach_error)
        return fake.attach_error;
    /* any thread may be the first, as with the real core */
    __atomic_fetch_add(&fake.attached, 1, __ATOMIC_RELAXED);
    pthread_once(&window_once, window_make);
    return CORE_OK;
}

int core_attach_to_use(void) { return core_attach(); }
bool core_forked(void) { return fake.forked; }
int core_sticky(void) { return fake.sticky; }
int core_take_latched(void)
{
    int error = fake.latched;
    fake.latched = 0;
    return error;
}
void core_count_local(void) { __atomic_fetch_add(&fake.local_calls, 1, __ATOMIC_RELAXED); }
void core_statistics(struct core_statistics *statistics) { memset(statistics, 0, sizeof *statistics); }

int core_device_count(int *count) { return *count = fake.device_count, CORE_OK; }
int core_driver_version(int *version) { return *version = 13010, CORE_OK; }
const struct core_device *core_device(int device)
{
    static const struct core_device devices[FAKE_DEVICES] = {
        {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, "Fake GPU", "0000:01:00.0", FAKE_MEMORY, 0, -5},
        {{2}, "Fake GPU", "0000:0A:00.0", FAKE_MEMORY, 0, -5},
    };
    return device >= 0 && device < fake.device_count ? &devices[device] : NULL;
}
/* Attribute n is 1000 + n, except where the runtime computes with it. */
int core_device_attribute(int device, int attribute, int *value)
{
    fake.attributes_read++;
    if (device < 0 || device >= fake.device_count)
        return CORE_INVALID_DEVICE;
    if (attribute < 1 || attribute > 147)
        return CORE_INVALID_VALUE;
    static const int small[] = {0, 1024, 1024, 1024, 64, INT32_MAX, 65535, 65535};
    *value = attribute < 8 ? small[attribute] : attribute == 11 ? INT32_MAX : 1000 + attribute;
    return CORE_OK;
}
core_context *core_context_primary(int device)
{
    return device >= 0 && device < fake.device_count ? &contexts[device] : NULL;
}
int core_context_retain(core_context *context)
{
    int error = answer(__func__);
    if (!error)
        context->active = true, fake.activations++;
    return error;
}
int core_context_release(core_context *context) { return (void)context, answer(__func__); }
bool core_context_active(const core_context *context) { return context && !fake.forked && context->active; }
int core_context_enter(const core_context *context)
{
    if (fake.forked)
        return CORE_NOT_INITIALIZED;
    return fake.sticky ? fake.sticky : context->active ? CORE_OK : CORE_CONTEXT_DESTROYED;
}
int core_context_reset(core_context *context)
{
    context->active = false;
    fake.resets++;
    return answer(__func__);
}
int core_context_info(core_context *context, struct core_context_info *out)
{
    *out = (struct core_context_info){.device = context->device, .flags = context->flags, .primary = true,
                                      .active = context->active};
    return CORE_OK;
}
int core_context_set_flags(core_context *context, unsigned flags) { return context->flags = flags, CORE_OK; }
int core_context_synchronize(core_context *context)
{
    (void)context;
    fake.synchronisations++;
    return answer(__func__);
}
int core_ctx_reset_persisting_l2cache(core_context *context)
{
    (void)context;
    return answer("persisting");
}
int core_ctx_get_limit(core_context *context, size_t *value, int limit)
{
    return (void)context, *value = 100 + (size_t)limit, answer(__func__);
}
int core_limit_set(core_context *context, int limit, size_t value)
{
    return (void)context, (void)limit, (void)value, answer(__func__);
}

/* ---- memory ---- */

int core_memory_info(core_context *context, size_t *free_bytes, size_t *total)
{
    (void)context;
    *free_bytes = FAKE_MEMORY - used, *total = FAKE_MEMORY;
    return answer(__func__);
}

static struct core_range *range_add(enum core_memory_kind kind, core_context *owner, uint64_t base, size_t size,
                                    unsigned flags)
{
    for (int i = 0; i < RANGES; i++)
        if (ranges[i].kind == CORE_UNKNOWN_MEMORY) {
            ranges[i] = (struct core_range){kind, owner, owner ? owner->device : -1, base, size, flags, 0, false};
            return &ranges[i];
        }
    abort();
}

static struct core_range *range_at(uint64_t address)
{
    for (int i = 0; i < RANGES; i++)
        if (ranges[i].kind != CORE_UNKNOWN_MEMORY && address >= ranges[i].base &&
            address - ranges[i].base < ranges[i].size)
            return &ranges[i];
    return NULL;
}

int core_memory_allocate(core_context *context, size_t size, uint64_t *address)
{
    int error = answer(__func__);
    if (error)
        return error;
    if (size > FAKE_MEMORY - used)
        return CORE_OUT_OF_MEMORY;
    *address = (uint64_t)(uintptr_t)window + used;
    range_add(CORE_DEVICE_MEMORY, context, *address, size, 0);
    used += (size + 255) / 256 * 256;
    return CORE_OK;
}

static int range_remove(uint64_t address, enum core_memory_kind kind, int error)
{
    struct core_range *range = range_at(address);
    if (!range || range->base != address || range->kind != kind)
        return error;
    range->kind = CORE_UNKNOWN_MEMORY;
    return answer(__func__);
}

int core_memory_free(uint64_t address) { return range_remove(address, CORE_DEVICE_MEMORY, CORE_INVALID_VALUE); }

/* Memory behind addresses: there is always some, but what core_handle_create is told to answer is answered. */
enum { FAKE_GRANULARITY = 4096 };
int core_memory_granularity(size_t *bytes) { return *bytes = FAKE_GRANULARITY, CORE_OK; }
int core_reservation_note(int device, size_t size, uint64_t *address)
{
    (void)device;
    return core_memory_allocate(NULL, size, address);
}
int core_reservation_free(uint64_t address, size_t size)
{
    (void)size;
    return core_memory_free(address);
}
int core_handle_create(int device, size_t size, bool shared, core_handle *handle)
{
    (void)shared;
    *handle = (core_handle)device + size;
    return answer(__func__);
}
int core_handle_release(core_handle handle) { return handle ? answer(__func__) : CORE_INVALID_VALUE; }
int core_handle_map(uint64_t address, size_t size, core_handle handle)
{
    (void)size;
    return address && handle ? answer(__func__) : CORE_INVALID_VALUE;
}
int core_handle_unmap(uint64_t address, size_t size)
{
    (void)size;
    return address ? answer(__func__) : CORE_INVALID_VALUE;
}
int core_access_set(uint64_t address, size_t size, int device, unsigned access)
{
    (void)size;
    (void)device;
    (void)access;
    return address ? answer(__func__) : CORE_INVALID_VALUE;
}

/* Pools: their tokens are numbers from 1 on; the first ones are the devices' own. */
int core_pool_default(int device, core_pool *pool) { return *pool = (core_pool)device + 1, answer(__func__); }
int core_pool_current(int device, core_pool *pool) { return *pool = (core_pool)device + 1, answer(__func__); }
int core_pool_set_current(int device, core_pool pool)
{
    (void)device;
    return pool ? answer(__func__) : CORE_INVALID_VALUE;
}
int core_pool_create(int device, uint64_t most, bool shared, core_pool *pool)
{
    (void)most;
    (void)shared;
    *pool = (core_pool)device + 100;
    return answer(__func__);
}
int core_pool_export(core_pool pool, int *fd) { return *fd = 100, pool ? answer(__func__) : CORE_INVALID_VALUE; }
int core_pool_import(int fd, core_pool *pool) { return *pool = (core_pool)fd + 100, answer(__func__); }
int core_pool_pointer_export(uint64_t address, void *data)
{
    memset(data, 0, CORE_IPC_SIZE);
    return address ? answer(__func__) : CORE_INVALID_VALUE;
}
int core_pool_pointer_import(core_pool pool, const void *data, uint64_t *address)
{
    (void)pool, (void)data;
    return *address = 4096, answer(__func__);
}
int core_share_check(void) { return answer(__func__); }
int core_ipc_memory_get(uint64_t address, void *handle)
{
    memset(handle, 0, CORE_IPC_SIZE);
    return address ? answer(__func__) : CORE_INVALID_VALUE;
}
int core_ipc_memory_open(core_context *context, const void *handle, uint64_t *address)
{
    (void)context, (void)handle;
    return *address = 4096, answer(__func__);
}
int core_ipc_memory_close(uint64_t address) { return address ? answer(__func__) : CORE_INVALID_VALUE; }
int core_ipc_event_get(core_event event, void *handle)
{
    memset(handle, 0, CORE_IPC_SIZE);
    return event ? answer(__func__) : CORE_INVALID_HANDLE;
}
int core_ipc_event_open(core_context *context, const void *handle, core_event *event)
{
    (void)context, (void)handle;
    return *event = 1, answer(__func__);
}
int core_pool_destroy(core_pool pool) { return pool >= 100 ? answer(__func__) : CORE_INVALID_VALUE; }
int core_pool_trim(core_pool pool, uint64_t keep)
{
    (void)keep;
    return pool ? answer(__func__) : CORE_INVALID_VALUE;
}
int core_pool_get(core_pool pool, enum core_pool_attribute attribute, uint64_t *value)
{
    *value = (uint64_t)attribute;
    return pool ? answer(__func__) : CORE_INVALID_VALUE;
}
int core_pool_set(core_pool pool, enum core_pool_attribute attribute, uint64_t value)
{
    (void)attribute;
    fake.pool_value = value;
    return pool ? answer(__func__) : CORE_INVALID_VALUE;
}
int core_pool_access_set(core_pool pool, int device, unsigned access)
{
    (void)device, (void)access;
    return pool ? answer(__func__) : CORE_INVALID_VALUE;
}
int core_device_can_access_peer(int *can, int device, int peer) { return *can = device != peer, answer(__func__); }
int core_device_get_p2p_attribute(int *value, int attribute, int source, int target)
{
    (void)source, (void)target;
    return *value = attribute, answer(__func__);
}
static bool reaches;
static int change(core_context *context, core_context *peer, bool may)
{
    if (context == peer)
        return may ? CORE_INVALID_DEVICE : CORE_PEER_ACCESS_NOT_ENABLED;
    if (reaches == may)
        return may ? CORE_PEER_ACCESS_ALREADY_ENABLED : CORE_PEER_ACCESS_NOT_ENABLED;
    reaches = may;
    return CORE_OK;
}
int core_peer_enable(core_context *context, core_context *peer) { return change(context, peer, true); }
int core_peer_disable(core_context *context, core_context *peer) { return change(context, peer, false); }
int core_pool_access_get(core_pool pool, int device, unsigned *access)
{
    (void)device;
    *access = 3;
    return pool ? answer(__func__) : CORE_INVALID_VALUE;
}
int core_pool_allocate(core_context *context, core_stream stream, core_pool pool, size_t size, uint64_t *address)
{
    (void)stream, (void)pool;
    return core_memory_allocate(context, size, address);
}
int core_pool_free(core_context *context, core_stream stream, uint64_t address)
{
    (void)context, (void)stream;
    return core_memory_free(address);
}

int core_host_allocate(size_t size, unsigned flags, void **out)
{
    *out = malloc(size);
    range_add(CORE_PINNED_MEMORY, NULL, (uint64_t)(uintptr_t)*out, size, flags);
    return answer(__func__);
}
int core_host_free(void *pointer)
{
    int error = range_remove((uint64_t)(uintptr_t)pointer, CORE_PINNED_MEMORY, CORE_INVALID_VALUE);
    if (!error)
        free(pointer);
    return error;
}
int core_host_register(void *pointer, size_t size, unsigned flags)
{
    if (range_at((uint64_t)(uintptr_t)pointer))
        return CORE_HOST_ALREADY_REGISTERED;
    range_add(CORE_REGISTERED_MEMORY, NULL, (uint64_t)(uintptr_t)pointer, size, flags);
    return answer(__func__);
}
int core_host_unregister(void *pointer)
{
    return range_remove((uint64_t)(uintptr_t)pointer, CORE_REGISTERED_MEMORY, CORE_HOST_NOT_REGISTERED);
}
int core_host_device_pointer(void *host, uint64_t *address)
{
    return *address = (uint64_t)(uintptr_t)host, fake.host_mapping_error;
}
int core_host_flags(void *host, unsigned *flags)
{
    const struct core_range *range = range_at((uint64_t)(uintptr_t)host);
    if (!range)
        return CORE_INVALID_VALUE;
    *flags = range->flags;
    return CORE_OK;
}
bool core_address_lookup(uint64_t address, struct core_range *out)
{
    const struct core_range *range = range_at(address);
    if (range)
        *out = *range;
    return range != NULL;
}

/* ---- copies ---- */

static char *bytes(uint64_t address, size_t size)
{
    const struct core_range *range = range_at(address);
    if (!range || range->kind != CORE_DEVICE_MEMORY || size > range->size - (address - range->base))
        return NULL;
    return shadow + (address - (uint64_t)(uintptr_t)window);
}

static int note(const char *call, core_stream stream, bool blocking)
{
    fake.stream = stream;
    fake.blocking = blocking;
    return answer(call);
}

/* Where the bytes of one row are: the device's in their shadow, all others at their own address. NULL: nowhere. */
static char *row_at(const struct core_box *box, size_t y, size_t z, size_t width)
{
    uint64_t address = box->address + (z * box->height + y) * box->pitch;
    const struct core_range *range = range_at(address);
    return range && range->kind == CORE_DEVICE_MEMORY ? bytes(address, width) : (char *)(uintptr_t)address;
}

int core_copy_box(core_context *context, core_stream stream, const struct core_box *to, const struct core_box *from,
                  const struct core_extent *extent, enum core_direction direction, bool blocking)
{
    (void)context, (void)direction;
    int error = note(__func__, stream, blocking);
    for (size_t z = 0; extent->width && !error && z < extent->depth; z++)
        for (size_t y = 0; !error && y < extent->height; y++) {
            char *target = row_at(to, y, z, extent->width), *source = row_at(from, y, z, extent->width);
            if (!target || !source)
                return CORE_INVALID_VALUE;
            memmove(target, source, extent->width);
        }
    return error;
}
int core_copy_check(const void *to, const void *from, enum core_direction direction)
{
    (void)direction;
    return to && from ? CORE_OK : CORE_INVALID_VALUE;
}
int core_copy(core_context *context, core_stream stream, void *to, const void *from, size_t size,
              enum core_direction direction, bool blocking)
{
    const struct core_box target = { (uint64_t)(uintptr_t)to, size, 1 };
    const struct core_box source = { (uint64_t)(uintptr_t)from, size, 1 };
    return core_copy_box(context, stream, &target, &source, &(struct core_extent){ size, 1, 1 }, direction, blocking);
}
int core_prefetch(core_context *context, core_stream stream, uint64_t address, size_t size, int device)
{
    int error = note(__func__, stream, false);
    return (void)context, (void)size, (void)device, error ? error : range_at(address) ? CORE_INVALID_VALUE : CORE_OK;
}
int core_graph_begins(core_context *context, core_stream stream) { return (void)context, (void)stream, CORE_OK; }
int core_managed_allocate(core_context *context, size_t size, unsigned flags, uint64_t *address)
{
    return flags == MANAGED_GLOBAL ? core_memory_allocate(context, size, address) : CORE_INVALID_VALUE;
}
int core_managed_attach(core_context *context, core_stream stream, uint64_t address, size_t size, unsigned flags)
{
    return (void)context, (void)address, (void)size, (void)flags, note(__func__, stream, false);
}
int core_managed_advise(uint64_t address, size_t size, enum managed_advice advice, int device)
{
    return (void)address, (void)size, (void)advice, (void)device, answer(__func__);
}
int core_managed_attribute(uint64_t address, size_t size, int attribute, void *data, size_t data_size)
{
    (void)address, (void)size;
    memset(data, attribute, data_size);
    return answer(__func__);
}
int core_set(core_context *context, core_stream stream, const struct core_box *to, const struct core_extent *extent,
             uint32_t value, unsigned element, bool blocking)
{
    int error = note(__func__, stream, blocking);
    (void)context;
    for (size_t z = 0; !error && z < extent->depth; z++)
        for (size_t y = 0; !error && y < extent->height; y++) {
            char *row = bytes(to->address + (z * to->height + y) * to->pitch, extent->width * element);
            if (row)
                memset(row, (int)value, extent->width * element);
            else
                error = CORE_INVALID_VALUE;
        }
    return error;
}

/* ---- streams and events ---- */

static bool stream_known(core_stream stream)
{
    return stream < FAKE_STREAMS && (stream <= CORE_STREAM_PER_THREAD || stream_alive[stream]);
}

int core_stream_create(core_context *context, unsigned flags, int priority, core_stream *out)
{
    int error = answer(__func__);
    for (core_stream i = CORE_STREAM_PER_THREAD + 1; !error && i < FAKE_STREAMS; i++)
        if (!stream_alive[i]) {
            stream_alive[i] = true;
            streams[i] = (struct core_stream_info){context, context->device, flags, priority, i + 100};
            *out = i;
            return CORE_OK;
        }
    return error ? error : CORE_OUT_OF_MEMORY;
}
int core_stream_destroy(core_stream stream)
{
    if (!stream_known(stream))
        return CORE_INVALID_HANDLE;
    stream_alive[stream] = false;
    return answer(__func__);
}
int core_stream_synchronize(core_context *context, core_stream stream)
{
    if (getenv("FAKE_CORE_TRACE"))
        fprintf(stderr, "synchronised\n");
    return (void)context, stream_known(stream) ? note(__func__, stream, true) : CORE_INVALID_HANDLE;
}
int core_stream_query(core_context *context, core_stream stream)
{
    return (void)context, stream_known(stream) ? note(__func__, stream, false) : CORE_INVALID_HANDLE;
}
int core_stream_info(core_context *context, core_stream stream, struct core_stream_info *out)
{
    if (!stream_known(stream))
        return CORE_INVALID_HANDLE;
    fake.stream = stream;
    *out = stream <= CORE_STREAM_PER_THREAD ? (struct core_stream_info){context, context->device, 0, 0,
                                                                        stream} : streams[stream];
    return CORE_OK;
}
int core_event_create(core_context *context, unsigned flags, core_event *event)
{
    (void)context, (void)flags;
    *event = 500 + (core_event)++events_alive;
    return answer(__func__);
}
int core_event_destroy(core_event event) { return event > 500 && event < 600 ? answer(__func__) : CORE_INVALID_HANDLE; }
int core_event_check(core_event event) { return event > 500 && event < 600 ? CORE_OK : CORE_INVALID_HANDLE; }
/* Graphs (cpu/client/graph) are linked in as they are. This is what they ask of the core's inside. */
unsigned pending_writers(void);
unsigned pending_writers(void) { return 0; }
int core_event_record(core_context *context, core_event event, core_stream stream, unsigned flags)
{
    (void)context, (void)flags;
    return event > 500 && event < 600 && stream_known(stream) ? note(__func__, stream, false) : CORE_INVALID_HANDLE;
}
int core_event_synchronize(core_event event)
{
    return event > 500 && event < 600 ? answer(__func__) : CORE_INVALID_HANDLE;
}
int core_event_query(core_event event) { return event > 500 && event < 600 ? answer(__func__) : CORE_INVALID_HANDLE; }
int core_event_elapsed(core_event start, core_event end, float *milliseconds)
{
    return (void)start, (void)end, *milliseconds = 1.5f, answer(__func__);
}
int core_stream_wait(core_context *context, core_stream stream, core_event event, unsigned flags)
{
    (void)context, (void)event, (void)flags;
    return stream_known(stream) ? note(__func__, stream, false) : CORE_INVALID_HANDLE;
}
int core_occupancy_clusters(core_context *c, const struct core_launch *launch, bool size, int *answer)
{
    (void)c, (void)launch, (void)size, (void)answer;
    return CORE_NOT_SUPPORTED;
}
uint64_t core_changes(void) { return 0; }
int core_sequence_create(core_sequence **out)
{
    (void)out;
    return CORE_NOT_SUPPORTED;
}
void core_sequence_destroy(core_sequence *q) { (void)q; }
int core_sequence_begin(core_sequence *q, core_context *c, const core_stream *of, unsigned count, core_stream *out)
{
    (void)q, (void)c, (void)of, (void)count, (void)out;
    return CORE_NOT_SUPPORTED;
}
uint32_t core_sequence_mark(const core_sequence *q)
{
    (void)q;
    return 0;
}
bool core_sequence_kept(core_sequence *q, uint32_t mark)
{
    (void)q, (void)mark;
    return false;
}
bool core_sequence_cut(core_sequence *q)
{
    (void)q;
    return false;
}
int core_sequence_end(core_sequence *q, bool good)
{
    (void)q, (void)good;
    return CORE_NOT_SUPPORTED;
}
int core_sequence_launch(core_sequence *q, core_context *c, core_stream stream, unsigned segment)
{
    (void)q, (void)c, (void)stream, (void)segment;
    return CORE_NOT_SUPPORTED;
}
int core_values_check(core_context *c, const struct core_value *list, unsigned count)
{
    (void)c, (void)list;
    return count ? CORE_OK : CORE_INVALID_VALUE;
}
int core_values(core_context *c, core_stream stream, const struct core_value *list, unsigned count)
{
    (void)c, (void)list, (void)count;
    return note("core_values", stream, false);
}
/* A condition notes where it was given; what its bodies have is noted as given to the stream below. */
enum { INNER_STREAM = 77 };
static int conditions;
int core_condition_offered(void) { return CORE_OK; }
int core_condition_create(core_context *c, uint64_t word, enum core_condition_kind kind, core_condition **out,
                          core_stream *stand_in)
{
    (void)c, (void)word, (void)kind;
    *out = (core_condition *)(void *)&conditions;
    *stand_in = INNER_STREAM;
    return CORE_OK;
}
int core_condition_body(core_condition *q)
{
    (void)q;
    return note("core_condition_body", INNER_STREAM, false);
}
int core_condition_submit(core_condition *q, core_context *c, core_stream stream)
{
    (void)q, (void)c;
    return note("core_condition", stream, false);
}
void core_condition_destroy(core_condition *q) { (void)q; }
bool core_in_host_function(void) { return false; }
/* Its turn comes at once. */
int core_copy_box_deferred(core_context *context, core_stream stream, const struct core_box *to,
                           const struct core_box *from, const struct core_extent *extent, enum core_direction direction)
{
    int error = note("core_host_function", stream, false);
    if (!error && !fake.latched)
        fake.latched = core_copy_box(context, stream, to, from, extent, direction, true);
    return error;
}

int core_host_function(core_context *context, core_stream stream, void (*function)(void *, int), void *user,
                       bool on_error)
{
    (void)context;
    int status = fake.latched;
    int error = note(__func__, stream, false);
    if (!error && (!status || on_error))
        function(user, status);
    return error;
}

/* ---- code ---- */

int core_image_add(const void *wrapper, core_image **image)
{
    *image = malloc(sizeof **image);
    (*image)->wrapper = wrapper;
    fake.images++;
    return CORE_OK;
}
void core_image_remove(core_image *image)
{
    fake.images_removed++;
    for (int i = 0; i < FAKE_NAMES; i++) {
        if (functions[i].image == image)
            functions[i].image = NULL;
        if (variables[i].image == image)
            variables[i].image = NULL;
    }
    free(image);
}
int core_function_add(core_image *image, const char *name, core_function **out)
{
    int empty = -1;
    for (int i = 0; i < FAKE_NAMES; i++) {
        if (functions[i].image == image && strcmp(functions[i].name, name) == 0)
            return *out = &functions[i], CORE_OK;
        if (!functions[i].image)
            empty = i;
    }
    if (empty < 0)
        return CORE_OUT_OF_MEMORY;
    functions[empty].image = image;
    snprintf(functions[empty].name, sizeof functions[empty].name, "%s", name);
    return *out = &functions[empty], CORE_OK;
}
/* Streams have no attributes here. */
atomic_bool core_stream_attributes_set;

int core_stream_get_attribute(core_context *c, core_stream stream, int id, void *value)
{
    (void)c, (void)stream, (void)id, (void)value;
    return CORE_INVALID_VALUE;
}

int core_stream_set_attribute(core_context *c, core_stream stream, int id, const void *value)
{
    (void)c, (void)stream, (void)id, (void)value;
    return CORE_INVALID_VALUE;
}

int core_stream_copy_attributes(core_context *c, core_stream to, core_stream from)
{
    (void)c, (void)to, (void)from;
    return CORE_INVALID_VALUE;
}

int core_stream_attributes_add(core_context *c, struct core_launch *l,
                               struct core_launch_attribute room[CORE_LAUNCH_ATTRIBUTES])
{
    (void)c, (void)l, (void)room;
    return CORE_OK;
}

/* There are no libraries here (tests/conformance has them), so no handle is a library's kernel. */
int core_function_check(const core_function *function, core_image **image, const char **name)
{
    (void)function, (void)image, (void)name;
    return CORE_INVALID_HANDLE;
}

int core_function_find(core_context *c, core_image *image, const char *name, core_function **out)
{
    (void)c;
    return core_function_add(image, name, out);
}

int core_image_list(core_context *c, core_image *image, core_function **get, unsigned *count)
{
    (void)c, (void)image, (void)get, (void)count;
    return CORE_NOT_SUPPORTED;
}

int core_library_load(const void *code, bool preserved, core_library **out)
{
    (void)code, (void)preserved, (void)out;
    return CORE_NOT_SUPPORTED;
}

int core_library_load_file(const char *path, core_library **out)
{
    (void)path, (void)out;
    return CORE_NOT_SUPPORTED;
}

int core_library_unload(core_library *library)
{
    (void)library;
    return CORE_INVALID_HANDLE;
}

core_image *core_library_image(const core_library *library)
{
    (void)library;
    return NULL;
}

int core_variable_add(core_image *image, const char *name, size_t size, bool is_constant, core_variable **out)
{
    (void)is_constant;
    for (int i = 0; i < FAKE_NAMES; i++)
        if (!variables[i].image) {
            variables[i].image = image;
            variables[i].size = size;
            variables[i].address = 0;
            snprintf(variables[i].name, sizeof variables[i].name, "%s", name);
            return *out = &variables[i], CORE_OK;
        }
    return CORE_OUT_OF_MEMORY;
}
int core_function_info(core_context *context, core_function *function, const struct core_function_info **out)
{
    static const struct core_parameter parameters[] = {{0, 8}, {8, 4}};
    static const struct core_function_info info = {
        .parameters = parameters,
        .parameter_count = 2,
        .parameter_bytes = 12,
        .max_threads = 512,
        .shared_bytes = 1,
        .const_bytes = 2,
        .local_bytes = 3,
        .registers = 40,
        .ptx_version = 90,
        .binary_version = 121,
        .cache_mode_ca = 1,
        .max_dynamic_shared = 49152,
        .preferred_carveout = -1,
        .cluster_must_be_set = 5,
        .cluster_width = 6,
        .cluster_height = 7,
        .cluster_depth = 8,
        .non_portable_cluster = 9,
    };
    (void)context, (void)function;
    int error = answer(__func__);
    if (!error)
        *out = &info;
    return error;
}
int core_function_set(core_context *context, core_function *function, int attribute, int value)
{
    (void)context, (void)function;
    fake.attributes_set = attribute;
    fake.attribute_value = value;
    return answer(__func__);
}
int core_func_set_cache_config(core_context *context, core_function *function, int config)
{
    return (void)context, (void)function, (void)config, answer(__func__);
}
int core_variable_address(core_context *context, core_variable *variable, uint64_t *address, size_t *size)
{
    if (strncmp(variable->name, "missing", 7) == 0)
        return CORE_NOT_FOUND;
    if (!variable->address) {
        int error = core_memory_allocate(context, variable->size, &variable->address);
        if (error)
            return error;
    }
    *address = variable->address;
    *size = variable->size;
    return answer(__func__);
}
int core_occupancy_blocks(core_context *context, core_function *function, int block_size, size_t shared, unsigned flags,
                          int *blocks)
{
    (void)context, (void)function, (void)shared, (void)flags;
    *blocks = 1536 / block_size;
    return answer(__func__);
}
int core_occupancy_available_dynamic_smem_per_block(core_context *context, size_t *shared, core_function *function,
                                                    int blocks, int block_size)
{
    (void)context, (void)function, (void)block_size;
    *shared = 100000 / (size_t)blocks;
    return answer(__func__);
}
int core_launch_check(core_context *context, const struct core_launch *launch)
{
    return (void)launch, context->active ? CORE_OK : CORE_CONTEXT_DESTROYED;
}
int core_launch(core_context *context, const struct core_launch *launch)
{
    int error = context->active ? note(__func__, launch->stream, false) : CORE_CONTEXT_DESTROYED;
    if (error)
        return error;
    fake.launch = *launch;
    fake.launch_device = context->device;
    fake.launches++;
    snprintf(fake.launch_name, sizeof fake.launch_name, "%s", launch->function->name);
    return CORE_OK;
}

void core_unsupported(const char *name)
{
    snprintf(fake.unsupported, sizeof fake.unsupported, "%s", name);
    fake.unsupported_count++;
}

__attribute__((constructor)) static void begin(void)
{
    const char *error = getenv("FAKE_CORE_ATTACH_ERROR");
    fake_core_reset();
    fake.attach_error = error ? atoi(error) : 0;
}
