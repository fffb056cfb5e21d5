/*
 * keeper.c: see keeper.h.
 *
 * Two threads must not be in each other's way: the one that makes a checkpoint, and the one that makes a lost session
 * again from the journal (recover.c). The second holds the lock for as long as it reads journal and file. The first
 * takes it when everything is in a new file, and changes both in one step: before it a loss is repaired from the old
 * ones, after it from the new ones. If the server is lost while the file is written, the calls that read from it wait
 * for the session to be made again. The new session may hold other values where the program has not read any yet, so
 * the file is given up then.
 *
 * The files are a row: a whole one, and the changes since the one before. Merging them reads the files alone, and the
 * program goes on meanwhile; a loss is repaired from the row until the merged file takes its place. Only the thread
 * that makes checkpoints changes the row, so it may look at it without the lock.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/moves/keeper.h"
#include "cpu/client/core/moves/move_steps.h"
#include "cpu/client/core/moves/unanswered.h"
#include "cpu/client/core/stream/stream.h"
#include "cpu/client/core/wire/gate.h"
#include "cpu/client/core/wire/journal.h"
#include "cpu/client/core/wire/rehearsal.h"
#include "cpu/common/cancel.h"
#include "cpu/common/clock.h"
#include "cpu/common/log.h"

/* How long the program may take to come to rest: its threads wait meanwhile. */
enum { PATIENCE_LEAST_MS = 100, PATIENCE_MOST_MS = MOVE_LIMIT_MS };
#define AGAIN_LEAST_NS (200 * CLOCK_NS_PER_MS)
#define AGAIN_MOST_NS  (5 * CLOCK_NS_PER_SECOND)
/* When the changes have become as large as what they are changes of, or the row as long as FILES_MERGED, it is merged.
   Where that fails again and again, the next checkpoint is a whole one. */
enum { FILES_MERGED = 16, FILES_MOST = 32, CHANGES_LEAST = 1 << 20 };

static struct {
    pthread_mutex_t lock;
    struct move_store *store;
    uint64_t again, begun;              /* how often the session was made again; when reading began */
} kept = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct {
    pthread_mutex_t lock;               /* a leaf */
    pthread_cond_t wake;
    bool woken;
    uint64_t interval;
} keeper = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };

struct move_store *keeper_hold(void)
{
    pthread_mutex_lock(&kept.lock);
    return kept.store;
}

void keeper_release(bool again)
{
    kept.again += again;
    if (kept.store)
        move_store_rest(kept.store);
    pthread_mutex_unlock(&kept.lock);
}

void keeper_begins(void)
{
    pthread_mutex_lock(&kept.lock);
    kept.begun = kept.again;
    pthread_mutex_unlock(&kept.lock);
    journal_set_aside(true);
}

struct move_store *keeper_store(char *why, size_t size)
{
    struct move_store *older = kept.store;
    return move_store_kept(older && move_store_files(older).count < FILES_MOST ? older : NULL, why, size);
}

/* Under the lock. The new one may need the one that there was. */
static void store_take(struct move_store *store)
{
    if (!store || move_store_files(store).count == 1)
        move_store_free(kept.store);
    kept.store = store;
}

/* ---- the journal's new beginning ---- */

static int rehearse(struct move *move)
{
    rehearsal_begin();
    int code = move_note(move);
    const char *why = rehearsal_end();
    if (!why)
        return code;
    *move->why = 0;                     /* the reason is not that a server refuses something */
    return move_refuse(move, code, "%s", why);
}

static void number_count(struct client_stream *s, void *count)
{
    (void)s;
    ++*(size_t *)count;
}

static void number_put(struct client_stream *s, void *at)
{
    struct journal_progress **number = at;
    *(*number)++ = (struct journal_progress){ .stream = s->wire, .done = atomic_load(&s->numbered) };
}

static int numbers_note(struct move *move)
{
    size_t count = 0;
    stream_each(number_count, &count);
    struct journal_progress *at = (void *)journal_draft_add(JOURNAL_BEGUN, 0, 0, count * sizeof *at);
    if (!at)
        return move_refuse(move, CORE_OUT_OF_MEMORY, "its journal has no room for what it would begin with");
    stream_each(number_put, &at);
    return CORE_OK;
}

struct keeper_change {
    struct move *move;
    int code;
};

/* The calls by which this side listens to the server have no answer yet. There are no others. A host function whose end
   one of them says has ended for the next server, too, which never hears of it. */
static int take_along(struct move *move, const struct unanswered *calls)
{
    static const uint32_t nothing[2];     /* EVENTS: acknowledged, and no host function */
    for (size_t i = 0; i < calls->count; i++)
        if (calls->calls[i].procedure != FLYT_EVENTS)
            return move_refuse(move, CORE_NOT_READY, "a call was still under way");
    for (const struct journal_entry *entry = journal_next(NULL); entry; entry = journal_next(entry)) {
        if (entry->kind != JOURNAL_SENT || entry->procedure != FLYT_EVENTS || !unanswered_is(calls, entry))
            continue;
        uint8_t *room = journal_draft_add(entry->kind, entry->procedure, entry->xid, sizeof nothing);
        if (!room)
            return move_refuse(move, CORE_OUT_OF_MEMORY, "its journal has no room for what it would begin with");
        memcpy(room, nothing, sizeof nothing);
    }
    return CORE_OK;
}

/* Under the lock of the client: nothing is sent or heard meanwhile. */
static void change_over(void *context)
{
    struct keeper_change *change = context;
    struct unanswered calls = { 0 };
    if (!journal_on())
        change->code = move_refuse(change->move, 0, "it is not protected any more");
    else if (!unanswered_find(&calls))
        change->code = move_refuse(change->move, CORE_OUT_OF_MEMORY, "no memory");
    else
        change->code = take_along(change->move, &calls);
    if (!change->code && !journal_begin_anew())
        change->code = move_refuse(change->move, CORE_OUT_OF_MEMORY, "no memory");
    unanswered_free(&calls);
}

int keeper_note(struct move *move)
{
    struct keeper_change change = { .move = move };
    move_hold("written");
    pthread_mutex_lock(&kept.lock);
    if (!journal_on())
        change.code = move_refuse(move, 0, "it is not protected any more");
    else if (kept.begun != kept.again)
        change.code = move_refuse(move, CORE_NOT_READY, "its GPU server was lost meanwhile");
    else if (!journal_draft_open())
        change.code = move_refuse(move, CORE_OUT_OF_MEMORY, "no memory");
    if (!change.code)
        change.code = rehearse(move);
    if (!change.code)
        change.code = numbers_note(move);
    if (!change.code)
        rpc_client_locked(core_session.client, change_over, &change);
    if (!change.code) {
        store_take(move->store);
        move->store = NULL;
    }
    journal_draft_drop();
    pthread_mutex_unlock(&kept.lock);
    return change.code;
}

/* ---- the thread ---- */

void keeper_wake(void)
{
    pthread_mutex_lock(&keeper.lock);
    keeper.woken = true;
    pthread_cond_signal(&keeper.wake);
    pthread_mutex_unlock(&keeper.lock);
}

/* True: the journal fills. */
static bool wait_until(uint64_t due)
{
    const struct timespec until = clock_timespec(due);
    pthread_mutex_lock(&keeper.lock);
    while (!keeper.woken &&
           pthread_cond_clockwait(&keeper.wake, &keeper.lock, CLOCK_MONOTONIC, &until) != ETIMEDOUT)
        continue;
    bool woken = keeper.woken;
    keeper.woken = false;
    pthread_mutex_unlock(&keeper.lock);
    return woken;
}

/* The reason is said when it is another one than the last time. */
static void say_failed(const char *why)
{
    static char last[512];
    if (strncmp(why, last, sizeof last - 1) == 0)
        return;
    snprintf(last, sizeof last, "%s", why);
    log_warning("no checkpoint of what this program has on the GPU was made, and it will be tried again: %s", why);
}

/* Without the lock, but where the row changes: this thread alone changes it. */
static void merge(void)
{
    char why[256] = "";
    pthread_mutex_lock(&kept.lock);
    move_store_prune(kept.store);
    pthread_mutex_unlock(&kept.lock);
    const struct move_store_files files = move_store_files(kept.store);
    const uint64_t changes = files.count > 1 ? files.newest + files.between : 0;
    const uint64_t most = files.oldest > CHANGES_LEAST ? files.oldest : CHANGES_LEAST;
    if (files.count < FILES_MERGED && changes < most)
        return;
    struct move_store *merged = move_store_merge(kept.store, why, sizeof why);
    if (!merged) {
        say_failed(why);
        return;
    }
    log_debug("%u files of checkpoints became one", files.count);
    pthread_mutex_lock(&kept.lock);
    store_take(merged);
    pthread_mutex_unlock(&kept.lock);
}

static void say_kept(const struct move_order *order, uint64_t begun, uint64_t journal)
{
    const struct move_store_files files = move_store_files(kept.store);
    log_info("a checkpoint took %llu ms, and the program stood still for %llu ms: %llu KiB were read from the GPU, and "
             "%llu KiB written (file %u of its row); the journal had %llu KiB, and has %llu KiB",
             (unsigned long long)((clock_now() - begun) / CLOCK_NS_PER_MS),
             (unsigned long long)(order->outage_ns / CLOCK_NS_PER_MS), (unsigned long long)(order->bytes >> 10),
             (unsigned long long)(files.newest >> 10), files.count, (unsigned long long)(journal >> 10),
             (unsigned long long)(journal_bytes() >> 10));
}

static int keep(unsigned patience_ms)
{
    char why[512] = "";
    struct move_order order = { .limit_ms = patience_ms, .why = why, .why_size = sizeof why };
    uint64_t begun = clock_now(), journal = journal_bytes();
    int code = session_keep(&order);
    if (!code) {
        say_kept(&order, begun, journal);
        merge();
    } else if (code != CORE_NOT_READY && journal_on()) {
        say_failed(why);
    } else {
        log_debug("no checkpoint was made: %s", why);
    }
    return code;
}

static uint64_t due_next(void) { return keeper.interval ? clock_now() + keeper.interval : UINT64_MAX; }

/* Without checkpoints from time to time, the program is brought to rest so often for the one that it needs. */
enum { TRIES_MOST = 8 };

static void *keeper_run(void *unused)
{
    unsigned patience = PATIENCE_LEAST_MS, tries = 0;
    uint64_t again = AGAIN_LEAST_NS, due = due_next();
    (void)unused;
    cancel_state_off();
    gate_pass();
    while (journal_on()) {
        const bool woken = wait_until(due), awaits = !journal_protects();
        if (woken && keeper.interval)
            patience = PATIENCE_MOST_MS;
        again = woken ? AGAIN_LEAST_NS : again;
        due = due_next();
        if (!journal_on() || (!awaits && !(keeper.interval && journal_calls())))
            continue;
        const bool tried = session_ready() && !session_moving();
        if (tried && !keep(patience)) {
            patience = PATIENCE_LEAST_MS;
            again = AGAIN_LEAST_NS;
            tries = 0;
            due = due_next();
            continue;
        }
        tries += tried && awaits && !keeper.interval;
        if (tries == TRIES_MOST)
            journal_unprotect("no checkpoint of it could be made after it had moved");
        due = clock_now() + again;
        again = 2 * again < AGAIN_MOST_NS ? 2 * again : AGAIN_MOST_NS;
        patience = 2 * patience < PATIENCE_MOST_MS ? 2 * patience : PATIENCE_MOST_MS;
    }
    pthread_mutex_lock(&kept.lock);
    store_take(NULL);
    pthread_mutex_unlock(&kept.lock);
    return NULL;
}

void keeper_start(uint64_t interval)
{
    sigset_t all, before;
    pthread_t thread;
    keeper.interval = interval;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, keeper_run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        log_warning("recovery: no thread for checkpoints (%s): the journal only grows", strerror(error));
    else
        pthread_detach(thread);
}
