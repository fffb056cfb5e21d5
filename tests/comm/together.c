/*
 * together.c: calls of all ranks of a process, carried out by one thread.
 *
 * shows: collectives: one thread carries out a call of all ranks of a process, with the model's results; a rank that
 *   fails is a failure of all
 */
#include "tests/comm/world.h"

struct together { unsigned size; struct comm_near *place; struct comm_context *contexts[RANKS]; };

static struct together together_make(unsigned size)
{
    struct together t = { .size = size, .place = comm_near_create(size) };
    char error[RPC_ERROR_SIZE];
    assert_non_null(t.place);
    for (unsigned r = 0; r < size; r++) {
        const struct comm_context_settings settings = { .rank = r, .size = size, .near = t.place };
        if (comm_context_create(&settings, NULL, &t.contexts[r], error) != 0)
            fail_msg("%s", error);
        for (unsigned i = 0; i < size; i++)
            if (i != r)
                comm_context_use_near(t.contexts[r], i);
    }
    return t;
}

static void together_end(struct together *t)
{
    for (unsigned r = 0; r < t->size; r++)
        comm_context_destroy(t->contexts[r]);
    comm_near_drop(t->place);
}

static void call_together(struct together *t, enum comm_kind kind, uint64_t count, unsigned root)
{
    static float in[RANKS][RANKS * 400], out[RANKS][RANKS * 400];
    struct comm_call calls[RANKS];
    int status[RANKS];
    char error[RPC_ERROR_SIZE] = "";
    bool in_parts = kind == COMM_SCATTER || kind == COMM_REDUCE_SCATTER || kind == COMM_ALL_TO_ALL;
    bool out_parts = kind == COMM_GATHER || kind == COMM_ALL_GATHER || kind == COMM_ALL_TO_ALL;
    for (unsigned r = 0; r < t->size; r++) {
        for (uint64_t i = 0; i < (in_parts ? count * t->size : count); i++)
            in[r][i] = (float)value(r, i);
        calls[r] = (struct comm_call){ .kind = kind, .in = in[r], .out = out[r], .count = count, .type = COMM_FLOAT32,
                                       .operation = COMM_SUM, .root = root };
    }
    comm_call_together(t->contexts, calls, t->size, in_s(LIMIT_S), status, error);
    for (unsigned r = 0; r < t->size; r++) {
        if (status[r])
            fail_msg("%s of %u ranks: rank %u: %s (%d)", comm_kind_name(kind), t->size, r, error, status[r]);
        for (uint64_t i = 0; i < (out_parts ? count * t->size : count); i++) {
            int want;
            if (expected(&calls[r], r, t->size, i, &want) && out[r][i] != (float)want)
                fail_msg("%s of %u ranks: rank %u, element %u", comm_kind_name(kind), t->size, r, (unsigned)i);
        }
    }
}

TEST(one_thread_carries_out_a_call_of_all_ranks)
{
    static const uint64_t counts[] = { 0, 1, 7, 400 };
    for (unsigned size = 1; size <= COMM_TOGETHER_MOST; size += size < 5 ? 1 : size < 8 ? 3 : 8) {
        struct together t = together_make(size);
        for (enum comm_kind kind = COMM_BROADCAST; kind < COMM_KINDS; kind++)
            for (unsigned i = 0; i < 4; i++)
                call_together(&t, kind, counts[i], (kind + i) % size);
        call_together(&t, COMM_BARRIER, 0, 0);
        together_end(&t);
    }
}

TEST(a_rank_that_fails_together_with_others_is_a_failure_of_all)
{
    struct together t = together_make(3);
    struct comm_call calls[3];
    float in[3] = { 0 }, out[3] = { 0 };
    int status[3];
    char error[RPC_ERROR_SIZE] = "";
    for (unsigned r = 0; r < 3; r++)
        calls[r] = (struct comm_call){ .kind = COMM_ALL_REDUCE, .in = in, .out = r == 1 ? NULL : out, .count = 3,
                                       .type = COMM_FLOAT32 };
    comm_call_together(t.contexts, calls, 3, in_s(LIMIT_S), status, error);
    for (unsigned r = 0; r < 3; r++)
        assert_true(status[r] < 0);
    together_end(&t);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
