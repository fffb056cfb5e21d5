/*
 * keys.c: the key that signs tickets, and its change.
 *
 * Nodes accept the newest key and those before it for as long as a ticket of theirs may be valid. A change is: a new
 * key, the old one's public half into FILE.old with the time until which it counts, the new one into FILE; then all
 * nodes are informed (NODE_ORDER_KEYS). A node that has not taken that yet gets tickets of the key before, which lives
 * on in memory until silence.lost has passed: whoever is silent for longer is lost anyway. When an old key's time is
 * over, nodes are informed. A crash at any point leaves FILE with one of the two keys, and FILE.old with all that may
 * still be needed.
 */
#include "control-managers/cluster-manager/cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/common/explain.h"
#include "cpu/common/log.h"

enum { LINE_SIZE = 128, OLD_MAX = TICKET_MAX_KEYS - 1 };

/* ---- FILE.old: lines of a public key in hexadecimal digits and the time (microseconds) until which it counts ---- */

static int old_path(const struct cluster *cluster, char *path, size_t size, char *error)
{
    return snprintf(path, size, "%s.old", cluster->values->ticket_key) < (int)size
               ? 0 : explain(error, -ENAMETOOLONG, "%s is too long", cluster->values->ticket_key);
}

static bool read_line(const char *line, struct old_key *key)
{
    long long until;
    if (strspn(line, "0123456789abcdef") != 2 * TICKET_KEY_SIZE ||
        sscanf(line + 2 * TICKET_KEY_SIZE, " %lld", &until) != 1)
        return false;
    for (size_t i = 0; i < TICKET_KEY_SIZE; i++) {
        unsigned byte;
        sscanf(line + 2 * i, "%2x", &byte);
        key->key[i] = (uint8_t)byte;
    }
    key->until = until;
    return true;
}

static void read_old(struct cluster *cluster, const char *path)
{
    char line[LINE_SIZE];
    struct old_key key;
    FILE *file = fopen(path, "re");
    while (file && cluster->old_count < OLD_MAX && fgets(line, sizeof line, file))
        if (!read_line(line, &key))
            log_warning("event=old-key-ignored path=%s: a line is no key and time", path);
        else if (memcmp(key.key, cluster->ticket_key, TICKET_KEY_SIZE) && key.until > loop_time())
            cluster->old_keys[cluster->old_count++] = key;
    if (file)
        fclose(file);
}

static int write_old(const struct cluster *cluster, const char *path, char *error)
{
    char text[OLD_MAX * LINE_SIZE] = "";
    size_t size = 0;
    for (size_t i = 0; i < cluster->old_count; i++) {
        for (size_t b = 0; b < TICKET_KEY_SIZE; b++)
            size += (size_t)snprintf(text + size, sizeof text - size, "%02x", cluster->old_keys[i].key[b]);
        size += (size_t)snprintf(text + size, sizeof text - size, " %lld\n", (long long)cluster->old_keys[i].until);
    }
    return secret_write(path, text, size, error);
}

/* ---- informing the nodes ---- */

size_t keys_fill(const struct cluster *cluster, uint8_t out[CTL_MAX_KEY])
{
    memcpy(out, cluster->ticket_key, TICKET_KEY_SIZE);
    for (size_t i = 0; i < cluster->old_count; i++)
        memcpy(out + (i + 1) * TICKET_KEY_SIZE, cluster->old_keys[i].key, TICKET_KEY_SIZE);
    return (cluster->old_count + 1) * TICKET_KEY_SIZE;
}

static void tell_nodes(struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->nodes.count; i++) {
        struct node *node = map_at(&cluster->nodes, i);
        struct message message = { .kind = NODE_ORDER_KEYS };
        if (node->registered)
            node_send_order(cluster, node, &message);
    }
}

void keys_taken(struct node *node)
{
    node->has_key = !outbox_has(&node->orders, NODE_ORDER_KEYS);
}

struct ticket_signer *keys_signer(const struct cluster *cluster, const struct node *node)
{
    bool before = cluster->signer_before && !node->has_key && loop_time() < cluster->before_until;
    return before ? cluster->signer_before : cluster->signer;
}

/* ---- time ---- */

static void retire_due(struct loop_timer *timer, void *context);

static void retire(struct cluster *cluster)
{
    char path[4096], error[CONTROL_ERROR_SIZE];
    int64_t now = loop_time(), next = INT64_MAX;
    size_t kept = 0;
    for (size_t i = 0; i < cluster->old_count; i++)
        if (cluster->old_keys[i].until > now)
            cluster->old_keys[kept++] = cluster->old_keys[i];
    if (kept != cluster->old_count) {
        cluster->old_count = kept;
        if (old_path(cluster, path, sizeof path, error) < 0 || write_old(cluster, path, error) < 0)
            log_warning("event=old-keys-not-written why=\"%s\": it is forgotten at the next start", error);
        cluster_event(cluster, ADMIN_INFO, "key-retired", NULL, "tickets of the old key are refused from now on");
        tell_nodes(cluster);
    }
    for (size_t i = 0; i < cluster->old_count; i++)
        next = cluster->old_keys[i].until < next ? cluster->old_keys[i].until : next;
    if (cluster->old_count)
        loop_timer_start(cluster->loop, &cluster->retire_keys, (uint64_t)(next - now) / 1000 + 1, retire_due, cluster);
}

static void retire_due(struct loop_timer *timer, void *context)
{
    (void)timer;
    retire(context);
}

/* ---- the interface ---- */

int keys_open(struct cluster *cluster, char *error)
{
    char path[4096];
    int failure = ticket_signer_open(cluster->values->ticket_key, &cluster->signer, error);
    if (failure == 0)
        failure = old_path(cluster, path, sizeof path, error);
    if (failure)
        return failure;
    ticket_signer_key(cluster->signer, cluster->ticket_key);
    read_old(cluster, path);
    retire(cluster);
    return 0;
}

void keys_close(struct cluster *cluster)
{
    loop_timer_stop(&cluster->retire_keys);
    ticket_signer_close(cluster->signer);
    ticket_signer_close(cluster->signer_before);
}

static int make_new(struct cluster *cluster, struct ticket_signer **fresh, char *error)
{
    char path[4096], temporary[4096];
    int failure = old_path(cluster, path, sizeof path, error);
    if (failure == 0 &&
        snprintf(temporary, sizeof temporary, "%s.new", cluster->values->ticket_key) >= (int)sizeof temporary)
        failure = explain(error, -ENAMETOOLONG, "%s is too long", cluster->values->ticket_key);
    if (failure)
        return failure;
    unlink(temporary);                          /* of one who died here */
    failure = ticket_signer_open(temporary, fresh, error);
    if (failure == 0)
        failure = write_old(cluster, path, error);
    if (failure == 0 && rename(temporary, cluster->values->ticket_key) < 0)
        failure =
            explain(error, -errno, "renaming %s to %s: %s", temporary, cluster->values->ticket_key, strerror(errno));
    if (failure) {
        unlink(temporary);
        ticket_signer_close(*fresh);
    }
    return failure;
}

ctl_code keys_rotate(struct cluster *cluster, const char *by, char *text)
{
    const struct event_about which = { .by = by };
    struct ticket_signer *fresh = NULL;
    char error[CONTROL_ERROR_SIZE] = "";
    const struct cluster_config *values = cluster->values;
    if (cluster->old_count == OLD_MAX)
        return explain(text, CTL_BUSY, "%d old keys are still accepted: wait until the first is not any more", OLD_MAX);
    struct old_key *old = &cluster->old_keys[cluster->old_count++];
    memmove(cluster->old_keys + 1, cluster->old_keys, (cluster->old_count - 1) * sizeof *old);     /* newest first */
    memcpy(cluster->old_keys[0].key, cluster->ticket_key, TICKET_KEY_SIZE);
    cluster->old_keys[0].until = loop_time() + (int64_t)((values->lost + values->ticket_seconds + 1) * 1e6);
    if (make_new(cluster, &fresh, error) < 0) {
        cluster->old_count--;
        memmove(cluster->old_keys, cluster->old_keys + 1, cluster->old_count * sizeof *old);
        return explain(text, CTL_INTERNAL, "the key stays as it is: %.900s", error);
    }
    ticket_signer_close(cluster->signer_before);
    cluster->signer_before = cluster->signer;
    cluster->before_until = loop_time() + (int64_t)(values->lost * 1e6);
    cluster->signer = fresh;
    ticket_signer_key(fresh, cluster->ticket_key);
    for (size_t i = 0; i < cluster->nodes.count; i++)
        ((struct node *)map_at(&cluster->nodes, i))->has_key = false;
    cluster_event(cluster, ADMIN_INFO, "key-changed", &which,
                  "tickets are signed with a new key, by order of %s; the old one counts for %.0f s", by,
                  values->lost + values->ticket_seconds + 1);
    tell_nodes(cluster);
    retire(cluster);                            /* sets the timer */
    snprintf(text, CTL_MAX_TEXT, "tickets are signed with a new key; those of the old one count for %.0f s",
             values->lost + values->ticket_seconds + 1);
    return CTL_OK;
}
