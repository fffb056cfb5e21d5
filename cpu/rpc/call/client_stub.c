/*
 * client_stub.c: a client as libtirpc's CLIENT, for the stubs that rpcgen makes. The time limit that they pass
 * is ignored: a call behind a kernel that runs for minutes is no failure, and a dead connection is noticed
 * otherwise (dead_seconds). Calls of class ASYNC return as soon as they are in the sequence.
 */
#include "cpu/rpc/call/client.h"

#include <string.h>

/* What clnt_geterr gives: of the last call of this thread, on whichever client. */
static _Thread_local enum clnt_stat last_status;

static rpc_client *of(CLIENT *stub)
{
    return (rpc_client *)stub;
}

static enum clnt_stat stub_call(CLIENT *stub, rpcproc_t procedure, xdrproc_t encode, void *args, xdrproc_t decode,
                                void *result, struct timeval timeout)
{
    (void)timeout;
    struct rpc_call call = { .procedure = (uint32_t)procedure, .encode = encode, .args = args, .decode = decode,
                             .result = result };
    enum clnt_stat status = rpc_client_submit(of(stub), &call);
    if (status == RPC_SUCCESS && of(stub)->program->procedures[procedure].class == RPC_CLASS_SYNC)
        status = rpc_client_wait(of(stub), &call);
    last_status = status;
    return status;
}

static void stub_abort(CLIENT *stub)
{
    (void)stub;
}

static void stub_geterr(CLIENT *stub, struct rpc_err *error)
{
    (void)stub;
    memset(error, 0, sizeof *error);
    error->re_status = last_status;
}

static bool_t stub_freeres(CLIENT *stub, xdrproc_t proc, void *result)
{
    (void)stub;
    xdr_free(proc, result);
    return TRUE;
}

static void stub_destroy(CLIENT *stub)
{
    rpc_client_destroy(of(stub));
}

static bool_t stub_control(CLIENT *stub, u_int request, void *info)
{
    rpc_client *client = of(stub);
    switch (request) {
    case CLGET_PROG:
        *(uint32_t *)info = client->program->program;
        return TRUE;
    case CLGET_VERS:
        *(uint32_t *)info = client->program->version;
        return TRUE;
    default:
        return FALSE;
    }
}

static struct clnt_ops stub_operations = {
    .cl_call = stub_call, .cl_abort = stub_abort, .cl_geterr = stub_geterr, .cl_freeres = stub_freeres,
    .cl_destroy = stub_destroy, .cl_control = stub_control,
};

void rpc_client_stub_init(rpc_client *client)
{
    client->stub.cl_ops = &stub_operations;
    client->stub.cl_private = client;
}

CLIENT *rpc_client_stub(rpc_client *client)
{
    return &client->stub;
}
