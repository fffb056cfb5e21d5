/*
 * host_function.c: functions of the program that a stream runs in its turn. The server says when a function is
 * due; a thread of the core's runs them one after another and informs the server, which lets the stream go on.
 * The thread is started with the first function. All signals are blocked in it but those of its own faults.
 *
 * Work between GPU servers has a second thread, since a function of the program may wait for what such work lets go on.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "cpu/common/cancel.h"
#include "context.h"
#include "cpu/client/core/api_stream.h"
#include "cpu/client/core/wire/gate.h"
#include "cpu/client/core/wire/notify.h"
#include "host_function.h"
#include "managed.h"
#include "mirror.h"
#include "op.h"
#include "pending.h"
#include "cpu/client/core/wire/state.h"

struct client_host_function {
    void  (*function)(void *, int);
    void   *user;
    bool    on_error, writes;
    bool    across;                   /* between GPU servers: the second thread's */
    bool    used;                     /* the server has not said yet that it is due */
    bool    held;                     /* nor has the other server answered for which the stream waits */
    bool    waits;                    /* for what another server does */
    bool    stays;                    /* it is to run once more before the stream goes on */
    int     status;
    struct point point;               /* what it must find done */
    flyt_id next;                     /* in the queue, or of the free ids; 0: last */
};

struct queue {
    pthread_cond_t due;
    flyt_id first, last;              /* of those that are due */
    bool    running;                  /* the thread is */
};

static struct {
    pthread_mutex_t lock;
    struct client_host_function *slots; /* by id; slot 0 is not used */
    flyt_id  size, spare;
    struct queue program, across;
} hosts = { .lock = PTHREAD_MUTEX_INITIALIZER, .program = { .due = PTHREAD_COND_INITIALIZER },
            .across = { .due = PTHREAD_COND_INITIALIZER } };

static atomic_int runner;
static const struct client_stream *_Atomic waits; /* for the function that runs */

pid_t host_function_thread(void)
{
    return atomic_load(&runner);
}

const struct client_stream *host_function_stream(void) { return atomic_load(&waits); }

/* What has changed in the program's memory goes to the servers before the stream goes on. */
static void memory_changed(void)
{
    if (mirror_heeded())
        mirror_room->host_function_ended();
}

static void function_ended(void)
{
    managed_host_function_ended();
    atomic_store(&waits, NULL);
    memory_changed();
}

/* Of several servers one does not know of a copy or a wait that has failed before the function, in the same stream or
   another one: everything behind that is invalid. */
static int status_of(const struct client_host_function *f)
{
    return f->status || !session_several() ? f->status : atomic_load(&f->point.stream->context->session->sticky);
}

static flyt_id next_due(struct queue *queue, struct client_host_function *out)
{
    pthread_mutex_lock(&hosts.lock);
    while (!queue->first)
        pthread_cond_wait(&queue->due, &hosts.lock);
    flyt_id id = queue->first;
    *out = hosts.slots[id];
    queue->first = out->next;
    pthread_mutex_unlock(&hosts.lock);
    return id;
}

/* The function that has returned wants to run once more. */
static bool stayed(flyt_id id)
{
    pthread_mutex_lock(&hosts.lock);
    bool stays = hosts.slots[id].stays;
    hosts.slots[id].stays = false;
    pthread_mutex_unlock(&hosts.lock);
    return stays;
}

static void slot_free(flyt_id id)
{
    pthread_mutex_lock(&hosts.lock);
    hosts.slots[id] = (struct client_host_function){ .next = hosts.spare };
    hosts.spare = id;
    pthread_mutex_unlock(&hosts.lock);
}

static void *host_run(void *which)
{
    struct queue *queue = which;
    bool program = queue == &hosts.program;
    /* also where a function of the program cancels the thread that it runs in */
    cancel_state_off();
    throttle_thread();
    gate_pass();                              /* who shuts the gate waits for the functions that are due */
    if (program)
        atomic_store(&runner, gettid());
    for (;;) {
        struct client_host_function f;
        flyt_id id = next_due(queue, &f);
        pending_wait(&f.point);                  /* the server has sent them; another reply may have been quicker */
        mirror_synchronised();                   /* what fails is every later call's error */
        if (program)
            atomic_store(&waits, f.point.stream);
        int status = program ? status_of(&f) : f.status;
        if (!status || f.on_error)
            f.function(f.user, status);
        if (program)
            function_ended();
        else if (stayed(id))
            continue;
        else if (f.waits || f.writes)
            memory_changed();                /* by what the other server's kernels wrote, or by a copy */
        if (f.writes)
            pending_writer_ends();
        throttle_ends();
        events_tell_done(f.point.stream->context->session, &id, 1);             /* before the id may be used again */
        slot_free(id);
    }
    return NULL;
}

/* Under the lock. */
static int thread_start(struct queue *queue)
{
    sigset_t every, before;
    pthread_t thread;
    if (queue->running)
        return CORE_OK;
    sigfillset(&every);
    /* Functions of the program may touch managed memory (cpu/client/managed/by_signal.c), and fail as elsewhere. */
    sigdelset(&every, SIGSEGV);
    sigdelset(&every, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    queue->running = pthread_create(&thread, NULL, host_run, queue) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!queue->running)
        return CORE_OUT_OF_MEMORY;
    pthread_detach(thread);
    return CORE_OK;
}

/* Under the lock. 0: no memory. */
static flyt_id slot_take(void)
{
    if (!hosts.spare) {
        flyt_id size = hosts.size ? hosts.size * 2 : 64;
        struct client_host_function *more = realloc(hosts.slots, size * sizeof *more);
        if (!more)
            return 0;
        for (flyt_id id = size; id-- > (hosts.size ? hosts.size : 1);) {
            more[id] = (struct client_host_function){ .next = hosts.spare };
            hosts.spare = id;
        }
        hosts.slots = more;
        hosts.size = size;
    }
    flyt_id id = hosts.spare;
    hosts.spare = hosts.slots[id].next;
    return id;
}

static int put(struct client_stream *s, const struct client_host_function *wanted, flyt_id *out)
{
    pending_join_next(s);
    struct point point = stream_point(s);
    point.number++;                           /* its own, or of a call that another thread sends meanwhile */
    pthread_mutex_lock(&hosts.lock);
    int code = thread_start(wanted->across ? &hosts.across : &hosts.program);
    flyt_id id = code ? 0 : slot_take();
    if (id) {
        hosts.slots[id] = *wanted;
        hosts.slots[id].used = true;
        hosts.slots[id].point = point;
    }
    pthread_mutex_unlock(&hosts.lock);
    if (!id)
        return CORE_OUT_OF_MEMORY;
    *out = id;
    if (wanted->writes)
        pending_writer_begins();
    throttle_begins();
    host_function_args args = { .stream = s->wire, .id = id };
    code = stream_send(s, &(struct stream_call){ FLYT_HOST_FUNCTION, (xdrproc_t)xdr_host_function_args, &args,
                                                 .weighty = true }, NULL);
    if (!code)
        rpc_client_flush(s->context->session->client);
    /* a lost connection is the next call's error: `user` must not be freed twice */
    return CORE_OK;
}

int host_function_put(struct client_stream *s, void (*function)(void *, int), void *user, bool on_error, bool writes)
{
    flyt_id id;
    return put(s,
               &(struct client_host_function){ .function = function, .user = user, .on_error = on_error,
                                              .writes = writes }, &id);
}

int host_function_put_across(struct client_stream *s, void (*function)(void *, int), void *user, bool writes,
                             flyt_id *id)
{
    return put(s,
               &(struct client_host_function){ .function = function, .user = user, .on_error = true, .writes = writes,
                                              .across = true }, id);
}

static void nothing(void *user, int status) { (void)user, (void)status; }

int host_function_hold(struct client_stream *s, flyt_id *out)
{
    return put(s, &(struct client_host_function){ nothing, .held = true, .waits = true, .across = true }, out);
}

flyt_id host_function_ids(void)
{
    pthread_mutex_lock(&hosts.lock);
    flyt_id size = hosts.size;
    pthread_mutex_unlock(&hosts.lock);
    return size;
}

/* Under the lock. */
static void enqueue(flyt_id id)
{
    struct queue *queue = hosts.slots[id].across ? &hosts.across : &hosts.program;
    hosts.slots[id].next = 0;
    if (queue->first)
        hosts.slots[queue->last].next = id;
    else
        queue->first = id;
    queue->last = id;
    pthread_cond_signal(&queue->due);
}

void host_function_due(struct client_session *session, flyt_id id, int status)
{
    pthread_mutex_lock(&hosts.lock);
    if (id && id < hosts.size && hosts.slots[id].used && hosts.slots[id].point.stream->context->session == session) {
        hosts.slots[id].used = false;         /* once only, whatever the server says */
        hosts.slots[id].status = status;
        if (!hosts.slots[id].held)
            enqueue(id);
    }
    pthread_mutex_unlock(&hosts.lock);
}

void host_function_stay(flyt_id id, bool stays)
{
    pthread_mutex_lock(&hosts.lock);
    hosts.slots[id].stays = stays;
    pthread_mutex_unlock(&hosts.lock);
}

void host_function_again(flyt_id id)
{
    pthread_mutex_lock(&hosts.lock);
    enqueue(id);
    pthread_mutex_unlock(&hosts.lock);
}

void host_function_release(flyt_id id)
{
    pthread_mutex_lock(&hosts.lock);
    hosts.slots[id].held = false;
    if (!hosts.slots[id].used)
        enqueue(id);
    pthread_mutex_unlock(&hosts.lock);
}

int core_host_function(core_context *c, core_stream stream, void (*function)(void *user, int status), void *user,
                       bool on_error)
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    int code = client_stream_enter(c, stream, &s);
    if (code)
        return code;
    if (!function)
        return CORE_INVALID_VALUE;
    return op_submit(s, &(struct op){ .kind = OP_HOST_FUNCTION, .host = { function, user, on_error } });
}

int host_function_op(struct client_stream *s, const struct op *op)
{
    return host_function_put(s, op->host.function, op->host.user, op->host.on_error, true);
}
