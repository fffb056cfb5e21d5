/*
 * flyt_coordinator.h: libflyt-coordinator, by which a program orders GPUs of several servers to send to each other.
 * flyt_coordinator(3) describes it.
 *
 * A coordinator has a session at each of its GPU servers, its members. A communicator gives ranks to some of them and
 * links them all. The sender gets its order first, and numbers the transfer; then the receiver learns where it goes,
 * from which rank it comes, and its number. Bytes go from GPU server to GPU server, never through the coordinator.
 *
 * Functions that return int give 0, or a negative errno value; flyt_coordinator_error() then says what was tried and
 * why it failed. A coordinator and its communicators are used by one thread at a time. Timeouts are in milliseconds.
 */
#ifndef FLYT_COORDINATOR_H
#define FLYT_COORDINATOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef FLYT_COORDINATOR_API
#define FLYT_COORDINATOR_API
#endif

enum { FLYT_COORDINATOR_MEMBERS = 16 };     /* at most */

typedef struct flyt_coordinator flyt_coordinator;
typedef struct flyt_communicator flyt_communicator;

/* Why this thread's last call has failed. Good until its next call. */
FLYT_COORDINATOR_API const char *flyt_coordinator_error(void);

/* ---- members ---- */

/* Connects to the servers; one may be named several times. Member i is device 0 of servers[i]: tcp://… or tls://…,
   started with --links; or "manager:", a GPU server that the client manager of this machine gives, as to a program of
   its own (FLYT_MANAGER says where that listens). */
FLYT_COORDINATOR_API int  flyt_coordinator_create(const char *const *servers, unsigned count, flyt_coordinator **out);
/* With its communicators and all memory of its members. NULL is allowed. */
FLYT_COORDINATOR_API void flyt_coordinator_destroy(flyt_coordinator *);
/* Device memory of a member, from *address on; it is the member's until the coordinator ends. */
FLYT_COORDINATOR_API int  flyt_coordinator_memory(flyt_coordinator *, unsigned member, uint64_t size,
                                                  uint64_t *address);
/* Behind all earlier orders of the member; both wait. */
FLYT_COORDINATOR_API int  flyt_coordinator_write(flyt_coordinator *, unsigned member, uint64_t address,
                                                 const void *bytes, size_t size);
FLYT_COORDINATOR_API int  flyt_coordinator_read(flyt_coordinator *, unsigned member, uint64_t address, void *bytes,
                                                size_t size);
/* Waits until the member has carried out all orders. What has failed since the last time is an error here:
   -ENOLINK: a link was lost. */
FLYT_COORDINATOR_API int  flyt_coordinator_wait(flyt_coordinator *, unsigned member);

/* Bytes that the coordinator and the member have sent each other so far. */
FLYT_COORDINATOR_API uint64_t flyt_coordinator_traffic(const flyt_coordinator *, unsigned member);

/* ---- ranks ---- */

/* Rank r is members[r]. Links all ranks with all. *out is gone with its coordinator. */
FLYT_COORDINATOR_API int  flyt_communicator_create(flyt_coordinator *, const unsigned *members, unsigned ranks,
                                                   unsigned timeout_ms, flyt_communicator **out);
FLYT_COORDINATOR_API void flyt_communicator_destroy(flyt_communicator *);

/* Orders `rank` to send to rank `to`. *transfer: the number that the sender has given it. Begun is not done. */
FLYT_COORDINATOR_API int  flyt_communicator_send(flyt_communicator *, unsigned rank, unsigned to, uint64_t address,
                                                 uint64_t size, uint64_t *transfer);
/* Orders `rank` to receive transfer `transfer` of rank `from` there. Of one pair of ranks and direction, transfers are
   received in the order of these calls. */
FLYT_COORDINATOR_API int  flyt_communicator_receive(flyt_communicator *, unsigned rank, unsigned from,
                                                    uint64_t transfer, uint64_t address, uint64_t size);
/* Both, waiting for neither: the coordinator counts as the sender does. */
FLYT_COORDINATOR_API int  flyt_communicator_copy(flyt_communicator *, unsigned from, uint64_t from_address,
                                                 unsigned to, uint64_t to_address, uint64_t size);
/* The orders of a group go out at its end: all sends first, then each rank's receives in the order of the numbers.
   Groups do not nest. In a group a send gives its number at once. */
FLYT_COORDINATOR_API int  flyt_communicator_group_begin(flyt_communicator *);
FLYT_COORDINATOR_API int  flyt_communicator_group_end(flyt_communicator *);

#ifdef __cplusplus
}
#endif
#endif
