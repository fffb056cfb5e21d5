/* moving.c: see moving.h. */
#include "control-managers/cluster-manager/moving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/cluster-manager/move_books.h"
#include "control-managers/cluster-manager/move_target.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"

/* What the library may take besides: it looks every two seconds whether it is to move. */
enum { MOVE_SLACK_MS = 15000, MOVE_LOOK_MS = 200, MOVE_BRIDGE_MS = 3000 };
/* How long the resource DB may take to note the move and the GPU server that it needs. */
enum { MOVE_DB_MS = 6000 };

static struct event_about about(const struct moved_program *move)
{
    return (struct event_about){ .vm = move->vm, .node = move->to_node, .server = move->target,
                                 .program = move->program, .by = move->by };
}

enum { PLACE_TEXT = 2 * CTL_MAX_NAME + 16 };

/* A GPU of a program that moves, for the audit trail; "suspended" where it has none. */
static const char *place_text(const char *node, const char *gpu, char out[PLACE_TEXT])
{
    snprintf(out, PLACE_TEXT, *node ? "node %s, GPU %s" : "suspended", node, gpu);
    return out;
}

/* ---- what follows ---- */

static const char *const verbs[] = { [ADMIN_ACTION_MOVE] = "move", [ADMIN_ACTION_SUSPEND] = "be suspended",
                                     [ADMIN_ACTION_RESUME] = "go on", [ADMIN_ACTION_CHECKPOINT] = "be saved" };

static void overdue(struct loop_timer *, void *);

/* Whether the client manager gets CLIENT_EVENT_SAVE, because CLIENT_EVENT_REST has no field for a base or a file. */
static bool needs_save(const struct moved_program *move)
{
    return *move->base || (move->action == ADMIN_ACTION_SUSPEND && *move->file);
}

static void tell_client(struct moved_program *move, bool call_off)
{
    struct cluster *cluster = move->cluster;
    struct program *program = map_get_id(&cluster->programs, move->program);
    const bool moves = call_off || move_has_target(move);
    struct message message = { .kind = moves              ? CLIENT_EVENT_MOVE
                                       : needs_save(move) ? CLIENT_EVENT_SAVE
                                                          : CLIENT_EVENT_REST,
                               .server = move->target,
                               .move = move->id,
                               .patience_ms = move->patience_ms,
                               .within_ms = move->within_ms,
                               .code = call_off ? CTL_DENIED : CTL_OK };
    if (program && !call_off)
        moving_tell_limits(move);
    if (program && !call_off && move->group)
        moving_tell_group(move);
    if (program)
        program_send(cluster, program, &message);
}

static void order(struct moved_program *);

/* Not for the first try; the servers are connected, or will not be. */
static void next_try(struct moved_program *move)
{
    move->again = false;
    loop_timer_start(move->cluster->loop, &move->timer, move->within_ms + MOVE_SLACK_MS, overdue, move);
    moving_give_ticket(move);
}

/* The node does not answer: the program moves, and its memory is copied. */
static void bridge_late(struct loop_timer *timer, void *context)
{
    struct moved_program *move = context;
    (void)timer;
    move->bridge_order = 0;
    if (move->unsaid && !move->is.cancelled)
        order(move);
    else
        next_try(move);
}

/* The node of the two servers connects them before the program learns of the move; if they are on two nodes, the old
   server's does. False: it need not. */
static bool ask_for_bridge(struct moved_program *move, const struct server *target)
{
    struct cluster *cluster = move->cluster;
    const struct server *source = map_get_id(&cluster->servers, move->source);
    struct node *node = source ? source->node : NULL;
    const bool far = node != target->node;
    const char *address = far ? server_network_address(target) : "";
    struct message message = { .kind = far ? NODE_ORDER_DIAL : NODE_ORDER_BRIDGE, .program = move->program,
                               .source = move->source, .server = move->target };
    if (move->asked_bridge || !source || !address || !node->session || !node->registered ||
        node->session->hello.minor < (far ? NODE_MINOR_DIALS : NODE_MINOR_BRIDGES))
        return false;
    snprintf(message.text, sizeof message.text, "%s", address);
    move->asked_bridge = true;
    move->bridge_order = node_send_order(cluster, node, &message);
    if (move->bridge_order)
        loop_timer_start(cluster->loop, &move->timer, MOVE_BRIDGE_MS, bridge_late, move);
    return move->bridge_order != 0;
}

static void order(struct moved_program *move)
{
    struct event_about which = about(move);
    const struct server *target = map_get_id(&move->cluster->servers, move->target);
    loop_timer_start(move->cluster->loop, &move->timer, move->within_ms + MOVE_SLACK_MS, overdue, move);
    move->unsaid = target && (!target->address_count || ask_for_bridge(move, target));
    if (move->unsaid)
        return;
    tell_client(move, false);
    cluster_event(move->cluster, ADMIN_INFO, "move-ordered", &which, "move %llu: %.200s is to %s",
                  (unsigned long long)move->id, move->executable, verbs[move->action]);
}

void moving_try_again(struct moved_program *move)
{
    const struct server *target = map_get_id(&move->cluster->servers, move->target);
    move->asked_bridge = false;
    move->again = target && ask_for_bridge(move, target);
    if (!move->again)
        moving_give_ticket(move);
}

static void ended(struct moved_program *move)
{
    char before[PLACE_TEXT], after[PLACE_TEXT];
    struct event_about which = about(move);
    bool moved = move->is.state == ADMIN_MOVE_DONE;
    which.before = place_text(move->from_node, move->from_gpu, before);
    which.after = moved && move->action != ADMIN_ACTION_CHECKPOINT ? place_text(move->to_node, move->to_gpu, after)
                                                                   : before;
    unsigned long long id = move->id;
    const char *place = move->action == ADMIN_ACTION_RESUME ? "suspended" : move->from_node;
    double outage = (double)move->outage_us / 1000, mib = (double)move->bytes / (1 << 20);
    loop_timer_stop(&move->timer);
    store_delete_move(move->cluster, move->id);
    move->ended = loop_time();
    moving_count_end(move);
    moving_divide(move->cluster);
    if (!moved)
        cluster_event(move->cluster, ADMIN_WARNING, "move-failed", &which,
                      "move %llu: %.200s %s %s%s%s: %.600s; by %s", id, move->executable,
                      move->action == ADMIN_ACTION_RESUME ? "stays" : "stays on node", place,
                      *move->from_gpu ? ", GPU " : "", move->from_gpu, move->text, move->by);
    else if (move->action == ADMIN_ACTION_SUSPEND)
        cluster_event(move->cluster, ADMIN_INFO, "program-suspended", &which,
                      "move %llu: %.200s has left node %s, GPU %s, and keeps %.1f MiB; by %s", id, move->executable,
                      move->from_node, move->from_gpu, mib, move->by);
    else if (move->action == ADMIN_ACTION_CHECKPOINT)
        cluster_event(move->cluster, ADMIN_INFO, "program-saved", &which,
                      "move %llu: %.200s is saved in %.400s; it stood still for %.1f ms for %.1f MiB; by %s", id,
                      move->executable, move->file, outage, mib, move->by);
    else if (move->action == ADMIN_ACTION_RESUME)
        cluster_event(move->cluster, ADMIN_INFO, "program-resumed", &which,
                      "move %llu: %.200s goes on, on node %s, GPU %s: %.1f MiB were copied in %.1f ms; by %s", id,
                      move->executable, move->to_node, move->to_gpu, mib, outage, move->by);
    else
        cluster_event(move->cluster, ADMIN_INFO, "move-done", &which,
                      "move %llu: %.200s is on node %s, GPU %s; it stood still for %.1f ms, and %.1f MiB were copied;"
                      " by %s", id, move->executable, move->to_node, move->to_gpu, outage, mib, move->by);
}

static void note(struct moved_program *move, ctl_code code, const char *text)
{
    if (move->code != CTL_OK)
        return;
    move->code = code;
    snprintf(move->text, sizeof move->text, "%s", text);
}

static void step(struct moved_program *move, enum move_happening happening)
{
    unsigned todo = moves_step(&move->is, happening);
    if (todo & MOVE_ORDER)
        order(move);
    if (todo & MOVE_CALL_OFF)
        tell_client(move, true);
    if (todo & MOVE_SWITCH)
        move_take_over(move);
    if (todo & MOVE_FREE_TARGET)
        move_let_go(move);
    if (todo & MOVE_END)
        ended(move);
}

static void overdue(struct loop_timer *timer, void *context)
{
    struct moved_program *move = context;
    (void)timer;
    note(move, CTL_TIMEOUT, "the program did not move in time");
    step(move, MOVE_CANCEL);
}

/* ---- looking ---- */

static bool program_gone(const struct moved_program *move)
{
    const struct vm *vm = map_get(&move->cluster->vms, move->vm);
    /* After a start a program is known when its client manager has named it. */
    return !map_get_id(&move->cluster->programs, move->program) && (!vm || vm->came);
}

static void note_target_gone(struct moved_program *move, const char *why)
{
    char text[CTL_MAX_TEXT + 1];
    snprintf(text, sizeof text, "the GPU server to which it was to move has ended%s%.600s", *why ? ": " : "", why);
    note(move, CTL_LOST, text);
}

static void look(struct moved_program *move)
{
    struct cluster *cluster = move->cluster;
    struct server *target = map_get_id(&cluster->servers, move->target);
    const struct program *program = map_get_id(&cluster->programs, move->program);
    move_hold(move);
    if (program_gone(move)) {
        note(move, CTL_NOT_FOUND, "the program has ended");
        step(move, MOVE_PROGRAM_GONE);
    } else if (!move_has_target(move)) {
        if (move->durable)
            step(move, MOVE_TARGET_RUNS);
    } else if (program && program->server && program->server->row.id == move->target) {
        step(move, MOVE_AT_TARGET);
    } else if (!target || target->stopping) {
        note_target_gone(move, target ? target->text : "");
        step(move, MOVE_TARGET_GONE);
    } else if (target->state == CTL_SERVER_RUNNING && target->durable && move->durable) {
        step(move, MOVE_TARGET_RUNS);
        if (move->unsaid && target->address_count && !move->bridge_order && !move->is.cancelled)
            order(move);
    }
}

void moving_look(struct cluster *cluster)
{
    if (cluster->stopping || !cluster->loaded)
        return;
    for (struct moved_program *move = cluster->moves; move; move = move->next)
        if (!moves_ended(&move->is))
            look(move);
}

/* Nobody but us knows of the move, and nobody will before the DB has noted it. */
static bool waits_for_db(const struct moved_program *move)
{
    const struct server *target = map_get_id(&move->cluster->servers, move->target);
    return move->is.state == ADMIN_MOVE_RESERVED && (!move->durable || (target && !target->durable)) &&
           loop_time() > move->begun + (int64_t)MOVE_DB_MS * 1000;
}

/* While its server starts, it is looked after: some ends are known to timers alone. */
static void look_again(struct loop_timer *timer, void *context)
{
    struct moved_program *move = context;
    char why[CTL_MAX_TEXT + 1];
    if (waits_for_db(move)) {
        if (!store_refuses(move->cluster, why))
            explain(why, CTL_DB_AWAY, "the resource DB is too slow. Nothing was changed; try again later");
        note(move, CTL_DB_AWAY, why);
        step(move, MOVE_CANCEL);
        return;
    }
    if (loop_time() > move->begun + (int64_t)(move->within_ms + MOVE_SLACK_MS) * 1000) {
        overdue(timer, move);
        return;
    }
    loop_timer_start(move->cluster->loop, timer, MOVE_LOOK_MS, look_again, move);
    look(move);
}

void moving_target_gone(struct cluster *cluster, const struct server *target, const char *why)
{
    for (struct moved_program *move = cluster->moves; move; move = move->next) {
        const struct program *program = map_get_id(&cluster->programs, move->program);
        if (moves_ended(&move->is) || move->target != target->row.id || (program && program->server == target))
            continue;
        note_target_gone(move, why);
    }
}

/* ---- beginning ---- */

struct durable_move {
    struct cluster *cluster;
    uint64_t move;
};

static void became_durable(void *context, int error, const char *why)
{
    struct durable_move durable = *(struct durable_move *)context;
    free(context);
    struct moved_program *move = durable.cluster->stopping ? NULL : moving_find(durable.cluster, durable.move);
    if (!move)
        return;
    move->durable = !error;
    if (error && !moves_ended(&move->is)) {
        note(move, CTL_INTERNAL, why);
        step(move, MOVE_CANCEL);
    }
    if (!moves_ended(&move->is))
        look(move);
}

static void write_row(struct moved_program *move)
{
    char row[256];
    if (*move->file) { /* a manager that begins anew does not know it */
        move->durable = true;
        look(move);
        return;
    }
    struct durable_move *durable = malloc(sizeof *durable);
    if (!durable) {
        note(move, CTL_INTERNAL, "no memory");
        step(move, MOVE_CANCEL);
        return;
    }
    *durable = (struct durable_move){ move->cluster, move->id };
    snprintf(row, sizeof row, "%llu %llu %llu %s", (unsigned long long)move->program, (unsigned long long)move->source,
             (unsigned long long)move->target, move->by);
    store_put_move(move->cluster, move->id, row, became_durable, durable);
}

ctl_code moving_begin(struct cluster *cluster, struct program *program, const struct move_wish *wish,
                      struct moved_program **out, char *text)
{
    struct server *target = NULL;
    ctl_code code = move_check_program(cluster, program, wish->action, text);
    if (code == CTL_OK && !wish->group)
        code = moving_group_ended(cluster, program, text);
    if (code == CTL_OK)
        code = move_check_wish(cluster, program, wish, text);
    struct moved_program *move = code == CTL_OK ? calloc(1, sizeof *move) : NULL;
    if (code == CTL_OK && !move)
        code = explain(text, CTL_INTERNAL, "no memory");
    target = wish->into;
    if (code == CTL_OK && wish->action == ADMIN_ACTION_MOVE && !target)
        code = move_choose_target(cluster, program, wish, &target, text);
    if (code == CTL_OK && wish->action == ADMIN_ACTION_RESUME && !target)
        code = move_choose_return(cluster, program, wish, &target, text);
    if (code != CTL_OK) {
        free(move);
        return code;
    }
    move->cluster = cluster;
    move->id = cluster_new_id(cluster);
    move->program = program->id;
    move->action = wish->action;
    move->source = program->server ? program->server->row.id : 0;
    move->target = target ? target->row.id : 0;
    move->fresh = wish->fresh;
    move->together = wish->together;
    move->group = wish->group;
    move->begun = program->move_begun = loop_time();
    move->patience_ms = wish->patience_ms ? wish->patience_ms : MOVE_PATIENCE_MS;
    move->within_ms = wish->within_ms ? wish->within_ms : MOVE_WITHIN_MS;
    move->bandwidth = wish->bandwidth;
    move->downtime_ms = wish->downtime_ms;
    snprintf(move->executable, sizeof move->executable, "%s", program->executable);
    snprintf(move->by, sizeof move->by, "%.*s", CTL_MAX_NAME, wish->by);
    snprintf(move->vm, sizeof move->vm, "%s", program->vm->row.name);
    snprintf(move->file, sizeof move->file, "%s", wish->file ? wish->file : "");
    snprintf(move->base, sizeof move->base, "%s", wish->base ? wish->base : "");
    move_describe_ends(move);
    move->next = cluster->moves;
    cluster->moves = move;
    move_hold(move);
    cluster->move_counts.begun++;
    moving_divide(cluster);
    struct event_about which = about(move);
    cluster_event(cluster, ADMIN_INFO, "move-begun", &which, "move %llu: %.200s (pid %u) is to %s%s%.200s%s%s%s%s%s%s"
                  "%s%s; by %s", (unsigned long long)move->id, move->executable, program->pid, verbs[move->action],
                  *move->file ? " in " : "", move->file, *move->from_node ? ", from node " : "", move->from_node,
                  *move->from_gpu ? ", GPU " : "", move->from_gpu, *move->to_node ? " to node " : "", move->to_node,
                  *move->to_gpu ? ", GPU " : "", move->to_gpu, move->by);
    loop_timer_start(cluster->loop, &move->timer, MOVE_LOOK_MS, look_again, move);
    write_row(move);
    moving_forget_oldest(cluster);
    *out = move;
    return CTL_OK;
}

/* ---- what others say ---- */

bool moving_cancel(struct cluster *cluster, struct moved_program *move, const char *by, const char *why)
{
    struct event_about which = about(move);
    which.by = by;
    if (moves_ended(&move->is))
        return false;
    cluster_event(cluster, ADMIN_INFO, "move-cancelled", &which, "move %llu: %s", (unsigned long long)move->id, why);
    note(move, CTL_DENIED, why);
    step(move, MOVE_CANCEL);
    return true;
}

void moving_said(struct cluster *cluster, struct vm *vm, const client_moved_args *args)
{
    struct moved_program *move = moving_find(cluster, args->moved.move);
    const struct program *program = map_get_id(&vm->by_key, args->key);
    if (!move || moves_ended(&move->is) || !program || program->id != move->program)
        return;
    struct event_about which = about(move);
    bool was_taken = move->is.state == ADMIN_MOVE_TAKEN;
    switch (args->moved.stage) {
    case CTL_MOVE_TAKEN:
        step(move, MOVE_IS_TAKEN);
        if (!was_taken && move->is.state == ADMIN_MOVE_TAKEN)
            cluster_event(cluster, ADMIN_INFO, "move-taken", &which, "move %llu: the program prepares for it",
                          (unsigned long long)move->id);
        break;
    case CTL_MOVE_MOVED:
        move->outage_us = args->moved.outage_us;
        move->bytes = args->moved.bytes;
        step(move, MOVE_HAS_MOVED);
        break;
    case CTL_MOVE_REFUSED:
        note(move, args->moved.status.code ? args->moved.status.code : CTL_NOT_SUPPORTED, args->moved.status.text);
        step(move, MOVE_IS_REFUSED);
        break;
    }
}

void moving_named_suspended(struct cluster *cluster, struct program *program)
{
    struct moved_program *move = moving_of(cluster, program->id);
    if (move && move->action == ADMIN_ACTION_SUSPEND)
        step(move, MOVE_AT_TARGET);
    else if (program->state != ADMIN_PROGRAM_SUSPENDED)
        move_suspend_program(program, 0);
}

bool moving_bridged(struct cluster *cluster, const node_order_done *done)
{
    struct moved_program *move = cluster->moves;
    while (move && (!move->bridge_order || move->bridge_order != done->number))
        move = move->next;
    if (!move)
        return false;
    if (done->status.code != CTL_OK)
        log_info("event=no-bridge move=%llu why=\"%s\": memory is copied", (unsigned long long)move->id,
                 done->status.text);
    move->bridge_order = 0;
    move->bridged = done->status.code == CTL_OK && strcmp(move->from_node, move->to_node) == 0;
    if (!moves_ended(&move->is) && move->again)
        next_try(move);
    else if (!moves_ended(&move->is))
        look(move);
    return true;
}

void moving_named(struct cluster *cluster, const struct program *program, const struct server *server)
{
    struct moved_program *move = moving_of(cluster, program->id);
    if (move && move->target == server->row.id)
        step(move, MOVE_AT_TARGET);
}

void moving_client_back(struct cluster *cluster, struct vm *vm)
{
    moving_look(cluster);
    for (struct moved_program *move = cluster->moves; move; move = move->next)
        if (!moves_ended(&move->is) && strcmp(move->vm, vm->row.name) == 0)
            step(move, MOVE_CLIENT_BACK);
}
