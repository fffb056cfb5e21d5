/* window.c: the windows of a communicator, and which ranks have registered theirs. See sides.h. */
#include "cpu/comm/sides.h"

#include "cpu/rpc/transport/channel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sided_window *sided_window_find(struct comm_sides *s, uint32_t number)
{
    for (struct list *one = list_first(&s->windows); one; one = list_next(&s->windows, one)) {
        struct sided_window *window = LIST_OBJECT(one, struct sided_window, of_all);
        if (window->number == number)
            return window;
    }
    return NULL;
}

bool sided_window_has(uint64_t of, uint64_t offset, uint64_t size) { return offset <= of && size <= of - offset; }

/* Under the lock. NULL: no memory. */
static struct sided_window *window_of(struct comm_sides *s, uint32_t number)
{
    struct sided_window *window = sided_window_find(s, number);
    if (window)
        return window;
    window = calloc(1, sizeof *window + s->ranks * sizeof *window->parts);
    if (!window)
        return NULL;
    window->number = number;
    for (unsigned r = 0; r < s->ranks; r++) {
        window->parts[r].of = window;
        window->parts[r].sides = s;
        window->parts[r].rank = r;
    }
    list_append(&s->windows, &window->of_all);
    return window;
}

static void learn(struct sided_window *window, unsigned rank, uint64_t size)
{
    window->parts[rank].known = true;
    window->parts[rank].size = size;
    window->known++;
}

/* Under the lock: it goes if this rank has removed it, and all ranks have announced theirs. */
static void end_if_known(struct comm_sides *s, struct sided_window *window)
{
    if (!window->removed || window->here || window->users > 0 || window->known < s->ranks)
        return;
    list_remove(&window->of_all);
    s->here--;
    free(window);
}

bool sided_window_announced(struct comm_sides *s, unsigned rank, uint32_t number, uint64_t size)
{
    struct sided_peer *peer = &s->peers[rank];
    if (number != peer->windows + 1 || number > s->registered + (uint64_t)COMM_WINDOWS_MOST)
        return false;
    struct sided_window *window = window_of(s, number);
    if (!window)
        return false;
    peer->windows = number;
    learn(window, rank, size);
    end_if_known(s, window);
    return true;
}

/* ---- announcing ---- */

static void announced(struct sided_part *part, int status)
{
    struct comm_sides *s = part->sides;
    char why[COMM_WHY_SIZE];
    if (status == -ESHUTDOWN) { /* else the way there has failed, and whoever noticed that says why */
        snprintf(why, sizeof why, "rank %u: a window: rank %u has ended its context", s->context->settings.rank,
                 part->rank);
        comm_context_fail(s->context, status, why);
    }
    pthread_mutex_lock(&s->lock);
    part->of->users--; /* the window and the context may go now */
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void announced_done(struct comm_transfer *t) { announced(t->context, t->status); }

static void announce(struct sided_part *part, uint64_t number)
{
    struct sided_window *window = part->of;
    part->t = (struct comm_transfer){ .name = { COMM_SIDED_SPACE, number },
                                      .memory = window->head,
                                      .size = sizeof window->head,
                                      .done = announced_done,
                                      .context = part };
    int posted = comm_peer_send(part->sides->context, part->rank, &part->t);
    if (posted)
        announced(part, posted < 0 ? posted : part->t.status);
}

/* ---- windows of this rank ---- */

static void forget(struct comm_sides *s, struct sided_window *window)
{
    if (window->here)
        comm_context_unregister(s->context, window->mine.memory, window->mine.size);
    if (window->announces)
        comm_context_unregister(s->context, window->head, sizeof window->head);
    free(window);
}

/* With its users: one for each other rank. Under the lock; -ENOMEM, -ENOSPC. */
static int enter(struct comm_sides *s, const struct comm_window *mine, struct sided_window **out)
{
    if (s->here >= COMM_WINDOWS_MOST || s->registered == UINT32_MAX)
        return -ENOSPC;
    struct sided_window *window = window_of(s, s->registered + 1);
    *out = window;
    if (!window)
        return -ENOMEM;
    s->registered++;
    s->here++;
    window->mine = *mine;
    window->here = true;
    window->users = s->ranks - 1;
    comm_sided_head_put(window->head, &(struct comm_sided_head){ .kind = COMM_SIDED_WINDOW,
                                                                 .window = window->number,
                                                                 .size = mine->size });
    learn(window, s->context->settings.rank, mine->size);
    return 0;
}

int comm_window_add(struct comm_context *c, const struct comm_window *mine, uint32_t *number, char *error)
{
    struct comm_sides *s = c->sides;
    struct sided_window *window = NULL;
    int status = s ? comm_context_status(c, error) : rpc_explain(error, -ENOTSUP, "this context has no windows");
    if (status < 0)
        return status;
    if (!mine->memory || !mine->size)
        return rpc_explain(error, -EINVAL, "a window has memory");
    status = comm_context_register(c, mine->memory, mine->size);
    if (status < 0)
        return rpc_explain(error, status, "a window: its memory cannot be registered: %s", strerror(-status));
    pthread_mutex_lock(&s->lock);
    status = enter(s, mine, &window);
    pthread_mutex_unlock(&s->lock);
    if (status < 0) {
        comm_context_unregister(c, mine->memory, mine->size);
        return status == -ENOSPC ? rpc_explain(error, -ENOMEM, "a window: the communicator has %d, the most",
                                               COMM_WINDOWS_MOST)
                                 : rpc_explain(error, status, "a window: no memory");
    }
    *number = window->number;
    status = comm_context_register(c, window->head, sizeof window->head);
    window->announces = status == 0;
    if (status < 0) /* the other ranks wait for it */
        comm_context_abort(c, status, "a window: no memory");
    for (unsigned r = 0, left = s->ranks - 1; left > 0; r++) { /* behind the last one the window may be gone */
        if (r == c->settings.rank)
            continue;
        pthread_mutex_lock(&s->lock);
        const uint64_t message = ++s->peers[r].sent;
        pthread_mutex_unlock(&s->lock);
        left--;
        announce(&window->parts[r], message);
    }
    return 0;
}

/* Under the lock. */
static void name_missing(const struct comm_sides *s, const struct sided_window *window, char *error)
{
    int length = snprintf(error, RPC_ERROR_SIZE, "window %u is not registered by rank", window->number);
    for (unsigned r = 0; r < s->ranks; r++)
        if (!window->parts[r].known && length < RPC_ERROR_SIZE - 20)
            length += snprintf(error + length, RPC_ERROR_SIZE - (size_t)length, " %u", r);
}

int comm_window_sizes(struct comm_context *c, uint32_t number, uint64_t *sizes, char *error)
{
    struct comm_sides *s = c->sides;
    int status = s ? comm_context_status(c, error) : rpc_explain(error, -ENOTSUP, "this context has no windows");
    if (status < 0)
        return status;
    pthread_mutex_lock(&s->lock);
    const struct sided_window *window = sided_window_find(s, number);
    const bool here = window && window->here && !window->removed;
    const bool complete = here && window->known == s->ranks;
    unsigned gone = s->ranks;
    for (unsigned r = 0; here && r < s->ranks; r++) {
        sizes[r] = window->parts[r].size;
        if (!window->parts[r].known && s->peers[r].gone)
            gone = r;
    }
    if (here && !complete && error)
        name_missing(s, window, error);
    pthread_mutex_unlock(&s->lock);
    if (!here)
        return rpc_explain(error, -ENOENT, "there is no window %u", number);
    if (gone < s->ranks)
        return rpc_explain(error, -ESHUTDOWN, "rank %u has ended before it registered window %u", gone, number);
    return complete;
}

/* Where other ranks have not announced theirs yet, its number is remembered until they have. */
int comm_window_remove(struct comm_context *c, uint32_t number)
{
    struct comm_sides *s = c->sides;
    if (!s)
        return -ENOENT;
    pthread_mutex_lock(&s->lock);
    struct sided_window *window = sided_window_find(s, number);
    int status = window && window->here ? 0 : -ENOENT;
    if (status == 0) {
        window->removed = true;
        status = window->users > 0 ? -EBUSY : 0;
    }
    if (status == 0) {
        window->here = false;
        window->users = 1; /* neither an announcement nor the end of the context frees it */
    }
    pthread_mutex_unlock(&s->lock);
    if (status < 0)
        return status;
    comm_context_unregister(c, window->mine.memory, window->mine.size);
    if (window->announces)
        comm_context_unregister(c, window->head, sizeof window->head);
    window->announces = false;
    pthread_mutex_lock(&s->lock);
    window->users = 0;
    end_if_known(s, window);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

/* ---- the end ---- */

bool sided_windows_busy(const struct comm_sides *s)
{
    unsigned users = 0;
    for (struct list *one = list_first(&s->windows); one; one = list_next(&s->windows, one))
        users += LIST_OBJECT(one, struct sided_window, of_all)->users;
    return users > 0;
}

void sided_windows_drop(struct comm_sides *s, struct list *windows)
{
    for (struct list *one; (one = list_first(windows));) {
        list_remove(one);
        forget(s, LIST_OBJECT(one, struct sided_window, of_all));
    }
}
