/*
 * sided_hostile.c: a rank whose one-sided operations break the rules, spoken by hand: it is a thread of this process,
 * and sends messages to its peer as it likes.
 *
 * shows: attacks: a rank whose one-sided messages are nonsense, or name memory outside of a window, ends the
 *   communicator, and writes nothing
 */
#include "tests/comm/sided.h"

#include <stdatomic.h>

/* ---- heads ---- */

TEST(heads_of_messages_by_chance)
{
    unsigned seed = (unsigned)clock_now();
    unsigned taken = 0;
    for (unsigned n = 0; n < 200000; n++) {
        uint8_t bytes[COMM_SIDED_HEAD], again[COMM_SIDED_HEAD];
        struct comm_sided_head head = { .kind = (enum comm_sided_kind)(rand_r(&seed) % 4),
                                        .window = (uint32_t)rand_r(&seed) % 3,
                                        .offset = (uint64_t)rand_r(&seed) % 3,
                                        .size = (uint64_t)rand_r(&seed) % 5000 * ((unsigned)rand_r(&seed) % 2) };
        comm_sided_head_put(bytes, &head);
        for (unsigned i = 0; i < (unsigned)rand_r(&seed) % 3; i++)
            bytes[(unsigned)rand_r(&seed) % sizeof bytes] = (uint8_t)rand_r(&seed);
        const uint64_t length =
            rand_r(&seed) % 3 ? COMM_SIDED_HEAD + head.size : (uint64_t)rand_r(&seed) % 6000;
        if (!comm_sided_head_get(bytes, length, &head))
            continue;
        taken++;
        comm_sided_head_put(again, &head);
        assert_memory_equal(again, bytes, sizeof bytes);
        assert_true(head.kind == COMM_SIDED_PUT || head.kind == COMM_SIDED_WINDOW);
        if (head.kind == COMM_SIDED_WINDOW)
            assert_true(head.window && head.size && length == COMM_SIDED_HEAD);
        else
            assert_true(length == COMM_SIDED_HEAD + (head.size <= COMM_SIDED_INLINE ? head.size : 0));
    }
    assert_true(taken > 1000);
}

/* ---- a rank that breaks the rules ---- */

/* bytes: of the whole message; 0: as the head says. */
static const struct attack {
    const char *what, *why;
    struct comm_sided_head head;
    uint64_t bytes;
} attacks[] = {
    { "no head", "is no put", { .kind = COMM_SIDED_PUT }, COMM_SIDED_HEAD - 1 },
    { "nothing", "is no put", { .kind = COMM_SIDED_PUT }, 1 },
    { "no kind", "is no put", { .kind = (enum comm_sided_kind)99 }, COMM_SIDED_HEAD },
    { "bytes that are not there", "is no put", { COMM_SIDED_PUT, 1, 0, 50 }, COMM_SIDED_HEAD + 49 },
    { "bytes that are too many", "is no put", { COMM_SIDED_PUT, 1, 0, 50 }, COMM_SIDED_HEAD + 51 },
    { "a message that is too long", "cannot be taken", { COMM_SIDED_PUT, 1, 0, 50 },
      COMM_SIDED_HEAD + COMM_SIDED_INLINE + 1 },
    { "bytes in a signal", "is no put", { .kind = COMM_SIDED_PUT }, COMM_SIDED_HEAD + 1 },
    { "a signal in a window", "is no put", { COMM_SIDED_PUT, 1, 0, 0 }, COMM_SIDED_HEAD },
    { "another window", "which is not registered here", { COMM_SIDED_PUT, 2, 0, 50 }, 0 },
    { "behind the end", "which has 100", { COMM_SIDED_PUT, 1, 100, 1 }, 0 },
    { "over the end", "which has 100", { COMM_SIDED_PUT, 1, 51, 50 }, 0 },
    { "an offset that wraps", "which has 100", { COMM_SIDED_PUT, 1, UINT64_MAX - 9, 20 }, 0 },
    { "large and over the end", "which has 100", { COMM_SIDED_PUT, 1, 0, 1ull << 20 }, COMM_SIDED_HEAD },
    { "a size that wraps", "which has 100", { COMM_SIDED_PUT, 1, 50, UINT64_MAX - 9 }, COMM_SIDED_HEAD },
    { "a window twice", "not its next one", { COMM_SIDED_WINDOW, 1, 0, 8 }, COMM_SIDED_HEAD },
    { "a window too early", "not its next one", { COMM_SIDED_WINDOW, 3, 0, 8 }, COMM_SIDED_HEAD },
    { "a window of nothing", "is no put", { COMM_SIDED_WINDOW, 2, 0, 0 }, COMM_SIDED_HEAD },
};

static void sent(struct comm_transfer *t) { atomic_store((atomic_bool *)t->context, true); }

/* Rank 1 says this. */
static void attack(struct rank *r, const struct attack *a)
{
    static uint8_t message[COMM_SIDED_HEAD + COMM_SIDED_INLINE + 1];
    atomic_bool done = false;
    const uint64_t behind = a->head.size <= COMM_SIDED_INLINE ? a->head.size : 0;
    struct comm_transfer t = { .name = { COMM_SIDED_SPACE, 2 }, .memory = message, .done = sent, .context = &done };
    memset(message, 0x66, sizeof message);
    comm_sided_head_put(message, &a->head);
    t.size = a->bytes ? a->bytes : COMM_SIDED_HEAD + behind;
    if (comm_peer_send(r->context, 0, &t) == 0)
        while (!atomic_load(&done))
            sched_yield();
}

static void attacked(struct rank *r)
{
    static uint8_t memory[300], own[100];
    const struct attack *a = r->world->of;
    uint32_t window;
    memset(r->number ? own : memory, 0xee, r->number ? sizeof own : sizeof memory);
    if (comm_sided_begin(r->context) != 0 || !window_make(r, r->number ? own : memory + 100, 100, &window))
        return;
    if (r->number == 1)
        attack(r, a);
    r->status = comm_await(r->context, &(struct comm_sided){ .peer = 1 - r->number, .size = 9 }, 1, in_s(LIMIT_S),
                           r->error);
    if (r->number == 1)
        return;
    for (unsigned i = 0; i < sizeof memory; i++)
        if (memory[i] != 0xee) {
            snprintf(r->error, sizeof r->error, "byte %u was written", i);
            return;
        }
}

TEST(messages_that_break_the_rules_end_the_context)
{
    for (unsigned near = 0; near <= 2; near += 2)
        for (unsigned i = 0; i < sizeof attacks / sizeof *attacks; i++) {
            struct world w = { .size = 2, .near = near, .body = attacked, .of = (void *)(uintptr_t)&attacks[i] };
            unsigned failed = run_world(&w, &tcp);
            if (failed != 2 || !strstr(w.ranks[0].error, attacks[i].why) || !strstr(w.ranks[1].error, attacks[i].why))
                fail_msg("%s: %u failed: %s; %s", attacks[i].what, failed, w.ranks[0].error, w.ranks[1].error);
        }
}

/* ---- nonsense by chance ---- */

enum { INSIDE = 20000, AROUND = 40000 };

static struct nonsense { struct comm_transfer t; uint8_t bytes[COMM_SIDED_HEAD + 8000]; } nonsense[16];

static void nothing(struct comm_transfer *t) { (void)t; }

/* Heads of which most fit, messages and bytes as long as they say, or not. The last one ends the context, if the others
   have not, and if no bytes are missing. */
static void babble(struct rank *r, unsigned *seed)
{
    uint64_t number = 1;
    for (unsigned n = 0; n < 16; n++) {
        struct nonsense *one = &nonsense[n];
        struct comm_sided_head head = { .kind = n < 15 ? COMM_SIDED_PUT : (enum comm_sided_kind)99,
                                        .window = (uint32_t)rand_r(seed) % 20 ? 1 : 2,
                                        .size = 1 + (uint64_t)rand_r(seed) % (rand_r(seed) % 2 ? 100u : 9000u) };
        head.offset = (uint64_t)rand_r(seed) % (unsigned)(rand_r(seed) % 30 ? INSIDE : INSIDE + AROUND);
        if ((unsigned)rand_r(seed) % 30)
            head.offset -= head.offset + head.size > INSIDE && head.offset >= head.size ? head.size : 0;
        memset(one->bytes, 0x66, sizeof one->bytes);
        comm_sided_head_put(one->bytes, &head);
        const uint64_t behind = head.size <= COMM_SIDED_INLINE ? head.size : 0;
        one->t = (struct comm_transfer){ .name = { COMM_SIDED_SPACE, number + 1 }, .memory = one->bytes,
                                         .size = COMM_SIDED_HEAD + behind, .done = nothing };
        if ((unsigned)rand_r(seed) % 30 == 0)
            one->t.size = (uint64_t)rand_r(seed) % (sizeof one->bytes + 1);
        comm_peer_send(r->context, 0, &one->t);
        number++;
        if (behind || ++n == 16)
            continue;
        nonsense[n].t = (struct comm_transfer){ .name = { COMM_SIDED_BYTES_SPACE, number }, .memory = one->bytes,
                                                .size = head.size < 8000 ? head.size : 8000, .done = nothing };
        comm_peer_send(r->context, 0, &nonsense[n].t);
    }
}

static void babbled(struct rank *r)
{
    static uint8_t memory[INSIDE + 2 * AROUND], own[INSIDE];
    unsigned seed = *(unsigned *)r->world->of;
    uint32_t window;
    if (r->number == 0)
        memset(memory, 0xee, sizeof memory);
    if (comm_sided_begin(r->context) != 0 || !window_make(r, r->number ? own : memory + AROUND, INSIDE, &window))
        return;
    if (r->number == 1)
        babble(r, &seed);
    r->status = comm_await(r->context, &(struct comm_sided){ .peer = 1 - r->number, .size = 99 }, 1,
                           clock_now() + (r->number ? LIMIT_S * CLOCK_NS_PER_SECOND : 50 * CLOCK_NS_PER_MS), r->error);
    for (unsigned i = 0; r->number == 0 && i < sizeof memory; i++)
        if ((i < AROUND || i >= AROUND + INSIDE) && memory[i] != 0xee) {
            snprintf(r->error, sizeof r->error, "byte %u was written", i);
            r->status = -EBADMSG;
        }
}

TEST(nonsense_writes_nothing_outside_of_a_window)
{
    unsigned seed = (unsigned)clock_now();
    printf("# seed %u\n", seed);
    for (unsigned n = 0; n < 70; n++, seed++) {
        struct world w = { .size = 2, .near = n < 60 ? 2 : 0, .body = babbled, .of = &seed };
        if (run_world(&w, &tcp) != 2 || w.ranks[0].status == -EBADMSG)
            fail_msg("seed %u: %s", seed, w.ranks[0].error);
    }
}

/* Rank 1 announces more windows than a rank may be ahead of another one. */
static void ahead(struct rank *r)
{
    static struct nonsense announced[COMM_WINDOWS_MOST + 1];
    if (comm_sided_begin(r->context) != 0)
        return;
    for (unsigned n = 0; r->number == 1 && n <= COMM_WINDOWS_MOST; n++) {
        struct nonsense *one = &announced[n];
        comm_sided_head_put(one->bytes, &(struct comm_sided_head){ COMM_SIDED_WINDOW, n + 1, 0, 8 });
        one->t = (struct comm_transfer){ .name = { COMM_SIDED_SPACE, n + 1 }, .memory = one->bytes,
                                         .size = COMM_SIDED_HEAD, .done = nothing };
        comm_peer_send(r->context, 0, &one->t);
    }
    r->status = comm_await(r->context, &(struct comm_sided){ .peer = 1 - r->number, .size = 1 }, 1, in_s(LIMIT_S),
                           r->error);
}

TEST(windows_without_end_are_refused_at_the_bound)
{
    struct world w = { .size = 2, .body = ahead };
    assert_int_equal(run_world(&w, &tcp), 2);
    if (!strstr(w.ranks[0].error, "announces window 1025, which is not its next one, or too many"))
        fail_msg("%s", w.ranks[0].error);
}

int main(void) { return unit_run(NULL, NULL); }
