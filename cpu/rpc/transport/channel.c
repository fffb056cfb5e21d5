#include "cpu/rpc/transport/channel.h"

#include "cpu/common/clock.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>

/*
 * SPIN_NS: who has waited so long in vain sleeps. LOOKS: so often one looks into memory before one asks for the time
 * and for the peer's place: some microseconds, in which a peer on another processor answers a short call.
 * LOOKS_TOGETHER: the same where it was on this one, in case it no longer is.
 */
enum { SPIN_NS = 30 * 1000, SPIN_SKIP_MAX = 6, LOOKS = 128, LOOKS_TOGETHER = 16 };
/* TOGETHER_MAX: a server that found its peer on its own processor for so many waits in a row moves away. */
enum { TOGETHER_MAX = 4 };
/*
 * For sockets. ASKS_MAX system calls before one gives way; ASKS_MIN when somebody else was here, since a peer on this
 * processor cannot answer until we do. SWITCH_NS: giving way to nobody takes a third of it. SHARED_MAX: so often one
 * gives way to the peer before one sleeps instead, or moves away. LONG_NS: whoever was here had more to do than to
 * answer, and for the next CROWDED times one asks and then sleeps.
 */
enum { ASKS_MAX = 32, ASKS_MIN = 1, SHARED_MAX = 16, CROWDED = 16, SWITCH_NS = 900, LONG_NS = 50 * 1000 };

void rpc_channel_shutdown(rpc_channel *channel)
{
    channel->operations->shutdown(channel);
}

void rpc_channel_destroy(rpc_channel *channel)
{
    if (channel)
        channel->operations->destroy(channel);
}

void rpc_channel_part(rpc_channel *channel)
{
    if (channel->operations->part)
        channel->operations->part(channel);
}

void rpc_channel_abandon(rpc_channel *channel)
{
    channel->operations->abandon(channel);
}

const char *rpc_channel_transport(const rpc_channel *channel)
{
    return atomic_load_explicit(&channel->transport, memory_order_relaxed);       /* points to a constant */
}

int rpc_explain(char *error, int status, const char *format, ...)
{
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error, RPC_ERROR_SIZE, format, arguments);
        va_end(arguments);
    }
    return status;
}

void rpc_spin_init(struct rpc_spin *spin)
{
    cpu_set_t cpus;
    *spin = (struct rpc_spin){ .on = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 1,
                               .asks = ASKS_MAX };
}

/* 1 + the number of the processor that this thread runs on; 0: not known. */
static unsigned rpc_channel_here(void)
{
    int here = sched_getcpu();
    return here < 0 ? 0 : (unsigned)here + 1;
}

/* To any other processor that it may use: the peer answers on this one, and the system would leave both here. */
static bool move_away(void)
{
    cpu_set_t all, others;
    int here = sched_getcpu();
    if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(0, sizeof all, &all) != 0)
        return false;
    others = all;
    CPU_CLR(here, &others);
    return CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0 &&
           sched_setaffinity(0, sizeof all, &all) == 0;
}

/* As receive; afterwards it is not tried for a while if it was in vain. */
static ssize_t note(struct rpc_spin *spin, ssize_t got)
{
    if (got != -EAGAIN) {
        spin->vain = 0;
        return got;
    }
    spin->skip = 1u << spin->vain;
    if (spin->vain < SPIN_SKIP_MAX)
        spin->vain++;
    return got;
}

/* ---- through memory ---- */

/* Is the peer, for all we know, on this processor? Then it does nothing before this thread leaves it. */
static bool is_together(rpc_channel *channel)
{
    unsigned here = rpc_channel_here();
    return here != 0 && channel->operations->place(channel, here) == here;
}

static ssize_t receive_looking(rpc_channel *channel, struct rpc_inbox *inbox, struct rpc_spin *spin, bool together)
{
    uint64_t begin = 0, now = 0;
    while (!channel->operations->look(channel, together ? LOOKS_TOGETHER : LOOKS)) {
        if (together && (!spin->moves || ++spin->together < TOGETHER_MAX || !move_away()))
            return rpc_channel_receive(channel, inbox);
        if (together)
            spin->together = 0;
        now = clock_now();
        begin = begin > 0 ? begin : now;
        if (now - begin >= SPIN_NS)
            break;
        together = is_together(channel);
    }
    if (!together)
        spin->together = 0;
    return note(spin, rpc_channel_receive(channel, inbox));
}

/* ---- through sockets ---- */

/* Gives way once, and learns from how long that took. The time afterwards; 0: better sleep. */
static uint64_t give_way(struct rpc_spin *spin, uint64_t before)
{
    sched_yield();
    uint64_t now = clock_now();
    if (now - before < SWITCH_NS) {
        spin->asks = ASKS_MAX;
        spin->shared -= spin->shared > 0;
        return now;
    }
    if (now - before > LONG_NS) {
        spin->asks = ASKS_MAX;
        spin->crowded = CROWDED;
        return 0;
    }
    spin->asks = ASKS_MIN;
    if (++spin->shared < SHARED_MAX)
        return now;
    spin->shared = 0;
    return spin->moves && move_away() ? clock_now() : 0;
}

/* A few system calls without giving way. As receive. */
static ssize_t ask(rpc_channel *channel, struct rpc_inbox *inbox, const struct rpc_spin *spin)
{
    ssize_t got = -EAGAIN;
    for (unsigned i = 0; i < spin->asks && got == -EAGAIN; i++)
        got = rpc_channel_receive(channel, inbox);
    return got;
}

static ssize_t receive_asking(rpc_channel *channel, struct rpc_inbox *inbox, struct rpc_spin *spin)
{
    ssize_t got = ask(channel, inbox, spin);
    if (got == -EAGAIN && spin->crowded > 0) {
        spin->crowded--;
        return -EAGAIN;
    }
    uint64_t now = got == -EAGAIN ? clock_now() : 0, end = now + SPIN_NS;
    while (got == -EAGAIN && now < end) {
        now = give_way(spin, now);
        if (now == 0)
            return rpc_channel_receive(channel, inbox);
        got = ask(channel, inbox, spin);
        if (got == -EAGAIN)
            now = clock_now();
    }
    return note(spin, got);
}

ssize_t rpc_channel_receive_spinning(rpc_channel *channel, struct rpc_inbox *inbox, struct rpc_spin *spin)
{
    ssize_t got = rpc_channel_receive(channel, inbox);
    if (got != -EAGAIN)
        return got;
    /* acquire: the memory is there to be looked at */
    bool direct = atomic_load_explicit(&channel->direct, memory_order_acquire);
    bool together = direct && is_together(channel);         /* in any case: it also sends our position to the peer */
    if (!spin->on)
        return -EAGAIN;
    if (spin->skip > 0) {
        spin->skip--;
        return -EAGAIN;
    }
    return direct ? receive_looking(channel, inbox, spin, together) : receive_asking(channel, inbox, spin);
}
