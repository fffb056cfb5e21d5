/*
 * admin_vm.c: entitlements. Changes are answered when the DB has taken them; what is decided here holds at once for
 * servers that start from now on.
 */
#include "control-managers/cluster-manager/cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/explain.h"

/* A call that the DB has to be waited for. */
struct pending {
    struct pending *next, **back;       /* of its session */
    struct cluster *cluster;
    struct session *session;            /* NULL: it has gone */
    struct call    *call;
    enum db_action  action;
    struct db_vm    row;
    bool            plain;              /* ctl_plain_result, else admin_vm_add_result */
    char            secret[SECRET_TEXT_SIZE + 1], text[CTL_MAX_TEXT + 1];
};

static void reply(struct call *call, bool plain, ctl_code code, char *text, char *secret)
{
    ctl_plain_result short_result = { { code, text } };
    admin_vm_add_result result = { .status = { code, text }, .secret = secret };
    call_reply(call, plain ? (void *)&short_result : (void *)&result);
}

void admin_forget(struct session *session)
{
    for (struct pending *pending = session->pending; pending; pending = pending->next)
        pending->session = NULL;
    session->pending = NULL;
}

/* What has to happen in memory once it is durable. */
static void carry_out(struct cluster *cluster, struct pending *pending)
{
    struct vm *vm = map_get(&cluster->vms, pending->row.name);
    struct event_about which = { .vm = pending->row.name };
    const char *by = pending->session ? pending->session->hello.name : "an administrator";
    if (pending->action == DB_INSERT) {
        if (!vm)
            vm_create(cluster, &pending->row);
        cluster_event(cluster, ADMIN_INFO, "vm-added", &which, "%u SMs, %llu MiB, by %s", pending->row.sms,
                      (unsigned long long)pending->row.memory_mib, by);
    } else if (pending->action == DB_DELETE) {
        cluster_event(cluster, ADMIN_INFO, "vm-removed", &which, "by %s", by);
        if (vm)
            vm_destroy(cluster, vm);
    } else {
        cluster_event(cluster, ADMIN_INFO, "vm-changed", &which, "%u SMs, %llu MiB, by %s", pending->row.sms,
                      (unsigned long long)pending->row.memory_mib, by);
        line_retry(cluster);
    }
}

static void stored(void *context, int error, const char *why)
{
    struct pending *pending = context;
    struct cluster *cluster = pending->cluster;
    struct vm *vm = map_get(&cluster->vms, pending->row.name);
    ctl_code code = error == 0 ? CTL_OK : error == -EEXIST ? CTL_EXISTS : CTL_INTERNAL;
    if (vm && pending->action == DB_PUT)
        vm->writing--;
    if (error == 0 && !cluster->stopping)
        carry_out(cluster, pending);
    else if (error == -EEXIST)
        snprintf(pending->text, sizeof pending->text, "there is a VM '%s' already", pending->row.name);
    else
        snprintf(pending->text, sizeof pending->text, "the resource DB did not take it: %.900s", why);
    if (pending->session) {
        *pending->back = pending->next;
        if (pending->next)
            pending->next->back = pending->back;
        reply(pending->call, pending->plain, code, pending->text, code == CTL_OK ? pending->secret : (char *)"");
    }
    memset(pending->secret, 0, sizeof pending->secret);
    free(pending);
}

/* Hands the change to the DB; the call is answered in any case. secret: NULL or what is to be returned. */
static void store(struct conn *conn, struct call *call, bool plain, enum db_action action, const struct db_vm *row,
                  const char *secret, const char *text)
{
    struct session *session = session_of(conn);
    struct cluster *cluster = session->cluster;
    struct pending *pending = cluster->db_up ? calloc(1, sizeof *pending) : NULL;
    char why[CTL_MAX_TEXT + 1];
    if (!pending) {
        snprintf(why, sizeof why, "the resource DB is away (%.800s): nothing was changed, try again", cluster->db_text);
        reply(call, plain, CTL_DB_AWAY, why, (char *)"");
        return;
    }
    *pending = (struct pending){ .next = session->pending, .back = &session->pending, .cluster = cluster, .session = session,
                                 .call = call, .action = action, .row = *row, .plain = plain };
    snprintf(pending->secret, sizeof pending->secret, "%s", secret ? secret : "");
    snprintf(pending->text, sizeof pending->text, "%s", text);
    if (pending->next)
        pending->next->back = &pending->next;
    session->pending = pending;
    struct vm *vm = action == DB_PUT ? map_get(&cluster->vms, row->name) : NULL;
    if (vm) {
        vm->writing++;
        vm_rename_address(cluster, vm, row);
    }
    int failure = store_change_vm(cluster, action, row, stored, pending);
    if (failure)
        stored(pending, failure, "too much waits for it already");
}

/* ---- checking ---- */

static ctl_code check_row(struct cluster *cluster, const struct db_vm *row, char *text)
{
    struct vm *other = *row->address ? map_get(&cluster->vm_addresses, row->address) : NULL;
    if (!protocol_name_valid(row->name))
        return explain(text, CTL_INVALID, "'%s' is no valid name: 1 to %d letters, digits, and . _ : -", row->name, CTL_MAX_NAME);
    if (row->sms < 1 || row->sms > 1000000)
        return explain(text, CTL_INVALID, "a VM is entitled to at least 1 SM, not %u", row->sms);
    if (row->memory_mib < 1 || row->memory_mib > UINT64_C(1) << 40)
        return explain(text, CTL_INVALID, "a VM is entitled to at least 1 MiB of memory");
    if (row->sharing & ~(unsigned)CTL_SHARING_ALL)
        return explain(text, CTL_INVALID, "there is no such kind of sharing (%#x)", row->sharing);
    if (row->wait > ADMIN_WAIT_IN_LINE)
        return explain(text, CTL_INVALID, "there is no such rule of waiting (%u)", row->wait);
    if (other && strcmp(other->row.name, row->name))
        return explain(text, CTL_EXISTS, "VM '%s' has the address %s already", other->row.name, row->address);
    return CTL_OK;
}

static ctl_code take(const admin_vm *args, unsigned set, struct db_vm *row, char *text)
{
    if (set & ADMIN_VM_SET_ADDRESS)
        snprintf(row->address, sizeof row->address, "%s", args->address);
    if (set & ADMIN_VM_SET_HOST)
        snprintf(row->host, sizeof row->host, "%s", args->host);
    if (set & ADMIN_VM_SET_SMS)
        row->sms = args->sms;
    if (set & ADMIN_VM_SET_MEMORY) {
        if (args->memory & 0xfffff)
            return explain(text, CTL_INVALID, "memory is given in whole MiB, not %llu bytes", (unsigned long long)args->memory);
        row->memory_mib = args->memory >> 20;
    }
    if (set & ADMIN_VM_SET_SHARING)
        row->sharing = args->sharing;
    if (set & ADMIN_VM_SET_GROUPING)
        row->grouping = args->grouping;
    if (set & ADMIN_VM_SET_WAIT)
        row->wait = (uint8_t)args->wait;
    return CTL_OK;
}

static ctl_code new_secret(struct db_vm *row, char *text_out, char *text)
{
    struct secret secret = { .size = SECRET_TEXT_SIZE };
    if (secret_make(text_out) < 0)
        return explain(text, CTL_INTERNAL, "there are no random numbers for a secret");
    memcpy(secret.bytes, text_out, SECRET_TEXT_SIZE);
    secret_stored(&secret, row->stored);
    row->has_stored = true;
    secret_wipe(&secret);
    return CTL_OK;
}

/* ---- the calls ---- */

void admin_handle_vm_add(struct conn *conn, struct call *call, void *object)
{
    const admin_vm_add_args *args = object;
    struct cluster *cluster = session_of(conn)->cluster;
    char text[CTL_MAX_TEXT + 1] = "", secret[SECRET_TEXT_SIZE + 1] = "";
    struct db_vm row = { .grouping = true };
    snprintf(row.name, sizeof row.name, "%s", args->vm.name);
    ctl_code code = take(&args->vm, ~0u, &row, text);
    if (code == CTL_OK)
        code = check_row(cluster, &row, text);
    if (code == CTL_OK && map_get(&cluster->vms, row.name))
        code = explain(text, CTL_EXISTS, "there is a VM '%s' already", row.name);
    if (code == CTL_OK && args->stored.stored_len == DB_STORED_SIZE) {
        memcpy(row.stored, args->stored.stored_val, DB_STORED_SIZE);
        row.has_stored = true;
    } else if (code == CTL_OK) {
        code = args->stored.stored_len ? (ctl_code)explain(text, CTL_INVALID, "a verifier has %d bytes", DB_STORED_SIZE)
                                       : new_secret(&row, secret, text);
    }
    if (code != CTL_OK)
        reply(call, false, code, text, (char *)"");
    else
        store(conn, call, false, DB_INSERT, &row, secret, "");
    memset(secret, 0, sizeof secret);
}

static void not_found(struct call *call, bool plain, const char *name)
{
    char text[CTL_MAX_TEXT + 1];
    snprintf(text, sizeof text, "there is no VM '%s'", name);
    reply(call, plain, CTL_NOT_FOUND, text, (char *)"");
}

void admin_handle_vm_set(struct conn *conn, struct call *call, void *object)
{
    const admin_vm_set_args *args = object;
    struct cluster *cluster = session_of(conn)->cluster;
    struct vm *vm = vm_find(cluster, args->vm.name);
    char text[CTL_MAX_TEXT + 1] = "", secret[SECRET_TEXT_SIZE + 1] = "";
    if (!vm) {
        not_found(call, false, args->vm.name);
        return;
    }
    struct db_vm row = vm->row;
    ctl_code code = take(&args->vm, args->set, &row, text);
    if (code == CTL_OK)
        code = check_row(cluster, &row, text);
    if (code == CTL_OK && args->set & ADMIN_VM_SET_SECRET)
        code = new_secret(&row, secret, text);
    if (code != CTL_OK) {
        reply(call, false, code, text, (char *)"");
        return;
    }
    if (vm->server_count && args->set & (ADMIN_VM_SET_SMS | ADMIN_VM_SET_MEMORY | ADMIN_VM_SET_SHARING | ADMIN_VM_SET_GROUPING))
        snprintf(text, sizeof text, "%zu server%s of %s %s until the end", vm->server_count, vm->server_count == 1 ? "" : "s", row.name,
                 vm->server_count == 1 ? "keeps what it has" : "keep what they have");
    store(conn, call, false, DB_PUT, &row, secret, text);
    memset(secret, 0, sizeof secret);
    if (cluster->db_up && args->set & ADMIN_VM_SET_SECRET && vm->session)
        conn_close(vm->session->conn, "the VM has a new secret");
}

void admin_handle_grouping(struct conn *conn, struct call *call, void *object)
{
    const admin_grouping_args *args = object;
    struct vm *vm = vm_find(session_of(conn)->cluster, args->vm);
    if (!vm) {
        not_found(call, true, args->vm);
        return;
    }
    struct db_vm row = vm->row;
    row.grouping = args->enable;
    store(conn, call, true, DB_PUT, &row, NULL, vm->server_count ? "servers that run stay as they are until they end" : "");
}

void admin_handle_vm_remove(struct conn *conn, struct call *call, void *object)
{
    const admin_vm_remove_args *args = object;
    struct cluster *cluster = session_of(conn)->cluster;
    struct vm *vm = vm_find(cluster, args->name);
    char text[CTL_MAX_TEXT + 1];
    if (!vm) {
        not_found(call, true, args->name);
        return;
    }
    if ((vm->program_count || vm->server_count) && !args->force) {
        snprintf(text, sizeof text, "VM %s has %zu servers and %zu programs: end them, or use --force", vm->row.name,
                 vm->server_count, vm->program_count);
        reply(call, true, CTL_BUSY, text, NULL);
        return;
    }
    if (cluster->db_up) {
        while (vm->programs)
            program_refuse(cluster, vm->programs, CTL_DENIED, "its VM was removed");
        for (struct server *server = vm->servers, *next; server; server = next) {
            next = server->vm_next;
            server_stop(cluster, server, CTL_OK, "its VM was removed");
        }
    }
    struct db_vm row = vm->row;
    store(conn, call, true, DB_DELETE, &row, NULL, "");
}

/* ---- listing ---- */

static void fill_vm(struct vm *vm, admin_vm *out)
{
    *out = (admin_vm){ .name = vm->row.name, .address = vm->row.address, .host = vm->row.host, .sms = vm->row.sms,
                       .memory = vm->row.memory_mib << 20, .sharing = vm->row.sharing, .grouping = vm->row.grouping,
                       .wait = (admin_wait)vm->row.wait };
}

/* The rows of a page: fills *first and how many. CTL_NOT_FOUND with text. */
static ctl_code page(struct cluster *cluster, const admin_named_page *args, struct vm **rows, size_t *count, u_int *more, char *text)
{
    struct vm *vm;
    *count = 0;
    *more = 0;
    if (*args->only) {
        rows[0] = vm_find(cluster, args->only);
        *count = rows[0] != NULL;
        return rows[0] ? CTL_OK : explain(text, CTL_NOT_FOUND, "there is no VM '%s'", args->only);
    }
    size_t at = map_after(&cluster->vms, args->after);
    for (; *count < CTL_MAX_PAGE && (vm = map_at(&cluster->vms, at)); at++)
        rows[(*count)++] = vm;
    *more = at < cluster->vms.count;
    return CTL_OK;
}

void admin_handle_vms(struct conn *conn, struct call *call, void *object)
{
    struct vm *rows[CTL_MAX_PAGE];
    size_t count;
    char text[CTL_MAX_TEXT + 1] = "";
    admin_vm_row vms[CTL_MAX_PAGE];
    admin_vms_result result = { .status = { CTL_OK, text } };
    result.status.code = page(session_of(conn)->cluster, object, rows, &count, &result.more, text);
    for (size_t i = 0; i < count; i++) {
        vms[i] = (admin_vm_row){
            .has_secret = rows[i]->row.has_stored, .connected = rows[i]->session != NULL, .last_heard = rows[i]->last_heard,
            .servers = (u_int)rows[i]->server_count, .programs = (u_int)rows[i]->program_count, .waiting = (u_int)rows[i]->waiting,
        };
        fill_vm(rows[i], &vms[i].vm);
    }
    result.vms.vms_len = (u_int)count;
    result.vms.vms_val = vms;
    call_reply(call, &result);
}

void admin_handle_vm_export(struct conn *conn, struct call *call, void *object)
{
    struct vm *rows[CTL_MAX_PAGE];
    size_t count;
    char text[CTL_MAX_TEXT + 1] = "";
    admin_vm_export_row vms[CTL_MAX_PAGE];
    admin_vm_export_result result = { .status = { CTL_OK, text } };
    result.status.code = page(session_of(conn)->cluster, object, rows, &count, &result.more, text);
    for (size_t i = 0; i < count; i++) {
        fill_vm(rows[i], &vms[i].vm);
        vms[i].stored.stored_len = rows[i]->row.has_stored ? DB_STORED_SIZE : 0;
        vms[i].stored.stored_val = (char *)rows[i]->row.stored;
    }
    result.vms.vms_len = (u_int)count;
    result.vms.vms_val = vms;
    call_reply(call, &result);
}
