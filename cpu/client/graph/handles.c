/* handles.c: the lock of this folder, and tokens for what a program can name. */
#include "cpu/client/graph/handles.h"

#include <stdatomic.h>
#include <stddef.h>

#include "cpu/client/graph/model.h"
#include "cpu/common/ids.h"

enum { FIRST_TOKEN_KIND = 16 }; /* streams and events have lower ones */

static struct {
    pthread_mutex_t lock;
    id_table *tables[HANDLE_KINDS];
    struct deferred *deferred, **last;
} graphs = { .lock = PTHREAD_MUTEX_INITIALIZER, .last = &graphs.deferred };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool made;

static void make(void)
{
    made = true;
    for (unsigned i = 0; i < HANDLE_KINDS; i++)
        made = (graphs.tables[i] = id_table_create(FIRST_TOKEN_KIND + i, 1)) && made;
}

int graphs_enter(void)
{
    if (core_forked())
        return CORE_NOT_INITIALIZED;
    pthread_once(&once, make);
    if (!made)
        return CORE_OUT_OF_MEMORY;
    pthread_mutex_lock(&graphs.lock);
    return CORE_OK;
}

void graphs_leave(void)
{
    struct deferred *todo = graphs.deferred;
    graphs.deferred = NULL;
    graphs.last = &graphs.deferred;
    pthread_mutex_unlock(&graphs.lock);
    for (struct deferred *next; todo; todo = next) {
        next = todo->next;
        todo->function(todo->data);
    }
}

void graphs_defer(struct deferred *d)
{
    d->next = NULL;
    *graphs.last = d;
    graphs.last = &d->next;
}

uint64_t handle_add(enum handle_kind kind, void *object) { return id_table_add(graphs.tables[kind], object, NULL); }

void *handle_find(enum handle_kind kind, uint64_t token)
{
    return token ? id_table_find(graphs.tables[kind], token) : NULL;
}

void handle_remove(enum handle_kind kind, uint64_t token)
{
    id_table_remove(graphs.tables[kind], token);
    id_table_release(graphs.tables[kind], id_token_index(token));
}

struct graph *graph_of(graph_handle handle) { return handle_find(HANDLE_GRAPH, handle); }
struct model_node *node_of(graph_node token) { return handle_find(HANDLE_NODE, token); }
