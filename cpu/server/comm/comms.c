/*
 * comms.c: communicators come and go, and the thread of each one.
 *
 * The thread takes the operations of its communicator in the order in which they were called, each when its turn in its
 * stream has come, and waits in cpu/comm until it is carried out. So all ranks carry out the same ones at a time,
 * whichever streams they were called in, and neither the executor nor another communicator waits for anything.
 *
 * A communicator that the client has closed goes in its thread, when its operations are complete and freed.
 * Locks: session.lock, then comms.lock, then what inside_due takes. Threads of links and of other ranks call comm_lost
 * with no lock held.
 */
#include "cpu/server/comm/comms_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/clock.h"
#include "cpu/common/env.h"
#include "cpu/common/lock.h"
#include "cpu/common/log.h"
#include "cpu/rpc/transport/channel.h"

enum { LEAVE_MS = 1000, FOREVER_S = 1000000, END_MS = 300 };

bool comms_offered(const struct session *session)
{
    return session->comms && session->gpu->StreamWaitValue32 && session->gpu->host_view &&
           strcmp(session->gpu->kind, "null") != 0;
}

struct comms *comms_create(struct session *session, const struct comms_ways *ways)
{
    struct comms *comms = calloc(1, sizeof *comms);
    if (!comms)
        return NULL;
    comms->session = session;
    comms->ways = ways;
    const char *seconds = env_get("FLYT_COMM_TIMEOUT");
    long limit = seconds ? strtol(seconds, NULL, 10) : 0;
    comms->patience = (limit > 0 && limit < FOREVER_S ? (uint64_t)limit : FOREVER_S) * CLOCK_NS_PER_SECOND;
    pthread_mutex_init(&comms->lock, NULL);
    pthread_cond_init(&comms->changed, NULL);
    book_open(comms);
    return comms;
}

void comms_destroy(struct session *session)
{
    struct comms *comms = session->comms;
    session->comms = NULL;
    if (!comms || comms->used)
        return; /* threads may run to the end of the process */
    pthread_cond_destroy(&comms->changed);
    pthread_mutex_destroy(&comms->lock);
    free(comms);
}

uint64_t comms_count(const struct session *session) { return session->comms ? session->comms->count : 0; }

struct server_comm *comm_find(struct session *session, uint32_t id)
{
    return session->comms ? id_map_find(session->ids[KIND_COMM], id) : NULL;
}

void comm_abort(struct server_comm *comm, const char *why)
{
    comm->session->comms->ways->abort(comm->comm, -ECANCELED, why);
}

/* ---- where ranks of one session meet ---- */

static struct server_comm_place *place_take(struct comms *comms, const char *name, unsigned ranks)
{
    for (struct list *one = list_first(&comms->places); one; one = list_next(&comms->places, one)) {
        struct server_comm_place *place = LIST_OBJECT(one, struct server_comm_place, of_all);
        if (memcmp(place->name, name, sizeof place->name) != 0)
            continue;
        if (place->ranks != ranks)
            return NULL;
        place->users++;
        return place;
    }
    struct server_comm_place *place = calloc(1, sizeof *place + ranks * sizeof *place->members);
    if (place)
        place->near = comms->ways->near_create(ranks);
    if (!place || !place->near) {
        free(place);
        return NULL;
    }
    memcpy(place->name, name, sizeof place->name);
    place->ranks = ranks;
    place->users = 1;
    list_append(&comms->places, &place->of_all);
    return place;
}

static void place_leave(struct comms *comms, struct server_comm *comm)
{
    struct server_comm_place *place = comm->place;
    if (place && place->members[comm->rank] == comm)
        place->members[comm->rank] = NULL;
    if (!place || --place->users > 0)
        return;
    list_remove(&place->of_all);
    comms->ways->near_drop(place->near);
    free(place);
}

/* ---- the end ---- */

/* Nobody has any operation of it, and nobody finds it. Its links must stay until its context is gone, and the context
   until no link calls it. */
static void comm_end(struct server_comm *comm)
{
    struct session *session = comm->session;
    for (unsigned r = 0; r < comm->ranks; r++)
        if (comm->borrowed[r].link)
            links_mute(comm->borrowed[r].link);
    session->comms->ways->destroy(comm->comm);
}

/* Behind comm_end, under session.lock. */
static void comm_free(struct server_comm *comm)
{
    for (unsigned r = 0; r < comm->ranks; r++)
        if (comm->borrowed[r].link)
            links_give_back(comm->borrowed[r].link);
    place_leave(comm->session->comms, comm);
    pthread_cond_destroy(&comm->wake);
    free(comm->borrowed);
    free(comm);
}

/* ---- the thread ---- */

/* The next operation whose turn has come; NULL: the communicator is to go. */
static struct server_comm_operation *operation_next(struct comms *comms, struct server_comm *comm)
{
    struct server_comm_operation *next = NULL;
    pthread_mutex_lock(&comms->lock);
    for (;;) {
        next = LIST_OBJECT(list_first(&comm->queue), struct server_comm_operation, queued);
        if (next && next->ready && !comm->busy)
            break;
        if (!next && comm->closing && comm->operations == 0)
            break;
        pthread_cond_wait(&comm->wake, &comms->lock);
    }
    if (next)
        list_remove(&next->queued);
    list_remove(&comm->kept);
    comm->busy = next != NULL;
    pthread_mutex_unlock(&comms->lock);
    return next;
}

/* Under comms.lock: an operation has failed, so the communicator has. The program should learn that by asking for its
   status, and then abort it: so that the error is the communicator's. Only where it does not is the operation's error
   that of the context, which a program that asks for nothing reads. */
static void await_abort(struct comms *comms, struct server_comm *comm)
{
    struct timespec until = clock_timespec(clock_now() + END_MS * CLOCK_NS_PER_MS);
    int waited = 0;
    while (!comm->closing && !comm->fails && waited == 0)
        waited = pthread_cond_clockwait(&comms->changed, &comms->lock, CLOCK_MONOTONIC, &until);
    comm->fails = true;
}

static void *comm_main(void *context)
{
    struct server_comm *comm = context;
    struct session *session = comm->session;
    struct comms *comms = session->comms;
    struct server_comm_operation *operation;
    char why[RPC_ERROR_SIZE] = "";
    /* Here and not in the call that makes it: that must not wait for other ranks. */
    if (comms->ways->agree(comm->comm, clock_now() + comms->patience, why) < 0)
        comm_abort(comm, why);
    pthread_mutex_lock(&comms->lock);
    comm->settled = true;
    pthread_mutex_unlock(&comms->lock);
    while ((operation = operation_next(comms, comm))) {
        operation_carry_out(operation);
        pthread_mutex_lock(&comms->lock); /* as long as it is held the executor does not free it */
        if (operation->status < 0)
            await_abort(comms, comm);
        comm->busy = false;
        inside_due(&operation->inside);
        operation->over = true; /* whoever waits for that may end what inside_due needs */
        pthread_cond_broadcast(&comms->changed);
        pthread_mutex_unlock(&comms->lock);
    }
    pthread_mutex_lock(&session->lock);
    list_remove(&comm->of_all);
    comms->count--;
    pthread_mutex_unlock(&session->lock);
    comm_end(comm);
    pthread_mutex_lock(&session->lock);
    comm_free(comm);
    pthread_mutex_unlock(&session->lock);
    pthread_mutex_lock(&comms->lock);
    comms->leaving--;
    pthread_cond_broadcast(&comms->changed);
    pthread_mutex_unlock(&comms->lock);
    return NULL;
}

/* ---- the beginning ---- */

/* In a thread of the engine of links. */
static void comm_lost(void *of, int status, const char *why)
{
    const struct comm_borrowed *borrowed = of;
    struct server_comm *comm = borrowed->comm;
    comm->session->comms->ways->lost(comm->comm, borrowed->rank, status, why);
}

static int comm_context_make(struct server_comm *comm, const comm_create_args *args, char *why)
{
    struct comms *comms = comm->session->comms;
    const uint32_t *links = args->links.links_val;
    bool near = false;
    for (unsigned r = 0; r < comm->ranks; r++)
        near |= r != comm->rank && links[r] == FLYT_COMM_NEAR;
    comm->place = near ? place_take(comms, args->place, comm->ranks) : NULL;
    if (near && !comm->place)
        return rpc_explain(why, -EINVAL, "the place of a communicator has another number of ranks, or no memory");
    const struct comm_context_settings settings = { .rank = comm->rank,
                                                    .size = comm->ranks,
                                                    .engine = links_engine(comm->session),
                                                    .registers = true,
                                                    .near = comm->place ? comm->place->near : NULL,
                                                    .page = book_take(comms, args->place, comm->session->client) };
    return comms->ways->create(&settings, NULL, &comm->comm, why);
}

static int links_take(struct server_comm *comm, const comm_create_args *args, char *why)
{
    const struct comms_ways *ways = comm->session->comms->ways;
    for (unsigned r = 0; r < comm->ranks; r++) {
        struct comm_borrowed *borrowed = &comm->borrowed[r];
        uint32_t id = args->links.links_val[r];
        if (r == comm->rank)
            continue;
        *borrowed = (struct comm_borrowed){ .comm = comm, .rank = r };
        if (id == FLYT_COMM_NEAR) {
            ways->use_near(comm->comm, r);
            continue;
        }
        const struct links_borrower borrower = { comm_lost, borrowed };
        const int status = links_borrow(comm->session, id, &borrower, &borrowed->link, why);
        if (status < 0)
            return status;
        ways->use_link(comm->comm, r, links_comm(borrowed->link));
    }
    return 0;
}

static int comm_begin(struct server_comm *comm, const comm_create_args *args, char *why)
{
    struct session *session = comm->session;
    int status = comm_context_make(comm, args, why);
    if (status == 0)
        status = links_take(comm, args, why);
    if (status == 0 && (status = session->comms->ways->sided_begin(comm->comm)) < 0)
        rpc_explain(why, status, "a communicator: no memory");
    if (status == 0 && id_map_set(session->ids[KIND_COMM], args->comm, comm) != 0)
        status = rpc_explain(why, -EINVAL, "communicator %u: ids are below %d", args->comm, FLYT_MAX_COMMS);
    if (status < 0)
        return status;
    pthread_t thread;
    session->comms->used = true;
    if (pthread_create(&thread, NULL, comm_main, comm) == 0) {
        pthread_detach(thread);
        list_append(&session->comms->all, &comm->of_all);
        session->comms->count++;
        if (comm->place)
            comm->place->members[comm->rank] = comm;
        return 0;
    }
    id_map_remove(session->ids[KIND_COMM], args->comm);
    return rpc_explain(why, -ENOMEM, "a communicator: no thread can be had");
}

/* A closed communicator has its thread, but no id. One that has no operations is gone at once, so a client that uses an
   id again is not refused for that. */
static bool too_many_leave(struct comms *comms)
{
    pthread_mutex_lock(&comms->lock);
    bool many = comms->leaving >= FLYT_MAX_COMMS;
    pthread_mutex_unlock(&comms->lock);
    return many;
}

static int comm_make(struct session *session, const comm_create_args *args, char *why)
{
    const unsigned ranks = args->links.links_len;
    struct context *context = context_find(session, args->context);
    if (!comms_offered(session))
        return rpc_explain(why, -ENOTSUP, "this server has no communicators");
    if (!context || ranks == 0 || args->rank >= ranks || comm_find(session, args->comm))
        return rpc_explain(why, -EINVAL, "a communicator: its id is taken, or there is no such context or rank");
    if (too_many_leave(session->comms))
        return rpc_explain(why, -ENOMEM, "a communicator: operations of %d closed ones wait", FLYT_MAX_COMMS);
    struct server_comm *comm = calloc(1, sizeof *comm);
    struct comm_borrowed *borrowed = calloc(ranks, sizeof *borrowed);
    if (!comm || !borrowed) {
        free(comm);
        free(borrowed);
        return rpc_explain(why, -ENOMEM, "a communicator: no memory");
    }
    *comm = (struct server_comm){
        .session = session, .context = context, .rank = args->rank, .ranks = ranks, .borrowed = borrowed
    };
    pthread_cond_init(&comm->wake, NULL);
    int status = comm_begin(comm, args, why);
    if (status < 0) {
        comm_end(comm);
        comm_free(comm);
    }
    return status;
}

/* ---- the calls ---- */

CUresult comms_result(int status)
{
    switch (-status) {
    case 0: return CUDA_SUCCESS;
    case EINVAL: return CUDA_ERROR_INVALID_VALUE;
    case ENOTSUP: return CUDA_ERROR_NOT_SUPPORTED;
    case EBUSY: return CUDA_ERROR_NOT_READY;
    case ENOMEM: return CUDA_ERROR_OUT_OF_MEMORY;
    default: return CUDA_ERROR_DEVICE_UNAVAILABLE;
    }
}

void serve_comm_create(struct session *session, struct call *call)
{
    char why[RPC_ERROR_SIZE] = "";
    const comm_create_args *args = &call->args.comm_create;
    int status = comm_make(session, args, why);
    why[FLYT_MAX_SHORT - 1] = '\0';
    comm_create_result result = { .why = why };
    log_info("event=comm-created session=%llu comm=%u rank=%u ranks=%u status=%d why=\"%s\"",
             (unsigned long long)session->id, args->comm, args->rank, args->links.links_len, -status, why);
    session_reply(session, call->xid, (xdrproc_t)xdr_comm_create_result, &result, comms_result(status), false);
}

void serve_comm_status(struct session *session, struct call *call)
{
    struct server_comm *comm = comm_find(session, call->args.comm_status.comm);
    char why[RPC_ERROR_SIZE] = "";
    comm_status_result result = { .why = why };
    if (comm)
        result.status = -session->comms->ways->status(comm->comm, why);
    why[FLYT_MAX_SHORT - 1] = '\0';
    session_reply(session, call->xid, (xdrproc_t)xdr_comm_status_result, &result,
                  comm ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE, false);
}

void serve_comm_pending(struct session *session, struct call *call)
{
    struct server_comm *comm = comm_find(session, call->args.comm_pending.comm);
    comm_pending_result result = { .operations = 0 };
    if (comm) {
        pthread_mutex_lock(&session->comms->lock);
        result.operations = comm->operations;
        pthread_mutex_unlock(&session->comms->lock);
    }
    session_reply(session, call->xid, (xdrproc_t)xdr_comm_pending_result, &result,
                  comm ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE, false);
}

void serve_comm_close(struct session *session, struct call *call)
{
    const comm_close_args *args = &call->args.comm_close;
    struct server_comm *comm = comm_find(session, args->comm);
    if (!comm) {
        call_fail(session, call, CUDA_ERROR_INVALID_HANDLE);
        return;
    }
    id_map_remove(session->ids[KIND_COMM], args->comm);
    if (*args->why) {
        comm->aborted = true;
        comm_abort(comm, args->why);
    }
    pthread_mutex_lock(&session->comms->lock);
    comm->closing = true;
    session->comms->leaving++;
    pthread_cond_signal(&comm->wake);
    pthread_cond_broadcast(&session->comms->changed);
    pthread_mutex_unlock(&session->comms->lock);
}

/* ---- the session ends ---- */

void comms_leave(struct session *session)
{
    struct comms *comms = session->comms;
    struct timespec until = clock_timespec(clock_now() + LEAVE_MS * CLOCK_NS_PER_MS);
    int waited = 0;
    if (!comms)
        return;
    comms_let_go(session);
    pthread_mutex_lock(&comms->lock);
    while (comms->leaving > 0 && waited == 0)
        waited = pthread_cond_clockwait(&comms->changed, &comms->lock, CLOCK_MONOTONIC, &until);
    pthread_mutex_unlock(&comms->lock);
}

void comms_stop(struct session *session) { comms_release_all(session, NULL); }
