/* find.c: the program of a connection, and the one of a key; why the cluster manager is away. */
#include "control-managers/client-manager/manager.h"

#include <stdio.h>

struct manager *manager_of(struct conn *conn) { return ((struct manager_visitor *)conn_context(conn))->manager; }

struct view_ask **program_view(struct conn *conn) { return &((struct manager_visitor *)conn_context(conn))->view; }

struct client_program *program_of(struct conn *conn) { return ((struct manager_visitor *)conn_context(conn))->program; }

struct client_program *program_find(struct manager *manager, uint64_t key)
{
    struct client_program *program = manager->programs;
    while (program && program->key != key)
        program = program->next;
    return program;
}

void program_describe_away(const struct manager *manager, char text[CTL_MAX_TEXT + 1])
{
    if (manager->lasts)
        snprintf(
            text, CTL_MAX_TEXT + 1,
            "the cluster manager does not accept this VM: %s. See vm.name, vm.secret and tls in the client manager's"
            " configuration, and flytctl vm show",
            manager->why_away);
    else if (manager->not_ready)
        snprintf(text, CTL_MAX_TEXT + 1, "the cluster manager serves nobody yet: %s", manager->why_away);
    else
        snprintf(text, CTL_MAX_TEXT + 1,
                 "the cluster manager cannot be reached: %s. Is flyt-cluster-manager running there? The client manager"
                 " goes on trying",
                 manager->why_away);
}
