/*
 * managed.c: members that are GPU servers of a cluster. See coordinator.h.
 *
 * Each such member is a program of its own for the client manager: its connection is the member's life. A link between
 * two of them is offered by the one whose server is connected to, and taken by the other one (ctl_link_offer in
 * control_prot.x); so the cluster manager knows that both ends want it.
 */
#include "cpu/client/coordinator/coordinator.h"

#include "cpu/common/env.h"
#include "cpu/rpc/manager_prot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MANAGER_MS = 5000, SERVER_MS = 10000, DEAD_SECONDS = 15 };
#define MANAGED_NAME   "manager:"
#define MANAGER_SOCKET "/run/flyt/client-manager.sock"

static const struct rpc_procedure asked[] = {
    [MANAGER_HELLO] = { "MANAGER_HELLO", RPC_CLASS_SYNC },
    [MANAGER_ATTACH] = { "MANAGER_ATTACH", RPC_CLASS_SYNC },
    [MANAGER_WAIT] = { "MANAGER_WAIT", RPC_CLASS_SYNC },
    [MANAGER_LINK_OFFER] = { "MANAGER_LINK_OFFER", RPC_CLASS_SYNC },
    [MANAGER_LINK_TAKE] = { "MANAGER_LINK_TAKE", RPC_CLASS_SYNC },
};
static const struct rpc_program client_manager = {
    .program = MANAGER_PROGRAM,
    .version = MANAGER_VERSION_1,
    .count = sizeof asked / sizeof *asked,
    .procedures = asked,
    .max_record = 65536,
};

bool managed_wanted(const char *server) { return strcmp(server, MANAGED_NAME) == 0; }

/* The result begins with a manager_status; the caller frees it, whatever has come. */
static int ask(struct coordinator_member *m, uint32_t procedure, xdrproc_t encode, void *args, xdrproc_t decode,
               void *result)
{
    struct rpc_call call = {
        .procedure = procedure, .encode = encode, .args = args, .decode = decode, .result = result
    };
    if (rpc_client_submit(m->manager, &call) != RPC_SUCCESS || rpc_client_wait(m->manager, &call) != RPC_SUCCESS)
        return coordinator_explain(-ECONNRESET, "the client manager has ended, or is of an earlier release");
    const manager_status *status = result;
    switch (status->code) {
    case MANAGER_OK:
    case MANAGER_WAITING: return 0;
    case MANAGER_DENIED: return coordinator_explain(-EPERM, "%s", status->text);
    case MANAGER_NOT_SUPPORTED: return coordinator_explain(-ENOTSUP, "%s", status->text);
    default: return coordinator_explain(-EAGAIN, "%s", status->text);
    }
}

static int say_hello(struct coordinator_member *m)
{
    char name[32];
    snprintf(name, sizeof name, "pid-%d", (int)getpid());
    manager_hello_args args = { .major = MANAGER_MAJOR,
                                .minor = MANAGER_MINOR_MOVES - 1, /* as a library that does not move, nor rest */
                                .role = MANAGER_ROLE_PROGRAM,
                                .name = name,
                                .software = (char *)(uintptr_t) "libflyt-coordinator",
                                .incarnation = (u_quad_t)getpid() };
    manager_hello_result result;
    memset(&result, 0, sizeof result);
    int status =
        ask(m, MANAGER_HELLO, MEMBER_XDR(manager_hello_args), &args, MEMBER_XDR(manager_hello_result), &result);
    if (status == 0 && result.minor < MANAGER_MINOR_LINKS)
        status = coordinator_explain(-ENOTSUP, "the client manager is of an earlier release, and makes no links");
    xdr_free(MEMBER_XDR(manager_hello_result), &result);
    return status;
}

static int reach_manager(struct coordinator_member *m)
{
    const char *given = env_get("FLYT_MANAGER");
    const char *path = given && *given ? given : MANAGER_SOCKET;
    char uri[4096], error[RPC_ERROR_SIZE] = "";
    rpc_channel *channel;
    snprintf(uri, sizeof uri, "%s%s", strncmp(path, "unix://", 7) == 0 ? "" : "unix://", path);
    int status = rpc_channel_connect(uri, MANAGER_MS, &channel, error);
    if (status == 0)
        status = rpc_client_create(channel, &client_manager, DEAD_SECONDS, NULL, NULL, &m->manager, error);
    if (status < 0)
        return coordinator_explain(status, "no client manager answers at %s: %s", path, error);
    return say_hello(m);
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
