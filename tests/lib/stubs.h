/*
 * stubs.h: the procedures of the protocol as functions, for tests of both ends. A client calls
 * flyt_hello_1(&args, &result, stub_of(client)), and its like for each procedure, as rpcgen's header declares them: a
 * call of class SYNC is waited for, one of class ASYNC returns as soon as it is in the sequence. A server gives its
 * requests to stub_serve. The product encodes and decodes its calls itself.
 */
#ifndef FLYT_TESTS_LIB_STUBS_H
#define FLYT_TESTS_LIB_STUBS_H

#include "cpu/rpc/cpu_rpc_prot.h"
#include "cpu/rpc/rpc.h"

#include <stdbool.h>

/* rpcgen's header declares the functions with a CLIENT. Only those of stubs.c take this one. */
static inline CLIENT *stub_of(rpc_client *client)
{
    return (CLIENT *)(void *)client;
}

/* Fills the result, which is zeros, and gives true; or gives false: the call is answered later (SYNC), or never. */
typedef bool stub_answer(void *user, uint32_t procedure, uint32_t xid, const void *args, void *result);

/* Decodes the arguments of the request, has it answered, and frees them and the result. 0; -EPROTO when there is
   something else than these arguments (a SYNC call is answered with GARBAGE_ARGS); or what rpc_server_reply gives. */
int stub_serve(rpc_server *, rpc_request *, stub_answer *, void *user);

#endif
