/*
 * address.c: what every address of the program means to CUDA: allocations, symbols, pinned and registered host
 * memory. Ranges never overlap; each is a node of one tree, ordered by its base. Look-ups (every copy makes some)
 * share the lock.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "cpu/common/cancel.h"
#include "cpu/common/tree.h"
#include "cpu/client/core/api_memory.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/stream/early_return.h"
#include "memory.h"
#include "cpu/client/core/wire/state.h"

struct address_range {
    struct tree_node  node;           /* key: base */
    struct core_range range;
};

/* Of device memory. Not 0: it is no allocation of a context: a variable (DEVICE_SYMBOL), a handle's mapping, an
   allocation of a pool, or memory of another program. */
enum { FLAG_MAPPED = 2, FLAG_POOLED = 4, FLAG_IMPORTED = 8 };

static struct tree ranges;
/* Variables of modules whose addresses another server's driver has chosen as well, by session. */
static struct tree also[SESSIONS_MOST];
static atomic_bool also_any;
static atomic_uint_fast64_t ids;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static atomic_uint_fast64_t counts[CORE_REGISTERED_MEMORY + 1];      /* by kind, without symbols */

static void count(const struct core_range *r, int change)
{
    bool symbol = r->kind == CORE_DEVICE_MEMORY && r->flags;
    if (!symbol)
        atomic_fetch_add_explicit(&counts[r->kind], (uint64_t)change, memory_order_relaxed);
}

uint64_t address_count(enum core_memory_kind kind)
{
    return atomic_load(&counts[kind]);
}

static struct address_range *within(const struct tree *tree, uint64_t address)
{
    struct address_range *r = (struct address_range *)tree_at_or_below(tree, address, 0);
    return r && address - r->range.base < r->range.size ? r : NULL;
}

static struct address_range *containing(uint64_t address) { return within(&ranges, address); }

static bool overlaps(const struct tree *tree, uint64_t base, uint64_t size)
{
    const struct address_range *next = (struct address_range *)tree_at_or_above(tree, base, 0);
    return within(tree, base) || (next && next->range.base - base < size);
}

/* Where the range goes; NULL: nowhere. */
static struct tree *place_of(const struct core_range *range)
{
    bool variable = range->kind == CORE_DEVICE_MEMORY && range->flags & DEVICE_SYMBOL;
    if (!overlaps(&ranges, range->base, range->size))
        return &ranges;
    struct tree *own = variable && session_several() ? &also[range->context->session->number] : NULL;
    return own && !overlaps(own, range->base, range->size) ? own : NULL;
}

static int add(const struct core_range *range)
{
    struct address_range *r = malloc(sizeof *r);
    if (!r)
        return CORE_OUT_OF_MEMORY;
    r->node.key = range->base;
    r->node.tie = 0;
    r->range = *range;
    r->range.id = atomic_fetch_add_explicit(&ids, 1, memory_order_relaxed) + 1;
    pthread_rwlock_wrlock(&lock);
    struct tree *tree = place_of(range);
    bool taken = !tree;
    if (tree) {
        tree_insert(tree, &r->node);
        count(&r->range, 1);
        if (tree != &ranges)
            atomic_store(&also_any, true);
    }
    pthread_rwlock_unlock(&lock);
    if (range->kind != CORE_DEVICE_MEMORY)
        changes_note();
    if (taken)
        free(r);
    return taken ? CORE_INVALID_VALUE : CORE_OK;
}

int address_add(enum core_memory_kind kind, core_context *owner, uint64_t base, size_t size, unsigned flags)
{
    return add(&(struct core_range){ kind, owner, owner ? owner->device : -1, base, size, flags, 0, false });
}

int address_add_mapped(int device, uint64_t base, size_t size, bool of_host)
{
    const unsigned flags = FLAG_MAPPED | (of_host ? CORE_HOST_MAPPED : 0);
    return add(&(struct core_range){ CORE_DEVICE_MEMORY, NULL, device, base, size, flags, 0, false });
}

int address_add_pooled(int device, uint64_t base, size_t size)
{
    return add(&(struct core_range){ CORE_DEVICE_MEMORY, NULL, device, base, size, FLAG_POOLED, 0, false });
}

int address_add_imported(core_context *owner, int device, uint64_t base, size_t size)
{
    return add(&(struct core_range){ CORE_DEVICE_MEMORY, owner, device, base, size, FLAG_IMPORTED, 0, false });
}

bool address_is_pooled(const struct core_range *r) { return r->kind == CORE_DEVICE_MEMORY && r->flags == FLAG_POOLED; }

static bool take_out(struct tree *tree, enum core_memory_kind kind, uint64_t base, struct core_range *out)
{
    pthread_rwlock_wrlock(&lock);
    struct address_range *r = within(tree, base);
    bool found = r && r->range.base == base && r->range.kind == kind;
    if (found) {
        tree_remove(tree, &r->node);
        count(&r->range, -1);
        if (out)
            *out = r->range;
    }
    pthread_rwlock_unlock(&lock);
    if (found)
        free(r);
    if (kind != CORE_DEVICE_MEMORY)
        changes_note();
    return found;
}

bool address_remove(enum core_memory_kind kind, uint64_t base, struct core_range *out)
{
    return take_out(&ranges, kind, base, out);
}

bool address_remove_variable(const core_context *c, uint64_t base, struct core_range *out)
{
    struct tree *own = atomic_load(&also_any) ? &also[c->session->number] : &ranges;
    return take_out(own, CORE_DEVICE_MEMORY, base, out) ||
           (own != &ranges && take_out(&ranges, CORE_DEVICE_MEMORY, base, out));
}

static void forget(struct tree *tree, const core_context *context)
{
    struct tree_node *next;
    for (struct tree_node *n = tree_first(tree); n; n = next) {
        struct address_range *r = (struct address_range *)n;
        next = n->key == UINT64_MAX ? NULL : tree_at_or_above(tree, n->key + 1, 0);
        if (r->range.context == context) {
            tree_remove(tree, n);
            count(&r->range, -1);
            free(r);
        }
    }
}

void address_forget_context(core_context *context)
{
    pthread_rwlock_wrlock(&lock);
    forget(&ranges, context);
    forget(&also[context->session->number], context);
    pthread_rwlock_unlock(&lock);
}

void address_each_allocation(void (*visit)(const struct core_range *, void *context), void *context)
{
    pthread_rwlock_rdlock(&lock);
    struct tree_node *next;
    for (struct tree_node *n = tree_first(&ranges); n; n = next) {
        const struct core_range *r = &((struct address_range *)n)->range;
        next = n->key == UINT64_MAX ? NULL : tree_at_or_above(&ranges, n->key + 1, 0);
        if (r->kind == CORE_DEVICE_MEMORY && !r->flags)
            visit(r, context);
    }
    pthread_rwlock_unlock(&lock);
}

bool core_address_lookup(uint64_t address, struct core_range *out)
{
    CANCEL_DEFERRED;
    return address_lookup_at(core_current ? core_current->session : &core_session, address, out);
}

bool address_lookup_at(const struct client_session *session, uint64_t address, struct core_range *out)
{
    if (!session_ready())
        return false;
    pthread_rwlock_rdlock(&lock);
    const struct address_range *r =
        atomic_load_explicit(&also_any, memory_order_relaxed) ? within(&also[session->number], address) : NULL;
    r = r ? r : containing(address);
    if (r)
        *out = r->range;
    pthread_rwlock_unlock(&lock);
    return r != NULL;
}

atomic_bool address_any_synchronous;

int core_address_set_synchronous(uint64_t address, bool synchronous)
{
    CANCEL_DEFERRED;
    pthread_rwlock_wrlock(&lock);
    struct address_range *r = containing(address);
    bool good = r && r->range.kind == CORE_DEVICE_MEMORY;
    if (good)
        r->range.synchronous = synchronous;
    core_context *owner = good ? r->range.context : NULL;
    pthread_rwlock_unlock(&lock);
    if (!good)
        return CORE_INVALID_VALUE;
    if (!synchronous)
        return CORE_OK;
    atomic_store(&address_any_synchronous, true);
    early_return_settle_others(NULL);         /* those that have returned early, and */
    return owner ? stream_wait_for(&owner->legacy) : CORE_OK;  /* copies on the device, which nobody waits for */
}

bool address_is_synchronous(uint64_t address)
{
    struct core_range r;
    return core_address_lookup(address, &r) && r.synchronous;
}

bool address_covers(uint64_t address, uint64_t size)
{
    struct core_range r;
    while (core_address_lookup(address, &r)) {
        uint64_t here = r.size - (address - r.base);
        if (size <= here)
            return true;
        if (!(r.flags & FLAG_MAPPED) || r.kind != CORE_DEVICE_MEMORY)
            return false;
        address += here;
        size -= here;
    }
    return false;
}
