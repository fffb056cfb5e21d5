/*
 * liveness.c: what is set, and asked, in the system about the network.
 *
 * TCP_USER_TIMEOUT is not used (but see below): it counts from when bytes were accepted that the peer has not taken,
 * also while the peer's machine acknowledges every probe of its closed window. A stopped program would lose its
 * connection so. Without it a closed window is probed for ever, as RFC 9293 (3.8.6.1) wants, and whoever waits asks
 * rpc_network_silent once a second.
 */
#include "cpu/rpc/transport/liveness.h"

#include "cpu/common/clock.h"
#include "cpu/common/env.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

/* The longest time between two attempts to send the same, or two probes of a closed window (Linux 6.15; else up to 120
 * s). */
#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44
#endif

/* ATTEMPTS: the network counts as silent when so many have not been answered: at about 0.2, 0.6 and 1.4 s for bytes.
   GIVE_UP_S: the system gives up bytes that nobody acknowledges after about so long by itself (tcp_retries2). */
enum {
    LOOKS = 8,
    BEATS = 5,
    BEAT_MS = 2000,
    LOOK_MS = 1000,
    ATTEMPTS = 3,
    GIVE_UP_S = 600,
    AGAIN_LEAST_MS = 1000,
    AGAIN_MOST_MS = 120000,
    KEEPALIVE_MOST_S = 32767
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int silence = RPC_SILENCE_USUAL, suspend = RPC_SUSPEND_USUAL, reclaim = RPC_RECLAIM_USUAL;
static bool valid = true;

/* False: it is set to something that is no number of seconds, and *seconds stays. */
static bool read_seconds(const char *name, int *seconds)
{
    const char *text = env_get(name);
    if (!text || !*text)
        return true;
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < 1 || value > RPC_SILENCE_MOST)
        return false;
    *seconds = (int)value;
    return true;
}

static void read_setting(void)
{
    valid = read_seconds("FLYT_SILENCE", &silence);
    valid &= read_seconds("FLYT_SUSPEND", &suspend);
    valid &= read_seconds("FLYT_RECLAIM", &reclaim);
}

int rpc_suspend_seconds(void)
{
    pthread_once(&once, read_setting);
    return suspend;
}

int rpc_reclaim_seconds(void)
{
    pthread_once(&once, read_setting);
    return reclaim;
}

int rpc_silence_seconds(void)
{
    pthread_once(&once, read_setting);
    return silence;
}

bool rpc_silence_valid(void)
{
    pthread_once(&once, read_setting);
    return valid;
}

/* A part of so many seconds, but at most so many milliseconds; ns. */
static uint64_t part(int seconds, unsigned parts, uint64_t most_ms)
{
    uint64_t ns = (uint64_t)seconds * CLOCK_NS_PER_SECOND / parts, most = most_ms * CLOCK_NS_PER_MS;
    return ns < most ? ns : most;
}

uint64_t rpc_silence_look(int seconds)
{
    return part(seconds, LOOKS, LOOK_MS);
}

uint64_t rpc_beat_interval(void)
{
    return part(rpc_silence_seconds(), BEATS, BEAT_MS);
}

/* ---- the network ---- */

static int within(int least, int value, int most)
{
    return value < least ? least : value < most ? value : most;
}

void rpc_network_watch(int fd) { rpc_network_watch_for(fd, rpc_silence_seconds()); }

void rpc_network_watch_for(int fd, int seconds)
{
    /* After `idle` seconds without a word, and then every `interval`, the peer's machine is asked; in all that takes
     * `seconds`. */
    int on = 1, probes = ATTEMPTS, interval = within(1, seconds / (ATTEMPTS + 2), KEEPALIVE_MOST_S),
        idle = within(1, seconds - ATTEMPTS * interval, KEEPALIVE_MOST_S),
        again = within(AGAIN_LEAST_MS, seconds * 200, AGAIN_MOST_MS);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &again, sizeof again);
    if (seconds > GIVE_UP_S) {
        /* Else the system would give up before. This bounds a closed window too, but no shorter than what was asked
         * for. */
        unsigned limit = (unsigned)seconds * 1000;
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof limit);
    }
}

bool rpc_network_silent(int fd) { return rpc_network_silent_for(fd, rpc_silence_seconds()); }

bool rpc_network_silent_for(int fd, int seconds)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return false;
    /* Whatever the peer's machine answers, also that its window is closed, counts here; and an idle connection is
     * probed. */
    if (info.tcpi_last_ack_recv / 1000 < (unsigned)seconds)
        return false;
    return info.tcpi_retransmits >= ATTEMPTS || info.tcpi_probes >= ATTEMPTS;
}
