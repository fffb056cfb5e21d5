/*
 * moves.h: how a move of a running program goes on, as arithmetic without I/O, so that it can be tested by itself.
 *
 *   RESERVED --target runs--> ORDERED --the library knows--> TAKEN --it says how it ended--> DONE or FAILED
 *
 * The library of the program decides, by an assignment in its own process. Until it has said how the move ended, both
 * servers stay booked: whichever of them the program uses, nobody else gets its place. So there is no end by the clock
 * once the library may know of the move: it can only be called off, and the library, or the end of the program, says
 * what came of it.
 */
#ifndef FLYT_CLUSTER_MOVES_H
#define FLYT_CLUSTER_MOVES_H

#include <stdbool.h>

#include "control-managers/common/control_prot.h"

struct move_course {
    admin_move_state state;
    bool cancelled;
};

enum move_happening {
    MOVE_TARGET_RUNS, /* and both its row and that of the move are durable */
    MOVE_TARGET_GONE,
    MOVE_IS_TAKEN,   /* as its client manager says, like the next two */
    MOVE_HAS_MOVED,
    MOVE_IS_REFUSED,
    MOVE_AT_TARGET, /* its client manager, connected again, names the target as its server */
    MOVE_CLIENT_BACK,
    MOVE_PROGRAM_GONE,
    MOVE_CANCEL /* an administrator, or the time is over */
};

/* What is to be done, bits in this order. */
enum {
    MOVE_ORDER = 1,       /* informs the client manager */
    MOVE_CALL_OFF = 2,    /* informs it that the program is to stay, if it has not moved */
    MOVE_SWITCH = 4,      /* the target is the program's server from now on */
    MOVE_FREE_TARGET = 8, /* nothing is reserved there any more */
    MOVE_END = 16         /* the row goes */
};

unsigned moves_step(struct move_course *, enum move_happening);
static inline bool moves_ended(const struct move_course *moving) { return moving->state >= ADMIN_MOVE_DONE; }

#endif
