/* loop_internal.h: what the files of the loop share. Nobody else includes it. */
#ifndef FLYT_CONTROL_LOOP_INTERNAL_H
#define FLYT_CONTROL_LOOP_INTERNAL_H

#include <pthread.h>

#include "cpu/common/explain.h"
#include "control-managers/common/loop.h"
#include "cpu/common/log_limit.h"
#include "control-managers/common/tls.h"

enum { LOOP_READ_SIZE = 65536, LOOP_ENCODE_SIZE = CTL_MAX_RECORD + 64 };

struct loop_posted {
    struct loop_posted *next;
    void (*fn)(void *);
    void *context;
};
struct loop_signal_handle {
    struct loop_signal_handle *next;
    uv_signal_t uv;
    void (*fn)(int, void *);
    void *context;
};

struct loop {
    uv_loop_t uv;
    uv_timer_t clock; /* for the first of the timers */
    uv_async_t wake;
    struct loop_timer *timers; /* root of a pairing heap */
    uint64_t slept;            /* ms that loop_now leaves out */
    bool firing, stopping;
    struct loop_held held, worked;
    struct log_limit long_lines;
    struct loop_rpc_times rpc[CTL_LAST_PROCEDURE + 1];
    uint64_t mark_ns, mark_worked_ns; /* clock and processor time of this thread, both of one moment */
    pthread_mutex_t lock; /* of posted */
    struct loop_posted *posted, **posted_end;
    struct loop_signal_handle *signals;
    struct conn *conns; /* those that are not closing */
    struct loop_timer trim; /* loop_conn.c */
    unsigned ended;         /* connections with TLS since memory was given back last */
    char *encode;       /* LOOP_ENCODE_SIZE, used within one function */
    uint8_t read[LOOP_READ_SIZE];
};

struct outgoing { /* a call of ours */
    struct outgoing *next;
    struct conn *conn;
    uint32_t xid, procedure;
    conn_done *done;
    void *context;
    struct loop_timer deadline;
};

struct loop_call { /* a call of the peer */
    struct loop_call *next, **back;
    struct conn *conn;
    uint32_t xid, procedure;
    void *context; /* malloced, of the service; NULL: none */
};

struct bytes {
    uint8_t *at;
    size_t size, capacity;
};

struct conn {
    struct loop *loop;
    struct conn *next, **back;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    bool is_unix, accepted;
    bool open; /* connected, TLS done: calls may travel */
    bool closing, handle_ready, reading, dispatching, doomed;
    bool heard_bytes;
    const struct conn_service *service;
    void *context;
    ctl_role role;
    struct tls_session *tls;
    struct tls_context *tls_offered; /* until the peer's first byte says whether it wants TLS; NULL: settled */
    struct loop_listener *listener;  /* NULL: connected, or the listener has gone */
    struct conn *listener_next, **listener_back;
    char peer[CONN_PEER_SIZE], host[64];
    bool peer_local; /* it is on this machine */

    struct bytes in;           /* received, not yet a whole record */
    struct bytes out, sending; /* to be sent; what uv_write has now */
    uv_write_t write;
    struct outgoing *outgoing;
    uint32_t next_xid;
    struct loop_call *calls;
    size_t call_count;

    struct loop_timer stranger, half, slow, doom; /* see loop_conn.c */
    int doom_error;
    char doom_why[EXPLAIN_SIZE];

    struct connecting *connecting; /* loop_connect.c, NULL when connected */
};

/* loop.c: a handler begins; it has run since then, named `what` for the log. The nanoseconds by the clock. */
uint64_t loop_begin_held(struct loop *);
uint64_t loop_note_held(struct loop *, uint64_t begun, const char *what);

/* loop_conn.c */
struct conn *conn_create(struct loop *, const struct conn_service *, void *context, bool is_unix);
void conn_begin(struct conn *); /* the socket is connected: reads; TLS or open */
void conn_end(struct conn *, int error, const char *why);
void conn_doom(struct conn *, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));
int conn_send(struct conn *, const void *record, size_t size); /* puts it in `out`; conn_flush sends */
void conn_flush(struct conn *);
void conn_resume(struct conn *); /* calls were answered: read on */
void bytes_drop(struct bytes *, size_t); /* from the front */
void bytes_free(struct bytes *);

/* loop_rpc.c: handles the whole records in `in`; how many there were. */
size_t conn_handle_records(struct conn *);
void conn_fail_calls(struct conn *, int error, const char *why);

/* loop_connect.c */
void connecting_open(struct conn *);                               /* the connection is there: calls `connected` */
bool connecting_failed(struct conn *, int error, const char *why); /* true: it was connecting, and was informed */
void connecting_free(struct conn *);

/* loop_listen.c */
void listener_conn_gone(struct conn *);

/* loop_address.c: tcp://host:port and unix:///path taken apart. */
struct loop_address {
    bool is_unix;
    char host[CTL_MAX_HOST + 1];
    char service[16];
    char path[108];
};
int loop_address_parse(const char *uri, struct loop_address *, char *error);

#endif
