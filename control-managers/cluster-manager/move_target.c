/* move_target.c: see move_target.h. */
#include "control-managers/cluster-manager/move_target.h"

#include <stdio.h>
#include <string.h>

#include "cpu/common/explain.h"

ctl_code move_check_place(const struct program *program, const struct move_wish *wish, char *text)
{
    const struct cluster_gpu *here = program->server ? program->server->gpus[0] : NULL;
    const struct node *node = wish->fresh && here ? here->node : wish->node;
    if (wish->fresh && (!here || wish->action != ADMIN_ACTION_MOVE || (wish->to && wish->to != here &&
                                                                       wish->to != node)))
        return explain(text, CTL_INVALID, "program %llu is on GPU %s of node %s, and a fresh server is one of that GPU",
                       (unsigned long long)program->id, here ? here->id : "-", here ? here->node->row.name : "-");
    if (here && program->server->gpu_count > 1 && (wish->fresh || (wish->to && wish->to != node)))
        return explain(text, CTL_NOT_SUPPORTED,
                       "program %llu has %zu GPUs: it can move to other GPUs, or to a node (--to NODE), and not to a"
                       " GPU that is named or to a fresh server of its own GPUs",
                       (unsigned long long)program->id, program->server->gpu_count);
    if (!wish->to && !wish->fresh)
        return CTL_OK;
    if (here && !wish->fresh &&
        (wish->to == here || (wish->to == node && node == here->node && node->gpu_count == 1)))
        return explain(text, CTL_INVALID, "program %llu is on GPU %s of node %s already",
                       (unsigned long long)program->id, here->id, here->node->row.name);
    if (node->row.drained)
        return explain(text, CTL_BUSY, "node %s is drained, so that no program may go there", node->row.name);
    if (node->state != ADMIN_NODE_UP || !node->registered)
        return explain(text, CTL_LOST, "node %s is not connected", node->row.name);
    return CTL_OK;
}

static void explain_room(struct cluster *cluster, const struct move_wish *wish, const struct place_request *request,
                         enum place_verdict verdict, char *text)
{
    const struct cluster_gpu *gpu = wish->fresh ? request->only : wish->to && wish->to != wish->node ? wish->to : NULL;
    if (!gpu && wish->to && wish->node->gpu_count == 1)
        gpu = wish->node->gpus[0];
    if (!gpu || request->gpus > 1) {
        place_explain(&cluster->pool, request, verdict, text, CTL_MAX_TEXT);
        return;
    }
    const struct place_gpu *slot = &cluster->pool.gpus[gpu->slot];
    snprintf(text, CTL_MAX_TEXT + 1,
             "GPU %s of node %s does not take %u SMs and %llu MiB: it has %u SMs and %llu MiB, of which %u and %llu MiB"
             " are given to %u servers%s%s%.300s",
             gpu->id, gpu->node->row.name, request->sms, (unsigned long long)(request->memory >> 20), slot->sms,
             (unsigned long long)(slot->memory >> 20), slot->used_sms, (unsigned long long)(slot->used_memory >> 20),
             slot->users, slot->schedulable ? "" : "; it takes no new servers at present",
             *gpu->text && !slot->schedulable ? ": " : "", *gpu->text && !slot->schedulable ? gpu->text : "");
}

/* As many GPUs as the program has now, and none of those. */
static bool has_other_gpus(const struct server *server, const struct server *now)
{
    for (size_t i = 0; now && i < now->gpu_count; i++)
        if (server_has_gpu(server, now->gpus[i]))
            return false;
    return server->gpu_count == (now ? now->gpu_count : 1);
}

/* A server of the VM that its other programs use. The program must not have left it before: its tickets for it are
   revoked. */
static struct server *shared_target(const struct program *program, const struct move_wish *wish)
{
    for (struct server *server = program->vm->servers; server; server = server->vm_next) {
        bool left = false;
        for (int i = 0; i < PROGRAM_LEFT; i++)
            left |= program->left[i] == server->row.id;
        if (!left && server != program->server && !server->row.program && !server->stopping &&
            !server->node->row.drained && server->node->state == ADMIN_NODE_UP &&
            has_other_gpus(server, program->server) &&
            (!wish->to || wish->to == server->gpus[0] || wish->to == server->node))
            return server;
    }
    return NULL;
}

/* One to which another program of the server has moved so. */
static struct server *shared_fresh(struct cluster *cluster, const struct program *program)
{
    for (const struct moved_program *move = cluster->moves; move; move = move->next) {
        struct server *target = map_get_id(&cluster->servers, move->target);
        if (move->fresh && move->source == program->server->row.id && target && target != program->server &&
            !target->row.program && !target->stopping)
            return target;
    }
    return NULL;
}

/* Where the GPU has no room for both servers, both count once, since the software GPU's memory goes along uncopied: if
   the old server ends with the move. */
static bool fresh_in_place(const struct server *source, const struct place_request *request, bool ends,
                           struct place_gang *place)
{
    const struct cluster_gpu *gpu = source->gpus[0];
    place->count = 1;
    place->of[0] = (struct place_result){ gpu->slot, source->row.sharing, request->sms, request->memory };
    return ends && strcmp(gpu->product, PROTOCOL_SOFTWARE_GPU) == 0 && gpu->state == CTL_GPU_READY &&
           !source->twin && request->sms <= source->row.sms && request->memory <= source->row.memory;
}

ctl_code move_choose_target(struct cluster *cluster, struct program *program, const struct move_wish *wish,
                            struct server **out, char *text)
{
    const struct server *source = program->server;
    const void *avoid[CTL_MAX_SERVER_GPUS];
    struct place_request request = server_request(cluster, program);
    struct place_gang place;
    bool alone = source->program_count == 1 && !source->row.program;
    const bool ends = alone || wish->together || source->row.program;
    bool once = false;
    if (wish->together && !source->row.program)
        *out = wish->fresh ? shared_fresh(cluster, program) : shared_target(program, wish);
    else
        *out = NULL;
    if (*out)
        return CTL_OK;
    request.sms = wish->sms ? wish->sms : source->row.sms;
    request.memory = wish->memory ? wish->memory : source->row.memory;
    for (size_t i = 0; i < source->gpu_count; i++)
        avoid[i] = source->gpus[i];
    request.avoid = avoid;
    request.avoid_count = wish->fresh ? 0 : source->gpu_count;
    request.only = wish->fresh ? source->gpus[0] : wish->to;
    request.gpus = (uint32_t)source->gpu_count;
    enum place_verdict verdict = place_choose_gang(&cluster->pool, cluster->values->policy, &request, &place);
    if (verdict != PLACE_FOUND && wish->fresh)
        once = fresh_in_place(source, &request, ends, &place);
    if (verdict != PLACE_FOUND && !once) {
        explain_room(cluster, wish, &request, verdict, text);
        return CTL_NO_ROOM;
    }
    *out = server_place(cluster, program, &place, !source->row.program && (alone || wish->together));
    if (*out && once)
        servers_count_once(cluster, program->server, *out);
    return *out ? CTL_OK
                : (ctl_code)explain(text, CTL_INTERNAL,
                                    "no memory, or the resource DB cannot take more changes at present");
}

/* One that nobody uses any more, whose share is free in a moment. */
static const struct server *ending_server(const struct vm *vm)
{
    const struct server *server = vm->servers;
    while (server && !((server->stopping || server->deserted) && !server->program_count))
        server = server->vm_next;
    return server;
}

ctl_code move_choose_return(struct cluster *cluster, struct program *program, const struct move_wish *wish,
                            struct server **out, char *text)
{
    const struct vm *vm = program->vm;
    struct place_request request = server_request(cluster, program);
    struct place_gang place;
    const bool shared = vm->row.grouping || wish->together;
    request.gpus = 1;
    *out = shared ? shared_target(program, wish) : NULL;
    if (*out && server_is_idle(*out) && ((*out)->row.sms != request.sms || (*out)->row.memory != request.memory)) {
        idle_own_give_way(vm, "what its VM is entitled to has changed");
        *out = NULL;
    }
    if (*out)
        return CTL_OK;
    if (!vm->row.sms || !vm->row.memory_mib)
        return explain(text, CTL_NO_ROOM, "VM %s is entitled to nothing (flytctl vm set %s --sms N --memory SIZE)",
                       vm->row.name, vm->row.name);
    if (!server_within_entitlement(vm, &request))
        idle_own_give_way(vm, "a program of its VM goes on with a server of its own");
    if (!server_within_entitlement(vm, &request) && ending_server(vm))
        return explain(text, CTL_WAITING, "a GPU server of VM %s is ending", vm->row.name);
    if (!server_within_entitlement(vm, &request))
        return entitlement_used(vm, CTL_NO_ROOM, text);
    request.only = wish->to;
    enum place_verdict verdict = place_choose_gang(&cluster->pool, cluster->values->policy, &request, &place);
    if (verdict == PLACE_BUSY && ending_server(vm))
        return explain(text, CTL_WAITING, "a GPU server of VM %s is ending", vm->row.name);
    if (verdict != PLACE_FOUND) {
        explain_room(cluster, wish, &request, verdict, text);
        return CTL_NO_ROOM;
    }
    *out = server_place(cluster, program, &place, shared);
    if (!*out)
        return explain(text, CTL_INTERNAL, "no memory, or the resource DB cannot take more changes at present");
    queue_overtaken(cluster, program, &place);
    return CTL_OK;
}
