/*
 * servers.c: servers from placement to their end.
 *
 *   placed -> (row durable) -> ordered -> RUNNING as reported -> stopping -> gone
 */
#include "control-managers/cluster-manager/resize.h"
#include "control-managers/cluster-manager/usage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/explain.h"
#include "cpu/common/log.h"

enum {
    STOP_AGAIN_MS = 15000,
    STOP_GRACE_MS = 5000,
    ADOPTED_IDLE_MS = 5000,
    DB_LATE_MS = 1000
};

static struct event_about about(const struct server *server)
{
    return (struct event_about){ .vm = server->row.vm, .node = server->row.node, .server = server->row.id,
                                 .program = server->row.program };
}

/* ---- ordering ---- */

void program_runs(struct cluster *cluster, struct program *program)
{
    struct event_about which = about(program->server);
    bool already = program->state == ADMIN_PROGRAM_RUNNING;
    which.program = program->id;
    program->state = ADMIN_PROGRAM_RUNNING;
    if (already)
        return;
    cluster_event(cluster, ADMIN_INFO, "program-started", &which, "%.200s (pid %u) has GPU %.600s",
                  program->executable, program->pid, program->server->row.gpus);
    if (!program->server->adopted) /* of those that ran before this manager did it is not known when they asked */
        counts_note_time(&cluster->counts.now.started, program->asked);
}

struct durable { struct cluster *cluster; uint64_t server; };

/* A node that is silent is not to blame for what it was never told. */
static void start_failed(struct server *server, const char *why)
{
    server->never_ready = true;
    for (size_t i = 0; i < server->gpu_count && server->node->registered && server->node->state == ADMIN_NODE_UP; i++)
        health_start_failed(server->cluster, server->gpus[i], why);
}

static void start_overdue(struct loop_timer *timer, void *context)
{
    static const char why[] = "the GPU server did not start in time";
    struct server *server = context;
    (void)timer;
    start_failed(server, why);
    server_stop(server->cluster, server, CTL_TIMEOUT, why);
}

/* Without the DB no server can be started. Programs that were not to wait are refused. */
bool program_lacks_db(struct cluster *cluster, const struct program *program, char *text)
{
    char why[CTL_MAX_TEXT + 1];
    if (program->wait != CLIENT_WAIT_NO || !store_db_away(cluster, why, sizeof why))
        return false;
    snprintf(text, CTL_MAX_TEXT + 1,
             "the resource DB is away, and without it no GPU server can be started for this program, which was not to"
             " wait: %.600s",
             why);
    return true;
}

/* Informs its programs that the DB keeps them waiting, or that it does no more. */
static void tell_db(struct cluster *cluster, struct server *server, bool again)
{
    char text[CTL_MAX_TEXT + 1];
    for (struct program *program = server->programs, *next; program; program = next) {
        next = program->server_next;
        if (!server->durable && program_lacks_db(cluster, program, text))
            program_refuse(cluster, program, CTL_DB_AWAY, text);
        else if (!again)
            program_notify(cluster, program, CLIENT_EVENT_ANSWER, CTL_OK, "");
    }
}

static void db_late(struct loop_timer *timer, void *context)
{
    struct server *server = context;
    bool again = server->late;
    server->late = true; /* the programs have been informed that the DB has not stored the server yet */
    tell_db(server->cluster, server, again);
    loop_timer_start(server->cluster->loop, timer, DB_LATE_MS, db_late, server);
}

void servers_tell_db(struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->servers.count; i++) {
        struct server *server = map_at(&cluster->servers, i);
        if (server->late && !server->durable && !server->stopping)
            tell_db(cluster, server, false);
    }
}

static void became_durable(void *context, int error, const char *why)
{
    struct durable durable = *(struct durable *)context;
    struct cluster *cluster = durable.cluster;
    struct server *server = map_get_id(&cluster->servers, durable.server);
    char text[512];
    free(context);
    if (!server || cluster->stopping)
        return;
    server->durable = true;
    loop_timer_stop(&server->timer);
    if (error) {
        snprintf(text, sizeof text, "the resource DB did not take the allocation: %.400s", why);
        server_gone(cluster, server, CTL_INTERNAL, text);
    } else if (server->stopping) {
        server_gone(cluster, server, server->code, server->text);
    } else if (server_is_beyond_node(server)) {
        server_gone(cluster, server, CTL_LOST, SERVER_BEYOND_NODE);
    } else {
        struct message message = { .kind = NODE_ORDER_START, .server = server->row.id };
        server->ordered = true;
        node_send_order(cluster, server->node, &message);
        if (server->late)
            tell_db(cluster, server, false);
        loop_timer_start(cluster->loop, &server->timer, (uint64_t)(cluster->values->start_seconds * 1000),
                         start_overdue, server);
    }
}

/* Programs see their GPUs in the order in which the node has them. */
static int by_index(const void *a, const void *b)
{
    const struct cluster_gpu *const *x = a, *const *y = b;
    return ((*x)->index > (*y)->index) - ((*x)->index < (*y)->index);
}

/* The ids, with commas between them; the node. */
static void name_gpus(const struct cluster *cluster, const struct place_gang *place, struct db_server *row)
{
    const struct cluster_gpu *gpus[PLACE_MOST_GPUS] = { NULL };
    size_t at = 0;
    for (size_t i = 0; i < place->count; i++)
        gpus[i] = cluster->pool.gpus[place->of[i].gpu].owner;
    qsort(gpus, place->count, sizeof gpus[0], by_index);
    for (size_t i = 0; i < place->count; i++)
        at += (size_t)snprintf(row->gpus + at, sizeof row->gpus - at, "%s%s", i ? "," : "", gpus[i]->id);
    snprintf(row->node, sizeof row->node, "%s", gpus[0]->node->row.name);
}

const char *server_network_address(const struct server *server)
{
    const char *found = NULL;
    for (unsigned i = 0; i < server->address_count; i++) {
        const char *address = server->addresses[i];
        if (strncmp(address, "tls://", 6) == 0)
            return address;
        if (!found && strncmp(address, "unix://", 7) != 0)
            found = address;
    }
    return found;
}

/* set: NULL where the server is of none; else the set's number, or 0 there, and the server becomes its first one. */
static struct server *place_in(struct cluster *cluster, struct program *program, const struct place_gang *place,
                               bool shared, uint64_t *set)
{
    struct vm *vm = program->vm;
    struct db_server row = { .id = cluster_new_id(cluster),
                             .sharing = place->of[0].sharing,
                             .sms = place->of[0].sms,
                             .memory = place->of[0].memory,
                             .program = shared ? 0 : program->id,
                             .state = CTL_SERVER_STARTING,
                             .created = loop_time(),
                             .spread = vm->row.spread };
    if (set)
        row.set = *set = *set ? *set : row.id;
    snprintf(row.vm, sizeof row.vm, "%s", vm->row.name);
    name_gpus(cluster, place, &row);
    struct durable *durable = malloc(sizeof *durable);
    struct server *server = durable ? server_create(cluster, &row) : NULL;
    if (!server) {
        free(durable);
        return NULL;
    }
    struct event_about which = about(server);
    char sharing[PROTOCOL_SHARING_SIZE];
    cluster_event(cluster, ADMIN_INFO, "server-placed", &which, "%u SMs and %llu MiB of %s%.700s (%s)", row.sms,
                  (unsigned long long)(row.memory >> 20), place->count > 1 ? "each of " : "", row.gpus,
                  protocol_sharing_text(row.sharing, sharing));
    for (unsigned i = 0; i < COUNT_SHARINGS; i++)
        cluster->counts.now.placed[i] += row.sharing == 1u << i;
    *durable = (struct durable){ cluster, row.id };
    loop_timer_start(cluster->loop, &server->timer, DB_LATE_MS, db_late, server);
    store_put_server(cluster, server, became_durable, durable);
    return map_get_id(&cluster->servers, row.id);       /* refused at once, it is gone again */
}

struct server *server_place(struct cluster *cluster, struct program *program, const struct place_gang *place,
                            bool shared)
{
    return place_in(cluster, program, place, shared, NULL);
}

/* ---- sets ---- */

bool program_has_set(const struct program *program) { return program->server && program->server->row.set; }

static bool is_first(const struct server *server) { return server->row.set && server->row.set == server->row.id; }

bool program_is_served(const struct program *program)
{
    bool served = program->server && program->server->state == CTL_SERVER_RUNNING;
    for (size_t i = 0; i < program->more_count; i++)
        served &= !program->more[i] || program->more[i]->state == CTL_SERVER_RUNNING;
    return served;
}

void program_takes(struct program *program, struct server *server)
{
    program->more_count = 0;
    for (struct server *other = server && is_first(server) ? program->vm->servers : NULL; other; other = other->vm_next)
        if (other != server && other->row.set == server->row.set && program->more_count < PROGRAM_MORE) {
            program->more[program->more_count++] = other->stopping ? NULL : other;
            other->awaited += !other->stopping;
            if (other->state == CTL_SERVER_RUNNING && !other->stopping)
                loop_timer_stop(&other->timer); /* a grace period */
        }
    program_attach(program, server);
}

static void part_has(struct program *lead, const struct server *server)
{
    for (size_t i = 0; i < lead->more_count; i++)
        if (lead->more[i] == server) {
            lead->more[i]->awaited--;
            lead->more[i] = NULL;
        }
}

void programs_know_parts(struct vm *vm)
{
    for (struct program *part = vm->programs; part; part = part->vm_next)
        for (struct program *lead = program_has_set(part) && !is_first(part->server) ? vm->programs : NULL; lead;
             lead = lead->vm_next)
            if (lead->more_count && lead->pid == part->pid && lead->uid == part->uid)
                part_has(lead, part->server);
}

void program_leaves_set(struct cluster *cluster, struct program *program)
{
    const size_t count = program->more_count;
    program->more_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct server *server = program->more[i];
        program->more[i] = NULL;
        if (!server)
            continue;
        server->awaited--;
        server_check_idle(cluster, server);
    }
}

ctl_code servers_place_set(struct cluster *cluster, struct program *program, const struct place_set *place, bool shared,
                           char *text)
{
    struct server *first = NULL;
    uint64_t set = 0;
    bool placed = true;
    for (size_t i = 0; i < place->count && placed; i++) {
        struct server *server = place_in(cluster, program, &place->of[i], shared, place->count > 1 ? &set : NULL);
        placed = server != NULL;
        first = first ? first : server;
    }
    if (placed) {
        program_takes(program, first);
        return CTL_OK;
    }
    for (struct server *server = program->vm->servers, *next; first && server; server = next) {
        next = server->vm_next;
        if (server == first || server->row.set == first->row.id)
            server_stop(cluster, server, CTL_OK, "not all GPU servers of its program could be placed");
    }
    return (ctl_code)explain(text, CTL_INTERNAL, "no memory, or the resource DB cannot take more changes at present");
}

/* ---- ends ---- */

bool server_is_idle(const struct server *server)
{
    if (server->program_count || server->stopping || server->reserved || server->awaited)
        return false;
    /* Who uses an adopted one is known once its VM has named its programs and its node has counted its workers. */
    return !server->adopted || (server->vm && server->vm->named && !server->workers);
}

static void stop_again(struct loop_timer *timer, void *context)
{
    struct server *server = context;
    struct cluster *cluster = server->cluster;
    struct message message = { .kind = NODE_ORDER_STOP, .server = server->row.id, .code = server->code, .grace_ms = 0 };
    snprintf(message.text, sizeof message.text, "%.500s", server->text);
    if (server->node->registered)
        node_send_order(cluster, server->node, &message);
    loop_timer_start(cluster->loop, timer, STOP_AGAIN_MS, stop_again, server);
}

/* The program, which waited for this server, tries another one, or is refused. */
static void seek_again(struct cluster *cluster, struct program *program, const struct server *server, ctl_code code,
                       const char *why)
{
    bool lasts = code == CTL_DENIED || code == CTL_NO_ROOM || (code == CTL_INTERNAL && !server->never_ready);
    if (lasts || ++program->tries >= PROGRAM_TRIES ||
        (server->never_ready && !program_try_elsewhere(cluster, program, server))) {
        program_refuse(cluster, program, code, why);
        return;
    }
    program->state = ADMIN_PROGRAM_WAITING;
    snprintf(program->why, sizeof program->why, "another GPU server is sought, since %.200s", why);
    program_enter_queue(cluster, program);   /* tried again by the caller, when the books are right */
    program_limit_wait(cluster, program);
}

/* Programs that have it as one of several servers, and do not use it yet. */
static void release_awaiting(struct cluster *cluster, struct server *server, ctl_code code, const char *why)
{
    for (struct program *program = server->awaited ? server->vm->programs : NULL, *next; program; program = next) {
        bool has_it = false;
        next = program->vm_next;
        for (size_t i = 0; i < program->more_count; i++)
            if (program->more[i] == server) {
                program->more[i] = NULL;
                has_it = true;
            }
        server->awaited -= has_it;
        if (!has_it || program->state != ADMIN_PROGRAM_STARTING)
            continue;
        struct server *own = program->server;
        program_leaves_set(cluster, program);
        program_detach(program, "lost", why);
        if (own)
            server_check_idle(cluster, own);
        seek_again(cluster, program, server, code, why);
    }
}

/* Informs its programs, and lets them go. Those that never had it may try another. */
static void release_programs(struct cluster *cluster, struct server *server, ctl_code code, const char *why)
{
    const char *word = server->stopping && server->code == CTL_OK ? "stopped" : code == CTL_NO_ROOM ? "limit" : "lost";
    while (server->programs) {
        struct program *program = server->programs;
        bool had_it = program->state == ADMIN_PROGRAM_RUNNING;
        if (had_it)
            program_notify(cluster, program, CLIENT_EVENT_LOST, code, why);
        program_leaves_set(cluster, program);
        program_detach(program, word, why);
        if (had_it)
            program->state = ADMIN_PROGRAM_LOST;
        else
            seek_again(cluster, program, server, code, why);
    }
    if (server->vm)
        release_awaiting(cluster, server, code, why);
}

void server_gone(struct cluster *cluster, struct server *server, ctl_code code, const char *why)
{
    struct event_about which = about(server);
    char text[CTL_MAX_TEXT + 1];
    snprintf(text, sizeof text, "%s", why);     /* it may live in the server */
    bool deliberate = server->stopping && server->code == CTL_OK;
    cluster_event(cluster, deliberate ? ADMIN_INFO : ADMIN_WARNING, deliberate ? "server-ended" : "server-lost", &which,
                  "%.900s (%zu programs used it)", text, server->program_count);
    counts_note_code(cluster->counts.now.ended, deliberate ? CTL_OK : code);
    server->state = CTL_SERVER_ENDED;
    usage_settle(cluster, server);
    release_programs(cluster, server, code, text);
    resize_server_gone(cluster, server, text);
    store_delete_server(cluster, server->row.id);
    server_destroy(cluster, server);
    queue_retry(cluster);
}

void server_stop(struct cluster *cluster, struct server *server, ctl_code code, const char *why)
{
    if (server->stopping)
        return;
    struct message message = { .kind = NODE_ORDER_STOP, .server = server->row.id, .code = code,
                               .grace_ms = STOP_GRACE_MS };
    snprintf(message.text, sizeof message.text, "%.500s", why);
    struct event_about which = about(server);
    server->stopping = true;
    server->code = code;
    snprintf(server->text, sizeof server->text, "%s", why);
    cluster_event(cluster, ADMIN_INFO, "server-stopping", &which, "%.900s", why);
    release_programs(cluster, server, code == CTL_OK ? CTL_LOST : code, server->text);
    queue_retry(cluster);
    if (!server->ordered)
        return;                                 /* became_durable ends it */
    server->row.state = CTL_SERVER_STOPPING;
    store_put_server(cluster, server, NULL, NULL);
    node_send_order(cluster, server->node, &message);
    loop_timer_start(cluster->loop, &server->timer, STOP_AGAIN_MS, stop_again, server);
}

static void grace_over(struct loop_timer *timer, void *context)
{
    struct server *server = context;
    (void)timer;
    if (server->program_count || server->reserved || server->awaited)
        return;
    if (server->adopted && server->workers) {   /* somebody uses it whom we do not know (yet) */
        server_check_idle(server->cluster, server);
        return;
    }
    server_stop(server->cluster, server, CTL_OK,
                server->deserted            ? "its program has moved away"
                : server->row.program       ? "its program has ended"
                : server->node->row.drained ? "no program uses it, and its node is drained"
                                            : "no program has used it for the grace period");
}

void server_check_idle(struct cluster *cluster, struct server *server)
{
    if (server->program_count || server->reserved || server->awaited || server->stopping || cluster->stopping)
        return;
    /* Of an adopted one it is known that its program has ended once both the node and the VM have said what runs. */
    bool told = server->state == CTL_SERVER_RUNNING && !server->workers && server->vm && server->vm->named;
    /* Nobody else will use it. */
    bool over = server->row.program || server->node->row.drained || server->deserted;
    if (over && (!server->adopted || told))
        grace_over(&server->timer, server);
    else if (over || cluster->values->deallocate)
        loop_timer_start(cluster->loop, &server->timer,
                         over ? ADOPTED_IDLE_MS : (uint64_t)(cluster->values->grace * 1000), grace_over, server);
}

/* ---- reports ---- */

static void take_report(struct server *server, const ctl_server_report *report)
{
    server->address_count = 0;
    for (u_int i = 0; i < report->addresses.addresses_len; i++)
        snprintf(server->addresses[server->address_count++], sizeof server->addresses[0], "%s",
                 report->addresses.addresses_val[i]);
    server->granted_sms = report->granted_sms;
    server->memory_limit = report->memory_limit;
    server->memory_used = report->memory_used;
    server->workers = report->workers;
    server->pid = report->pid;
}

static void now_running(struct cluster *cluster, struct server *server)
{
    struct event_about which = about(server);
    server->state = CTL_SERVER_RUNNING;
    for (size_t i = 0; i < server->gpu_count; i++)
        health_start_worked(cluster, server->gpus[i]);
    loop_timer_stop(&server->timer);
    if (server->row.state != CTL_SERVER_RUNNING) {
        server->row.state = CTL_SERVER_RUNNING;
        if (!server->adopted)
            counts_note_time(&cluster->counts.now.servers, server->row.created);
        store_put_server(cluster, server, NULL, NULL);
        cluster_event(cluster, ADMIN_INFO, "server-running", &which, "at %s",
                      server->address_count ? server->addresses[0] : "no address");
    }
    for (struct program *program = server->vm ? server->vm->programs : NULL; program; program = program->vm_next) {
        bool awaits = false;
        for (size_t i = 0; i < program->more_count; i++)
            awaits |= program->more[i] == server && program->state == ADMIN_PROGRAM_STARTING;
        if ((program->server != server && !awaits) || !program_is_served(program))
            continue;
        program_runs(cluster, program);
        program_notify(cluster, program, CLIENT_EVENT_ANSWER, CTL_OK, "");
    }
    /* An adopted one waits for its client manager to say who uses it. */
    if (!server->adopted || (server->vm && server->vm->session))
        server_check_idle(cluster, server);
}

/* It crashed, and its node starts it again: those that used it have lost their sessions, the others wait. */
static void starts_again(struct cluster *cluster, struct server *server, const char *why)
{
    server->state = CTL_SERVER_STARTING;
    for (struct program *program = server->programs, *next; program; program = next) {
        next = program->server_next;
        if (program->state != ADMIN_PROGRAM_RUNNING)
            continue;
        program_notify(cluster, program, CLIENT_EVENT_LOST, CTL_LOST, why);
        program_leaves_set(cluster, program);
        program_detach(program, "lost", why);
        program->state = ADMIN_PROGRAM_LOST;
    }
}

void server_update(struct cluster *cluster, struct server *server, const ctl_server_report *report)
{
    struct event_about which = about(server);
    char text[CTL_MAX_TEXT + 1];
    take_report(server, report);
    /* Those of an adopted one, as it is reported first, were counted before. */
    if (report->restarts > server->restarts && (server->reported || !server->adopted))
        incidents_add(cluster, INCIDENT_RESTART, server->row.node, report->restarts - server->restarts);
    if (report->restarts > server->restarts)
        cluster_event(cluster, ADMIN_WARNING, "server-restarted", &which, "it crashed and was started again (%u times)",
                      report->restarts);
    server->restarts = report->restarts;
    server->reported = true;
    switch (report->state) {
    case CTL_SERVER_RUNNING:
        if (!server->stopping && server->state != CTL_SERVER_RUNNING)
            now_running(cluster, server);
        else if (!server->stopping && server->adopted && !server->program_count &&
                 !loop_timer_running(&server->timer) && server->vm && server->vm->session)
            server_check_idle(cluster, server);
        break;
    case CTL_SERVER_ENDED:
    case CTL_SERVER_FAILED:
        snprintf(text, sizeof text, "%s",
                 *report->status.text                 ? report->status.text
                 : report->state == CTL_SERVER_FAILED ? "the GPU server failed"
                                                      : "the GPU server ended");
        bool blames_node = report->status.code == CTL_INTERNAL || report->status.code == CTL_TIMEOUT;
        if (report->state == CTL_SERVER_FAILED && server->row.state == CTL_SERVER_STARTING && !server->stopping) {
            if (blames_node)
                start_failed(server, text);
            server->never_ready = true;
        }
        server_gone(cluster, server, report->status.code ? report->status.code : CTL_LOST, text);
        break;
    case CTL_SERVER_STARTING:
        if (!server->stopping && server->state == CTL_SERVER_RUNNING)
            starts_again(cluster, server,
                         *report->status.text ? report->status.text : "the GPU server is started again");
        break;
    default:
        break;
    }
}
