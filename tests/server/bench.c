/* bench.c: what a session costs on the null device, by transport. Not a test: built by make
 * $(BUILD)/tests/server_bench. */
#include <signal.h>

#include "cpu/common/clock.h"
#include "tests/server/kernels.h"
#include "tests/server/peer.h"

static void measure(const char *what, struct peer *peer)
{
    enum { WAITED = 20000, LAUNCHES = 500000, COPIES = 300 };
    uint32_t bytes;
    static uint8_t block[FLYT_MAX_INLINE];
    assert_int_equal(peer_map(peer, peer->base, peer->granule), 0);
    assert_int_equal(peer_load(peer, 1, kernels_ptx, NULL, 0), 0);
    assert_int_equal(peer_function(peer, 1, 1, "add", &bytes), 0);
    uint64_t start = clock_now();
    for (int i = 0; i < WAITED; i++)
        peer_context_sync(peer);
    double waited = (double)(clock_now() - start) / WAITED / 1e3;
    start = clock_now();
    for (int i = 0; i < WAITED; i++) {
        peer_launch(peer, 1, 0, 1, 1, "123456789012", 12);
        peer_stream_sync(peer, 0);
    }
    double launched = (double)(clock_now() - start) / WAITED / 1e3;
    start = clock_now();
    for (int i = 0; i < WAITED; i++)
        peer_copy_out(peer, 0, NULL, peer->base, 64);
    double copied = (double)(clock_now() - start) / WAITED / 1e3;
    start = clock_now();
    for (int i = 0; i < LAUNCHES; i++)
        peer_launch(peer, 1, 0, 1, 1, "123456789012", 12);
    peer_context_sync(peer);
    double rate = LAUNCHES / ((double)(clock_now() - start) / 1e9) / 1e3;
    start = clock_now();
    for (int i = 0; i < COPIES; i++)
        peer_copy_in(peer, 0, peer->base, block, sizeof block);
    peer_context_sync(peer);
    double in = COPIES / ((double)(clock_now() - start) / 1e9) / 1e3;
    start = clock_now();
    for (int i = 0; i < COPIES; i++)
        peer_copy_out(peer, 0, block, peer->base, sizeof block);
    double out = COPIES / ((double)(clock_now() - start) / 1e9) / 1e3;
    printf("%-6s waited %6.2f us  launch+sync %6.2f us  copy out 64 B %6.2f us  %7.0f k launches/s  in %5.2f GB/s  out "
           "%5.2f GB/s\n",
           what, waited, launched, copied, rate, in, out);
}

TEST(all)
{
    struct peer peer;
    struct server server;
    peer_local(&peer, "null");
    peer_hello(&peer);
    measure("local", &peer);
    peer_close(&peer);
    server_start(&server, "null", NULL);
    for (int i = 0; i < 2; i++) {
        peer_open(&peer, server.uri[i]);
        measure(i ? "tcp" : "unix", &peer);
        peer_close(&peer);
    }
    server_stop(&server, SIGTERM);
}

int main(void) { return unit_run(NULL, NULL); }
