/* move_ahead.c: see move_ahead.h. Spans are few: a heap has one, or some. */
#include "move_ahead.h"

#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "cpu/client/core/wire/state.h"

/* ---- spans ---- */

static bool make_room(struct ahead_spans *s)
{
    if (s->count < s->room)
        return true;
    const size_t room = s->room ? 2 * s->room : 8;
    struct ahead_span *all = reallocarray(s->all, room, sizeof *all);
    if (!all)
        return false;
    s->all = all;
    s->room = room;
    return true;
}

/* The first that ends at or behind the address. */
static size_t first_behind(const struct ahead_spans *s, uint64_t address)
{
    size_t i = 0;
    while (i < s->count && s->all[i].end < address)
        i++;
    return i;
}

bool ahead_spans_add(struct ahead_spans *s, uint64_t start, uint64_t end)
{
    size_t first = first_behind(s, start), last = first;
    if (!make_room(s))
        return false;
    for (; last < s->count && s->all[last].start <= end; last++) {
        start = s->all[last].start < start ? s->all[last].start : start;
        end = s->all[last].end > end ? s->all[last].end : end;
    }
    memmove(&s->all[first + 1], &s->all[last], (s->count - last) * sizeof *s->all);
    s->count = s->count - (last - first) + 1;
    s->all[first] = (struct ahead_span){ start, end };
    return true;
}

bool ahead_spans_gap(const struct ahead_spans *s, uint64_t from, uint64_t end, struct ahead_span *gap)
{
    size_t i = first_behind(s, from + 1);
    if (i < s->count && s->all[i].start <= from)
        from = s->all[i++].end;
    *gap = (struct ahead_span){ from, i < s->count && s->all[i].start < end ? s->all[i].start : end };
    return from < end;
}

bool ahead_spans_part(const struct ahead_spans *s, uint64_t from, uint64_t end, struct ahead_span *part)
{
    size_t i = first_behind(s, from + 1);
    if (from >= end || i == s->count || s->all[i].start >= end)
        return false;
    part->start = s->all[i].start > from ? s->all[i].start : from;
    part->end = s->all[i].end < end ? s->all[i].end : end;
    return true;
}

/* ---- what has changed ---- */

static bool is_changed(const struct move_ahead *a, uint64_t granule)
{
    return granule >= a->granules || a->changed[granule / 8] >> granule % 8 & 1;
}

bool move_ahead_note(struct move_ahead *a, uint64_t granule, const uint8_t *bits, size_t size)
{
    if (!granule || granule & (granule - 1) || (a->granule && granule != a->granule))
        return false;
    if (!a->granule) {
        a->base = core_session.window;
        a->granules = (core_session.window_size + granule - 1) / granule;
        if (!(a->changed = calloc(1, (a->granules + 7) / 8)))
            return false;
        a->granule = granule;
    }
    for (size_t i = 0; i < size && i < (a->granules + 7) / 8; i++)
        a->changed[i] |= bits[i];
    return true;
}

void move_ahead_note_all(struct move_ahead *a)
{
    if (a->changed)
        memset(a->changed, UINT8_MAX, (a->granules + 7) / 8);
}

void move_ahead_copied(struct move_ahead *a, uint64_t from, uint64_t end)
{
    for (uint64_t g = (from - a->base + a->granule - 1) / a->granule; (g + 1) * a->granule <= end - a->base; g++)
        a->changed[g / 8] &= (uint8_t)~(1u << g % 8);
}

struct ahead_context *move_ahead_of(const struct move_ahead *a, const struct core_context *c)
{
    for (size_t i = 0; a && i < a->count; i++)
        if (a->contexts[i].context == c)
            return &a->contexts[i];
    return NULL;
}

bool move_ahead_stays(const struct ahead_context *ahead)
{
    const core_context *c = ahead->context;
    return atomic_load(&c->live) == CONTEXT_MADE && atomic_load(&c->generation) == ahead->generation;
}

static bool is_to_be_copied(const struct move_ahead *a, const struct ahead_context *c, uint64_t address,
                            uint64_t *until)
{
    struct ahead_span part;
    const uint64_t granule = a->granule ? (address - a->base) / a->granule : 0;
    if (!a->granule)
        return true;
    *until = a->base + (granule + 1) * a->granule;
    if (is_changed(a, granule))
        return true;
    if (!ahead_spans_part(&c->mapped, address, *until, &part) || part.start > address)
        return true;
    *until = part.end;
    return false;
}

bool move_ahead_next(const struct move_ahead *a, const struct ahead_context *c, uint64_t from, uint64_t end,
                     uint64_t most, struct ahead_span *next)
{
    uint64_t until = end;
    while (from < end && !is_to_be_copied(a, c, from, &until))
        from = until;
    next->start = next->end = from;
    while (next->end < end && next->end - next->start < most && is_to_be_copied(a, c, next->end, &until))
        next->end = until;
    next->end = next->end < end ? next->end : end;
    if (next->end - next->start > most)
        next->end = next->start + most;
    return from < end;
}

uint64_t move_ahead_left(const struct move_ahead *a, const struct core_context *c, uint64_t address, uint64_t size)
{
    const struct ahead_context *ahead = move_ahead_of(a, c);
    struct ahead_span next = { address, address };
    uint64_t left = 0;
    if (!ahead)
        return size;
    while (move_ahead_next(a, ahead, next.end, address + size, UINT64_MAX, &next))
        left += next.end - next.start;
    return left;
}

void move_ahead_free(struct move_ahead *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->count; i++)
        free(a->contexts[i].mapped.all);
    free(a->contexts);
    free(a->changed);
    free(a->there);
    free(a);
}
