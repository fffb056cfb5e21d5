#include "control-managers/cluster-manager/moves.h"

static unsigned ends(struct move_course *moving, bool moved)
{
    moving->state = moved ? ADMIN_MOVE_DONE : ADMIN_MOVE_FAILED;
    return MOVE_FREE_TARGET | MOVE_END | (moved ? MOVE_SWITCH : 0);
}

/* Nobody but this cluster manager knows of it yet. */
static unsigned step_reserved(struct move_course *moving, enum move_happening happening)
{
    switch (happening) {
    case MOVE_TARGET_RUNS:
        moving->state = ADMIN_MOVE_ORDERED;
        return MOVE_ORDER;
    case MOVE_TARGET_GONE:
    case MOVE_PROGRAM_GONE:
        return ends(moving, false);
    case MOVE_CANCEL:
        moving->cancelled = true;
        return ends(moving, false);
    default: /* what a client manager says of a move that it knows nothing of means nothing */
        return 0;
    }
}

static unsigned call_off(struct move_course *moving)
{
    bool already = moving->cancelled;
    moving->cancelled = true;
    return already ? 0 : MOVE_CALL_OFF;
}

static unsigned step_ordered(struct move_course *moving, enum move_happening happening)
{
    switch (happening) {
    case MOVE_TARGET_RUNS:
        return 0;
    case MOVE_IS_TAKEN:
        moving->state = ADMIN_MOVE_TAKEN;
        return 0;
    case MOVE_HAS_MOVED:
    case MOVE_AT_TARGET:
        return ends(moving, true);
    case MOVE_IS_REFUSED:
    case MOVE_PROGRAM_GONE:
        return ends(moving, false);
    case MOVE_CLIENT_BACK: /* what was said to its connection of before may be lost */
        return moving->cancelled ? MOVE_CALL_OFF : MOVE_ORDER;
    case MOVE_TARGET_GONE: /* the library may be using it, or may have just lost it: it says so */
    case MOVE_CANCEL:
        return call_off(moving);
    }
    return 0;
}

unsigned moves_step(struct move_course *moving, enum move_happening happening)
{
    switch (moving->state) {
    case ADMIN_MOVE_RESERVED:
        return step_reserved(moving, happening);
    case ADMIN_MOVE_ORDERED:
    case ADMIN_MOVE_TAKEN:
        return step_ordered(moving, happening);
    default:
        return 0;
    }
}
