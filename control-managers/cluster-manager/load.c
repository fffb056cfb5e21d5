/*
 * load.c: reads the resource DB. The cluster manager reads all of it once, and serves no peer before that.
 * Later only entitlements are loaded again, because others may change them (db.h).
 */
#include "control-managers/cluster-manager/moving.h"
#include "control-managers/cluster-manager/usage.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/common/daemon.h"
#include "control-managers/common/notify.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"

enum { READY_MS = 10000, RELOAD_MS = 15000, AGAIN_MS = 1000, EVENTS_LOADED = 1000 };

/* ---- entitlements, again ---- */

static void take_vm(struct cluster *cluster, const struct db_vm *row)
{
    struct vm *vm = map_get(&cluster->vms, row->name);
    if (!protocol_name_valid(row->name)) {
        log_warning("event=entitlement-ignored name=\"%s\": it is no valid name", row->name);
        return;
    }
    if (vm)
        vm_rename_address(cluster, vm, row);
    else if (!vm)
        vm = vm_create(cluster, row);
    if (vm)
        vm->seen = cluster->vm_turn;
}

/* Entitlements that were loaded again: 20,000 take tens of milliseconds, so they are taken in slices. Whatever else
   changes an entitlement meanwhile ends it, since the rows may be older: they are loaded once more. */
struct vm_reload {
    struct db_rows rows; /* a copy */
    size_t next;
    bool stays;       /* a VM that is gone from the DB is in use */
    uint64_t changes; /* cluster->vm_changes, as this reload knows it */
};

enum { SLICE_NS = 1000000, SLICE_MS = 5 };

static void reload_due(struct loop_timer *timer, void *context)
{
    (void)timer;
    load_vms(context);
}

static void reload_end(struct cluster *cluster)
{
    struct vm_reload *reload = cluster->vm_reload;
    cluster->vm_reload = NULL;
    if (reload) {
        free((void *)(uintptr_t)reload->rows.kinds);
        free((void *)(uintptr_t)reload->rows.places);
        free((void *)(uintptr_t)reload->rows.bytes);
    }
    free(reload);
}

void load_end(struct cluster *cluster)
{
    loop_timer_stop(&cluster->reload_vms);
    reload_end(cluster);
}

static void *copy_of(const void *from, size_t size)
{
    void *copy = malloc(size + 1);
    return copy ? memcpy(copy, from, size) : NULL;
}

/* false: no memory. */
static bool reload_begin(struct cluster *cluster, const struct db_rows *rows)
{
    struct vm_reload *reload = calloc(1, sizeof *reload);
    cluster->vm_reload = reload;
    if (!reload)
        return false;
    reload->rows = (struct db_rows){
        .count = rows->count,
        .digest = rows->digest,
        .size = rows->size,
        .kinds = copy_of(rows->kinds, rows->count * sizeof *rows->kinds),
        .places = copy_of(rows->places, rows->count * sizeof *rows->places),
        .bytes = copy_of(rows->bytes, rows->size),
    };
    reload->changes = cluster->vm_changes;
    cluster->vm_turn++;
    return reload->rows.kinds && reload->rows.places && reload->rows.bytes;
}

/* One of the rows, and behind them one of the VMs that may be gone, from the last to the first. */
static void reload_one(struct cluster *cluster, struct vm_reload *reload)
{
    union db_row row;
    if (reload->next < reload->rows.count) {
        db_rows_get(&reload->rows, reload->next++, &row);
        take_vm(cluster, &row.vm);
        return;
    }
    struct vm *vm = map_at(&cluster->vms, cluster->vms.count - 1 - (reload->next++ - reload->rows.count));
    if (!vm || vm->seen == cluster->vm_turn)
        return;
    if (vm->server_count || vm->program_count) { /* it stays until it is not in use */
        reload->stays = true;
        return;
    }
    log_info("event=entitlement-gone vm=%s: it was removed from the resource DB", vm->row.name);
    vm_destroy(cluster, vm);
    reload->next--; /* the one before it has its place now, counted from the end */
}

static void reload_slice(struct loop_timer *timer, void *context)
{
    struct cluster *cluster = context;
    struct vm_reload *reload = cluster->vm_reload;
    const uint64_t until = uv_hrtime() + SLICE_NS;
    bool whole = reload->changes == cluster->vm_changes;
    while (whole && reload->next < reload->rows.count + cluster->vms.count && uv_hrtime() < until)
        reload_one(cluster, reload);
    reload->changes = cluster->vm_changes;
    if (whole && reload->next < reload->rows.count + cluster->vms.count) {
        loop_timer_start(cluster->loop, timer, SLICE_MS, reload_slice, cluster);
        return;
    }
    cluster->vms_digest = whole && !reload->stays ? reload->rows.digest : 0;
    reload_end(cluster);
    loop_timer_start(cluster->loop, timer, whole ? RELOAD_MS : AGAIN_MS, reload_due, cluster);
    queue_retry(cluster);
}

static void vms_loaded(void *context, int error, const char *why, const struct db_rows *rows)
{
    struct cluster *cluster = context;
    cluster->loading_vms = false;
    if (cluster->stopping)
        return;
    loop_timer_start(cluster->loop, &cluster->reload_vms, RELOAD_MS, reload_due, cluster);
    if (error) {
        log_warning("event=entitlements-not-read why=\"%s\"", why);
    } else if (cluster->vms_digest && rows->digest == cluster->vms_digest) {
        queue_retry(cluster);
    } else if (reload_begin(cluster, rows)) {
        reload_slice(&cluster->reload_vms, cluster);
    } else {
        reload_end(cluster);
    }
}

void load_vms(struct cluster *cluster)
{
    /* the entitlements that are being taken may be older than this request */
    cluster->vm_changes += cluster->vm_reload != NULL;
    if (cluster->loading_vms || cluster->vm_reload || !cluster->loaded || cluster->stopping)
        return;
    cluster->loading_vms = db_worker_load(cluster->db, DB_VM, 0, vms_loaded, cluster) == 0;
    if (!cluster->loading_vms)
        loop_timer_start(cluster->loop, &cluster->reload_vms, RELOAD_MS, reload_due, cluster);
}

/* ---- everything, once ---- */

static void take_meta(struct cluster *cluster, const struct db_meta *row)
{
    if (strcmp(row->key, "next-id") == 0)
        cluster->next_id = strtoull(row->value, NULL, 10);
    else if (strcmp(row->key, "cluster") == 0)
        snprintf(cluster->name, sizeof cluster->name, "%.*s", CTL_MAX_LABEL, row->value);
    else if (strncmp(row->key, STORE_COUNTS_KEY, strlen(STORE_COUNTS_KEY)) == 0)
        counts_load(cluster, row->key, row->value);
    else if (strncmp(row->key, STORE_INCIDENT_KEY, strlen(STORE_INCIDENT_KEY)) == 0)
        incidents_load(cluster, row->key, row->value);
    else if (strncmp(row->key, STORE_MOVE_KEY, strlen(STORE_MOVE_KEY)) == 0)
        moving_load(cluster, strtoull(row->key + strlen(STORE_MOVE_KEY), NULL, 10), row->value);
}

static void take_node(struct cluster *cluster, const struct db_node *row)
{
    struct node *node = node_create(cluster, row->name);
    if (!node)
        return;
    node->row = *row;
    node->in_db = true;
    node_expect_gpus(cluster, node);
}

static void take_server(struct cluster *cluster, const struct db_server *row)
{
    struct server *server;
    if (!map_get(&cluster->nodes, row->node))
        node_create(cluster, row->node);
    server = server_create(cluster, row);
    if (!server) {
        log_error("event=server-not-adopted server=%llu node=%s gpu=%s: no memory, or too many GPUs",
                  (unsigned long long)row->id, row->node, row->gpus);
        return;
    }
    server->durable = server->ordered = server->adopted = true;
    server->stopping = row->state == CTL_SERVER_STOPPING;
    /* Where it listens is known, and grants can be given, when its node has said so. */
    server->state = row->state == CTL_SERVER_RUNNING ? CTL_SERVER_STARTING : (ctl_server_state)row->state;
}

static void take_event(struct cluster *cluster, const struct db_event *row)
{
    struct event_ring *ring = &cluster->events;
    if (row->number >= ring->next)
        ring->next = row->number + 1;
    if (ring->count < ring->capacity)
        ring->events[ring->count++] = *row;
}

/* Whoever starts this daemon learns when it serves, and also when it has to wait: for a DB that is away, or for
   another cluster manager. `systemctl start` would wait with it otherwise, and `systemctl status` shows the text. */
static void tell_ready(struct cluster *cluster, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void tell_ready(struct cluster *cluster, const char *format, ...)
{
    char state[CTL_MAX_TEXT + 64] = "READY=1\nSTATUS=";
    size_t at = strlen(state);
    va_list list;
    va_start(list, format);
    vsnprintf(state + at, sizeof state - at, format, list);
    va_end(list);
    loop_timer_stop(&cluster->ready_late);
    notify_send(state);
}

static void ready_late(struct loop_timer *timer, void *context)
{
    (void)timer;
    tell_ready(context, "the resource DB has not answered yet");
}

static void load(struct cluster *);
static void load_again(struct loop_timer *timer, void *context)
{
    (void)timer;
    load(context);
}

static void all_loaded(void *context, int error, const char *why, const struct db_rows *rows)
{
    struct cluster *cluster = context;
    if (cluster->stopping)
        return;
    if (error) {
        log_error("event=db-not-read why=\"%s\": tried again in %d s", why, RELOAD_MS / 1000);
        snprintf(cluster->db_text, sizeof cluster->db_text, "%s", why);
        tell_ready(cluster, "the manager serves no peer until it can read the resource DB: %s", why);
        loop_timer_start(cluster->loop, &cluster->reload_vms, RELOAD_MS, load_again, cluster);
        return;
    }
    /* Nodes and VMs first: servers refer to them. */
    static const enum db_kind order[] = { DB_META, DB_VM, DB_NODE, DB_SERVER, DB_EVENT, DB_USAGE };
    for (size_t k = 0; k < sizeof order / sizeof order[0]; k++)
        for (size_t i = 0; i < rows->count; i++) {
            union db_row row;
            if (rows->kinds[i] != order[k])
                continue;
            db_rows_get(rows, i, &row);
            switch (order[k]) {
            case DB_META:   take_meta(cluster, &row.meta); break;
            case DB_VM:     take_vm(cluster, &row.vm); break;
            case DB_NODE:   take_node(cluster, &row.node); break;
            case DB_SERVER: take_server(cluster, &row.server); break;
            case DB_USAGE:  usage_load(cluster, &row.usage); break;
            default:        take_event(cluster, &row.event); break;
            }
        }
    for (size_t i = 0; i < cluster->servers.count; i++) {
        struct server *server = map_at(&cluster->servers, i);
        if (server->row.id >= cluster->next_id)
            cluster->next_id = server->row.id + 1;
    }
    cluster->loaded = true;
    store_reserve_ids(cluster);
    usage_begin(cluster);
    counts_begin(cluster);
    moving_look(cluster);
    void **servers = map_values(&cluster->servers);
    for (size_t i = 0, count = cluster->servers.count; servers && i < count; i++)
        if (!((struct server *)servers[i])->vm)
            server_stop(cluster, servers[i], CTL_OK, "its VM has no entitlement any more");
    free(servers);
    if (!*cluster->name) {
        uint8_t random[8];
        RAND_bytes(random, sizeof random);
        snprintf(cluster->name, sizeof cluster->name, "flyt-%02x%02x%02x%02x%02x%02x%02x%02x", random[0], random[1],
                 random[2], random[3], random[4], random[5], random[6], random[7]);
        store_put_meta(cluster, "cluster", cluster->name);
    }
    for (size_t i = 0; i < cluster->vms.count; i++)
        client_silence_begin(cluster, map_at(&cluster->vms, i));
    cluster_event(cluster, ADMIN_INFO, "manager-started", NULL,
                  "%s of cluster %s: %zu VMs, %zu nodes, %zu servers to adopt", daemon_software(), cluster->name,
                  cluster->vms.count, cluster->nodes.count, cluster->servers.count);
    tell_ready(cluster, "serving");
    loop_timer_start(cluster->loop, &cluster->reload_vms, RELOAD_MS, reload_due, cluster);
}

static void load(struct cluster *cluster)
{
    if (db_worker_load(cluster->db, DB_ALL, EVENTS_LOADED, all_loaded, cluster) != 0)
        loop_timer_start(cluster->loop, &cluster->reload_vms, RELOAD_MS, load_again, cluster);
}

static void db_state(void *context, enum db_state state, const char *text)
{
    struct cluster *cluster = context;
    bool was_up = cluster->db_up, up = state == DB_UP, news = state != cluster->db_state;
    cluster->db_up = up;
    cluster->db_state = state;
    snprintf(cluster->db_text, sizeof cluster->db_text, "%.*s", CTL_MAX_TEXT, up ? "" : text);
    servers_tell_db(cluster);
    if (cluster->loaded && up != was_up) {
        cluster_event(cluster, up ? ADMIN_INFO : ADMIN_ERROR, up ? "db-back" : "db-away", NULL, "%s", text);
        tell_ready(cluster, "%s%s",
                   up ? "serving" : "the resource DB is away, and nothing can be changed: ", up ? "" : text);
    } else if (news && state == DB_AWAY) {
        log_error("event=db-away text=\"%s\": it is tried again", text);
        tell_ready(cluster, "waiting for the resource DB, and serving nobody: %s", text);
    } else if (news && state == DB_ELSEWHERE) {
        log_info("event=standby text=\"%s\"", text);
        tell_ready(cluster, "standing by: %s", text);
    }
}

static void db_lost(void *context, const char *text)
{
    struct cluster *cluster = context;
    log_error("event=replaced text=\"%s\": this manager ends; servers and programs go on", text);
    cluster->stopping = cluster->replaced = true;
    loop_stop(cluster->loop);
}

/* `uri`, or what host, port, user, password and dbname make. */
static int make_uri(const struct cluster_config *values, char *uri, size_t size, char *error)
{
    char password[SECRET_MAX_SIZE + 1] = "";
    struct secret secret;
    if (!*values->db_host)
        return snprintf(uri, size, "%s", values->db_uri) < (int)size
                   ? 0
                   : explain(error, -ENAMETOOLONG, "vm-resource-db.uri is too long");
    if (*values->db_password) {
        int failure = secret_resolve(values->db_password, false, &secret, error);
        if (failure)
            return failure;
        snprintf(password, sizeof password, "%.*s", (int)secret.size, (const char *)secret.bytes);
        secret_wipe(&secret);
    }
    int failure = db_uri_mongo(values->db_host, (unsigned)values->db_port, values->db_user, password, values->db_name,
                               uri, size, error);
    OPENSSL_cleanse(password, sizeof password);
    return failure;
}

int load_start(struct cluster *cluster, char *error)
{
    const struct db_worker_events events = { .state = db_state, .lost = db_lost, .context = cluster };
    char uri[16384];
    int failure = make_uri(cluster->values, uri, sizeof uri, error);
    if (failure)
        return failure;
    snprintf(cluster->db_kind, sizeof cluster->db_kind, "%s", strncmp(uri, "mongodb", 7) == 0 ? "mongodb" : "sqlite");
    failure = db_check(uri, error);
    if (failure == 0)
        failure = db_worker_start(cluster->loop, uri, &events, &cluster->db, error);
    OPENSSL_cleanse(uri, sizeof uri);
    if (failure)
        return failure;
    load(cluster);
    loop_timer_start(cluster->loop, &cluster->ready_late, READY_MS, ready_late, cluster);
    return 0;
}
