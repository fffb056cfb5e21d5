#include "control-managers/cluster-manager/changes.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/explain.h"

/* ---- the list: changes in the order in which they came ---- */

static bool same_thing(const struct change *a, const struct change *b)
{
    return strcmp(a->kind->noun, b->kind->noun) == 0 && strcmp(a->name, b->name) == 0;
}

static void append(struct change *change)
{
    struct change **at = &change->cluster->changes;
    while (*at)
        at = &(*at)->next;
    *at = change;
}

static void drop(struct change *change)
{
    struct change **at = &change->cluster->changes;
    while (*at != change)
        at = &(*at)->next;
    *at = change->next;
    loop_timer_stop(&change->timer);
    OPENSSL_cleanse(change->secret, sizeof change->secret);
    free(change);
}

static struct change *before(const struct change *change)
{
    struct change *at = change->cluster->changes;
    while (at != change && !same_thing(at, change))
        at = at->next;
    return at == change ? NULL : at;
}

bool change_pending(const struct cluster *cluster, const char *noun, const char *name)
{
    for (const struct change *at = cluster->changes; at; at = at->next)
        if (strcmp(at->kind->noun, noun) == 0 && strcmp(at->name, name) == 0)
            return true;
    return false;
}

const struct change *change_given(const struct cluster *cluster, const struct change *after)
{
    const struct change *at = after ? after->next : cluster->changes;
    while (at && !at->given)
        at = at->next;
    return at;
}

/* ---- answers ---- */

static void answer(struct change *change, ctl_code code, char *text)
{
    if (change->call)
        change->kind->reply(change, code, text);
    change->call = NULL;
}

static void answer_away(struct change *change, const char *why)
{
    char text[CTL_MAX_TEXT + 1];
    snprintf(text, sizeof text, "the resource DB does not answer: %.800s. Nothing was changed; try again later", why);
    answer(change, CTL_DB_AWAY, text);
}

/* ---- one after the other ---- */

static void stored(void *context, int error, const char *why);
static void patience_over(struct loop_timer *timer, void *context);

/* false: it was answered, and is to be dropped. */
static bool begin(struct change *change)
{
    struct cluster *cluster = change->cluster;
    char text[CTL_MAX_TEXT + 1] = "";
    if (store_db_away(cluster, text, sizeof text)) {
        answer_away(change, text);
        return false;
    }
    ctl_code code = change->kind->prepare(cluster, change, text);
    if (code != CTL_OK) {
        answer(change, code, text);
        return false;
    }
    if (db_worker_apply(cluster->db, &change->row, 1, stored, change, &change->job) < 0) {
        answer_away(change, "too many changes wait for it already");
        return false;
    }
    change->given = true;
    return true;
}

/* Begins what waits for nothing any more. */
static void go_on(struct cluster *cluster)
{
    struct change *change = cluster->changes;
    while (change) {
        struct change *next = change->next;
        if (!change->given && !before(change) && !begin(change)) {
            drop(change);
            next = cluster->changes;            /* the one behind it may be about the same thing */
        }
        change = next;
    }
}

static void end(struct change *change)
{
    struct cluster *cluster = change->cluster;
    drop(change);
    go_on(cluster);
}

void change_submit(struct conn *conn, struct loop_call *call, const struct change *what)
{
    struct cluster_session *session = session_of(conn);
    struct cluster *cluster = session->cluster;
    struct change *change = malloc(sizeof *change);
    if (!change) {
        call_refuse(call);
        return;
    }
    *change = *what;
    change->next = NULL;
    change->cluster = cluster;
    change->session = session;
    change->call = call;
    snprintf(change->by, sizeof change->by, "%s", session->who);
    append(change);
    loop_timer_start(cluster->loop, &change->timer, CHANGE_PATIENCE_MS, patience_over, change);
    go_on(cluster);
}

ctl_code change_new_secret(struct change *change, uint8_t stored[DB_STORED_SIZE], char *text)
{
    struct secret secret = { .size = SECRET_TEXT_SIZE };
    if (secret_make(change->secret) < 0)
        return explain(text, CTL_INTERNAL, "there are no random numbers for a secret");
    memcpy(secret.bytes, change->secret, SECRET_TEXT_SIZE);
    secret_stored(&secret, stored);
    secret_wipe(&secret);
    return CTL_OK;
}

/* ---- what becomes of it ---- */

static struct event_about about(const struct change *change)
{
    bool node = change->row.kind == DB_NODE;
    return (struct event_about){ .vm = node ? "" : change->name, .node = node ? change->name : "",
                                 .by = change->by };
}

static void unknown(struct loop_timer *timer, void *context)
{
    struct change *change = context;
    struct event_about which = about(change);
    char text[CTL_MAX_TEXT + 1];
    (void)timer;
    snprintf(
        text, sizeof text,
        "the resource DB has not said for %d s whether it took the change of %s %s. The change may have been made, "
        "or is made when the resource DB answers again: `%s %s` shows it then",
        CHANGE_ANSWER_MS / 1000, change->kind->noun, change->name, change->kind->look, change->name);
    change->unknown = true;
    cluster_event(change->cluster, ADMIN_WARNING, "change-unknown", &which, "%s, asked for by %s", text, change->by);
    answer(change, CTL_UNKNOWN, text);
}

static void patience_over(struct loop_timer *timer, void *context)
{
    struct change *change = context;
    char why[CTL_MAX_TEXT + 1] = "it is too slow";
    if (!change->given || db_worker_withdraw(change->cluster->db, change->job)) {
        store_db_away(change->cluster, why, sizeof why);
        answer_away(change, why);
        end(change);
    } else {
        loop_timer_start(change->cluster->loop, timer, CHANGE_ANSWER_MS - CHANGE_PATIENCE_MS, unknown, change);
    }
}

static void stored(void *context, int error, const char *why)
{
    struct change *change = context;
    struct cluster *cluster = change->cluster;
    struct event_about which = about(change);
    char text[CTL_MAX_TEXT + 1];
    if (error == 0) {
        if (!cluster->stopping)
            change->kind->carry_out(cluster, change);
        answer(change, CTL_OK, change->remark);
    } else if (error == -ECANCELED) {
        answer_away(change, why);
    } else if (error == -EEXIST) {
        snprintf(text, sizeof text, "there is a %s '%s' already", change->kind->noun, change->name);
        answer(change, CTL_EXISTS, text);
    } else {
        snprintf(text, sizeof text, "the resource DB did not take the change: %.800s", why);
        answer(change, CTL_INTERNAL, text);
    }
    if (error && change->unknown && !cluster->stopping)
        cluster_event(cluster, ADMIN_WARNING, "change-failed", &which,
                      "the change of %s %s, of which %s was told that its outcome is "
                      "unknown, was not made: %.700s",
                      change->kind->noun, change->name, change->by, why);
    end(change);
}

void changes_forget(struct cluster_session *session)
{
    struct cluster *cluster = session->cluster;
    for (struct change *change = cluster->changes, *next; change; change = next) {
        next = change->next;
        if (change->session != session)
            continue;
        change->session = NULL;
        change->call = NULL;                    /* the loop has freed it */
        if (!change->given || db_worker_withdraw(cluster->db, change->job))
            drop(change);
    }
    if (!cluster->stopping)
        go_on(cluster);
}
