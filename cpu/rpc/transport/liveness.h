/*
 * liveness.h: when a peer counts as dead. docs/liveness.md has the rule, all times, and what follows for whom.
 *
 * Two questions are kept apart. Does the peer's machine answer? The system knows: it sends what was not acknowledged
 * again, and asks an idle or full peer now and then, whatever the program there does. Does the peer itself live? A
 * server says so (beats); a client need not: it may be stopped for as long as it likes.
 */
#ifndef FLYT_RPC_LIVENESS_H
#define FLYT_RPC_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

/* Seconds of silence after which a peer counts as dead: FLYT_SILENCE, a number from 1 to RPC_SILENCE_MOST; else 10. */
enum { RPC_SILENCE_USUAL = 10, RPC_SILENCE_MOST = 86400 };
int rpc_silence_seconds(void);
/* False: one of FLYT_SILENCE, FLYT_SUSPEND and FLYT_RECLAIM says something else, and its usual time counts. */
bool rpc_silence_valid(void);

/* So often somebody who waits for `seconds` of silence to pass looks at the clock (clock_run), in ns. */
uint64_t rpc_silence_look(int seconds);
/* A server that has said nothing for so long says that it lives, in ns. */
uint64_t rpc_beat_interval(void);

/* Silence of a program in a virtual machine that shares memory with this host: the machine may be paused for a while.
   It counts as suspended after FLYT_SUSPEND (30), and its session is ended after FLYT_RECLAIM (600) seconds. */
enum { RPC_SUSPEND_USUAL = 30, RPC_RECLAIM_USUAL = 600 };
int rpc_suspend_seconds(void);
int rpc_reclaim_seconds(void);

/* Sets what a TCP socket needs so that the system finds out by itself whether the peer's machine answers: in
   rpc_silence_seconds while nothing is under way, in a longer time otherwise; then see rpc_network_silent. Not for
   other sockets. */
void rpc_network_watch(int fd);
void rpc_network_watch_for(int fd, int seconds);
/* Something is under way on this TCP socket that the peer's machine has to answer, was sent several times, and nothing
   has come back for rpc_silence_seconds. False for other sockets. */
bool rpc_network_silent(int fd);
bool rpc_network_silent_for(int fd, int seconds);

#endif
