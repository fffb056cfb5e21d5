/*
 * keeper.h: checkpoints of a program that is protected against the loss of its GPU server. A journal (wire/journal.h)
 * grows with the program's life, and so does the time that it takes to repeat it. So from time to time the program
 * comes to rest, what it has on the GPU goes into a file, and the journal begins anew: with the calls that make
 * everything again at another server, as a move of the session would, and the file's bytes. A file holds only what has
 * changed since the one before; from time to time one whole file is made of all of them.
 */
#ifndef FLYT_CLIENT_CORE_KEEPER_H
#define FLYT_CLIENT_CORE_KEEPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct move;
struct move_store;

/* The journal is there. A thread makes a checkpoint each `interval` nanoseconds, from now on. 0: only when the journal
   needs one to begin with (journal_forget). */
void keeper_start(uint64_t interval);
/* The journal fills, or needs another beginning: one is made soon. Does not block. */
void keeper_wake(void);
/* For suspend.c: what the session has is about to be read. */
void keeper_begins(void);
/* For suspend.c: the store for the next checkpoint. It is the caller's, but what it needs is not. NULL, with why. */
struct move_store *keeper_store(char *why, size_t size);
/* Everything is in move->store, which becomes the keeper's. A result code;
   after an error the journal and the checkpoint before are as they were. */
int  keeper_note(struct move *);

/* The checkpoint with which the journal begins; NULL: there is none. Both stay until keeper_release. */
struct move_store *keeper_hold(void);
/* again: the session was made again from them. */
void keeper_release(bool again);

#endif
