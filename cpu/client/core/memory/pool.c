/*
 * pool.c: memory pools, and stream-ordered allocation from them.
 *
 * A pool is memory that the server has created and mapped (handles); what the program allocates is cut from it on this
 * side. So an allocation or a free costs no message, but when the pool grows or gives back. pool_blocks.c has the
 * memory of a pool, pool_order.c the order of frees.
 *
 * Which free memory an allocation gets: the smallest block that fits, of what was freed in the same stream, what the
 * stream comes behind already, and what is known to be used by no work; else what turns out now to be used by none;
 * else new memory; last, memory whose free the stream is made to wait for. The program's three attributes allow these
 * steps or not.
 *
 * A pool belongs to a device, not to a context. The device's default pool is always there. The end of the device's
 * primary context (cudaDeviceReset) ends the pools and what they hold.
 *
 * One lock for all pools, also while the server is asked for memory. lock > handle_lock, locks of heaps > streams.
 */
#include "pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/forward/core.h"
#include "cpu/common/cancel.h"
#include "cpu/common/ids.h"
#include "cpu/common/lock.h"
#include "cpu/client/core/api_memory.h"
#include "cpu/client/core/wire/device.h"
#include "extent.h"
#include "memory.h"
#include "cpu/client/core/stream/pool_notes.h"
#include "pool_shared.h"
#include "share.h"
#include "windows.h"
#include "cpu/client/core/wire/state.h"

enum { TOKEN_KIND = 6 };

struct pool {
    struct list of_all;
    core_pool token; /* 0: the program has destroyed it */
    bool is_default;
    bool shared, imported; /* other processes may use it; it is another process's */
    char name[POOL_NAME];  /* of a shared or an imported one */
    bool follow, opportunistic, internal;
    uint64_t threshold;
    struct store store;
};

static struct {
    pthread_mutex_t lock;
    id_table *tokens;
    struct list all;
    struct pool **defaults, **current; /* by device */
} pools = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- pools ---- */

static struct pool *pool_new(int device)
{
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    *pool = (struct pool){ .follow = true, .opportunistic = true, .internal = true, .store = { .device = device } };
    if (!(pool->token = id_table_add(pools.tokens, pool, NULL))) {
        free(pool);
        return NULL;
    }
    list_append(&pools.all, &pool->of_all);
    return pool;
}

/* Takes away the program's name for it. */
static void pool_unname(struct pool *pool)
{
    if (!pool->token)
        return;
    id_table_remove(pools.tokens, pool->token);
    id_table_release(pools.tokens, id_token_index(pool->token));
    pool->token = 0;
}

uint64_t pool_count(void) { return pools.tokens ? id_table_count(pools.tokens) - (uint64_t)device_count() : 0; }

/* Without the lock; whoever takes it next asks again. NULL: no such pool. */
static struct pool *find(core_pool token) { return id_table_find(pools.tokens, token); }

static struct pool *pool_next(const struct pool *pool)
{
    struct list *link = pool ? list_next(&pools.all, &pool->of_all) : list_first(&pools.all);
    return LIST_OBJECT(link, struct pool, of_all);
}

/* Gives back what the pool has too much. A destroyed pool goes with the last of its memory. */
static bool pool_trim(struct pool *pool, uint64_t keep)
{
    FLYT_ASSERT_HELD(&pools.lock);
    bool more = store_trim(&pool->store, pool->token ? keep : 0);
    if (!pool->token && !pool->store.reserved && !(pool->imported && pool_pointers_count(pool->name))) {
        list_remove(&pool->of_all);
        store_drop(&pool->store);
        free(pool);
    }
    return more;
}

/* down to each pool's threshold, or with `all` to nothing */
static bool trim_each(bool all)
{
    FLYT_ASSERT_HELD(&pools.lock);
    struct pool *next;
    bool more = false;
    for (struct pool *pool = pool_next(NULL); pool; pool = next) {
        next = pool_next(pool);
        more = pool_trim(pool, all ? 0 : pool->threshold) || more;
    }
    return more;
}

void pool_release_slow(void)
{
    pthread_mutex_lock(&pools.lock);
    atomic_store_explicit(&pool_over, trim_each(false), memory_order_relaxed);
    pthread_mutex_unlock(&pools.lock);
}

static uint64_t reserved_by_all(void)
{
    uint64_t sum = 0;
    for (struct pool *pool = pool_next(NULL); pool; pool = pool_next(pool))
        sum += pool->store.reserved;
    return sum;
}

static bool give_back(void)
{
    FLYT_ASSERT_HELD(&pools.lock);
    uint64_t before = reserved_by_all();
    trim_each(true);
    return reserved_by_all() < before;
}

bool pool_give_back(void)
{
    pthread_mutex_lock(&pools.lock);
    bool any = pools.tokens && give_back();
    pthread_mutex_unlock(&pools.lock);
    return any;
}

int core_pool_default(int device, core_pool *out)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    if (!client_device_find(device))
        return CORE_INVALID_DEVICE;
    *out = pools.defaults[device]->token;
    return CORE_OK;
}

int core_pool_current(int device, core_pool *out)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    if (!client_device_find(device))
        return CORE_INVALID_DEVICE;
    pthread_mutex_lock(&pools.lock);
    *out = pools.current[device]->token;
    pthread_mutex_unlock(&pools.lock);
    return CORE_OK;
}

int core_pool_set_current(int device, core_pool token)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    if (!client_device_find(device))
        return CORE_INVALID_DEVICE;
    pthread_mutex_lock(&pools.lock);
    struct pool *pool = find(token);
    if (pool && pool->store.device == device && !pool->imported)
        pools.current[device] = pool;
    else
        code = CORE_INVALID_VALUE;
    pthread_mutex_unlock(&pools.lock);
    return code;
}

/* name: of a pool that several processes use; NULL: of another one. */
static int create(int device, uint64_t most, const char *name, bool imported, core_pool *out)
{
    pthread_mutex_lock(&pools.lock);
    struct pool *pool = pool_new(device);
    if (pool) {
        pool->store.most = most;
        pool->shared = name && !imported;
        pool->imported = imported;
        if (name)
            memcpy(pool->name, name, sizeof pool->name);
        *out = pool->token;
    }
    pthread_mutex_unlock(&pools.lock);
    return pool ? CORE_OK : CORE_OUT_OF_MEMORY;
}

int core_pool_create(int device, uint64_t most, bool shared, core_pool *out)
{
    CANCEL_DEFERRED;
    char name[POOL_NAME];
    int code = core_enter();
    if (code)
        return code;
    if (!client_device_find(device))
        return CORE_INVALID_DEVICE;
    if (shared && ((code = core_share_check()) || (code = pool_name_make(device, name))))
        return code;
    return create(device, most, shared ? name : NULL, false, out);
}

int core_pool_destroy(core_pool token)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    pthread_mutex_lock(&pools.lock);
    struct pool *pool = find(token);
    if (pool && !pool->is_default) {
        pool_unname(pool);
        if (pools.current[pool->store.device] == pool)
            pools.current[pool->store.device] = pools.defaults[pool->store.device];
        if (pool_trim(pool, 0))
            atomic_store_explicit(&pool_over, true, memory_order_relaxed);
    } else {
        code = CORE_INVALID_VALUE;
    }
    pthread_mutex_unlock(&pools.lock);
    return code;
}

int core_pool_info(core_pool token, struct core_pool_info *out)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    pthread_mutex_lock(&pools.lock);
    const struct pool *pool = find(token);
    if (pool)
        *out = (struct core_pool_info){ pool->store.device, pool->shared, pool->imported, pool->store.others.read,
                                        pool->store.others.write };
    pthread_mutex_unlock(&pools.lock);
    return pool ? CORE_OK : CORE_INVALID_VALUE;
}

int core_pool_trim(core_pool token, uint64_t keep)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    pthread_mutex_lock(&pools.lock);
    struct pool *pool = find(token);
    if (pool)
        pool_trim(pool, keep);
    pthread_mutex_unlock(&pools.lock);
    return pool ? CORE_OK : CORE_INVALID_VALUE;
}

/* ---- attributes ---- */

static int get(const struct pool *pool, enum core_pool_attribute attribute, uint64_t *value)
{
    switch (attribute) {
    case CORE_POOL_FOLLOW_EVENTS: *value = pool->follow; return CORE_OK;
    case CORE_POOL_OPPORTUNISTIC: *value = pool->opportunistic; return CORE_OK;
    case CORE_POOL_INTERNAL_DEPENDENCIES: *value = pool->internal; return CORE_OK;
    case CORE_POOL_RELEASE_THRESHOLD: *value = pool->threshold; return CORE_OK;
    case CORE_POOL_RESERVED: *value = pool->store.reserved; return CORE_OK;
    case CORE_POOL_RESERVED_HIGH: *value = pool->store.reserved_high; return CORE_OK;
    case CORE_POOL_USED: *value = pool->store.used; return CORE_OK;
    case CORE_POOL_USED_HIGH: *value = pool->store.used_high; return CORE_OK;
    }
    return CORE_INVALID_VALUE;
}

static int set(struct pool *pool, enum core_pool_attribute attribute, uint64_t value)
{
    switch (attribute) {
    case CORE_POOL_FOLLOW_EVENTS: pool->follow = value != 0; return CORE_OK;
    case CORE_POOL_OPPORTUNISTIC: pool->opportunistic = value != 0; return CORE_OK;
    case CORE_POOL_INTERNAL_DEPENDENCIES: pool->internal = value != 0; return CORE_OK;
    case CORE_POOL_RELEASE_THRESHOLD: pool->threshold = value; return CORE_OK;
    case CORE_POOL_RESERVED_HIGH:
        if (value)
            return CORE_INVALID_VALUE;
        pool->store.reserved_high = pool->store.reserved;
        return CORE_OK;
    case CORE_POOL_USED_HIGH:
        if (value)
            return CORE_INVALID_VALUE;
        pool->store.used_high = pool->store.used;
        return CORE_OK;
    default: return CORE_INVALID_VALUE;
    }
}

int core_pool_get(core_pool token, enum core_pool_attribute attribute, uint64_t *value)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    pthread_mutex_lock(&pools.lock);
    const struct pool *pool = find(token);
    code = pool ? get(pool, attribute, value) : CORE_INVALID_VALUE;
    pthread_mutex_unlock(&pools.lock);
    return code;
}

int core_pool_set(core_pool token, enum core_pool_attribute attribute, uint64_t value)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    pthread_mutex_lock(&pools.lock);
    struct pool *pool = find(token);
    code = pool ? set(pool, attribute, value) : CORE_INVALID_VALUE;
    if (!code && pool->store.reserved > pool->threshold)
        atomic_store_explicit(&pool_over, true, memory_order_relaxed);
    pthread_mutex_unlock(&pools.lock);
    return code;
}

static int access_set(core_pool token, int device, unsigned access)
{
    pthread_mutex_lock(&pools.lock);
    struct pool *pool = find(token);
    int code = pool && pool->imported ? pool_pointers_access(pool->name, device, access) : CORE_OK;
    if (!code)
        code = pool ? store_access(&pool->store, device, access) : CORE_INVALID_VALUE; /* notes it for later memory */
    pthread_mutex_unlock(&pools.lock);
    return code;
}

/* A pool's own device always has access. */
int core_pool_access_set(core_pool token, int device, unsigned access)
{
    CANCEL_DEFERRED;
    struct core_pool_info info;
    int can = 0, code = core_pool_info(token, &info);
    if (code)
        return code;
    if (!client_device_find(device))
        return CORE_INVALID_DEVICE;
    if ((access && access != ACCESS_READ && access != ACCESS_READ_WRITE) ||
        (device == info.device && access != ACCESS_READ_WRITE))
        return CORE_INVALID_VALUE;
    if (device == info.device)
        return CORE_OK;
    if ((code = core_device_can_access_peer(&can, device, info.device)))
        return code;
    return can ? access_set(token, device, access) : access ? CORE_INVALID_DEVICE : CORE_OK;
}

int core_pool_access_get(core_pool token, int device, unsigned *access)
{
    CANCEL_DEFERRED;
    struct core_pool_info info;
    int code = core_pool_info(token, &info);
    if (code)
        return code;
    if (!client_device_find(device))
        return CORE_INVALID_DEVICE;
    const struct rights others = { info.readers, info.writers };
    *access = device == info.device ? ACCESS_READ_WRITE : rights_of(&others, device);
    return CORE_OK;
}

/* ---- allocations ---- */

/* NULL: the address is in no pool. */
static struct pool *pool_at(uint64_t address)
{
    FLYT_ASSERT_HELD(&pools.lock);
    for (struct pool *pool = pool_next(NULL); pool; pool = pool_next(pool))
        if (store_holds(&pool->store, address))
            return pool;
    return NULL;
}

static int take(struct pool *pool, struct client_stream *s, uint64_t size, uint64_t *address)
{
    FLYT_ASSERT_HELD(&pools.lock);
    struct reuse reuse = { .precedes = pool->follow, .done = pool->opportunistic };
    if ((*address = store_take(&pool->store, size, s, reuse)))
        return CORE_OK;
    int code = store_grow(&pool->store, size);
    if (code == CORE_OUT_OF_MEMORY && give_back())
        code = store_grow(&pool->store, size);
    reuse.join = code == CORE_OUT_OF_MEMORY && pool->internal;
    if (code && !reuse.join)
        return code;
    *address = store_take(&pool->store, size, s, reuse);
    return *address ? CORE_OK : CORE_OUT_OF_MEMORY;
}

int core_pool_allocate(core_context *c, core_stream stream, core_pool token, size_t size, uint64_t *address)
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    int code = client_stream_enter(c, stream, &s);
    if (code)
        return code;
    uint64_t rounded = (size + POOL_ALIGNMENT - 1) / POOL_ALIGNMENT * POOL_ALIGNMENT;
    if (!size)
        return CORE_INVALID_VALUE;
    if (rounded < size || rounded > core_session.window_size)
        return CORE_OUT_OF_MEMORY;
    pthread_mutex_lock(&pools.lock);
    struct pool *pool = token ? find(token) : pools.current[s->context->device];
    code = pool && !pool->imported ? take(pool, s, rounded, address) : CORE_INVALID_VALUE;
    if (!code && address_add_pooled(pool->store.device, *address, size)) {
        store_give(&pool->store, *address, NULL, NULL);
        code = CORE_OUT_OF_MEMORY;
    }
    if (!code)
        code = extent_say_in(s, *address, size, FLYT_EXTENT_ALLOCATED);
    pthread_mutex_unlock(&pools.lock);
    return code;
}

/* Memory of another process is not used again, but unmapped: that waits for all work that may use it. */
static bool give_imported(uint64_t address)
{
    if (!pool_pointer_known(address))
        return false;
    memory_settle(NULL);
    bool closed = pool_pointer_close(address);
    pthread_mutex_lock(&pools.lock);
    trim_each(false);                         /* a destroyed pool goes with its last allocation */
    pthread_mutex_unlock(&pools.lock);
    return closed;
}

/* The address becomes free memory of its pool. */
static bool give(uint64_t address, struct client_stream *s, const struct moment *moment)
{
    struct core_range range;
    if (!core_address_lookup(address, &range) || !address_is_pooled(&range) || range.base != address ||
        !address_remove(CORE_DEVICE_MEMORY, address, NULL))
        return false;
    if (give_imported(address))
        return true;
    if (!s)
        extent_say(address, range.size, FLYT_EXTENT_FREED);
    pthread_mutex_lock(&pools.lock);
    atomic_store_explicit(&pool_active, true, memory_order_relaxed);
    struct pool *pool = pool_at(address);
    if (pool) {
        store_give(&pool->store, address, s, moment);
        if (pool->store.reserved > pool->threshold || !pool->token)
            atomic_store_explicit(&pool_over, true, memory_order_relaxed);
    }
    pthread_mutex_unlock(&pools.lock);
    return true;
}

int core_pool_free(core_context *c, core_stream stream, uint64_t address)
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    struct core_range range;
    int code = client_stream_enter(c, stream, &s);
    if (code)
        return code;
    if (!core_address_lookup(address, &range) || !address_is_pooled(&range))
        return core_memory_free(address);
    if (range.base != address)
        return CORE_INVALID_VALUE;
    windows_end_in(address, range.size); /* at the call, as if the stream had come so far */
    /* before the moment from which on others may have it */
    code = extent_say_in(s, address, range.size, FLYT_EXTENT_FREED);
    struct moment now = moment_now(s);
    return code ? code : give(address, s, &now) ? CORE_OK : CORE_INVALID_VALUE;
}

/* ---- other processes ---- */

int core_pool_export(core_pool token, int *fd)
{
    CANCEL_DEFERRED;
    char name[POOL_NAME];
    int code = core_enter();
    if (code)
        return code;
    pthread_mutex_lock(&pools.lock);
    const struct pool *pool = find(token);
    bool good = pool && pool->shared;
    if (good)
        memcpy(name, pool->name, sizeof name);
    pthread_mutex_unlock(&pools.lock);
    return good ? share_note_make(name, SHARE_NOTE_POOL, fd, NULL) : CORE_INVALID_VALUE;
}

int core_pool_import(int fd, core_pool *out)
{
    CANCEL_DEFERRED;
    char name[POOL_NAME];
    int code = core_enter();
    if (!code)
        code = core_share_check();
    if (!code)
        code = share_note_read(fd, SHARE_NOTE_POOL, name);
    if (code)
        return code;
    int device = pool_name_device(name);
    return device < 0 ? CORE_INVALID_DEVICE : create(device, 0, name, true, out);
}

int core_pool_pointer_export(uint64_t address, void *data)
{
    CANCEL_DEFERRED;
    struct core_range range;
    int code = core_enter();
    if (code)
        return code;
    if (!core_address_lookup(address, &range) || !address_is_pooled(&range))
        return CORE_INVALID_VALUE;
    pthread_mutex_lock(&pools.lock);
    const struct pool *pool = pool_at(range.base);
    struct handle_chunk *chunk = pool && pool->shared ? store_chunk(&pool->store, range.base) : NULL;
    code = chunk ? pool_pointer_name(pool->name, chunk, range.base, range.size, data) : CORE_INVALID_VALUE;
    pthread_mutex_unlock(&pools.lock);
    return code;
}

int core_pool_pointer_import(core_pool token, const void *data, uint64_t *address)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    pthread_mutex_lock(&pools.lock); /* all the while: the access that other devices have may not change */
    const struct pool *pool = find(token);
    code =
        pool && pool->imported ? pool_pointer_open(pool->name, data, &pool->store.others, address) : CORE_INVALID_VALUE;
    pthread_mutex_unlock(&pools.lock);
    return code;
}

bool pool_free_now(uint64_t address) { return pools.tokens && give(address, NULL, NULL); }

core_pool core_pool_of(uint64_t address)
{
    CANCEL_DEFERRED;
    struct core_range range;
    if (!core_address_lookup(address, &range) || !address_is_pooled(&range))
        return 0;
    pthread_mutex_lock(&pools.lock);
    const struct pool *pool = pool_at(address);
    core_pool token = pool ? pool->token : 0;
    pthread_mutex_unlock(&pools.lock);
    return token;
}

/* ---- what happens to streams and contexts ---- */

void pool_note_stream_end(struct client_stream *s)
{
    if (!atomic_load_explicit(&pool_active, memory_order_relaxed))
        return;
    pthread_mutex_lock(&pools.lock);
    for (struct pool *pool = pool_next(NULL); pool; pool = pool_next(pool))
        store_stream_ends(&pool->store, s);
    pthread_mutex_unlock(&pools.lock);
}

static void pool_end(struct pool *pool)
{
    FLYT_ASSERT_HELD(&pools.lock);
    for (uint64_t at = 0; (at = store_next_used(&pool->store, at)); at++)
        address_remove(CORE_DEVICE_MEMORY, at, NULL);
    if (pool->imported)
        pool_pointers_forget(pool->name);
    store_drop(&pool->store);
    if (pool->is_default) {
        *pool = (struct pool){ .of_all = pool->of_all,
                               .token = pool->token,
                               .is_default = true,
                               .follow = true,
                               .opportunistic = true,
                               .internal = true,
                               .store = { .device = pool->store.device } };
        return;
    }
    pool_unname(pool);
    list_remove(&pool->of_all);
    free(pool);
}

void pool_forget_context(core_context *c)
{
    struct pool *next;
    if (!c->primary)
        return;
    pthread_mutex_lock(&pools.lock);
    pools.current[c->device] = pools.defaults[c->device];
    for (struct pool *pool = pool_next(NULL); pool; pool = next) {
        next = pool_next(pool);
        if (pool->store.device == c->device)
            pool_end(pool);
    }
    pthread_mutex_unlock(&pools.lock);
}

int pool_open(void)
{
    size_t count = (size_t)device_count();
    pools.tokens = id_table_create(TOKEN_KIND, 1);
    pools.defaults = calloc(count ? count : 1, sizeof(struct pool *));
    pools.current = calloc(count ? count : 1, sizeof(struct pool *));
    if (!pools.tokens || !pools.defaults || !pools.current)
        return CORE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        if (!(pools.defaults[i] = pools.current[i] = pool_new((int)i)))
            return CORE_OUT_OF_MEMORY;
        pools.defaults[i]->is_default = true;
    }
    return CORE_OK;
}
