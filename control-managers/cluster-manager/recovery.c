/*
 * recovery.c: programs that survive the loss of their GPU server. Their library does it (docs/elastic.md, "Recovery");
 * here it hears what its VM is entitled to, and what became of it is kept for listings and events: what can be true,
 * and only so much of it, since programs may say anything.
 */
#include "control-managers/cluster-manager/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/recovery_wish.h"

/* Events of that about one VM: at once, and per second from then on. */
enum { VM_RECOVERIES = 32, VM_RECOVERIES_PER_SECOND = 1 };

bool recovery_wish_valid(const char *wish)
{
    struct recovery_wish wanted;
    return recovery_wish_parse(wish, &wanted);
}

static struct program *named(struct conn *conn, uint64_t key)
{
    struct vm *vm = client_vm_of(conn);
    return vm ? map_get_id(&vm->by_key, key) : NULL;
}

void client_handle_recovery(struct conn *conn, struct loop_call *call, void *object)
{
    const client_recovery_args *args = object;
    struct program *program = named(conn, args->key);
    static char nothing[1], unknown[] = "there is no such program";
    ctl_recovery_result result = { .status = { CTL_NOT_FOUND, unknown }, .wish = nothing };
    if (program)
        result = (ctl_recovery_result){ .status = { CTL_OK, nothing }, .wish = program->vm->row.recovery };
    call_reply(call, &result);
}

static void say(struct program *program, const ctl_recovery *recovery)
{
    struct event_about which = { .vm = program->vm->row.name, .program = program->id };
    if (program->server) {
        which.node = program->server->row.node;
        which.server = program->server->row.id;
    }
    switch (recovery->state) {
    case CTL_RECOVERY_UNPROTECTED:
        cluster_event(program->cluster, ADMIN_WARNING, "program-unprotected", &which, "%.200s (pid %u): %.600s",
                      program->executable, program->pid, recovery->why);
        break;
    case CTL_RECOVERY_RECOVERED:
        cluster_event(program->cluster, ADMIN_WARNING, "program-recovered", &which,
                      "%.200s (pid %u) goes on after the loss of its GPU server: after %llu ms, with %llu bytes of its"
                      " journal repeated",
                      program->executable, program->pid, (unsigned long long)(recovery->outage_us / 1000),
                      (unsigned long long)recovery->bytes);
        break;
    case CTL_RECOVERY_FAILED:
        cluster_event(program->cluster, ADMIN_ERROR, "recovery-failed", &which, "%.200s (pid %u): %.600s",
                      program->executable, program->pid, recovery->why);
        break;
    case CTL_RECOVERY_OFF:
    case CTL_RECOVERY_PROTECTED: break;
    }
}

/* Whether the program can have come to that. */
static bool possible(const struct program *program, const ctl_recovery *recovery)
{
    const bool lost = program->shaken || program->state == ADMIN_PROGRAM_LOST;
    return recovery->state <= CTL_RECOVERY_FAILED && (recovery->state < CTL_RECOVERY_RECOVERED || lost) &&
           recovery_figures_possible(recovery->outage_us, recovery->bytes);
}

static void note(struct program *program, const ctl_recovery *recovery)
{
    program->recovery = recovery->state;
    snprintf(program->recovery_why, sizeof program->recovery_why, "%s", recovery->why);
}

void client_handle_recovered(struct conn *conn, struct loop_call *call, void *object)
{
    const client_recovered_args *args = object;
    struct program *program = named(conn, args->key);
    static char nothing[1], unknown[] = "there is no such program";
    ctl_plain_result result = { .status = { program ? CTL_OK : CTL_NOT_FOUND, program ? nothing : unknown } };
    call_reply(call, &result);
    if (!program || !possible(program, &args->recovery))
        return;
    note(program, &args->recovery);
    for (struct program *other = program_has_set(program) ? program->vm->programs : NULL; other; other = other->vm_next)
        if (other->pid == program->pid && other->uid == program->uid && program_has_set(other))
            note(other, &args->recovery); /* a part of it */
    if (args->recovery.state > CTL_RECOVERY_PROTECTED &&
        rate_passes(&program->vm->recoveries, VM_RECOVERIES, VM_RECOVERIES_PER_SECOND))
        say(program, &args->recovery);
}
