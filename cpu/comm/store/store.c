/* store.c: what all kinds of stores have in common, and the prefix store. See store.h. */
#include "cpu/comm/store/store.h"

#include "cpu/rpc/transport/channel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_key(const char *key, char *error)
{
    size_t length = strlen(key);
    if (length == 0 || length > COMM_STORE_KEY_MOST)
        return rpc_explain(error, -EINVAL, "a key of a store has 1 to %d bytes, not %zu", COMM_STORE_KEY_MOST, length);
    return 0;
}

static int store_set(struct comm_store *store, const char *key, const void *value, size_t size, unsigned gets,
                     uint64_t deadline, char *error)
{
    int status = check_key(key, error);
    if (status < 0)
        return status;
    if (size > COMM_STORE_VALUE_MOST)
        return rpc_explain(error, -EINVAL, "store: the value of %s has %zu bytes, more than %d", key, size,
                           COMM_STORE_VALUE_MOST);
    return store->operations->set(store, key, value, size, gets, deadline, error);
}

int comm_store_set(struct comm_store *store, const char *key, const void *value, size_t size, uint64_t deadline,
                   char *error)
{
    return store_set(store, key, value, size, 0, deadline, error);
}

int comm_store_lend(struct comm_store *store, const char *key, const void *value, size_t size, unsigned gets,
                    uint64_t deadline, char *error)
{
    if (gets == 0)
        return rpc_explain(error, -EINVAL, "store: %s is lent to nobody", key);
    return store_set(store, key, value, size, gets, deadline, error);
}

int comm_store_get(struct comm_store *store, const char *key, void *value, size_t room, size_t *size, uint64_t deadline,
                   char *error)
{
    size_t ignored;
    int status = check_key(key, error);
    return status < 0 ? status
                      : store->operations->get(store, key, value, room, size ? size : &ignored, deadline, error);
}

int comm_store_wait(struct comm_store *store, const char *const *keys, size_t count, uint64_t deadline, char *error)
{
    for (size_t i = 0; i < count; i++) {
        int status = comm_store_get(store, keys[i], NULL, 0, NULL, deadline, error);
        if (status < 0)
            return status;
    }
    return 0;
}

void comm_store_destroy(struct comm_store *store)
{
    if (store)
        store->operations->destroy(store);
}

/* ---- prefix ---- */

struct prefix_store {
    struct comm_store base;
    struct comm_store *inner;
    char prefix[COMM_STORE_KEY_MOST + 1];
};

static int whole_key(const struct comm_store *store, const char *key, char whole[2 * COMM_STORE_KEY_MOST + 1])
{
    const struct prefix_store *p = (const struct prefix_store *)store;
    return snprintf(whole, 2 * COMM_STORE_KEY_MOST + 1, "%s%s", p->prefix, key);
}

static int prefix_set(struct comm_store *store, const char *key, const void *value, size_t size, unsigned gets,
                      uint64_t deadline, char *error)
{
    char whole[2 * COMM_STORE_KEY_MOST + 1];
    whole_key(store, key, whole);
    return store_set(((struct prefix_store *)store)->inner, whole, value, size, gets, deadline, error);
}

static int prefix_get(struct comm_store *store, const char *key, void *value, size_t room, size_t *size,
                      uint64_t deadline, char *error)
{
    char whole[2 * COMM_STORE_KEY_MOST + 1];
    whole_key(store, key, whole);
    return comm_store_get(((struct prefix_store *)store)->inner, whole, value, room, size, deadline, error);
}

static void prefix_destroy(struct comm_store *store) { free(store); }

static const struct comm_store_operations prefix_operations = { prefix_set, prefix_get, prefix_destroy };

int comm_store_prefix(struct comm_store *inner, const char *prefix, struct comm_store **out, char *error)
{
    if (strlen(prefix) >= COMM_STORE_KEY_MOST)
        return rpc_explain(error, -EINVAL, "store: the prefix has %zu bytes, more than %d", strlen(prefix),
                           COMM_STORE_KEY_MOST - 1);
    struct prefix_store *store = calloc(1, sizeof *store);
    if (!store)
        return rpc_explain(error, -ENOMEM, "store: no memory");
    store->base.operations = &prefix_operations;
    store->inner = inner;
    snprintf(store->prefix, sizeof store->prefix, "%s", prefix);
    *out = &store->base;
    return 0;
}
