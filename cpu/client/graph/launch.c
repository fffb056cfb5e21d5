/*
 * launch.c: an executable graph is put into a stream: each step's work into the stream of its track, waits and events
 * between the tracks.
 *
 * The program's stream is track 0, so a graph without branches costs its nodes' own calls and one event. That event
 * marks the end of the launch: the next launch waits for it when it goes to another stream. Mostly the server has all
 * these calls already, and one message is enough (server_copy.c).
 */
#include "cpu/client/graph/capture.h"
#include "cpu/client/graph/executable.h"
#include "cpu/common/cancel.h"

enum { EVENT_NO_TIMING = 2, STREAM_NON_BLOCKING = 1 };

static int event_make(core_context *context, core_event *event)
{
    return *event ? CORE_OK : core_event_create(context, EVENT_NO_TIMING, event);
}

/* The events at both ends belong to the context of the program's stream. */
static int ends_make(const struct launch *l)
{
    struct executable *e = l->e;
    if (e->ended_context == l->context && core_event_check(e->ended) == CORE_OK)
        return CORE_OK;
    if (e->started)
        core_event_destroy(e->started);
    if (e->ended)
        core_event_destroy(e->ended);
    e->started = e->ended = 0;
    e->launched = false;
    e->ended_context = l->context;
    int code = event_make(l->context, &e->started);
    return code ? code : event_make(l->context, &e->ended);
}

/* What the context took along when it ended comes again. */
static int track_make(struct track *track)
{
    struct core_stream_info info;
    if (track->stream && core_stream_info(track->context, track->stream, &info) == CORE_OK)
        return CORE_OK;
    return core_stream_create(track->context, STREAM_NON_BLOCKING, 0, &track->stream);
}

static bool is_programs(const struct launch *l, unsigned track)
{
    const struct track *of = &l->e->plan.tracks[track];
    return track == 0 && (!of->context || of->context == l->context);
}

static int tracks_make(const struct launch *l)
{
    struct plan *p = &l->e->plan;
    int code = CORE_OK;
    for (unsigned i = 0; i < p->track_count && !code; i++) {
        if (!p->tracks[i].context)
            p->tracks[i].context = l->context;
        if (!is_programs(l, i))
            code = track_make(&p->tracks[i]);
    }
    return code;
}

int launch_step(const struct launch *l, struct step *s)
{
    struct plan *p = &l->e->plan;
    const struct track *track = &p->tracks[s->track];
    bool programs = is_programs(l, s->track);
    core_context *context = programs ? l->context : track->context;
    core_stream stream = programs ? l->stream : track->stream;
    int code = s->first && !programs ? core_stream_wait(context, stream, l->e->started, 0) : CORE_OK;
    for (size_t i = 0; i < s->wait_count && !code; i++)
        code = core_stream_wait(context, stream, p->steps[s->waits[i]].event, 0);
    if (!code && s->node && !s->node->disabled)
        code = node_run(s->node, stream, programs && l->priority != PRIORITY_OF_NODES ? 0 : l->priority);
    if (!code && s->awaited) {
        if (s->event && core_event_check(s->event))
            s->event = 0;
        code = event_make(context, &s->event);
        if (!code)
            code = core_event_record(context, s->event, stream, 0);
    }
    return code;
}

static bool needs_start(const struct launch *l)
{
    const struct plan *p = &l->e->plan;
    for (size_t i = 0; i < p->count; i++)
        if (p->steps[i].first && !is_programs(l, p->steps[i].track))
            return true;
    return false;
}

int launch_prepare(const struct launch *l)
{
    int code = ends_make(l);
    return code ? code : tracks_make(l);
}

int launch_begin(const struct launch *l)
{
    int code = l->e->has_conditions ? conditions_begin(l->e->graph, 0, l->context, l->stream) : CORE_OK;
    if (code)
        return code;
    return needs_start(l) ? core_event_record(l->context, l->e->started, l->stream, 0) : CORE_OK;
}

/* A track 0 that is not the program's stream is waited for too. */
static int ends_wait(const struct launch *l)
{
    struct executable *e = l->e;
    struct plan *p = &e->plan;
    int code = CORE_OK;
    for (unsigned i = 0; i < p->end_count && !code; i++)
        code = core_stream_wait(l->context, l->stream, p->steps[p->ends[i]].event, 0);
    if (code || !p->count || is_programs(l, 0))
        return code;
    if (e->joined && core_event_check(e->joined))
        e->joined = 0;
    code = event_make(p->tracks[0].context, &e->joined);
    if (!code)
        code = core_event_record(p->tracks[0].context, e->joined, p->tracks[0].stream, 0);
    return code ? code : core_stream_wait(l->context, l->stream, e->joined, 0);
}

int launch_end(const struct launch *l)
{
    int code = ends_wait(l);
    if (!code && l->e->launches)
        code = core_graph_end(l->context, l->stream, l->e->token);
    return code ? code : core_event_record(l->context, l->e->ended, l->stream, 0);
}

static int launch_each(const struct launch *l)
{
    struct plan *p = &l->e->plan;
    int code = launch_prepare(l);
    if (!code)
        code = launch_begin(l);
    for (size_t i = 0; i < p->count && !code; i++)
        code = launch_step(l, &p->steps[i]);
    return code ? code : launch_end(l);
}

/* Behind the launch before. */
static int follow(const struct launch *l)
{
    const struct executable *e = l->e;
    bool same = e->launched && e->last == l->stream && e->ended_context == l->context &&
                l->stream != CORE_STREAM_PER_THREAD; /* which is another stream in each thread */
    return e->launched && !same ? core_stream_wait(l->context, l->stream, e->ended, 0) : CORE_OK;
}

/* What an upload does to an executable that kernels launch. */
static int executable_upload(const struct launch *l)
{
    struct executable *e = l->e;
    if (!(e->flags & GRAPH_DEVICE_LAUNCH))
        return CORE_OK;
    int code = follow(l);
    if (!code)
        code = ends_make(l);
    if (!code)
        code = device_set(l);
    if (!code)
        code = core_event_record(l->context, e->ended, l->stream, 0);
    if (!code) {
        e->launched = true;
        e->last = l->stream;
    }
    return code;
}

static int launch(const struct launch *l)
{
    struct executable *e = l->e;
    int code = follow(l);
    bool done = false;
    if (!code && e->flags & GRAPH_DEVICE_LAUNCH && !e->uploaded)
        code = device_set(l);
    if (!code)
        code = kept_launch(l, &done);
    if (!code && !done)
        code = launch_each(l);
    e->launched = true;
    e->last = l->stream;
    return code;
}

static int launch_in(struct executable *e, core_context *context, core_stream stream, struct launch *l)
{
    struct core_stream_info info;
    int code = core_stream_info(context, stream, &info);
    *l = (struct launch){ .e = e,
                          .context = info.context,
                          .stream = stream < CORE_STREAM_PER_THREAD ? CORE_STREAM_LEGACY : stream,
                          .priority = e->flags & GRAPH_NODE_PRIORITY ? PRIORITY_OF_NODES : info.priority };
    return code;
}

int executable_launch(struct executable *e, core_context *context, core_stream stream)
{
    struct launch l;
    bool comes = false;
    int code = launch_in(e, context, stream, &l);
    if (!code)
        code = core_graph_begins(l.context, l.stream, &comes);
    if (!code && !(code = memory_launch(&l))) {
        code = launch(&l);
        memory_launched(&l, code);
    }
    core_graph_sent(comes);
    return code;
}

int graph_upload(core_context *context, graph_executable token, core_stream stream)
{
    CANCEL_DEFERRED;
    struct executable *e;
    struct launch l;
    int code = issue_check_captured(context, stream);
    if (code || (code = executable_enter(token, &e)))
        return code;
    if (!(code = launch_in(e, context, stream, &l)))
        code = memory_upload(&l);
    if (!code)
        code = executable_upload(&l);
    executable_leave(e);
    return code;
}
