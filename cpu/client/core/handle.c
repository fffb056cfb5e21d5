/*
 * handle.c: virtual memory management: reservations of addresses in the session's window, handles of device memory
 * without an address, and where handles are mapped. The server makes and maps the memory (HANDLE_…); everything that a
 * program can do wrong is found out here. What a program may use (access has been set) is in the address map.
 *
 * One lock for all of it, also while the server is asked: programs do this when they start or grow, not in their
 * loops.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#include <string.h>

#include "cpu/common/cancel.h"
#include "cpu/common/ids.h"
#include "cpu/common/tree.h"
#include "device.h"
#include "early_return.h"
#include "memory.h"
#include "move.h"
#include "pool_notes.h"
#include "share.h"
#include "state.h"
#include "wire.h"

enum { TOKEN_KIND = 5 };

struct reservation {
    struct tree_node node; /* key: base */
    uint64_t size;
    bool noted; /* the address map has all of it, whatever is mapped there */
};

struct physical {
    int      device;
    uint64_t size;
    struct rights chunk_rights;       /* of a chunk */
    uint32_t wire;                    /* of the protocol, an index of `wires` */
    id_token named;                   /* there */
    id_token token;                   /* the program's; 0: it has released all that it had */
    bool     shared, named_there;     /* it may be exported; named_there: `share` is known */
    bool     imported;
    char     share[FLYT_SHARE_SIZE];  /* by which other programs import it */
    uint64_t chunk_at;                /* where it is mapped as a chunk (handle_chunk_make); 0: it is none */
    unsigned handles, mappings;       /* the server's memory goes when both are 0, and no descriptor keeps it */
    int     *watches;                 /* of descriptors that name it (share_note_held) */
    unsigned watch_count;
    struct physical *next_kept;
};

struct client_mapping {
    struct tree_node node;
    uint64_t size;
    struct physical *of;
    struct rights rights;
}; /* key: address */

_Static_assert(FLYT_MAX_DEVICES <= 64, "struct rights has a bit for each");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tree reservations, mappings;
static id_table *tokens, *wires;
static atomic_uint_fast64_t shares;   /* handles that have been exported or imported */
static _Atomic(struct physical *) kept;       /* those that only descriptors keep; changed under the lock */

int handle_open(void)
{
    tokens = id_table_create(TOKEN_KIND, 1);
    wires = id_table_create(TOKEN_KIND, 1);
    return tokens && wires ? CORE_OK : CORE_OUT_OF_MEMORY;
}

uint64_t handle_count(void) { return wires ? id_table_count(wires) : 0; }

static bool granules(uint64_t number) { return number % core_session.granularity == 0; }

/* ---- what devices may do ---- */

static int access_ask(uint64_t address, uint64_t size, int device, unsigned access)
{
    handle_access_args args = { address, size, client_device_find(device)->wire, access };
    return wire_plain(FLYT_HANDLE_ACCESS, (xdrproc_t)xdr_handle_access_args, &args);
}

/* Of a fresh mapping, which no device may use. */
static int rights_ask(uint64_t address, uint64_t size, const struct rights *rights)
{
    int code = CORE_OK;
    for (int device = 0; device < device_count() && !code; device++)
        if (rights_of(rights, device))
            code = access_ask(address, size, device, rights_of(rights, device));
    return code;
}

/* ---- reservations ---- */

/* Behind the heaps of all contexts (memory.c), where there is room. */
static uint64_t take(uint64_t hint, uint64_t size, uint64_t unit)
{
    uint64_t from = core_session.window + core_session.window_size / 4 * 3;
    bool possible = hint >= core_session.window && hint - core_session.window < core_session.window_size &&
                    (hint - core_session.window) % unit == 0;
    return window_take(possible ? hint : 0, from, size, unit);
}

/* The device is noted in the address map; -1: of what is mapped there, with access set. */
static int reserve(size_t size, size_t alignment, uint64_t hint, int device, uint64_t *address)
{
    int code = core_enter();
    if (code)
        return code;
    uint64_t unit = alignment > core_session.granularity ? alignment : core_session.granularity;
    if (!size || !granules(size) || (alignment & (alignment - 1)) || core_session.window % unit)
        return CORE_INVALID_VALUE;
    struct reservation *reservation = calloc(1, sizeof *reservation);
    if (!reservation)
        return CORE_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    uint64_t base = size <= core_session.window_size ? take(hint, size, unit) : 0;
    if (base && device >= 0 && address_add_mapped(device, base, size)) {
        window_give(base, size);
        base = 0;
    }
    if (base) {
        reservation->noted = device >= 0;
        reservation->node.key = base;
        reservation->size = size;
        tree_insert(&reservations, &reservation->node);
        *address = base;
    }
    pthread_mutex_unlock(&lock);
    if (!base)
        free(reservation);
    return base ? CORE_OK : CORE_OUT_OF_MEMORY;
}

int core_reservation_create(size_t size, size_t alignment, uint64_t hint, uint64_t *address)
{
    CANCEL_DEFERRED;
    return reserve(size, alignment, hint, -1, address);
}

int core_reservation_note(int device, size_t size, uint64_t *address)
{
    CANCEL_DEFERRED;
    return reserve(size, 0, 0, device, address);
}

static struct client_mapping *mapping_at_or_above(uint64_t address)
{
    return (struct client_mapping *)tree_at_or_above(&mappings, address, 0);
}

/* The mapping that holds the address; NULL: none. */
static struct client_mapping *mapping_of(uint64_t address)
{
    struct client_mapping *mapping = (struct client_mapping *)tree_at_or_below(&mappings, address, 0);
    return mapping && address - mapping->node.key < mapping->size ? mapping : NULL;
}

int core_reservation_free(uint64_t address, size_t size)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    pthread_mutex_lock(&lock);
    struct reservation *found = (struct reservation *)tree_at_or_below(&reservations, address, 0);
    const struct client_mapping *inside = mapping_at_or_above(address);
    if (!found || found->node.key != address || found->size != size || (inside && inside->node.key - address < size)) {
        code = CORE_INVALID_VALUE;
    } else {
        tree_remove(&reservations, &found->node);
        if (found->noted)
            address_remove(CORE_DEVICE_MEMORY, address, NULL);
        window_give(address, size);
        free(found);
    }
    pthread_mutex_unlock(&lock);
    return code;
}

/* ---- handles ---- */

static struct physical *physical_find(id_token token) { return tokens ? id_table_find(tokens, token) : NULL; }

/* Its name on the wire. */
static int wire_take(struct physical *physical)
{
    physical->named = id_table_add(wires, physical, &physical->wire);
    return physical->named ? CORE_OK : CORE_OUT_OF_MEMORY;
}

static void wire_give(struct physical *physical)
{
    id_table_remove(wires, physical->named);
    id_table_release(wires, physical->wire);
}

/* Whether a descriptor names it that some process still has. */
static bool has_descriptor(struct physical *physical)
{
    unsigned held = 0;
    for (unsigned i = 0; i < physical->watch_count; i++) {
        if (share_note_held(physical->watches[i]))
            physical->watches[held++] = physical->watches[i];
        else
            close(physical->watches[i]);
    }
    physical->watch_count = held;
    return held != 0;
}

static int physical_end(struct physical *physical)
{
    handle_release_args args = { .handle = physical->wire };
    int code = wire_send(FLYT_HANDLE_RELEASE, (xdrproc_t)xdr_handle_release_args, &args);
    wire_give(physical);
    atomic_fetch_sub(&shares, physical->named_there);
    free(physical->watches);
    free(physical);
    return code;
}

/* The memory of which the last descriptor has been closed goes. Nobody tells when that happens: so this looks whenever
   the program asks for memory, for its amount, or about handles. */
static bool kept_look(void)
{
    bool ended = false;
    for (struct physical *p = atomic_load(&kept), *before = NULL, *next; p; p = next) {
        next = p->next_kept;
        if (has_descriptor(p)) {
            before = p;
            continue;
        }
        if (before)
            before->next_kept = next;
        else
            atomic_store(&kept, next);
        physical_end(p);
        ended = true;
    }
    return ended;
}

bool handle_give_back(bool wait)
{
    if (!atomic_load(&kept) || (wait ? pthread_mutex_lock(&lock) : pthread_mutex_trylock(&lock)))
        return false;
    bool ended = kept_look();
    pthread_mutex_unlock(&lock);
    return ended;
}

/* One use less. */
static int physical_drop(struct physical *physical)
{
    if (!physical->handles && physical->token) {
        id_table_remove(tokens, physical->token);
        id_table_release(tokens, id_token_index(physical->token));
        physical->token = 0;
    }
    if (physical->handles || physical->mappings)
        return CORE_OK;
    if (!has_descriptor(physical))
        return physical_end(physical);
    physical->next_kept = atomic_load(&kept);
    atomic_store(&kept, physical);
    return CORE_OK;
}

/* The server's part. */
static int create_there(struct physical *physical)
{
    handle_create_args args = { .device = client_device_find(physical->device)->wire, .size = physical->size };
    int code = wire_take(physical);
    if (code)
        return code;
    args.handle = physical->wire;
    code = wire_plain(FLYT_HANDLE_CREATE, (xdrproc_t)xdr_handle_create_args, &args);
    if (code)
        wire_give(physical);
    return code;
}

/* A new one, without a token. NULL: *code says why. */
static struct physical *create(int device, uint64_t size, int *code)
{
    struct physical *physical = calloc(1, sizeof *physical);
    kept_look();
    if (!physical) {
        *code = CORE_OUT_OF_MEMORY;
        return NULL;
    }
    *physical = (struct physical){ .device = device, .size = size };
    if ((*code = create_there(physical)) == CORE_OUT_OF_MEMORY) {
        memory_give_back(); /* what this program holds unused counts against the same limit */
        *code = create_there(physical);
    }
    if (!*code)
        return physical;
    free(physical);
    return NULL;
}

/* The program's first handle of it, or the end of it. */
static int name(struct physical *physical, core_handle *out)
{
    *out = physical->token = id_table_add(tokens, physical, NULL);
    if (!*out) {
        physical_drop(physical);
        return CORE_OUT_OF_MEMORY;
    }
    physical->handles = 1;
    return CORE_OK;
}

static int create_named(int device, size_t size, bool shared, core_handle *out)
{
    int code = CORE_OK;
    pthread_mutex_lock(&lock);
    struct physical *physical = create(device, size, &code);
    if (physical) {
        physical->shared = shared;
        code = name(physical, out);
    }
    pthread_mutex_unlock(&lock);
    return code;
}

int core_handle_create(int device, size_t size, bool shared, core_handle *out)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    if (!client_device_find(device))
        return CORE_INVALID_DEVICE;
    if (!size || !granules(size))
        return CORE_INVALID_VALUE;
    if (shared && (code = core_share_check()))
        return code;
    code = create_named(device, size, shared, out);
    return code == CORE_OUT_OF_MEMORY && pool_give_back() ? create_named(device, size, shared, out) : code;
}

int core_handle_release(core_handle handle)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    pthread_mutex_lock(&lock);
    struct physical *physical = physical_find(handle);
    if (physical) {
        physical->handles--;
        code = physical_drop(physical);
    } else {
        code = CORE_INVALID_VALUE;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

int core_handle_info(core_handle handle, struct core_handle_info *info)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    pthread_mutex_lock(&lock);
    const struct physical *physical = physical_find(handle);
    if (physical)
        *info = (struct core_handle_info){ physical->device, physical->size, physical->shared };
    pthread_mutex_unlock(&lock);
    return physical ? CORE_OK : CORE_INVALID_VALUE;
}

int core_handle_at(uint64_t address, core_handle *out)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    pthread_mutex_lock(&lock);
    const struct client_mapping *mapping = mapping_of(address);
    struct physical *physical = mapping ? mapping->of : NULL;
    if (physical && !physical->token)
        physical->token = id_table_add(tokens, physical, NULL);
    if (!physical)
        code = CORE_INVALID_VALUE;
    else if (!physical->token)
        code = CORE_OUT_OF_MEMORY;
    else
        physical->handles++, *out = physical->token;
    pthread_mutex_unlock(&lock);
    return code;
}

/* ---- mappings ---- */

/* Something of the range is mapped. */
static bool occupied(uint64_t address, uint64_t size)
{
    const struct client_mapping *next = mapping_at_or_above(address);
    return mapping_of(address) || (next && next->node.key - address < size);
}

/* The reservation that has all of the range; NULL: none. */
static const struct reservation *reservation_of(uint64_t address, uint64_t size)
{
    const struct reservation *r = (struct reservation *)tree_at_or_below(&reservations, address, 0);
    return r && address - r->node.key < r->size && size <= r->size - (address - r->node.key) ? r : NULL;
}

static int map(uint64_t address, uint64_t size, struct physical *physical)
{
    if (!physical || size != physical->size || !granules(address) || !reservation_of(address, size) ||
        occupied(address, size))
        return CORE_INVALID_VALUE;
    struct client_mapping *mapping = calloc(1, sizeof *mapping);
    if (!mapping)
        return CORE_OUT_OF_MEMORY;
    handle_map_args args = { .handle = physical->wire, .address = address };
    int code = wire_plain(FLYT_HANDLE_MAP, (xdrproc_t)xdr_handle_map_args, &args);
    if (code) {
        free(mapping);
        return code;
    }
    mapping->node.key = address;
    mapping->size = size;
    mapping->of = physical;
    tree_insert(&mappings, &mapping->node);
    physical->mappings++;
    return CORE_OK;
}

int core_handle_map(uint64_t address, size_t size, core_handle handle)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    pthread_mutex_lock(&lock);
    code = map(address, size, physical_find(handle));
    pthread_mutex_unlock(&lock);
    return code;
}

/* Whole mappings fill the range without gaps. */
static bool filled(uint64_t address, uint64_t size)
{
    uint64_t at = address;
    while (at - address < size) {
        const struct client_mapping *mapping = mapping_of(at);
        if (!mapping || mapping->node.key != at || mapping->size > size - (at - address))
            return false;
        at += mapping->size;
    }
    return size != 0;
}

/* The address map has what some device may use. */
static void access_note(struct client_mapping *mapping, const struct rights *rights)
{
    bool before = mapping->rights.read, after = rights->read;
    mapping->rights = *rights;
    const struct reservation *within = reservation_of(mapping->node.key, mapping->size);
    if (within && within->noted)
        return;
    if (before && !after)
        address_remove(CORE_DEVICE_MEMORY, mapping->node.key, NULL);
    else if (after && !before && address_add_mapped(mapping->of->device, mapping->node.key, mapping->size))
        mapping->rights = (struct rights){ 0 };
}

int core_handle_unmap(uint64_t address, size_t size)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    pthread_mutex_lock(&lock);
    if (filled(address, size)) {
        handle_unmap_args args = { .address = address, .size = size };
        code = wire_send(FLYT_HANDLE_UNMAP, (xdrproc_t)xdr_handle_unmap_args, &args);
        for (uint64_t at = address; at - address < size;) {
            struct client_mapping *mapping = mapping_of(at);
            at += mapping->size;
            access_note(mapping, &(struct rights){ 0 });
            tree_remove(&mappings, &mapping->node);
            mapping->of->mappings--;
            int dropped = physical_drop(mapping->of);
            code = code ? code : dropped;
            free(mapping);
        }
    } else {
        code = CORE_INVALID_VALUE;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

static int access_set(uint64_t address, uint64_t size, int device, unsigned access)
{
    if (!filled(address, size))
        return CORE_INVALID_VALUE;
    int code = access_ask(address, size, device, access);
    for (uint64_t at = address; !code && at - address < size; at += mapping_of(at)->size) {
        struct rights rights = mapping_of(at)->rights;
        rights_note(&rights, device, access);
        access_note(mapping_of(at), &rights);
    }
    return code;
}

int core_access_set(uint64_t address, size_t size, int device, unsigned access)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    if (!client_device_find(device))
        return CORE_INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    code = access_set(address, size, device, access);
    pthread_mutex_unlock(&lock);
    return code;
}

int core_access_get(uint64_t address, int device, unsigned *access)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    if (!client_device_find(device))
        return CORE_INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    const struct client_mapping *mapping = mapping_of(address);
    if (mapping)
        *access = rights_of(&mapping->rights, device);
    pthread_mutex_unlock(&lock);
    return mapping ? CORE_OK : CORE_INVALID_VALUE;
}

/* ---- memory of pools ---- */

static int chunk_map(uint64_t address, const struct physical *physical)
{
    handle_map_args map = { .handle = physical->wire, .address = address };
    int code = wire_plain(FLYT_HANDLE_MAP, (xdrproc_t)xdr_handle_map_args, &map);
    if (code)
        return code;
    if ((code = rights_ask(address, physical->size, &physical->chunk_rights))) {
        handle_unmap_args undo = { .address = address, .size = physical->size };
        wire_send(FLYT_HANDLE_UNMAP, (xdrproc_t)xdr_handle_unmap_args, &undo);
    }
    return code;
}

int handle_chunk_make(int device, uint64_t size, const struct rights *others, struct handle_chunk *out)
{
    int code = CORE_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    uint64_t address = size <= core_session.window_size ? take(0, size, core_session.granularity) : 0;
    struct physical *physical = address ? create(device, size, &code) : NULL;
    if (physical) {
        physical->chunk_rights = *others;
        rights_note(&physical->chunk_rights, device, ACCESS_READ_WRITE);
    }
    if (physical && (code = chunk_map(address, physical))) {
        physical_drop(physical);
        physical = NULL;
    }
    if (physical)
        physical->mappings = 1, physical->chunk_at = address;
    else if (address)
        window_give(address, size);
    pthread_mutex_unlock(&lock);
    *out = (struct handle_chunk){ address, size, physical };
    return code;
}

int handle_chunk_access(struct handle_chunk *chunk, int device, unsigned access)
{
    pthread_mutex_lock(&lock);
    int code = access_ask(chunk->address, chunk->size, device, access);
    if (!code)
        rights_note(&chunk->of->chunk_rights, device, access);
    pthread_mutex_unlock(&lock);
    return code;
}

void handle_chunk_end(struct handle_chunk *chunk)
{
    handle_unmap_args args = { .address = chunk->address, .size = chunk->size };
    pthread_mutex_lock(&lock);
    wire_send(FLYT_HANDLE_UNMAP, (xdrproc_t)xdr_handle_unmap_args, &args);
    window_give(chunk->address, chunk->size);
    chunk->of->mappings--;
    physical_drop(chunk->of);
    pthread_mutex_unlock(&lock);
}

/* ---- memory of several programs ---- */

uint64_t handle_shares(void) { return atomic_load(&shares); }

/* Asks the server for the bytes by which others import it, the first time. */
static int share_of(struct physical *physical)
{
    handle_export_args args = { .handle = physical->wire };
    export_result result = { 0 };
    if (physical->named_there)
        return CORE_OK;
    early_return_stop();
    int code = wire_call(FLYT_HANDLE_EXPORT, (xdrproc_t)xdr_handle_export_args, &args, (xdrproc_t)xdr_export_result,
                         &result);
    if (!code) {
        memcpy(physical->share, result.share, sizeof physical->share);
        physical->named_there = true;
        atomic_fetch_add(&shares, 1);
    }
    xdr_free((xdrproc_t)xdr_export_result, &result);
    return code;
}

/* A descriptor that names it, and keeps it. What was imported is the other program's to keep. */
static int describe(struct physical *physical, int *fd)
{
    int watch = -1, *watches;
    has_descriptor(physical);                 /* forgets those that were closed */
    int code = share_note_make(physical->share, SHARE_NOTE_HANDLE, fd, physical->imported ? NULL : &watch);
    if (code || watch < 0)
        return code;
    if (!(watches = realloc(physical->watches, (physical->watch_count + 1) * sizeof *watches))) {
        close(watch);
        close(*fd);
        return CORE_OUT_OF_MEMORY;
    }
    physical->watches = watches;
    physical->watches[physical->watch_count++] = watch;
    return CORE_OK;
}

int core_handle_export(core_handle handle, int *fd)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    pthread_mutex_lock(&lock);
    kept_look();
    struct physical *physical = physical_find(handle);
    code = physical && physical->shared ? share_of(physical) : CORE_INVALID_VALUE;
    if (!code)
        code = describe(physical, fd);
    pthread_mutex_unlock(&lock);
    return code;
}

/* The device of this process that the server means. -1: the program does not see it. */
static int device_by_wire(int wire)
{
    for (int i = 0; i < device_count(); i++)
        if (client_device_find(i)->wire == wire)
            return i;
    return -1;
}

static int import_there(const char *share, struct physical *physical, struct handle_range *range)
{
    handle_import_args args = { 0 };
    import_result result = { 0 };
    int code = wire_take(physical);
    if (code)
        return code;
    early_return_stop();
    args.handle = physical->wire;
    memcpy(args.share, share, sizeof args.share);
    code = wire_call(FLYT_HANDLE_IMPORT, (xdrproc_t)xdr_handle_import_args, &args, (xdrproc_t)xdr_import_result,
                     &result);
    *range = (struct handle_range){ device_by_wire(result.device), result.offset, result.length };
    physical->size = result.size;
    physical->device = range->device;
    if (code)
        wire_give(physical);
    xdr_free((xdrproc_t)xdr_import_result, &result);
    return code;
}

/* Memory that another program has exported, without a token. NULL: *code says why. */
static struct physical *import(const char *share, struct handle_range *range, int *code)
{
    struct physical *physical = calloc(1, sizeof *physical);
    if (!physical) {
        *code = CORE_OUT_OF_MEMORY;
        return NULL;
    }
    *physical = (struct physical){ .shared = true, .imported = true };
    memcpy(physical->share, share, sizeof physical->share);
    if ((*code = import_there(share, physical, range))) {
        free(physical);
        return NULL;
    }
    physical->named_there = true;
    atomic_fetch_add(&shares, 1);
    if (physical->device >= 0)
        return physical;
    physical_drop(physical);
    *code = CORE_INVALID_DEVICE;
    return NULL;
}

int core_handle_import(int fd, core_handle *out)
{
    CANCEL_DEFERRED;
    char share[FLYT_SHARE_SIZE];
    struct handle_range range;
    int code = core_enter();
    if (!code)
        code = core_share_check();
    if (!code)
        code = share_note_read(fd, SHARE_NOTE_HANDLE, share);
    if (code)
        return code;
    pthread_mutex_lock(&lock);
    kept_look();
    struct physical *physical = import(share, &range, &code);
    if (physical)
        code = name(physical, out);
    pthread_mutex_unlock(&lock);
    return code;
}

bool handle_share_lives(const char *share)
{
    struct handle_range range;
    int code = CORE_OK;
    pthread_mutex_lock(&lock);
    struct physical *physical = import(share, &range, &code);
    if (physical)
        physical_drop(physical);
    pthread_mutex_unlock(&lock);
    return code != CORE_INVALID_VALUE;
}

int handle_chunk_share(struct handle_chunk *chunk, char *share)
{
    pthread_mutex_lock(&lock);
    int code = share_of(chunk->of);
    if (!code)
        memcpy(share, chunk->of->share, sizeof chunk->of->share);
    pthread_mutex_unlock(&lock);
    return code;
}

int handle_chunk_import(const char *share, struct handle_chunk *out, struct handle_range *range)
{
    int code = CORE_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    struct physical *physical = import(share, range, &code);
    uint64_t address = physical ? take(0, physical->size, core_session.granularity) : 0;
    if (physical)
        rights_note(&physical->chunk_rights, physical->device, ACCESS_READ_WRITE);
    if (physical && !address)
        code = CORE_OUT_OF_MEMORY;
    else if (physical)
        code = chunk_map(address, physical);
    if (physical && !code)
        *out = (struct handle_chunk){ address, physical->size, physical };
    else if (address)
        window_give(address, physical->size);
    if (physical && code)
        physical_drop(physical);
    else if (physical)
        physical->mappings = 1, physical->chunk_at = address;
    pthread_mutex_unlock(&lock);
    return code;
}

int core_memory_granularity(size_t *bytes)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (!code)
        *bytes = core_session.granularity;
    return code;
}

/* ---- moving to another server ---- */

static int map_at(const struct physical *physical, uint64_t address, const struct rights *rights)
{
    handle_map_args args = { .handle = physical->wire, .address = address };
    int code = wire_plain(FLYT_HANDLE_MAP, (xdrproc_t)xdr_handle_map_args, &args);
    return code ? code : rights_ask(address, physical->size, rights);
}

static void unmap_at(const struct physical *physical, uint64_t address)
{
    handle_unmap_args args = { .address = address, .size = physical->size };
    wire_send(FLYT_HANDLE_UNMAP, (xdrproc_t)xdr_handle_unmap_args, &args);
}

struct moving { struct move *move; int code; };

static void handle_again(void *object, id_token token, void *context)
{
    struct physical *physical = object;
    struct moving *moving = context;
    (void)token;
    handle_create_args args = { .handle = physical->wire, .device = client_device_find(physical->device)->wire,
                                .size = physical->size };
    if (moving->code)
        return;
    moving->code = wire_plain(FLYT_HANDLE_CREATE, (xdrproc_t)xdr_handle_create_args, &args);
    if (moving->code)
        move_refuse(moving->move, moving->code, "the new server does not give %llu MiB for a memory handle (error %d)",
                    (unsigned long long)(physical->size >> 20), moving->code);
    if (!moving->code && physical->chunk_at)
        moving->code = map_at(physical, physical->chunk_at, &physical->chunk_rights);
}

int handle_restore(struct move *move)
{
    struct moving moving = { move, CORE_OK };
    id_table_each(wires, handle_again, &moving);
    const struct client_mapping *mapping = mapping_at_or_above(0);
    for (; mapping && !moving.code; mapping = mapping_at_or_above(mapping->node.key + 1))
        moving.code = map_at(mapping->of, mapping->node.key, &mapping->rights);
    return moving.code ? move_refuse(move, moving.code, "the new server does not map a memory handle (error %d)",
                                     moving.code)
                       : CORE_OK;
}

/* A context through which bytes of the device's memory are copied; NULL: none exists. */
static core_context *context_on(int device)
{
    core_context *c = context_next(NULL);
    while (c && c->device != device)
        c = context_next(c);
    return c;
}

/* It may be mapped nowhere, so both servers map it for a moment, at an address that the program does not use. */
static void handle_copy(void *object, id_token token, void *context)
{
    struct physical *physical = object;
    struct moving *moving = context;
    struct move *move = moving->move;
    core_context *c = context_on(physical->device);
    bool mapped[2] = { false };
    struct rights own = { 0 };
    rights_note(&own, physical->device, ACCESS_READ_WRITE);
    (void)token;
    if (moving->code)
        return;
    uint64_t at = c ? take(0, physical->size, core_session.granularity) : 0;
    int code = at ? CORE_OK
                  : move_refuse(move, 0, "no %s to copy what a memory handle on device %d holds",
                                c ? "addresses are free" : "context exists", physical->device);
    for (enum move_end end = MOVE_SOURCE; end <= MOVE_TARGET && !code; end++) {
        move_go(move, end);
        code = map_at(physical, at, &own);
        mapped[end] = !code;
    }
    if (!code)
        code = move_bytes(move, c, at, physical->size);
    int ended = move_stream_end(move);              /* nothing uses it any more */
    for (enum move_end end = MOVE_SOURCE; end <= MOVE_TARGET; end++) {
        move_go(move, end);
        if (mapped[end])
            unmap_at(physical, at);
    }
    if (at)
        window_give(at, physical->size);
    moving->code = code ? code : ended;
}

int handle_contents(struct move *move)
{
    struct moving moving = { move, CORE_OK };
    id_table_each(wires, handle_copy, &moving);
    return moving.code ? move_refuse(move, moving.code, "what a memory handle holds cannot be copied (error %d)",
                                     moving.code)
                       : CORE_OK;
}
