/*
 * link_copy.c: copies between GPU servers over links. See link_copy.h, and "Links" in cpu_rpc_prot.x.
 *
 * Each pair of servers has one link, made at the first copy between them. A copy is cut into parts. A part is SEND_BOX
 * at the server that has the bytes and RECEIVE_BOX at the other one. Nothing is asked for their name: both servers and
 * this process count the transfers of a link and direction, in the order of SEND_BOX at the sender.
 *
 * The streams that wait for each other: all parts are given to their two streams under one lock, so both of a pair
 * stand in the same order at both servers, and no two parts can wait for each other. What else these streams are given
 * must not wait for a later part.
 *
 * A link that cannot be made, or has failed, is not tried again: copies then pass through the program
 * (copy_across.c).
 */
#include "link_copy.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "copy_calls.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/wire.h"
#include "cpu/common/log.h"
#include "cpu/rpc/transport/liveness.h"

#define ENCODE(type) ((xdrproc_t)xdr_##type)
/* Of parts that pass through page-locked memory, which a server has 1 GiB of: so large they are at most; what they
   count for; so many bytes and parts are under way at a time. Of each size that a server rounds up to (1, 8, 64 MiB) it
   then has at most 32, 256 and 512 MiB. */
#define STAGED_PART ((uint64_t)64 << 20)
#define UNDER_WAY_MOST ((uint64_t)512 << 20)
enum { JOIN_MOST_S = 600, PARTS_MOST = 32 };

enum link_state { LINK_NEW, LINK_JOINED, LINK_NONE };

/* Of two servers. Its id at each of them is the number of the other one, which no other link of that session has. */
struct pair_link {
    atomic_int state;
    uint64_t sent[2];                 /* transfers of the lower numbered session, and of the other one; under posting */
};
static struct pair_link links[SESSIONS_MOST][SESSIONS_MOST];    /* the lower number first */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER, posting = PTHREAD_MUTEX_INITIALIZER;

static struct pair_link *link_of(const struct client_session *a, const struct client_session *b)
{
    return a->number < b->number ? &links[a->number][b->number] : &links[b->number][a->number];
}

/* ---- making it ---- */

struct link_end {
    struct client_session *session;
    struct link_end *other;
    link_listen_result handles;
    link_join_args args;
    link_join_result joined;
    char address[RPC_ERROR_SIZE];     /* where it connects, if it does */
    struct wire_call call;
};

static const char *reason(const char *why) { return why && *why ? why : "no reason was given"; }

static int end_listen(struct link_end *end, const char **why)
{
    link_listen_args args = { .link = end->other->session->number };
    int code = wire_call(end->session, FLYT_LINK_LISTEN, ENCODE(link_listen_args), &args, ENCODE(link_listen_result),
                         &end->handles);
    if (!code && !end->handles.handles.handles_len)
        code = CORE_NOT_SUPPORTED;
    if (code)
        *why = reason(end->handles.why);
    return code;
}

static void end_close(const struct link_end *end, const char *why)
{
    link_close_args args = { end->other->session->number, (char *)(uintptr_t)why };
    wire_send(end->session, FLYT_LINK_CLOSE, ENCODE(link_close_args), &args);
    rpc_client_flush(end->session->client);
}

/* As long as a server may be silent: one that stands still in the middle of it costs no more than at other times. */
static unsigned join_ms(void)
{
    int silence = rpc_silence_seconds();
    return (unsigned)(silence < JOIN_MOST_S ? silence : JOIN_MOST_S) * 1000;
}

static void end_join(struct link_end *end)
{
    const link_listen_result *theirs = &end->other->handles;
    end->args = (link_join_args){ .link = end->other->session->number,
                                  .server = *end->address ? end->address : end->other->session->uri,
                                  .handles = { theirs->handles.handles_len, theirs->handles.handles_val },
                                  .milliseconds = join_ms() };
    wire_prepare(&end->call, FLYT_LINK_JOIN, ENCODE(link_join_args), &end->args, ENCODE(link_join_result),
                 &end->joined);
    wire_submit(end->session, &end->call);
    rpc_client_flush(end->session->client);
}

/* Whether it is this end that connects. */
static bool end_calls(const struct link_end *end)
{
    return memcmp(end->handles.handles.handles_val[0] + FLYT_LINK_HANDLE_TURN,
                  end->other->handles.handles.handles_val[0] + FLYT_LINK_HANDLE_TURN, FLYT_LINK_HANDLE_TURN_SIZE) > 0;
}

/* Both at a time: each waits for the other one. The end that connects fails at once where it may not. Under the lock
   `making`. */
static int ends_join(struct link_end *calls, const char **why)
{
    struct link_end *waits = calls->other;
    static char said[RPC_ERROR_SIZE];
    const unsigned connections = waits->handles.handles.handles_len;
    int refused = session_link(calls->session, waits->session, connections, calls->address, said, sizeof said);
    if (refused) {
        *why = reason(said);
        return refused;
    }
    end_join(waits);
    end_join(calls);
    int code = wire_wait(&calls->call), later;
    if (code) {
        *why = reason(calls->joined.why);
        end_close(waits, "the other end could not connect");
    }
    later = wire_wait(&waits->call);
    if (!code && later)
        *why = reason(waits->joined.why);
    return code ? code : later;
}

static void end_free(struct link_end *end)
{
    if (end->handles.handles.handles_val)
        explicit_bzero(end->handles.handles.handles_val, end->handles.handles.handles_len * sizeof(flyt_link_handle));
    xdr_free(ENCODE(link_listen_result), &end->handles);
    xdr_free(ENCODE(link_join_result), &end->joined);
}

static int pair_join(struct client_session *a, struct client_session *b, const char **why, struct link_end ends[2])
{
    ends[0] = (struct link_end){ .session = a, .other = &ends[1] };
    ends[1] = (struct link_end){ .session = b, .other = &ends[0] };
    int code = end_listen(&ends[0], why);
    if (!code)
        code = end_listen(&ends[1], why);
    if (!code)
        code = ends_join(end_calls(&ends[0]) ? &ends[0] : &ends[1], why);
    return code;
}

static int uri_size(const struct client_session *session) { return (int)strcspn(session->uri, "?"); }

/* Under the lock `making`. */
static void pair_make(struct pair_link *link, struct client_session *a, struct client_session *b)
{
    struct link_end ends[2];
    const char *why = "";
    int code = pair_join(a, b, &why, ends);
    if (code) {
        end_close(&ends[0], "it could not be joined");
        end_close(&ends[1], "it could not be joined");
        log_warning("the GPU servers %.*s and %.*s cannot be linked: %s (%d). Copies between them pass through this "
                    "program",
                    uri_size(a), a->uri, uri_size(b), b->uri, why, code);
    } else {
        log_info("the GPU servers %.*s and %.*s are linked: copies between them go straight", uri_size(a), a->uri,
                 uri_size(b), b->uri);
    }
    end_free(&ends[0]);
    end_free(&ends[1]);
    atomic_store(&link->state, code ? LINK_NONE : LINK_JOINED);
}

bool link_copy_can(const core_context *to, const core_context *from)
{
    struct client_session *a = to->session, *b = from->session;
    struct pair_link *link = link_of(a, b);
    if (!a->box_links || !b->box_links)
        return false;
    if (atomic_load(&link->state) == LINK_NEW) {
        pthread_mutex_lock(&making);
        if (atomic_load(&link->state) == LINK_NEW)
            a->number < b->number ? pair_make(link, a, b) : pair_make(link, b, a);
        pthread_mutex_unlock(&making);
    }
    return atomic_load(&link->state) == LINK_JOINED;
}

void link_copy_end(const core_context *to, const core_context *from, int code)
{
    struct client_session *a = to->session, *b = from->session;
    int joined = LINK_JOINED;
    if (!atomic_compare_exchange_strong(&link_of(a, b)->state, &joined, LINK_NONE))
        return;
    struct link_end ends[2] = { { .session = a, .other = &ends[1] }, { .session = b, .other = &ends[0] } };
    end_close(&ends[0], "a transfer has failed");
    end_close(&ends[1], "a transfer has failed");
    if (!atomic_load(&a->sticky) && !atomic_load(&b->sticky))
        log_warning("the link of the GPU servers %.*s and %.*s has failed (%d). Copies between them pass through this "
                    "program from here on",
                    uri_size(a), a->uri, uri_size(b), b->uri, code);
}

/* ---- how much is under way ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t less;
    uint64_t bytes;
    unsigned parts;
} under_way = { .lock = PTHREAD_MUTEX_INITIALIZER, .less = PTHREAD_COND_INITIALIZER };

static bool passes_through(const struct client_stream *to, const struct client_stream *from,
                           const struct copy_span *span)
{
    return !to->context->session->link_views || !from->context->session->link_views || !copy_is_line(span) ||
           array_address(span->to.address) || array_address(span->from.address);
}

/* How many bytes of the server's page-locked memory a part takes; 0: it goes straight from where it is. */
static uint64_t part_counts(bool staged, uint64_t bytes)
{
    const uint64_t small = (uint64_t)1 << 20, medium = (uint64_t)8 << 20;
    return !staged ? 0 : bytes <= small ? small : bytes <= medium ? medium : STAGED_PART;
}

/* Waits until there is room. The parts that take it end without this thread: both their ends have been posted. */
static void room_take(uint64_t bytes)
{
    pthread_mutex_lock(&under_way.lock);
    while (bytes && under_way.parts &&
           (under_way.bytes + bytes > UNDER_WAY_MOST || under_way.parts == PARTS_MOST))
        pthread_cond_wait(&under_way.less, &under_way.lock);
    under_way.bytes += bytes;
    under_way.parts += bytes != 0;
    pthread_mutex_unlock(&under_way.lock);
}

static void room_give(uint64_t bytes)
{
    pthread_mutex_lock(&under_way.lock);
    under_way.bytes -= bytes;
    under_way.parts -= bytes != 0;
    pthread_cond_broadcast(&under_way.less);
    pthread_mutex_unlock(&under_way.lock);
}

/* ---- copies ---- */

struct link_copy {
    void (*done)(void *user, int code);
    void *user;
    atomic_uint left;                 /* parts that have not arrived, and one more while some are posted */
    atomic_int code;                  /* of the first that failed */
};

struct link_part {
    struct wire_call call;            /* first: part_arrived finds the rest by it */
    receive_box_args args;
    plain_result result;
    struct link_copy *copy;
    uint64_t bytes;                   /* that it counts for */
};

static void part_over(struct link_copy *copy, int code)
{
    int none = CORE_OK;
    if (code)
        atomic_compare_exchange_strong(&copy->code, &none, code);
    if (atomic_fetch_sub(&copy->left, 1) != 1)
        return;
    copy->done(copy->user, atomic_load(&copy->code));
    free(copy);
}

static void part_arrived(struct wire_call *call)
{
    struct link_part *part = (struct link_part *)call;
    room_give(part->bytes);
    part_over(part->copy, call->result);
    xdr_free(ENCODE(plain_result), &part->result);
    free(part);
}

/* Both ends, at one place in the order of all parts. */
static int part_post(struct client_stream *to, struct client_stream *from, const struct copy_span *span, bool staged,
                     struct link_copy *copy)
{
    struct client_session *target = to->context->session, *source = from->context->session;
    struct pair_link *link = link_of(target, source);
    struct link_part *part = calloc(1, sizeof *part);
    if (!part)
        return CORE_OUT_OF_MEMORY;
    part->copy = copy;
    part->bytes = part_counts(staged, copy_bytes(span));
    room_take(part->bytes);
    pthread_mutex_lock(&posting);
    uint64_t *sent = &link->sent[source->number > target->number];
    send_box_args args = { .stream = from->wire, .link = target->number, .box = wire_box(&span->from),
                           .extent = wire_extent(&span->extent), .transfer = *sent + 1 };
    int code = atomic_load(&link->state) == LINK_JOINED
                   ? stream_send(from, &(struct stream_call){ FLYT_SEND_BOX, ENCODE(send_box_args), &args,
                                                              .weighty = true }, NULL)
                   : CORE_DEVICE_UNAVAILABLE;
    if (!code) {
        part->args = (receive_box_args){ .stream = to->wire, .link = source->number, .box = wire_box(&span->to),
                                         .extent = wire_extent(&span->extent), .transfer = ++*sent };
        wire_prepare(&part->call, FLYT_RECEIVE_BOX, ENCODE(receive_box_args), &part->args, ENCODE(plain_result),
                     &part->result);
        atomic_fetch_add(&copy->left, 1);
        client_stream_submit(to, &part->call, part_arrived, NULL);     /* part is not ours any more */
    }
    pthread_mutex_unlock(&posting);
    if (code) {
        room_give(part->bytes);
        free(part);
        return code;
    }
    rpc_client_flush(source->client);
    rpc_client_flush(target->client);
    return CORE_OK;
}

int link_copy_begin(struct client_stream *to, struct client_stream *from, const struct copy_span *span,
                    void (*done)(void *user, int code), void *user)
{
    struct copy_cut left = copy_cut_begin(span);
    struct copy_span one;
    int code = CORE_OK;
    const bool staged = passes_through(to, from, span);
    bool any = false;
    struct link_copy *copy = calloc(1, sizeof *copy);
    if (!copy)
        return CORE_OUT_OF_MEMORY;
    *copy = (struct link_copy){ .done = done, .user = user };
    atomic_init(&copy->left, 1);
    while (!code && copy_cut_next(&left, staged ? STAGED_PART : FLYT_MAX_BOX_TRANSFER, &one)) {
        code = part_post(to, from, &one, staged, copy);
        any |= !code;
    }
    if (any)
        part_over(copy, code);
    else
        free(copy);
    return any ? CORE_OK : code;
}

struct link_waited {
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool is_over;
    int code;
};

static void waited_done(void *user, int code)
{
    struct link_waited *w = user;
    pthread_mutex_lock(&w->lock);
    w->code = code;
    w->is_over = true;
    pthread_cond_signal(&w->over);
    pthread_mutex_unlock(&w->lock);
}

int link_copy_wait(struct client_stream *to, struct client_stream *from, const struct copy_span *span)
{
    struct link_waited w = { .lock = PTHREAD_MUTEX_INITIALIZER, .over = PTHREAD_COND_INITIALIZER };
    int code = link_copy_begin(to, from, span, waited_done, &w);
    if (code)
        return code;
    /* The parts' replies come before that of this wait, which reads them itself. The helper thread might not read for a
       millisecond, since somebody else has just read. Errors come with the parts. */
    stream_wait_for(to);
    pthread_mutex_lock(&w.lock);
    while (!w.is_over)
        pthread_cond_wait(&w.over, &w.lock);
    pthread_mutex_unlock(&w.lock);
    pthread_mutex_destroy(&w.lock);
    pthread_cond_destroy(&w.over);
    return w.code;
}
