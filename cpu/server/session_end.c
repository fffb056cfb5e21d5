/*
 * session_end.c: the one place that ends a session. Any thread may call it, as often as it likes; the first reason
 * counts. It only stops the connection, the lanes and the executor, which wakes every thread of the session.
 * session_run then finds the end and takes the session apart (session.c).
 */
#include "cpu/server/session.h"

#include "cpu/common/log.h"
#include "cpu/server/lanes.h"

void session_end(struct session *session, const char *why)
{
    if (atomic_exchange(&session->ended, true))
        return;
    const char *client = session->client[0] ? session->client : "-";
    log_info("event=session-ends session=%llu program=%s why=\"%s\"", (unsigned long long)session->id, client, why);
    rpc_server_shutdown(session->server);
    lanes_shutdown(session);
    executor_ended(session);
}
