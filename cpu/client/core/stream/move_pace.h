/*
 * move_pace.h: how fast the bytes of a move go, and how long the program may stand still meanwhile. Everything that
 * copies for a move passes here. The session's floor asks the client manager for the limits, and says how far it is.
 */
#ifndef FLYT_CLIENT_CORE_MOVE_PACE_H
#define FLYT_CLIENT_CORE_MOVE_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct move;

enum move_phase { MOVE_PREPARES = 1, MOVE_RESTS, MOVE_COPIES, MOVE_SWITCHES, MOVE_WAITS };   /* as on the wire */

/* As client_limits of control_prot.x. */
struct move_limits {
    uint64_t bandwidth, rate;      /* bytes a second; 0: any, not known */
    unsigned downtime_ms;          /* 0: any */
    bool     bridged, called_off;
};

struct move_pace {
    struct move_limits limits;
    enum move_phase phase;
    uint64_t total;                /* bytes, as counted at rest; 0: not yet */
    uint64_t shut, begun;          /* clock_now when the gate shut, and copying began; 0: it has not */
    uint64_t from;                 /* what had been copied then */
    uint64_t slept;                /* nanoseconds, for the bandwidth's sake */
    uint64_t paced, paced_from;    /* the bandwidth counts from this moment, when so many bytes were copied */
    uint64_t reported;             /* when, last */
    bool     too_long;             /* it was refused, or called off, because of the downtime */
    /* Reports how far the move is; `waits` for the answer, which changes the limits. NULL: nobody wants to know. */
    void   (*report)(struct move *, bool waits);
};

/* Reports it. */
void move_pace_phase(struct move *, enum move_phase, bool waits);
/* Copying so many bytes (more) begins, in that phase. */
void move_pace_begin(struct move *, enum move_phase, uint64_t total);
/* After bytes were copied (move->copied): keeps to the bandwidth. 600: the program would stand still for longer than
   it may, or the move was called off. */
int  move_pace_passed(struct move *);
/* Whether the program would stand still for no longer than it may, as far as it is known how fast bytes go. 600, with
   the reason: it would. */
int  move_pace_allows(struct move *, uint64_t total);
/* Bytes a second, since copying began. */
uint64_t move_pace_rate(const struct move *);

#endif
