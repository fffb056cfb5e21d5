/* rows.c: the cluster manager's rows as JSON. The keys are an interface: add, never rename. Memory is bytes. */
#include "control-managers/rows/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* ---- texts and times ---- */

/* Texts of peers are cleaned when they are decoded; ours may hold what a user typed or a certificate says. Our own have
   lines. */
json_t *json_text(const char *text)
{
    char *copy = strdup(text ? text : "");
    if (!copy)
        return json_string("");
    for (char *at = copy, *end; *at; at = end + (*end != '\0')) {
        end = at + strcspn(at, "\n");
        char ends = *end;
        *end = '\0';
        protocol_text_clean(at);
        *end = ends;
    }
    json_t *json = json_string(copy);
    free(copy);
    return json;
}

json_t *json_time(int64_t microseconds)
{
    if (microseconds == 0)
        return json_null();
    char text[64], all[96];
    time_t seconds = (time_t)(microseconds / 1000000);
    struct tm parts;
    if (microseconds < 0 || !gmtime_r(&seconds, &parts))
        return json_null();
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(all, sizeof all, "%s.%06dZ", text, (int)(microseconds % 1000000));
    return json_string(all);
}

/* ---- rows ---- */

static json_t *json_u64(uint64_t number)
{
    return json_integer((json_int_t)number);
}

static json_t *sharing_list(unsigned sharing)
{
    static const unsigned bits[] = { CTL_SHARING_EXCLUSIVE, CTL_SHARING_MIG, CTL_SHARING_TIME_SLICE, CTL_SHARING_MPS };
    json_t *list = json_array();
    char text[PROTOCOL_SHARING_SIZE];
    for (size_t i = 0; i < COUNT(bits); i++)
        if (sharing & bits[i])
            json_array_append_new(list, json_string(protocol_sharing_text(bits[i], text)));
    return list;
}

static json_t *host_list(ctl_host *hosts, unsigned count)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < count; i++)
        json_array_append_new(list, json_text(hosts[i]));
    return list;
}

static void add(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

json_t *row_status(const admin_status_result *status)
{
    json_t *row = json_object();
    add(row, "software", json_text(status->software));
    add(row, "cluster", json_text(status->cluster));
    add(row, "started", json_time(status->started));
    add(row, "db", json_text(status->db_kind));
    add(row, "db_up", json_boolean(status->db_up));
    add(row, "db_text", json_text(status->db_text));
    add(row, "policy", json_text(status->policy));
    add(row, "tls", json_boolean(status->tls));
    add(row, "unencrypted", json_u64(status->unencrypted));
    add(row, "nodes", json_u64(status->nodes));
    add(row, "nodes_up", json_u64(status->nodes_up));
    add(row, "gpus", json_u64(status->gpus));
    add(row, "gpus_ready", json_u64(status->gpus_ready));
    add(row, "sms", json_u64(status->sms));
    add(row, "sms_used", json_u64(status->sms_used));
    add(row, "memory", json_u64(status->memory));
    add(row, "memory_used", json_u64(status->memory_used));
    add(row, "vms", json_u64(status->vms));
    add(row, "vms_connected", json_u64(status->vms_connected));
    add(row, "servers", json_u64(status->servers));
    add(row, "programs", json_u64(status->programs));
    add(row, "waiting", json_u64(status->waiting));
    add(row, "last_event", json_u64(status->last_event));
    add(row, "moves_under_way", json_u64(status->moves.under_way));
    add(row, "moves_begun_total", json_u64(status->moves.begun));
    add(row, "moves_moved_total", json_u64(status->moves.moved));
    add(row, "moves_suspended_total", json_u64(status->moves.suspended));
    add(row, "moves_resumed_total", json_u64(status->moves.resumed));
    add(row, "moves_saved_total", json_u64(status->moves.saved));
    add(row, "moves_failed_total", json_u64(status->moves.failed));
    add(row, "moves_cancelled_total", json_u64(status->moves.cancelled));
    add(row, "moves_bytes_total", json_u64(status->moves.bytes));
    add(row, "moves_outage_seconds_total", json_real((double)status->moves.outage_us / 1e6));
    return row;
}

json_t *row_whoami(const admin_whoami_result *caller)
{
    static const char *const ways[] = { "unix socket", "certificate", "secret" };
    json_t *row = json_object();
    add(row, "cluster", json_text(caller->cluster));
    add(row, "name", json_text(caller->name));
    add(row, "role", json_text(protocol_role_name(caller->role)));
    add(row, "may", json_text(caller->role == CTL_ROLE_ADMIN      ? "view, operate and administer the cluster"
                              : caller->role == CTL_ROLE_OPERATOR ? "view and operate the cluster"
                                                                  : "view the cluster"));
    add(row, "known_by", json_text((unsigned)caller->known < COUNT(ways) ? ways[caller->known] : "unknown"));
    add(row, "encrypted", json_boolean(caller->encrypted));
    return row;
}

static json_t *row_gpu(const admin_gpu *gpu)
{
    static const char *const states[] = { "ready", "faulty", "recovering", "degraded" };
    json_t *row = json_object();
    add(row, "id", json_text(gpu->gpu.id));
    add(row, "product", json_text(gpu->gpu.product));
    add(row, "index", json_u64(gpu->gpu.index));
    add(row, "state", json_text((unsigned)gpu->gpu.state < COUNT(states) ? states[gpu->gpu.state] : "unknown"));
    add(row, "text", json_text(gpu->gpu.text));
    add(row, "sms", json_u64(gpu->gpu.sms));
    add(row, "sms_used", json_u64(gpu->used_sms));
    add(row, "memory", json_u64(gpu->gpu.memory));
    add(row, "memory_used", json_u64(gpu->used_memory));
    add(row, "clock_mhz", json_u64(gpu->gpu.clock_mhz));
    add(row, "sharing", sharing_list(gpu->gpu.sharing));
    add(row, "sm_limits", json_boolean(gpu->gpu.sm_limits));
    add(row, "servers", json_u64(gpu->servers));
    return row;
}

json_t *row_node(const admin_node *node)
{
    static const char *const states[] = { "up", "suspect", "lost", "away" };
    uint64_t sms = 0, sms_used = 0, memory = 0, memory_used = 0;
    json_t *row = json_object(), *gpus = json_array();
    for (unsigned i = 0; i < node->gpus.gpus_len; i++) {
        const admin_gpu *gpu = &node->gpus.gpus_val[i];
        sms += gpu->gpu.sms;
        sms_used += gpu->used_sms;
        memory += gpu->gpu.memory;
        memory_used += gpu->used_memory;
        json_array_append_new(gpus, row_gpu(gpu));
    }
    add(row, "name", json_text(node->name));
    add(row, "host", json_text(node->host));
    add(row, "addresses", host_list(node->addresses.addresses_val, node->addresses.addresses_len));
    add(row, "state", json_text((unsigned)node->state < COUNT(states) ? states[node->state] : "unknown"));
    add(row, "drained", json_boolean(node->drained));
    add(row, "last_heard", json_time(node->last_heard));
    add(row, "software", json_text(node->software));
    add(row, "sms", json_u64(sms));
    add(row, "sms_used", json_u64(sms_used));
    add(row, "memory", json_u64(memory));
    add(row, "memory_used", json_u64(memory_used));
    add(row, "servers", json_u64(node->servers));
    add(row, "encrypted", json_boolean(node->encrypted));
    add(row, "has_secret", json_boolean(node->has_secret));
    add(row, "drain_reason", json_text(node->drain_reason));
    add(row, "gpus", gpus);
    add(row, "gpu_count", json_u64(node->gpus.gpus_len));
    return row;
}

json_t *row_server(const admin_server *server)
{
    char text[PROTOCOL_SHARING_SIZE];
    json_t *row = json_object(), *addresses = json_array(), *transports = json_array();
    const unsigned gpus = server->gpus.gpus_len;
    for (unsigned i = 0; i < server->report.addresses.addresses_len; i++) {
        const char *uri = server->report.addresses.addresses_val[i];
        json_array_append_new(addresses, json_text(uri));
        json_array_append_new(transports, json_stringn(uri, strcspn(uri, ":")));
    }
    add(row, "id", json_u64(server->id));
    add(row, "vm", json_text(server->vm));
    add(row, "node", json_text(server->node));
    add(row, "gpu", json_text(gpus ? server->gpus.gpus_val[0] : ""));
    add(row, "state", json_text(protocol_server_state_name(server->report.state)));
    add(row, "silent", json_boolean(server->silent));
    add(row, "sharing", json_text(protocol_sharing_text(server->sharing, text)));
    add(row, "sms", json_u64(server->sms));
    add(row, "sms_granted", json_u64(server->report.granted_sms));
    add(row, "memory", json_u64(server->memory));
    add(row, "memory_limit", json_u64(server->report.memory_limit));
    add(row, "memory_used", json_u64(server->report.memory_used));
    add(row, "program", json_u64(server->prog));
    add(row, "programs", json_u64(server->programs));
    add(row, "workers", json_u64(server->report.workers));
    add(row, "pid", json_u64(server->report.pid));
    add(row, "restarts", json_u64(server->report.restarts));
    add(row, "created", json_time(server->created));
    add(row, "addresses", addresses);
    add(row, "transports", transports);
    add(row, "text", json_text(server->report.status.text));
    add(row, "gpus", host_list(server->gpus.gpus_val, gpus));
    add(row, "gpu_count", json_u64(gpus));
    add(row, "memory_total", json_u64(server->memory * gpus));
    return row;
}

json_t *row_vm(const admin_vm *vm)
{
    static const char *const waits[] = { "default", "fail", "in-line" };
    json_t *row = json_object();
    add(row, "name", json_text(vm->name));
    add(row, "address", json_text(vm->address));
    add(row, "host", json_text(vm->host));
    add(row, "sms", json_u64(vm->sms));
    add(row, "memory", json_u64(vm->memory));
    add(row, "sharing", sharing_list(vm->sharing));
    add(row, "grouping", json_boolean(vm->grouping));
    add(row, "wait", json_text((unsigned)vm->wait < COUNT(waits) ? waits[vm->wait] : "unknown"));
    add(row, "gpus", json_u64(vm->gpus));
    add(row, "spread", json_boolean(vm->spread));
    add(row, "recovery", json_text(vm->recovery));
    return row;
}

json_t *row_vm_state(const admin_vm_row *state)
{
    json_t *row = row_vm(&state->vm);
    add(row, "has_secret", json_boolean(state->has_secret));
    add(row, "connected", json_boolean(state->connected));
    add(row, "encrypted", json_boolean(state->encrypted));
    add(row, "last_heard", json_time(state->last_heard));
    add(row, "servers", json_u64(state->servers));
    add(row, "programs", json_u64(state->programs));
    add(row, "waiting", json_u64(state->waiting));
    return row;
}

json_t *row_program(const admin_program *program)
{
    static const char *const states[] = { "waiting", "starting", "running", "lost", "suspended" };
    static const char *const recoveries[] = { "off", "protected", "unprotected", "recovered", "failed" };
    json_t *row = json_object();
    add(row, "id", json_u64(program->id));
    add(row, "vm", json_text(program->vm));
    add(row, "pid", json_u64(program->prog.pid));
    add(row, "uid", json_u64(program->prog.uid));
    add(row, "executable", json_text(program->prog.executable));
    add(row, "state", json_text((unsigned)program->state < COUNT(states) ? states[program->state] : "unknown"));
    add(row, "position", json_u64(program->position));
    add(row, "server", json_u64(program->server));
    add(row, "since", json_time(program->since));
    add(row, "transport", json_text(program->transport.mode));
    add(row, "transport_why", json_text(program->transport.why));
    add(row, "gpus", json_u64(program->gpus));
    add(row, "why", json_text(program->why));
    add(row, "recovery",
        json_text((unsigned)program->recovery < COUNT(recoveries) ? recoveries[program->recovery] : "unknown"));
    add(row, "recovery_why", json_text(program->recovery_why));
    return row;
}

json_t *row_event(const admin_event *event)
{
    static const char *const severities[] = { "info", "warning", "error" };
    json_t *row = json_object();
    add(row, "number", json_u64(event->number));
    add(row, "time", json_time(event->time));
    add(row, "severity",
        json_text((unsigned)event->severity < COUNT(severities) ? severities[event->severity] : "unknown"));
    add(row, "kind", json_text(event->kind));
    add(row, "vm", json_text(event->vm));
    add(row, "node", json_text(event->node));
    add(row, "server", json_u64(event->server));
    add(row, "program", json_u64(event->prog));
    add(row, "text", json_text(event->text));
    return row;
}

const char *row_move_phase(const admin_move_row *move)
{
    static const char *const phases[] = { "", "preparing", "resting", "copying", "switching", "waiting" };
    const unsigned phase = move->progress.phase;
    return move->state >= ADMIN_MOVE_DONE || phase >= COUNT(phases) ? "" : phases[phase];
}

json_t *row_move(const admin_move_row *move)
{
    static const char *const states[] = { "reserved", "ordered", "moving", "done", "failed" };
    const char *state = (unsigned)move->state < COUNT(states) ? states[move->state] : "unknown";
    bool cancelled = move->state == ADMIN_MOVE_FAILED && move->cancelled && move->status.code == CTL_DENIED;
    static const char *const actions[] = { "move", "suspend", "resume", "checkpoint" };
    const char *action = (unsigned)move->action < COUNT(actions) ? actions[move->action] : "unknown";
    json_t *row = json_pack(
        "{s:s, s:I, s:I, s:o, s:o, s:s, s:b, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:I, s:s, s:o,"
        " s:o}",
        "action", action, "id", (json_int_t)move->id, "program", (json_int_t)move->prog, "vm", json_text(move->vm),
        "executable", json_text(move->executable), "state", cancelled ? "cancelled" : state, "cancelled",
        (int)move->cancelled, "source", (json_int_t)move->source, "target", (json_int_t)move->target, "from_node",
        json_text(move->from_node), "from_gpu", json_text(move->from_gpu), "to_node", json_text(move->to_node),
        "to_gpu", json_text(move->to_gpu), "begun", json_time(move->begun), "ended", json_time(move->ended),
        "outage_ms", (double)move->outage_us / 1000, "bytes", (json_int_t)move->bytes, "code",
        protocol_code_name(move->status.code), "why", json_text(move->status.text), "by", json_text(move->by));
    add(row, "phase", json_text(row_move_phase(move)));
    add(row, "bytes_done", json_u64(move->progress.done));
    add(row, "bytes_total", json_u64(move->progress.total));
    add(row, "rate", json_u64(move->progress.rate));
    add(row, "bandwidth", json_u64(move->bandwidth));
    add(row, "downtime_ms", json_u64(move->downtime_ms));
    return row;
}
