/*
 * manager_recovery.c: questions and reports to the client manager about the loss of a GPU server: how the program is to
 * recover, where its checkpoints lie, what came of a recovery, and why the server was lost.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "attach.h"
#include "cpu/common/clock.h"
#include "cpu/common/log.h"
#include "cpu/rpc/call/lane.h"
#include "cpu/rpc/manager_prot.h"
#include "manager_state.h"

enum { MANAGER_LOOK_MS = 10, MANAGER_PROBE_MS = 200 };

void manager_ask_recovery(char *wish, size_t size)
{
    static char none[1];
    manager_recovery_result result;
    memset(&result, 0, sizeof result);
    *wish = 0;
    if (!manager || manager_minor < MANAGER_MINOR_RECOVERY)
        return;
    if (manager_call(MANAGER_RECOVERY, (void *)(uintptr_t)xdr_void, none,
                     (void *)(uintptr_t)xdr_manager_recovery_result, &result) &&
        result.status.code == MANAGER_OK)
        snprintf(wish, size, "%s", result.wish);
    xdr_free((xdrproc_t)xdr_manager_recovery_result, &result);
}

uint64_t manager_ask_store(char *folder, size_t size)
{
    static char none[1];
    manager_store_result result;
    uint64_t journal = 0;
    memset(&result, 0, sizeof result);
    *folder = 0;
    if (!manager || manager_minor < MANAGER_MINOR_RECOVERY)
        return 0;
    if (manager_call(MANAGER_STORE, (void *)(uintptr_t)xdr_void, none, (void *)(uintptr_t)xdr_manager_store_result,
                     &result) && result.status.code == MANAGER_OK) {
        snprintf(folder, size, "%s", result.folder);
        journal = result.journal;
    }
    xdr_free((xdrproc_t)xdr_manager_store_result, &result);
    return journal;
}

struct recovery_told { struct rpc_call call; manager_plain_result result; };

static void recovery_told(struct rpc_call *call, void *context)
{
    (void)call;
    xdr_free((xdrproc_t)xdr_manager_plain_result, &((struct recovery_told *)context)->result);
    free(context);
}

void manager_tell_recovery(int state, const char *why, uint64_t outage_us, uint64_t bytes)
{
    rpc_client *client = manager;
    manager_recovery args = { state, (char *)(uintptr_t)why, outage_us, bytes };
    struct recovery_told *told = client && manager_minor >= MANAGER_MINOR_RECOVERY ? calloc(1, sizeof *told) : NULL;
    if (!told)
        return;
    told->call = (struct rpc_call){ .procedure = MANAGER_RECOVERED, .encode = (xdrproc_t)xdr_manager_recovery,
                                    .args = &args, .decode = (xdrproc_t)xdr_manager_plain_result,
                                    .result = &told->result, .done = recovery_told, .context = told };
    if (rpc_client_submit(client, &told->call) != RPC_SUCCESS)
        free(told);
}

struct why {
    struct rpc_call   call;
    manager_wait_args args;
    manager_answer    answer;
};

/* Once more? */
static bool why_said(const struct why *w)
{
    int code = w->answer.status.code;
    if (w->call.status == RPC_SUCCESS && code > MANAGER_WAITING)
        log_error("why, as the cluster says: %s", w->answer.status.text);
    return w->call.status != RPC_SUCCESS || code > MANAGER_WAITING;
}

/* The server has ended, and the cluster will say why; or only the process of it that served this program has. */
static bool server_goes_on(const struct client_session *session)
{
    if (!rpc_listens(session->uri, clock_now() + MANAGER_PROBE_MS * CLOCK_NS_PER_MS))
        return false;
    log_error("the GPU server itself goes on: only its process for this program has ended. The server's log says why "
              "(flytctl server logs)");
    return true;
}

void manager_tell_why(const struct client_session *session, uint64_t soon, uint64_t until)
{
    rpc_client *client = session->manager ? session->manager : manager;
    bool said = !client || rpc_client_lost(client);
    /* The first answer may be a grant that was renewed without our asking. */
    for (int tries = 0; tries < 2 && !said; tries++) {
        struct why *w = calloc(1, sizeof *w);
        if (!w)
            return;
        w->call = (struct rpc_call){ .procedure = MANAGER_WAIT, .encode = (xdrproc_t)xdr_manager_wait_args,
                                     .args = &w->args, .decode = (xdrproc_t)xdr_manager_answer,
                                     .result = &w->answer };
        if (rpc_client_submit(client, &w->call) != RPC_SUCCESS) {
            free(w);
            return;
        }
        while (!rpc_client_wait_until(client, &w->call, soon)) {
            if (clock_now() >= soon && (soon == until || server_goes_on(session)))
                return;               /* the answer may come yet, so it keeps its place */
            soon = clock_now() >= soon ? until : soon;
            nanosleep(&(struct timespec){ .tv_nsec = MANAGER_LOOK_MS * CLOCK_NS_PER_MS }, NULL);
        }
        said = why_said(w);
        xdr_free((xdrproc_t)xdr_manager_answer, &w->answer);
        free(w);
    }
}
