/* incidents.c: see incidents.h. */
#include "control-managers/cluster-manager/cluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_SIZE = CTL_MAX_NAME + 16 };

static const char *key_of(enum incident_kind kind, const char *name, char key[KEY_SIZE])
{
    snprintf(key, KEY_SIZE, "%d %s", (int)kind, name);
    return key;
}

static const char *row_key(const struct incident *incident, char key[DB_NAME_SIZE])
{
    snprintf(key, DB_NAME_SIZE, STORE_INCIDENT_KEY "%" PRIu64, incident->id);
    return key;
}

/* NULL: no memory. */
static struct incident *incident_make(struct cluster *cluster, enum incident_kind kind, const char *name, uint64_t id)
{
    char key[KEY_SIZE];
    struct incident *incident = calloc(1, sizeof *incident);
    if (!incident || !map_put(&cluster->incidents, key_of(kind, name, key), incident)) {
        free(incident);
        return NULL;
    }
    incident->cluster = cluster;
    incident->kind = kind;
    incident->id = id;
    snprintf(incident->name, sizeof incident->name, "%s", name);
    return incident;
}

static void incident_write(struct incident *);

static void was_written(void *context, int error, const char *why)
{
    struct incident *incident = context;
    (void)why; /* what was refused is written with the next one */
    incident->writing = false;
    if (!incident->cluster) {
        free(incident);
        return;
    }
    if (error)
        return;
    incident->durable = incident->written;
    if (incident->now != incident->written && !incident->cluster->stopping)
        incident_write(incident);
}

static void incident_write(struct incident *incident)
{
    char key[DB_NAME_SIZE], value[DB_VALUE_SIZE];
    if (incident->writing || !store_has_room(incident->cluster))
        return;
    incident->writing = true;
    incident->written = incident->now;
    snprintf(value, sizeof value, "%d %" PRIu64 " %s", (int)incident->kind, incident->now, incident->name);
    store_put_counts(incident->cluster, row_key(incident, key), value, was_written, incident);
}

void incidents_add(struct cluster *cluster, enum incident_kind kind, const char *name, uint64_t more)
{
    char key[KEY_SIZE];
    struct incident *incident = map_get(&cluster->incidents, key_of(kind, name, key));
    if (!incident)
        incident = incident_make(cluster, kind, name, cluster_new_id(cluster));
    if (!incident)
        return;
    incident->now += more;
    incident_write(incident);
}

void incidents_load(struct cluster *cluster, const char *key, const char *value)
{
    const uint64_t id = strtoull(key + strlen(STORE_INCIDENT_KEY), NULL, 10);
    char name[CTL_MAX_NAME + 1] = "", text[KEY_SIZE];
    unsigned long long count = 0;
    int kind = 0;
    if (sscanf(value, "%d %llu %64s", &kind, &count, name) != 3 || kind < INCIDENT_GPU_FAULT ||
        kind > INCIDENT_RESTART || map_get(&cluster->incidents, key_of((enum incident_kind)kind, name, text)))
        return;
    struct incident *incident = incident_make(cluster, (enum incident_kind)kind, name, id);
    if (incident)
        incident->now = incident->written = incident->durable = count;
}

static void forget(struct cluster *cluster, enum incident_kind kind, const char *name)
{
    char key[KEY_SIZE], row[DB_NAME_SIZE];
    struct incident *incident = map_remove(&cluster->incidents, key_of(kind, name, key));
    if (!incident)
        return;
    store_delete_meta(cluster, row_key(incident, row));
    incident->cluster = NULL;
    if (!incident->writing)
        free(incident);
}

void incidents_forget(struct cluster *cluster, const struct node *node)
{
    forget(cluster, INCIDENT_RESTART, node->row.name);
    for (size_t i = 0; i < node->gpu_count; i++)
        forget(cluster, INCIDENT_GPU_FAULT, node->gpus[i]->id);
}

void incidents_end(struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->incidents.count; i++)
        free(map_at(&cluster->incidents, i));
    map_free(&cluster->incidents);
}
