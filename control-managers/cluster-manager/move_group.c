/*
 * move_group.c: programs that share memory move, rest, go on and are saved together (moving.h). Their client manager
 * knows which they are, and lets all of them pass, or none; here each has a move of its own, to one server if to any.
 */
#include <stdio.h>
#include <string.h>

#include "control-managers/cluster-manager/move_target.h"
#include "cpu/common/explain.h"

/* Or comes into it: the same is being done with it already. */
static bool is_in(struct cluster *cluster, const struct moved_program *first, uint64_t program)
{
    struct moved_program *move = cluster->moves;
    while (move && (moves_ended(&move->is) || move->program != program || move->target != first->target ||
                    move->action != first->action))
        move = move->next;
    if (move && !move->group) {
        move->group = first->group;
        if (move->is.state >= ADMIN_MOVE_ORDERED && !move->unsaid)
            moving_tell_group(move);
    }
    return move && move->group == first->group;
}

static ctl_code check_target(const struct moved_program *first, const struct server *target, char *text)
{
    if (!move_has_target(first))
        return CTL_OK;
    if (!target || target->stopping)
        return explain(text, CTL_LOST, "the GPU server to which they were to move has ended");
    if (target->row.program)
        return explain(text, CTL_NOT_SUPPORTED,
                       "it shares memory with other programs, and the GPU server to which it was to move is for it"
                       " alone: move them together (--together)");
    return CTL_OK;
}

/* The first one has a move, and there is a server for all of them. */
static ctl_code check(const struct moved_program *first, const struct server *target, char *text)
{
    static const char *const verbs[] = { [ADMIN_ACTION_MOVE] = "move", [ADMIN_ACTION_SUSPEND] = "suspend",
                                         [ADMIN_ACTION_RESUME] = "resume", [ADMIN_ACTION_CHECKPOINT] = "save" };
    if (!first || moves_ended(&first->is))
        return explain(text, CTL_NOT_FOUND, "its move has ended");
    if (!first->together && first->action != ADMIN_ACTION_MOVE)
        return explain(text, CTL_NOT_SUPPORTED, "it shares memory with other programs: %s them together (--together)",
                       verbs[first->action]);
    if (first->action == ADMIN_ACTION_SUSPEND && *first->file)
        return explain(text, CTL_NOT_SUPPORTED,
                       "programs that share memory are suspended together into files without names, and cannot be"
                       " frozen");
    return check_target(first, target, text);
}

/* It is where the first one is: at the same server, or suspended, too. */
static bool is_beside(const struct moved_program *first, const struct program *program)
{
    if (first->action == ADMIN_ACTION_RESUME)
        return program->state == ADMIN_PROGRAM_SUSPENDED;
    return program->server && program->server->row.id == first->source;
}

/* FILE of the first program is FILE.ID of another one. "": there is none. False: too long. */
static bool name_file(const char *file, const struct program *program, char out[CTL_MAX_PATH + 1])
{
    *out = '\0';
    return !*file || snprintf(out, CTL_MAX_PATH + 1, "%s.%llu", file, (unsigned long long)program->id) <= CTL_MAX_PATH;
}

static ctl_code begin(const struct moved_program *first, struct program *program, struct server *target, char *text)
{
    char file[CTL_MAX_PATH + 1], base[CTL_MAX_PATH + 1];
    struct moved_program *begun;
    const struct move_wish wish = { .by = first->by,
                                    .file = file,
                                    .base = base,
                                    .action = first->action,
                                    .bandwidth = first->bandwidth,
                                    .downtime_ms = first->downtime_ms,
                                    .patience_ms = first->patience_ms,
                                    .within_ms = first->within_ms,
                                    .together = true,
                                    .fresh = first->fresh,
                                    .into = target,
                                    .group = first->group };
    if (!name_file(first->file, program, file) || !name_file(first->base, program, base))
        return explain(text, CTL_INVALID, "the name of the file for program %llu is longer than %d bytes",
                       (unsigned long long)program->id, CTL_MAX_PATH);
    return moving_begin(first->cluster, program, &wish, &begun, text);
}

/* A client manager speaks for its own VM: else it could bring its programs to a GPU server of another one. NULL: there
   is no such move. */
static struct moved_program *move_of_vm(struct cluster *cluster, const struct vm *vm, uint64_t id)
{
    struct moved_program *move = moving_find(cluster, id);
    const struct program *program = move ? map_get_id(&cluster->programs, move->program) : NULL;
    return program && program->vm == vm ? move : NULL;
}

ctl_code moving_group(struct cluster *cluster, struct vm *vm, const client_group_args *args, char *text)
{
    struct moved_program *first = move_of_vm(cluster, vm, args->move);
    struct server *target = first ? map_get_id(&cluster->servers, first->target) : NULL;
    ctl_code code = check(first, target, text);
    if (code == CTL_OK && !first->group)
        first->group = first->id;
    for (u_int i = 0; i < args->others.others_len && code == CTL_OK; i++) {
        struct program *program = map_get_id(&vm->by_key, args->others.others_val[i]);
        if (program && is_in(cluster, first, program->id))
            continue;
        if (!program)
            code = explain(text, CTL_NOT_FOUND, "a program that shares memory with it has ended");
        else if (!is_beside(first, program))
            code = explain(text, CTL_NOT_SUPPORTED, "program %llu, which shares memory with it, is %s",
                           (unsigned long long)program->id,
                           first->action == ADMIN_ACTION_RESUME ? "not suspended" : "at another GPU server");
        else
            code = begin(first, program, target, text);
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

ctl_code moving_group_ended(const struct cluster *cluster, const struct program *program, char *text)
{
    const struct moved_program *last = cluster->moves, *other = cluster->moves; /* the newest comes first */
    while (last && last->program != program->id)
        last = last->next;
    if (!last || !last->group)
        return CTL_OK;
    while (other && (moves_ended(&other->is) || other->group != last->group))
        other = other->next;
    return other ? (ctl_code)explain(text, CTL_WAITING,
                                     "move %llu of program %llu, which shares memory with it, has not ended yet",
                                     (unsigned long long)other->id, (unsigned long long)other->program)
                 : CTL_OK;
}
