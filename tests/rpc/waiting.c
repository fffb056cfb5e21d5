/*
 * waiting: how long a thread that waits for bytes in memory looks before it sleeps, over a channel that only counts.
 *
 * shows: speed: an end that waits leaves its processor to a peer that runs there, looks a while for one that runs
  *   elsewhere, and less often after it was in vain
 */
#include "tests/rpc/service.h"

#include "cpu/common/clock.h"
#include "cpu/rpc/transport/channel.h"

#include <errno.h>
#include <sched.h>

#include "tests/lib/unit.h"

/* Nothing comes, but after so many looks. Where the peer is, `together` says. */
struct counted {
    rpc_channel base;
    unsigned    looked, arrives, here, places, together_with;
    bool        together;
};

static struct counted *of(rpc_channel *channel) { return (struct counted *)channel; }

static ssize_t receive(rpc_channel *channel, struct rpc_inbox *inbox)
{
    (void)inbox;
    return of(channel)->arrives > 0 && of(channel)->looked >= of(channel)->arrives ? 1 : -EAGAIN;
}

static bool look(rpc_channel *channel, unsigned looks)
{
    of(channel)->looked += looks;
    return receive(channel, NULL) > 0;
}

static unsigned place(rpc_channel *channel, unsigned here)
{
    struct counted *c = of(channel);
    assert_true(here > 0);
    c->places += here != c->here;
    c->here = here;
    if (c->together_with == 0)
        c->together_with = here;
    return c->together ? c->together_with : here + 1;
}

static const struct rpc_channel_operations operations = { .receive = receive, .look = look, .place = place };

static struct counted counted(bool together)
{
    struct counted c = { .base = { .operations = &operations }, .together = together };
    atomic_init(&c.base.direct, true);
    return c;
}

static struct rpc_spin spinning(void)
{
    struct rpc_spin spin;
    rpc_spin_init(&spin);
    spin.on = true;                             /* also where there is one processor */
    return spin;
}

static ssize_t wait_once(struct counted *c, struct rpc_spin *spin)
{
    struct rpc_inbox inbox = { 0 };
    c->looked = 0;
    return rpc_channel_receive_spinning(&c->base, &inbox, spin);
}

TEST(peer_elsewhere)
{
    struct counted c = counted(false);
    struct rpc_spin spin = spinning();
    uint64_t before = clock_now();
    assert_int_equal(wait_once(&c, &spin), -EAGAIN);
    assert_in_range(clock_now() - before, 20 * 1000, UINT64_MAX);
    unsigned all = c.looked;
    assert_in_range(all, 128, UINT32_MAX);

    /* in vain again and again: more and more waits go by without it, up to 64 */
    unsigned waits = 0, tried = 0;
    for (; tried < 10; waits++) {
        assert_int_equal(wait_once(&c, &spin), -EAGAIN);
        tried += c.looked > 0;
    }
    assert_in_range(waits, 300, 1000);

    /* once it pays, it is tried each time */
    c.arrives = 1000;
    while (wait_once(&c, &spin) != 1)
        assert_in_range(waits++, 0, 2000);
    for (int i = 0; i < 10; i++)
        assert_int_equal(wait_once(&c, &spin), 1);
}

TEST(peer_here)
{
    struct counted c = counted(true);
    struct rpc_spin spin = spinning();
    for (int i = 0; i < 100; i++) {
        c.together_with = 0;                    /* this thread may be moved at any time */
        assert_int_equal(wait_once(&c, &spin), -EAGAIN);
        assert_in_range(c.looked, 1, 500);
    }
    c.arrives = 1;                              /* what it was told is old: the answer comes at once */
    assert_int_equal(wait_once(&c, &spin), 1);
}

/* A program bound to one processor never looks; its server shall know that it is there. */
TEST(may_not_look)
{
    struct counted c = counted(false);
    struct rpc_spin spin = spinning();
    spin.on = false;
    assert_int_equal(wait_once(&c, &spin), -EAGAIN);
    assert_int_equal(c.looked, 0);
    assert_int_not_equal(c.here, 0);
}

TEST(server_moves)
{
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    struct counted c = counted(true);
    struct rpc_spin spin = spinning();
    spin.moves = true;
    /* the peer stays where this thread was first: after some waits it is elsewhere */
    unsigned waits = 0;
    do
        assert_int_equal(wait_once(&c, &spin), -EAGAIN);
    while (waits++ < 100 && c.here == c.together_with);
    if (CPU_COUNT(&before) > 1) {
        assert_in_range(waits, 1, 100);
        assert_int_not_equal(c.here, c.together_with);
    }
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));    /* it is free to be moved back */
}

int main(void) { return unit_run(NULL, NULL); }
