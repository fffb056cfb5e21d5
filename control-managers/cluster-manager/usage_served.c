/* usage_served.c: programs that have left their client manager, and that workers serve all the same. See usage.h. */
#include "control-managers/cluster-manager/usage.h"

#include <stdlib.h>

#include "control-managers/cluster-manager/usage_state.h"

enum { MOMENT_US = 1000000 };

/* A moment after its end its node would have said that nobody serves it. */
static bool is_served(const struct server *server, const struct used *used)
{
    return used->lingers && !server->counted.behind && loop_time() - used->lingers_since > MOMENT_US;
}

size_t usage_served_alone(const struct server *server)
{
    size_t count = 0;
    for (const struct used *used = server->counted.rows; used; used = used->next)
        count += is_served(server, used);
    return count;
}

static int by_program(const void *a, const void *b)
{
    const struct served_alone *one = a, *other = b;
    return (one->row->program > other->row->program) - (one->row->program < other->row->program);
}

void usage_show_served(struct cluster *cluster, struct used *used)
{
    const struct server *server = used->lingers ? map_get_id(&cluster->servers, used->row.server) : NULL;
    if (!server || used->followed.place || !is_served(server, used))
        return;
    follow_add(&cluster->follow, &used->followed, ADMIN_NEWS_PROGRAM);
    used->followed.alone = true;
}

/* Adds those of a server. False: no memory. */
static bool list_served(struct server *server, uint64_t after, struct served_alone **list, size_t *count, size_t *room)
{
    for (struct used *used = server->counted.rows; used; used = used->next) {
        if (used->row.program <= after || !is_served(server, used))
            continue;
        if (*count == *room) {
            size_t more = *room ? 2 * *room : 16;
            struct served_alone *larger = realloc(*list, more * sizeof **list);
            if (!larger)
                return false;
            *list = larger;
            *room = more;
        }
        (*list)[(*count)++] = (struct served_alone){ server, &used->row };
    }
    return true;
}

struct served_alone *usage_list_served(struct cluster *cluster, const struct vm *vm, uint64_t after, size_t *count)
{
    struct served_alone *list = NULL;
    size_t room = 0;
    *count = 0;
    if (vm)
        for (struct server *server = vm->servers; server && list_served(server, after, &list, count, &room);)
            server = server->vm_next;
    for (size_t i = 0; !vm && i < cluster->servers.count; i++)
        if (!list_served(map_at(&cluster->servers, i), after, &list, count, &room))
            break;
    if (*count)
        qsort(list, *count, sizeof *list, by_program);
    return list;
}
