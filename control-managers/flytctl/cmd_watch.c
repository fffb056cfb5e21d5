/* cmd_watch.c: the cluster as it is, and what changes it as a whole. Live pictures are in top.c, events in events.c. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "control-managers/flytctl/flytctl.h"

static const struct column status_fields[] = {
    { "Cluster", "cluster", COLUMN_TEXT, NULL, 0 },
    { "Software", "software", COLUMN_TEXT, NULL, 0 },
    { "Started", "started", COLUMN_AGO, NULL, 0 },
    { "Resource DB", "db", COLUMN_TEXT, NULL, 0 },
    { "Resource DB is up", "db_up", COLUMN_YES, NULL, 0 },
    { "Resource DB says", "db_text", COLUMN_TEXT, NULL, 0 },
    { "Placement", "policy", COLUMN_TEXT, NULL, 0 },
    { "TLS", "tls", COLUMN_YES, NULL, 0 },
    { "Without TLS", "unencrypted", COLUMN_NUMBER, NULL, 0 },
    { "Nodes up", "nodes_up", COLUMN_PART, "nodes", 0 },
    { "GPUs ready", "gpus_ready", COLUMN_PART, "gpus", 0 },
    { "SMs used", "sms_used", COLUMN_PART, "sms", 0 },
    { "Memory used", "memory_used", COLUMN_PART_SIZE, "memory", 0 },
    { "VMs connected", "vms_connected", COLUMN_PART, "vms", 0 },
    { "GPU servers", "servers", COLUMN_NUMBER, NULL, 0 },
    { "Programs", "programs", COLUMN_NUMBER, NULL, 0 },
    { "Programs waiting", "waiting", COLUMN_NUMBER, NULL, 0 },
    { "Programs moving", "moves_under_way", COLUMN_NUMBER, NULL, 0 },
    { "Moves done", "moves_moved_total", COLUMN_PART, "moves_begun_total", 0 },
    { "Moves failed", "moves_failed_total", COLUMN_NUMBER, NULL, 0 },
    { "Moved in all", "moves_bytes_total", COLUMN_SIZE, NULL, 0 },
};

const struct option_row status_options[] = {
    { "wait", 'w', "SECONDS", "until the cluster manager serves, at most this long; for scripts that start it", false },
    { "check", 'c', NULL, "for monitoring: one line; exit status 0 ok, 1 warning, 2 critical, 3 unknown", false },
    { 0 },
};

/* The exit status that flytctl status would have now. A process of its own finds out, and prints nothing. */
static int status_now(struct flytctl *ctl)
{
    admin_status_result result;
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        _exit(ask(ctl, ADMIN_STATUS, NULL, &result));
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return EXIT_FAILED;
    return WEXITSTATUS(status);
}

/* What is wrong for good is left to the command itself to say. */
static void wait_until_it_serves(struct flytctl *ctl, uint64_t seconds)
{
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += (time_t)seconds;
    for (;;) {
        int code = status_now(ctl);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((code != EXIT_UNREACHABLE && code != EXIT_DB_AWAY) || now.tv_sec > end.tv_sec ||
            (now.tv_sec == end.tv_sec && now.tv_nsec >= end.tv_nsec))
            return;
        nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
    }
}

int command_status(struct flytctl *ctl)
{
    admin_status_result result;
    uint64_t seconds = 0;
    if (!option_number(ctl, "wait", 1, 3600, &seconds))
        return EXIT_USAGE;
    if (seconds)
        wait_until_it_serves(ctl, seconds);
    if (option_count(ctl, "check"))
        return status_check(ctl);
    int code = ask(ctl, ADMIN_STATUS, NULL, &result);
    if (code)
        return code;
    json_t *row = row_status(&result);
    protocol_free((xdrproc_t)xdr_admin_status_result, &result);
    return print_object(ctl, row, status_fields, COUNT(status_fields));
}

static const struct column whoami_fields[] = {
    { "Cluster", "cluster", COLUMN_TEXT, NULL, 0 },
    { "Name", "name", COLUMN_TEXT, NULL, 0 },
    { "Role", "role", COLUMN_TEXT, NULL, 0 },
    { "The role may", "may", COLUMN_TEXT, NULL, 0 },
    { "Known by", "known_by", COLUMN_TEXT, NULL, 0 },
    { "Encrypted", "encrypted", COLUMN_YES, NULL, 0 },
};

int command_whoami(struct flytctl *ctl)
{
    admin_whoami_result result;
    int code = ask(ctl, ADMIN_WHOAMI, NULL, &result);
    if (code)
        return code;
    json_t *row = row_whoami(&result);
    protocol_free((xdrproc_t)xdr_admin_whoami_result, &result);
    return print_object(ctl, row, whoami_fields, COUNT(whoami_fields));
}

int command_key_rotate(struct flytctl *ctl)
{
    look_with(ctl, "flytctl events --kind key-changed");
    return ask_plain(ctl, ADMIN_KEY_ROTATE, NULL, "tickets are signed with a new key");
}

/* What is wrong with the configuration is no wrong use of this command. */
int command_reload(struct flytctl *ctl)
{
    ctl_plain_result result;
    look_with(ctl, "flytctl events --kind reloaded");
    int code = ask_raw(ctl, ADMIN_RELOAD, NULL, &result);
    if (code)
        return code;
    if (result.status.code == CTL_OK)
        report(ctl, NULL, "the configuration was read again: %s", result.status.text);
    else if (result.status.code == CTL_INVALID)
        code = complain(ctl, EXIT_BAD_CONFIG, "%s", result.status.text);
    else
        code = complain_status(ctl, &result.status);
    protocol_free((xdrproc_t)xdr_ctl_plain_result, &result);
    return code;
}
