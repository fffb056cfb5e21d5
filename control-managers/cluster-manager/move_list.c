/* move_list.c: the moves that there are and were, from the start of this manager to its end (moving.h). */
#include <stdio.h>
#include <stdlib.h>

#include "control-managers/cluster-manager/moving.h"

struct moved_program *moving_find(struct cluster *cluster, uint64_t id)
{
    struct moved_program *move = cluster->moves;
    while (move && move->id != id)
        move = move->next;
    return move;
}

struct moved_program *moving_of(struct cluster *cluster, uint64_t program)
{
    for (struct moved_program *move = cluster->moves; move; move = move->next)
        if (move->program == program && !moves_ended(&move->is))
            return move;
    return NULL;
}

unsigned moves_under_way(const struct cluster *cluster)
{
    unsigned count = 0;
    for (const struct moved_program *move = cluster->moves; move; move = move->next)
        count += !moves_ended(&move->is);
    return count;
}

void moving_forget_oldest(struct cluster *cluster)
{
    size_t count = 0;
    for (struct moved_program **at = &cluster->moves; *at;) {
        struct moved_program *move = *at;
        if (moves_ended(&move->is) && ++count > MOVES_KEPT) {
            *at = move->next;
            free(move);
        } else {
            at = &move->next;
        }
    }
}

/* ---- counters ---- */

void moving_count_end(struct moved_program *move)
{
    admin_move_counts *counts = &move->cluster->move_counts;
    bool moved = move->is.state == ADMIN_MOVE_DONE;
    move->progress = (ctl_progress){ .move = move->id, .done = move->progress.done, .total = move->progress.total };
    if (!moved && move->is.cancelled && move->code == CTL_DENIED)
        counts->cancelled++;
    else if (!moved)
        counts->failed++;
    if (!moved)
        return;
    move->progress.done = move->progress.total = move->bytes;
    counts->bytes += move->bytes;
    switch (move->action) {
    case ADMIN_ACTION_MOVE:
        counts->moved++;
        counts->outage_us += move->outage_us;
        break;
    case ADMIN_ACTION_SUSPEND:
        counts->suspended++;
        break;
    case ADMIN_ACTION_RESUME:
        counts->resumed++;
        break;
    case ADMIN_ACTION_CHECKPOINT:
        counts->saved++;
        counts->outage_us += move->outage_us;
        break;
    }
}

/* ---- beginning and end of this manager ---- */

void moving_load(struct cluster *cluster, uint64_t id, const char *row)
{
    unsigned long long program, source, target;
    struct moved_program *move = calloc(1, sizeof *move);
    int at = 0;
    if (!move || sscanf(row, "%llu %llu %llu %n", &program, &source, &target, &at) < 3) {
        free(move);
        return;
    }
    move->cluster = cluster;
    move->id = id;
    move->program = program;
    move->source = source;
    move->target = target;
    move->action = !target ? ADMIN_ACTION_SUSPEND : !source ? ADMIN_ACTION_RESUME : ADMIN_ACTION_MOVE;
    move->is.state = ADMIN_MOVE_ORDERED; /* it may have been */
    move->durable = true;
    move->begun = loop_time();
    move->patience_ms = MOVE_PATIENCE_MS;
    move->within_ms = MOVE_WITHIN_MS;
    snprintf(move->by, sizeof move->by, "%.*s", CTL_MAX_NAME, at ? row + at : "");
    snprintf(move->executable, sizeof move->executable, "program %llu", program);
    move->next = cluster->moves;
    cluster->moves = move;
}

void moving_end(struct cluster *cluster)
{
    while (cluster->moves) {
        struct moved_program *move = cluster->moves;
        cluster->moves = move->next;
        loop_timer_stop(&move->timer);
        free(move);
    }
}
