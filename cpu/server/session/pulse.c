/*
 * pulse.c: the thread by which the client knows that the server lives, and the server that the client's machine is
 * there. docs/liveness.md has the rule and its times.
 *
 * It beats (rpc_server_beat) whatever the other threads do: while the reader waits for room, while the device computes,
 * while the driver takes its time. It asks for a higher priority than theirs, and gets it where the system allows that,
 * so that kernels of the software GPU cannot keep it from the processor.
 *
 * It falls silent while one of them is stuck in our own code, since a client that waits for an answer that never comes
 * had better be told. Stuck is who has been dealing with the same thing for STUCK parts of the silence that a client
 * bears, and was neither in the driver nor held up by a client that does not take what is sent to it. Time in which
 * this process did not run does not count.
 *
 * It ends the session when the client's machine has not answered for that silence, and when the client has closed the
 * connection and the reader does not see it, as it waits for room. A client that is only stopped is left alone.
 */
#include "cpu/server/session.h"

#include <errno.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/log.h"
#include "cpu/rpc/transport/liveness.h"
#include "cpu/server/tenant/usage.h"

enum { TICKS = 8, STUCK = 8, STUCK_OF = 10, PRIORITY = -10 };

/* Something that has to move on. */
struct watched { uint64_t seen, since; };

/* busy: with what `count` stands for; excused: if it takes long, it is for others' reasons. */
static bool is_stuck(struct watched *w, uint64_t count, bool busy, bool excused, uint64_t now, uint64_t most)
{
    if (!busy || excused || count != w->seen) {
        *w = (struct watched){ count, now };
        return false;
    }
    return now - w->since >= most;
}

struct pulse_watch { struct clock_run run; struct watched executor, reader, completion; };

/* Who is stuck; NULL: nobody. */
static const char *look(struct session *session, struct pulse_watch *watch, uint64_t tick)
{
    const struct executor *e = &session->executor;
    const struct completion *c = &session->completion;
    const uint64_t most = (uint64_t)rpc_silence_seconds() * CLOCK_NS_PER_SECOND / STUCK_OF * STUCK;
    uint64_t now = clock_run_look(&watch->run, clock_now(), tick);
    uint64_t served = atomic_load_explicit(&e->served, memory_order_relaxed);
    uint64_t turns = atomic_load_explicit(&c->turns, memory_order_relaxed);
    uint64_t taken = atomic_load_explicit(&session->pulse.reader, memory_order_relaxed);
    bool excused = atomic_load_explicit(&e->in_driver, memory_order_relaxed) || rpc_server_writing(session->server);
    bool asking = excused || atomic_load_explicit(&c->in_driver, memory_order_relaxed);
    bool full = atomic_load_explicit(&e->full, memory_order_relaxed);
    const char *who = NULL;
    if (is_stuck(&watch->executor, served, served % 2 != 0, excused, now, most))
        who = "a call is being served";
    if (is_stuck(&watch->reader, taken, taken % 2 != 0, excused || full, now, most))
        who = "the reader deals with a call";
    if (is_stuck(&watch->completion, turns, true, asking, now, most))
        who = "the completion thread has not come round";
    return who;
}

static void note_stuck(struct session *session, const char *who)
{
    if ((who != NULL) == atomic_exchange(&session->pulse.stuck, who != NULL))
        return;
    if (who)
        log_error("event=session-stuck session=%llu program=%s why=\"%s for %d seconds\": this is an error in Flyt; "
                  "the client will take "
                  "the server for dead",
                  (unsigned long long)session->id, session->client, who, rpc_silence_seconds() * STUCK / STUCK_OF);
    else
        log_warning("event=session-goes-on session=%llu program=%s", (unsigned long long)session->id, session->client);
}

static void check_client(struct session *session)
{
    char why[128];
    int status = rpc_server_peer(session->server);
    bool suspended = status == -EHOSTDOWN, was = session->pulse.suspended;
    if (suspended != was && (suspended || status == 0)) {
        session->pulse.suspended = suspended;
        log_info("event=session-%s session=%llu program=%s", suspended ? "suspended" : "resumed",
                 (unsigned long long)session->id, session->client);
    }
    if (status == -ECONNRESET && atomic_load(&session->executor.full)) {
        session_end(session, "the connection is closed, with calls unread");
    } else if (status == -ETIMEDOUT) {
        int seconds = was ? rpc_reclaim_seconds() : rpc_silence_seconds();
        snprintf(why, sizeof why, "its machine has not answered for %d seconds", seconds);
        session_end(session, why);
    }
}

static void *pulse_main(void *context)
{
    prctl(PR_SET_NAME, "flyt-pulse");
    struct session *session = context;
    struct pulse *pulse = &session->pulse;
    const uint64_t interval = rpc_beat_interval(), tick = interval / TICKS;
    struct pulse_watch watch = { .run = { .looked = clock_now() } };
    /* of this thread; refused to ordinary users, who do without */
    setpriority(PRIO_PROCESS, (id_t)gettid(), PRIORITY);
    pthread_mutex_lock(&pulse->lock);
    while (!pulse->stop) {
        struct timespec until = clock_timespec(clock_now() + tick);
        pthread_cond_clockwait(&pulse->wake, &pulse->lock, CLOCK_MONOTONIC, &until);
        pthread_mutex_unlock(&pulse->lock);
        note_stuck(session, look(session, &watch, tick));
        usage_look(session, tick);
        if (!atomic_load(&session->ended))
            check_client(session);
        if (atomic_load(&session->greeted) && session->beats && !atomic_load(&pulse->stuck))
            rpc_server_beat(session->server, interval);
        pthread_mutex_lock(&pulse->lock);
    }
    pthread_mutex_unlock(&pulse->lock);
    return NULL;
}

int pulse_start(struct session *session)
{
    struct pulse *pulse = &session->pulse;
    if (session->in_process)                              /* nobody there takes the other for dead */
        return 0;
    pthread_mutex_init(&pulse->lock, NULL);
    pthread_cond_init(&pulse->wake, NULL);
    int r = pthread_create(&pulse->thread, NULL, pulse_main, session);
    pulse->started = r == 0;
    return r;
}

void pulse_stop(struct session *session)
{
    struct pulse *pulse = &session->pulse;
    if (!pulse->started)
        return;
    pthread_mutex_lock(&pulse->lock);
    pulse->stop = true;
    pthread_cond_signal(&pulse->wake);
    pthread_mutex_unlock(&pulse->lock);
    pthread_join(pulse->thread, NULL);
    pthread_cond_destroy(&pulse->wake);
    pthread_mutex_destroy(&pulse->lock);
    pulse->started = false;
}
