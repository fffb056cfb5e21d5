/*
 * served.c: which programs the workers of a server serve, so that the cluster manager knows until when each of them has
 * used its GPU: a program may end its connection to its client manager, and keep its session.
 *
 * The workers are looked at with every report of figures, also while the cluster manager is away: what could not be
 * sent waits with the other reports. About a program that has ended there the cluster manager asks
 * (NODE_ORDER_END_PROGRAM); such questions are answered as soon as no worker serves the program.
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

static uint32_t fault_of(const struct served_now *now, uint64_t program)
{
    for (size_t i = 0; i < now->fault_count; i++)
        if (now->faults[i].program == program)
            return now->faults[i].code;
    return 0;
}

static bool is_asked(const struct server *server, uint64_t program)
{
    for (size_t i = 0; i < server->asked_count; i++)
        if (server->asked[i] == program)
            return true;
    return false;
}

void served_seen(struct server *server, struct served_now *now)
{
    if (now->count)
        qsort(now->ids, now->count, sizeof *now->ids, by_number);
    for (size_t i = 0; i < server->served_count; i++)
        if (!has(now->ids, now->count, server->served[i]))
            node_report_left(server, server->served[i], loop_time(), fault_of(now, server->served[i]));
    /* One that came and went between two looks, and about which nobody has asked yet: its file is gone now. */
    for (size_t i = 0; i < now->fault_count; i++) {
        uint64_t program = now->faults[i].program;
        if (!has(now->ids, now->count, program) && !has(server->served, server->served_count, program) &&
            !is_asked(server, program))
            node_report_left(server, program, loop_time(), now->faults[i].code);
    }
    size_t kept = 0;
    for (size_t i = 0; i < server->asked_count; i++) {
        uint64_t program = server->asked[i];
        if (has(now->ids, now->count, program))
            server->asked[kept++] = program;
        else if (!has(server->served, server->served_count, program))
            node_report_left(server, program, 0, fault_of(now, program));
    }
    server->asked_count = kept;
    free(server->served);
    if (now->count) { /* the room for many is given back */
        uint64_t *ids = realloc(now->ids, now->count * sizeof *ids);
        server->served = ids ? ids : now->ids;
    } else {
        free(now->ids);
        server->served = NULL;
    }
    server->served_count = now->count;
    *now = (struct served_now){ 0 };
}

void served_end(struct server *server)
{
    struct served_now nobody = { 0 };
    served_seen(server, &nobody);
}

static void look(struct loop_timer *timer, void *context)
{
    struct server *server = context;
    uint64_t begun = uv_hrtime();
    workers_look(server);
    uint64_t took_ms = (uv_hrtime() - begun) / 1000000;
    server->served_pause = 2 * server->served_pause < MOST_PAUSE_MS ? 2 * server->served_pause : MOST_PAUSE_MS;
    uint64_t pause = PART_OF_TIME * took_ms;
    if (server->asked_count)
        loop_timer_start(server->node->loop, timer, pause > server->served_pause ? pause : server->served_pause, look,
                         server);
}

void served_ask(struct server *server, uint64_t program)
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

void served_forget(struct server *server)
{
    loop_timer_stop(&server->served_timer);
    free(server->served);
    free(server->asked);
}
