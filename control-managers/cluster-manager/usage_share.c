/*
 * usage_share.c: divides again what the rows of a server were charged, when its node has said whom its workers served.
 *
 * Rows whom a worker serves have equal parts of all time; where there are none, those whose programs are there have.
 * The time since the first change is divided at the moments at which a row begins or ends. `served` and `there` grow by
 * the part that each row has of the time between two moments, so a row has the difference of its end and its beginning:
 * the work is that of a list of rows and of sorting the moments, however many rows share the time.
 */
#include "control-managers/cluster-manager/usage.h"

#include <stdlib.h>
#include <string.h>

#include "control-managers/cluster-manager/usage_state.h"

enum { MOMENTS_OF_ROW = 6 };

struct share_moment {
    int64_t when;
    struct used *used;
    bool serves; /* that a worker serves it begins or ends; false: that it is there */
    int step;    /* 1: it begins, -1: it ends */
};

struct division {
    int64_t from, until;
    struct share_moment *moments;
    size_t count;
    size_t are_served, are_there; /* at the moment */
    double served, there;         /* microseconds of one that is served, that is there, since `from` */
    double divided;               /* microseconds in which there was somebody */
};

/* ---- what a row had at some time ---- */

/* Drops the note that is nearest to the next one. */
static void make_room(struct used *used)
{
    unsigned nearest = 0;
    for (unsigned i = 0; i + 1 < used->pasts; i++)
        if (used->past[i + 1].when - used->past[i].when < used->past[nearest + 1].when - used->past[nearest].when)
            nearest = i;
    used->pasts--;
    memmove(&used->past[nearest], &used->past[nearest + 1], (used->pasts - nearest) * sizeof *used->past);
}

void usage_note_past(struct used *used, int64_t when, uint64_t sm_us)
{
    if (used->pasts == PASTS)
        make_room(used);
    used->past[used->pasts++] = (struct used_past){ when, sm_us };
}

uint64_t usage_sm_us_at(const struct used *used, int64_t when)
{
    struct used_past from = { used->row.begun, 0 }, to = { used->row.accrued, used->row.sm_us };
    for (unsigned i = 0; i < used->pasts; i++) {
        const struct used_past *past = &used->past[i];
        if (past->when <= when)
            from = *past;
        else if (past->when < to.when)
            to = *past;
    }
    if (when >= to.when)
        return to.sm_us;
    if (when <= from.when || to.when <= from.when)
        return from.sm_us;
    double part = (double)(when - from.when) / (double)(to.when - from.when);
    return from.sm_us + (uint64_t)((double)(to.sm_us - from.sm_us) * part);
}

/* ---- dividing ---- */

static int64_t earlier(int64_t one, int64_t other) { return one < other ? one : other; }
static int64_t later(int64_t one, int64_t other) { return one > other ? one : other; }

/* Until when its program is there. */
static int64_t there_until(const struct used *used, int64_t until)
{
    if (!used->left || !used->lingers)
        return until;
    return earlier(later(used->left, used->gone), until);
}

static void add_moment(struct division *division, struct used *used, int64_t when, bool serves, int step)
{
    division->moments[division->count++] = (struct share_moment){ when, used, serves, step };
}

/* What lies between `from` and `until` becomes moments. Where it reaches them, none is needed. */
static void add_span(struct division *division, struct used *used, int64_t from, int64_t until, bool serves)
{
    from = later(from, division->from);
    until = earlier(until, division->until);
    if (until <= from)
        return;
    if (from > division->from)
        add_moment(division, used, from, serves, 1);
    else if (serves)
        division->are_served++;
    else
        division->are_there++;
    if (until < division->until)
        add_moment(division, used, until, serves, -1);
}

static void add_row(struct division *division, struct used *used)
{
    int64_t begun = used->row.begun, left = used->left ? used->left : division->until;
    if (used->idle_until > used->idle) {
        add_span(division, used, begun, earlier(used->idle, left), true);
        add_span(division, used, later(begun, used->idle_until), left, true);
    } else {
        add_span(division, used, begun, left, true);
    }
    add_span(division, used, begun, there_until(used, division->until), false);
}

static void pass(struct division *division, int64_t us)
{
    if (division->are_served)
        division->served += (double)us / (double)division->are_served;
    else if (division->are_there)
        division->there += (double)us / (double)division->are_there;
    if (division->are_served || division->are_there)
        division->divided += (double)us;
}

static int by_time(const void *a, const void *b)
{
    const struct share_moment *one = a, *other = b;
    return (one->when > other->when) - (one->when < other->when);
}

/* Each row's `part` of the time until the last moment, as far as the row has ended by then. */
static void pass_moments(struct division *division)
{
    int64_t now = division->from;
    for (size_t i = 0; i < division->count; i++) {
        const struct share_moment *moment = &division->moments[i];
        pass(division, moment->when - now);
        now = moment->when;
        moment->used->part -= moment->step * (moment->serves ? division->served : division->there);
        if (moment->serves)
            division->are_served += (size_t)moment->step;
        else
            division->are_there += (size_t)moment->step;
    }
}

static bool serves_until(const struct used *used, int64_t until)
{
    const bool idle = used->idle_until > used->idle && used->idle < until && used->idle_until >= until;
    return used->row.begun < until && (!used->left || used->left >= until) && !idle;
}

static bool is_there_until(const struct used *used, int64_t until)
{
    return used->row.begun < until && there_until(used, until) >= until;
}

static size_t count_rows(const struct counted *counted)
{
    size_t count = 0;
    for (const struct used *used = counted->rows; used; used = used->next)
        count++;
    return count;
}

/* Takes back what the rows were charged since then; how much. */
static uint64_t take_back(struct counted *counted, struct division *division)
{
    uint64_t all = counted->undivided;
    for (struct used *used = counted->rows; used; used = used->next) {
        uint64_t before = usage_sm_us_at(used, division->from);
        all += used->row.sm_us - before;
        used->row.sm_us = before;
        used->part = 0;
        while (used->pasts && used->past[used->pasts - 1].when > division->from)
            used->pasts--;
        if (used->row.begun < division->from && division->from < used->row.accrued)
            usage_note_past(used, division->from, before);
        add_row(division, used);
    }
    return all;
}

/* A row that has ended before keeps its part. */
void usage_share_again(struct server *server, int64_t from)
{
    struct counted *counted = &server->counted;
    struct division division = { .from = from, .until = counted->accrued };
    if (from >= counted->accrued || !counted->rows)
        return; /* nothing was charged since then */
    division.moments = malloc(count_rows(counted) * MOMENTS_OF_ROW * sizeof *division.moments);
    if (!division.moments)
        return; /* nothing is lost: all keep what they were charged */
    uint64_t all = take_back(counted, &division), rest = all;
    if (division.count)
        qsort(division.moments, division.count, sizeof *division.moments, by_time);
    pass_moments(&division);
    const int64_t last = division.count ? division.moments[division.count - 1].when : from;
    const struct division then = division; /* at the last moment */
    pass(&division, division.until - last);
    for (struct used *used = counted->rows; used && division.divided > 0; used = used->next) {
        double at_last = used->part;
        if (serves_until(used, division.until)) {
            at_last += then.served;
            used->part += division.served;
        }
        if (is_there_until(used, division.until)) {
            at_last += then.there;
            used->part += division.there;
        }
        uint64_t before = used->row.sm_us, part = (uint64_t)((double)all * (used->part / division.divided));
        part = part < rest ? part : rest;
        used->row.sm_us += part;
        if (used->row.begun < last && from < last)
            usage_note_past(used, last, before + (uint64_t)((double)all * (at_last / division.divided)));
        used->unsaved = true;
        rest -= part;
    }
    counted->undivided = rest; /* of all if nobody used the server */
    counted->dirty = true;
    free(division.moments);
}
