/*
 * served.c: which programs the workers of a server serve, so that the cluster manager knows until when each of them has
 * used its GPU: a program may end its connection to its client manager, and keep its session.
 *
 * The workers are looked at with every report of figures, also while the cluster manager is away: what could not be
 * sent waits with the other reports. The cluster manager asks about a program that has ended there
 * (NODE_ORDER_END_PROGRAM), or of which it does not know whether it is served (NODE_ORDER_SERVED); such questions are
 * answered as soon as no worker serves the program.
 */
#include <stdlib.h>
#include <string.h>

#include "control-managers/node-manager/node.h"

/* Looking at many workers takes a while: the pause between two looks is so many times as long. */
enum { FIRST_PAUSE_MS = 50, MOST_PAUSE_MS = 5000, MOST_ASKED = 4096, PART_OF_TIME = 20 };

static int by_number(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

static bool has(const uint64_t *ids, size_t count, uint64_t id)
{
    return count && bsearch(&id, ids, count, sizeof id, by_number);
}

static bool is_asked(const struct node_server *server, uint64_t program)
{
    for (size_t i = 0; i < server->asked_count; i++)
        if (server->asked[i] == program)
            return true;
    return false;
}

static int by_program(const void *a, const void *b)
{
    return by_number(&((const struct served_left *)a)->program, &((const struct served_left *)b)->program);
}

/* One of each program: when its last worker ended, and the error of one of them. */
static void join_left(struct served_now *now)
{
    size_t kept = 0;
    if (now->left_count)
        qsort(now->left, now->left_count, sizeof *now->left, by_program);
    for (size_t i = 0; i < now->left_count; i++) {
        struct served_left *one = &now->left[i], *last = kept ? &now->left[kept - 1] : NULL;
        if (!last || last->program != one->program) {
            now->left[kept++] = *one;
            continue;
        }
        last->when = one->when > last->when ? one->when : last->when;
        last->fault = last->fault ? last->fault : one->fault;
    }
    now->left_count = kept;
}

static const struct served_left *left_of(const struct served_now *now, uint64_t program)
{
    const struct served_left wanted = { .program = program };
    return now->left_count ? bsearch(&wanted, now->left, now->left_count, sizeof wanted, by_program) : NULL;
}

static int by_when(const void *a, const void *b)
{
    int64_t one = ((const struct served_left *)a)->when, other = ((const struct served_left *)b)->when;
    return (one > other) - (one < other);
}

/* Those that were served and are not, and those whose workers came and went between two looks; in the order in which
   they left. */
static void report_left(struct node_server *server, const struct served_now *now)
{
    size_t count = 0;
    struct served_left *all = malloc((server->served_count + now->left_count + 1) * sizeof *all);
    if (!all)
        return;
    for (size_t i = 0; i < server->served_count; i++) {
        const struct served_left *left = left_of(now, server->served[i]);
        if (has(now->ids, now->count, server->served[i]))
            continue;
        all[count] = left ? *left : (struct served_left){ .program = server->served[i] };
        all[count].when = all[count].when ? all[count].when : loop_time();
        count++;
    }
    for (size_t i = 0; i < now->left_count; i++)
        if (!has(now->ids, now->count, now->left[i].program) &&
            !has(server->served, server->served_count, now->left[i].program))
            all[count++] = now->left[i];
    qsort(all, count, sizeof *all, by_when);
    for (size_t i = 0; i < count; i++)
        server->left[server->lefts++ % SERVED_LEFT] = all[i];
    for (size_t i = 0; i < count; i++)
        node_report_left(server, all[i].program, all[i].when, all[i].fault);
    free(all);
}

/* Its end may have been reported to a cluster manager that did not live to write it down. */
static void report_again(const struct node_server *server, uint64_t program)
{
    for (unsigned i = server->lefts; i-- > (server->lefts > SERVED_LEFT ? server->lefts - SERVED_LEFT : 0);) {
        const struct served_left *left = &server->left[i % SERVED_LEFT];
        if (left->program == program) {
            node_report_left(server, program, left->when, left->fault);
            return;
        }
    }
    node_report_left(server, program, 0, 0);
}

static void report_served(const struct node_server *server, const struct served_now *now)
{
    for (size_t i = 0; i < now->count; i++)
        if (!has(server->served, server->served_count, now->ids[i]) && (!i || now->ids[i - 1] != now->ids[i]))
            node_report_left(server, now->ids[i], -1, 0);
}

void served_seen(struct node_server *server, struct served_now *now)
{
    size_t kept = 0;
    if (now->count)
        qsort(now->ids, now->count, sizeof *now->ids, by_number);
    join_left(now);
    report_left(server, now);
    report_served(server, now);
    for (size_t i = 0; i < server->asked_count; i++) {
        uint64_t program = server->asked[i];
        if (has(now->ids, now->count, program))
            server->asked[kept++] = program;
        else if (!has(server->served, server->served_count, program) && !left_of(now, program))
            report_again(server, program);
    }
    server->asked_count = kept;
    free(server->served);
    server->served = now->count ? realloc(now->ids, now->count * sizeof *now->ids) : NULL; /* less room */
    server->served_count = server->served ? now->count : 0;
    if (server->served)
        now->ids = NULL;
}

void served_end(struct node_server *server)
{
    struct served_now nobody = { 0 };
    served_seen(server, &nobody);
}

static void look(struct loop_timer *timer, void *context)
{
    struct node_server *server = context;
    uint64_t begun = uv_hrtime();
    workers_look(server);
    uint64_t took_ms = (uv_hrtime() - begun) / 1000000;
    server->served_pause = 2 * server->served_pause < MOST_PAUSE_MS ? 2 * server->served_pause : MOST_PAUSE_MS;
    uint64_t pause = PART_OF_TIME * took_ms;
    if (server->asked_count)
        loop_timer_start(server->node->loop, timer, pause > server->served_pause ? pause : server->served_pause, look,
                         server);
}

void served_ask(struct node_server *server, uint64_t program)
{
    if (is_asked(server, program) || server->asked_count == MOST_ASKED)
        return; /* it is asked again when this node registers again */
    if (server->asked_count == server->asked_room) {
        size_t room = server->asked_room ? 2 * server->asked_room : 16;
        uint64_t *asked = realloc(server->asked, room * sizeof *asked);
        if (!asked)
            return;
        server->asked = asked;
        server->asked_room = room;
    }
    server->asked[server->asked_count++] = program;
    server->served_pause = FIRST_PAUSE_MS;
    if (!loop_timer_running(&server->served_timer))
        loop_timer_start(server->node->loop, &server->served_timer, FIRST_PAUSE_MS, look, server);
}

void served_forget(struct node_server *server)
{
    loop_timer_stop(&server->served_timer);
    free(server->served);
    free(server->asked);
    free(server->works);
}
