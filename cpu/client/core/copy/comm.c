/*
 * comm.c: communicators and their links: see api_comm.h. What the client manager does for links is in
 * session/link_offer.c.
 */
#include "cpu/client/core/api_comm.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/memory/windows.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/stream/managed.h"
#include "cpu/client/core/stream/op.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/wire.h"
#include "cpu/common/cancel.h"

_Static_assert((int)CORE_LINK_HANDLE_SIZE == (int)FLYT_LINK_HANDLE_SIZE, "a handle travels as it is");
_Static_assert((int)CORE_LINK_HANDLES_MOST == (int)FLYT_MAX_LINK_HANDLES, "as many handles as a link may have");
_Static_assert((int)CORE_COMM_SIDED_MOST == (int)FLYT_MAX_COMM_MESSAGES, "as many as a message may have");

#define ENCODE(type) ((xdrproc_t)xdr_##type)

/* ---- ids ---- */

/* Which ids are used, of all sessions. The lowest free one is taken. */
struct comm_ids {
    const char *name;
    uint64_t capability; /* of a server that has such objects */
    unsigned most;
    struct client_session *of[FLYT_MAX_LINKS]; /* whose the object is; NULL: the id is free */
};
static struct comm_ids links = { .name = "links", .capability = FLYT_CAP_LINKS, .most = FLYT_MAX_LINKS };
static struct comm_ids comms = {
    .name = "communicators", .capability = FLYT_CAP_COLLECTIVES, .most = FLYT_MAX_COMMS
};
static pthread_mutex_t ids_lock = PTHREAD_MUTEX_INITIALIZER;

_Static_assert((int)FLYT_MAX_COMMS <= (int)FLYT_MAX_LINKS, "room for both kinds");

/* A result code: the server has no such objects, or all ids are taken, and why. The session has been entered. Where
   there are several servers the lowest ids of links are those of link_copy.c. */
static int id_take(struct comm_ids *ids, struct client_session *session, uint32_t *id, char *why)
{
    if (!(core_session.hello.capabilities & ids->capability))
        return CORE_NOT_SUPPORTED;
    pthread_mutex_lock(&ids_lock);
    uint32_t i = ids == &links && session_several() ? SESSIONS_MOST : 0;
    while (i < ids->most && ids->of[i])
        i++;
    if (i < ids->most)
        ids->of[i] = session;
    pthread_mutex_unlock(&ids_lock);
    *id = i;
    if (i < ids->most)
        return CORE_OK;
    snprintf(why, CORE_WHY_SIZE, "this process has too many %s", ids->name);
    return CORE_OUT_OF_MEMORY;
}

static void id_give(struct comm_ids *ids, uint32_t id)
{
    pthread_mutex_lock(&ids_lock);
    ids->of[id] = NULL;
    pthread_mutex_unlock(&ids_lock);
}

/* Of one that was taken, and is not given back yet. */
static struct client_session *session_of(const struct comm_ids *ids, uint32_t id)
{
    pthread_mutex_lock(&ids_lock);
    struct client_session *session = ids->of[id];
    pthread_mutex_unlock(&ids_lock);
    return session ? session : &core_session;
}

/* A communicator's name has its id in the lowest digit, and above it how many there were before it. */
static uint64_t comms_made, names[FLYT_MAX_COMMS]; /* under ids_lock */

static core_comm name_give(uint32_t id)
{
    pthread_mutex_lock(&ids_lock);
    core_comm name = names[id] = ++comms_made * FLYT_MAX_COMMS + id;
    pthread_mutex_unlock(&ids_lock);
    return name;
}

/* False: it was closed. */
static bool name_find(core_comm name, uint32_t *id)
{
    *id = (uint32_t)(name % FLYT_MAX_COMMS);
    pthread_mutex_lock(&ids_lock);
    bool there = name && names[*id] == name;
    pthread_mutex_unlock(&ids_lock);
    return there;
}

/* The id of a communicator that is closed now, which keeps it until id_give. False: it was closed before. */
static bool name_take(core_comm name, uint32_t *id)
{
    *id = (uint32_t)(name % FLYT_MAX_COMMS);
    pthread_mutex_lock(&ids_lock);
    bool there = name && names[*id] == name;
    if (there)
        names[*id] = 0;
    pthread_mutex_unlock(&ids_lock);
    return there;
}

/* ---- the server ---- */

int core_comms_offered(struct core_comms_offer *offer)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    uint64_t capabilities = code ? 0 : core_session.hello.capabilities;
    *offer = (struct core_comms_offer){ .comms = capabilities & FLYT_CAP_COLLECTIVES,
                                        .kept = capabilities & FLYT_CAP_KEPT_COLLECTIVES,
                                        .links = capabilities & FLYT_CAP_LINKS,
                                        .sided = capabilities & FLYT_CAP_ONE_SIDED };
    return code;
}

void core_server_address(const core_context *c, char *out, size_t size)
{
    const char *uri = c ? c->session->uri : core_session.uri;
    snprintf(out, size, "%.*s", (int)strcspn(uri, "?"), uri);
}

/* ---- links ---- */

static void say(char *why, const char *text) { snprintf(why, CORE_WHY_SIZE, "%s", text ? text : ""); }

int core_link_listen(core_context *c, uint32_t *link, uint8_t *handles, unsigned *count, char *why)
{
    CANCEL_DEFERRED;
    link_listen_result result = { 0 };
    say(why, NULL);
    int code = context_enter(c);
    if (!code)
        code = id_take(&links, c->session, link, why);
    if (code)
        return code;
    link_listen_args args = { *link };
    code = wire_call(c->session, FLYT_LINK_LISTEN, ENCODE(link_listen_args), &args, ENCODE(link_listen_result),
                     &result);
    say(why, result.why);
    *count = result.handles.handles_len;
    if (!code)
        memcpy(handles, result.handles.handles_val, (size_t)*count * CORE_LINK_HANDLE_SIZE);
    xdr_free(ENCODE(link_listen_result), &result);
    if (code)
        core_link_close(*link);
    return code;
}

int core_link_join(uint32_t link, const char *server, const uint8_t *handles, unsigned count, unsigned ms, char *why)
{
    CANCEL_DEFERRED;
    link_join_result result = { 0 };
    link_join_args args = { .link = link,
                            .server = (char *)(uintptr_t)server,
                            .handles = { count, (flyt_link_handle *)(uintptr_t)handles },
                            .milliseconds = ms };
    say(why, NULL);
    int code = core_enter();
    if (!code)
        code = wire_call(session_of(&links, link), FLYT_LINK_JOIN, ENCODE(link_join_args), &args,
                         ENCODE(link_join_result), &result);
    say(why, result.why);
    xdr_free(ENCODE(link_join_result), &result);
    return code;
}

int core_link_close(uint32_t link)
{
    CANCEL_DEFERRED;
    link_close_args args = { link, (char *)(uintptr_t) "" };
    int code = core_enter();
    if (!code)
        code = wire_send(session_of(&links, link), FLYT_LINK_CLOSE, ENCODE(link_close_args), &args);
    id_give(&links, link);
    return code;
}

/* ---- communicators ---- */

int core_comm_create(core_context *c, const uint8_t place[16], unsigned rank, const uint32_t *links_of, unsigned ranks,
                     core_comm *comm, char *why)
{
    CANCEL_DEFERRED;
    comm_create_result result = { 0 };
    uint32_t id;
    say(why, NULL);
    int code = context_enter(c);
    *comm = 0;
    if (!code)
        code = id_take(&comms, c->session, &id, why);
    if (code)
        return code;
    comm_create_args args = {
        .comm = id, .context = c->wire, .rank = rank, .links = { ranks, (flyt_id *)(uintptr_t)links_of }
    };
    memcpy(args.place, place, sizeof args.place);
    code = wire_call(c->session, FLYT_COMM_CREATE, ENCODE(comm_create_args), &args, ENCODE(comm_create_result),
                     &result);
    say(why, result.why);
    xdr_free(ENCODE(comm_create_result), &result);
    if (code)
        id_give(&comms, id);
    else
        *comm = name_give(id);
    return code;
}

/* Managed memory is the device's while work may use it, as before a kernel. */
int collective_op(struct client_stream *s, const struct op *op)
{
    const struct op_collective *o = &op->collective;
    bool comes;
    int code = managed_work_begins(s, &comes);
    struct stream_call call;
    if (o->one) {
        o->one->stream = s->wire;
        call = (struct stream_call){ FLYT_COMM_OP, ENCODE(comm_op_args), o->one, .weighty = true };
    } else if (o->messages) {
        o->messages->stream = s->wire;
        call = (struct stream_call){ FLYT_COMM_MESSAGES, ENCODE(comm_messages_args), o->messages, .weighty = true,
                                     .bytes = o->messages->messages.messages_len * sizeof(flyt_comm_message) };
    } else {
        o->sided->stream = s->wire;
        call = (struct stream_call){ FLYT_COMM_SIDED, ENCODE(comm_sided_args), o->sided, .weighty = true,
                                     .bytes = o->sided->list.list_len * sizeof(flyt_comm_sided) };
    }
    if (!code)
        code = stream_send(s, &call, NULL);
    managed_work_sent(comes);
    return code;
}

/* A stream's call of a communicator. A result code: one of them is not there, or they are at different servers. */
static int collective_enter(core_context *c, core_stream stream, core_comm comm, struct client_stream **s, uint32_t *id)
{
    int code = client_stream_enter(c, stream, s);
    if (!code && !name_find(comm, id))
        code = CORE_INVALID_HANDLE;
    else if (!code && session_of(&comms, *id) != (*s)->context->session)
        code = CORE_INVALID_VALUE;
    return code;
}

int core_comm_call(core_context *c, core_stream stream, core_comm comm, const struct core_comm_call *call)
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    uint32_t id;
    int code = collective_enter(c, stream, comm, &s, &id);
    if (code)
        return code;
    comm_op_args args = { .comm = id,
                          .kind = call->kind,
                          .type = call->type,
                          .operation = call->operation,
                          .root = call->root,
                          .count = call->count,
                          .in = call->in,
                          .out = call->out,
                          .factor_at = call->factor_at };
    memcpy(args.factor, call->factor, sizeof args.factor);
    return op_submit(s, &(struct op){ .kind = OP_COLLECTIVE, .collective = { .one = &args } });
}

int core_comm_messages(core_context *c, core_stream stream, core_comm comm, const struct core_comm_message *list,
                       unsigned count)
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    uint32_t id;
    int code = collective_enter(c, stream, comm, &s, &id);
    if (!code && count > FLYT_MAX_COMM_MESSAGES)
        code = CORE_INVALID_VALUE;
    flyt_comm_message *sent = code ? NULL : calloc(count + 1, sizeof *sent);
    if (!sent)
        return code ? code : CORE_OUT_OF_MEMORY;
    for (unsigned i = 0; i < count; i++)
        sent[i] = (flyt_comm_message){ list[i].sends, list[i].peer, list[i].address, list[i].size };
    comm_messages_args args = { .comm = id, .messages = { count, sent } };
    code = op_submit(s, &(struct op){ .kind = OP_COLLECTIVE, .collective = { .messages = &args } });
    free(sent);
    return code;
}

int core_comm_sided(core_context *c, core_stream stream, core_comm comm, bool waits, const struct core_comm_sided *list,
                    unsigned count)
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    uint32_t id;
    int code = collective_enter(c, stream, comm, &s, &id);
    if (!code && count > FLYT_MAX_COMM_MESSAGES)
        code = CORE_INVALID_VALUE;
    if (!code && !(core_session.hello.capabilities & FLYT_CAP_ONE_SIDED))
        code = CORE_NOT_SUPPORTED;
    flyt_comm_sided *sent = code ? NULL : calloc(count + 1, sizeof *sent);
    if (!sent)
        return code ? code : CORE_OUT_OF_MEMORY;
    for (unsigned i = 0; i < count; i++)
        sent[i] = (flyt_comm_sided){ list[i].peer, list[i].window, list[i].offset, list[i].address, list[i].size };
    comm_sided_args args = { .comm = id, .waits = waits, .list = { count, sent } };
    code = op_submit(s, &(struct op){ .kind = OP_COLLECTIVE, .collective = { .sided = &args } });
    free(sent);
    return code;
}

/* ---- windows ---- */

/* A result code: the communicator is not there, or its server has no windows. */
static int window_enter(core_comm comm, uint32_t *id)
{
    int code = core_enter();
    if (!code && !name_find(comm, id))
        code = CORE_INVALID_HANDLE;
    return !code && !(core_session.hello.capabilities & FLYT_CAP_ONE_SIDED) ? CORE_NOT_SUPPORTED : code;
}

int core_comm_window_add(core_comm comm, uint64_t address, uint64_t size, uint32_t *number, char *why)
{
    CANCEL_DEFERRED;
    comm_window_args args = { .address = address, .size = size };
    comm_window_result result = { 0 };
    say(why, NULL);
    int code = window_enter(comm, &args.comm);
    if (!code)
        code = wire_call(session_of(&comms, args.comm), FLYT_COMM_WINDOW, ENCODE(comm_window_args), &args,
                         ENCODE(comm_window_result), &result);
    *number = code ? 0 : result.window;
    say(why, result.why);
    xdr_free(ENCODE(comm_window_result), &result);
    if (code || windows_note(session_of(&comms, args.comm), args.comm, *number, address, size))
        return code;
    core_comm_close(comm, "no memory for a window"); /* the other ranks may have it already */
    return CORE_OUT_OF_MEMORY;
}

int core_comm_window_sizes(core_comm comm, uint32_t number, unsigned ranks, bool *ready, uint64_t *sizes, char *why)
{
    CANCEL_DEFERRED;
    comm_window_status_args args = { .window = number };
    comm_window_status_result result = { 0 };
    say(why, NULL);
    int code = window_enter(comm, &args.comm);
    if (!code)
        code = wire_call(session_of(&comms, args.comm), FLYT_COMM_WINDOW_STATUS, ENCODE(comm_window_status_args), &args,
                         ENCODE(comm_window_status_result), &result);
    *ready = !code && result.ready && result.sizes.sizes_len == ranks;
    for (unsigned r = 0; *ready && r < ranks; r++)
        sizes[r] = result.sizes.sizes_val[r];
    say(why, result.why);
    xdr_free(ENCODE(comm_window_status_result), &result);
    return code;
}

int core_comm_window_remove(core_comm comm, uint32_t number)
{
    CANCEL_DEFERRED;
    uint32_t id;
    int code = window_enter(comm, &id);
    if (code)
        return code;
    code = window_remove(session_of(&comms, id), id, number);
    if (code != CORE_NOT_READY)
        windows_forget(session_of(&comms, id), id, number);
    return code;
}

int core_comm_status(core_comm comm, int *status, char *why)
{
    CANCEL_DEFERRED;
    comm_status_args args;
    comm_status_result result = { 0 };
    say(why, NULL);
    *status = 0;
    int code = core_enter();
    const bool there = name_find(comm, &args.comm);
    if (!code)
        code = wire_call(session_of(&comms, args.comm), FLYT_COMM_STATUS, ENCODE(comm_status_args), &args,
                         ENCODE(comm_status_result), &result);
    if (!code && !there)
        code = CORE_INVALID_HANDLE;
    if (!code)
        *status = result.status;
    say(why, result.why);
    xdr_free(ENCODE(comm_status_result), &result);
    return code;
}

int core_comm_pending(core_comm comm, unsigned *operations)
{
    CANCEL_DEFERRED;
    comm_pending_args args;
    comm_pending_result result = { 0 };
    *operations = 0;
    int code = core_enter();
    if (code)
        return code;
    if (!name_find(comm, &args.comm))
        return CORE_INVALID_HANDLE;
    if (!(core_session.hello.capabilities & FLYT_CAP_COMM_PENDING))
        return CORE_NOT_SUPPORTED;
    code = wire_call(session_of(&comms, args.comm), FLYT_COMM_PENDING, ENCODE(comm_pending_args), &args,
                     ENCODE(comm_pending_result), &result);
    *operations = code ? 0 : result.operations;
    return code;
}

int core_comm_close(core_comm comm, const char *abort)
{
    CANCEL_DEFERRED;
    comm_close_args args = { .why = (char *)(uintptr_t)(abort ? abort : "") };
    if (!name_take(comm, &args.comm))
        return CORE_INVALID_HANDLE;
    windows_forget(session_of(&comms, args.comm), args.comm, 0);
    int code = core_enter();
    if (!code)
        code = wire_send(session_of(&comms, args.comm), FLYT_COMM_CLOSE, ENCODE(comm_close_args), &args);
    changes_note(); /* what graphs have kept of it must not be given to the next one of this id */
    id_give(&comms, args.comm);
    return code;
}
