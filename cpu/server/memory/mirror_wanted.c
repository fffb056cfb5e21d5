/*
 * mirror_wanted.c: kernels that touch pinned memory of the client's which is not here, or shut (mirror.c).
 *
 * The software GPU asks here (absent) before an access fails. The thread of the GPU waits until the client has sent the
 * memory and has said so (HOST_SERVED), or, where the memory is shut, until the patch is complete. The client must know
 * which copies the kernel came behind. So the completion thread reports it, after it has looked at every stream
 * once more and has reported what it found.
 */
#include "cpu/server/session.h"
#include "cpu/server/call/notify.h"

#include <stdio.h>
#include <stdlib.h>

#include "cpu/common/lock.h"

struct wanted_pages {
    struct wanted_pages *next;
    uint32_t id;
    uint64_t address, size;
    bool writes, told, answered;
    int result;
    unsigned waiting;                     /* threads of the GPU */
    char kernel[FLYT_MAX_SHORT];
};

static bool here(const struct session *session, uint64_t address)
{
    return address - session->host.base < session->host.size;
}

static struct {
    pthread_mutex_t lock;                 /* before mirror.contents and mirror.lock */
    struct list sessions;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The session whose window has the address, with its mirror locked. An address that is in none is the only session's:
   its client may know why the kernel fails. NULL: nobody's. */
static struct session *session_lock(uint64_t address)
{
    struct session *found = NULL, *any = NULL;
    unsigned count = 0;
    pthread_mutex_lock(&all.lock);
    for (struct list *link = list_first(&all.sessions); link && !found; link = list_next(&all.sessions, link)) {
        struct mirror *mirror = LIST_OBJECT(link, struct mirror, of_all);
        any = (struct session *)(void *)((char *)mirror - offsetof(struct session, mirror));
        count++;
        if (here(any, address))
            found = any;
    }
    if (!found && count == 1)
        found = any;
    if (found)
        pthread_mutex_lock(&found->mirror.lock);
    pthread_mutex_unlock(&all.lock);
    return found;
}

static struct wanted_pages *wanted_find(struct mirror *mirror, uint64_t address)
{
    FLYT_ASSERT_HELD(&mirror->lock);
    for (struct wanted_pages *w = mirror->first; w; w = w->next)
        if (!w->answered && w->address / FLYT_HOST_GRANULE == address / FLYT_HOST_GRANULE)
            return w;
    return NULL;
}

static struct wanted_pages *wanted_make(struct mirror *mirror, uint64_t address, uint64_t size, bool writes,
                                        const char *kernel)
{
    FLYT_ASSERT_HELD(&mirror->lock);
    struct wanted_pages *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    *w = (struct wanted_pages){
        .next = mirror->first, .id = ++mirror->last, .address = address, .size = size, .writes = writes
    };
    snprintf(w->kernel, sizeof w->kernel, "%s", kernel);
    mirror->first = w;
    return w;
}

static void wanted_leave(struct mirror *mirror, struct wanted_pages *w)
{
    FLYT_ASSERT_HELD(&mirror->lock);
    if (--w->waiting)
        return;
    struct wanted_pages **at = &mirror->first;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    free(w);
}

/* The client is asked for the memory, unless it has been for another thread. Whether it has sent it. */
static bool ask(struct session *session, uint64_t address, uint64_t size, bool writes, const char *kernel)
{
    struct mirror *mirror = &session->mirror;
    struct wanted_pages *w = wanted_find(mirror, address);
    bool first = !w;
    if (first && !(w = wanted_make(mirror, address, size, writes, kernel)))
        return false;
    w->waiting++;
    if (first) {
        pthread_mutex_unlock(&mirror->lock);
        completion_rouse(session);
        pthread_mutex_lock(&mirror->lock);
    }
    while (!w->answered && !mirror->ended)
        pthread_cond_wait(&mirror->answered, &mirror->lock);
    bool here = w->answered && !w->result;
    wanted_leave(mirror, w);
    return here;
}

static const struct host_range *range_at(const struct session *session, uint64_t address)
{
    FLYT_ASSERT_HELD(&session->mirror.lock);
    if (!here(session, address))
        return NULL;
    return session->host.at[(address - session->host.base) / FLYT_HOST_GRANULE];
}

/* A softgpu_absent. */
static bool absent(uint64_t address, uint64_t size, bool writes, const char *kernel)
{
    struct session *session = session_lock(address);
    if (!session)
        return false;
    struct mirror *mirror = &session->mirror;
    const struct host_range *range;
    mirror->waiting++;
    if (!mirror->ended && !range_at(session, address) && !ask(session, address, size, writes, kernel))
        range = NULL;
    else
        while ((range = range_at(session, address)) && range->shut && !mirror->ended)
            pthread_cond_wait(&mirror->answered, &mirror->lock);
    bool here = range && !range->shut;
    mirror->waiting--;
    if (mirror->ended)
        pthread_cond_broadcast(&mirror->answered);
    pthread_mutex_unlock(&mirror->lock);
    return here;
}

uint32_t mirror_newest(struct session *session)
{
    struct mirror *mirror = &session->mirror;
    pthread_mutex_lock(&mirror->lock);
    uint32_t newest = mirror->last;
    pthread_mutex_unlock(&mirror->lock);
    return newest;
}

void mirror_tell(struct session *session, uint32_t newest)
{
    struct mirror *mirror = &session->mirror;
    pthread_mutex_lock(&mirror->lock);
    for (struct wanted_pages *w = mirror->first; w; w = w->next) {
        if (w->told || (int32_t)(w->id - newest) > 0)
            continue;
        w->told = true;
        events_wanted(session, &(flyt_host_wanted){ w->id, w->address, w->size, w->writes, w->kernel });
    }
    pthread_mutex_unlock(&mirror->lock);
}

void serve_host_served(struct session *session, struct call *call)
{
    const host_served_args *args = &call->args.host_served;
    struct mirror *mirror = &session->mirror;
    pthread_mutex_lock(&mirror->lock);
    struct wanted_pages *w = mirror->first;
    while (w && w->id != args->id)
        w = w->next;
    if (w && w->told && !w->answered) {
        w->answered = true;
        w->result = args->result;
        pthread_cond_broadcast(&mirror->answered);
    }
    pthread_mutex_unlock(&mirror->lock);
}

/* ---- the session ---- */

/* A softgpu_released. */
static void released(void)
{
    pthread_mutex_lock(&all.lock);
    for (struct list *link = list_first(&all.sessions); link; link = list_next(&all.sessions, link)) {
        struct mirror *mirror = LIST_OBJECT(link, struct mirror, of_all);
        mirror_cut((struct session *)(void *)((char *)mirror - offsetof(struct session, mirror)));
    }
    pthread_mutex_unlock(&all.lock);
}

int mirror_start(struct session *session)
{
    struct mirror *mirror = &session->mirror;
    mirror->last_cut = &mirror->first_cut;
    int r = pthread_mutex_init(&mirror->lock, NULL);
    if (r != 0)
        return r;
    r = pthread_cond_init(&mirror->answered, NULL);
    if (r == 0) {
        r = pthread_mutex_init(&mirror->contents, NULL);
        if (r != 0)
            pthread_cond_destroy(&mirror->answered);
    }
    if (r != 0)
        pthread_mutex_destroy(&mirror->lock);
    mirror->started = r == 0;
    return r;
}

void mirror_open(struct session *session)
{
    if (!mirror_pulls(session) || list_linked(&session->mirror.of_all))
        return;
    pthread_mutex_lock(&all.lock);
    list_append(&all.sessions, &session->mirror.of_all);
    pthread_mutex_unlock(&all.lock);
    session->gpu->absences(absent);
    session->gpu->releases(released);
}

void mirror_ended(struct session *session)
{
    struct mirror *mirror = &session->mirror;
    if (!mirror->started)
        return;
    pthread_mutex_lock(&mirror->lock);
    mirror->ended = true;
    pthread_cond_broadcast(&mirror->answered);
    pthread_mutex_unlock(&mirror->lock);
}

void mirror_stop(struct session *session)
{
    struct mirror *mirror = &session->mirror;
    if (!mirror->started)
        return;
    pthread_mutex_lock(&all.lock);
    list_remove(&mirror->of_all);
    pthread_mutex_unlock(&all.lock);
    mirror_ended(session);
    pthread_mutex_lock(&mirror->lock);
    while (mirror->waiting)
        pthread_cond_wait(&mirror->answered, &mirror->lock);
    pthread_mutex_unlock(&mirror->lock);
    mirror_cuts_drop(mirror);
}

void mirror_free(struct session *session)
{
    struct mirror *mirror = &session->mirror;
    if (!mirror->started)
        return;
    pthread_cond_destroy(&mirror->answered);
    pthread_mutex_destroy(&mirror->lock);
    pthread_mutex_destroy(&mirror->contents);
    mirror->started = false;
}
