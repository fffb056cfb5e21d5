/*
 * tenant.h: the limit on device memory of a tenant, over all its programs; see tenant.c. Without one (a server of no
 * cluster, local:) these let everything pass.
 */
#ifndef FLYT_SERVER_TENANT_H
#define FLYT_SERVER_TENANT_H

#include <stdbool.h>
#include <stdint.h>

/* For a worker, before its first session. -1: there is a limit and its ledger cannot be used (said in the log): nothing may
   be served. */
int  tenant_open(void);
/* Before memory is made. False: the tenant has not that much left. */
bool tenant_charge(uint64_t bytes);
void tenant_release(uint64_t bytes);
/* The limit in bytes, UINT64_MAX: none; and what of it is left. */
uint64_t tenant_limit(void);
uint64_t tenant_left(void);

#endif
