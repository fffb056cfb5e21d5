/*
 * move_steps.h: the steps of a move (move.c, move_rest.c), of which suspending and resuming take some each (suspend.c).
 * Those that can fail return a result code, and have said why with move_refuse.
 */
#ifndef FLYT_CLIENT_CORE_MOVE_STEPS_H
#define FLYT_CLIENT_CORE_MOVE_STEPS_H

#include <stdatomic.h>

#include "cpu/client/core/moves/mover.h"
#include "cpu/client/core/stream/move.h"

enum { MOVE_LIMIT_MS = 2000 };         /* for the program to come to rest */

/* The connection to a server that the session moves to. It lives as long as that connection. While the move is under
   way, the loss of the connection makes the next call there fail, and so the move. */
struct move_link { atomic_bool adopted; };
void move_link_lost(void *link, const char *reason);
/* The connection of MOVE_TARGET ends, and with it the link. */
void move_link_end(struct move *, struct move_link *);

/* ---- rest: in this order; limit: nanoseconds ---- */
int  move_shut_gate(struct move *, uint64_t limit);
int  move_streams_end(struct move *, uint64_t until, uint64_t limit);
int  move_settle(struct move *);
/* What the move changes about the connection (move_go): fills MOVE_SOURCE. */
void move_source_note(struct move *);

/* ---- may it go? ---- */
int  move_ask_source(struct move *);
/* at_rest: else the program goes on meanwhile, so this is only a first look. */
int  move_ask_kinds(struct move *, bool at_rest);
int  move_ask_devices(struct move *);

/* ---- limits: move_report.c ---- */
/* Asks the client manager what the move is to keep to; how far it is, is reported from then on. The program goes on.
   600: the move was called off. Whether what pace.total says can be copied in time (move_pace_allows) is for the caller
   to ask. */
int  move_ask_limits(struct move *);
/* Nanoseconds that the program may take to come to rest: no longer than it may stand still. */
uint64_t move_rest_limit(const struct move *, unsigned limit_ms);

/* ---- while the program goes on: move_prepare.c ---- */
/* Whether move_prepare would do anything, as far as it is known. */
bool move_may_prepare(const struct move *);
/* At MOVE_TARGET: makes a context and its memory, and copies what is in it, in rounds. The connection stays the
   caller's. 600: the program would stand still for too long all the same, or the move was called off. */
int  move_prepare(struct move *);
/* At rest: asks what has been written since the last round. */
int  move_prepared_settle(struct move *);
/* The move has ended, in whatever way, and calls go where the session is. What was prepared is forgotten. */
void move_prepare_end(struct move *);
/* An id for the move's own streams: move->stream. False: no memory. */
bool move_take_stream(struct move *);

/* ---- copied, and made again ---- */
/* Of all kinds: both steps, or one of them: move->steps. */
int  move_contents(struct move *);
/* Bytes that it will copy, as far as it is known. */
uint64_t move_size(const struct move *, bool adopts);
/* All kinds at MOVE_TARGET, with their contents. */
int  move_make_again(struct move *);
/* Makes all kinds again at no server: the calls are written down (wire/rehearsal.h). */
int  move_note(struct move *);

/* The group of a caller of core_move_together and its like. */
struct move_group move_group_by(core_meet *, void *context);

/* ---- the end ---- */
/* Nobody has called it off; nobody can any more. */
bool move_permitted(struct move *);
/* As move_permitted, and MOVE_TARGET is there. */
int  move_ask_cluster(struct move *);
/* The kinds forget what the move has written down. moved: the session is at MOVE_TARGET for good. */
void move_kinds_moved(struct move *, bool moved);
/* The session is at MOVE_TARGET from here on. Behind session_loss_hold. */
void move_settle_down(struct move *, const char *uri, struct move_link *);

#endif
