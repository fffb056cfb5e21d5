/*
 * memory.c: what allocation nodes allocate.
 *
 * The address of an allocation is known when its node is added, and stays the same. Flyt takes the memory itself then
 * too, and keeps it until the last graph and executable with that node has ended. Whether the program may use the
 * memory, from a launch of the allocation up to its free, is a mark that launches and frees change. So a launch never
 * fails for lack of memory, and never waits for it.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "cpu/client/graph/model.h"
#include "cpu/common/cancel.h"

struct memory {
    uint64_t address;
    size_t size;
    core_context *context;
    uint64_t life; /* of the context: its core_context_info.id */
    int device;
    unsigned holders; /* nodes of graphs and executables */
    bool live;
    struct deferred end;
    struct list of_all;
};

enum { DEVICES_MOST = 64 };
enum { USED_NOW = 0, USED_HIGH = 1, RESERVED_NOW = 2, RESERVED_HIGH = 3, ATTRIBUTES = 4 };

/* Under the lock of the graphs. */
static struct list all;
static atomic_uint known; /* how many there are; read without the lock */
static uint64_t counts[DEVICES_MOST][ATTRIBUTES];

static void count(int device, int now, uint64_t size, bool more)
{
    if (device < 0 || device >= DEVICES_MOST)
        return;
    uint64_t *of = counts[device];
    of[now] = more ? of[now] + size : of[now] - size;
    if (of[now + 1] < of[now])
        of[now + 1] = of[now];
}

static uint64_t life_of(core_context *context)
{
    struct core_context_info info;
    return core_context_info(context, &info) ? 0 : info.id;
}

/* A context that has ended has taken it along, and the address may be somebody else's. */
bool memory_there(const struct memory *m) { return life_of(m->context) == m->life; }

int memory_new(struct graph_parameters *p, struct memory **out)
{
    struct graph_allocation *a = &p->allocation;
    struct memory *m = calloc(1, sizeof *m);
    if (!m)
        return CORE_OUT_OF_MEMORY;
    int code = core_memory_allocate(p->context, a->size, &a->address);
    if (!code && (code = graphs_enter()))
        core_memory_free(a->address);
    if (code) {
        free(m);
        return code;
    }
    *m = (struct memory){ .address = a->address,
                          .size = a->size,
                          .context = p->context,
                          .life = life_of(p->context),
                          .device = a->device,
                          .holders = 1 };
    list_append(&all, &m->of_all);
    atomic_fetch_add(&known, 1);
    count(a->device, RESERVED_NOW, m->size, true);
    graphs_leave();
    *out = m;
    return CORE_OK;
}

static void release(void *data)
{
    struct memory *m = data;
    if (memory_there(m))
        core_memory_free(m->address);
    free(m);
}

static void release_later(struct memory *m)
{
    list_remove(&m->of_all);
    atomic_fetch_sub(&known, 1);
    count(m->device, RESERVED_NOW, m->size, false);
    m->end = (struct deferred){ .function = release, .data = m };
    graphs_defer(&m->end);
}

void memory_hold(struct memory *m) { m->holders++; }

/* What the program has not freed yet is its own: the last graph may go before. */
void memory_drop(struct memory *m)
{
    if (--m->holders == 0 && !m->live)
        release_later(m);
}

static struct memory *find(uint64_t address)
{
    for (struct list *link = list_first(&all); link; link = list_next(&all, link))
        if (LIST_OBJECT(link, struct memory, of_all)->address == address &&
            memory_there(LIST_OBJECT(link, struct memory, of_all)))
            return LIST_OBJECT(link, struct memory, of_all);
    return NULL;
}

bool memory_known(uint64_t address) { return find(address) != NULL; }
bool memory_live(const struct memory *m) { return m->live; }

static void mark(struct memory *m, bool live)
{
    if (m->live != live)
        count(m->device, USED_NOW, m->size, live);
    m->live = live;
    if (!live && !m->holders)
        release_later(m);
}

void memory_begin(struct memory *m) { mark(m, true); }

void memory_end(uint64_t address)
{
    struct memory *m = find(address);
    if (m)
        mark(m, false);
}

bool graph_memory_free(uint64_t address, bool waits, int *code)
{
    CANCEL_DEFERRED;
    core_context *context = NULL;
    bool live = false;
    if (!atomic_load(&known) || graphs_enter()) /* most programs have none: no lock for them */
        return false;
    struct memory *m = find(address);
    if (m) {
        context = m->context;
        live = m->live;
    }
    graphs_leave();
    if (!m)
        return false;
    *code = !live ? CORE_INVALID_VALUE : waits ? core_context_synchronize(context) : CORE_OK;
    if (!*code && !(*code = graphs_enter())) {
        memory_end(address);
        graphs_leave();
    }
    return true;
}

int graph_memory_attribute(int device, int attribute, uint64_t *value)
{
    CANCEL_DEFERRED;
    if (device < 0 || device >= DEVICES_MOST || attribute < 0 || attribute >= ATTRIBUTES)
        return CORE_INVALID_VALUE;
    int code = graphs_enter();
    if (code)
        return code;
    *value = counts[device][attribute];
    graphs_leave();
    return CORE_OK;
}

int graph_memory_reset(int device, int attribute)
{
    CANCEL_DEFERRED;
    if (device < 0 || device >= DEVICES_MOST || (attribute != USED_HIGH && attribute != RESERVED_HIGH))
        return CORE_INVALID_VALUE;
    int code = graphs_enter();
    if (code)
        return code;
    counts[device][attribute] = counts[device][attribute - 1];
    graphs_leave();
    return CORE_OK;
}
