/*
 * log_limit.h: a bound on messages that a peer can cause. Ten at once, then one per second; the next one that passes
 * says how many were left out.
 */
#ifndef FLYT_COMMON_LOG_LIMIT_H
#define FLYT_COMMON_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cpu/common/clock.h"

enum { LOG_LIMIT_BURST = 10 };
/* One for each message; used by one thread. Starts as zeros. */
struct log_limit {
    uint64_t since;
    unsigned used, left_out;
};

/* Whether the message may be written now. *left_out: how many were not, since the last that was. */
static inline bool log_limit_passes(struct log_limit *limit, unsigned *left_out)
{
    uint64_t now = clock_now(), seconds = (now - limit->since) / CLOCK_NS_PER_SECOND;
    limit->used -= seconds < limit->used ? (unsigned)seconds : limit->used;
    limit->since = limit->used ? limit->since + seconds * CLOCK_NS_PER_SECOND : now;
    if (limit->used >= LOG_LIMIT_BURST) {
        limit->left_out++;
        return false;
    }
    limit->used++;
    *left_out = limit->left_out;
    limit->left_out = 0;
    return true;
}

/* Whether to write the message. *more is what to write behind it: how many were left out, if any were. */
static inline bool log_limit_says(struct log_limit *limit, char more[48])
{
    unsigned left_out = 0;
    if (!log_limit_passes(limit, &left_out))
        return false;
    more[0] = '\0';
    if (left_out)
        snprintf(more, 48, " (and %u more before)", left_out);
    return true;
}

#endif
