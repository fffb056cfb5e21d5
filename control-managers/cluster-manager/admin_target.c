/* admin_target.c: what a call of an administrator is about, for the audit trail. */
#include "control-managers/cluster-manager/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void of_vm(struct call_target *target, const char *vm) { snprintf(target->vm, sizeof target->vm, "%s", vm); }
static void of_node(struct call_target *target, const char *node)
{
    snprintf(target->node, sizeof target->node, "%s", node);
}

enum { WITH_SIZE = 160 };

static void act(struct call_target *target, const char *word, const char *with)
{
    snprintf(target->action, sizeof target->action, "%s%s%s", word, *with ? ": " : "", with);
}

/* Shares are of each GPU. */
static const char *share(u_int sms, u_quad_t memory, char with[WITH_SIZE])
{
    snprintf(with, WITH_SIZE, "%u SMs, %llu MiB", sms, (unsigned long long)(memory >> 20));
    return with;
}

static void of_move(struct call_target *target, const admin_move_args *args)
{
    static const char *const words[] = { "move", "suspend", "resume", "checkpoint" };
    of_vm(target, args->vm);
    target->program = args->prog;
    act(target, args->action <= ADMIN_ACTION_CHECKPOINT ? words[args->action] : "?", args->to);
}

static void of_node_action(struct call_target *target, const admin_node_args *args)
{
    static const char *const words[] = { "?", "drain", "undrain", "remove" };
    of_node(target, args->name);
    act(target, args->action <= ADMIN_NODE_REMOVE ? words[args->action] : "?", "");
}

static void of_share(struct call_target *target, const char *vm, u_quad_t client, admin_change_kind kind, u_int sms,
                     u_quad_t memory)
{
    static const char *const words[] = { "set", "increase", "decrease" };
    char with[WITH_SIZE];
    of_vm(target, vm);
    target->program = client;
    act(target, kind <= ADMIN_CHANGE_DECREASE ? words[kind] : "?", share(sms, memory, with));
}

/* The members that `set` names. */
static void of_entitlement(struct call_target *target, const admin_vm *vm, unsigned set)
{
    char with[WITH_SIZE] = "", sharing[PROTOCOL_SHARING_SIZE];
    size_t at = 0;
    of_vm(target, vm->name);
#define PART(bit, ...)                                                    \
    if (set & (bit) && at < sizeof with)                                  \
    at += (size_t)snprintf(with + at, sizeof with - at, __VA_ARGS__)
    PART(ADMIN_VM_SET_SMS, "%u SMs ", vm->sms);
    PART(ADMIN_VM_SET_MEMORY, "%llu MiB ", (unsigned long long)(vm->memory >> 20));
    PART(ADMIN_VM_SET_GPUS, "%u GPUs ", vm->gpus);
    PART(ADMIN_VM_SET_SHARING, "sharing %s ", protocol_sharing_text(vm->sharing, sharing));
    PART(ADMIN_VM_SET_GROUPING, "grouping %s ", vm->grouping ? "on" : "off");
    PART(ADMIN_VM_SET_SECRET, "%s", "a new secret ");
#undef PART
    at = strlen(with);
    if (at && with[at - 1] == ' ')
        with[at - 1] = '\0';
    act(target, "entitlement", with);
}

static void of_set(struct call_target *target, const admin_vm_set_args *args)
{
    of_entitlement(target, &args->vm, args->set);
}

static void of_change(struct call_target *target, const admin_change_args *args)
{
    of_share(target, args->vm, args->client, args->kind, args->sms, args->memory);
}

static void of_resize(struct call_target *target, const admin_resize_args *args)
{
    of_share(target, args->vm, args->client, args->kind, args->sms, args->memory);
}

static void of_grouping(struct call_target *target, const admin_grouping_args *args)
{
    of_vm(target, args->vm);
    act(target, args->enable ? "grouping on" : "grouping off", "");
}

bool admin_target(uint32_t procedure, const void *args, struct call_target *target)
{
    *target = (struct call_target){ .server = 0 };
    switch (procedure) {
    case ADMIN_NODE:         of_node_action(target, args); break;
    case ADMIN_NODE_ADD:     of_node(target, ((const admin_node_add_args *)args)->name); break;
    case ADMIN_NODE_IMPORT:  of_node(target, ((const admin_node_import_args *)args)->node.name); break;
    case ADMIN_SERVER_STOP:  target->server = ((const admin_server_stop_args *)args)->id; break;
    case ADMIN_LOG:          target->server = ((const admin_log_args *)args)->wish.server; break;
    case ADMIN_VM_ADD:       of_entitlement(target, &((const admin_vm_add_args *)args)->vm, ~0u); break;
    case ADMIN_VM_SET:       of_set(target, args); break;
    case ADMIN_VM_NOW:       of_set(target, &((const admin_vm_now_args *)args)->set); break;
    case ADMIN_VM_REMOVE:    of_vm(target, ((const admin_vm_remove_args *)args)->name); break;
    case ADMIN_GROUPING:     of_grouping(target, args); break;
    case ADMIN_CHANGE:       of_change(target, args); break;
    case ADMIN_RESIZE:       of_resize(target, args); break;
    case ADMIN_MIGRATE:      of_vm(target, ((const admin_migrate_args *)args)->vm); break;
    case ADMIN_PROGRAM_KILL: target->program = ((const admin_program_args *)args)->id; break;
    case ADMIN_MOVE_CANCEL:  target->move = ((const admin_program_args *)args)->id; break;
    case ADMIN_MOVE:         of_move(target, args); break;
    case ADMIN_SAVE:         of_move(target, &((const admin_save_args *)args)->move); break;
    default:                 return false;
    }
    return true;
}

void admin_call_begins(struct conn *conn, struct loop_call *call, const void *args)
{
    struct call_target target, *kept;
    (void)conn;
    if (!admin_target(call_procedure(call), args, &target) || !(kept = malloc(sizeof *kept)))
        return;
    *kept = target;
    call_set_context(call, kept);
}
