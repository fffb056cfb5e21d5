/*
 * seek.c: finds a GPU server for a program: that of its VM, a new one, or a place in the queue.
 */
#include "control-managers/cluster-manager/cluster.h"

#include <stdio.h>
#include <string.h>

#include "cpu/common/explain.h"

static bool is_avoided(const struct program *program, const struct server *server)
{
    for (size_t i = 0; i < program->avoid_count; i++)
        if (program->avoid[i] == server->node || server_has_gpu(server, program->avoid[i]))
            return true;
    return false;
}

static bool may_share(const struct program *program, const struct server *server)
{
    return !server->row.program && !server->stopping && server->state < CTL_SERVER_STOPPING &&
           !server->node->row.drained && !is_avoided(program, server);
}

/* The servers of a set together have all GPUs that the program is to see. */
static bool set_is_whole(const struct program *program, const struct server *first)
{
    size_t gpus = 0;
    for (const struct server *server = program->vm->servers; server; server = server->vm_next) {
        if (server->row.set != first->row.set)
            continue;
        if (!may_share(program, server))
            return false;
        gpus += server->gpu_count;
    }
    return gpus == program->vm->row.gpus;
}

/* For a new program: none of a drained node. Of a set the first one. */
static struct server *shared_server(const struct program *program)
{
    for (struct server *server = program->vm->servers; server; server = server->vm_next)
        if (may_share(program, server) &&
            (!server->row.set || (server->row.set == server->row.id && set_is_whole(program, server))))
            return server;
    return NULL;
}

/* A server with other limits was started before the entitlement changed. */
static bool has_limits(const struct server *server, const struct place_request *request)
{
    return (server->row.set || server->gpu_count == request->gpus) && server->row.spread == request->spread &&
           server->row.sms == request->sms && server->row.memory == request->memory &&
           server->row.sharing & request->accepted;
}

bool server_is_shared(const struct program *program)
{
    return program->vm->row.grouping && shared_server(program);
}

/* Of those that could hold it: the first that is degraded, and why, behind the text. */
static void explain_degraded(struct cluster *cluster, const struct place_request *request, char *text, size_t size)
{
    size_t at = strlen(text);
    for (size_t i = 0; i < cluster->pool.count; i++) {
        const struct cluster_gpu *gpu = cluster->pool.gpus[i].owner;
        if (!gpu || gpu_may_be_tried(cluster, gpu) || !place_could_hold(&cluster->pool, i, request))
            continue;
        snprintf(text + at, size - at, "; GPU %s is degraded: %.400s", gpu->id, gpu->degraded_why);
        return;
    }
}

/* Whether its client manager knows of programs with servers on several nodes. */
static bool takes_sets(const struct vm *vm) { return vm->session && vm->session->hello.minor >= CTL_MINOR_PARTS; }

ctl_code server_try(struct cluster *cluster, struct program *program, char *text)
{
    struct vm *vm = program->vm;
    struct server *server = vm->row.grouping ? shared_server(program) : NULL;
    struct place_set place;
    program->lacks_room = program->expects_place = false;
    if ((!server || !server->durable) && program_lacks_db(cluster, program, text))
        return CTL_DB_AWAY;
    if (!vm->row.sms || !vm->row.memory_mib)
        return explain(text, CTL_NO_ROOM, "VM %s is entitled to nothing (flytctl vm set %s --sms N --memory SIZE)",
                       vm->row.name, vm->row.name);
    struct place_request request = server_request(cluster, program);
    if (server && server_is_idle(server) && !has_limits(server, &request)) {
        idle_own_give_way(vm, "what its VM is entitled to has changed");
        server = NULL;
    }
    if (!server) {
        if (!server_within_entitlement(vm, &request))
            idle_own_give_way(vm, "its VM's programs have servers of their own now");
        if (!server_within_entitlement(vm, &request))
            return entitlement_used(vm, CTL_BUSY, text);
        enum place_verdict verdict = place_choose_set(&cluster->pool, cluster->values->policy, &request, &place);
        if (verdict == PLACE_NEVER && program->avoid_count) {
            /* The places that could do instead have gone meanwhile. */
            program->avoid_count = 0;
            request = server_request(cluster, program);
            verdict = place_choose_set(&cluster->pool, cluster->values->policy, &request, &place);
        }
        if (verdict != PLACE_FOUND) {
            program->lacks_room = verdict == PLACE_BUSY;
            program->expects_place = verdict == PLACE_BUSY && idle_give_way(cluster, &request);
            place_explain(&cluster->pool, &request, verdict, text, CTL_MAX_TEXT);
            explain_degraded(cluster, &request, text, CTL_MAX_TEXT);
            return verdict == PLACE_NEVER ? CTL_NO_ROOM : CTL_BUSY;
        }
        if (place.count > 1 && !takes_sets(vm))
            return explain(text, CTL_VERSION,
                           "the program's GPUs are of several nodes, and the client manager of VM %s is of an earlier "
                           "release, which gives a program one GPU server",
                           vm->row.name);
        ctl_code placed = servers_place_set(cluster, program, &place, vm->row.grouping, text);
        if (placed != CTL_OK)
            return placed;
        for (size_t i = 0; i < place.count; i++)
            queue_overtaken(cluster, program, &place.of[i]);
        server = program->server;
    } else {
        program_takes(program, server);
    }
    loop_timer_stop(&program->patience);
    if (!program_is_served(program)) {
        program->state = ADMIN_PROGRAM_STARTING;
        return CTL_WAITING;
    }
    loop_timer_stop(&server->timer);            /* a grace period */
    program_runs(cluster, program);
    return CTL_OK;
}

bool cluster_settling(struct cluster *cluster)
{
    if (loop_now(cluster->loop) > cluster->settled)
        return false;
    for (size_t i = 0; i < cluster->nodes.count; i++)
        if (((struct node *)map_at(&cluster->nodes, i))->state == ADMIN_NODE_AWAY)
            return true;
    return false;
}

/* Of the other nodes first: what keeps a server from starting is often the machine's, not the GPU's. Of several GPUs it
   is not known which it was: the first is left out. */
bool program_try_elsewhere(struct cluster *cluster, struct program *program, const struct server *failed)
{
    const void *const ways[] = { failed->node, failed->gpus[0] };
    if (program->avoid_count == PROGRAM_TRIES)
        return false;
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        program->avoid[program->avoid_count] = ways[way];
        struct place_request request = server_request(cluster, program);
        request.avoid_count++;
        for (size_t i = 0; i < cluster->pool.count; i++)
            if (place_could_hold(&cluster->pool, i, &request)) {
                program->avoid_count++;
                return true;
            }
    }
    return false;
}

static void patience_over(struct loop_timer *timer, void *context)
{
    struct program *program = context;
    char text[CTL_MAX_TEXT + 1];
    (void)timer;
    snprintf(text, sizeof text, "no GPU became free within the time that the program was to wait");
    program_refuse(program->cluster, program, CTL_BUSY, text);
}

bool program_may_wait(const struct cluster *cluster, const struct program *program)
{
    if (program->wait != CLIENT_WAIT_DEFAULT)
        return program->wait == CLIENT_WAIT_YES;
    if (program->vm->row.wait != ADMIN_WAIT_DEFAULT)
        return program->vm->row.wait == ADMIN_WAIT_IN_LINE;
    return cluster->values->wait == CLUSTER_WAIT_IN_LINE;
}

/* ms; 0: without end. */
static uint64_t patience_of(const struct cluster *cluster, const struct program *program)
{
    return program->wait_ms ? program->wait_ms : (uint64_t)(cluster->values->wait_seconds * 1000);
}

void program_limit_wait(struct cluster *cluster, struct program *program)
{
    uint64_t most = patience_of(cluster, program), waited = (uint64_t)(loop_time() - program->asked) / 1000;
    bool waits = program_may_wait(cluster, program);
    uint64_t left = !waits ? SETTLE_MS : most > waited ? most - waited : 1;
    if (!waits || most)
        loop_timer_start(cluster->loop, &program->patience, left, patience_over, program);
}

ctl_code server_seek(struct cluster *cluster, struct program *program, client_wait wait, unsigned wait_ms, char *text)
{
    program->wait = wait;
    program->wait_ms = wait_ms;
    ctl_code code = server_try(cluster, program, text);
    bool settles = code != CTL_OK && code != CTL_WAITING && (cluster_settling(cluster) || program->expects_place);
    bool waits = code == CTL_BUSY && program_may_wait(cluster, program);
    if (!settles && !waits)
        return code;
    uint64_t patience = waits ? patience_of(cluster, program) : SETTLE_MS;
    snprintf(program->why, sizeof program->why, "%.250s", text);
    program_enter_queue(cluster, program);
    program->position = (uint32_t)cluster->queue_length;
    if (patience)
        loop_timer_start(cluster->loop, &program->patience, patience, patience_over, program);
    return CTL_WAITING;
}
