/* moving.c: see moving.h. */
#include "control-managers/cluster-manager/moving.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/cluster-manager/move_target.h"
#include "control-managers/cluster-manager/resize.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"

#define TARGET_ENDED "the GPU server to which it moved has ended"
/* What the library may take besides: it looks every two seconds whether it is to move. */
enum { MOVE_SLACK_MS = 15000, MOVE_LOOK_MS = 200, MOVE_BRIDGE_MS = 3000 };
/* How long the resource DB may take to note the move and the GPU server that it needs. */
enum { MOVE_DB_MS = 6000 };

static struct event_about about(const struct moved_program *move)
{
    return (struct event_about){ .vm = move->vm, .node = move->to_node, .server = move->target,
                                 .program = move->program, .by = move->by };
}

static struct moved_program *move_of(struct cluster *cluster, uint64_t program)
{
    for (struct moved_program *move = cluster->moves; move; move = move->next)
        if (move->program == program && !moves_ended(&move->is))
            return move;
    return NULL;
}

/* ---- books ---- */

/* Of one that was read from the DB, when its servers are known. */
static void describe_ends(struct moved_program *move)
{
    const struct server *source = map_get_id(&move->cluster->servers, move->source);
    const struct server *target = map_get_id(&move->cluster->servers, move->target);
    const struct server *ends[2] = { source, target };
    char *const nodes[2] = { move->from_node, move->to_node }, *const gpus[2] = { move->from_gpu, move->to_gpu };
    for (int i = 0; i < 2; i++)
        if (ends[i]) {
            snprintf(nodes[i], CTL_MAX_NAME + 1, "%s", ends[i]->row.node);
            snprintf(gpus[i], CTL_MAX_NAME + 1, "%s", ends[i]->gpu_names[0]);
            snprintf(move->vm, sizeof move->vm, "%s", ends[i]->row.vm);
        }
}

enum { PLACE_TEXT = 2 * CTL_MAX_NAME + 16 };

/* A GPU of a program that moves, for the audit trail; "suspended" where it has none. */
static const char *place_text(const char *node, const char *gpu, char out[PLACE_TEXT])
{
    snprintf(out, PLACE_TEXT, *node ? "node %s, GPU %s" : "suspended", node, gpu);
    return out;
}

static void hold(struct moved_program *move)
{
    struct server *source = map_get_id(&move->cluster->servers, move->source);
    struct server *target = map_get_id(&move->cluster->servers, move->target);
    if (move->holds || (move_has_target(move) && !target))
        return;
    move->holds = true;
    if (target)
        target->reserved++;
    if (target && target->state == CTL_SERVER_RUNNING && !target->stopping)
        loop_timer_stop(&target->timer); /* a grace period */
    if (source)
        source->leaving++;
    describe_ends(move);
}

/* Without a grace period: its share is booked elsewhere. */
static void end_unused(struct server *server, const char *why)
{
    if (!server_is_idle(server) || server->leaving)
        return;
    server->unused = true;
    server_stop(server->cluster, server, CTL_OK, why);
}

static void let_go(struct moved_program *move)
{
    struct server *source = map_get_id(&move->cluster->servers, move->source);
    struct server *target = map_get_id(&move->cluster->servers, move->target);
    if (!move->holds)
        return;
    move->holds = false;
    if (source && source->leaving)
        source->leaving--;
    if (target && target->reserved)
        target->reserved--;
    if (source && move->is.state == ADMIN_MOVE_DONE && !source->program_count && !source->leaving) {
        source->deserted = true;
        server_check_idle(move->cluster, source);
    } else if (source) {
        server_check_idle(move->cluster, source);
    }
    if (target)
        end_unused(target, "the program that was to move here did not");
    queue_retry(move->cluster);
}

static void note_left(struct program *program, uint64_t server)
{
    program_revoke(program->cluster, program);
    memmove(&program->left[1], &program->left[0], (PROGRAM_LEFT - 1) * sizeof program->left[0]);
    program->left[0] = server;
}

/* It has no server from now on, and its share is free. from: the server that it leaves; 0: not known. This manager may
   have begun after the program left it. */
static void suspend(struct program *program, uint64_t from)
{
    struct server *old = program->server;
    if (old || from)
        note_left(program, old ? old->row.id : from);
    program_detach(program, "suspended", "it has left the GPU until it is resumed");
    program->state = ADMIN_PROGRAM_SUSPENDED;
    if (!old || old->leaving)
        return;
    old->deserted = !old->program_count;
    server_check_idle(program->cluster, old);
}

/* The program uses that server from now on. */
static void moving_switch(struct cluster *cluster, struct program *program, struct server *server)
{
    struct server *old = program->server;
    char why[DB_HOST_SIZE];
    if (old == server)
        return;
    if (old)
        note_left(program, old->row.id);
    snprintf(why, sizeof why, "moved: to GPU server %llu of node %s", (unsigned long long)server->row.id,
             server->row.node);
    program->leaving = why;
    program_attach(program, server);
    program->leaving = NULL;
    program->state = ADMIN_PROGRAM_RUNNING;
    if (server->state == CTL_SERVER_RUNNING && !server->stopping)
        loop_timer_stop(&server->timer);
    if (old && !old->leaving)
        server_check_idle(cluster, old);
    /* After a start of this manager its node may come back later than the client manager. */
    bool runs = server->state == CTL_SERVER_RUNNING || (server->adopted && server->state == CTL_SERVER_STARTING);
    if (!runs || server->stopping) {
        program_detach(program, "lost", TARGET_ENDED);
        program->state = ADMIN_PROGRAM_LOST;
        program_notify(cluster, program, CLIENT_EVENT_LOST, CTL_LOST, TARGET_ENDED);
    }
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

static void take_over(struct moved_program *move)
{
    struct program *program = map_get_id(&move->cluster->programs, move->program);
    struct server *target = map_get_id(&move->cluster->servers, move->target);
    if (!program || move->action == ADMIN_ACTION_CHECKPOINT)
        return;
    if (move->action == ADMIN_ACTION_SUSPEND) {
        suspend(program, move->source);
    } else if (target) {
        moving_switch(move->cluster, program, target);
    } else if (!program->server ? move->action == ADMIN_ACTION_RESUME : program->server->row.id == move->source) {
        struct server *source = program->server;
        program_revoke(move->cluster, program);
        program_detach(program, "lost", TARGET_ENDED);
        program->state = ADMIN_PROGRAM_LOST;
        program_notify(move->cluster, program, CLIENT_EVENT_LOST, CTL_LOST, TARGET_ENDED);
        if (source)
            server_check_idle(move->cluster, source);
    }
}

static void forget_oldest(struct cluster *cluster)
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
        take_over(move);
    if (todo & MOVE_FREE_TARGET)
        let_go(move);
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
    hold(move);
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

static ctl_code check_program(struct cluster *cluster, const struct program *program, admin_move_action action,
                              char *text)
{
    unsigned long long id = program->id;
    const struct vm *vm = program->vm;
    if (move_of(cluster, program->id))
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

bool moving_possible(struct cluster *cluster, const struct program *program, char *text)
{
    return check_program(cluster, program, ADMIN_ACTION_MOVE, text) == CTL_OK;
}

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
    ctl_code code = check_program(cluster, program, wish->action, text);
    if (code == CTL_OK && !wish->group)
        code = moving_group_ended(cluster, program, text);
    if (code == CTL_OK)
        code = check_save(program, wish, text);
    if (code == CTL_OK)
        code = move_check_place(program, wish, text);
    if (code == CTL_OK)
        code = check_limits(cluster, program, wish, text);
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
    describe_ends(move);
    move->next = cluster->moves;
    cluster->moves = move;
    hold(move);
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
    forget_oldest(cluster);
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
    struct moved_program *move = move_of(cluster, program->id);
    if (move && move->action == ADMIN_ACTION_SUSPEND)
        step(move, MOVE_AT_TARGET);
    else if (program->state != ADMIN_PROGRAM_SUSPENDED)
        suspend(program, 0);
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
    struct moved_program *move = move_of(cluster, program->id);
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
