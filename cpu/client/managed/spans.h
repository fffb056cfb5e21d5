/*
 * spans.h: the pages of managed memory: whether the program or the device has a page's newest contents, and how the
 * other side gets them.
 *
 * A span is a piece of device memory that lies at the same addresses in the program. Each of its pages is in one state:
 *
 *   nobody's    no allocation uses it; the program may not touch it
 *   device      the device has the newest contents, or may have; the program's next access faults and fetches it
 *   untouched   allocated, and nobody has written it; the program's first access gets a page of zeros
 *   clean       both sides have the same; the program may read it, and faults when it writes
 *   dirty       the program has the newest contents
 *
 * The last three are open: before work that may use such a page its contents go to the device if it is dirty, the
 * program loses access to it, and it is the device's. So work costs nothing as long as the program touches no page
 * between (HEED_MANAGED in launch_heed says whether any page is open that work may want, or has been closed and is on
 * its way to the device: a kernel of another thread must not overtake it).
 *
 * So an open page is one that no work under way may write. Where a thread touches a page, its neighbours are opened
 * only as far as that holds (quiet.c).
 *
 * Which work may use a page is its scope: that of every stream, of none, or of one stream (cudaStreamAttachMemAsync).
 *
 * spans.c keeps the states, quiet.c knows of work, move.c moves pages, fault.c serves accesses, pages.h says how the
 * system is told.
 */
#ifndef FLYT_CLIENT_MANAGED_SPANS_H
#define FLYT_CLIENT_MANAGED_SPANS_H

#include <pthread.h>

#include "cpu/client/core/stream/stream.h"
#include "cpu/common/lock.h"
#include "cpu/common/tree.h"

enum { PAGE = 4096, BLOCK_PAGES = 16, AHEAD_MOST = 1024, SCOPES_MOST = 256 };
enum page_state { PAGE_NOBODYS, PAGE_DEVICE, PAGE_UNTOUCHED, PAGE_CLEAN, PAGE_DIRTY };
enum { SCOPE_ALL = 0, SCOPE_HOST = 1, SCOPE_STREAM = 2 };    /* that and above: of one stream each */

/* Bytes of a span that exist on the device, where not all do: variables. */
struct piece { uint64_t address, size; };

struct span {
    struct tree_node node;            /* key: address of the first page */
    size_t        pages;
    core_context *context;
    uint64_t      block;              /* block_take gave it; 0: these are variables */
    bool          slab;               /* several small allocations share it */
    bool          mapping;            /* a handle of the host's memory is mapped there: no context, no block */
    int           device;             /* of a mapping: where the memory lies */
    uint8_t      *state, *scope;      /* by page */
    uint32_t *opened;                 /* by page: a number that changes when the page is opened */
    size_t        used;               /* pages that are somebody's */
    size_t        open, first, beyond;                      /* open pages; they lie in [first, beyond) */
    size_t        next, ahead;        /* the page behind the last one that was opened, and how many were, in a row */
    struct piece *pieces;
    size_t        piece_count;
};

extern pthread_mutex_t spans_lock;    /* all of what follows; held over calls to the server, and while it changes */

static inline uint64_t span_base(const struct span *s) { return s->node.key; }
static inline uint64_t page_address(const struct span *s, size_t page) { return s->node.key + page * PAGE; }

struct span *span_find(uint64_t address);                   /* NULL: there is none */
struct span *span_after(const struct span *);               /* in the order of addresses; NULL: the first, the end */
struct span *span_above(uint64_t address);                  /* the first that ends above it */
/* All pages nobody's. NULL: no memory. */
struct span *span_new(uint64_t base, size_t pages, core_context *, uint64_t block);
void span_delete(struct span *);
uint64_t spans_count(void);

/* Pages [first, first + count) get the state, and those that become somebody's the scope. */
void span_set(struct span *, size_t first, size_t count, enum page_state);
void span_set_scope(struct span *, size_t first, size_t count, unsigned scope);
/* A page is about to be opened, or has been: work that begins between waits for spans_lock first. */
void spans_opening(bool begins);
/* Contents of pages are on their way to the device, or have arrived: work that begins between waits for spans_lock,
   also where no page is open any more. */
void spans_sending(bool begins);
/* How many pages from there on, at most `most`, are in the page's state and scope. */
size_t span_run(const struct span *, size_t page, size_t most);

/* The scope of that stream, made when it is new; SCOPE_ALL when there are too many. */
unsigned scope_of_stream(const struct client_stream *);
/* Whether work of the stream may use pages of that scope. NULL: of some stream. */
bool scope_serves(unsigned scope, const struct client_stream *);
/* Whether any open page may be used by it. */
bool scopes_any_open(const struct client_stream *);
/* The stream of a scope; 0: it is gone, or this is no such scope. */
core_stream scope_stream(unsigned scope);

/* ---- move.c ---- */

enum close_how {
    CLOSE_READ,    /* the device will read: dirty pages become clean */
    CLOSE_WRITE,   /* it may write, too: all become the device's */
    CLOSE_DROP     /* nobody wants what the program has written: they become the device's, unsent */
};
/* The state of pages [first, first + count) before work. Nothing is waited for: see moves_settle. A code. */
int  move_close(struct span *, size_t first, size_t count, enum close_how);
/* Closes all open pages that work of the stream may use; NULL: of some stream. */
int  move_close_all(const struct client_stream *);
/* What was sent has arrived. */
int  moves_settle(void);
/* Opens the page for reading or for writing: the device has done with it. And others around it, where no work may write
   these. in_function: for a function of the program, for which a stream waits. */
int move_open(struct span *, size_t page, bool writes, bool in_function);
void moves_forget_context(core_context *);

/* ---- quiet.c ---- */

/* All work has ended, as far as is known here, that could use a page of the scope and was given before. */
bool work_ended(unsigned scope);
/* And none begins before it waits for spans_lock. Between spans_opening(true) and (false); in_function as for
   move_open. */
bool work_quiet(unsigned scope, bool in_function);
/* A copy or a set is about to be sent that writes pages of the scope. */
void work_copies(unsigned scope);

#endif
