/*
 * reach.c: the way to a GPU server, for a session that begins (session.c), that moves (move.c), and whose server was
 * lost (recover.c): over which channel, and the first words.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/common/env.h"
#include "cpu/common/log.h"
#include "cpu/common/version.h"
#include "cpu/rpc/transport/liveness.h"
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/session/attach_wait.h"
#include "attach.h"
#include "capability.h"
#include "reach.h"
#include "cpu/client/core/wire/device.h"
#include "cpu/client/core/stream/mirror.h"
#include "cpu/client/core/stream/move.h"
#include "cpu/client/core/wire/perf.h"
#include "cpu/client/core/wire/wire.h"

bool reach_is(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* Why calls reach the server as they do, for people who ask `flytctl vm show`. */
static char reach_why[256];

void reach_because(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(reach_why, sizeof reach_why, format, list);
    va_end(list);
}

/* Goes on through memory where there is any, before anything is said. Memory that was not asked for, and that the
   server does not have, is no matter for a warning: the device may be there for other things, and the server on another
   host. */
int reach_memory(const char *uri, const struct rpc_shared_memory *kept, rpc_channel **channel, char *error)
{
    const char *bar = env_get("FLYT_BAR");
    bool asked = bar && *bar;
    if (core_perf.no_shm) {
        reach_because("FLYT_PERF=no_shm");
        return 0;
    }
    if (reach_is(uri, "unix://") || reach_is(uri, "shm://") || (!asked && !rpc_bar_present()))
        return rpc_channel_share(channel, kept, error);
    const char *what = asked ? "FLYT_BAR" : "the memory shared with the host (ivshmem)";
    if (!reach_is(uri, "tcp://")) {
        reach_because("%s is not used with a server at tls://: what goes through that memory is not encrypted", what);
        log_message(asked ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, "%s", reach_why);
        return 0;
    }
    int status = rpc_channel_share_bar(channel, asked ? bar : NULL, attach_wait_ms(RPC_HANDSHAKE_MS), error);
    if (status >= 0 && *error)
        reach_because("%s is not used: %s", what, error);
    if (status >= 0 && *error)
        log_message(asked || status == 0 ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO,
                    "%s is not used, and calls go over the network: %s", what, error);
    return status < 0 ? status : 0;
}

/* The first call of a connection. */
int reach_hello(struct client_session *session, rpc_client *client, const void *ticket, size_t ticket_size,
                flyt_wish wish, uint64_t compute, hello_result *hello)
{
    static char host[FLYT_MAX_SHORT], executable[FLYT_MAX_SHORT];
    gethostname(host, sizeof host - 1);
    ssize_t length = readlink("/proc/self/exe", executable, sizeof executable - 1);
    executable[length > 0 ? length : 0] = 0;
    bool mirrors = mirror_room != NULL;
    hello_args args = { .major = FLYT_PROTOCOL_MAJOR,
                        .minor = FLYT_PROTOCOL_MINOR,
                        .capabilities = FLYT_CAP_BEATS | (mirrors ? FLYT_CAP_MIRROR : 0) |
                                        (mirrors && !core_perf.no_pull ? FLYT_CAP_PULL : 0) | compute,
                        .host = host,
                        .executable = executable,
                        .pid = (u_int)getpid(),
                        .ticket = { (u_int)ticket_size, (char *)(uintptr_t)ticket },
                        .wish = wish };
    return wire_call_to(session, client, FLYT_HELLO, (xdrproc_t)xdr_hello_args, &args,
                        (xdrproc_t)xdr_hello_result, hello);
}

/* The server may not be what we think: nothing of its first answers is used unchecked. */
uint64_t reach_host_size(uint64_t window, uint64_t size)
{
    uint64_t at = window + core_session.window_size;
    return size % FLYT_HOST_GRANULE == 0 && size <= SIZE_MAX / 4 && at + size > at ? size : 0;
}

/* What is sent to the client manager about the connection that has been made. */
void session_tell_transport(void)
{
    const char *transport = rpc_client_transport(core_session.client), *mode = transport;
    bool memory = strcmp(transport, "shm") == 0;
    if (memory && reach_is(core_session.uri, "tcp://")) {
        mode = "ivshmem";
        reach_because("this VM and the GPU server's machine share memory");
    } else if (memory) {
        mode = "shared-memory";
        reach_because("the GPU server is on this machine");
    } else if (!*reach_why) {
        reach_because(strcmp(transport, "unix") == 0 ? "the GPU server offers no shared memory"
                                                     : "no memory is shared with the GPU server's machine");
    }
    manager_tell_transport(mode, reach_why);
    manager_tell_session(session_number());
}

/* ---- another server, for a session that moves ---- */

int session_reach(struct move *move, void (*lost)(void *, const char *), void *context)
{
    const char *uri = move->order->uri;
    rpc_channel *channel = NULL;
    char error[RPC_ERROR_SIZE] = "";
    struct move_place *target = &move->at[MOVE_TARGET];
    struct rpc_shared_memory kept;
    rpc_client_shared_memory(core_session.client, &kept);
    if (!reach_is(uri, "tcp://") && !reach_is(uri, "tls://") && !reach_is(uri, "unix://") && !reach_is(uri, "shm://"))
        return move_refuse(move, CORE_INVALID_VALUE, "%s is not the address of a GPU server elsewhere", uri);
    *reach_why = 0;
    if (rpc_channel_connect_within(uri, REACH_CONNECT_MS, REACH_CONNECT_MS + RPC_HANDSHAKE_MS, move->order->ticket,
                                   move->order->ticket_size, &channel, error) ||
        reach_memory(uri, &kept, &channel, error))
        return move_refuse(move, CORE_SYSTEM_NOT_READY, "no GPU server answers at %s: %s", uri, error);
    int silence = session_dead_seconds ? session_dead_seconds : rpc_silence_seconds();
    if (rpc_client_create(channel, &rpc_flyt_program, silence, lost, context, &target->client, error) < 0)
        return move_refuse(move, CORE_SYSTEM_NOT_READY, "the connection to %s cannot be used: %s", uri, error);
    if (core_perf.no_batch)
        rpc_client_set_batching(target->client, false);
    if (core_perf.no_spin)
        rpc_client_set_spinning(target->client, false);
    return CORE_OK;
}

/* The program has addresses in the window, so there must be the same one. */
static int move_window(struct move *move)
{
    const hello_result *hello = &move->at[MOVE_TARGET].hello;
    window_take_args args = { core_session.window, core_session.window_size };
    window_result result = { .window = hello->window, .host_size = hello->host_size };
    int code = CORE_OK;
    if (hello->window != core_session.window || hello->window_size != core_session.window_size) {
        memset(&result, 0, sizeof result);
        code = wire_call_to(&core_session, move->at[MOVE_TARGET].client, FLYT_WINDOW_TAKE,
                            (xdrproc_t)xdr_window_take_args, &args,
                            (xdrproc_t)xdr_window_result, &result);
        xdr_free((xdrproc_t)xdr_window_result, &result);
    }
    move->target_host =
        hello->capabilities & FLYT_CAP_MIRROR ? 0 : reach_host_size(core_session.window, result.host_size);
    return code || result.window != core_session.window
               ? move_refuse(move, code, "the new server cannot use the addresses from 0x%llx on",
                             (unsigned long long)core_session.window)
               : CORE_OK;
}

int session_meet(struct move *move)
{
    hello_result *hello = &move->at[MOVE_TARGET].hello;
    move->order->met = true;
    int code = reach_hello(&core_session, move->at[MOVE_TARGET].client, move->order->ticket, move->order->ticket_size,
                           (flyt_wish){ 0 }, capability_keep(), hello);
    if (code && hello->major == FLYT_PROTOCOL_MAJOR && hello->refusal && *hello->refusal)
        return move_refuse(move, code, "the new server refuses this program: %s", hello->refusal);
    if (hello->major && (hello->major != FLYT_PROTOCOL_MAJOR || (!code && !(hello->capabilities & FLYT_CAP_MOVES))))
        return move_refuse(move, 0,
                           "the new server (%s, protocol %u.%u) is of another version than this program's "
                           "Flyt %s (protocol %d.%d), and takes no sessions of it",
                           hello->server ? hello->server : "", hello->major, hello->minor, flyt_version,
                           FLYT_PROTOCOL_MAJOR, FLYT_PROTOCOL_MINOR);
    if (code || !hello->major)
        return move_refuse(move, code ? code : CORE_SYSTEM_NOT_READY,
                           "the new server closed the connection, or its "
                           "first answer makes no sense (error %d)",
                           code);
    if (hello->granularity != core_session.granularity || hello->driver_version < core_session.driver_version)
        return move_refuse(move, 0,
                           "the new server's driver is not like this one's (version %d instead of %d, "
                           "granularity %llu instead of %llu)",
                           hello->driver_version, core_session.driver_version, (unsigned long long)hello->granularity,
                           (unsigned long long)core_session.granularity);
    int count = device_visible(getenv("CUDA_VISIBLE_DEVICES"), hello->devices.devices_val,
                               (int)hello->devices.devices_len, move->at[MOVE_TARGET].devices);
    if (count < device_count())
        return move_refuse(move, 0, "the new server has %d devices, this program has seen %d", count, device_count());
    return move_window(move);
}
