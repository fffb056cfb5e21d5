/*
 * visitors.c: the connections of this VM's programs, over the unix socket, and what they ask.
 *
 * Who a program is we know from the kernel (the socket's credentials), not from what it says; and which file it
 * executes, where the kernel says that to us.
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
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
    SAID_MOST = 160 /* of an executable's path that only the program says */
};

/* ---- HELLO ---- */

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
    (void)hello;
    const ctl_code code = share_greets(conn_context(conn), text);
    if (code == CTL_OK)
        share_used(conn);
    return code;
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

/* ---- programs that begin, or come back ---- */

/* What it executes: by the kernel, where the kernel says it to us, or else by what the program says of itself, which is
   marked. The mark stays where others shorten the text: of a long path only its end is kept. */
static void take_executable(struct client_program *program, const char *said)
{
    if (process_executable(&program->process, program->executable, sizeof program->executable) != 0) {
        const size_t size = strlen(said), left = size > SAID_MOST ? size - SAID_MOST : 0;
        snprintf(program->executable, sizeof program->executable, "%s%s (said)", left ? "..." : "", said + left);
    }
    protocol_text_clean(program->executable);
}

/* NULL: text (CTL_MAX_TEXT + 1 bytes) says why not. */
static struct client_program *create(struct manager *manager, struct conn *conn, const program_attach_args *args,
                                     char *text)
{
    pid_t pid = 0;
    uid_t uid = (uid_t)-1;
    gid_t gid;
    conn_peer_credentials(conn, &pid, &uid, &gid);
    if (!share_program(manager, uid, text))
        return NULL;
    struct client_program *program = calloc(1, sizeof *program);
    if (!program) {
        explain(text, 0, "the client manager has no memory for another program");
        return NULL;
    }
    *program = (struct client_program){ .manager = manager,
                                        .next = manager->programs,
                                        .key = manager->next_key++,
                                        .conn = conn,
                                        .uid = uid,
                                        .pid = (uint32_t)(pid > 0 ? pid : 0),
                                        .process = PROCESS_NONE,
                                        .wait = args->wait,
                                        .wait_ms = args->wait_ms,
                                        .own_wait = args->wait_ms != 0 };
    if (process_open(pid, 0, &program->process) != 0)
        log_info("event=process-unseen program=%llu: after a restart it will be taken for ended",
                 (unsigned long long)program->key);
    take_executable(program, args->executable);
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
    struct client_program *program = create(manager, conn, object, text);
    if (!program) {
        refusal.status = (ctl_status){ CTL_NO_ROOM, text };
        call_reply(call, &refusal);
        return;
    }
    visitor->program = program;
    program->minor = visitor->hello.minor;
    log_info("event=program-started program=%llu pid=%u uid=%u executable=%s", (unsigned long long)program->key,
             program->pid, program->uid, program->executable);
    state_save(manager);
    program_describe_asked(manager, text);
    const program_answer asking = { .status = { CTL_WAITING, text } };
    program_set_answer(program, &asking);
    program->news = false;
    program_hold_call(program, call, FIRST_BEAT_MS);
    program_ask(program);
}

/* The program of that id, if it is one of this process and user. */
static const struct client_program *lead_of(const struct manager *manager, const struct conn *conn, uint64_t id)
{
    pid_t pid;
    uid_t uid;
    gid_t gid;
    const struct client_program *lead = manager->programs;
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
    const struct client_program *lead = visitor->program ? NULL : lead_of(visitor->manager, conn, args->lead);
    const program_attach_args attach = { .executable = args->executable, .wait = CLIENT_WAIT_NO };
    char text[CTL_MAX_TEXT + 1] = "this process has no such program";
    struct client_program *program = lead ? create(visitor->manager, conn, &attach, text) : NULL;
    if (!program) {
        const program_answer refusal = { .status = { lead ? CTL_NO_ROOM : CTL_NOT_FOUND, text } };
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
    program_set_answer(program, &asking);
    program->news = false;
    program_hold_call(program, call, FIRST_BEAT_MS);
    program_ask(program);
}

/* ---- what they ask ---- */

/* Its server is lost, and it makes its session again. */
static void ask_again(struct client_program *program)
{
    program->server = program->held = 0;
    program->shaken = true;
    program->state = PROGRAM_ASKING;
    program->sent = false;
    program_tell(program, CTL_WAITING, "another GPU server is asked for", 0);
    program->news = false;
    program_ask(program);
}

static void handle_wait(struct conn *conn, struct loop_call *call, void *object)
{
    const program_wait_args *args = object;
    struct client_program *program = program_of(conn);
    if (!program) {
        const program_answer refusal = { .status = { CTL_INVALID, (char *)(uintptr_t)"PROGRAM_ATTACH comes first" } };
        call_reply(call, &refusal);
        return;
    }
    if (args->renew && program->state == PROGRAM_RUNNING) {
        const program_answer asking = { .status = { CTL_WAITING,
                                                    (char *)(uintptr_t) "a new ticket is being asked for" } };
        program_set_answer(program, &asking);
        program->news = false;
        program->renew = program->shaken = true;
        if (cluster_renew(program) != 0)
            program_tell(program, CTL_LOST, "the cluster manager cannot be reached for a new ticket", 0);
    } else if (args->renew && program->state == PROGRAM_REFUSED) {
        ask_again(program);
    }
    program_hold_call(program, call, BEAT_MS);
}

static void handle_unreached(struct conn *conn, struct loop_call *call, void *object)
{
    const program_unreached_args *args = object;
    struct client_program *program = program_of(conn);
    char text[CTL_MAX_TEXT + 1], more[48];
    if (!program) {
        const program_answer refusal = { .status = { CTL_INVALID, (char *)(uintptr_t)"PROGRAM_ATTACH comes first" } };
        call_reply(call, &refusal);
        return;
    }
    if (log_limit_says(&program->unreached_lines, more))
        log_warning("event=server-unreached program=%llu pid=%u server=%llu why=\"%s\"%s",
                    (unsigned long long)program->key, program->pid, (unsigned long long)program->server, args->why,
                    more);
    if (program->state == PROGRAM_RUNNING && program->server == args->server) {
        snprintf(text, sizeof text, "another place is looked for, since %.800s", args->why);
        program->held = program->server;
        program->server = 0;
        program->shaken = true;
        program->state = PROGRAM_ASKING;
        program_tell(program, CTL_WAITING, text, 0);
        program->news = false;
        if (cluster_unreached(program, args->server, false, args->why) != 0)
            program_tell(program, CTL_LOST, "the cluster manager cannot be asked for another GPU server", 0);
    }
    program_hold_call(program, call, BEAT_MS);
}

static void handle_transport(struct conn *conn, struct loop_call *call, void *object)
{
    const ctl_transport *args = object;
    struct client_program *program = program_of(conn);
    ctl_plain_result result = { .status = { CTL_OK, (char *)(uintptr_t)"" } };
    char more[48];
    if (!program) {
        result.status = (ctl_status){ CTL_INVALID, (char *)(uintptr_t)"PROGRAM_ATTACH comes first" };
        call_reply(call, &result);
        return;
    }
    call_reply(call, &result);
    snprintf(program->mode, sizeof program->mode, "%s", args->mode);
    snprintf(program->why, sizeof program->why, "%s", args->why);
    if (log_limit_says(&program->connected_lines, more))
        log_info("event=program-connected program=%llu pid=%u server=%llu over=%s why=\"%s\"%s",
                 (unsigned long long)program->key, program->pid, (unsigned long long)program->server, program->mode,
                 program->why, more);
    cluster_tell_transport(program);
}

/* The program of this process, which we know from the state that was on disk. Of several, which are its parts, the one
   with that server. */
static struct client_program *of_before(struct manager *manager, const struct conn *conn, uint64_t server)
{
    struct client_program *found = NULL;
    pid_t pid;
    uid_t uid;
    gid_t gid;
    if (!conn_peer_credentials(conn, &pid, &uid, &gid))
        return NULL;
    for (struct client_program *program = manager->programs; program; program = program->next)
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
    struct client_program *program = visitor->program ? NULL : of_before(visitor->manager, conn, args->server);
    if (!program) {
        result.status = (ctl_status){ CTL_NOT_FOUND, (char *)(uintptr_t)"this program is not known here" };
        call_reply(call, &result);
        return;
    }
    visitor->program = program;
    program->shaken = true; /* it may have been, before we began */
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
    char text[CTL_MAX_TEXT + 1] = "this connection has attached already";
    struct client_program *program = visitor->program ? NULL : create(visitor->manager, conn, object, text);
    if (!program) {
        result.status = (ctl_status){ CTL_NO_ROOM, text };
        call_reply(call, &result);
        return;
    }
    visitor->program = program;
    program->minor = visitor->hello.minor;
    program->state = PROGRAM_RUNNING;
    program->server = CLIENT_SUSPENDED;
    program->shaken = true; /* it may have been, where it was suspended */
    log_info("event=program-thawed program=%llu pid=%u uid=%u executable=%s", (unsigned long long)program->key,
             program->pid, program->uid, program->executable);
    state_save(program->manager);
    if (cluster_thawed(program) != 0)
        log_info("event=thawed-not-told program=%llu why=\"the cluster manager is away, or of an earlier release\"",
                 (unsigned long long)program->key);
    call_reply(call, &result);
}

/* ---- connections ---- */

static void opened(struct conn *conn)
{
    struct manager_visitor *visitor = calloc(1, sizeof *visitor);
    struct manager *manager = conn_context(conn);
    conn_set_context(conn, visitor);
    if (!visitor) {
        conn_close(conn, "no memory");
        return;
    }
    visitor->manager = manager;
    share_open(conn);
}

/* One that is suspended may keep no connection; its end is its process's. */
static bool stays_apart(struct client_program *program)
{
    if (program->ended || !(program->server == CLIENT_SUSPENDED || move_may_have_suspended(program)) ||
        !process_alive(&program->process))
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
    share_close(visitor);
    if (visitor->program) { /* calls of this connection cannot be answered any more */
        visitor->program->waiting = NULL;
        visitor->program->asks_recovery = NULL;
        visitor->program->asks_link = NULL;
        visitor->program->meets = NULL;
        if (!stays_apart(visitor->program))
            program_gone(visitor->program);
    }
    if (visitor->view)
        view_forget(visitor->view);
    value_forget(visitor);
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
    [PROGRAM_VALUE] = { 1u << CTL_ROLE_PROGRAM, value_handle },
    [PROGRAM_LINK_OFFER] = { 1u << CTL_ROLE_PROGRAM, link_handle_offer },
    [PROGRAM_LINK_TAKE] = { 1u << CTL_ROLE_PROGRAM, link_handle_take },
    [PROGRAM_MEET] = { 1u << CTL_ROLE_PROGRAM, group_handle_meet },
    [PROGRAM_SESSION] = { 1u << CTL_ROLE_PROGRAM, group_handle_session },
    [PROGRAM_PART] = { 1u << CTL_ROLE_PROGRAM, handle_part },
};
static void begins(struct conn *conn, struct loop_call *call, const void *args)
{
    (void)call;
    (void)args;
    share_used(conn);
}

static const struct conn_service service = { .methods = methods, .count = sizeof methods / sizeof *methods,
                                             .opened = opened, .closed = closed, .begins = begins };

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
    manager->places = share_places();
    snprintf(uri, sizeof uri, "unix://%.300s", config->socket);
    const struct loop_listen_options options = { .uri = uri,
                                                 .mode = (unsigned)strtoul(config->mode, NULL, 8),
                                                 .group = group,
                                                 .max_connections = manager->places,
                                                 .service = &service,
                                                 .context = manager };
    return loop_listen(manager->loop, &options, &manager->listener, error);
}
