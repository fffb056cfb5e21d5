/*
 * communicator.c: ranks, the links between them, and their transfers. See coordinator.h.
 *
 * Links are made in phases, each for all pairs before the next begins: every rank listens, the coordinator exchanges
 * the handles, servers of a cluster are connected, all ranks join.
 */
#include "cpu/client/coordinator/coordinator.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One end of the link of two ranks, and the way from this one to the other. */
struct rank_way {
    uint32_t link, sends, receives; /* ids at this rank: of the link, of its streams to and from the other */
    uint64_t sent;                  /* transfers from here to there */
    flyt_link_handle handles[FLYT_MAX_LINK_HANDLES];
    u_int handle_count;
    char *address; /* what to name in LINK_JOIN; NULL: the other's server */
};

struct rank_order {
    bool sends;
    unsigned rank, other;
    uint64_t transfer, address, size;
};

struct flyt_communicator {
    flyt_coordinator *coordinator;
    flyt_communicator *next;
    unsigned ranks;
    struct coordinator_member *members[FLYT_COORDINATOR_MEMBERS];
    struct rank_way ways[FLYT_COORDINATOR_MEMBERS][FLYT_COORDINATOR_MEMBERS];
    bool grouped;
    struct rank_order *group;
    size_t group_count, group_room;
};

static bool ranks_good(const flyt_communicator *comm, unsigned a, unsigned b)
{
    return comm && a < comm->ranks && b < comm->ranks && a != b;
}

/* ---- making links ---- */

static int way_listen(flyt_communicator *comm, unsigned rank, unsigned other)
{
    struct coordinator_member *m = comm->members[rank];
    struct rank_way *way = &comm->ways[rank][other];
    link_listen_args args = { m->links };
    link_listen_result result;
    memset(&result, 0, sizeof result);
    int status = member_call(m, FLYT_LINK_LISTEN, MEMBER_XDR(link_listen_args), &args, MEMBER_XDR(link_listen_result),
                             &result, "listening");
    if (status < 0 && result.why && *result.why)
        coordinator_explain(status, "%s: %s", m->server, result.why);
    if (status == 0) {
        way->link = m->links++;
        way->handle_count = result.handles.handles_len;
        memcpy(way->handles, result.handles.handles_val, way->handle_count * sizeof *way->handles);
    }
    xdr_free(MEMBER_XDR(link_listen_result), &result);
    return status;
}

/* Whether this end of a link connects. */
static bool way_calls(const struct rank_way *way, const struct rank_way *other)
{
    return memcmp(way->handles[0] + FLYT_LINK_HANDLE_TURN, other->handles[0] + FLYT_LINK_HANDLE_TURN,
                  FLYT_LINK_HANDLE_TURN_SIZE) > 0;
}

static int way_connect(flyt_communicator *comm, unsigned rank, unsigned other)
{
    struct rank_way *way = &comm->ways[rank][other];
    const struct rank_way *theirs = &comm->ways[other][rank];
    struct coordinator_member *from = comm->members[rank], *to = comm->members[other];
    char address[RPC_ERROR_SIZE];
    if (!from->manager || !way->handle_count || !theirs->handle_count || !way_calls(way, theirs))
        return 0;
    if (!to->manager)
        return coordinator_explain(-EPERM, "%s is connected to servers of its cluster, and %s is none", from->server,
                                   to->server);
    int status = managed_connect(from, to, theirs->handle_count, address);
    if (status == 0 && !(way->address = strdup(address)))
        status = coordinator_explain(-ENOMEM, "joining links: no memory");
    return status;
}

/* A call that is answered when all channels stand. */
struct rank_join {
    struct rpc_call call;
    link_join_args args;
    link_join_result result;
    struct coordinator_member *member;
};

static int join_end(struct rank_join *join, enum clnt_stat status)
{
    int code = status == RPC_SUCCESS ? join->result.head.result : -1;
    int answer = 0;
    if (status != RPC_SUCCESS)
        answer = coordinator_explain(-ECONNRESET, "%s: joining a link: the connection has ended", join->member->server);
    else if (code)
        answer = coordinator_explain(code == 800 ? -EPERM : -ENOLINK, "%s: joining the link with %s: %s",
                                     join->member->server, join->args.server, join->result.why ? join->result.why : "");
    xdr_free(MEMBER_XDR(link_join_result), &join->result);
    return answer;
}

/* Both ends of all links at a time: each waits for the other one. */
static int join_all(flyt_communicator *comm, unsigned timeout_ms)
{
    unsigned count = 0, started = 0;
    int status = 0;
    struct rank_join *joins = calloc((size_t)comm->ranks * comm->ranks, sizeof *joins);
    if (!joins)
        return coordinator_explain(-ENOMEM, "joining links: no memory");
    for (unsigned rank = 0; rank < comm->ranks; rank++)
        for (unsigned other = 0; other < comm->ranks; other++) {
            if (rank == other)
                continue;
            struct rank_way *theirs = &comm->ways[other][rank];
            const char *address = comm->ways[rank][other].address;
            struct rank_join *join = &joins[count++];
            join->member = comm->members[rank];
            join->args =
                (link_join_args){ .link = comm->ways[rank][other].link,
                                  .server = (char *)(uintptr_t)(address ? address : comm->members[other]->server),
                                  .handles = { theirs->handle_count, theirs->handles },
                                  .milliseconds = timeout_ms };
            join->call = (struct rpc_call){ .procedure = FLYT_LINK_JOIN,
                                            .encode = MEMBER_XDR(link_join_args),
                                            .args = &join->args,
                                            .decode = MEMBER_XDR(link_join_result),
                                            .result = &join->result };
        }
    enum clnt_stat sent = RPC_SUCCESS;
    while (started < count &&
           (sent = rpc_client_submit(joins[started].member->client, &joins[started].call)) == RPC_SUCCESS)
        started++;
    for (unsigned i = 0; i < started; i++) {
        int end = join_end(&joins[i], rpc_client_wait(joins[i].member->client, &joins[i].call));
        status = status ? status : end;
    }
    if (status == 0 && started < count)
        status = join_end(&joins[started], sent);
    free(joins);
    return status;
}

static int make_streams(flyt_communicator *comm)
{
    int status = 0;
    for (unsigned rank = 0; rank < comm->ranks; rank++)
        for (unsigned other = 0; other < comm->ranks; other++) {
            struct coordinator_member *m = comm->members[rank];
            uint32_t *ids[2] = { &comm->ways[rank][other].sends, &comm->ways[rank][other].receives };
            for (int i = 0; i < 2 && rank != other && status == 0; i++) {
                stream_create_args args = { .stream = m->streams, .flags = 1 }; /* a non-blocking one */
                *ids[i] = m->streams++;
                status = member_call(m, FLYT_STREAM_CREATE, MEMBER_XDR(stream_create_args), &args, MEMBER_XDR(void),
                                     NULL, "a stream");
            }
        }
    return status;
}

static int link_all(flyt_communicator *comm, unsigned timeout_ms)
{
    int status = 0;
    bool fresh[FLYT_COORDINATOR_MEMBERS] = { false };
    for (unsigned rank = 0; rank < comm->ranks; rank++)
        fresh[rank] = comm->members[rank]->links == 0;
    for (unsigned rank = 0; rank < comm->ranks && status == 0; rank++)
        for (unsigned other = 0; other < comm->ranks && status == 0; other++)
            status = rank == other ? 0 : way_listen(comm, rank, other);
    for (unsigned rank = 0; rank < comm->ranks && status == 0; rank++)
        for (unsigned other = 0; other < comm->ranks && status == 0; other++)
            status = rank == other ? 0 : way_connect(comm, rank, other);
    if (status == 0)
        status = join_all(comm, timeout_ms);
    for (unsigned rank = 0; rank < comm->ranks; rank++)
        for (unsigned other = 0; other < comm->ranks; other++) {
            explicit_bzero(comm->ways[rank][other].handles, sizeof comm->ways[rank][other].handles);
            free(comm->ways[rank][other].address);
            comm->ways[rank][other].address = NULL;
        }
    for (unsigned rank = 0; rank < comm->ranks && status == 0; rank++) {
        struct coordinator_member *m = comm->members[rank];
        if (fresh[rank] && m->taken)
            status = member_register(m, m->window, m->taken);
    }
    return status == 0 ? make_streams(comm) : status;
}

int flyt_communicator_create(flyt_coordinator *c, const unsigned *members, unsigned ranks, unsigned timeout_ms,
                             flyt_communicator **out)
{
    bool good = c && members && out && ranks >= 2 && ranks <= FLYT_COORDINATOR_MEMBERS;
    for (unsigned i = 0; good && i < ranks; i++) {
        good = members[i] < c->count;
        for (unsigned k = 0; k < i; k++)
            good &= members[k] != members[i];
    }
    if (!good)
        return coordinator_explain(-EINVAL, "a communicator has 2 to %d ranks, each a member of its own",
                                   FLYT_COORDINATOR_MEMBERS);
    flyt_communicator *comm = calloc(1, sizeof *comm);
    if (!comm)
        return coordinator_explain(-ENOMEM, "a communicator: no memory");
    comm->coordinator = c;
    comm->ranks = ranks;
    for (unsigned i = 0; i < ranks; i++)
        comm->members[i] = &c->members[members[i]];
    comm->next = c->first;
    c->first = comm;
    int status = link_all(comm, timeout_ms);
    if (status == 0)
        *out = comm;
    else
        flyt_communicator_destroy(comm);
    return status;
}

/* Links whose ids were given away, with their streams. What fails is of no consequence: the session may have ended. */
static void close_all(flyt_communicator *comm)
{
    char text[RPC_ERROR_SIZE];
    snprintf(text, sizeof text, "%s", flyt_coordinator_error());
    for (unsigned rank = 0; rank < comm->ranks; rank++)
        for (unsigned other = 0; other < comm->ranks; other++) {
            const struct rank_way *way = &comm->ways[rank][other];
            struct coordinator_member *m = comm->members[rank];
            link_close_args args = { way->link, (char *)(uintptr_t) "" };
            if (!way->handle_count)
                continue;
            member_call(m, FLYT_LINK_CLOSE, MEMBER_XDR(link_close_args), &args, MEMBER_XDR(void), NULL, "closing");
            uint32_t streams[2] = { way->sends, way->receives };
            for (int i = 0; i < 2; i++) {
                stream_args destroyed = { streams[i] };
                if (streams[i])
                    member_call(m, FLYT_STREAM_DESTROY, MEMBER_XDR(stream_args), &destroyed, MEMBER_XDR(void), NULL,
                                "closing");
            }
        }
    coordinator_explain(0, "%s", text);
}

void flyt_communicator_destroy(flyt_communicator *comm)
{
    if (!comm)
        return;
    flyt_communicator **at = &comm->coordinator->first;
    while (*at != comm)
        at = &(*at)->next;
    *at = comm->next;
    close_all(comm);
    free(comm->group);
    free(comm);
}

void communicators_destroy(flyt_coordinator *c)
{
    while (c->first)
        flyt_communicator_destroy(c->first);
}

/* ---- transfers ---- */

static int order_now(flyt_communicator *comm, const struct rank_order *order)
{
    const struct rank_way *way = &comm->ways[order->rank][order->other];
    send_args args = { order->sends ? way->sends : way->receives, way->link, order->address, order->size,
                       order->transfer };
    return member_call(comm->members[order->rank], order->sends ? FLYT_SEND : FLYT_RECEIVE, MEMBER_XDR(send_args),
                       &args, MEMBER_XDR(void), NULL, order->sends ? "sending" : "receiving");
}

static int order_later(flyt_communicator *comm, const struct rank_order *order)
{
    if (comm->group_count == comm->group_room) {
        size_t room = comm->group_room ? 2 * comm->group_room : 64;
        struct rank_order *more = realloc(comm->group, room * sizeof *more);
        if (!more)
            return coordinator_explain(-ENOMEM, "a group: no memory");
        comm->group = more;
        comm->group_room = room;
    }
    comm->group[comm->group_count++] = *order;
    return 0;
}

/* The coordinator counts as the sender does. */
static int send_counted(flyt_communicator *comm, struct rank_order *order)
{
    struct rank_way *way = &comm->ways[order->rank][order->other];
    order->transfer = way->sent + 1;
    int status = comm->grouped ? order_later(comm, order) : order_now(comm, order);
    way->sent += status == 0;
    return status;
}

/* The sender says the number. */
static int send_asked(flyt_communicator *comm, struct rank_order *order)
{
    struct rank_way *way = &comm->ways[order->rank][order->other];
    struct coordinator_member *m = comm->members[order->rank];
    send_begin_args args = { way->sends, way->link, order->address, order->size, 0 };
    send_begin_result result;
    memset(&result, 0, sizeof result);
    int status = member_call(m, FLYT_SEND_BEGIN, MEMBER_XDR(send_begin_args), &args, MEMBER_XDR(send_begin_result),
                             &result, "beginning to send");
    order->transfer = result.transfer;
    xdr_free(MEMBER_XDR(send_begin_result), &result);
    if (status == 0)
        way->sent = order->transfer;
    return status;
}

int flyt_communicator_send(flyt_communicator *comm, unsigned rank, unsigned to, uint64_t address, uint64_t size,
                           uint64_t *transfer)
{
    struct rank_order order = { true, rank, to, 0, address, size };
    if (!ranks_good(comm, rank, to) || !transfer)
        return coordinator_explain(-EINVAL, "sending: there are no two ranks %u and %u", rank, to);
    int status = comm->grouped ? send_counted(comm, &order) : send_asked(comm, &order);
    *transfer = order.transfer;
    return status;
}

int flyt_communicator_receive(flyt_communicator *comm, unsigned rank, unsigned from, uint64_t transfer,
                              uint64_t address, uint64_t size)
{
    const struct rank_order order = { false, rank, from, transfer, address, size };
    if (!ranks_good(comm, rank, from) || !transfer)
        return coordinator_explain(-EINVAL, "receiving: there are no two ranks %u and %u, or no such transfer", rank,
                                   from);
    return comm->grouped ? order_later(comm, &order) : order_now(comm, &order);
}

int flyt_communicator_copy(flyt_communicator *comm, unsigned from, uint64_t from_address, unsigned to,
                           uint64_t to_address, uint64_t size)
{
    struct rank_order order = { true, from, to, 0, from_address, size };
    if (!ranks_good(comm, from, to))
        return coordinator_explain(-EINVAL, "copying: there are no two ranks %u and %u", from, to);
    int status = send_counted(comm, &order);
    return status < 0 ? status : flyt_communicator_receive(comm, to, from, order.transfer, to_address, size);
}

int flyt_communicator_group_begin(flyt_communicator *comm)
{
    if (!comm || comm->grouped)
        return coordinator_explain(-EINVAL, "a group has begun already, or there is no communicator");
    comm->grouped = true;
    return 0;
}

/* Sends as they were asked for, which is the order of their numbers; then receives by number. */
static int by_turn(const void *left, const void *right)
{
    const struct rank_order *a = left, *b = right;
    if (a->sends != b->sends)
        return a->sends ? -1 : 1;
    return a->transfer < b->transfer ? -1 : a->transfer > b->transfer;
}

int flyt_communicator_group_end(flyt_communicator *comm)
{
    int status = 0;
    if (!comm || !comm->grouped)
        return coordinator_explain(-EINVAL, "no group has begun");
    if (comm->group_count)
        qsort(comm->group, comm->group_count, sizeof *comm->group, by_turn);
    for (size_t i = 0; i < comm->group_count; i++) {
        int end = order_now(comm, &comm->group[i]);
        status = status ? status : end;
    }
    comm->group_count = 0;
    comm->grouped = false;
    return status;
}
