/* move_check.c: whether a program may move, be suspended, resumed or saved now, and why not (move_target.h). */
#include "control-managers/cluster-manager/move_target.h"
#include "control-managers/cluster-manager/resize.h"
#include "cpu/common/explain.h"

/* The program can be spoken to, and nothing else is being done with it. */
static ctl_code check_state(struct cluster *cluster, const struct program *program, admin_move_action action,
                            char *text)
{
    unsigned long long id = program->id;
    if (action == ADMIN_ACTION_RESUME)
        return program->state == ADMIN_PROGRAM_SUSPENDED
                   ? CTL_OK
                   : (ctl_code)explain(text, CTL_BUSY, "program %llu is not suspended", id);
    if (program->state == ADMIN_PROGRAM_SUSPENDED)
        return explain(text, CTL_BUSY, "program %llu is suspended (`flytctl program resume %llu`)", id, id);
    if (program->state != ADMIN_PROGRAM_RUNNING || !program->server)
        return explain(text, CTL_BUSY, "program %llu uses no GPU server at present", id);
    if (program_has_set(program))
        return explain(text, CTL_NOT_SUPPORTED,
                       "program %llu has GPU servers on several nodes, and cannot move, be suspended or saved", id);
    if (program->server->gpu_count > 1 && action != ADMIN_ACTION_MOVE)
        return explain(text, CTL_NOT_SUPPORTED,
                       "program %llu has %zu GPUs, and only programs with one can be suspended or saved", id,
                       program->server->gpu_count);
    if (program->server->stopping)
        return explain(text, CTL_BUSY, "the GPU server of program %llu is being stopped", id);
    if (resize_under_way(cluster, program->server->row.id))
        return explain(text, CTL_BUSY, "the share of program %llu is being changed", id);
    return CTL_OK;
}

ctl_code move_check_program(struct cluster *cluster, const struct program *program, admin_move_action action,
                            char *text)
{
    unsigned long long id = program->id;
    const struct vm *vm = program->vm;
    if (moving_of(cluster, program->id))
        return explain(text, CTL_BUSY, "program %llu moves already (`flytctl move list`)", id);
    ctl_code code = check_state(cluster, program, action, text);
    if (code != CTL_OK)
        return code;
    if (!vm->session || !vm->named)
        return explain(text, CTL_LOST, "the client manager of VM %s, which has to tell program %llu, is not connected",
                       vm->row.name, id);
    if (vm->session->hello.minor < CLIENT_MINOR_MOVES)
        return explain(text, CTL_NOT_SUPPORTED,
                       "the client manager of VM %s is of an earlier release (%s), which cannot move programs",
                       vm->row.name, vm->session->hello.software);
    if (action != ADMIN_ACTION_MOVE && vm->session->hello.minor < CLIENT_MINOR_RESTS)
        return explain(text, CTL_NOT_SUPPORTED,
                       "the client manager of VM %s is of an earlier release (%s), which cannot suspend programs",
                       vm->row.name, vm->session->hello.software);
    return store_refuses(cluster, text) ? CTL_DB_AWAY : CTL_OK;
}

bool moving_possible(struct cluster *cluster, const struct program *program, char *text)
{
    return move_check_program(cluster, program, ADMIN_ACTION_MOVE, text) == CTL_OK;
}

/* Whether the client manager knows what is wished of the file. */
static ctl_code check_save(const struct program *program, const struct move_wish *wish, char *text)
{
    const struct vm *vm = program->vm;
    const bool named = wish->action == ADMIN_ACTION_SUSPEND && wish->file && *wish->file;
    if (((wish->base && *wish->base) || named) && vm->session->hello.minor < CLIENT_MINOR_SAVES)
        return explain(text, CTL_NOT_SUPPORTED,
                       "the client manager of VM %s is of an earlier release (%s), which knows no %s", vm->row.name,
                       vm->session->hello.software, named ? "file for a suspended program" : "checkpoints of changes");
    return CTL_OK;
}

/* The limits can be kept by its client manager; whether by its library, that one says. */
static ctl_code check_limits(struct cluster *cluster, const struct program *program, const struct move_wish *wish,
                             char *text)
{
    const int64_t most = cluster->values->elastic_at_once;
    const struct vm *vm = program->vm;
    if (moving_is_limited(wish) && vm->session->hello.minor < CLIENT_MINOR_PROGRESS)
        return explain(text, CTL_NOT_SUPPORTED,
                       "the client manager of VM %s is of an earlier release (%s), which keeps to no bandwidth and no"
                       " downtime",
                       vm->row.name, vm->session->hello.software);
    /* Those of a group have to move at the same time, however many they are. */
    if (most && !wish->group && moves_under_way(cluster) >= (uint64_t)most)
        return explain(text, CTL_WAITING, "%lld programs move, which is as many as may at a time (elastic.at-once)",
                       (long long)most);
    return CTL_OK;
}

ctl_code move_check_wish(struct cluster *cluster, const struct program *program, const struct move_wish *wish,
                         char *text)
{
    ctl_code code = check_save(program, wish, text);
    if (code == CTL_OK)
        code = move_check_place(program, wish, text);
    if (code == CTL_OK)
        code = check_limits(cluster, program, wish, text);
    return code;
}
