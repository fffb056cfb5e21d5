/*
 * admin_share.c: the shares of running servers, as administrators change them: change-config, inc-resources and
 * dec-resources change what runs, `vm set --now` what runs and the entitlement.
 */
#include <stdio.h>
#include <string.h>

#include "control-managers/cluster-manager/admin_vm.h"
#include "control-managers/cluster-manager/resize.h"
#include "cpu/common/explain.h"

static char nothing[1];

/* ---- what runs ---- */

static void resized(struct conn *conn, struct loop_call *call, const struct resize_wish *wish, ctl_code code,
                    char *text)
{
    (void)conn, (void)wish;
    if (call)
        admin_vm_reply(call, true, code, text, nothing);
}

static void resize(struct conn *conn, struct loop_call *call, const admin_resize_args *args)
{
    char text[CTL_MAX_TEXT + 1] = "";
    struct vm *vm = vm_find(session_of(conn)->cluster, args->vm);
    struct resize_wish wish = { .kind = args->kind,
                                .client = args->client,
                                .sms = args->sms,
                                .memory = args->memory,
                                .within_ms = args->within_ms,
                                .done = resized };
    ctl_code code = CTL_OK;
    if (!vm)
        code = explain(text, CTL_NOT_FOUND, "there is no VM '%s'", args->vm);
    else if (args->kind > ADMIN_CHANGE_DECREASE || (!args->sms && !args->memory))
        code = explain(text, CTL_INVALID, "nothing is to be changed");
    else if (args->within_ms > CTL_MAX_WITHIN_SECONDS * 1000)
        code = explain(text, CTL_INVALID, "programs have at most %d s", CTL_MAX_WITHIN_SECONDS);
    if (code == CTL_OK)
        resize_begin(conn, call, vm, &wish);
    else
        admin_vm_reply(call, true, code, text, nothing);
}

void admin_handle_resize(struct conn *conn, struct loop_call *call, void *object) { resize(conn, call, object); }

/* As administrators' programs of an earlier release ask for it. */
void admin_handle_change(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_change_args *args = object;
    const admin_resize_args same = {
        .vm = args->vm, .client = args->client, .kind = args->kind, .sms = args->sms, .memory = args->memory
    };
    resize(conn, call, &same);
}

/* ---- what runs, and the entitlement ---- */

/* Answers `vm set --now`. The GPU servers have the new share already; if the entitlement could not be changed, the
   answer says that it was not. */
static void reply_now(struct change *change, ctl_code code, char *text)
{
    char more[CTL_MAX_TEXT + 1];
    bool said = code == CTL_OK || code == CTL_UNKNOWN;
    if (said)
        snprintf(more, sizeof more, "%s%s%s", change->reason, *change->reason && *text ? "; " : "", text);
    else
        snprintf(more, sizeof more, "the entitlement was not changed: %.600s%s%.300s", text,
                 *change->reason ? "; but " : "", change->reason);
    admin_vm_reply(change->call, false, code, more, said ? change->secret : nothing);
}

static struct change_kind now_kind;

static void entitle(struct conn *conn, struct loop_call *call, const struct resize_wish *wish, ctl_code code,
                    char *text)
{
    struct change change = wish->then;
    if (!conn || !call)
        return;
    if (code != CTL_OK) {
        admin_vm_reply(call, false, code, text, nothing);
        return;
    }
    snprintf(change.reason, sizeof change.reason, "%s", text);
    change_submit(conn, call, &change);
}

void admin_handle_vm_now(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_vm_now_args *args = object;
    const unsigned set = args->set.set;
    struct cluster *cluster = session_of(conn)->cluster;
    char text[CTL_MAX_TEXT + 1] = "";
    struct vm *vm = vm_find(cluster, args->set.vm.name);
    struct resize_wish wish = { .kind = ADMIN_CHANGE_SET, .within_ms = args->within_ms, .done = entitle };
    struct change *change = &wish.then;
    now_kind = admin_vm_set_kind;
    now_kind.reply = reply_now;
    *change = (struct change){ .kind = &now_kind, .set = set, .running = true };
    ctl_code code = admin_vm_take(&args->set.vm, set, &change->wanted, text);
    if (!vm || !admin_vm_find_name(cluster, args->set.vm.name, change))
        code = explain(text, CTL_NOT_FOUND, "there is no VM '%s'", args->set.vm.name);
    else if (code == CTL_OK && !(set & (ADMIN_VM_SET_SMS | ADMIN_VM_SET_MEMORY)))
        code = explain(text, CTL_INVALID, "SMs or memory of running servers can be changed, nothing else");
    else if (code == CTL_OK && args->within_ms > CTL_MAX_WITHIN_SECONDS * 1000)
        code = explain(text, CTL_INVALID, "programs have at most %d s", CTL_MAX_WITHIN_SECONDS);
    if (code != CTL_OK) {
        admin_vm_reply(call, false, code, text, nothing);
        return;
    }
    struct db_vm row = vm->row;
    admin_vm_merge(&change->wanted, set, &row);
    const struct place_request request = server_request_of(cluster, &row);
    wish.sms = set & ADMIN_VM_SET_SMS ? request.sms : 0;
    wish.memory = set & ADMIN_VM_SET_MEMORY ? request.memory : 0;
    resize_begin(conn, call, vm, &wish);
}
