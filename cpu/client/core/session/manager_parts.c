/*
 * manager_parts.c: a program whose GPUs are of several nodes, in a cluster: its further servers, and the links between
 * all of them.
 *
 * Each further server has a connection to the client manager of its own, by which the part is a program for the
 * cluster. It is kept for the process's life and asked for links only; its library is one that does not move, for no
 * thread would look at it. One question at a time: a client manager takes one of each connection.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cpu/client/core/api_comm.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/common/log.h"
#include "manager_state.h"

static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;

static bool ask(rpc_client *client, uint64_t lead, unsigned part, manager_answer *answer)
{
    char executable[MANAGER_MAX_PATH + 1];
    static manager_wait_args again;
    manager_executable(executable);
    manager_part_args args = { .executable = executable, .lead = lead, .part = part };
    bool answered = manager_call_on(client, MANAGER_PART, (void *)(uintptr_t)xdr_manager_part_args, &args,
                                    (void *)(uintptr_t)xdr_manager_answer, answer);
    while (answered && answer->status.code == MANAGER_WAITING) {
        xdr_free((xdrproc_t)xdr_manager_answer, answer);
        memset(answer, 0, sizeof *answer);
        answered = manager_call_on(client, MANAGER_WAIT, (void *)(uintptr_t)xdr_manager_wait_args, &again,
                                   (void *)(uintptr_t)xdr_manager_answer, answer);
    }
    return answered;
}

int manager_ask_part(struct client_session *session, uint64_t lead, struct manager_place *place)
{
    manager_answer answer;
    memset(place, 0, sizeof *place);
    memset(&answer, 0, sizeof answer);
    int code = CORE_SYSTEM_NOT_READY;
    session->manager = manager_open_another(MANAGER_MINOR_MOVES - 1);
    if (!session->manager || !ask(session->manager, lead, session->number, &answer))
        log_error("the client manager went away before it had named all GPU servers of this program; start it again");
    else if (answer.status.code != MANAGER_OK)
        log_error("one of the GPU servers of this program is not there any more: %s. Start the program again",
                  answer.status.text);
    else if (!manager_take_grant(&answer.grant, place))
        log_error("the client manager knows no address of GPU server %llu that this program could use",
                  (unsigned long long)answer.grant.server);
    else
        code = CORE_OK;
    if (!code)
        log_info("GPU server %llu on node %s, too", (unsigned long long)answer.grant.server, answer.grant.node);
    xdr_free((xdrproc_t)xdr_manager_answer, &answer);
    return code;
}

int manager_part_offers(const struct client_session *session, uint8_t *offer, char *why, size_t size)
{
    pthread_mutex_lock(&asking);
    int code = manager_offer_link(session->manager, offer, why, size);
    pthread_mutex_unlock(&asking);
    return code;
}

int manager_part_takes(const struct client_session *session, const uint8_t *offer, unsigned connections, char *address,
                       char *why, size_t size)
{
    pthread_mutex_lock(&asking);
    int code = manager_take_link(session->manager, offer, connections, address, why, size);
    pthread_mutex_unlock(&asking);
    return code;
}

int manager_link_parts(const struct client_session *calls, const struct client_session *waits, unsigned connections,
                       char *address, char *why, size_t size)
{
    uint8_t offer[CORE_LINK_OFFER_SIZE];
    pthread_mutex_lock(&asking);
    int code = manager_offer_link(waits->manager, offer, why, size);
    if (!code)
        code = manager_take_link(calls->manager, offer, connections, address, why, size);
    pthread_mutex_unlock(&asking);
    explicit_bzero(offer, sizeof offer);
    return code;
}
