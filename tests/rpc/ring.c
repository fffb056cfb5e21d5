/*
 * ring: the ring by itself, in the memory of one process: what is written is read, whatever the sizes; what stands
 * beside its tail; and models of its two protocols, sleep and wake-up and the bytes beside the tail, over all
 * interleavings.
 *
 * shows: speed: short messages beside a ring's tail: every interleaving of writer and reader, lies, rounds of the ring
  *   with nothing else
 */
#include "tests/rpc/service.h"

#include "cpu/rpc/shm/ring.h"

#include <errno.h>
#include <sys/mman.h>

#include "tests/lib/unit.h"

/* ---- both ends of the rings ---- */

struct pair {
    void            *memory;
    struct ring_view side[2];       /* RING_CLIENT, RING_SERVER */
};

static void nothing(void *context) { (void)context; }

static void pair_open(struct pair *pair)
{
    size_t size = ring_memory_size(0);
    pair->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(pair->memory != MAP_FAILED);
    ring_format(pair->memory, 0);
    assert_int_equal(ring_attach(pair->memory, size, size, RING_CLIENT, &pair->side[RING_CLIENT]), 0);
    assert_int_equal(ring_attach(pair->memory, size, size, RING_SERVER, &pair->side[RING_SERVER]), 0);
}

static void pair_close(struct pair *pair)
{
    munmap(pair->memory, ring_memory_size(0));
}

/* ---- streams ---- */

TEST(streams_of_bytes)
{
    struct pair pair;
    pair_open(&pair);
    struct ring_view *client = &pair.side[RING_CLIENT], *server = &pair.side[RING_SERVER];
    enum { MOST = 3 * RING_SIZE };
    uint8_t *from = malloc(MOST), *to = malloc(MOST);
    test_pattern(1, from, MOST);
    uint64_t sent = 0, got = 0;
    while (got < 64 * (uint64_t)RING_SIZE) {
        uint64_t dice = test_random();
        size_t part = (size_t)(dice % (dice % 5 == 0 ? RING_SIZE : 5000));
        struct iovec two[2] = { { from + sent % MOST, part < MOST - sent % MOST ? part : MOST - sent % MOST },
                                { from, 0 } };
        two[1].iov_len = part - two[0].iov_len;
        ssize_t wrote = ring_write(client, two, 2, nothing, NULL);
        assert_in_range(wrote, 0, part);
        assert_true((size_t)wrote == part || sent + (uint64_t)wrote - got == RING_SIZE);   /* all, or full */
        sent += (uint64_t)wrote;
        assert_true(sent == got || ring_readable(server));
        size_t want = (size_t)(test_random() % (2 * part + 1));
        ssize_t read_now = ring_read(server, to, want, nothing, NULL);
        assert_int_equal(read_now, want < sent - got ? want : sent - got);
        size_t first = (size_t)read_now < MOST - got % MOST ? (size_t)read_now : MOST - got % MOST;
        assert_memory_equal(to, from + got % MOST, first);
        if ((size_t)read_now > first)
            assert_memory_equal(to + first, from, (size_t)read_now - first);
        got += (uint64_t)read_now;
    }
    free(from);
    free(to);
    pair_close(&pair);
}

/* A conversation: each side writes and reads pieces of all sizes, so that small ones find room beside the tail; and for
   rounds of the ring nothing but small ones. */
TEST(conversation)
{
    enum { MOST = 1 << 16, TURNS = 800000, PHASE = 200000 };
    struct pair pair;
    pair_open(&pair);
    struct ring_view *view = pair.side;
    uint8_t *pattern = malloc(2 * MOST), *to = malloc(2 * MOST);
    uint64_t sent[2] = { 0 }, got[2] = { 0 };
    unsigned near = 0;
    test_pattern(2, pattern, MOST);
    memcpy(pattern + MOST, pattern, MOST);
    for (unsigned turn = 0; turn < TURNS; turn++) {
        uint64_t dice = test_random();
        unsigned side = dice & 1;
        size_t part = (size_t)((dice >> 8) % (turn / PHASE % 2 ? RING_NEAR
                                              : dice % 16 == 1 ? 50000
                                              : dice % 4 == 0  ? 1000
                                                               : RING_NEAR + 10));
        if (dice & 2) {
            struct iovec data[2] = { { pattern + sent[side] % MOST, part / 2 },
                                     { pattern + sent[side] % MOST + part / 2, part - part / 2 } };
            ssize_t wrote = ring_write(&view[side], data, 2, nothing, NULL);
            assert_true((size_t)wrote == part || sent[side] + (uint64_t)wrote - got[side] == RING_SIZE);
            near += part > 0 && view[side].out.near_begin == sent[side] && sent[side] > 0;
            sent[side] += (uint64_t)wrote;
        } else {
            ssize_t read_now = ring_read(&view[1 - side], to, part, nothing, NULL);
            assert_int_equal(read_now, part < sent[side] - got[side] ? part : sent[side] - got[side]);
            assert_memory_equal(to, pattern + got[side] % MOST, (size_t)read_now);
            got[side] += (uint64_t)read_now;
        }
        assert_int_equal(ring_readable(&view[1 - side]), sent[side] != got[side]);
        assert_int_equal(ring_look(&view[1 - side], 1), sent[side] != got[side]);
    }
    assert_true(near > TURNS / 1000);
    free(pattern);
    free(to);
    pair_close(&pair);
}

/* Small writes move the positions too: after rounds of the ring with nothing else, a long write still takes what
 * fits. */
TEST(near_then_full)
{
    struct pair pair;
    pair_open(&pair);
    struct ring_view *side = pair.side;
    uint8_t small[48] = { 0 }, *big = calloc(1, 2 * RING_SIZE);
    struct iovec one = { small, sizeof small }, much = { big, 2 * RING_SIZE };
    for (unsigned i = 0; i < 3 * RING_SIZE / sizeof small; i++)
        for (unsigned who = 0; who < 2; who++) {
            assert_int_equal(ring_write(&side[who], &one, 1, nothing, NULL), sizeof small);
            assert_true(i == 0 || side[who].out.near_begin == i * sizeof small);
            assert_int_equal(ring_read(&side[1 - who], small, sizeof small, nothing, NULL), sizeof small);
        }
    assert_int_equal(ring_write(&side[0], &much, 1, nothing, NULL), RING_SIZE);
    assert_int_equal(ring_read(&side[1], big, 2 * RING_SIZE, nothing, NULL), RING_SIZE);

    /* The position's lowest bits, which tell where the bytes beside the tail begin, come again: with other bytes. */
    uint64_t begin = side[0].out.near_begin, at;
    memset(big, 7, 2 * RING_SIZE);
    while ((at = atomic_load(&side[0].out.tail)) < begin + 3 * (UINT64_C(1) << 24)) {
        uint64_t next = begin + ((at - begin) / (UINT64_C(1) << 24) + 1) * (UINT64_C(1) << 24);
        much.iov_len = next - at < RING_SIZE ? (size_t)(next - at) : RING_SIZE / 2 + 1;
        assert_int_equal(ring_write(&side[0], &much, 1, nothing, NULL), much.iov_len);
        assert_int_equal(ring_read(&side[1], big + RING_SIZE, RING_SIZE, nothing, NULL), much.iov_len);
        for (size_t i = 0; i < much.iov_len; i++)
            assert_true(big[RING_SIZE + i] == 7);
    }
    free(big);
    pair_close(&pair);
}

/* What a hostile writer says of the bytes beside its tail is refused, or costs it its own bytes. */
TEST(near_lies)
{
    static const uint32_t sizes[] = { 0, 1, 3, 16, 17, RING_NEAR, RING_NEAR + 1, 255 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (uint64_t begin = 0; begin < 20; begin++) {
            struct pair pair;
            pair_open(&pair);
            struct ring_view *client = &pair.side[RING_CLIENT], *server = &pair.side[RING_SERVER];
            uint8_t to[64];
            atomic_store(&client->out.control->beside, begin << 40 | (uint64_t)sizes[i] << 32);
            atomic_store(&client->out.control->tail, 16);
            ssize_t got = 0, all = 0;
            while ((got = ring_read(server, to, sizeof to, nothing, NULL)) > 0)
                all += got;
            assert_true((got == 0 && all == 16) || got == -EPROTO);
            pair_close(&pair);
        }
    }
}

/* ---- models ---- */

/* The protocol of sleep and wake-up, all interleavings: the mover stores the position (0), looks at the word (1), takes
   it (2), wakes (3); the sleeper sets its bit (0), looks at the position (1), reads the word to sleep on (2), sleeps
   unless it has changed (3). Sequentially consistent steps, as all four accesses are. */
struct model { int mover, sleeper; bool moved, bit, seen, asleep, expected; };

static void explore(struct model m, unsigned *ends, unsigned *slept)
{
    bool stuck = true;
    if (m.mover < 4) {
        struct model next = m;
        next.mover++;
        switch (m.mover) {
        case 0: next.moved = true; break;
        case 1: next.mover = m.bit ? 2 : 4; break;
        case 2: next.bit = false; break;
        case 3: next.asleep = false; next.sleeper = m.asleep ? 4 : m.sleeper; break;
        }
        explore(next, ends, slept);
        stuck = false;
    }
    if (m.sleeper < 4 && !m.asleep) {
        struct model next = m;
        next.sleeper++;
        switch (m.sleeper) {
        case 0: next.bit = true; break;
        case 1: next.sleeper = m.moved ? 4 : 2; break;
        case 2: next.expected = m.bit; next.sleeper = m.bit ? 3 : 4; break;
        case 3: next.asleep = m.bit == m.expected; next.sleeper = next.asleep ? 3 : 4; *slept += next.asleep; break;
        }
        explore(next, ends, slept);
        stuck = false;
    }
    if (stuck) {
        ++*ends;
        assert_false(m.asleep);
        assert_int_equal(m.sleeper, 4);
    }
}

TEST(all_interleavings)
{
    unsigned ends = 0, slept = 0;
    explore((struct model){ 0 }, &ends, &slept);
    assert_in_range(ends, 10, 1000);
    assert_true(slept > 0);
}

/* The bytes beside the tail, all interleavings of a writer's steps with those of a reader that also writes (which is
   when it tells what it has taken): four messages, each of one unit, near when that is free, else in the ring. Each
   access to shared memory is a step; the orders in ring.c are those that make them appear in this order. */
struct near_model {
    int writer, sent;               /* next step; messages shown */
    int reader, got;
    int tail, taken, near_begin, near_value, ring[4];       /* shared */
    bool near;                      /* the writer's */
    int tail_seen;                  /* the reader's */
};

static void explore_near(struct near_model m, unsigned *ends, unsigned *near)
{
    enum { MESSAGES = 4 };
    bool stuck = true;
    if (m.sent < MESSAGES) {
        struct near_model next = m;
        next.writer++;
        switch (m.writer) {
        case 0: next.near = m.taken == m.sent; break;
        case 1:
            if (m.near) {
                assert_true(m.got == m.sent);           /* what stood there has been read */
                next.near_value = m.sent;
                ++*near;
            } else {
                next.ring[m.sent] = m.sent;
            }
            break;
        case 2: next.near_begin = m.near ? m.sent : m.near_begin; break;
        case 3: next.tail = ++next.sent; next.writer = 0; break;
        }
        explore_near(next, ends, near);
        stuck = false;
    }
    if (m.reader < 4 && (m.reader > 0 || m.got < m.tail || m.taken < m.got)) {
        struct near_model next = m;
        next.reader++;
        switch (m.reader) {
        case 0: next.tail_seen = m.tail; break;
        case 1:                                         /* reads the next message, if there is one */
            if (m.got < m.tail_seen) {
                assert_int_equal(m.near_begin == m.got ? m.near_value : m.ring[m.got], m.got);
                next.got++;
            }
            break;
        case 2: next.taken = m.got; next.reader = 0; break;     /* with a write of its own */
        }
        explore_near(next, ends, near);
        if (m.reader == 2) {                            /* or it reads on without one */
            next = m;
            next.reader = 0;
            if (next.got < next.tail)
                explore_near(next, ends, near);
        }
        stuck = false;
    }
    if (stuck) {
        ++*ends;
        assert_int_equal(m.got, MESSAGES);
    }
}

TEST(near_interleavings)
{
    unsigned ends = 0, near = 0;
    explore_near((struct near_model){ .near_begin = -1, .ring = { -1, -1, -1, -1 } }, &ends, &near);
    print_message("# %u interleavings, %u writes beside the tail\n", ends, near);
    assert_true(ends > 1000 && near > 1000);
}

int main(void) { return unit_run(NULL, NULL); }
