/*
 * windows.c: windows of communicators. Other ranks put into their memory at any time, so whoever frees memory takes the
 * windows away that are in it first: else bytes of a late put would come into what is allocated there next.
 */
#include "cpu/client/core/memory/windows.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "cpu/client/core/api_comm.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/wire/wire.h"
#include "cpu/common/cancel.h"
#include "cpu/common/list.h"

enum { LOOK_FIRST_NS = 50 * 1000, LOOK_LAST_NS = 5 * 1000 * 1000 };

struct client_window {
    struct list of_all;
    struct client_session *session;
    uint32_t comm, number;
    uint64_t address, size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list windows;
static atomic_uint count;

bool windows_note(struct client_session *session, uint32_t comm, uint32_t number, uint64_t address, uint64_t size)
{
    struct client_window *window = malloc(sizeof *window);
    if (!window)
        return false;
    *window = (struct client_window){
        .session = session, .comm = comm, .number = number, .address = address, .size = size
    };
    pthread_mutex_lock(&lock);
    list_append(&windows, &window->of_all);
    atomic_fetch_add(&count, 1);
    pthread_mutex_unlock(&lock);
    return true;
}

/* Under the lock. */
static void forget(struct client_window *window)
{
    list_remove(&window->of_all);
    atomic_fetch_sub(&count, 1);
    free(window);
}

void windows_forget(const struct client_session *session, uint32_t comm, uint32_t number)
{
    pthread_mutex_lock(&lock);
    for (struct list *one = list_first(&windows), *next; one; one = next) {
        struct client_window *window = LIST_OBJECT(one, struct client_window, of_all);
        next = list_next(&windows, one);
        if (window->session == session && window->comm == comm && (!number || window->number == number))
            forget(window);
    }
    pthread_mutex_unlock(&lock);
}

/* Memory that is to be free: a range, or what ends with a context. */
struct freed {
    uint64_t address, size;
    const core_context *context;
};

/* Memory of pools ends with the primary context of their device. */
static bool ends_with(const core_context *c, const struct client_window *window)
{
    struct core_range range;
    for (uint64_t at = window->address; at - window->address < window->size; at = range.base + range.size)
        if (!address_lookup_at(window->session, at, &range))
            return false;
        else if (range.context == c || (address_is_pooled(&range) && c->primary && range.device == c->device))
            return true;
    return false;
}

static bool is_in(const struct freed *freed, const struct client_window *window)
{
    if (freed->context)
        return ends_with(freed->context, window);
    return window->address < freed->address + freed->size && freed->address < window->address + window->size;
}

/* One that lies there, which is forgotten. False: there is none. */
static bool take(const struct freed *freed, struct client_window *copy)
{
    struct client_window *found = NULL;
    pthread_mutex_lock(&lock);
    for (struct list *one = list_first(&windows); one && !found; one = list_next(&windows, one)) {
        struct client_window *window = LIST_OBJECT(one, struct client_window, of_all);
        found = is_in(freed, window) ? window : NULL;
    }
    if (found) {
        *copy = *found;
        forget(found);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

int window_remove(struct client_session *session, uint32_t comm, uint32_t number)
{
    comm_window_remove_args args = { .comm = comm, .window = number };
    plain_result result = { .head = { 0 } };
    return wire_call(session, FLYT_COMM_WINDOW_REMOVE, (xdrproc_t)xdr_comm_window_remove_args, &args,
                     (xdrproc_t)xdr_plain_result, &result);
}

/* A put that has begun comes to its end, or its link fails. */
static void end(const struct client_window *window)
{
    struct timespec pause = { .tv_nsec = LOOK_FIRST_NS };
    while (window_remove(window->session, window->comm, window->number) == CORE_NOT_READY) {
        nanosleep(&pause, NULL);
        pause.tv_nsec = pause.tv_nsec < LOOK_LAST_NS / 2 ? 2 * pause.tv_nsec : LOOK_LAST_NS;
    }
}

static void end_all(const struct freed *freed)
{
    struct client_window window;
    while (atomic_load(&count) && take(freed, &window))
        end(&window);
}

void windows_end_in(uint64_t address, uint64_t size) { end_all(&(struct freed){ .address = address, .size = size }); }

void windows_end_with(const core_context *c) { end_all(&(struct freed){ .context = c }); }

void core_windows_end(uint64_t address, uint64_t size)
{
    CANCEL_DEFERRED;
    windows_end_in(address, size);
}
