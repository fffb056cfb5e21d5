/* ends.c: see ends.h. */
#include "tests/comm/ends.h"

#include "cpu/common/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char error[RPC_ERROR_SIZE];

static void must(int status, const char *what)
{
    if (status >= 0)
        return;
    fprintf(stderr, "%s: %s (%s)\n", what, error, strerror(-status));
    abort();
}

static void lost(struct comm_link *link, void *context, int status, const char *why)
{
    struct end *end = context;
    (void)link;
    pthread_mutex_lock(&end->lock);
    end->lost = status;
    if (getenv("ENDS_DEBUG"))
        fprintf(stderr, "lost %p: %d %s\n", (void *)end, status, why);
    snprintf(end->why, sizeof end->why, "%s", why);
    pthread_cond_broadcast(&end->changed);
    pthread_mutex_unlock(&end->lock);
}

void end_need(const struct comm_settings *settings)
{
    struct comm_engine *engine = NULL;
    if (comm_engine_create(settings, &engine, error) == -ENOPKG) {
        printf("skipped: %s\n", error);
        exit(77);
    }
    comm_engine_destroy(engine);
}

void end_open(struct end *end, const struct comm_settings *settings)
{
    memset(end, 0, sizeof *end);
    pthread_mutex_init(&end->lock, NULL);
    pthread_cond_init(&end->changed, NULL);
    struct comm_link_settings link = { .lost = lost, .context = end };
    must(comm_engine_create(settings, &end->engine, error), "an engine");
    must(comm_link_create(end->engine, &link, &end->link, error), "a link");
}

void end_close(struct end *end)
{
    comm_link_close(end->link);
    comm_engine_destroy(end->engine);
    pthread_cond_destroy(&end->changed);
    pthread_mutex_destroy(&end->lock);
}

struct joining { struct comm_link *link; const uint8_t *handles; unsigned count; int status; };

static void *join_thread(void *context)
{
    struct joining *j = context;
    char why[RPC_ERROR_SIZE];
    j->status = comm_link_join(j->link, j->handles, j->count, clock_now() + 20 * CLOCK_NS_PER_SECOND, why);
    if (j->status < 0)
        fprintf(stderr, "join: %s\n", why);
    return NULL;
}

void ends_open(struct ends *ends, const struct comm_settings *settings)
{
    static uint8_t handles[2][COMM_HANDLES_MOST * COMM_HANDLE_SIZE];
    unsigned count[2];
    pthread_t thread;
    end_open(&ends->a, settings);
    end_open(&ends->b, settings);
    must(comm_link_listen(ends->a.link, handles[0], &count[0], error), "listen");
    must(comm_link_listen(ends->b.link, handles[1], &count[1], error), "listen");
    struct joining a = { ends->a.link, handles[1], count[1], 0 }, b = { ends->b.link, handles[0], count[0], 0 };
    must(-pthread_create(&thread, NULL, join_thread, &a), "a thread");
    join_thread(&b);
    pthread_join(thread, NULL);
    must(a.status, "join");
    must(b.status, "join");
}

void ends_close(struct ends *ends)
{
    end_close(&ends->a);
    end_close(&ends->b);
}

int end_wait_lost(struct end *end, unsigned ms)
{
    struct timespec until = clock_timespec(clock_now() + ms * CLOCK_NS_PER_MS);
    int status = 0;
    pthread_mutex_lock(&end->lock);
    while (end->lost == 0 && status == 0)
        status = pthread_cond_clockwait(&end->changed, &end->lock, CLOCK_MONOTONIC, &until);
    status = end->lost;
    pthread_mutex_unlock(&end->lock);
    return status;
}

static void finished(struct comm_transfer *t)
{
    struct waited *w = t->context;
    pthread_mutex_lock(&w->lock);
    w->done++;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static void begin(struct waited *w, uint64_t space, uint64_t number, const void *memory, uint64_t size, bool any)
{
    memset(w, 0, sizeof *w);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    w->t = (struct comm_transfer){ .name = { space, number }, .memory = (void *)(uintptr_t)memory, .size = size,
                                   .any_size = any, .done = finished, .context = w };
    snprintf((char *)w->t.note, sizeof w->t.note, "n%llu", (unsigned long long)number);
}

int waited_send(struct comm_link *link, struct waited *w, uint64_t space, uint64_t number, const void *memory,
                uint64_t size)
{
    begin(w, space, number, memory, size, false);
    int posted = comm_link_send(link, &w->t);
    if (posted != 0)
        w->done = 1;
    return posted;
}

int waited_receive(struct comm_link *link, struct waited *w, uint64_t space, uint64_t number, void *memory,
                   uint64_t size)
{
    begin(w, space, number, memory, size, false);
    int posted = comm_link_receive(link, &w->t);
    if (posted != 0)
        w->done = 1;
    return posted;
}

int waited_receive_any(struct comm_link *link, struct waited *w, uint64_t space, uint64_t number, void *memory,
                       uint64_t size)
{
    begin(w, space, number, memory, size, true);
    int posted = comm_link_receive(link, &w->t);
    if (posted != 0)
        w->done = 1;
    return posted;
}

int waited_wait(struct waited *w, unsigned ms)
{
    struct timespec until = clock_timespec(clock_now() + ms * CLOCK_NS_PER_MS);
    int status = 0;
    pthread_mutex_lock(&w->lock);
    while (!w->done && status == 0)
        status = pthread_cond_clockwait(&w->changed, &w->lock, CLOCK_MONOTONIC, &until);
    int done = w->done;
    pthread_mutex_unlock(&w->lock);
    return !done ? 1 : done > 1 ? -EALREADY : w->t.status;
}
