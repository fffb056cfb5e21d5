/*
 * replay.c: see replay.h. The order of everything is here; replay_calls.c sends calls and takes answers.
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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/moves/replay.h"
#include "cpu/client/core/moves/replay_state.h"
#include "cpu/client/core/moves/replay_stored.h"
#include "cpu/client/core/stream/host_function.h"
#include "cpu/client/core/stream/move_store.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/wire.h"
#include "cpu/common/clock.h"
#include "cpu/rpc/transport/liveness.h"

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
    case FLYT_WATCH:
    case FLYT_RECALLED: return REPLAY_NOT;
    case FLYT_STREAM_QUERY:
    case FLYT_EVENT_QUERY: return REPLAY_QUERY;
    case FLYT_IMAGE:
    case FLYT_EVENT_ELAPSED_TIME: return REPLAY_RESULT;
    default: return REPLAY_EQUAL;
    }
}

static bool made_aside(uint32_t procedure)
{
    switch (procedure) {
    case FLYT_MODULE_LOAD:
    case FLYT_ARRAY3D_CREATE:
    case FLYT_MIPMAPPED_ARRAY_CREATE:
    case FLYT_ARRAY_DESTROY:
    case FLYT_MIPMAPPED_ARRAY_DESTROY:
    /* the thread that makes these things links, too; and what follows waits for it */
    case FLYT_LINK:
    case FLYT_LINK_READ:
    case FLYT_LIMIT_SET:
    case FLYT_CONTEXT_RELEASE:
    case FLYT_CONTEXT_RESET:
    case FLYT_CONTEXT_DESTROY: return true;
    default: return false;
    }
}

/* Compilers take their time: so many times the usual wait. */
static unsigned patience_for(uint32_t procedure)
{
    enum { COMPILED = 10 };
    return procedure == FLYT_MODULE_LOAD || procedure == FLYT_LINK || procedure == FLYT_LIMIT_SET ? COMPILED : 1;
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
        if (!r->events && !replay_events_ask(r, NULL)) /* the answer says what is due */
            return false;
        const uint64_t waited = clock_now() - begun;
        if (silence && waited > patience_for(call->sent->procedure) * (r->dues.late_count ? 1 : TIMES) * silence) {
            snprintf(r->why, r->why_size, "%s has had no answer for %llu s, and may wait for something that came later",
                     replay_call_name(call->sent->procedure), (unsigned long long)(waited / CLOCK_NS_PER_SECOND));
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
    return !*placed || rpc_client_submit(r->client, &call) == RPC_SUCCESS ||
           replay_fails(r, "the new GPU server was lost");
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
            return replay_fails(r, "no memory is left");
        return rule == REPLAY_NOT || replay_send_async(r, entry);
    }
    if (entry->procedure == FLYT_EVENTS) {
        const struct replay_bytes args = { journal_bytes_of(entry), entry->size };
        return entry->size <= REPLAY_NOTHING_ENDED || replay_events_ask(r, &args);
    }
    bool in_flight = unanswered_is(&r->unanswered, entry);
    if (!in_flight && rule == REPLAY_NOT)
        return true;
    struct replay_call *call = replay_call_make(r, entry, in_flight);
    if (!call)
        return replay_fails(r, "no memory is left");
    r->placed = placed ? call : r->placed;
    if (rule == REPLAY_QUERY && !in_flight)
        return true;
    if (!replay_submit(r, call))
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
            !unanswered_is(&r->unanswered, entry))
            continue;
        struct replay_call *call = replay_call_make(r, entry, true);
        if (!call || !(call->changed = calloc(1, REPLAY_NOTHING_ENDED)))
            return replay_fails(r, "no memory is left");
        /* what has ended was said in its place */
        call->args = (struct replay_bytes){ call->changed, REPLAY_NOTHING_ENDED };
        if (!replay_submit(r, call))
            return false;
    }
    while (r->events)
        if (!replay_events_hear(r))
            return false;
    return true;
}

/* ---- an answer that had come ---- */

static bool compare(struct replay *r, uint32_t procedure, const struct journal_answer *had,
                    const struct journal_answer *got)
{
    if (had->result == CORE_NOT_READY) /* it is not repeated */
        return !had->latched || replay_differs(r, procedure, "an error before the answer");
    if (had->status != got->status || had->result != got->result)
        return replay_differs(r, procedure, "the result");
    if (had->latched != got->latched || got->sticky)
        return replay_differs(r, procedure, "an error before the answer");
    if (rule_of(procedure) != REPLAY_RESULT && had->body != JOURNAL_ANY &&
        (had->body != got->body || memcmp(had->fingerprint, got->fingerprint, sizeof had->fingerprint) != 0))
        return replay_differs(r, procedure, "the answer");
    return true;
}

static void pause_short(unsigned tries) { nanosleep(&(struct timespec){ 0, tries < 20 ? 20000 : 500000 }, NULL); }

/* As it was asked then: until it has an answer other than "not ready". */
static bool query(struct replay *r, struct replay_call *call)
{
    for (unsigned tries = 0;; tries++) {
        if (!replay_ask(r, call->sent->procedure, &call->args, &call->got))
            return false;
        if (call->got.result != CORE_NOT_READY)
            return true;
        if (call->got.latched)
            return replay_differs(r, call->sent->procedure, "an error before the answer");
        pause_short(tries);
    }
}

/* A question of the replay's own. An error that comes with its answer is lost to those of the program. */
static bool ask_stream(struct replay *r, uint32_t procedure, const struct replay_bytes *args,
                       struct journal_answer *got)
{
    if (!replay_ask(r, procedure, args, got))
        return false;
    return !got->latched || replay_differs(r, procedure, "an error before the answer");
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
    const struct journal_answer had = replay_answer_of(entry);
    struct journal_progress p;
    for (uint32_t i = 0; i < had.progress; i++) {
        memcpy(&p, journal_bytes_of(entry) + sizeof had + i * sizeof p, sizeof p);
        if (!await_stream(r, &p))
            return false;
    }
    return true;
}

/* Whether each stream that is not idle waits for such a host function (dues_hold), and there is one. False also after
   an error. */
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
        if (!dues_hold(&r->dues, (uint32_t)id, until))
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
        (!r->events && !replay_events_ask(r, NULL)) || !only_held(r, entry) || call->rpc.complete)
        return false;
    call->owed = entry;
    call->next = r->owed;
    r->owed = call;
    return true;
}

static bool await_owed(struct replay *r)
{
    for (struct replay_call *call = r->owed; call; call = call->next) {
        const struct journal_answer had = replay_answer_of(call->owed);
        if (!await_aside(r, call) || !compare(r, call->sent->procedure, &had, &call->got))
            return false;
    }
    return true;
}

static bool await_answer(struct replay *r, const struct journal_entry *entry)
{
    const struct journal_answer had = replay_answer_of(entry);
    struct replay_call *call = replay_call_take(r, entry->xid);
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
            good = replay_fails(r, "the new GPU server was lost");
    }
    if (call)
        good = good && compare(r, entry->procedure, &had, &call->got);
    if (call)
        replay_call_free(r, call);
    if (good && entry->procedure == FLYT_EVENTS)
        good = dues_follow(&r->dues, replay_answer_bytes(entry), had.body, replay_events_hear, r) ||
               replay_fails(r, "host functions are not due as before");
    return good && await_streams(r, entry);
}

/* ---- the whole ---- */

struct replay *replay_begin(rpc_client *next, struct move_store *store)
{
    struct replay *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->recorder = replay_recorder;
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

static void fetch_end(struct replay *r)
{
    move_fetch_end(r->fetch);
    r->fetch = NULL;
}

static bool follow(struct replay *r, const struct journal_entry *entry)
{
    flyt_id id;
    switch (entry->kind) {
    case JOURNAL_SENT: return send_again(r, entry);
    case JOURNAL_ANSWERED: return await_answer(r, entry);
    case JOURNAL_GIVEN:
        memcpy(&id, journal_bytes_of(entry), sizeof id);
        return dues_given(&r->dues, id, replay_events_hear, r) ||
               replay_fails(r, "host functions are not due as before");
    case JOURNAL_STORED: return replay_send_stored(r, entry);
    case JOURNAL_ASIDE: return r->aside = true;
    case JOURNAL_BACK: r->aside = false; return true;
    case JOURNAL_BEGUN:
        r->begun = true;
        fetch_end(r);
        return replay_streams_rebase(&r->streams, entry) || replay_fails(r, "no memory is left");
    default: return replay_fails(r, "the journal was dropped meanwhile");
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
    return replay_texts_equal(&r->texts) || replay_fails(r, "kernels printed something else than before");
}

static bool run_all(struct replay *r)
{
    if (r->store && move_store_again(r->store))
        return replay_fails(r, move_store_why(r->store));
    if (r->store && !(r->fetch = move_fetch_begin(r->store, replay_stored_next, &r->fetched)))
        return replay_fails(r, "no memory is left");
    if (!unanswered_find(&r->unanswered))
        return replay_fails(r, "no memory is left");
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
        good = replay_fails(r, "the new GPU server refused a call");
    good = good && !*r->why;
    if (good && !journal_on())
        good = replay_fails(r, journal_why_unprotected());
    return good && !rpc_client_lost(r->client) ? true : replay_fails(r, "the new GPU server was lost");
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
    fetch_end(r);
    replay_calls_free(r);
    dues_free(&r->dues);
    replay_texts_close(&r->texts);
    unanswered_free(&r->unanswered);
    replay_streams_close(&r->streams);
    replay_places_close(&r->places);
    free(r);
}
