/*
 * fake_memory.c: memory, pools and copies of the core without a server. Device memory is a range without access rights
 * (so that whoever follows a device address crashes) in front of a shadow that holds the bytes.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cpu/client/managed/managed.h"
#include "tests/runtime/fake_state.h"

static char *window, *shadow;
static size_t used;

enum { RANGES = 64 };
static struct core_range ranges[RANGES];

static pthread_once_t window_once = PTHREAD_ONCE_INIT;

static void window_make(void)
{
    window = mmap(NULL, FAKE_MEMORY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    shadow = mmap(NULL, FAKE_MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (window == MAP_FAILED || shadow == MAP_FAILED)
        abort();
}

void fake_memory_open(void) { pthread_once(&window_once, window_make); }

void fake_memory_reset(void)
{
    memset(ranges, 0, sizeof ranges);
    used = 0;
}

/* ---- memory ---- */

int core_memory_info(core_context *context, size_t *free_bytes, size_t *total)
{
    (void)context;
    *free_bytes = FAKE_MEMORY - used, *total = FAKE_MEMORY;
    return fake_answer(__func__);
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
    int error = fake_answer(__func__);
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
    return fake_answer(__func__);
}

int core_memory_free(uint64_t address) { return range_remove(address, CORE_DEVICE_MEMORY, CORE_INVALID_VALUE); }

/* Memory behind addresses: there is always some, but what core_handle_create is told to answer is answered. */
enum { FAKE_GRANULARITY = 4096 };
int core_memory_granularity(size_t *bytes) { return *bytes = FAKE_GRANULARITY, CORE_OK; }
int core_memory_settle(core_context *owner)
{
    (void)owner;
    return fake_answer(__func__);
}
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
    return fake_answer(__func__);
}
int core_handle_release(core_handle handle) { return handle ? fake_answer(__func__) : CORE_INVALID_VALUE; }
int core_handle_map(uint64_t address, size_t size, core_handle handle)
{
    (void)size;
    return address && handle ? fake_answer(__func__) : CORE_INVALID_VALUE;
}
int core_handle_unmap(uint64_t address, size_t size)
{
    (void)size;
    return address ? fake_answer(__func__) : CORE_INVALID_VALUE;
}
int core_access_set(uint64_t address, size_t size, int device, unsigned access)
{
    (void)size;
    (void)device;
    (void)access;
    return address ? fake_answer(__func__) : CORE_INVALID_VALUE;
}

void core_windows_end(uint64_t address, uint64_t size)
{
    (void)address;
    (void)size;
}

int core_extent_note(uint64_t address, uint64_t size, enum core_extent_state state)
{
    (void)address, (void)size, (void)state;
    return fake_answer(__func__);
}
int core_extent_note_in(core_context *context, core_stream stream, uint64_t address, uint64_t size,
                        enum core_extent_state state)
{
    (void)context, (void)stream, (void)address, (void)size, (void)state;
    return fake_answer(__func__);
}

/* Pools: their tokens are numbers from 1 on; the first ones are the devices' own. */
int core_pool_default(int device, core_pool *pool) { return *pool = (core_pool)device + 1, fake_answer(__func__); }
int core_pool_current(int device, core_pool *pool) { return *pool = (core_pool)device + 1, fake_answer(__func__); }
int core_pool_set_current(int device, core_pool pool)
{
    (void)device;
    return pool ? fake_answer(__func__) : CORE_INVALID_VALUE;
}
int core_pool_create(int device, uint64_t most, bool shared, core_pool *pool)
{
    (void)most;
    (void)shared;
    *pool = (core_pool)device + 100;
    return fake_answer(__func__);
}
int core_pool_export(core_pool pool, int *fd) { return *fd = 100, pool ? fake_answer(__func__) : CORE_INVALID_VALUE; }
int core_pool_import(int fd, core_pool *pool) { return *pool = (core_pool)fd + 100, fake_answer(__func__); }
int core_pool_pointer_export(uint64_t address, void *data)
{
    memset(data, 0, CORE_IPC_SIZE);
    return address ? fake_answer(__func__) : CORE_INVALID_VALUE;
}
int core_pool_pointer_import(core_pool pool, const void *data, uint64_t *address)
{
    (void)pool, (void)data;
    return *address = 4096, fake_answer(__func__);
}
int core_share_check(void) { return fake_answer(__func__); }
int core_ipc_memory_get(uint64_t address, void *handle)
{
    memset(handle, 0, CORE_IPC_SIZE);
    return address ? fake_answer(__func__) : CORE_INVALID_VALUE;
}
int core_ipc_memory_open(core_context *context, const void *handle, uint64_t *address)
{
    (void)context, (void)handle;
    return *address = 4096, fake_answer(__func__);
}
int core_ipc_memory_close(uint64_t address) { return address ? fake_answer(__func__) : CORE_INVALID_VALUE; }
int core_ipc_event_get(core_event event, void *handle)
{
    memset(handle, 0, CORE_IPC_SIZE);
    return event ? fake_answer(__func__) : CORE_INVALID_HANDLE;
}
int core_ipc_event_open(core_context *context, const void *handle, core_event *event)
{
    (void)context, (void)handle;
    return *event = 1, fake_answer(__func__);
}
int core_pool_destroy(core_pool pool) { return pool >= 100 ? fake_answer(__func__) : CORE_INVALID_VALUE; }
int core_pool_info(core_pool pool, struct core_pool_info *info)
{
    *info = (struct core_pool_info){ .device = (int)pool % 100 };
    return pool ? fake_answer(__func__) : CORE_INVALID_VALUE;
}
int core_pool_trim(core_pool pool, uint64_t keep)
{
    (void)keep;
    return pool ? fake_answer(__func__) : CORE_INVALID_VALUE;
}
int core_pool_get(core_pool pool, enum core_pool_attribute attribute, uint64_t *value)
{
    *value = (uint64_t)attribute;
    return pool ? fake_answer(__func__) : CORE_INVALID_VALUE;
}
int core_pool_set(core_pool pool, enum core_pool_attribute attribute, uint64_t value)
{
    (void)attribute;
    fake.pool_value = value;
    return pool ? fake_answer(__func__) : CORE_INVALID_VALUE;
}
int core_pool_access_set(core_pool pool, int device, unsigned access)
{
    (void)device, (void)access;
    return pool ? fake_answer(__func__) : CORE_INVALID_VALUE;
}
int core_device_can_access_peer(int *can, int device, int peer) { return *can = device != peer, fake_answer(__func__); }
int core_device_get_p2p_attribute(int *value, int attribute, int source, int target)
{
    (void)source, (void)target;
    return *value = attribute, fake_answer(__func__);
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
void core_copy_between(core_context *to, core_context *from) { (void)to, (void)from; }
struct core_copy_servers core_copy_servers(void) { return (struct core_copy_servers){ NULL, NULL }; }
void core_copy_between_servers(struct core_copy_servers servers) { (void)servers; }
int core_peer_enable(core_context *context, core_context *peer) { return change(context, peer, true); }
int core_peer_disable(core_context *context, core_context *peer) { return change(context, peer, false); }
int core_pool_access_get(core_pool pool, int device, unsigned *access)
{
    (void)device;
    *access = 3;
    return pool ? fake_answer(__func__) : CORE_INVALID_VALUE;
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
    return fake_answer(__func__);
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
    return fake_answer(__func__);
}
int core_host_unregister(void *pointer)
{
    return range_remove((uint64_t)(uintptr_t)pointer, CORE_REGISTERED_MEMORY, CORE_HOST_NOT_REGISTERED);
}
int core_host_device_pointer(void *host, uint64_t *address)
{
    return *address = (uint64_t)(uintptr_t)host, fake.host_mapping_error;
}

int core_host_map(void *host, uint64_t *address) { return core_host_device_pointer(host, address); }

uint64_t core_host_behind(uint64_t address) { return address; }

bool core_host_reached(void *host)
{
    uint64_t address;
    return core_host_device_pointer(host, &address) == 0;
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
    int error = fake_note(__func__, stream, blocking);
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
    int error = fake_note(__func__, stream, false);
    return (void)context, (void)size, (void)device, error ? error : range_at(address) ? CORE_INVALID_VALUE : CORE_OK;
}
int core_graph_begins(core_context *context, core_stream stream, bool *comes)
{
    *comes = false;
    return (void)context, (void)stream, CORE_OK;
}
void core_graph_sent(bool comes) { (void)comes; }
int core_managed_allocate(core_context *context, size_t size, unsigned flags, uint64_t *address)
{
    return flags == MANAGED_GLOBAL ? core_memory_allocate(context, size, address) : CORE_INVALID_VALUE;
}
int core_managed_attach(core_context *context, core_stream stream, uint64_t address, size_t size, unsigned flags)
{
    return (void)context, (void)address, (void)size, (void)flags, fake_note(__func__, stream, false);
}
int core_managed_advise(uint64_t address, size_t size, enum managed_advice advice, int device)
{
    return (void)address, (void)size, (void)advice, (void)device, fake_answer(__func__);
}
int core_managed_attribute(uint64_t address, size_t size, int attribute, void *data, size_t data_size)
{
    (void)address, (void)size;
    memset(data, attribute, data_size);
    return fake_answer(__func__);
}
int core_set(core_context *context, core_stream stream, const struct core_box *to, const struct core_extent *extent,
             uint32_t value, unsigned element, bool blocking)
{
    int error = fake_note(__func__, stream, blocking);
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
