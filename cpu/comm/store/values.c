/* values.c: see values.h. */
#include "cpu/comm/store/values.h"

#include "cpu/comm/store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* FNV-1a. Whoever may set keys knows the key of the store, so nobody gains by keys that share a bucket. */
static unsigned bucket_of(const char *key)
{
    uint32_t hash = 2166136261u;
    for (; *key; key++)
        hash = (hash ^ (uint8_t)*key) * 16777619u;
    return hash % COMM_VALUES_BUCKETS;
}

static struct comm_value *find(const struct comm_values *values, const char *key)
{
    for (struct comm_value *one = values->buckets[bucket_of(key)]; one; one = one->next)
        if (strcmp(one->key, key) == 0)
            return one;
    return NULL;
}

const struct comm_value *comm_values_find(const struct comm_values *values, const char *key)
{
    return find(values, key);
}

static struct comm_value *add(struct comm_values *values, const char *key, size_t length)
{
    struct comm_value *one = calloc(1, sizeof *one + length + 1);
    if (!one)
        return NULL;
    struct comm_value **bucket = &values->buckets[bucket_of(key)];
    memcpy(one->key, key, length + 1);
    one->next = *bucket;
    *bucket = one;
    values->count++;
    values->bytes += length;
    return one;
}

int comm_values_set(struct comm_values *values, const char *key, const void *value, size_t size, unsigned gets)
{
    size_t length = strlen(key);
    struct comm_value *one = find(values, key);
    size_t more = one ? size : length + size, less = one ? one->size : 0;
    if ((!one && values->count >= COMM_STORE_KEYS_MOST) || values->bytes - less + more > COMM_STORE_BYTES_MOST)
        return -ENOSPC;
    uint8_t *bytes = malloc(size ? size : 1);
    if (bytes && !one)
        one = add(values, key, length);
    if (!one || !bytes) {
        free(bytes);
        return -ENOMEM;
    }
    if (size)
        memcpy(bytes, value, size);
    free(one->bytes);
    one->bytes = bytes;
    one->size = size;
    one->gets = gets;
    values->bytes += size - less;
    return 0;
}

void comm_values_got(struct comm_values *values, const char *key)
{
    struct comm_value **at = &values->buckets[bucket_of(key)], *one;
    while ((one = *at) && strcmp(one->key, key) != 0)
        at = &one->next;
    if (!one || one->gets == 0 || --one->gets > 0)
        return;
    *at = one->next;
    values->count--;
    values->bytes -= strlen(key) + one->size;
    free(one->bytes);
    free(one);
}

void comm_values_clear(struct comm_values *values)
{
    for (unsigned i = 0; i < COMM_VALUES_BUCKETS; i++) {
        for (struct comm_value *one = values->buckets[i], *next; one; one = next) {
            next = one->next;
            free(one->bytes);
            free(one);
        }
        values->buckets[i] = NULL;
    }
    values->count = values->bytes = 0;
}
