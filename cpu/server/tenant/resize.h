/* resize.h: how much the tenant of a running server may have; see resize.c. For the listener, unless said otherwise. */
#ifndef FLYT_SERVER_RESIZE_H
#define FLYT_SERVER_RESIZE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What the tenant may have of each device, and what its programs hold of the one where they hold most; false: no books
   are kept. limit UINT64_MAX: there is none. */
struct resize_held { uint64_t limit, held, idle; };
bool resize_look(struct resize_held *);
/* The limit is this, if the programs hold no more than that. Else nothing changes but, with `hold`, that they get
   nothing more from now on until they fit, and resize_try is called again, or resize_give_up. */
bool resize_try(uint64_t bytes, bool hold);
/* The old limit holds again. */
void resize_give_up(void);
/* Asks the programs for what they hold unused, as much as they hold above `bytes`. */
void resize_recall(uint64_t bytes);
/* The software GPU's blocks are placed on so many multiprocessors. */
void resize_sms(uint32_t sms);

/* For a worker: the words that the software GPU reads, 0 until an order has changed them. False: no books are kept. */
bool resize_words(const _Atomic uint64_t **device, const _Atomic uint32_t **sms);

#endif
