/*
 * manager_groups.c: programs that share memory move together. The client manager knows which they are, since each says
 * the number of its session and those of its partners, and they wait for each other there (program_meet in the daemons'
 * protocol file).
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "attach.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/stream/move.h"
#include "cpu/common/clock.h"
#include "cpu/common/log.h"
#include "cpu/rpc/manager_prot.h"
#include "manager_state.h"

enum { AGAIN_MS = 200 };

bool manager_takes_groups(void) { return manager && manager_minor >= MANAGER_MINOR_GROUPS; }

static void session_told(struct rpc_call *call, void *context)
{
    (void)context;
    xdr_free((xdrproc_t)xdr_manager_plain_result, call->result);
}

void manager_tell_session(uint64_t session)
{
    /* As with manager_tell_transport, the answer is read some time. */
    static manager_plain_result result;
    static manager_session args;
    static struct rpc_call call = { .procedure = MANAGER_SESSION,
                                    .encode = (xdrproc_t)xdr_manager_session,
                                    .args = &args,
                                    .decode = (xdrproc_t)xdr_manager_plain_result,
                                    .result = &result,
                                    .done = session_told };
    args.session = session;
    if (manager_takes_groups() && rpc_client_submit(manager, &call) != RPC_SUCCESS)
        log_debug("the client manager does not learn the number of this session: the connection has ended");
}

/* MANAGER_LOST: it does not answer. */
static int ask(manager_meet *args, char *why, size_t size)
{
    manager_plain_result result;
    memset(&result, 0, sizeof result);
    const bool answered = manager && manager_call(MANAGER_MEET, (void *)(uintptr_t)xdr_manager_meet, args,
                                                  (void *)(uintptr_t)xdr_manager_plain_result, &result);
    const int code = answered ? result.status.code : MANAGER_LOST;
    snprintf(why, size, "%s", answered ? result.status.text : "the client manager has gone away");
    xdr_free((xdrproc_t)xdr_manager_plain_result, &result);
    return code;
}

/* Behind SEALED the others may be at the new server already, so only the client manager can say what is to be done: one
   that begins anew is waited for, as long as it takes. */
int manager_meet_group(uint64_t number, int where, const struct move_partners *partners, char *why, size_t size)
{
    manager_meet args = { .move = number, .where = where, .session = partners->session };
    uint64_t numbers[MOVE_PARTNERS_MOST];
    memcpy(numbers, partners->of, sizeof numbers);
    args.partners.partners_len = partners->count;
    args.partners.partners_val = numbers;
    for (;;) {
        const int code = ask(&args, why, size);
        if (code == MANAGER_OK)
            return CORE_OK;
        /* A client manager of an earlier build does not answer. */
        if (code == MANAGER_NOT_FOUND || (code != MANAGER_WAITING && where == CORE_MEETS_PREPARED && !partners->count))
            return CORE_NOT_FOUND;
        if (code == MANAGER_LOST && where != CORE_MEETS_SEALED)
            return CORE_SYSTEM_NOT_READY;
        if (code != MANAGER_WAITING && code != MANAGER_LOST)
            return CORE_NOT_SUPPORTED;
        if (code == MANAGER_LOST) {
            nanosleep(&(struct timespec){ .tv_nsec = AGAIN_MS * CLOCK_NS_PER_MS }, NULL);
            manager_come_back(number);
        }
    }
}
