/* entitlement.c: what a VM may have, as a request for a place on a GPU. */
#include "control-managers/cluster-manager/cluster.h"

#include <string.h>

#include "cpu/common/explain.h"

bool vm_names_machine(const struct db_vm *row)
{
    return *row->host && strncmp(row->host, "127.", 4) && strcmp(row->host, "::1") && strcmp(row->host, "localhost");
}

/* What one server of such a VM is to have. */
struct place_request server_request_of(struct cluster *cluster, const struct db_vm *vm)
{
    uint32_t parts = vm->grouping ? 1 : (uint32_t)cluster->values->ungrouped_programs;
    struct place_request request = {
        .sms = vm->sms / parts, .memory = (vm->memory_mib << 20) / parts, .gpus = vm->gpus ? vm->gpus : 1,
        .spread = vm->spread,
        .accepted = vm->sharing ? vm->sharing : cluster->values->sharing,
    };
    if (!request.sms)
        request.sms = 1;
    if (vm_names_machine(vm)) {
        request.preferred = map_get(&cluster->node_addresses, vm->host);
        if (!request.preferred)
            request.preferred = map_get(&cluster->nodes, vm->host);
    }
    return request;
}

struct place_request server_request(struct cluster *cluster, const struct program *program)
{
    struct place_request request = server_request_of(cluster, &program->vm->row);
    request.asker = program;
    request.avoid = program->avoid;
    request.avoid_count = program->avoid_count;
    request.tls = program->vm->session && conn_encrypted(program->vm->session->conn);
    request.machine = vm_names_machine(&program->vm->row) ? NULL : program->vm->machine;
    return request;
}

/* The VM's servers together, all their GPUs, stay within its entitlement, those that are being stopped included unless
   nobody used them. One to which a program moves does not count before it is there. Those of drained nodes do not
   count: they go on for the programs that they have, and new ones go elsewhere. */
bool server_within_entitlement(const struct vm *vm, const struct place_request *request)
{
    const uint64_t gpus = vm->row.gpus ? vm->row.gpus : 1;
    uint64_t sms = (uint64_t)request->sms * request->gpus, memory = request->memory * request->gpus;
    for (const struct server *server = vm->servers; server; server = server->vm_next)
        if (!server->unused && !server->node->row.drained && !(server->reserved && !server->program_count)) {
            sms += server->row.sms * server->gpu_count;
            memory += server->row.memory * server->gpu_count;
        }
    return sms <= vm->row.sms * gpus && memory <= (vm->row.memory_mib << 20) * gpus;
}

ctl_code entitlement_used(const struct vm *vm, ctl_code code, char *text)
{
    const struct db_vm *row = &vm->row;
    unsigned long long mib = row->memory_mib;
    return row->gpus > 1
               ? explain(text, code,
                         "the servers of VM %s use all that it is entitled to (%u GPUs with %u SMs and %llu MiB each)",
                         row->name, row->gpus, row->sms, mib)
               : explain(text, code, "the servers of VM %s use all that it is entitled to (%u SMs, %llu MiB)",
                         row->name, row->sms, mib);
}
