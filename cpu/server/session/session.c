/*
 * session.c: one connection from HELLO to its end; its reader thread is whoever calls session_run. See session.h.
 */
#include "cpu/server/memory/bridge.h"
#include "cpu/server/session.h"
#include "cpu/server/call/notify.h"
#include "cpu/server/graph/condition.h"
#include "cpu/server/memory/share.h"
#include "cpu/server/stream/host_function.h"
#include "cpu/server/stream/inside.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/log.h"
#include "cpu/common/version.h"
#include "cpu/server/code/code.h"
#include "cpu/server/lanes/lanes.h"
#include "cpu/server/comm/comms.h"
#include "cpu/server/links/links.h"
#include "cpu/server/tenant/figures.h"
#include "cpu/server/tenant/usage.h"

/* After a call that somebody waits for, the reader looks so long for its end itself: a wake-up costs as much. */
#define READER_LINGER_NS 40000
/* READER_BATCH: calls that the reader serves before it gives session.lock up for a moment. READER_HOLDS: calls behind
   which it no longer keeps very short kernels for itself, but lets the software GPU's threads run them. */
enum { SESSION_GREETING_MS = 10000, READER_BATCH = 64, READER_HOLDS = 8 };

static _Atomic uint64_t session_count;

/* A table for each kind that the client names. False: no memory. */
static bool ids_create(struct session *session)
{
    for (int kind = 0; kind < KINDS; kind++)
        if (server_kinds[kind].ids && !(session->ids[kind] = id_map_create(server_kinds[kind].ids)))
            return false;
    return true;
}

/* A session, and what its pointers of the same names lead to. */
struct whole {
    struct session        session;
    struct shares         shares;
    struct events         events;
    struct host_functions host_functions;
    struct conditions     conditions;
    struct insides        insides;
};

static struct session *allocate(void)
{
    struct whole *whole = calloc(1, sizeof *whole);
    if (!whole)
        return NULL;
    whole->session.shares = &whole->shares;
    whole->session.events = &whole->events;
    whole->session.host_functions = &whole->host_functions;
    whole->session.conditions = &whole->conditions;
    whole->session.insides = &whole->insides;
    return &whole->session;
}

int session_create(rpc_channel *channel, const struct session_options *options, struct session **out, char *error)
{
    struct session *session = allocate();
    error[0] = 0;
    if (!session) {
        rpc_channel_destroy(channel);
        snprintf(error, RPC_ERROR_SIZE, "no memory for a session");
        return -ENOMEM;
    }
    session->gpu = options->gpu;
    session->figures = tenant_figures();
    session->in_process = options->in_process;
    session->host.wanted = options->host_memory;
    session->disposable = options->disposable;
    /* Without a nonce there are no proofs, and so nothing is taken from the cache. */
    if (options->cache && getrandom(session->nonce, sizeof session->nonce, 0) == sizeof session->nonce)
        session->cache = options->cache;
    session->share_ask = options->share_ask;
    session->admit = options->admit;
    session->welcome = options->greeted;
    session->report.text = options->text;
    session->id = ((uint64_t)getpid() << 32) | (atomic_fetch_add(&session_count, 1) + 1);
    pthread_mutex_init(&session->lock, NULL);
    pthread_mutex_init(&session->charging, NULL);
    pthread_mutex_init(&session->measuring, NULL);
    pthread_mutex_init(&session->completion.lock, NULL);
    pthread_mutex_init(&session->completion.reporting, NULL);
    pthread_mutex_init(&session->report.lock, NULL);
    pthread_mutex_init(&session->shares->lock, NULL);
    pthread_mutex_init(&session->report.speak, NULL);
    executor_open(session);
    crowd_open(session);
    session_on_end(session, lanes_shutdown);
    session_on_end(session, executor_ended);
    session_on_end(session, mirror_ended);
    bool named = ids_create(session);
    int r = rpc_server_create(channel, &rpc_flyt_program, &session->server, error);
    if (r != 0) {
        session_destroy(session);
        return r;
    }
    if (!named || events_start(session) != 0 || mirror_start(session) != 0 || host_functions_start(session) != 0 ||
        insides_start(session) != 0 || devices_create(session, error) != 0) {
        if (!error[0])
            snprintf(error, RPC_ERROR_SIZE, "no memory for a session");
        session_destroy(session);
        return -ENOMEM;
    }
    session->shareable = share_possible(session);
    session->heard = options->heard;
    if (options->lane_ways)
        session->lanes = lanes_create(session, options->lane_ways);
    if (options->link_ways)
        session->links = links_create(session, options->link_ways, options->link_tls);
    if (options->comm_ways)
        session->comms = comms_create(session, options->comm_ways);
    *out = session;
    return 0;
}

void session_destroy(struct session *session)
{
    static _Atomic(struct session *) abandoned;           /* kept in view, for tools that look for leaks */
    if (!session)
        return;
    if (session->server)
        rpc_server_destroy(session->server);
    session->server = NULL;
    if (session->abandoned) {
        session->next_abandoned = atomic_exchange(&abandoned, session);
        return;
    }
    lanes_destroy(session);
    comms_destroy(session);
    links_destroy(session);
    mirror_stop(session);
    mirror_free(session);
    for (int kind = 0; kind < KINDS; kind++)
        id_map_destroy(session->ids[kind]);
    free(session->devices);
    pthread_mutex_destroy(&session->lock);
    pthread_mutex_destroy(&session->charging);
    pthread_mutex_destroy(&session->measuring);
    pthread_mutex_destroy(&session->completion.lock);
    pthread_mutex_destroy(&session->completion.reporting);
    pthread_mutex_destroy(&session->report.lock);
    pthread_mutex_destroy(&session->shares->lock);
    pthread_mutex_destroy(&session->report.speak);
    free(session);                            /* the first member of its whole */
}

/* ---- HELLO ---- */

static void hello_refuse(struct session *session, struct call *call, CUresult code, const char *refusal)
{
    char server[VERSION_ROOM];
    hello_result result;
    snprintf(server, sizeof server, "Flyt %s", flyt_version);
    memset(&result, 0, sizeof result);
    result.major = FLYT_PROTOCOL_MAJOR;
    result.minor = FLYT_PROTOCOL_MINOR;
    result.server = server;
    result.refusal = (char *)(uintptr_t)refusal;
    log_warning("event=client-refused program=%s why=\"%s\"", session->client, refusal);
    session_reply(session, call->xid, (xdrproc_t)xdr_hello_result, &result, code, false);
    session_end(session, "it was refused");
}

/* What is printed into logs has no control characters. */
static void name_clean(char *name)
{
    for (; *name; name++)
        if ((unsigned char)*name < ' ' || (unsigned char)*name == 127)
            *name = '?';
}

/* Only where bytes go over a network do they stand in each other's way. */
static bool session_has_lanes(struct session *session)
{
    const char *transport = rpc_server_transport(session->server);
    return strcmp(transport, "tcp") == 0 || strcmp(transport, "tls") == 0;
}

/* What the client would ask for next, so that it need not wait twice. */
static void hello_grant(struct session *session, const flyt_wish *wish, hello_result *result)
{
    if (!wish->context || !session->device_count)
        return;
    struct context *context = context_begin_first(session);
    if (!context)
        return; /* the client asks again, and receives the reason */
    result->granted.context = 1;
    result->granted.credit =
        memory_first_credit(session, context, result->devices.devices_val->total_memory, wish->credit);
}

void serve_hello(struct session *session, struct call *call)
{
    const hello_args *args = &call->args.hello;
    const flyt_device *devices = NULL;
    char text[RPC_ERROR_SIZE], server[FLYT_MAX_SHORT];
    int count = 0;
    if (session->greeted) {
        session_end(session, "it sent HELLO twice");
        return;
    }
    const char *program = strrchr(args->executable, '/');
    snprintf(session->client, sizeof session->client, "%.100s:%.100s[%u]", args->host,
             program ? program + 1 : args->executable, args->pid);
    name_clean(session->client);
    if (args->major != FLYT_PROTOCOL_MAJOR) {
        snprintf(text, FLYT_MAX_SHORT,
                 "the server speaks version %d of the protocol, the client version %u: install the same release of "
                 "Flyt on both sides",
                 FLYT_PROTOCOL_MAJOR, args->major);
        hello_refuse(session, call, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, text);
        return;
    }
    if (session->admit && session->admit(args->ticket.ticket_val, args->ticket.ticket_len, text) != 0) {
        hello_refuse(session, call, CUDA_ERROR_NOT_PERMITTED, text);
        return;
    }
    session->host.mirrors = args->capabilities & FLYT_CAP_MIRROR;
    session->host.pulls = args->capabilities & FLYT_CAP_PULL;
    const unsigned compute = (unsigned)(args->capabilities >> FLYT_COMPUTE_SHIFT);
    devices_become(session->gpu, compute & FLYT_COMPUTE_MASK, compute & FLYT_COMPUTE_INSISTS);
    if (devices_snapshot(session->gpu, &devices, &count, text) < 0 ||
        (!session->window.base && memory_window_reserve(session, text) < 0)) {
        text[FLYT_MAX_SHORT - 1] = 0;
        hello_refuse(session, call, CUDA_ERROR_SYSTEM_NOT_READY, text);
        return;
    }
    session->gpu->DriverGetVersion(&session->driver_version);
    snprintf(server, sizeof server, "Flyt %s, %s", flyt_version, session->gpu->kind);
    hello_result result;
    memset(&result, 0, sizeof result);
    result.major = FLYT_PROTOCOL_MAJOR;
    result.minor = FLYT_PROTOCOL_MINOR;
    result.capabilities = session->lanes && session_has_lanes(session) ? FLYT_CAP_LANES : 0;
    result.capabilities |= FLYT_CAP_USAGE | FLYT_CAP_GRAPHS | FLYT_CAP_KEPT_VALUES | FLYT_CAP_MOVES | FLYT_CAP_TEXREFS |
                           FLYT_CAP_PLACES | FLYT_CAP_FINGERPRINTS;
    result.capabilities |= memory_writes_watchable(session) ? FLYT_CAP_WATCH : 0;
    result.capabilities |= bridge_possible(session) ? FLYT_CAP_BRIDGE : 0;
    result.capabilities |= session->lanes ? FLYT_CAP_DIRECT : 0;
    result.capabilities |= links_offered(session) ? FLYT_CAP_LINKS | FLYT_CAP_BOX_LINKS : 0;
    result.capabilities |= links_reach_memory(session) ? FLYT_CAP_LINK_VIEWS : 0;
    result.capabilities |= comms_offered(session) ? FLYT_CAP_COLLECTIVES | FLYT_CAP_KEPT_COLLECTIVES |
                                                        FLYT_CAP_COMM_PENDING | FLYT_CAP_ONE_SIDED
                                                  : 0;
    result.capabilities |= conditions_offered(session) ? FLYT_CAP_CONDITIONS : 0;
    result.capabilities |= device_graphs_offered(session) ? FLYT_CAP_DEVICE_GRAPHS : 0;
    result.capabilities |= devices_have_room(session, devices, count) ? FLYT_CAP_ROOM : 0;
    result.capabilities |= session->shareable ? FLYT_CAP_SHARES | FLYT_CAP_GROUPS : 0;
    result.capabilities |= memory_watched(session) ? FLYT_CAP_EXTENTS : 0;
    result.capabilities |= session->host.size && session->host.mirrored ? FLYT_CAP_MIRROR : 0;
    result.capabilities |= mirror_pulls(session) ? FLYT_CAP_PULL : 0;
    result.capabilities |= session->in_process && strcmp(session->gpu->kind, "software") == 0 ? FLYT_CAP_TOUCH : 0;
    result.server = server;
    result.refusal = (char *)(uintptr_t)"";
    result.session = session->id;
    result.driver_version = session->driver_version;
    result.in_process = session->in_process;
    result.window = session->window.base;
    result.window_size = session->window.size;
    result.granularity = session->window.granularity;
    result.host_size = session->host.size;
    memcpy(result.nonce, session->nonce, sizeof result.nonce);
    result.devices.devices_val = (flyt_device *)(uintptr_t)devices;
    result.devices.devices_len = (u_int)count;
    session->beats = args->capabilities & FLYT_CAP_BEATS;
    usage_begin(session, args);
    session->greeted = true;
    if (session->welcome)
        session->welcome();
    report_share(session);
    log_info("event=session-began session=%llu program=%s transport=%s", (unsigned long long)session->id,
             session->client, rpc_server_transport(session->server));
    hello_grant(session, &args->wish, &result);
    session_reply(session, call->xid, (xdrproc_t)xdr_hello_result, &result, CUDA_SUCCESS, false);
}

/* ---- the reader ---- */

/* May the reader serve the call, as nothing is before it? Nobody but the reader adds to the queue, so it stays idle. */
static bool reader_may(struct session *session, const struct procedure *procedure)
{
    return procedure && procedure->quick && executor_idle(session) && !atomic_load(&session->executor.deferred_calls);
}

/* From here to reader_runs(), the software GPU leaves very short kernels to the reader, which launches them: to wake a
   thread for them would take longer than to run them. */
static void reader_holds(struct session *session)
{
    if (session->gpu->hold)
        session->gpu->hold();
}

/* Without session.lock, if here. */
static void reader_runs(struct session *session, bool here)
{
    if (session->gpu->run)
        session->gpu->run(here);
}

/* Serves the call here and now if nothing is before it, and with it those behind it that have come already and that
   nobody waits for: *next is the first that is none of them, or NULL. 1: not served; 0; or -errno. */
static int reader_serves(struct session *session, const struct procedure *procedure, rpc_request *request,
                         rpc_request **next, char *error)
{
    int r = 0;
    *next = NULL;
    if (!reader_may(session, procedure) || pthread_mutex_trylock(&session->lock) != 0)
        return 1;
    reader_holds(session);
    bool watched = atomic_load(&session->completion.watching);
    for (unsigned count = 1;; count++) {
        executor_serving(session);
        r = call_serve(session, procedure, request);
        executor_served(session);
        if (r != 0 || procedure->answers || count == READER_BATCH)
            break;
        if (count == READER_HOLDS)
            reader_runs(session, false);
        r = rpc_server_take(session->server, next, error);
        if (r != 0 || !*next)
            break;
        const struct procedure *following = procedure_find(rpc_request_procedure(*next));
        if (!reader_may(session, following) || following->answers)
            break;
        procedure = following;
        request = *next;
        *next = NULL;
    }
    pthread_mutex_unlock(&session->lock);
    reader_runs(session, true);
    if (atomic_load(&session->completion.watching)) {
        bool awaited = !*next && procedure->answers;
        uint64_t until = awaited ? clock_now() + READER_LINGER_NS : 0;
        /* Once where a marker is the first for a while: work that is over already need not wake anybody. */
        for (bool look = awaited || !watched; look;) {
            look = completion_poll(session, NULL) && awaited && clock_now() < until;
            if (look)
                /* the device's own threads, where it has any, may want this processor */
                sched_yield();
        }
        completion_wake(session);
    }
    return r;
}

/* *next is one that has come already, if it was looked for. */
static int reader_take(struct session *session, rpc_request *request, rpc_request **next, char *error)
{
    *next = NULL;
    uint32_t number = rpc_request_procedure(request);
    int r = 0;
    if (number == NULLPROC) {
        r = rpc_server_reply(session->server, rpc_request_xid(request), (xdrproc_t)(void (*)(void))xdr_void, NULL);
    } else if (number == FLYT_ABANDON) {
        session_end(session, "the client process ends");
        r = -ECONNRESET;
    } else if (number == FLYT_EVENTS) {
        if (session->greeted) {
            r = events_serve(session, request);
        } else {
            session_end(session, "its first call was not HELLO");
            r = -EPROTO;
        }
    } else {
        const struct procedure *procedure = procedure_find(number);
        if (!procedure) {
            r = rpc_server_reject(session->server, rpc_request_xid(request), PROC_UNAVAIL);
        } else {
            r = reader_serves(session, procedure, request, next, error);
            if (r == 1)
                r = executor_push(session, procedure, request);
        }
    }
    return r;
}

/* Before and after it deals with a call: for the pulse. Only the reader writes here. */
static void reader_turns(struct session *session)
{
    _Atomic uint64_t *turns = &session->pulse.reader;
    atomic_store_explicit(turns, atomic_load_explicit(turns, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* 0: the session's lock was free within a second, and is held now. */
static int lock_within_a_second(struct session *session)
{
#ifdef __SANITIZE_THREAD__                /* gcc 12's ThreadSanitizer does not see pthread_mutex_clocklock */
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    return pthread_mutex_timedlock(&session->lock, &until);
#else
    struct timespec until = clock_timespec(clock_now() + CLOCK_NS_PER_SECOND);
    return pthread_mutex_clocklock(&session->lock, CLOCK_MONOTONIC, &until);
#endif
}

/* Says in the log what the session has at its end, unless a thread stays in the driver with the session's lock. */
static void session_log_objects(struct session *session)
{
    char text[512] = "";
    size_t used = 0;
    if (!log_enabled(LOG_LEVEL_DEBUG) || lock_within_a_second(session) != 0)
        return;
    for (int kind = 0; kind < KINDS && used < sizeof text; kind++) {
        const struct kind_row *row = &server_kinds[kind];
        uint64_t count = row->count ? row->count(session) : session->ids[kind] ? id_map_count(session->ids[kind]) : 0;
        if (count)
            used += (size_t)snprintf(text + used, sizeof text - used, " %s=%llu", row->name, (unsigned long long)count);
    }
    pthread_mutex_unlock(&session->lock);
    log_debug("event=session-objects session=%llu%s", (unsigned long long)session->id, text);
}

/* Gives everything back, in the order in which one thing needs another. */
static void session_close(struct session *session)
{
    pthread_mutex_lock(&session->lock);
    host_functions_release_all(session, NULL);
    conditions_release_all(session, NULL);
    device_graphs_release_all(session, NULL);
    pthread_mutex_unlock(&session->lock);
    executor_stop(session);
    pthread_mutex_lock(&session->lock);
    session->abandoned = !contexts_close(session);
    pthread_mutex_unlock(&session->lock);
    loader_stop(session);
    completion_stop(session);
    pulse_stop(session);
    if (session->abandoned) {
        log_warning("event=session-stays session=%llu why=\"a kernel without end runs until the process ends\"",
                    (unsigned long long)session->id);
        return;
    }
    executor_free(session);
    mirror_stop(session);
    for (int kind = 0; kind < KINDS; kind++)
        if (server_kinds[kind].stop)
            server_kinds[kind].stop(session);
    insides_stop(session);
    events_stop(session);
}

void session_run(struct session *session)
{
    char error[RPC_ERROR_SIZE] = "";
    int r = 0;
    if (executor_start(session) != 0 || completion_start(session) != 0 || loader_start(session) != 0 ||
        pulse_start(session) != 0)
        session_end(session, "threads cannot be started");
    rpc_request *request = NULL;
    while (!atomic_load(&session->ended) && r == 0) {
        if (!request)
            r = rpc_server_next(session->server, atomic_load(&session->greeted) ? -1 : SESSION_GREETING_MS, &request,
                                error);
        if (r == 0 && request) {
            reader_turns(session);
            r = reader_take(session, request, &request, error);
            reader_turns(session);
        } else if (r == 0 && !atomic_load(&session->greeted)) {
            session_end(session, "it did not say HELLO in time");
        }
    }
    session_end(session, r == -ECONNRESET ? "the connection is closed" : error[0] ? error : "protocol error");
    session_log_objects(session);
    lanes_stop(session);                                  /* none of its threads is ever in the driver */
    comms_leave(session);
    links_leave(session);
    if (!session->disposable)
        session_close(session);
}
