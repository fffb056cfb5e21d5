#include "cpu/rpc/channel.h"

#include "cpu/common/clock.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>

/* SPIN_LOOKS: so often one looks into memory before one gives way: about a microsecond, in which a peer on another
   processor answers a short call. A peer on this processor cannot, until we do give way. */
enum { SPIN_NS = 30 * 1000, SPIN_SKIP_MAX = 6, SPIN_LOOKS = 20 };

static inline void spin_pause(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

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
    *spin = (struct rpc_spin){ .on = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 1 };
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
    unsigned looks = atomic_load_explicit(&channel->direct, memory_order_relaxed) ? SPIN_LOOKS : 0;
    for (unsigned i = 0; i < looks && (got = rpc_channel_receive(channel, inbox)) == -EAGAIN; i++)
        spin_pause();
    uint64_t end = got == -EAGAIN ? clock_now() + SPIN_NS : 0;
    while (got == -EAGAIN) {
        sched_yield();                  /* whoever is to answer may want this processor */
        got = rpc_channel_receive(channel, inbox);
        for (unsigned i = 1; i < looks && got == -EAGAIN; i++) {
            spin_pause();
            got = rpc_channel_receive(channel, inbox);
        }
        if (got == -EAGAIN && clock_now() >= end)
            break;
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
