/*
 * unreached.c: programs that do not reach the GPU server that they were given: the link between VM and node is lost, a
 * firewall is between, or one side wants TLS and the other has none. Another place is looked for, within what the VM is
 * entitled to; where there is none, the program keeps its server and may go on trying.
 */
#include "control-managers/cluster-manager/changes.h"

#include <stdio.h>

/* Could it have a server on another node now? The server that it has is given up if nobody else uses it. */
static bool has_other_place(struct cluster *cluster, struct program *program)
{
    struct place_request request = server_request(cluster, program);
    struct place_result place;
    bool alone = program->server->program_count == 1;
    return server_is_shared(program) ||
           ((alone || server_within_entitlement(program->vm, &request)) &&
            place_choose(&cluster->pool, cluster->values->policy, &request, &place) == PLACE_FOUND);
}

/* Its server is another's, or nobody's, from now on. */
static void leave_server(struct cluster *cluster, struct program *program, const char *why)
{
    struct server *server = program->server;
    struct event_about which = { .vm = program->vm->row.name, .node = server->row.node, .server = server->row.id,
                                 .program = program->id };
    cluster_event(cluster, ADMIN_WARNING, "server-unreached", &which, "%.200s (pid %u) looks for another one: %.600s",
                  program->executable, program->pid, why);
    program_revoke(cluster, program);
    program_detach(program, "unreached", why);
}

/* CTL_OK, CTL_WAITING, or a refusal with text (CTL_MAX_TEXT + 1). */
static ctl_code seek_other(struct cluster *cluster, struct program *program, bool never, const char *why, char *text)
{
    struct server *old = program->server;
    char wanted[CTL_MAX_TEXT + 1];
    if (program->tries >= PROGRAM_TRIES || program->avoid_count == PROGRAM_TRIES || program_has_set(program))
        return never ? CTL_DENIED : CTL_OK;
    program->avoid[program->avoid_count++] = old->node;
    if (!has_other_place(cluster, program) && !never) {
        program->avoid_count--;
        return CTL_OK;
    }
    program->tries++;
    leave_server(cluster, program, why);
    ctl_code code = server_seek(cluster, program, program->wait, program->wait_ms, wanted);
    if (code != CTL_OK && code != CTL_WAITING)
        snprintf(text, CTL_MAX_TEXT + 1, "%.400s; elsewhere: %.500s", why, wanted);
    server_check_idle(cluster, old);
    return code;
}

void client_handle_unreached(struct conn *conn, struct loop_call *call, void *object)
{
    const client_unreached_args *args = object;
    struct vm *vm = client_vm_of(conn);
    struct program *program = vm ? map_get_id(&vm->by_key, args->key) : NULL;
    struct answer_buffers buffers;
    client_answer answer;
    char text[CTL_MAX_TEXT + 1];
    ctl_code code = CTL_OK;
    snprintf(text, sizeof text, "%s", args->why);
    if (!program) {
        program_refusal(args->key, 0, CTL_NOT_FOUND, (char *)"there is no such program", &answer);
        call_reply(call, &answer);
        return;
    }
    program->shaken = true;
    /* It may have got another one meanwhile: the answer says so. */
    bool is = program->state == ADMIN_PROGRAM_RUNNING && program->server->row.id == args->server;
    if (is)
        code = seek_other(vm->cluster, program, args->never, args->why, text);
    if (code == CTL_OK || code == CTL_WAITING) {
        program_fill_answer(vm->cluster, program, &answer, &buffers);
        call_reply(call, &answer);
        return;
    }
    program_refusal(args->key, program->id, code, text, &answer);
    call_reply(call, &answer);
    struct server *server = program->server;
    program_refused(vm->cluster, program, code, text);
    if (server)
        server_check_idle(vm->cluster, server);
}
