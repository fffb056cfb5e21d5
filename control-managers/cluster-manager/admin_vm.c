/*
 * admin_vm.c: entitlements. Changes are made as changes.h says; they hold for servers that start from then on
 * (admin_share.c: for running ones, too).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/cluster-manager/admin_vm.h"
#include "control-managers/cluster-manager/admin_rows.h"
#include "cpu/common/explain.h"

void admin_vm_reply(struct loop_call *call, bool plain, ctl_code code, char *text, char *secret)
{
    ctl_plain_result short_result = { { code, text } };
    admin_vm_add_result result = { .status = { code, text }, .secret = secret };
    admin_note_answer(call, code, text);
    call_reply(call, plain ? (void *)&short_result : (void *)&result);
}

static void reply_change(struct change *change, ctl_code code, char *text)
{
    static char none[1];
    admin_vm_reply(change->call, change->plain, code, text,
                   code == CTL_OK || code == CTL_UNKNOWN ? change->secret : none);
}

/* ---- checking ---- */

/* Who has this address, or is about to. NULL: nobody but the VM of that name. */
static const char *holder_of(struct cluster *cluster, const char *address, const char *name)
{
    const struct vm *vm = map_get(&cluster->vm_addresses, address);
    if (vm && strcmp(vm->row.name, name))
        return vm->row.name;
    for (const struct change *at = change_given(cluster, NULL); at; at = change_given(cluster, at))
        if (at->row.kind == DB_VM && at->row.action != DB_DELETE && strcmp(at->name, name) &&
            strcmp(at->row.row.vm.address, address) == 0)
            return at->name;
    return NULL;
}

/* Others may have written addresses into the DB that we would not take: only those that are changed are checked. */
static ctl_code check_row(struct cluster *cluster, const struct db_vm *row, unsigned set, char *text)
{
    const char *other = *row->address ? holder_of(cluster, row->address, row->name) : NULL;
    if (!protocol_name_valid(row->name))
        return explain(text, CTL_INVALID, "'%s' is no valid name: 1 to %d letters, digits, and . _ : -", row->name,
                       CTL_MAX_NAME);
    if (row->sms < 1 || row->sms > 1000000)
        return explain(text, CTL_INVALID, "a VM is entitled to at least 1 SM, not %u", row->sms);
    if (row->memory_mib < 1 || row->memory_mib > UINT64_C(1) << 40)
        return explain(text, CTL_INVALID, "a VM is entitled to at least 1 MiB of memory");
    if (set & ADMIN_VM_SET_ADDRESS && *row->address && !protocol_address_valid(row->address))
        return explain(text, CTL_INVALID, "'%s' is no IP address", row->address);
    if (set & ADMIN_VM_SET_HOST && *row->host && !protocol_host_valid(row->host))
        return explain(text, CTL_INVALID, "'%s' is neither an IP address nor a node's name", row->host);
    if (row->sharing & ~(unsigned)CTL_SHARING_ALL)
        return explain(text, CTL_INVALID, "there is no such kind of sharing (%#x)", row->sharing);
    if (row->wait > ADMIN_WAIT_IN_LINE)
        return explain(text, CTL_INVALID, "there is no such rule of waiting (%u)", row->wait);
    if (set & ADMIN_VM_SET_GPUS && (row->gpus < 1 || row->gpus > CTL_MAX_SERVER_GPUS))
        return explain(text, CTL_INVALID, "a program can have 1 to %d GPUs, not %u", CTL_MAX_SERVER_GPUS, row->gpus);
    if (set & ADMIN_VM_SET_RECOVERY && !recovery_wish_valid(row->recovery))
        return explain(text, CTL_INVALID,
                       "recovery is off, journal, journal:SIZE (256M, 2G), checkpoint:TIME (30s) or "
                       "checkpoint:TIME:SIZE, not '%s'",
                       row->recovery);
    if (other)
        return explain(text, CTL_EXISTS, "VM '%s' has the address %s already", other, row->address);
    return CTL_OK;
}

void admin_vm_merge(const struct db_vm *wanted, unsigned set, struct db_vm *row)
{
    if (set & ADMIN_VM_SET_ADDRESS)
        memcpy(row->address, wanted->address, sizeof row->address);
    if (set & ADMIN_VM_SET_HOST)
        memcpy(row->host, wanted->host, sizeof row->host);
    if (set & ADMIN_VM_SET_SMS)
        row->sms = wanted->sms;
    if (set & ADMIN_VM_SET_MEMORY)
        row->memory_mib = wanted->memory_mib;
    if (set & ADMIN_VM_SET_SHARING)
        row->sharing = wanted->sharing;
    if (set & ADMIN_VM_SET_GROUPING)
        row->grouping = wanted->grouping;
    if (set & ADMIN_VM_SET_WAIT)
        row->wait = wanted->wait;
    if (set & ADMIN_VM_SET_GPUS)
        row->gpus = wanted->gpus;
    if (set & ADMIN_VM_SET_SPREAD)
        row->spread = wanted->spread;
    if (set & ADMIN_VM_SET_RECOVERY)
        memcpy(row->recovery, wanted->recovery, sizeof row->recovery);
}

/* A little more than a GPU server of the software GPU needs before a program has anything (4 MiB). */
enum { LITTLE_MIB = 16 };

static void warn(char *remark, const char *why)
{
    size_t at = strlen(remark);
    snprintf(remark + at, CTL_MAX_TEXT + 1 - at, "%swarning: %s", at ? "; " : "", why);
}

/* An entitlement that no GPU can hold is allowed, because a larger one may come; but it is said. */
static void warn_of_size(struct cluster *cluster, const struct db_vm *row, char *remark)
{
    struct place_request request = server_request_of(cluster, row);
    struct place_set place;
    char why[CTL_MAX_TEXT / 2], text[CTL_MAX_TEXT];
    if (request.memory >> 20 < LITTLE_MIB) {
        snprintf(text, sizeof text, "%llu MiB for a GPU server is very little: one of the software GPU needs 4 MiB"
                 " before its first program, and on NVIDIA's GPUs each program needs some hundred MiB to begin",
                 (unsigned long long)(request.memory >> 20));
        warn(remark, text);
    }
    if (place_choose_set(&cluster->pool, cluster->values->policy, &request, &place) != PLACE_NEVER)
        return;
    place_explain(&cluster->pool, &request, PLACE_NEVER, why, sizeof why);
    snprintf(text, sizeof text, "no program of it can run now: %s", why);
    warn(remark, text);
}

/* ---- adding ---- */

#define LOOK "flytctl vm show"

static ctl_code prepare_add(struct cluster *cluster, struct change *change, char *text)
{
    struct db_vm *row = &change->row.row.vm;
    change->row = (struct db_change){ .action = DB_INSERT, .kind = DB_VM };
    *row = change->wanted;
    ctl_code code = check_row(cluster, row, ~0u, text);
    if (code == CTL_OK && map_get(&cluster->vms, row->name))
        code = explain(text, CTL_EXISTS, "there is a VM '%s' already", row->name);
    if (code == CTL_OK && !row->has_stored)
        code = change_new_secret(change, row->stored, text);
    row->has_stored |= *change->secret != '\0';
    warn_of_size(cluster, row, change->remark);
    return code;
}

enum { SIZE_TEXT = 96 };
static const char *describe_size(const struct db_vm *row, char out[SIZE_TEXT])
{
    unsigned long long mib = row->memory_mib;
    if (row->gpus > 1)
        snprintf(out, SIZE_TEXT, "%u GPUs with %u SMs and %llu MiB each%s", row->gpus, row->sms, mib,
                 row->spread ? ", on several nodes" : "");
    else
        snprintf(out, SIZE_TEXT, "%u SMs, %llu MiB", row->sms, mib);
    return out;
}

/* Of an entitlement, without its secret. */
static const char *describe_vm(const struct db_vm *row, char out[DB_TEXT_SIZE])
{
    static const char *const waits[] = { "as the VM says", "fail", "in line" };
    char size[SIZE_TEXT], sharing[PROTOCOL_SHARING_SIZE];
    snprintf(out, DB_TEXT_SIZE, "%s, sharing %s, grouping %s, waiting %s%s%s%s%s%s%s", describe_size(row, size),
             protocol_sharing_text(row->sharing ? row->sharing : CTL_SHARING_ALL, sharing),
             row->grouping ? "on" : "off", row->wait <= ADMIN_WAIT_IN_LINE ? waits[row->wait] : "?",
             *row->address ? ", address " : "", row->address, *row->host ? ", host " : "", row->host,
             *row->recovery ? ", recovery " : "", row->recovery);
    return out;
}

static void carry_out_add(struct cluster *cluster, struct change *change)
{
    const struct db_vm *row = &change->row.row.vm;
    char size[SIZE_TEXT], after[DB_TEXT_SIZE];
    struct event_about which = { .vm = row->name, .by = change->by, .after = describe_vm(row, after) };
    if (!map_get(&cluster->vms, row->name))
        vm_create(cluster, row);
    cluster_event(cluster, ADMIN_INFO, "vm-added", &which, "%s, by %s", describe_size(row, size), change->by);
}

static const struct change_kind add_kind = { "VM", LOOK, prepare_add, carry_out_add, reply_change };

ctl_code admin_vm_take(const admin_vm *args, unsigned set, struct db_vm *wanted, char *text)
{
    *wanted = (struct db_vm){ .sms = args->sms,
                              .memory_mib = args->memory >> 20,
                              .sharing = args->sharing,
                              .grouping = args->grouping,
                              .wait = (uint8_t)args->wait,
                              .gpus = args->gpus ? args->gpus : 1,
                              .spread = args->spread != 0 };
    snprintf(wanted->name, sizeof wanted->name, "%s", args->name);
    snprintf(wanted->address, sizeof wanted->address, "%s", args->address);
    snprintf(wanted->host, sizeof wanted->host, "%s", args->host);
    if (args->recovery && strcmp(args->recovery, "off") != 0)
        snprintf(wanted->recovery, sizeof wanted->recovery, "%s", args->recovery);
    if (set & ADMIN_VM_SET_MEMORY && args->memory & 0xfffff)
        return explain(text, CTL_INVALID, "memory is given in whole MiB, not %llu bytes",
                       (unsigned long long)args->memory);
    return CTL_OK;
}

void admin_handle_vm_add(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_vm_add_args *args = object;
    char text[CTL_MAX_TEXT + 1] = "";
    struct change change = { .kind = &add_kind };
    ctl_code code = admin_vm_take(&args->vm, ~0u, &change.wanted, text);
    snprintf(change.name, sizeof change.name, "%s", args->vm.name);
    if (args->stored.stored_len == DB_STORED_SIZE) {
        memcpy(change.wanted.stored, args->stored.stored_val, DB_STORED_SIZE);
        change.wanted.has_stored = true;
    } else if (args->stored.stored_len) {
        code = explain(text, CTL_INVALID, "a verifier has %d bytes", DB_STORED_SIZE);
    }
    if (code != CTL_OK)
        admin_vm_reply(call, false, code, text, (char *)"");
    else
        change_submit(conn, call, &change);
}

/* ---- changing ---- */

static ctl_code prepare_set(struct cluster *cluster, struct change *change, char *text)
{
    const unsigned sizes = ADMIN_VM_SET_SMS | ADMIN_VM_SET_MEMORY | ADMIN_VM_SET_SHARING | ADMIN_VM_SET_GROUPING |
                           ADMIN_VM_SET_GPUS | ADMIN_VM_SET_SPREAD;
    const struct vm *vm = map_get(&cluster->vms, change->name);
    struct db_vm *row = &change->row.row.vm;
    if (!vm)
        return explain(text, CTL_NOT_FOUND, "there is no VM '%s'", change->name);
    change->row = (struct db_change){ .action = DB_PUT, .kind = DB_VM };
    *row = vm->row;
    admin_vm_merge(&change->wanted, change->set, row);
    ctl_code code = check_row(cluster, row, change->set, text);
    if (code == CTL_OK && change->set & ADMIN_VM_SET_SECRET)
        code = change_new_secret(change, row->stored, text);
    row->has_stored |= *change->secret != '\0';
    const struct place_request share = server_request_of(cluster, row);
    size_t in_use = 0;
    for (const struct server *server = vm->servers; server; server = server->vm_next)
        in_use += !server->stopping && !server_is_idle(server) &&
                  (!change->running || server->row.sms != share.sms || server->row.memory != share.memory ||
                   server->gpu_count != share.gpus);
    if (in_use && change->set & sizes)
        snprintf(change->remark, sizeof change->remark, "%zu server%s of %s %s until the end", in_use,
                 in_use == 1 ? "" : "s", row->name, in_use == 1 ? "keeps what it has" : "keep what they have");
    if (change->set & sizes)
        warn_of_size(cluster, row, change->remark);
    return code;
}

/* Describes the changes of a VM other than of its size, for its event. */
static const char *describe_rest(const char *before, const char *after, unsigned set, char out[DB_TEXT_SIZE])
{
    const bool same = strcmp(before, after) == 0, secret = set & ADMIN_VM_SET_SECRET;
    snprintf(out, DB_TEXT_SIZE, "%s%s%.400s", secret ? "; it has a new secret" : "",
             !same    ? "; it was: "
             : secret ? ""
                      : "; nothing is other than before",
             same ? "" : before);
    return out;
}

static void carry_out_set(struct cluster *cluster, struct change *change)
{
    const struct db_vm *row = &change->row.row.vm;
    struct vm *vm = map_get(&cluster->vms, row->name);
    char before[DB_TEXT_SIZE] = "", after[DB_TEXT_SIZE], rest[DB_TEXT_SIZE];
    struct event_about which = { .vm = row->name, .by = change->by, .before = before, .after = after };
    describe_vm(row, after);
    if (vm)
        describe_vm(&vm->row, before);
    if (vm)
        vm_rename_address(cluster, vm, row);
    else
        vm = vm_create(cluster, row);           /* others removed it meanwhile, and this put it back */
    cluster_event(cluster, ADMIN_INFO, "vm-changed", &which, "%.400s, by %s%s", after, change->by,
                  describe_rest(before, after, change->set, rest));
    for (struct program *program = vm && change->set & ADMIN_VM_SET_SECRET ? vm->programs : NULL; program;
         program = program->vm_next) {
        program_revoke(cluster, program);
        program->revoked = 0; /* it goes on, and gets other tickets */
    }
    if (vm && vm->session && change->set & ADMIN_VM_SET_SECRET)
        conn_close(vm->session->conn, "the VM has a new secret");
    queue_retry(cluster);
}

const struct change_kind admin_vm_set_kind = { "VM", LOOK, prepare_set, carry_out_set, reply_change };

static void not_found(struct loop_call *call, bool plain, const char *name)
{
    char text[CTL_MAX_TEXT + 1];
    snprintf(text, sizeof text, "there is no VM '%s'", name);
    admin_vm_reply(call, plain, CTL_NOT_FOUND, text, (char *)"");
}

bool admin_vm_find_name(struct cluster *cluster, const char *name, struct change *change)
{
    const struct vm *vm = vm_find(cluster, name);
    bool known = vm || change_pending(cluster, "VM", name);
    if (known)
        snprintf(change->name, sizeof change->name, "%s", vm ? vm->row.name : name);
    return known;
}

void admin_handle_vm_set(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_vm_set_args *args = object;
    char text[CTL_MAX_TEXT + 1] = "";
    struct change change = { .kind = &admin_vm_set_kind, .set = args->set };
    if (!admin_vm_find_name(session_of(conn)->cluster, args->vm.name, &change)) {
        not_found(call, false, args->vm.name);
        return;
    }
    ctl_code code = admin_vm_take(&args->vm, args->set, &change.wanted, text);
    if (code != CTL_OK)
        admin_vm_reply(call, false, code, text, (char *)"");
    else
        change_submit(conn, call, &change);
}

void admin_handle_grouping(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_grouping_args *args = object;
    struct change change = {
        .kind = &admin_vm_set_kind, .plain = true, .set = ADMIN_VM_SET_GROUPING, .wanted = { .grouping = args->enable }
    };
    if (admin_vm_find_name(session_of(conn)->cluster, args->vm, &change))
        change_submit(conn, call, &change);
    else
        not_found(call, true, args->vm);
}

/* ---- removing ---- */

static ctl_code prepare_remove(struct cluster *cluster, struct change *change, char *text)
{
    const struct vm *vm = map_get(&cluster->vms, change->name);
    if (!vm)
        return explain(text, CTL_NOT_FOUND, "there is no VM '%s'", change->name);
    if ((vm->program_count || vm->server_count) && !change->force)
        return explain(text, CTL_BUSY, "VM %s has %zu servers and %zu programs: end them, or use --force", vm->row.name,
                       vm->server_count, vm->program_count);
    change->row = (struct db_change){ .action = DB_DELETE, .kind = DB_VM };
    change->row.row.vm = vm->row;
    return CTL_OK;
}

static void carry_out_remove(struct cluster *cluster, struct change *change)
{
    struct vm *vm = map_get(&cluster->vms, change->name);
    char before[DB_TEXT_SIZE] = "";
    struct event_about which = { .vm = change->name, .by = change->by, .before = before };
    if (vm)
        describe_vm(&vm->row, before);
    cluster_event(cluster, ADMIN_INFO, "vm-removed", &which, "by %s", change->by);
    if (!vm)
        return;
    vm_end_all(cluster, vm, CTL_NOT_FOUND, "its VM was removed");
    vm_destroy(cluster, vm);
}

void vm_end_all(struct cluster *cluster, struct vm *vm, ctl_code code, const char *why)
{
    /* The connection ends with the VM: what its client manager is to know goes into one answer. */
    struct cluster_session *session = vm->session;
    struct loop_call *waiting = session ? session->waiting : NULL;
    if (session)
        session->waiting = NULL;
    while (vm->programs)
        program_refuse(cluster, vm->programs, code, why);
    if (session)
        session->waiting = waiting;
    if (waiting && vm->events.first)
        session_wake(session);
    for (struct server *server = vm->servers, *next; server; server = next) {
        next = server->vm_next;
        server_stop(cluster, server, CTL_OK, why);
    }
}

static const struct change_kind remove_kind = { "VM", LOOK, prepare_remove, carry_out_remove, reply_change };

void admin_handle_vm_remove(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_vm_remove_args *args = object;
    struct change change = { .kind = &remove_kind, .plain = true, .force = args->force };
    if (admin_vm_find_name(session_of(conn)->cluster, args->name, &change))
        change_submit(conn, call, &change);
    else
        not_found(call, true, args->name);
}

/* ---- listing ---- */

/* The rows of a page: fills *first and how many. CTL_NOT_FOUND with text. */
static ctl_code page(struct cluster *cluster, const admin_named_page *args, struct vm **rows, size_t *count,
                     u_int *more, char *text)
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

void admin_handle_vms(struct conn *conn, struct loop_call *call, void *object)
{
    struct vm *rows[CTL_MAX_PAGE];
    size_t count;
    char text[CTL_MAX_TEXT + 1] = "";
    admin_vm_row vms[CTL_MAX_PAGE];
    admin_vms_result result = { .status = { CTL_OK, text } };
    result.status.code = page(session_of(conn)->cluster, object, rows, &count, &result.more, text);
    for (size_t i = 0; i < count; i++)
        row_of_vm(rows[i], &vms[i]);
    result.vms.vms_len = (u_int)count;
    result.vms.vms_val = vms;
    call_reply(call, &result);
}

void admin_handle_vm_export(struct conn *conn, struct loop_call *call, void *object)
{
    struct vm *rows[CTL_MAX_PAGE];
    size_t count;
    char text[CTL_MAX_TEXT + 1] = "";
    admin_vm_export_row vms[CTL_MAX_PAGE];
    admin_vm_export_result result = { .status = { CTL_OK, text } };
    result.status.code = page(session_of(conn)->cluster, object, rows, &count, &result.more, text);
    if (!*((const admin_named_page *)object)->after)
        admin_note_export(session_of(conn), "VMs");
    for (size_t i = 0; i < count; i++) {
        row_of_entitlement(rows[i], &vms[i].vm);
        vms[i].stored.stored_len = rows[i]->row.has_stored ? DB_STORED_SIZE : 0;
        vms[i].stored.stored_val = (char *)rows[i]->row.stored;
    }
    result.vms.vms_len = (u_int)count;
    result.vms.vms_val = vms;
    call_reply(call, &result);
}
