/*
 * pool_shared.c: see pool_shared.h.
 *
 * The memory of a pool is handles (pool_blocks.c). What names an allocation is the share of its handle, and where in it
 * the allocation lies. The process that imports the first allocation of a handle maps the handle, and unmaps it when it
 * has freed the last one.
 */
#include "pool_shared.h"

#include <endian.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cpu/code/hash.h"
#include "cpu/common/list.h"
#include "cpu/client/core/api_memory.h"
#include "cpu/client/core/wire/device.h"
#include "cpu/client/core/wire/state.h"

struct pool_name { uint64_t session; uint32_t device; uint8_t random[20]; };
_Static_assert(sizeof(struct pool_name) == POOL_NAME && (int)POOL_NAME == FLYT_SHARE_SIZE, "stands in a file");

/* seal: from the pool's name and all that comes before it. Only what a holder of the pool's name wrote is opened. */
#define POINTER_WORDS "FlytPtr"
struct pointer_data { char words[sizeof POINTER_WORDS]; char share[FLYT_SHARE_SIZE]; uint64_t offset, size, seal; };
_Static_assert(sizeof(struct pointer_data) == CORE_IPC_SIZE, "as CUDA has it");

/* A handle of another process, with the allocations of it that this one has. */
struct mapped {
    struct list of_all;
    struct handle_chunk chunk;
    char share[FLYT_SHARE_SIZE], pool[POOL_NAME];
    unsigned open;
};
struct pointer { struct list of_all; struct mapped *of; uint64_t address; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;       /* also while the server is asked */
static struct list handles, pointers;

int pool_name_make(int device, char *out)
{
    struct pool_name name = { .session = htobe64(session_number()),
                              .device = htobe32((uint32_t)client_device_find(device)->wire) };
    if (getrandom(name.random, sizeof name.random, 0) != sizeof name.random)
        return CORE_OPERATING_SYSTEM;
    memcpy(out, &name, sizeof name);
    return CORE_OK;
}

int pool_name_device(const char *bytes)
{
    struct pool_name name;
    memcpy(&name, bytes, sizeof name);
    for (int i = 0; i < device_count(); i++)
        if ((uint32_t)client_device_find(i)->wire == be32toh(name.device))
            return i;
    return -1;
}

_Static_assert((int)POOL_NAME == HASH_SIZE, "the name of a pool is a key");

static int seal_of(const char *pool, const struct pointer_data *data, uint64_t *seal)
{
    uint8_t out[HASH_SIZE];
    hash *state = hash_create_keyed((const uint8_t *)pool);
    if (!state)
        return CORE_OUT_OF_MEMORY;
    hash_add(state, data, offsetof(struct pointer_data, seal));
    hash_finish(state, out);
    memcpy(seal, out, sizeof *seal);
    return CORE_OK;
}

int pool_pointer_name(const char *pool, struct handle_chunk *chunk, uint64_t address, uint64_t size, void *out)
{
    struct pointer_data data = { .words = POINTER_WORDS, .offset = address - chunk->address, .size = size };
    int code = handle_chunk_share(chunk, data.share);
    if (!code)
        code = seal_of(pool, &data, &data.seal);
    if (!code)
        memcpy(out, &data, sizeof data);
    return code;
}

static struct mapped *mapped_find(const char *share)
{
    struct list *link = list_first(&handles);
    while (link && memcmp(LIST_OBJECT(link, struct mapped, of_all)->share, share, FLYT_SHARE_SIZE) != 0)
        link = list_next(&handles, link);
    return LIST_OBJECT(link, struct mapped, of_all);
}

static int mapped_access(struct mapped *mapped, const struct rights *others)
{
    int code = CORE_OK;
    for (int device = 0; device < device_count() && !code; device++)
        if (rights_of(others, device))
            code = handle_chunk_access(&mapped->chunk, device, rights_of(others, device));
    if (code)
        handle_chunk_end(&mapped->chunk);
    return code;
}

static struct mapped *mapped_make(const char *share, const char *pool, const struct rights *others, int *code)
{
    struct handle_range range;
    struct mapped *mapped = calloc(1, sizeof *mapped);
    *code = mapped ? handle_chunk_import(share, &mapped->chunk, &range) : CORE_OUT_OF_MEMORY;
    if (!*code)
        *code = mapped_access(mapped, others);
    if (*code) {
        free(mapped);
        return NULL;
    }
    memcpy(mapped->share, share, sizeof mapped->share);
    memcpy(mapped->pool, pool, sizeof mapped->pool);
    list_append(&handles, &mapped->of_all);
    return mapped;
}

static void mapped_close(struct mapped *mapped)
{
    if (mapped->open)
        return;
    list_remove(&mapped->of_all);
    handle_chunk_end(&mapped->chunk);
    free(mapped);
}

int pool_pointer_open(const char *pool, const void *bytes, const struct rights *others, uint64_t *address)
{
    struct pointer_data data;
    uint64_t seal;
    memcpy(&data, bytes, sizeof data);
    int code = seal_of(pool, &data, &seal);
    if (code)
        return code;
    if (memcmp(data.words, POINTER_WORDS, sizeof data.words) != 0 || data.seal != seal || !data.size)
        return CORE_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct pointer *pointer = calloc(1, sizeof *pointer);
    struct mapped *mapped = pointer ? mapped_find(data.share) : NULL;
    if (!pointer)
        code = CORE_OUT_OF_MEMORY;
    else if (!mapped)
        mapped = mapped_make(data.share, pool, others, &code);
    if (!code && (data.offset >= mapped->chunk.size || data.size > mapped->chunk.size - data.offset))
        code = CORE_INVALID_VALUE;
    if (!code)
        code = address_add_pooled(pool_name_device(pool), mapped->chunk.address + data.offset, data.size);
    if (!code) {
        *pointer = (struct pointer){ .of = mapped, .address = mapped->chunk.address + data.offset };
        list_append(&pointers, &pointer->of_all);
        mapped->open++;
        *address = pointer->address;
    } else {
        free(pointer);
        if (mapped)
            mapped_close(mapped);
    }
    pthread_mutex_unlock(&lock);
    return code;
}

int pool_pointers_access(const char *pool, int device, unsigned access)
{
    int code = CORE_OK;
    pthread_mutex_lock(&lock);
    for (struct list *link = list_first(&handles); link && !code; link = list_next(&handles, link)) {
        struct mapped *mapped = LIST_OBJECT(link, struct mapped, of_all);
        if (memcmp(mapped->pool, pool, POOL_NAME) == 0)
            code = handle_chunk_access(&mapped->chunk, device, access);
    }
    pthread_mutex_unlock(&lock);
    return code;
}

static struct pointer *pointer_find(uint64_t address)
{
    struct list *link = list_first(&pointers);
    while (link && LIST_OBJECT(link, struct pointer, of_all)->address != address)
        link = list_next(&pointers, link);
    return LIST_OBJECT(link, struct pointer, of_all);
}

static void pointer_end(struct pointer *pointer)
{
    list_remove(&pointer->of_all);
    pointer->of->open--;
    mapped_close(pointer->of);
    free(pointer);
}

bool pool_pointer_known(uint64_t address)
{
    pthread_mutex_lock(&lock);
    bool known = pointer_find(address) != NULL;
    pthread_mutex_unlock(&lock);
    return known;
}

bool pool_pointer_close(uint64_t address)
{
    pthread_mutex_lock(&lock);
    struct pointer *pointer = pointer_find(address);
    if (pointer)
        pointer_end(pointer);
    pthread_mutex_unlock(&lock);
    return pointer != NULL;
}

unsigned pool_pointers_count(const char *pool)
{
    unsigned count = 0;
    pthread_mutex_lock(&lock);
    for (struct list *link = list_first(&pointers); link; link = list_next(&pointers, link))
        count += memcmp(LIST_OBJECT(link, struct pointer, of_all)->of->pool, pool, POOL_NAME) == 0;
    pthread_mutex_unlock(&lock);
    return count;
}

void pool_pointers_forget(const char *pool)
{
    struct list *next;
    pthread_mutex_lock(&lock);
    for (struct list *link = list_first(&pointers); link; link = next) {
        struct pointer *pointer = LIST_OBJECT(link, struct pointer, of_all);
        next = list_next(&pointers, link);
        if (memcmp(pointer->of->pool, pool, POOL_NAME) != 0)
            continue;
        address_remove(CORE_DEVICE_MEMORY, pointer->address, NULL);
        pointer_end(pointer);
    }
    pthread_mutex_unlock(&lock);
}
