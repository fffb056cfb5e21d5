/*
 * move_report.c: what a move is to keep to, as the client manager says, and how far it is, as it learns from here
 * (move_pace.h). Before the program is touched its answer is waited for. While the program stands still nothing is
 * waited for: a client manager that is stopped holds up no program.
 */
#include "cpu/common/clock.h"
#include "cpu/client/core/session/attach.h"
#include "cpu/client/core/moves/move_steps.h"

uint64_t move_size(const struct move *move, bool adopts)
{
    uint64_t sum = 0;
    for (int kind = 0; kind < KINDS; kind++)
        sum += client_kinds[kind].size ? client_kinds[kind].size(move, adopts) : 0;
    return sum;
}

static void report(struct move *move, bool waits)
{
    const struct move_pace *pace = &move->pace;
    const struct manager_progress_note note = { .number = move->order->number,
                                                .phase = pace->phase,
                                                .done = move->copied,
                                                .total = pace->total,
                                                .rate = move_pace_rate(move) };
    manager_report_progress(&note, waits, &move->pace.limits);
}

int move_ask_limits(struct move *move)
{
    struct move_pace *pace = &move->pace;
    pace->report = move->order->number ? report : NULL;
    move_pace_phase(move, MOVE_PREPARES, true);
    if (pace->limits.called_off)
        return move_refuse(move, CORE_NOT_READY, "it was called off");
    if (move->steps == MOVE_IN)
        return CORE_OK;
    pace->total = move_size(move, pace->limits.bridged && move->steps == MOVE_ACROSS);
    return CORE_OK;
}

uint64_t move_rest_limit(const struct move *move, unsigned limit_ms)
{
    const unsigned downtime = move->pace.limits.downtime_ms;
    unsigned most = limit_ms ? limit_ms : MOVE_LIMIT_MS;
    return (downtime && downtime < most ? downtime : most) * CLOCK_NS_PER_MS;
}
