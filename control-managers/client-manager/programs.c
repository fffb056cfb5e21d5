/*
 * programs.c: the programs of this VM: what they wait for and are answered, and their ends. What they ask comes in by
 * visitors.c.
 *
 * A program connects, says HELLO, attaches, and keeps its connection; when that ends, the program has ended, or has
 * executed another one, and what it held is given back. Programs of before our restart have no connection; their
 * process is watched instead.
 *
 * Of a program at most one call waits. PROGRAM_ATTACH and PROGRAM_WAIT are answered when there is something to say,
 * at the latest after CTL_BEAT_SECONDS, so a program always knows that we are there.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/client-manager/manager.h"
#include "cpu/common/log.h"

enum { KILL_MS = 5000 };

/* ---- answering ---- */

static void reply(struct client_program *program)
{
    struct loop_call *call = program->waiting;
    loop_timer_stop(&program->beat);
    program->waiting = NULL;
    program->news = false;
    call_reply(call, &program->answer);
}

static void beat(struct loop_timer *timer, void *context)
{
    struct client_program *program = context;
    (void)timer;
    if (program->waiting)
        reply(program);
}

void program_hold_call(struct client_program *program, struct loop_call *call, unsigned ms)
{
    if (program->waiting)
        reply(program);
    program->waiting = call;
    if (program->news)
        reply(program);
    else
        loop_timer_start(program->manager->loop, &program->beat, ms, beat, program);
}

void program_set_answer(struct client_program *program, const program_answer *answer)
{
    program_answer copy;
    if (!protocol_copy((xdrproc_t)xdr_program_answer, &copy, sizeof copy, answer)) {
        log_error("event=answer-lost program=%llu why=\"no memory, or an answer that breaks the protocol\"",
                  (unsigned long long)program->key);
        return;
    }
    protocol_free((xdrproc_t)xdr_program_answer, &program->answer);
    program->answer = copy;
    program->news = true;
    program->renew = false;
    if (program->waiting)
        reply(program);
}

void program_tell(struct client_program *program, ctl_code code, const char *text, unsigned position)
{
    const program_answer answer = { .status = { code, (char *)(uintptr_t)text }, .position = position };
    if (code > CTL_WAITING && program->held) {
        program->state = PROGRAM_RUNNING; /* it goes on with the one that it has */
        program->server = program->held;
    } else if (code > CTL_WAITING) {
        program->state = PROGRAM_REFUSED;
    }
    program->held = code == CTL_WAITING ? program->held : 0;
    program_set_answer(program, &answer);
}

/* With certificates a program's data do not travel in the clear either: such addresses are left out. false: none is
   left. */
bool program_safe_addresses(const struct manager *manager, const ctl_grant *given, ctl_grant *grant,
                            ctl_uri uris[CTL_MAX_ADDRESSES])
{
    *grant = *given;
    if (!manager->tls || manager->config->plain_servers)
        return true;
    grant->addresses.addresses_val = uris;
    grant->addresses.addresses_len = 0;
    for (u_int i = 0; i < given->addresses.addresses_len; i++) {
        ctl_uri uri = given->addresses.addresses_val[i];
        if (strncmp(uri, "tls://", 6) == 0 || strncmp(uri, "unix://", 7) == 0)
            uris[grant->addresses.addresses_len++] = uri;
    }
    return grant->addresses.addresses_len > 0 || given->addresses.addresses_len == 0;
}

/* A server that this VM must not use: the cluster manager is asked for one of another node, once. */
static bool seek_other(struct client_program *program, uint64_t server, const char *why)
{
    if (program->unreached == server || cluster_unreached(program, server, true, why) != 0)
        return false;
    program->unreached = server;
    program_tell(program, CTL_WAITING, why, 0);
    return true;
}

void program_answered(struct client_program *program, const client_answer *given)
{
    program_answer answer = { .status = given->status, .position = given->position };
    ctl_uri uris[CTL_MAX_ADDRESSES];
    char text[CTL_MAX_TEXT + 1];
    program->id = given->prog ? given->prog : program->id;
    loop_timer_stop(&program->away);
    if (program->server == CLIENT_SUSPENDED)
        return; /* a server comes with an order (moves.c) */
    bool uses_it = program->state == PROGRAM_RUNNING && program->server == given->grant.server;
    if (uses_it) {
        answer.grant = given->grant; /* it began before this VM had certificates */
    } else if (!program_safe_addresses(program->manager, &given->grant, &answer.grant, uris)) {
        snprintf(text, sizeof text,
                 "the GPU server on node %s takes no TLS, and this VM has certificates: set virt-server.tls of"
                 " that node to \"on\", or tls.plain-servers of this VM's client manager to true",
                 given->grant.node);
        if (seek_other(program, given->grant.server, text))
            return;
        log_warning("event=program-refused program=%llu pid=%u why=\"%s\"", (unsigned long long)program->key,
                    program->pid, text);
        program_tell(program, CTL_DENIED, text, 0);
        return;
    }
    if (given->status.code == CTL_OK && given->grant.sharing >= CTL_GRANT_PARTS && program->minor < CTL_MINOR_PARTS) {
        snprintf(text, sizeof text, "the GPUs of this VM's programs are of several nodes, which this program's library,"
                 " of an earlier release or libflyt-coordinator, does not know");
        log_warning("event=program-refused program=%llu pid=%u why=\"%s\"", (unsigned long long)program->key,
                    program->pid, text);
        program_tell(program, CTL_VERSION, text, 0);
        return;
    }
    if (given->status.code == CTL_OK) {
        bool first = program->state != PROGRAM_RUNNING || program->server != given->grant.server;
        program->state = PROGRAM_RUNNING;
        program->server = given->grant.server;
        program->held = 0;
        program->removed = false;
        if (first) {
            log_info("event=program-granted program=%llu pid=%u server=%llu node=%s sms=%u memory=%llu",
                     (unsigned long long)program->key, program->pid, (unsigned long long)program->server,
                     given->grant.node, given->grant.sms, (unsigned long long)given->grant.memory);
            state_save(program->manager);
        }
    } else if (given->status.code == CTL_WAITING) {
        log_info("event=program-waiting program=%llu pid=%u position=%u why=\"%s\"", (unsigned long long)program->key,
                 program->pid, given->position, given->status.text);
        if (program->state == PROGRAM_RUNNING)
            return;                     /* its ticket comes */
    } else {
        log_warning("event=program-refused program=%llu pid=%u why=\"%s\"", (unsigned long long)program->key,
                    program->pid, given->status.text);
        program->state = PROGRAM_REFUSED;
        program->held = 0;
    }
    program_set_answer(program, &answer);
}

/* ---- asking ---- */

void program_describe_asked(const struct manager *manager, char text[CTL_MAX_TEXT + 1])
{
    snprintf(text, CTL_MAX_TEXT + 1,
             "the cluster manager at %s was asked and has not answered yet. Is it stopped or overloaded?",
             manager->where);
}

static void give_up(struct loop_timer *timer, void *context)
{
    struct client_program *program = context;
    char text[CTL_MAX_TEXT + 1];
    (void)timer;
    if (program->state != PROGRAM_ASKING)
        return;
    if (program->manager->registered)
        program_describe_asked(program->manager, text);
    else
        program_describe_away(program->manager, text);
    program_tell(program, CTL_LOST, text, 0);
}

/* From when on it asks, whatever becomes of the connection. at_most: ms, where it was not to wait. */
static void limit_asking(struct client_program *program, uint64_t at_most)
{
    const struct manager *manager = program->manager;
    double seconds = program->wait == CLIENT_WAIT_NO ? 0
                     : program->own_wait             ? program->wait_ms / 1000.0
                                                     : manager->config->away_timeout;
    if (!loop_timer_running(&program->away))
        loop_timer_start(manager->loop, &program->away, seconds > 0 ? (uint64_t)(seconds * 1000) : at_most, give_up,
                         program);
}

/* Waiting for what will not come by itself is of no use: the program is refused; otherwise it learns why it waits. */
static void tell_away(struct client_program *program)
{
    const struct manager *manager = program->manager;
    char text[CTL_MAX_TEXT + 1];
    program_describe_away(manager, text);
    if (manager->lasts) {
        loop_timer_stop(&program->away);
        log_warning("event=program-refused program=%llu pid=%u why=\"%s\"", (unsigned long long)program->key,
                    program->pid, text);
        program_tell(program, CTL_DENIED, text, 0);
        return;
    }
    if (program->wait == CLIENT_WAIT_NO)
        loop_timer_stop(&program->away);
    limit_asking(program, 0);
    if (!program->answer.status.text || strcmp(program->answer.status.text, text) != 0)
        program_tell(program, CTL_WAITING, text, 0);
}

void programs_away(struct manager *manager)
{
    for (struct client_program *program = manager->programs; program; program = program->next)
        if (program->state == PROGRAM_ASKING && !program->ended && !program->sent)
            tell_away(program);
}

void program_ask(struct client_program *program)
{
    struct manager *manager = program->manager;
    if (program->sent)
        return;
    if (cluster_request(program) == 0) {
        program->sent = true;
        limit_asking(program, CTL_CALL_SECONDS * 1000);
        return;
    }
    if (manager->lasts)
        link_retry_now(manager->link); /* it may have been corrected since: the outcome is known in a moment */
    else
        tell_away(program);
}

/* ---- ends ---- */

void program_free(struct client_program *program)
{
    struct manager *manager = program->manager;
    struct client_program **at = &manager->programs;
    while (*at && *at != program)
        at = &(*at)->next;
    if (*at)
        *at = program->next;
    loop_timer_stop(&program->beat);
    loop_timer_stop(&program->away);
    loop_timer_stop(&program->kill);
    move_forget(program);
    process_close(&program->process);
    protocol_free((xdrproc_t)xdr_program_answer, &program->answer);
    free(program);
}

void program_gone(struct client_program *program)
{
    if (program->ended)
        return;
    log_info("event=program-ended program=%llu pid=%u server=%llu executable=%s", (unsigned long long)program->key,
             program->pid, (unsigned long long)program->server, program->executable);
    program->ended = true;
    group_left(program, "it has ended");
    program->conn = NULL;
    program->waiting = NULL;
    loop_timer_stop(&program->beat);
    loop_timer_stop(&program->away);
    loop_timer_stop(&program->kill);
    move_forget(program);
    process_close(&program->process);
    state_save(program->manager);
    cluster_tell_ends(program->manager);
}

static void process_ended(void *context) { program_gone(context); }

void program_watch(struct client_program *program)
{
    if (process_watch(program->manager->loop, &program->process, process_ended, program) != 0)
        log_debug("event=end-not-watched program=%llu why=\"the kernel does not report it\"",
                  (unsigned long long)program->key);
}

static void look(struct loop_timer *timer, void *context)
{
    struct manager *manager = context;
    for (struct client_program *program = manager->programs; program; program = program->next)
        if (!program->ended && !program->conn && !program->process.watch && !process_alive(&program->process))
            program_gone(program);
    loop_timer_start(manager->loop, timer, (uint64_t)(manager->config->monitor_period * 1000), look, manager);
}

void programs_monitor(struct manager *manager) { look(&manager->monitor, manager); }

static void kill_late(struct loop_timer *timer, void *context)
{
    struct client_program *program = context;
    (void)timer;
    if (!program->ended)
        process_signal(&program->process, SIGKILL);
}

void program_terminate(struct client_program *program, const char *why)
{
    log_warning("event=program-terminated program=%llu pid=%u why=\"%s\"", (unsigned long long)program->key,
                program->pid, why);
    char text[CTL_MAX_TEXT + 1];
    snprintf(text, sizeof text, "an administrator has ended this program: %.800s", why);
    const program_answer ended = { .status = { CTL_DENIED, text } };
    program_set_answer(program, &ended);        /* it asks when it loses its GPU server */
    int failure = process_signal(&program->process, SIGTERM);
    if (failure)
        log_error("event=program-not-terminated program=%llu pid=%u why=\"%s\"", (unsigned long long)program->key,
                  program->pid, strerror(-failure));
    else
        loop_timer_start(program->manager->loop, &program->kill, KILL_MS, kill_late, program);
}
