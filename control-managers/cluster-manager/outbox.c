#include "control-managers/cluster-manager/cluster.h"

#include <stdlib.h>

struct message *outbox_add(struct cluster *cluster, struct outbox *box, int kind)
{
    struct message *message = calloc(1, sizeof *message);
    if (!message)
        return NULL;
    message->number = cluster_new_id(cluster);
    message->kind = kind;
    if (!box->first)
        box->end = &box->first;
    *box->end = message;
    box->end = &message->next;
    box->count++;
    return message;
}

void outbox_acknowledge(struct outbox *box, uint64_t number)
{
    while (box->first && box->first->number <= number) {
        struct message *message = box->first;
        box->first = message->next;
        box->count--;
        free(message);
    }
}

void outbox_forget(struct outbox *box, int kind, uint64_t server)
{
    struct message **at = &box->first;
    while (*at) {
        struct message *message = *at;
        if (message->kind != kind || message->server != server) {
            at = &message->next;
            continue;
        }
        *at = message->next;
        box->count--;
        free(message);
    }
    box->end = at;
}

void outbox_take_back(struct outbox *box, uint64_t number)
{
    struct message **at = &box->first;
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    struct message *message = *at;
    if (!message)
        return;
    *at = message->next;
    if (!*at)
        box->end = at;
    box->count--;
    free(message);
}

bool outbox_has(const struct outbox *box, int kind)
{
    for (const struct message *message = box->first; message; message = message->next)
        if (message->kind == kind)
            return true;
    return false;
}

void outbox_clear(struct outbox *box)
{
    outbox_acknowledge(box, UINT64_MAX);
}
