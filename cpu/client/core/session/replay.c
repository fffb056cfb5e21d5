/*
 * replay.c: see replay.h.
 *
 * A replay may take as long as the work since the program's start: nothing here ends it but an answer that differs or
 * the loss of the new server, of which the rpc layer knows (it hears the server's beats).
 *
 * The order is kept: a call is sent when all answers have come that had come before it. So what the program did because
 * it knew something (a copy in one stream after an event of another one was found complete, say) happens after the same
 * thing again. For the same reason an answer counts only when the streams have come as far as it had said.
 *
 * One thread of the server makes and ends modules and arrays, beside its other work. Before an array ends, it waits
 * for all that streams have been given until then, which need not be the same here: it may be behind with its work,
 * and what it waits for may wait for something that the program did only when it had the answer. So such a call is
 * given some time before the next one is sent. If its answer still does not come, and the streams do nothing but wait
 * for host functions whose end had not been said by then, it is compared at the end. Else the session cannot be made
 * again.
 *
 * Left out are calls that ask without changing anything, and calls by which both sides talk about themselves. "Not
 * ready" was true when it was said, and is not asked again; a query that found something complete is repeated until it
 * does so again.
 *
 * The calls that had no answer when the server was lost are sent under their own numbers, in their places. Their
 * answers are for the threads that wait for them.
 *
 * Host functions are not run again. The server says when one is due (EVENTS), as it did then; the journal knows which
 * ones the program has been given, and when it said that they had ended. Those that are due here, and that the program
 * has not been given, are given to it at the end.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/stream/host_function.h"
#include "cpu/client/core/wire/journal.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/wire.h"
#include "cpu/common/clock.h"
#include "cpu/rpc/transport/liveness.h"
#include "replay.h"
#include "replay_dues.h"
#include "replay_places.h"
#include "replay_stored.h"
#include "replay_streams.h"
#include "replay_texts.h"
#include "unanswered.h"

struct replay_bytes {
    const uint8_t *at;
    size_t size;
};

struct replay_call {
    struct rpc_call rpc;
    struct replay_call *next; /* of the calls under way */
    const struct journal_entry *sent;
    const struct journal_entry *owed; /* the answer that it has to have */
    struct replay_bytes args;
    uint8_t *changed; /* the arguments, where they are not those of the journal */
    bool in_flight;   /* it had no answer: the answer is kept */
    uint8_t *body;
    size_t size;
    struct journal_answer got;
};

struct replay {
    struct rpc_recorder recorder; /* of `client`: its answers come in here */
    rpc_client *client;
    struct rpc_shared_memory shared;
    struct replay_call *calls;
    struct replay_call *owed;   /* calls that went on without their answers */
    struct replay_call *events; /* EVENTS calls of ours under way, the oldest first */
    struct dues dues;
    struct unanswered unanswered; /* when the server was lost */
    struct replay_streams streams;
    struct replay_places places;
    bool begun; /* the session is as it was at the checkpoint, or at its beginning */
    bool aside; /* between ASIDE and BACK */
    struct replay_call *placed; /* the last call before which something was placed; NULL: it has been answered */
    struct move_store *store; /* the checkpoint where the journal begins; NULL: it begins with the session */
    struct replay_texts texts;
    char *why;
    size_t why_size;
};

/* ---- what becomes of a call ---- */

enum replay_rule {
    REPLAY_EQUAL,  /* sent again; the answer is compared */
    REPLAY_RESULT, /* sent again; only the result is compared: the rest are times, or what the server keeps */
    REPLAY_QUERY,  /* asked until it gives what it gave */
    REPLAY_NOT     /* not sent */
};

static enum replay_rule rule_of(uint32_t procedure)
{
    switch (procedure) {
    case FLYT_HELLO:
    case FLYT_WINDOW:
    case FLYT_EVENTS:
    case FLYT_ABANDON:
    case FLYT_LANE:
    case FLYT_USAGE:
    case FLYT_HEAP:
    case FLYT_MODULE_PLACE:
    case FLYT_MOVABLE:
    case FLYT_MEMORY_INFO:
    case FLYT_FINGERPRINTS:
    case FLYT_RECALLED: return REPLAY_NOT;
    case FLYT_STREAM_QUERY:
    case FLYT_EVENT_QUERY: return REPLAY_QUERY;
    case FLYT_IMAGE:
    case FLYT_EVENT_ELAPSED_TIME: return REPLAY_RESULT;
    default: return REPLAY_EQUAL;
    }
}

static const char *name_of(uint32_t procedure)
{
    const char *name = procedure < rpc_flyt_program.count ? rpc_flyt_program.procedures[procedure].name : NULL;
    return name ? name : "a call";
}

static bool differs(struct replay *r, uint32_t procedure, const char *what)
{
    if (!*r->why)
        snprintf(r->why, r->why_size, "%s of %s is not what it was", what, name_of(procedure));
    return false;
}

static bool fails(struct replay *r, const char *what)
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
    call->got = reply.answer;
    if (!replay_texts_take(&r->texts, &reply))
        fails(r, "no memory is left");
    if (!call->in_flight) {
        replay_streams_take(&r->streams, &reply);
        if (rpc->procedure == FLYT_EVENTS && reply.answer.latched)
            differs(r, FLYT_EVENTS, "an error before the answer");
        if (rpc->procedure == FLYT_EVENTS && !dues_take(&r->dues, reply.rest, reply.answer.body))
            fails(r, "what the new GPU server said of host functions could not be read");
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

static bool send_async(struct replay *r, const struct journal_entry *entry)
{
    struct replay_bytes bytes = { journal_bytes_of(entry), entry->size };
    struct rpc_call call = call_of(entry->procedure, &bytes, NULL);
    return rpc_client_submit(r->client, &call) == RPC_SUCCESS || fails(r, "the new GPU server was lost");
}

/* Sends bytes that the checkpoint holds. A part of a heap that was all zeros has none. */
static bool send_stored(struct replay *r, const struct journal_entry *entry)
{
    struct replay_stored stored;
    if (!r->store || !replay_stored_read(&stored, r->store, entry))
        return fails(r, r->store && *move_store_why(r->store) ? move_store_why(r->store)
                                                              : "the checkpoint is not whole");
    struct rpc_call call = {
        .procedure = entry->procedure, .encode = (xdrproc_t)(void *)replay_stored_put, .args = &stored
    };
    bool sent = !stored.size || rpc_client_submit(r->client, &call) == RPC_SUCCESS;
    replay_stored_free(&stored);
    return sent || fails(r, "the new GPU server was lost");
}

/* Asks, and waits for the answer. */
static bool ask(struct replay *r, uint32_t procedure, const struct replay_bytes *args, struct journal_answer *got)
{
    struct replay_call call = { .args = *args };
    call.rpc = call_of(procedure, &call.args, &call);
    if (rpc_client_submit(r->client, &call.rpc) != RPC_SUCCESS ||
        (rpc_client_wait(r->client, &call.rpc), rpc_client_lost(r->client)))
        return fails(r, "the new GPU server was lost");
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

static struct journal_answer answer_of(const struct journal_entry *entry)
{
    struct journal_answer answer;
    memcpy(&answer, journal_bytes_of(entry), sizeof answer);
    return answer;
}

static const uint8_t *kept_of(const struct journal_entry *entry)
{
    return journal_bytes_of(entry) + sizeof(struct journal_answer) +
           answer_of(entry).progress * sizeof(struct journal_progress);
}

/* The program's MAP named the size that it wanted and the least that would do, and got what was free. The new server
   may have more free memory, so this MAP asks for exactly the size that the program got. */
static bool change_map(struct replay_call *call)
{
    enum { SIZE_AT = 12, LEAST_AT = 20 };
    const struct journal_entry *answer = answer_to(call->sent);
    if (!answer || answer_of(answer).result != CORE_OK || answer_of(answer).body != sizeof(uint64_t))
        return true;
    if (call->args.size < LEAST_AT + sizeof(uint64_t) || !(call->changed = malloc(call->args.size)))
        return false;
    memcpy(call->changed, call->args.at, call->args.size);
    memcpy(call->changed + SIZE_AT, kept_of(answer), sizeof(uint64_t));
    memset(call->changed + LEAST_AT, 0, sizeof(uint64_t));
    call->args.at = call->changed;
    return true;
}

static struct replay_call *call_make(struct replay *r, const struct journal_entry *entry, bool in_flight)
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

enum { NOTHING_ENDED = 2 * sizeof(uint32_t) }; /* bytes of such an EVENTS call */

/* Sends an EVENTS call, which the server answers when it has news. ended: the arguments of one that names
   host functions that have ended; NULL: none has. */
static bool events_ask(struct replay *r, const struct replay_bytes *ended)
{
    static const uint8_t nothing[NOTHING_ENDED];
    struct replay_call *call = calloc(1, sizeof *call), **last = &r->events;
    if (!call)
        return fails(r, "no memory is left");
    call->args = ended ? *ended : (struct replay_bytes){ nothing, sizeof nothing };
    call->rpc = call_of(FLYT_EVENTS, &call->args, call);
    while (*last)
        last = &(*last)->next;
    *last = call;
    return rpc_client_submit(r->client, &call->rpc) == RPC_SUCCESS || fails(r, "the new GPU server was lost");
}

/* Hears the oldest answer: at the latest when the server beats. */
static bool events_hear(void *context)
{
    struct replay *r = context;
    if (!r->events && !events_ask(r, NULL))
        return false;
    struct replay_call *call = r->events;
    rpc_client_wait(r->client, &call->rpc);
    r->events = call->next;
    free(call);
    if (rpc_client_lost(r->client))
        return fails(r, "the new GPU server was lost");
    return !*r->why; /* what it said made no sense: nothing is waited for any more */
}

static bool submit(struct replay *r, struct replay_call *call)
{
    enum clnt_stat status = call->in_flight ? rpc_client_submit_as(r->client, &call->rpc, call->sent->xid)
                                            : rpc_client_submit(r->client, &call->rpc);
    return status == RPC_SUCCESS || fails(r, "the new GPU server was lost");
}

static bool made_aside(uint32_t procedure)
{
    switch (procedure) {
    case FLYT_MODULE_LOAD:
    case FLYT_ARRAY3D_CREATE:
    case FLYT_MIPMAPPED_ARRAY_CREATE:
    case FLYT_ARRAY_DESTROY:
    case FLYT_MIPMAPPED_ARRAY_DESTROY: return true;
    default: return false;
    }
}

static bool waits_for_all(uint32_t procedure)
{
    return procedure == FLYT_ARRAY_DESTROY || procedure == FLYT_MIPMAPPED_ARRAY_DESTROY;
}

/* Waits for the answer of a call that is made aside, but not for ever. Where a host function is due that the program
   did not have by then, what is waited for is probably the end of this one, which is not said before the answer. */
static bool await_aside(struct replay *r, struct replay_call *call)
{
    enum { LOOK_MS = 200, TIMES = 6 };
    const uint64_t begun = clock_now();
    const int seconds = session_dead_seconds ? session_dead_seconds : rpc_silence_seconds();
    const uint64_t silence = (uint64_t)seconds * CLOCK_NS_PER_SECOND;
    while (!rpc_client_wait_until(r->client, &call->rpc, clock_now() + LOOK_MS * CLOCK_NS_PER_MS)) {
        if (!r->events && !events_ask(r, NULL)) /* the answer says what is due */
            return false;
        const uint64_t waited = clock_now() - begun;
        if (silence && waited > (r->dues.late_count ? 1 : TIMES) * silence) {
            snprintf(r->why, r->why_size, "%s has had no answer for %llu s, and may wait for something that came later",
                     name_of(call->sent->procedure), (unsigned long long)(waited / CLOCK_NS_PER_SECOND));
            return false;
        }
    }
    return true;
}

/* Sends PLACE before the call: the handle that the answer has to give. It counts for the next object that
   the server makes, and it makes objects beside its other work: so this waits for the one before. */
static bool place(struct replay *r, const struct journal_entry *entry, bool *placed)
{
    place_args args;
    struct rpc_call call = { .procedure = FLYT_PLACE, .encode = (xdrproc_t)xdr_place_args, .args = &args };
    *placed = replay_place_find(&r->places, entry, &args) && r->begun &&
              core_session.hello.capabilities & FLYT_CAP_PLACES;
    if (*placed && args.kind == FLYT_PLACE_MODULE && !r->store)
        *placed = false; /* where a heap of kernels begins is not known, so the order alone decides about both */
    if (*placed && r->placed && !await_aside(r, r->placed))
        return false;
    return !*placed || rpc_client_submit(r->client, &call) == RPC_SUCCESS || fails(r, "the new GPU server was lost");
}

enum { ALONE_MS = 100 }; /* for a call that waits for all streams: the server begins it much sooner, as a rule */

static bool send_again(struct replay *r, const struct journal_entry *entry)
{
    enum replay_rule rule = r->aside && entry->procedure == FLYT_COPY_BOX_OUT ? REPLAY_NOT : rule_of(entry->procedure);
    bool placed;
    if (!place(r, entry, &placed))
        return false;
    if (!call_is_answered(entry->procedure)) {
        bool begins = entry->procedure == FLYT_STREAM_CREATE || entry->procedure == FLYT_STREAM_DESTROY;
        if (begins && !replay_streams_begin(&r->streams, entry))
            return fails(r, "no memory is left");
        return rule == REPLAY_NOT || send_async(r, entry);
    }
    if (entry->procedure == FLYT_EVENTS) {
        const struct replay_bytes args = { journal_bytes_of(entry), entry->size };
        return entry->size <= NOTHING_ENDED || events_ask(r, &args);
    }
    bool in_flight = unanswered_has(&r->unanswered, entry->xid);
    if (!in_flight && rule == REPLAY_NOT)
        return true;
    struct replay_call *call = call_make(r, entry, in_flight);
    if (!call)
        return fails(r, "no memory is left");
    r->placed = placed ? call : r->placed;
    if (rule == REPLAY_QUERY && !in_flight)
        return true;
    if (!submit(r, call))
        return false;
    if (waits_for_all(entry->procedure) && !in_flight)
        rpc_client_wait_until(r->client, &call->rpc, clock_now() + ALONE_MS * CLOCK_NS_PER_MS);
    return true;
}

/* The server speaks from here on. */
static bool send_events(struct replay *r)
{
    for (const struct journal_entry *entry = journal_next(NULL); entry; entry = journal_next(entry)) {
        if (entry->kind != JOURNAL_SENT || entry->procedure != FLYT_EVENTS ||
            !unanswered_has(&r->unanswered, entry->xid))
            continue;
        struct replay_call *call = call_make(r, entry, true);
        if (!call || !(call->changed = calloc(1, NOTHING_ENDED)))
            return fails(r, "no memory is left");
        call->args = (struct replay_bytes){ call->changed, NOTHING_ENDED }; /* what has ended was said in its place */
        if (!submit(r, call))
            return false;
    }
    while (r->events)
        if (!events_hear(r))
            return false;
    return true;
}

/* ---- an answer that had come ---- */

static struct replay_call *take_call(struct replay *r, uint32_t xid)
{
    struct replay_call **link = &r->calls;
    while (*link && ((*link)->in_flight || (*link)->sent->xid != xid))
        link = &(*link)->next;
    struct replay_call *call = *link;
    if (call)
        *link = call->next;
    return call;
}

static void call_free(struct replay *r, struct replay_call *call)
{
    r->placed = r->placed == call ? NULL : r->placed;
    free(call->changed);
    free(call->body);
    free(call);
}

static bool compare(struct replay *r, uint32_t procedure, const struct journal_answer *had,
                    const struct journal_answer *got)
{
    if (had->result == CORE_NOT_READY) /* it is not repeated */
        return !had->latched || differs(r, procedure, "an error before the answer");
    if (had->status != got->status || had->result != got->result)
        return differs(r, procedure, "the result");
    if (had->latched != got->latched || got->sticky)
        return differs(r, procedure, "an error before the answer");
    if (rule_of(procedure) != REPLAY_RESULT && had->body != JOURNAL_ANY &&
        (had->body != got->body || memcmp(had->fingerprint, got->fingerprint, sizeof had->fingerprint) != 0))
        return differs(r, procedure, "the answer");
    return true;
}

static void pause_short(unsigned tries) { nanosleep(&(struct timespec){ 0, tries < 20 ? 20000 : 500000 }, NULL); }

/* As it was asked then: until it has an answer other than "not ready". */
static bool query(struct replay *r, struct replay_call *call)
{
    for (unsigned tries = 0;; tries++) {
        if (!ask(r, call->sent->procedure, &call->args, &call->got))
            return false;
        if (call->got.result != CORE_NOT_READY)
            return true;
        if (call->got.latched)
            return differs(r, call->sent->procedure, "an error before the answer");
        pause_short(tries);
    }
}

/* A question of the replay's own. An error that comes with its answer is lost to those of the program. */
static bool ask_stream(struct replay *r, uint32_t procedure, const struct replay_bytes *args,
                       struct journal_answer *got)
{
    if (!ask(r, procedure, args, got))
        return false;
    return !got->latched || differs(r, procedure, "an error before the answer");
}

/* Returns when the stream has come so far, or is not there any more. */
static bool await_stream(struct replay *r, const struct journal_progress *p)
{
    const uint32_t wire = htonl(p->stream);
    const struct replay_bytes args = { (const uint8_t *)&wire, sizeof wire };
    struct journal_answer got;
    for (unsigned tries = 0; replay_streams_done(&r->streams, &r->shared, p->stream) < p->done; tries++) {
        if (!ask_stream(r, FLYT_STREAM_QUERY, &args, &got))
            return false;
        if (got.result != CORE_NOT_READY)
            return true;
        pause_short(tries);
    }
    return true;
}

static bool await_streams(struct replay *r, const struct journal_entry *entry)
{
    const struct journal_answer had = answer_of(entry);
    struct journal_progress p;
    for (uint32_t i = 0; i < had.progress; i++) {
        memcpy(&p, journal_bytes_of(entry) + sizeof had + i * sizeof p, sizeof p);
        if (!await_stream(r, &p))
            return false;
    }
    return true;
}

static uint32_t word_at(const struct journal_entry *entry, size_t index)
{
    uint32_t word = 0;
    if (entry->size >= (index + 1) * sizeof word)
        memcpy(&word, journal_bytes_of(entry) + index * sizeof word, sizeof word);
    return ntohl(word);
}

/* HOST_FUNCTION: stream, id. EVENTS: a serial number, how many have ended, their ids. */
static bool says_ended(const struct journal_entry *entry, uint32_t id)
{
    bool says = false;
    for (uint32_t i = 0; entry->procedure == FLYT_EVENTS && i < word_at(entry, 1) && !says; i++)
        says = word_at(entry, 2 + i) == id;
    return says;
}

/* Whether that host function is due, and its end had not been said before `until`. */
static bool is_held(const struct replay *r, const struct journal_entry *function, const struct journal_entry *until)
{
    const uint32_t id = word_at(function, 1);
    uint32_t times = 0; /* an id is used again */
    bool behind = false;
    for (const struct journal_entry *e = journal_next(NULL); e && e != until; e = journal_next(e)) {
        behind = behind || e == function;
        if (e->kind != JOURNAL_SENT)
            continue;
        times += e->procedure == FLYT_HOST_FUNCTION && word_at(e, 1) == id;
        if (behind && says_ended(e, id))
            return false;
    }
    return id < r->dues.size && r->dues.counts[id].got >= times;
}

static bool stream_is_held(const struct replay *r, uint32_t stream, const struct journal_entry *until)
{
    bool held = false;
    for (const struct journal_entry *e = journal_next(NULL); e && e != until && !held; e = journal_next(e))
        held = e->kind == JOURNAL_SENT && e->procedure == FLYT_HOST_FUNCTION && word_at(e, 0) == stream &&
               is_held(r, e, until);
    return held;
}

/* Whether all that is under way waits for such host functions. False also after an error. */
static bool only_held(struct replay *r, const struct journal_entry *until)
{
    bool any = false;
    for (size_t id = 0; id < r->streams.count; id++) {
        const uint32_t wire = htonl((uint32_t)id);
        const struct replay_bytes args = { (const uint8_t *)&wire, sizeof wire };
        struct journal_answer got;
        if (!ask_stream(r, FLYT_STREAM_QUERY, &args, &got))
            return false;
        if (got.result != CORE_NOT_READY)
            continue;
        if (!stream_is_held(r, (uint32_t)id, until))
            return false;
        any = true;
    }
    return any;
}

/* True: this call may be answered later. */
static bool may_owe(struct replay *r, struct replay_call *call, const struct journal_entry *entry)
{
    enum { PATIENCE_MS = 400 };
    if (!waits_for_all(entry->procedure) ||
        rpc_client_wait_until(r->client, &call->rpc, clock_now() + PATIENCE_MS * CLOCK_NS_PER_MS) ||
        (!r->events && !events_ask(r, NULL)) || !only_held(r, entry) || call->rpc.complete)
        return false;
    call->owed = entry;
    call->next = r->owed;
    r->owed = call;
    return true;
}

static bool await_owed(struct replay *r)
{
    for (struct replay_call *call = r->owed; call; call = call->next) {
        const struct journal_answer had = answer_of(call->owed);
        if (!await_aside(r, call) || !compare(r, call->sent->procedure, &had, &call->got))
            return false;
    }
    return true;
}

static bool await_answer(struct replay *r, const struct journal_entry *entry)
{
    const struct journal_answer had = answer_of(entry);
    struct replay_call *call = take_call(r, entry->xid);
    bool good = true;
    if (call && may_owe(r, call, entry))
        return await_streams(r, entry);
    if (call && rule_of(entry->procedure) == REPLAY_QUERY) {
        good = had.result == CORE_NOT_READY || query(r, call);
    } else if (call) {
        if (made_aside(entry->procedure))
            good = await_aside(r, call);
        else
            rpc_client_wait(r->client, &call->rpc);
        if (rpc_client_lost(r->client))
            good = fails(r, "the new GPU server was lost");
    }
    if (call)
        good = good && compare(r, entry->procedure, &had, &call->got);
    if (call)
        call_free(r, call);
    if (good && entry->procedure == FLYT_EVENTS)
        good = dues_follow(&r->dues, kept_of(entry), had.body, events_hear, r) ||
               fails(r, "host functions are not due as before");
    return good && await_streams(r, entry);
}

/* ---- the whole ---- */

struct replay *replay_begin(rpc_client *next, struct move_store *store)
{
    struct replay *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->recorder = (struct rpc_recorder){ .sent = nowhere, .answered = answered, .holds = never };
    r->client = next;
    rpc_client_shared_memory(next, &r->shared);
    r->store = store;
    r->begun = !store;
    if (!replay_streams_open(&r->streams) || !replay_texts_open(&r->texts)) {
        replay_end(r);
        return NULL;
    }
    return r;
}

/* The threads that wait for answers can be given good ones only. */
static bool answers_are_good(const struct replay *r)
{
    for (const struct replay_call *call = r->calls; call; call = call->next)
        if (call->rpc.complete && !call->body)
            return false;
    return true;
}

static bool follow(struct replay *r, const struct journal_entry *entry)
{
    flyt_id id;
    switch (entry->kind) {
    case JOURNAL_SENT: return send_again(r, entry);
    case JOURNAL_ANSWERED: return await_answer(r, entry);
    case JOURNAL_GIVEN:
        memcpy(&id, journal_bytes_of(entry), sizeof id);
        return dues_given(&r->dues, id, events_hear, r) || fails(r, "host functions are not due as before");
    case JOURNAL_STORED: return send_stored(r, entry);
    case JOURNAL_ASIDE: return r->aside = true;
    case JOURNAL_BACK: r->aside = false; return true;
    case JOURNAL_BEGUN:
        r->begun = true;
        return replay_streams_rebase(&r->streams, entry) || fails(r, "no memory is left");
    default: return fails(r, "the journal was dropped meanwhile");
    }
}

/* Asks for what was printed: a stream that is idle makes the server print, and its answer brings it. *busy: one is
   not. */
static bool ask_texts(struct replay *r, bool *busy)
{
    *busy = false;
    for (size_t id = 0; id < r->streams.count && replay_texts_lack(&r->texts); id++) {
        const uint32_t wire = htonl((uint32_t)id);
        const struct replay_bytes args = { (const uint8_t *)&wire, sizeof wire };
        struct journal_answer got;
        if (!ask_stream(r, FLYT_STREAM_QUERY, &args, &got))
            return false;
        *busy = *busy || got.result == CORE_NOT_READY;
        if (got.result == CORE_OK && !ask_stream(r, FLYT_STREAM_SYNC, &args, &got))
            return false;
    }
    return true;
}

/* What was printed travels with whichever answer is next, which need not be the one that it came with before. */
static bool await_texts(struct replay *r)
{
    bool busy = true;
    for (unsigned tries = 0; busy && replay_texts_lack(&r->texts); tries++) {
        if (!ask_texts(r, &busy))
            return false;
        pause_short(tries);
    }
    return replay_texts_equal(&r->texts) || fails(r, "kernels printed something else than before");
}

static bool run_all(struct replay *r)
{
    if (r->store && move_store_again(r->store))
        return fails(r, move_store_why(r->store));
    if (!unanswered_find(&r->unanswered))
        return fails(r, "no memory is left");
    for (const struct journal_entry *entry = journal_next(NULL); entry; entry = journal_next(entry))
        if (!follow(r, entry) || *r->why)
            return false;
    return await_texts(r) && await_owed(r) && send_events(r);
}

bool replay_run(struct replay *r, char *why, size_t size)
{
    r->why = why;
    r->why_size = size;
    *why = 0;
    rpc_client_record(r->client, &r->recorder);
    bool good = run_all(r);
    rpc_client_flush(r->client);
    rpc_client_record(r->client, NULL);
    if (good && !answers_are_good(r))
        good = fails(r, "the new GPU server refused a call");
    good = good && !*r->why;
    if (good && !journal_on())
        good = fails(r, journal_why_unprotected());
    return good && !rpc_client_lost(r->client) ? true : fails(r, "the new GPU server was lost");
}

/* What the new server has said, and the program has not had: it has it from now on, whatever becomes of this server. */
static void give(struct replay *r)
{
    for (size_t i = 0; i < r->dues.late_count; i++) {
        journal_give_due(r->dues.late[i].id);
        host_function_due(&core_session, r->dues.late[i].id, r->dues.late[i].status);
    }
    replay_texts_give(&r->texts);
}

bool replay_hand_over(struct replay *r, rpc_client *client)
{
    unsigned count = 0;
    for (const struct replay_call *call = r->calls; call; call = call->next)
        count += call->body != NULL;
    struct rpc_early *early = calloc(count + 1, sizeof *early);
    if (!early)
        return false;
    count = 0;
    for (const struct replay_call *call = r->calls; call; call = call->next)
        if (call->body)
            early[count++] = (struct rpc_early){ call->sent->xid, call->body, call->size };
    give(r);
    streams_rebase(r->streams.base, r->streams.count);
    bool renewed = rpc_client_renew(client, r->client, early, count) == 0;
    free(early);
    if (renewed)
        r->client = NULL;
    return renewed;
}

void replay_end(struct replay *r)
{
    while (r->calls) {
        struct replay_call *call = r->calls;
        r->calls = call->next;
        call_free(r, call);
    }
    while (r->owed) {
        struct replay_call *call = r->owed;
        r->owed = call->next;
        call_free(r, call);
    }
    while (r->events) {
        struct replay_call *call = r->events;
        r->events = call->next;
        free(call);
    }
    dues_free(&r->dues);
    replay_texts_close(&r->texts);
    unanswered_free(&r->unanswered);
    replay_streams_close(&r->streams);
    replay_places_close(&r->places);
    free(r);
}
