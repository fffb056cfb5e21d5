/*
 * handle_host.c: memory of the host in virtual memory management (CU_MEM_LOCATION_TYPE_HOST, HOST_NUMA), mapped where
 * the program wants it, for kernels and for the program itself.
 *
 * The two run on different machines. The server holds the memory as it holds that of devices, and maps it. What the
 * program may touch of it is watched as managed memory is (cpu/client/managed): pages come when they are touched, and
 * go before work that may use them. Pages pass through the device that has the memory; so that device may use it as
 * long as the program may, whatever the program has said of the device.
 */
#include "cpu/client/core/api_memory.h"
#include "cpu/client/core/stream/managed.h"
#include "cpu/client/core/wire/device.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/common/cancel.h"
#include "handle_state.h"

void handle_lock_pages(void)
{
    managed_session_rests(true);
    pthread_mutex_lock(&handle_lock);
}

void handle_unlock_pages(void)
{
    pthread_mutex_unlock(&handle_lock);
    managed_session_rests(false);
}

bool core_handle_host_possible(void) { return managed_possible(); }

struct rights mapping_rights(const struct client_mapping *mapping)
{
    struct rights rights = mapping->rights;
    if (mapping->host)
        rights_note(&rights, mapping->of->device, ACCESS_READ_WRITE);
    return rights;
}

/* A mapping of a handle that the program has released, and that is mapped nowhere else, ends with its contents. */
int mapping_shut(struct client_mapping *mapping)
{
    bool last = !mapping->of->handles && mapping->of->mappings == 1;
    return managed_room->mapping_ends(mapping->node.key, mapping->size, last);
}

static int open_one(struct client_mapping *mapping)
{
    const uint64_t at = mapping->node.key, size = mapping->size;
    const int device = mapping->of->device;
    const unsigned own = rights_of(&mapping->rights, device);
    int code = own == ACCESS_READ_WRITE ? CORE_OK : access_ask(at, size, device, ACCESS_READ_WRITE);
    if (!code && (code = managed_room->mapping_begins(device, at, size)) && own != ACCESS_READ_WRITE)
        access_ask(at, size, device, own);
    if (!code)
        access_note(mapping, &mapping->rights, true);
    return code;
}

static int shut_one(struct client_mapping *mapping)
{
    const int device = mapping->of->device;
    const unsigned own = rights_of(&mapping->rights, device);
    int code = mapping_shut(mapping);
    access_note(mapping, &mapping->rights, false);
    int asked = own == ACCESS_READ_WRITE ? CORE_OK : access_ask(mapping->node.key, mapping->size, device, own);
    return code ? code : asked;
}

/* Where the bytes of one handle stand at two places in the program, a change of one would not show at the other. */
static bool touched_elsewhere(const struct client_mapping *mapping)
{
    const struct client_mapping *m = mapping_at_or_above(0);
    for (; m; m = mapping_at_or_above(m->node.key + 1))
        if (m != mapping && m->of == mapping->of && m->host)
            return true;
    return false;
}

static int access_check(uint64_t address, uint64_t size, unsigned access)
{
    if (!mappings_fill(address, size))
        return CORE_INVALID_VALUE;
    bool apart = !(core_session.hello.capabilities & FLYT_CAP_TOUCH);
    for (uint64_t at = address; at - address < size; at += mapping_of(at)->size) {
        if (!mapping_of(at)->of->place.type)
            return CORE_NOT_SUPPORTED;        /* memory of a device */
        if (access && apart && touched_elsewhere(mapping_of(at)))
            return CORE_NOT_SUPPORTED;
    }
    return access == ACCESS_READ ? CORE_NOT_SUPPORTED : CORE_OK;
}

int core_access_set_host(uint64_t address, size_t size, unsigned access)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    handle_lock_pages();
    code = access_check(address, size, access);
    for (uint64_t at = address; !code && at - address < size; at += mapping_of(at)->size) {
        struct client_mapping *mapping = mapping_of(at);
        if (mapping->host != (access != 0))
            code = access ? open_one(mapping) : shut_one(mapping);
    }
    handle_unlock_pages();
    return code;
}

int core_access_get_host(uint64_t address, unsigned *access)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    pthread_mutex_lock(&handle_lock);
    const struct client_mapping *mapping = mapping_of(address);
    if (mapping)
        *access = mapping->host ? ACCESS_READ_WRITE : 0;
    pthread_mutex_unlock(&handle_lock);
    return mapping ? CORE_OK : CORE_INVALID_VALUE;
}
