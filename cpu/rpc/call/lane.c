/* lane.c: see lane.h. */
#include "cpu/rpc/call/lane.h"
#include "cpu/rpc/transport/liveness.h"

#include "cpu/common/clock.h"

#include <errno.h>
#include <string.h>

enum { VECTOR_MAX = 64 };

const char rpc_lane_magic[RPC_LANE_MAGIC] = { 'F', 'l', 'y', 't', 'L', 'a', 'n', 'e' };

static void put(uint8_t *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
}

static uint64_t get(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

void rpc_lane_put(uint8_t head[RPC_LANE_HEAD], const struct rpc_lane_record *record)
{
    put(head, record->transfer, 4);
    put(head + 4, record->lane, 4);
    put(head + 8, record->offset, 8);
    put(head + 16, record->length, 8);
}

void rpc_lane_get(const uint8_t head[RPC_LANE_HEAD], struct rpc_lane_record *record)
{
    *record = (struct rpc_lane_record){ .transfer = (uint32_t)get(head, 4), .lane = (uint32_t)get(head + 4, 4),
                                        .offset = get(head + 8, 8), .length = get(head + 16, 8) };
}

void rpc_lane_put_hello(uint8_t hello[RPC_LANE_HEAD], uint64_t session, uint32_t lane)
{
    memcpy(hello, rpc_lane_magic, RPC_LANE_MAGIC);
    put(hello + 8, session, 8);
    put(hello + 16, lane, 4);
    put(hello + 20, 0, 4);
}

bool rpc_lane_get_hello(const uint8_t hello[RPC_LANE_HEAD], uint64_t *session, uint32_t *lane)
{
    *session = get(hello + 8, 8);
    *lane = (uint32_t)get(hello + 16, 4);
    return memcmp(hello, rpc_lane_magic, RPC_LANE_MAGIC) == 0 && get(hello + 20, 4) == 0;
}

bool rpc_lane_begins(const uint8_t *bytes, size_t count)
{
    return memcmp(bytes, rpc_lane_magic, count < RPC_LANE_MAGIC ? count : RPC_LANE_MAGIC) == 0;
}

/* ---- moving ---- */

/* 0, or -ETIMEDOUT, or what poll says. Without a deadline the peer may take its time, if only its machine answers. */
static int wait_for(rpc_channel *channel, int events, uint64_t deadline)
{
    int look_ms = (int)(rpc_silence_look(rpc_silence_seconds()) / CLOCK_NS_PER_MS);
    for (;;) {
        int ready = rpc_channel_poll(channel, events,
                                     deadline           ? clock_poll_timeout(deadline)
                                     : events & POLLOUT ? look_ms
                                                        : -1,
                                     false);
        if (ready != 0)
            return ready < 0 ? ready : 0;
        if (deadline || rpc_channel_peer(channel) == -ETIMEDOUT)
            return -ETIMEDOUT;
    }
}

int rpc_lane_send(rpc_channel *channel, const struct iovec *vector, int count, uint64_t deadline)
{
    struct iovec rest[VECTOR_MAX];
    if (count > VECTOR_MAX)
        return -EINVAL;
    memcpy(rest, vector, (size_t)count * sizeof *vector);
    struct iovec *at = rest;
    while (count > 0) {
        if (at->iov_len == 0) {
            at++;
            count--;
            continue;
        }
        ssize_t sent = rpc_channel_send(channel, at, count);
        if (sent == -EAGAIN) {
            int status = wait_for(channel, POLLOUT, deadline);
            if (status < 0)
                return status;
            continue;
        }
        if (sent <= 0)
            return sent < 0 ? (int)sent : -EPIPE;
        size_t gone = (size_t)sent;
        while (count > 0 && gone >= at->iov_len) {
            gone -= at->iov_len;
            at++;
            count--;
        }
        if (count > 0)
            *at = (struct iovec){ (char *)at->iov_base + gone, at->iov_len - gone };
    }
    return 0;
}

int rpc_lane_receive(rpc_channel *channel, void *to, size_t size, uint64_t deadline)
{
    size_t done = 0;
    while (done < size) {
        struct iovec vector = { (char *)to + done, size - done };
        ssize_t got = rpc_channel_receive_into(channel, &vector, 1);
        if (got == -EAGAIN) {
            int status = wait_for(channel, POLLIN, deadline);
            if (status < 0)
                return status;
            continue;
        }
        if (got <= 0)
            return got < 0 ? (int)got : done > 0 ? -ECONNRESET : -ENODATA;
        done += (size_t)got;
    }
    return 0;
}
