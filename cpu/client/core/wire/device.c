/*
 * device.c: the devices as the program sees them: a snapshot taken at connect, ordered by $CUDA_DEVICE_ORDER and
 * filtered by $CUDA_VISIBLE_DEVICES as the driver does it. They do not change once they are known.
 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/log.h"
#include "device.h"
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/memory/host.h"
#include "cpu/client/core/stream/managed.h"
#include "cpu/client/core/stream/mirror.h"
#include "state.h"

enum { MAX_THREADS = 1, MAX_BLOCK_X = 2, MAX_GRID_X = 5, MAX_SHARED = 8, MAX_PITCH = 11, CAN_MAP_HOST = 19,
       PCI_DOMAIN = 50, MANAGED_MEMORY = 83, POSIX_DESCRIPTORS = 103, MEMORY_POOLS = 115, POOL_HANDLES = 119,
       STREAM_OPERATIONS_64 = 122, IPC_EVENTS = 125, HOST_NUMA_MAPPINGS = 141, HOST_MAPPINGS = 145,
       ATTRIBUTES_BY_NUMBER = 512 };

static struct table {
    struct client_device device;
    int           values[ATTRIBUTES_BY_NUMBER];
    bool          known[ATTRIBUTES_BY_NUMBER];
} *devices;
static int devices_count;

/* What client and server cannot offer whatever the GPU can: CUdevice_attribute numbers of cuda.h. */
static const int denied[] = {
    CAN_MAP_HOST, /* CAN_MAP_HOST_MEMORY: but where pinned memory is shared */
    MANAGED_MEMORY, /* but where the program's pages can be watched, or are the device's */
    88,           /* PAGEABLE_MEMORY_ACCESS */
    89,           /* CONCURRENT_MANAGED_ACCESS */
    91,           /* CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM */
    92, 93, 94,   /* CAN_USE_STREAM_MEM_OPS and its kin (v1) */
    96,           /* COOPERATIVE_MULTI_DEVICE_LAUNCH */
    98,           /* CAN_FLUSH_REMOTE_WRITES */
    100,          /* PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES */
    101,          /* DIRECT_MANAGED_MEM_ACCESS_FROM_HOST */
    POSIX_DESCRIPTORS, /* but where programs of the server can share memory */
    104, 105,     /* HANDLE_TYPE_WIN32_HANDLE_SUPPORTED and its kin */
    110,          /* GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */
    112,          /* SPARSE_CUDA_ARRAY_SUPPORTED */
    114,          /* TIMELINE_SEMAPHORE_INTEROP_SUPPORTED */
    116, 117, 118, /* GPU_DIRECT_RDMA_SUPPORTED and its kin */
    POOL_HANDLES, /* the same */
    121,          /* DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED */
    124,          /* DMA_BUF_SUPPORTED */
    IPC_EVENTS,   /* the same, and where streams wait for values in memory */
    128,          /* HANDLE_TYPE_FABRIC_SUPPORTED */
    129,          /* UNIFIED_FUNCTION_POINTERS */
    132,          /* MULTICAST_SUPPORTED */
    142, 143, 144, 146, /* pools of the host's memory, handles of it for other machines, and dma_buf of it */
};

/* ---- which devices, in which order ---- */

static int by_bus(const void *a, const void *b, void *context)
{
    const flyt_device *all = context;
    return strcasecmp(all[*(const int *)a].pci_bus_id, all[*(const int *)b].pci_bus_id);
}

/* FASTEST_FIRST (the default) is the order in which the server's driver gives them. */
static void device_order(const char *text, const flyt_device *all, int count, int *order)
{
    for (int i = 0; i < count; i++)
        order[i] = i;
    if (text && strcmp(text, "PCI_BUS_ID") == 0)
        qsort_r(order, (size_t)count, sizeof *order, by_bus, (void *)(uintptr_t)all);
}

/* "GPU-" and the UUID's hexadecimal digits, as many as are given; dashes are skipped. */
static bool uuid_begins_with(const flyt_device *device, const char *text, size_t length)
{
    char digits[2 * FLYT_UUID_SIZE + 1];
    size_t at = 0;
    for (unsigned i = 0; i < FLYT_UUID_SIZE; i++) {
        digits[2 * i] = "0123456789abcdef"[(uint8_t)device->uuid[i] >> 4];
        digits[2 * i + 1] = "0123456789abcdef"[(uint8_t)device->uuid[i] & 15];
    }
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '-')
            continue;
        if (at == 2 * FLYT_UUID_SIZE || tolower((unsigned char)text[i]) != digits[at++])
            return false;
    }
    return at > 0;
}

/* The position in `order` that a word of the list names, or -1. */
static int visible_word(const char *word, size_t length, const flyt_device *all, const int *order, int count)
{
    if (length > 4 && strncmp(word, "GPU-", 4) == 0) {
        int found = -1;
        for (int i = 0; i < count; i++) {
            if (!uuid_begins_with(&all[order[i]], word + 4, length - 4))
                continue;
            if (found >= 0)
                return -1;            /* not unique */
            found = i;
        }
        return found;
    }
    int value = 0;
    if (!length)
        return -1;
    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)word[i]) || value > 9999)
            return -1;
        value = value * 10 + (word[i] - '0');
    }
    return value < count ? value : -1;
}

/* The first word that names no device ends the list; a device named twice makes it empty, as natively. */
static int visible_filter(const char *text, const flyt_device *all, const int *order, int count, int *out)
{
    int visible = 0;
    while (*text) {
        text += strspn(text, " \t");
        size_t length = strcspn(text, ","), trimmed = length;
        while (trimmed && isspace((unsigned char)text[trimmed - 1]))
            trimmed--;
        int position = visible_word(text, trimmed, all, order, count);
        if (position < 0)
            break;
        for (int i = 0; i < visible; i++)
            if (out[i] == order[position])
                return 0;
        out[visible++] = order[position];
        text += length;
        text += *text == ',';
    }
    return visible;
}

int device_visible(const char *text, const flyt_device *all, int count, int *out)
{
    int order[FLYT_MAX_DEVICES];
    device_order(getenv("CUDA_DEVICE_ORDER"), all, count, order);
    if (text)
        return visible_filter(text, all, order, count, out);
    memcpy(out, order, sizeof *out * (size_t)count);
    return count;
}

/* ---- the snapshot ---- */

static void take_attributes(struct table *t, const flyt_device *from)
{
    for (unsigned i = 0; i < from->attributes.attributes_len; i++) {
        const flyt_attribute *a = &from->attributes.attributes_val[i];
        if (a->name < 0 || a->name >= ATTRIBUTES_BY_NUMBER)
            continue;
        t->values[a->name] = a->value;
        t->known[a->name] = true;
    }
    for (unsigned i = 0; i < sizeof denied / sizeof denied[0]; i++) {
        if (denied[i] == CAN_MAP_HOST && (host_space_any() || mirror_any))
            continue;
        if (denied[i] == MANAGED_MEMORY && !session_several() &&
            (!core_session.in_process || core_session.hello.capabilities & FLYT_CAP_TOUCH))
            continue;
        if (denied[i] == POSIX_DESCRIPTORS && core_session.hello.capabilities & FLYT_CAP_SHARES)
            continue;
        if (denied[i] == POOL_HANDLES && core_session.hello.capabilities & FLYT_CAP_SHARES) {
            t->values[POOL_HANDLES] = 1;      /* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR */
            t->known[POOL_HANDLES] = true;
            continue;
        }
        if (denied[i] == IPC_EVENTS && core_session.hello.capabilities & FLYT_CAP_SHARES &&
            t->values[STREAM_OPERATIONS_64]) {
            t->values[IPC_EVENTS] = 1;        /* they are ours, whatever the GPU can */
            t->known[IPC_EVENTS] = true;
            continue;
        }
        t->values[denied[i]] = 0;
        t->known[denied[i]] = true;
    }
    t->values[MEMORY_POOLS] = 1; /* pools are the client's, of any device */
    t->known[MEMORY_POOLS] = true;
    /* virtual memory of the host, too, where the program's pages can be watched, or are the device's */
    t->values[HOST_NUMA_MAPPINGS] = t->values[HOST_MAPPINGS] = managed_possible();
    t->known[HOST_NUMA_MAPPINGS] = t->known[HOST_MAPPINGS] = true;
}

static uint32_t limit(const struct table *t, int attribute)
{
    return t->known[attribute] && t->values[attribute] >= 0 ? (uint32_t)t->values[attribute] : UINT32_MAX;
}

static struct core_limits limits[FLYT_MAX_DEVICES];
const struct core_limits *_Atomic core_known_limits;

static void take_limits(struct core_limits *l, const struct table *t)
{
    for (int i = 0; i < 3; i++) {
        l->grid[i] = limit(t, MAX_GRID_X + i);
        l->block[i] = limit(t, MAX_BLOCK_X + i);
    }
    l->threads = limit(t, MAX_THREADS);
    l->shared = limit(t, MAX_SHARED);
    l->pitch = t->known[MAX_PITCH] ? (size_t)t->values[MAX_PITCH] : SIZE_MAX;
}

const struct core_limits *core_find_limits(int device)
{
    static const struct core_limits none = { .pitch = SIZE_MAX };
    return core_attach() == CORE_OK && client_device_find(device) ? &limits[device] : &none;
}

static bool same_uuid(const flyt_device *a, const flyt_device *b)
{
    return memcmp(a->uuid, b->uuid, sizeof a->uuid) == 0;
}

static bool same_bus(const flyt_device *a, const flyt_device *b)
{
    return a->pci_bus_id && b->pci_bus_id && strcasecmp(a->pci_bus_id, b->pci_bus_id) == 0;
}

/* Servers number their GPUs on their own: all software GPUs have the UUIDs of their numbers, and GPUs of two machines
   may have the same place on their buses. To the program they differ, as GPUs of one machine do: by the number of their
   server in the last but one byte of the UUID, and in the PCI domain. The string stays to the end of the process. */
static bool tell_apart(flyt_device *all, int at, unsigned session)
{
    flyt_device *device = &all[at];
    unsigned domain, bus, slot, function = 0;
    char text[32];
    bool uuid = false, place = false;
    for (int i = 0; i < at; i++) {
        uuid |= same_uuid(&all[i], device);
        place |= same_bus(&all[i], device);
    }
    if (uuid)
        device->uuid[FLYT_UUID_SIZE - 2] ^= (char)session;
    if (!place || sscanf(device->pci_bus_id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3)
        return true;
    snprintf(text, sizeof text, "%04x:%02x:%02x.%x", (domain + session) & 0xffff, bus & 0xff, slot & 0xff,
             function & 0xf);
    device->pci_bus_id = strdup(text);
    return device->pci_bus_id != NULL;
}

/* The domain is an attribute, too. */
static void take_domain(struct table *t)
{
    unsigned domain;
    if (t->known[PCI_DOMAIN] && t->device.public.pci_bus_id && sscanf(t->device.public.pci_bus_id, "%x:", &domain) == 1)
        t->values[PCI_DOMAIN] = (int)domain;
}

/* The devices of all servers, in the order of these. *first: the place of each session's first one; behind them the
   number of all. The strings stay the sessions'. NULL: no memory. */
static flyt_device *all_devices(int first[SESSIONS_MOST + 1])
{
    flyt_device *all = calloc(FLYT_MAX_DEVICES, sizeof *all);
    int count = 0;
    for (int i = 0; i <= SESSIONS_MOST; i++)
        first[i] = INT_MAX;
    for (const struct client_session *session = &core_session; all && session; session = session->next) {
        first[session->number] = count;
        for (u_int i = 0; i < session->hello.devices.devices_len && count < FLYT_MAX_DEVICES; i++)
            all[count++] = session->hello.devices.devices_val[i];
        for (int i = first[session->number]; i < count && session->number; i++)
            if (!tell_apart(all, i, session->number)) {
                free(all);
                return NULL;
            }
        first[session->number + 1] = count;
    }
    return all;
}

static void place(struct client_device *d, int at, const int first[SESSIONS_MOST + 1])
{
    struct client_session *session = &core_session;
    while (session->next && at >= first[session->number + 1])
        session = session->next;
    d->session = session;
    d->wire = at - first[session->number];
}

static int count_of(const int first[SESSIONS_MOST + 1])
{
    int sessions = SESSIONS_MOST;
    while (first[sessions] == INT_MAX)
        sessions--;
    return first[sessions];
}

int device_snapshot(void)
{
    int chosen[FLYT_MAX_DEVICES], first[SESSIONS_MOST + 1];
    flyt_device *all = all_devices(first);
    int count = all ? device_visible(getenv("CUDA_VISIBLE_DEVICES"), all, count_of(first), chosen) : 0;
    devices = calloc((size_t)(count ? count : 1), sizeof *devices);
    if (!devices || !all) {
        free(all);
        return CORE_OUT_OF_MEMORY;
    }
    for (int i = 0; i < count; i++) {
        const flyt_device *from = &all[chosen[i]];
        struct client_device *d = &devices[i].device;
        place(d, chosen[i], first);
        d->public = (struct core_device){ .name = from->name,
                                          .pci_bus_id = from->pci_bus_id,
                                          .total_memory = from->total_memory,
                                          .priority_least = from->priority_least,
                                          .priority_greatest = from->priority_greatest };
        memcpy(d->public.uuid, from->uuid, sizeof d->public.uuid);
        take_attributes(&devices[i], from);
        if (d->session->number)
            take_domain(&devices[i]);
        take_limits(&limits[i], &devices[i]);
    }
    for (int i = count; i < FLYT_MAX_DEVICES; i++)
        limits[i].pitch = SIZE_MAX;
    free(all);                        /* not its strings, which the devices have */
    devices_count = count;
    atomic_store_explicit(&core_known_limits, limits, memory_order_release);
    return CORE_OK;
}

void device_rewire(const int *wires)
{
    for (int i = 0; i < devices_count; i++)
        devices[i].device.wire = wires[i];
}

int device_count(void)
{
    return devices_count;
}

const struct client_device *client_device_find(int device)
{
    return device >= 0 && device < devices_count ? &devices[device].device : NULL;
}

int core_device_count(int *count)
{
    int code = core_attach();
    *count = code ? 0 : devices_count;
    return code;
}

int core_driver_version(int *version)
{
    int code = core_attach();
    *version = code ? 0 : core_session.driver_version;
    return code;
}

const struct core_device *core_device(int device)
{
    const struct client_device *d = core_attach() == CORE_OK ? client_device_find(device) : NULL;
    return d ? &d->public : NULL;
}

int core_device_attribute(int device, int attribute, int *value)
{
    int code = core_attach();
    return code ? code : device_attribute(device, attribute, value);
}

int device_attribute(int device, int attribute, int *value)
{
    if (!client_device_find(device))
        return CORE_INVALID_DEVICE;
    if (attribute < 0 || attribute >= ATTRIBUTES_BY_NUMBER || !devices[device].known[attribute])
        return CORE_INVALID_VALUE;
    *value = devices[device].values[attribute];
    return CORE_OK;
}
