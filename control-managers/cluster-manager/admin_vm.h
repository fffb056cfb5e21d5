/* admin_vm.h: what admin_share.c uses of the changes of entitlements; see admin_vm.c. */
#ifndef FLYT_CLUSTER_ADMIN_VM_H
#define FLYT_CLUSTER_ADMIN_VM_H

#include "control-managers/cluster-manager/changes.h"

extern const struct change_kind admin_vm_set_kind;
/* plain: as ctl_plain_result, else as admin_vm_add_result. */
void admin_vm_reply(struct loop_call *, bool plain, ctl_code, char *text, char *secret);
/* Fills `wanted` from what was sent. */
ctl_code admin_vm_take(const admin_vm *, unsigned set, struct db_vm *wanted, char *text);
/* Takes those members over that `set` names. */
void admin_vm_merge(const struct db_vm *wanted, unsigned set, struct db_vm *row);
/* Fills change->name, of a VM's name or address; one that is being added is known by its name. */
bool admin_vm_find_name(struct cluster *, const char *name, struct change *);

#endif
