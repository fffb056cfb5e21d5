/*
 * cluster_follow.c: what followers are told (follow.h), without a cluster: things come, change and go by chance, and
 * followers who look now and then must know what there is.
 *
 * shows: follow: no change waits until old ones are taken out of the journal
 * shows: follow: followers of different paces know all things, their newest state, and what has gone; one that has
 *   missed too much begins anew; what came and went unseen costs nothing
 */
#include "control-managers/cluster-manager/follow.h"
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 400, FOLLOWERS = 3, PAGE = 16, ROUNDS = 60000 };

struct thing {
    struct followed followed;
    bool there;
    unsigned value, noted; /* noted: as the last comparison found it */
};
static struct thing things[MOST];
static struct follow follow;

struct follower {
    uint64_t after, known;
    unsigned value[MOST]; /* 0: it is not there */
    int begun;
};

static void compare_all(void)
{
    for (size_t i = follow.count; i-- > 0;) {
        struct thing *thing = (struct thing *)(void *)follow.things[i];
        if (thing->noted != thing->value)
            follow_note(&follow, &thing->followed);
        thing->noted = thing->value;
    }
}

/* As admin_follow.c answers and flyt-monitor reads: a page. false: there is no more. */
static bool read_page(struct follower *who)
{
    if (who->after > follow.last || (who->after && who->known < follow.forgotten)) {
        *who = (struct follower){ .begun = who->begun + 1 };
        return true;
    }
    if (!who->after)
        who->known = follow.last;
    size_t at = follow_behind(&follow, who->after);
    for (int n = 0; n < PAGE && at < follow.entries; n++, at = follow_next(&follow, at)) {
        const struct follow_entry *entry = &follow.journal[at];
        if (entry->thing) {
            const struct thing *thing = (const struct thing *)(const void *)entry->thing;
            who->value[thing - things] = thing->value;
        } else if (entry->gone) {
            who->value[entry->gone_id] = 0;
        }
        assert_true(entry->number > who->after);
        who->after = entry->number;
    }
    if (at == follow.entries && who->known < who->after)
        who->known = who->after;
    return at < follow.entries;
}

static void assert_knows(const struct follower *who)
{
    for (int i = 0; i < MOST; i++)
        if (who->value[i] != (things[i].there ? things[i].value : 0))
            fail_msg("thing %d is %u (%s), and a follower takes it for %u", i, things[i].value,
                     things[i].there ? "there" : "gone", who->value[i]);
}

static void change(unsigned *next)
{
    struct thing *thing = &things[rand() % MOST];
    if (!thing->there) {
        thing->there = true;
        thing->noted = 0;
        thing->value = ++*next;
        follow_add(&follow, &thing->followed, 2);
    } else if (rand() % 2) {
        thing->value = ++*next;
    } else {
        thing->there = false;
        follow_remove(&follow, &thing->followed, (uint64_t)(thing - things), NULL);
    }
}

TEST(test_followers_of_all_paces)
{
    static struct follower followers[FOLLOWERS];
    static const int pace[FOLLOWERS] = { 2, 50, 20000 };
    unsigned next = 0;
    srand(1);
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = rand() % 6; k > 0; k--)
            change(&next);
        for (int i = 0; i < FOLLOWERS; i++) {
            if (round % pace[i])
                continue;
            compare_all();
            while (read_page(&followers[i]))
                ;
            assert_knows(&followers[i]);
        }
    }
    assert_int_equal(followers[0].begun, 0);
    assert_true(followers[2].begun > 0); /* it has missed too much */
    follow_free(&follow);
    memset(things, 0, sizeof things);
}

TEST(test_what_nobody_has_seen)
{
    for (int i = 0; i < 1000; i++) {
        follow_add(&follow, &things[0].followed, 3);
        follow_remove(&follow, &things[0].followed, 0, NULL);
    }
    assert_int_equal(follow.entries, 0);
    assert_int_equal(follow.last, 0);
    follow_add(&follow, &things[0].followed, 0);
    follow_note(&follow, &things[0].followed);
    follow_remove(&follow, &things[0].followed, 0, "a-name");
    assert_int_equal(follow.entries, 2);
    assert_string_equal(follow.journal[1].gone_name, "a-name");
    follow_remove(&follow, &things[0].followed, 0, "a-name"); /* it is not followed any more */
    assert_int_equal(follow.entries, 2);
    follow_free(&follow);
}

/* The journal is compacted a few entries at a time: no change waits for all of them, and its room stays. */
TEST(test_a_change_costs_little)
{
    enum { CHANGES = 300000, AT_ONCE = 4 };
    unsigned compacted = 0;
    for (int i = 0; i < MOST; i++)
        follow_add(&follow, &things[i].followed, 2);
    for (int i = 0; i < CHANGES; i++) {
        const bool compacts = follow.compacts;
        const size_t read = compacts ? follow.read : 0, entries = follow.entries, room = follow.entry_room;
        follow_note(&follow, &things[i % 7 ? i % 3 : i / 7 % MOST].followed);
        compacted += compacts && !follow.compacts;
        if (follow.compacts)
            assert_true(follow.read - read <= AT_ONCE);
        else if (follow.entries < entries) /* it has just ended: what was left of it was little */
            assert_true(compacts && entries - read <= AT_ONCE);
        assert_true(!room || follow.entry_room == room);
    }
    assert_true(compacted > 3);
    for (int i = 0; i < MOST; i++)
        assert_ptr_equal(follow.journal[things[i].followed.entry - 1].thing, &things[i]);
    follow_free(&follow);
}

int main(void) { return unit_run(NULL, NULL); }
