/*
 * server.c: the serving end of a connection. One thread at a time takes calls from it (rpc_server_next); any
 * thread may answer. A call is used where it was received: the request that rpc_server_next gives is the server's own,
 * and what it refers to lies in the inbox; rpc_request_keep makes one that holds a reference to its block.
 *
 * What does not concern the service is answered here: unknown programs, versions and procedures, foreign
 * credentials. What is no call at all ends the session.
 */
#include "cpu/rpc/rpc.h"
#include "cpu/rpc/call/sender.h"
#include "cpu/common/wire.h"

#include "cpu/common/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct rpc_request {
    struct rpc_server   *server;
    struct rpc_record    record;
    struct rpc_wire_call call;
};

struct rpc_server {
    rpc_channel              *channel;
    const struct rpc_program *program;
    struct rpc_inbox          inbox;        /* of the thread that is in rpc_server_next */
    struct rpc_spin           spin;         /* likewise */
    struct rpc_request        taken;        /* likewise: the call that was given last */
    pthread_mutex_t           lock;
    struct rpc_sender         sender;
    /* rpc_server_beat: bytes sent when it last looked, and when that last grew */
    uint64_t                  said, said_at;
};

/* rpc_sender's `blocked`: the client reads its replies, also while it sends, so waiting is enough. */
static int server_blocked(void *context)
{
    rpc_server *server = context;
    int ready = rpc_channel_poll(server->channel, POLLOUT, -1, false);
    return ready < 0 ? ready : 0;
}

int rpc_server_create(rpc_channel *channel, const struct rpc_program *program, rpc_server **out, char *error)
{
    rpc_server *server = calloc(1, sizeof *server);
    if (!server) {
        rpc_channel_destroy(channel);
        return rpc_explain(error, -ENOMEM, "no memory for an RPC server");
    }
    server->channel = channel;
    server->program = program;
    rpc_inbox_init(&server->inbox, program->max_record);
    rpc_spin_init(&server->spin);
    server->spin.moves = true;
    pthread_mutex_init(&server->lock, NULL);
    rpc_sender_init(&server->sender, &server->lock, channel, program->max_record, server_blocked, server);
    *out = server;
    return 0;
}

void rpc_server_set_spinning(rpc_server *server, bool on)
{
    server->spin.on = on;
}

const char *rpc_server_transport(const rpc_server *server)
{
    return rpc_channel_transport(server->channel);
}

bool rpc_server_shared_memory(const rpc_server *server, struct rpc_shared_memory *out)
{
    return rpc_channel_shared_memory(server->channel, out);
}

void rpc_server_shutdown(rpc_server *server)
{
    pthread_mutex_lock(&server->lock);
    rpc_sender_fail(&server->sender, -ECONNRESET);
    pthread_mutex_unlock(&server->lock);
    rpc_channel_shutdown(server->channel);
}

void rpc_server_destroy(rpc_server *server)
{
    if (!server)
        return;
    rpc_channel_destroy(server->channel);
    rpc_block_release(server->taken.record.block);
    rpc_inbox_clear(&server->inbox);
    rpc_sender_destroy(&server->sender);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

/* ---- answers ---- */

/* What stands after the head of an accepted reply: results, or the versions that there are. */
static bool_t put_body(const rpc_server *server, XDR *xdr, enum accept_stat status, xdrproc_t encode, void *result)
{
    if (status == PROG_MISMATCH) {
        long version = (long)server->program->version;
        return XDR_PUTLONG(xdr, &version) && XDR_PUTLONG(xdr, &version);
    }
    return status != SUCCESS || !encode || encode(xdr, result);
}

static int send_accepted(rpc_server *server, uint32_t xid, enum accept_stat status, xdrproc_t encode, void *result)
{
    struct rpc_encoding encoding;
    pthread_mutex_lock(&server->lock);
    int failure = rpc_sender_wait_room(&server->sender);
    if (failure == 0)
        failure = rpc_sender_begin(&server->sender, &encoding, true);
    if (failure == 0) {
        if (!rpc_wire_put_accepted(&encoding.xdr, xid, status) ||
            !put_body(server, &encoding.xdr, status, encode, result)) {
            rpc_sender_cancel(&server->sender, &encoding);
            failure = -EINVAL;                  /* these results cannot be expressed, or are too long */
        } else {
            failure = rpc_sender_end(&server->sender, &encoding);
        }
    }
    if (failure == 0)
        failure = encoding.gathered ? rpc_sender_write_through(&server->sender) : rpc_sender_write(&server->sender);
    pthread_mutex_unlock(&server->lock);
    return failure;
}

static int send_denied(rpc_server *server, uint32_t xid, bool version)
{
    struct rpc_encoding encoding;
    pthread_mutex_lock(&server->lock);
    int failure = rpc_sender_begin(&server->sender, &encoding, false);
    if (failure == 0) {
        bool_t put = version ? rpc_wire_put_version_mismatch(&encoding.xdr, xid)
                             : rpc_wire_put_auth_error(&encoding.xdr, xid, AUTH_REJECTEDCRED);
        if (!put) {
            rpc_sender_cancel(&server->sender, &encoding);
            failure = -ENOMEM;
        } else {
            failure = rpc_sender_end(&server->sender, &encoding);
        }
    }
    if (failure == 0)
        failure = rpc_sender_write(&server->sender);
    pthread_mutex_unlock(&server->lock);
    return failure;
}

int rpc_server_reply(rpc_server *server, uint32_t xid, xdrproc_t encode, void *result)
{
    return send_accepted(server, xid, SUCCESS, encode, result);
}

int rpc_server_reject(rpc_server *server, uint32_t xid, enum accept_stat status)
{
    if (status == SUCCESS)
        return -EINVAL;
    return send_accepted(server, xid, status, NULL, NULL);
}

/* ---- life ---- */

void rpc_server_beat(rpc_server *server, uint64_t interval)
{
    struct rpc_sender *sender = &server->sender;
    struct rpc_encoding encoding;
    uint64_t now = clock_now();
    pthread_mutex_lock(&server->lock);
    if (sender->bytes != server->said) {
        server->said = sender->bytes;
        server->said_at = now;
    }
    bool due =
        now - server->said_at >= interval && !sender->writing && sender->error == 0 && rpc_sender_pending(sender) == 0;
    if (due && rpc_sender_begin(sender, &encoding, false) == 0) {
        if (!rpc_wire_put_accepted(&encoding.xdr, RPC_BEAT_XID, SUCCESS))
            rpc_sender_cancel(sender, &encoding);
        else
            rpc_sender_end(sender, &encoding);
    }
    rpc_sender_try(sender);                     /* also what it left over the last time */
    pthread_mutex_unlock(&server->lock);
}

int rpc_server_peer(rpc_server *server)
{
    return rpc_channel_peer(server->channel);
}

bool rpc_server_writing(rpc_server *server)
{
    pthread_mutex_lock(&server->lock);
    bool writing = server->sender.writing;
    pthread_mutex_unlock(&server->lock);
    return writing;
}

/* ---- calls ---- */

static enum rpc_class class_of(const rpc_server *server, uint32_t procedure)
{
    const struct rpc_program *program = server->program;
    return procedure < program->count ? program->procedures[procedure].class : RPC_CLASS_NONE;
}

/* 1: the service should have it; 0: answered here; -EPROTO; or -errno: the answer could not be sent. */
static int examine(rpc_server *server, const struct rpc_record *record, struct rpc_wire_call *call)
{
    if (rpc_wire_get_call(record->bytes, record->size, call) < 0)
        return -EPROTO;
    if (call->rpc_version != RPC_MSG_VERSION)
        return send_denied(server, call->xid, true);
    if (call->flavor != AUTH_NONE)
        return send_denied(server, call->xid, false);
    if (call->program != server->program->program)
        return send_accepted(server, call->xid, PROG_UNAVAIL, NULL, NULL);
    if (call->version != server->program->version)
        return send_accepted(server, call->xid, PROG_MISMATCH, NULL, NULL);
    if (class_of(server, call->procedure) == RPC_CLASS_NONE)
        return send_accepted(server, call->xid, PROC_UNAVAIL, NULL, NULL);
    return 1;
}

/* Takes over the record. 1: *out is a call for the service. */
static int make_request(rpc_server *server, const struct rpc_record *record, rpc_request **out, char *error)
{
    rpc_request *request = &server->taken;
    rpc_block_release(request->record.block);
    *request = (rpc_request){ .server = server, .record = *record };
    int status = examine(server, record, &request->call);
    if (status == 1)
        *out = request;
    else if (status == -EPROTO)
        rpc_explain(error, status, "the client sent %zu bytes that are no call", record->size);
    else if (status < 0)
        rpc_explain(error, status, "answering a call: %s", strerror(-status));
    return status;
}

static int receive(rpc_server *server, bool spin, char *error)
{
    ssize_t got = spin ? rpc_channel_receive_spinning(server->channel, &server->inbox, &server->spin)
                       : rpc_channel_receive(server->channel, &server->inbox);
    if (got > 0 || got == -EAGAIN)
        return got > 0 ? 0 : -EAGAIN;
    if (got == -ENOMEM)
        return rpc_explain(error, -ENOMEM, "no memory for a call");
    bool half = server->inbox.end > server->inbox.start || server->inbox.assembled > 0;
    return rpc_explain(error, -ECONNRESET, "the client closed the connection%s%s%s", half ? " within a message" : "",
                       got < 0 ? ": " : "", got < 0 ? strerror((int)-got) : "");
}

int rpc_server_take(rpc_server *server, rpc_request **out, char *error)
{
    struct rpc_record record;
    int status;
    *out = NULL;
    while ((status = rpc_inbox_next(&server->inbox, &record)) == 1) {
        status = make_request(server, &record, out, error);
        if (status != 0)
            return status < 0 ? status : 0;
    }
    if (status < 0)
        return rpc_explain(error, status, status == -EMSGSIZE ? "the client announced a message longer than %zu bytes"
                                                              : "no memory for a message (at most %zu bytes)",
                           server->program->max_record);
    return 0;
}

int rpc_server_next(rpc_server *server, int timeout_ms, rpc_request **out, char *error)
{
    uint64_t deadline = timeout_ms > 0 ? clock_now() + (uint64_t)timeout_ms * CLOCK_NS_PER_MS : 0;
    for (;;) {
        int status = rpc_server_take(server, out, error);
        if (status < 0 || *out)
            return status;
        status = receive(server, timeout_ms != 0, error);
        if (status == 0)
            continue;
        if (status != -EAGAIN)
            return status;
        int ready = rpc_channel_poll(server->channel, POLLIN,
                                     timeout_ms > 0 ? clock_poll_timeout(deadline) : timeout_ms, false);
        if (ready == 0)
            return 0;
        if (ready < 0)
            return rpc_explain(error, ready, "waiting for calls: %s", strerror(-ready));
    }
}

uint32_t rpc_request_procedure(const rpc_request *request)
{
    return request->call.procedure;
}

uint32_t rpc_request_xid(const rpc_request *request)
{
    return request->call.xid;
}

size_t rpc_request_size(const rpc_request *request)
{
    return request->record.size;
}

const uint8_t *rpc_request_body(const rpc_request *request, size_t *size)
{
    *size = request->call.body_size;
    return request->call.body;
}

int rpc_request_arguments(rpc_request *request, xdrproc_t decode, void *args)
{
    return rpc_wire_decode(request->call.body, request->call.body_size, decode, args) ? 0 : -EPROTO;
}

rpc_request *rpc_request_keep(rpc_request *request)
{
    rpc_request *kept = malloc(sizeof *kept);
    if (!kept)
        return NULL;
    rpc_record_keep(&request->server->inbox, &request->record);
    *kept = *request;
    request->record.block = NULL;
    return kept;
}

void rpc_request_free(rpc_request *request)
{
    if (!request)
        return;
    rpc_block_release(request->record.block);
    request->record.block = NULL;
    if (request != &request->server->taken)
        free(request);
}
