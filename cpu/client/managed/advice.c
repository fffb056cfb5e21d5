/*
 * advice.c: what the program says about how it will use managed memory (cudaMemAdvise), and prefetching.
 *
 * Advice is kept, so that the program can ask for it (cudaMemRangeGetAttribute), by pages: a list of ranges that do not
 * overlap, in order. Ranges about which nothing was said are not in it. A prefetch to the device brings the program's
 * pages there at once; one to the program makes its next access bring many pages.
 */
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/wire/device.h"
#include "cpu/client/core/stream/managed.h"
#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/stream/op.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/common/cancel.h"
#include "advice.h"
#include "managed.h"
#include "spans.h"

enum { DEVICES_MOST = 32 };

/* One bit of accessed_by for each device, and one for the program. */
#define HOST_BIT (UINT64_C(1) << DEVICES_MOST)

struct said {
    bool     read_mostly;
    int      preferred, prefetched;   /* MANAGED_NOWHERE: nothing was said */
    uint64_t accessed_by;
};
static const struct said nothing = { .preferred = MANAGED_NOWHERE, .prefetched = MANAGED_NOWHERE };

struct advised { struct tree_node node; uint64_t size; struct said said; };     /* key: address; whole pages */
static struct tree advised;

/* CUmem_range_attribute */
enum {
    READ_MOSTLY = 1, PREFERRED, ACCESSED_BY, LAST_PREFETCH,
    PREFERRED_TYPE, PREFERRED_ID, LAST_PREFETCH_TYPE, LAST_PREFETCH_ID
};
/* CUmemLocationType */
enum { LOCATION_INVALID = 0, LOCATION_DEVICE = 1, LOCATION_HOST = 2 };

/* ---- the list ---- */

/* The first that ends above the address. */
static struct advised *above(uint64_t address)
{
    FLYT_ASSERT_HELD(&spans_lock);
    struct advised *a = TREE_OBJECT(tree_at_or_below(&advised, address, 0), struct advised, node);
    return a && address - a->node.key < a->size
               ? a : TREE_OBJECT(tree_at_or_above(&advised, address, 0), struct advised, node);
}

static bool insert(uint64_t address, uint64_t size, const struct said *said)
{
    struct advised *a = malloc(sizeof *a);
    if (!a)
        return false;
    *a = (struct advised){ .size = size, .said = *said };
    a->node.key = address;
    tree_insert(&advised, &a->node);
    return true;
}

/* A range that goes over `at` becomes two. */
static bool cut(uint64_t at)
{
    struct advised *a = above(at);
    if (!a || a->node.key >= at)
        return true;
    if (!insert(at, a->node.key + a->size - at, &a->said))
        return false;
    a->size = at - a->node.key;
    return true;
}

/* Each range of [address, end), with those about which nothing was said: they are put into the list. False: no memory;
   then nothing changed. */
static bool cover(uint64_t address, uint64_t end)
{
    if (!cut(address) || !cut(end))
        return false;
    while (address < end) {
        struct advised *a = above(address);
        uint64_t next = a && a->node.key < end ? a->node.key : end;
        if (next > address && !insert(address, next - address, &nothing))
            return false;
        address = next < end ? next + a->size : end;
    }
    return true;
}

static uint64_t page_of(uint64_t address) { return address & ~(uint64_t)(PAGE - 1); }

void advice_forget(uint64_t address, uint64_t size)
{
    uint64_t end = page_of(address + size + PAGE - 1);
    address = page_of(address);
    cut(address);                             /* without memory more is forgotten than should be: it is advice */
    cut(end);
    for (struct advised *a; (a = above(address)) && a->node.key < end;) {
        tree_remove(&advised, &a->node);
        free(a);
    }
}

bool advice_wants_host(uint64_t address)
{
    const struct advised *a = above(address);
    return a && a->node.key <= address && a->said.prefetched == MANAGED_ON_HOST;
}

/* ---- what is said ---- */

static uint64_t bit(int device)
{
    return device == MANAGED_ON_HOST ? HOST_BIT : UINT64_C(1) << device;
}

static void say(struct said *said, enum managed_advice advice, int device)
{
    switch (advice) {
    case MANAGED_SET_READ_MOSTLY: said->read_mostly = true; break;
    case MANAGED_UNSET_READ_MOSTLY: said->read_mostly = false; break;
    case MANAGED_SET_PREFERRED: said->preferred = device; break;
    case MANAGED_UNSET_PREFERRED: said->preferred = MANAGED_NOWHERE; break;
    case MANAGED_SET_ACCESSED_BY: said->accessed_by |= bit(device); break;
    case MANAGED_UNSET_ACCESSED_BY: said->accessed_by &= ~bit(device); break;
    }
}

static int say_all(uint64_t address, uint64_t size, enum managed_advice advice, int device)
{
    uint64_t end = page_of(address + size + PAGE - 1);
    address = page_of(address);
    if (!cover(address, end))
        return CORE_OUT_OF_MEMORY;
    for (struct advised *a = above(address); a && a->node.key < end;
         a = TREE_OBJECT(tree_next(&advised, &a->node), struct advised, node))
        say(&a->said, advice, device);
    return CORE_OK;
}

static void advice_prefetched(uint64_t address, uint64_t size, int device)
{
    uint64_t end = page_of(address + size + PAGE - 1);
    address = page_of(address);
    if (!cover(address, end))
        return;
    for (struct advised *a = above(address); a && a->node.key < end;
         a = TREE_OBJECT(tree_next(&advised, &a->node), struct advised, node))
        a->said.prefetched = device;
}

/* All of the range is managed memory; *variables: of a module. */
static int check(uint64_t address, uint64_t size, bool *variables)
{
    struct core_range r;
    int code = core_enter();
    if (code)
        return code;
    if (!size || !core_address_lookup(address, &r) || !(r.flags & CORE_MANAGED) || size > r.size - (address - r.base))
        return CORE_INVALID_VALUE;
    *variables = r.flags != CORE_MANAGED;
    return CORE_OK;
}

static bool is_device(int device)
{
    return device == MANAGED_ON_HOST || (device >= 0 && device < DEVICES_MOST && client_device_find(device));
}

int core_managed_advise(uint64_t address, size_t size, enum managed_advice advice, int device)
{
    CANCEL_DEFERRED;
    bool variables;
    int code = check(address, size, &variables);
    if (code)
        return code;
    if (advice < MANAGED_SET_READ_MOSTLY || advice > MANAGED_UNSET_ACCESSED_BY)
        return CORE_INVALID_VALUE;
    bool place_counts = advice == MANAGED_SET_PREFERRED || advice >= MANAGED_SET_ACCESSED_BY;
    if (place_counts && !is_device(device))
        return CORE_INVALID_VALUE;
    pthread_mutex_lock(&spans_lock);
    code = say_all(address, size, advice, device);
    pthread_mutex_unlock(&spans_lock);
    return code;
}

int core_prefetch(core_context *c, core_stream stream, uint64_t address, size_t size, int device)
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    bool variables;
    int code = client_stream_enter(c, stream, &s);
    if (code || (code = check(address, size, &variables)))
        return code;
    if (!is_device(device))
        return CORE_INVALID_DEVICE;
    pthread_mutex_lock(&spans_lock);
    advice_prefetched(address, size, device);
    pthread_mutex_unlock(&spans_lock);
    if (device != MANAGED_ON_HOST && (code = managed_before_access(address, size, false, false)))
        return code;
    /* Variables are managed memory of the server's driver, too. */
    return variables ? op_submit(s, &(struct op){ .kind = OP_PREFETCH, .prefetch = { address, size, device } })
                     : CORE_OK;
}

/* ---- what is asked ---- */

/* What was said about the whole range: what differs within it counts as not said. */
static struct said said_of(uint64_t address, uint64_t size)
{
    FLYT_ASSERT_HELD(&spans_lock);
    uint64_t end = page_of(address + size + PAGE - 1), at = page_of(address);
    struct said all = nothing;
    bool first = true;
    while (at < end) {
        const struct advised *a = above(at);
        bool here = a && a->node.key <= at;
        const struct said *one = here ? &a->said : &nothing;
        at = here ? a->node.key + a->size : a ? a->node.key : end;
        if (first)
            all = *one;
        first = false;
        all.read_mostly &= one->read_mostly;
        all.preferred = all.preferred == one->preferred ? all.preferred : MANAGED_NOWHERE;
        all.prefetched = all.prefetched == one->prefetched ? all.prefetched : MANAGED_NOWHERE;
        all.accessed_by &= one->accessed_by;
    }
    return all;
}

static int location_type(int place)
{
    return place == MANAGED_NOWHERE ? LOCATION_INVALID : place == MANAGED_ON_HOST ? LOCATION_HOST : LOCATION_DEVICE;
}

static int location_id(int place)
{
    return place < 0 ? 0 : place;
}

/* The devices, and MANAGED_NOWHERE where there are fewer than places. */
static void accessors(uint64_t accessed_by, int *to, size_t places)
{
    size_t used = 0;
    for (int device = MANAGED_ON_HOST; device < DEVICES_MOST && used < places; device++)
        if (accessed_by & bit(device))
            to[used++] = device;
    while (used < places)
        to[used++] = MANAGED_NOWHERE;
}

int core_managed_attribute(uint64_t address, size_t size, int attribute, void *data, size_t data_size)
{
    CANCEL_DEFERRED;
    bool variables;
    int code = check(address, size, &variables);
    if (code)
        return code;
    bool list = attribute == ACCESSED_BY;
    if (!data || !data_size || (list ? data_size % sizeof(int) : data_size != sizeof(int)))
        return CORE_INVALID_VALUE;
    pthread_mutex_lock(&spans_lock);
    const struct said said = said_of(address, size);
    pthread_mutex_unlock(&spans_lock);        /* data may be managed memory */
    int value;
    switch (attribute) {
    case READ_MOSTLY: value = said.read_mostly; break;
    case PREFERRED: value = said.preferred; break;
    case ACCESSED_BY: accessors(said.accessed_by, data, data_size / sizeof(int)); return CORE_OK;
    case LAST_PREFETCH: value = said.prefetched; break;
    case PREFERRED_TYPE: value = location_type(said.preferred); break;
    case PREFERRED_ID: value = location_id(said.preferred); break;
    case LAST_PREFETCH_TYPE: value = location_type(said.prefetched); break;
    case LAST_PREFETCH_ID: value = location_id(said.prefetched); break;
    default: return CORE_INVALID_VALUE;
    }
    memcpy(data, &value, sizeof value);
    return CORE_OK;
}
