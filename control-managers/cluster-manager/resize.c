/* resize.c: see resize.h. */
#include "control-managers/cluster-manager/usage.h"
#include "control-managers/cluster-manager/resize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/explain.h"

/* How long nodes and the DB may take besides what programs may take. Callers wait CTL_CALL_SECONDS, and the way back of
   a change that was refused must fit in, too. */
enum { RESIZE_MS = 6000, BACK_MS = 2500 };

enum part_state { PART_BOOKED, PART_DURABLE, PART_ORDERED, PART_DONE, PART_REFUSED, PART_UNKNOWN, PART_GONE };
struct resize_part {
    uint64_t server, order; /* order: its number, while ORDERED */
    uint32_t old_sms, new_sms;
    uint64_t old_memory, new_memory;
    enum part_state state;
    bool back; /* ordered, or taken, the other way */
};

struct resize {
    struct resize *next;
    struct cluster *cluster;
    uint64_t number;
    struct cluster_session *session; /* NULL: the asker has gone */
    struct loop_call *call;
    struct resize_wish wish;
    char vm[CTL_MAX_NAME + 1], by[WHO_SIZE];
    uint64_t until; /* loop_now: programs may take so long */
    bool back;      /* it goes the other way */
    ctl_code code;  /* what went wrong first */
    char text[CTL_MAX_TEXT + 1];
    struct loop_timer timer;
    size_t count;
    struct resize_part parts[];
};

static struct event_about about(const struct server *server)
{
    return (struct event_about){ .vm = server->row.vm, .node = server->row.node, .server = server->row.id,
                                 .program = server->row.program };
}

enum { SHARE_TEXT = 64 };

static const char *share_text(uint32_t sms, uint64_t memory, char out[SHARE_TEXT])
{
    snprintf(out, SHARE_TEXT, "%u SMs, %llu MiB", sms, (unsigned long long)(memory >> 20));
    return out;
}

static struct resize *resize_of(struct cluster *cluster, uint64_t server, struct resize_part **part)
{
    for (struct resize *resize = cluster->resizes; resize; resize = resize->next)
        for (size_t i = 0; i < resize->count; i++)
            if (resize->parts[i].server == server && resize->parts[i].state < PART_DONE) {
                *part = &resize->parts[i];
                return resize;
            }
    return NULL;
}

static void note_failure(struct resize *resize, ctl_code code, const char *text)
{
    if (resize->code == CTL_OK) {
        resize->code = code;
        snprintf(resize->text, sizeof resize->text, "%s", text);
    }
}

/* ---- books ---- */

static void book(struct cluster *cluster, struct server *server, uint32_t sms, uint64_t memory)
{
    if (server->row.sms == sms && server->row.memory == memory)
        return;
    for (size_t i = 0; i < server->gpu_count; i++)
        place_rebook(&cluster->pool, server->gpus[i]->slot, server->row.sms, server->row.memory, sms, memory);
    usage_accrue(server->cluster, server);
    server->row.sms = sms;
    server->row.memory = memory;
}

static uint32_t larger_sms(const struct resize_part *part)
{
    return part->old_sms > part->new_sms ? part->old_sms : part->new_sms;
}

static uint64_t larger_memory(const struct resize_part *part)
{
    return part->old_memory > part->new_memory ? part->old_memory : part->new_memory;
}

/* ---- checking ---- */

static uint64_t change_of(admin_change_kind kind, uint64_t now, uint64_t wanted)
{
    if (!wanted)
        return now;
    if (kind == ADMIN_CHANGE_INCREASE)
        return wanted < UINT64_MAX - now ? now + wanted : UINT64_MAX;
    if (kind == ADMIN_CHANGE_DECREASE)
        return wanted < now ? now - wanted : 0;
    return wanted;
}

/* Whether the GPU can give the server that share. */
static ctl_code check_gpu(const struct cluster *cluster, const struct cluster_gpu *gpu, const struct resize_part *part,
                          char *text)
{
    const struct place_gpu *slot = &cluster->pool.gpus[gpu->slot];
    if (part->new_sms < gpu->sms && part->new_sms != part->old_sms && !gpu->sm_limits)
        return explain(text, CTL_NOT_SUPPORTED, "GPU %s cannot hold a limit of SMs: %.500s", gpu->id, gpu->text);
    if (!place_may_grow(&cluster->pool, gpu->slot, part->new_sms, larger_sms(part) - part->old_sms, part->new_memory,
                        larger_memory(part) - part->old_memory))
        return explain(text, CTL_NO_ROOM,
                       "%u SMs and %llu MiB for GPU server %llu do not fit: GPU %s has %u SMs and %llu MiB, and all its"
                       " servers together have %u SMs and %llu MiB",
                       part->new_sms, (unsigned long long)(part->new_memory >> 20), (unsigned long long)part->server,
                       gpu->id, slot->sms, (unsigned long long)(slot->memory >> 20), slot->used_sms,
                       (unsigned long long)(slot->used_memory >> 20));
    return CTL_OK;
}

/* Fills the part; CTL_WAITING: the server has that share already. */
static ctl_code plan(struct cluster *cluster, struct server *server, const struct resize_wish *wish,
                     struct resize_part *part, char *text)
{
    const struct node *node = server->node;
    unsigned long long id = server->row.id;
    struct resize_part *other;
    uint64_t sms = change_of(wish->kind, server->row.sms, wish->sms);
    uint64_t memory = change_of(wish->kind, server->row.memory, wish->memory);
    if (resize_of(cluster, server->row.id, &other))
        return explain(text, CTL_BUSY, "another change of GPU server %llu is under way", id);
    if (server->reserved || server->leaving)
        return explain(text, CTL_BUSY, "a program moves to or from GPU server %llu: see `flytctl move list`", id);
    if (sms < 1 || memory < 1 << 20)
        return explain(text, CTL_INVALID, "GPU server %llu has %u SMs and %llu MiB: nothing would be left of it", id,
                       server->row.sms, (unsigned long long)(server->row.memory >> 20));
    *part = (struct resize_part){ .server = server->row.id,
                                  .old_sms = server->row.sms,
                                  .new_sms = (uint32_t)(sms < UINT32_MAX ? sms : UINT32_MAX),
                                  .old_memory = server->row.memory,
                                  .new_memory = memory };
    if (part->new_sms == part->old_sms && part->new_memory == part->old_memory)
        return CTL_WAITING;
    if (node->state != ADMIN_NODE_UP || !node->registered || !node->session)
        return explain(text, CTL_LOST, "GPU server %llu is on node %s, which is not connected", id, node->row.name);
    if (node->session->hello.minor < NODE_MINOR_SHARES)
        return explain(text, CTL_NOT_SUPPORTED,
                       "node %s runs an earlier release (%s), which cannot change the share of a GPU server that runs",
                       node->row.name, node->software);
    if (!server->durable || server->state != CTL_SERVER_RUNNING)
        return explain(text, CTL_BUSY, "GPU server %llu does not run at present: try again", id);
    ctl_code code = CTL_OK;
    for (size_t i = 0; i < server->gpu_count && code == CTL_OK; i++)
        code = check_gpu(cluster, server->gpus[i], part, text);
    return code;
}

static bool is_meant(const struct server *server, uint64_t client)
{
    const struct program *program = server->programs;
    while (program && program->id != client)
        program = program->server_next;
    return !server->stopping && (!client || program);
}

/* Plans and books. */
static ctl_code take_parts(struct cluster *cluster, struct vm *vm, struct resize *resize, char *text)
{
    size_t met = 0;
    ctl_code code = CTL_OK;
    for (struct server *server = vm->servers; server && code == CTL_OK; server = server->vm_next) {
        struct resize_part *part = &resize->parts[resize->count];
        if (!is_meant(server, resize->wish.client))
            continue;
        if (met++ == RESIZE_SERVERS)
            code = explain(text, CTL_NO_ROOM, "more than %d servers at a time are too many", RESIZE_SERVERS);
        if (code == CTL_OK)
            code = plan(cluster, server, &resize->wish, part, text);
        if (code == CTL_OK) {
            book(cluster, server, larger_sms(part), larger_memory(part));
            resize->count++;
        }
        code = code == CTL_WAITING ? CTL_OK : code;
    }
    if (code == CTL_OK && !met && !resize->wish.then.kind)
        code = resize->wish.client
                   ? explain(text, CTL_NOT_FOUND, "VM %s has no program %llu that uses a GPU server", vm->row.name,
                             (unsigned long long)resize->wish.client)
                   : explain(text, CTL_NOT_FOUND,
                             "VM %s has no running GPU server; `flytctl vm set` changes what its next one has",
                             vm->row.name);
    return code;
}

/* ---- the end ---- */

static void drop(struct resize *resize)
{
    struct resize **at = &resize->cluster->resizes;
    while (*at != resize)
        at = &(*at)->next;
    *at = resize->next;
    loop_timer_stop(&resize->timer);
    free(resize);
}

/* Writes the administrator's answer: what was changed or why nothing was, and which servers kept the new share although
   the change failed. */
static void describe(struct resize *resize, char *text, size_t size)
{
    size_t at = (size_t)snprintf(text, size, "%s", resize->text);
    for (size_t i = 0; i < resize->count && at + 1 < size; i++) {
        const struct resize_part *part = &resize->parts[i];
        const char *gap = at ? "; " : "";
        bool kept = resize->code != CTL_OK && part->state == PART_DONE && !part->back;
        if (part->state == PART_DONE && (resize->code == CTL_OK || kept))
            at += (size_t)snprintf(text + at, size - at, "%sGPU server %llu %s %u SMs and %llu MiB", gap,
                                   (unsigned long long)part->server, kept ? "could not be put back, and has" : "has",
                                   part->new_sms, (unsigned long long)(part->new_memory >> 20));
    }
}

static void settle_part(struct resize *resize, struct resize_part *part)
{
    struct cluster *cluster = resize->cluster;
    struct server *server = map_get_id(&cluster->servers, part->server);
    bool changed = part->state == PART_DONE && !part->back;
    if (!server || part->state == PART_UNKNOWN)       /* its node says what holds, when it knows */
        return;
    char before[SHARE_TEXT], after[SHARE_TEXT];
    struct event_about which = about(server);
    which.by = resize->by;
    which.before = share_text(part->old_sms, part->old_memory, before);
    which.after = share_text(part->new_sms, part->new_memory, after);
    book(cluster, server, changed ? part->new_sms : part->old_sms, changed ? part->new_memory : part->old_memory);
    store_put_server(cluster, server, NULL, NULL);
    if (changed)
        cluster_event(cluster, ADMIN_INFO, "server-resized", &which, "%u to %u SMs, %llu to %llu MiB, by %s",
                      part->old_sms, part->new_sms, (unsigned long long)(part->old_memory >> 20),
                      (unsigned long long)(part->new_memory >> 20), resize->by);
}

static void finish(struct resize *resize)
{
    struct cluster *cluster = resize->cluster;
    char text[CTL_MAX_TEXT + 1] = "";
    for (size_t i = 0; i < resize->count; i++)
        settle_part(resize, &resize->parts[i]);
    describe(resize, text, sizeof text);
    struct conn *conn = resize->session ? resize->session->conn : NULL;
    struct loop_call *call = resize->call;
    const struct resize_wish wish = resize->wish;
    ctl_code code = resize->code;
    struct event_about which = { .vm = resize->vm, .by = resize->by };
    if (code == CTL_UNKNOWN)
        cluster_event(cluster, ADMIN_WARNING, "change-unknown", &which, "%s, asked for by %s", text, resize->by);
    drop(resize);
    wish.done(conn, call, &wish, code, text);
    queue_retry(cluster);
}

static void overdue(struct loop_timer *, void *);

static void send_order(struct resize *resize, struct resize_part *part)
{
    struct cluster *cluster = resize->cluster;
    struct server *server = map_get_id(&cluster->servers, part->server);
    uint64_t now = loop_now(cluster->loop);
    struct message message = { .kind = NODE_ORDER_RESIZE,
                               .server = part->server,
                               .sms = part->back ? part->old_sms : part->new_sms,
                               .memory = part->back ? part->old_memory : part->new_memory,
                               .grace_ms = !part->back && resize->until > now ? (uint32_t)(resize->until - now) : 0 };
    outbox_forget(&server->node->orders, NODE_ORDER_RESIZE, part->server);
    part->state = PART_ORDERED;
    part->order = node_send_order(cluster, server->node, &message);
}

/* Those that took it get their old shares again. False: there are none. */
static bool go_back(struct resize *resize)
{
    bool any = false;
    resize->back = true;
    for (size_t i = 0; i < resize->count; i++) {
        struct resize_part *part = &resize->parts[i];
        if (part->state != PART_DONE || !map_get_id(&resize->cluster->servers, part->server))
            continue;
        part->back = true;
        send_order(resize, part);
        any = true;
    }
    if (any)
        loop_timer_start(resize->cluster->loop, &resize->timer, BACK_MS, overdue, resize);
    return any;
}

/* Goes on when all parts have come as far. */
static void advance(struct resize *resize)
{
    size_t booked = 0, durable = 0, ordered = 0;
    for (size_t i = 0; i < resize->count; i++) {
        booked += resize->parts[i].state == PART_BOOKED;
        durable += resize->parts[i].state == PART_DURABLE;
        ordered += resize->parts[i].state == PART_ORDERED;
    }
    if (booked || ordered)
        return;
    if (durable && resize->code == CTL_OK) {
        for (size_t i = 0; i < resize->count; i++)
            if (resize->parts[i].state == PART_DURABLE)
                send_order(resize, &resize->parts[i]);
        return;
    }
    if (resize->code == CTL_OK || resize->back || !go_back(resize))
        finish(resize);
}

static void overdue(struct loop_timer *timer, void *context)
{
    struct resize *resize = context;
    char text[CTL_MAX_TEXT + 1];
    (void)timer;
    for (size_t i = 0; i < resize->count; i++) {
        struct resize_part *part = &resize->parts[i];
        struct server *server = map_get_id(&resize->cluster->servers, part->server);
        if (part->state == PART_BOOKED) {
            note_failure(resize, CTL_DB_AWAY, "the resource DB does not answer; no GPU server was changed");
            part->state = PART_REFUSED;
        }
        if (part->state != PART_ORDERED)
            continue;
        part->state = PART_UNKNOWN;
        if (server)
            outbox_forget(&server->node->orders, NODE_ORDER_RESIZE, part->server);
        snprintf(text, sizeof text,
                 "node %s has not said whether GPU server %llu took the change; `flytctl server list` shows it when it"
                 " has",
                 server ? server->row.node : "?", (unsigned long long)part->server);
        note_failure(resize, CTL_UNKNOWN, text);
    }
    advance(resize);
}

/* ---- the steps ---- */

struct durable {
    struct cluster *cluster;
    uint64_t number, server;
};

static void became_durable(void *context, int error, const char *why)
{
    struct durable durable = *(struct durable *)context;
    char text[CTL_MAX_TEXT + 1];
    struct resize_part *part;
    free(context);
    if (durable.cluster->stopping)
        return;
    struct resize *resize = resize_of(durable.cluster, durable.server, &part);
    if (!resize || resize->number != durable.number || part->state != PART_BOOKED)
        return;
    part->state = error ? PART_REFUSED : PART_DURABLE;
    if (error) {
        snprintf(text, sizeof text, "the resource DB did not take the change: %.800s", why);
        note_failure(resize, CTL_INTERNAL, text);
    }
    advance(resize);
}

static void store(struct resize *resize, struct resize_part *part)
{
    struct server *server = map_get_id(&resize->cluster->servers, part->server);
    struct durable *durable = malloc(sizeof *durable);
    if (!durable) {
        part->state = PART_REFUSED;
        note_failure(resize, CTL_INTERNAL, "no memory");
        return;
    }
    *durable = (struct durable){ resize->cluster, resize->number, part->server };
    store_put_server(resize->cluster, server, became_durable, durable);
}

bool resize_under_way(struct cluster *cluster, uint64_t server)
{
    struct resize_part *part;
    return resize_of(cluster, server, &part) != NULL;
}

void resize_begin(struct conn *conn, struct loop_call *call, struct vm *vm, const struct resize_wish *wish)
{
    struct cluster_session *session = session_of(conn);
    struct cluster *cluster = session->cluster;
    char text[CTL_MAX_TEXT + 1] = "";
    struct resize *resize = calloc(1, sizeof *resize + (RESIZE_SERVERS + 1) * sizeof resize->parts[0]);
    if (!resize) {
        wish->done(conn, call, wish, CTL_INTERNAL, (char *)"no memory");
        return;
    }
    resize->cluster = cluster;
    resize->number = cluster_new_id(cluster);
    resize->session = session;
    resize->call = call;
    resize->wish = *wish;
    resize->until = loop_now(cluster->loop) + wish->within_ms;
    snprintf(resize->vm, sizeof resize->vm, "%s", vm->row.name);
    snprintf(resize->by, sizeof resize->by, "%s", session->who);
    ctl_code code = store_refuses(cluster, text) ? CTL_DB_AWAY : CTL_OK;
    if (code == CTL_OK)
        code = take_parts(cluster, vm, resize, text);
    resize->next = cluster->resizes;
    cluster->resizes = resize;
    if (code != CTL_OK) {
        note_failure(resize, code, text);
        for (size_t i = 0; i < resize->count; i++)
            resize->parts[i].state = PART_REFUSED;
        finish(resize);
        return;
    }
    const size_t count = resize->count;
    const uint64_t number = resize->number;
    loop_timer_start(cluster->loop, &resize->timer, RESIZE_MS + wish->within_ms, overdue, resize);
    for (size_t i = 0; i < count && cluster->resizes == resize && resize->number == number; i++)
        store(resize, &resize->parts[i]);
    if (!count)
        finish(resize);
}

bool resize_order_done(struct cluster *cluster, struct node *node, const node_order_done *done)
{
    for (struct resize *resize = cluster->resizes; resize; resize = resize->next)
        for (size_t i = 0; i < resize->count; i++) {
            struct resize_part *part = &resize->parts[i];
            const struct server *server = map_get_id(&cluster->servers, part->server);
            if (part->state != PART_ORDERED || part->order != done->number || !server || server->node != node)
                continue;
            if (part->back)                            /* it had taken the change, and keeps it if it refuses this */
                part->back = done->status.code == CTL_OK;
            else if (done->status.code != CTL_OK)
                note_failure(resize, done->status.code == CTL_TIMEOUT ? CTL_UNKNOWN : done->status.code,
                             done->status.text);
            part->state = done->status.code == CTL_TIMEOUT                 ? PART_UNKNOWN
                          : done->status.code == CTL_OK || resize->back ? PART_DONE
                                                                           : PART_REFUSED;
            advance(resize);
            return true;
        }
    return false;
}

void resize_reported(struct cluster *cluster, struct server *server, const node_share *share)
{
    struct event_about which = about(server);
    uint32_t sms = server->row.sms;
    uint64_t memory = server->row.memory;
    bool same = sms == share->sms && memory == share->memory;
    if (same || !share->sms || !share->memory)
        return;
    for (size_t i = 0; i < server->gpu_count; i++)
        if (share->sms > server->gpus[i]->sms)
            return;
    for (struct resize *resize = cluster->resizes; resize; resize = resize->next)
        for (size_t i = 0; i < resize->count; i++)
            if (resize->parts[i].server == server->row.id && resize->parts[i].state != PART_UNKNOWN)
                return;                               /* the larger of both stays booked until it ends */
    book(cluster, server, share->sms, share->memory);
    store_put_server(cluster, server, NULL, NULL);
    cluster_event(cluster, ADMIN_INFO, "server-share", &which,
                  "node %s says that it has %u SMs and %llu MiB; %u SMs and %llu MiB were booked", server->row.node,
                  share->sms, (unsigned long long)(share->memory >> 20), sms, (unsigned long long)(memory >> 20));
    queue_retry(cluster);
}

/* A node manager that began anew has forgotten what it was asked last. An order says what shall be, so that one which
   was carried out does no harm the second time. */
void resize_node_back(struct cluster *cluster, struct node *node)
{
    for (struct resize *resize = cluster->resizes; resize; resize = resize->next)
        for (size_t i = 0; i < resize->count; i++) {
            const struct server *server = map_get_id(&cluster->servers, resize->parts[i].server);
            if (resize->parts[i].state == PART_ORDERED && server && server->node == node)
                send_order(resize, &resize->parts[i]);
        }
}

void resize_server_gone(struct cluster *cluster, struct server *server, const char *why)
{
    struct resize_part *part;
    char text[CTL_MAX_TEXT + 1];
    struct resize *resize = resize_of(cluster, server->row.id, &part);
    outbox_forget(&server->node->orders, NODE_ORDER_RESIZE, server->row.id);
    if (!resize)
        return;
    snprintf(text, sizeof text, "GPU server %llu has ended meanwhile: %.600s", (unsigned long long)server->row.id, why);
    part->state = PART_GONE;
    note_failure(resize, CTL_LOST, text);
    loop_timer_start(cluster->loop, &resize->timer, 0, overdue, resize); /* not now: its caller takes it apart */
    for (size_t i = 0; i < resize->count; i++)
        if (resize->parts[i].state == PART_ORDERED || resize->parts[i].state == PART_BOOKED) {
            uint64_t now = loop_now(cluster->loop);
            loop_timer_start(cluster->loop, &resize->timer, RESIZE_MS + (resize->until > now ? resize->until - now : 0),
                             overdue, resize);
        }
}

void resizes_forget(struct cluster_session *session)
{
    for (struct resize *resize = session->cluster->resizes; resize; resize = resize->next)
        if (resize->session == session) {
            resize->session = NULL;
            resize->call = NULL;
        }
}

void resizes_end(struct cluster *cluster)
{
    while (cluster->resizes)
        drop(cluster->resizes);
}
