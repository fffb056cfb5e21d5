/*
 * recovery.c: between a program's library, which makes its session again after the loss of its GPU server, and the
 * cluster manager, which knows whether it is to, and keeps what became of it. Both are only handed on; of what became
 * of it, what can be true, and no more than a program that loses its server again and again has to say. Where programs
 * keep what they need for it is this machine's configuration.
 */
#include "control-managers/client-manager/manager.h"

#include <stdlib.h>
#include <string.h>

#include "control-managers/common/link.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"
#include "cpu/common/recovery_wish.h"

enum { CALL_MS = CTL_CALL_SECONDS * 1000, REPORTS = 8, MINUTE_MS = 60000 };

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

/* Whether the program may say so. If not, why. Programs without the VM's right to it may make their sessions again, too
   (FLYT_RECOVERY), so that does not count here. */
static ctl_status judged(struct client_program *program, const ctl_recovery *recovery)
{
    static char often[] = "this program has said so too often: try again in a minute",
                unheard[] = "this program's GPU server was not lost", figures[] = "these figures cannot be true";
    const uint64_t now = loop_now(program->manager->loop);
    if (recovery->state >= CTL_RECOVERY_RECOVERED && !program->shaken)
        return (ctl_status){ CTL_DENIED, unheard };
    if (!recovery_figures_possible(recovery->outage_us, recovery->bytes))
        return (ctl_status){ CTL_INVALID, figures };
    if (!program->reports || now - program->reports_since >= MINUTE_MS) {
        program->reports_since = now;
        program->reports = 0;
    }
    if (program->reports >= REPORTS)
        return (ctl_status){ CTL_BUSY, often };
    program->reports++;
    return (ctl_status){ CTL_OK, nothing };
}

void recovery_handle_told(struct conn *conn, struct loop_call *call, void *object)
{
    const ctl_recovery *recovery = object;
    struct client_program *program = program_of(conn);
    if (!program) {
        call_refuse(call);
        return;
    }
    const ctl_plain_result result = { .status = judged(program, recovery) };
    call_reply(call, &result);
    if (result.status.code != CTL_OK)
        return;
    program->recovery = *recovery;
    snprintf(program->recovery_why, sizeof program->recovery_why, "%s", recovery->why);
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
