/*
 * backing.c: what lies behind the addresses of graphs.
 *
 * A launch maps a piece of memory behind each block that has none. It is a piece that no graph uses, or one of graphs
 * that cannot run at the same time as this launch: their last launches have ended, or are in the same stream. A later
 * launch in another stream may break that. Then one of the two gets another piece, or waits.
 *
 * Memory that the program uses outside the graph that allocates it (ground.escapes) is never shared: only the graph's
 * own work is known here.
 */
#include "cpu/client/graph/memory.h"

#include <pthread.h>
#include <stdlib.h>

#include "cpu/common/cancel.h"

enum { EVENT_NO_TIMING = 2, ACCESS_READ = 1, ACCESS_READ_WRITE = 3 };
enum { USED_NOW = 0, USED_HIGH = 1, RESERVED_NOW = 2, RESERVED_HIGH = 3, ATTRIBUTES = 4 };

/* Held while the server maps and unmaps, too: programs do this when they start, not in their loops. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list pieces, gone;
static uint64_t counts[GRAPH_DEVICES_MOST][ATTRIBUTES];

#define BLOCK_AT(link) LIST_OBJECT(link, struct memory_block, of_piece)
#define EACH_BLOCK(name, p)                                         \
    struct memory_block *name = BLOCK_AT(list_first(&(p)->blocks)); \
    name;                                                           \
    name = BLOCK_AT(list_next(&(p)->blocks, &name->of_piece))

static void count(int device, int now, uint64_t size, bool more)
{
    if (device < 0 || device >= GRAPH_DEVICES_MOST)
        return;
    uint64_t *of = counts[device];
    of[now] = more ? of[now] + size : of[now] - size;
    if (of[now + 1] < of[now])
        of[now + 1] = of[now];
}

/* ---- what may still run ---- */

static bool done(core_event event) { return !event || core_event_query(event) != CORE_NOT_READY; }

static void ending_drop(struct ending *ending)
{
    if (--ending->uses)
        return;
    core_event_destroy(ending->event);
    free(ending);
}

static bool after_add(struct ground *g, struct ending *ending)
{
    struct ending **more = realloc(g->after, (g->after_count + 1) * sizeof *more);
    if (!more)
        return false;
    g->after = more;
    g->after[g->after_count++] = ending;
    ending->uses++;
    return true;
}

/* Forgets what has ended. */
static void settle(struct ground *g)
{
    size_t kept = 0;
    for (size_t i = 0; i < g->after_count; i++)
        if (done(g->after[i]->event))
            ending_drop(g->after[i]);
        else
            g->after[kept++] = g->after[i];
    g->after_count = kept;
    if (g->ended && done(g->ended))
        g->ended = 0;
}

/* Nothing that was launched or freed uses the memory any more. */
static bool rests(struct ground *g)
{
    settle(g);
    return !g->ended && !g->after_count && !atomic_load(&g->live);
}

/* The memory may be another graph's in that launch. */
static bool precedes(struct ground *g, const struct launch *l)
{
    if (g->launching || g->escapes || atomic_load(&g->live))
        return false;
    settle(g);
    bool same = g->ended_stream == l->stream && g->ended_context == l->context && l->stream != CORE_STREAM_PER_THREAD;
    return !g->after_count && (!g->ended || same);
}

/* The stream waits for all that is known of the ground. */
static int join(struct ground *g, const struct launch *l)
{
    int code = CORE_OK;
    settle(g);
    for (size_t i = 0; i < g->after_count && !code; i++)
        code = core_stream_wait(l->context, l->stream, g->after[i]->event, 0);
    return code || !g->ended ? code : core_stream_wait(l->context, l->stream, g->ended, 0);
}

static void wait_for(struct ground *g)
{
    for (size_t i = 0; i < g->after_count; i++)
        core_event_synchronize(g->after[i]->event);
    if (g->ended)
        core_event_synchronize(g->ended);
    settle(g);
}

/* ---- pieces ---- */

static struct memory_piece *piece_new(int device, uint64_t size, int *code)
{
    struct memory_piece *p = calloc(1, sizeof *p);
    *code = p ? core_handle_create(device, size, false, &p->handle) : CORE_OUT_OF_MEMORY;
    if (*code) {
        free(p);
        return NULL;
    }
    p->device = device;
    p->size = size;
    list_append(&pieces, &p->of_all);
    count(device, RESERVED_NOW, size, true);
    return p;
}

static void piece_end(struct memory_piece *p)
{
    core_handle_release(p->handle);
    list_remove(&p->of_all);
    count(p->device, RESERVED_NOW, p->size, false);
    free(p);
}

static void block_bare(struct memory_block *b)
{
    struct memory_piece *p = b->piece;
    core_handle_unmap(b->address, b->size);
    list_remove(&b->of_piece);
    b->piece = NULL;
    if (!list_first(&p->blocks))
        count(p->device, USED_NOW, p->size, false);
}

static int access_set(const struct memory_block *b)
{
    int code = core_access_set(b->address, b->size, b->device, ACCESS_READ_WRITE);
    for (int device = 0; device < GRAPH_DEVICES_MOST && !code; device++) {
        uint64_t bit = UINT64_C(1) << device;
        if (device != b->device && (b->peers.read | b->peers.write) & bit)
            code = core_access_set(b->address, b->size, device,
                                   b->peers.write & bit ? ACCESS_READ_WRITE : ACCESS_READ);
    }
    return code;
}

static int block_map(struct memory_block *b, struct memory_piece *p)
{
    int code = core_handle_map(b->address, b->size, p->handle);
    if (code)
        return code;
    if (!list_first(&p->blocks))
        count(p->device, USED_NOW, p->size, true);
    b->piece = p;
    list_append(&p->blocks, &b->of_piece);
    if (!(code = access_set(b)))
        code = core_extent_note(b->address, b->size, CORE_EXTENT_NOBODYS);
    if (code)
        block_bare(b);
    return code;
}

static void ground_free(struct ground *g)
{
    for (struct list *link; (link = list_first(&g->blocks));) {
        struct memory_block *b = LIST_OBJECT(link, struct memory_block, of_ground);
        list_remove(link);
        if (b->piece)
            block_bare(b);
        core_reservation_free(b->address, b->size);
        free(b);
    }
    list_remove(&g->of_gone);
    free(g->after);
    free(g);
}

/* Grounds that nothing names, and that no work uses any more. */
static void collect(void)
{
    struct list *next;
    for (struct list *link = list_first(&gone); link; link = next) {
        struct ground *g = LIST_OBJECT(link, struct ground, of_gone);
        next = list_next(&gone, link);
        if (rests(g))
            ground_free(g);
    }
}

static void trim(int device)
{
    struct list *next;
    collect();
    for (struct list *link = list_first(&pieces); link; link = next) {
        struct memory_piece *p = LIST_OBJECT(link, struct memory_piece, of_all);
        next = list_next(&pieces, link);
        if (p->device != device)
            continue;
        struct list *later;
        for (struct list *at = list_first(&p->blocks); at; at = later) {
            later = list_next(&p->blocks, at);
            if (!BLOCK_AT(at)->ground->launching && rests(BLOCK_AT(at)->ground))
                block_bare(BLOCK_AT(at));
        }
        if (!list_first(&p->blocks))
            piece_end(p);
    }
}

/* ---- launches ---- */

/* Whether the piece can lie behind the block in that launch, besides the blocks that it lies behind already. */
static bool suits(const struct memory_piece *p, const struct memory_block *b, const struct launch *l)
{
    for (EACH_BLOCK(other, p))
        if (other != b &&
            (b->ground->escapes || other->ground == b->ground || !precedes(other->ground, l)))
            return false;
    return true;
}

static struct memory_piece *piece_find(const struct memory_block *b, const struct launch *l)
{
    for (struct list *link = list_first(&pieces); link; link = list_next(&pieces, link)) {
        struct memory_piece *p = LIST_OBJECT(link, struct memory_piece, of_all);
        if (p->device == b->device && p->size == b->size && suits(p, b, l))
            return p;
    }
    return NULL;
}

static int block_back(struct memory_block *b, const struct launch *l)
{
    int code = CORE_OK;
    collect();
    struct memory_piece *p = piece_find(b, l);
    if (!p && !(p = piece_new(b->device, b->size, &code)) && code == CORE_OUT_OF_MEMORY) {
        trim(b->device);
        p = piece_new(b->device, b->size, &code);
    }
    return p ? block_map(b, p) : code;
}

/* The launch may wait for the other graphs of the piece, instead of having another piece. */
static bool may_join(const struct memory_block *b)
{
    for (EACH_BLOCK(other, b->piece))
        if (other != b && (b->ground->escapes || other->ground->escapes || other->ground->launching ||
                           other->ground == b->ground || atomic_load(&other->ground->live)))
            return false;
    return true;
}

/* Other graphs use the piece. A block that work uses keeps it if that can be. */
static int block_part(struct memory_block *b, const struct launch *l)
{
    int code = CORE_OK;
    if (!rests(b->ground) && may_join(b)) {
        for (EACH_BLOCK(other, b->piece))
            if (other != b && !code)
                code = join(other->ground, l);
        return code;
    }
    wait_for(b->ground);
    block_bare(b);
    return block_back(b, l);
}

int backing_begin(struct executable *e, const struct launch *l)
{
    int code = CORE_OK;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < e->ground_count; i++) {
        struct ground *g = e->grounds[i];
        g->launching++;
        g->escapes = g->escapes || e->escapes;
        settle(g);
        for (size_t j = 0; j < g->after_count && !code; j++) /* launches of an executable that has ended */
            code = core_stream_wait(l->context, l->stream, g->after[j]->event, 0);
    }
    for (size_t i = 0; i < e->block_count && !code; i++) {
        struct memory_block *b = e->blocks[i];
        if (!b->piece)
            code = block_back(b, l);
        else if (!suits(b->piece, b, l))
            code = block_part(b, l);
    }
    for (size_t i = 0; code && i < e->ground_count; i++)
        e->grounds[i]->launching--;
    pthread_mutex_unlock(&lock);
    return code;
}

void backing_end(struct executable *e, const struct launch *l, bool launched)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < e->ground_count; i++) {
        struct ground *g = e->grounds[i];
        g->launching--;
        if (!launched)
            continue;
        g->ended = e->ended;
        g->ended_context = l->context;
        g->ended_stream = l->stream;
    }
    pthread_mutex_unlock(&lock);
}

/* What cannot be noted is waited for. */
void backing_freed(struct ground *g, core_context *context, core_stream stream)
{
    struct ending *ending = calloc(1, sizeof *ending);
    int code = ending ? core_event_create(context, EVENT_NO_TIMING, &ending->event) : CORE_OUT_OF_MEMORY;
    if (!code && (code = core_event_record(context, ending->event, stream, 0)))
        core_event_destroy(ending->event);
    pthread_mutex_lock(&lock);
    settle(g);
    bool noted = !code && after_add(g, ending);
    pthread_mutex_unlock(&lock);
    if (noted)
        return;
    core_stream_synchronize(context, stream);
    if (!code)
        core_event_destroy(ending->event);
    free(ending);
}

bool backing_executable_ends(struct executable *e)
{
    bool taken = false;
    if (core_forked())
        return false;
    pthread_mutex_lock(&lock);
    struct ending *ending = e->ground_count && !done(e->ended) ? calloc(1, sizeof *ending) : NULL;
    if (ending)
        *ending = (struct ending){ .event = e->ended };
    for (size_t i = 0; i < e->ground_count; i++) {
        struct ground *g = e->grounds[i];
        if (!g->ended || g->ended != e->ended)
            continue;
        if (ending && after_add(g, ending))
            taken = true;
        else
            wait_for(g);
        g->ended = 0;
    }
    if (!taken)
        free(ending);
    pthread_mutex_unlock(&lock);
    return taken;
}

void backing_gone(struct ground *g)
{
    if (core_forked())
        return;
    pthread_mutex_lock(&lock);
    list_append(&gone, &g->of_gone);
    collect();
    pthread_mutex_unlock(&lock);
}

/* ---- what programs ask for ---- */

int graph_memory_trim(int device)
{
    CANCEL_DEFERRED;
    pthread_mutex_lock(&lock);
    trim(device);
    pthread_mutex_unlock(&lock);
    return CORE_OK;
}

int graph_memory_attribute(int device, int attribute, uint64_t *value)
{
    CANCEL_DEFERRED;
    if (device < 0 || device >= GRAPH_DEVICES_MOST || attribute < 0 || attribute >= ATTRIBUTES)
        return CORE_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    collect();
    uint64_t now = counts[device][attribute];
    pthread_mutex_unlock(&lock);
    *value = now; /* the caller's place may be managed memory: no lock is held there */
    return CORE_OK;
}

int graph_memory_reset(int device, int attribute)
{
    CANCEL_DEFERRED;
    if (device < 0 || device >= GRAPH_DEVICES_MOST || (attribute != USED_HIGH && attribute != RESERVED_HIGH))
        return CORE_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    counts[device][attribute] = counts[device][attribute - 1];
    pthread_mutex_unlock(&lock);
    return CORE_OK;
}
