/*
 * throttle.c: how much is sent while host functions are outstanding.
 *
 * What stands behind a host function waits on the server, which takes only so much and then nothing more from us, also
 * not what the function itself sends (a deferred copy, see copy.c). So no more than a part of that is sent while a
 * function is outstanding; then the sender waits for its stream, as it would in a driver whose queue is full.
 */
#include <stdatomic.h>

#include "host_function.h"

enum { THROTTLE_CALLS = 16384, THROTTLE_BYTES = 32 << 20 };

static struct {
    atomic_uint   outstanding;        /* host functions */
    atomic_size_t calls, bytes;       /* sent since some are */
} throttle;

static _Thread_local bool host_thread;

void throttle_thread(void)
{
    host_thread = true;
}

bool core_in_host_function(void)
{
    return host_thread;
}

uint64_t throttle_outstanding(void)
{
    return atomic_load(&throttle.outstanding);
}

void throttle_begins(void)
{
    atomic_fetch_add(&throttle.outstanding, 1);
}

void throttle_enter(struct client_stream *s, size_t bytes)
{
    if (!atomic_load_explicit(&throttle.outstanding, memory_order_relaxed) || host_thread)
        return;
    size_t calls = atomic_fetch_add(&throttle.calls, 1), sum = atomic_fetch_add(&throttle.bytes, bytes);
    if (calls < THROTTLE_CALLS && sum + bytes <= THROTTLE_BYTES)
        return;
    stream_wait_for(s);                       /* what fails is latched, or the sender's own call finds it */
    atomic_store(&throttle.calls, 0);
    atomic_store(&throttle.bytes, 0);
}

void throttle_ends(void)
{
    if (atomic_fetch_sub(&throttle.outstanding, 1) == 1) {
        atomic_store(&throttle.calls, 0);
        atomic_store(&throttle.bytes, 0);
    }
}
