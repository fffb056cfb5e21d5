/*
 * cmd_change.c: changes of what runs, with the names and letters that existing users know.
 */
#include <string.h>
#include <time.h>

#include "control-managers/flytctl/flytctl.h"

#define WHOM                                                                                \
    { "ip", 'i', "VM", "name or address of the VM", false },                                \
        { "client-id", 'c', "ID", "only this program (all)", false },                       \
        { "sm-cores", 's', "N", "streaming multiprocessors", false },                       \
    {                                                                                       \
        "memory", 'm', "SIZE", "device memory, as 512M or 2G; a plain number is MiB", false \
    }
const struct option_row change_options[] = { WHOM, WITHIN, { 0 } };
const struct option_row grouping_options[] = {
    { "ip", 'i', "VM", "name or address of the VM", false },
    { "enable", 'e', "on|off", "on (or 1): one GPU server for all its programs; off (or 0): one each", false },
    { 0 },
};

struct whom { char *vm; uint64_t client, sms, memory; };

static bool read_whom(struct flytctl *ctl, struct whom *whom)
{
    *whom = (struct whom){ .vm = (char *)(uintptr_t)option(ctl, "ip") };
    if (!whom->vm) {
        complain(ctl, EXIT_USAGE, "which VM? --ip is needed");
        return false;
    }
    return option_number(ctl, "client-id", 0, UINT64_MAX, &whom->client) &&
           option_number(ctl, "sm-cores", 0, 1000000, &whom->sms) && option_size(ctl, "memory", &whom->memory);
}

bool option_within(struct flytctl *ctl, unsigned *within_ms)
{
    uint64_t seconds = 0;
    bool good = option_number(ctl, "within", 0, CTL_MAX_WITHIN_SECONDS, &seconds);
    *within_ms = (unsigned)seconds * 1000;
    return good;
}

int command_change(struct flytctl *ctl)
{
    struct whom whom;
    if (!read_whom(ctl, &whom))
        return EXIT_USAGE;
    if (!whom.sms && !whom.memory)
        return complain(ctl, EXIT_USAGE, "nothing to change: give --sm-cores, --memory, or both");
    const char *name = ctl->command->name;
    admin_resize_args args = {
        .vm = whom.vm,
        .client = whom.client,
        .sms = (unsigned)whom.sms,
        .memory = whom.memory,
        .kind = strcmp(name, "inc-resources") == 0   ? ADMIN_CHANGE_INCREASE
                : strcmp(name, "dec-resources") == 0 ? ADMIN_CHANGE_DECREASE
                                                     : ADMIN_CHANGE_SET,
    };
    if (!option_within(ctl, &args.within_ms))
        return EXIT_USAGE;
    struct timespec begin, end;
    ctl_plain_result result;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    look_with(ctl, "flytctl server list --vm %s", whom.vm);
    int code = ask(ctl, ADMIN_RESIZE, &args, &result);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (code)
        return code;
    double seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    report(ctl, json_pack("{s:f}", "seconds", seconds), "%s: %s", whom.vm,
           *result.status.text ? result.status.text : "nothing had to be changed");
    if (!ctl->json)
        printf("Time taken: %.3f s\n", seconds);
    protocol_free((xdrproc_t)xdr_ctl_plain_result, &result);
    return EXIT_FINE;
}

int command_grouping(struct flytctl *ctl)
{
    bool on = false;
    if (!option_switch(ctl, "enable", &on))
        return EXIT_USAGE;
    admin_grouping_args args = { .vm = (char *)(uintptr_t)option(ctl, "ip"), .enable = on };
    if (!args.vm || !option(ctl, "enable"))
        return complain(ctl, EXIT_USAGE, "--ip VM and --enable on|off are needed");
    look_with(ctl, "flytctl vm show %s", args.vm);
    return ask_plain(ctl, ADMIN_GROUPING, &args, "grouping of %s is %s", args.vm, args.enable ? "on" : "off");
}
