/*
 * move_pace.c: how fast moves may go, and how far they are (moving.h). What a node's moves may have
 * together (elastic.node-bandwidth) is divided equally among them, again whenever one begins or ends.
 */
#include <string.h>

#include "control-managers/cluster-manager/moving.h"

#define RATE_BYTES (UINT64_C(16) << 20) /* fewer say nothing about how fast bytes go */

bool moving_is_limited(const struct move_wish *wish) { return wish->bandwidth || wish->downtime_ms; }

/* ---- limits ---- */

static bool touches(const struct moved_program *move, const char *node)
{
    return strcmp(move->from_node, node) == 0 || strcmp(move->to_node, node) == 0;
}

/* Its part of what the moves of a node may have. */
static uint64_t part_of(const struct moved_program *move, const char *node, uint64_t all)
{
    unsigned sharers = 0;
    for (const struct moved_program *other = move->cluster->moves; other; other = other->next)
        sharers += !moves_ended(&other->is) && touches(other, node);
    return sharers > 1 ? all / sharers : all;
}

static uint64_t allowed(const struct moved_program *move)
{
    const uint64_t all = (uint64_t)move->cluster->values->elastic_bandwidth << 20;
    const char *const nodes[] = { move->from_node, move->to_node };
    uint64_t least = move->bandwidth;
    for (int i = 0; i < 2; i++) {
        uint64_t part = all && *nodes[i] ? part_of(move, nodes[i], all) : 0;
        if (part && (!least || part < least))
            least = part;
    }
    return least;
}

void moving_tell_limits(const struct moved_program *move)
{
    struct cluster *cluster = move->cluster;
    const struct program *program = map_get_id(&cluster->programs, move->program);
    const struct message message = { .kind = CLIENT_EVENT_LIMITS, .move = move->id };
    if (program && program->vm->session && program->vm->session->hello.minor >= CLIENT_MINOR_PROGRESS)
        program_send(cluster, program, &message);
}

void moving_divide(struct cluster *cluster)
{
    for (struct moved_program *move = cluster->moves; move; move = move->next) {
        uint64_t now = moves_ended(&move->is) ? move->given_bandwidth : allowed(move);
        if (now == move->given_bandwidth)
            continue;
        move->given_bandwidth = now;
        if (move->is.state >= ADMIN_MOVE_ORDERED && !move->unsaid)
            moving_tell_limits(move);
    }
}

/* At which a move between the same nodes went last, if nothing held it back. */
static uint64_t rate_lately(const struct moved_program *move)
{
    for (const struct moved_program *other = move->cluster->moves; other; other = other->next)
        if (other->is.state == ADMIN_MOVE_DONE && other->action == move->action && !other->given_bandwidth &&
            other->bytes >= RATE_BYTES && other->outage_us && strcmp(other->from_node, move->from_node) == 0 &&
            strcmp(other->to_node, move->to_node) == 0 && strcmp(other->vm, move->vm) == 0)
            return (uint64_t)((double)other->bytes * 1e6 / (double)other->outage_us);
    return 0;
}

void moving_fill_limits(struct cluster *cluster, uint64_t key, uint64_t id, client_limits *out)
{
    const struct moved_program *move = moving_find(cluster, id);
    *out = (client_limits){ .key = key, .move = id };
    if (!move)
        return;
    out->bandwidth = move->given_bandwidth;
    out->downtime_ms = move->downtime_ms;
    out->rate = rate_lately(move);
    out->bridged = move->bridged;
    out->strict = move->bandwidth || move->downtime_ms;
}

/* ---- how far ---- */

/* An order of that move is on its way, and its ticket is made when it is sent. */
static bool is_being_ordered(const struct moved_program *move, const struct vm *vm)
{
    for (const struct message *message = vm->events.first; message; message = message->next)
        if (message->kind == CLIENT_EVENT_MOVE && message->move == move->id)
            return true;
    return false;
}

static bool may_try_again(const struct moved_program *move)
{
    const struct server *target = map_get_id(&move->cluster->servers, move->target);
    return move->is.state == ADMIN_MOVE_TAKEN && !move->is.cancelled && !move->unsaid && !move->again && target &&
           !target->stopping;
}

void moving_give_ticket(const struct moved_program *move)
{
    const struct program *program = map_get_id(&move->cluster->programs, move->program);
    const struct message message = { .kind = CLIENT_EVENT_MOVE, .server = move->target, .move = move->id,
                                     .patience_ms = move->patience_ms, .within_ms = move->within_ms, .code = CTL_OK };
    if (program && may_try_again(move) && !is_being_ordered(move, program->vm))
        program_send(move->cluster, program, &message);
}

void moving_said_progress(struct cluster *cluster, struct vm *vm, const client_progress_args *args)
{
    const ctl_progress *said = &args->progress;
    struct moved_program *move = moving_find(cluster, said->move);
    const struct program *program = map_get_id(&vm->by_key, args->key);
    if (!move || moves_ended(&move->is) || !program || program->id != move->program ||
        (unsigned)said->phase > CTL_PHASE_WAITING)
        return;
    const bool waits = said->phase == CTL_PHASE_WAITING, waited = move->progress.phase == CTL_PHASE_WAITING;
    move->progress = *said;
    if (move->progress.total && move->progress.done > move->progress.total)
        move->progress.total = move->progress.done; /* what was counted before was too little */
    if (waits && waited)
        moving_give_ticket(move);
    else if (waits && may_try_again(move))
        moving_try_again(move);
}
