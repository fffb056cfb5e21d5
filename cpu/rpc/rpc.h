/*
 * rpc.h: ONC RPC (RFC 5531) over Flyt's own transports.
 *
 *   rpc_channel   a record-marked byte stream between two processes (TCP, unix socket) or between two
 *                 halves of one process (local:), or through memory that two processes share (shm).
 *   rpc_client    many calls in flight on one channel, replies in any order, matched by xid.
 *   rpc_server    one channel's calls, handed out record by record; replies may be sent by any thread.
 *
 * Nothing here knows CUDA. No rpcbind, no global state, no signals (SIGPIPE is never raised).
 * Functions return 0 or a negative errno value unless said otherwise, and describe what failed in
 * *error (a buffer of RPC_ERROR_SIZE bytes, may be NULL): what was tried, on what, why, what to do.
 */
#ifndef FLYT_RPC_RPC_H
#define FLYT_RPC_RPC_H

#include <rpc/rpc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RPC_ERROR_SIZE = 512 };

/* ---- classes (generated from the .x file into build/…/cpu_rpc_classes.h) ---- */

enum rpc_class { RPC_CLASS_NONE = 0, RPC_CLASS_ASYNC, RPC_CLASS_SYNC };

struct rpc_procedure {
    const char    *name;          /* "FLYT_LAUNCH" */
    enum rpc_class class;
};

/* What both ends know of a program: its procedures, indexed by number. */
struct rpc_program {
    uint32_t                    program;
    uint32_t                    version;
    uint32_t                    count;         /* entries in procedures */
    const struct rpc_procedure *procedures;    /* .name NULL where there is none */
    size_t                      max_record;    /* longest call or reply that is accepted, bytes */
};
extern const struct rpc_program rpc_flyt_program;

/* ---- channels ---- */

typedef struct rpc_channel rpc_channel;

/* Certificates in files (PEM); any may be NULL. */
struct rpc_tls_files { const char *ca, *certificate, *key; };

/* Connects to tcp://host:port (IPv4, [IPv6], names), tls://host:port?sha256=… (or with the authority in FLYT_TLS_CA,
   and a certificate of our own in FLYT_TLS_CERTIFICATE and FLYT_TLS_KEY where the server wants one), unix:///path,
   shm:///path (a unix socket, then shared memory or nothing: else the first use fails with -EPROTONOSUPPORT). local: is
   refused here (see
   rpc_channel_pair). Waits at most timeout_ms for the connection, and over TLS RPC_HANDSHAKE_MS longer: a server that
   is there answers when a worker is free for the connection. */
enum { RPC_HANDSHAKE_MS = 30000 };
int rpc_channel_connect(const char *uri, int timeout_ms, rpc_channel **out, char *error);
/* Connects, and waits at most total_ms for connection and answer together. Says first that it has a ticket
   (call/knock.h), unless size is 0. */
int rpc_channel_connect_within(const char *uri, int timeout_ms, int total_ms, const void *ticket, size_t size,
                               rpc_channel **out, char *error);

/* Takes over a connected socket (close-on-exec is set). The channel owns fd on success. */
int rpc_channel_from_fd(int fd, rpc_channel **out, char *error);

/* Takes over a socket that a server has accepted: where the client offers to go on through shared memory
   (rpc_channel_share), it does, with so many bytes of payload area beside the rings (0: none; only what is touched
   costs memory). */
int rpc_channel_accept(int fd, size_t payload, rpc_channel **out, char *error);

/* For a client: offers the server to go on through shared memory, if *channel is over a unix socket and
   nothing has been sent; a server that does not know of it goes on over the socket. kept: what another channel of this
   process shares; the server may use that payload area in place of a new one. NULL: none. On failure *channel is gone.
   */
struct rpc_shared_memory;
int rpc_channel_share(rpc_channel **channel, const struct rpc_shared_memory *kept, char *error);

/* Whether this machine has an ivshmem device, that is, may share memory with the host that it runs on. */
bool rpc_bar_present(void);
/* For a client in a virtual machine: offers the server to go on through the file `path`, the memory of an ivshmem
   device that the server's host shares with it (shm_bar.c), if nothing has been sent. NULL: the devices of this machine
   are tried. 0 and *error (not NULL) not empty: the connection goes on as it was, and why. 1: the same, because the
   server has no such memory. On failure *channel is gone. Waits at most timeout_ms; a server answers when a worker is
   free. */
int rpc_channel_share_bar(rpc_channel **channel, const char *path, int timeout_ms, char *error);
/* For a server, `bar` is FILE or FILE,SESSIONS. Check: it can be used, and its memory is there. Offered: the client's
   first bytes are that offer. Accept then takes fd over, also on failure; otherwise as rpc_channel_accept, and *error
   as above. */
int  rpc_bar_check(const char *bar, char *error);
bool rpc_bar_offered(int fd, int timeout_ms);
int  rpc_bar_accept(int fd, const char *bar, size_t payload, int timeout_ms, rpc_channel **out, char *error);

/* What lies beside the rings of shared memory. It lives as long as the channel; the descriptor is the channel's. */
struct rpc_shared_memory {
    _Atomic uint64_t *numbers;          /* the server writes, the client reads; any use that both agree on */
    uint32_t          number_count;
    int               fd;
    uint64_t          payload, payload_size;    /* place of the payload area in fd, whole pages; size 0: none */
    bool              kept;                     /* the payload area is that of the client's earlier channel */
};
/* False (and fd -1): the channel is not over shared memory. The transport is settled once an answer or a call has
 * come. */
bool rpc_channel_shared_memory(rpc_channel *, struct rpc_shared_memory *);

/* Two channels joined inside this process through memory: out[0] is for a client, out[1] for a server. */
int rpc_channel_pair(rpc_channel *out[2], char *error);

/* Both directions end at once; threads blocked in it return -ECONNRESET. Any thread, repeatedly. */
void rpc_channel_shutdown(rpc_channel *);
void rpc_channel_destroy(rpc_channel *);
const char *rpc_channel_transport(const rpc_channel *);     /* "tcp", "tls", "unix", "local", "shm" */

/* In the child of a fork: gives the descriptors up without a word to the peer. */
void rpc_channel_abandon(rpc_channel *);

/* Gives the descriptors of a connection up that has ended, before it is destroyed; what it shares stays. No thread may
   be inside. */
void rpc_channel_part(rpc_channel *);

/* ---- listening ---- */

typedef struct rpc_listener rpc_listener;

/* Listens on tcp://host:port or tls://host:port (port 0: any; who accepts makes it TLS, channel_tls.h), unix:///path or
   shm:///path (the same socket; a stale socket file of a dead server is replaced; a live one is -EADDRINUSE; mode 0600
   unless ?mode=0660 follows the path). */
int  rpc_listener_open(const char *uri, rpc_listener **out, char *error);
/* Makes a listener of a socket that another process has made and that listens already. Takes over fd. */
int  rpc_listener_adopt(const char *uri, int fd, rpc_listener **out, char *error);
int  rpc_listener_fd(const rpc_listener *);            /* for poll */
int  rpc_listener_accept(rpc_listener *);              /* a connected fd, close-on-exec, tuned; or -errno */
const char *rpc_listener_uri(const rpc_listener *);    /* the address really listened on */
void rpc_listener_close(rpc_listener *);               /* removes the socket file */

/* ---- client ---- */

typedef struct rpc_client rpc_client;

/* One call in flight. Whoever submits it owns it, and it must live until it is complete. */
/* `taken` runs in the submitting thread while the call is put into the sequence, under the client's lock: of two calls
   the one that travels first is delivered first. It must not block or use the client. It does not run for a call that
   is refused because the connection is lost. */
struct rpc_place { void (*taken)(struct rpc_place *); };

struct rpc_call {
    uint32_t  procedure;
    xdrproc_t encode;  void *args;        /* read before rpc_client_submit returns */
    xdrproc_t decode;  void *result;      /* SYNC only; *result zeroed or reusable, xdr_free is the owner's.
                                             decode is called once more, with XDR_FREE, where it failed */
    /* SYNC only, may be NULL: runs once, in whichever thread read the reply (or noticed the loss), with
       no lock of the rpc layer held; it may submit calls but must not wait. The call is done's own from then
       on, to be freed or used again: such a call is not waited for with rpc_client_wait. */
    void    (*done)(struct rpc_call *, void *context);
    void     *context;
    struct rpc_place *place;              /* may be NULL; not read after rpc_client_submit has returned */
    /* filled in by the rpc layer */
    enum clnt_stat  status;               /* valid once complete */
    uint32_t        xid;
    bool            complete;
    struct rpc_call *next;
    void            *waiter;
};

struct rpc_client_statistics {
    uint64_t calls, waited, bytes_sent, bytes_received, writes;
};

/* Takes over the channel, also when it fails. lost() runs once when the connection is found dead
   (in any thread, no lock held): the reason is a sentence. dead_seconds: nothing received for so long
   while a call is outstanding or bytes are being sent, and this process ran all the time: the connection counts as
   dead; 0: never. */
int rpc_client_create(rpc_channel *, const struct rpc_program *, int dead_seconds,
                      void (*lost)(void *context, const char *reason), void *context,
                      rpc_client **out, char *error);

/* Puts a call into the sequence. ASYNC: complete on return. A SYNC call is sent at once. An ASYNC call is sent at
   once too, unless calls come thick and fast and a thread is in rpc_client_attend: then it joins a batch, which
   a full buffer, the next SYNC call, completion or rpc_client_flush sends, or at the latest that thread, which is
   woken for it. So nothing sits for ever, whatever the server is waiting for.
   Blocks while too many bytes are on their way (not in a done function).
   RPC_SUCCESS: it is in the sequence, and a SYNC call will complete, also when the connection is lost. Anything
   else: it was not sent, is complete with that status, and done does not run. */
enum clnt_stat rpc_client_submit(rpc_client *, struct rpc_call *);

/* Submits an ASYNC call whose arguments stand there as they travel: `record` is RPC_CALL_ROOM bytes, which are
   written to, and `size` bytes of arguments, whole words. What is sent most need not pass through XDR. place may be
   NULL. */
enum { RPC_CALL_ROOM = 44 };
enum clnt_stat rpc_client_submit_ready(rpc_client *, uint32_t procedure, uint8_t *record, size_t size,
                                       struct rpc_place *place);

/* Waits for a submitted SYNC call; reads the connection meanwhile and completes the others' calls. */
enum clnt_stat rpc_client_wait(rpc_client *, struct rpc_call *);
/* rpc_client_wait until that time (clock_now), of a client that one thread uses. False: the call is not complete. */
bool rpc_client_wait_until(rpc_client *, struct rpc_call *, uint64_t until);

int  rpc_client_flush(rpc_client *);

/* For the helper thread (one): waits for `call`, and reads the connection whenever no other thread does, so that
   replies with a done function are served though nobody waits; also sends batches. Threads that wait for their
   own replies read themselves; the helper keeps out of their way, and looks again within a millisecond. */
enum clnt_stat rpc_client_attend(rpc_client *, struct rpc_call *);

/* Switches for FLYT_PERF, both on by default. Without batching every ASYNC call is sent at once; without spinning
   who waits sleeps at once. Spinning is set before the first call. */
void rpc_client_set_batching(rpc_client *, bool);
void rpc_client_set_spinning(rpc_client *, bool);

bool rpc_client_lost(const rpc_client *);               /* sticky */
bool rpc_client_has_news(rpc_client *);                 /* something has come, or the end, that nobody has read */
bool rpc_client_silent(const rpc_client *);             /* lost because the server said nothing for dead_seconds */
void rpc_client_statistics(const rpc_client *, struct rpc_client_statistics *);
const char *rpc_client_transport(const rpc_client *);
bool rpc_client_shared_memory(const rpc_client *, struct rpc_shared_memory *);
void rpc_client_shutdown(rpc_client *);                 /* every call in flight ends with RPC_CANTRECV */
void rpc_client_destroy(rpc_client *);                  /* no thread may be inside */
void rpc_client_abandon(rpc_client *);                  /* in the child of a fork: frees nothing that needs a lock */
void rpc_client_part(rpc_client *);                     /* after its end: rpc_channel_part */

/* ---- a client whose connection can be made anew (call/renew.c) ---- */

/* Writes down what the client sends and is answered, so that it can be repeated at another server. All but `lost` run
   under the client's lock: they must neither block nor use the client. */
struct rpc_recorder {
    /* A call has got its place in the sequence. Returns where its arguments are to be stored, `size` bytes; NULL:
       nowhere. */
    uint8_t *(*sent)(struct rpc_recorder *, uint32_t procedure, uint32_t xid, size_t size);
    /* The answer to the call has come, and no thread has seen it yet. */
    void (*answered)(struct rpc_recorder *, const struct rpc_call *, const uint8_t *body, size_t size);
    /* The connection is lost. True: the calls in flight stay so, and new ones wait, until rpc_client_renew or the
       client's end. Then `lost` runs, in any thread, and must not wait for the client. */
    bool (*holds)(struct rpc_recorder *);
    void (*lost)(struct rpc_recorder *, const char *reason);
};
/* NULL: nothing is written down from here on. The recorder is the caller's, and lives as long as the client. */
void rpc_client_record(rpc_client *, struct rpc_recorder *);
/* Runs a function under the client's lock: nothing is written down meanwhile. It must neither block nor use the
   client. */
void rpc_client_locked(rpc_client *, void (*run)(void *context), void *context);
/* The connection is given up here as if it had been lost. */
void rpc_client_break(rpc_client *, const char *reason);

/* While it is held: returns when no thread uses the old connection, and none will add a call. */
void rpc_client_rest(rpc_client *);
/* The calls of `next` get numbers that no call of `client`, which is at rest, has. Before the first call. */
void rpc_client_follow(rpc_client *next, rpc_client *client);
/* As rpc_client_submit, of a SYNC call, under the number of one that is in flight at another client. */
enum clnt_stat rpc_client_submit_as(rpc_client *, struct rpc_call *, uint32_t xid);
/* An answer that came to `next` for a call that is in flight at `client`. */
struct rpc_early { uint32_t xid; const uint8_t *body; size_t size; };
/* `client`, which is at rest, goes on with the connection of `next`, whose calls under way (rpc_client_submit_as) are
   its own calls of these numbers. No other thread knows `next`, which is freed. -ECONNRESET: that connection is lost,
   too; nothing has changed, and `next` is still there. */
int  rpc_client_renew(rpc_client *client, rpc_client *next, const struct rpc_early *, unsigned count);
/* While it is held: it is not made anew. The calls in flight fail, and lost() of rpc_client_create runs. */
void rpc_client_renounce(rpc_client *, const char *reason);

/* ---- server ---- */

typedef struct rpc_server rpc_server;
typedef struct rpc_request rpc_request;                 /* one received record */

int rpc_server_create(rpc_channel *, const struct rpc_program *, rpc_server **out, char *error);

/* On by default; set before the first call: see rpc_client_set_spinning. */
void rpc_server_set_spinning(rpc_server *, bool);

/* Next call, in the order sent; *out is the server's own and is good until this is called again. Blocks at most
   timeout_ms (-1: for ever). *out NULL and 0 on timeout; -ECONNRESET when the peer is gone; -EPROTO when it does not
   speak the protocol (the caller ends the session). A record over max_record is -EMSGSIZE before memory is taken for
   it. */
int rpc_server_next(rpc_server *, int timeout_ms, rpc_request **out, char *error);

/* The next call of what has been received already: never blocks, *out NULL and 0 when there is no whole call. */
int rpc_server_take(rpc_server *, rpc_request **out, char *error);
/* One that lives until rpc_request_free, in whichever thread. NULL: no memory; the other is as it was. */
rpc_request *rpc_request_keep(rpc_request *);

uint32_t rpc_request_procedure(const rpc_request *);
uint32_t rpc_request_xid(const rpc_request *);
size_t   rpc_request_size(const rpc_request *);
/* The arguments as they came. */
const uint8_t *rpc_request_body(const rpc_request *, size_t *size);

/* Decodes the arguments, which the caller frees with xdr_free. -EPROTO: they are something else, and nothing is left to
   free. */
int rpc_request_arguments(rpc_request *, xdrproc_t, void *args);

/* Sends an accepted reply. Any thread. The results have been encoded when it returns. */
int rpc_server_reply(rpc_server *, uint32_t xid, xdrproc_t, void *result);
int rpc_server_reject(rpc_server *, uint32_t xid, enum accept_stat);     /* PROC_UNAVAIL, GARBAGE_ARGS … */

/* Says that the server lives, with an answer to no call (RPC_BEAT_XID), if nothing is on its way and nothing has been
   sent for `interval` ns. To be called much more often than that, by one thread. Never waits. A client that does not
   know of it ends the connection. */
enum { RPC_BEAT_XID = 0 };
void rpc_server_beat(rpc_server *, uint64_t interval);
/* See rpc_channel_peer: 0, -ECONNRESET or -ETIMEDOUT. Never waits. */
int  rpc_server_peer(rpc_server *);
/* Somebody is sending: perhaps the client does not take it. */
bool rpc_server_writing(rpc_server *);

const char *rpc_server_transport(const rpc_server *);   /* settled once a call has come */
bool rpc_server_shared_memory(const rpc_server *, struct rpc_shared_memory *);

void rpc_request_free(rpc_request *);                   /* one that was not kept: may be called, need not */
void rpc_server_shutdown(rpc_server *);
void rpc_server_destroy(rpc_server *);

#endif
