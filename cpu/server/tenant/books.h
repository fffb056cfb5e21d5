/*
 * books.h: the tenant's books, for the files of this folder that change them: tenant.c (what programs take and give
 * back) and resize.c (how much they may take).
 */
#ifndef FLYT_SERVER_BOOKS_H
#define FLYT_SERVER_BOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu/common/tenant_ledger.h"

struct ledger *books(void);                       /* NULL: none are kept */
/* False: there are none, or they cannot be locked. */
bool books_lock(void);
void books_unlock(void);
void books_changed(void);                         /* wakes programs that wait for memory */

/* The rest with the lock. */
/* Bytes of all that live, on the device where they have most; frees the slots of the others. *idle, when not NULL: what
   others than we are known to hold unused there. */
uint64_t books_most(uint64_t *idle);
/* Asks all workers, our own too if `own`, for so much of what their clients hold unused. */
void books_ask(uint64_t lacking, bool own);

#endif
