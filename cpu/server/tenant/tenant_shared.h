/*
 * tenant_shared.h: the part of the tenant's books that counts memory which several programs hold (tenant_ledger.h):
 * each piece once, as long as one worker holds it. The caller holds the lock of the ledger.
 */
#ifndef FLYT_SERVER_TENANT_SHARED_H
#define FLYT_SERVER_TENANT_SHARED_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu/common/tenant_ledger.h"

/* Whether anybody holds it. */
bool shared_held(const struct ledger *, uint64_t number);
/* One more hold of the process, of memory of that device. False: the table is full. */
bool shared_add(struct ledger *, uint64_t number, uint32_t device, uint64_t bytes, int64_t pid);
/* One hold less. False: the process has none. */
bool shared_drop(struct ledger *, uint64_t number, int64_t pid);
void shared_forget(struct ledger *, int64_t pid);           /* it has ended */
uint64_t shared_sum(const struct ledger *, uint32_t device); /* bytes of all together; LEDGER_ALL: of all devices */

#endif
