/* near.c: see near.h. */
#include "cpu/comm/near.h"

#include "cpu/comm/context.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* What was posted from one rank to another, and has not met its counterpart. */
struct near_way {
    struct tree_node node; /* key: see way_key */
    struct list sends, receives;
};

struct near_rank {
    struct comm_context *context; /* NULL: it has not entered, or has left */
    bool left;
};

struct comm_near {
    atomic_uint references;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct tree ways;
    int status;
    unsigned telling; /* threads that call contexts now */
    unsigned size;
    struct near_rank ranks[];
};

struct comm_near *comm_near_create(unsigned ranks)
{
    struct comm_near *near = calloc(1, sizeof *near + ranks * sizeof *near->ranks);
    if (!near)
        return NULL;
    atomic_init(&near->references, 1);
    near->size = ranks;
    pthread_mutex_init(&near->lock, NULL);
    pthread_cond_init(&near->changed, NULL);
    return near;
}

void comm_near_hold(struct comm_near *near) { atomic_fetch_add(&near->references, 1); }

void comm_near_drop(struct comm_near *near)
{
    if (!near || atomic_fetch_sub(&near->references, 1) > 1)
        return;
    for (struct tree_node *node; (node = tree_first(&near->ways));) {
        tree_remove(&near->ways, node);
        free(TREE_OBJECT(node, struct near_way, node));
    }
    pthread_cond_destroy(&near->changed);
    pthread_mutex_destroy(&near->lock);
    free(near);
}

int comm_near_enter(struct comm_near *near, unsigned rank, struct comm_context *context)
{
    pthread_mutex_lock(&near->lock);
    int status = near->ranks[rank].context || near->ranks[rank].left ? -EEXIST : near->status;
    if (status == 0)
        near->ranks[rank].context = context;
    pthread_mutex_unlock(&near->lock);
    return status;
}

int comm_near_status(struct comm_near *near)
{
    pthread_mutex_lock(&near->lock);
    int status = near->status;
    pthread_mutex_unlock(&near->lock);
    return status;
}

/* ---- transfers end ---- */

/* Moves those of one list to another one. */
static void take_all(struct list *from, struct list *to)
{
    for (struct list *one; (one = list_first(from));) {
        list_remove(one);
        list_append(to, one);
    }
}

/* No lock is held. */
static void end_all(struct list *all, int status)
{
    for (struct list *one; (one = list_first(all));) {
        struct comm_transfer *t = LIST_OBJECT(one, struct comm_transfer, queued);
        list_remove(one);
        t->status = status;
        t->done(t);
    }
}

static uint64_t way_key(unsigned from, unsigned to) { return (uint64_t)from << 32 | to; }

void comm_near_leave(struct comm_near *near, unsigned rank)
{
    struct list ended = { 0 };
    pthread_mutex_lock(&near->lock);
    near->ranks[rank].left = true;
    while (near->telling > 0)
        pthread_cond_wait(&near->changed, &near->lock);
    near->ranks[rank].context = NULL;
    for (struct tree_node *node = tree_first(&near->ways); node; node = tree_next(&near->ways, node)) {
        struct near_way *way = TREE_OBJECT(node, struct near_way, node);
        if (node->key >> 32 != rank && (uint32_t)node->key != rank)
            continue;
        take_all(&way->sends, &ended);
        take_all(&way->receives, &ended);
    }
    pthread_mutex_unlock(&near->lock);
    end_all(&ended, -ESHUTDOWN);
}

void comm_near_fail(struct comm_near *near, int status, const char *why)
{
    struct list ended = { 0 };
    pthread_mutex_lock(&near->lock);
    bool first = near->status == 0;
    if (first)
        near->status = status;
    for (struct tree_node *node = tree_first(&near->ways); first && node; node = tree_next(&near->ways, node)) {
        struct near_way *way = TREE_OBJECT(node, struct near_way, node);
        take_all(&way->sends, &ended);
        take_all(&way->receives, &ended);
    }
    near->telling += first;
    pthread_mutex_unlock(&near->lock);
    if (!first)
        return;
    for (unsigned r = 0; r < near->size; r++)
        if (near->ranks[r].context) /* comm_near_leave waits before it clears it */
            comm_context_fail(near->ranks[r].context, status, why);
    end_all(&ended, status);
    pthread_mutex_lock(&near->lock);
    near->telling--;
    pthread_cond_broadcast(&near->changed);
    pthread_mutex_unlock(&near->lock);
}

/* ---- transfers ---- */

static struct near_way *way_of(struct comm_near *near, unsigned from, unsigned to)
{
    struct tree_node *node = tree_at_or_above(&near->ways, way_key(from, to), 0);
    if (node && node->key == way_key(from, to))
        return TREE_OBJECT(node, struct near_way, node);
    struct near_way *way = calloc(1, sizeof *way);
    if (!way)
        return NULL;
    way->node.key = way_key(from, to);
    tree_insert(&near->ways, &way->node);
    return way;
}

static struct comm_transfer *find(struct list *all, const struct comm_name *name)
{
    for (struct list *one = list_first(all); one; one = list_next(all, one)) {
        struct comm_transfer *t = LIST_OBJECT(one, struct comm_transfer, queued);
        if (t->name.space == name->space && t->name.number == name->number)
            return t;
    }
    return NULL;
}

static void carry(struct comm_transfer *send, struct comm_transfer *receive)
{
    bool fits = send->size == receive->size || (receive->any_size && send->size < receive->size);
    if (fits && send->size)
        memmove(receive->memory, send->memory, send->size);
    receive->known = true;
    receive->peer_size = send->size;
    memcpy(receive->peer_note, send->note, COMM_NOTE_SIZE);
    send->known = true;
    memcpy(send->peer_note, receive->note, COMM_NOTE_SIZE);
    send->status = receive->status = fits ? 0 : -EMSGSIZE;
}

static int post(struct comm_near *near, unsigned rank, unsigned peer, bool sends, struct comm_transfer *t)
{
    pthread_mutex_lock(&near->lock);
    struct near_way *way = near->status == 0 ? way_of(near, sends ? rank : peer, sends ? peer : rank) : NULL;
    int status = near->status ? near->status : near->ranks[peer].left ? -ESHUTDOWN : way ? 0 : -ENOMEM;
    struct comm_transfer *other = status == 0 ? find(sends ? &way->receives : &way->sends, &t->name) : NULL;
    if (other)
        list_remove(&other->queued);
    else if (status == 0)
        list_append(sends ? &way->sends : &way->receives, &t->queued);
    pthread_mutex_unlock(&near->lock);
    if (!other)
        return status;
    carry(sends ? t : other, sends ? other : t);
    other->done(other);
    return 1;
}

int comm_near_send(struct comm_near *near, unsigned rank, unsigned peer, struct comm_transfer *t)
{
    return post(near, rank, peer, true, t);
}

int comm_near_receive(struct comm_near *near, unsigned rank, unsigned peer, struct comm_transfer *t)
{
    return post(near, rank, peer, false, t);
}

bool comm_near_glance(struct comm_near *near, unsigned rank, unsigned peer, uint64_t space,
                      uint8_t note[COMM_NOTE_SIZE])
{
    bool there = false;
    pthread_mutex_lock(&near->lock);
    for (unsigned d = 0; d < 2 && !there; d++) {
        struct near_way *way = d ? way_of(near, rank, peer) : way_of(near, peer, rank);
        const struct list *all = !way ? NULL : d ? &way->receives : &way->sends;
        for (struct list *one = all ? list_first(all) : NULL; one && !there; one = list_next(all, one)) {
            const struct comm_transfer *t = LIST_OBJECT(one, struct comm_transfer, queued);
            there = t->name.space == space;
            if (there)
                memcpy(note, t->note, COMM_NOTE_SIZE);
        }
    }
    pthread_mutex_unlock(&near->lock);
    return there;
}
