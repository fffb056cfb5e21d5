/*
 * Placement of servers with several GPUs: whole or not at all, on one node, and never more than a GPU has.
 * shows: the control plane: a server with several GPUs is placed whole or not at all, and is not starved
 * shows: the control plane: GPUs of several nodes for one program: on few nodes or on many, all or none, of one kind of
 *   sharing on each, and kept for who has been overtaken
 */
#include "control-managers/cluster-manager/place.h"
#include "control-managers/cluster-manager/schema.h"
#include "control-managers/common/protocol.h"
#include "tests/lib/unit.h"

enum { NODES = 4, SHARED = CTL_SHARING_TIME_SLICE | CTL_SHARING_MPS };
static struct place_pool pool;
static char nodes[NODES], askers[2], owners[PLACE_MOST_GPUS * NODES];

static size_t add(const void *node, uint32_t sms, unsigned offered)
{
    size_t at = place_add(&pool, NULL, node, "");
    assert_true(at < sizeof owners);
    pool.gpus[at].owner = &owners[at];
    pool.gpus[at].sms = sms;
    pool.gpus[at].memory = 1000;
    pool.gpus[at].offered = (uint8_t)offered;
    pool.gpus[at].schedulable = pool.gpus[at].sm_limits = pool.gpus[at].gangs = true;
    return at;
}

static int clear(void **state)
{
    (void)state;
    place_free(&pool);
    pool.overcommit_sms = pool.overcommit_memory = 1;
    return 0;
}

static struct place_request want(uint32_t gpus, uint32_t sms, uint64_t memory, unsigned accepted)
{
    return (struct place_request){ .gpus = gpus, .sms = sms, .memory = memory, .accepted = accepted,
                                   .asker = &askers[0] };
}

static void take(const struct place_gang *gang)
{
    for (size_t i = 0; i < gang->count; i++)
        place_take(&pool, gang->of[i].gpu, gang->of[i].sharing, gang->of[i].sms, gang->of[i].memory);
}

TEST_WITH(test_one_node, clear, NULL)
{
    struct place_gang gang;
    struct place_request four = want(4, 4, 100, SHARED), five = want(5, 4, 100, SHARED), one = want(1, 4, 100, SHARED);
    char text[512];
    for (int i = 0; i < 6; i++)
        add(&nodes[i < 2 ? 0 : 1], 8, SHARED);
    assert_int_equal(place_choose_gang(&pool, 0, &four, &gang), PLACE_FOUND);
    assert_int_equal(gang.count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(gang.of[i].gpu, i + 2);     /* the node that has so many, in the order of slots */
    /* Six are there, on two nodes. */
    assert_int_equal(place_choose_gang(&pool, 0, &five, &gang), PLACE_NEVER);
    assert_int_equal(gang.count, 0);
    place_explain(&pool, &five, PLACE_NEVER, text, sizeof text);
    assert_non_null(strstr(text, "5 GPUs with"));
    assert_non_null(strstr(text, "at most 4 such GPUs, and all nodes have 6"));
    /* Half of the GPUs is taken: two gangs share them, a third waits. */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(place_choose_gang(&pool, 0, &four, &gang), PLACE_FOUND);
        take(&gang);
    }
    assert_int_equal(place_choose_gang(&pool, 0, &four, &gang), PLACE_BUSY);
    place_explain(&pool, &four, PLACE_BUSY, text, sizeof text);
    assert_non_null(strstr(text, "at most 4 of those that could be given, and 0 of them free now"));
    assert_int_equal(place_choose_gang(&pool, 0, &one, &gang), PLACE_FOUND);
    assert_true(gang.count == 1 && gang.of[0].gpu < 2);
    assert_int_equal(place_choose_gang(&pool, 0, &(struct place_request){ .gpus = PLACE_MOST_GPUS + 1 }, &gang),
                     PLACE_NEVER);
}

static size_t gpus_of(const struct place_set *set)
{
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++)
        count += set->of[i].count;
    return count;
}

static void take_set(const struct place_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        take(&set->of[i]);
}

TEST_WITH(test_several_nodes, clear, NULL)
{
    struct place_set set;
    struct place_request three = want(3, 8, 100, SHARED), five = want(5, 8, 100, SHARED);
    struct place_request seven = want(7, 8, 100, SHARED);
    size_t kept[PLACE_MOST_GPUS];
    char text[512];
    for (int i = 0; i < 6; i++)
        add(&nodes[i < 1 ? 0 : i < 3 ? 1 : 2], 8, SHARED);
    /* One node has three. */
    assert_int_equal(place_choose_set(&pool, 0, &three, &set), PLACE_FOUND);
    assert_true(set.count == 1 && set.of[0].count == 3 && set.of[0].of[0].gpu == 3);
    /* None has five: the one that has most, and the next. */
    assert_int_equal(place_choose_set(&pool, 0, &five, &set), PLACE_FOUND);
    assert_true(set.count == 2 && gpus_of(&set) == 5 && set.of[0].count == 2 && set.of[1].count == 3);
    /* One of each. */
    three.spread = true;
    assert_int_equal(place_choose_set(&pool, 0, &three, &set), PLACE_FOUND);
    assert_true(set.count == 3 && gpus_of(&set) == 3);
    five.spread = true;
    assert_int_equal(place_choose_set(&pool, 0, &five, &set), PLACE_FOUND);
    assert_true(set.count == 3 && gpus_of(&set) == 5 && set.of[0].count == 1 && set.of[1].count == 2);
    assert_int_equal(place_choose_set(&pool, 0, &seven, &set), PLACE_NEVER);
    place_explain(&pool, &seven, PLACE_NEVER, text, sizeof text);
    assert_non_null(strstr(text, "at most 3 such GPUs, and all nodes have 6"));
    /* Two whole ones are taken, and four are left: five wait, and nothing is taken for them. */
    struct place_request two = want(2, 8, 100, SHARED);
    assert_int_equal(place_choose_set(&pool, 0, &two, &set), PLACE_FOUND);
    take_set(&set);
    assert_int_equal(place_choose_set(&pool, 0, &five, &set), PLACE_BUSY);
    assert_int_equal(set.count, 0);
    place_explain(&pool, &five, PLACE_BUSY, text, sizeof text);
    assert_non_null(strstr(text, "have 6 of those that could be given, and 4 of them free now"));
    for (size_t i = 0; i < pool.count; i++)
        assert_true(place_could_hold(&pool, i, &five));
    /* They are kept for it, of all nodes. */
    assert_int_equal(place_keep(&pool, &five, kept), 5);
    three.asker = &askers[1];
    assert_int_equal(place_choose_set(&pool, 0, &three, &set), PLACE_BUSY);
}

TEST_WITH(test_kinds_of_several_nodes, clear, NULL)
{
    struct place_set set;
    struct place_request four = want(4, 4, 100, SHARED);
    add(&nodes[0], 8, CTL_SHARING_TIME_SLICE);
    add(&nodes[0], 8, CTL_SHARING_MPS);
    add(&nodes[0], 8, CTL_SHARING_MPS);
    add(&nodes[1], 8, CTL_SHARING_TIME_SLICE);
    /* A server has one kind: of the first node only two GPUs can be given together. */
    assert_int_equal(place_choose_set(&pool, 0, &four, &set), PLACE_NEVER);
    add(&nodes[1], 8, CTL_SHARING_TIME_SLICE);
    assert_int_equal(place_choose_set(&pool, 0, &four, &set), PLACE_FOUND);
    assert_true(set.count == 2 && set.of[0].of[0].sharing == CTL_SHARING_MPS && set.of[0].count == 2);
    assert_true(set.of[1].of[0].sharing == CTL_SHARING_TIME_SLICE);
    /* A node of an earlier release gives a program one GPU. */
    pool.gpus[4].gangs = pool.gpus[3].gangs = false;
    assert_int_equal(place_choose_set(&pool, 0, &four, &set), PLACE_NEVER);
}

TEST_WITH(test_states, clear, NULL)
{
    struct place_gang gang;
    struct place_request two = want(2, 4, 100, SHARED);
    char text[512];
    assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_NO_GPUS);
    for (int i = 0; i < 3; i++)
        add(&nodes[0], 8, SHARED);
    pool.gpus[0].schedulable = false;                /* degraded, or faulty */
    assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_FOUND);
    assert_true(gang.of[0].gpu == 1 && gang.of[1].gpu == 2);
    pool.gpus[1].schedulable = false;                /* one in service is not enough, but it may be again */
    assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_BUSY);
    assert_int_equal(gang.count, 0);
    pool.gpus[0].schedulable = pool.gpus[1].schedulable = true;
    pool.gpus[2].sm_limits = pool.gpus[1].sm_limits = false;
    assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_NEVER);
    pool.gpus[2].sm_limits = pool.gpus[1].sm_limits = true;
    pool.gpus[1].sms = pool.gpus[2].sms = 0;         /* not reported since a restart */
    assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_BUSY);
    pool.gpus[1].sms = pool.gpus[2].sms = 8;
    for (int i = 0; i < 3; i++)
        pool.gpus[i].gangs = false;                  /* a node manager of an earlier release */
    assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_NEVER);
    place_explain(&pool, &two, PLACE_NEVER, text, sizeof text);
    assert_non_null(strstr(text, "earlier release"));
    two.gpus = 1;
    assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_FOUND);
}

/* All GPUs of a gang are shared in one manner, since its server is. */
TEST_WITH(test_kinds, clear, NULL)
{
    struct place_gang gang;
    struct place_request two = want(2, 4, 100, CTL_SHARING_ALL);
    add(&nodes[0], 8, CTL_SHARING_TIME_SLICE);
    add(&nodes[0], 8, CTL_SHARING_MPS | CTL_SHARING_EXCLUSIVE);
    assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_NEVER);
    size_t third = add(&nodes[0], 8, SHARED);
    assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_FOUND);
    assert_true(gang.of[0].gpu == 0 && gang.of[1].gpu == third);
    assert_true(gang.of[0].sharing == CTL_SHARING_TIME_SLICE && gang.of[1].sharing == CTL_SHARING_TIME_SLICE);
    place_take(&pool, third, CTL_SHARING_MPS, 1, 1); /* a tenant with one GPU has made it one of MPS */
    assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_FOUND);
    assert_true(gang.of[0].gpu == 1 && gang.of[1].sharing == CTL_SHARING_MPS);
    two.accepted = CTL_SHARING_TIME_SLICE;
    assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_BUSY);
    /* Exclusive: nobody else on any of them. */
    clear(NULL);
    for (int i = 0; i < 3; i++)
        add(&nodes[0], 8, CTL_SHARING_EXCLUSIVE);
    two.accepted = CTL_SHARING_EXCLUSIVE;
    place_take(&pool, 1, CTL_SHARING_EXCLUSIVE, 1, 1);
    assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_FOUND);
    assert_true(gang.of[0].gpu == 0 && gang.of[1].gpu == 2);
    take(&gang);
    assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_BUSY);
}

TEST_WITH(test_choice, clear, NULL)
{
    struct place_gang gang;
    struct place_request two = want(2, 4, 100, SHARED);
    for (int node = 0; node < 3; node++)
        for (int i = 0; i < 2; i++)
            add(&nodes[node], node == 1 ? 8 : 32, SHARED);
    assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_FOUND);
    assert_int_equal(gang.of[0].gpu, 2);             /* best fit */
    assert_int_equal(place_choose_gang(&pool, 1, &two, &gang), PLACE_FOUND);
    assert_int_equal(gang.of[0].gpu, 0);             /* least loaded; of equal nodes the first */
    two.preferred = &nodes[2];
    assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_FOUND);
    assert_int_equal(gang.of[0].gpu, 4);             /* the VM's own machine */
    const void *const avoid[] = { &nodes[2], pool.gpus[2].owner };
    two.avoid = avoid;
    two.avoid_count = 2;
    assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_FOUND);
    assert_int_equal(gang.of[0].gpu, 0);             /* the second node has one GPU left that is not avoided */
    two.only = &nodes[1];
    assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_NEVER);
    assert_false(place_could_hold(&pool, 3, &two));
    two.avoid_count = 0;
    assert_true(place_could_hold(&pool, 3, &two));
    assert_false(place_could_hold(&pool, 0, &two));
    two.only = NULL;
    pool.overcommit_sms = pool.overcommit_memory = 2;
    for (int i = 0; i < 4; i++) {                    /* 4 of 8 SMs, over-committed twice */
        two.only = &nodes[1];
        assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_FOUND);
        take(&gang);
    }
    assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_BUSY);
}

TEST_WITH(test_keep, clear, NULL)
{
    struct place_gang gang;
    size_t kept[PLACE_MOST_GPUS];
    struct place_request two = want(2, 8, 100, SHARED), other = want(1, 1, 1, SHARED);
    other.asker = &askers[1];
    for (int i = 0; i < 5; i++)
        add(&nodes[i < 2 ? 0 : 1], 8, SHARED);
    for (size_t i = 0; i < 5; i++)
        place_take(&pool, i, CTL_SHARING_TIME_SLICE, i == 3 ? 8 : 4, 1);
    assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_BUSY);
    place_take(&pool, 0, CTL_SHARING_TIME_SLICE, 4, 1);
    assert_int_equal(place_keep(&pool, &two, kept), 2);
    assert_true(kept[0] == 2 && kept[1] == 4);       /* of one node, those where least has to become free */
    for (int i = 0; i < 2; i++) {                    /* nobody else gets what is kept */
        assert_int_equal(place_choose_gang(&pool, 0, &other, &gang), PLACE_FOUND);
        assert_int_equal(gang.of[0].gpu, 1);
    }
    place_give_back(&pool, 2, 4, 1);
    assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_BUSY);
    place_give_back(&pool, 4, 4, 1);
    assert_int_equal(place_choose_gang(&pool, 0, &two, &gang), PLACE_FOUND);
    assert_true(gang.of[0].gpu == 2 && gang.of[1].gpu == 4);
    assert_int_equal(place_keep(&pool, &(struct place_request){ .gpus = 4, .accepted = SHARED }, kept), 0);
    assert_int_equal(place_keep(&pool, &(struct place_request){ .gpus = 17, .accepted = SHARED }, kept), 0);
}

/* ---- a model ---- */

struct held { struct place_gang gang; };
enum { GPUS = 16, SERVERS = 96, STEPS = 40000 };
static struct held held[SERVERS];
static uint32_t seed = 7;

static uint32_t chance(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}

static struct place_request random_request(void)
{
    static const unsigned accepted[] = { SHARED, CTL_SHARING_ALL, CTL_SHARING_EXCLUSIVE, CTL_SHARING_MPS };
    struct place_request request = want(1 + chance(5), chance(9), chance(8) * 100, accepted[chance(4)]);
    request.preferred = chance(4) ? NULL : &nodes[chance(NODES)];
    return request;
}

/* By a count of its own: on each GPU no more than it has, and the books say so. */
static void check_books(void)
{
    for (size_t g = 0; g < GPUS; g++) {
        const struct place_gpu *gpu = &pool.gpus[g];
        uint64_t sms = 0, memory = 0;
        unsigned users = 0, kinds = 0;
        for (int i = 0; i < SERVERS; i++)
            for (size_t k = 0; k < held[i].gang.count; k++)
                if (held[i].gang.of[k].gpu == g) {
                    sms += held[i].gang.of[k].sms;
                    memory += held[i].gang.of[k].memory;
                    kinds |= held[i].gang.of[k].sharing;
                    users++;
                }
        assert_true(sms <= gpu->sms && memory <= gpu->memory);
        assert_true(sms == gpu->used_sms && memory == gpu->used_memory && users == gpu->users);
        assert_int_equal(kinds, gpu->sharing);
        assert_int_equal(kinds & ~(unsigned)gpu->offered, 0);
        assert_true(users <= 1 || !(kinds & (CTL_SHARING_EXCLUSIVE | CTL_SHARING_MIG)));
    }
}

/* All of one node, different ones, of one kind and share, in service, kept for nobody else. */
static void check_gang(const struct place_gang *gang, const struct place_request *request)
{
    assert_int_equal(gang->count, request->gpus);
    for (size_t i = 0; i < gang->count; i++) {
        const struct place_gpu *gpu = &pool.gpus[gang->of[i].gpu];
        assert_ptr_equal(gpu->node, pool.gpus[gang->of[0].gpu].node);
        assert_true(i == 0 || gang->of[i].gpu > gang->of[i - 1].gpu);
        assert_int_equal(gang->of[i].sharing, gang->of[0].sharing);
        assert_true(gang->of[i].sharing & request->accepted);
        assert_true(gpu->schedulable && (!gpu->keeper || gpu->keeper == request->asker));
        assert_true(gang->count == 1 || gpu->gangs);
    }
}

/* Whether some node has enough free GPUs of one kind, counted plainly. */
static bool could_go_now(const struct place_request *request)
{
    static const unsigned kinds[] = { CTL_SHARING_EXCLUSIVE, CTL_SHARING_TIME_SLICE, CTL_SHARING_MPS };
    for (int n = 0; n < NODES; n++)
        for (int k = 0; k < 3; k++) {
            unsigned free_gpus = 0;
            for (size_t g = 0; g < GPUS; g++) {
                const struct place_gpu *gpu = &pool.gpus[g];
                uint32_t sms = request->sms ? request->sms : gpu->sms;
                uint64_t memory = request->memory ? request->memory : gpu->memory;
                bool shares = !gpu->users || (gpu->sharing == kinds[k] && kinds[k] != CTL_SHARING_EXCLUSIVE);
                free_gpus += gpu->node == &nodes[n] && gpu->schedulable && !gpu->keeper && shares &&
                             (request->gpus == 1 || gpu->gangs) && gpu->offered & request->accepted & kinds[k] &&
                             gpu->used_sms + sms <= gpu->sms && gpu->used_memory + memory <= gpu->memory;
            }
            if (free_gpus >= request->gpus)
                return true;
        }
    return false;
}

TEST_WITH(test_random, clear, NULL)
{
    int gangs = 0, refused = 0;
    memset(held, 0, sizeof held);
    for (int i = 0; i < GPUS; i++) {
        size_t at = add(&nodes[i * i % NODES], 8, i % 5 ? SHARED | CTL_SHARING_EXCLUSIVE : CTL_SHARING_MPS);
        pool.gpus[at].gangs = i % NODES != 3;
    }
    for (int step = 0; step < STEPS; step++) {
        struct held *h = &held[chance(SERVERS)];
        struct place_request request = random_request();
        struct place_gang gang;
        pool.gpus[chance(GPUS)].schedulable = chance(16) != 0;
        if (h->gang.count) {
            for (size_t i = 0; i < h->gang.count; i++)
                place_give_back(&pool, h->gang.of[i].gpu, h->gang.of[i].sms, h->gang.of[i].memory);
            h->gang.count = 0;
        } else {
            bool could = could_go_now(&request);
            enum place_verdict verdict = place_choose_gang(&pool, (int)chance(3), &request, &gang);
            assert_true((verdict == PLACE_FOUND) == could);  /* none is missed, none is made up */
            refused += verdict != PLACE_FOUND;
            if (verdict == PLACE_FOUND) {
                check_gang(&gang, &request);
                h->gang = gang;
                take(&gang);
                gangs += gang.count > 1;
            }
        }
        check_books();
    }
    assert_true(gangs > 1000 && refused > 1000);
}

/* The first in line keeps its GPUs while others come and go: it has its place when those before it have ended. */
TEST_WITH(test_not_starved, clear, NULL)
{
    enum { ROUNDS = 40, LIFE = 12 };
    for (int round = 0; round < ROUNDS; round++) {
        struct { struct place_gang gang; int end; } others[GPUS * 8] = { { .end = 0 } };
        size_t kept[PLACE_MOST_GPUS];
        struct place_request first = want(4, 8, 100, SHARED), one = want(1, 2, 100, SHARED);
        struct place_gang gang;
        int waited = 0, served = 0;
        one.asker = &askers[1];
        clear(NULL);
        for (int i = 0; i < GPUS; i++)
            add(&nodes[i / 4], 8, SHARED);
        for (int step = 0;; step++) {
            for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
                if (others[i].gang.count && others[i].end <= step) {
                    const struct place_result *of = others[i].gang.of;
                    place_give_back(&pool, of->gpu, of->sms, of->memory);
                    others[i].gang.count = 0;
                }
                if (!others[i].gang.count && place_choose_gang(&pool, 1, &one, &others[i].gang) == PLACE_FOUND) {
                    others[i].end = step + 1 + (int)chance(LIFE);
                    take(&others[i].gang);
                    served += step >= LIFE;
                }
            }
            if (step < LIFE)
                continue;                            /* the cluster fills */
            enum place_verdict verdict = place_choose_gang(&pool, 0, &first, &gang);
            if (step == LIFE && verdict == PLACE_BUSY)
                assert_int_equal(place_keep(&pool, &first, kept), 4);
            if (verdict == PLACE_FOUND)
                break;
            assert_true(waited++ <= LIFE);           /* as long as those live that were there */
        }
        check_gang(&gang, &first);
        assert_true(served > 0);                     /* nobody else was kept waiting for it */
    }
}

int main(void)
{
    int failed = unit_run(NULL, NULL);
    place_free(&pool);
    return failed;
}
