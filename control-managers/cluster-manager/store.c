/*
 * store.c: what is written to the resource DB, whether the DB is there, and ids. It calls nothing of this room, so that
 * every file may change a row. load.c reads the DB.
 */
#include "control-managers/cluster-manager/cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/log.h"

/* A call of the DB that has been under way for so long means that it does not answer. */
enum { ID_BLOCK = 100000, ID_MARGIN = 20000, SILENT_MS = 3000 };

static void failed_for_good(void *context, int error, const char *why)
{
    struct cluster *cluster = context;
    (void)cluster;
    if (error && error != -ECANCELED)
        log_error(
            "event=db-write-failed why=\"%s\": the resource DB and this manager may disagree until it is started again",
            why);
}

static void apply(struct cluster *cluster, const struct db_change *change, void (*done)(void *, int, const char *),
                  void *context)
{
    int failure =
        db_worker_apply(cluster->db, change, 1, done ? done : failed_for_good, done ? context : cluster, NULL);
    if (failure)
        log_error("event=db-write-refused: %zu changes wait for the resource DB, no more are kept",
                  db_worker_waiting(cluster->db));
    if (failure && done)
        done(context, failure, "too much waits for the resource DB already");
}

/* ---- writing ---- */

void store_put_server(struct cluster *cluster, const struct server *server, void (*done)(void *, int, const char *),
                      void *context)
{
    struct db_change change = { .action = DB_PUT, .kind = DB_SERVER };
    change.row.server = server->row;
    apply(cluster, &change, done, context);
}

void store_delete_server(struct cluster *cluster, uint64_t id)
{
    struct db_change change = { .action = DB_DELETE, .kind = DB_SERVER };
    change.row.server.id = id;
    apply(cluster, &change, NULL, NULL);
}

void store_put_node(struct cluster *cluster, struct node *node)
{
    struct db_change change = { .action = DB_PUT, .kind = DB_NODE };
    change.row.node = node->row;
    node->puts++;
    apply(cluster, &change, NULL, NULL);
}

void store_event(struct cluster *cluster, const struct db_event *event, uint64_t trim)
{
    struct db_change changes[2] = { { .action = DB_PUT, .kind = DB_EVENT }, { .action = DB_TRIM, .kind = DB_EVENT } };
    changes[0].row.event = *event;
    changes[1].row.event.number = trim;
    /* Events are dropped before anything else is. */
    if (store_has_room(cluster))
        db_worker_apply(cluster->db, changes, trim ? 2 : 1, failed_for_good, cluster, NULL);
}

bool store_has_room(const struct cluster *cluster)
{
    return cluster->loaded && db_worker_waiting(cluster->db) < DB_WORKER_MAX / 2;
}

/* A quarter of the queue is left to what must not be refused. */
bool store_usage(struct cluster *cluster, const struct db_change *changes, size_t count)
{
    return cluster->loaded && db_worker_waiting(cluster->db) < DB_WORKER_MAX / 4 * 3 &&
           db_worker_apply(cluster->db, changes, count, failed_for_good, cluster, NULL) == 0;
}

void store_put_meta(struct cluster *cluster, const char *key, const char *value)
{
    struct db_change change = { .action = DB_PUT, .kind = DB_META };
    snprintf(change.row.meta.key, sizeof change.row.meta.key, "%s", key);
    snprintf(change.row.meta.value, sizeof change.row.meta.value, "%s", value);
    apply(cluster, &change, NULL, NULL);
}

void store_put_counts(struct cluster *cluster, const char *key, const char *value,
                      void (*done)(void *, int, const char *), void *context)
{
    struct db_change change = { .action = DB_PUT, .kind = DB_META };
    snprintf(change.row.meta.key, sizeof change.row.meta.key, "%s", key);
    snprintf(change.row.meta.value, sizeof change.row.meta.value, "%s", value);
    apply(cluster, &change, done, context);
}

void store_put_move(struct cluster *cluster, uint64_t id, const char *value, void (*done)(void *, int, const char *),
                    void *context)
{
    struct db_change change = { .action = DB_PUT, .kind = DB_META };
    snprintf(change.row.meta.key, sizeof change.row.meta.key, STORE_MOVE_KEY "%llu", (unsigned long long)id);
    snprintf(change.row.meta.value, sizeof change.row.meta.value, "%s", value);
    apply(cluster, &change, done, context);
}

void store_delete_meta(struct cluster *cluster, const char *key)
{
    struct db_change change = { .action = DB_DELETE, .kind = DB_META };
    snprintf(change.row.meta.key, sizeof change.row.meta.key, "%s", key);
    apply(cluster, &change, NULL, NULL);
}

void store_delete_move(struct cluster *cluster, uint64_t id)
{
    char key[DB_NAME_SIZE];
    snprintf(key, sizeof key, STORE_MOVE_KEY "%llu", (unsigned long long)id);
    store_delete_meta(cluster, key);
}

/* Rows are written in order, so a row with an id below the limit is durable only after the limit is. */
void store_reserve_ids(struct cluster *cluster)
{
    char text[32];
    cluster->id_limit = cluster->next_id + ID_BLOCK;
    snprintf(text, sizeof text, "%llu", (unsigned long long)cluster->id_limit);
    store_put_meta(cluster, "next-id", text);
}

uint64_t cluster_new_id(struct cluster *cluster)
{
    uint64_t id = cluster->next_id++;
    if (cluster->next_id + ID_MARGIN > cluster->id_limit)
        store_reserve_ids(cluster);
    return id;
}

/* ---- the state of the DB ---- */

bool store_db_away(const struct cluster *cluster, char *text, size_t size)
{
    unsigned silent = db_worker_silence(cluster->db);
    if (cluster->db_up && silent < SILENT_MS)
        return false;
    if (!cluster->db_up)
        snprintf(text, size, "%s", cluster->db_text);
    else
        snprintf(text, size, "it has been silent for %u s", silent / 1000);
    return true;
}

bool store_refuses(const struct cluster *cluster, char *text)
{
    char why[CTL_MAX_TEXT + 1];
    if (!store_db_away(cluster, why, sizeof why))
        return false;
    snprintf(text, CTL_MAX_TEXT + 1, "the resource DB does not answer: %.800s. Nothing was changed; try again later",
             why);
    return true;
}
