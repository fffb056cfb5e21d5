/*
 * ranked.h: a communicator of two GPU servers, spoken by hand: what its tests share. The test is the client of all
 * ranks: two sessions, of two servers with two GPUs each. Ranks 0 and 1 are contexts of the first session, rank 2 is of
 * the second one.
 */
#ifndef FLYT_TESTS_SERVER_RANKED_H
#define FLYT_TESTS_SERVER_RANKED_H

#include "tests/server/linked.h"

#include <signal.h>
#include <unistd.h>

#include "cpu/comm/plan/plan.h"
#include "cpu/comm/reduce/reduce.h"
#include "cpu/common/clock.h"

enum { RANKS = 3, TCP = 1, WORDS = 300000, COMM = 5, STREAM = FLYT_FIRST_STREAM, LINK = 1 };
enum { INVALID = 1, NO_MEMORY = 2, UNAVAILABLE = 46, HANDLE = 400, FORBIDDEN = 800 };
#define AREA ((uint64_t)WORDS * 4 * RANKS)

extern struct server servers[2];
extern struct peer peers[2];
/* Of each rank: its context in its session, its stream, its memory: `in`, and `out` behind it; AREA bytes each. */
extern const uint32_t context_of[RANKS], stream_of[RANKS];
extern uint64_t in[RANKS], out[RANKS];
struct peer *peer_of(int rank);

/* A call without an answer has gone. */
void sent(enum clnt_stat);

/* The servers, and their communicator: rank r is communicator COMM + r of its session, over LINK and the next one. */
void begin(void);
void end(void);
/* Another one: id + r, over two links from first_link on. */
void comm_up(uint32_t id, uint32_t first_link);
/* The links of the communicator that begin() has made; it is closed. */
void links_down(void);
/* The code of the call; create_why says why it failed. */
int comm_create(struct peer *, uint32_t comm, uint32_t context, uint32_t rank, uint32_t *links, u_int ranks,
                char place);
extern char create_why[FLYT_MAX_SHORT];
void comm_close(int rank, uint32_t comm, const char *why);
int comm_status(int rank, char why[FLYT_MAX_SHORT]);

/* A collective of this rank, or of all. What is 0 is the rank's own: its communicator, stream and memory. */
void op(int rank, comm_op_args);
void op_all(comm_op_args);

/* Waits until the rank's stream is idle. Returns why the wait failed, else the error that its session has latched since
   the last call, or 0. */
int synchronise(int rank);
/* Nothing is latched on any rank. */
void all_good(void);
/* All ranks have ended within a second, and the reason names this. */
void all_end(const char *named);
/* The rank's program has its session, and its device works. */
bool goes_on(int rank);

/* Word i of what a rank gives, and the sum of all ranks'. */
int32_t value(int rank, unsigned i);
int32_t sum(unsigned i);
/* So many words of each rank's `in`; each word of `out` becomes 0xeeeeeeee. */
void fill(unsigned words);
int32_t *words_at(int rank, uint64_t address, unsigned words);

#endif
