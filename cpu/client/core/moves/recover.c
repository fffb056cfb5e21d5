/*
 * recover.c: see recover.h.
 *
 * What the session sends and is answered is written down (wire/journal.h). When the connection is lost, the rpc layer
 * holds all calls (cpu/rpc/call/renew.c), and a thread of this file connects to another server, or to the same one
 * again, repeats everything there (replay.h), and gives the new connection to the client that the session has. Threads
 * that wait for an answer get it from the new server; ids and addresses are the ones that the program has.
 *
 * Every value that the program has been given must come out the same, bit for bit. Where one does not, or nobody is
 * there to go on with, the loss counts as it would without recovery, and the reason is said.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu/client/core/session/attach.h"
#include "cpu/client/core/session/attach_wait.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/moves/journal_calls.h"
#include "cpu/client/core/moves/keeper.h"
#include "cpu/client/core/moves/mover.h"
#include "cpu/client/core/moves/move_steps.h"
#include "cpu/client/core/stream/move.h"
#include "cpu/client/core/wire/device.h"
#include "cpu/client/core/wire/gate.h"
#include "cpu/client/core/wire/journal.h"
#include "cpu/common/cancel.h"
#include "cpu/common/clock.h"
#include "cpu/common/log.h"
#include "cpu/common/recovery_wish.h"
#include "cpu/rpc/manager_prot.h"
#include "recover.h"
#include "replay.h"
#include "suspects.h"

/* LOSSES_MOST: a call that makes a server end would make every other one end too, during the replay or after it. */
enum { AGAIN_MS = 200, LOSSES_MOST = 5, REFUSALS_MOST = 15, REASON = 2 * RPC_ERROR_SIZE + 64 };
/* How long the thread goes on trying to reach a server: without a cluster, at the address that the user gave; in a
   cluster, from the client manager's first answer on (the wait in the queue comes before, and does not count). */
#define RECOVER_NS (60 * CLOCK_NS_PER_SECOND)

static struct {
    rpc_client *client; /* the session's, for good */
    unsigned losses;    /* of servers since the program last got further, but for the first one */
    uint64_t since;     /* when the session began to use the server */
    uint64_t interval;  /* nanoseconds between checkpoints; 0: none are made */
    struct move_store *store; /* the checkpoint with which the journal begins, while the session is made again */
    char reason[RPC_ERROR_SIZE];
} recovery;

/* ---- wishes ---- */

void recover_setup(const char *wish)
{
    struct recovery_wish wanted;
    if (!recovery_wish_parse(wish ? wish : "", &wanted))
        log_warning("recovery \"%s\" is not known: write off, journal, journal:SIZE (256M, 2G), checkpoint:TIME "
                    "(30s, 5m) or checkpoint:TIME:SIZE. This program is not protected",
                    wish);
    journal_wish(wanted.journal);
    recovery.interval = wanted.interval_ms * CLOCK_NS_PER_MS;
}

void recover_ask(void)
{
    char wish[MANAGER_MAX_NAME + 1];
    manager_ask_recovery(wish, sizeof wish);
    recover_setup(wish);
}

void recover_refuse(const char *why)
{
    if (!journal_wished())
        return;
    recover_setup("off");
    journal_refuse(why);
}

void recover_bound(void)
{
    char folder[MANAGER_MAX_PATH + 1];
    if (!journal_wished())
        return;
    const uint64_t most = manager_ask_store(folder, sizeof folder);
    move_store_folder(folder);
    if (most && most < journal_wished())
        journal_wish(most);
}

/* ---- another server ---- */

static struct move move_begin(struct move_order *order, char *why, size_t size)
{
    struct move move = { .order = order, .why = why, .why_size = size };
    *why = 0;
    order->why = why;
    order->why_size = size;
    return move;
}

/* Its devices must have the same numbers: calls name them by these. */
static int devices_equal(struct move *move)
{
    for (int i = 0; i < device_count(); i++)
        if (move->at[MOVE_TARGET].devices[i] != client_device_find(i)->wire)
            return move_refuse(move, 0, "the new server has its devices in another order");
    uint64_t lacks = core_session.hello.capabilities & ~move->at[MOVE_TARGET].hello.capabilities;
    if (lacks & ~(uint64_t)FLYT_CAP_ROOM)
        return move_refuse(move, 0, "the new server is of another version, or lacks something that this one had");
    return move_ask_devices(move);
}

/* A thread may just be naming the old one, so all that there were stay. */
static void uri_adopt(const char *uri)
{
    static struct old_uri {
        char *uri;
        struct old_uri *older;
    } * old;
    if (strcmp(uri, core_session.uri) == 0)
        return;
    struct old_uri *kept = malloc(sizeof *kept);
    char *copy = kept ? strdup(uri) : NULL;
    if (!copy) {
        free(kept);
        return;
    }
    *kept = (struct old_uri){ core_session.uri, old };
    old = kept;
    core_session.uri = copy;
}

/* REFUSED: the server does not take this ticket. */
enum end { RECOVERED, NOT_REACHED, REFUSED, NOT_REPEATED };

/* Counts the loss of a server. True: the program gives up; why says the reason. */
static bool lost_again(char *why, size_t size)
{
    if (++recovery.losses < LOSSES_MOST)
        return false;
    snprintf(why, size, "%u GPU servers were lost one after the other, and it got no further with any of them",
             (unsigned)LOSSES_MOST + 1);
    return true;
}

static enum end go_on(struct move *move, const char *uri)
{
    rpc_client *next = move->at[MOVE_TARGET].client;
    uint64_t begun = clock_now();
    rpc_client_follow(next, recovery.client);
    struct replay *replay = replay_begin(next, recovery.store);
    bool repeated = replay && replay_run(replay, move->why, move->why_size);
    recovery.since = clock_now();
    /* First: calls that wait go on with the new server's answers, and what follows them may name the session. */
    if (repeated)
        session_name(move->at[MOVE_TARGET].hello.session, move->at[MOVE_TARGET].hello.nonce);
    bool over = repeated && replay_hand_over(replay, recovery.client);
    bool lost = !over && rpc_client_lost(next);
    if (over) {
        uri_adopt(uri);
        log_warning(
            "the session goes on at %s: %llu MiB of calls were repeated there in %llu ms, with the same answers", uri,
            (unsigned long long)(journal_bytes() >> 20), (unsigned long long)((clock_now() - begun) / CLOCK_NS_PER_MS));
    } else {
        rpc_client_destroy(next);
    }
    if (replay)
        replay_end(replay);
    if (lost && lost_again(move->why, move->why_size))
        return NOT_REPEATED;
    return over ? RECOVERED : lost || repeated ? NOT_REACHED : NOT_REPEATED;
}

static enum end try_at(const char *uri, const struct manager_place *place, char *why, size_t size)
{
    struct move_order order = { .uri = uri, .ticket = place->ticket, .ticket_size = place->ticket_size };
    struct move move = move_begin(&order, why, size);
    enum end end = NOT_REACHED;
    if (session_reach(&move, NULL, NULL))
        return end;
    rpc_client *next = move.at[MOVE_TARGET].client;
    if (session_meet(&move) || devices_equal(&move)) {
        const char *refusal = move.at[MOVE_TARGET].hello.refusal;
        end = rpc_client_lost(next) ? NOT_REACHED : refusal && *refusal ? REFUSED : NOT_REPEATED;
        rpc_client_destroy(next);
    } else {
        end = go_on(&move, uri); /* which frees the client, or gives its connection away */
    }
    xdr_free((xdrproc_t)xdr_hello_result, &move.at[MOVE_TARGET].hello);
    return end;
}

static enum end try_place(const struct manager_place *place, char *why, size_t size)
{
    enum end end = NOT_REACHED;
    for (unsigned i = 0; i < place->count && end == NOT_REACHED; i++)
        end = try_at(place->uris[i], place, why, size);
    return end;
}

static void pause_again(void) { nanosleep(&(struct timespec){ 0, AGAIN_MS * CLOCK_NS_PER_MS }, NULL); }

/* At the address that the user gave: the server, or another one that is started there. */
static enum end try_same(char *why, size_t size)
{
    struct manager_place place = { .uris = { strdup(core_session.uri) }, .count = 1 };
    enum end end = NOT_REACHED;
    for (uint64_t until = clock_now() + RECOVER_NS; place.uris[0] && end == NOT_REACHED && clock_now() < until;) {
        end = try_place(&place, why, size);
        if (end == NOT_REACHED)
            pause_again();
    }
    free(place.uris[0]);
    return end;
}

/* A thread that is about to move the session may itself wait for the server that was lost, and never get done. */
static bool take_manager(void)
{
    enum { TRIES = 50 };
    unsigned tries = 0;
    while (atomic_exchange(&manager_in_use, true))
        if (++tries == TRIES)
            return false;
        else
            pause_again();
    return true;
}

/* As at its start, the program waits in the queue where its VM may. */
static enum end try_cluster(char *why, size_t size)
{
    struct manager_place place;
    enum end end = NOT_REACHED;
    unsigned refused = 0;
    if (!take_manager()) {
        snprintf(why, size, "a move of it was just beginning");
        return NOT_REPEATED;
    }
    attach_wait_begin();
    int code = manager_ask_again(&place);
    for (uint64_t until = clock_now() + RECOVER_NS; !code && clock_now() < until;) {
        end = try_place(&place, why, size);
        /* Tickets that are as old as the loss may be revoked with it: a new one is asked for. */
        if (end != NOT_REACHED && (end != REFUSED || ++refused > REFUSALS_MOST))
            break;
        pause_again();
        uint64_t before = place.server;
        code = end == REFUSED ? CORE_OK : manager_ask_other(&place, why);
        if (code || place.server != before)
            continue;
        manager_place_free(&place); /* the cluster may have learnt meanwhile that the server is gone */
        code = manager_ask_again(&place);
    }
    attach_wait_end(0);
    atomic_store(&manager_in_use, false);
    manager_place_free(&place);
    if (code)
        snprintf(why, size, "the cluster has no GPU server for it (error %d)", code);
    if (!code && end == RECOVERED)
        session_tell_transport();
    return code ? NOT_REPEATED : end;
}

/* ---- the loss ---- */

static void *recover_run(void *unused)
{
    char why[RPC_ERROR_SIZE] = "", reason[REASON];
    (void)unused;
    cancel_state_off();
    gate_pass();
    uint64_t begun = clock_now();
    rpc_client_rest(recovery.client);
    enum end end = NOT_REPEATED;
    recovery.store = keeper_hold();
    if (suspects_cleared(recovery.since))
        recovery.losses = 0;
    else
        lost_again(why, sizeof why);
    if (!*why)
        end = core_session.managed ? try_cluster(why, sizeof why) : try_same(why, sizeof why);
    keeper_release(end == RECOVERED);
    if (end == RECOVERED) {
        manager_tell_recovery(MANAGER_RECOVERY_RECOVERED, "", (clock_now() - begun) / 1000, journal_bytes());
        return NULL;
    }
    manager_tell_recovery(MANAGER_RECOVERY_FAILED, why, (clock_now() - begun) / 1000, journal_bytes());
    snprintf(reason, sizeof reason, "%s; and the session could not be made again: %s", recovery.reason,
             *why ? why : "no GPU server was there");
    journal_unprotect("its session could not be made again");
    rpc_client_renounce(recovery.client, reason);
    return NULL;
}

/* Of a program that does not move, and that is not just beginning. */
static bool holds(struct rpc_recorder *recorder)
{
    (void)recorder;
    return journal_protects() && session_ready() && (!session_moving() || session_keeps());
}

static void lost(struct rpc_recorder *recorder, const char *reason)
{
    sigset_t all, before;
    pthread_t thread;
    (void)recorder;
    progress_forget();
    snprintf(recovery.reason, sizeof recovery.reason, "%s", reason);
    log_warning("the connection to the GPU server %s is lost: %s. The program waits while its session is made again",
                core_session.uri, reason);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, recover_run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        rpc_client_renounce(recovery.client, reason);
    else
        pthread_detach(thread);
}

static struct rpc_recorder recorder = {
    .sent = journal_call_sent, .answered = journal_call_answered, .holds = holds, .lost = lost
};

void recover_watch(void)
{
    if (!journal_wished())
        return;
    if (core_session.in_process) {
        log_warning("recovery: a server in the program's own process is lost only with the program");
        return;
    }
    recovery.client = core_session.client;
    if (journal_open(recovery.interval != 0)) {
        rpc_client_record(recovery.client, &recorder);
        keeper_start(recovery.interval);
    } else {
        char why[64];
        snprintf(why, sizeof why, "no memory for a journal of %zu MiB", journal_wished() >> 20);
        journal_refuse(why);
    }
}

void recover_leaves(const char *why)
{
    if (!journal_on())
        return;
    rpc_client_record(recovery.client, NULL);
    journal_forget(why);
}

void recover_arrives(void)
{
    if (!journal_on())
        return;
    recovery.client = core_session.client;
    recovery.losses = 0;
    rpc_client_record(recovery.client, &recorder);
    keeper_wake();
}
