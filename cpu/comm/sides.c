/* sides.c: what comes from the other ranks. See sides.h. */
#include "cpu/comm/sides.h"

#include "cpu/common/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE = COMM_SIDED_HEAD + COMM_SIDED_INLINE, CLOSE_MS = 2000 };

/* ---- the life of it ---- */

static void sides_free(struct comm_sides *s)
{
    if (s->engine)
        comm_engine_unregister(s->engine, s->messages, (uint64_t)s->ranks * MESSAGE);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s->messages);
    free(s);
}

static void reference_drop(struct comm_sides *s)
{
    pthread_mutex_lock(&s->lock);
    const bool last = --s->references == 0;
    pthread_mutex_unlock(&s->lock);
    if (last)
        sides_free(s);
}

static void leave(struct comm_sides *s)
{
    pthread_mutex_lock(&s->lock);
    s->inside--;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* ---- what comes ---- */

/* Under the lock: nothing more comes from the peer. */
static void end(struct sided_peer *p, int status)
{
    p->gone = status < 0 ? status : -ECANCELED;
    if (p->into)
        p->into->users--;
    p->into = NULL;
    pthread_cond_broadcast(&p->of->changed);
}

/* Under the lock. False: it breaks the rules, and why. */
static bool head_take(struct sided_peer *p, uint64_t length, char why[COMM_WHY_SIZE])
{
    struct comm_sides *s = p->of;
    const unsigned own = s->context->settings.rank;
    struct comm_sided_head *head = &p->head;
    if (!comm_sided_head_get(p->message, length, head)) {
        snprintf(why, COMM_WHY_SIZE, "rank %u: what rank %u puts is no put", own, p->rank);
        return false;
    }
    if (head->kind == COMM_SIDED_WINDOW) {
        if (!sided_window_announced(s, p->rank, head->window, head->size)) {
            snprintf(why, COMM_WHY_SIZE, "rank %u: rank %u announces window %u, which is not its next one, or too many",
                     own, p->rank, head->window);
            return false;
        }
        return true;
    }
    if (!head->window)
        return true;
    struct sided_window *window = sided_window_find(s, head->window);
    if (!window || !window->here || window->removed) {
        snprintf(why, COMM_WHY_SIZE, "rank %u: rank %u puts into window %u, which is not registered here", own, p->rank,
                 head->window);
        return false;
    }
    if (!sided_window_has(window->mine.size, head->offset, head->size)) {
        snprintf(why, COMM_WHY_SIZE, "rank %u: rank %u puts %llu bytes at %llu into window %u, which has %llu", own,
                 p->rank, (unsigned long long)head->size, (unsigned long long)head->offset, head->window,
                 (unsigned long long)window->mine.size);
        return false;
    }
    p->into = window;
    window->users++;
    return true;
}

static uint8_t *place_of(const struct sided_peer *p) { return (uint8_t *)p->into->mine.memory + p->head.offset; }

/* Under the lock. A message has been taken, all of it. */
static void message_over(struct sided_peer *p)
{
    p->signals += p->head.kind == COMM_SIDED_PUT;
    p->number++;
    pthread_cond_broadcast(&p->of->changed);
}

/* The bytes of a put are in the window. */
static void bytes_over(struct sided_peer *p)
{
    const struct comm_window *window = &p->into->mine;
    if (window->look)
        window->look(window->of, place_of(p), p->head.size, true);
    pthread_mutex_lock(&p->of->lock);
    p->into->users--;
    p->into = NULL;
    message_over(p);
    pthread_mutex_unlock(&p->of->lock);
}

/* Where bytes of a put are to go. False: the program has freed the memory. */
static bool bytes_welcome(const struct sided_peer *p, char why[COMM_WHY_SIZE])
{
    const struct comm_window *window = &p->into->mine;
    const bool there = !window->look || window->look(window->of, place_of(p), p->head.size, false);
    if (!there)
        snprintf(why, COMM_WHY_SIZE, "rank %u: rank %u puts into window %u, whose memory is not there any more",
                 p->of->context->settings.rank, p->rank, p->head.window);
    return there;
}

/* A head has come. False: the context has failed. */
static bool head_over(struct sided_peer *p)
{
    struct comm_sides *s = p->of;
    char why[COMM_WHY_SIZE];
    pthread_mutex_lock(&s->lock);
    bool good = head_take(p, p->t.peer_size, why);
    if (good && !p->into)
        message_over(p);
    pthread_mutex_unlock(&s->lock);
    if (good && p->into)
        good = bytes_welcome(p, why);
    if (!good)
        comm_context_fail(s->context, -EPROTO, why);
    if (good && p->into && p->head.size <= COMM_SIDED_INLINE) {
        memcpy(place_of(p), p->message + COMM_SIDED_HEAD, p->head.size);
        bytes_over(p);
    }
    return good;
}

/* It is not known yet why nothing more comes from the peer. */
static void report(struct sided_peer *p, int status)
{
    struct comm_context *c = p->of->context;
    char why[COMM_WHY_SIZE];
    /* Who leaves may do so; where the way has failed, whoever noticed that says why. */
    if (status == -ESHUTDOWN || comm_peer_status(c, p->rank) == status)
        return;
    snprintf(why, sizeof why, "rank %u: what rank %u puts cannot be taken: %s", c->settings.rank, p->rank,
             strerror(-status));
    comm_context_fail(c, status, why);
}

/* Goes on with the receive that has completed. False: it posts no further one, and has dropped the reference. */
static bool arrived(struct sided_peer *p, int status)
{
    struct comm_sides *s = p->of;
    if (status == 0 && p->into)
        bytes_over(p);
    else if (status == 0 && !head_over(p))
        status = -EPROTO;
    else if (status < 0)
        report(p, status);
    pthread_mutex_lock(&s->lock);
    const bool ends = status < 0 || s->closed;
    if (ends)
        end(p, status);
    pthread_mutex_unlock(&s->lock);
    if (ends)
        reference_drop(s);
    return !ends;
}

static void peer_done(struct comm_transfer *);

/* 0: it is under way. */
static int post(struct sided_peer *p)
{
    const bool bytes = p->into != NULL;
    p->t = (struct comm_transfer){ .name = { bytes ? COMM_SIDED_BYTES_SPACE : COMM_SIDED_SPACE, p->number },
                                   .memory = bytes ? place_of(p) : p->message,
                                   .size = bytes ? p->head.size : MESSAGE,
                                   .any_size = !bytes,
                                   .done = peer_done,
                                   .context = p };
    return comm_peer_receive(p->of->context, p->rank, &p->t);
}

/* Posts one receive after the other until one is under way, which another thread may complete at once. The caller is
   inside. */
static void go_on(struct sided_peer *p)
{
    struct comm_sides *s = p->of;
    int posted;
    while ((posted = post(p)) && arrived(p, posted < 0 ? posted : p->t.status))
        ;
    leave(s);
}

static void peer_done(struct comm_transfer *t)
{
    struct sided_peer *p = t->context;
    struct comm_sides *s = p->of;
    pthread_mutex_lock(&s->lock);
    const bool closed = s->closed;
    s->inside += !closed;
    if (closed)
        end(p, t->status);
    pthread_mutex_unlock(&s->lock);
    if (closed)
        reference_drop(s);
    else if (arrived(p, t->status))
        go_on(p);
    else
        leave(s);
}

/* ---- the beginning and the end ---- */

static struct comm_sides *sides_new(struct comm_context *c)
{
    const unsigned ranks = c->settings.size;
    struct comm_sides *s = calloc(1, sizeof *s + ranks * sizeof *s->peers);
    if (!s)
        return NULL;
    s->context = c;
    s->ranks = ranks;
    s->references = 1;
    s->messages = malloc((size_t)ranks * MESSAGE);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    for (unsigned r = 0; r < ranks; r++) {
        s->peers[r].of = s;
        s->peers[r].rank = r;
        s->peers[r].number = 1;
        s->peers[r].message = s->messages + (size_t)r * MESSAGE;
    }
    if (!s->messages || comm_context_register(c, s->messages, (uint64_t)ranks * MESSAGE) < 0) {
        sides_free(s);
        return NULL;
    }
    s->engine = c->settings.registers && c->linked ? c->settings.engine : NULL;
    return s;
}

int comm_sided_begin(struct comm_context *c)
{
    for (unsigned r = 0; r < c->settings.size; r++)
        if (r != c->settings.rank && !c->peers[r].near && !c->peers[r].link)
            return -ENOTCONN;
    struct comm_sides *s = sides_new(c);
    if (!s)
        return -ENOMEM;
    c->sides = s;
    s->references += s->ranks - 1;
    s->inside = s->ranks - 1;
    for (unsigned r = 0; r < s->ranks; r++)
        if (r != c->settings.rank)
            go_on(&s->peers[r]);
    return 0;
}

void comm_sided_end(struct comm_context *c)
{
    struct comm_sides *s = c->sides;
    if (!s)
        return;
    struct timespec until = clock_timespec(clock_now() + CLOSE_MS * CLOCK_NS_PER_MS);
    int waited = 0;
    pthread_mutex_lock(&s->lock);
    s->closed = true;
    while ((s->inside > 0 || sided_windows_busy(s)) && waited == 0)
        waited = pthread_cond_clockwait(&s->changed, &s->lock, CLOCK_MONOTONIC, &until);
    pthread_mutex_unlock(&s->lock);
    if (waited != 0)
        comm_context_abort(c, -ECANCELED, "it has ended its context while another rank put into a window of it");
    pthread_mutex_lock(&s->lock);
    while (s->inside > 0 || sided_windows_busy(s))
        pthread_cond_wait(&s->changed, &s->lock);
    struct list windows = { 0 };
    for (struct list *one; (one = list_first(&s->windows));) {
        list_remove(one);
        list_append(&windows, one);
    }
    pthread_mutex_unlock(&s->lock);
    sided_windows_drop(s, &windows);
}

void comm_sides_drop(struct comm_sides *s)
{
    if (s)
        reference_drop(s);
}
