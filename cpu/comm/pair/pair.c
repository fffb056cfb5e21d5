/* pair.c: see pair.h. Early arrivals are the link's: what is left here is counting. */
#include "cpu/comm/pair/pair.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct pair_tag {
    struct tree_node node;
    uint64_t counts[2];
}; /* of sends; of receives */

struct comm_pair {
    struct comm_link *link;
    pthread_mutex_t lock; /* of the tags; held while posting, so that numbers are in order */
    struct tree tags;
    unsigned count;
};

struct comm_pair *comm_pair_create(struct comm_link *link)
{
    struct comm_pair *pair = calloc(1, sizeof *pair);
    if (!pair)
        return NULL;
    pair->link = link;
    pthread_mutex_init(&pair->lock, NULL);
    return pair;
}

void comm_pair_destroy(struct comm_pair *pair)
{
    if (!pair)
        return;
    for (struct tree_node *node; (node = tree_first(&pair->tags));) {
        tree_remove(&pair->tags, node);
        free(TREE_OBJECT(node, struct pair_tag, node));
    }
    pthread_mutex_destroy(&pair->lock);
    free(pair);
}

static struct pair_tag *tag_of(struct comm_pair *pair, uint32_t tag)
{
    struct tree_node *node = tree_at_or_above(&pair->tags, tag, 0);
    if (node && node->key == tag)
        return TREE_OBJECT(node, struct pair_tag, node);
    struct pair_tag *one = pair->count < COMM_TAGS_MOST ? calloc(1, sizeof *one) : NULL;
    if (!one)
        return NULL;
    one->node.key = tag;
    tree_insert(&pair->tags, &one->node);
    pair->count++;
    return one;
}

static int post(struct comm_pair *pair, uint32_t tag, struct comm_transfer *t, unsigned direction,
                int (*how)(struct comm_link *, struct comm_transfer *))
{
    pthread_mutex_lock(&pair->lock);
    struct pair_tag *one = tag_of(pair, tag);
    int posted = one ? 0 : -ENOSPC;
    if (one) {
        t->name = (struct comm_name){ COMM_PAIR_SPACE | tag, one->counts[direction] };
        posted = how(pair->link, t);
        one->counts[direction] += posted >= 0;
    }
    pthread_mutex_unlock(&pair->lock);
    return posted;
}

int comm_pair_send(struct comm_pair *pair, uint32_t tag, struct comm_transfer *t)
{
    return post(pair, tag, t, 0, comm_link_send);
}

int comm_pair_receive(struct comm_pair *pair, uint32_t tag, struct comm_transfer *t)
{
    return post(pair, tag, t, 1, comm_link_receive);
}
