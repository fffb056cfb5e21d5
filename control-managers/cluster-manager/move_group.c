/*
 * move_group.c: programs that share memory move together (moving.h). Their client manager knows which they are, and
 * lets all of them pass, or none; here each has a move of its own, to one server.
 */
#include <stdio.h>
#include <string.h>

#include "control-managers/cluster-manager/moving.h"
#include "cpu/common/explain.h"

/* Or comes into it: it moves there already. */
static bool is_in(struct cluster *cluster, uint64_t group, uint64_t program, uint64_t target)
{
    struct moved_program *move = cluster->moves;
    while (move && (moves_ended(&move->is) || move->program != program || move->target != target))
        move = move->next;
    if (move && !move->group) {
        move->group = group;
        if (move->is.state >= ADMIN_MOVE_ORDERED && !move->unsaid)
            moving_tell_group(move);
    }
    return move && move->group == group;
}

/* The first one has a move, and there is a server for all of them. */
static ctl_code check(const struct moved_program *first, const struct server *target, char *text)
{
    if (!first || moves_ended(&first->is))
        return explain(text, CTL_NOT_FOUND, "its move has ended");
    if (first->action != ADMIN_ACTION_MOVE)
        return explain(text, CTL_NOT_SUPPORTED,
                       "programs that share memory move together, but are not suspended or"
                       " saved together");
    if (!target || target->stopping)
        return explain(text, CTL_LOST, "the GPU server to which they were to move has ended");
    if (target->row.program)
        return explain(text, CTL_NOT_SUPPORTED,
                       "it shares memory with other programs, and the GPU server to which it was to move is for it"
                       " alone: move them together (--together)");
    return CTL_OK;
}

ctl_code moving_group(struct cluster *cluster, struct vm *vm, const client_group_args *args, char *text)
{
    struct moved_program *first = moving_find(cluster, args->move), *begun;
    struct server *target = first ? map_get_id(&cluster->servers, first->target) : NULL;
    ctl_code code = check(first, target, text);
    if (code == CTL_OK && !first->group)
        first->group = first->id;
    for (u_int i = 0; i < args->others.others_len && code == CTL_OK; i++) {
        struct program *program = map_get_id(&vm->by_key, args->others.others_val[i]);
        const struct move_wish wish = { .by = first->by,
                                        .action = ADMIN_ACTION_MOVE,
                                        .bandwidth = first->bandwidth,
                                        .downtime_ms = first->downtime_ms,
                                        .patience_ms = first->patience_ms,
                                        .within_ms = first->within_ms,
                                        .together = true,
                                        .fresh = first->fresh,
                                        .into = target,
                                        .group = first->group };
        if (program && is_in(cluster, first->group, program->id, first->target))
            continue;
        if (!program)
            code = explain(text, CTL_NOT_FOUND, "a program that shares memory with it has ended");
        else if (!program->server || program->server->row.id != first->source)
            code =
                explain(text, CTL_NOT_SUPPORTED, "program %llu, which shares memory with it, is at another GPU server",
                        (unsigned long long)program->id);
        else
            code = moving_begin(cluster, program, &wish, &begun, text);
    }
    return code;
}

void moving_tell_group(const struct moved_program *move)
{
    struct cluster *cluster = move->cluster;
    const struct program *program = map_get_id(&cluster->programs, move->program);
    const struct message message = { .kind = CLIENT_EVENT_GROUP, .move = move->id };
    if (program)
        program_send(cluster, program, &message);
}

void moving_fill_group(struct cluster *cluster, uint64_t key, uint64_t id, client_group *out)
{
    const struct moved_program *move = moving_find(cluster, id);
    *out = (client_group){ .key = key, .move = id, .group = move ? move->group : id };
}
