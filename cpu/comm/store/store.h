/*
 * store.h: a place where the processes of a job leave values for each other before they are connected.
 *
 * A key is a text, a value is bytes. A value that is set stays until the store ends; setting it again replaces it. Each
 * kind of store may be used by several threads. Deadlines are moments of clock_now.
 *
 *   hash     in the memory of one process: its ranks are threads
 *   file     a folder that all processes see: a file for each key
 *   prefix   puts a text before each key of another store, so that several jobs share one
 *   tcp      a server in the calling process, and clients that prove a key of 32 bytes (greet.h)
 */
#ifndef FLYT_COMM_STORE_H
#define FLYT_COMM_STORE_H

#include "cpu/comm/greet/greet.h"

#include <stddef.h>
#include <stdint.h>

enum {
    COMM_STORE_KEY_MOST = 200,               /* bytes of a key, without its end */
    COMM_STORE_VALUE_MOST = 256 * 1024,      /* bytes of a value */
    COMM_STORE_KEYS_MOST = 64 * 1024,        /* keys of a hash store, and of a server */
    COMM_STORE_BYTES_MOST = 64 * 1024 * 1024 /* and bytes of its keys and values together */
};

struct comm_store;

/* Each kind of store begins with its operations. gets: 0, or as comm_store_lend says. */
struct comm_store_operations {
    int (*set)(struct comm_store *, const char *key, const void *value, size_t size, unsigned gets, uint64_t deadline,
               char *error);
    int (*get)(struct comm_store *, const char *key, void *value, size_t room, size_t *size, uint64_t deadline,
               char *error);
    void (*destroy)(struct comm_store *);
};
struct comm_store {
    const struct comm_store_operations *operations;
};

/* 0, -EINVAL (key or value too long), -ENOSPC (a bound is reached), or what the store says (-ECONNABORTED: it does not
   answer); *error as in rpc.h. */
int comm_store_set(struct comm_store *, const char *key, const void *value, size_t size, uint64_t deadline,
                   char *error);
/* Sets a value that nobody wants any more when it has been got `gets` times, at least once: the store may forget it
   then, and a hash store and a server do. Waiting for it, without value, is no get. */
int comm_store_lend(struct comm_store *, const char *key, const void *value, size_t size, unsigned gets,
                    uint64_t deadline, char *error);
/* Waits until the key is set. *size: its bytes, of which at most `room` are at value; -EMSGSIZE: there are more. value
   NULL: only waits. -ETIMEDOUT: nobody has set it, and *error names the key. */
int comm_store_get(struct comm_store *, const char *key, void *value, size_t room, size_t *size, uint64_t deadline,
                   char *error);
/* Waits for all of them. */
int comm_store_wait(struct comm_store *, const char *const *keys, size_t count, uint64_t deadline, char *error);
void comm_store_destroy(struct comm_store *); /* NULL is allowed; no thread may be inside */

int comm_store_hash(struct comm_store **out, char *error);
/* The folder must exist, and nobody else may write into it: -EPERM. */
int comm_store_file(const char *folder, struct comm_store **out, char *error);
/* `inner` stays the caller's, and must live longer. */
int comm_store_prefix(struct comm_store *inner, const char *prefix, struct comm_store **out, char *error);

/* uri: tcp://host:port or unix:///path of a server. Waits at most until deadline for the connection. */
int comm_store_tcp(const char *uri, const uint8_t key[COMM_KEY_SIZE], uint64_t deadline, struct comm_store **out,
                   char *error);

struct comm_store_server;
/* Serves in a thread of its own. uri: as rpc_listener_open takes it; port 0: any. */
int comm_store_serve(const char *uri, const uint8_t key[COMM_KEY_SIZE], struct comm_store_server **out, char *error);
const char *comm_store_server_uri(const struct comm_store_server *); /* with the port really listened on */
void comm_store_server_stop(struct comm_store_server *);             /* NULL is allowed */

#endif
