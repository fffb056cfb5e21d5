/* out.h: where the bytes of a file go: into its checksums, and to its descriptor. */
#ifndef FLYT_CHECKPOINT_OUT_H
#define FLYT_CHECKPOINT_OUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "cpu/code/hash.h"

/* One thread writes at a time; any thread reads `bytes`. */
struct frame_out {
    int fd;
    bool kept;              /* the file is one that is kept: its bytes go to the disk at once */
    hash *whole, *begun;    /* END's; of everything up to SEAL. NULL: is not wanted */
    _Atomic uint64_t bytes; /* written so far */
    uint64_t on_disk;       /* the disk has been asked to take so many */
};

/* A frame, its head first, or what the file begins with. `pieces` are used up. 0, or -errno. */
int frame_out_write(struct frame_out *, struct iovec *pieces, unsigned count);

#endif
