/*
 * session_end.c: the one place that ends a session. Any thread may call it, as often as it likes; the first reason
 * counts. It only stops the connection and whatever else threads of the session may wait for (session_on_end).
 * session_run then finds the end and takes the session apart (session.c).
 */
#include "cpu/server/session.h"

#include "cpu/common/log.h"

void session_on_end(struct session *session, void (*stop)(struct session *))
{
    session->on_end[session->on_end_count++] = stop;
}

void session_end(struct session *session, const char *why)
{
    if (atomic_exchange(&session->ended, true))
        return;
    const char *client = session->client[0] ? session->client : "-";
    log_info("event=session-ends session=%llu program=%s why=\"%s\"", (unsigned long long)session->id, client, why);
    rpc_server_shutdown(session->server);
    for (unsigned i = 0; i < session->on_end_count; i++)
        session->on_end[i](session);
}
