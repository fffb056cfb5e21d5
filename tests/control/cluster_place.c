/* Placement by itself: whatever is asked in whatever order, no GPU is promised twice. */
#include "control-managers/cluster-manager/place.h"
#include "control-managers/cluster-manager/schema.h"
#include "control-managers/common/protocol.h"
#include "tests/lib/unit.h"

static struct place_pool pool;
static int node_a, node_b;

static size_t add(uint32_t sms, uint64_t memory, unsigned offered, const void *node)
{
    size_t at = place_add(&pool, &pool, node, node == &node_a ? "10.0.0.1" : "10.0.0.2");
    pool.gpus[at].sms = sms;
    pool.gpus[at].memory = memory;
    pool.gpus[at].offered = (uint8_t)offered;
    pool.gpus[at].schedulable = pool.gpus[at].sm_limits = true;
    return at;
}

static int clear(void **state)
{
    (void)state;
    place_free(&pool);
    pool.overcommit_sms = pool.overcommit_memory = 1;
    return 0;
}

static enum place_verdict ask(uint32_t sms, uint64_t memory, unsigned accepted, const void *preferred,
                              struct place_result *result)
{
    const struct place_request request = { sms, memory, accepted, preferred, NULL, NULL,
                                           NULL, 0, NULL, false, 1, false };
    return place_choose(&pool, 0, &request, result);
}

TEST_WITH(test_sharing, clear, NULL)
{
    struct place_result r;
    size_t gpu = add(16, 1000, CTL_SHARING_ALL, &node_a);
    assert_int_equal(ask(4, 100, CTL_SHARING_MPS, NULL, &r), PLACE_FOUND);
    place_take(&pool, r.gpu, r.sharing, r.sms, r.memory);
    /* Under MPS tenants meet only if both accept it. */
    assert_int_equal(ask(4, 100, CTL_SHARING_TIME_SLICE | CTL_SHARING_EXCLUSIVE, NULL, &r), PLACE_BUSY);
    assert_int_equal(ask(4, 100, CTL_SHARING_MPS | CTL_SHARING_TIME_SLICE, NULL, &r), PLACE_FOUND);
    assert_int_equal(r.sharing, CTL_SHARING_MPS);
    assert_int_equal(ask(13, 100, CTL_SHARING_MPS, NULL, &r), PLACE_BUSY);
    assert_int_equal(ask(12, 901, CTL_SHARING_MPS, NULL, &r), PLACE_BUSY);
    assert_int_equal(ask(12, 900, CTL_SHARING_MPS, NULL, &r), PLACE_FOUND);
    assert_int_equal(ask(17, 100, CTL_SHARING_MPS, NULL, &r), PLACE_NEVER);
    place_give_back(&pool, gpu, 4, 100);
    /* Exclusive and MIG: one server. */
    assert_int_equal(ask(1, 1, CTL_SHARING_EXCLUSIVE, NULL, &r), PLACE_FOUND);
    place_take(&pool, r.gpu, r.sharing, r.sms, r.memory);
    assert_int_equal(ask(1, 1, CTL_SHARING_ALL, NULL, &r), PLACE_BUSY);
    place_give_back(&pool, gpu, 1, 1);
    assert_int_equal(pool.gpus[gpu].sharing, 0);
    /* Rather shared, and isolated from faults, than neither. */
    assert_int_equal(ask(1, 1, CTL_SHARING_ALL & ~CTL_SHARING_MIG, NULL, &r), PLACE_FOUND);
    assert_int_equal(r.sharing, CTL_SHARING_TIME_SLICE);
}

TEST_WITH(test_limits, clear, NULL)
{
    struct place_result r;
    size_t gpu = add(16, 1000, CTL_SHARING_ALL, &node_a);
    pool.gpus[gpu].sm_limits = false;                   /* a part of the SMs cannot be held: refused, not ignored */
    assert_int_equal(ask(8, 100, CTL_SHARING_TIME_SLICE, NULL, &r), PLACE_NEVER);
    assert_int_equal(ask(16, 100, CTL_SHARING_TIME_SLICE, NULL, &r), PLACE_FOUND);
    assert_int_equal(ask(0, 0, CTL_SHARING_TIME_SLICE, NULL, &r), PLACE_FOUND);
    assert_int_equal(r.sms, 16);
    assert_int_equal(r.memory, 1000);
    pool.gpus[gpu].schedulable = false;
    assert_int_equal(ask(16, 100, CTL_SHARING_TIME_SLICE, NULL, &r), PLACE_BUSY);
    place_remove(&pool, gpu);
    assert_int_equal(ask(16, 100, CTL_SHARING_TIME_SLICE, NULL, &r), PLACE_NO_GPUS);
}

TEST_WITH(test_choice, clear, NULL)
{
    struct place_result r;
    const struct place_request request = { 4, 10, CTL_SHARING_TIME_SLICE, NULL, NULL, NULL,
                                           NULL, 0, NULL, false, 1, false };
    size_t large = add(64, 1000, CTL_SHARING_TIME_SLICE, &node_a),
           small = add(8, 1000, CTL_SHARING_TIME_SLICE, &node_b);
    assert_int_equal(ask(4, 10, CTL_SHARING_TIME_SLICE, NULL, &r), PLACE_FOUND);
    assert_int_equal(r.gpu, small);
    assert_int_equal(ask(4, 10, CTL_SHARING_TIME_SLICE, &node_a, &r), PLACE_FOUND);
    assert_int_equal(r.gpu, large);                     /* the VM's own host */
    assert_int_equal(ask(16, 10, CTL_SHARING_TIME_SLICE, &node_b, &r), PLACE_FOUND);
    assert_int_equal(r.gpu, large);                     /* preferred, not demanded */
    /* By machine: all nodes there. An unknown one, or another, is no preference. */
    struct place_request there = { 4, 10, CTL_SHARING_TIME_SLICE, NULL, NULL, "10.0.0.1",
                                           NULL, 0, NULL, false, 1, false };
    assert_int_equal(place_choose(&pool, 0, &there, &r), PLACE_FOUND);
    assert_int_equal(r.gpu, large);
    for (int i = 0; i < 2; i++) {
        there.machine = i ? "" : "10.0.0.3";
        assert_int_equal(place_choose(&pool, 0, &there, &r), PLACE_FOUND);
        assert_int_equal(r.gpu, small);
    }
    there.machine = "10.0.0.1";
    there.preferred = &node_b;
    assert_int_equal(place_choose(&pool, 0, &there, &r), PLACE_FOUND);
    assert_int_equal(r.gpu, small);                     /* what was named comes first */
    /* A VM with certificates: its own machine, or a node that takes TLS; but better one without than none. */
    there.tls = true;
    there.preferred = NULL;
    assert_int_equal(place_choose(&pool, 0, &there, &r), PLACE_FOUND);
    assert_int_equal(r.gpu, large);                     /* the VM's own machine */
    there.machine = NULL;
    assert_int_equal(place_choose(&pool, 0, &there, &r), PLACE_FOUND);
    assert_int_equal(r.gpu, small);
    pool.gpus[large].tls = true;
    assert_int_equal(place_choose(&pool, 0, &there, &r), PLACE_FOUND);
    assert_int_equal(r.gpu, large);
    pool.gpus[large].tls = false;
    there.tls = false;
    there.machine = "10.0.0.1";
    there.preferred = &node_b;
    /* Not there: another place if there is one, else never. A node or a GPU may be named. */
    const void *const avoid[] = { &node_b, pool.gpus[large].owner };
    there.avoid = avoid;
    there.avoid_count = 1;
    assert_int_equal(place_choose(&pool, 0, &there, &r), PLACE_FOUND);
    assert_int_equal(r.gpu, large);
    there.avoid_count = 2;
    assert_int_equal(place_choose(&pool, 0, &there, &r), PLACE_NEVER);
    assert_int_equal(place_choose(&pool, 1, &request, &r), PLACE_FOUND);
    assert_int_equal(r.gpu, large);                     /* spread */
    assert_int_equal(place_choose(&pool, 2, &request, &r), PLACE_FOUND);
    assert_int_equal(r.gpu, 0);                         /* first-fit */
    for (int i = 0; cluster_policies[i]; i++)
        assert_string_equal(cluster_policies[i], place_policies[i].name);
}

/* The GPU where least has to become free; of those that could hold it, are in service and kept for nobody. */
TEST_WITH(test_keep, clear, NULL)
{
    struct place_result r;
    size_t kept[PLACE_MOST_GPUS];
    int large, larger;
    struct place_request request = { 16, 100, CTL_SHARING_TIME_SLICE, NULL, &large, NULL,
                                           NULL, 0, NULL, false, 1, false },
                         other = request;
    other.asker = &larger;
    add(8, 1000, CTL_SHARING_ALL, &node_a);             /* too small */
    size_t full = add(16, 1000, CTL_SHARING_ALL, &node_a), mps = add(16, 1000, CTL_SHARING_ALL, &node_a),
           half = add(16, 1000, CTL_SHARING_ALL, &node_b), drained = add(16, 1000, CTL_SHARING_ALL, &node_b);
    place_take(&pool, full, CTL_SHARING_TIME_SLICE, 16, 10);
    place_take(&pool, mps, CTL_SHARING_MPS, 1, 10);     /* but its user shares in another manner */
    place_take(&pool, half, CTL_SHARING_TIME_SLICE, 8, 10);
    pool.gpus[drained].schedulable = false;
    assert_int_equal(place_choose(&pool, 0, &request, &r), PLACE_BUSY);
    assert_int_equal(place_keep(&pool, &request, kept), 1);
    assert_int_equal(kept[0], half);
    assert_int_equal(ask(8, 10, CTL_SHARING_TIME_SLICE, NULL, &r), PLACE_FOUND);
    assert_int_equal(r.gpu, 0);                         /* not the one that is kept */
    assert_int_equal(place_keep(&pool, &other, kept), 1);
    assert_int_equal(kept[0], full);
    place_give_back(&pool, half, 8, 10);
    assert_int_equal(place_choose(&pool, 0, &other, &r), PLACE_BUSY);
    assert_int_equal(place_choose(&pool, 0, &request, &r), PLACE_FOUND);
    assert_int_equal(r.gpu, half);
    const struct place_request never = { 64, 100, CTL_SHARING_TIME_SLICE, NULL, &large, NULL,
                                           NULL, 0, NULL, false, 1, false };
    assert_int_equal(place_keep(&pool, &never, kept), 0);
}

TEST_WITH(test_overcommit, clear, NULL)
{
    struct place_result r;
    add(16, 1000, CTL_SHARING_TIME_SLICE, &node_a);
    pool.overcommit_sms = 2;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ask(16, 100, CTL_SHARING_TIME_SLICE, NULL, &r), PLACE_FOUND);
        place_take(&pool, r.gpu, r.sharing, r.sms, r.memory);
    }
    assert_int_equal(ask(1, 100, CTL_SHARING_TIME_SLICE, NULL, &r), PLACE_BUSY);
    pool.overcommit_sms = 1;                            /* lowered: what is there stays, nothing wraps around */
    assert_int_equal(ask(1, 1, CTL_SHARING_TIME_SLICE, NULL, &r), PLACE_BUSY);
}

/* Random servers come and go; the invariants of place.h are checked by other means after each step. */
TEST_WITH(test_random, clear, NULL)
{
    enum { GPUS = 12, SERVERS = 200, STEPS = 60000 };
    struct held { bool used; size_t gpu; unsigned sharing; uint32_t sms; uint64_t memory; } held[SERVERS] = { { 0 } };
    uint32_t seed = 1;
    int placed = 0;
    for (int i = 0; i < GPUS; i++)
        add(8u << i % 4, UINT64_C(1) << (30 + i % 3), 1 + (unsigned)i % 15, i % 2 ? &node_a : &node_b);
    for (int step = 0; step < STEPS; step++) {
        seed = seed * 1664525 + 1013904223;
        struct held *h = &held[seed >> 8 & 127];
        struct place_result r;
        if (h->used) {
            place_give_back(&pool, h->gpu, h->sms, h->memory);
            h->used = false;
        } else if (ask(seed >> 24 & 31, (uint64_t)(seed >> 4 & 0xfffff) << 10, 1 + (seed >> 15) % 15,
                       seed & 64 ? &node_a : NULL, &r) == PLACE_FOUND) {
            *h = (struct held){ true, r.gpu, r.sharing, r.sms, r.memory };
            place_take(&pool, r.gpu, r.sharing, r.sms, r.memory);
            placed++;
        }
        pool.gpus[seed % GPUS].schedulable = seed >> 28 != 0;
        uint64_t sms[GPUS] = { 0 }, memory[GPUS] = { 0 };
        unsigned kinds[GPUS] = { 0 }, users[GPUS] = { 0 };
        for (int i = 0; i < SERVERS; i++)
            if (held[i].used) {
                sms[held[i].gpu] += held[i].sms;
                memory[held[i].gpu] += held[i].memory;
                kinds[held[i].gpu] |= held[i].sharing;
                users[held[i].gpu]++;
            }
        for (int i = 0; i < GPUS; i++) {
            assert_true(sms[i] <= pool.gpus[i].sms && memory[i] <= pool.gpus[i].memory);
            assert_int_equal(sms[i], pool.gpus[i].used_sms);
            assert_int_equal(memory[i], pool.gpus[i].used_memory);
            assert_int_equal(kinds[i], pool.gpus[i].sharing);
            assert_int_equal(kinds[i] & ~(unsigned)pool.gpus[i].offered, 0);
            assert_true(users[i] <= 1 || !(kinds[i] & (CTL_SHARING_EXCLUSIVE | CTL_SHARING_MIG)));
        }
    }
    assert_true(placed > 1000);
}

int main(void)
{
    int failed = unit_run(NULL, NULL);
    place_free(&pool);
    return failed;
}
