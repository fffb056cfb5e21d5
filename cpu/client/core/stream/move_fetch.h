/*
 * move_fetch.h: reads the parts of a store ahead of who wants them, in threads: reading, decrypting and unpacking take
 * longer than sending what comes out of it. Of a store that move_store_kept has made, behind move_store_again.
 */
#ifndef FLYT_CLIENT_CORE_MOVE_FETCH_H
#define FLYT_CLIENT_CORE_MOVE_FETCH_H

#include "move_store.h"

struct move_fetch;

/* next: says which part is wanted behind the one before, with room for how many bytes; false: none is. Threads of this
   file call it, one at a time. The store and what `context` names stay until move_fetch_end. NULL: no memory. */
struct move_fetch *move_fetch_begin(struct move_store *, bool (*next)(void *context, struct move_part *),
                                    void *context);
/* The next part, and its bytes until the next call. A result code; why: until move_fetch_end. */
int  move_fetch_take(struct move_fetch *, struct move_part *, const uint8_t **bytes, const char **why);
void move_fetch_end(struct move_fetch *);      /* NULL is allowed */

#endif
