/* move_books.c: see move_books.h. */
#include "control-managers/cluster-manager/move_books.h"

#include <stdio.h>
#include <string.h>

#define TARGET_ENDED "the GPU server to which it moved has ended"

void move_describe_ends(struct moved_program *move)
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

void move_hold(struct moved_program *move)
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
    move_describe_ends(move);
}

/* Without a grace period: its share is booked elsewhere. */
static void end_unused(struct server *server, const char *why)
{
    if (!server_is_idle(server) || server->leaving)
        return;
    server->unused = true;
    server_stop(server->cluster, server, CTL_OK, why);
}

void move_let_go(struct moved_program *move)
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

/* ---- the program's server ---- */

static void note_left(struct program *program, uint64_t server)
{
    program_revoke(program->cluster, program);
    memmove(&program->left[1], &program->left[0], (PROGRAM_LEFT - 1) * sizeof program->left[0]);
    program->left[0] = server;
}

void move_suspend_program(struct program *program, uint64_t from)
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
static void switch_to(struct cluster *cluster, struct program *program, struct server *server)
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

void move_take_over(struct moved_program *move)
{
    struct program *program = map_get_id(&move->cluster->programs, move->program);
    struct server *target = map_get_id(&move->cluster->servers, move->target);
    if (!program || move->action == ADMIN_ACTION_CHECKPOINT)
        return;
    if (move->action == ADMIN_ACTION_SUSPEND) {
        move_suspend_program(program, move->source);
    } else if (target) {
        switch_to(move->cluster, program, target);
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
