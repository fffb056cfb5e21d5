/*
 * manager_store.c: a store that the cluster manager keeps for the programs of one user and VM (ctl_value_args in
 * control_prot.x). The client manager of this machine is asked, over its unix socket, by a connection of the store's
 * own: when that ends, also with the process, the values that it set first are gone.
 *
 * The connection carries one question at a time. A get waits at the cluster manager, a moment each time, and lets other
 * threads ask in between.
 */
#include "cpu/client/comm/library.h"

#include "cpu/common/clock.h"
#include "cpu/rpc/manager.h"
#include "cpu/rpc/transport/channel.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WAIT_MS = 100, PAUSE_MS = 10 };

struct manager_store {
    struct comm_store base;
    rpc_client *manager;
    pthread_mutex_t lock; /* of the connection */
};

/* The caller frees the result, whatever has come. */
static int ask_value(struct manager_store *store, manager_value_args *args, manager_value_result *result, char *error)
{
    memset(result, 0, sizeof *result);
    pthread_mutex_lock(&store->lock);
    int status = rpc_manager_ask(store->manager, MANAGER_VALUE, RPC_MANAGER_XDR(manager_value_args), args,
                                 RPC_MANAGER_XDR(manager_value_result), result, error);
    pthread_mutex_unlock(&store->lock);
    return status;
}

/* ---- the operations of stores ---- */

static int manager_set(struct comm_store *base, const char *key, const void *value, size_t size, unsigned gets,
                       uint64_t deadline, char *error)
{
    manager_value_args args = { .act = MANAGER_VALUE_SET, .key = (char *)(uintptr_t)key };
    manager_value_result result;
    (void)gets;
    (void)deadline;
    if (size > MANAGER_VALUE_SIZE)
        return rpc_explain(error, -EINVAL, "store: the value of %s has %zu bytes, more than the cluster manager's %d",
                           key, size, MANAGER_VALUE_SIZE);
    args.value.value_len = (u_int)size;
    args.value.value_val = (char *)(uintptr_t)value;
    int status = ask_value((struct manager_store *)base, &args, &result, error);
    xdr_free(RPC_MANAGER_XDR(manager_value_result), &result);
    return status;
}

static int take(const manager_value_result *result, const char *key, void *value, size_t room, size_t *size,
                char *error)
{
    *size = result->value.value_len;
    if (value && *size)
        memcpy(value, result->value.value_val, *size < room ? *size : room);
    if (!value || *size <= room)
        return 0;
    return rpc_explain(error, -EMSGSIZE, "store: the value of %s has %zu bytes, there is room for %zu", key, *size,
                       room);
}

static int manager_get(struct comm_store *base, const char *key, void *value, size_t room, size_t *size,
                       uint64_t deadline, char *error)
{
    for (;;) {
        const uint64_t now = clock_now(), left = now < deadline ? (deadline - now) / CLOCK_NS_PER_MS : 0;
        manager_value_args args = { .act = MANAGER_VALUE_GET,
                                    .key = (char *)(uintptr_t)key,
                                    .milliseconds = left < WAIT_MS ? (u_int)left : WAIT_MS };
        manager_value_result result;
        int status = ask_value((struct manager_store *)base, &args, &result, error);
        const bool there = status == 0 && result.status.code == MANAGER_OK;
        if (there)
            status = take(&result, key, value, room, size, error);
        xdr_free(RPC_MANAGER_XDR(manager_value_result), &result);
        if (there || status < 0)
            return status;
        const uint64_t waited = (clock_now() - now) / CLOCK_NS_PER_MS;
        if (clock_now() >= deadline)
            return rpc_explain(error, -ETIMEDOUT, "store: nobody has set %s", key);
        if (waited < args.milliseconds) /* too many wait there already */
            usleep(1000 * PAUSE_MS);
    }
}

static void manager_destroy(struct comm_store *base)
{
    struct manager_store *store = (struct manager_store *)base;
    if (store->manager)
        rpc_client_destroy(store->manager);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

static const struct comm_store_operations operations = { manager_set, manager_get, manager_destroy };

int flyt_store_add(flyt_store *of, const char *key, int64_t number, int64_t *sum)
{
    struct manager_store *store = (struct manager_store *)of;
    manager_value_args args = { .act = MANAGER_VALUE_ADD, .key = (char *)(uintptr_t)key, .number = number };
    manager_value_result result;
    if (store->base.operations != &operations)
        return rpc_explain(library_error, -ENOTSUP, "store: only the cluster manager's adds");
    if (!*key || strlen(key) > COMM_STORE_KEY_MOST)
        return rpc_explain(library_error, -EINVAL, "a key of a store has 1 to %d bytes", COMM_STORE_KEY_MOST);
    int status = ask_value(store, &args, &result, library_error);
    if (status == 0 && sum)
        *sum = result.number;
    xdr_free(RPC_MANAGER_XDR(manager_value_result), &result);
    return status;
}

/* ---- opening ---- */

int flyt_store_manager(flyt_store **out)
{
    struct manager_store *store = calloc(1, sizeof *store);
    if (!store)
        return rpc_explain(library_error, -ENOMEM, "store: no memory");
    store->base.operations = &operations;
    pthread_mutex_init(&store->lock, NULL);
    int status = rpc_manager_open("libflyt-comm", "keeps no values", &store->manager, library_error);
    if (status == 0)
        *out = (flyt_store *)store;
    else
        manager_destroy(&store->base);
    return status;
}
