/* linked.c: see linked.h. */
#include "tests/server/linked.h"

#include <pthread.h>
#include <unistd.h>

int linked_listen(struct peer *peer, uint32_t link, struct link_handles *out)
{
    link_listen_args args = { link };
    link_listen_result result;
    memset(&result, 0, sizeof result);
    enum clnt_stat status = flyt_link_listen_1(&args, &result, peer->stub);
    assert_int_equal(status, RPC_SUCCESS);
    out->count = result.handles.handles_len;
    if (out->count)
        memcpy(out->of, result.handles.handles_val, out->count * sizeof *out->of);
    return peer_took(peer, status, (xdrproc_t)xdr_link_listen_result, &result);
}

void linked_join_end(struct linked_end *end)
{
    link_join_args args = { .link = end->link,
                            .server = (char *)(uintptr_t)end->server,
                            .handles = { end->handles->count, end->handles->of },
                            .milliseconds = end->ms };
    link_join_result result;
    memset(&result, 0, sizeof result);
    enum clnt_stat status = flyt_link_join_1(&args, &result, end->peer->stub);
    if (status == RPC_SUCCESS)
        snprintf(end->why, sizeof end->why, "%s", result.why);
    if (status == RPC_SUCCESS && !result.head.result && end->channels && result.channels != end->channels)
        status = RPC_CANTDECODERES;
    end->code = status == RPC_SUCCESS ? result.head.result : -1;
    xdr_free((xdrproc_t)xdr_link_join_result, &result);
}

void *linked_join_thread(void *end)
{
    linked_join_end(end);
    return NULL;
}

void linked_join(struct linked_end ends[2])
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, linked_join_thread, &ends[0]), 0);
    linked_join_end(&ends[1]);
    pthread_join(thread, NULL);
}

void linked_prepare(char **argv)
{
    if (!getenv("LINKS_AGAIN")) {
        setenv("LINKS_AGAIN", "1", 1);
        setenv("LD_LIBRARY_PATH", LINKED_LIBRARIES, 1);
        execv("/proc/self/exe", argv);
    }
    setenv("FLYT_SILENCE", "2", 1);
}
