/*
 * shares.c: what one user of this VM may have at once of the client manager's connections and programs: as many as are
 * free for the others then (ipc.user-shares). One user gets half, the next one at most half of the rest, so there is
 * always something left. root is not bounded. A connection without a program ends when it asks for nothing.
 */
#include <sys/resource.h>

#include "control-managers/client-manager/manager.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"

enum {
    MAX_PROGRAMS = CTL_MAX_PROGRAMS,
    MAX_CONNECTIONS = 4096,
    OTHER_FILES = 64,      /* descriptors that are no connection's */
    CONNECTION_FILES = 2,  /* its own, and its program's process */
    CROWD = 16,            /* connections beyond a user's share that learn why they are refused */
    IDLE_MS = 30000
};

unsigned share_places(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return MAX_CONNECTIONS;
    if (files.rlim_cur < files.rlim_max) {
        const rlim_t now = files.rlim_cur;
        files.rlim_cur = files.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &files) != 0)
            files.rlim_cur = now;
    }
    const rlim_t places = files.rlim_cur > OTHER_FILES ? (files.rlim_cur - OTHER_FILES) / CONNECTION_FILES : 1;
    return places < MAX_CONNECTIONS ? (unsigned)places : MAX_CONNECTIONS;
}

/* By how many the user would exceed what is free for the others, if he got one more; 0: he may have it. */
static size_t beyond(const struct manager *manager, uid_t uid, size_t own, size_t all, size_t most)
{
    const size_t free = all < most ? most - all : 0;
    return uid == 0 || !manager->config->user_shares || own < free ? 0 : own - free + 1;
}

/* Logs a refusal, within a limit: a user who is refused can try again and again. */
static void note(struct manager *manager, const char *what, uid_t uid, size_t count)
{
    char more[48];
    if (log_limit_says(&manager->share_lines, more))
        log_warning("event=user-share what=%s uid=%u count=%zu: further ones of this user are refused%s", what,
                    (unsigned)uid, count, more);
}

/* ---- connections ---- */

static uid_t user_of(const struct conn *conn)
{
    pid_t pid;
    uid_t uid;
    gid_t gid;
    return conn_peer_credentials(conn, &pid, &uid, &gid) ? uid : (uid_t)-1;
}

void share_open(struct conn *conn)
{
    struct manager_visitor *visitor = conn_context(conn);
    struct manager *manager = visitor->manager;
    size_t own = 0, all = 0;
    visitor->uid = user_of(conn);
    for (const struct manager_visitor *other = manager->visitors; other; other = other->next) {
        own += other->uid == visitor->uid;
        all++;
    }
    visitor->next = manager->visitors;
    visitor->back = &manager->visitors;
    if (visitor->next)
        visitor->next->back = &visitor->next;
    manager->visitors = visitor;
    const size_t more = beyond(manager, visitor->uid, own, all, manager->places);
    visitor->crowded = more > 0;
    if (more)
        note(manager, "connections", visitor->uid, own);
    if (more > CROWD)
        conn_close(conn, "its user has too many connections");
}

void share_close(struct manager_visitor *visitor)
{
    loop_timer_stop(&visitor->idle);
    *visitor->back = visitor->next;
    if (visitor->next)
        visitor->next->back = visitor->back;
}

ctl_code share_greets(const struct manager_visitor *visitor, char *text)
{
    if (!visitor->crowded)
        return CTL_OK;
    return explain(text, CTL_NO_ROOM,
                   "user %u has as many connections to the client manager as are free for all others (of %u). End "
                   "programs of this user, or see ipc.user-shares in the client manager's configuration",
                   (unsigned)visitor->uid, visitor->manager->places);
}

static void idle_due(struct loop_timer *timer, void *context)
{
    struct conn *conn = context;
    const struct manager_visitor *visitor = conn_context(conn);
    (void)timer;
    if (visitor->view || visitor->value)
        share_used(conn); /* it waits for an answer */
    else if (!visitor->program && !visitor->value_owner)
        conn_close(conn, "it has no program, and has asked for nothing");
}

void share_used(struct conn *conn)
{
    struct manager_visitor *visitor = conn_context(conn);
    if (!visitor->program)
        loop_timer_start(visitor->manager->loop, &visitor->idle, IDLE_MS, idle_due, conn);
}

/* ---- programs ---- */

bool share_program(struct manager *manager, uid_t uid, char *text)
{
    size_t own = 0, all = 0;
    for (const struct client_program *at = manager->programs; at; at = at->next) {
        own += at->uid == uid;
        all++;
    }
    if (all >= MAX_PROGRAMS) {
        explain(text, 0, "there are too many programs on this VM");
        return false;
    }
    if (!beyond(manager, uid, own, all, MAX_PROGRAMS))
        return true;
    note(manager, "programs", uid, own);
    explain(text, 0,
            "user %u has %zu programs on this VM, as many as are free for all others (of %d). End some of them, or see "
            "ipc.user-shares in the client manager's configuration",
            (unsigned)uid, own, MAX_PROGRAMS);
    return false;
}
