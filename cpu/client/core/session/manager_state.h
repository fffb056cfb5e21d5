/*
 * manager_state.h: the connection to the client manager, for manager.c, which makes and ends it, and manager_*.c.
 */
#ifndef FLYT_CLIENT_CORE_MANAGER_STATE_H
#define FLYT_CLIENT_CORE_MANAGER_STATE_H

#include "cpu/rpc/manager_prot.h"
#include "attach.h"

extern rpc_client *_Atomic manager;     /* NULL: none; another one after manager_come_back */
extern _Atomic unsigned manager_minor;  /* of the client manager that is connected */
/* Where the report of how far a move is awaits its answer. NULL: none does, or its client is gone. */
extern rpc_client *manager_progress_at;

/* A connection to the client manager that has said HELLO, as a library of that minor. NULL: there is none now. */
rpc_client *manager_open_another(unsigned minor);
/* As manager_call, on that connection. */
bool manager_call_on(rpc_client *, uint32_t procedure, void *encode, void *args, void *decode, void *result);
/* Of this program, with the end. */
void manager_executable(char path[MANAGER_MAX_PATH + 1]);
/* False: the client manager has gone away. */
bool manager_call(uint32_t procedure, void *encode, void *args, void *decode, void *result);
/* Takes addresses and ticket. False: it names no address that could be used, or there is no memory. */
bool manager_take_grant(const manager_grant *, struct manager_place *);

#endif
