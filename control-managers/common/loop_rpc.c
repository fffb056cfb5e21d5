/*
 * loop_rpc.c: records and the calls and replies in them (RFC 5531).
 */
#include "control-managers/common/loop_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/log.h"
#include "cpu/common/wire.h"

enum { MAX_FRAGMENTS = 1024, NULL_PROCEDURE = 0 };

/* A whole record in the bytes that were received. */
struct loop_record { const uint8_t *bytes; size_t size; };

static const char *procedure_name(uint32_t number)
{
    const struct protocol_procedure *procedure = protocol_procedure(number);
    return procedure ? procedure->name : number == NULL_PROCEDURE ? "NULL" : "unknown procedure";
}

/* ---- sending ---- */

static void encode_begin(struct loop *loop, XDR *xdr)
{
    xdrmem_create(xdr, loop->encode + RPC_MARK_SIZE, LOOP_ENCODE_SIZE - RPC_MARK_SIZE, XDR_ENCODE);
}

static int encode_send(struct conn *conn, XDR *xdr)
{
    uint32_t size = xdr_getpos(xdr);
    if (size > CTL_MAX_RECORD)
        return -EMSGSIZE;
    uint32_t mark = htonl(RPC_MARK_LAST | size);
    memcpy(conn->loop->encode, &mark, sizeof mark);
    int failure = conn_send(conn, conn->loop->encode, RPC_MARK_SIZE + (size_t)size);
    if (failure == 0 && !conn->dispatching)
        conn_flush(conn);
    return failure;
}

static void reply_accepted(struct conn *conn, uint32_t xid, enum accept_stat status)
{
    XDR xdr;
    long version = CTL_VERSION_1;
    encode_begin(conn->loop, &xdr);
    rpc_wire_put_accepted(&xdr, xid, status);
    if (status == PROG_MISMATCH) {
        XDR_PUTLONG(&xdr, &version);
        XDR_PUTLONG(&xdr, &version);
    }
    encode_send(conn, &xdr);
}

static void reply_denied(struct conn *conn, uint32_t xid, bool version)
{
    XDR xdr;
    encode_begin(conn->loop, &xdr);
    if (version)
        rpc_wire_put_version_mismatch(&xdr, xid);
    else
        rpc_wire_put_auth_error(&xdr, xid, AUTH_TOOWEAK);
    encode_send(conn, &xdr);
}

/* ---- calls of the peer ---- */

static struct loop_call *call_create(struct conn *conn, uint32_t xid, uint32_t procedure)
{
    struct loop_call *call = malloc(sizeof *call);
    if (!call)
        return NULL;
    *call =
        (struct loop_call){
            .next = conn->calls, .back = &conn->calls, .conn = conn, .xid = xid, .procedure = procedure
        };
    if (call->next)
        call->next->back = &call->next;
    conn->calls = call;
    conn->call_count++;
    return call;
}

static void call_free(struct loop_call *call)
{
    struct conn *conn = call->conn;
    *call->back = call->next;
    if (call->next)
        call->next->back = call->back;
    if (conn->call_count-- == CONN_MAX_CALLS)
        conn_resume(conn);
    free(call->context);
    free(call);
}

struct conn *call_conn(const struct loop_call *call)
{
    return call->conn;
}

uint32_t call_procedure(const struct loop_call *call)
{
    return call->procedure;
}

void call_set_context(struct loop_call *call, void *context)
{
    free(call->context);
    call->context = context;
}

const void *call_context(const struct loop_call *call) { return call->context; }

void call_reply(struct loop_call *call, const void *result)
{
    struct conn *conn = call->conn;
    XDR xdr;
    encode_begin(conn->loop, &xdr);
    if (rpc_wire_put_accepted(&xdr, call->xid, SUCCESS) &&
        protocol_procedures[call->procedure].result(&xdr, (void *)result) && xdr_getpos(&xdr) <= CTL_MAX_RECORD) {
        encode_send(conn, &xdr);
    } else {
        log_error("event=reply-too-large peer=%s procedure=%s: the result does not fit the protocol's bounds",
                  conn->peer, procedure_name(call->procedure));
        reply_accepted(conn, call->xid, SYSTEM_ERR);
    }
    call_free(call);
}

void conn_nudge(struct conn *conn)
{
    if (conn->open && !conn->closing && !conn->doomed)
        reply_accepted(conn, 0, SUCCESS);
}

void call_refuse(struct loop_call *call)
{
    reply_accepted(call->conn, call->xid, SYSTEM_ERR);
    call_free(call);
}

/* The service notes what the peer wanted. */
static void tell_denied(struct conn *conn, const struct rpc_wire_call *wire, const char *why)
{
    const struct protocol_procedure *procedure = &protocol_procedures[wire->procedure];
    void *args = calloc(1, procedure->args_size);
    bool known = args && rpc_wire_decode(wire->body, wire->body_size, procedure->args, args);
    conn->service->denied(conn, wire->procedure, known ? args : NULL, why);
    if (known)
        protocol_free(procedure->args, args);
    free(args);
}

/* Who may call what. NULL: the call was answered here. */
static const struct conn_method *method_for(struct conn *conn, const struct rpc_wire_call *wire)
{
    const struct conn_service *service = conn->service;
    char why[256];
    const struct conn_method *method =
        service && service->methods && wire->procedure < service->count ? &service->methods[wire->procedure] : NULL;
    if (wire->rpc_version != RPC_MSG_VERSION || wire->flavor != AUTH_NONE) {
        reply_denied(conn, wire->xid, wire->rpc_version != RPC_MSG_VERSION);
        conn_doom(conn, -EPROTO, "the peer sent a call of another kind of RPC");
    } else if (wire->program != CTL_PROGRAM || wire->version != CTL_VERSION_1) {
        reply_accepted(conn, wire->xid, wire->program != CTL_PROGRAM ? PROG_UNAVAIL : PROG_MISMATCH);
        conn_doom(conn, -EPROTO, "the peer speaks program 0x%x version %u, not Flyt's control protocol", wire->program,
                  wire->version);
    } else if (wire->procedure == NULL_PROCEDURE) {
        reply_accepted(conn, wire->xid, SUCCESS);
    } else if (!method || !method->handler || !protocol_procedure(wire->procedure)) {
        reply_accepted(conn, wire->xid, PROC_UNAVAIL);
        if (conn->role == CTL_ROLE_NONE)
            conn_doom(conn, -EPROTO, "the peer called procedure %u before it identified itself", wire->procedure);
    } else if (!(method->roles & 1u << conn->role)) {
        reply_denied(conn, wire->xid, false);
        snprintf(why, sizeof why, "the peer called %s, which is not for %s", procedure_name(wire->procedure),
                 conn->role == CTL_ROLE_NONE ? "strangers: CTL_HELLO comes first" : protocol_role_name(conn->role));
        if (conn->role != CTL_ROLE_NONE && conn->service->denied)
            tell_denied(conn, wire, why);
        conn_doom(conn, -EACCES, "%s", why);
    } else {
        return method;
    }
    return NULL;
}

const double loop_rpc_seconds[LOOP_RPC_TIMES - 1] = { 0.0001, 0.001, 0.005, 0.1 };

static void note_time(struct loop_rpc_times *times, uint64_t ns)
{
    int i = 0;
    while (i < LOOP_RPC_TIMES - 1 && (double)ns > loop_rpc_seconds[i] * 1e9)
        i++;
    times->counts[i]++;
    times->ns += ns;
}

const struct loop_rpc_times *loop_rpc_times(const struct loop *loop, uint32_t procedure)
{
    return &loop->rpc[procedure];
}

static void handle_call(struct conn *conn, const struct loop_record *record)
{
    struct rpc_wire_call wire;
    if (rpc_wire_get_call(record->bytes, record->size, &wire) < 0) {
        conn_doom(conn, -EPROTO, "the peer sent %zu bytes that are no call", record->size);
        return;
    }
    const struct conn_method *method = method_for(conn, &wire);
    if (!method)
        return;
    const struct protocol_procedure *procedure = &protocol_procedures[wire.procedure];
    void *args = calloc(1, procedure->args_size);
    struct loop_call *call = args ? call_create(conn, wire.xid, wire.procedure) : NULL;
    if (!call) {
        reply_accepted(conn, wire.xid, SYSTEM_ERR);
    } else if (!rpc_wire_decode(wire.body, wire.body_size, procedure->args, args)) {
        reply_accepted(conn, wire.xid, GARBAGE_ARGS);
        call_free(call);
        conn_doom(conn, -EPROTO, "the peer sent a call of %s whose arguments are out of bounds or cut off",
                  procedure->name);
    } else {
        struct loop *loop = conn->loop;
        uint64_t begun = loop_begin_held(loop);
        if (conn->role != CTL_ROLE_NONE && conn->service->begins)
            conn->service->begins(conn, call, args);
        method->handler(conn, call, args);
        note_time(&loop->rpc[wire.procedure], loop_note_held(loop, begun, procedure->name));
        protocol_free(procedure->args, args);
    }
    free(args);
}

/* ---- calls of ours ---- */

/* Takes it out of the connection's list. */
static void outgoing_unlink(struct outgoing *call)
{
    struct outgoing **at = &call->conn->outgoing;
    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    loop_timer_stop(&call->deadline);
}

static void finish(struct outgoing *call, int error, const char *why, void *result)
{
    outgoing_unlink(call);
    if (call->done)
        call->done(call->context, error, why, result);
    free(call);
}

static void overdue(struct loop_timer *timer, void *context)
{
    struct outgoing *call = context;
    char why[EXPLAIN_SIZE];
    (void)timer;
    snprintf(why, sizeof why, "%s did not answer %s in time", call->conn->peer, procedure_name(call->procedure));
    finish(call, -ETIMEDOUT, why, NULL);
}

int conn_call(struct conn *conn, uint32_t number, const void *args, unsigned deadline_ms, conn_done *done,
              void *context, char *error)
{
    const struct protocol_procedure *procedure = protocol_procedure(number);
    static const ctl_nothing nothing;
    XDR xdr;
    if (!procedure)
        return explain(error, -EINVAL, "there is no procedure %u", number);
    if (!conn->open || conn->closing || conn->doomed)
        return explain(error, -ENOTCONN, "calling %s: the connection to %s has ended", procedure->name, conn->peer);
    struct outgoing *call = malloc(sizeof *call);
    if (!call)
        return explain(error, -ENOMEM, "no memory to call %s", procedure->name);
    *call = (struct outgoing){ .next = conn->outgoing, .conn = conn, .xid = ++conn->next_xid, .procedure = number,
                               .done = done, .context = context };
    encode_begin(conn->loop, &xdr);
    int failure = !rpc_wire_put_call(&xdr, call->xid, CTL_PROGRAM, CTL_VERSION_1, number) ||
                  !procedure->args(&xdr, (void *)(args ? args : &nothing)) ? -EINVAL : encode_send(conn, &xdr);
    if (failure) {
        free(call);
        return explain(error, failure, failure == -EINVAL ? "the arguments of %s are out of the protocol's bounds"
                                                          : "sending a call of %s failed", procedure->name);
    }
    conn->outgoing = call;
    loop_timer_start(conn->loop, &call->deadline, deadline_ms, overdue, call);
    return 0;
}

void conn_fail_calls(struct conn *conn, int error, const char *why)
{
    while (conn->outgoing)
        finish(conn->outgoing, error, why, NULL);
    while (conn->calls)
        call_free(conn->calls);
}

static int error_of(enum clnt_stat status)
{
    switch (status) {
    case RPC_PROCUNAVAIL:      return -ENOSYS;
    case RPC_AUTHERROR:        return -EACCES;
    case RPC_PROGUNAVAIL:
    case RPC_PROGVERSMISMATCH:
    case RPC_VERSMISMATCH:     return -EPROTONOSUPPORT;
    default:                   return -EPROTO;
    }
}

static void handle_reply(struct conn *conn, const struct loop_record *record)
{
    struct rpc_wire_reply wire;
    char why[EXPLAIN_SIZE];
    if (rpc_wire_get_reply(record->bytes, record->size, &wire) < 0) {
        conn_doom(conn, -EPROTO, "the peer sent %zu bytes that are no reply", record->size);
        return;
    }
    struct outgoing *call = conn->outgoing;
    while (call && call->xid != wire.xid)
        call = call->next;
    if (!call) {
        /* Late: its caller has given up waiting. A number that was never used is an attack or a fault. */
        if (wire.xid == 0 || wire.xid > conn->next_xid)
            conn_doom(conn, -EPROTO, "the peer answered a call that was never made");
        return;
    }
    const struct protocol_procedure *procedure = &protocol_procedures[call->procedure];
    if (wire.status != RPC_SUCCESS) {
        snprintf(why, sizeof why, "%s refused %s: %s", conn->peer, procedure->name, clnt_sperrno(wire.status));
        finish(call, error_of(wire.status), why, NULL);
        return;
    }
    void *result = calloc(1, procedure->result_size);
    if (!result) {
        finish(call, -ENOMEM, "no memory for a reply", NULL);
    } else if (!rpc_wire_decode(wire.body, wire.body_size, procedure->result, result)) {
        snprintf(why, sizeof why, "the answer of %s to %s is out of bounds or cut off", conn->peer, procedure->name);
        finish(call, -EPROTO, why, NULL);
        conn_doom(conn, -EPROTO, "%s", why);
    } else {
        finish(call, 0, "", result);
        protocol_free(procedure->result, result);
    }
    free(result);
}

/* ---- records ---- */

static uint32_t word_at(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Looks for a whole record at `at`. 1: there it is, in one piece (fragments are joined in place), *used bytes of
   input; 0: more is needed; -EMSGSIZE. */
static int find_record(uint8_t *at, size_t available, size_t max, struct loop_record *record, size_t *used)
{
    size_t position = 0, total = 0;
    for (int fragments = 0; fragments < MAX_FRAGMENTS; fragments++) {
        if (available - position < RPC_MARK_SIZE)
            return 0;
        uint32_t mark = word_at(at + position);
        size_t length = mark & ~RPC_MARK_LAST;
        if (length > max - total)
            return -EMSGSIZE;
        position += RPC_MARK_SIZE;
        if (available - position < length)
            return 0;
        position += length;
        total += length;
        if (!(mark & RPC_MARK_LAST))
            continue;
        size_t from = 0, to = RPC_MARK_SIZE;
        while (from < position) {
            length = word_at(at + from) & ~RPC_MARK_LAST;
            memmove(at + to, at + from + RPC_MARK_SIZE, length);
            from += RPC_MARK_SIZE + length;
            to += length;
        }
        *record = (struct loop_record){ .bytes = at + RPC_MARK_SIZE, .size = total };
        *used = position;
        return 1;
    }
    return -EMSGSIZE;
}

size_t conn_handle_records(struct conn *conn)
{
    size_t handled = 0, start = 0;
    /* Taken off, so that nothing that a handler does moves the bytes. */
    struct bytes in = conn->in;
    conn->in = (struct bytes){ 0 };
    while (!conn->closing && !conn->doomed && conn->call_count < CONN_MAX_CALLS) {
        size_t max = conn->role == CTL_ROLE_NONE && conn->accepted ? CTL_MAX_FIRST_RECORD : CTL_MAX_RECORD, used;
        struct loop_record record;
        int found = find_record(in.at + start, in.size - start, max, &record, &used);
        if (found < 0)
            conn_doom(conn, -EMSGSIZE, "the peer announced a message longer than the %zu bytes that it may have", max);
        if (found <= 0)
            break;
        start += used;
        handled++;
        if (record.size < 8)
            conn_doom(conn, -EPROTO, "the peer sent a message of %zu bytes, which is neither call nor reply",
                      record.size);
        else if (word_at(record.bytes + 4) == CALL)
            handle_call(conn, &record);
        else
            handle_reply(conn, &record);
    }
    if (conn->closing || conn->doomed) {
        bytes_free(&in);
        return handled;
    }
    bytes_drop(&in, start);
    conn->in = in;
    return handled;
}
