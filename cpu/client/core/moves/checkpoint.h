/*
 * checkpoint.h: the file of a checkpoint, from its beginning to its name. suspend.c lets the session write into it.
 */
#ifndef FLYT_CLIENT_CORE_CHECKPOINT_H
#define FLYT_CLIENT_CORE_CHECKPOINT_H

#include "cpu/checkpoint/checkpoint.h"
#include "cpu/checkpoint/file.h"
#include "cpu/client/core/moves/mover.h"
#include "cpu/client/core/stream/move.h"

struct checkpoint_course {
    struct checkpoint_file file;
    int fd;                                /* -1: there is none */
    struct move_changes *before, *now;     /* of the last checkpoint and of this one; NULL: nothing is known */
};

/* Makes the file, and move->store for it. A result code; what failed has been said. The course is ended in any case. */
int checkpoint_begin(struct checkpoint_course *, struct move *, const struct checkpoint_order *);
/* code CORE_OK: everything is in the store, and the file gets its name. Else it goes. Returns the code, or another one
   where that failed. */
int checkpoint_end(struct checkpoint_course *, struct move *, int code);

#endif
