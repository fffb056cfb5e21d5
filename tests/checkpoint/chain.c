/*
 * Checkpoints with changes, and what becomes of several of them (cpu/checkpoint/chain.h), without a session.
 * shows: checkpoints: a whole one and a row of changes become one that holds what the last state was, for random
 *   objects and changes, encrypted or not
 * shows: checkpoints: a process reads any bytes of a row of its own encrypted files, makes one file of them meanwhile,
 *   and notices a byte that was changed; files of which later ones keep nothing can be left out
 * shows: checkpoints: changes of another checkpoint, missing ones, a missing key and files that name bytes which are
 *   nowhere are refused with the reason
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu/checkpoint/chain.h"
#include "cpu/checkpoint/frame.h"
#include "tests/lib/dice.h"
#include "tests/lib/unit.h"

enum { OBJECTS = 3, SIZE = 3000, STEPS = 6, ROUNDS = 60 };
static const uint8_t machine[CHECKPOINT_KEY] = "0123456789abcdef0123456789abcde";
enum { GRID = 100 };
static uint64_t seed;
static bool on_grid;

static unsigned any(unsigned below) { return dice(&seed, below); }

struct state { uint8_t bytes[OBJECTS][SIZE]; };

/* Pieces of any size, or of one to three times GRID, so that pieces of two files are often the same. Of a step behind
   the first, what is as it was is kept. base NULL: a whole one. */
static int write_step(const struct state *now, const struct state *before, const char *id, const char *base,
                      const struct checkpoint_seal *seal)
{
    char facts[200];
    int fd = memfd_create(id, MFD_CLOEXEC), error = 0;
    struct checkpoint_writer *w = checkpoint_writer_new(fd, true, seal);
    assert_true(fd >= 0 && w);
    snprintf(facts, sizeof facts, "version=1\nid=%s\n%s%s%shost=here\n", id, base ? "base=" : "", base ? base : "",
             base ? "\nbase_file=/x\n" : "");
    error |= checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_FACTS, .size = (uint32_t)strlen(facts),
                                                             .data = facts });
    error |= checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_KIND, .kind = 3, .size = 4,
                                                             .object = OBJECTS, .data = "kind" });
    for (unsigned i = 0; i < OBJECTS; i++)
        for (unsigned at = 0, size; at < SIZE; at += size) {
            size = on_grid ? GRID * (1 + any(3)) : 1 + any(400);
            size = size < SIZE - at ? size : SIZE - at;
            const bool kept = base && memcmp(now->bytes[i] + at, before->bytes[i] + at, size) == 0;
            error |= checkpoint_write(w, &(struct checkpoint_frame){ .type = kept ? CHECKPOINT_KEPT : CHECKPOINT_PART,
                                                                     .kind = 3, .size = size, .object = 7 + i,
                                                                     .offset = at, .data = now->bytes[i] + at });
        }
    error |= checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_END });
    assert_int_equal(error, 0);
    checkpoint_writer_free(w);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static void change(struct state *state)
{
    for (unsigned i = any(4); i; i--) {
        const unsigned at = any(SIZE), size = any(SIZE - at) / 4;
        memset(state->bytes[any(OBJECTS)] + at, (int)any(256), size);
    }
}

static void assert_holds(int fd, const uint8_t *key, const char *id, const struct state *state)
{
    struct checkpoint_reader *r = checkpoint_reader_new(fd);
    struct checkpoint_frame frame = { .type = CHECKPOINT_FACTS };
    char why[CHECKPOINT_WHY_SIZE] = "", value[64];
    uint64_t bytes = 0;
    int got;
    if (key)
        checkpoint_reader_machine_key(r, key);
    while ((got = checkpoint_read(r, &frame, why)) == 1 && frame.type != CHECKPOINT_END) {
        if (frame.type == CHECKPOINT_FACTS) {
            assert_true(checkpoint_fact(&frame, "id", value, sizeof value) && strcmp(value, id) == 0);
            assert_true(checkpoint_fact(&frame, "host", value, sizeof value) && strcmp(value, "here") == 0);
            assert_false(checkpoint_fact(&frame, "base", value, sizeof value));
        }
        assert_true(frame.type != CHECKPOINT_KEPT);
        if (frame.type != CHECKPOINT_PART)
            continue;
        assert_memory_equal(frame.data, state->bytes[frame.object - 7] + frame.offset, frame.size);
        bytes += frame.size;
    }
    if (got != 1)
        fail_msg("%s", why);
    assert_true(bytes == (uint64_t)OBJECTS * SIZE);
    checkpoint_reader_free(r);
}

TEST(a_row_of_changes)
{
    static struct state states[STEPS];
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct checkpoint_chain *chain = checkpoint_chain_new();
        struct checkpoint_seal seal;
        const unsigned steps = 1 + round % STEPS;
        const bool sealed = round & 1;
        char why[CHECKPOINT_WHY_SIZE] = "", id[16], base[16] = "";
        int files[STEPS];
        seed = round;
        for (unsigned i = 0; i < steps; i++) {
            if (i)
                states[i] = states[i - 1];
            change(&states[i]);
            snprintf(id, sizeof id, "step%u", i);
            assert_true(checkpoint_seal_make(machine, &seal));
            files[i] = write_step(&states[i], i ? &states[i - 1] : NULL, id, i ? base : NULL, sealed ? &seal : NULL);
            memcpy(base, id, sizeof base);
            if (checkpoint_chain_add(chain, files[i], sealed ? machine : NULL, why) != 0)
                fail_msg("%u of %u: %s", i, round, why);
        }
        int out = memfd_create("out", MFD_CLOEXEC);
        assert_int_equal(checkpoint_chain_sealed(chain), sealed);
        assert_true(checkpoint_seal_make(machine, &seal));
        if (checkpoint_chain_write(chain, out, sealed ? &seal : NULL, why) != 0)
            fail_msg("%u: %s", round, why);
        checkpoint_chain_free(chain);
        assert_int_equal(lseek(out, 0, SEEK_SET), 0);
        assert_holds(out, sealed ? machine : NULL, id, &states[steps - 1]);
        for (unsigned i = 0; i < steps; i++)
            close(files[i]);
        close(out);
    }
}

static void assert_parts(struct checkpoint_chain *chain, const struct state *state)
{
    uint8_t bytes[SIZE + 10];
    char why[CHECKPOINT_WHY_SIZE] = "";
    for (unsigned i = 0; i < 100; i++) {
        const unsigned object = any(OBJECTS), at = any(SIZE), size = 1 + any(SIZE + 9 - at);
        struct checkpoint_frame part = { .kind = 3, .object = 7 + object, .offset = at, .size = size };
        if (checkpoint_chain_part(chain, &part, bytes, why) != 0)
            fail_msg("%u bytes at %u of %u: %s", size, at, object, why);
        assert_int_equal(part.size, size < SIZE - at ? size : SIZE - at);      /* behind the object nothing is */
        assert_memory_equal(bytes, state->bytes[object] + at, part.size);
    }
}

static struct checkpoint_chain *own_chain(const int *files, const struct checkpoint_seal *seals, unsigned count)
{
    struct checkpoint_chain *chain = checkpoint_chain_new();
    char why[CHECKPOINT_WHY_SIZE] = "";
    for (unsigned i = 0; i < count; i++)
        if (checkpoint_chain_add_own(chain, files[i], seals[i].key, why) != 0)
            fail_msg("%u: %s", i, why);
    return chain;
}

TEST(a_row_of_own_files)
{
    static struct state states[STEPS];
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct checkpoint_seal seals[STEPS], seal;
        const unsigned steps = 1 + round % STEPS;
        char why[CHECKPOINT_WHY_SIZE] = "", id[16], base[16] = "";
        int files[STEPS];
        seed = round + 1000;
        on_grid = round % 2;
        for (unsigned i = 0; i < steps; i++) {
            if (i)
                states[i] = states[i - 1];
            change(&states[i]);
            snprintf(id, sizeof id, "step%u", i);
            assert_true(checkpoint_seal_make(NULL, &seals[i]));
            files[i] = write_step(&states[i], i ? &states[i - 1] : NULL, id, i ? base : NULL, &seals[i]);
            memcpy(base, id, sizeof base);
        }
        struct checkpoint_chain *chain = own_chain(files, seals, steps), *merging = own_chain(files, seals, steps);
        int out = memfd_create("out", MFD_CLOEXEC);
        assert_true(checkpoint_seal_make(NULL, &seal));
        assert_parts(chain, &states[steps - 1]);
        if (checkpoint_chain_write(merging, out, &seal, why) != 0)
            fail_msg("%u: %s", round, why);
        struct checkpoint_chain *twin = checkpoint_chain_twin(chain);
        assert_non_null(twin);
        assert_parts(twin, &states[steps - 1]);
        assert_parts(chain, &states[steps - 1]);
        checkpoint_chain_free(twin);
        checkpoint_chain_free(merging);
        checkpoint_chain_free(chain);
        chain = own_chain(&out, &seal, 1);
        assert_parts(chain, &states[steps - 1]);
        checkpoint_chain_free(chain);
        for (unsigned i = 0; i < steps; i++)
            close(files[i]);
        close(out);
    }
}

/* The second file's changes are all written over by the third one. */
TEST(own_files_that_are_left_out)
{
    static struct state states[3];
    struct checkpoint_seal seals[3], seal;
    char why[CHECKPOINT_WHY_SIZE] = "", id[8], base[8] = "";
    int files[3], out = memfd_create("out", MFD_CLOEXEC);
    for (unsigned i = 0; i < 3; i++) {
        states[i] = states[i ? i - 1 : 0];
        memset(states[i].bytes[1], (int)i + 1, SIZE);
        snprintf(id, sizeof id, "step%u", i);
        assert_true(checkpoint_seal_make(NULL, &seals[i]));
        files[i] = write_step(&states[i], i ? &states[i - 1] : NULL, id, i ? base : NULL, &seals[i]);
        memcpy(base, id, sizeof base);
    }
    const int first_and_last[] = { files[0], files[2] };
    const struct checkpoint_seal their_seals[] = { seals[0], seals[2] };
    struct checkpoint_chain *chain = own_chain(first_and_last, their_seals, 2);
    assert_parts(chain, &states[2]);
    assert_true(checkpoint_seal_make(NULL, &seal));
    assert_int_equal(checkpoint_chain_write(chain, out, &seal, why), 0);
    checkpoint_chain_free(chain);
    chain = own_chain(&out, &seal, 1);
    assert_parts(chain, &states[2]);
    checkpoint_chain_free(chain);
    chain = own_chain(&files[2], &seals[2], 1);            /* but of the first one it keeps something */
    struct checkpoint_frame part = { .kind = 3, .object = 7, .size = SIZE };
    uint8_t bytes[SIZE];
    assert_int_equal(checkpoint_chain_part(chain, &part, bytes, why), -EPROTO);
    checkpoint_chain_free(chain);
    for (unsigned i = 0; i < 3; i++)
        close(files[i]);
    close(out);
}

TEST(an_own_file_that_was_changed)
{
    static struct state a;
    struct checkpoint_seal seal;
    struct checkpoint_frame part = { .kind = 3, .object = 7, .size = SIZE };
    char why[CHECKPOINT_WHY_SIZE] = "";
    uint8_t bytes[SIZE], byte;
    seed = 3;
    change(&a);
    assert_true(checkpoint_seal_make(NULL, &seal));
    int fd = write_step(&a, NULL, "one", NULL, &seal);
    struct checkpoint_chain *chain = own_chain(&fd, &seal, 1);
    const off_t at = lseek(fd, 0, SEEK_END) / 2;          /* of the second object */
    assert_true(pread(fd, &byte, 1, at) == 1);
    byte ^= 1;
    assert_true(pwrite(fd, &byte, 1, at) == 1);
    assert_int_equal(checkpoint_chain_part(chain, &part, bytes, why), 0);
    part.object = 8;
    assert_int_equal(checkpoint_chain_part(chain, &part, bytes, why), -EPROTO);
    struct checkpoint_chain *twin = checkpoint_chain_twin(chain);
    assert_int_equal(checkpoint_chain_part(twin, &part, bytes, why), -EPROTO);
    checkpoint_chain_free(twin);
    checkpoint_chain_free(chain);
    close(fd);
}

static void refused(int first, int second, const uint8_t *key, int code, const char *what)
{
    struct checkpoint_chain *chain = checkpoint_chain_new();
    char why[CHECKPOINT_WHY_SIZE] = "";
    int got = checkpoint_chain_add(chain, first, key, why);
    if (!got && second >= 0)
        got = checkpoint_chain_add(chain, second, key, why);
    int out = memfd_create("out", MFD_CLOEXEC);
    if (!got)
        got = checkpoint_chain_write(chain, out, NULL, why);
    if (got != code || !strstr(why, what))
        fail_msg("%d, %s: not %d, %s", got, why, code, what);
    checkpoint_chain_free(chain);
    close(out);
    lseek(first, 0, SEEK_SET);
    if (second >= 0)
        lseek(second, 0, SEEK_SET);
}

TEST(what_does_not_fit)
{
    static struct state a, b, c;
    struct checkpoint_seal seal;
    seed = 5;
    change(&a);
    b = a;
    change(&b);
    c = b;
    change(&c);
    assert_true(checkpoint_seal_make(machine, &seal));
    int whole = write_step(&a, NULL, "one", NULL, NULL), second = write_step(&b, &a, "two", "one", NULL);
    int third = write_step(&c, &b, "three", "two", NULL), closed = write_step(&a, NULL, "one", NULL, &seal);
    refused(second, -1, NULL, -EINVAL, "only the changes since checkpoint one");
    refused(whole, third, NULL, -EINVAL, "the changes since checkpoint two, and the file before it is one");
    refused(whole, write_step(&b, NULL, "two", NULL, NULL), NULL, -EINVAL, "no changes, but everything");
    refused(closed, second, NULL, -EACCES, "key is needed");
    refused(closed, second, (const uint8_t[CHECKPOINT_KEY]){ 9 }, -EACCES, "another key");
    assert_int_equal(ftruncate(second, lseek(second, 0, SEEK_END) - 50), 0);
    lseek(second, 0, SEEK_SET);
    refused(whole, second, NULL, -EPROTO, "cut off");
}

/* A file that keeps what the one before it does not have. */
static int keeps(uint64_t object, uint64_t offset, uint32_t size)
{
    static const char facts[] = "version=1\nid=two\nbase=one\n";
    int fd = memfd_create("keeps", MFD_CLOEXEC);
    struct checkpoint_writer *w = checkpoint_writer_new(fd, true, NULL);
    checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_FACTS, .size = sizeof facts - 1,
                                                    .data = facts });
    checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_KIND, .kind = 3, .size = 4, .data = "kind" });
    checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_KEPT, .kind = 3, .size = size, .object = object,
                                                    .offset = offset });
    assert_int_equal(checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_END }), 0);
    checkpoint_writer_free(w);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

TEST(bytes_that_are_nowhere)
{
    static struct state a;
    const struct { uint64_t object, offset; uint32_t size; } wrong[] = {
        { 7, 0, SIZE + 1 }, { 6, 0, 1 }, { 7, SIZE, 1 }, { 9, SIZE - 1, 2 }, { UINT64_MAX, UINT64_MAX - 8, 8 },
        { 7, UINT64_MAX - 8, 4 },
    };
    int whole = write_step(&a, NULL, "one", NULL, NULL);
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int fd = keeps(wrong[i].object, wrong[i].offset, wrong[i].size);
        refused(whole, fd, NULL, -EPROTO, "names bytes that the file before it does not have");
        close(fd);
    }
    int fd = keeps(7, UINT64_MAX - 8, 100);
    refused(whole, fd, NULL, -EPROTO, "behind the end of all addresses");
}

/* For tests/fuzz/chain.c: two files, and the length of the first. */
static int seeds(const char *folder)
{
    static struct state a, b;
    static uint8_t bytes[1 << 16];
    char path[4096];
    change(&a);
    b = a;
    change(&b);
    int files[2] = { write_step(&a, NULL, "one", NULL, NULL), write_step(&b, &a, "two", "one", NULL) };
    ssize_t first = read(files[0], bytes, sizeof bytes), second = read(files[1], bytes + first, 20000);
    bytes[first + second] = (uint8_t)first;
    bytes[first + second + 1] = (uint8_t)(first >> 8);
    snprintf(path, sizeof path, "%s/two", folder);
    FILE *file = fopen(path, "w");
    return !file || fwrite(bytes, (size_t)(first + second + 2), 1, file) != 1 || fclose(file) != 0;
}

int main(int argc, char **argv)
{
    return argc == 3 && strcmp(argv[1], "--seeds") == 0 ? seeds(argv[2]) : unit_run(NULL, NULL);
}
