#include "cpu/rpc/channel.h"

#include "cpu/common/clock.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>

/*
 * LOOKS_MAX: so often one looks into memory before one gives way: some microseconds, in which a peer on another processor
 * answers a short call. (A system call that asks counts for LOOKS_OF_A_CALL.) A peer on this processor cannot, until we do
 * give way: so LOOKS_MIN when somebody else was here. SWITCH_NS: giving way to nobody takes a third of it. SHARED_MAX: so
 * often one gives way to the peer before one sleeps instead, or moves away. LONG_NS: whoever was here had more to do than to answer,
 * and for the next CROWDED times one looks and then sleeps.
 */
enum { LOOKS_MAX = 128, LOOKS_MIN = 4, LOOKS_OF_A_CALL = 16, SHARED_MAX = 16, CROWDED = 16, SPIN_SKIP_MAX = 6 };
enum { SPIN_NS = 30 * 1000, SWITCH_NS = 900, LONG_NS = 50 * 1000 };

void rpc_channel_shutdown(rpc_channel *channel)
{
    channel->operations->shutdown(channel);
}

void rpc_channel_destroy(rpc_channel *channel)
{
    if (channel)
        channel->operations->destroy(channel);
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
    *spin = (struct rpc_spin){ .on = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 1, .looks = LOOKS_MAX };
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
    return CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0 && sched_setaffinity(0, sizeof all, &all) == 0;
}

/* Gives way once, and learns from how long that took. The time afterwards; 0: better sleep. */
static uint64_t give_way(struct rpc_spin *spin, uint64_t before)
{
    sched_yield();
    uint64_t now = clock_now();
    if (now - before < SWITCH_NS) {
        spin->looks = LOOKS_MAX;
        spin->shared -= spin->shared > 0;
        return now;
    }
    if (now - before > LONG_NS) {
        spin->looks = LOOKS_MAX;
        spin->crowded = CROWDED;
        return 0;
    }
    spin->looks = LOOKS_MIN;
    if (++spin->shared < SHARED_MAX)
        return now;
    spin->shared = 0;
    return spin->moves && move_away() ? clock_now() : 0;
}

/* Asks for a while without giving way: by looking into memory, or with a few system calls. As receive. */
static ssize_t ask(rpc_channel *channel, struct rpc_inbox *inbox, const struct rpc_spin *spin)
{
    /* acquire: the memory is there to be looked at */
    if (atomic_load_explicit(&channel->direct, memory_order_acquire))
        return channel->operations->look(channel, spin->looks) ? rpc_channel_receive(channel, inbox) : -EAGAIN;
    ssize_t got = -EAGAIN;
    for (unsigned i = 0; i < spin->looks && got == -EAGAIN; i += LOOKS_OF_A_CALL)
        got = rpc_channel_receive(channel, inbox);
    return got;
}

ssize_t rpc_channel_receive_spinning(rpc_channel *channel, struct rpc_inbox *inbox, struct rpc_spin *spin)
{
    ssize_t got = rpc_channel_receive(channel, inbox);
    if (got != -EAGAIN || !spin->on)
        return got;
    if (spin->skip > 0) {
        spin->skip--;
        return -EAGAIN;
    }
    got = ask(channel, inbox, spin);
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
    if (got != -EAGAIN) {
        spin->vain = 0;
    } else {
        spin->skip = 1u << spin->vain;
        if (spin->vain < SPIN_SKIP_MAX)
            spin->vain++;
    }
    return got;
}
