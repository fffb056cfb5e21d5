/*
 * together.c: small operations of ranks that are all of this session. The threads of the ranks sleep, and to wake one
 * takes longer than to add a few numbers. So the executor carries these operations out itself, for all ranks at a time:
 * nothing is waited for, since all are there.
 *
 * An operation whose turn has come is kept back while the executor has more to serve: those of the other ranks usually
 * stand right behind it. When the last one has come, all are carried out. Before the executor sleeps it lets the others
 * go, and the threads of their ranks carry them out as they do all operations (comms_let_go).
 *
 * A rank's operations are carried out one after the other: `busy` says that its thread or the executor is at one.
 */
#include "cpu/server/comm/comms_state.h"

#include "cpu/comm/plan/parts.h"
#include "cpu/common/clock.h"
#include "cpu/rpc/transport/channel.h"
#include "cpu/server/stream/inside.h"

/* BYTES: of all ranks' buffers, some 10 us of the executor's time. MS: nothing is waited for but another thread that
   ends the communicator; what takes longer ends it. */
enum { TOGETHER_BYTES = 64 * 1024, TOGETHER_MS = 1000 };

bool together_may(const struct server_comm_operation *o)
{
    const struct server_comm *comm = o->comm;
    const struct comm_call *call = &o->call;
    if (o->kind != OPERATION_CALL || !comm->place || comm->ranks > COMM_TOGETHER_MOST || o->factor_view ||
        (call->kind == COMM_ALL_TO_ALL && call->in == call->out))
        return false;
    const struct comm_parts parts = comm_parts_of(call->kind, 0, comm->ranks, 0); /* of a root: the most */
    const uint64_t part = comm->session->comms->ways->type_size(call->type) * comm->ranks;
    return call->kind == COMM_BARRIER || call->count <= TOGETHER_BYTES / part / (parts.in + parts.out);
}

static bool same_call(const struct comm_call *a, const struct comm_call *b)
{
    return a->kind == b->kind && a->type == b->type && a->operation == b->operation && a->root == b->root &&
           a->count == b->count;
}

/* Under comms.lock: the rank's next operation, if the executor may carry it out now. */
static struct server_comm_operation *next_of(const struct server_comm *comm)
{
    struct list *first = comm ? list_first(&comm->queue) : NULL;
    struct server_comm_operation *o = first ? LIST_OBJECT(first, struct server_comm_operation, queued) : NULL;
    return o && o->ready && o->small && comm->settled && !comm->busy ? o : NULL;
}

bool together_keep(struct server_comm_operation *o, struct server_comm_operation *all[COMM_TOGETHER_MOST])
{
    struct server_comm *comm = o->comm;
    struct server_comm_place *place = comm->place;
    struct server_comm_operation *found[COMM_TOGETHER_MOST];
    if (next_of(comm) != o)
        return false;
    unsigned ready = 0;
    for (unsigned r = 0; r < place->ranks; r++) {
        if (!place->members[r])
            return false; /* a rank is of another session, or has not been made yet */
        found[r] = next_of(place->members[r]);
        ready += found[r] != NULL;
        if (found[r] && !same_call(&found[r]->call, &o->call))
            return false; /* the threads find out, and say which calls differ */
    }
    if (ready < place->ranks) {
        if (!list_linked(&comm->kept))
            list_append(&comm->session->comms->kept, &comm->kept);
        atomic_store(&comm->session->comms->keeps, true);
        return true;
    }
    for (unsigned r = 0; r < place->ranks; r++) {
        all[r] = found[r];
        list_remove(&found[r]->queued);
        list_remove(&found[r]->comm->kept);
        found[r]->comm->busy = true;
    }
    return true;
}

void together_carry_out(struct server_comm_operation *const all[COMM_TOGETHER_MOST])
{
    struct session *session = all[0]->inside.session;
    struct comms *comms = session->comms;
    const unsigned ranks = all[0]->comm->ranks;
    struct comm_context *contexts[COMM_TOGETHER_MOST];
    struct comm_call calls[COMM_TOGETHER_MOST];
    int status[COMM_TOGETHER_MOST];
    char error[RPC_ERROR_SIZE] = "";
    for (unsigned r = 0; r < ranks; r++) {
        contexts[r] = all[r]->comm->comm;
        calls[r] = all[r]->call;
    }
    comms->ways->call_together(contexts, calls, ranks, clock_now() + TOGETHER_MS * CLOCK_NS_PER_MS, status, error);
    for (unsigned r = 0; r < ranks; r++)
        operation_carried_out(all[r], status[r], error);
    if (atomic_load(&session->completion.watching))
        completion_poll(session, all[0]->stream); /* answers calls that wait for the streams */
    pthread_mutex_lock(&comms->lock);
    for (unsigned r = 0; r < ranks; r++) {
        all[r]->over = true;
        all[r]->comm->busy = false;
    }
    pthread_mutex_unlock(&comms->lock);
    for (unsigned r = 0; r < ranks; r++)
        operation_end(all[r], comms_result(status[r]));
}

bool comms_keep_some(const struct session *session) { return session->comms && atomic_load(&session->comms->keeps); }

void comms_let_go(struct session *session)
{
    struct comms *comms = session->comms;
    if (!comms)
        return;
    pthread_mutex_lock(&comms->lock);
    atomic_store(&comms->keeps, false);
    for (struct list *one; (one = list_first(&comms->kept));) {
        list_remove(one);
        comm_wake_if_due(LIST_OBJECT(one, struct server_comm, kept));
    }
    pthread_mutex_unlock(&comms->lock);
}
