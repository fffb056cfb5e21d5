/*
 * flyt_comm.h: libflyt-comm, communication between the ranks of a job on host memory, and on that of GPUs. flyt_comm(3)
 * describes it.
 *
 * Ranks meet in a store, connect, and then call the same collectives in the same order. Functions that return int give
 * 0, or a negative errno value; flyt_comm_error() then says what was tried and why it failed. The library never ends
 * the process. Timeouts are in milliseconds.
 */
#ifndef FLYT_COMM_H
#define FLYT_COMM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef FLYT_COMM_API
#define FLYT_COMM_API
#endif

enum { FLYT_COMM_KEY_SIZE = 32 };

/* As in nccl.h. */
typedef enum {
    FLYT_INT8, FLYT_UINT8, FLYT_INT32, FLYT_UINT32, FLYT_INT64, FLYT_UINT64, FLYT_FLOAT16, FLYT_FLOAT32, FLYT_FLOAT64,
    FLYT_BFLOAT16, FLYT_FLOAT8_E4M3, FLYT_FLOAT8_E5M2
} flyt_type;
typedef enum { FLYT_SUM, FLYT_PRODUCT, FLYT_MAXIMUM, FLYT_MINIMUM, FLYT_AVERAGE, FLYT_MULTIPLIED_SUM } flyt_operation;
typedef enum {
    FLYT_BARRIER, FLYT_BROADCAST, FLYT_REDUCE, FLYT_ALL_REDUCE, FLYT_GATHER, FLYT_SCATTER, FLYT_ALL_GATHER,
    FLYT_REDUCE_SCATTER, FLYT_ALL_TO_ALL
} flyt_kind;

/* Why this thread's last call has failed. Good until its next call. */
FLYT_COMM_API const char *flyt_comm_error(void);

/* ---- stores ---- */

typedef struct flyt_store flyt_store;
typedef struct flyt_store_server flyt_store_server;

FLYT_COMM_API int  flyt_store_hash(flyt_store **store);
FLYT_COMM_API int  flyt_store_file(const char *folder, flyt_store **store);
FLYT_COMM_API int  flyt_store_prefix(flyt_store *inner, const char *prefix, flyt_store **store);
FLYT_COMM_API int  flyt_store_tcp(const char *uri, const uint8_t key[FLYT_COMM_KEY_SIZE], unsigned timeout_ms,
                                  flyt_store **store);
/* The cluster manager's, which the programs of one user and VM share; the client manager of this machine is asked
   (FLYT_MANAGER). Values have at most 16 KiB. What this store set first is gone when it is destroyed, or its process
   ends. */
FLYT_COMM_API int flyt_store_manager(flyt_store **store);
/* Of the cluster manager's store: adds to the decimal number that the value is, 0 where there is none. *sum (may be
   NULL). Else -ENOTSUP. */
FLYT_COMM_API int flyt_store_add(flyt_store *store, const char *key, int64_t number, int64_t *sum);
FLYT_COMM_API int  flyt_store_set(flyt_store *store, const char *key, const void *value, size_t size,
                                  unsigned timeout_ms);
/* Waits for the key. *size: bytes of the value, which are in `value` if they are at most `room`. */
FLYT_COMM_API int  flyt_store_get(flyt_store *store, const char *key, void *value, size_t room, size_t *size,
                                  unsigned timeout_ms);
FLYT_COMM_API int  flyt_store_wait(flyt_store *store, const char *const *keys, size_t count, unsigned timeout_ms);
FLYT_COMM_API void flyt_store_destroy(flyt_store *store);

/* Serves a store for flyt_store_tcp, in a thread of this process. */
FLYT_COMM_API int  flyt_store_serve(const char *uri, const uint8_t key[FLYT_COMM_KEY_SIZE], flyt_store_server **server);
FLYT_COMM_API const char *flyt_store_server_uri(const flyt_store_server *server);
FLYT_COMM_API void flyt_store_server_stop(flyt_store_server *server);

/* ---- contexts ---- */

typedef struct flyt_context flyt_context;

/* Zero for what is not given. */
typedef struct {
    unsigned    rank, size;
    unsigned    channels;                       /* data channels of a link; FLYT_CHANNELS, or 8 */
    int         tls;                            /* not 0: encrypted; not with FLYT_LINK_TRANSPORT=ucx */
    const char *interfaces;                     /* network cards, with commas; FLYT_COMM_INTERFACES, or all */
} flyt_context_options;

/* The store must live as long as the context. */
FLYT_COMM_API int  flyt_context_create(const flyt_context_options *options, flyt_store *store, flyt_context **context);
/* Connects this rank with all others; else a pair is connected when it is first needed. */
FLYT_COMM_API int  flyt_context_connect_full_mesh(flyt_context *context, unsigned timeout_ms);
/* Ends the context on all ranks, and returns at once; `why` is what they hear. Any thread. */
FLYT_COMM_API void flyt_context_abort(flyt_context *context, const char *why);
FLYT_COMM_API void flyt_context_destroy(flyt_context *context);

/* ---- collectives ---- */

/* Counts are in elements: of one rank's part where there are parts, else of the whole. flyt_comm(3) says which buffers
   a rank needs, and when in and out may be the same. */
FLYT_COMM_API int flyt_barrier(flyt_context *context, unsigned timeout_ms);
FLYT_COMM_API int flyt_broadcast(flyt_context *context, void *buffer, uint64_t count, flyt_type type, unsigned root,
                                 unsigned timeout_ms);
FLYT_COMM_API int flyt_reduce(flyt_context *context, const void *in, void *out, uint64_t count, flyt_type type,
                              flyt_operation operation, unsigned root, unsigned timeout_ms);
FLYT_COMM_API int flyt_all_reduce(flyt_context *context, const void *in, void *out, uint64_t count, flyt_type type,
                                  flyt_operation operation, unsigned timeout_ms);
FLYT_COMM_API int flyt_gather(flyt_context *context, const void *in, void *out, uint64_t count, flyt_type type,
                              unsigned root, unsigned timeout_ms);
FLYT_COMM_API int flyt_scatter(flyt_context *context, const void *in, void *out, uint64_t count, flyt_type type,
                               unsigned root, unsigned timeout_ms);
FLYT_COMM_API int flyt_all_gather(flyt_context *context, const void *in, void *out, uint64_t count, flyt_type type,
                                  unsigned timeout_ms);
FLYT_COMM_API int flyt_reduce_scatter(flyt_context *context, const void *in, void *out, uint64_t count, flyt_type type,
                                      flyt_operation operation, unsigned timeout_ms);
FLYT_COMM_API int flyt_all_to_all(flyt_context *context, const void *in, void *out, uint64_t count, flyt_type type,
                                  unsigned timeout_ms);

/* Any of them, with all that it may have; zeros for what it has not. */
typedef struct {
    flyt_kind       kind;
    const void     *in;
    void           *out;
    uint64_t        count;
    flyt_type       type;
    flyt_operation  operation;
    const void     *factor;     /* of FLYT_MULTIPLIED_SUM: this rank's values are multiplied by it, one of the type */
    unsigned        root;
    /* Of a gather, a scatter or an all-to-all, or of FLYT_REDUCE_SCATTER, whose parts differ: one number for each rank,
       in elements; `count` is not used. counts: of the parts that are gathered, scattered or sent; places: where each
       begins, NULL: one behind the other. in_counts, in_places: of what an all-to-all receives from each rank. */
    const uint64_t *counts, *places, *in_counts, *in_places;
} flyt_collective;
FLYT_COMM_API int flyt_call(flyt_context *context, const flyt_collective *call, unsigned timeout_ms);

/* ---- memory of GPUs ---- */

/* A rank's GPU: the one that is current in the thread (cudaSetDevice). All ranks of the context call it, each with a
   GPU of its own. The program runs under flyt-run. -ENOTSUP: there is no libnccl.so.2 of Flyt, or the GPU server has no
   communicators. The context must live as long. */
typedef struct flyt_device flyt_device;
FLYT_COMM_API int  flyt_device_create(flyt_context *context, flyt_device **device);
/* As flyt_call, with buffers of the GPU, as work of the stream (a cudaStream_t; NULL: the default one): it returns
   before that is carried out. Any thread, one at a time. All ranks call the same. -ENOTSUP: FLYT_REDUCE_SCATTER with
   parts that differ. */
FLYT_COMM_API int  flyt_device_call(flyt_device *device, const flyt_collective *call, void *stream);
/* Messages without tags, in the stream: the n-th to a rank meets its n-th from this one. */
FLYT_COMM_API int  flyt_device_send(flyt_device *device, unsigned peer, const void *memory, uint64_t size,
                                    void *stream);
FLYT_COMM_API int  flyt_device_receive(flyt_device *device, unsigned peer, void *memory, uint64_t size, void *stream);
/* 0, or why it has ended on all ranks. */
FLYT_COMM_API int  flyt_device_status(flyt_device *device);
/* abort: NULL: behind what the streams were given; else at once, and the other ranks read that it was aborted. NULL is
   allowed as the device. */
FLYT_COMM_API void flyt_device_destroy(flyt_device *device, const char *abort);

/* ---- messages ---- */

/* The n-th send to a rank with a tag meets its n-th receive with it. *got (may be NULL): what was sent. */
FLYT_COMM_API int flyt_send(flyt_context *context, unsigned peer, uint32_t tag, const void *memory, uint64_t size,
                            unsigned timeout_ms);
FLYT_COMM_API int flyt_receive(flyt_context *context, unsigned peer, uint32_t tag, void *memory, uint64_t size,
                               uint64_t *got, unsigned timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
