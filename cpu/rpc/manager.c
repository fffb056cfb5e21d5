/* manager.c: see manager.h. */
#include "cpu/rpc/manager.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cpu/common/env.h"
#include "cpu/rpc/transport/channel.h"

enum { CONNECT_MS = 5000, DEAD_SECONDS = 15 };

static const struct rpc_procedure asked[] = {
    [MANAGER_HELLO] = { "MANAGER_HELLO", RPC_CLASS_SYNC },
    [MANAGER_ATTACH] = { "MANAGER_ATTACH", RPC_CLASS_SYNC },
    [MANAGER_WAIT] = { "MANAGER_WAIT", RPC_CLASS_SYNC },
    [MANAGER_LINK_OFFER] = { "MANAGER_LINK_OFFER", RPC_CLASS_SYNC },
    [MANAGER_LINK_TAKE] = { "MANAGER_LINK_TAKE", RPC_CLASS_SYNC },
    [MANAGER_VALUE] = { "MANAGER_VALUE", RPC_CLASS_SYNC },
};
static const struct rpc_program client_manager = {
    .program = MANAGER_PROGRAM,
    .version = MANAGER_VERSION_1,
    .count = sizeof asked / sizeof *asked,
    .procedures = asked,
    .max_record = 65536,
};

const char *rpc_manager_socket(void)
{
    const char *given = env_get("FLYT_MANAGER");
    return given && *given ? given : RPC_MANAGER_SOCKET;
}

void rpc_manager_uri(char uri[RPC_MANAGER_URI_SIZE])
{
    const char *socket = rpc_manager_socket();
    snprintf(uri, RPC_MANAGER_URI_SIZE, "%s%s", strncmp(socket, "unix://", 7) == 0 ? "" : "unix://", socket);
}

int rpc_manager_ask(rpc_client *manager, uint32_t procedure, xdrproc_t encode, void *args, xdrproc_t decode,
                    void *result, char *error)
{
    struct rpc_call call = {
        .procedure = procedure, .encode = encode, .args = args, .decode = decode, .result = result
    };
    if (rpc_client_submit(manager, &call) != RPC_SUCCESS || rpc_client_wait(manager, &call) != RPC_SUCCESS)
        return rpc_explain(error, -ECONNRESET, "the client manager has ended, or is of an earlier release");
    const manager_status *status = result;
    switch (status->code) {
    case MANAGER_OK:
    case MANAGER_WAITING: return 0;
    case MANAGER_DENIED: return rpc_explain(error, -EPERM, "%s", status->text);
    case MANAGER_NOT_SUPPORTED: return rpc_explain(error, -ENOTSUP, "%s", status->text);
    case MANAGER_NO_ROOM: return rpc_explain(error, -ENOSPC, "%s", status->text);
    case MANAGER_INVALID: return rpc_explain(error, -EINVAL, "%s", status->text);
    default: return rpc_explain(error, -EAGAIN, "%s", status->text);
    }
}

static int say_hello(rpc_client *manager, const char *software, const char *lacks, char *error)
{
    char name[32];
    snprintf(name, sizeof name, "pid-%d", (int)getpid());
    manager_hello_args args = { .major = MANAGER_MAJOR,
                                .minor = MANAGER_MINOR_MOVES - 1, /* as a library that does not move, nor rest */
                                .role = MANAGER_ROLE_PROGRAM,
                                .name = name,
                                .software = (char *)(uintptr_t)software,
                                .incarnation = (u_quad_t)getpid() };
    manager_hello_result result;
    memset(&result, 0, sizeof result);
    int status = rpc_manager_ask(manager, MANAGER_HELLO, RPC_MANAGER_XDR(manager_hello_args), &args,
                                 RPC_MANAGER_XDR(manager_hello_result), &result, error);
    if (status == 0 && result.minor < MANAGER_MINOR_LINKS)
        status = rpc_explain(error, -ENOTSUP, "the client manager is of an earlier release, and %s", lacks);
    xdr_free(RPC_MANAGER_XDR(manager_hello_result), &result);
    return status;
}

int rpc_manager_open(const char *software, const char *lacks, rpc_client **out, char *error)
{
    char uri[RPC_MANAGER_URI_SIZE], why[RPC_ERROR_SIZE] = "";
    rpc_channel *channel;
    rpc_client *manager = NULL;
    rpc_manager_uri(uri);
    int status = rpc_channel_connect(uri, CONNECT_MS, &channel, why);
    if (status == 0)
        status = rpc_client_create(channel, &client_manager, DEAD_SECONDS, NULL, NULL, &manager, why);
    if (status < 0)
        return rpc_explain(error, status, "no client manager answers at %s: %s", rpc_manager_socket(), why);
    status = say_hello(manager, software, lacks, error);
    if (status == 0)
        *out = manager;
    else
        rpc_client_destroy(manager);
    return status;
}
