/* follow.c: see follow.h. */
#include "control-managers/cluster-manager/follow.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 256, MOST_GONE = 16384, AT_ONCE = 4 };

void follow_free(struct follow *follow)
{
    loop_timer_stop(&follow->slice);
    for (size_t i = 0; i < follow->entries; i++)
        free(follow->journal[i].gone_name);
    free(follow->journal);
    free(follow->things);
    free(follow->page);
    *follow = (struct follow){ 0 };
}

void follow_add(struct follow *follow, struct followed *thing, int kind)
{
    if (follow->count == follow->room) {
        size_t room = follow->room ? 2 * follow->room : FIRST_ROOM;
        struct followed **things = realloc(follow->things, room * sizeof(struct followed *));
        if (!things)
            return;
        follow->things = things;
        follow->room = room;
    }
    follow->things[follow->count++] = thing;
    *thing = (struct followed){ .place = follow->count, .kind = (uint8_t)kind };
}

/* ---- the journal ---- */

/* Few things of a large cluster change at a time, and all of a time are many entries. So entries that say nothing any
   more are taken out a few at a time, whenever one is added: else somebody would wait for 200,000 at once. */

/* Takes out the next ones. Those that say something move down to `write`. Of what is gone the oldest are dropped, as
   many as were too many. */
static void compact_some(struct follow *follow)
{
    for (int i = 0; i < AT_ONCE && follow->compacts; i++) {
        if (follow->read == follow->entries) {
            follow->entries = follow->write;
            follow->compacts = false;
            return;
        }
        struct follow_entry *from = &follow->journal[follow->read++], entry = *from;
        *from = (struct follow_entry){ 0 };
        if (entry.gone && follow->drop) {
            follow->drop--;
            follow->gone--;
            follow->forgotten = entry.number;
            free(entry.gone_name);
        } else if (entry.thing || entry.gone) {
            follow->journal[follow->write++] = entry;
            if (entry.thing)
                entry.thing->entry = follow->write;
        }
    }
}

/* Begins it where three quarters of the room are used. At its end at most a third more entries are there than at its
   begin, and half of the room is enough for all things and for as much as is kept of what has gone. */
static void make_room(struct follow *follow)
{
    const size_t room = 2 * (follow->count + MOST_GONE);
    if (follow->compacts || follow->entries < follow->entry_room / 4 * 3)
        return;
    if (follow->entry_room < room) {
        struct follow_entry *journal = realloc(follow->journal, room * sizeof *journal);
        if (journal) {
            follow->journal = journal;
            follow->entry_room = room;
        }
    }
    follow->compacts = follow->entries >= follow->entry_room / 4 * 3;
    follow->read = follow->write = 0;
    follow->drop = follow->gone > MOST_GONE / 2 ? follow->gone - MOST_GONE / 2 : 0;
}

/* NULL: no memory. */
static struct follow_entry *append(struct follow *follow)
{
    make_room(follow);
    compact_some(follow);
    if (follow->entries == follow->entry_room)
        return NULL;
    struct follow_entry *entry = &follow->journal[follow->entries++];
    *entry = (struct follow_entry){ .number = ++follow->last };
    return entry;
}

void follow_note(struct follow *follow, struct followed *thing)
{
    if (thing->entry)
        follow->journal[thing->entry - 1].thing = NULL;
    thing->entry = 0;
    struct follow_entry *entry = append(follow);
    if (!entry) {
        thing->digest = 0; /* it is tried again by the next comparison */
        return;
    }
    entry->thing = thing;
    thing->entry = follow->entries;
}

void follow_remove(struct follow *follow, struct followed *thing, uint64_t id, const char *name)
{
    if (!thing->place)
        return;
    /* The last one takes its place. A comparison goes from the end to the front, so it misses none. */
    struct followed *last = follow->things[--follow->count];
    follow->things[thing->place - 1] = last;
    last->place = thing->place;
    thing->place = 0;
    if (!thing->entry)
        return;
    follow->journal[thing->entry - 1].thing = NULL;
    thing->entry = 0;
    struct follow_entry *entry = append(follow);
    char *copy = entry && name ? strdup(name) : NULL;
    if (!entry || (name && !copy)) { /* followers cannot learn of it: all of them begin anew */
        follow->forgotten = entry ? entry->number : follow->last;
        return;
    }
    follow->gone++;
    entry->gone = (uint8_t)(thing->kind + 1);
    entry->gone_id = id;
    entry->gone_name = copy;
}

/* The first one of journal[from] … journal[to - 1] behind this number. */
static size_t behind(const struct follow *follow, size_t from, size_t to, uint64_t number)
{
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (follow->journal[middle].number <= number)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

size_t follow_behind(const struct follow *follow, uint64_t number)
{
    if (!follow->compacts)
        return behind(follow, 0, follow->entries, number);
    const size_t at = behind(follow, 0, follow->write, number);
    return at < follow->write ? at : behind(follow, follow->read, follow->entries, number);
}

size_t follow_next(const struct follow *follow, size_t at)
{
    return follow->compacts && at + 1 == follow->write ? follow->read : at + 1;
}
