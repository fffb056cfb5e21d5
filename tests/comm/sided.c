/*
 * sided.c: puts, signals and waits of contexts whose ranks are threads of this process, over links and without.
 *
 * shows: one-sided operations: puts of all sizes arrive, each before its signal, in the order of their rank, over TCP,
 *   shared memory and within a process; random ones against a model
 * shows: one-sided operations: a put needs nothing of the rank that it is for, which may wait in a collective meanwhile
 * shows: one-sided operations: a rank removes windows whether or not the others have registered theirs, and has so many
 *   at a time
 * shows: one-sided operations: an abort, a rank that leaves and a deadline are an error of each rank that waits
 */
#include "tests/comm/sided.h"

enum { MOST = 1500000, PART = 200000 };

/* All ways between ranks: links over TCP, through memory, and none. */
static void over_all(unsigned size, void (*body)(struct rank *), void *of)
{
    for (unsigned way = 0; way < 4; way++) {
        struct world w = { .size = size, .body = body, .of = of, .near = way == 2 ? size : way == 3 ? 2 : 0 };
        must_succeed(&w, way == 1 ? &shm : &tcp);
    }
}

/* ---- what arrives ---- */

static uint8_t byte_of(unsigned from, unsigned to, uint64_t i)
{
    return (uint8_t)(from * 31 + to * 7 + i * 13 + i / 251);
}

static void to_all(struct rank *r)
{
    static const uint64_t sizes[] = { 1, 24, 4096, 4097, 65535, 65536, 65537, 600001, MOST };
    const unsigned ranks = r->world->size;
    uint8_t *in = malloc((size_t)MOST * ranks), *out = malloc((size_t)MOST * ranks);
    uint32_t window = 0;
    struct comm_sided list[RANKS];
    bool fine = comm_sided_begin(r->context) == 0 && window_make(r, in, (uint64_t)MOST * ranks, &window);
    for (unsigned s = 0; fine && s < sizeof sizes / sizeof *sizes; s++) {
        memset(in, 0xee, (size_t)MOST * ranks);
        fine = meet(r);
        for (unsigned p = 0; fine && p < ranks; p++) {
            for (uint64_t i = 0; i < sizes[s]; i++)
                out[p * MOST + i] = byte_of(r->number, p, i);
            list[p] = (struct comm_sided){ p, window, (uint64_t)r->number * MOST, out + p * MOST, sizes[s] };
        }
        fine = fine && good(r, comm_put(r->context, list, ranks, in_s(LIMIT_S), r->error));
        for (unsigned p = 0; fine && p < ranks; p++)
            fine = await(r, p, 1);
        for (unsigned p = 0; fine && p < ranks; p++)
            for (uint64_t i = 0; fine && i < sizes[s] + (sizes[s] < MOST); i++)
                if (in[p * MOST + i] != (i < sizes[s] ? byte_of(p, r->number, i) : 0xee))
                    fine = wrong(r, "a byte of a put is another one");
        fine = fine && meet(r);
    }
    int removed = fine ? -EBUSY : 0;
    while (removed == -EBUSY)
        removed = comm_window_remove(r->context, window);
    if (removed < 0)
        wrong(r, "a window cannot be removed");
    free(in);
    free(out);
}

TEST(puts_of_all_sizes_arrive_before_their_signals)
{
    over_all(1, to_all, NULL);
    over_all(3, to_all, NULL);
}

/* ---- by chance ---- */

struct draw { unsigned to; uint64_t at, size; uint8_t value; };

/* Each rank draws what all do. In `to`'s window each rank has a part of its own, whose bytes then are those of its
   puts, one after the other, however they overlap. */
static struct draw draw(unsigned *seed, unsigned ranks)
{
    struct draw d = { .to = (unsigned)rand_r(seed) % ranks, .value = (uint8_t)rand_r(seed) };
    static const uint64_t most[] = { 1, 30, 4200, 70000, PART };
    d.size = (uint64_t)rand_r(seed) % (most[rand_r(seed) % 5] + 1);
    d.at = (uint64_t)rand_r(seed) % (PART - d.size + 1);
    return d;
}

static bool round_of_chance(struct rank *r, unsigned *seeds, uint32_t window, uint8_t *out, uint8_t *model)
{
    enum { PUTS = 24 };
    const unsigned ranks = r->world->size;
    struct comm_sided mine[PUTS];
    uint64_t signals[RANKS] = { 0 };
    unsigned given = 0;
    for (unsigned from = 0; from < ranks; from++)
        for (unsigned n = 0; n < PUTS; n++) {
            const struct draw d = draw(&seeds[from], ranks);
            if (d.to == r->number) {
                memset(model + (size_t)from * PART + d.at, d.value, d.size);
                signals[from]++;
            }
            if (from != r->number)
                continue;
            uint8_t *bytes = out + (size_t)n * PART;
            memset(bytes, d.value, d.size);
            mine[given++] = (struct comm_sided){ d.to, window, (uint64_t)from * PART + d.at, bytes, d.size };
        }
    for (unsigned at = 0, part; at < PUTS; at += part) { /* some at a time */
        part = 1 + (seeds[r->number] + at) % 7;
        part = part < PUTS - at ? part : PUTS - at;
        if (!good(r, comm_put(r->context, mine + at, part, in_s(LIMIT_S), r->error)))
            return false;
    }
    for (unsigned p = 0; p < ranks; p++)
        for (; signals[p] > 0; signals[p]--)
            if (!await(r, p, 1))
                return false;
    return true;
}

static void by_chance(struct rank *r)
{
    const unsigned ranks = r->world->size;
    unsigned seeds[RANKS];
    uint8_t *in = calloc(ranks, PART), *model = calloc(ranks, PART), *out = malloc(24 * (size_t)PART);
    uint32_t window = 0;
    for (unsigned p = 0; p < ranks; p++)
        seeds[p] = *(unsigned *)r->world->of + p;
    bool fine = comm_sided_begin(r->context) == 0 && window_make(r, in, (uint64_t)ranks * PART, &window);
    for (unsigned n = 0; fine && n < 8; n++) {
        fine = round_of_chance(r, seeds, window, out, model);
        if (fine && memcmp(in, model, (size_t)ranks * PART) != 0)
            fine = wrong(r, "the window differs from the model");
        fine = fine && meet(r);
    }
    free(in);
    free(model);
    free(out);
}

TEST(random_puts_against_a_model)
{
    const char *given = getenv("FLYT_COMM_SEED");
    unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)clock_now();
    printf("# seed %u\n", seed);
    over_all(2, by_chance, &seed);
    over_all(4, by_chance, &seed);
}

/* ---- order ---- */

/* Rank 0 puts one number behind the other, and rank 1 looks at each when its signal is there. */
static void counted(struct rank *r)
{
    enum { TIMES = 3000 };
    static uint64_t in[2][TIMES + 1];
    uint32_t window;
    memset(in[r->number], 0, sizeof in[0]);
    if (comm_sided_begin(r->context) != 0 || !window_make(r, in[r->number], sizeof in[0], &window))
        return;
    for (uint64_t n = 1; r->number == 0 && n <= TIMES; n++)
        if (!put(r, 1, window, n * 8, &n, 8))
            return;
    for (uint64_t n = 1; r->number == 1 && n <= TIMES; n++) {
        if (!await(r, 0, 1))
            return;
        if (in[1][n] != n) {
            wrong(r, "a signal came before its put");
            return;
        }
    }
    meet(r);
}

TEST(a_signal_comes_behind_its_put)
{
    for (unsigned near = 0; near <= 2; near += 2) {
        struct world w = { .size = 2, .near = near, .body = counted };
        must_succeed(&w, &shm);
    }
}

/* Rank 0's put is so large that it is complete when all of it is there. Up to then rank 1 waits in a collective that
   rank 0 has not called. */
static void unattended(struct rank *r)
{
    static uint8_t in[2][MOST], out[MOST];
    uint32_t window;
    struct comm_call barrier = { .kind = COMM_BARRIER };
    if (comm_sided_begin(r->context) != 0 || !window_make(r, in[r->number], MOST, &window))
        return;
    if (r->number == 0) {
        memset(out, 0x42, sizeof out);
        if (!put(r, 1, window, 0, out, MOST))
            return;
    }
    if (!good(r, comm_call(r->context, &barrier, in_s(LIMIT_S), r->error)) || (r->number == 1 && !await(r, 0, 1)))
        return;
    if (r->number == 1 && memcmp(in[1], out, MOST) != 0)
        wrong(r, "the put has not arrived");
    meet(r);
}

TEST(a_put_arrives_while_its_rank_waits_for_something_else)
{
    for (unsigned near = 0; near <= 2; near += 2) {
        struct world w = { .size = 2, .near = near, .body = unattended };
        must_succeed(&w, &tcp);
    }
}

/* ---- what is refused ---- */

static void arguments(struct rank *r)
{
    static uint8_t in[3][100], out[100];
    uint32_t window;
    uint64_t sizes[RANKS];
    const struct comm_window none = { .memory = in, .size = 0 };
    const struct comm_sided wrong_puts[] = {
        { 3, 1, 0, out, 1 },   { 0, 2, 0, out, 1 },           { 0, 1, 100, out, 1 },        { 0, 1, 0, out, 101 },
        { 0, 1, 0, NULL, 1 },  { 0, 0, 0, out, 1 },           { 0, 1, UINT64_MAX, out, 2 },
        { 0, 1, 1, out, UINT64_MAX }
    };
    const struct comm_sided wrong_waits[] = { { .peer = 3, .size = 1 },
                                              { .peer = 0 },
                                              { .peer = 0, .size = 1ull << 32 } };
    char error[RPC_ERROR_SIZE];
    const struct comm_sided one = { 0, 1, 0, out, 1 };
    if (comm_put(r->context, &one, 1, in_s(1), error) != -ENOTSUP ||
        comm_await(r->context, &one, 1, 0, error) != -ENOTSUP)
        wrong(r, "a context that takes none");
    if (comm_sided_begin(r->context) != 0 || comm_window_add(r->context, &none, &window, error) != -EINVAL)
        wrong(r, "a window without memory");
    if (r->status < 0 || !window_make(r, in[r->number], 100, &window))
        return;
    for (unsigned i = 0; i < sizeof wrong_puts / sizeof *wrong_puts; i++)
        if (comm_put(r->context, &wrong_puts[i], 1, in_s(1), error) != -EINVAL)
            wrong(r, "a wrong put");
    for (unsigned i = 0; i < sizeof wrong_waits / sizeof *wrong_waits; i++)
        if (comm_await(r->context, &wrong_waits[i], 1, in_s(1), error) != -EINVAL)
            wrong(r, "a wrong wait");
    if (comm_window_sizes(r->context, 2, sizes, error) != -ENOENT || comm_window_remove(r->context, 2) != -ENOENT)
        wrong(r, "a window that there is not");
    if (r->status == 0)
        meet(r); /* nothing has happened */
}

TEST(wrong_arguments_are_refused_and_nothing_happens)
{
    struct world w = { .size = 3, .body = arguments };
    must_succeed(&w, &tcp);
}

/* ---- windows come and go ---- */

/* A rank has so many at a time, and not one more; those that were removed do not count. */
static void all_of_them(struct rank *r)
{
    static uint8_t memory[2][8];
    const struct comm_window one = { .memory = memory[r->number], .size = 8 };
    uint64_t sizes[RANKS];
    uint32_t window;
    int status = comm_sided_begin(r->context);
    for (unsigned n = 0; status == 0 && n < COMM_WINDOWS_MOST; n++)
        status = comm_window_add(r->context, &one, &window, r->error);
    for (int ready = 0; ready == 0 && good(r, status);) {
        ready = comm_window_sizes(r->context, COMM_WINDOWS_MOST, sizes, r->error);
        if (ready < 0 || (ready == 0 && !strstr(r->error, "window 1024 is not registered by rank ")))
            status = -EBADMSG;
    }
    if (!good(r, status) || !meet(r))
        return;
    if (comm_window_add(r->context, &one, &window, r->error) != -ENOMEM || !strstr(r->error, "has 1024, the most"))
        wrong(r, "a window more than the most");
    while ((status = comm_window_remove(r->context, 7)) == -EBUSY)
        sched_yield();
    if (good(r, status) && good(r, comm_window_add(r->context, &one, &window, r->error)) &&
        window != COMM_WINDOWS_MOST + 1)
        wrong(r, "a number is used again");
    meet(r);
}

/* Rank 0 removes a window of which it has not heard from rank 1, which registers it then, and the next one. */
static void removed_early(struct rank *r)
{
    static uint8_t memory[2][8];
    uint32_t window;
    uint64_t sizes[RANKS];
    const struct comm_window one = { .memory = memory[r->number], .size = 8 };
    int status = comm_sided_begin(r->context);
    if (status == 0 && r->number == 0)
        status = comm_window_add(r->context, &one, &window, r->error);
    while (status == 0 && r->number == 0 && (status = comm_window_remove(r->context, 1)) == -EBUSY)
        status = sched_yield();
    if (!good(r, status) || !meet(r))
        return;
    if (r->number == 0 && comm_window_sizes(r->context, 1, sizes, r->error) != -ENOENT)
        wrong(r, "a window that was removed");
    if ((r->number == 1 && !window_make(r, memory[1], 8, &window)) || !window_make(r, memory[r->number], 8, &window))
        return;
    if (window != 2)
        wrong(r, "another number");
    if (meet(r) && r->number == 1 && put(r, 0, 2, 0, "abcdefgh", 8))
        put(r, 0, 1, 0, "abcdefgh", 8);
    if (r->number == 0 && await(r, 1, 1) && memcmp(memory[0], "abcdefgh", 8) == 0)
        await(r, 1, 1);
}

TEST(a_window_is_removed_before_others_have_it)
{
    struct world w = { .size = 2, .body = removed_early };
    run_world(&w, &tcp);
    if (!strstr(w.ranks[0].error, "puts into window 1, which is not registered here"))
        fail_msg("%s; %s", w.ranks[0].error, w.ranks[1].error);
}

TEST(the_windows_of_a_rank_are_bounded)
{
    struct world w = { .size = 2, .body = all_of_them };
    must_succeed(&w, &tcp);
}

/* A window that rank 0 has removed, or whose memory has gone. */
static bool gone(const void *of, void *memory, uint64_t size, bool written)
{
    (void)of, (void)memory, (void)size;
    return written;
}

static void removed(struct rank *r)
{
    static uint8_t memory[2][50000];
    const bool removes = r->world->of == NULL;
    const struct comm_window one = { .memory = memory[r->number], .size = 50000, .look = removes ? NULL : gone };
    uint32_t window;
    uint64_t sizes[RANKS];
    int ready = comm_sided_begin(r->context);
    memset(memory[r->number], 0xee, sizeof memory[0]);
    if (ready == 0)
        ready = comm_window_add(r->context, &one, &window, r->error);
    while (ready == 0)
        ready = comm_window_sizes(r->context, window, sizes, r->error);
    if (!good(r, ready) || !meet(r))
        return;
    if (r->number == 0 && removes && comm_window_remove(r->context, window) != 0)
        return;
    if (!meet(r))
        return;
    if (r->number == 1 && !put(r, 0, window, 0, memory[1], r->world->near ? 10 : 50000))
        return;
    await(r, 1, 1);
    if (r->number == 0 && memory[0][0] != 0xee)
        r->status = 0;
}

TEST(a_put_into_a_window_that_has_gone_ends_the_context)
{
    for (unsigned i = 0; i < 4; i++) {
        struct world w = { .size = 2, .near = i / 2 * 2, .body = removed, .of = i % 2 ? &w : NULL };
        const char *why = i % 2 ? "whose memory is not there any more" : "which is not registered here";
        unsigned failed = run_world(&w, &tcp);
        if (failed != 2 || !strstr(w.ranks[0].error, why) || !strstr(w.ranks[1].error, why))
            fail_msg("%u: %u failed: %s; %s", i, failed, w.ranks[0].error, w.ranks[1].error);
    }
}

/* ---- when something goes wrong ---- */

static void waits_for_one_that_aborts(struct rank *r)
{
    if (comm_sided_begin(r->context) != 0 || !meet(r))
        return;
    if (r->number == 0)
        comm_context_abort(r->context, -ECANCELED, "it has had enough");
    const uint64_t begin = clock_now();
    await(r, r->number == 1 ? 2 : 1, 1); /* some wait for others than the one that aborts */
    if (clock_now() - begin > CLOCK_NS_PER_SECOND)
        snprintf(r->error, sizeof r->error, "it took longer than a second");
}

TEST(an_abort_is_an_error_of_all_that_wait)
{
    for (unsigned near = 0; near <= 3; near += 3) {
        struct world w = { .size = 3, .near = near, .body = waits_for_one_that_aborts };
        assert_int_equal(run_world(&w, &tcp), 3);
        for (unsigned r = 0; r < 3; r++)
            if (!strstr(w.ranks[r].error, "rank 0: it has had enough"))
                fail_msg("rank %u: %s", r, w.ranks[r].error);
    }
}

/* Rank 0 puts, and leaves; what it has put is there. */
static void waits_for_one_that_leaves(struct rank *r)
{
    static uint8_t memory[2][10];
    uint32_t window;
    if (comm_sided_begin(r->context) != 0 || !window_make(r, memory[r->number], 10, &window) || !meet(r))
        return;
    if (r->number == 0) {
        for (unsigned n = 0; n < 50; n++)
            if (!put(r, 1, window, 1, "abcde", 5))
                return;
        comm_context_destroy(r->context);
        r->context = NULL;
        return;
    }
    if (await(r, 0, 50) && memcmp(memory[1] + 1, "abcde", 5) == 0)
        await(r, 0, 1);
}

TEST(a_rank_that_leaves_is_an_error_of_all_that_wait_for_more)
{
    for (unsigned near = 0; near <= 2; near += 2) {
        struct world w = { .size = 2, .near = near, .body = waits_for_one_that_leaves };
        assert_int_equal(run_world(&w, &tcp), 1);
        if (!strstr(w.ranks[1].error, "a wait for signals of rank 0: it has ended its context"))
            fail_msg("%s", w.ranks[1].error);
    }
}

static void waits_too_long(struct rank *r)
{
    if (comm_sided_begin(r->context) != 0 || !meet(r))
        return;
    const struct comm_sided two[] = { { .peer = 0, .size = 1 }, { .peer = 1, .size = 2 } };
    const struct comm_sided signal = { .peer = 2 };
    if (r->number == 1)
        r->status = comm_put(r->context, &signal, 1, in_s(LIMIT_S), r->error);
    if (r->status == 0)
        r->status = comm_await(r->context, two, 2, r->number == 2 ? clock_now() + 300 * CLOCK_NS_PER_MS : in_s(LIMIT_S),
                               r->error);
}

TEST(a_deadline_names_the_ranks_that_are_missing)
{
    struct world w = { .size = 3, .body = waits_too_long };
    assert_int_equal(run_world(&w, &tcp), 3);
    for (unsigned r = 0; r < 3; r++)
        if (!strstr(w.ranks[r].error, "rank 2: a wait for signals was not complete in time; expected from rank "
                                      "0 (0 of 1) 1 (1 of 2)"))
            fail_msg("rank %u: %s", r, w.ranks[r].error);
}

int main(void) { return unit_run(NULL, NULL); }
