/* own_view.c: what a VM's users see of it (CLIENT_STATUS): its entitlement, its GPU servers, its programs, and nothing
 * of any other VM but how many programs are ahead in the queue. */
#include <stdlib.h>

#include "control-managers/cluster-manager/admin_rows.h"
#include "control-managers/cluster-manager/usage.h"

struct own_view {
    program_status_result result;
    ctl_own_server servers[CTL_MAX_OWN_SERVERS];
    ctl_own_program programs[CTL_MAX_PROGRAMS];
    char texts[CTL_MAX_PROGRAMS][CTL_MAX_TEXT + 1];
};

static void fill_server(const struct server *server, ctl_own_server *out)
{
    *out = (ctl_own_server){
        .id = server->row.id,
        .node = (char *)(uintptr_t)server->row.node,
        .gpus = { (u_int)server->gpu_count, (ctl_name *)(uintptr_t)server->gpu_names },
        .product = server->gpu_count ? server->gpus[0]->product : NULL,
        .state = server->stopping ? CTL_SERVER_STOPPING : server->state,
        .sms = server->row.sms,
        .memory = server->row.memory,
        .memory_used = server->memory_used,
        .programs = (u_int)(server->program_count + usage_served_alone(server)),
    };
}

static void fill_program(const struct program *program, char text[CTL_MAX_TEXT + 1], ctl_own_program *out)
{
    *out = (ctl_own_program){
        .id = program->id,
        .pid = program->pid,
        .uid = program->uid,
        .executable = program->executable,
        .state = program->state,
        .position = program->queued ? program->position : 0,
        .server = program->server ? program->server->row.id : 0,
        .since = program->since,
        .transport = program->mode,
        .why = program_waits_for(program, text),
    };
}

/* Of a program that has left the client manager: as administrators see it. */
static void fill_served(const struct served_alone *served, ctl_own_program *out)
{
    admin_program row;
    row_of_served(served, &row);
    *out = (ctl_own_program){ .id = row.id, .uid = row.prog.uid, .executable = row.prog.executable, .state = row.state,
                              .server = row.server, .since = row.since, .why = row.why };
}

void client_handle_status(struct conn *conn, struct loop_call *call, void *object)
{
    struct vm *vm = client_vm_of(conn);
    struct own_view *view = vm ? calloc(1, sizeof *view) : NULL;
    (void)object;
    if (!view) {
        call_refuse(call);
        return;
    }
    program_status_result *result = &view->result;
    *result = (program_status_result){
        .vm = vm->row.name,
        .now = loop_time(),
        .sms = vm->row.sms,
        .memory = (uint64_t)vm->row.memory_mib << 20,
        .gpus = vm->row.gpus ? vm->row.gpus : 1,
        .sharing = vm->row.sharing,
        .grouping = vm->row.grouping,
        .servers = { 0, view->servers },
        .programs = { 0, view->programs },
    };
    for (const struct server *server = vm->servers; server && result->servers.servers_len < CTL_MAX_OWN_SERVERS;
         server = server->vm_next)
        fill_server(server, &view->servers[result->servers.servers_len++]);
    for (const struct program *program = vm->programs; program && result->programs.programs_len < CTL_MAX_PROGRAMS;
         program = program->vm_next) {
        u_int at = result->programs.programs_len++;
        fill_program(program, view->texts[at], &view->programs[at]);
    }
    size_t count;
    struct served_alone *served = usage_list_served(vm->cluster, vm, 0, &count);
    for (size_t i = 0; i < count && result->programs.programs_len < CTL_MAX_PROGRAMS; i++)
        fill_served(&served[i], &view->programs[result->programs.programs_len++]);
    call_reply(call, result);
    free(served);
    free(view);
}
