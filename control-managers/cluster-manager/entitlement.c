/* entitlement.c: what a VM may have, as a request for a place on a GPU. */
#include "control-managers/cluster-manager/cluster.h"

#include <string.h>

bool vm_names_machine(const struct db_vm *row)
{
    return *row->host && strncmp(row->host, "127.", 4) && strcmp(row->host, "::1") && strcmp(row->host, "localhost");
}

/* What one server of such a VM is to have. */
struct place_request server_request_of(struct cluster *cluster, const struct db_vm *vm)
{
    uint32_t parts = vm->grouping ? 1 : (uint32_t)cluster->values->ungrouped_programs;
    struct place_request request = {
        .sms = vm->sms / parts, .memory = (vm->memory_mib << 20) / parts,
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

/* The VM's servers together stay within its entitlement, those that are being stopped included unless nobody used
   them. One to which a program moves does not count before it is there. Those of drained nodes do not count: they go on
   for the programs that they have, and new ones go elsewhere. */
bool server_within_entitlement(const struct vm *vm, const struct place_request *request)
{
    uint64_t sms = request->sms, memory = request->memory;
    for (const struct server *server = vm->servers; server; server = server->vm_next)
        if (!server->unused && !server->node->row.drained && !(server->reserved && !server->program_count)) {
            sms += server->row.sms;
            memory += server->row.memory;
        }
    return sms <= vm->row.sms && memory <= vm->row.memory_mib << 20;
}
