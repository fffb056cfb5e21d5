/*
 * handle_state.h: what handle.c (reservations, handles and where they are mapped), handle_host.c (memory of the host),
 * handle_chunk.c (memory of pools), handle_shared.c (memory of several programs) and handle_move.c (another server)
 * share. All of it is under handle_lock, also while the server is asked: programs do this when they start or grow, not
 * in their loops.
 */
#ifndef FLYT_CLIENT_CORE_HANDLE_STATE_H
#define FLYT_CLIENT_CORE_HANDLE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "cpu/common/ids.h"
#include "cpu/common/tree.h"
#include "memory.h"
#include "cpu/client/core/wire/wire.h"

struct physical {
    int      device;
    uint64_t size;
    struct rights chunk_rights;       /* of a chunk */
    uint32_t wire;                    /* of the protocol, an index of `handle_wires` */
    id_token named;                   /* there */
    id_token token;                   /* the program's; 0: it has released all that it had */
    bool     shared, named_there;     /* it may be exported; named_there: `share` is known */
    bool     imported;
    char     share[FLYT_SHARE_SIZE];  /* by which other programs import it */
    uint64_t chunk_at;                /* where it is mapped as a chunk (handle_chunk_make); 0: it is none */
    struct core_host_place place;     /* of the host's memory */
    uint32_t moved;                   /* move_written_next() when it was made, or who may use it where has changed */
    bool     touched;                 /* during a checkpoint: it may have been written since the one before */
    unsigned handles, mappings;       /* the server's memory goes when both are 0, and no descriptor keeps it */
    int     *watches;                 /* of descriptors that name it (share_note_held) */
    unsigned watch_count;
    struct physical *next_kept;
};

struct client_mapping {
    struct tree_node node;            /* key: address */
    uint64_t size;
    struct physical *of;
    struct rights rights;             /* as the program gave them */
    bool host;                        /* the program may touch it, too (handle_host.c) */
};

extern pthread_mutex_t handle_lock;
extern id_table *handle_wires;                         /* every struct physical, by its name on the wire */
extern atomic_uint_fast64_t handle_share_count;        /* handles that have been exported or imported */

/* Asks the server: what a device may do with a fresh or an older mapping. A result code. */
int access_ask(uint64_t address, uint64_t size, int device, unsigned access);

/* Asks the server to map the memory with these rights. If the server refuses them, nothing stays mapped. */
int mapping_ask_with(const struct physical *, uint64_t address, const struct rights *);
/* Asks the server to unmap whole mappings. Does not wait. A result code. */
int mapping_end(struct client_session *, uint64_t address, uint64_t size);

/* Addresses behind the heaps of all contexts: at `hint` if they are free there. 0: none. Give them back with
   window_give. */
uint64_t addresses_take(uint64_t hint, uint64_t size, uint64_t unit);

/* What the server lets devices do there: pages of the program pass through the device that has the memory. */
struct rights mapping_rights(const struct client_mapping *);
/* Whole mappings fill the range without gaps. */
bool mappings_fill(uint64_t address, uint64_t size);
/* Whoever may use it is noted, and the address map has what somebody may use. */
void access_note(struct client_mapping *, const struct rights *, bool host);
/* Before it is unmapped: the program may not touch it any more. A result code. */
int mapping_shut(struct client_mapping *);
/* Locks handle_lock, and before it the pages of managed memory: in that order always. */
void handle_lock_pages(void);
void handle_unlock_pages(void);

/* The mapping that holds the address; NULL: none. */
struct client_mapping *mapping_of(uint64_t address);
/* The mapping at the address, or the next one above. NULL: none. */
struct client_mapping *mapping_at_or_above(uint64_t address);

/* Of the device whose memory it is. */
struct client_session *physical_session(const struct physical *);
/* What the program's token names. NULL: nothing. */
struct physical *physical_find(id_token);
/* A new one, without a token. NULL: *code says why. */
struct physical *physical_create(int device, uint64_t size, int *code);
/* Makes the program's first handle of it, or ends it. A result code. */
int physical_name(struct physical *, core_handle *);
/* After one use less: ends it if nothing uses it any more. A result code. */
int physical_drop(struct physical *);
/* Its name on the wire. A result code. */
int wire_take(struct physical *);
void wire_give(struct physical *);
/* Whether some process still has a descriptor that names it. Forgets the descriptors that were closed. */
bool physical_described(struct physical *);
/* Ends the memory of which the last descriptor has been closed. Nobody reports when that happens: so this looks
   whenever the program asks for memory, for its amount, or about handles. Whether there was any. */
bool kept_look(void);

/* ---- handle_shared.c ---- */

/* Asks the server for the bytes by which others import it, the first time. A result code. */
int physical_share(struct physical *);
/* Memory that another program has exported, without a token. NULL: *code says why. */
struct physical *physical_import(const char *share, struct handle_range *, int *code);

#endif
