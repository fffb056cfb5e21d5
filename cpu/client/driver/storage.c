/*
 * storage.c: what is kept here for a context, above all context-local storage: values that libraries keep with a
 * context, by key. Read once per call of NVIDIA's runtime.
 */
#include <pthread.h>
#include <stdlib.h>

#include "cpu/client/core/code/registry.h"
#include "cpu/client/driver/driver.h"

struct driver_storage {
    void *key, *value;
    driver_storage_end end;
    struct driver_storage *next;
};

struct driver_context *driver_context_state(core_context *context)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct registry states;
    struct driver_context *state = registry_find(&states, context);
    if (LIKELY(state))
        return state;
    pthread_mutex_lock(&lock);
    state = registry_find(&states, context);
    if (!state && (state = calloc(1, sizeof *state)) && !registry_set(&states, context, state)) {
        free(state);
        state = NULL;
    }
    pthread_mutex_unlock(&lock);
    return state;
}

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

int driver_storage_put(core_context *context, void *key, void *value, driver_storage_end end)
{
    struct driver_context *state = driver_context_state(context);
    struct driver_storage *entry, *made = malloc(sizeof *made);
    if (!state || !made) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_rwlock_wrlock(&lock);
    for (entry = state->storage; entry && entry->key != key; entry = entry->next)
        ;
    if (!entry) {
        made->next = state->storage;
        state->storage = entry = made;
        made = NULL;
    }
    entry->key = key;
    entry->value = value;
    entry->end = end;
    pthread_rwlock_unlock(&lock);
    free(made);
    return CUDA_SUCCESS;
}

int driver_storage_get(core_context *context, void *key, void **value)
{
    const struct driver_context *state = driver_context_state(context);
    const struct driver_storage *entry = NULL;
    pthread_rwlock_rdlock(&lock);
    for (entry = state ? state->storage : NULL; entry && entry->key != key; entry = entry->next)
        ;
    if (entry)
        *value = entry->value;
    pthread_rwlock_unlock(&lock);
    return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

int driver_storage_remove(core_context *context, void *key)
{
    struct driver_context *state = driver_context_state(context);
    struct driver_storage *found = NULL;
    pthread_rwlock_wrlock(&lock);
    for (struct driver_storage **at = state ? &state->storage : NULL; at && *at; at = &(*at)->next)
        if ((*at)->key == key) {
            found = *at;
            *at = found->next;
            break;
        }
    pthread_rwlock_unlock(&lock);
    free(found);
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* The entries go first: what is called here may ask for them, or make new ones. */
void driver_storage_drop(core_context *context)
{
    struct driver_context *state = driver_context_state(context);
    if (!state)
        return;
    pthread_rwlock_wrlock(&lock);
    struct driver_storage *entry = state->storage, *next;
    state->storage = NULL;
    pthread_rwlock_unlock(&lock);
    for (; entry; entry = next) {
        next = entry->next;
        if (entry->end)
            entry->end(context, entry->key, entry->value);
        free(entry);
    }
}
