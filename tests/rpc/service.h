/*
 * service.h: a service without a GPU, for tests of the rpc layer: each procedure of the protocol, answered by
 * something that a test can check.
 *
 *   ASYNC procedures        are counted, by procedure and in all; their order is checked where they carry a number
 *   FLYT_SET                its value must be one more than the last of the same stream
 *   FLYT_COPY_IN            inline bytes must be test_pattern(to, …)
 *   FLYT_COPY_OUT           answers test_pattern(from, size)
 *   FLYT_MEMORY_INFO        free: ASYNC calls so far; total: the context
 *   FLYT_STREAM_SYNC        answered later, by another thread, in reversed order of every REVERSED calls
 *   FLYT_EVENTS             answered when service_say is called; the rest of the calls go on
 *   FLYT_CONTEXT_SYNC       ends the server's process when the context is TEST_DIE
 *   other SYNC procedures   result 0
 */
#ifndef FLYT_TESTS_RPC_SERVICE_H
#define FLYT_TESTS_RPC_SERVICE_H

#include "tests/lib/stubs.h"

#include <pthread.h>
#include <stdatomic.h>

enum { TEST_DIE = 4711, TEST_STREAMS = 64, TEST_REVERSED = 4 };

struct service {
    rpc_server      *server;
    pthread_t        thread;
    bool             threaded;
    int              ended;                 /* what rpc_server_next ended with */
    char             why[RPC_ERROR_SIZE];
    _Atomic uint64_t async;                 /* ASYNC calls received */
    _Atomic uint64_t disorder;              /* numbers out of order, wrong bytes */
    uint32_t         last[TEST_STREAMS];
    uint32_t         reversed[TEST_REVERSED];
    unsigned         reversed_count;
    _Atomic uint32_t events_xid;            /* 0: none outstanding */
};

/* Serves the channel with a thread of its own until the client goes. */
struct service *service_start(rpc_channel *);
/* Waits for the end of the thread and frees all. */
void service_join(struct service *);
/* In the calling thread; gives what rpc_server_next ended with. */
int  service_run(struct service *);
struct service *service_create(rpc_channel *);
void service_destroy(struct service *);
/* Answers the outstanding EVENTS call; waits for one to come. */
void service_say(struct service *, uint32_t serial);

/* The same numbers in each run; of one thread. */
uint64_t test_random(void);

void test_pattern(uint64_t seed, void *bytes, size_t size);
bool test_pattern_matches(uint64_t seed, const void *bytes, size_t size);

/* Channels joined to each other: kind is "local", "unix" (socketpair), "shm" (memory beside a
   socketpair), "tcp" or "tls" (over the loopback; "tls-rekey": with new
   keys every 100 KB). */
void test_channels(const char *kind, rpc_channel *out[2]);
/* A pair of unix sockets. */
void test_socket_pair(int fds[2]);

/* CONTEXT_SYNC and its answer. */
enum clnt_stat test_call(rpc_client *, int context);

/* Large ASYNC calls, 64 of them, up to the first that cannot be sent; how that one ended, or RPC_SUCCESS. */
enum clnt_stat test_flood(rpc_client *);

/* What a client says of the loss of its server: test_loss_note with one of these. */
struct test_loss { unsigned count; char reason[RPC_ERROR_SIZE]; };
void test_loss_note(void *loss, const char *reason);

#endif
