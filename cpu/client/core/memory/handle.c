/*
 * handle.c: virtual memory management: reservations of addresses in the session's window, handles of device memory
 * without an address, and where handles are mapped. The server makes and maps the memory (HANDLE_…); everything that a
 * program can do wrong is found out here. What a program may use (access has been set) is in the address map.
 */
#include <stdlib.h>
#include <unistd.h>

#include "cpu/common/cancel.h"
#include "cpu/client/core/api_memory.h"
#include "cpu/client/core/wire/device.h"
#include "handle_state.h"
#include "cpu/client/core/stream/pool_notes.h"
#include "share.h"
#include "windows.h"
#include "cpu/client/core/stream/managed.h"
#include "cpu/client/core/stream/move_written.h"
#include "cpu/client/core/wire/state.h"

enum { TOKEN_KIND = 5 };

struct handle_reservation {
    struct tree_node node; /* key: base */
    uint64_t size;
    bool noted; /* the address map has all of it, whatever is mapped there */
};

_Static_assert(FLYT_MAX_DEVICES <= 64, "struct rights has a bit for each");

pthread_mutex_t handle_lock = PTHREAD_MUTEX_INITIALIZER;
id_table *handle_wires;
atomic_uint_fast64_t handle_share_count;

static struct tree reservations, mappings;
static id_table *tokens;
static _Atomic(struct physical *) kept;       /* those that only descriptors keep; changed under the lock */

int handle_open(void)
{
    tokens = id_table_create(TOKEN_KIND, 1);
    handle_wires = id_table_create(TOKEN_KIND, 1);
    return tokens && handle_wires ? CORE_OK : CORE_OUT_OF_MEMORY;
}

uint64_t handle_count(void) { return handle_wires ? id_table_count(handle_wires) : 0; }

static bool granules(uint64_t number) { return number % core_session.granularity == 0; }

int core_memory_granularity(size_t *bytes)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (!code)
        *bytes = core_session.granularity;
    return code;
}

struct client_session *physical_session(const struct physical *physical)
{
    return client_device_find(physical->device)->session;
}

/* ---- what devices may do ---- */

int access_ask(uint64_t address, uint64_t size, int device, unsigned access)
{
    const struct client_device *of = client_device_find(device);
    handle_access_args args = { address, size, of->wire, access };
    return wire_plain(of->session, FLYT_HANDLE_ACCESS, (xdrproc_t)xdr_handle_access_args, &args);
}

/* access_ask for each device, of a fresh mapping, which no device may use. A result code. */
static int rights_ask(uint64_t address, uint64_t size, const struct rights *rights)
{
    int code = CORE_OK;
    for (int device = 0; device < device_count() && !code; device++)
        if (rights_of(rights, device))
            code = access_ask(address, size, device, rights_of(rights, device));
    return code;
}

/* Asks the server to map the memory at the address, where no device may use it yet. A result code. */
static int mapping_ask(const struct physical *physical, uint64_t address)
{
    handle_map_args args = { .handle = physical->wire, .address = address };
    return wire_plain(physical_session(physical), FLYT_HANDLE_MAP, (xdrproc_t)xdr_handle_map_args, &args);
}

int mapping_end(struct client_session *session, uint64_t address, uint64_t size)
{
    handle_unmap_args args = { .address = address, .size = size };
    return wire_send(session, FLYT_HANDLE_UNMAP, (xdrproc_t)xdr_handle_unmap_args, &args);
}

int mapping_ask_with(const struct physical *physical, uint64_t address, const struct rights *rights)
{
    int code = mapping_ask(physical, address);
    if (code)
        return code;
    if ((code = rights_ask(address, physical->size, rights)))
        mapping_end(physical_session(physical), address, physical->size);
    return code;
}

/* ---- reservations ---- */

uint64_t addresses_take(uint64_t hint, uint64_t size, uint64_t unit)
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
    struct handle_reservation *reservation = calloc(1, sizeof *reservation);
    if (!reservation)
        return CORE_OUT_OF_MEMORY;
    pthread_mutex_lock(&handle_lock);
    uint64_t base = size <= core_session.window_size ? addresses_take(hint, size, unit) : 0;
    if (base && device >= 0 && address_add_mapped(device, base, size, false)) {
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
    pthread_mutex_unlock(&handle_lock);
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

struct client_mapping *mapping_at_or_above(uint64_t address)
{
    return (struct client_mapping *)tree_at_or_above(&mappings, address, 0);
}

struct client_mapping *mapping_of(uint64_t address)
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
    pthread_mutex_lock(&handle_lock);
    struct handle_reservation *found = (struct handle_reservation *)tree_at_or_below(&reservations, address, 0);
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
    pthread_mutex_unlock(&handle_lock);
    return code;
}

/* ---- handles ---- */

struct physical *physical_find(id_token token) { return tokens ? id_table_find(tokens, token) : NULL; }

int wire_take(struct physical *physical)
{
    physical->named = id_table_add(handle_wires, physical, &physical->wire);
    physical->moved = move_written_next();
    return physical->named ? CORE_OK : CORE_OUT_OF_MEMORY;
}

void wire_give(struct physical *physical)
{
    id_table_remove(handle_wires, physical->named);
    id_table_release(handle_wires, physical->wire);
}

bool physical_described(struct physical *physical)
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
    int code = wire_send(physical_session(physical), FLYT_HANDLE_RELEASE, (xdrproc_t)xdr_handle_release_args, &args);
    wire_give(physical);
    atomic_fetch_sub(&handle_share_count, physical->named_there);
    free(physical->watches);
    free(physical);
    return code;
}

bool kept_look(void)
{
    bool ended = false;
    for (struct physical *p = atomic_load(&kept), *before = NULL, *next; p; p = next) {
        next = p->next_kept;
        if (physical_described(p)) {
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
    if (!atomic_load(&kept) || (wait ? pthread_mutex_lock(&handle_lock) : pthread_mutex_trylock(&handle_lock)))
        return false;
    bool ended = kept_look();
    pthread_mutex_unlock(&handle_lock);
    return ended;
}

int physical_drop(struct physical *physical)
{
    if (!physical->handles && physical->token) {
        id_table_remove(tokens, physical->token);
        id_table_release(tokens, id_token_index(physical->token));
        physical->token = 0;
    }
    if (physical->handles || physical->mappings)
        return CORE_OK;
    if (!physical_described(physical))
        return physical_end(physical);
    physical->next_kept = atomic_load(&kept);
    atomic_store(&kept, physical);
    return CORE_OK;
}

/* The server's part. */
static int create_there(struct physical *physical)
{
    const struct client_device *of = client_device_find(physical->device);
    handle_create_args args = { .device = of->wire, .size = physical->size };
    int code = wire_take(physical);
    if (code)
        return code;
    args.handle = physical->wire;
    code = wire_plain(of->session, FLYT_HANDLE_CREATE, (xdrproc_t)xdr_handle_create_args, &args);
    if (code)
        wire_give(physical);
    return code;
}

struct physical *physical_create(int device, uint64_t size, int *code)
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

int physical_name(struct physical *physical, core_handle *out)
{
    *out = physical->token = id_table_add(tokens, physical, NULL);
    if (!*out) {
        physical_drop(physical);
        return CORE_OUT_OF_MEMORY;
    }
    physical->handles = 1;
    return CORE_OK;
}

static int create_named(int device, size_t size, bool shared, struct core_host_place place, core_handle *out)
{
    int code = CORE_OK;
    pthread_mutex_lock(&handle_lock);
    struct physical *physical = physical_create(device, size, &code);
    if (physical) {
        physical->shared = shared;
        physical->place = place;
        code = physical_name(physical, out);
    }
    pthread_mutex_unlock(&handle_lock);
    return code;
}

static int create_anywhere(int device, size_t size, bool shared, struct core_host_place place, core_handle *out)
{
    if (!client_device_find(device))
        return CORE_INVALID_DEVICE;
    if (!size || !granules(size))
        return CORE_INVALID_VALUE;
    int code = shared ? core_share_check() : CORE_OK;
    if (code)
        return code;
    code = create_named(device, size, shared, place, out);
    return code == CORE_OUT_OF_MEMORY && pool_give_back() ? create_named(device, size, shared, place, out) : code;
}

int core_handle_create(int device, size_t size, bool shared, core_handle *out)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    return code ? code : create_anywhere(device, size, shared, (struct core_host_place){ 0 }, out);
}

int core_handle_create_host(int device, size_t size, struct core_host_place place, core_handle *out)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (!code && !managed_possible())
        code = CORE_NOT_SUPPORTED;
    return code ? code : create_anywhere(device, size, false, place, out);
}

int core_handle_release(core_handle handle)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    pthread_mutex_lock(&handle_lock);
    struct physical *physical = physical_find(handle);
    if (physical) {
        physical->handles--;
        code = physical_drop(physical);
    } else {
        code = CORE_INVALID_VALUE;
    }
    pthread_mutex_unlock(&handle_lock);
    return code;
}

int core_handle_info(core_handle handle, struct core_handle_info *info)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    pthread_mutex_lock(&handle_lock);
    const struct physical *physical = physical_find(handle);
    if (physical)
        *info = (struct core_handle_info){ physical->device, physical->size, physical->shared, physical->place };
    pthread_mutex_unlock(&handle_lock);
    return physical ? CORE_OK : CORE_INVALID_VALUE;
}

int core_handle_at(uint64_t address, core_handle *out)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    pthread_mutex_lock(&handle_lock);
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
    pthread_mutex_unlock(&handle_lock);
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
static const struct handle_reservation *reservation_of(uint64_t address, uint64_t size)
{
    const struct handle_reservation *r = (struct handle_reservation *)tree_at_or_below(&reservations, address, 0);
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
    int code = mapping_ask(physical, address);
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
    pthread_mutex_lock(&handle_lock);
    code = map(address, size, physical_find(handle));
    pthread_mutex_unlock(&handle_lock);
    return code;
}

bool mappings_fill(uint64_t address, uint64_t size)
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

void access_note(struct client_mapping *mapping, const struct rights *rights, bool host)
{
    bool before = mapping->rights.read || mapping->host, after = rights->read || host;
    uint64_t at = mapping->node.key;
    mapping->rights = *rights;
    mapping->host = host;
    mapping->of->moved = move_written_next();
    const struct handle_reservation *within = reservation_of(at, mapping->size);
    if (within && within->noted)
        return;
    if (before && !after)
        address_remove(CORE_DEVICE_MEMORY, at, NULL);
    else if (after && !before &&
             address_add_mapped(mapping->of->device, at, mapping->size, mapping->of->place.type != 0))
        mapping->rights = (struct rights){ 0 };
}

static int unmap(uint64_t address, uint64_t size)
{
    if (!mappings_fill(address, size))
        return CORE_INVALID_VALUE;
    int first = CORE_OK;
    for (uint64_t at = address; at - address < size; at += mapping_of(at)->size) {
        int shut = mapping_of(at)->host ? mapping_shut(mapping_of(at)) : CORE_OK;
        first = first ? first : shut;
    }
    int code = mapping_end(physical_session(mapping_of(address)->of), address, size);
    for (uint64_t at = address; at - address < size;) {
        struct client_mapping *mapping = mapping_of(at);
        at += mapping->size;
        access_note(mapping, &(struct rights){ 0 }, false);
        tree_remove(&mappings, &mapping->node);
        mapping->of->mappings--;
        int dropped = physical_drop(mapping->of);
        code = code ? code : dropped;
        free(mapping);
    }
    return first ? first : code;
}

int core_handle_unmap(uint64_t address, size_t size)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    windows_end_in(address, size);
    handle_lock_pages();
    code = unmap(address, size);
    handle_unlock_pages();
    return code;
}

static int access_set(uint64_t address, uint64_t size, int device, unsigned access)
{
    if (!mappings_fill(address, size))
        return CORE_INVALID_VALUE;
    if (physical_session(mapping_of(address)->of) != client_device_find(device)->session)
        return access ? CORE_INVALID_DEVICE : CORE_OK; /* memory of another server */
    bool touched = false;
    for (uint64_t at = address; at - address < size; at += mapping_of(at)->size)
        touched |= mapping_of(at)->host && mapping_of(at)->of->device == device;
    int code = touched ? CORE_OK : access_ask(address, size, device, access);
    for (uint64_t at = address; !code && at - address < size; at += mapping_of(at)->size) {
        struct client_mapping *mapping = mapping_of(at);
        struct rights rights = mapping->rights;
        if (touched && !(mapping->host && mapping->of->device == device))
            code = access_ask(at, mapping->size, device, access);
        rights_note(&rights, device, access);
        if (!code)
            access_note(mapping, &rights, mapping->host);
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
    pthread_mutex_lock(&handle_lock);
    code = access_set(address, size, device, access);
    pthread_mutex_unlock(&handle_lock);
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
    pthread_mutex_lock(&handle_lock);
    const struct client_mapping *mapping = mapping_of(address);
    if (mapping)
        *access = rights_of(&mapping->rights, device);
    pthread_mutex_unlock(&handle_lock);
    return mapping ? CORE_OK : CORE_INVALID_VALUE;
}
