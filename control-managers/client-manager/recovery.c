/*
 * recovery.c: between a program's library, which makes its session again after the loss of its GPU server, and the
 * cluster manager, which knows whether it is to, and keeps what became of it. Both are only handed on. Where programs
 * keep what they need for it is this machine's configuration.
 */
#include "control-managers/client-manager/manager.h"

#include <stdlib.h>
#include <string.h>

#include "control-managers/common/link.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"

enum { CALL_MS = CTL_CALL_SECONDS * 1000 };

static char nothing[1];

/* The wish; NULL: nobody says, and the program is not protected. */
static void answer(struct client_program *program, char *wish)
{
    static char away[] = "the cluster manager does not say";
    const ctl_recovery_result result = { .status = { wish ? CTL_OK : CTL_LOST, wish ? nothing : away },
                                         .wish = wish ? wish : nothing };
    struct loop_call *call = program->asks_recovery;
    program->asks_recovery = NULL;
    if (call)
        call_reply(call, &result);
}

/* Calls name their program by its key: the program may be gone when the answer comes. */
struct asked_recovery {
    struct manager *manager;
    uint64_t key;
};

static void answered(void *context, int error, const char *why, void *object)
{
    const ctl_recovery_result *result = object;
    struct asked_recovery asked = *(struct asked_recovery *)context;
    struct client_program *program = program_find(asked.manager, asked.key);
    (void)why;
    free(context);
    if (program)
        answer(program, error || result->status.code != CTL_OK ? NULL : result->wish);
}

void recovery_handle_asked(struct conn *conn, struct loop_call *call, void *object)
{
    struct client_program *program = program_of(conn);
    char error[EXPLAIN_SIZE];
    (void)object;
    if (!program || program->asks_recovery) {
        call_refuse(call);
        return;
    }
    struct manager *manager = program->manager;
    program->asks_recovery = call;
    client_recovery_args args = { .key = program->key };
    struct asked_recovery *asked = manager->registered && manager->takes_recovery ? malloc(sizeof *asked) : NULL;
    if (asked) {
        *asked = (struct asked_recovery){ manager, program->key };
        if (link_call(manager->link, CLIENT_RECOVERY, &args, CALL_MS, answered, asked, error) == 0)
            return;
        free(asked);
    }
    answer(program, NULL);
}

static void told(void *context, int error, const char *why, void *object)
{
    const ctl_plain_result *result = object;
    (void)context;
    if (error || result->status.code != CTL_OK)
        log_debug("event=recovery-not-told why=\"%s\"", error ? why : result->status.text);
}

void cluster_tell_recovery(struct client_program *program)
{
    struct manager *manager = program->manager;
    char error[EXPLAIN_SIZE];
    client_recovered_args args = { .key = program->key, .recovery = program->recovery };
    args.recovery.why = program->recovery_why;
    if (program->recovery.state == CTL_RECOVERY_OFF || program->ended || !manager->registered ||
        !manager->takes_recovery)
        return;
    if (link_call(manager->link, CLIENT_RECOVERED, &args, CALL_MS, told, NULL, error) != 0)
        log_debug("event=recovery-not-told why=\"%s\"", error);
}

void recovery_handle_told(struct conn *conn, struct loop_call *call, void *object)
{
    const ctl_recovery *recovery = object;
    struct client_program *program = program_of(conn);
    ctl_plain_result result = { .status = { CTL_OK, nothing } };
    if (!program) {
        call_refuse(call);
        return;
    }
    program->recovery = *recovery;
    snprintf(program->recovery_why, sizeof program->recovery_why, "%s", recovery->why);
    call_reply(call, &result);
    if (recovery->state > CTL_RECOVERY_PROTECTED)
        log_warning("event=recovery program=%llu pid=%u state=%d outage_ms=%llu why=\"%s\"",
                    (unsigned long long)program->key, program->pid, (int)recovery->state,
                    (unsigned long long)(recovery->outage_us / 1000), program->recovery_why);
    cluster_tell_recovery(program);
}

void recovery_handle_store(struct conn *conn, struct loop_call *call, void *object)
{
    const struct client_program *program = program_of(conn);
    (void)object;
    if (!program) {
        call_refuse(call);
        return;
    }
    const struct manager_config *config = program->manager->config;
    const program_store_result result = { .status = { CTL_OK, nothing }, .folder = config->store,
                                          .journal = config->journal };
    call_reply(call, &result);
}
