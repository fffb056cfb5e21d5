#include "tests/lib/stubs.h"

#include "cpu/rpc/cpu_rpc_classes.h"

#include <string.h>

static enum clnt_stat call(CLIENT *stub, uint32_t procedure, xdrproc_t encode, void *args, xdrproc_t decode,
                           void *result)
{
    rpc_client *client = (rpc_client *)(void *)stub;
    struct rpc_call call = { .procedure = procedure, .encode = encode, .args = args, .decode = decode,
                             .result = result };
    enum clnt_stat status = rpc_client_submit(client, &call);
    if (status == RPC_SUCCESS && rpc_flyt_program.procedures[procedure].class == RPC_CLASS_SYNC)
        status = rpc_client_wait(client, &call);
    return status;
}

#define XDR_OF(type) ((xdrproc_t)(void (*)(void))xdr_##type)
#define STUB(number, NAME, name, class, arguments, result)                                      \
    enum clnt_stat name##_1(arguments *args, result *out, CLIENT *stub)                         \
    {                                                                                           \
        return call(stub, number, XDR_OF(arguments), args, XDR_OF(result), out);                \
    }
FLYT_PROCEDURES(STUB)

#define ENTRY(number, NAME, name, class, arguments, result) [number] = { XDR_OF(arguments), XDR_OF(result) },
static const struct { xdrproc_t arguments, result; } types[] = {
    [NULLPROC] = { XDR_OF(void), XDR_OF(void) },
    FLYT_PROCEDURES(ENTRY)
};

/* Room for the arguments, or the result, of any procedure. */
#define ROOM(number, NAME, name, class, arguments, result) \
    char in##number[sizeof(arguments)], out##number[sizeof(result)];
union any { FLYT_PROCEDURES(ROOM) max_align_t aligned; };

int stub_serve(rpc_server *server, rpc_request *request, stub_answer *answer, void *user)
{
    uint32_t procedure = rpc_request_procedure(request), xid = rpc_request_xid(request);
    bool waits = rpc_flyt_program.procedures[procedure].class == RPC_CLASS_SYNC;
    union any args, result;
    memset(&args, 0, sizeof args);
    memset(&result, 0, sizeof result);
    int status = rpc_request_arguments(request, types[procedure].arguments, &args);
    if (status != 0) {
        if (waits)
            rpc_server_reject(server, xid, GARBAGE_ARGS);
        return status;
    }
    if (answer(user, procedure, xid, &args, &result) && waits) {
        status = rpc_server_reply(server, xid, types[procedure].result, &result);
        xdr_free(types[procedure].result, &result);
    }
    xdr_free(types[procedure].arguments, &args);
    return status;
}
