#include "control-managers/cluster-manager/cluster.h"

#include <stdlib.h>

struct letter *mailbox_add(struct cluster *cluster, struct mailbox *box, int kind)
{
    struct letter *letter = calloc(1, sizeof *letter);
    if (!letter)
        return NULL;
    letter->number = cluster_new_id(cluster);
    letter->kind = kind;
    if (!box->first)
        box->end = &box->first;
    *box->end = letter;
    box->end = &letter->next;
    box->count++;
    return letter;
}

void mailbox_acknowledge(struct mailbox *box, uint64_t number)
{
    while (box->first && box->first->number <= number) {
        struct letter *letter = box->first;
        box->first = letter->next;
        box->count--;
        free(letter);
    }
}

void mailbox_forget(struct mailbox *box, int kind, uint64_t server)
{
    struct letter **at = &box->first;
    while (*at) {
        struct letter *letter = *at;
        if (letter->kind != kind || letter->server != server) {
            at = &letter->next;
            continue;
        }
        *at = letter->next;
        box->count--;
        free(letter);
    }
    box->end = at;
}

bool mailbox_has(const struct mailbox *box, int kind)
{
    for (const struct letter *letter = box->first; letter; letter = letter->next)
        if (letter->kind == kind)
            return true;
    return false;
}

void mailbox_clear(struct mailbox *box)
{
    mailbox_acknowledge(box, UINT64_MAX);
}
