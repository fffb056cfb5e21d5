/*
 * tenant_accounts.h: the part of the tenant's books that says on which device a worker holds what (tenant_ledger.h).
 * A slot has the sums over all devices; rows of their own have the parts of devices other than the first, so that a
 * server with one device has none. The caller holds the lock of the ledger.
 */
#ifndef FLYT_SERVER_TENANT_ACCOUNTS_H
#define FLYT_SERVER_TENANT_ACCOUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu/common/tenant_ledger.h"

/* What the worker of the slot holds on a device. LEDGER_ALL: on all. */
struct account_held { uint64_t bytes, credit; };
struct account_held account_of(const struct ledger *, const struct ledger_slot *, uint32_t device);
/* More, or less, of it; credit: so much of the bytes. False: the table is full, and nothing has changed. */
bool account_add(struct ledger *, struct ledger_slot *, uint32_t device, uint64_t bytes, uint64_t credit);
void account_take(struct ledger *, struct ledger_slot *, uint32_t device, uint64_t bytes, uint64_t credit);
void account_forget(struct ledger *, int64_t pid); /* it has ended */
/* The highest device with a row; 0: there are none. */
uint32_t account_devices(const struct ledger *);

#endif
