/*
 * programs.c: the programs of this VM.
 *
 * A program connects, says HELLO, attaches, and keeps its connection; when that ends, the program has ended, or has
 * executed another one, and what it held is given back. Who it is we know from the kernel (the socket's credentials),
 * not from what it says. Programs of before our restart have no connection; their process is watched instead.
 *
 * Of a program at most one call waits. PROGRAM_ATTACH and PROGRAM_WAIT are answered when there is something to say,
 * at the latest after CTL_BEAT_SECONDS, so a program always knows that we are there.
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/client-manager/manager.h"
#include "control-managers/common/daemon.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"

/* The first beat is early: a program informs its user after two seconds what it waits for. */
enum {
    BEAT_MS = CTL_BEAT_SECONDS * 1000,
    FIRST_BEAT_MS = 500,
    KILL_MS = 5000,
    MAX_PROGRAMS = CTL_MAX_PROGRAMS,
    MAX_CONNECTIONS = 4096
};

/* ---- answering ---- */

static void reply(struct program *program)
{
    struct loop_call *call = program->waiting;
    loop_timer_stop(&program->beat);
    program->waiting = NULL;
    program->news = false;
    call_reply(call, &program->answer);
}

static void beat(struct loop_timer *timer, void *context)
{
    struct program *program = context;
    (void)timer;
    if (program->waiting)
        reply(program);
}

static void hold_call(struct program *program, struct loop_call *call, unsigned ms)
{
    if (program->waiting)
        reply(program);
    program->waiting = call;
    if (program->news)
        reply(program);
    else
        loop_timer_start(program->manager->loop, &program->beat, ms, beat, program);
}

static void set_answer(struct program *program, const program_answer *answer)
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

void program_tell(struct program *program, ctl_code code, const char *text, unsigned position)
{
    const program_answer answer = { .status = { code, (char *)(uintptr_t)text }, .position = position };
    if (code > CTL_WAITING && program->held) {
        program->state = PROGRAM_RUNNING; /* it goes on with the one that it has */
        program->server = program->held;
    } else if (code > CTL_WAITING) {
        program->state = PROGRAM_REFUSED;
    }
    program->held = code == CTL_WAITING ? program->held : 0;
    set_answer(program, &answer);
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
static bool seek_other(struct program *program, uint64_t server, const char *why)
{
    if (program->unreached == server || cluster_unreached(program, server, true, why) != 0)
        return false;
    program->unreached = server;
    program_tell(program, CTL_WAITING, why, 0);
    return true;
}

void program_answered(struct program *program, const client_answer *given)
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
    set_answer(program, &answer);
}

/* ---- asking ---- */

/* What the program's user reads while it waits, or when it is refused. */
static void describe_asked(const struct manager *manager, char text[CTL_MAX_TEXT + 1])
{
    snprintf(text, CTL_MAX_TEXT + 1,
             "the cluster manager at %s was asked and has not answered yet. Is it stopped or overloaded?",
             manager->where);
}

static void give_up(struct loop_timer *timer, void *context)
{
    struct program *program = context;
    char text[CTL_MAX_TEXT + 1];
    (void)timer;
    if (program->state != PROGRAM_ASKING)
        return;
    if (program->manager->registered)
        describe_asked(program->manager, text);
    else
        program_describe_away(program->manager, text);
    program_tell(program, CTL_LOST, text, 0);
}

/* From when on it asks, whatever becomes of the connection. at_most: ms, where it was not to wait. */
static void limit_asking(struct program *program, uint64_t at_most)
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
static void tell_away(struct program *program)
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
    for (struct program *program = manager->programs; program; program = program->next)
        if (program->state == PROGRAM_ASKING && !program->ended && !program->sent)
            tell_away(program);
}

void program_ask(struct program *program)
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

void program_free(struct program *program)
{
    struct manager *manager = program->manager;
    struct program **at = &manager->programs;
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

static void program_gone(struct program *program)
{
    if (program->ended)
        return;
    log_info("event=program-ended program=%llu pid=%u server=%llu executable=%s", (unsigned long long)program->key,
             program->pid, (unsigned long long)program->server, program->executable);
    program->ended = true;
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

void program_watch(struct program *program)
{
    if (process_watch(program->manager->loop, &program->process, process_ended, program) != 0)
        log_debug("event=end-not-watched program=%llu why=\"the kernel does not report it\"",
                  (unsigned long long)program->key);
}

static void look(struct loop_timer *timer, void *context)
{
    struct manager *manager = context;
    for (struct program *program = manager->programs; program; program = program->next)
        if (!program->ended && !program->conn && !program->process.watch && !process_alive(&program->process))
            program_gone(program);
    loop_timer_start(manager->loop, timer, (uint64_t)(manager->config->monitor_period * 1000), look, manager);
}

void programs_monitor(struct manager *manager) { look(&manager->monitor, manager); }

static void kill_late(struct loop_timer *timer, void *context)
{
    struct program *program = context;
    (void)timer;
    if (!program->ended)
        process_signal(&program->process, SIGKILL);
}

void program_terminate(struct program *program, const char *why)
{
    log_warning("event=program-terminated program=%llu pid=%u why=\"%s\"", (unsigned long long)program->key,
                program->pid, why);
    char text[CTL_MAX_TEXT + 1];
    snprintf(text, sizeof text, "an administrator has ended this program: %.800s", why);
    const program_answer ended = { .status = { CTL_DENIED, text } };
    set_answer(program, &ended);        /* it asks when it loses its GPU server */
    int failure = process_signal(&program->process, SIGTERM);
    if (failure)
        log_error("event=program-not-terminated program=%llu pid=%u why=\"%s\"", (unsigned long long)program->key,
                  program->pid, strerror(-failure));
    else
        loop_timer_start(program->manager->loop, &program->kill, KILL_MS, kill_late, program);
}

/* ---- connections ---- */

static bool same_user(const char *item, uid_t uid)
{
    char *end;
    unsigned long number = strtoul(item, &end, 10);
    if (*item && !*end)
        return number == uid;
    const struct passwd *entry = getpwnam(item);
    return entry && entry->pw_uid == uid;
}

static enum hello_verdict identify(struct conn *conn, const ctl_hello_args *args, uint8_t *stored, char *text)
{
    const struct manager_visitor *visitor = conn_context(conn);
    const struct config_strings *users = &visitor->manager->config->users;
    pid_t pid;
    uid_t uid;
    gid_t gid;
    (void)stored;
    if (args->role != CTL_ROLE_PROGRAM) {
        explain(text, 0, "this socket is for programs");
        return HELLO_REFUSED;
    }
    if (!conn_peer_credentials(conn, &pid, &uid, &gid)) {
        explain(text, 0, "the kernel does not say which user you are");
        return HELLO_REFUSED;
    }
    bool allowed = !users->count || uid == 0;
    for (size_t i = 0; !allowed && i < users->count; i++)
        allowed = same_user(users->items[i], uid);
    if (allowed)
        return HELLO_TRUSTED;
    log_warning("event=denied pid=%d uid=%u why=\"not in ipc.users\"", (int)pid, (unsigned)uid);
    explain(text, 0, "user %u may not use this VM's GPUs (ipc.users in the client manager's configuration)",
            (unsigned)uid);
    return HELLO_REFUSED;
}

static struct hello *hello_of(struct conn *conn) { return &((struct manager_visitor *)conn_context(conn))->hello; }

static ctl_code accepted(struct conn *conn, const struct hello *hello, char *text)
{
    (void)conn;
    (void)hello;
    (void)text;
    return CTL_OK;
}

static const struct hello_policy *policy_of_all(void)
{
    static struct hello_policy policy = { .of = hello_of, .identify = identify, .accepted = accepted };
    policy.software = daemon_software();
    return &policy;
}

static void handle_hello(struct conn *conn, struct loop_call *call, void *args)
{
    hello_handle_hello(policy_of_all(), conn, call, args);
}
static void handle_auth(struct conn *conn, struct loop_call *call, void *args)
{
    hello_handle_auth(policy_of_all(), conn, call, args);
}
static void handle_prove(struct conn *conn, struct loop_call *call, void *args)
{
    hello_handle_prove(policy_of_all(), conn, call, args);
}

static struct program *create(struct manager *manager, struct conn *conn, const program_attach_args *args)
{
    pid_t pid = 0;
    uid_t uid = (uid_t)-1;
    gid_t gid;
    size_t count = 0;
    for (const struct program *at = manager->programs; at; at = at->next)
        count++;
    struct program *program = count < MAX_PROGRAMS ? calloc(1, sizeof *program) : NULL;
    if (!program)
        return NULL;
    conn_peer_credentials(conn, &pid, &uid, &gid);
    *program = (struct program){ .manager = manager,
                                 .next = manager->programs,
                                 .key = manager->next_key++,
                                 .conn = conn,
                                 .uid = uid,
                                 .pid = (uint32_t)(pid > 0 ? pid : 0),
                                 .process = PROCESS_NONE,
                                 .wait = args->wait,
                                 .wait_ms = args->wait_ms,
                                 .own_wait = args->wait_ms != 0 };
    snprintf(program->executable, sizeof program->executable, "%s", args->executable);
    protocol_text_clean(program->executable);
    if (process_open(pid, 0, &program->process) != 0)
        log_info("event=process-unseen program=%llu: after a restart it will be taken for ended",
                 (unsigned long long)program->key);
    if (program->wait == CLIENT_WAIT_DEFAULT && manager->config->wait == MANAGER_WAIT_FAIL)
        program->wait = CLIENT_WAIT_NO;
    if (program->wait == CLIENT_WAIT_DEFAULT && manager->config->wait == MANAGER_WAIT_IN_LINE)
        program->wait = CLIENT_WAIT_YES;
    if (!program->wait_ms)
        program->wait_ms = (uint32_t)(manager->config->wait_timeout * 1000);
    manager->programs = program;
    return program;
}

static void handle_attach(struct conn *conn, struct loop_call *call, void *object)
{
    struct manager_visitor *visitor = conn_context(conn);
    struct manager *manager = visitor->manager;
    char text[CTL_MAX_TEXT + 1];
    program_answer refusal = { .status = { CTL_INVALID, (char *)(uintptr_t)"this connection has attached already" } };
    if (visitor->program) {
        call_reply(call, &refusal);
        return;
    }
    struct program *program = create(manager, conn, object);
    if (!program) {
        refusal.status = (ctl_status){ CTL_NO_ROOM, (char *)(uintptr_t)"there are too many programs on this VM" };
        call_reply(call, &refusal);
        return;
    }
    visitor->program = program;
    program->minor = visitor->hello.minor;
    log_info("event=program-started program=%llu pid=%u uid=%u executable=%s", (unsigned long long)program->key,
             program->pid, program->uid, program->executable);
    state_save(manager);
    describe_asked(manager, text);
    const program_answer asking = { .status = { CTL_WAITING, text } };
    set_answer(program, &asking);
    program->news = false;
    hold_call(program, call, FIRST_BEAT_MS);
    program_ask(program);
}

/* The program of that id, if it is one of this process and user. */
static const struct program *lead_of(const struct manager *manager, const struct conn *conn, uint64_t id)
{
    pid_t pid;
    uid_t uid;
    gid_t gid;
    const struct program *lead = manager->programs;
    while (lead && (lead->id != id || lead->ended))
        lead = lead->next;
    return lead && id && conn_peer_credentials(conn, &pid, &uid, &gid) && lead->pid == (uint32_t)(pid > 0 ? pid : 0) &&
                   lead->uid == uid
               ? lead
               : NULL;
}

/* A further server of a program whose GPUs are of several nodes. */
static void handle_part(struct conn *conn, struct loop_call *call, void *object)
{
    const program_part_args *args = object;
    struct manager_visitor *visitor = conn_context(conn);
    const struct program *lead = visitor->program ? NULL : lead_of(visitor->manager, conn, args->lead);
    const program_attach_args attach = { .executable = args->executable, .wait = CLIENT_WAIT_NO };
    struct program *program = lead ? create(visitor->manager, conn, &attach) : NULL;
    if (!program) {
        const program_answer refusal = {
            .status = { lead ? CTL_NO_ROOM : CTL_NOT_FOUND,
                        (char *)(uintptr_t)(lead ? "there are too many programs on this VM"
                                                 : "this process has no such program") }
        };
        call_reply(call, &refusal);
        return;
    }
    visitor->program = program;
    program->minor = visitor->hello.minor;
    program->lead = lead->key;
    program->part = args->part;
    log_info("event=program-part program=%llu pid=%u lead=%llu part=%u", (unsigned long long)program->key, program->pid,
             (unsigned long long)program->lead, program->part);
    state_save(visitor->manager);
    const program_answer asking = { .status = { CTL_WAITING,
                                                (char *)(uintptr_t)"the cluster manager is asked for another of its "
                                                                   "GPU servers" } };
    set_answer(program, &asking);
    program->news = false;
    hold_call(program, call, FIRST_BEAT_MS);
    program_ask(program);
}

/* Its server is lost, and it makes its session again. */
static void ask_again(struct program *program)
{
    program->server = program->held = 0;
    program->state = PROGRAM_ASKING;
    program->sent = false;
    program_tell(program, CTL_WAITING, "another GPU server is asked for", 0);
    program->news = false;
    program_ask(program);
}

static void handle_wait(struct conn *conn, struct loop_call *call, void *object)
{
    const program_wait_args *args = object;
    struct program *program = program_of(conn);
    if (!program) {
        const program_answer refusal = { .status = { CTL_INVALID, (char *)(uintptr_t)"PROGRAM_ATTACH comes first" } };
        call_reply(call, &refusal);
        return;
    }
    if (args->renew && program->state == PROGRAM_RUNNING) {
        const program_answer asking = { .status = { CTL_WAITING,
                                                    (char *)(uintptr_t) "a new ticket is being asked for" } };
        set_answer(program, &asking);
        program->news = false;
        program->renew = true;
        if (cluster_renew(program) != 0)
            program_tell(program, CTL_LOST, "the cluster manager cannot be reached for a new ticket", 0);
    } else if (args->renew && program->state == PROGRAM_REFUSED) {
        ask_again(program);
    }
    hold_call(program, call, BEAT_MS);
}

static void handle_unreached(struct conn *conn, struct loop_call *call, void *object)
{
    const program_unreached_args *args = object;
    struct program *program = program_of(conn);
    char text[CTL_MAX_TEXT + 1];
    if (!program) {
        const program_answer refusal = { .status = { CTL_INVALID, (char *)(uintptr_t)"PROGRAM_ATTACH comes first" } };
        call_reply(call, &refusal);
        return;
    }
    log_warning("event=server-unreached program=%llu pid=%u server=%llu why=\"%s\"", (unsigned long long)program->key,
                program->pid, (unsigned long long)program->server, args->why);
    if (program->state == PROGRAM_RUNNING && program->server == args->server) {
        snprintf(text, sizeof text, "another place is looked for, since %.800s", args->why);
        program->held = program->server;
        program->server = 0;
        program->state = PROGRAM_ASKING;
        program_tell(program, CTL_WAITING, text, 0);
        program->news = false;
        if (cluster_unreached(program, args->server, false, args->why) != 0)
            program_tell(program, CTL_LOST, "the cluster manager cannot be asked for another GPU server", 0);
    }
    hold_call(program, call, BEAT_MS);
}

static void handle_transport(struct conn *conn, struct loop_call *call, void *object)
{
    const ctl_transport *args = object;
    struct program *program = program_of(conn);
    ctl_plain_result result = { .status = { CTL_OK, (char *)(uintptr_t)"" } };
    if (!program) {
        result.status = (ctl_status){ CTL_INVALID, (char *)(uintptr_t)"PROGRAM_ATTACH comes first" };
        call_reply(call, &result);
        return;
    }
    call_reply(call, &result);
    snprintf(program->mode, sizeof program->mode, "%s", args->mode);
    snprintf(program->why, sizeof program->why, "%s", args->why);
    log_info("event=program-connected program=%llu pid=%u server=%llu over=%s why=\"%s\"",
             (unsigned long long)program->key, program->pid, (unsigned long long)program->server, program->mode,
             program->why);
    cluster_tell_transport(program);
}

/* The program of this process, which we know from the state that was on disk. Of several, which are its parts, the one
   with that server. */
static struct program *of_before(struct manager *manager, const struct conn *conn, uint64_t server)
{
    struct program *found = NULL;
    pid_t pid;
    uid_t uid;
    gid_t gid;
    if (!conn_peer_credentials(conn, &pid, &uid, &gid))
        return NULL;
    for (struct program *program = manager->programs; program; program = program->next)
        if (!program->conn && !program->ended && program->process.pid == pid && process_alive(&program->process)) {
            if (program->server == server)
                return program;
            found = program;
        }
    return found;
}

static void handle_resume(struct conn *conn, struct loop_call *call, void *object)
{
    const program_resume_args *args = object;
    struct manager_visitor *visitor = conn_context(conn);
    ctl_plain_result result = { .status = { CTL_OK, (char *)(uintptr_t)"" } };
    struct program *program = visitor->program ? NULL : of_before(visitor->manager, conn, args->server);
    if (!program) {
        result.status = (ctl_status){ CTL_NOT_FOUND, (char *)(uintptr_t)"this program is not known here" };
        call_reply(call, &result);
        return;
    }
    visitor->program = program;
    program->conn = conn;
    program->minor = visitor->hello.minor;
    log_info("event=program-back program=%llu pid=%u server=%llu move=%llu", (unsigned long long)program->key,
             program->pid, (unsigned long long)args->server, (unsigned long long)args->move);
    if (args->server && args->server != program->server) {
        program->server = args->server;
        program->state = PROGRAM_RUNNING;
        state_save(program->manager);
    }
    call_reply(call, &result);
    move_resumed(program, args->move);
}

/* A program that was suspended somewhere, and that nobody knows here. It is watched by its process: it keeps no
   connection. */
static void handle_thawed(struct conn *conn, struct loop_call *call, void *object)
{
    struct manager_visitor *visitor = conn_context(conn);
    ctl_plain_result result = { .status = { CTL_OK, (char *)(uintptr_t)"" } };
    struct program *program = visitor->program ? NULL : create(visitor->manager, conn, object);
    if (!program) {
        result.status = (ctl_status){ CTL_NO_ROOM, (char *)(uintptr_t)"there are too many programs on this VM" };
        call_reply(call, &result);
        return;
    }
    visitor->program = program;
    program->minor = visitor->hello.minor;
    program->state = PROGRAM_RUNNING;
    program->server = CLIENT_SUSPENDED;
    log_info("event=program-thawed program=%llu pid=%u uid=%u executable=%s", (unsigned long long)program->key,
             program->pid, program->uid, program->executable);
    state_save(program->manager);
    if (cluster_thawed(program) != 0)
        log_info("event=thawed-not-told program=%llu why=\"the cluster manager is away, or of an earlier release\"",
                 (unsigned long long)program->key);
    call_reply(call, &result);
}

static void opened(struct conn *conn)
{
    struct manager_visitor *visitor = calloc(1, sizeof *visitor);
    struct manager *manager = conn_context(conn);
    conn_set_context(conn, visitor);
    if (visitor)
        visitor->manager = manager;
    else
        conn_close(conn, "no memory");
}

/* One that is suspended may keep no connection; its end is its process's. */
static bool stays_apart(struct program *program)
{
    if (program->ended || program->server != CLIENT_SUSPENDED || !process_alive(&program->process))
        return false;
    program->conn = NULL;
    if (!program->process.watch)
        program_watch(program);
    return true;
}

static void closed(struct conn *conn, int error, const char *why)
{
    struct manager_visitor *visitor = conn_context(conn);
    (void)error;
    (void)why;
    if (!visitor)
        return;
    if (visitor->program) { /* calls of this connection cannot be answered any more */
        visitor->program->waiting = NULL;
        visitor->program->asks_recovery = NULL;
        visitor->program->asks_link = NULL;
        if (!stays_apart(visitor->program))
            program_gone(visitor->program);
    }
    if (visitor->view)
        view_forget(visitor->view);
    free(visitor);
}

static const struct conn_method methods[] = {
    [CTL_HELLO] = { ~0u, handle_hello },
    [CTL_AUTH] = { ~0u, handle_auth },
    [CTL_PROVE] = { ~0u, handle_prove },
    [PROGRAM_ATTACH] = { 1u << CTL_ROLE_PROGRAM, handle_attach },
    [PROGRAM_WAIT] = { 1u << CTL_ROLE_PROGRAM, handle_wait },
    [PROGRAM_TRANSPORT] = { 1u << CTL_ROLE_PROGRAM, handle_transport },
    [PROGRAM_UNREACHED] = { 1u << CTL_ROLE_PROGRAM, handle_unreached },
    [PROGRAM_MOVE] = { 1u << CTL_ROLE_PROGRAM, move_handle_asked },
    [PROGRAM_RESUME] = { 1u << CTL_ROLE_PROGRAM, handle_resume },
    [PROGRAM_REST] = { 1u << CTL_ROLE_PROGRAM, move_handle_rest },
    [PROGRAM_THAWED] = { 1u << CTL_ROLE_PROGRAM, handle_thawed },
    [PROGRAM_SAVE] = { 1u << CTL_ROLE_PROGRAM, move_handle_save },
    [PROGRAM_MOVED] = { 1u << CTL_ROLE_PROGRAM, move_handle_moved },
    [PROGRAM_PROGRESS] = { 1u << CTL_ROLE_PROGRAM, move_handle_progress },
    [PROGRAM_STATUS] = { 1u << CTL_ROLE_PROGRAM, view_handle },
    [PROGRAM_RECOVERY] = { 1u << CTL_ROLE_PROGRAM, recovery_handle_asked },
    [PROGRAM_RECOVERED] = { 1u << CTL_ROLE_PROGRAM, recovery_handle_told },
    [PROGRAM_STORE] = { 1u << CTL_ROLE_PROGRAM, recovery_handle_store },
    [PROGRAM_LINK_OFFER] = { 1u << CTL_ROLE_PROGRAM, link_handle_offer },
    [PROGRAM_LINK_TAKE] = { 1u << CTL_ROLE_PROGRAM, link_handle_take },
    [PROGRAM_PART] = { 1u << CTL_ROLE_PROGRAM, handle_part },
};
static const struct conn_service service = { .methods = methods, .count = sizeof methods / sizeof *methods,
                                             .opened = opened, .closed = closed };

int programs_listen(struct manager *manager, char *error)
{
    const struct manager_config *config = manager->config;
    char uri[CTL_MAX_URI + 1];
    gid_t group = (gid_t)-1;
    if (*config->group) {
        const struct group *entry = getgrnam(config->group);
        if (!entry)
            return explain(error, -ENOENT, "ipc.group: there is no group %s on this machine", config->group);
        group = entry->gr_gid;
    }
    snprintf(uri, sizeof uri, "unix://%.300s", config->socket);
    const struct loop_listen_options options = { .uri = uri,
                                                 .mode = (unsigned)strtoul(config->mode, NULL, 8),
                                                 .group = group,
                                                 .max_connections = MAX_CONNECTIONS,
                                                 .service = &service,
                                                 .context = manager };
    return loop_listen(manager->loop, &options, &manager->listener, error);
}
