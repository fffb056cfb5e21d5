/*
 * hostile.c: sequences of calls with arguments that are sometimes right and often wrong, on the null device in this
 * process: nothing may crash, hang, or be left behind. The seed is printed; HOSTILE_SEED repeats it;
 * HOSTILE_GPU=software takes another device, through libflyt-server.so. (No kernel does harm: its parameters are
 * zeros.) See hostile.h.
 */
#include "tests/server/hostile.h"

#include "cpu/common/clock.h"
#include "cpu/server/gpu/gpu.h"

struct hostile hostile;

/* In so many of all calls each subject has its turn: about as many as it has cases. */
static const struct {
    unsigned turns;
    void (*call)(struct peer *);
} subjects[] = {
    { 5, hostile_contexts }, { 8, hostile_memory }, { 8, hostile_copies },  { 11, hostile_streams },
    { 2, hostile_arrays },   { 1, hostile_code },   { 2, hostile_forward },
};
enum { SUBJECTS = sizeof subjects / sizeof subjects[0] };

static void one_call(struct peer *peer)
{
    unsigned all = 0, subject = 0;
    for (unsigned i = 0; i < SUBJECTS; i++)
        all += subjects[i].turns;
    uint64_t turn = below(all);
    while (turn >= subjects[subject].turns)
        turn -= subjects[subject++].turns;
    subjects[subject].call(peer);
}

TEST(random_calls)
{
    struct gpu_null_count count;
    struct peer peer;
    const char *seed = getenv("HOSTILE_SEED"), *gpu = getenv("HOSTILE_GPU");
    uint64_t start = clock_now(), calls = 0;
    /* On a real device a fault may stay with the process: then one round is all there is. */
    for (uint64_t round = 0; clock_now() - start < HOSTILE_SECONDS * CLOCK_NS_PER_SECOND && !(gpu && round); round++) {
        hostile = (struct hostile){
            .drawn = seed ? strtoull(seed, NULL, 0) : (start ^ round * 0x9e3779b97f4a7c15u) | 1,
        };
        print_message("# seed %#llx\n", (unsigned long long)hostile.drawn);
        if (gpu)
            peer_library(&peer, gpu);
        else
            peer_local(&peer, "null");
        peer_hello(&peer);
        unsigned length = 1000 + (unsigned)below(3000);
        for (unsigned i = 0; i < length; i++)
            one_call(&peer);
        calls += length;
        peer_close(&peer);
        gpu_null_counted(&count);
        assert_int_equal(count.mapped, 0);
    }
    print_message("# %llu calls\n", (unsigned long long)calls);
}

int main(void) { return unit_run(NULL, NULL); }
