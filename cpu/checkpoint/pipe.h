/*
 * pipe.h: frames on their way into a file. Packing takes longer than anything else, so several threads do it, each a
 * frame; one more thread writes the frames in their order. Without these threads (before frame_pipe_run, after
 * frame_pipe_end, or where none can be had) the caller does both.
 */
#ifndef FLYT_CHECKPOINT_PIPE_H
#define FLYT_CHECKPOINT_PIPE_H

#include "cpu/checkpoint/out.h"
#include "cpu/checkpoint/pack.h"

struct frame_pipe;
/* out stays the caller's, and is the pipe's to write to while its threads run. NULL: no memory. */
struct frame_pipe *frame_pipe_new(struct frame_out *out);
/* Frames that come now are encrypted: frame_packer_new. Before the threads run. False: no memory, or no cipher. */
bool frame_pipe_seal(struct frame_pipe *, const uint8_t *key, const uint8_t *begun);
/* Starts as many threads as this process has processors, if it can. Signals do not reach them. The key once more, or
   NULL. */
void frame_pipe_run(struct frame_pipe *, const uint8_t *key, const uint8_t *begun);

/* A frame to fill: head, number and data. One at a time; waits until there is room. */
struct frame_job *frame_pipe_take(struct frame_pipe *);
/* It is filled. 0, or -errno of this frame or of one before it: the file ends in front of that one. */
int frame_pipe_give(struct frame_pipe *);
/* Waits until all frames are written; the threads end. As frame_pipe_give. */
int frame_pipe_end(struct frame_pipe *);
void frame_pipe_free(struct frame_pipe *);

#endif
