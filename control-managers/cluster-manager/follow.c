/* follow.c: see follow.h. */
#include "control-managers/cluster-manager/follow.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 256, MOST_GONE = 16384 };

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

/* Drops entries that say nothing any more, and the oldest about what is gone, if there are many. */
static void compact(struct follow *follow)
{
    size_t gone = 0, kept = 0;
    for (size_t i = 0; i < follow->entries; i++)
        gone += follow->journal[i].gone != 0;
    for (size_t i = 0; i < follow->entries; i++) {
        struct follow_entry entry = follow->journal[i];
        if (entry.gone && gone > MOST_GONE / 2) {
            gone--;
            follow->forgotten = entry.number;
            free(entry.gone_name);
        } else if (entry.thing || entry.gone) {
            follow->journal[kept++] = entry;
            if (entry.thing)
                entry.thing->entry = kept;
        }
    }
    follow->entries = kept;
}

/* NULL: no memory. */
static struct follow_entry *append(struct follow *follow)
{
    if (follow->entries == follow->entry_room) {
        compact(follow);
        /* At least twice as much room as things: so entries are copied once for each that is added. */
        size_t room = 2 * (follow->count + MOST_GONE);
        if (follow->entry_room < room) {
            struct follow_entry *journal = realloc(follow->journal, room * sizeof *journal);
            if (journal) {
                follow->journal = journal;
                follow->entry_room = room;
            }
        }
        if (follow->entries == follow->entry_room)
            return NULL;
    }
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
    entry->gone = (uint8_t)(thing->kind + 1);
    entry->gone_id = id;
    entry->gone_name = copy;
}

size_t follow_behind(const struct follow *follow, uint64_t number)
{
    size_t from = 0, to = follow->entries;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (follow->journal[middle].number <= number)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}
