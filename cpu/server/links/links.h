/*
 * links.h: bytes of device memory go from this worker straight to another one (FLYT_CAP_LINKS in cpu_rpc_prot.x).
 *
 *   links.c      the links of a session: listening, joining, closing
 *   transfer.c   SEND and RECEIVE, which are operations of streams
 *   buffers.c    page-locked memory through which bytes pass where the engine does not reach the device's
 *   borrow.c     links that a communicator of this session uses (cpu/server/comm)
 *   links_state.h  what the two share
 *
 * What a link is and how bytes travel on it is cpu/comm's affair. Only the server program has cpu/comm, which needs
 * TLS; it hands its functions in as a table (struct links_ways). A server in the program's process has no links.
 */
#ifndef FLYT_SERVER_LINKS_H
#define FLYT_SERVER_LINKS_H

#include "cpu/comm/link/link.h"
#include "cpu/server/session.h"

struct server_link;

/* cpu/comm/link/link.h has these functions; dial is the worker's. */
struct links_ways {
    int (*engine)(const struct comm_settings *, struct comm_engine **, char *error);
    int (*adopt)(struct comm_engine *, int fd);
    int (*register_memory)(struct comm_engine *, const void *, uint64_t size);
    int (*unregister_memory)(struct comm_engine *, const void *, uint64_t size);
    int (*create)(struct comm_engine *, const struct comm_link_settings *, struct comm_link **, char *error);
    int (*listen)(struct comm_link *, uint8_t *handles, unsigned *count, char *error);
    int (*join)(struct comm_link *, const uint8_t *handles, unsigned count, uint64_t deadline, char *error);
    void (*abort)(struct comm_link *, int status, const char *why);
    void (*close)(struct comm_link *);
    int (*status)(struct comm_link *);
    const char *(*transport)(const struct comm_link *);
    unsigned (*channels)(const struct comm_link *);
    int (*send)(struct comm_link *, struct comm_transfer *);
    int (*receive)(struct comm_link *, struct comm_transfer *);
    /* Connected sockets to the server at that address, the caller's: as many as `count`, or none. Waits until the
       deadline (clock_now). How many, or -errno with *error: -EPERM: the administrator has not named the address. */
    int (*dial)(const char *address, unsigned count, uint64_t deadline, int *fds, char *error);
};

/* Before HELLO. tls: the links of this session are encrypted. NULL: no memory, there are none then. */
struct links *links_create(struct session *, const struct links_ways *, bool tls);
void links_destroy(struct session *);
/* Whether this driver can have them. */
bool links_offered(const struct session *);
/* Whether the engine sends from device memory and receives into it. */
bool links_reach_memory(const struct session *);
/* A new connection of this session, unread. True: it says that it belongs to a link, and is taken over. Any thread. */
bool links_accept(struct session *, int fd);

/* Before the process ends: links that the client has closed in peace say so to their peers, who would take the end of
   the process for a loss. Waits for a moment at most. */
void links_leave(struct session *);

/* ---- for communicators (borrow.c) ---- */

/* Called once when the link is lost, unless this session has aborted it. In a thread of the engine, with no lock
   held. */
struct links_borrower {
    void (*lost)(void *of, int status, const char *why);
    void *of;
};

/* The joined link of this id is the caller's until it gives it back; meanwhile it stays, also when the client closes
   it. 0; -EINVAL: there is none, or another one has it; -ECONNRESET: it has ended; with *why (RPC_ERROR_SIZE). Under
   session.lock. */
int links_borrow(struct session *, uint32_t id, const struct links_borrower *, struct server_link **out, char *why);
/* Behind it the borrower is not called any more. Not from `lost`. */
void links_mute(struct server_link *);
/* Of a muted one, which may go now. Under session.lock. */
void links_give_back(struct server_link *);
struct comm_link *links_comm(const struct server_link *);
/* NULL: no link was made yet. */
struct comm_engine *links_engine(const struct session *);

/* ---- rows of the table of kinds ---- */

uint64_t links_count(const struct session *);
/* Links with transfers of the context are aborted; behind it nothing of them touches memory. NULL: of all. */
void links_release_all(struct session *, struct context *);
void links_stop(struct session *);
void links_drop_buffers(struct session *, struct context *); /* the context has ended */

#endif
