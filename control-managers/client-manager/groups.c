/*
 * groups.c: programs that share memory move together, and are suspended, resumed and saved together (PROGRAM_MEET in
 * control_prot.x).
 *
 * The library of a program that is to move says with which sessions it shares memory. If there are any, its move is the
 * first of a group, and the cluster manager is asked to order moves for the others. The programs then wait for each
 * other at four places; all of them pass, or nobody does. At the last one it is decided here that they are at the new
 * server. That is on the disk before anybody hears it, so that a client manager which begins anew says the same. What
 * it finds undecided then stays so: these programs stay.
 *
 * A program that is suspended keeps the number that its session had, and is found by it when its group is resumed.
 */
#include "control-managers/client-manager/manager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/explain.h"
#include "cpu/common/log.h"

enum { BEAT_MS = 1000 };

/* Of the move that it carries out; 0: that is its own. */
static uint64_t group_of(const struct client_program *program)
{
    const struct program_move *move = &program->move;
    bool moves = move->state >= MOVE_OFFERED && move->state <= MOVE_COMMITTED;
    return moves && program->group.move == move->id ? program->group.group : 0;
}

bool group_open(const struct client_program *program)
{
    return group_of(program) && program->move.passed <= CTL_MEETS_SEALED;
}

/* Sessions of two servers may have the same number. *twice: two programs say that they have it, one of which lies. */
static struct client_program *by_session(const struct manager *manager, uint64_t server, uint64_t session, bool *twice)
{
    struct client_program *found = NULL;
    *twice = false;
    for (struct client_program *program = manager->programs; program; program = program->next) {
        if (program->ended || program->session_at != server || program->session != session)
            continue;
        *twice |= found != NULL;
        found = program;
    }
    return found;
}

/* What is said while it is suspended was given by the server before, which is known already, or to nobody. */
static void note_session(struct client_program *program, uint64_t session)
{
    if (program->server != CLIENT_SUSPENDED || program->session != session)
        program->session_at = program->server;
    program->session = session;
}

static void answer(struct client_program *program, ctl_code code, const char *text)
{
    struct loop_call *call = program->meets;
    const ctl_plain_result result = { { code, (char *)(uintptr_t)text } };
    loop_timer_stop(&program->meet_beat);
    program->meets = NULL;
    if (call)
        call_reply(call, &result);
}

static void beat(struct loop_timer *timer, void *context)
{
    (void)timer;
    answer(context, CTL_WAITING, "");
}

/* ---- failures and decisions ---- */

static const char *why_failed(const struct manager *manager, uint64_t group)
{
    for (int i = 0; group && i < GROUPS_KEPT; i++)
        if (manager->failed[i].group == group)
            return manager->failed[i].text;
    return NULL;
}

static void fail(struct manager *manager, uint64_t group, const char *text)
{
    if (!group || why_failed(manager, group))
        return;
    struct failed_group *failed = &manager->failed[manager->failed_last++ % GROUPS_KEPT];
    failed->group = group;
    snprintf(failed->text, sizeof failed->text, "%s", text);
    log_info("event=group-stays move=%llu why=\"%s\"", (unsigned long long)group, text);
    for (struct client_program *program = manager->programs; program; program = program->next)
        if (group_of(program) == group && program->meets)
            answer(program, CTL_BUSY, failed->text);
}

static bool group_decided(const struct manager *manager, uint64_t move)
{
    for (unsigned i = 0; move && i < manager->decided_count; i++)
        if (manager->decided[i] == move)
            return true;
    return false;
}

void group_left(struct client_program *program, const char *why)
{
    char text[CTL_MAX_TEXT + 1];
    const uint64_t group = group_of(program);
    snprintf(text, sizeof text, "program %llu, which shares memory with it, does not go along: %.800s",
             (unsigned long long)program->id, why);
    if (group && !group_decided(program->manager, program->move.id))
        fail(program->manager, group, text);
    answer(program, CTL_BUSY, why);
}

void group_decision_note(struct manager *manager, uint64_t move)
{
    if (manager->decided_count == GROUP_DECISIONS)
        memmove(manager->decided, manager->decided + 1, --manager->decided_count * sizeof *manager->decided);
    manager->decided[manager->decided_count++] = move;
}

/* Its end is known to the cluster manager. */
void group_decision_forget(struct manager *manager, uint64_t move)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < manager->decided_count; i++)
        if (manager->decided[i] != move)
            manager->decided[kept++] = manager->decided[i];
    manager->decided_count = kept;
}

/* False: it could not be written, and all stay. */
static bool decide(struct manager *manager, uint64_t group)
{
    const unsigned before = manager->decided_count;
    for (struct client_program *program = manager->programs; program; program = program->next)
        if (group_of(program) == group)
            group_decision_note(manager, program->move.id);
    if (state_save(manager))
        return true;
    manager->decided_count = before;
    return false;
}

/* ---- who belongs to it ---- */

static void asked(void *context, int error, const char *why, void *object)
{
    struct group_ask *ask = context;
    const ctl_plain_result *result = object;
    if (error)
        fail(ask->manager, ask->group, why);
    else if (result->status.code != CTL_OK)
        fail(ask->manager, ask->group, result->status.text);
    free(ask);
}

/* at_rest: nobody can be added any more. False: it is not complete; the group fails, or others are asked for. */
static bool complete(struct client_program *program, uint64_t group, bool at_rest)
{
    struct manager *manager = program->manager;
    const struct program_move *move = &program->move;
    const bool suspended = program->server == CLIENT_SUSPENDED;
    uint64_t keys[CTL_MAX_PARTNERS];
    u_int count = 0;
    bool all = true;
    for (u_int i = 0; i < move->partner_count; i++) {
        bool twice;
        struct client_program *other = by_session(manager, program->session_at, move->partners[i], &twice);
        if (twice) {
            fail(manager, group, "two programs say that they are the one with which it shares memory");
            return false;
        }
        if (other ? group_of(other) == group : suspended)
            continue; /* it has ended since they were suspended */
        all = false;
        if (!other || at_rest) {
            fail(manager, group,
                 other ? "another program has just got memory of it"
                       : "it shares memory with a program that the client manager of this VM does not "
                         "know");
            return false;
        }
        if (other->wanted != group)
            keys[count++] = other->key;
        other->wanted = group;
    }
    struct group_ask *ask = count ? malloc(sizeof *ask) : NULL;
    if (ask) {
        *ask = (struct group_ask){ manager, group };
        if (cluster_ask_group(program, group, keys, count, asked, ask) == 0)
            return false;
        free(ask);
    }
    if (count)
        fail(manager, group, "the cluster manager is away, or of an earlier release");
    return all;
}

static bool all_complete(struct manager *manager, uint64_t group, bool at_rest)
{
    bool all = true;
    for (struct client_program *program = manager->programs; program; program = program->next)
        if (group_of(program) == group)
            all &= complete(program, group, at_rest);
    return all && !why_failed(manager, group);
}

/* ---- meetings ---- */

/* The last meeting that all of them have come to, counted from 1; 0: none. */
static unsigned all_arrived(const struct manager *manager, uint64_t group)
{
    unsigned least = CTL_MEETS_SEALED + 1;
    for (const struct client_program *program = manager->programs; program; program = program->next)
        if (group_of(program) == group && program->move.arrived < least)
            least = program->move.arrived;
    return least;
}

static void look(struct manager *manager, uint64_t group)
{
    const unsigned here = all_arrived(manager, group);
    bool goes = here > CTL_MEETS_RESTED + 1 || all_complete(manager, group, here > CTL_MEETS_PREPARED + 1);
    if (!here || !goes || why_failed(manager, group))
        return;
    if (here == CTL_MEETS_SEALED + 1 && !decide(manager, group)) {
        fail(manager, group, "the decision could not be written to the disk");
        return;
    }
    for (struct client_program *program = manager->programs; program; program = program->next) {
        if (group_of(program) != group || program->move.passed >= here)
            continue;
        program->move.passed = here;
        if (here == CTL_MEETS_SEALED + 1)
            program->move.state = MOVE_COMMITTED;
        answer(program, CTL_OK, "");
    }
}

static void hold(struct client_program *program, const program_meet *args)
{
    struct program_move *move = &program->move;
    move->arrived = (unsigned)args->where + 1;
    if (args->where <= CTL_MEETS_RESTED) {
        move->partner_count = args->partners.partners_len;
        memcpy(move->partners, args->partners.partners_val, move->partner_count * sizeof *move->partners);
    }
    loop_timer_start(program->manager->loop, &program->meet_beat, BEAT_MS, beat, program);
}

void group_handle_meet(struct conn *conn, struct loop_call *call, void *object)
{
    const program_meet *args = object;
    struct client_program *program = program_of(conn);
    ctl_plain_result result = { { CTL_BUSY, (char *)(uintptr_t) "it was called off" } };
    struct program_move *move = program ? &program->move : NULL;
    const bool moves = move && move->id == args->move && move->state >= MOVE_OFFERED && move->state <= MOVE_COMMITTED;
    if (program && args->where == CTL_MEETS_SEALED && group_decided(program->manager, args->move)) {
        result.status = (ctl_status){ CTL_OK, (char *)(uintptr_t) "" };
        call_reply(call, &result);
        return;
    }
    if (!moves || move->cancelled || move->resumed || (unsigned)args->where > CTL_MEETS_SEALED) {
        call_reply(call, &result);
        return;
    }
    if (args->session)
        note_session(program, args->session);
    if (!group_of(program) && !args->partners.partners_len) {
        result.status = (ctl_status){ CTL_NOT_FOUND, (char *)(uintptr_t) "" };
        call_reply(call, &result);
        return;
    }
    if (!group_of(program))
        program->group = (client_group){ program->key, move->id, move->id };
    const uint64_t group = group_of(program);
    if (program->meets)
        answer(program, CTL_WAITING, "");
    program->meets = call;
    if (why_failed(program->manager, group))
        answer(program, CTL_BUSY, why_failed(program->manager, group));
    else if (move->passed > (unsigned)args->where)
        answer(program, CTL_OK, "");
    else {
        hold(program, args);
        look(program->manager, group);
    }
}

void group_handle_session(struct conn *conn, struct loop_call *call, void *object)
{
    const program_session *args = object;
    struct client_program *program = program_of(conn);
    const ctl_plain_result result = { { CTL_OK, (char *)(uintptr_t) "" } };
    if (program)
        note_session(program, args->session);
    call_reply(call, &result);
}

void group_take(struct manager *manager, const client_group *given)
{
    struct client_program *program = program_find(manager, given->key);
    if (!program || program->ended)
        return;
    program->group = *given;
    if (program->move.arrived && group_of(program))
        look(manager, given->group);
}
