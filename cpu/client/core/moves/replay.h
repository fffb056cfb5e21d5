/*
 * replay.h: the calls of the journal are sent to another server (wire/journal.h), and its answers are compared with
 * those that the program was given.
 */
#ifndef FLYT_CLIENT_CORE_REPLAY_H
#define FLYT_CLIENT_CORE_REPLAY_H

#include <stdbool.h>
#include <stddef.h>

#include "cpu/rpc/rpc.h"

struct move_store;
struct replay;
/* `next` is connected, has said HELLO, and has the program's window. store: the checkpoint with which the journal
   begins; NULL: it begins with the session. NULL: no memory. */
struct replay *replay_begin(rpc_client *next, struct move_store *store);
/* Nobody adds to the journal meanwhile. False: an answer differs, or the server failed; *why says it. */
bool replay_run(struct replay *, char *why, size_t size);
/* `client`, whose journal it is, goes on with the connection of `next`, which is gone then. */
bool replay_hand_over(struct replay *, rpc_client *client);
void replay_end(struct replay *);

#endif
