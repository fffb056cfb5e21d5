/*
 * wire.c: every call of the core passes through here on its way to the rpc layer.
 *
 * What each reply's head says is taken by the thread that waited for it, or, of a call that nobody waits for, by
 * the thread that read it: sticky and latched errors, the streams' completed numbers, and printed text. Text is
 * queued and written only by threads that wait, before their call returns: who reads the connection for others must
 * not be held up by the program's stdout.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/api_session.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/stream/stream.h"
#include "cpu/common/cancel.h"
#include "cpu/common/clock.h"
#include "cpu/common/log.h"
#include "cpu/client/core/stream/mirror.h"
#include "perf.h"
#include "rehearsal.h"
#include "state.h"
#include "stats.h"
#include "wire.h"

#define QUERY_LEAST_NS UINT64_C(10000)
#define QUERY_MOST_NS  UINT64_C(200000)
enum { ILLEGAL_ADDRESS = 700 };

static struct {
    atomic_uint_fast64_t news;
    atomic_uint detached;
} wire;

struct client_text {
    struct client_text *next;
    int          fd;
    size_t       size;
    char         bytes[];
};
static struct {
    pthread_mutex_t lock, writing;    /* lock: the queue; writing: keeps its order on the way out */
    struct client_text *first, **last;
    atomic_bool     any;
} texts = { .lock = PTHREAD_MUTEX_INITIALIZER, .writing = PTHREAD_MUTEX_INITIALIZER };

/* ---- printed text ---- */

void wire_queue_text(const flyt_text *text)
{
    size_t size = text->bytes.bytes_len;
    struct client_text *copy = size ? malloc(sizeof *copy + size) : NULL;
    if (!copy)
        return;
    copy->next = NULL;
    copy->fd = text->fd;
    copy->size = size;
    memcpy(copy->bytes, text->bytes.bytes_val, size);
    pthread_mutex_lock(&texts.lock);
    if (!texts.first)
        texts.last = &texts.first;
    *texts.last = copy;
    texts.last = &copy->next;
    atomic_store_explicit(&texts.any, true, memory_order_release);
    pthread_mutex_unlock(&texts.lock);
}

static struct client_text *text_take(void)
{
    pthread_mutex_lock(&texts.lock);
    struct client_text *text = texts.first;
    if (text)
        texts.first = text->next;
    atomic_store_explicit(&texts.any, texts.first != NULL, memory_order_release);
    pthread_mutex_unlock(&texts.lock);
    return text;
}

static _Thread_local bool quiet;

void wire_keep_quiet(void)
{
    quiet = true;
}

/* Through stdio, so that the order against the program's own printf is kept. */
void wire_print_texts(void)
{
    if (!atomic_load_explicit(&texts.any, memory_order_acquire) || quiet)
        return;
    CANCEL_OFF;
    pthread_mutex_lock(&texts.writing);
    for (struct client_text *text; (text = text_take()); free(text)) {
        FILE *stream = text->fd == 2 ? stderr : stdout;
        fwrite(text->bytes, 1, text->size, stream);
        fflush(stream);
    }
    pthread_mutex_unlock(&texts.writing);
}

/* ---- what was heard, and queries ---- */

uint64_t wire_news(void)
{
    return atomic_load_explicit(&wire.news, memory_order_relaxed);
}

void wire_heard(void)
{
    atomic_fetch_add_explicit(&wire.news, 1, memory_order_relaxed);
}

void wire_not_ready(struct asked *asked, uint64_t news)
{
    uint64_t now = clock_now();
    if (!atomic_load_explicit(&asked->at, memory_order_relaxed) ||
        atomic_load_explicit(&asked->news, memory_order_relaxed) != news)
        atomic_store_explicit(&asked->since, now, memory_order_relaxed);
    atomic_store_explicit(&asked->news, news, memory_order_relaxed);
    atomic_store_explicit(&asked->at, now, memory_order_relaxed);
}

/* Threads that query the same object may mix their two words: then one of them asks once more, or what it says here was
   true when the other got that answer, a moment ago and with nothing heard since either. */
bool wire_not_ready_yet(struct asked *asked, bool published)
{
    uint64_t at = atomic_load_explicit(&asked->at, memory_order_relaxed),
             since = atomic_load_explicit(&asked->since, memory_order_relaxed);
    if (!at || core_perf.no_cache || atomic_load_explicit(&asked->news, memory_order_relaxed) != wire_news())
        return false;
    uint64_t interval = published && at > since ? (at - since) / 8 : 0;
    interval = interval < QUERY_LEAST_NS ? QUERY_LEAST_NS : interval > QUERY_MOST_NS ? QUERY_MOST_NS : interval;
    if (clock_now() - at >= interval)
        return false;
    core_count_local();
    return true;
}

/* ---- heads ---- */

static void wire_take_header(struct client_session *session, const flyt_head *head)
{
    for (unsigned i = 0; i < head->progress.progress_len; i++)
        stream_progress(session, head->progress.progress_val[i].stream, head->progress.progress_val[i].done);
    for (unsigned i = 0; i < head->printed.printed_len; i++)
        wire_queue_text(&head->printed.printed_val[i]);
    if (head->latched)
        session_latch(session, head->latched);
    if (head->sticky)
        session_set_sticky(session, head->sticky);
    if (head->sticky == ILLEGAL_ADDRESS && mirror_any)
        mirror_room->fault();
    else if (head->sticky == ILLEGAL_ADDRESS)
        mirror_missed();
}

/* In words of our own: clnt_sperrno of libtirpc would bring much of that library into ours. */
static const char *answer_problem(enum clnt_stat status)
{
    switch (status) {
    case RPC_CANTDECODERES:
        return "its result cannot be decoded";
    case RPC_CANTDECODEARGS:
        return "the server could not decode the arguments";
    case RPC_PROGUNAVAIL:
    case RPC_PROGVERSMISMATCH:
        return "the server does not have this program or version";
    case RPC_VERSMISMATCH:
        return "the server has another version of ONC RPC";
    case RPC_AUTHERROR:
        return "the server refused the credentials";
    default:
        return "unknown status";
    }
}

/* What a call gives whose transport failed. What becomes of a server that the session does not use is move.c's
   affair. */
static int wire_failure(struct client_session *session, rpc_client *client, enum clnt_stat status)
{
    int sticky = atomic_load(&session->sticky);
    if (client != session->client || session->apart)
        return CORE_DEVICE_UNAVAILABLE;
    if (rpc_client_lost(client))
        return session_loss_wait(session, sticky ? sticky : CORE_DEVICE_UNAVAILABLE);
    switch (status) {
    case RPC_CANTENCODEARGS:
        return CORE_INVALID_VALUE;
    case RPC_PROCUNAVAIL:
        return CORE_NOT_SUPPORTED;
    case RPC_SYSTEMERROR:
        return CORE_OUT_OF_MEMORY;
    default:
        if (session_moving()) {
            rpc_client_shutdown(client);
            return CORE_DEVICE_UNAVAILABLE;
        }
        log_error("the GPU server gave an answer that cannot be used (%s); the connection is closed",
                  answer_problem(status));
        session_lost(session, "it broke the protocol");
        rpc_client_shutdown(client);
        return CORE_DEVICE_UNAVAILABLE;
    }
}

/* Settles a complete call's result. */
static void wire_settle(struct wire_call *call)
{
    if (call->rpc.status != RPC_SUCCESS) {
        call->result = wire_failure(call->session, call->client, call->rpc.status);
        return;
    }
    const flyt_head *head = call->rpc.result;
    wire_take_header(call->session, head);
    /* What fails behind a fault fails because of it: an event may have no counterpart on the server any more. */
    call->result = head->result && head->sticky ? head->sticky : head->result;
    /* The server does not know that what it waited for has failed at another one (session_fail). */
    if (session_several() && !call->result && atomic_load(&call->session->sticky) == CORE_DEVICE_UNAVAILABLE)
        call->result = CORE_DEVICE_UNAVAILABLE;
    if (call->result != CORE_NOT_READY)
        wire_heard();
    if (call->begun)
        stats_call_ends(call->rpc.procedure, call->begun, call->rpc.decode, call->rpc.result);
    /* Two threads at once may leave the smaller number: that is true as well, and the next reply raises it. */
    if (atomic_load_explicit(&call->session->confirmed, memory_order_relaxed) < call->serial)
        atomic_store_explicit(&call->session->confirmed, call->serial, memory_order_release);
}

static void wire_done(struct rpc_call *rpc, void *context)
{
    (void)rpc;
    struct wire_call *call = context;
    int sticky = atomic_load(&call->session->sticky);
    /* this thread may be about to say why, and does not wait for it */
    if (call->rpc.status != RPC_SUCCESS && rpc_client_lost(call->client))
        call->result = sticky ? sticky : CORE_DEVICE_UNAVAILABLE;
    else
        wire_settle(call);
    call->arrived(call);
    atomic_fetch_sub_explicit(&wire.detached, 1, memory_order_release);
}

/* ---- calls ---- */

uint64_t wire_next_serial(const struct client_session *session)
{
    return atomic_load(&session->serial) + 1;
}

uint64_t wire_confirmed(const struct client_session *session)
{
    return atomic_load(&session->confirmed);
}

void wire_prepare(struct wire_call *call, uint32_t procedure, xdrproc_t encode, void *args, xdrproc_t decode,
                  void *result)
{
    *call = (struct wire_call){ .rpc = { .procedure = procedure, .encode = encode, .args = args,
                                         .decode = decode, .result = result } };
}

void wire_submit_to(struct client_session *session, rpc_client *client, struct wire_call *call)
{
    call->session = session;
    if (rehearsal_here()) {
        call->client = client;
        rehearsal_call(&call->rpc);
        return;
    }
    if (stats_on)
        call->begun = stats_call_begins(call->rpc.procedure, call->rpc.encode, call->rpc.args);
    call->client = client;
    call->serial = atomic_fetch_add(&session->serial, 1) + 1;
    rpc_client_submit(client, &call->rpc);    /* refused: complete, with its status */
}

void wire_submit(struct client_session *session, struct wire_call *call)
{
    wire_submit_to(session, session->client, call);
}

unsigned wire_detached(void)
{
    return atomic_load_explicit(&wire.detached, memory_order_acquire);
}

void wire_submit_detached(struct client_session *session, struct wire_call *call, void (*arrived)(struct wire_call *))
{
    if (stats_on)
        call->begun = stats_call_begins(call->rpc.procedure, call->rpc.encode, call->rpc.args);
    call->session = session;
    call->serial = atomic_fetch_add(&session->serial, 1) + 1;
    call->arrived = arrived;
    call->rpc.done = wire_done;
    call->rpc.context = call;
    call->client = session->client;
    atomic_fetch_add_explicit(&wire.detached, 1, memory_order_relaxed);
    if (rpc_client_submit(call->client, &call->rpc) != RPC_SUCCESS)
        wire_done(&call->rpc, call);          /* refused: done was not called */
}

int wire_wait_along(struct wire_call *call)
{
    if (!rehearsal_here())
        rpc_client_wait(call->client, &call->rpc);
    wire_settle(call);
    wire_print_texts();
    return call->result;
}

int wire_wait(struct wire_call *call)
{
    if (call->begun)
        stats_call_waited(call->rpc.procedure);
    return wire_wait_along(call);
}

bool wire_attend(struct wire_call *call)
{
    rpc_client_attend(call->client, &call->rpc);
    wire_settle(call);
    return call->rpc.status == RPC_SUCCESS;
}

int wire_send_placed(struct client_session *session, uint32_t procedure, xdrproc_t encode, void *args,
                     struct rpc_place *place)
{
    struct rpc_call call = { .procedure = procedure, .encode = encode, .args = args, .place = place };
    if (rehearsal_here())
        return rehearsal_send(&call);
    uint64_t begun = stats_on ? stats_call_begins(procedure, encode, args) : 0;
    enum clnt_stat status = rpc_client_submit(session->client, &call);
    if (begun)
        stats_call_ends(procedure, begun, NULL, NULL);
    if (status != RPC_SUCCESS)
        return wire_failure(session, session->client, status);
    return core_perf.no_async ? context_round_trip(session) : CORE_OK;
}

int wire_send(struct client_session *session, uint32_t procedure, xdrproc_t encode, void *args)
{
    return wire_send_placed(session, procedure, encode, args, NULL);
}

int wire_send_ready(struct client_session *session, uint32_t procedure, uint8_t *record, size_t size,
                    struct rpc_place *place)
{
    enum clnt_stat status = rpc_client_submit_ready(session->client, procedure, record, size, place);
    if (status != RPC_SUCCESS)
        return wire_failure(session, session->client, status);
    return core_perf.no_async ? context_round_trip(session) : CORE_OK;
}

int wire_call_to(struct client_session *session, rpc_client *client, uint32_t procedure, xdrproc_t encode, void *args,
                 xdrproc_t decode, void *result)
{
    struct wire_call call;
    wire_prepare(&call, procedure, encode, args, decode, result);
    wire_submit_to(session, client, &call);
    return wire_wait(&call);
}

int wire_call(struct client_session *session, uint32_t procedure, xdrproc_t encode, void *args, xdrproc_t decode,
              void *result)
{
    return wire_call_to(session, session->client, procedure, encode, args, decode, result);
}

int wire_plain(struct client_session *session, uint32_t procedure, xdrproc_t encode, void *args)
{
    plain_result result = { 0 };
    int code = wire_call(session, procedure, encode, args, (xdrproc_t)xdr_plain_result, &result);
    xdr_free((xdrproc_t)xdr_plain_result, &result);
    return code;
}
