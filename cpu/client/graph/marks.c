/* marks.c: events that were last recorded in a captured stream, by event. */
#include <stdlib.h>

#include "cpu/client/graph/capture_state.h"

enum { BUCKETS = 64 };
static struct mark *buckets[BUCKETS];

static struct mark **place_of(core_event event)
{
    struct mark **at = &buckets[event % BUCKETS];
    while (*at && (*at)->event != event)
        at = &(*at)->next;
    return at;
}

struct mark *mark_find(core_event event) { return *place_of(event); }

bool mark_set(core_event event, uint64_t capture, const struct frontier *frontier)
{
    struct frontier own = { 0 };
    struct mark **at = place_of(event), *m = *at;
    if (!frontier_merge(&own, frontier) || (!m && !(m = calloc(1, sizeof *m)))) {
        frontier_drop(&own);
        return false;
    }
    if (!*at) {
        *at = m;
        atomic_fetch_add(&capture_count, 1);
    }
    frontier_drop(&m->frontier);
    m->event = event;
    m->capture = capture;
    m->frontier = own;
    return true;
}

void mark_remove(core_event event)
{
    struct mark **at = place_of(event), *m = *at;
    if (!m)
        return;
    *at = m->next;
    frontier_drop(&m->frontier);
    free(m);
    atomic_fetch_sub(&capture_count, 1);
}
