/*
 * cmd_vm_file.c: entitlements as a file. What export writes import reads; import also takes what mongoexport makes of
 * vm_required_resources (an array, or one document a line), where memory is MB and the name is the vm_ip.
 *
 * The file holds verifiers of secrets, so that VMs keep theirs; it is made readable for its owner only.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control-managers/flytctl/flytctl.h"

const struct option_row vm_import_options[] = {
    { "update", 'u', NULL, "change entitlements that exist; their secrets stay", false },
    { "dry-run", 'n', NULL, "only print what the file contains", false },
    { 0 },
};

/* ---- export ---- */

json_t *verifier_text(const u_char *bytes, unsigned size)
{
    static const char digits[] = "0123456789abcdef";
    char text[2 * CTL_PROOF_SIZE + 1];
    if (size != CTL_PROOF_SIZE)
        return json_null();
    for (unsigned i = 0; i < size; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * size] = '\0';
    return json_string(text);
}

static int export_rows(struct flytctl *ctl, json_t *rows)
{
    char after[CTL_MAX_NAME + 1] = "";
    static char nothing[1];
    unsigned more;
    do {
        admin_named_page page = { .after = after, .only = nothing };
        admin_vm_export_result result;
        int code = ask(ctl, ADMIN_VM_EXPORT, &page, &result);
        if (code)
            return code;
        for (unsigned i = 0; i < result.vms.vms_len; i++) {
            const admin_vm_export_row *row = &result.vms.vms_val[i];
            json_t *object = row_vm(&row->vm);
            json_object_set_new(object, "verifier",
                                verifier_text((const u_char *)row->stored.stored_val, row->stored.stored_len));
            json_array_append_new(rows, object);
        }
        more = result.more && result.vms.vms_len;
        if (more)
            snprintf(after, sizeof after, "%s", result.vms.vms_val[result.vms.vms_len - 1].vm.name);
        protocol_free((xdrproc_t)xdr_admin_vm_export_result, &result);
    } while (more);
    return EXIT_FINE;
}

int file_write(struct flytctl *ctl, const char *path, const json_t *file)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return complain(ctl, EXIT_FAILED, "cannot write %s: %s", path, strerror(errno));
    fchmod(fd, 0600);
    int failed = json_dumpfd(file, fd, JSON_INDENT(2) | JSON_PRESERVE_ORDER) || write(fd, "\n", 1) != 1 || fsync(fd);
    int code = failed ? complain(ctl, EXIT_FAILED, "cannot write %s: %s", path, strerror(errno)) : EXIT_FINE;
    close(fd);
    return code;
}

int command_vm_export(struct flytctl *ctl)
{
    json_t *rows = json_array();
    int code = export_rows(ctl, rows);
    if (code) {
        json_decref(rows);
        return code;
    }
    size_t count = json_array_size(rows);
    json_t *file = json_pack("{s:s, s:i, s:o}", "format", "flyt-vms", "version", 1, "vms", rows);
    if (ctl->argc == 0 || strcmp(ctl->argv[0], "-") == 0) {
        print_json(file);
        return EXIT_FINE;
    }
    code = file_write(ctl, ctl->argv[0], file);
    json_decref(file);
    if (code == EXIT_FINE)
        report(ctl, json_pack("{s:i}", "count", (int)count), "%zu VM%s written to %s", count, count == 1 ? "" : "s",
               ctl->argv[0]);
    return code;
}

/* ---- import ---- */

/* One document, an array of them, our own file, or a document a line. NULL: complained, and *code is the exit
   status. */
json_t *file_read(struct flytctl *ctl, const char *path, const char *key, int *code)
{
    json_error_t error;
    bool standard = strcmp(path, "-") == 0;
    FILE *in = standard ? stdin : fopen(path, "re");
    if (!in) {
        *code = complain(ctl, EXIT_FAILED, "cannot read %s: %s", path, strerror(errno));
        return NULL;
    }
    json_t *rows = json_array(), *part;
    while ((part = json_loadf(in, JSON_DISABLE_EOF_CHECK, &error))) {
        json_t *list = json_is_array(part) ? part : json_object_get(part, key);
        if (json_is_array(list))
            json_array_extend(rows, list);
        else
            json_array_append(rows, part);
        json_decref(part);
        int next;
        while ((next = fgetc(in)) == '\n' || next == ' ' || next == '\r' || next == '\t')
            ;
        if (next == EOF)
            break;
        ungetc(next, in);
    }
    if (!standard)
        fclose(in);
    if (!part) {
        *code = complain(ctl, EXIT_USAGE, "%s:%d: %s", path, error.line, error.text);
        json_decref(rows);
        return NULL;
    }
    return rows;
}

/* mongoexport writes numbers as they are or as {"$numberInt": "8"}. */
static bool read_number(const json_t *value, uint64_t *out)
{
    if (json_is_object(value)) {
        static const char *const kinds[] = { "$numberInt", "$numberLong", "$numberDouble" };
        for (size_t i = 0; i < COUNT(kinds); i++) {
            const char *text = json_string_value(json_object_get(value, kinds[i]));
            char *end;
            double number = text ? strtod(text, &end) : -1;
            if (text && end != text && !*end && number >= 0 && number < 9e15) {
                *out = (uint64_t)number;
                return true;
            }
        }
        return false;
    }
    double number = json_is_number(value) ? json_number_value(value) : -1;
    if (!(number >= 0 && number < 9e15))
        return false;
    *out = (uint64_t)number;
    return true;
}

static unsigned read_sharing(const json_t *list)
{
    unsigned set = 0;
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) {
        unsigned bit = json_is_string(item) ? protocol_sharing_parse(json_string_value(item)) : 0;
        if (!bit)
            return ~0u;
        set |= bit;
    }
    return set;
}

bool verifier_read(const json_t *value, u_char *bytes)
{
    const char *text = json_string_value(value);
    if (!text || strlen(text) != 2 * CTL_PROOF_SIZE)
        return false;
    for (unsigned i = 0; i < CTL_PROOF_SIZE; i++) {
        unsigned byte;
        if (strspn(text + 2 * i, "0123456789abcdefABCDEF") < 2 || sscanf(text + 2 * i, "%2x", &byte) != 1)
            return false;
        bytes[i] = (u_char)byte;
    }
    return true;
}

static char *text_of(const json_t *row, const char *key, const char *older)
{
    static char nothing[1];
    const json_t *value = json_object_get(row, key);
    if (!json_is_string(value) && older)
        value = json_object_get(row, older);
    return json_is_string(value) ? (char *)(uintptr_t)json_string_value(value) : nothing;
}

/* NULL, or what is wrong with it. The strings stay the row's; verifier: CTL_PROOF_SIZE bytes. */
static const char *read_row(const json_t *row, admin_vm_add_args *args, u_char *verifier)
{
    admin_vm *vm = &args->vm;
    uint64_t sms, memory, gpus = 0;     /* 0: it says nothing about them */
    const json_t *wait = json_object_get(row, "wait"), *grouping = json_object_get(row, "grouping");
    const json_t *stored = json_object_get(row, "verifier");
    bool existing = json_object_get(row, "compute_units") != NULL;
    memset(args, 0, sizeof *args);
    if (!json_is_object(row))
        return "it is no object";
    vm->address = text_of(row, "address", "vm_ip");
    vm->host = text_of(row, "host", "host_ip");
    vm->name = text_of(row, "name", NULL);
    if (!*vm->name)
        vm->name = vm->address;
    if (!protocol_name_valid(vm->name))
        return "it has no valid name (or vm_ip)";
    if (*vm->address && !protocol_address_valid(vm->address))
        return "its address (or vm_ip) is no IP address";
    if (*vm->host && !protocol_host_valid(vm->host))
        return "its host (or host_ip) is neither an IP address nor a node's name";
    if (!read_number(json_object_get(row, existing ? "compute_units" : "sms"), &sms) || sms == 0 || sms > 1000000)
        return "its number of SMs (sms, or compute_units) makes no sense";
    if (!read_number(json_object_get(row, "memory"), &memory) || memory == 0)
        return "its memory makes no sense";
    vm->sms = (unsigned)sms;
    vm->memory = existing ? memory << 20 : memory;
    if (vm->memory % (1 << 20))
        return "its memory is no whole number of MiB";
    if (json_object_get(row, "gpus") &&
        (!read_number(json_object_get(row, "gpus"), &gpus) || gpus < 1 || gpus > CTL_MAX_SERVER_GPUS))
        return "its number of GPUs makes no sense";
    vm->gpus = (unsigned)gpus;
    vm->spread = json_is_true(json_object_get(row, "spread"));
    const json_t *recovery = json_object_get(row, "recovery");
    if (recovery && !json_is_string(recovery))
        return "its recovery is no text";
    vm->recovery = recovery ? (char *)(uintptr_t)json_string_value(recovery) : (char *)(uintptr_t)"";
    vm->sharing = read_sharing(json_object_get(row, "sharing"));
    if (vm->sharing == ~0u)
        return "its sharing is no list of exclusive, mig, time-slice, mps";
    vm->grouping = !json_is_false(grouping);
    vm->wait = !json_is_string(wait) || strcmp(json_string_value(wait), "default") == 0 ? ADMIN_WAIT_DEFAULT :
               strcmp(json_string_value(wait), "fail") == 0 ? ADMIN_WAIT_FAIL : ADMIN_WAIT_IN_LINE;
    if (stored && !json_is_null(stored)) {
        if (!verifier_read(stored, verifier))
            return "its verifier is broken";
        args->stored.stored_val = (char *)verifier;
        args->stored.stored_len = CTL_PROOF_SIZE;
    }
    return NULL;
}

struct import_tally { int added, changed, failed, left, first_failure; json_t *secrets; };

/* Adds one VM, or changes it where that is asked for. */
static int import_row(struct flytctl *ctl, const admin_vm_add_args *args, struct import_tally *tally)
{
    const unsigned set = ADMIN_VM_SET_ADDRESS | ADMIN_VM_SET_HOST | ADMIN_VM_SET_SMS | ADMIN_VM_SET_MEMORY |
                         ADMIN_VM_SET_GROUPING | ADMIN_VM_SET_WAIT |
                         (args->vm.gpus ? ADMIN_VM_SET_GPUS | ADMIN_VM_SET_SPREAD : 0) |
                         (*args->vm.recovery ? ADMIN_VM_SET_RECOVERY : 0) |
                         (args->vm.sharing ? ADMIN_VM_SET_SHARING : 0);
    const admin_vm_set_args change = { .vm = args->vm, .set = set };
    admin_vm_add_result result;
    look_with(ctl, "flytctl vm show %s", args->vm.name);
    int code = ask_raw(ctl, ADMIN_VM_ADD, args, &result);
    bool exists = code == EXIT_FINE && result.status.code == CTL_EXISTS && option_count(ctl, "update");
    if (exists) {
        protocol_free((xdrproc_t)xdr_admin_vm_add_result, &result);
        code = ask_raw(ctl, ADMIN_VM_SET, &change, &result);
    }
    if (code)
        return code;
    ctl_code status = result.status.code;
    if ((status == CTL_OK || status == CTL_UNKNOWN) && *result.secret)
        json_object_set_new(tally->secrets, args->vm.name, json_text(result.secret));
    if (status == CTL_OK)
        ++*(exists ? &tally->changed : &tally->added);
    else
        code = complain(ctl, exit_of_code(status), "VM %s: %s%s", args->vm.name, result.status.text,
                        status == CTL_EXISTS && !exists ? " (--update changes it)" : "");
    protocol_free((xdrproc_t)xdr_admin_vm_add_result, &result);
    return code;
}

int command_vm_import(struct flytctl *ctl)
{
    int code = EXIT_FINE;
    json_t *rows = file_read(ctl, ctl->argv[0], "vms", &code), *row;
    if (!rows)
        return code;
    size_t i;
    int wrong = 0;
    admin_vm_add_args args;
    u_char verifier[CTL_PROOF_SIZE];
    /* All of it is looked at before anything is done. */
    json_array_foreach(rows, i, row) {
        const char *problem = read_row(row, &args, verifier);
        if (problem) {
            complain(ctl, EXIT_USAGE, "%s: entry %zu: %s", ctl->argv[0], i + 1, problem);
            wrong++;
        }
    }
    if (wrong || option_count(ctl, "dry-run")) {
        if (!wrong)
            report(ctl, json_pack("{s:i}", "count", (int)json_array_size(rows)), "%s holds %zu VMs", ctl->argv[0],
                   json_array_size(rows));
        json_decref(rows);
        return wrong ? EXIT_USAGE : EXIT_FINE;
    }
    struct import_tally tally = { .secrets = json_object() };
    json_array_foreach(rows, i, row) {
        read_row(row, &args, verifier);
        code = import_row(ctl, &args, &tally);
        tally.failed += code != EXIT_FINE;
        tally.first_failure = tally.first_failure ? tally.first_failure : code;
        if (code == EXIT_UNREACHABLE || code == EXIT_DB_AWAY || code == EXIT_UNKNOWN) {
            tally.left = (int)(json_array_size(rows) - i - 1);
            break;                      /* the next ones would fare no better */
        }
    }
    if (tally.failed == 0 || tally.added || tally.changed || json_object_size(tally.secrets)) {
        const char *name;
        json_t *secret;
        report(ctl,
               json_pack("{s:i, s:i, s:i, s:i, s:O}", "added", tally.added, "changed", tally.changed, "failed",
                         tally.failed, "not_tried", tally.left, "secrets", tally.secrets),
               "%d added, %d changed, %d failed, %d not tried", tally.added, tally.changed, tally.failed, tally.left);
        if (!ctl->json) {
            if (json_object_size(tally.secrets))
                printf("New secrets, which are shown only now:\n");
            json_object_foreach(tally.secrets, name, secret)
                printf("%s  %s\n", name, json_string_value(secret));
        }
    }
    json_decref(tally.secrets);
    json_decref(rows);
    return tally.first_failure;
}
