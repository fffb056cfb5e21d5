/*
 * procedures.c: from the number of a procedure to the function that serves it. The table is made from PROCEDURES in
 * session.h; classes come from the protocol file by way of rpc_flyt_program. Only the reader looks here (session.c), so
 * that the files that serve calls do not depend on all the others.
 */
#include "cpu/server/session.h"

enum { PROCEDURES_MAX = 128 };

static struct procedure procedures[PROCEDURES_MAX];
static pthread_once_t procedures_once = PTHREAD_ONCE_INIT;

static void procedures_fill(void)
{
#define X(number, type, result, handler, is_quick) \
    procedures[FLYT_##number] = (struct procedure){ \
        .name = #number, .size = sizeof(type), .serve = serve_##handler, .quick = is_quick, \
        .arguments = (xdrproc_t)xdr_##type, .results = (xdrproc_t)(void (*)(void))xdr_##result, \
        .answers = FLYT_##number < rpc_flyt_program.count && \
                   rpc_flyt_program.procedures[FLYT_##number].class == RPC_CLASS_SYNC };
    PROCEDURES(X)
#undef X
    procedures[FLYT_HELLO].greets = true;
    procedures[FLYT_LAUNCH].decode = launch_decode;
}

const struct procedure *procedure_find(uint32_t number)
{
    pthread_once(&procedures_once, procedures_fill);
    return number < PROCEDURES_MAX && procedures[number].serve ? &procedures[number] : NULL;
}
