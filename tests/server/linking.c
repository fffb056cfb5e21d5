/* linking.c: see linking.h. */
#include "tests/server/linking.h"

#include <stdlib.h>
#include <unistd.h>

#include "cpu/common/clock.h"

struct server servers[2];
struct peer peers[2];
uint64_t memory_size;
int way = TCP;

void begin_one(int which, const char *const *more)
{
    struct peer *peer = &peers[which];
    server_start(&servers[which], "software", more);
    peer_open(peer, servers[which].uri[way]);
    assert_true(peer->hello.capabilities & FLYT_CAP_LINKS);
    memory_size = 8 * peer->granule > 16 * MIB ? 8 * peer->granule : 16 * MIB;
    assert_int_equal(peer_map(peer, peer->base, memory_size), 0);
}

void begin_with(const char *allowed)
{
    const char *const more[] = { "--links", allowed, "--listen", "tls://127.0.0.1:0", "--plain-tcp", NULL };
    for (int i = 0; i < 2; i++)
        begin_one(i, more);
}

void begin(void) { begin_with("tcp://127.0.0.1:*,tls://127.0.0.1:*"); }

void end(void)
{
    for (int i = 0; i < 2; i++) {
        peer_close(&peers[i]);
        server_stop(&servers[i], SIGTERM);
    }
}

/* ---- the calls ---- */

int link_listen(int which, uint32_t link, struct link_handles *out)
{
    return linked_listen(&peers[which], link, out);
}

char join_why[2][FLYT_MAX_SHORT];

void join_both(uint32_t link, struct link_handles handles[2], const char *const uris[2], unsigned ms,
                      int codes[2])
{
    struct linked_end ends[2] = { { &peers[0], link, uris[1], &handles[1], ms, .channels = HANDLES - 1 },
                                  { &peers[1], link, uris[0], &handles[0], ms, .channels = HANDLES - 1 } };
    linked_join(ends);
    for (int i = 0; i < 2; i++) {
        codes[i] = ends[i].code;
        memcpy(join_why[i], ends[i].why, sizeof join_why[i]);
    }
}

void link_up(uint32_t link)
{
    const char *const uris[2] = { servers[0].uri[way], servers[1].uri[way] };
    struct link_handles handles[2];
    int codes[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(link_listen(i, link, &handles[i]), 0);
        assert_int_equal(handles[i].count, HANDLES);
    }
    join_both(link, handles, uris, JOIN_MS, codes);
    if (codes[0] || codes[1])
        fail_msg("joining: %d %s, %d %s", codes[0], join_why[0], codes[1], join_why[1]);
}

int link_memory(int which, uint64_t offset, uint64_t size, int registered)
{
    return PLAIN(&peers[which], link_memory, link_memory_args, { peers[which].base + offset, size, registered });
}

void both_linked(uint32_t link)
{
    link_up(link);
    for (int i = 0; i < 2; i++)
        assert_int_equal(link_memory(i, 0, memory_size, 1), 0);
}

static void sent(enum clnt_stat status) { assert_true(status == RPC_SUCCESS || status == RPC_TIMEDOUT); }

void send_on(uint32_t link, uint32_t stream, uint64_t offset, uint64_t size, uint64_t transfer)
{
    send_args args = { stream, link, peers[0].base + offset, size, transfer };
    sent(flyt_send_1(&args, NULL, peers[0].stub));
}

void receive_on(uint32_t link, uint32_t stream, uint64_t offset, uint64_t size, uint64_t transfer)
{
    receive_args args = { stream, link, peers[1].base + offset, size, transfer };
    sent(flyt_receive_1(&args, NULL, peers[1].stub));
}

uint64_t send_begin(uint32_t link, uint32_t stream, uint64_t offset, uint64_t size)
{
    send_begin_args args = { stream, link, peers[0].base + offset, size, 0 };
    send_begin_result result;
    memset(&result, 0, sizeof result);
    assert_int_equal(flyt_send_begin_1(&args, &result, peers[0].stub), RPC_SUCCESS);
    assert_int_equal(result.head.result, 0);
    uint64_t transfer = result.transfer;
    xdr_free((xdrproc_t)xdr_send_begin_result, &result);
    return transfer;
}

void link_close(int which, uint32_t link, const char *why)
{
    link_close_args args = { link, (char *)(uintptr_t)why };
    sent(flyt_link_close_1(&args, NULL, peers[which].stub));
}

int link_status(int which, uint32_t link, char why[FLYT_MAX_SHORT])
{
    link_status_args args = { link };
    link_status_result result;
    memset(&result, 0, sizeof result);
    assert_int_equal(flyt_link_status_1(&args, &result, peers[which].stub), RPC_SUCCESS);
    assert_int_equal(result.head.result, 0);
    int status = result.status;
    snprintf(why, FLYT_MAX_SHORT, "%s", result.why);
    xdr_free((xdrproc_t)xdr_link_status_result, &result);
    return status;
}

void wait_for_end(int which, uint32_t link, double seconds, char why[FLYT_MAX_SHORT])
{
    uint64_t until = clock_now() + (uint64_t)(seconds * CLOCK_NS_PER_SECOND);
    while (!link_status(which, link, why) && clock_now() < until)
        usleep(5000);
    assert_int_not_equal(link_status(which, link, why), 0);
}

int synchronise(int which, uint32_t stream)
{
    int r = peer_stream_sync(&peers[which], stream);
    return r ? r : peers[which].last.latched;
}

bool goes_on(int which)
{
    uint32_t word = 0;
    peer_set(&peers[which], 0, peers[which].base, 1, 0x1234567, 4);
    return peer_copy_out(&peers[which], 0, &word, peers[which].base, 4) == 0 && word == 0x1234567;
}

uint32_t word_at(int which, uint64_t offset)
{
    uint32_t word = 0;
    assert_int_equal(peer_copy_out(&peers[which], 0, &word, peers[which].base + offset, 4), 0);
    return word;
}
