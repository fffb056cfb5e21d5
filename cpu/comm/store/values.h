/*
 * values.h: keys and their values in memory, for the hash store and the server. Bounded (store.h). The caller's lock
 * protects it.
 */
#ifndef FLYT_COMM_STORE_VALUES_H
#define FLYT_COMM_STORE_VALUES_H

#include <stddef.h>
#include <stdint.h>

enum { COMM_VALUES_BUCKETS = 1024 };

struct comm_value {
    struct comm_value *next; /* of the bucket */
    uint8_t *bytes;
    size_t size;
    unsigned gets; /* until it is forgotten; 0: it stays */
    char key[];
};

struct comm_values {
    struct comm_value *buckets[COMM_VALUES_BUCKETS];
    size_t count, bytes;
};

/* 0, -ENOSPC (a bound of store.h) or -ENOMEM; the value before stays then. The bytes are copied. */
int comm_values_set(struct comm_values *, const char *key, const void *value, size_t size, unsigned gets);
/* NULL: there is none. Good until the next set of this key, and comm_values_got. */
const struct comm_value *comm_values_find(const struct comm_values *, const char *key);
/* It was given to one who has got it. */
void comm_values_got(struct comm_values *, const char *key);
void comm_values_clear(struct comm_values *);

#endif
