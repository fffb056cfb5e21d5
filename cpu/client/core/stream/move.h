/*
 * move.h: moving the session to another server. move.c goes over the table of kinds (kinds.h); move_state.c has what
 * the functions of a kind need: which of the two servers calls go to; move_bytes.c copies from one to the other.
 * docs/moving.md says what moves and how.
 */
#ifndef FLYT_CLIENT_CORE_MOVE_H
#define FLYT_CLIENT_CORE_MOVE_H

#include "context.h"
#include "move_ahead.h"
#include "move_pace.h"
#include "move_store.h"
#include "cpu/client/core/api_copy.h"
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/session/kinds.h"
#include "cpu/client/core/wire/rehearsal.h"
#include "cpu/client/core/wire/state.h"

enum move_end { MOVE_SOURCE, MOVE_TARGET };

/* With which sessions one shares memory, by the numbers that the old server gave them. */
enum { MOVE_PARTNERS_MOST = 64 };
struct move_partners { uint64_t session, of[MOVE_PARTNERS_MOST]; unsigned count; bool more; };
/* The programs that move together with this one: see core_move_together. */
struct move_group {
    struct move_partners partners;
    /* Says that this program is there, and waits for the others. CORE_OK: all are. Else nobody moves, and why has the
       reason. */
    int (*meet)(struct move_group *, enum core_meeting, char *why, size_t size);
    core_meet *by;           /* of the caller of core_move_together */
    void *context;
};

/* What the caller of a move wants, and, below, what the move reports. */
struct move_order {
    const char *uri;
    const void *ticket;      /* for the server there; size 0: none */
    size_t      ticket_size;
    unsigned    limit_ms;    /* as of core_move */
    uint64_t    number;      /* the cluster's: it is asked before the session is the new server's; 0: none */
    struct move_group *group;    /* NULL: the program moves alone */
    char       *why;
    size_t      why_size;
    /* filled in */
    bool        reached;     /* the server answered */
    bool        met;         /* it has seen the ticket, and takes it no more */
    bool        hopeless;    /* there is no use in another try: the program would stand still for too long */
    uint64_t    outage_ns;   /* how long the gate was shut */
    uint64_t    bytes;       /* of device memory that were copied */
};

struct move {
    struct move_order *order;
    struct move_place {
        rpc_client  *client;
        hello_result hello;
        int          devices[FLYT_MAX_DEVICES];   /* their numbers there */
    } at[2];
    enum move_end now;                      /* where calls go */
    enum move_steps steps;                  /* of copying contents */
    struct move_store *store;               /* NULL where both steps are taken at once */
    unsigned      kind;                     /* whose contents are being copied */
    char         *why;                      /* the caller's */
    size_t        why_size;
    uint64_t      target_host;              /* bytes of the host window there */
    flyt_id       stream;                   /* an id for the move's own streams */
    uint64_t      stream_token;
    core_context *streaming;                /* whose stream it is now; NULL: nobody's */
    bool          stream_made[2];
    struct move_pipe *pipe;                 /* move_bytes.c; NULL: no bytes are on their way */
    uint64_t      copied;                   /* bytes of device memory and of arrays, in all */
    struct move_pace pace;
    unsigned      direct_lanes;             /* from the old server to the new one, for the bytes; 0: none */
    uint32_t      direct_chunk, direct_transfer;    /* bytes of a transfer at most; the last one's number */
    struct move_ahead *ahead;               /* what the new server has already (move_prepare.c); NULL: nothing */
    bool          prepares;                 /* the program goes on: move_calls says which session calls go through */
    bool          asked;                    /* for ways between the servers: a bridge, and direct lanes */
    bool          met;                      /* the new server: session_meet, and move->stream */
    bool          notes;                    /* the session stays, and its journal is to begin anew (keeper.c) */
    bool          adopts, adopted;          /* the new server takes memory over as it lies; it has taken some */
    struct move_group *group;               /* the order's */
    bool shares_go;                         /* memory that other programs use may go: they go too, or none uses any */
    bool          shares_leave;             /* the old server has heard that it leaves */
    void         *of[KINDS];                /* what each kind has written down */
};

/* Says why the session cannot move, for core_move's caller. The first one counts. Returns the code, or 801 for 0. */
int  move_refuse(struct move *, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Waits for the group's other programs. A result code; what failed has been said. */
int  move_meet(struct move *, enum core_meeting);
/* Calls go to that server from here on. */
void move_go(struct move *, enum move_end);
/* Which session they go through: core_session, unless the program goes on, and they go to the new server. */
struct client_session *move_calls(const struct move *);
/* A stream of the context at the server where calls go, for the move alone: nothing counts its calls. */
int  move_stream(struct move *, core_context *, flyt_id *);
/* Waits for it, and ends it at both servers. */
int  move_stream_end(struct move *);
/* Whether copying contents needs that server. */
static inline bool move_needs(const struct move *move, enum move_end end)
{
    return move->steps & (end == MOVE_SOURCE ? MOVE_OUT : MOVE_IN);
}
/* What the old server has given goes into the store; what the new one is to have comes from it. Only where one step is
   taken alone. part->size of get: room for so many bytes, and how many there are. */
int  move_store_put(struct move *, const struct move_part *, const void *bytes);
/* As move_store_write_swap. */
int  move_store_put_swap(struct move *, const struct move_part *, uint8_t **bytes);
int  move_store_get(struct move *, struct move_part *, void *bytes);
int  move_store_keep_at(struct move *, const struct move_part *);
/* As move_store_look and move_store_write_at. */
struct move_hashes;
int  move_store_look_at(struct move *, const struct move_part *, const struct move_hashes *, uint64_t *at,
                        uint64_t *size);
int  move_store_put_at(struct move *, const struct move_part *, struct move_hashes *, uint64_t at, uint64_t size,
                       uint8_t **bytes);
/* In a rehearsal (wire/rehearsal.h): the bytes of the next call are this part of the store. */
void move_store_name(const struct move_part *, struct journal_stored *);
/* Whether both servers are connected, so that memory need not be copied (adopt_move.c): move->adopts. At rest. */
void move_ask_bridge(struct move *);
/* In place of the call that makes the memory at the new server: `procedure`, answered by a plain_result. Where it turns
   out that the very first such memory cannot be had so, move->adopts becomes false and all is copied. */
int  move_adopt(struct move *, uint32_t procedure, xdrproc_t encode, void *args);
/* Bytes on their way over direct lanes, in pieces, at most. */
enum { MOVE_WINDOW = 24 };
/* Opens direct lanes from the old server to the new one, if they can be had: move->direct_lanes (direct_move.c). At
   rest. */
void move_direct_begin(struct move *);
/* They end. copied: all bytes have arrived; else what is on its way is given up. */
int  move_direct_end(struct move *, bool copied);
/* Copies device memory from the old server to the same address at the new one, or takes one of these two steps. Leaves
   out what is at the new server already (move->ahead). The last of the bytes may still be on their way when it returns:
   move_stream_end waits for them. */
int  move_bytes(struct move *, core_context *, uint64_t address, uint64_t size);
/* A store knows the bytes by the object's name, wherever they lie just now. */
int  move_bytes_of(struct move *, core_context *, uint64_t object, uint64_t address, uint64_t size);
/* Where one step is taken alone, of an object that was not written since the store before was begun: writes all of it,
   if that store has it: *kept. */
int  move_bytes_keep(struct move *, uint64_t object, uint64_t size, bool *kept);
/* A box whose rows and slices have no gaps. */
int  move_box(struct move *, core_context *, uint64_t address, const struct core_extent *);
/* Waits for all that is on its way; after an error too. */
int  move_bytes_end(struct move *);
/* As move_bytes_end, and waits until all of it is where it belongs: the new server has room again for as much. */
int  move_bytes_there(struct move *);
/* The next object of the kind, enum flyt_place, that the new server makes in the context has this number. */
int  move_place(struct move *, core_context *, int kind, uint64_t number);
int  move_place_at(struct move *, core_context *, int kind, const uint64_t *numbers, unsigned count);

/* reach.c: connects, with the order's ticket. The client of move->at[MOVE_TARGET], if there is one, is the caller's
   also after an error. lost: of rpc_client_create. The program may go on meanwhile. */
int  session_reach(struct move *, void (*lost)(void *, const char *), void *context);
/* Says HELLO there, agrees on the window, and fills move->at[MOVE_TARGET]. */
int  session_meet(struct move *);

/* Of each kind, for the table. The sizes: bytes that `contents` will copy, as far as it is known; adopts: where memory
   lies in the same pages at the new server. */
uint64_t allocations_size(const struct move *, bool adopts);
uint64_t handle_size(const struct move *, bool adopts);
uint64_t managed_size(const struct move *, bool adopts);
uint64_t array_size(const struct move *, bool adopts);
uint64_t code_size(const struct move *, bool adopts);
int  context_save(struct move *);
int  context_restore(struct move *);
int  context_restore_one(struct move *, core_context *);
void context_moved(struct move *, bool moved);
int  peer_restore(struct move *);
int  event_save(struct move *);
int  event_restore(struct move *);
void event_moved(struct move *, bool moved);
int  stream_restore(struct move *);
void stream_moved(struct move *, bool moved);
int  code_save(struct move *);
int  code_restore(struct move *);
int  code_contents(struct move *);
void code_moved(struct move *, bool moved);
int  functions_restore(struct move *);
/* While the program goes on (code_prepare.c): the new server loads the modules of the contexts of move->ahead, and
   looks up their functions. 600: the program has removed an image that was being sent. */
int  code_prepare(struct move *);
void code_prepared_free(struct move_ahead *);          /* NULL is allowed */
int  allocations_contents(struct move *);
int  memory_restore(struct move *);
/* While the program goes on (move_prepare.c), of the heap of that context: the new server maps what it does not have of
   it; how many bytes of what both have are to be copied; copies them, over the move's stream in the context. What is
   given back meanwhile is left out. */
int  memory_ahead_map(struct move *, struct ahead_context *);
uint64_t memory_ahead_left(struct move *, const struct ahead_context *);
int  memory_ahead_copy(struct move *, struct ahead_context *);
int  handle_restore(struct move *);
int  handle_contents(struct move *);
/* share_move.c: with whom the program shares memory; its group meets. at_rest: from here on nobody else gets any. */
int  share_ask(struct move *, bool at_rest);
/* The group meets before a session that was suspended is made again: it shared memory with these. */
int  share_meet_again(struct move *, const struct move_partners *);
int  share_restore(struct move *);
void share_moved(struct move *, bool moved);
int  host_space_save(struct move *);
int  host_space_restore(struct move *);
int  host_space_contents(struct move *);
void host_space_moved(struct move *, bool moved);
int  registered_save(struct move *);
/* While the program goes on: the new server makes the heaps of the contexts of move->ahead, which modules may need. */
int  kernel_heap_prepare(struct move *);
int  kernel_heap_save(struct move *);
int  kernel_heap_restore(struct move *);
int  kernel_heap_contents(struct move *);
void kernel_heap_moved(struct move *, bool moved);
int  managed_contents(struct move *);
int  mipmap_save(struct move *);
int  mipmap_restore(struct move *);
int  array_restore(struct move *);
int  array_contents(struct move *);
int  texture_restore(struct move *);
int  surface_restore(struct move *);
void textures_moved(struct move *, bool moved);
int  device_graphs_restore(struct move *);

#endif
