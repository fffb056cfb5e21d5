/*
 * wire.c: every call of the core passes through here on its way to the rpc layer.
 *
 * What each reply's head says is taken by the thread that waited for it, or, of a call that nobody waits for, by
 * the thread that read it: sticky and latched errors, the streams' completed numbers, and printed text. Text is
 * queued and written only by threads that wait, before their call returns: who reads the connection for others must
 * not be held up by the program's stdout.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/log.h"
#include "internal.h"

enum { WIRE_PROCEDURES = 128 };

static struct {
    atomic_uint_fast64_t calls[WIRE_PROCEDURES];
    atomic_uint_fast64_t travelled, waited, local;
    atomic_uint_fast64_t serial, confirmed;
} wire;

struct text {
    struct text *next;
    int          fd;
    size_t       size;
    char         bytes[];
};
static struct {
    pthread_mutex_t lock, writing;    /* lock: the queue; writing: keeps its order on the way out */
    struct text    *first, **last;
    atomic_bool     any;
} texts = { .lock = PTHREAD_MUTEX_INITIALIZER, .writing = PTHREAD_MUTEX_INITIALIZER };

/* ---- printed text ---- */

void wire_queue_text(const flyt_text *text)
{
    size_t size = text->bytes.bytes_len;
    struct text *copy = size ? malloc(sizeof *copy + size) : NULL;
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

static struct text *text_take(void)
{
    pthread_mutex_lock(&texts.lock);
    struct text *text = texts.first;
    if (text)
        texts.first = text->next;
    atomic_store_explicit(&texts.any, texts.first != NULL, memory_order_release);
    pthread_mutex_unlock(&texts.lock);
    return text;
}

/* Through stdio, so that the order against the program's own printf is kept. */
void wire_print_texts(void)
{
    if (!atomic_load_explicit(&texts.any, memory_order_acquire))
        return;
    pthread_mutex_lock(&texts.writing);
    for (struct text *text; (text = text_take()); free(text)) {
        FILE *stream = text->fd == 2 ? stderr : stdout;
        fwrite(text->bytes, 1, text->size, stream);
        fflush(stream);
    }
    pthread_mutex_unlock(&texts.writing);
}

/* ---- heads ---- */

void wire_take_head(const flyt_head *head)
{
    for (unsigned i = 0; i < head->progress.progress_len; i++)
        stream_progress(head->progress.progress_val[i].stream, head->progress.progress_val[i].done);
    for (unsigned i = 0; i < head->printed.printed_len; i++)
        wire_queue_text(&head->printed.printed_val[i]);
    if (head->latched)
        session_latch(head->latched);
    if (head->sticky)
        session_set_sticky(head->sticky);
}

/* What a call gives whose transport failed. */
static int wire_failure(enum clnt_stat status)
{
    int sticky = atomic_load(&core_session.sticky);
    if (rpc_client_lost(core_session.client))
        return sticky ? sticky : CORE_DEVICE_UNAVAILABLE;
    switch (status) {
    case RPC_CANTENCODEARGS:
        return CORE_INVALID_VALUE;
    case RPC_PROCUNAVAIL:
        return CORE_NOT_SUPPORTED;
    case RPC_SYSTEMERROR:
        return CORE_OUT_OF_MEMORY;
    default:
        log_error("the GPU server gave an answer that cannot be used (%s); the connection is closed", clnt_sperrno(status));
        session_lost(NULL, "it broke the protocol");
        rpc_client_shutdown(core_session.client);
        return CORE_DEVICE_UNAVAILABLE;
    }
}

/* Settles a complete call's result. */
static void wire_settle(struct wire_call *call)
{
    if (call->rpc.status != RPC_SUCCESS) {
        call->result = wire_failure(call->rpc.status);
        return;
    }
    const flyt_head *head = call->rpc.result;
    wire_take_head(head);
    call->result = head->result;
    uint64_t confirmed = atomic_load(&wire.confirmed);
    while (confirmed < call->serial && !atomic_compare_exchange_weak(&wire.confirmed, &confirmed, call->serial))
        ;
}

static void wire_done(struct rpc_call *rpc, void *context)
{
    (void)rpc;
    struct wire_call *call = context;
    wire_settle(call);
    call->arrived(call);
}

/* ---- calls ---- */

uint64_t wire_next_serial(void)
{
    return atomic_load(&wire.serial) + 1;
}

uint64_t wire_confirmed(void)
{
    return atomic_load(&wire.confirmed);
}

static void wire_count(uint32_t procedure)
{
    atomic_fetch_add_explicit(&wire.travelled, 1, memory_order_relaxed);
    if (procedure < WIRE_PROCEDURES)
        atomic_fetch_add_explicit(&wire.calls[procedure], 1, memory_order_relaxed);
}

void wire_prepare(struct wire_call *call, uint32_t procedure, xdrproc_t encode, void *args, xdrproc_t decode, void *result)
{
    *call = (struct wire_call){ .rpc = { .procedure = procedure, .encode = encode, .args = args,
                                         .decode = decode, .result = result } };
}

void wire_submit(struct wire_call *call)
{
    wire_count(call->rpc.procedure);
    call->serial = atomic_fetch_add(&wire.serial, 1) + 1;
    rpc_client_submit(core_session.client, &call->rpc);      /* refused: complete, with its status */
}

void wire_submit_detached(struct wire_call *call, void (*arrived)(struct wire_call *))
{
    wire_count(call->rpc.procedure);
    call->serial = atomic_fetch_add(&wire.serial, 1) + 1;
    call->arrived = arrived;
    call->rpc.done = wire_done;
    call->rpc.context = call;
    if (rpc_client_submit(core_session.client, &call->rpc) != RPC_SUCCESS)
        wire_done(&call->rpc, call);          /* refused: done was not called */
}

int wire_wait(struct wire_call *call)
{
    atomic_fetch_add_explicit(&wire.waited, 1, memory_order_relaxed);
    rpc_client_wait(core_session.client, &call->rpc);
    wire_settle(call);
    wire_print_texts();
    return call->result;
}

bool wire_attend(struct wire_call *call)
{
    rpc_client_attend(core_session.client, &call->rpc);
    wire_settle(call);
    return call->rpc.status == RPC_SUCCESS;
}

int wire_round_trip(void)
{
    for (int i = 0; i < device_count(); i++) {
        if (!core_device_active(i))
            continue;
        stream_args args = { .stream = (flyt_id)device_find(i)->wire };
        int result = wire_plain(FLYT_STREAM_QUERY, (xdrproc_t)xdr_stream_args, &args);
        return result == CORE_NOT_READY ? CORE_OK : result;
    }
    return CORE_OK;
}

int wire_send(uint32_t procedure, xdrproc_t encode, void *args)
{
    struct rpc_call call = { .procedure = procedure, .encode = encode, .args = args };
    wire_count(procedure);
    enum clnt_stat status = rpc_client_submit(core_session.client, &call);
    if (status != RPC_SUCCESS)
        return wire_failure(status);
    return core_perf.no_async ? wire_round_trip() : CORE_OK;
}

int wire_call(uint32_t procedure, xdrproc_t encode, void *args, xdrproc_t decode, void *result)
{
    struct wire_call call;
    wire_prepare(&call, procedure, encode, args, decode, result);
    wire_submit(&call);
    return wire_wait(&call);
}

int wire_plain(uint32_t procedure, xdrproc_t encode, void *args)
{
    plain_result result = { 0 };
    int code = wire_call(procedure, encode, args, (xdrproc_t)xdr_plain_result, &result);
    xdr_free((xdrproc_t)xdr_plain_result, &result);
    return code;
}

/* ---- statistics ---- */

void core_count_local(void)
{
    atomic_fetch_add_explicit(&wire.local, 1, memory_order_relaxed);
}

void core_statistics(struct core_statistics *out)
{
    struct rpc_client_statistics rpc = { 0 };
    if (session_ready())
        rpc_client_statistics(core_session.client, &rpc);
    *out = (struct core_statistics){
        .travelled = atomic_load(&wire.travelled), .waited = atomic_load(&wire.waited), .local = atomic_load(&wire.local),
        .bytes_sent = rpc.bytes_sent, .bytes_received = rpc.bytes_received,
    };
}

void wire_report(void)
{
    struct core_statistics s;
    core_statistics(&s);
    fprintf(stderr, "flyt: %llu calls travelled, %llu of them waited for; %llu answered by the client alone; "
            "%llu bytes sent, %llu received over %s\n", (unsigned long long)s.travelled, (unsigned long long)s.waited,
            (unsigned long long)s.local, (unsigned long long)s.bytes_sent, (unsigned long long)s.bytes_received,
            session_ready() ? rpc_client_transport(core_session.client) : "nothing");
    for (unsigned i = 0; i < WIRE_PROCEDURES; i++) {
        uint64_t n = atomic_load(&wire.calls[i]);
        if (!n)
            continue;
        const char *name = i < rpc_flyt_program.count ? rpc_flyt_program.procedures[i].name : NULL;
        fprintf(stderr, "flyt:   %10llu %s\n", (unsigned long long)n, name ? name : "?");
    }
}
