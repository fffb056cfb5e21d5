/*
 * several.c: a program with several GPU servers. FLYT_SERVER=URI,URI,... names them, or the client manager does; its
 * devices are those of the first, then those of the second, and so on.
 *
 * The first session is set up as that of any program (session.c). The others take the same window (WINDOW_TAKE), so an
 * address means the same memory wherever it is named, and ids are the process's own in any case. What the servers
 * cannot all do is not done at all. Neither is what lies outside of one server: memory shared with other programs,
 * graphs that a server keeps, moves, recovery. Pinned memory that kernels use is mirrored at each server (mirror.h).
 * docs/limits.md has the list.
 */
#include "several.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/session/attach.h"
#include "cpu/client/core/session/attach_wait.h"
#include "cpu/client/core/session/capability.h"
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/memory/host.h"
#include "cpu/client/core/stream/mirror.h"
#include "cpu/client/core/wire/perf.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/wire.h"
#include "cpu/common/log.h"
#include "cpu/common/version.h"
#include "cpu/rpc/transport/liveness.h"
#include "cpu/client/core/session/reach.h"

/* The capabilities of a server that a program with several servers can use. */
static const uint64_t usable = FLYT_CAP_TEXREFS | FLYT_CAP_PLACES | FLYT_CAP_LINKS | FLYT_CAP_COLLECTIVES |
                               FLYT_CAP_KEPT_COLLECTIVES | FLYT_CAP_COMM_PENDING | FLYT_CAP_ONE_SIDED |
                               FLYT_CAP_MIRROR | FLYT_CAP_PULL | FLYT_CAP_USAGE;

/* One more, behind the last. NULL: no memory. */
static struct client_session *session_new(void)
{
    struct client_session *last = &core_session, *session = calloc(1, sizeof *session);
    while (last->next)
        last = last->next;
    if (!session)
        return NULL;
    pthread_mutex_init(&session->events.lock, NULL);
    session->number = last->number + 1;
    return last->next = session;
}

static const char *const schemes[] = { "tcp://", "tls://", "unix://", "shm://", "local:" };

static bool begins_uri(const char *text)
{
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (reach_is(text, schemes[i]))
            return true;
    return false;
}

/* Where the next one begins, behind a comma; NULL: nowhere. A path may have commas, too. */
static const char *next_uri(const char *text)
{
    const char *comma = text;
    while ((comma = strchr(comma, ',')) && !begins_uri(comma + 1))
        comma++;
    return comma ? comma + 1 : NULL;
}

int several_split(const char *uris)
{
    struct client_session *session = &core_session;
    for (const char *at = uris, *next; at; at = next) {
        next = next_uri(at);
        if (at != uris && session->number + 1 == SESSIONS_MOST) {
            log_error("FLYT_SERVER names more than %d GPU servers", SESSIONS_MOST);
            return CORE_SYSTEM_NOT_READY;
        }
        if (at != uris && !(session = session_new()))
            return CORE_OUT_OF_MEMORY;
        if (!(session->uri = next ? strndup(at, (size_t)(next - 1 - at)) : strdup(at)))
            return CORE_OUT_OF_MEMORY;
    }
    for (session = session_several() ? &core_session : NULL; session; session = session->next)
        if (reach_is(session->uri, "local:")) {
            log_error("FLYT_SERVER=%s: the server in this process (local:) cannot be one of several", uris);
            return CORE_SYSTEM_NOT_READY;
        }
    return CORE_OK;
}

int several_expect(unsigned more)
{
    struct client_session *session = &core_session;
    for (; more; more--) {
        session = session->next ? session->next : session->number + 1 < SESSIONS_MOST ? session_new() : NULL;
        if (!session)
            return CORE_OUT_OF_MEMORY;
        session->managed = true;
    }
    return CORE_OK;
}

static int link_by_hand(const struct client_session *calls, const struct client_session *waits, unsigned connections,
                        char *address, char *why, size_t size)
{
    (void)calls, (void)connections, (void)why;
    snprintf(address, size, "%s", waits->uri);
    return CORE_OK;
}

/* ---- connecting ---- */

static int reach(const char *uri, const struct manager_place *place, rpc_channel **channel, char *error)
{
    attach_wait_stage("the GPU server at %.*s", (int)strcspn(uri, "?"), uri);
    int status = rpc_channel_connect_within(uri, attach_wait_ms(REACH_CONNECT_MS),
                                            attach_wait_ms(REACH_CONNECT_MS + RPC_HANDSHAKE_MS), place->ticket,
                                            place->ticket_size, channel, error);
    return status ? status : reach_memory(uri, NULL, channel, error);
}

/* At the first of its addresses that can be used. */
static int reach_any(struct client_session *session, const struct manager_place *place, rpc_channel **channel,
                     char *error)
{
    int status = place->count ? -ENOENT : reach(session->uri, place, channel, error);
    for (unsigned i = 0; i < place->count && status; i++) {
        free(session->uri);
        session->uri = strdup(place->uris[i]);
        status = session->uri ? reach(session->uri, place, channel, error) : -ENOMEM;
    }
    return status;
}

static int connect_to(struct client_session *session, const struct manager_place *place)
{
    rpc_channel *channel = NULL;
    char error[RPC_ERROR_SIZE] = "";
    if (reach_any(session, place, &channel, error)) {
        log_error("no GPU server answers at %s: %s. %s", session->uri, error,
                  session->managed ? "The cluster says that it is there: is a firewall between?"
                                   : "Start cricket-rpc-server there, or take it out of FLYT_SERVER");
        return CORE_SYSTEM_NOT_READY;
    }
    const char *uri = session->uri;
    int silence = session_dead_seconds ? session_dead_seconds : rpc_silence_seconds();
    if (rpc_client_create(channel, &rpc_flyt_program, silence, session_lost, session, &session->client, error) < 0) {
        log_error("cannot use the connection to %s: %s", uri, error);
        return CORE_SYSTEM_NOT_READY;
    }
    if (core_perf.no_batch)
        rpc_client_set_batching(session->client, false);
    if (core_perf.no_spin)
        rpc_client_set_spinning(session->client, false);
    return CORE_OK;
}

static int greet(struct client_session *session, const struct manager_place *place)
{
    hello_result *hello = &session->hello;
    int code = reach_hello(session, session->client, place->ticket, place->ticket_size, (flyt_wish){ 0 },
                           capability_ask(), hello);
    if (!hello->major)
        log_error("what listens at %s does not answer as a GPU server", session->uri);
    else if (hello->major != FLYT_PROTOCOL_MAJOR)
        log_error("the GPU server %s speaks protocol %u.%u, this program's Flyt %s speaks %d.%d", session->uri,
                  hello->major, hello->minor, flyt_version, FLYT_PROTOCOL_MAJOR, FLYT_PROTOCOL_MINOR);
    else if (code)
        log_error("the GPU server %s refuses this program: %s (%d)", session->uri,
                  hello->refusal && *hello->refusal ? hello->refusal : "it gives no reason", code);
    else if (hello->granularity != core_session.granularity)
        log_error("the GPU servers %s and %s have memory of different granularity, and cannot serve one program",
                  core_session.uri, session->uri);
    else
        return CORE_OK;
    return code ? code : CORE_SYSTEM_NOT_READY;
}

/* The first session's window, there too. */
static int take_window(struct client_session *session)
{
    window_take_args args = { core_session.window, core_session.window_size };
    window_result result = { .window = session->hello.window };
    if (session->hello.window == args.window && session->hello.window_size == args.size)
        return CORE_OK;
    session->hello.host_size = 0;
    memset(&result, 0, sizeof result);
    int code = session->hello.capabilities & FLYT_CAP_MOVES
                   ? wire_call(session, FLYT_WINDOW_TAKE, (xdrproc_t)xdr_window_take_args, &args,
                               (xdrproc_t)xdr_window_result, &result)
                   : CORE_NOT_SUPPORTED;
    bool taken = !code && result.window == core_session.window;
    session->hello.host_size = taken ? result.host_size : 0;
    xdr_free((xdrproc_t)xdr_window_result, &result);
    if (taken)
        return CORE_OK;
    log_error("the GPU server %s cannot use the addresses from 0x%llx on, which this program has agreed on with %s",
              session->uri, (unsigned long long)core_session.window, core_session.uri);
    return code ? code : CORE_OUT_OF_MEMORY;
}

/* ---- pinned memory that kernels use ---- */

static struct { uint64_t at, size; } host;

void several_host(uint64_t at, uint64_t size)
{
    host.at = at;
    host.size = size;
}

/* Where all servers mirror it, at the same addresses. */
static void open_host(void)
{
    for (const struct client_session *session = &core_session; session; session = session->next)
        if (!(session->hello.capabilities & FLYT_CAP_MIRROR) ||
            (session->number && session->hello.host_size < host.size))
            host.size = 0;
    if (!host.size)
        return;
    host_space_open_mirrored(host.at, host.size);
    mirror_open(host.at, host.size);
}

static void note_links(struct client_session *session)
{
    const uint64_t capabilities = session->hello.capabilities;
    session->box_links = (capabilities & FLYT_CAP_LINKS) && (capabilities & FLYT_CAP_BOX_LINKS);
    session->link_views = session->box_links && (capabilities & FLYT_CAP_LINK_VIEWS);
}

/* Keeps the capabilities that all servers have in common. */
static void agree(const struct client_session *session)
{
    core_session.hello.capabilities &= session->hello.capabilities;
    if (session->hello.driver_version < core_session.driver_version)
        core_session.driver_version = session->hello.driver_version;
}

static int attach_one(struct client_session *session, const struct manager_place *lead)
{
    struct manager_place place = { 0 };
    int code = lead ? manager_ask_part(session, lead->program, &place) : CORE_OK;
    if (!code)
        code = connect_to(session, &place);
    if (!code)
        code = greet(session, &place);
    manager_place_free(&place);
    return code ? code : take_window(session);
}

int several_attach(const struct manager_place *lead)
{
    session_link = lead ? manager_link_parts : link_by_hand;
    note_links(&core_session);
    for (struct client_session *session = core_session.next; session; session = session->next) {
        int code = attach_one(session, lead);
        if (code)
            return code;
        log_info("Flyt %s is connected to %s (%s), too", flyt_version, session->uri,
                 session->hello.server ? session->hello.server : "");
        note_links(session);
        agree(session);
    }
    if (!session_several())
        return CORE_OK;
    core_session.hello.capabilities &= usable;
    open_host();
    return CORE_OK;
}
