/* state.c: making and unmaking VMs, nodes, GPUs, servers and programs, so that lists, maps and books always agree. */
#include "control-managers/cluster-manager/usage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/log.h"

/* ---- VMs ---- */

struct vm *vm_create(struct cluster *cluster, const struct db_vm *row)
{
    struct vm *vm = calloc(1, sizeof *vm);
    if (!vm || !map_put(&cluster->vms, row->name, vm)) {
        free(vm);
        return NULL;
    }
    follow_add(&cluster->follow, &vm->followed, ADMIN_NEWS_VM);
    vm->cluster = cluster;
    cluster->vms_digest = 0;
    cluster->vm_changes++;
    vm->row = *row;
    if (*row->address)
        map_put(&cluster->vm_addresses, row->address, vm);
    return vm;
}

void vm_rename_address(struct cluster *cluster, struct vm *vm, const struct db_vm *row)
{
    if (strcmp(vm->row.address, row->address)) {
        if (map_get(&cluster->vm_addresses, vm->row.address) == vm)
            map_remove(&cluster->vm_addresses, vm->row.address);
        if (*row->address)
            map_put(&cluster->vm_addresses, row->address, vm);
    }
    cluster->vms_digest = 0;
    cluster->vm_changes++;
    vm->row = *row;
}

struct vm *vm_find(struct cluster *cluster, const char *name)
{
    struct vm *vm = map_get(&cluster->vms, name);
    return vm ? vm : map_get(&cluster->vm_addresses, name);
}

/* Its part of cluster->vms_awaited. */
static size_t awaited(const struct vm *vm) { return vm->servers && !vm->came; }

bool vm_came(struct cluster *cluster, struct vm *vm)
{
    const size_t waited = awaited(vm);
    vm->came = true;
    cluster->vms_awaited -= waited;
    return waited && cluster->vms_awaited == 0;
}

void vm_destroy(struct cluster *cluster, struct vm *vm)
{
    if (vm_came(cluster, vm)) /* nobody waits for it any more */
        programs_gather(cluster);
    cluster->vms_digest = 0;
    cluster->vm_changes++;
    while (vm->programs)
        program_destroy(cluster, vm->programs);
    while (vm->servers) {                       /* they go on until they are stopped, without an entitlement */
        struct server *server = vm->servers;
        vm->servers = server->vm_next;
        server->vm = NULL;
        server->vm_back = NULL;
    }
    if (vm->session) {
        struct cluster_session *session = vm->session;
        vm->session = NULL;
        session->vm = NULL;
        conn_close(session->conn, "this VM was removed");
    }
    values_end(vm);
    loop_timer_stop(&vm->silence);
    outbox_clear(&vm->events);
    map_free(&vm->by_key);
    follow_remove(&cluster->follow, &vm->followed, 0, vm->row.name);
    map_remove(&cluster->vms, vm->row.name);
    if (map_get(&cluster->vm_addresses, vm->row.address) == vm)
        map_remove(&cluster->vm_addresses, vm->row.address);
    free(vm);
}

/* ---- nodes and GPUs ---- */

struct node *node_create(struct cluster *cluster, const char *name)
{
    struct node *node = calloc(1, sizeof *node);
    if (!node || !map_put(&cluster->nodes, name, node)) {
        free(node);
        return NULL;
    }
    snprintf(node->row.name, sizeof node->row.name, "%s", name);
    follow_add(&cluster->follow, &node->followed, ADMIN_NEWS_NODE);
    node->state = ADMIN_NODE_AWAY;
    node->heard = loop_now(cluster->loop);
    return node;
}

static void gpu_destroy(struct cluster *cluster, struct cluster_gpu *gpu)
{
    place_remove(&cluster->pool, gpu->slot);
    map_remove(&cluster->gpus, gpu->id);
    free(gpu);
}

/* Only without servers. */
void node_destroy(struct cluster *cluster, struct node *node)
{
    if (node->session) {
        struct cluster_session *session = node->session;
        node->session = NULL;
        session->node = NULL;
        conn_close(session->conn, "this node was removed");
    }
    for (size_t i = 0; i < node->gpu_count; i++)
        gpu_destroy(cluster, node->gpus[i]);
    for (size_t i = 0; i < node->address_count; i++)
        if (map_get(&cluster->node_addresses, node->addresses[i]) == node)
            map_remove(&cluster->node_addresses, node->addresses[i]);
    outbox_clear(&node->orders);
    follow_remove(&cluster->follow, &node->followed, 0, node->row.name);
    map_remove(&cluster->nodes, node->row.name);
    free(node);
}

struct cluster_gpu *gpu_get(struct cluster *cluster, struct node *node, const char *id)
{
    struct cluster_gpu *gpu = map_get(&cluster->gpus, id);
    if (gpu)
        return gpu;
    if (node->gpu_count == CTL_MAX_GPUS || !(gpu = calloc(1, sizeof *gpu)))
        return NULL;
    gpu->slot = place_add(&cluster->pool, gpu, node, node->machine);
    if (gpu->slot == (size_t)-1 || !map_put(&cluster->gpus, id, gpu)) {
        if (gpu->slot != (size_t)-1)
            place_remove(&cluster->pool, gpu->slot);
        free(gpu);
        return NULL;
    }
    gpu->node = node;
    snprintf(gpu->id, sizeof gpu->id, "%s", id);
    node->gpus[node->gpu_count++] = gpu;
    return gpu;
}

void node_expect_gpus(struct cluster *cluster, struct node *node)
{
    char names[DB_NODE_GPUS_SIZE], *rest = names, *name;
    snprintf(names, sizeof names, "%s", node->row.gpus);
    while ((name = strsep(&rest, ",")))
        if (protocol_name_valid(name) && !gpu_get(cluster, node, name))
            log_error("event=gpu-forgotten node=%s gpu=%s: no memory, or too many GPUs", node->row.name, name);
}

void node_keep_gpus(struct node *node)
{
    size_t used = 0, room = sizeof node->row.gpus;
    node->row.gpus[0] = '\0';
    for (size_t i = 0; i < node->gpu_count && used < room; i++)
        if (node->gpus[i]->known)
            used += (size_t)snprintf(node->row.gpus + used, room - used, "%s%s", used ? "," : "", node->gpus[i]->id);
}

bool gpu_may_be_tried(struct cluster *cluster, const struct cluster_gpu *gpu)
{
    return !gpu->degraded || loop_now(cluster->loop) >= gpu->try_again;
}

bool server_is_beyond_node(const struct server *server)
{
    return server->gpu_count > 1 && server->node->session && !server->node->gangs;
}

void node_set_schedulable(struct cluster *cluster, struct node *node)
{
    if (node->session)
        node->gangs = node->session->hello.minor >= NODE_MINOR_GANGS;
    for (size_t i = 0; i < node->gpu_count; i++) {
        struct cluster_gpu *gpu = node->gpus[i];
        struct place_gpu *slot = &cluster->pool.gpus[gpu->slot];
        slot->sms = gpu->sms;
        slot->memory = gpu->memory;
        slot->offered = (uint8_t)gpu->offered;
        slot->sm_limits = gpu->sm_limits;
        slot->tls = node->tls;
        slot->gangs = node->gangs;
        slot->schedulable = node->state == ADMIN_NODE_UP && node->registered && !node->row.drained && gpu->known &&
                            gpu->state == CTL_GPU_READY && gpu_may_be_tried(cluster, gpu);
    }
}

/* ---- servers ---- */

bool server_has_gpu(const struct server *server, const struct cluster_gpu *gpu)
{
    for (size_t i = 0; i < server->gpu_count; i++)
        if (server->gpus[i] == gpu)
            return true;
    return false;
}

/* The GPUs that the row names. False: too many, one twice, or no memory. */
static bool find_gpus(struct cluster *cluster, struct server *server)
{
    char names[DB_GPUS_SIZE], *rest = names, *name;
    snprintf(names, sizeof names, "%s", server->row.gpus);
    while ((name = strsep(&rest, ","))) {
        struct cluster_gpu *gpu = server->gpu_count < CTL_MAX_SERVER_GPUS ? gpu_get(cluster, server->node, name) : NULL;
        if (!gpu || server_has_gpu(server, gpu))
            return false;
        server->gpu_names[server->gpu_count] = gpu->id;
        server->gpus[server->gpu_count++] = gpu;
    }
    return true;
}

struct server *server_create(struct cluster *cluster, const struct db_server *row)
{
    struct node *node = map_get(&cluster->nodes, row->node);
    struct server *server = node ? calloc(1, sizeof *server) : NULL;
    if (!server)
        return NULL;
    server->cluster = cluster;
    server->row = *row;
    server->state = CTL_SERVER_STARTING;
    server->node = node;
    if (!find_gpus(cluster, server) || !map_put_id(&cluster->servers, row->id, server)) {
        free(server);
        return NULL;
    }
    follow_add(&cluster->follow, &server->followed, ADMIN_NEWS_SERVER);
    server->node_next = node->servers;
    server->node_back = &node->servers;
    if (server->node_next)
        server->node_next->node_back = &server->node_next;
    node->servers = server;
    node->server_count++;
    server->vm = map_get(&cluster->vms, row->vm);
    if (server->vm) {
        cluster->vms_awaited += !server->vm->servers && !server->vm->came;
        server->vm_next = server->vm->servers;
        server->vm_back = &server->vm->servers;
        if (server->vm_next)
            server->vm_next->vm_back = &server->vm_next;
        server->vm->servers = server;
        server->vm->server_count++;
    }
    for (size_t i = 0; i < server->gpu_count; i++)
        place_take(&cluster->pool, server->gpus[i]->slot, row->sharing, row->sms, row->memory);
    return server;
}

void servers_count_once(struct cluster *cluster, struct server *a, struct server *b)
{
    const uint32_t sms = a->row.sms < b->row.sms ? a->row.sms : b->row.sms;
    const uint64_t memory = a->row.memory < b->row.memory ? a->row.memory : b->row.memory;
    if (a->twin || b->twin || a->gpu_count != b->gpu_count || memcmp(a->gpus, b->gpus, sizeof a->gpus) != 0)
        return;
    struct server *const both[] = { a, b };
    for (int i = 0; i < 2; i++) {
        both[i]->twin = both[1 - i];
        both[i]->twin_sms = sms;
        both[i]->twin_memory = memory;
    }
    for (size_t i = 0; i < a->gpu_count; i++)
        place_rebook(&cluster->pool, a->gpus[i]->slot, sms, memory, 0, 0);
}

static void count_both(struct cluster *cluster, struct server *server)
{
    if (!server->twin)
        return;
    for (size_t i = 0; i < server->gpu_count; i++)
        place_rebook(&cluster->pool, server->gpus[i]->slot, 0, 0, server->twin_sms, server->twin_memory);
    server->twin->twin = NULL;
    server->twin = NULL;
}

void server_destroy(struct cluster *cluster, struct server *server)
{
    count_both(cluster, server);
    while (server->programs)
        program_attach(server->programs, NULL);
    usage_server_gone(cluster, server);
    outbox_forget(&server->node->orders, NODE_ORDER_START, server->row.id);
    for (size_t i = 0; i < server->gpu_count; i++)
        place_give_back(&cluster->pool, server->gpus[i]->slot, server->row.sms, server->row.memory);
    *server->node_back = server->node_next;
    if (server->node_next)
        server->node_next->node_back = server->node_back;
    server->node->server_count--;
    if (server->vm) {
        cluster->vms_awaited -= awaited(server->vm);
        *server->vm_back = server->vm_next;
        if (server->vm_next)
            server->vm_next->vm_back = server->vm_back;
        server->vm->server_count--;
        cluster->vms_awaited += awaited(server->vm);
    }
    loop_timer_stop(&server->timer);
    map_free(&server->counted.by_program);
    follow_remove(&cluster->follow, &server->followed, server->row.id, NULL);
    map_remove_id(&cluster->servers, server->row.id);
    free(server);
}

/* ---- programs ---- */

struct program *program_create(struct cluster *cluster, struct vm *vm, const ctl_program *what, uint64_t id)
{
    struct program *program = calloc(1, sizeof *program);
    if (!program)
        return NULL;
    program->id = id ? id : cluster_new_id(cluster);
    program->executable = strdup(what->executable);
    if (!program->executable || !map_put_id(&cluster->programs, program->id, program)) {
        free(program->executable);
        free(program);
        return NULL;
    }
    if (!map_put_id(&vm->by_key, what->key, program)) {
        map_remove_id(&cluster->programs, program->id);
        free(program->executable);
        free(program);
        return NULL;
    }
    follow_add(&cluster->follow, &program->followed, ADMIN_NEWS_PROGRAM);
    program->cluster = cluster;
    program->key = what->key;
    program->pid = what->pid;
    program->uid = what->uid;
    program->vm = vm;
    program->since = program->asked = loop_time();
    program->vm_next = vm->programs;
    program->vm_back = &vm->programs;
    if (program->vm_next)
        program->vm_next->vm_back = &program->vm_next;
    vm->programs = program;
    vm->program_count++;
    return program;
}

void program_destroy(struct cluster *cluster, struct program *program)
{
    struct vm *vm = program->vm;
    program_leave_queue(cluster, program);
    program_attach(program, NULL);
    for (size_t i = 0; i < program->more_count; i++)
        if (program->more[i])
            program->more[i]->awaited--;
    loop_timer_stop(&program->patience);
    loop_timer_stop(&program->end);
    *program->vm_back = program->vm_next;
    if (program->vm_next)
        program->vm_next->vm_back = program->vm_back;
    vm->program_count--;
    map_remove_id(&vm->by_key, program->key);
    follow_remove(&cluster->follow, &program->followed, program->id, NULL);
    map_remove_id(&cluster->programs, program->id);
    free(program->executable);
    free(program->mode);
    free(program->mode_why);
    free(program);
}

void program_detach(struct program *program, const char *word, const char *why)
{
    char text[DB_HOST_SIZE];
    snprintf(text, sizeof text, "%s: %.220s", word, why);
    program->leaving = text;
    program_attach(program, NULL);
    program->leaving = NULL;
}

void program_attach(struct program *program, struct server *server)
{
    if (program->server) {
        usage_accrue(program->cluster, program->server);
        usage_detached(program->cluster, program,
                       program->leaving ? program->leaving : "left: it left this GPU server");
        *program->server_back = program->server_next;
        if (program->server_next)
            program->server_next->server_back = program->server_back;
        program->server->program_count--;
    }
    program->server = server;
    if (!server)
        return;
    server->deserted = false;
    program->server_next = server->programs;
    program->server_back = &server->programs;
    if (program->server_next)
        program->server_next->server_back = &program->server_next;
    usage_accrue(program->cluster, server);
    server->programs = program;
    server->program_count++;
    usage_attached(program->cluster, program);
}
