/* peer.h: the other end of a session, for tests: speaks the protocol by hand. */
#ifndef FLYT_TESTS_SERVER_PEER_H
#define FLYT_TESTS_SERVER_PEER_H

#include "cpu/server/listener/local.h"
#include "tests/lib/stubs.h"
#include "tests/lib/unit.h"

struct peer {
    rpc_client *client;
    CLIENT *stub;
    struct flyt_server_local *local;      /* in this process, or NULL */
    flyt_server_local_end_function *end;
    hello_result hello;
    uint64_t capabilities;                /* of the client, for HELLO */
    uint64_t base, granule;               /* of the window */
    uint32_t context;                     /* which one the calls below name; set it to have another */
    flyt_head last;                       /* of the last peer_… call; only the numbers */
};

/* A cricket-rpc-server of the flavour under test. */
struct server { int pid; int out, log; char uri[3][256]; int uris; };

/* Asserts throughout: these do not return on failure. */
void peer_local(struct peer *, const char *gpu);                   /* session code in this process, no HELLO yet */
/* the same through libflyt-server.so, as a client does it */
void peer_library(struct peer *, const char *gpu);
void peer_connect(struct peer *, const char *uri);
void peer_connect_with(struct peer *, const char *uri, const void *ticket, size_t size);   /* shows its pass first */
void peer_hello(struct peer *);                                    /* HELLO; context 0 is the primary one of device 0 */
void peer_open(struct peer *, const char *uri);                    /* peer_connect, and peer_hello */
void peer_close(struct peer *);                                    /* also the local server, waited for */
/* A set-up of a test: *state becomes a peer of the software GPU in this process, behind HELLO. And a tear-down, for a
   peer and for whatever begins with one. */
int peer_set_up(void **state);
int peer_tear_down(void **state);
/* One unix socket, one TCP port, and one --listen of `more` at most. */
void server_start(struct server *, const char *gpu, const char *const *more);
int  server_stop(struct server *, int signal);                     /* wait status */
/* One child of the server that runs --worker and has (busy) or has not been given a client. */
int  server_children(const struct server *, int *pids, int room);

/* Calls; each returns head.result and keeps the head's numbers in peer->last. */
int peer_map(struct peer *, uint64_t address, uint64_t size);
int peer_stream_sync(struct peer *, uint32_t stream);
int peer_context_sync(struct peer *);
int peer_event_sync(struct peer *, uint32_t event);
int peer_event_query(struct peer *, uint32_t event);
int peer_stream_query(struct peer *, uint32_t stream);
int peer_context_reset(struct peer *);
int peer_copy_out(struct peer *, uint32_t stream, void *to, uint64_t from, uint64_t size);
void peer_copy_in(struct peer *, uint32_t stream, uint64_t to, const void *from, uint32_t size);
void peer_set(struct peer *, uint32_t stream, uint64_t to, uint64_t count, uint32_t value, uint32_t element);
void peer_stream_create(struct peer *, uint32_t stream, unsigned flags);
void peer_event_create(struct peer *, uint32_t event);
void peer_event_record(struct peer *, uint32_t event, uint32_t stream);
void peer_stream_wait(struct peer *, uint32_t stream, uint32_t event);
/* PTX text as module `module`; then function `function` by name. */
int peer_load(struct peer *, uint32_t module, const char *ptx, char *log, size_t log_size);
int peer_function(struct peer *, uint32_t function, uint32_t module, const char *name, uint32_t *bytes);
void peer_launch(struct peer *, uint32_t function, uint32_t stream, unsigned grid, unsigned block, const void *params,
                 uint32_t size);
/* How a call ended that has a result with a head: keeps the head, frees the result, and gives the head's result. */
int peer_took(struct peer *, enum clnt_stat status, xdrproc_t free_result, void *result);
/* A call that has nothing but a head as its answer: PLAIN(peer, context_sync, context_args, { 1 }). */
#define PLAIN(peer, name, type, ...)                                                                               \
    ({                                                                                                             \
        type args_ = __VA_ARGS__;                                                                                  \
        plain_result result_ = { 0 };                                                                              \
        peer_took((peer), flyt_##name##_1(&args_, &result_, (peer)->stub), (xdrproc_t)xdr_plain_result, &result_); \
    })
/* Keeps what the head of a reply says. */
void peer_note(struct peer *, const flyt_head *);
/* Completed number of a stream in the last head, or of an earlier one; 0: never told. */
uint64_t peer_done(struct peer *, uint32_t stream);
/* What the last synchronising call brought of fd 1. */
const char *peer_printed(struct peer *);

#endif
