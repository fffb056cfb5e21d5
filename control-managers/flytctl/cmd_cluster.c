/* cmd_cluster.c: nodes, GPU servers, programs. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "control-managers/flytctl/flytctl.h"

enum { DRAIN_LOOK_MS = 200 };

const struct option_row drain_options[] = {
    { "wait", 'w', "SECONDS", "until no program runs there, at most this long", false },
    { "reason", 'r', "TEXT", "why; node show and the events show it", false },
    { "move", 'm', NULL, "move its programs to other GPUs while they run", false },
    { "at-once", 0, "N", "so many of them at a time (1)", false },
    { "bandwidth", 'b', "RATE", "bytes a second for each at most, as 100M; a plain number is MiB (as configured)",
      false },
    { "downtime", 'd', "MS", "milliseconds for which each may stand still at most; else it stays (any)", false },
    { 0 },
};

const struct option_row node_add_options[] = {
    { "secret-file", 0, "FILE", "write its new secret there instead of printing it", false },
    { "secret-folder", 0, "DIR", "write each new secret there, as NAME.secret; made if it is not there", false },
    { "new-secret", 0, NULL, "replace the secret that it has; its connection of the old one ends", false },
    { 0 },
};

int command_node_list(struct flytctl *ctl) { return list_kind(ctl, "node"); }

int command_gpu_list(struct flytctl *ctl) { return list_kind(ctl, "gpu"); }

int command_node_show(struct flytctl *ctl)
{
    const struct row_kind *node = kind_find("node"), *gpu = kind_find("gpu");
    json_t *row;
    int code = kind_row(ctl, node, ctl->argv[0], &row);
    if (code)
        return code;
    json_t *gpus = json_incref(json_object_get(row, "gpus"));
    code = print_object(ctl, row, node->fields, node->field_count);
    if (ctl->form <= FORM_WIDE) {
        printf("\n");
        print_table_without(ctl, gpus, gpu, "node");
    }
    json_decref(gpus);
    return code;
}

static int each_node(struct flytctl *ctl, admin_node_action action, const char *done)
{
    const char *reason = action == ADMIN_NODE_DRAIN ? option(ctl, "reason") : NULL;
    int worst = EXIT_FINE;
    if (reason && strlen(reason) > CTL_MAX_REASON)
        return complain(ctl, EXIT_USAGE, "--reason: at most %d bytes", CTL_MAX_REASON);
    for (int i = 0; i < ctl->argc; i++) {
        admin_node_args args = { .name = ctl->argv[i], .action = action, .force = option_count(ctl, "force") > 0,
                                 .reason = (char *)(uintptr_t)(reason ? reason : "") };
        look_with(ctl, "flytctl node show %s", ctl->argv[i]);
        int code = ask_plain(ctl, ADMIN_NODE, &args, "node %s %s", ctl->argv[i], done);
        worst = worst ? worst : code;
    }
    return worst;
}

int command_node_add(struct flytctl *ctl)
{
    int worst = EXIT_FINE;
    const char *folder = option(ctl, "secret-folder");
    for (int i = 0; i < ctl->argc; i++)
        if (!protocol_name_valid(ctl->argv[i]))
            return complain(ctl, EXIT_USAGE,
                            "'%s' is no name for a node: up to %d letters, digits and ._:- are, not beginning"
                            " with - or .",
                            ctl->argv[i], CTL_MAX_NAME);
    if (option(ctl, "secret-file") && (ctl->argc > 1 || folder))
        return complain(ctl, EXIT_USAGE, "--secret-file is for one secret: --secret-folder takes those of many nodes");
    if (folder && mkdir(folder, 0700) < 0 && errno != EEXIST)
        return complain(ctl, EXIT_FAILED, "cannot make %s: %s. Nothing was changed", folder, strerror(errno));
    for (int i = 0; i < ctl->argc; i++) {
        admin_node_add_args args = { .name = ctl->argv[i], .replace = option_count(ctl, "new-secret") > 0 };
        int code = ask_for_secret(ctl, ADMIN_NODE_ADD, &args, "node", "added", args.name);
        worst = worst ? worst : code;
        if (code == EXIT_UNREACHABLE || code == EXIT_DB_AWAY)
            break;                              /* the next ones would fare no better */
    }
    return worst;
}

/* How many GPU servers the nodes have that this command names; a node that was removed has none. */
static int count_servers(struct flytctl *ctl, size_t *servers)
{
    json_t *rows;
    *servers = 0;
    for (int i = 0; i < ctl->argc; i++) {
        int code = kind_rows(ctl, kind_find("server"), &(struct rows_query){ .node = ctl->argv[i] }, &rows);
        if (code)
            return code;
        *servers += json_array_size(rows);
        json_decref(rows);
    }
    return EXIT_FINE;
}

/* Until no program runs there, and so no server is left. */
static int wait_until_empty(struct flytctl *ctl, uint64_t seconds)
{
    struct timespec now, end;
    size_t servers;
    int code;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += (time_t)seconds;
    while ((code = count_servers(ctl, &servers)) == EXIT_FINE && servers) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec > end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec >= end.tv_nsec))
            return complain(ctl, EXIT_BUSY,
                            "%zu GPU server%s still there after %llu s: flytctl program list --node %s shows who uses "
                            "%s",
                            servers, servers == 1 ? " is" : "s are", (unsigned long long)seconds, ctl->argv[0],
                            servers == 1 ? "it" : "them");
        nanosleep(&(struct timespec){ .tv_nsec = DRAIN_LOOK_MS * 1000000 }, NULL);
    }
    return code;
}

int command_node_drain(struct flytctl *ctl)
{
    uint64_t seconds = 0, at_once = 1;
    if (!option_number(ctl, "wait", 1, 10000000, &seconds) || !option_number(ctl, "at-once", 1, 64, &at_once))
        return EXIT_USAGE;
    int code = each_node(ctl, ADMIN_NODE_DRAIN, "is drained: new programs go elsewhere");
    int stays = EXIT_FINE;
    for (int i = 0; !code && option_count(ctl, "move") && i < ctl->argc; i++) {
        int moved = move_programs_away(ctl, ctl->argv[i], (size_t)at_once);
        stays = stays ? stays : moved;
    }
    if (code || !seconds)
        return code ? code : stays;
    code = wait_until_empty(ctl, seconds);
    if (!code)
        report(ctl, NULL, "no program runs there");
    return code;
}

int command_node_undrain(struct flytctl *ctl)
{
    return each_node(ctl, ADMIN_NODE_UNDRAIN, "is used again");
}

int command_node_remove(struct flytctl *ctl)
{
    return each_node(ctl, ADMIN_NODE_REMOVE, "removed");
}

int command_server_list(struct flytctl *ctl) { return list_kind(ctl, "server"); }

int command_server_stop(struct flytctl *ctl)
{
    int worst = EXIT_FINE;
    for (int i = 0; i < ctl->argc; i++) {
        admin_server_stop_args args = { .force = option_count(ctl, "force") > 0 };
        if (!parse_id(ctl, ctl->argv[i], &args.id))
            return EXIT_USAGE;
        look_with(ctl, "flytctl server list");
        int code = ask_plain(ctl, ADMIN_SERVER_STOP, &args, "GPU server %s is being stopped", ctl->argv[i]);
        worst = worst ? worst : code;
    }
    return worst;
}

int command_program_list(struct flytctl *ctl) { return list_kind(ctl, "program"); }

int command_program_kill(struct flytctl *ctl)
{
    int worst = EXIT_FINE;
    for (int i = 0; i < ctl->argc; i++) {
        admin_program_args args;
        if (!parse_id(ctl, ctl->argv[i], &args.id))
            return EXIT_USAGE;
        look_with(ctl, "flytctl program list");
        int code = ask_plain(ctl, ADMIN_PROGRAM_KILL, &args, "program %s is being ended", ctl->argv[i]);
        worst = worst ? worst : code;
    }
    return worst;
}
