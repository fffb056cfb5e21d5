/*
 * liveness.h: when a peer counts as dead. docs/liveness.md has the rule, all times, and what follows for whom.
 *
 * Two questions are kept apart. Does the peer's machine answer? The system knows: it sends what was not acknowledged again, and
 * asks an idle or full peer now and then, whatever the program there does. Does the peer itself live? A server says so (beats); a
 * client need not: it may be stopped for as long as it likes.
 */
#ifndef FLYT_RPC_LIVENESS_H
#define FLYT_RPC_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

/* Seconds of silence after which a peer counts as dead: FLYT_SILENCE, a number from 1 to RPC_SILENCE_MOST; else 10. */
enum { RPC_SILENCE_USUAL = 10, RPC_SILENCE_MOST = 86400 };
int rpc_silence_seconds(void);
/* False: FLYT_SILENCE says something else, and the usual time counts. */
bool rpc_silence_valid(void);

/* So often somebody who waits for `seconds` of silence to pass looks at the clock (clock_run), in ns. */
uint64_t rpc_silence_look(int seconds);
/* A server that has said nothing for so long says that it lives, in ns. */
uint64_t rpc_beat_interval(void);

/* Sets what a TCP socket needs so that the system finds out by itself whether the peer's machine answers: in rpc_silence_seconds
   while nothing is under way, in a longer time otherwise; then see rpc_network_silent. Not for other sockets. */
void rpc_network_watch(int fd);
/* Something is under way on this TCP socket that the peer's machine has to answer, was sent several times, and nothing has come
   back for rpc_silence_seconds. False for other sockets. */
bool rpc_network_silent(int fd);

#endif
