/*
 * links_hostile.c: calls of links with arguments by chance, at both ends of links between two GPU servers.
 *
 *   server_links_hostile [SEED [SECONDS]]
 *
 * shows: attacks: calls of links with arguments by chance, at both ends at a time, cost their programs' links at most:
 *   both sessions go on, and the servers serve the next programs
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "tests/server/linking.h"

enum { LINKS = 6, STREAMS = 4, SEED = 20261127 };

static uint64_t drawn = SEED;
static double seconds = 1.5;
static struct link_handles known[2][LINKS]; /* as listened last */
static uint64_t sent[2][LINKS];             /* transfers, as a program would count them */
static unsigned long calls;

static uint64_t any(void)
{
    drawn ^= drawn << 13;
    drawn ^= drawn >> 7;
    return drawn ^= drawn << 17;
}

static unsigned below(unsigned bound) { return (unsigned)(any() % bound); }
static bool seldom(void) { return below(12) == 0; }

static uint32_t any_link(void) { return seldom() ? (uint32_t)any() : below(LINKS); }
static uint32_t any_stream(void) { return seldom() ? (uint32_t)any() : below(3) ? STREAM + below(STREAMS) : 0; }

static uint64_t any_address(int which, uint64_t *size)
{
    *size = seldom() ? any() : below(4) ? below(70000) : below(3 * MIB);
    return seldom() ? any() : peers[which].base + below((unsigned)memory_size);
}

/* Of both ends, or of one that waits for nobody. */
static void join(void)
{
    const uint32_t link = below(LINKS);
    const bool wrong = seldom();
    struct linked_end ends[2];
    for (int i = 0; i < 2; i++) {
        struct link_handles *handles = &known[!i][seldom() ? below(LINKS) : link];
        ends[i] = (struct linked_end){ .peer = &peers[i], .link = link, .handles = handles, .ms = wrong ? 20 : 300,
                                       .server = seldom() ? "tcp://127.0.0.1:1" : servers[!i].uri[TCP] };
        if (wrong && handles->count)
            handles->of[below(handles->count)][below(FLYT_LINK_HANDLE_SIZE)] ^= 1 << below(8);
    }
    if (wrong && below(2)) {
        linked_join_end(&ends[0]);
        return;
    }
    linked_join(ends);
    sent[0][link] = sent[1][link] = 0;
}

static void listen_somewhere(int which)
{
    const uint32_t link = any_link();
    struct link_handles got;
    if (link_listen(which, link, &got) == 0 && link < LINKS)
        known[which][link] = got;
}

static void transfer(int which)
{
    const uint32_t link = any_link(), stream = any_stream();
    const unsigned kind = below(5);
    uint64_t size, address = any_address(which, &size), number = 0;
    if (link < LINKS)
        number = kind < 3 ? ++sent[which][link] : sent[!which][link];
    send_args args = { stream, link, address, size, seldom() ? any() : number };
    send_begin_result result = { 0 };
    if (kind < 2) {
        flyt_send_1(&args, NULL, peers[which].stub);
    } else if (kind == 2) {
        args.transfer = 0;
        peer_took(&peers[which], flyt_send_begin_1(&args, &result, peers[which].stub),
                  (xdrproc_t)xdr_send_begin_result, &result);
    } else {
        flyt_receive_1(&args, NULL, peers[which].stub);
    }
}

static void one_call(int which)
{
    static char text[FLYT_MAX_SHORT] = "by chance";
    uint64_t size, address = any_address(which, &size);
    calls++;
    switch (below(24)) {
    case 0: join(); break;
    case 1:
    case 2: listen_somewhere(which); break;
    case 3: PLAIN(&peers[which], link_memory, link_memory_args, { address, size, (int)below(2) }); break;
    case 4: PLAIN(&peers[which], link_memory, link_memory_args, { peers[which].base, memory_size, 1 }); break;
    case 5:
        if (below(3) == 0)
            link_close(which, any_link(), below(2) ? "" : text);
        break;
    case 6: {
        link_status_args args = { any_link() };
        link_status_result result = { 0 };
        peer_took(&peers[which], flyt_link_status_1(&args, &result, peers[which].stub),
                  (xdrproc_t)xdr_link_status_result, &result);
        break;
    }
    case 7: peer_stream_create(&peers[which], STREAM + below(STREAMS), 1); break;
    case 8: {
        stream_args args = { STREAM + below(STREAMS) };
        if (below(4) == 0)
            flyt_stream_destroy_1(&args, NULL, peers[which].stub);
        break;
    }
    default: transfer(which);
    }
}

/* Every link ends at both ends, and with it what waits for it. */
static void end_all(void)
{
    for (int i = 0; i < 2; i++)
        for (uint32_t link = 0; link < FLYT_MAX_LINKS; link++)
            link_close(i, link, "it is over");
}

TEST(by_chance)
{
    const uint64_t until = clock_now() + (uint64_t)(seconds * CLOCK_NS_PER_SECOND);
    begin();
    while (clock_now() < until)
        one_call((int)below(2));
    end_all();
    for (int i = 0; i < 2; i++) {
        synchronise(i, 0);
        assert_true(goes_on(i));
        assert_int_equal(peers[i].last.sticky, 0);
    }
    printf("# %lu calls\n", calls);
    for (int i = 0; i < 2; i++) {
        peer_close(&peers[i]);
        peer_open(&peers[i], servers[i].uri[TCP]);
        assert_int_equal(peer_map(&peers[i], peers[i].base, memory_size), 0);
    }
    both_linked(LINK);
    send_on(LINK, 0, 0, MIB, 1);
    receive_on(LINK, 0, 0, MIB, 1);
    assert_int_equal(synchronise(1, 0), 0);
    end();
}

int main(int argc, char **argv)
{
    linked_prepare(argv);
    drawn = argc > 1 ? strtoull(argv[1], NULL, 0) | 1 : SEED;
    seconds = argc > 2 ? atof(argv[2]) : seconds;
    return unit_run(NULL, NULL);
}
