/*
 * server_copy.c: executable graphs that the server keeps, so that a launch is one message.
 *
 * At the first launch, and again after a change, the steps are recorded into a sequence of the core. A step that needs
 * this process when its turn comes cannot be kept: host functions, events of the program's, and copies of memory that
 * only this process reaches. Such a step ends a segment, and is made here at each launch.
 *
 * What cannot be recorded at all is launched node by node, as launch.c does it: then the node that is wrong says why.
 */
#include <stdlib.h>

#include "cpu/client/graph/executable.h"

static bool part_add(struct executable *e, struct step *step)
{
    struct part *parts = realloc(e->parts, (e->part_count + 1) * sizeof *parts);
    if (!parts)
        return false;
    e->parts = parts;
    parts[e->part_count++] = (struct part){ step };
    return true;
}

static bool never_kept(const struct step *s)
{
    enum graph_kind kind = s->node ? s->node->parameters.kind : GRAPH_EMPTY;
    return kind == GRAPH_HOST || kind == GRAPH_WAIT_EVENT || kind == GRAPH_RECORD_EVENT;
}

static bool segment_end(struct executable *e) { return !core_sequence_cut(e->sequence) || part_add(e, NULL); }

/* False: the step is wrong, or there is no memory. */
static bool step_record(const struct launch *l, struct step *s)
{
    core_sequence *q = l->e->sequence;
    if (!never_kept(s)) {
        uint32_t mark = core_sequence_mark(q);
        int code = launch_step(l, s);
        if (core_sequence_kept(q, mark))
            return code == CORE_OK;
    }
    return segment_end(l->e) && part_add(l->e, s);
}

static bool record_all(const struct launch *l)
{
    struct plan *p = &l->e->plan;
    bool good = launch_begin(l) == CORE_OK;
    for (size_t i = 0; i < p->count && good; i++)
        good = step_record(l, &p->steps[i]);
    return good && launch_end(l) == CORE_OK && segment_end(l->e);
}

static bool record(const struct launch *l)
{
    struct executable *e = l->e;
    const struct plan *p = &e->plan;
    core_stream streams[TRACKS_MOST], stand_in;
    unsigned count = 0;
    if (!e->tried)
        core_sequence_create(&e->sequence);
    e->tried = true;
    e->recorded = false;
    e->part_count = 0;
    uint64_t changes = core_changes();
    if (!e->sequence || launch_prepare(l))
        return false;
    for (unsigned i = 0; i < p->track_count; i++)
        if (p->tracks[i].stream)
            streams[count++] = p->tracks[i].stream;
    if (core_sequence_begin(e->sequence, l->context, streams, count, &stand_in))
        return false;
    bool good = record_all(&(struct launch){ e, l->context, stand_in, l->priority });
    if (core_sequence_end(e->sequence, good)) {
        core_sequence_destroy(e->sequence); /* no room for it: it is not tried again */
        e->sequence = NULL;
        return false;
    }
    if (!good)
        return false;
    e->recorded = true;
    e->changed = false;
    e->recorded_at = changes;
    e->recorded_priority = l->priority;
    return true;
}

int kept_launch(const struct launch *l, bool *done)
{
    struct executable *e = l->e;
    bool usable = e->recorded && !e->changed && e->ended_context == l->context && e->recorded_at == core_changes() &&
                  e->recorded_priority == l->priority;
    if (!usable && !record(l))
        return CORE_OK;
    *done = true;
    unsigned segment = 0;
    int code = CORE_OK;
    for (size_t i = 0; i < e->part_count && !code; i++)
        code = e->parts[i].step ? launch_step(l, e->parts[i].step)
                                : core_sequence_launch(e->sequence, l->context, l->stream, segment++);
    return code;
}

void kept_drop(struct executable *e)
{
    core_sequence_destroy(e->sequence);
    free(e->parts);
}
