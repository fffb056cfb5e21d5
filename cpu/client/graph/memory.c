/*
 * memory.c: what allocation nodes allocate: addresses, and whether the program may use them.
 *
 * An allocation gets the addresses of an earlier one of its graph if a free of that one comes before it. So an address
 * can stand for several allocations; at most one of them is live when a launch has ended. Whether the program may use
 * an allocation, from a launch up to its free, is a mark that launches and frees change.
 */
#include "cpu/client/graph/memory.h"

#include <stdlib.h>

#include "cpu/common/cancel.h"

enum { ALIGNMENT = 512 };

/* Under the lock of the graphs. */
static struct tree all;
static uint64_t last_tie;
static atomic_uint known; /* how many there are; read without the lock */

static uint64_t life_of(core_context *context)
{
    struct core_context_info info;
    return core_context_info(context, &info) ? 0 : info.id;
}

/* A context that has ended has taken it along. */
static bool there(const struct memory *m) { return life_of(m->context) == m->life; }

static struct memory *memory_at(struct tree_node *n) { return TREE_OBJECT(n, struct memory, by_address); }
static struct memory *first_at(uint64_t address) { return memory_at(tree_at_or_above(&all, address, 0)); }
static struct memory *next_of(struct memory *m) { return memory_at(tree_next(&all, &m->by_address)); }

/* ---- room ---- */

int room_make(const struct graph_parameters *p, struct memory_block **out)
{
    size_t granularity = 1, size;
    int code = core_memory_granularity(&granularity);
    if (code)
        return code;
    if (__builtin_add_overflow(p->allocation.size, granularity - 1, &size))
        return CORE_OUT_OF_MEMORY;
    struct memory_block *b = calloc(1, sizeof *b);
    if (!b)
        return CORE_OUT_OF_MEMORY;
    *b = (struct memory_block){ .size = size / granularity * granularity,
                                .device = p->allocation.device,
                                .peers = p->allocation.peers };
    if ((code = core_reservation_note(b->device, b->size, &b->address)))
        free(b);
    else
        *out = b;
    return code;
}

void room_drop(struct memory_block *b)
{
    if (b)
        core_reservation_free(b->address, b->size);
    free(b);
}

/* ---- addresses ---- */

/* Whether an allocation has been freed before the marked nodes have ended. */
static bool freed_before(const struct memory *m, const struct graph *g)
{
    const struct model_node *n = m->graph == g ? node_of(m->freed_by) : NULL;
    return n && n->place;
}

/* The lowest address in the block that no allocation has which may be in use; 0: none. */
static uint64_t block_fit(const struct memory_block *b, uint64_t size, const struct graph *g)
{
    uint64_t at = b->address, end = b->address + b->size;
    for (struct memory *m = first_at(b->address); m && memory_address(m) < end; m = next_of(m)) {
        if (freed_before(m, g))
            continue;
        if (memory_address(m) >= at + size)
            break;
        uint64_t behind = (memory_address(m) + m->size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        at = behind > at ? behind : at;
    }
    return at <= end && end - at >= size ? at : 0;
}

static bool same_peers(const struct graph_peers *a, const struct graph_peers *b)
{
    return a->read == b->read && a->write == b->write;
}

static struct memory_block *ground_fit(const struct ground *ground, const struct graph *g,
                                       const struct graph_allocation *a, uint64_t *at)
{
    for (struct list *link = list_first(&ground->blocks); link; link = list_next(&ground->blocks, link)) {
        struct memory_block *b = LIST_OBJECT(link, struct memory_block, of_ground);
        if (b->device == a->device && same_peers(&b->peers, &a->peers) && (*at = block_fit(b, a->size, g)))
            return b;
    }
    return NULL;
}

static bool ground_make(struct graph *g)
{
    if (!g->ground && (g->ground = calloc(1, sizeof *g->ground)))
        g->ground->named = true;
    return g->ground;
}

int memory_new(struct graph *g, struct model_node *const *before, size_t count, struct graph_parameters *p,
               struct memory_block **room, struct memory **out)
{
    struct graph_allocation *a = &p->allocation;
    if (!ground_make(g) || !graph_mark_before(g, before, count))
        return CORE_OUT_OF_MEMORY;
    struct memory_block *b = ground_fit(g->ground, g, a, &a->address);
    if (!b && !*room)
        return MEMORY_LACKS_ROOM;
    struct memory *m = calloc(1, sizeof *m);
    if (!m)
        return CORE_OUT_OF_MEMORY;
    if (!b) {
        b = *room;
        *room = NULL;
        b->ground = g->ground;
        list_append(&g->ground->blocks, &b->of_ground);
        a->address = b->address;
    }
    *m = (struct memory){ .by_address = { .key = a->address, .tie = ++last_tie },
                          .size = a->size,
                          .block = b,
                          .graph = g,
                          .context = p->context,
                          .life = life_of(p->context),
                          .holders = 1 };
    tree_insert(&all, &m->by_address);
    atomic_fetch_add(&known, 1);
    b->ground->memories++;
    *out = m;
    return CORE_OK;
}

/* ---- holders ---- */

static void ground_end(void *ground) { backing_gone(ground); }

static void ground_unused(struct ground *ground)
{
    if (ground->memories || ground->named)
        return;
    ground->end = (struct deferred){ .function = ground_end, .data = ground };
    graphs_defer(&ground->end);
}

void ground_leave(struct graph *g)
{
    if (!g->ground)
        return;
    g->ground->named = false;
    ground_unused(g->ground);
}

void memory_hold(struct memory *m) { m->holders++; }

/* What the program has not freed yet is its own: the last graph may go before. */
static void unless_used(struct memory *m)
{
    struct ground *ground = m->block->ground;
    if (m->holders || m->live)
        return;
    tree_remove(&all, &m->by_address);
    atomic_fetch_sub(&known, 1);
    free(m);
    ground->memories--;
    ground_unused(ground);
}

void memory_drop(struct memory *m)
{
    m->holders--;
    unless_used(m);
}

static void mark(struct memory *m, bool live)
{
    if (m->live != live)
        atomic_fetch_add(&m->block->ground->live, live ? 1u : -1u);
    m->live = live;
    unless_used(m);
}

/* ---- frees ---- */

/* Memory of an allocation node is freed at most once in a graph. */
static bool frees(struct graph *g, const struct memory *m)
{
    for (EACH_NODE(n, g))
        if (n->parameters.kind == GRAPH_FREE && n->memory == m)
            return true;
    return false;
}

struct memory *memory_to_free(struct graph *g, uint64_t address)
{
    struct memory *found = NULL;
    for (struct memory *m = first_at(address); m && memory_address(m) == address; m = next_of(m))
        if (there(m) && (m->graph == g ? !m->freed_by : !frees(g, m)))
            found = m; /* the last one to have the address */
    return found;
}

void memory_freed_by(struct memory *m, const struct model_node *n)
{
    if (m->graph == n->graph)
        m->freed_by = n->token;
}

/* The allocation at the address that the program may free; else any one. NULL: there is none. */
static struct memory *find(uint64_t address)
{
    struct memory *found = NULL;
    for (struct memory *m = first_at(address); m && memory_address(m) == address; m = next_of(m))
        if (there(m) && (!found || m->live))
            found = m;
    return found;
}

/* What a free needs to know. ground NULL: the program may not use the allocation. A ground without a live allocation
   may go at any time. */
struct to_free {
    struct ground *ground;
    core_context *context; /* whose work may use it; NULL: that of all */
    uint64_t size;
};

/* False: it is no memory of a graph. */
static bool look(uint64_t address, struct to_free *out)
{
    if (!atomic_load(&known) || graphs_enter()) /* most programs have none: no lock for them */
        return false;
    const struct memory *m = find(address);
    if (m)
        *out = (struct to_free){ m->live ? m->block->ground : NULL, m->block->peers.read ? NULL : m->context, m->size };
    graphs_leave();
    return m != NULL;
}

static int end_live(uint64_t address)
{
    int code = graphs_enter();
    if (code)
        return code;
    struct memory *m = find(address);
    if (m && m->live)
        mark(m, false);
    else
        code = CORE_INVALID_VALUE; /* another thread was quicker */
    graphs_leave();
    return code;
}

/* In both: a watching server is informed before the allocation ends here. From then on the memory may be unmapped. */

bool graph_memory_free(uint64_t address, int *code)
{
    CANCEL_DEFERRED;
    struct to_free m;
    if (!look(address, &m))
        return false;
    core_windows_end(address, m.size);
    *code = m.ground ? core_memory_settle(m.context) : CORE_INVALID_VALUE;
    if (!*code)
        *code = core_extent_note(address, m.size, CORE_EXTENT_FREED);
    if (!*code)
        *code = end_live(address);
    return true;
}

bool graph_memory_free_async(core_context *context, core_stream stream, uint64_t address, int *code)
{
    CANCEL_DEFERRED;
    struct to_free m;
    if (!look(address, &m))
        return false;
    core_windows_end(address, m.size);
    *code = m.ground ? core_extent_note_in(context, stream, address, m.size, CORE_EXTENT_FREED) : CORE_INVALID_VALUE;
    if (*code)
        return true;
    backing_freed(m.ground, context, stream);
    *code = end_live(address);
    return true;
}

/* ---- launches ---- */

/* A node that the graphs' lock is not needed to read: the executable's lock is held. */
#define EACH_STEP(name, e) size_t name = 0; name < (e)->plan.count; name++
static const struct model_node *memory_node(const struct executable *e, size_t step, enum graph_kind kind)
{
    const struct model_node *n = e->plan.steps[step].node;
    return n && n->parameters.kind == kind ? n : NULL;
}

static int check(const struct executable *e)
{
    int code = graphs_enter();
    if (code)
        return code;
    for (EACH_STEP(i, e)) {
        const struct model_node *n = memory_node(e, i, GRAPH_ALLOCATE);
        if (n && !there(n->memory))
            code = GRAPH_CONTEXT_DESTROYED;
        else if (n && n->memory->live && !(e->flags & GRAPH_FREE_ON_LAUNCH))
            code = CORE_INVALID_VALUE;
    }
    graphs_leave();
    return code;
}

int memory_launch(const struct launch *l)
{
    struct executable *e = l->e;
    if (!e->uses_memory)
        return CORE_OK;
    int code = check(e);
    for (EACH_STEP(i, e)) {
        const struct model_node *n = memory_node(e, i, GRAPH_FREE);
        if (!code && n)
            core_windows_end(memory_address(n->memory), n->memory->size);
    }
    return code ? code : backing_begin(e, l);
}

static bool of_executable(const struct executable *e, const struct ground *ground)
{
    for (size_t i = 0; i < e->ground_count; i++)
        if (e->grounds[i] == ground)
            return true;
    return false;
}

/* In the order of the launch: an address may be allocated and freed more than once. */
static void mark_all(const struct executable *e)
{
    if (graphs_enter())
        return;
    for (EACH_STEP(i, e)) {
        const struct model_node *n;
        if ((n = memory_node(e, i, GRAPH_ALLOCATE)))
            mark(n->memory, true);
        else if ((n = memory_node(e, i, GRAPH_FREE)))
            mark(n->memory, false);
    }
    graphs_leave();
}

void memory_launched(const struct launch *l, int code)
{
    struct executable *e = l->e;
    if (!e->uses_memory)
        return;
    for (EACH_STEP(i, e)) {
        const struct model_node *n = memory_node(e, i, GRAPH_FREE);
        if (!code && n && !of_executable(e, n->memory->block->ground))
            backing_freed(n->memory->block->ground, l->context, l->stream);
    }
    if (!code)
        mark_all(e);
    backing_end(e, l, !code);
}

int memory_upload(const struct launch *l)
{
    struct executable *e = l->e;
    if (!e->uses_memory)
        return CORE_OK;
    int code = backing_begin(e, l);
    if (!code)
        backing_end(e, l, false);
    return code;
}

/* ---- the blocks of an executable ---- */

static bool list_add(void ***list, size_t *count, void *item)
{
    for (size_t i = 0; i < *count; i++)
        if ((*list)[i] == item)
            return true;
    void **more = realloc(*list, (*count + 1) * sizeof **list);
    if (!more)
        return false;
    more[(*count)++] = item;
    *list = more;
    return true;
}

static bool freed_in(const struct executable *e, const struct memory *m)
{
    for (EACH_STEP(i, e)) {
        const struct model_node *n = memory_node(e, i, GRAPH_FREE);
        if (n && n->memory == m)
            return true;
    }
    return false;
}

bool memory_executable(struct executable *e)
{
    bool good = true;
    for (EACH_STEP(i, e)) {
        const struct model_node *n = memory_node(e, i, GRAPH_ALLOCATE);
        if (!n || !good)
            continue;
        good = list_add((void ***)(void *)&e->blocks, &e->block_count, n->memory->block) &&
               list_add((void ***)(void *)&e->grounds, &e->ground_count, n->memory->block->ground);
        e->escapes = e->escapes || !freed_in(e, n->memory);
    }
    return good;
}

bool memory_executable_ends(struct executable *e)
{
    bool taken = e->ground_count && backing_executable_ends(e);
    free(e->blocks);
    free(e->grounds);
    return taken;
}
