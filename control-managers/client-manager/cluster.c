/*
 * cluster.c: the connection to the cluster manager. After each (re)connection the programs that run are named, those
 * that still wait ask again (the same key, so the same place in line), ends that could not be reported are reported,
 * and one CLIENT_EVENTS call is kept outstanding.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/client-manager/manager.h"
#include "control-managers/common/daemon.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"

enum {
    EVENTS_MS = CTL_DEAD_SECONDS * 1000,
    CALL_MS = CTL_CALL_SECONDS * 1000,
    TRANSPORT_MINOR = 4,
    UNREACHED_MINOR = 5,
    MOVES_MINOR = 7,
    PROGRESS_MINOR = 9,
    RECOVERY_MINOR = 9,
    THAWED_MINOR = 9,
    STATUS_MINOR = CTL_MINOR_STATUS,
    LINKS_MINOR = CTL_MINOR_LINKS,
    VALUES_MINOR = CTL_MINOR_LINKS,
    PARTS_MINOR = CTL_MINOR_PARTS,
    GROUPS_MINOR = CLIENT_MINOR_GROUPS
};

static void ask_events(struct manager *);

static void fill_program(const struct client_program *program, ctl_program *out)
{
    *out = (ctl_program){ .key = program->key, .pid = program->pid, .uid = program->uid,
                          .executable = (char *)(uintptr_t)program->executable };
}

/* ---- requests ---- */

/* Calls name their program by its key: the program may be gone when the answer comes. */
struct asked_cluster { struct manager *manager; uint64_t key; };

static void answered(void *context, int error, const char *why, void *object)
{
    struct asked_cluster *asked = context;
    struct client_program *program = program_find(asked->manager, asked->key);
    free(asked);
    if (!program)
        return;
    if (error) {
        log_debug("event=no-answer program=%llu why=\"%s\"", (unsigned long long)program->key, why);
        program->sent = false;          /* asked again after the reconnection */
        if (program->held)
            program_tell(program, CTL_LOST, why, 0);
        else if (error == -ETIMEDOUT && program->state == PROGRAM_ASKING)
            program_ask(program);
        else if (error == -ETIMEDOUT && program->renew)
            cluster_renew(program);
        return;
    }
    program_answered(program, object);
}

static int call_about(struct client_program *program, uint32_t procedure, const void *args)
{
    char error[EXPLAIN_SIZE];
    struct asked_cluster *asked = malloc(sizeof *asked);
    if (!asked)
        return -ENOMEM;
    *asked = (struct asked_cluster){ program->manager, program->key };
    int failure = program->manager->registered
                      ? link_call(program->manager->link, procedure, args, CALL_MS, answered, asked, error)
                      : -ENOTCONN;
    if (failure)
        free(asked);
    return failure;
}

int cluster_request(struct client_program *program)
{
    client_request_args args = { .wait = program->wait, .wait_ms = program->wait_ms };
    client_part_args part = { .lead = program->lead, .part = program->part };
    fill_program(program, &args.prog);
    fill_program(program, &part.prog);
    if (program->lead)
        return program->manager->takes_parts ? call_about(program, CLIENT_PART, &part) : -ENOSYS;
    return call_about(program, CLIENT_REQUEST, &args);
}

int cluster_renew(struct client_program *program)
{
    client_renew_args args = { .key = program->key };
    return call_about(program, CLIENT_RENEW, &args);
}

int cluster_unreached(struct client_program *program, uint64_t server, bool never, const char *why)
{
    client_unreached_args args = { .key = program->key, .server = server, .never = never,
                                   .why = (char *)(uintptr_t)why };
    return program->manager->takes_unreached ? call_about(program, CLIENT_UNREACHED, &args) : -ENOSYS;
}

int cluster_thawed(struct client_program *program)
{
    client_running args = { .server = program->server };
    fill_program(program, &args.prog);
    return program->manager->takes_thawed ? call_about(program, CLIENT_THAWED, &args) : -ENOSYS;
}

int cluster_status(struct manager *manager, conn_done *done, void *context)
{
    enum { STATUS_MS = 700 }; /* the user is to have an answer within a second */
    char error[EXPLAIN_SIZE];
    if (!manager->registered)
        return -ENOTCONN;
    return manager->takes_status ? link_call(manager->link, CLIENT_STATUS, NULL, STATUS_MS, done, context, error)
                                 : -ENOSYS;
}

static void transport_told(void *context, int error, const char *why, void *object)
{
    const ctl_plain_result *result = object;
    (void)context;
    if (error || result->status.code != CTL_OK)
        log_debug("event=transport-not-told why=\"%s\"", error ? why : result->status.text);
}

void cluster_tell_transport(struct client_program *program)
{
    struct manager *manager = program->manager;
    char error[EXPLAIN_SIZE];
    client_transport_args args = { .key = program->key, .transport = { program->mode, program->why } };
    if (!*program->mode || program->ended || !manager->registered || !manager->takes_transport)
        return;
    if (link_call(manager->link, CLIENT_TRANSPORT, &args, CALL_MS, transport_told, NULL, error) != 0)
        log_debug("event=transport-not-told why=\"%s\"", error);
}

/* ---- moves ---- */

struct told_move {
    struct manager *manager;
    uint64_t key, move;
    ctl_move_stage stage;
};

static void moved_told(void *context, int error, const char *why, void *object)
{
    struct told_move told = *(struct told_move *)context;
    struct client_program *program = program_find(told.manager, told.key);
    (void)object;
    free(context);
    if (error)
        log_debug("event=move-not-told why=\"%s\"", why); /* said again after the reconnection */
    else if (program && told.stage != CTL_MOVE_TAKEN)
        move_told(program, told.move);
}

int cluster_moved(struct client_program *program, const ctl_moved *moved)
{
    struct manager *manager = program->manager;
    char error[EXPLAIN_SIZE];
    client_moved_args args = { .key = program->key, .server = program->server, .moved = *moved };
    if (!manager->takes_moves)
        return -ENOSYS;
    struct told_move *told = manager->registered ? malloc(sizeof *told) : NULL;
    if (!told)
        return -ENOTCONN;
    *told = (struct told_move){ manager, program->key, moved->move, moved->stage };
    int failure = link_call(manager->link, CLIENT_MOVED, &args, CALL_MS, moved_told, told, error);
    if (failure)
        free(told);
    return failure;
}

int cluster_ask_group(struct client_program *program, uint64_t group, uint64_t *keys, unsigned count, conn_done *done,
                      void *context)
{
    struct manager *manager = program->manager;
    char error[EXPLAIN_SIZE];
    client_group_args args = { .key = program->key, .move = group, .others = { count, keys } };
    return !manager->registered     ? -ENOTCONN
           : !manager->takes_groups ? -ENOSYS
                                    : link_call(manager->link, CLIENT_GROUP, &args, CALL_MS, done, context, error);
}

/* One note at a time: what the library says meanwhile makes the next one. */
static void progress_told(void *context, int error, const char *why, void *object)
{
    struct told_move told = *(struct told_move *)context;
    struct client_program *program = program_find(told.manager, told.key);
    (void)why, (void)object;
    free(context);
    if (!program)
        return;
    program->reporting = false;
    if (!error && program->behind)
        cluster_progress(program);
}

void cluster_progress(struct client_program *program)
{
    struct manager *manager = program->manager;
    char error[EXPLAIN_SIZE];
    client_progress_args args = { .key = program->key, .progress = program->progress };
    program->behind = true;
    if (program->reporting || !manager->registered || !manager->takes_progress)
        return;
    struct told_move *told = malloc(sizeof *told);
    if (!told)
        return;
    *told = (struct told_move){ .manager = manager, .key = program->key };
    program->behind = false;
    program->reporting = link_call(manager->link, CLIENT_PROGRESS, &args, CALL_MS, progress_told, told, error) == 0;
    if (!program->reporting)
        free(told);
}

/* ---- ends ---- */

struct told { struct manager *manager; u_int count; uint64_t keys[CTL_MAX_PROGRAMS]; };

static void ends_told(void *context, int error, const char *why, void *object)
{
    struct told *told = context;
    struct manager *manager = told->manager;
    (void)object;
    manager->telling_ends = false;
    for (u_int i = 0; !error && i < told->count; i++) {
        struct client_program *program = program_find(manager, told->keys[i]);
        if (program && program->ended)
            program_free(program);
    }
    free(told);
    if (error)
        log_debug("event=ends-not-reported why=\"%s\"", why);
    else
        cluster_tell_ends(manager);
}

void cluster_tell_ends(struct manager *manager)
{
    char error[EXPLAIN_SIZE];
    if (!manager->registered || manager->telling_ends)
        return;
    struct told *told = calloc(1, sizeof *told);
    if (!told)
        return;
    told->manager = manager;
    for (const struct client_program *program = manager->programs; program && told->count < CTL_MAX_PROGRAMS;
         program = program->next)
        if (program->ended)
            told->keys[told->count++] = program->key;
    client_ended_args args = { .keys = { told->count, told->keys } };
    if (told->count && link_call(manager->link, CLIENT_ENDED, &args, CALL_MS, ends_told, told, error) == 0)
        manager->telling_ends = true;
    else
        free(told);
}

/* ---- events ---- */

static void take_notice(struct manager *manager, client_event_kind kind, const client_notice *notice)
{
    struct client_program *program = program_find(manager, notice->key);
    if (!program || program->ended || (kind == CLIENT_EVENT_LOST && program->server == CLIENT_SUSPENDED))
        return;
    /* it may have asked for another one before this came, and have it by now */
    if (kind == CLIENT_EVENT_LOST && notice->server && program->server && notice->server != program->server)
        return;
    switch (kind) {
    case CLIENT_EVENT_LOST:
        log_warning("event=server-lost program=%llu pid=%u server=%llu why=\"%s\"", (unsigned long long)program->key,
                    program->pid, (unsigned long long)notice->server, notice->why.text);
        program->server = 0;
        program->shaken = true;
        program_tell(program, notice->why.code > CTL_WAITING ? notice->why.code : CTL_LOST, notice->why.text, 0);
        break;
    case CLIENT_EVENT_SUSPECT:
    case CLIENT_EVENT_BACK:
        program->shaken = true;
        log_warning("event=server-%s program=%llu pid=%u server=%llu why=\"%s\"",
                    kind == CLIENT_EVENT_BACK ? "back" : "suspect", (unsigned long long)program->key, program->pid,
                    (unsigned long long)notice->server, notice->why.text);
        break;
    case CLIENT_EVENT_END:
        program_terminate(program, notice->why.text);
        break;
    case CLIENT_EVENT_ANSWER:
    case CLIENT_EVENT_MOVE:
    case CLIENT_EVENT_REST:
    case CLIENT_EVENT_SAVE:
    case CLIENT_EVENT_LIMITS:
    case CLIENT_EVENT_GROUP: break;
    }
}

static void take_answer(struct manager *manager, const client_answer *answer)
{
    struct client_program *program = program_find(manager, answer->key);
    if (!program || program->ended)
        return;
    program_answered(program, answer);
    if (answer->status.code == CTL_NOT_FOUND && answer->prog && answer->prog == program->id)
        move_vm_removed(program);
}

static void take_event(struct manager *manager, const client_event *event)
{
    const struct client_event_body *body = &event->body;
    if (event->number <= manager->acknowledged)
        return;
    manager->acknowledged = event->number;
    if (body->kind == CLIENT_EVENT_ANSWER) {
        take_answer(manager, &body->client_event_body_u.answer);
        return;
    }
    if (body->kind == CLIENT_EVENT_MOVE) {
        move_take(manager, &body->client_event_body_u.move);
        return;
    }
    if (body->kind == CLIENT_EVENT_REST) {
        move_take_save(manager, &(client_save){ body->client_event_body_u.rest, (char *)(uintptr_t)"" });
        return;
    }
    if (body->kind == CLIENT_EVENT_SAVE) {
        move_take_save(manager, &body->client_event_body_u.save);
        return;
    }
    if (body->kind == CLIENT_EVENT_LIMITS) {
        move_take_limits(manager, &body->client_event_body_u.limits);
        return;
    }
    if (body->kind == CLIENT_EVENT_GROUP) {
        group_take(manager, &body->client_event_body_u.group);
        return;
    }
    /* All others have the same form. */
    take_notice(manager, body->kind, &body->client_event_body_u.lost);
}

static void events_came(void *context, int error, const char *why, void *object)
{
    struct manager *manager = context;
    const client_events_result *result = object;
    struct conn *conn = link_conn(manager->link);
    if (error == -ETIMEDOUT && conn)
        conn_close(conn, "the cluster manager is silent");
    if (error)
        return;
    for (u_int i = 0; i < result->events.events_len; i++)
        take_event(manager, &result->events.events_val[i]);
    (void)why;
    if (result->status.code != CTL_OK && conn) {
        log_warning("event=events-refused why=\"%s\"", result->status.text);
        conn_close(conn, "the cluster manager gives no events");
        return;
    }
    ask_events(manager);
}

static void ask_events(struct manager *manager)
{
    char error[EXPLAIN_SIZE];
    client_events_args args = { .acknowledged = manager->acknowledged };
    if (link_call(manager->link, CLIENT_EVENTS, &args, EVENTS_MS, events_came, manager, error) != 0)
        log_debug("event=events-not-asked why=\"%s\"", error);
}

/* ---- registering ---- */

static void registered(void *context, int error, const char *why, void *object)
{
    struct manager *manager = context;
    const client_register_result *result = object;
    if (error || result->status.code != CTL_OK) {
        snprintf(manager->why_away, sizeof manager->why_away, "%.500s", error ? why : result->status.text);
        log_error("event=not-registered why=\"%s\"", manager->why_away);
        if (link_conn(manager->link))
            conn_close(link_conn(manager->link), manager->why_away);
        return;
    }
    manager->registered = true;
    manager->lasts = false;
    log_info("event=registered vm=%s sms=%u memory=%llu", result->vm, result->sms, (unsigned long long)result->memory);
    for (struct client_program *program = manager->programs; program; program = program->next) {
        if (program->state == PROGRAM_ASKING && !program->ended)
            program_ask(program);
        if (program->renew && !program->ended) /* the answer is lost with the old connection */
            cluster_renew(program);
        cluster_tell_transport(program);
        cluster_tell_recovery(program);
        move_tell_again(program);
    }
    cluster_tell_ends(manager);
    ask_events(manager);
}

static void up(struct link *link, struct conn *conn, const ctl_hello_result *peer)
{
    static uint64_t manager_incarnation;
    struct manager *manager = link_context(link);
    char error[EXPLAIN_SIZE];
    client_running *running = calloc(CTL_MAX_PROGRAMS, sizeof *running);
    u_int count = 0;
    if (peer->incarnation != manager_incarnation)
        manager->acknowledged = 0;
    manager_incarnation = peer->incarnation;
    manager->takes_transport = peer->minor >= TRANSPORT_MINOR;
    manager->takes_unreached = peer->minor >= UNREACHED_MINOR;
    manager->takes_moves = peer->minor >= MOVES_MINOR;
    manager->takes_thawed = peer->minor >= THAWED_MINOR;
    manager->takes_status = peer->minor >= STATUS_MINOR;
    manager->takes_progress = peer->minor >= PROGRESS_MINOR;
    manager->takes_recovery = peer->minor >= RECOVERY_MINOR;
    manager->takes_links = peer->minor >= LINKS_MINOR;
    manager->takes_values = peer->minor >= VALUES_MINOR;
    manager->takes_parts = peer->minor >= PARTS_MINOR;
    manager->takes_groups = peer->minor >= GROUPS_MINOR;
    log_info("event=connected peer=%s software=\"%s\" tls=%d", conn_peer(conn), peer->software, conn_encrypted(conn));
    for (struct client_program *program = manager->programs; running && program && count < CTL_MAX_PROGRAMS;
         program = program->next) {
        program->sent = false;
        if (program->ended || program->state == PROGRAM_REFUSED ||
            (program->removed && program->server == CLIENT_SUSPENDED))
            continue;
        fill_program(program, &running[count].prog);
        running[count].id = program->id;
        running[count++].server = program->held ? program->held : program->server;
    }
    client_register_args args = { .host = manager->host, .programs = { count, running } };
    if (!running || link_call(link, CLIENT_REGISTER, &args, CALL_MS, registered, manager, error) != 0)
        log_error("event=not-registered why=\"%s\"", running ? error : "no memory");
    free(running);
}

static void failed(struct link *link, int error, const char *why)
{
    struct manager *manager = link_context(link);
    manager->registered = manager->telling_ends = false;
    manager->lasts = link_error_lasts(error);
    manager->not_ready = error == -EAGAIN;
    snprintf(manager->why_away, sizeof manager->why_away, "%.500s", why);
    programs_away(manager);
}

static void down(struct link *link, bool was_up, int error, const char *why)
{
    (void)link;
    (void)error;
    log_warning("event=%s why=\"%s\": running programs go on", was_up ? "disconnected" : "not-connected", why);
}

int cluster_open(struct manager *manager, char *error)
{
    char uri[CTL_MAX_URI + 1];
    const char *uris[] = { uri, NULL };
    const struct manager_config *config = manager->config;
    snprintf(uri, sizeof uri,
             strchr(config->manager_address, ':') && config->manager_address[0] != '[' ? "tcp://[%.256s]:%d"
                                                                                       : "tcp://%.256s:%d",
             config->manager_address, (int)config->manager_port);
    snprintf(manager->where, sizeof manager->where, "%.256s:%d", config->manager_address, (int)config->manager_port);
    snprintf(manager->why_away, sizeof manager->why_away, "there is no connection yet");
    const struct link_options options = { .uris = uris,
                                          .tls = manager->tls,
                                          .role = CTL_ROLE_CLIENT,
                                          .name = manager->name,
                                          .software = daemon_software(),
                                          .incarnation = manager->incarnation,
                                          .secret = manager->secret.size ? &manager->secret : NULL,
                                          .context = manager,
                                          .up = up,
                                          .down = down,
                                          .failed = failed };
    return link_open(manager->loop, &options, &manager->link, error);
}
