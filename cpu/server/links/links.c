/*
 * links.c: the links of a session come and go.
 *
 * The engine of cpu/comm opens no sockets here, for a worker may not. Connections to this worker come as lanes do: the
 * listener reads whose they are and hands them over, and links_accept gives them to the engine, which wants a proof of
 * a key before anything else. Where this end is the one that connects, JOIN asks for connected sockets
 * (links_ways.dial): to an address that the client names, and that the administrator has allowed. A handle says of its
 * worker only the number of its session, which the listener of the other server understands.
 *
 * Threads: LISTEN, MEMORY and STATUS are served in order. JOIN waits in a thread of its own, without session.lock. A
 * link that the client has closed goes in a thread of its own, when its transfers are over: that may take two seconds.
 * Locks: session.lock, then links.lock, a leaf. The threads of the engine take no lock of the session's but leaves.
 */
#include "cpu/server/links/links_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/env.h"
#include "cpu/common/little_endian.h"
#include "cpu/common/lock.h"
#include "cpu/common/log.h"
#include "cpu/rpc/call/lane.h"

_Static_assert((int)FLYT_LINK_HANDLE_SIZE == (int)COMM_HANDLE_SIZE, "a handle goes to the client as it is");
_Static_assert((int)FLYT_MAX_LINK_HANDLES == (int)COMM_HANDLES_MOST, "as many handles as a link may have");
enum { JOIN_MOST_MS = 600000, LEAVE_MS = 2500 };

bool links_offered(const struct session *session)
{
    return session->links && session->gpu->StreamWaitValue32 && strcmp(session->gpu->kind, "null") != 0;
}

bool links_reach_memory(const struct session *session) { return links_offered(session) && !session->links->staged; }

struct links *links_create(struct session *session, const struct links_ways *ways, bool tls)
{
    struct links *links = calloc(1, sizeof *links);
    if (!links)
        return NULL;
    links->session = session;
    links->ways = ways;
    links->tls = tls;
    const char *perf = env_get("FLYT_PERF");
    links->staged = !session->gpu->host_view || (perf && strstr(perf, "no_host_view"));
    pthread_mutex_init(&links->lock, NULL);
    pthread_cond_init(&links->changed, NULL);
    return links;
}

void links_destroy(struct session *session)
{
    struct links *links = session->links;
    session->links = NULL;
    if (!links || links->engine)
        return; /* threads of the engine run to the end of the process */
    pthread_mutex_destroy(&links->lock);
    pthread_cond_destroy(&links->changed);
    free(links);
}

uint64_t links_count(const struct session *session)
{
    return session->ids[KIND_LINK] ? id_map_count(session->ids[KIND_LINK]) : 0;
}

struct server_link *link_find(struct session *session, uint32_t id) { return id_map_find(session->ids[KIND_LINK], id); }

CUresult links_result(int status)
{
    switch (-status) {
    case 0: return CUDA_SUCCESS;
    case EINVAL:
    case EFAULT:
    case EEXIST:
    case ENOENT:
    case EMSGSIZE: return CUDA_ERROR_INVALID_VALUE;
    case ENOMEM: return CUDA_ERROR_OUT_OF_MEMORY;
    case EPERM:
    case EACCES: return CUDA_ERROR_NOT_PERMITTED;
    default: return CUDA_ERROR_DEVICE_UNAVAILABLE;
    }
}

/* ---- connections ---- */

bool links_accept(struct session *session, int fd)
{
    struct links *links = session->links;
    uint8_t hello[RPC_LANE_HEAD];
    uint64_t number;
    uint32_t lane;
    if (!links || recv(fd, hello, sizeof hello, MSG_PEEK | MSG_DONTWAIT) != sizeof hello ||
        !rpc_lane_get_hello(hello, &number, &lane) || number != session->id || lane != FLYT_LINK_LANE)
        return false;
    struct comm_engine *engine = atomic_load(&links->engine);
    bool read = recv(fd, hello, sizeof hello, MSG_DONTWAIT) == sizeof hello;
    int status = engine && read ? links->ways->adopt(engine, fd) : -ENOTCONN;
    if (!engine || !read)
        close(fd);
    if (status < 0)
        log_info("event=link-refused session=%llu why=\"%s\"", (unsigned long long)session->id,
                 status == -ENOTCONN ? "none is expected now" : strerror(-status));
    return true;
}

static struct link_joining *joining_of_this_thread(struct links *links)
{
    pthread_mutex_lock(&links->lock);
    struct link_joining *found = NULL;
    for (struct list *one = list_first(&links->joining); one && !found; one = list_next(&links->joining, one)) {
        struct link_joining *joining = LIST_OBJECT(one, struct link_joining, of_all);
        found = joining->runs && pthread_equal(joining->thread, pthread_self()) ? joining : NULL;
    }
    pthread_mutex_unlock(&links->lock);
    return found;
}

/* cpu/comm calls it in the thread that joins. */
static int connect_for(void *context, const struct comm_address *to, const struct comm_address *from, uint64_t deadline,
                       char *error)
{
    struct links *links = context;
    struct link_joining *joining = joining_of_this_thread(links);
    uint8_t hello[RPC_LANE_HEAD];
    const uint8_t *number = to->bytes;
    (void)from;
    if (!joining || to->family != 2)
        return rpc_explain(error, -EINVAL, "the other end's handles are not those of a GPU server");
    if (!joining->count) {
        int got = links->ways->dial(joining->server, joining->wanted, deadline, joining->fds, error);
        if (got < 0)
            return got;
        joining->count = (unsigned)got;
    }
    if (joining->used == joining->count)
        return rpc_explain(error, -ENOTCONN, "%s gave too few connections", joining->server);
    int fd = joining->fds[joining->used++];
    rpc_lane_put_hello(hello, little_get(&number, 8), FLYT_LINK_LANE);
    if (send(fd, hello, sizeof hello, MSG_NOSIGNAL) == (ssize_t)sizeof hello)
        return fd;
    close(fd);
    return rpc_explain(error, -ECONNRESET, "%s: the connection has ended", joining->server);
}

/* ---- the life of a link ---- */

/* The first reason stays. Under links.lock. */
static void note_end(struct server_link *link, const char *why)
{
    link->ended = true;
    if (!*link->why)
        snprintf(link->why, sizeof link->why, "%s", why);
}

/* In a thread of the engine, with no lock held. */
static void link_lost(struct comm_link *comm, void *context, int status, const char *why)
{
    struct server_link *link = context;
    struct links *links = link->session->links;
    (void)comm;
    pthread_mutex_lock(&links->lock);
    note_end(link, why);
    pthread_mutex_unlock(&links->lock);
    log_info("event=link-lost session=%llu link=%u status=%d why=\"%s\"", (unsigned long long)link->session->id,
             link->id, -status, why);
    link_tell(link, status, why);
}

static int engine_make(struct links *links, char *error)
{
    struct comm_settings settings = { .tls = links->tls,
                                      .no_shared_memory = true,
                                      .registered_only = true,
                                      .relayed = true,
                                      .connector = { connect_for, links } };
    struct comm_engine *engine;
    if (links->engine)
        return 0;
    little_put(settings.relay, links->session->id, 8);
    int status = links->ways->engine(&settings, &engine, error);
    if (status == 0)
        atomic_store(&links->engine, engine);
    return status;
}

static int link_make(struct session *session, uint32_t id, struct server_link **out, char *error)
{
    struct links *links = session->links;
    int status = engine_make(links, error);
    if (status < 0)
        return status;
    struct server_link *link = calloc(1, sizeof *link);
    if (!link)
        return rpc_explain(error, -ENOMEM, "a link: no memory");
    *link = (struct server_link){ .session = session, .id = id };
    struct comm_link_settings settings = { .lost = link_lost, .context = link };
    status = links->ways->create(links->engine, &settings, &link->link, error);
    if (status == 0 && id_map_set(session->ids[KIND_LINK], id, link) != 0) {
        links->ways->close(link->link);
        status = rpc_explain(error, -EINVAL, "link %u: ids are below %d", id, FLYT_MAX_LINKS);
    }
    if (status < 0)
        free(link);
    else
        *out = link;
    return status;
}

static void *close_main(void *context)
{
    struct server_link *link = context;
    struct links *links = link->session->links;
    links->ways->close(link->link);
    free(link);
    pthread_mutex_lock(&links->lock);
    links->leaving--;
    pthread_cond_broadcast(&links->changed);
    pthread_mutex_unlock(&links->lock);
    return NULL;
}

static void link_close(struct server_link *link)
{
    pthread_t thread;
    pthread_mutex_lock(&link->session->links->lock);
    link->session->links->leaving++;
    pthread_mutex_unlock(&link->session->links->lock);
    if (pthread_create(&thread, NULL, close_main, link) == 0)
        pthread_detach(thread);
    else
        close_main(link);
}

void link_idle(struct server_link *link)
{
    FLYT_ASSERT_HELD(&link->session->lock);
    if (--link->busy == 0 && link->closing)
        link_close(link);
}

void link_abort(struct server_link *link, int status, const char *why)
{
    struct links *links = link->session->links;
    pthread_mutex_lock(&links->lock);
    note_end(link, why);
    pthread_mutex_unlock(&links->lock);
    links->ways->abort(link->link, status, why);
}

void links_leave(struct session *session)
{
    struct links *links = session->links;
    struct timespec until = clock_timespec(clock_now() + LEAVE_MS * CLOCK_NS_PER_MS);
    int waited = 0;
    if (!links)
        return;
    pthread_mutex_lock(&links->lock);
    while (links->leaving > 0 && waited == 0)
        waited = pthread_cond_clockwait(&links->changed, &links->lock, CLOCK_MONOTONIC, &until);
    pthread_mutex_unlock(&links->lock);
}

void links_stop(struct session *session) { links_release_all(session, NULL); }

/* ---- the calls ---- */

void serve_link_listen(struct session *session, struct call *call)
{
    uint8_t handles[COMM_HANDLES_MOST][COMM_HANDLE_SIZE];
    char error[RPC_ERROR_SIZE] = "";
    unsigned count = 0;
    int status = links_offered(session) ? 0 : rpc_explain(error, -ENOTSUP, "this server has no links");
    struct server_link *link = status == 0 ? link_find(session, call->args.link_listen.link) : NULL;
    if (status == 0 && !link)
        status = link_make(session, call->args.link_listen.link, &link, error);
    if (status == 0)
        status = session->links->ways->listen(link->link, handles[0], &count, error);
    error[FLYT_MAX_SHORT - 1] = '\0';
    link_listen_result result = { .why = error, .handles = { count, (flyt_link_handle *)handles } };
    session_reply(session, call->xid, (xdrproc_t)xdr_link_listen_result, &result,
                  status == -ENOTSUP ? CUDA_ERROR_NOT_SUPPORTED : links_result(status), false);
    explicit_bzero(handles, sizeof handles);
}

static void join_answer(struct session *session, struct call *call, const struct server_link *link, int status,
                        char *why)
{
    const struct links_ways *ways = status == 0 ? session->links->ways : NULL;
    link_join_result result = { .why = why, .transport = (char *)(uintptr_t) "" };
    why[FLYT_MAX_SHORT - 1] = '\0';
    if (ways) {
        result.transport = (char *)(uintptr_t)ways->transport(link->link);
        result.channels = ways->channels(link->link);
    }
    session_reply(session, call->xid, (xdrproc_t)xdr_link_join_result, &result, links_result(status), false);
    flyt_link_handle *keys = call->args.link_join.handles.handles_val;
    if (keys)
        explicit_bzero(keys, call->args.link_join.handles.handles_len * sizeof *keys);
}

/* The one of that call. It stays in the list until its thread takes it out. */
static struct link_joining *joining_find(struct links *links, uint32_t xid)
{
    FLYT_ASSERT_HELD(&links->lock);
    for (struct list *one = list_first(&links->joining); one; one = list_next(&links->joining, one)) {
        struct link_joining *joining = LIST_OBJECT(one, struct link_joining, of_all);
        if (joining->xid == xid)
            return joining;
    }
    return NULL;
}

/* In a thread of its own, without session.lock; the link is busy meanwhile. */
static void join_blocking(struct session *session, struct call *call)
{
    struct links *links = session->links;
    const link_join_args *args = &call->args.link_join;
    char error[RPC_ERROR_SIZE] = "";
    pthread_mutex_lock(&links->lock);
    struct link_joining *joining = joining_find(links, call->xid);
    joining->thread = pthread_self();
    joining->runs = true;
    pthread_mutex_unlock(&links->lock);
    joining->server = args->server;
    joining->wanted = args->handles.handles_len;
    struct server_link *link = joining->link;
    int status = links->ways->join(link->link, (const uint8_t *)args->handles.handles_val, args->handles.handles_len,
                                   clock_now() + args->milliseconds * CLOCK_NS_PER_MS, error);
    pthread_mutex_lock(&links->lock);
    list_remove(&joining->of_all);
    pthread_mutex_unlock(&links->lock);
    while (joining->used < joining->count)
        close(joining->fds[joining->used++]);
    free(joining);
    log_info("event=link-joined session=%llu link=%u server=%s status=%d why=\"%s\"", (unsigned long long)session->id,
             link->id, args->server, -status, error);
    pthread_mutex_lock(&session->lock);
    link->tried = status != -EINVAL; /* else nothing has been connected */
    pthread_mutex_unlock(&session->lock);
    join_answer(session, call, link, status, error);
    pthread_mutex_lock(&session->lock);
    link_idle(link);
    pthread_mutex_unlock(&session->lock);
}

/* 0: a thread joins, and answers. */
static int join_begin(struct session *session, struct call *call, struct server_link *link, char *why)
{
    struct links *links = session->links;
    struct link_joining *joining = calloc(1, sizeof *joining);
    if (!joining)
        return rpc_explain(why, -ENOMEM, "joining a link: no memory");
    joining->link = link;
    joining->xid = call->xid;
    pthread_mutex_lock(&links->lock);
    bool known = joining_find(links, call->xid) != NULL;
    if (!known)
        list_append(&links->joining, &joining->of_all);
    pthread_mutex_unlock(&links->lock);
    link->tried = true;
    link->busy++;
    if (!known && call_serve_blocking(session, call, join_blocking))
        return 0;
    pthread_mutex_lock(&links->lock);
    list_remove(&joining->of_all);
    pthread_mutex_unlock(&links->lock);
    free(joining);
    link->tried = false;
    link->busy--;
    return rpc_explain(why, -ENOMEM, "too many calls wait at a time");
}

void serve_link_join(struct session *session, struct call *call)
{
    const link_join_args *args = &call->args.link_join;
    struct server_link *link = session->links ? link_find(session, args->link) : NULL;
    char why[RPC_ERROR_SIZE] = "";
    int status = link ? 0 : rpc_explain(why, -EINVAL, "there is no such link: it has not listened");
    if (status == 0 && link->tried)
        status = rpc_explain(why, -EINVAL, "a link is joined once: close this one, and listen again");
    if (status == 0 && args->milliseconds > JOIN_MOST_MS)
        status = rpc_explain(why, -EINVAL, "joining waits for %d s at most", JOIN_MOST_MS / 1000);
    if (status == 0)
        status = join_begin(session, call, link, why);
    if (status < 0)
        join_answer(session, call, link, status, why);
}

void serve_link_memory(struct session *session, struct call *call)
{
    const link_memory_args *args = &call->args.link_memory;
    struct links *links = session->links;
    CUresult r = links && links->engine ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    if (r == CUDA_SUCCESS &&
        (!args->size || host_memory_here(session, args->address) || !memory_known(session, args->address, args->size)))
        r = CUDA_ERROR_INVALID_VALUE;
    /* Pages that are passed through have been registered by themselves. */
    void *view = r == CUDA_SUCCESS && !links->staged ? session->gpu->host_view(args->address, args->size, false) : NULL;
    if (r == CUDA_SUCCESS && !links->staged && !view)
        r = CUDA_ERROR_INVALID_VALUE;
    if (view)
        r = links_result(args->registered ? links->ways->register_memory(links->engine, view, args->size)
                                          : links->ways->unregister_memory(links->engine, view, args->size));
    session_reply_plain(session, call->xid, r, false);
}

void serve_link_close(struct session *session, struct call *call)
{
    const link_close_args *args = &call->args.link_close;
    struct server_link *link = session->links ? link_find(session, args->link) : NULL;
    if (!link)
        return; /* a client that could not listen closes what may not be there: no error of its next call */
    id_map_remove(session->ids[KIND_LINK], link->id);
    link->closing = true;
    if (*args->why)
        link_abort(link, -ECANCELED, args->why);
    if (!link->busy)
        link_close(link);
}

void serve_link_status(struct session *session, struct call *call)
{
    struct server_link *link = session->links ? link_find(session, call->args.link_status.link) : NULL;
    char why[LINK_WHY_SIZE] = "";
    link_status_result result = { .why = why };
    if (link) {
        int status = session->links->ways->status(link->link);
        result.sent = link->sent;
        pthread_mutex_lock(&session->links->lock);
        result.status = link->ended ? -status : 0;
        snprintf(why, sizeof why, "%s", link->why);
        pthread_mutex_unlock(&session->links->lock);
    }
    session_reply(session, call->xid, (xdrproc_t)xdr_link_status_result, &result,
                  link ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE, false);
}
