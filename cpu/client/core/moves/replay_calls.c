/*
 * replay_calls.c: see replay_state.h. A call of the journal has its arguments as they travelled, and they are sent so;
 * its answer goes to the replay before any thread sees it (struct rpc_recorder).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/moves/replay_state.h"
#include "cpu/client/core/moves/replay_stored.h"

const char *replay_call_name(uint32_t procedure)
{
    const char *name = procedure < rpc_flyt_program.count ? rpc_flyt_program.procedures[procedure].name : NULL;
    return name ? name : "a call";
}

bool replay_differs(struct replay *r, uint32_t procedure, const char *what)
{
    if (!*r->why)
        snprintf(r->why, r->why_size, "%s of %s is not what it was", what, replay_call_name(procedure));
    return false;
}

bool replay_fails(struct replay *r, const char *what)
{
    if (!*r->why)
        snprintf(r->why, r->why_size, "%s", what);
    return false;
}

/* ---- answers of the new server ---- */

/* Without its texts: the program may have had them with another answer. What it has not had is given to it before. */
static void keep_body(struct replay_call *call, const uint8_t *body, size_t size, const struct journal_reply *reply)
{
    size_t before = (size_t)(reply->texts - body), behind = size - (size_t)(reply->rest - body);
    call->body = malloc(before + behind);
    if (!call->body)
        return;
    memcpy(call->body, body, before);
    memset(call->body + before - sizeof(uint32_t), 0, sizeof(uint32_t)); /* so many texts */
    memcpy(call->body + before, reply->rest, behind);
    call->size = before + behind;
}

static void answered(struct rpc_recorder *recorder, const struct rpc_call *rpc, const uint8_t *body, size_t size)
{
    struct replay *r = (struct replay *)(void *)recorder; /* its first member */
    struct replay_call *call = rpc->context;
    struct journal_reply reply;
    call->got = (struct journal_answer){ .status = (int32_t)rpc->status };
    if (rpc->status != RPC_SUCCESS || !journal_reply_read(body, size, &reply))
        return;
    journal_reply_mark(&reply);
    call->got = reply.answer;
    if (!replay_texts_take(&r->texts, &reply))
        replay_fails(r, "no memory is left");
    if (!call->in_flight) {
        replay_streams_take(&r->streams, &reply);
        if (rpc->procedure == FLYT_EVENTS && reply.answer.latched)
            replay_differs(r, FLYT_EVENTS, "an error before the answer");
        if (rpc->procedure == FLYT_EVENTS && !dues_take(&r->dues, reply.rest, reply.answer.body))
            replay_fails(r, "what the new GPU server said of host functions could not be read");
    } else {
        keep_body(call, body, size, &reply);
    }
}

static bool never(struct rpc_recorder *recorder)
{
    (void)recorder;
    return false;
}

static uint8_t *nowhere(struct rpc_recorder *recorder, uint32_t procedure, uint32_t xid, size_t size)
{
    (void)recorder, (void)procedure, (void)xid, (void)size;
    return NULL;
}

const struct rpc_recorder replay_recorder = { .sent = nowhere, .answered = answered, .holds = never };

/* ---- sending ---- */

static bool_t put_bytes(XDR *xdr, const struct replay_bytes *bytes)
{
    return bytes->size == 0 || XDR_PUTBYTES(xdr, (char *)(uintptr_t)bytes->at, (u_int)bytes->size);
}

static struct rpc_call call_of(uint32_t procedure, struct replay_bytes *bytes, void *context)
{
    return (struct rpc_call){
        .procedure = procedure, .encode = (xdrproc_t)(void *)put_bytes, .args = bytes, .context = context
    };
}

bool replay_send_async(struct replay *r, const struct journal_entry *entry)
{
    struct replay_bytes bytes = { journal_bytes_of(entry), entry->size };
    struct rpc_call call = call_of(entry->procedure, &bytes, NULL);
    return rpc_client_submit(r->client, &call) == RPC_SUCCESS || replay_fails(r, "the new GPU server was lost");
}

bool replay_send_stored(struct replay *r, const struct journal_entry *entry)
{
    struct replay_stored stored;
    const char *why = r->fetch ? replay_stored_read(&stored, r->fetch, entry) : "the checkpoint is not there";
    if (why)
        return replay_fails(r, why);
    struct rpc_call call = {
        .procedure = entry->procedure, .encode = (xdrproc_t)(void *)replay_stored_put, .args = &stored
    };
    return !stored.size || rpc_client_submit(r->client, &call) == RPC_SUCCESS ||
           replay_fails(r, "the new GPU server was lost");
}

bool replay_ask(struct replay *r, uint32_t procedure, const struct replay_bytes *args, struct journal_answer *got)
{
    struct replay_call call = { .args = *args };
    call.rpc = call_of(procedure, &call.args, &call);
    if (rpc_client_submit(r->client, &call.rpc) != RPC_SUCCESS ||
        (rpc_client_wait(r->client, &call.rpc), rpc_client_lost(r->client)))
        return replay_fails(r, "the new GPU server was lost");
    *got = call.got;
    return true;
}

static const struct journal_entry *answer_to(const struct journal_entry *sent)
{
    const struct journal_entry *entry = sent;
    while ((entry = journal_next(entry)))
        if (entry->kind == JOURNAL_ANSWERED && entry->xid == sent->xid)
            return entry;
    return NULL;
}

/* The program's MAP named the size that it wanted and the least that would do, and got what was free. The new server
   may have more free memory, so this MAP asks for exactly the size that the program got. */
static bool change_map(struct replay_call *call)
{
    enum { SIZE_AT = 12, LEAST_AT = 20 };
    const struct journal_entry *answer = answer_to(call->sent);
    if (!answer || replay_answer_of(answer).result != CORE_OK || replay_answer_of(answer).body != sizeof(uint64_t))
        return true;
    if (call->args.size < LEAST_AT + sizeof(uint64_t) || !(call->changed = malloc(call->args.size)))
        return false;
    memcpy(call->changed, call->args.at, call->args.size);
    memcpy(call->changed + SIZE_AT, replay_answer_bytes(answer), sizeof(uint64_t));
    memset(call->changed + LEAST_AT, 0, sizeof(uint64_t));
    call->args.at = call->changed;
    return true;
}

struct replay_call *replay_call_make(struct replay *r, const struct journal_entry *entry, bool in_flight)
{
    struct replay_call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    call->sent = entry;
    call->in_flight = in_flight;
    call->args = (struct replay_bytes){ journal_bytes_of(entry), entry->size };
    call->rpc = call_of(entry->procedure, &call->args, call);
    call->next = r->calls;
    r->calls = call;
    return entry->procedure != FLYT_MAP || in_flight || change_map(call) ? call : NULL;
}

bool replay_submit(struct replay *r, struct replay_call *call)
{
    enum clnt_stat status = call->in_flight ? rpc_client_submit_as(r->client, &call->rpc, call->sent->xid)
                                            : rpc_client_submit(r->client, &call->rpc);
    return status == RPC_SUCCESS || replay_fails(r, "the new GPU server was lost");
}

/* ---- EVENTS ---- */

bool replay_events_ask(struct replay *r, const struct replay_bytes *ended)
{
    static const uint8_t nothing[REPLAY_NOTHING_ENDED];
    struct replay_call *call = calloc(1, sizeof *call), **last = &r->events;
    if (!call)
        return replay_fails(r, "no memory is left");
    call->args = ended ? *ended : (struct replay_bytes){ nothing, sizeof nothing };
    call->rpc = call_of(FLYT_EVENTS, &call->args, call);
    while (*last)
        last = &(*last)->next;
    *last = call;
    return rpc_client_submit(r->client, &call->rpc) == RPC_SUCCESS || replay_fails(r, "the new GPU server was lost");
}

bool replay_events_hear(void *context)
{
    struct replay *r = context;
    if (!r->events && !replay_events_ask(r, NULL))
        return false;
    struct replay_call *call = r->events;
    rpc_client_wait(r->client, &call->rpc);
    r->events = call->next;
    free(call);
    if (rpc_client_lost(r->client))
        return replay_fails(r, "the new GPU server was lost");
    return !*r->why; /* what it said made no sense: nothing is waited for any more */
}

/* ---- the end of calls ---- */

struct replay_call *replay_call_take(struct replay *r, uint32_t xid)
{
    struct replay_call **link = &r->calls;
    while (*link && ((*link)->in_flight || (*link)->sent->xid != xid))
        link = &(*link)->next;
    struct replay_call *call = *link;
    if (call)
        *link = call->next;
    return call;
}

void replay_call_free(struct replay *r, struct replay_call *call)
{
    r->placed = r->placed == call ? NULL : r->placed;
    free(call->changed);
    free(call->body);
    free(call);
}

void replay_calls_free(struct replay *r)
{
    while (r->calls) {
        struct replay_call *call = r->calls;
        r->calls = call->next;
        replay_call_free(r, call);
    }
    while (r->owed) {
        struct replay_call *call = r->owed;
        r->owed = call->next;
        replay_call_free(r, call);
    }
    while (r->events) {
        struct replay_call *call = r->events;
        r->events = call->next;
        free(call);
    }
}
