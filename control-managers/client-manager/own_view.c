/*
 * own_view.c: what a user of this VM sees of it (PROGRAM_STATUS): the cluster manager is asked, and programs of other
 * users are left out of its answer. Where it does not answer, there are the programs that are known here.
 *
 * Whoever asks has no program here, so that nothing is placed for the question. Of a connection one question at a time
 * is under way.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/client-manager/manager.h"

struct view_ask {
    struct manager *manager;
    struct conn *conn; /* NULL: it has ended */
    struct loop_call *call;
    bool all; /* the asker may see all programs */
    uid_t uid;
};

/* Moves those that the asker may see to the front. How many those are. */
static u_int leave_out(const struct view_ask *ask, ctl_own_program *programs, u_int count)
{
    u_int kept = 0;
    for (u_int i = 0; i < count; i++)
        if (ask->all || programs[i].uid == ask->uid) {
            ctl_own_program seen = programs[i];
            programs[i] = programs[kept]; /* so that all are freed once */
            programs[kept++] = seen;
        }
    return kept;
}

/* Takes the answer as it is, but for the programs that are left out. */
static void answer(struct view_ask *ask, const program_status_result *from)
{
    program_status_result result = *from;
    result.programs.programs_len = leave_out(ask, from->programs.programs_val, from->programs.programs_len);
    result.hidden = from->programs.programs_len - result.programs.programs_len;
    if (ask->conn) {
        *program_view(ask->conn) = NULL;
        call_reply(ask->call, &result);
    }
    free(ask);
}

static admin_program_state state_of(const struct client_program *program)
{
    return program->removed                      ? ADMIN_PROGRAM_LOST
           : program->server == CLIENT_SUSPENDED ? ADMIN_PROGRAM_SUSPENDED
           : program->state == PROGRAM_RUNNING   ? ADMIN_PROGRAM_RUNNING
           : program->state == PROGRAM_ASKING    ? ADMIN_PROGRAM_WAITING
                                                 : ADMIN_PROGRAM_LOST;
}

/* Without the cluster manager. */
static void answer_alone(struct view_ask *ask, ctl_code code, char *text)
{
    struct manager *manager = ask->manager;
    ctl_own_program *programs = calloc(CTL_MAX_PROGRAMS, sizeof *programs);
    program_status_result result = { .status = { code, text }, .vm = manager->name, .now = loop_time() };
    for (struct client_program *program = manager->programs;
         programs && program && result.programs.programs_len < CTL_MAX_PROGRAMS; program = program->next) {
        if (program->ended)
            continue;
        programs[result.programs.programs_len++] = (ctl_own_program){
            .id = program->id,
            .pid = program->pid,
            .uid = program->uid,
            .executable = program->executable,
            .state = state_of(program),
            .position = program->state == PROGRAM_ASKING ? program->answer.position : 0,
            .server = program->server == CLIENT_SUSPENDED ? 0 : program->server,
            .since = 0,
            .transport = program->mode,
            .why = program->state == PROGRAM_RUNNING ? NULL : program->answer.status.text,
        };
    }
    result.programs.programs_val = programs;
    answer(ask, &result);
    free(programs);
}

static void came(void *context, int error, const char *why, void *object)
{
    struct view_ask *ask = context;
    char text[CTL_MAX_TEXT + 1];
    snprintf(text, sizeof text, "the cluster manager does not answer: %.800s", error ? why : "");
    if (error)
        answer_alone(ask, error == -ENOSYS ? CTL_NOT_SUPPORTED : CTL_LOST, text);
    else
        answer(ask, object);
}

void view_handle(struct conn *conn, struct loop_call *call, void *object)
{
    struct manager *manager = manager_of(conn);
    struct view_ask **under_way = program_view(conn), *ask = *under_way ? NULL : calloc(1, sizeof *ask);
    char text[CTL_MAX_TEXT + 1] = "the cluster manager is of an earlier release, which does not say more";
    pid_t pid;
    gid_t gid;
    (void)object;
    if (!ask) {
        call_refuse(call);
        return;
    }
    *ask = (struct view_ask){ .manager = manager, .conn = conn, .call = call, .uid = (uid_t)-1 };
    if (!conn_peer_credentials(conn, &pid, &ask->uid, &gid))
        ask->uid = (uid_t)-1;
    ask->all = ask->uid == 0 || manager->config->status == MANAGER_STATUS_ALL;
    *under_way = ask;
    int failure = cluster_status(manager, came, ask);
    if (failure == -ENOTCONN)
        program_describe_away(manager, text);
    if (failure)
        answer_alone(ask, failure == -ENOSYS ? CTL_NOT_SUPPORTED : CTL_LOST, text);
}

void view_forget(struct view_ask *ask) { ask->conn = NULL; /* freed when the cluster manager has answered */ }
