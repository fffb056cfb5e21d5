/*
 * refusal.c: peers that are not let in, as events. A peer tries again every few seconds, and strangers can try as often
 * as they like: the same refusal is one event in ten minutes, and there are at most ten in a minute. The log has all.
 */
#include "control-managers/cluster-manager/cluster.h"

#include <stdio.h>
#include <string.h>

enum { SAME_MS = 10 * 60 * 1000, MINUTE_MS = 60 * 1000, MOST_IN_A_MINUTE = 10 };

static bool is_new(struct refusals *refusals, const char *text, uint64_t now)
{
    for (size_t i = 0; i < REFUSALS_KEPT; i++)
        if (refusals->kept[i].at && now - refusals->kept[i].at < SAME_MS && !strcmp(refusals->kept[i].text, text))
            return false;
    if (!refusals->minute || now - refusals->minute >= MINUTE_MS) {
        refusals->minute = now;
        refusals->count = 0;
    }
    if (refusals->count >= MOST_IN_A_MINUTE)
        return false;
    refusals->count++;
    snprintf(refusals->kept[refusals->next].text, REFUSAL_TEXT_SIZE, "%s", text);
    refusals->kept[refusals->next].at = now;
    refusals->next = (refusals->next + 1) % REFUSALS_KEPT;
    return true;
}

void refusal_note(struct cluster *cluster, const struct conn *conn, const struct hello *hello, const char *why)
{
    /* Without the port, which is another one each time. */
    const char *from = *conn_peer_host(conn) ? conn_peer_host(conn) : conn_peer(conn);
    char text[REFUSAL_TEXT_SIZE];
    if (cluster->stopping)
        return;
    const unsigned role = hello ? (unsigned)hello->role : CTL_ROLE_NONE;
    cluster->counts.now.peers_refused[role < COUNT_ROLES ? role : CTL_ROLE_NONE]++;
    if (hello)
        snprintf(text, sizeof text, "%s '%s' from %s: %s", protocol_role_name(hello->role), hello->name, from, why);
    else
        snprintf(text, sizeof text, "somebody from %s: %s", from, why);
    if (is_new(&cluster->refusals, text, loop_now(cluster->loop) + 1))
        cluster_event(cluster, ADMIN_WARNING, "peer-refused", NULL, "%s", text);
}
