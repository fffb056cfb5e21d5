/*
 * managed.c: members that are GPU servers of a cluster. See coordinator.h.
 *
 * Each such member is a program of its own for the client manager: its connection is the member's life. A link between
 * two of them is offered by the one whose server is connected to, and taken by the other one (ctl_link_offer in
 * control_prot.x); so the cluster manager knows that both ends want it.
 */
#include "cpu/client/coordinator/coordinator.h"

#include "cpu/rpc/manager.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SERVER_MS = 10000 };
#define MANAGED_NAME "manager:"

bool managed_wanted(const char *server) { return strcmp(server, MANAGED_NAME) == 0; }

/* The caller frees the result, whatever has come. */
static int ask(struct coordinator_member *m, uint32_t procedure, xdrproc_t encode, void *args, xdrproc_t decode,
               void *result)
{
    char error[RPC_ERROR_SIZE] = "";
    int status = rpc_manager_ask(m->manager, procedure, encode, args, decode, result, error);
    return status < 0 ? coordinator_explain(status, "%s", error) : 0;
}

static int reach_manager(struct coordinator_member *m)
{
    char error[RPC_ERROR_SIZE] = "";
    int status = rpc_manager_open("libflyt-coordinator", "makes no links", &m->manager, error);
    return status < 0 ? coordinator_explain(status, "%s", error) : 0;
}

/* Until there is a server. */
static int wait_for_grant(struct coordinator_member *m, manager_answer *answer)
{
    manager_attach_args args = { .executable = program_invocation_short_name };
    manager_wait_args again = { 0 };
    int status = ask(m, MANAGER_ATTACH, MEMBER_XDR(manager_attach_args), &args, MEMBER_XDR(manager_answer), answer);
    while (status == 0 && answer->status.code == MANAGER_WAITING) {
        xdr_free(MEMBER_XDR(manager_answer), answer);
        memset(answer, 0, sizeof *answer);
        status = ask(m, MANAGER_WAIT, MEMBER_XDR(manager_wait_args), &again, MEMBER_XDR(manager_answer), answer);
    }
    return status;
}

/* The first address that answers. One without TLS is not used where the server has one with. */
static int reach_server(const manager_grant *grant, rpc_channel **out)
{
    char error[RPC_ERROR_SIZE] = "it has no address";
    int status = -ENOTCONN;
    for (u_int i = 0; i < grant->addresses.addresses_len && status < 0; i++) {
        const char *uri = grant->addresses.addresses_val[i];
        if (!grant->tls || strncmp(uri, "tcp://", 6) != 0)
            status = rpc_channel_connect_within(uri, SERVER_MS, SERVER_MS, grant->ticket.ticket_val,
                                                grant->ticket.ticket_len, out, error);
    }
    return status < 0 ? coordinator_explain(status, "GPU server %llu on node %s: %s",
                                            (unsigned long long)grant->server, grant->node, error)
                      : 0;
}

int managed_open(struct coordinator_member *m, rpc_channel **out, void **ticket, size_t *size)
{
    manager_answer answer;
    memset(&answer, 0, sizeof answer);
    int status = reach_manager(m);
    if (status == 0)
        status = wait_for_grant(m, &answer);
    if (status == 0 && !(*ticket = malloc(answer.grant.ticket.ticket_len + 1)))
        status = coordinator_explain(-ENOMEM, "a ticket: no memory");
    if (status == 0)
        status = reach_server(&answer.grant, out);
    if (status == 0) {
        *size = answer.grant.ticket.ticket_len;
        memcpy(*ticket, answer.grant.ticket.ticket_val, *size);
    }
    xdr_free(MEMBER_XDR(manager_answer), &answer);
    return status;
}

static int take(struct coordinator_member *from, const manager_link_offer_result *offered, unsigned connections,
                char *address)
{
    manager_link_take args = { .connections = connections };
    manager_link_take_result result;
    args.offer.offer_len = offered->offer.offer_len;
    args.offer.offer_val = offered->offer.offer_val;
    memset(&result, 0, sizeof result);
    int status = ask(from, MANAGER_LINK_TAKE, MEMBER_XDR(manager_link_take), &args,
                     MEMBER_XDR(manager_link_take_result), &result);
    if (status == 0)
        snprintf(address, RPC_ERROR_SIZE, "%s", result.address);
    xdr_free(MEMBER_XDR(manager_link_take_result), &result);
    return status;
}

int managed_connect(struct coordinator_member *from, struct coordinator_member *to, unsigned connections,
                    char *address)
{
    manager_link_offer args = { 0 };
    manager_link_offer_result offered;
    memset(&offered, 0, sizeof offered);
    int status = ask(to, MANAGER_LINK_OFFER, MEMBER_XDR(manager_link_offer), &args,
                     MEMBER_XDR(manager_link_offer_result), &offered);
    if (status == 0)
        status = take(from, &offered, connections, address);
    xdr_free(MEMBER_XDR(manager_link_offer_result), &offered);
    return status;
}
