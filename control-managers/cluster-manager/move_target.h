/*
 * move_target.h: whether a program may move, and on which GPU server it goes on: one of its VM that runs, or a new one.
 * It has as many GPUs as the program has now; a program that was suspended has one (moving.c).
 *
 * Each function returns CTL_OK, or why there is none, with text (CTL_MAX_TEXT + 1 bytes).
 */
#ifndef FLYT_CLUSTER_MOVE_TARGET_H
#define FLYT_CLUSTER_MOVE_TARGET_H

#include "control-managers/cluster-manager/moving.h"

/* move_check.c: the program can be spoken to, and nothing else is being done with it. */
ctl_code move_check_program(struct cluster *, const struct program *, admin_move_action, char *text);
/* The wish can be carried out: the place, the files, the limits. */
ctl_code move_check_wish(struct cluster *, const struct program *, const struct move_wish *, char *text);
/* move_target.c: the place that an administrator names can be a target: another one than the program has, connected,
   not drained. */
ctl_code move_check_place(const struct program *, const struct move_wish *, char *text);
/* The target of a move. *out is booked if it is new. */
ctl_code move_choose_target(struct cluster *, struct program *, const struct move_wish *, struct server **out,
                            char *text);
/* The target of a resume, chosen as for a new program of the VM, but without the queue. CTL_WAITING: there may be room
   in a moment. */
ctl_code move_choose_return(struct cluster *, struct program *, const struct move_wish *, struct server **out,
                            char *text);

#endif
