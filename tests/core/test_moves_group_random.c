/*
 * Random programs that share memory move, and are suspended, resumed and saved, together, between two servers with the
 * software GPU, while they write into it; what is there is compared with a model. Arguments: unix or tcp, the path of
 * cricket-rpc-server, and the first seed and how many. Each seed in a process of its own, whose children are the
 * programs (moved_group.h).
 *
 * Each program makes, exports, opens, closes and frees memory. Words belong to the programs in stripes, and each writes
 * into its own stripes of all memory that it has, its own and that of the others. The model of all memory lies in
 * memory that the processes share.
 *
 * shows: moving: three programs that share memory and write random patterns into it, by copies, sets and kernels, find
 *   what a model says, in their own memory and in that of the others, while they move together, are suspended and
 *   resumed, and saved, also where one of them refuses that; events of several programs order their work as before
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/core/moved_group.h"
#include "tests/core/kernels.h"
#include "tests/lib/dice.h"
#include "tests/lib/unit.h"

enum { PROGRAMS = 3, PIECES = 3, STRIPE = 256, SMALL_STRIPES = 12, LARGE_STRIPES = 2700, MOST_WORDS = 2700 * STRIPE };
enum { EPOCHS = 20, CHANGES = 4, WRITES = 40, BLOCK = 32, LIMIT_S = 240 };
_Static_assert(SMALL_STRIPES % PROGRAMS == 0 && LARGE_STRIPES % PROGRAMS == 0, "each has as many of each piece");

/* Some have more than one piece of 2 MiB. */
struct piece {
    bool live;
    uint32_t words;
    CUipcMemHandle handle;
    uint32_t model[MOST_WORDS];
};
static struct piece (*pieces)[PIECES];         /* [PROGRAMS]; the processes have them in common */

/* What this process has of them. */
static CUdeviceptr places[PROGRAMS][PIECES];
static CUevent heard[PROGRAMS];
static CUfunction fill, add;
static struct group_program program;

static uint64_t first_seed = 1, seeds = 1, seed;

/* fill(a, n, v): n words; add(a, n): its index to each. */
static const char ptx[] = KERNELS_BEGIN KERNEL_FILL KERNEL_ADD;

/* ---- which memory there is: all draw the same numbers, and look at the pieces between the same barriers ---- */

static void piece_make(struct member *self, int owner, int k, uint32_t stripes)
{
    struct piece *piece = &pieces[owner][k];
    if (self->number == owner) {
        piece->words = stripes * STRIPE;
        memset(piece->model, 0, piece->words * sizeof *piece->model);
        OK(cuMemAlloc_v2(&places[owner][k], piece->words * 4));
        OK(cuMemsetD32Async(places[owner][k], 0, piece->words, program.stream));
        OK(cuStreamSynchronize(program.stream));
        OK(cuIpcGetMemHandle(&piece->handle, places[owner][k]));
        piece->live = true;
    }
    group_barrier(self);
}

static void piece_close(struct member *self, int owner, int k)
{
    if (self->number == owner || !places[owner][k])
        return;
    OK(cuIpcCloseMemHandle(places[owner][k]));
    places[owner][k] = 0;
}

static void piece_turn(struct member *self, int owner, int k)
{
    if (self->number == owner)
        return;
    if (places[owner][k])
        piece_close(self, owner, k);
    else
        OK(cuIpcOpenMemHandle_v2(&places[owner][k], pieces[owner][k].handle, 1));
}

static void piece_free(struct member *self, int owner, int k)
{
    piece_close(self, owner, k);
    group_barrier(self);
    if (self->number == owner) {
        OK(cuMemFree_v2(places[owner][k]));
        places[owner][k] = 0;
        pieces[owner][k].live = false;
    }
    group_barrier(self);
}

static void change(struct member *self, uint64_t *same)
{
    const int owner = (int)dice(same, PROGRAMS), k = (int)dice(same, PIECES);
    const uint32_t stripes = dice(same, 4) ? SMALL_STRIPES : LARGE_STRIPES, what = dice(same, 4);
    const bool live = pieces[owner][k].live;
    group_barrier(self);
    if (!live)
        piece_make(self, owner, k, stripes);
    else if (!what)
        piece_free(self, owner, k);
    for (int i = 0; i < PROGRAMS; i++)
        if (dice(same, 3) && self->number == i && pieces[owner][k].live)
            piece_turn(self, owner, k);
    group_barrier(self);
}

/* ---- writing ---- */

/* Words of a stripe of this program's, in memory that it has. False: it has none. */
struct range {
    struct piece *piece;
    CUdeviceptr place;
    uint32_t start, count;
};

static bool draw(struct member *self, uint64_t *own, struct range *range)
{
    const uint32_t first = dice(own, PROGRAMS * PIECES);
    for (uint32_t i = 0; i < PROGRAMS * PIECES; i++) {
        const uint32_t which = (first + i) % (PROGRAMS * PIECES);
        range->piece = &pieces[which / PIECES][which % PIECES];
        range->place = places[which / PIECES][which % PIECES];
        if (!range->place)
            continue;
        const uint32_t stripe =
            (uint32_t)self->number + PROGRAMS * dice(own, range->piece->words / STRIPE / PROGRAMS);
        const uint32_t offset = dice(own, STRIPE);
        range->start = stripe * STRIPE + offset;
        range->count = 1 + dice(own, STRIPE - offset);
        return true;
    }
    return false;
}

static CUdeviceptr begin_of(const struct range *range) { return range->place + 4 * (CUdeviceptr)range->start; }
static uint32_t *model_of(const struct range *range) { return range->piece->model + range->start; }

static void launch(CUfunction function, struct range *range, uint32_t value)
{
    CUdeviceptr at = begin_of(range);
    OK(cuLaunchKernel(function, 1, 1, 1, BLOCK, 1, 1, 0, program.stream, (void *[]){ &at, &range->count, &value },
                      NULL));
}

static void compare(const struct range *range, const uint32_t *words)
{
    for (uint32_t i = 0; i < range->count; i++)
        if (words[i] != model_of(range)[i]) {
            fprintf(stderr, "seed %llu: word %u is %u, not %u\n", (unsigned long long)seed, range->start + i, words[i],
                    model_of(range)[i]);
            CHECK(false);
        }
}

static void copy_between(struct member *self, uint64_t *own, struct range *to)
{
    struct range from;
    draw(self, own, &from);
    to->count = from.count = to->count < from.count ? to->count : from.count;
    if (from.piece == to->piece)               /* it may be the same stripe */
        return;
    OK(cuMemcpyDtoDAsync_v2(begin_of(to), begin_of(&from), 4 * to->count, program.stream));
    memcpy(model_of(to), model_of(&from), 4 * to->count);
}

static void write_once(struct member *self, uint64_t *own)
{
    uint32_t words[STRIPE], value = dice(own, UINT32_MAX);
    struct range range;
    if (!draw(self, own, &range))
        return;
    switch (dice(own, 6)) {
    case 0:
        for (uint32_t i = 0; i < range.count; i++)
            words[i] = value * (i + 1);
        OK(cuMemcpyHtoDAsync_v2(begin_of(&range), words, 4 * range.count, program.stream));
        memcpy(model_of(&range), words, 4 * range.count);
        break;
    case 1:
    case 2:
        if (value % 2)
            OK(cuMemsetD32Async(begin_of(&range), value, range.count, program.stream));
        else
            launch(fill, &range, value);
        for (uint32_t i = 0; i < range.count; i++)
            model_of(&range)[i] = value;
        break;
    case 3:
        launch(add, &range, 0);
        for (uint32_t i = 0; i < range.count; i++)
            model_of(&range)[i] += i;
        break;
    case 4: copy_between(self, own, &range); break;
    default:
        OK(cuMemcpyDtoHAsync_v2(words, begin_of(&range), 4 * range.count, program.stream));
        OK(cuStreamSynchronize(program.stream));
        compare(&range, words);
    }
}

static struct writer {
    struct member *self;
    uint64_t own;
    atomic_bool over;                          /* nothing moves any more */
} writer;

static void *write_on(void *unused)
{
    moved_begin();
    for (int i = 0; i < WRITES || !atomic_load(&writer.over); i++)
        write_once(writer.self, &writer.own);
    return unused;
}

/* Behind the events of all programs. */
static void look_at_all(void)
{
    uint32_t *words = malloc(sizeof(uint32_t) * MOST_WORDS);
    for (int i = 0; i < PROGRAMS; i++)
        if (heard[i])
            OK(cuStreamWaitEvent(program.stream, heard[i], 0));
    for (int owner = 0; owner < PROGRAMS; owner++)
        for (int k = 0; k < PIECES; k++) {
            const struct range all = { &pieces[owner][k], places[owner][k], 0, pieces[owner][k].words };
            if (!all.place)
                continue;
            OK(cuMemcpyDtoHAsync_v2(words, all.place, 4 * all.count, program.stream));
            OK(cuStreamSynchronize(program.stream));
            compare(&all, words);
        }
    free(words);
}

/* ---- moving ---- */

enum course { NOTHING, MOVES, RESTS, RESTS_TWICE, STAYS, RESTS_NOT, IS_SAVED, COURSES };
static const enum core_meeting of_move[] = { CORE_MEETS_PREPARED, CORE_MEETS_RESTED, CORE_MEETS_MADE,
                                             CORE_MEETS_SEALED },
                               of_rest[] = { CORE_MEETS_PREPARED, CORE_MEETS_RESTED, CORE_MEETS_SEALED },
                               of_return[] = { CORE_MEETS_PREPARED, CORE_MEETS_MADE, CORE_MEETS_SEALED };

struct way {
    enum course course;
    int to, refuses, round;
    enum core_meeting where;
};

static struct way way_draw(const struct member *self, uint64_t *same)
{
    struct way way = { (enum course)dice(same, COURSES), (int)dice(same, 2), (int)dice(same, PROGRAMS), 0, 0 };
    const uint32_t where = dice(same, 12);
    way.where = way.course == STAYS ? of_move[where % 4] : way.course == RESTS_TWICE ? of_return[where % 3]
                                                                                     : of_rest[where % 3];
    way.round = way.course == RESTS_TWICE ? self->round + 2
                : way.course == STAYS || way.course == RESTS_NOT ? self->round + 1 : 0;
    return way;
}

static void must(int code)
{
    if (code)
        fprintf(stderr, "seed %llu: %d: %s\n", (unsigned long long)seed, code, group_why);
    CHECK(code == 0);
}

static void save(struct member *self)
{
    char file[256];
    snprintf(file, sizeof file, "%s/random-%d", getenv("TEST_FOLDER"), self->number);
    must(group_checkpoint(self, file));
    CHECK(unlink(file) == 0);
}

/* All of them do the same. *at: the server where they are. */
static void go(struct member *self, const struct way *way, int *at)
{
    switch (way->course) {
    case MOVES:
        *at = !*at;
        must(group_move(self, *at));
        break;
    case RESTS:
    case RESTS_TWICE:
        must(group_suspend(self));
        if (way->course == RESTS_TWICE)
            CHECK(group_resume(self, !way->to) != 0);
        *at = way->to;
        must(group_resume(self, *at));
        break;
    case STAYS: CHECK(group_move(self, !*at) != 0); break;
    case RESTS_NOT: CHECK(group_suspend(self) != 0); break;
    case IS_SAVED: save(self); break;
    default: break;
    }
    group_expect_at(*at);
}

static void epoch(struct member *self, int number, uint64_t *same, int *at)
{
    pthread_t thread;
    for (int i = 0; i < CHANGES; i++)
        change(self, same);
    const struct way way = way_draw(self, same);
    if (!self->number) {
        common->refuses = way.refuses;
        common->where = (int)way.where;
        common->round = way.round;
    }
    group_barrier(self);
    writer.self = self;
    writer.own = seed * 10007 + (uint64_t)(number * PROGRAMS + self->number);
    atomic_store(&writer.over, false);
    CHECK(pthread_create(&thread, NULL, write_on, NULL) == 0);
    go(self, &way, at);
    atomic_store(&writer.over, true);
    pthread_join(thread, NULL);
    OK(cuEventRecord(program.record, program.stream));
    group_barrier(self);
    look_at_all();
    group_barrier(self);
}

static void run(struct member *self)
{
    uint64_t same = seed;
    int at = 0;
    CUmodule module;
    group_begin(self, &program);
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&fill, module, "fill"));
    OK(cuModuleGetFunction(&add, module, "add"));
    for (int i = 0; i < PROGRAMS; i++)
        if (i != self->number)
            OK(cuIpcOpenEventHandle(&heard[i], common->events[i]));
    for (int number = 0; number < EPOCHS; number++)
        epoch(self, number, &same, &at);
    CHECK(core_sticky() == 0 && core_take_latched() == 0);
}

static void body_random(void)
{
    common = group_make(PROGRAMS);
    pieces = mmap(NULL, PROGRAMS * sizeof *pieces, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(pieces != MAP_FAILED);
    group_run(run);
}

TEST(random_programs)
{
    for (seed = first_seed; seed < first_seed + seeds; seed++)
        assert_int_equal(isolated(body_random, LIMIT_S), 0);
}

int main(int argc, char **argv)
{
    if (argc > 4) {
        first_seed = strtoull(argv[3], NULL, 10);
        seeds = strtoull(argv[4], NULL, 10);
    }
    return two_servers_run(argc, argv, " [FIRST-SEED COUNT]");
}
