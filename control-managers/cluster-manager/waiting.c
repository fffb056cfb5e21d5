/* waiting.c: the one call of each connection that waits for news. */
#include "control-managers/cluster-manager/cluster.h"

struct cluster_session *session_of(struct conn *conn)
{
    return conn_context(conn);
}

static void unwatch(struct cluster_session *session)
{
    if (!session->watch_back)
        return;
    *session->watch_back = session->watch_next;
    if (session->watch_next)
        session->watch_next->watch_back = session->watch_back;
    session->watch_back = NULL;
}

void session_watch(struct cluster_session *session)
{
    session->watch_next = session->cluster->watchers;
    session->watch_back = &session->cluster->watchers;
    if (session->watch_next)
        session->watch_next->watch_back = &session->watch_next;
    session->cluster->watchers = session;
}

static void beat_due(struct loop_timer *timer, void *context)
{
    (void)timer;
    session_wake(context);
}

void session_wait(struct cluster_session *session, struct loop_call *call, void (*answer)(struct cluster_session *),
                  unsigned ms)
{
    if (session->waiting)
        session_wake(session);
    session->waiting = call;
    session->answer = answer;
    loop_timer_start(session->cluster->loop, &session->beat, ms, beat_due, session);
}

void session_wake(struct cluster_session *session)
{
    if (!session->waiting)
        return;
    loop_timer_stop(&session->beat);
    unwatch(session);
    session->answer(session);
    session->waiting = NULL;
}

void session_forget_waiting(struct cluster_session *session)
{
    session->waiting = NULL;                    /* the loop has freed it */
    loop_timer_stop(&session->beat);
    unwatch(session);
}

void programs_gather(struct cluster *cluster)
{
    for (struct cluster_session *session = cluster->sessions; session; session = session->next)
        if (session->listing.waits)
            session_wake(session);
}
