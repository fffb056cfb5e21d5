/* linking.h: two programs, each at a GPU server of its own, and the links between them: what tests of links share. The
 * test is the client of both. */
#ifndef FLYT_TESTS_SERVER_LINKING_H
#define FLYT_TESTS_SERVER_LINKING_H

#include "tests/server/linked.h"
#include "tests/server/peer.h"

enum { TCP = 1, TLS, HANDLES = 9, INVALID = 1, UNAVAILABLE = 46, HANDLE = 400, FORBIDDEN = 800, NOT_SUPPORTED = 801 };
enum { MIB = 1 << 20, JOIN_MS = 8000, LINK = 3, STREAM = FLYT_FIRST_STREAM, SILENCE = 2 };

/* The two programs, and the servers that they use: of one machine. */
extern struct server servers[2];
extern struct peer peers[2];
extern uint64_t memory_size;             /* that each of them has */
extern int way;                          /* by which the programs have come, TCP or TLS: so are their links */
extern char join_why[2][FLYT_MAX_SHORT]; /* why join_both failed, at each end */

/* A server with these options, and its program. */
void begin_one(int which, const char *const *more);
/* Both; they may link servers at these addresses. */
void begin_with(const char *allowed);
void begin(void);
void end(void);
int link_listen(int which, uint32_t link, struct link_handles *out);
/* The codes of both ends. */
void join_both(uint32_t link, struct link_handles handles[2], const char *const uris[2], unsigned ms,
               int codes[2]);
void link_up(uint32_t link);
int link_memory(int which, uint64_t offset, uint64_t size, int registered);
void both_linked(uint32_t link);
void send_on(uint32_t link, uint32_t stream, uint64_t offset, uint64_t size, uint64_t transfer);
void receive_on(uint32_t link, uint32_t stream, uint64_t offset, uint64_t size, uint64_t transfer);
uint64_t send_begin(uint32_t link, uint32_t stream, uint64_t offset, uint64_t size);
void link_close(int which, uint32_t link, const char *why);
int link_status(int which, uint32_t link, char why[FLYT_MAX_SHORT]);
/* The link has ended at this end by then; why. */
void wait_for_end(int which, uint32_t link, double seconds, char why[FLYT_MAX_SHORT]);
/* What the stream's end brings: the latched error, or the call's. */
int synchronise(int which, uint32_t stream);
/* The program has its session, and its device works. */
bool goes_on(int which);
uint32_t word_at(int which, uint64_t offset);

#endif
