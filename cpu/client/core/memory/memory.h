/*
 * memory.h: what every address means (address.c), which are free (window.c), and device memory (memory.c, handle.c).
 */
#ifndef FLYT_CLIENT_CORE_MEMORY_H
#define FLYT_CLIENT_CORE_MEMORY_H

#include "cpu/client/core/api_memory.h"

struct client_session;

/* ---- address.c ---- */

enum { DEVICE_SYMBOL = 1 };           /* the flag of a variable's range in the address map */

/* 0, 1 when it overlaps another range, 2 without memory. */
/* NULL: host memory */
int  address_add(enum core_memory_kind, core_context *owner, uint64_t base, size_t size, unsigned flags);
/* Where a handle is mapped, which belongs to no context (handle.c). Neighbours count as one range. */
int  address_add_mapped(int device, uint64_t base, size_t size, bool of_host);
/* An allocation of a pool, which belongs to no context either (pool.c). */
int address_add_pooled(int device, uint64_t base, size_t size);
/* Memory of another program, open in the context (share.c). */
int address_add_imported(core_context *owner, int device, uint64_t base, size_t size);
/* The program may free it with cuMemFree or cuMemFreeAsync. */
bool address_is_pooled(const struct core_range *);
/* Takes out the range that starts at base and is of that kind; false: none. */
bool address_remove(enum core_memory_kind, uint64_t base, struct core_range *out);
/* Removes the range of a variable of a module in the context, as address_remove does. */
bool address_remove_variable(const core_context *, uint64_t base, struct core_range *out);
/* Finds the range of an address as streams of the session see it. core_address_lookup goes by the thread's context. */
bool address_lookup_at(const struct client_session *, uint64_t address, struct core_range *out);
uint64_t address_count(enum core_memory_kind);              /* ranges of that kind; symbols are not counted */
/* core_address_set_synchronous: whether it was ever called so, and whether the address is such memory. */
extern atomic_bool address_any_synchronous;
bool address_is_synchronous(uint64_t address);
/* Whether all of it is one piece of memory; neighbouring mappings of handles count as one. */
bool address_covers(uint64_t address, uint64_t size);
/* Every allocation of device memory, in order of address. The visitor must not change the map. */
void address_each_allocation(void (*visit)(const struct core_range *, void *context), void *context);
void address_forget_context(core_context *);                /* its device memory and symbols */

/* ---- window.c: which parts of the window are taken, in granules ---- */

int  window_open(uint64_t base, uint64_t size, uint64_t granularity);
/* Takes size bytes (a multiple of the granularity): exactly at `at` if free (0: do not try), else the lowest fit at or
   above `from`, else anywhere, at a multiple of `unit` from the window's base. 0: none. */
uint64_t window_take(uint64_t at, uint64_t from, uint64_t size, uint64_t unit);
uint64_t window_take_top(uint64_t size);
void window_give(uint64_t address, uint64_t size);

/* ---- memory.c, and the credit behind it (heap.c, credit.c) ---- */

/* Device memory that the address map does not know: 512-byte aligned, and given back by its address when no work uses
   it any more. A code. */
int  memory_take(core_context *, uint64_t size, uint64_t *address);
void memory_put(core_context *, uint64_t address);
/* The first memory of a context that is being made. The MAP travels right behind the call that makes the context, and
   nobody waits for it alone: memory_ask_first sends it, memory_first_answered takes the answer when that of the call
   before it has come. NULL: nothing was asked. The context has no memory yet, and nobody else uses it meanwhile. What
   cannot be had now is asked for when it is needed. */
struct map_question *memory_ask_first(core_context *);
void memory_first_answered(struct map_question *);
/* The first memory of the context that the server makes with HELLO: how many bytes to wish for; and, at attach, when
   nothing of the window is taken yet, how many the server has mapped from its beginning on. */
uint64_t memory_first_wanted(void);
void memory_first_granted(core_context *, uint64_t size);
/* true: before the server is asked to end the context. false: it has refused. */
void memory_context_ends(core_context *, bool ends);
void memory_forget_context(core_context *);                 /* after its end */
/* The server wants credit back, and an answer. */
void memory_recall(struct client_session *, unsigned number, uint64_t bytes);
/* by the helper, now and then: what lay idle for long goes back */
void memory_tend(void);
uint64_t memory_pieces(void);                               /* mapped, of all contexts that nobody maps for now */
uint64_t memory_mapped_of(core_context *);                    /* without making it a heap */
uint64_t memory_credit(core_context *);                       /* mapped and unused */
extern uint64_t memory_grow_at_least;
void memory_give_back(void);                                /* all credit that no allocation uses */
/* Waits for all work that may use memory of the context (NULL: of any). */
int  memory_settle(core_context *owner);

/* ---- handle.c, handle_chunk.c, handle_shared.c ---- */

int  handle_open(void);                                     /* at attach */
uint64_t handle_count(void);
/* Which devices may use memory: bit d is device d. What a device may write it may read. */
struct rights {
    uint64_t read, write;
};
enum { ACCESS_READ = 1, ACCESS_READ_WRITE = 3 }; /* CUmemAccess_flags; 0: none */

static inline unsigned rights_of(const struct rights *rights, int device)
{
    uint64_t bit = UINT64_C(1) << device;
    return rights->write & bit ? ACCESS_READ_WRITE : rights->read & bit ? ACCESS_READ : 0;
}

static inline void rights_note(struct rights *rights, int device, unsigned access)
{
    uint64_t bit = UINT64_C(1) << device;
    rights->read = access ? rights->read | bit : rights->read & ~bit;
    rights->write = access == ACCESS_READ_WRITE ? rights->write | bit : rights->write & ~bit;
}

/* A handle that is mapped at a place of its own, where its device may read and write, and others what `others`
   says: memory of a pool. The program sees none of the two. A result code. Waits. */
struct physical;
/* Memory that only descriptors kept, and that no process has a descriptor of any more. wait: for the lock, which is
   held while the server is asked. Whether there was any. */
bool handle_give_back(bool wait);
struct handle_chunk {
    uint64_t address, size;
    struct physical *of;
};
int handle_chunk_make(int device, uint64_t size, const struct rights *others, struct handle_chunk *);
/* What another device may do with it: CUmemAccess_flags. A result code. Waits. */
int handle_chunk_access(struct handle_chunk *, int device, unsigned access);
/* Makes a chunk of memory that another program has exported; the exported range begins `offset` bytes behind the
   address. A result code. Waits. */
struct handle_range { int device; uint64_t offset, length; };
int handle_chunk_import(const char *share, struct handle_chunk *, struct handle_range *);
/* By what others import it (FLYT_SHARE_SIZE bytes). A result code. The first time it waits. */
int handle_chunk_share(struct handle_chunk *, char *share);
/* Whether the memory that it names could be imported now: false once its program has ended. Waits. */
bool handle_share_lives(const char *share);
/* No work uses it. Does not wait. */
void handle_chunk_end(struct handle_chunk *);

#endif
