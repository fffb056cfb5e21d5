/*
 * plan.c: which steps a launch consists of, in which tracks they run, and what each waits for.
 *
 * A child graph becomes its nodes, between two steps without work. Each step knows, for each track, up to which number
 * the track's steps have ended when it begins. That says which tracks are free for it, and which waits are not needed
 * because an earlier one covers them.
 */
#include <stdlib.h>
#include <string.h>

#include "cpu/client/graph/executable.h"

struct knowledge {
    uint32_t ended[TRACKS_MOST];
};

/* What is needed only while the plan is made. */
struct making {
    struct plan *plan;
    struct knowledge *known;   /* at the end of each step */
    uint32_t last[TRACKS_MOST]; /* the last step of each track */
    struct model_node *cycle;
};

static void merge(struct knowledge *to, const struct knowledge *from)
{
    for (unsigned i = 0; i < TRACKS_MOST; i++)
        if (to->ended[i] < from->ended[i])
            to->ended[i] = from->ended[i];
}

static bool track_fits(const struct track *track, const core_context *context)
{
    return !track->context || !context || track->context == context;
}

static unsigned track_choose(const struct making *m, const core_context *context, const struct knowledge *known,
                             const uint32_t *before, size_t count)
{
    struct plan *p = m->plan;
    for (size_t i = 0; i < count; i++) {
        unsigned track = p->steps[before[i]].track;
        if (m->last[track] == before[i] && track_fits(&p->tracks[track], context))
            return track;
    }
    for (unsigned i = 0; i < p->track_count; i++)
        if (track_fits(&p->tracks[i], context) && p->steps[m->last[i]].number <= known->ended[i])
            return i;
    if (p->track_count < TRACKS_MOST)
        return p->track_count++;
    /* All are busy: one that does not need to wait must. Any will do, and it should not always be the same. */
    for (unsigned i = 0; i < TRACKS_MOST; i++)
        if (track_fits(&p->tracks[(p->count + i) % TRACKS_MOST], context))
            return (unsigned)((p->count + i) % TRACKS_MOST);
    return TRACKS_MOST;
}

static bool steps_room(struct making *m)
{
    struct plan *p = m->plan;
    if (p->count < p->room)
        return true;
    size_t room = p->room ? p->room * 2 : 16;
    struct step *steps = realloc(p->steps, room * sizeof *steps);
    if (steps)
        p->steps = steps;
    struct knowledge *known = steps ? realloc(m->known, room * sizeof *known) : NULL;
    if (!known)
        return false;
    m->known = known;
    p->room = room;
    return true;
}

/* before is kept in the step, or freed. */
static int step_add(struct making *m, struct model_node *node, uint32_t *before, size_t count, uint32_t *index)
{
    struct plan *p = m->plan;
    struct knowledge known = { 0 };
    const core_context *context = node ? node->parameters.context : NULL;
    unsigned track = TRACKS_MOST;
    if (steps_room(m)) {
        for (size_t i = 0; i < count; i++)
            merge(&known, &m->known[before[i]]);
        track = track_choose(m, context, &known, before, count);
    }
    if (track == TRACKS_MOST) {
        free(before);
        return CORE_OUT_OF_MEMORY; /* or more contexts than tracks */
    }
    bool begins = m->last[track] == UINT32_MAX;
    if (!p->tracks[track].context && node)
        p->tracks[track].context = node->parameters.context;
    const struct knowledge nothing = { 0 }, *of_track = begins ? &nothing : &m->known[m->last[track]];
    struct step step = { .node = node, .track = track, .waits = before };
    step.number = begins ? 1 : p->steps[m->last[track]].number + 1;
    step.first = begins && !count;
    for (size_t i = 0; i < count; i++) {
        struct step *other = &p->steps[before[i]];
        if (other->track == track || of_track->ended[other->track] >= other->number)
            continue;
        other->awaited = true;
        step.waits[step.wait_count++] = before[i];
    }
    merge(&known, of_track);
    known.ended[track] = step.number;
    *index = (uint32_t)p->count++;
    p->steps[*index] = step;
    m->known[*index] = known;
    m->last[track] = *index;
    return CORE_OK;
}

static int graph_steps(struct making *m, struct graph *g, uint32_t root, uint32_t *end);

/* A child's nodes, between what they wait for and what waits for them. n->place becomes the last step. */
static int node_steps(struct making *m, struct model_node *n, uint32_t root)
{
    uint32_t *before = malloc((n->before.count + 1) * sizeof *before), index = 0;
    size_t count = 0;
    if (!before)
        return CORE_OUT_OF_MEMORY;
    for (size_t i = 0; i < n->before.count; i++)
        before[count++] = (uint32_t)n->before.items[i].node->place;
    if (!count && root != UINT32_MAX)
        before[count++] = root;
    int code = step_add(m, n->child || n->parameters.kind == GRAPH_EMPTY ? NULL : n, before, count, &index);
    if (!code && n->child)
        code = graph_steps(m, n->child, index, &index);
    n->place = index;
    return code;
}

/* end: a step behind all of them; NULL: none is needed. */
static int graph_steps(struct making *m, struct graph *g, uint32_t root, uint32_t *end)
{
    size_t count = 0;
    struct model_node **order = graph_order(g, &m->cycle);
    int code = order ? CORE_OK : m->cycle ? CORE_INVALID_VALUE : CORE_OUT_OF_MEMORY;
    for (size_t i = 0; !code && i < g->count; i++)
        code = node_steps(m, order[i], root);
    free(order);
    if (code || !end)
        return code;
    uint32_t *before = malloc((g->count + 1) * sizeof *before);
    if (!before)
        return CORE_OUT_OF_MEMORY;
    for (EACH_NODE(n, g))
        if (!n->after.count)
            before[count++] = (uint32_t)n->place;
    if (!count)
        before[count++] = root;
    return step_add(m, NULL, before, count, end);
}

/* A launch has ended when the last step of each track has; track 0 goes on in the program's stream. */
static void ends_find(struct making *m)
{
    struct plan *p = m->plan;
    const struct knowledge nothing = { 0 }, *known = p->count ? &m->known[m->last[0]] : &nothing;
    for (unsigned i = 1; i < p->track_count; i++) {
        struct step *last = &p->steps[m->last[i]];
        if (last->number <= known->ended[i])
            continue;
        last->awaited = true;
        p->ends[p->end_count++] = m->last[i];
    }
}

int plan_make(struct plan *plan, struct graph *g, struct model_node **cycle)
{
    struct making m = { .plan = plan };
    *plan = (struct plan){ 0 };
    memset(m.last, 0xFF, sizeof m.last);
    int code = graph_steps(&m, g, UINT32_MAX, NULL);
    if (!code)
        ends_find(&m);
    else
        plan_drop(plan);
    *cycle = m.cycle;
    free(m.known);
    return code;
}

void plan_drop(struct plan *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->steps[i].waits);
        if (p->steps[i].event)
            core_event_destroy(p->steps[i].event);
    }
    for (unsigned i = 0; i < p->track_count; i++)
        if (p->tracks[i].stream)
            core_stream_destroy(p->tracks[i].stream);
    free(p->steps);
    *p = (struct plan){ 0 };
}
