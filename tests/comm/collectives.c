/*
 * collectives.c: contexts whose ranks are threads of this process, or children of it, over real links.
 *
 * shows: collectives: each one, by each algorithm, on 1 to 8 ranks and 16, over TCP and shared memory, against a model
 * shows: collectives: ranks of one process meet without a connection, beside others that have links; a failure of one
 *   is a failure of all
 * shows: collectives: messages of one group are under way at a time: rings, all pairs, a rank and itself
 * shows: collectives: messages with tags between ranks, in any order
 * shows: collectives: the table by which algorithms are chosen is measured once, saved, forced, and the same on all
 *   ranks
 * shows: collectives: calls that differ, a rank that stays away, and a killed one are an error on every rank
 */
#include "tests/comm/world.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void all_kinds(struct rank *r)
{
    const uint64_t *counts = r->world->of;
    for (; *counts != UINT64_MAX; counts++)
        for (enum comm_kind kind = COMM_BROADCAST; kind < COMM_KINDS; kind++) {
            bool fits = r->world->algorithm == COMM_AUTOMATIC ||
                        comm_algorithm_fits(kind, r->world->algorithm, false);
            if (fits && !one_call(r, kind, *counts, (unsigned)(*counts + kind) % r->world->size,
                                  (unsigned)(*counts % 3)))
                return;
        }
    struct comm_call barrier = { .kind = COMM_BARRIER };
    r->status = comm_call(r->context, &barrier, in_s(LIMIT_S), r->error);
}

TEST(each_collective_by_each_algorithm_over_tcp)
{
    static const uint64_t counts[] = { 0, 1, 5, 1000, 33333, UINT64_MAX };
    for (unsigned size = 1; size <= 5; size++)
        for (enum comm_algorithm algorithm = COMM_AUTOMATIC; algorithm < COMM_DISSEMINATION; algorithm++) {
            struct world w = { .size = size, .algorithm = algorithm, .body = all_kinds,
                               .of = (void *)(uintptr_t)counts };
            must_succeed(&w, &tcp);
        }
}

TEST(ranks_of_one_process_need_no_links)
{
    static const uint64_t counts[] = { 0, 1, 1000, 300001, UINT64_MAX };
    for (unsigned size = 2; size <= 5; size++)
        for (unsigned near = 2; near <= 5; near += 3) {
            struct world w = { .size = size, .near = near, .body = all_kinds, .of = (void *)(uintptr_t)counts };
            must_succeed(&w, &tcp);
        }
}

TEST(collectives_of_many_ranks_and_large_ones_over_shared_memory)
{
    static const uint64_t small[] = { 1, 17, 4096, UINT64_MAX }, large[] = { 700001, UINT64_MAX };
    for (unsigned size = 6; size <= 16; size += size == 8 ? 8 : 1) {
        struct world w = { .size = size, .body = all_kinds, .of = (void *)(uintptr_t)small };
        must_succeed(&w, &shm);
    }
    struct world w = { .size = 4, .body = all_kinds, .of = (void *)(uintptr_t)large };
    must_succeed(&w, &shm);
}

/* All ranks draw the same calls. */
static void random_calls(struct rank *r)
{
    unsigned seed = *(unsigned *)r->world->of;
    const char *text = getenv("FLYT_COMM_RANDOM");
    for (unsigned left = text ? (unsigned)atoi(text) : 200; left > 0; left--) {
        enum comm_kind kind = (enum comm_kind)(COMM_BROADCAST + rand_r(&seed) % (COMM_KINDS - COMM_BROADCAST));
        uint64_t count = (uint64_t)rand_r(&seed) % (rand_r(&seed) % 16 ? 3000 : 60000);
        unsigned root = (unsigned)rand_r(&seed) % r->world->size, misaligned = (unsigned)rand_r(&seed) % 4;
        if (!one_call(r, kind, count, root, misaligned))
            return;
    }
}

TEST(random_calls_of_all_kinds)
{
    const char *given = getenv("FLYT_COMM_SEED");
    unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)clock_now();
    bool network = getenv("FLYT_COMM_TCP"); /* else ranks of this process use its memory, too */
    printf("# seed %u\n", seed);
    for (unsigned size = 2; size <= 7; size += 5)
        for (enum comm_algorithm algorithm = COMM_AUTOMATIC; algorithm < COMM_DISSEMINATION; algorithm += 2) {
            struct world w = { .size = size, .algorithm = algorithm, .body = random_calls, .of = &seed };
            must_succeed(&w, size == 2 || network ? &tcp : &shm);
        }
}

/* ---- parts of different sizes ---- */

static void uneven(struct rank *r)
{
    enum { MOST = 4000 };
    unsigned ranks = r->world->size, me = r->number;
    uint64_t counts[RANKS], places[RANKS], sends[RANKS], receives[RANKS], total = 0;
    int32_t in[MOST], out[MOST];
    for (unsigned i = 0; i < ranks; i++) {
        counts[i] = (i * 37 + 11) % 90;
        places[i] = total + i;                  /* with a gap between */
        total = places[i] + counts[i];
        sends[i] = (me * 3 + i * 5) % 40;
        receives[i] = (i * 3 + me * 5) % 40;
    }
    memset(out, 0xff, sizeof out);
    for (unsigned i = 0; i < MOST; i++)
        in[i] = (int32_t)(me * 10000 + i);
    struct comm_call c = { .kind = COMM_ALL_GATHER, .in = in, .out = out, .type = COMM_INT32, .counts = counts,
                           .places = places };
    r->status = comm_call(r->context, &c, in_s(LIMIT_S), r->error);
    for (unsigned i = 0; i < ranks && r->status == 0; i++)
        for (uint64_t k = 0; k <= counts[i]; k++)
            if (out[places[i] + k] != (k == counts[i] ? -1 : (int32_t)(i * 10000 + k)))
                r->status = -EBADMSG;
    if (r->status < 0)
        return;
    c = (struct comm_call){ .kind = COMM_REDUCE_SCATTER, .in = in, .out = out, .type = COMM_INT32,
                            .operation = COMM_MAXIMUM, .counts = counts, .places = places };
    r->status = comm_call(r->context, &c, in_s(LIMIT_S), r->error);
    for (uint64_t k = 0; k < counts[me] && r->status == 0; k++)
        r->status = out[k] == (int32_t)((ranks - 1) * 10000 + places[me] + k) ? 0 : -EBADMSG;
    if (r->status < 0)
        return;
    c = (struct comm_call){ .kind = COMM_ALL_TO_ALL, .in = in, .out = out, .type = COMM_INT32, .counts = sends,
                            .in_counts = receives };
    r->status = comm_call(r->context, &c, in_s(LIMIT_S), r->error);
    for (unsigned i = 0, at = 0; i < ranks && r->status == 0; i++) {
        uint64_t from = 0;
        for (unsigned j = 0; j < me; j++)
            from += (i * 3 + j * 5) % 40;
        for (uint64_t k = 0; k < receives[i]; k++, at++)
            if (out[at] != (int32_t)(i * 10000 + from + k))
                r->status = -EBADMSG;
    }
}

TEST(parts_may_differ_in_size)
{
    struct world w = { .size = 5, .body = uneven };
    must_succeed(&w, &tcp);
}

/* ---- every type and operation ---- */

static void types(struct rank *r)
{
    unsigned ranks = r->world->size;
    for (enum comm_type type = COMM_INT8; type < COMM_TYPES; type++)
        for (enum comm_operation op = COMM_SUM; op < COMM_OPERATIONS; op++) {
            size_t size = comm_type_size(type);
            uint8_t zero[8] = { 0 }, one[8] = { 0 }, two[8], in[8 * 9], out[8 * 9], want[8];
            /* 1 of the type, made without arithmetic of this test's own: a byte, or what 1.0 looks like */
            uint16_t bits = comm_small_from_float(type, 1);
            float f = 1;
            double d = 1;
            one[0] = 1;
            if (type == COMM_FLOAT32)
                memcpy(one, &f, 4);
            else if (type == COMM_FLOAT64)
                memcpy(one, &d, 8);
            else if (type == COMM_FLOAT16 || type >= COMM_BFLOAT16)
                memcpy(one, &bits, size);
            comm_reduce(type, COMM_SUM, two, one, one, 1);
            for (unsigned i = 0; i < 9; i++)
                memcpy(in + i * size, r->number == i % ranks ? two : one, size);
            memcpy(want, zero, 8);
            /* one rank has 2, the others 1 */
            for (unsigned i = 0; i + 1 < ranks; i++)
                comm_reduce(type, COMM_SUM, want, want, one, 1);
            comm_reduce(type, COMM_SUM, want, want, two, 1);
            if (op == COMM_PRODUCT || op == COMM_MAXIMUM)
                memcpy(want, two, size);
            if (op == COMM_MINIMUM)
                memcpy(want, one, size);
            if (op == COMM_AVERAGE)
                comm_reduce_finish(type, op, want, 1, ranks);
            if (op == COMM_MULTIPLIED_SUM)
                comm_reduce_multiply(type, want, want, two, 1);
            struct comm_call c = { .kind = COMM_ALL_REDUCE, .in = in, .out = out, .count = 9, .type = type,
                                   .operation = op, .factor = two };
            r->status = comm_call(r->context, &c, in_s(LIMIT_S), r->error);
            for (unsigned i = 0; i < 9 && r->status == 0; i++)
                if (memcmp(out + i * size, want, size) != 0) {
                    snprintf(r->error, sizeof r->error, "%s %s", comm_type_name(type), comm_operation_name(op));
                    r->status = -EBADMSG;
                }
            if (r->status < 0)
                return;
        }
}

TEST(every_type_and_operation)
{
    struct world w = { .size = 3, .body = types };
    must_succeed(&w, &shm);
}

/* ---- messages ---- */

static void messages(struct rank *r)
{
    enum { LARGE = 300000 };
    static uint8_t large[LARGE];
    uint8_t *to = malloc(LARGE);
    unsigned next = (r->number + 1) % r->world->size, before = (r->number + r->world->size - 1) % r->world->size;
    uint64_t got = 0;
    /* the first ones, in an order in which two ranks always meet */
    for (unsigned turn = 0; turn < 2 && r->status == 0; turn++)
        r->status = turn == r->number % 2 ? comm_send(r->context, next, 8, "x", 1, in_s(LIMIT_S), r->error)
                                          : comm_receive(r->context, before, 8, to, 1, &got, in_s(LIMIT_S), r->error);
    for (uint32_t i = 0; i < 50 && r->status == 0; i++) {
        uint32_t word = r->number * 1000 + i;
        r->status = comm_send(r->context, next, i % 5, &word, sizeof word, in_s(LIMIT_S), r->error);
    }
    /* the tags in another order; of each tag the messages in theirs */
    for (int tag = 4; tag >= 0 && r->status == 0; tag--)
        for (uint32_t i = (uint32_t)tag; i < 50 && r->status == 0; i += 5) {
            uint32_t word = 0;
            r->status = comm_receive(r->context, before, (uint32_t)tag, &word, sizeof word, &got, in_s(LIMIT_S),
                                     r->error);
            if (r->status == 0 && (word != before * 1000 + i || got != sizeof word))
                r->status = -EBADMSG;
        }
    /* a large one around: the even ranks send first */
    for (unsigned turn = 0; turn < 2 && r->status == 0; turn++)
        r->status = turn == r->number % 2
                        ? comm_send(r->context, next, 9, large, LARGE, in_s(LIMIT_S), r->error)
                        : comm_receive(r->context, before, 9, to, LARGE, &got, in_s(LIMIT_S), r->error);
    free(to);
}

TEST(messages_with_tags_connect_ranks_when_they_are_needed)
{
    struct world w = { .size = 4, .body = messages, .lazy = true };
    must_succeed(&w, &tcp);
}

/* In groups: to the next one, a rank and itself, all pairs. Each rank posts in an order of its own. */
static void exchanges(struct rank *r)
{
    enum { PART = 70000 };
    unsigned ranks = r->world->size, me = r->number;
    uint8_t *from = malloc(PART * RANKS), *to = malloc(PART * RANKS);
    for (unsigned turn = 0; turn < 6 && r->status == 0; turn++) {
        struct comm_message list[2 * RANKS];
        unsigned count = 0;
        uint64_t size = turn % 3 == 0 ? 5 : turn % 3 == 1 ? 0 : PART;
        memset(to, 0xee, PART * RANKS);
        for (unsigned i = 0; i < ranks; i++) {
            unsigned peer = (i + me) % ranks;
            memset(from + peer * PART, (int)(me * 16 + peer + turn), PART);
            list[count++] = (struct comm_message){ i % 2 != 0, peer, (i % 2 ? from : to) + peer * PART, size };
            list[count++] = (struct comm_message){ i % 2 == 0, peer, (i % 2 ? to : from) + peer * PART, size };
        }
        r->status = comm_exchange(r->context, list, count, in_s(LIMIT_S), r->error);
        for (unsigned i = 0; i < ranks && r->status == 0; i++)
            for (uint64_t k = 0; k < PART && r->status == 0; k++)
                r->status = to[i * PART + k] == (uint8_t)(k < size ? i * 16 + me + turn : 0xee) ? 0 : -EBADMSG;
        if (r->status == 0 && !one_call(r, COMM_ALL_REDUCE, 100, 0, 0))
            break;
    }
    free(from);
    free(to);
}

TEST(messages_of_one_group_do_not_wait_for_each_other)
{
    for (unsigned near = 0; near <= 4; near += 2) {
        struct world w = { .size = 4, .near = near, .body = exchanges };
        must_succeed(&w, &tcp);
    }
}

/* ---- failure ---- */

static void other_sizes(struct rank *r)
{
    uint8_t bytes[10] = { 0 };
    const struct comm_message message = { r->number == 0, 1 - r->number, bytes, 9 + r->number };
    struct comm_call barrier = { .kind = COMM_BARRIER };
    if (r->number < 2)
        r->status = comm_exchange(r->context, &message, 1, in_s(20), r->error);
    if (r->status == 0)
        r->status = comm_call(r->context, &barrier, in_s(20), r->error);
}

TEST(a_message_of_another_size_than_expected_is_an_error_on_every_rank)
{
    for (unsigned near = 0; near <= 4; near += 2) {
        struct world w = { .size = 4, .near = near, .body = other_sizes };
        assert_int_equal(run_world(&w, &tcp), 4);
    }
}

static void differing(struct rank *r)
{
    int32_t in[100] = { 0 }, out[400];
    static const struct comm_call calls[][2] = {
        { { .kind = COMM_ALL_REDUCE, .count = 10, .type = COMM_FLOAT32 }, { .kind = COMM_BARRIER } },
        { { .kind = COMM_ALL_REDUCE, .count = 10, .type = COMM_FLOAT32 },
          { .kind = COMM_ALL_REDUCE, .count = 11, .type = COMM_FLOAT32 } },
        { { .kind = COMM_BROADCAST, .count = 10, .type = COMM_INT32, .root = 0 },
          { .kind = COMM_BROADCAST, .count = 10, .type = COMM_INT32, .root = 1 } },
        { { .kind = COMM_ALL_REDUCE, .count = 10, .type = COMM_FLOAT32, .operation = COMM_SUM },
          { .kind = COMM_ALL_REDUCE, .count = 10, .type = COMM_INT32, .operation = COMM_MAXIMUM } },
    };
    struct comm_call c = calls[*(unsigned *)r->world->of][r->number == 2];
    c.in = in;
    c.out = out;
    r->status = comm_call(r->context, &c, in_s(20), r->error);
    struct comm_call again = { .kind = COMM_BARRIER };
    if (r->status == 0)                         /* a root that only sends is done; then it hears of it */
        r->status = comm_call(r->context, &again, in_s(20), r->error);
}

TEST(calls_that_differ_are_an_error_on_every_rank_that_names_both)
{
    static const char *const named[][2] = { { "all-reduce of 10", "barrier" }, { "of 10", "of 11" },
                                            { "root 0", "root 1" }, { "float32, sum", "int32, maximum" } };
    for (unsigned i = 0; i < 4; i++) {
        struct world w = { .size = 4, .near = i % 2 ? 2 : 0, .body = differing, .of = &i };
        uint64_t begin = clock_now();
        assert_int_equal(run_world(&w, &tcp), 4);
        assert_true(clock_now() - begin < 10 * CLOCK_NS_PER_SECOND);
        for (unsigned r = 0; r < 4; r++)
            if (!strstr(w.ranks[r].error, named[i][0]) || !strstr(w.ranks[r].error, named[i][1]))
                fail_msg("rank %u: %s", r, w.ranks[r].error);
    }
}

static void one_stays_away(struct rank *r)
{
    float in[10] = { 0 }, out[10];
    struct comm_call c = { .kind = COMM_ALL_REDUCE, .in = in, .out = out, .count = 10, .type = COMM_FLOAT32 };
    if (r->number == 1)
        while (comm_context_status(r->context, r->error) == 0)
            usleep(1000);
    r->status = comm_call(r->context, &c, clock_now() + 300 * CLOCK_NS_PER_MS, r->error);
}

TEST(a_rank_that_does_not_come_is_named_when_the_time_is_over)
{
    struct world w = { .size = 3, .body = one_stays_away, .algorithm = COMM_PAIRWISE };
    assert_int_equal(run_world(&w, &tcp), 3);
    for (unsigned r = 0; r < 3; r++) {
        assert_int_equal(w.ranks[r].status, -ETIMEDOUT);
        if (!strstr(w.ranks[r].error, "expected from rank 1"))
            fail_msg("rank %u: %s", r, w.ranks[r].error);
    }
}

static void bad_arguments(struct rank *r)
{
    float x[4] = { 0 };
    const struct comm_call bad[] = {
        { .kind = COMM_KINDS },
        { .kind = COMM_ALL_REDUCE, .in = x, .out = x, .count = 1, .type = COMM_TYPES },
        { .kind = COMM_ALL_REDUCE, .in = x, .out = x, .count = 1, .type = COMM_INT8, .operation = COMM_OPERATIONS },
        { .kind = COMM_BROADCAST, .in = x, .out = x, .count = 1, .type = COMM_INT8, .root = 2 },
        { .kind = COMM_ALL_REDUCE, .in = x, .count = 1, .type = COMM_INT8 },
        { .kind = COMM_ALL_REDUCE, .in = x, .out = x, .count = UINT64_MAX / 2, .type = COMM_FLOAT64 },
        { .kind = COMM_ALL_REDUCE, .in = x, .out = x, .count = 1, .type = COMM_INT8,
          .operation = COMM_MULTIPLIED_SUM },
        { .kind = COMM_ALL_TO_ALL, .in = x, .out = x, .count = 1, .type = COMM_INT8 },
    };
    for (unsigned i = 0; i < sizeof bad / sizeof *bad && r->status == 0; i++)
        if (comm_call(r->context, &bad[i], in_s(1), r->error) != -EINVAL)
            r->status = -EBADMSG;
    if (r->status == 0 && comm_send(r->context, r->number, 0, x, 4, in_s(1), r->error) != -EINVAL)
        r->status = -EBADMSG;
    struct comm_call barrier = { .kind = COMM_BARRIER };
    if (r->status == 0)
        r->status = comm_call(r->context, &barrier, in_s(LIMIT_S), r->error);
}

TEST(wrong_arguments_are_refused_and_do_no_harm)
{
    struct world w = { .size = 2, .body = bad_arguments };
    must_succeed(&w, &shm);
}

static void aborted_by_one(struct rank *r)
{
    struct comm_call barrier = { .kind = COMM_BARRIER };
    if (r->number == 1)
        comm_context_abort(r->context, -ECANCELED, "the user has had enough");
    r->status = comm_call(r->context, &barrier, in_s(20), r->error);
    if (r->status == 0)
        r->status = comm_call(r->context, &barrier, in_s(20), r->error);
}

TEST(an_abort_ends_the_context_on_every_rank_with_its_reason)
{
    struct world w = { .size = 4, .body = aborted_by_one };
    assert_int_equal(run_world(&w, &shm), 4);
    for (unsigned r = 0; r < 4; r++) {
        assert_int_equal(w.ranks[r].status, -ECANCELED);
        assert_string_equal(w.ranks[r].error, "rank 1: the user has had enough");
    }
}

TEST(each_rank_leaves_a_record_of_its_last_calls)
{
    char folder[] = "/tmp/flyt-comm-trace-XXXXXX", command[400], line[200] = "";
    struct world w = { .size = 3, .body = one_stays_away, .algorithm = COMM_PAIRWISE };
    assert_non_null(mkdtemp(folder));
    setenv("FLYT_COMM_TRACE", folder, 1);
    assert_int_equal(run_world(&w, &tcp), 3);
    unsetenv("FLYT_COMM_TRACE");
    /* rank 1, which stayed away, has called nothing when the others fail */
    snprintf(command, sizeof command,
             "cd %s && ls | wc -l; grep -l 'all-reduce of 10 float32' *rank-[02].json | wc -l; "
             "grep -c 'expected from rank 1' *rank-1.json; python3 -m json.tool *rank-0.json >/dev/null && echo json",
             folder);
    FILE *said = popen(command, "r");
    assert_non_null(said);
    line[fread(line, 1, sizeof line - 1, said)] = 0;
    pclose(said);
    assert_string_equal(line, "3\n2\n1\njson\n");
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* ---- the table of the network ---- */

static void note_table(struct rank *r)
{
    struct comm_table *tables = r->world->of;
    tables[r->number] = comm_context_table(r->context);
}

/* All ranks have the same; its bits are compared. */
static struct comm_table one_table(const char *wish)
{
    struct comm_table tables[RANKS] = { 0 };
    struct world w = { .size = 5, .body = note_table, .of = tables, .near = 2 };
    setenv("FLYT_COMM_TABLE", wish, 1);
    must_succeed(&w, &shm);
    unsetenv("FLYT_COMM_TABLE");
    for (unsigned r = 1; r < w.size; r++)
        assert_memory_equal(&tables[r], &tables[0], sizeof tables[0]);
    return tables[0];
}

TEST(the_table_of_the_network_is_measured_once_saved_and_forced)
{
    char folder[] = "/tmp/flyt-comm-table-XXXXXX", path[64], command[64], line[64] = "";
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/table", folder);
    struct comm_table forced = one_table("12.5,345"), measured = one_table(path), again = one_table(path);
    assert_true(forced.latency_us == 12.5 && forced.mb_per_s == 345);
    assert_true(measured.latency_us > 0 && measured.mb_per_s > 0);
    assert_memory_equal(&again, &measured, sizeof again); /* from the file: a second measurement differs */
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("7,77\n", file);
    fclose(file);
    struct comm_table of_file = one_table(path);
    assert_true(of_file.latency_us == 7 && of_file.mb_per_s == 77);
    /* a file that is none is measured and written anew */
    assert_non_null(file = fopen(path, "w"));
    fputs("nonsense\n", file);
    fclose(file);
    one_table(path);
    assert_non_null(file = fopen(path, "r"));
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    assert_non_null(strchr(line, ','));
    /* one that cannot be written is an error that names it */
    struct comm_table tables[RANKS] = { 0 };
    struct world w = { .size = 2, .body = note_table, .of = tables };
    setenv("FLYT_COMM_TABLE", "/nowhere/table", 1);
    assert_int_not_equal(run_world(&w, &shm), 0);
    unsetenv("FLYT_COMM_TABLE");
    assert_non_null(strstr(w.ranks[0].error, "/nowhere/table"));
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* ---- ranks that are processes ---- */

struct table { _Atomic uint64_t calls, failed_at[RANKS]; char errors[RANKS][RPC_ERROR_SIZE]; };

static void child(unsigned rank, unsigned size, const char *folder, struct table *table)
{
    struct comm_store *store;
    struct comm_context *context;
    struct comm_engine *engine;
    char error[RPC_ERROR_SIZE];
    static float in[20000], out[20000];
    if (comm_engine_create(&tcp, &engine, error) != 0 || comm_store_file(folder, &store, error) != 0)
        _exit(2);
    const struct comm_context_settings settings = { .rank = rank, .size = size, .engine = engine };
    if (comm_context_create(&settings, store, &context, error) != 0 ||
        comm_context_connect_full_mesh(context, in_s(LIMIT_S), error) != 0)
        _exit(3);
    struct comm_call c = { .kind = COMM_ALL_REDUCE, .in = in, .out = out, .count = 20000, .type = COMM_FLOAT32 };
    while (comm_call(context, &c, in_s(30), error) == 0)
        atomic_fetch_add(&table->calls, 1);
    snprintf(table->errors[rank], RPC_ERROR_SIZE, "%s", error);
    atomic_store(&table->failed_at[rank], clock_now());
    comm_context_destroy(context);
    comm_engine_destroy(engine);
    comm_store_destroy(store);
    _exit(0);
}

TEST(a_killed_rank_is_an_error_on_every_rank_within_a_second)
{
    enum { SIZE = 4, VICTIM = 2 };
    char folder[] = "/tmp/flyt-comm-ranks-XXXXXX", command[64];
    pid_t children[SIZE];
    struct table *table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(table, MAP_FAILED);
    assert_non_null(mkdtemp(folder));
    for (unsigned r = 0; r < SIZE; r++)
        if ((children[r] = fork()) == 0)
            child(r, SIZE, folder, table);
    uint64_t limit = in_s(LIMIT_S);
    while (atomic_load(&table->calls) < 50 && clock_now() < limit)
        usleep(1000);
    uint64_t killed = clock_now();
    kill(children[VICTIM], SIGKILL);
    for (unsigned r = 0; r < SIZE; r++) {
        int status;
        assert_int_equal(waitpid(children[r], &status, 0), children[r]);
        if (r == VICTIM)
            continue;
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        double ms = (double)(atomic_load(&table->failed_at[r]) - killed) / 1e6;
        if (ms > 1000)
            fail_msg("rank %u noticed after %.0f ms", r, ms);
        if (!strstr(table->errors[r], "rank 2"))
            fail_msg("rank %u: %s", r, table->errors[r]);
    }
    munmap(table, sizeof *table);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
