/*
 * mover.c: see mover.h. The thread of this file lives while there is something to ask or to do. The program goes on
 * meanwhile, but for the time that move.c keeps its gate shut.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cpu/common/cancel.h"
#include "cpu/common/clock.h"
#include "cpu/common/log.h"
#include "cpu/rpc/manager_prot.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/session/attach.h"
#include "cpu/client/core/moves/mover.h"
#include "cpu/client/core/stream/move.h"
#include "cpu/client/core/wire/gate.h"
#include "cpu/client/core/wire/journal.h"

enum { AGAIN_LEAST_MS = 200, AGAIN_MOST_MS = 5000, LOOK_MS = 250, SUSPENDED_LOOK_MS = 50, APART_LOOK_MS = 1000 };

/* How the last move ended, while the client manager has not heard it: the thread's. */
static struct {
    uint64_t number, outage_us, bytes; /* number 0: it has */
    int code;
    char why[512];
} outcome;

static void report(void)
{
    if (outcome.number &&
        manager_tell_moved(outcome.number, outcome.code, outcome.why, outcome.outage_us, outcome.bytes))
        outcome.number = 0;
}

/* A client manager that began anew may be given the order once more that we have carried out, before it hears so. By
   its number it knows that it is being carried out, and does not refuse it, say because the session is suspended. */
static bool come_back(void) { return manager_come_back(outcome.number); }

static void pause_ms(uint64_t ms)
{
    nanosleep(&(struct timespec){ (time_t)(ms / 1000), (long)(ms % 1000 * CLOCK_NS_PER_MS) }, NULL);
}

/* With a journal this was asked when the session began (recover.c), and another thread may be making a file now. */
static void ask_folder(void)
{
    char folder[MANAGER_MAX_PATH + 1];
    if (journal_wished())
        return;
    manager_ask_store(folder, sizeof folder);
    move_store_folder(folder);
}

/* A move tries the addresses of the server in turn, until one answers. */
static int move_once(const struct manager_move *wish, struct move_order *order)
{
    int code = CORE_SYSTEM_NOT_READY;
    if (wish->action == MANAGER_ACTION_SUSPEND)
        ask_folder();
    if (wish->action == MANAGER_ACTION_SUSPEND)
        return wish->file ? session_suspend(order, wish->file) : CORE_OUT_OF_MEMORY;
    const struct checkpoint_order save = { wish->file, wish->base, wish->sealed ? &wish->seal : NULL };
    if (wish->action == MANAGER_ACTION_CHECKPOINT)
        return wish->file && wish->base ? session_checkpoint(order, &save) : CORE_OUT_OF_MEMORY;
    for (unsigned i = 0; i < wish->place.count; i++) {
        order->uri = wish->place.uris[i];
        code = session_suspended() ? session_resume(order) : session_move(order);
        if (order->reached)
            break;
    }
    return code;
}

static int meet(struct move_group *group, enum core_meeting where, char *why, size_t size)
{
    const struct manager_move *wish = group->context;
    return manager_meet_group(wish->number, (int)where, &group->partners, why, size);
}

enum next { NEXT_TRY, NEXT_NOT_IN_TIME, NEXT_NOT_WANTED };

/* Waits for the next try. The client manager hears of it: where the new server has seen the ticket, the cluster gives
   another one. */
static enum next wait_for_next(struct manager_move *wish, struct move_order *order, uint64_t until, uint64_t *again)
{
    struct move_limits ignored = { 0 };
    do {
        if (clock_now() + *again * CLOCK_NS_PER_MS >= until)
            return NEXT_NOT_IN_TIME;
        manager_report_progress(&(struct manager_progress_note){ .number = wish->number, .phase = MOVE_WAITS }, true,
                              &ignored);
        pause_ms(*again);
        *again = 2 * *again < AGAIN_MOST_MS ? 2 * *again : AGAIN_MOST_MS;
        if (!manager_move_is_wanted(wish))
            return NEXT_NOT_WANTED;
    } while (order->met && order->ticket == wish->place.ticket);
    order->met = false;
    order->ticket = wish->place.ticket;
    order->ticket_size = wish->place.ticket_size;
    return NEXT_TRY;
}

/* A program that does not come to rest goes on, and the move is tried again later. */
static void carry_out(struct manager_move *wish)
{
    char why[512] = "the client manager knows no address of the GPU server there";
    struct move_group group = { .meet = meet, .context = wish };
    struct move_order order = { .group = manager_takes_groups() ? &group : NULL,
                                .ticket = wish->place.ticket,
                                .ticket_size = wish->place.ticket_size,
                                .limit_ms = wish->patience_ms,
                                .number = wish->number,
                                .why = why,
                                .why_size = sizeof why };
    uint64_t until = clock_now() + wish->within_ms * CLOCK_NS_PER_MS, again = AGAIN_LEAST_MS;
    enum next next = NEXT_TRY;
    int code;
    move_hold("taken");
    while ((code = move_once(wish, &order)) == CORE_NOT_READY && !order.hopeless &&
           (next = wait_for_next(wish, &order, until, &again)) == NEXT_TRY)
        continue;
    if (next == NEXT_NOT_WANTED)
        return;
    /* The server that a suspended program has left has not been lost. */
    if (code && !session_suspended() && core_session.client && rpc_client_lost(core_session.client))
        snprintf(why, sizeof why, "its GPU server has ended, or is not reached any more");
    if (!code && wish->action == MANAGER_ACTION_SUSPEND)
        manager_note_suspended();
    else if (!code && wish->action == MANAGER_ACTION_MOVE)
        manager_note_server(wish->place.server);
    move_hold("moved");
    outcome.number = wish->number;
    outcome.code = code;
    outcome.outage_us = order.outage_ns / 1000;
    outcome.bytes = order.bytes;
    snprintf(outcome.why, sizeof outcome.why, "%s", code ? why : "");
    report();
    if (!code && wish->action == MANAGER_ACTION_MOVE)
        session_tell_transport();
}

static void take_order(void)
{
    struct manager_move wish;
    if (manager_ask_move(&wish))
        carry_out(&wish);
    else if (wish.ended)
        session_abandon(wish.ended);
    manager_move_free(&wish);
}

static void ask(void)
{
    if (manager_is_away() && come_back()) {
        report();
        manager_tell_session(session_number());
    }
    if (manager_has_news())
        take_order();
}

/* The process may be frozen at any moment (CRIU), which a connection forbids. So there is one only while we ask
   whether the session is to be resumed. */
static void look_from_apart(void)
{
    if (!outcome.number)
        manager_let_go();
    pause_ms(outcome.number ? SUSPENDED_LOOK_MS : APART_LOOK_MS);
    if (!come_back())
        return;
    report();
    take_order();
}

static void *mover_run(void *unused)
{
    (void)unused;
    cancel_state_off();
    gate_pass();
    ask();
    while (session_suspended()) { /* no helper looks meanwhile, since there is no server to listen to */
        if (session_apart()) {
            look_from_apart();
            continue;
        }
        pause_ms(SUSPENDED_LOOK_MS);
        ask();
    }
    atomic_store(&manager_in_use, false);
    return NULL;
}

void mover_look(void)
{
    static uint64_t looked;                   /* the helper's alone */
    uint64_t now = clock_now();
    if (now - looked < LOOK_MS * CLOCK_NS_PER_MS)
        return;
    looked = now;
    if (atomic_load_explicit(&manager_in_use, memory_order_relaxed) || !(manager_has_news() || manager_is_away()) ||
        atomic_exchange(&manager_in_use, true))
        return;
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, mover_run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        atomic_store(&manager_in_use, false);
        log_debug("no thread that asks the client manager for news: %s", strerror(error));
        return;
    }
    pthread_detach(thread);
}
