/* cmd_vm.c: entitlements, one at a time. */
#include <string.h>

#include "control-managers/flytctl/flytctl.h"

#define ENTITLEMENT \
    { "sms", 's', "N", "streaming multiprocessors of each GPU", false }, \
    { "memory", 'm', "SIZE", "device memory of each GPU, as 512M or 2G; a plain number is MiB", false }, \
    { "gpus", 'G', "N", "GPUs that each of its programs sees, of one node if one has so many (1)", false }, \
    { "spread", 0, NULL, "its GPUs are of as many nodes as can be", false }, \
    { "no-spread", 0, NULL, "of one node, or of few where none has so many (so it is without --spread)", false }, \
    { "address", 'a', "IP", "address of the VM", false }, \
    { "host", 'H', "IP", "machine that hosts it, or its node's name; a GPU there is preferred", false }, \
    { "sharing", 0, "LIST", "accepted: exclusive, mig, time-slice, mps, any (as configured)", false }, \
    { "grouping", 'g', "on|off", "one GPU server for all its programs, or one each (on)", false }, \
    { "wait", 'w', "WHAT", "when no GPU is free: in-line, fail, or default (as configured)", false }, \
    { "recovery", 0, "WHAT", "of its programs after a loss: off, journal or checkpoint:TIME (off)", false }, \
    { "secret-file", 0, "FILE", "write its new secret there instead of printing it", false }
const struct option_row vm_add_options[] = {
    ENTITLEMENT, { "force", 'f', NULL, "overwrite the file of --secret-file", false }, { 0 }
};
const struct option_row vm_set_options[] = {
    ENTITLEMENT,
    { "new-secret", 0, NULL, "make a new secret; connections of the old one end", false },
    { "now", 0, NULL, "change the SMs and the memory of its running GPU servers, too", false },
    WITHIN,
    { 0 }
};

/* How and why: `flytctl vm show`. */
static const struct column vm_programs[] = {
    { "PROGRAM", "id", COLUMN_NUMBER, NULL, 0 },
    { "PID", "pid", COLUMN_NUMBER, NULL, 0 },
    { "STATE", "state", COLUMN_TEXT, NULL, 3 },
    { "SERVER", "server", COLUMN_NUMBER, NULL, 2 },
    { "OVER", "transport", COLUMN_TEXT, NULL, 0 },
    { "BECAUSE", "transport_why", COLUMN_TEXT, NULL, 0 },
    { "EXECUTABLE", "executable", COLUMN_END, NULL, 1 },
};

static bool read_words(struct flytctl *ctl, admin_vm *vm)
{
    const char *sharing = option(ctl, "sharing"), *wait = option(ctl, "wait");
    bool grouping = true;
    if (sharing && !(vm->sharing = protocol_sharing_parse(sharing))) {
        complain(ctl, EXIT_USAGE, "--sharing: '%s' is no list of exclusive, mig, time-slice, mps, any", sharing);
        return false;
    }
    if (!option_switch(ctl, "grouping", &grouping))
        return false;
    vm->grouping = grouping;
    vm->wait = ADMIN_WAIT_DEFAULT;
    if (!wait || strcmp(wait, "default") == 0)
        return true;
    vm->wait = strcmp(wait, "fail") == 0 ? ADMIN_WAIT_FAIL : ADMIN_WAIT_IN_LINE;
    if (vm->wait == ADMIN_WAIT_IN_LINE && strcmp(wait, "in-line") != 0) {
        complain(ctl, EXIT_USAGE, "--wait wants in-line, fail or default, not '%s'", wait);
        return false;
    }
    return true;
}

static bool read_entitlement(struct flytctl *ctl, admin_vm *vm)
{
    static char nothing[1];
    uint64_t sms = 0, gpus = 1;
    *vm = (admin_vm){ .name = ctl->argv[0], .address = nothing, .host = nothing, .recovery = nothing };
    if (!protocol_name_valid(vm->name)) {
        complain(ctl, EXIT_USAGE,
                 "'%s' is no name for a VM: up to %d letters, digits and ._:- are, not beginning with - or .", vm->name,
                 CTL_MAX_NAME);
        return false;
    }
    if (!option_number(ctl, "sms", 0, 1000000, &sms) || !option_size(ctl, "memory", &vm->memory) ||
        !option_number(ctl, "gpus", 1, CTL_MAX_SERVER_GPUS, &gpus) || !read_words(ctl, vm))
        return false;
    vm->sms = (unsigned)sms;
    vm->gpus = (unsigned)gpus;
    vm->spread = option_count(ctl, "spread") > 0;
    if (option(ctl, "address"))
        vm->address = (char *)(uintptr_t)option(ctl, "address");
    if (option(ctl, "recovery"))
        vm->recovery = (char *)(uintptr_t)option(ctl, "recovery");
    if (option(ctl, "host"))
        vm->host = (char *)(uintptr_t)option(ctl, "host");
    if (*vm->address && !protocol_address_valid(vm->address))
        complain(ctl, EXIT_USAGE, "--address: '%s' is no IP address", vm->address);
    else if (*vm->host && !protocol_host_valid(vm->host))
        complain(ctl, EXIT_USAGE, "--host: '%s' is neither an IP address nor a node's name", vm->host);
    else
        return true;
    return false;
}

int command_vm_add(struct flytctl *ctl)
{
    admin_vm_add_args args = { 0 };
    if (!read_entitlement(ctl, &args.vm))
        return EXIT_USAGE;
    if (!args.vm.sms || !args.vm.memory)
        return complain(ctl, EXIT_USAGE,
                        "a VM is entitled to something: --sms N and --memory SIZE are needed, both above 0");
    const char *file = option(ctl, "secret-file");
    if (file && !option_count(ctl, "force") && access(file, F_OK) == 0)
        return complain(ctl, EXIT_EXISTS,
                        "--secret-file: %s is there already, and may hold another VM's secret; --force overwrites it."
                        " Nothing was changed",
                        file);
    return ask_for_secret(ctl, ADMIN_VM_ADD, &args, "VM", "added", args.vm.name);
}

int command_vm_set(struct flytctl *ctl)
{
    static const struct { const char *name; unsigned bit;
    } bits[] = {
        { "address", ADMIN_VM_SET_ADDRESS }, { "host", ADMIN_VM_SET_HOST },
        { "sms", ADMIN_VM_SET_SMS },         { "memory", ADMIN_VM_SET_MEMORY },
        { "sharing", ADMIN_VM_SET_SHARING }, { "grouping", ADMIN_VM_SET_GROUPING },
        { "wait", ADMIN_VM_SET_WAIT },       { "new-secret", ADMIN_VM_SET_SECRET },
        { "gpus", ADMIN_VM_SET_GPUS },       { "spread", ADMIN_VM_SET_SPREAD },
        { "no-spread", ADMIN_VM_SET_SPREAD },
        { "recovery", ADMIN_VM_SET_RECOVERY },
    };
    admin_vm_set_args args = { 0 };
    if (!read_entitlement(ctl, &args.vm))
        return EXIT_USAGE;
    for (size_t i = 0; i < COUNT(bits); i++)
        if (option_count(ctl, bits[i].name))
            args.set |= bits[i].bit;
    if (option_count(ctl, "spread") && option_count(ctl, "no-spread"))
        return complain(ctl, EXIT_USAGE, "--spread and --no-spread do not go together");
    if (!args.set)
        return complain(ctl, EXIT_USAGE, "nothing to change: see flytctl vm set --help");
    if (option(ctl, "secret-file") && !(args.set & ADMIN_VM_SET_SECRET))
        return complain(ctl, EXIT_USAGE, "--secret-file goes with --new-secret");
    if (((args.set & ADMIN_VM_SET_SMS) && !args.vm.sms) || ((args.set & ADMIN_VM_SET_MEMORY) && !args.vm.memory))
        return complain(ctl, EXIT_USAGE,
                        "--sms and --memory must be above 0; flytctl vm remove takes the entitlement away");
    if (!option_count(ctl, "now") && option(ctl, "within"))
        return complain(ctl, EXIT_USAGE, "--within goes with --now");
    if (!option_count(ctl, "now"))
        return ask_for_secret(ctl, ADMIN_VM_SET, &args, "VM", "changed", args.vm.name);
    if (!(args.set & (ADMIN_VM_SET_SMS | ADMIN_VM_SET_MEMORY)))
        return complain(ctl, EXIT_USAGE, "--now goes with --sms or --memory, which running GPU servers can be given");
    admin_vm_now_args now = { .set = args };
    if (!option_within(ctl, &now.within_ms))
        return EXIT_USAGE;
    return ask_for_secret(ctl, ADMIN_VM_NOW, &now, "VM", "changed", args.vm.name);
}

int command_vm_remove(struct flytctl *ctl)
{
    int worst = EXIT_FINE;
    for (int i = 0; i < ctl->argc; i++) {
        admin_vm_remove_args args = { .name = ctl->argv[i], .force = option_count(ctl, "force") > 0 };
        look_with(ctl, "flytctl vm show %s", ctl->argv[i]);
        int code = ask_plain(ctl, ADMIN_VM_REMOVE, &args, "VM %s removed", ctl->argv[i]);
        worst = worst ? worst : code;
    }
    return worst;
}

int command_vm_list(struct flytctl *ctl) { return list_kind(ctl, "vm"); }

int command_vm_show(struct flytctl *ctl)
{
    const struct row_kind *vm = kind_find("vm");
    json_t *row, *programs;
    int code = kind_row(ctl, vm, ctl->argv[0], &row);
    if (code)
        return code;
    const struct rows_query query = { .vm = json_string_value(json_object_get(row, "name")) };
    code = kind_rows(ctl, kind_find("program"), &query, &programs);
    if (code) {
        json_decref(row);
        return code;
    }
    json_object_set(row, "running", programs);
    code = print_object(ctl, row, vm->fields, vm->field_count);
    if (ctl->form <= FORM_WIDE && json_array_size(programs)) {
        putchar('\n');
        print_table(ctl, programs, vm_programs, COUNT(vm_programs));
    }
    json_decref(programs);
    return code;
}
