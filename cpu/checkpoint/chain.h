/*
 * chain.h: a checkpoint and those with changes that were made after it, as one (checkpoint.h). All of each file is read
 * and checked when it is added.
 */
#ifndef FLYT_CHECKPOINT_CHAIN_H
#define FLYT_CHECKPOINT_CHAIN_H

#include "cpu/checkpoint/checkpoint.h"

enum { CHECKPOINT_CHAIN_MOST = 64 };

struct checkpoint_chain;

/* NULL: no memory. */
struct checkpoint_chain *checkpoint_chain_new(void);
/* The oldest one first: a whole checkpoint, then each one's changes. fd can be sought, and is the caller's as long as
   the chain is there. machine: the key of encrypted ones, or NULL. 0; or -errno, and why (CHECKPOINT_WHY_SIZE). */
int  checkpoint_chain_add(struct checkpoint_chain *, int fd, const uint8_t *machine, char *why);
/* Whether one of them is encrypted. */
bool checkpoint_chain_sealed(const struct checkpoint_chain *);
/* The whole checkpoint, under the id of the last one. seal: as of checkpoint_writer_new. */
int  checkpoint_chain_write(struct checkpoint_chain *, int fd, const struct checkpoint_seal *seal, char *why);
void checkpoint_chain_free(struct checkpoint_chain *);

#endif
