/* find.c: the program of a connection, and the one of a key. */
#include "control-managers/client-manager/manager.h"

struct manager *manager_of(struct conn *conn) { return ((struct manager_visitor *)conn_context(conn))->manager; }

struct view_ask **program_view(struct conn *conn) { return &((struct manager_visitor *)conn_context(conn))->view; }

struct program *program_of(struct conn *conn) { return ((struct manager_visitor *)conn_context(conn))->program; }

struct program *program_find(struct manager *manager, uint64_t key)
{
    struct program *program = manager->programs;
    while (program && program->key != key)
        program = program->next;
    return program;
}
