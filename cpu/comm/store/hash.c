/* hash.c: the store of one process, whose ranks are threads. See store.h. */
#include "cpu/comm/store/store.h"
#include "cpu/comm/store/values.h"

#include "cpu/common/clock.h"
#include "cpu/rpc/transport/channel.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct hash_store {
    struct comm_store base;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct comm_values values;
};

static int hash_set(struct comm_store *store, const char *key, const void *value, size_t size, unsigned gets,
                    uint64_t deadline, char *error)
{
    struct hash_store *h = (struct hash_store *)store;
    (void)deadline;
    pthread_mutex_lock(&h->lock);
    int status = comm_values_set(&h->values, key, value, size, gets);
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    return status < 0 ? rpc_explain(error, status, "store: setting %s: %s", key, strerror(-status)) : 0;
}

static int hash_get(struct comm_store *store, const char *key, void *value, size_t room, size_t *size,
                    uint64_t deadline, char *error)
{
    struct hash_store *h = (struct hash_store *)store;
    struct timespec until = clock_timespec(deadline);
    const struct comm_value *found;
    int status = 0;
    pthread_mutex_lock(&h->lock);
    while (!(found = comm_values_find(&h->values, key)) && status == 0)
        status = -pthread_cond_clockwait(&h->changed, &h->lock, CLOCK_MONOTONIC, &until);
    if (found) {
        *size = found->size;
        status = value && found->size > room ? -EMSGSIZE : 0;
        if (value && status == 0) {
            memcpy(value, found->bytes, found->size);
            comm_values_got(&h->values, key);
        }
    }
    pthread_mutex_unlock(&h->lock);
    if (status == -ETIMEDOUT)
        return rpc_explain(error, status, "store: nobody has set %s in time", key);
    return status < 0 ? rpc_explain(error, status, "store: %s: %s", key, strerror(-status)) : 0;
}

static void hash_destroy(struct comm_store *store)
{
    struct hash_store *h = (struct hash_store *)store;
    comm_values_clear(&h->values);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

static const struct comm_store_operations hash_operations = { hash_set, hash_get, hash_destroy };

int comm_store_hash(struct comm_store **out, char *error)
{
    struct hash_store *h = calloc(1, sizeof *h);
    if (!h)
        return rpc_explain(error, -ENOMEM, "store: no memory");
    h->base.operations = &hash_operations;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    *out = &h->base;
    return 0;
}
