/*
 * reply.c: what every reply begins with: result, latched and sticky error, completed numbers, printed text.
 *
 * A latched error goes with the first reply after it and is gone. A sticky one goes with every reply that a thread of
 * the program waits for, and with it what kernels have printed: the client answers later calls by itself, and a report
 * of what went wrong would be lost. A stream's completed number goes once per change, never in a reply that leaves an
 * error behind. All under report.lock, so that any thread may answer; `news` says whether there is anything to report,
 * so that most replies need no lock. The answering thread has seen what happened before its call by whatever orders the
 * two.
 *
 * Over shared memory the completed numbers of the first ids are also published there, for clients that look instead of
 * asking; and only while no error is waiting to be reported, because a client that finds its work ended asks no more.
 * When the client has forgotten a stream, its word becomes 0 for the next one of that id: `dead` is set before
 * report_forget, so nothing is published after it.
 */
#include "cpu/server/session.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/common/lock.h"
#include "cpu/server/call/text.h"
#include "cpu/server/tenant/figures.h"
#include "cpu/server/tenant/tenant.h"

/* So many streams a reply speaks of at most, others when the next one leaves: the stack of every thread that answers is
   touched as far as that. */
enum { HEAD_PROGRESS = 64 };
_Static_assert((int)HEAD_PROGRESS <= (int)FLYT_MAX_PROGRESS, "more than the protocol carries");

/* CUDA says of these that the process must end before CUDA can be used again, and 710 until a device reset. */
static bool code_is_sticky(CUresult code)
{
    switch ((int)code) {
    case 214: case 220:                             /* uncorrectable ECC and NVLink errors */
    case 700: case 702:                             /* illegal address, launch timeout */
    case 710:                                       /* assert */
    case 714: case 715: case 716: case 717: case 718: case 719:
    case 721:                                       /* tensor memory leak */
        return true;
    default:
        return false;
    }
}

static void report_news(struct report *report)
{
    FLYT_ASSERT_HELD(&report->lock);
    /* release, with the acquire in reply_send: whoever sees it takes the lock and finds what it speaks of */
    atomic_store_explicit(&report->news, report->latched || report->sticky || list_first(&report->dirty),
                          memory_order_release);
}

void report_note(struct session *session, CUresult code)
{
    if (!code_is_sticky(code))
        return;
    pthread_mutex_lock(&session->report.lock);
    bool first = !session->report.sticky;
    if (first)
        session->report.sticky = code;
    report_news(&session->report);
    pthread_mutex_unlock(&session->report.lock);
    if (first)
        tenant_fault((int)code);
}

void report_latch(struct session *session, CUresult code)
{
    figure_add_shared(&session->figures->errors);
    pthread_mutex_lock(&session->report.lock);
    if (!session->report.latched)
        session->report.latched = code;
    report_news(&session->report);
    pthread_mutex_unlock(&session->report.lock);
}

CUresult report_sticky(struct session *session)
{
    pthread_mutex_lock(&session->report.lock);
    CUresult code = session->report.sticky;
    pthread_mutex_unlock(&session->report.lock);
    return code;
}

void report_clear_sticky(struct session *session, CUresult which)
{
    pthread_mutex_lock(&session->report.lock);
    bool was = session->report.sticky == which;
    if (was)
        session->report.sticky = CUDA_SUCCESS;
    if (session->report.latched == which) /* of a call that failed because of it */
        session->report.latched = CUDA_SUCCESS;
    report_news(&session->report);
    pthread_mutex_unlock(&session->report.lock);
    if (was)
        tenant_fault(0);
}

void report_share(struct session *session)
{
    struct rpc_shared_memory shared;
    rpc_server_shared_memory(session->server, &shared);
    pthread_mutex_lock(&session->report.lock);
    session->report.numbers = shared.numbers;
    session->report.number_count = shared.number_count;
    pthread_mutex_unlock(&session->report.lock);
}

/* The release makes what the stream's copies wrote into shared memory visible to a client that sees the number. */
static void ledger_publish(struct report *report, const struct stream *stream, uint64_t number)
{
    FLYT_ASSERT_HELD(&report->lock);
    if (report->numbers && stream->id < report->number_count)
        atomic_store_explicit(&report->numbers[stream->id], number, memory_order_release);
}

void report_progress(struct session *session, struct stream *stream)
{
    pthread_mutex_lock(&session->report.lock);
    if (!stream->dead && !session->report.latched && !session->report.sticky)
        ledger_publish(&session->report, stream, atomic_load(&stream->done));
    if (!list_linked(&stream->dirty) && !stream->dead) {  /* a dead one's id may name another by now */
        stream_hold(stream);
        list_append(&session->report.dirty, &stream->dirty);
        report_news(&session->report);
    }
    pthread_mutex_unlock(&session->report.lock);
}

/* The client has forgotten the stream's id: nothing more is said of it. */
void report_forget(struct session *session, struct stream *stream)
{
    pthread_mutex_lock(&session->report.lock);
    ledger_publish(&session->report, stream, 0);
    bool was_dirty = list_linked(&stream->dirty);
    list_remove(&stream->dirty);
    pthread_mutex_unlock(&session->report.lock);
    if (was_dirty)
        stream_drop(session, stream);
}

void report_stop(struct session *session)
{
    for (struct list *link;;) {
        pthread_mutex_lock(&session->report.lock);
        if ((link = list_first(&session->report.dirty)))
            list_remove(link);
        pthread_mutex_unlock(&session->report.lock);
        if (!link)
            return;
        stream_drop(session, LIST_OBJECT(link, struct stream, dirty));
    }
}

/* Fills the head, with errors if a thread of the program waits for it. The streams that it speaks of are to be dropped
   once it was sent. */
static unsigned head_fill(struct report *report, flyt_head *head, bool waited, flyt_progress progress[HEAD_PROGRESS],
                          struct stream *said[HEAD_PROGRESS])
{
    unsigned count = 0;
    pthread_mutex_lock(&report->lock);
    if (waited) {
        head->latched = (int)report->latched;
        head->sticky = (int)report->sticky;
        report->latched = CUDA_SUCCESS;
    }
    bool left = report->latched || (report->sticky && !waited);
    for (struct list *link; !left && count < HEAD_PROGRESS && (link = list_first(&report->dirty));) {
        struct stream *stream = LIST_OBJECT(link, struct stream, dirty);
        list_remove(link);
        said[count] = stream;
        progress[count++] = (flyt_progress){ .stream = stream->id, .done = atomic_load(&stream->done) };
    }
    report_news(report);
    pthread_mutex_unlock(&report->lock);
    return count;
}

/* waited: a thread of the program waits for it. */
static void reply_send(struct session *session, uint32_t xid, xdrproc_t encode, void *result, CUresult code,
                       bool speaks, bool waited)
{
    struct report *report = &session->report;
    flyt_head *head = result;
    flyt_progress progress[HEAD_PROGRESS];
    struct stream *said[HEAD_PROGRESS];
    unsigned count = 0;

    report_note(session, code);
    if (__builtin_expect(code != CUDA_SUCCESS && code != CUDA_ERROR_NOT_READY, 0))
        figure_add_shared(&session->figures->errors);
    head->result = (int)code;
    speaks = report->text && (speaks || (waited && atomic_load(&report->news) && report_sticky(session)));
    if (speaks)
        pthread_mutex_lock(&report->speak);
    if (atomic_load_explicit(&report->news, memory_order_acquire))
        count = head_fill(report, head, waited, progress, said);
    head->progress.progress_val = progress;
    head->progress.progress_len = count;
    if (speaks)
        text_collect(report->text, head);

    if (rpc_server_reply(session->server, xid, encode, result) != 0)
        session_end(session, "a reply could not be sent");
    if (speaks)
        pthread_mutex_unlock(&report->speak);

    head->progress.progress_val = NULL;
    head->progress.progress_len = 0;
    text_free(head);
    for (unsigned i = 0; i < count; i++)
        stream_drop(session, said[i]);
}

void session_reply(struct session *session, uint32_t xid, xdrproc_t encode, void *result, CUresult code, bool speaks)
{
    reply_send(session, xid, encode, result, code, speaks, true);
}

void session_say(struct session *session, uint32_t xid, events_result *result)
{
    reply_send(session, xid, (xdrproc_t)xdr_events_result, result, CUDA_SUCCESS, false, false);
}

void session_reply_plain(struct session *session, uint32_t xid, CUresult code, bool speaks)
{
    plain_result result;
    memset(&result, 0, sizeof result);
    session_reply(session, xid, (xdrproc_t)xdr_plain_result, &result, code, speaks);
}
