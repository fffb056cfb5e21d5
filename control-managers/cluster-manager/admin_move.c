/* admin_move.c: what administrators ask about programs that move: moving.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/cluster-manager/moving.h"
#include "cpu/common/explain.h"

/* ---- which program, and where to ---- */

static ctl_code find_program(struct cluster *cluster, const admin_move_args *args, struct program **out, char *text)
{
    *out = args->prog ? map_get_id(&cluster->programs, args->prog) : NULL;
    const struct vm *vm = *args->vm ? vm_find(cluster, args->vm) : NULL;
    if (*args->vm && !vm)
        return explain(text, CTL_NOT_FOUND, "there is no VM '%s'", args->vm);
    if (args->prog && (!*out || (vm && (*out)->vm != vm)))
        return explain(text, CTL_NOT_FOUND, vm ? "VM %s has no program %llu" : "%sthere is no program %llu",
                       vm ? vm->row.name : "", (unsigned long long)args->prog);
    if (*out)
        return CTL_OK;
    if (!vm)
        return explain(text, CTL_INVALID, "which program is to move?");
    for (struct program *program = vm->programs; program; program = program->vm_next) {
        if (args->action == ADMIN_ACTION_RESUME ? program->state != ADMIN_PROGRAM_SUSPENDED : !program->server)
            continue;
        if (*out)
            return explain(text, CTL_BUSY, "VM %s runs several programs: say which one is to move", vm->row.name);
        *out = program;
    }
    return *out ? CTL_OK
                : (ctl_code)explain(text, CTL_NOT_FOUND, "VM %s runs no program that uses a GPU", vm->row.name);
}

static const struct cluster_gpu *gpu_of(const struct node *node, const char *name)
{
    char *end;
    unsigned long index = strtoul(name, &end, 10);
    bool is_index = *name && !*end;
    for (size_t i = 0; i < node->gpu_count; i++)
        if (node->gpus[i]->known &&
            (strcmp(node->gpus[i]->id, name) == 0 || (is_index && node->gpus[i]->index == index)))
            return node->gpus[i];
    return NULL;
}

static struct node *node_named(struct cluster *cluster, const char *name)
{
    struct node *node = map_get(&cluster->nodes, name);
    return node ? node : map_get(&cluster->node_addresses, name);
}

/* "NODE", "NODE:GPU"; names may hold colons themselves. */
static ctl_code find_place(struct cluster *cluster, const char *to, struct move_wish *wish, char *text)
{
    char name[CTL_MAX_HOST + 1];
    if (!*to)
        return CTL_OK;
    wish->node = node_named(cluster, to);
    wish->to = wish->node;
    if (wish->node)
        return CTL_OK;
    for (const char *colon = strchr(to, ':'); colon; colon = strchr(colon + 1, ':')) {
        snprintf(name, sizeof name, "%.*s", (int)(colon - to), to);
        wish->node = node_named(cluster, name);
        if (!wish->node)
            continue;
        wish->to = gpu_of(wish->node, colon + 1);
        return wish->to ? CTL_OK
                        : (ctl_code)explain(text, CTL_NOT_FOUND,
                                            "node %s has no GPU '%s' (`flytctl node show %s`)", name, colon + 1, name);
    }
    return explain(text, CTL_NOT_FOUND, "there is no node '%s' (`flytctl node list`)", to);
}

static ctl_code check_files(const admin_move_args *args, const char *base, char *text)
{
    const bool saves = args->action == ADMIN_ACTION_CHECKPOINT;
    if ((saves || *args->file) && *args->file != '/')
        return explain(text, CTL_INVALID, "the file of a checkpoint is an absolute path on the program's machine");
    if (*base && (*base != '/' || !saves))
        return explain(text, CTL_INVALID, "the checkpoint before is an absolute path on the program's machine");
    return CTL_OK;
}

static void move(struct conn *conn, struct loop_call *call, const admin_move_args *args, const char *base)
{
    struct cluster_session *session = session_of(conn);
    char text[CTL_MAX_TEXT + 1] = "";
    struct program *program = NULL;
    struct moved_program *begun = NULL;
    struct move_wish wish = { .by = session->who,
                              .sms = args->sms,
                              .memory = args->memory,
                              .patience_ms = args->patience_ms,
                              .within_ms = args->within_ms,
                              .bandwidth = args->bandwidth,
                              .downtime_ms = args->downtime_ms,
                              .action = args->action,
                              .file = args->file,
                              .base = base,
                              .together = args->together,
                              .fresh = args->fresh };
    ctl_code code = find_program(session->cluster, args, &program, text);
    if (code == CTL_OK)
        code = find_place(session->cluster, args->to, &wish, text);
    if (code == CTL_OK && (args->patience_ms > MOVE_MOST_MS || args->within_ms > MOVE_MOST_MS))
        code = explain(text, CTL_INVALID, "a program has at most %d s to move", MOVE_MOST_MS / 1000);
    if (code == CTL_OK && args->downtime_ms && args->action != ADMIN_ACTION_MOVE &&
        args->action != ADMIN_ACTION_CHECKPOINT)
        code = explain(text, CTL_INVALID, "a program that is suspended stands still until it is resumed");
    if (code == CTL_OK && (unsigned)args->action > ADMIN_ACTION_CHECKPOINT)
        code = explain(text, CTL_INVALID, "there is no such action");
    if (code == CTL_OK)
        code = check_files(args, base, text);
    if (code == CTL_OK && (args->sms || args->memory) && session->hello.role != CTL_ROLE_ADMIN)
        code = explain(text, CTL_DENIED, "an operator may move a program, but not change its share");
    if (code == CTL_OK)
        code = moving_begin(session->cluster, program, &wish, &begun, text);
    admin_move_result result = { .status = { code, text }, .move = begun ? begun->id : 0 };
    if (code != CTL_WAITING)
        admin_note_answer(call, code, text);
    call_reply(call, &result);
}

void admin_handle_move(struct conn *conn, struct loop_call *call, void *object) { move(conn, call, object, ""); }

void admin_handle_save(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_save_args *args = object;
    move(conn, call, &args->move, args->base);
}

/* ---- which moves there are ---- */

static void fill_row(struct moved_program *move, admin_move_row *row)
{
    *row = (admin_move_row){
        .id = move->id,
        .prog = move->program,
        .vm = move->vm,
        .executable = move->executable,
        .state = move->is.state,
        .cancelled = move->is.cancelled,
        .source = move->source,
        .target = move->target,
        .from_node = move->from_node,
        .from_gpu = move->from_gpu,
        .to_node = move->to_node,
        .to_gpu = move->to_gpu,
        .begun = move->begun,
        .ended = move->ended,
        .outage_us = move->outage_us,
        .bytes = move->bytes,
        .status = { move->code, move->text },
        .by = move->by,
        .action = move->action,
        .progress = move->progress,
        .bandwidth = move->given_bandwidth,
        .downtime_ms = move->downtime_ms,
    };
}

static bool is_meant(const struct moved_program *move, const admin_numbered_page *args)
{
    return move->id > args->after && (!*args->vm || strcmp(args->vm, move->vm) == 0) &&
           (!*args->node || strcmp(args->node, move->from_node) == 0 || strcmp(args->node, move->to_node) == 0);
}

void admin_handle_moves(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_numbered_page *args = object;
    struct cluster *cluster = session_of(conn)->cluster;
    admin_move_row rows[ADMIN_MAX_MOVE_PAGE];
    admin_moves_result result = { .status = { CTL_OK, (char *)"" }, .moves = { 0, rows } };
    size_t count = 0;
    for (const struct moved_program *move = cluster->moves; move; move = move->next)
        count += is_meant(move, args);
    result.more = count > ADMIN_MAX_MOVE_PAGE;
    /* The newest come first in the list, the oldest in the answer. */
    size_t take = result.more ? ADMIN_MAX_MOVE_PAGE : count, skip = count - take, at = take;
    for (struct moved_program *move = cluster->moves; move && at; move = move->next)
        if (is_meant(move, args) && (!skip || !skip--))
            fill_row(move, &rows[--at]);
    result.moves.moves_len = (u_int)take;
    call_reply(call, &result);
}

void admin_handle_move_cancel(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_program_args *args = object;
    struct cluster_session *session = session_of(conn);
    struct moved_program *move = moving_find(session->cluster, args->id);
    char text[CTL_MAX_TEXT + 1] = "";
    ctl_code code = CTL_OK;
    snprintf(text, sizeof text, "cancelled by %s", session->who);
    if (!move)
        code = explain(text, CTL_NOT_FOUND, "there is no move %llu (`flytctl move list`)",
                       (unsigned long long)args->id);
    else if (!moving_cancel(session->cluster, move, session->who, text))
        code = explain(text, CTL_BUSY, "move %llu has ended already", (unsigned long long)args->id);
    else
        *text = '\0';
    ctl_plain_result result = { { code, text } };
    admin_note_answer(call, code, text);
    call_reply(call, &result);
}

/* As administrators' programs of an earlier release ask for it; those of this one use ADMIN_MOVE. */
void admin_handle_migrate(struct conn *conn, struct loop_call *call, void *object)
{
    ctl_plain_result result = { { CTL_NOT_SUPPORTED, (char *)"this release moves programs by ADMIN_MOVE" } };
    (void)conn, (void)object;
    admin_note_answer(call, result.status.code, result.status.text);
    call_reply(call, &result);
}
