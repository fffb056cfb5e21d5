#include "cpu/common/clock.h"

#include <limits.h>

uint64_t clock_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);       /* cannot fail with this clock and a valid pointer */
    return (uint64_t)now.tv_sec * CLOCK_NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

struct timespec clock_timespec(uint64_t ns)
{
    return (struct timespec){ .tv_sec = (time_t)(ns / CLOCK_NS_PER_SECOND),
                              .tv_nsec = (long)(ns % CLOCK_NS_PER_SECOND) };
}

uint64_t clock_run_look(struct clock_run *run, uint64_t now, uint64_t interval)
{
    uint64_t step = now - run->looked;
    run->looked = now;
    run->ns += step > 2 * interval ? interval : step;
    return run->ns;
}

int clock_poll_timeout(uint64_t deadline)
{
    uint64_t now = clock_now();
    if (deadline <= now)
        return 0;
    uint64_t ms = (deadline - now + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}
