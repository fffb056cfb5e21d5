/*
 * session.c: how the one connection of a process begins: where it goes, and the handshake; and its end.
 *
 * Nothing is torn down at exit (the program's last destructors may still call in); the server sees the
 * connection end. Only local: is closed, because its threads run the driver inside this process.
 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/env.h"
#include "cpu/common/log.h"
#include "cpu/common/version.h"
#include "cpu/rpc/transport/liveness.h"
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/session/attach_wait.h"
#include "cpu/client/core/session/attach.h"
#include "cpu/client/core/session/capability.h"
#include "cpu/client/core/session/attach_window.h"
#include "cpu/client/core/code/code.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/wire/device.h"
#include "cpu/client/core/memory/host.h"
#include "helper.h"
#include "cpu/client/core/session/kinds.h"
#include "cpu/client/core/session/reach.h"
#include "cpu/client/core/copy/lanes.h"
#include "cpu/client/core/stream/managed.h"
#include "cpu/client/core/stream/mirror.h"
#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/moves/recover.h"
#include "cpu/client/core/start/several.h"
#include "cpu/client/core/stream/move.h"
#include "cpu/client/core/wire/journal.h"
#include "cpu/client/core/wire/perf.h"
#include "cpu/client/core/wire/stats.h"

enum { VERSION_MISMATCH = 803, WINDOW_OFFERS = 64, OWN_WINDOW_AFTER = 7 };

static const char *const default_uri = "unix:///run/flyt/server.sock";

/* ---- fork ---- */

static void fork_prepare(void)
{
    code_lock_for_fork();
}

static void fork_parent(void)
{
    code_unlock_after_fork();
}

static void fork_child(void)
{
    code_unlock_after_fork();
    if (!session_becomes_child())
        return;
    for (struct client_session *session = &core_session; session; session = session->next)
        if (session->client)
            rpc_client_abandon(session->client);
    lanes_abandon();
    manager_abandon();
    managed_becomes_child();
}

/* Before any thread can attach: the program may fork at any moment of that. */
__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* ---- attach ---- */

/* A server ends a connection whose client has not said HELLO for some seconds (docs/liveness.md). The client may have
   been stopped meanwhile. And the worker that was to serve it may have been killed just then. Nothing has been lost, so
   it begins anew. */
enum { ATTACH_AGAIN = -1, ATTACH_ATTEMPTS = 3, ATTACH_AGAIN_MS = 50 };
/* A server that the client manager named may be ending: a fault of a neighbour took its GPU, say. The client manager is
   asked for another one. */
enum { ATTACH_ELSEWHERE = -2, ATTACH_SERVERS = 5, ATTACH_ELSEWHERE_MS = 300 };
/* A server whose machine does not answer is tried for as long as a lost link may take to come back, at least for
   ATTACH_REACH times REACH_CONNECT_MS; FLYT_WAIT says otherwise. Between two tries the client manager is asked
   whether there is a place elsewhere. */
enum { ATTACH_UNREACHED = -3, ATTACH_REACH = 3, ATTACH_REACH_MS = 200 };
static struct {
    uint64_t begun, unreached; /* unreached: since when no server was reached; 0: one was, or none was tried */
    unsigned count, servers;
    bool to_use;
    char why[RPC_ERROR_SIZE]; /* it was not reached */
} attempt;

static bool attach_cut_short(void)
{
    if (attempt.count >= ATTACH_ATTEMPTS || attach_wait_over())
        return false;
    log_info("the server %s ended the connection before this program had identified itself; trying again",
             core_session.uri);
    nanosleep(&(struct timespec){ .tv_nsec = ATTACH_AGAIN_MS * CLOCK_NS_PER_MS }, NULL);
    return true;
}

/* After a try to connect to a machine that may not have answered: whether there is to be another try. */
static bool attach_unreached(int status, const char *error)
{
    if (status != -ETIMEDOUT && status != -EHOSTUNREACH && status != -ENETUNREACH && status != -ENETDOWN)
        return false;
    uint64_t now = clock_now(), most = (uint64_t)(ATTACH_REACH * REACH_CONNECT_MS) * CLOCK_NS_PER_MS;
    attempt.unreached = attempt.unreached ? attempt.unreached : attempt.begun;
    bool in_line = attach_wait_wish() == ATTACH_WAIT_YES && core_session.managed;
    if (attach_wait_wish() == ATTACH_WAIT_NO ||
        (attach_wait_left() ? attach_wait_over() : !in_line && now - attempt.unreached >= most))
        return false;
    log_info("%s; trying again", error);
    snprintf(attempt.why, sizeof attempt.why, "%s", error);
    if (now - attempt.begun < ATTACH_REACH_MS * CLOCK_NS_PER_MS) /* the kernel knew at once */
        nanosleep(&(struct timespec){ .tv_nsec = ATTACH_REACH_MS * CLOCK_NS_PER_MS }, NULL);
    return true;
}

static bool attach_elsewhere(void)
{
    if (!core_session.managed || ++attempt.servers >= ATTACH_SERVERS || attach_wait_over())
        return false;
    log_info("the GPU server at %s has ended before it answered; asking for another one", core_session.uri);
    return true;
}

/* place: where the client manager sent us; empty: the user gave the address. more: there are further addresses of this
   server. */
static int attach_connect(const char *uri, const struct manager_place *place, bool more, rpc_channel **channel)
{
    bool managed = place->count > 0;
    char error[RPC_ERROR_SIZE] = "";
    if (reach_is(uri, "local:")) {
        if (local_open(uri[6] ? uri + 6 : NULL, channel, error) == 0)
            return CORE_OK;
        log_error("FLYT_SERVER=%s: cannot run the server in this process: %s", uri, error);
        return CORE_SYSTEM_NOT_READY;
    }
    if (!reach_is(uri, "tcp://") && !reach_is(uri, "tls://") && !reach_is(uri, "unix://") &&
        !reach_is(uri, "shm://")) {
        log_error("FLYT_SERVER=%s is not the address of a GPU server; write tls://HOST:PORT, tcp://HOST:PORT, "
                  "unix:///PATH, shm:///PATH "
                  "or local:",
                  uri);
        return CORE_SYSTEM_NOT_READY;
    }
    attach_wait_stage("the GPU server at %.*s, to which there is no connection yet. Does it run, and does a firewall "
                      "let the program through?",
                      (int)strcspn(uri, "?"), uri);
    int status = rpc_channel_connect_within(uri, attach_wait_ms(REACH_CONNECT_MS),
                                            attach_wait_ms(REACH_CONNECT_MS + RPC_HANDSHAKE_MS), place->ticket,
                                            place->ticket_size, channel, error);
    if (status == 0 && (status = reach_memory(uri, NULL, channel, error)) == 0)
        return CORE_OK;
    if (status == -EKEYREJECTED || status == -EKEYEXPIRED || status == -EINVAL || status == -ELIBACC) {
        log_error("the GPU server is not used: %s", error);         /* TLS: somebody is there, or nothing was tried */
        return CORE_SYSTEM_NOT_READY;
    }
    if (more && reach_is(uri, "unix://")) {      /* of another machine, or of another user */
        reach_because("%s cannot be used from here (%s)", uri, error);
        log_info("%s cannot be used from here (%s); trying the server's next address", uri, error);
        return CORE_SYSTEM_NOT_READY;
    }
    if ((status == -ECONNRESET || status == -EPIPE) && attach_cut_short())
        return ATTACH_AGAIN;
    bool ended = status == -ECONNRESET || status == -EPIPE || status == -ECONNREFUSED || status == -ENOENT;
    if (ended && !more && attach_elsewhere())
        return ATTACH_ELSEWHERE;
    if (!more && attach_unreached(status, error))
        return managed ? ATTACH_UNREACHED : ATTACH_AGAIN;
    if (attach_wait_blame())
        return CORE_SYSTEM_NOT_READY;
    log_error("no GPU server answers at %s: %s. %s", uri, error,
              managed
                  ? "The cluster says that it is there: is a firewall between? `flytctl server list` shows what runs"
                  : "Start cricket-rpc-server there, or set FLYT_SERVER to where one listens");
    return CORE_SYSTEM_NOT_READY;
}

/* What the program is going to ask for next, if that is known: device 0's primary context. It is the server's device 0,
   too, unless the program's environment chooses among the devices. */
static flyt_wish wish_for(bool to_use)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (!to_use || session_several() || (visible && *visible != '0') ||
        journal_wished())             /* the journal has whole contexts only */
        return (flyt_wish){ 0 };
    return (flyt_wish){ .context = 1, .credit = memory_first_wanted() };
}

static int attach_hello(const struct manager_place *place)
{
    hello_result *hello = &core_session.hello;
    attach_wait_stage("the GPU server at %.*s, which does not answer. Is it stopped or overloaded?",
                   (int)strcspn(core_session.uri, "?"), core_session.uri);
    int code = reach_hello(&core_session, core_session.client, place->ticket, place->ticket_size,
                           wish_for(attempt.to_use), capability_ask(), hello);
    /* A server that refuses may close at once: what counts is whether its answer came. */
    if (!hello->major && rpc_client_lost(core_session.client) && !rpc_client_silent(core_session.client)) {
        if (attach_cut_short())
            return ATTACH_AGAIN;
        if (attach_elsewhere())
            return ATTACH_ELSEWHERE;
    }
    if (!hello->major) {
        if (!attach_wait_blame())
            log_error("what listens at %s does not answer as a GPU server: %s. %s", core_session.uri,
                      *core_session.loss.reason ? session_loss_reason(&core_session) : "its reply makes no sense",
                      place->count ? "`flytctl server list` shows what runs"
                                   : "Check that FLYT_SERVER names a cricket-rpc-server");
        return CORE_SYSTEM_NOT_READY;
    }
    if (hello->major != FLYT_PROTOCOL_MAJOR) {
        log_error("the GPU server %s (%s) speaks protocol %u.%u, this program's Flyt %s speaks %d.%d; install the same "
                  "version on "
                  "both sides",
                  core_session.uri, hello->server ? hello->server : "", hello->major, hello->minor, flyt_version,
                  FLYT_PROTOCOL_MAJOR, FLYT_PROTOCOL_MINOR);
        return VERSION_MISMATCH;
    }
    if (code) {
        log_error("the GPU server %s refuses this program: %s (%d)", core_session.uri,
                  hello->refusal && *hello->refusal ? hello->refusal : "it gives no reason", code);
        return code;
    }
    log_info("Flyt %s is connected to %s (%s)", flyt_version, core_session.uri, hello->server ? hello->server : "");
    core_session.hello_at = clock_now();
    core_session.in_process = hello->in_process;
    core_session.driver_version = hello->driver_version;
    core_session.window_size = hello->window_size;
    core_session.granularity = hello->granularity;
    lanes_setup();
    return CORE_OK;
}

/* The host window, whose addresses are reserved here (in process: by the server). Without it copies are slower, or,
   over a network, kernels reach no pinned memory. */
static void attach_host(uint64_t at, uint64_t size)
{
    struct rpc_shared_memory shared = { .fd = -1 };
    if (!size || core_perf.no_payload)
        return;
    if (session_several()) {
        several_host(at, size);
        return;
    }
    if (core_session.hello.capabilities & FLYT_CAP_MIRROR) {
        host_space_open_mirrored(at, size);
        mirror_open(at, size);
        return;
    }
    if (!core_session.in_process &&
        (!rpc_client_shared_memory(core_session.client, &shared) || shared.payload_size < size))
        return;
    host_space_open(at, size, shared.fd, shared.payload);
}

/* Another window is needed, and memory is mapped in this one; or it is the context of another device. */
static void grant_refuse(void)
{
    context_args args = { .context = 0 };
    if (core_session.hello.granted.context)
        wire_plain(&core_session, FLYT_CONTEXT_RELEASE, (xdrproc_t)xdr_context_args, &args);
    core_session.hello.granted = (flyt_wish){ 0 };
}

/* The window that this side chooses: its address, or 0. *host: as in attach_window. */
static uint64_t attach_own(uint64_t refused, uint64_t *host)
{
    uint64_t size = 0, host_size = 0, at = attach_window_own(refused, &size, &host_size);
    if (!at)
        return 0;
    core_session.window_size = size;
    *host = reach_host_size(at, host_size);
    if (*host && attach_window_reserve(at + size, *host))
        *host = 0;
    return at;
}

/* Reserves the same numbers here that the server reserved there; asks for other ones while they are taken. */
static int attach_window(void)
{
    uint64_t offer = core_session.hello.window, size = core_session.window_size,
             host = reach_host_size(offer, core_session.hello.host_size);
    for (int i = 0; i < WINDOW_OFFERS && offer; i++) {
        if (core_session.in_process)
            break;
        int error = attach_window_reserve(offer, size + host);
        /* Something lies behind the window. Behind another one there may be nothing; if not, it is done without. */
        bool without = error != EEXIST || i > OWN_WINDOW_AFTER;
        if (error && host && without && (error = attach_window_reserve(offer, size)) == 0)
            host = 0;
        if (!error)
            break;
        bool limited = error == ENOMEM || error == EAGAIN;
        grant_refuse();
        uint64_t own = limited || i == OWN_WINDOW_AFTER ? attach_own(offer, &host) : 0;
        if (own) {
            offer = own;
            size = core_session.window_size;
            break;
        }
        if (limited) {
            log_error("cannot reserve %llu GiB of addresses for GPU memory, or at least 4: %s",
                      (unsigned long long)(size >> 30),
                      error == ENOMEM
                          ? "the limit on this program's addresses is lower. Raise it (`ulimit -v unlimited`)"
                          : "this program locks its memory (mlockall), and the system counts reserved addresses as "
                            "locked. Raise "
                            "that limit (`ulimit -l unlimited`)");
            return CORE_OUT_OF_MEMORY;
        }
        window_args args = { .refused = offer };
        window_result result = { 0 };
        int code = wire_call(&core_session, FLYT_WINDOW, (xdrproc_t)xdr_window_args, &args,
                             (xdrproc_t)xdr_window_result, &result);
        offer = code ? 0 : result.window;
        host = reach_host_size(offer, result.host_size);
        xdr_free((xdrproc_t)xdr_window_result, &result);
        if (code == CORE_OUT_OF_MEMORY) {     /* the server knows no other place for one of that size */
            offer = attach_own(args.refused, &host);
            size = core_session.window_size;
            break;
        }
    }
    core_session.window = offer;
    if (!offer) {
        log_error("this process and the GPU server %s found no range of %llu GiB that is free on both sides",
                  core_session.uri, (unsigned long long)(size >> 30));
        return CORE_OUT_OF_MEMORY;
    }
    attach_host(offer + size, host);
    return window_open(offer, size, core_session.granularity) ? CORE_OUT_OF_MEMORY : CORE_OK;
}

static int attach_check(void)
{
    const hello_result *h = &core_session.hello;
    bool granular = h->granularity >= 4096 && (h->granularity & (h->granularity - 1)) == 0;
    if (granular && h->window && h->window % h->granularity == 0 && h->window_size % h->granularity == 0 &&
        h->window_size && h->window + h->window_size > h->window)
        return CORE_OK;
    log_error("the GPU server %s offers addresses that cannot be used (window 0x%llx, %llu bytes, granularity %llu)",
              core_session.uri, (unsigned long long)h->window, (unsigned long long)h->window_size,
              (unsigned long long)h->granularity);
    return CORE_SYSTEM_NOT_READY;
}

static int objects_open(void)
{
    int code = CORE_OK;
    progress_open();
    for (int kind = 0; kind < KINDS && !code; kind++)
        code = client_kinds[kind].begin ? client_kinds[kind].begin() : CORE_OK;
    return code;
}

static int helpers_start(void)
{
    int code = CORE_OK;
    for (struct client_session *session = &core_session; session && !code; session = session->next)
        code = helper_start(session);
    return code;
}

static void sessions_shutdown(void)
{
    for (struct client_session *session = &core_session; session; session = session->next)
        if (session->client)
            rpc_client_shutdown(session->client);
}

/* place: where the client manager sends us, its addresses tried in turn; or empty, and core_session.uri is given. */
static int attach_once(const struct manager_place *place)
{
    rpc_channel *channel = NULL;
    char error[RPC_ERROR_SIZE] = "";
    unsigned at = 0;
    int code;
    do {
        if (at < place->count) {
            free(core_session.uri);
            core_session.uri = strdup(place->uris[at]);
        }
        code = core_session.uri ? attach_connect(core_session.uri, place, at + 1 < place->count, &channel)
                                : CORE_OUT_OF_MEMORY;
    } while (code && ++at < place->count && !attach_wait_over());
    if (code)
        return code;
    /* A server in this process cannot die without us, and shares its processors with the kernels: it is not judged by
       the clock. */
    int silence = reach_is(core_session.uri, "local:") ? 0
                  : session_dead_seconds                  ? session_dead_seconds
                                                          : rpc_silence_seconds();
    if (rpc_client_create(channel, &rpc_flyt_program, silence, session_lost, &core_session, &core_session.client,
                          error) < 0) {
        log_error("cannot use the connection to %s: %s", core_session.uri, error);
        return CORE_SYSTEM_NOT_READY;
    }
    attach_wait_watch(core_session.client);
    if (core_perf.no_batch)
        rpc_client_set_batching(core_session.client, false);
    if (core_perf.no_spin)
        rpc_client_set_spinning(core_session.client, false);
    if ((code = attach_hello(place)) || (code = attach_check()) || (code = attach_window()) ||
        (code = several_attach(place->count ? place : NULL)) || (recover_watch(), code = device_snapshot()) ||
        (code = objects_open()) || (code = helpers_start()))
        sessions_shutdown();   /* kept: nobody frees what a late caller may look at */
    else if (!device_count() || client_device_find(0)->wire)
        grant_refuse();
    else if (core_session.hello.granted.context)
        context_granted(core_session.hello.granted.credit);
    return code;
}

static void attach_discard(void)
{
    rpc_client *old = core_session.client;          /* NULL, or no other thread knows it yet */
    attach_wait_watch(NULL);
    core_session.client = NULL;
    rpc_client_destroy(old);
    session_loss_forget();
}

static int attach_session(const struct manager_place *place)
{
    for (attempt.count = 1;; attempt.count++) {
        attempt.begun = clock_now();
        int code = attach_once(place);
        if (code == ATTACH_AGAIN || code == ATTACH_ELSEWHERE || code == ATTACH_UNREACHED)
            attach_discard();
        if (code != ATTACH_AGAIN)
            return code;
    }
}

/* When it is known what was wished, and how many servers there are. */
static void refuse_several(void)
{
    if (session_several())
        recover_refuse("it has several GPU servers, and recovery is for programs with one");
}

static int attach_managed(struct manager_place *place)
{
    int code = manager_ask(place);
    if (!code)
        code = several_expect(place->parts);
    if (!code && !env_get("FLYT_RECOVERY"))
        recover_ask();
    refuse_several();
    if (!code)
        recover_bound();
    for (;;) {
        if (!code)
            code = attach_session(place);
        if (code == ATTACH_UNREACHED) {
            code = manager_ask_other(place, attempt.why);
        } else if (code == ATTACH_ELSEWHERE) {
            manager_place_free(place);
            nanosleep(&(struct timespec){ .tv_nsec = ATTACH_ELSEWHERE_MS * CLOCK_NS_PER_MS }, NULL);
            code = manager_ask(place);
        } else {
            return code;
        }
    }
}

int session_attach(bool to_use)
{
    const char *uri = env_get("FLYT_SERVER");
    bool managed = !(uri && *uri) && manager_wanted(default_uri);
    struct manager_place place = { 0 };
    log_set_name("flyt");
    int split = managed ? CORE_OK : several_split(uri && *uri ? uri : default_uri);
    if (split)
        return split;
    log_enabled(LOG_LEVEL_WARNING);           /* reads FLYT_LOG, and says so if that has no sensible value */
    if (!rpc_silence_valid())
        log_warning("FLYT_SILENCE is not a number of seconds from 1 to %d; it is ignored", RPC_SILENCE_MOST);
    perf_parse(&core_perf, env_get("FLYT_PERF"));
    stats_open(env_get("FLYT_STATS"));
    if (!managed || env_get("FLYT_RECOVERY"))
        recover_setup(env_get("FLYT_RECOVERY"));
    refuse_several();
    core_session.managed = managed;
    attempt.to_use = to_use;
    attach_wait_begin();
    int code = managed ? attach_managed(&place) : attach_session(&place);
    if (!code && managed)
        session_tell_transport();
    if (!code)
        capability_log();
    attach_wait_end(code);
    manager_place_free(&place);
    return code;
}

/* ---- its loss ---- */

/* A server that ends is the cluster's news at once. Of one that is silent, or goes on, the cluster seldom knows more,
   and a program whose server is silent has waited long enough. */
void session_explain_loss(const struct client_session *session)
{
    enum { MOST_MS = 3000, SOON_MS = 800 };
    const uint64_t now = clock_now(), soon = now + SOON_MS * CLOCK_NS_PER_MS;
    if (core_session.managed)
        manager_tell_why(session, soon, rpc_client_silent(session->client) ? soon : now + MOST_MS * CLOCK_NS_PER_MS);
}

/* ---- the end of the process ---- */

/* A destructor of the library, hence after the program's own atexit handlers and static destructors. */
__attribute__((destructor)) static void session_end(void)
{
    if (core_forked())
        return;
    if (session_ready())
        stats_report();
    if (core_session.in_process && session_ready()) {
        session_closes(CORE_DEINITIALIZED);
        rpc_client_shutdown(core_session.client);
        local_close();
    }
}
