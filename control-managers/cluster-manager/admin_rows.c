/* admin_rows.c: see admin_rows.h. */
#include "control-managers/cluster-manager/admin_rows.h"
#include "control-managers/cluster-manager/usage.h"

void row_of_node(struct cluster *cluster, struct node *node, admin_node *out, struct node_buffers *buffers)
{
    for (size_t i = 0; i < node->address_count; i++)
        buffers->addresses[i] = node->addresses[i];
    for (size_t i = 0; i < node->gpu_count; i++) {
        struct cluster_gpu *gpu = node->gpus[i];
        const struct place_gpu *slot = &cluster->pool.gpus[gpu->slot];
        buffers->gpus[i] = (admin_gpu){
            .gpu = { .id = gpu->id,
                     .product = gpu->product,
                     .index = gpu->index,
                     .sms = gpu->sms,
                     .clock_mhz = gpu->clock_mhz,
                     .memory = gpu->memory,
                     .sharing = gpu->offered,
                     .sm_limits = gpu->sm_limits,
                     .state = gpu->state == CTL_GPU_READY && gpu->degraded ? CTL_GPU_DEGRADED : gpu->state,
                     .text = gpu->degraded ? gpu->degraded_why : gpu->text },
            .used_sms = slot->used_sms,
            .used_memory = slot->used_memory,
            .servers = slot->users,
        };
    }
    bool spoken = node->session && node->registered;
    *out = (admin_node){
        .name = node->row.name,
        .host = node->row.host,
        .addresses = { (u_int)node->address_count, buffers->addresses },
        .state = node->state,
        .drained = node->row.drained,
        .last_heard =
            spoken ? loop_time() - (int64_t)(loop_now(cluster->loop) - node->heard) * 1000 : node->row.last_heard,
        .software = node->software,
        .gpus = { (u_int)node->gpu_count, buffers->gpus },
        .servers = (u_int)node->server_count,
        .encrypted = node->session && conn_encrypted(node->session->conn),
        .has_secret = node->row.has_stored,
        .drain_reason = node->row.drain_reason,
    };
}

void row_of_server(struct server *server, admin_server *out, struct server_addresses *addresses)
{
    for (size_t i = 0; i < server->address_count; i++)
        addresses->uris[i] = server->addresses[i];
    *out = (admin_server){
        .id = server->row.id,
        .vm = server->row.vm,
        .node = server->row.node,
        .gpus = { (u_int)server->gpu_count, server->gpu_names },
        .sharing = server->row.sharing,
        .sms = server->row.sms,
        .memory = server->row.memory,
        .prog = server->row.program,
        .created = server->row.created,
        .programs = (u_int)(server->program_count + usage_served_alone(server)),
        .silent = !server->node->registered,
        .report = { .id = server->row.id,
                    .state = server->stopping ? CTL_SERVER_STOPPING : server->state,
                    .addresses = { (u_int)server->address_count, addresses->uris },
                    .granted_sms = server->granted_sms,
                    .memory_limit = server->memory_limit,
                    .memory_used = server->memory_used,
                    .workers = server->workers,
                    .pid = server->pid,
                    .restarts = server->restarts,
                    .status = { server->code, server->text } },
    };
}

void row_of_entitlement(struct vm *vm, admin_vm *out)
{
    *out = (admin_vm){ .name = vm->row.name,
                       .address = vm->row.address,
                       .host = vm->row.host,
                       .sms = vm->row.sms,
                       .memory = vm->row.memory_mib << 20,
                       .sharing = vm->row.sharing,
                       .grouping = vm->row.grouping,
                       .wait = (admin_wait)vm->row.wait,
                       .gpus = vm->row.gpus,
                       .spread = vm->row.spread,
                       .recovery = *vm->row.recovery ? vm->row.recovery : (char *)"off" };
}

void row_of_vm(struct vm *vm, admin_vm_row *out)
{
    *out = (admin_vm_row){
        .has_secret = vm->row.has_stored,
        .connected = vm->session != NULL,
        .encrypted = vm->session && conn_encrypted(vm->session->conn),
        .last_heard = vm->last_heard,
        .servers = (u_int)vm->server_count,
        .programs = (u_int)vm->program_count,
        .waiting = (u_int)vm->waiting,
    };
    row_of_entitlement(vm, &out->vm);
}

void row_of_served(const struct served_alone *served, admin_program *out)
{
    static char empty[1];
    *out = (admin_program){
        .id = served->row->program,
        .vm = served->row->vm,
        .prog = { .uid = served->row->uid, .executable = served->row->executable },
        .state = ADMIN_PROGRAM_RUNNING,
        .server = served->server->row.id,
        .since = served->row->begun,
        .gpus = (u_int)served->server->gpu_count,
        .transport = { empty, empty },
        .why = (char *)(uintptr_t)"it has left its client manager, and its GPU server serves it all the same",
        .recovery_why = empty,
    };
}

void row_of_program(struct program *program, admin_program *out, char why[CTL_MAX_TEXT + 1])
{
    static char empty[1];
    *out = (admin_program){
        .id = program->id,
        .vm = program->vm->row.name,
        .prog = { .key = program->key, .pid = program->pid, .uid = program->uid, .executable = program->executable },
        .state = program->state,
        .position = program->queued ? program->position : 0,
        .server = program->server ? program->server->row.id : 0,
        .since = program->since,
        .gpus = program->server ? (u_int)program->server->gpu_count : 0,
        .transport = { program->mode ? program->mode : empty, program->mode_why ? program->mode_why : empty },
        .why = program_waits_for(program, why),
        .recovery = program->recovery,
        .recovery_why = program->recovery_why,
    };
}
