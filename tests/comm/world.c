/* world.c: see world.h. */
#include "tests/comm/world.h"

#include <errno.h>
#include <pthread.h>

static void *rank_thread(void *context)
{
    struct rank *r = context;
    unsigned near = r->world->near;
    const struct comm_context_settings settings = { .rank = r->number, .size = r->world->size,
                                                    .engine = r->world->engine, .algorithm = r->world->algorithm,
                                                    .near = near ? r->world->places[r->number / near] : NULL };
    r->status = comm_context_create(&settings, r->world->store, &r->context, r->error);
    for (unsigned i = 0; near && r->status == 0 && i < r->world->size; i++)
        if (i != r->number && i / near == r->number / near)
            comm_context_use_near(r->context, i);
    if (r->status == 0 && !r->world->lazy)
        r->status = comm_context_connect_full_mesh(r->context, in_s(LIMIT_S), r->error);
    if (r->status == 0)
        r->world->body(r);
    return NULL;
}

unsigned run_world(struct world *w, const struct comm_settings *links)
{
    char error[RPC_ERROR_SIZE];
    pthread_t threads[RANKS];
    unsigned failed = 0;
    if (comm_engine_create(links, &w->engine, error) != 0 || comm_store_hash(&w->store, error) != 0)
        fail_msg("%s", error);
    for (unsigned i = 0; w->near && i * w->near < w->size; i++)
        assert_non_null(w->places[i] = comm_near_create(w->size));
    for (unsigned r = 0; r < w->size; r++) {
        w->ranks[r] = (struct rank){ .world = w, .number = r };
        assert_int_equal(pthread_create(&threads[r], NULL, rank_thread, &w->ranks[r]), 0);
    }
    for (unsigned r = 0; r < w->size; r++)
        pthread_join(threads[r], NULL);
    for (unsigned r = 0; r < w->size; r++) {
        failed += w->ranks[r].status < 0;
        comm_context_destroy(w->ranks[r].context);
    }
    for (unsigned i = 0; w->near && i * w->near < w->size; i++)
        comm_near_drop(w->places[i]);
    comm_engine_destroy(w->engine);
    comm_store_destroy(w->store);
    return failed;
}

void must_succeed(struct world *w, const struct comm_settings *links)
{
    if (run_world(w, links) == 0)
        return;
    for (unsigned r = 0; r < w->size; r++)
        if (w->ranks[r].status < 0)
            fprintf(stderr, "rank %u: %s (%d)\n", r, w->ranks[r].error, w->ranks[r].status);
    fail_msg("%u ranks, algorithm %d", w->size, w->algorithm);
}

const struct comm_settings tcp = { .interfaces = "lo", .channels = 2, .no_shared_memory = true };
const struct comm_settings shm = { .interfaces = "lo", .channels = 1 };

int value(unsigned rank, uint64_t i)
{
    return (int)((rank * 7 + i * 3 + rank * (i % 11)) % 5) - (i % 2 ? 1 : 0);
}

static int sum_of(unsigned ranks, uint64_t i)
{
    int sum = 0;
    for (unsigned r = 0; r < ranks; r++)
        sum += value(r, i);
    return sum;
}

bool expected(const struct comm_call *c, unsigned rank, unsigned ranks, uint64_t i, int *want)
{
    uint64_t part = c->count ? i / c->count : 0, within = c->count ? i % c->count : 0;
    switch (c->kind) {
    case COMM_BROADCAST: *want = value(c->root, i); return true;
    case COMM_REDUCE: *want = sum_of(ranks, i); return rank == c->root;
    case COMM_ALL_REDUCE: *want = sum_of(ranks, i); return true;
    case COMM_GATHER: *want = value((unsigned)part, within); return rank == c->root;
    case COMM_ALL_GATHER: *want = value((unsigned)part, within); return true;
    case COMM_SCATTER: *want = value(c->root, rank * c->count + i); return true;
    case COMM_REDUCE_SCATTER: *want = sum_of(ranks, rank * c->count + i); return true;
    default: *want = value((unsigned)part, rank * c->count + within); return true;
    }
}

bool one_call(struct rank *r, enum comm_kind kind, uint64_t count, unsigned root, unsigned misaligned)
{
    return one_call_within(r, kind, count, root, misaligned, 1000 * LIMIT_S);
}

bool one_call_within(struct rank *r, enum comm_kind kind, uint64_t count, unsigned root, unsigned misaligned,
                     unsigned ms)
{
    unsigned ranks = r->world->size;
    bool in_parts = kind == COMM_SCATTER || kind == COMM_REDUCE_SCATTER || kind == COMM_ALL_TO_ALL;
    bool out_parts = kind == COMM_GATHER || kind == COMM_ALL_GATHER || kind == COMM_ALL_TO_ALL;
    uint64_t ins = in_parts ? count * ranks : count, outs = out_parts ? count * ranks : count;
    uint8_t *in = malloc(ins * 4 + 8), *out = malloc(outs * 4 + 8);
    bool good = in && out;
    for (uint64_t i = 0; good && i < ins; i++) {
        float x = (float)value(r->number, i);
        memcpy(in + misaligned + i * 4, &x, 4);
    }
    struct comm_call c = { .kind = kind, .in = in + misaligned, .out = out + misaligned, .count = count,
                           .type = COMM_FLOAT32, .operation = COMM_SUM, .root = root };
    r->status = comm_call(r->context, &c, clock_now() + ms * CLOCK_NS_PER_MS, r->error);
    good &= r->status == 0;
    for (uint64_t i = 0; good && i < outs; i++) {
        int want;
        float x;
        memcpy(&x, out + misaligned + i * 4, 4);
        if (!expected(&c, r->number, ranks, i, &want) || x == (float)want)
            continue;
        snprintf(r->error, sizeof r->error, "%s of %llu, root %u, element %llu: %g, not %d", comm_kind_name(kind),
                 (unsigned long long)count, root, (unsigned long long)i, (double)x, want);
        r->status = -EBADMSG;
        good = false;
    }
    free(in);
    free(out);
    return good;
}
