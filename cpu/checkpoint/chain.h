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
/* Adds a file that this process has written, encrypted with a key of its own, as checkpoint_chain_add does. Only where
   its parts lie is read now: each part is checked when its bytes are wanted. Files of which all
   later ones keep nothing may be left out. Several chains may use one fd. A chain has such files only, or none. */
int  checkpoint_chain_add_own(struct checkpoint_chain *, int fd, const uint8_t key[CHECKPOINT_KEY], char *why);
/* Bytes as the last file has them, of files that checkpoint_chain_add_own has added. part: kind, object and offset, and
   for how many bytes there is room in `to`; its size becomes how many there are without a gap. 0; or -errno, and
   why. */
int  checkpoint_chain_part(struct checkpoint_chain *, struct checkpoint_frame *part, void *to, char *why);
/* For another thread: it can give the same parts, and nothing else, as long as the first one is there. Of files that
   checkpoint_chain_add_own has added. NULL: no memory. */
struct checkpoint_chain *checkpoint_chain_twin(const struct checkpoint_chain *);
/* Whether one of them is encrypted. */
bool checkpoint_chain_sealed(const struct checkpoint_chain *);
/* The whole checkpoint, under the id of the last one. seal: as of checkpoint_writer_new. */
int  checkpoint_chain_write(struct checkpoint_chain *, int fd, const struct checkpoint_seal *seal, char *why);
void checkpoint_chain_free(struct checkpoint_chain *);

#endif
