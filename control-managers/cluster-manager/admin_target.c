/* admin_target.c: what a call of an administrator is about, for the audit trail. */
#include "control-managers/cluster-manager/cluster.h"

#include <stdio.h>
#include <stdlib.h>

static void of_vm(struct call_target *target, const char *vm) { snprintf(target->vm, sizeof target->vm, "%s", vm); }
static void of_node(struct call_target *target, const char *node)
{
    snprintf(target->node, sizeof target->node, "%s", node);
}

static void of_move(struct call_target *target, const admin_move_args *args)
{
    of_vm(target, args->vm);
    target->program = args->prog;
}

bool admin_target(uint32_t procedure, const void *args, struct call_target *target)
{
    *target = (struct call_target){ .server = 0 };
    switch (procedure) {
    case ADMIN_NODE:         of_node(target, ((const admin_node_args *)args)->name); break;
    case ADMIN_NODE_ADD:     of_node(target, ((const admin_node_add_args *)args)->name); break;
    case ADMIN_NODE_IMPORT:  of_node(target, ((const admin_node_import_args *)args)->node.name); break;
    case ADMIN_SERVER_STOP:  target->server = ((const admin_server_stop_args *)args)->id; break;
    case ADMIN_LOG:          target->server = ((const admin_log_args *)args)->wish.server; break;
    case ADMIN_VM_ADD:       of_vm(target, ((const admin_vm_add_args *)args)->vm.name); break;
    case ADMIN_VM_SET:       of_vm(target, ((const admin_vm_set_args *)args)->vm.name); break;
    case ADMIN_VM_NOW:       of_vm(target, ((const admin_vm_now_args *)args)->set.vm.name); break;
    case ADMIN_VM_REMOVE:    of_vm(target, ((const admin_vm_remove_args *)args)->name); break;
    case ADMIN_GROUPING:     of_vm(target, ((const admin_grouping_args *)args)->vm); break;
    case ADMIN_CHANGE:       of_vm(target, ((const admin_change_args *)args)->vm); break;
    case ADMIN_RESIZE:       of_vm(target, ((const admin_resize_args *)args)->vm); break;
    case ADMIN_MIGRATE:      of_vm(target, ((const admin_migrate_args *)args)->vm); break;
    case ADMIN_PROGRAM_KILL: target->program = ((const admin_program_args *)args)->id; break;
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
