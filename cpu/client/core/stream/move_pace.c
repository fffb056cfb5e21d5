/* move_pace.c: see move_pace.h. */
#include "move_pace.h"

#include <time.h>

#include "cpu/common/clock.h"
#include "move.h"

enum { REPORT_MS = 100, KNOWN_SECONDS = 60 };
#define SURE_BYTES  (UINT64_C(4) << 20)       /* that have to be copied before a rate means anything */
#define MIB         (UINT64_C(1) << 20)
#define LONGEST_NAP (100 * CLOCK_NS_PER_MS)   /* so that a limit that changes holds soon */

/* How fast the last bytes went, and when: the mover's thread. */
static struct { uint64_t rate, at; } measured;

void move_pace_phase(struct move *move, enum move_phase phase, bool waits)
{
    struct move_pace *pace = &move->pace;
    pace->phase = phase;
    pace->reported = clock_now();
    if (pace->report)
        pace->report(move, waits);
}

static uint64_t per_second(uint64_t bytes, uint64_t ns)
{
    return (uint64_t)((double)bytes * (double)CLOCK_NS_PER_SECOND / (double)(ns ? ns : 1));
}

/* Milliseconds that so many bytes take. */
static uint64_t time_of(uint64_t bytes, uint64_t rate)
{
    return (uint64_t)((double)bytes * 1000 / (double)(rate ? rate : 1));
}

uint64_t move_pace_rate(const struct move *move)
{
    const uint64_t copied = move->copied - move->pace.from;
    return move->pace.begun && copied ? per_second(copied, clock_now() - move->pace.begun) : 0;
}

void move_pace_begin(struct move *move, enum move_phase phase, uint64_t total)
{
    struct move_pace *pace = &move->pace;
    pace->total = move->copied + total;
    pace->begun = pace->paced = clock_now();
    pace->from = pace->paced_from = move->copied;
    pace->slept = 0;
    move_pace_phase(move, phase, false);
}

/* Without what it slept: another move may be allowed more. */
static void note_rate(const struct move *move)
{
    const struct move_pace *pace = &move->pace;
    uint64_t now = clock_now(), took = now - pace->begun;
    if (move->copied - pace->from < SURE_BYTES)
        return;
    measured.rate = per_second(move->copied - pace->from, took > pace->slept ? took - pace->slept : 1);
    measured.at = now;
}

static void keep_to_bandwidth(struct move *move)
{
    struct move_pace *pace = &move->pace;
    const uint64_t bandwidth = pace->limits.bandwidth;
    uint64_t due = pace->paced, now;
    if (!bandwidth)
        return;
    due += (uint64_t)((double)(move->copied - pace->paced_from) * (double)CLOCK_NS_PER_SECOND / (double)bandwidth);
    while ((now = clock_now()) < due && pace->limits.bandwidth == bandwidth && !pace->limits.called_off) {
        uint64_t nap = due - now < LONGEST_NAP ? due - now : LONGEST_NAP;
        nanosleep(&(struct timespec){ .tv_sec = 0, .tv_nsec = (long)nap }, NULL);
        pace->slept += nap;
        if (clock_now() - pace->reported >= REPORT_MS * CLOCK_NS_PER_MS)
            move_pace_phase(move, pace->phase, false);
    }
    if (pace->limits.bandwidth != bandwidth) {        /* another one counts from now on */
        pace->paced = clock_now();
        pace->paced_from = move->copied;
    }
}

static int too_long(struct move *move, uint64_t ms, uint64_t bytes, uint64_t rate)
{
    move->pace.too_long = true;
    return move_refuse(move, CORE_NOT_READY,
                       "it would stand still for about %llu ms, and may for %u ms: %.1f MiB are to be copied, at %.1f "
                       "MiB a second",
                       (unsigned long long)ms, move->pace.limits.downtime_ms, (double)bytes / (double)MIB,
                       (double)rate / (double)MIB);
}

static int check_downtime(struct move *move)
{
    const struct move_pace *pace = &move->pace;
    uint64_t spent = pace->shut ? (clock_now() - pace->shut) / CLOCK_NS_PER_MS : 0, rate = move_pace_rate(move);
    uint64_t left = pace->total > move->copied ? pace->total - move->copied : 0;
    uint64_t all = spent + (move->copied - pace->from >= SURE_BYTES ? time_of(left, rate) : 0);
    if (!pace->limits.downtime_ms || !pace->shut || all <= pace->limits.downtime_ms)
        return CORE_OK;
    return too_long(move, all, pace->total - pace->from, rate);
}

int move_pace_passed(struct move *move)
{
    struct move_pace *pace = &move->pace;
    keep_to_bandwidth(move);
    if (clock_now() - pace->reported >= REPORT_MS * CLOCK_NS_PER_MS)
        move_pace_phase(move, pace->phase, false);
    if (pace->limits.called_off)
        return move_refuse(move, CORE_NOT_READY, "it was called off");
    int code = check_downtime(move);
    if (code || move->copied >= pace->total)
        note_rate(move);
    return code;
}

int move_pace_allows(struct move *move, uint64_t total)
{
    const struct move_limits *limits = &move->pace.limits;
    bool fresh = measured.rate && clock_now() - measured.at < KNOWN_SECONDS * CLOCK_NS_PER_SECOND;
    uint64_t rate = fresh ? measured.rate : limits->rate;
    if (limits->bandwidth && (!rate || rate > limits->bandwidth))
        rate = limits->bandwidth;
    if (!limits->downtime_ms || !rate || time_of(total, rate) <= limits->downtime_ms)
        return CORE_OK;
    return too_long(move, time_of(total, rate), total, rate);
}
