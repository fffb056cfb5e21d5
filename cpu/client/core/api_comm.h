/*
 * api_comm.h: communicators (copy/comm.c): collectives between the memories of GPUs, and the links that they use
 * (cpu_rpc_prot.x, "Links", "Communicators"). Where `why` is a parameter it has CORE_WHY_SIZE bytes, and says after a
 * failure what the server said, or nothing.
 */
#ifndef FLYT_CLIENT_CORE_API_COMM_H
#define FLYT_CLIENT_CORE_API_COMM_H

#include "cpu/client/core/api_stream.h"

enum { CORE_WHY_SIZE = 512, CORE_LINK_HANDLE_SIZE = 128, CORE_LINK_HANDLES_MOST = 17 };
/* In place of a link: a rank of this process at the same server; for the rank itself, too. */
#define CORE_COMM_NEAR UINT32_MAX

/* Whether the server offers communicators, graphs that keep their operations, links, and one-sided operations. Connects
   if need be. */
struct core_comms_offer {
    bool comms, kept, links, sided;
};
CORE_API int core_comms_offered(struct core_comms_offer *);
/* Writes the address (URI) at which the program has connected to the context's server, without what stands behind a
   question mark. context NULL: of the program's first server. A move of the session changes it. */
CORE_API void core_server_address(const core_context *, char *, size_t size);

/* A new link of the context's server, and its handles, CORE_LINK_HANDLE_SIZE bytes each. Waits. */
CORE_API int core_link_listen(core_context *, uint32_t *link, uint8_t *handles, unsigned *count, char *why);
/* Where a client manager has given this program its server, the server connects to no address that a program says: the
   end that is connected to makes an offer, and the other one takes it, which gives the address for core_link_join. The
   context says which of the program's servers is meant. */
enum { CORE_LINK_OFFER_SIZE = 32 };
CORE_API bool core_links_managed(void);
CORE_API int core_link_offer(core_context *, uint8_t offer[CORE_LINK_OFFER_SIZE], char *why);
/* connections: as many as the other end has handles. address: CORE_WHY_SIZE bytes. */
CORE_API int core_link_take(core_context *, const uint8_t offer[CORE_LINK_OFFER_SIZE], unsigned connections,
                            char *address, char *why);
/* With the other end's. Waits until all channels stand, so many milliseconds at most. */
CORE_API int core_link_join(uint32_t link, const char *server, const uint8_t *handles, unsigned count, unsigned ms,
                            char *why);
CORE_API int core_link_close(uint32_t link);

/* Names a communicator; no later one has the same name. 0 names none. */
typedef uint64_t core_comm;
/* A rank on the context's GPU. links: one for each rank, of the context's server. place: 16 bytes that only ranks of
   this communicator know. Waits. */
CORE_API int core_comm_create(core_context *, const uint8_t place[16], unsigned rank, const uint32_t *links,
                              unsigned ranks, core_comm *, char *why);
/* Numbers as in cpu/comm; see there. factor_at: where the factor is on the device; 0: it is in `factor`. */
struct core_comm_call {
    int kind, type, operation;
    unsigned root;
    uint64_t count, in, out, factor_at;
    uint8_t factor[8];
};
/* Of a communicator that was closed: 400. So a graph that has a collective of it fails when it is launched. In a stream
   of another server than the communicator's: 1. */
CORE_API int core_comm_call(core_context *, core_stream, core_comm, const struct core_comm_call *);
struct core_comm_message {
    bool sends;
    unsigned peer;
    uint64_t address, size;
};
CORE_API int core_comm_messages(core_context *, core_stream, core_comm, const struct core_comm_message *,
                                unsigned count);
/* One-sided operations (cpu/comm/sided.h). A put (size 0: a signal only), or, with `waits`, a wait for so many
   signals (size) of the peer, of which the rest does not matter. CORE_NOT_SUPPORTED: the server is of an earlier
   release. At most CORE_COMM_SIDED_MOST at a time. */
enum { CORE_COMM_SIDED_MOST = 2048 };
struct core_comm_sided {
    unsigned peer;
    uint32_t window;
    uint64_t offset, address, size;
};
CORE_API int core_comm_sided(core_context *, core_stream, core_comm, bool waits, const struct core_comm_sided *,
                             unsigned count);
/* This rank's part of the communicator's next window, and its number. Waits for an answer, and for no rank. */
CORE_API int core_comm_window_add(core_comm, uint64_t address, uint64_t size, uint32_t *number, char *why);
/* *ready: all ranks have registered theirs; then sizes (one for each of `ranks`) are filled in. */
CORE_API int core_comm_window_sizes(core_comm, uint32_t number, unsigned ranks, bool *ready, uint64_t *sizes,
                                    char *why);
/* CORE_NOT_READY: bytes are coming; to be tried again. */
CORE_API int core_comm_window_remove(core_comm, uint32_t number);
/* Before that memory is freed: removes all windows there, and waits for bytes that are coming. */
CORE_API void core_windows_end(uint64_t address, uint64_t size);
/* *status: 0, or an errno value: it has ended. Waits. Of one that this process has closed: 400, when the server has
   closed it, too. */
CORE_API int core_comm_status(core_comm, int *status, char *why);
/* How many of its operations are not complete. CORE_NOT_SUPPORTED: the server is of an earlier release, and does not
   say it. Waits for an answer, and for nothing else. */
CORE_API int core_comm_pending(core_comm, unsigned *operations);
/* abort: NULL: when its operations are complete; else it ends at once, and the other ranks read why. */
CORE_API int core_comm_close(core_comm, const char *abort);

#endif
