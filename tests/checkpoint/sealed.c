/*
 * Encrypted checkpoints (cpu/checkpoint), without a session.
 * shows: checkpoints: an encrypted file is read with the machine's key, and what it holds is nowhere in it; without the
 *   key everything but that is said, with another key it is refused by name
 * shows: checkpoints: an encrypted file whose frames were changed, left out, swapped, repeated, or taken from another
 *   file is refused with the key, even where all checksums are right
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu/checkpoint/frame.h"
#include "cpu/code/hash.h"
#include "tests/lib/unit.h"

enum { PARTS = 4, PART_SIZE = 5000, FRAMES_MOST = 32, FILE_MOST = 1 << 16 };
static const char facts[] = "version=1\nid=abc\n";
static const uint8_t machine[CHECKPOINT_KEY] = "0123456789abcdef0123456789abcde";

struct file {
    uint8_t bytes[FILE_MOST];
    size_t size, at[FRAMES_MOST], length[FRAMES_MOST];
    unsigned frames;
};

/* Of each packing, and the last of two frames are alike. */
static void part_fill(unsigned i, uint8_t data[PART_SIZE])
{
    uint64_t seed = 1 + i / 2;
    memset(data, 0, PART_SIZE);
    for (unsigned at = 0; at < PART_SIZE && i; at++) {
        seed = seed * UINT64_C(6364136223846793005) + 1;
        data[at] = i == 1 ? (uint8_t)(seed >> 56) : (uint8_t)("secret text "[at % 12]);
    }
}

static void write_parts(int fd, const struct checkpoint_seal *seal)
{
    struct checkpoint_writer *w = checkpoint_writer_new(fd, true, seal);
    uint8_t data[PART_SIZE];
    assert_non_null(w);
    int error = checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_FACTS, .size = sizeof facts - 1,
                                                                .data = facts });
    error |= checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_KIND, .kind = 3, .size = 4,
                                                             .object = 9, .data = "kind" });
    for (unsigned i = 0; i < PARTS; i++) {
        part_fill(i, data);
        error |= checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_PART, .kind = 3, .size = PART_SIZE,
                                                                 .object = 7, .offset = i / 2, .data = data });
    }
    error |= checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_END });
    assert_int_equal(error, 0);
    checkpoint_writer_free(w);
}

static void file_make(struct file *file, const uint8_t *key, struct checkpoint_seal *seal)
{
    int fd = memfd_create("sealed", MFD_CLOEXEC);
    assert_true(fd >= 0 && checkpoint_seal_make(key, seal));
    write_parts(fd, seal);
    file->size = (size_t)lseek(fd, 0, SEEK_END);
    assert_true(file->size < FILE_MOST && pread(fd, file->bytes, file->size, 0) == (ssize_t)file->size);
    close(fd);
    file->frames = 0;
    for (size_t at = 8; at < file->size; at += file->length[file->frames++]) {
        const struct frame_head head = frame_decode(file->bytes + at);
        file->at[file->frames] = at;
        file->length[file->frames] = CHECKPOINT_HEAD + head.stored;
    }
    assert_int_equal(file->frames, 3 + PARTS + 1);
}

enum with { NOTHING, MACHINE_KEY, OTHER_KEY, FILE_KEY };

static int bytes_read(const void *bytes, size_t size, enum with with, const struct checkpoint_seal *seal,
                      unsigned *open, char why[CHECKPOINT_WHY_SIZE])
{
    int fd = memfd_create("again", MFD_CLOEXEC), got;
    struct checkpoint_reader *r = checkpoint_reader_new(fd);
    struct checkpoint_frame frame = { .type = CHECKPOINT_FACTS };
    uint8_t data[PART_SIZE], other[CHECKPOINT_KEY] = { 1 };
    unsigned parts = 0;
    assert_true(r && write(fd, bytes, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
    if (with == MACHINE_KEY)
        checkpoint_reader_machine_key(r, machine);
    else if (with == OTHER_KEY)
        checkpoint_reader_machine_key(r, other);
    else if (with == FILE_KEY)
        checkpoint_reader_file_key(r, seal->key);
    *why = 0;
    *open = 0;
    while ((got = checkpoint_read(r, &frame, why)) == 1 && frame.type != CHECKPOINT_END)
        if (frame.type == CHECKPOINT_PART) {
            part_fill(parts++, data);
            if (!frame.data)
                continue;
            assert_int_equal(frame.size, PART_SIZE);
            assert_memory_equal(frame.data, data, PART_SIZE); /* nothing else is ever given for a good part */
            ++*open;
        }
    checkpoint_reader_free(r);
    close(fd);
    return got;
}

static int file_read(const struct file *file, enum with with, const struct checkpoint_seal *seal, unsigned *open,
                     char *why)
{
    return bytes_read(file->bytes, file->size, with, seal, open, why);
}

static bool holds(const struct file *file, const void *bytes, size_t size)
{
    return memmem(file->bytes, file->size, bytes, size);
}

TEST(with_and_without_the_key)
{
    struct file file;
    struct checkpoint_seal seal;
    unsigned open;
    char why[CHECKPOINT_WHY_SIZE];
    uint8_t id[CHECKPOINT_KEY_ID], own[CHECKPOINT_KEY_ID];
    file_make(&file, machine, &seal);
    assert_false(holds(&file, seal.key, 8) || holds(&file, machine, 8) || holds(&file, "secret", 6));
    assert_true(holds(&file, facts, sizeof facts - 1));
    assert_int_equal(file_read(&file, MACHINE_KEY, &seal, &open, why), 1);
    assert_int_equal(open, PARTS);
    assert_int_equal(file_read(&file, FILE_KEY, &seal, &open, why), 1);
    assert_int_equal(open, PARTS);
    assert_int_equal(file_read(&file, NOTHING, &seal, &open, why), 1);
    assert_int_equal(open, 0);
    assert_int_equal(file_read(&file, OTHER_KEY, &seal, &open, why), -EACCES);
    assert_string_equal(why, "it is encrypted with another key");
    checkpoint_key_id(machine, own);
    assert_true(checkpoint_seal_key_id(seal.wrapped, id) && memcmp(id, own, sizeof id) == 0);
    file_make(&file, NULL, &seal);
    assert_false(checkpoint_seal_key_id(seal.wrapped, id));
    assert_int_equal(file_read(&file, MACHINE_KEY, &seal, &open, why), -EACCES);
    assert_string_equal(why, "only the process that wrote it can read it");
    assert_int_equal(file_read(&file, FILE_KEY, &seal, &open, why), 1);
}

TEST(no_two_files_are_alike)
{
    struct file one, two;
    struct checkpoint_seal first, second;
    file_make(&one, machine, &first);
    file_make(&two, machine, &second);
    assert_memory_not_equal(first.key, second.key, sizeof first.key);
    assert_memory_not_equal(one.bytes + one.at[4], two.bytes + two.at[4], one.length[4]);
}

/* The text of a key. */
TEST(keys)
{
    uint8_t key[CHECKPOINT_KEY];
    char text[65];
    memset(text, '0', 64);
    text[64] = 0;
    memcpy(text, "0aFf", 4);
    assert_true(checkpoint_key_parse(text, 64, key) && key[0] == 0x0a && key[1] == 0xff && !key[2]);
    assert_false(checkpoint_key_parse(text, 63, key));
    for (const char *wrong = "g-/:@G` \n"; *wrong; wrong++) {
        text[5] = *wrong;
        assert_false(checkpoint_key_parse(text, 64, key));
    }
}

/* ---- somebody who can write files, and knows the format ---- */

/* Of the first eight bytes, and of the heads of the frames up to `end`. */
static void hash_heads(const uint8_t *out, size_t end, const size_t *lengths, const unsigned *order, uint8_t *digest)
{
    hash *heads = hash_create();
    hash_add(heads, out, 8);
    for (size_t at = 8; at < end; at += lengths[*order++ % 100])
        hash_add(heads, out + at, CHECKPOINT_HEAD);
    hash_finish(heads, digest);
}

/* The frames in that order, with checksums that are right: a number above 99 is that of `other`. */
static size_t forge(const struct file *file, const struct file *other, const unsigned *order, unsigned count,
                    uint8_t *out)
{
    size_t at = 8;
    uint64_t parts = 0, bytes = 0;
    memcpy(out, CHECKPOINT_MAGIC, 8);
    for (unsigned i = 0; i < count; i++) {
        const struct file *from = order[i] > 99 ? other : file;
        const unsigned number = order[i] % 100;
        memcpy(out + at, from->bytes + from->at[number], from->length[number]);
        struct frame_head head = frame_decode(out + at);
        if (head.type == CHECKPOINT_PART) {
            parts++;
            bytes += head.size;
        } else if (head.type == CHECKPOINT_END) {
            head.object = parts;
            head.offset = bytes;
            hash_heads(out, at, file->length, order, out + at + CHECKPOINT_HEAD);
            frame_encode(&head, out + at);
        }
        head.check = frame_check(out + at, out + at + CHECKPOINT_HEAD, head.stored);
        frame_encode(&head, out + at);
        at += from->length[number];
    }
    return at;
}

TEST(forged)
{
    static const struct { unsigned count, order[12]; } made[] = {
        { 8, { 0, 1, 2, 4, 3, 5, 6, 7 } },          /* two are swapped */
        { 9, { 0, 1, 2, 3, 3, 4, 5, 6, 7 } },       /* one comes twice */
        { 7, { 0, 1, 2, 3, 4, 5, 7 } },             /* one is missing */
        { 7, { 0, 1, 2, 4, 5, 6, 7 } },
        { 8, { 0, 1, 2, 3, 104, 5, 6, 7 } },        /* one is of another file with the same key */
        { 8, { 0, 101, 2, 3, 4, 5, 6, 7 } },        /* the key is */
        { 8, { 100, 1, 2, 3, 4, 5, 6, 7 } },        /* and the facts are, which differ below */
        { 8, { 0, 1, 2, 3, 4, 5, 6, 107 } },
        { 3, { 0, 1, 7 } },
    };
    struct file file, other;
    struct checkpoint_seal seal, second;
    uint8_t out[2 * FILE_MOST];
    unsigned open;
    char why[CHECKPOINT_WHY_SIZE];
    file_make(&file, machine, &seal);
    file_make(&other, machine, &second);
    other.bytes[other.at[0] + CHECKPOINT_HEAD + 10] ^= 1;
    const unsigned whole[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    size_t size = forge(&file, &other, whole, 8, out);
    assert_int_equal(bytes_read(out, size, MACHINE_KEY, &seal, &open, why), 1);
    for (unsigned i = 0; i < sizeof made / sizeof *made; i++) {
        size = forge(&file, &other, made[i].order, made[i].count, out);
        int got = bytes_read(out, size, NOTHING, &seal, &open, why);
        if (got != 1)
            fail_msg("%u: without the key there is nothing to see: %s", i, why);
        got = bytes_read(out, size, MACHINE_KEY, &seal, &open, why);
        if (got != -EPROTO || !strstr(why, "was changed, or belongs elsewhere"))
            fail_msg("%u: %d, %s", i, got, why);
    }
}

/* One bit of each byte of each frame, and the checksums are right again. Of heads too: what they say is checked. */
TEST(changed)
{
    static const unsigned whole[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    struct file file, other;
    struct checkpoint_seal seal;
    static uint8_t out[2 * FILE_MOST];
    unsigned open;
    char why[CHECKPOINT_WHY_SIZE];
    file_make(&file, machine, &seal);
    for (unsigned frame = 0; frame < file.frames; frame++)
        for (size_t at = 0; at < file.length[frame]; at += at < 60 || at > file.length[frame] - 20 ? 1 : 41) {
            const bool counted = frame == 7 && at >= 24 && at < CHECKPOINT_HEAD + HASH_SIZE;   /* `forge` says it */
            if ((at >= 40 && at < 48) || counted)
                continue;
            other = file;
            other.bytes[other.at[frame] + at] ^= (uint8_t)(1 << at % 8);
            if (frame_decode(other.bytes + other.at[frame]).stored != file.length[frame] - CHECKPOINT_HEAD)
                continue;
            size_t size = forge(&other, &other, whole, 8, out);
            if (bytes_read(out, size, MACHINE_KEY, &seal, &open, why) >= 0 || !*why)
                fail_msg("frame %u, byte %zu: %s", frame, at, why);
        }
}

TEST(cut_off)
{
    struct file file;
    struct checkpoint_seal seal;
    unsigned open;
    char why[CHECKPOINT_WHY_SIZE];
    file_make(&file, machine, &seal);
    for (size_t size = file.size; size > 0; size = size > 600 ? size * 9 / 10 : size - 1)
        assert_true(bytes_read(file.bytes, size - 1, size % 2 ? MACHINE_KEY : NOTHING, &seal, &open, why) < 0 && *why);
}

/* For tests/fuzz/checkpoint.c, whose last byte says how it is read. */
static int seeds(const char *folder)
{
    struct file file;
    struct checkpoint_seal seal;
    for (unsigned how = 0; how < 4; how++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/sealed-%u", folder, how);
        file_make(&file, how % 2 ? machine : NULL, &seal);
        file.bytes[file.size] = (uint8_t[]){ 0, 3, 2, 4 }[how];
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (fd < 0 || write(fd, file.bytes, file.size + 1) != (ssize_t)file.size + 1)
            return 1;
        close(fd);
    }
    return 0;
}

int main(int argc, char **argv)
{
    return argc == 3 && strcmp(argv[1], "--seeds") == 0 ? seeds(argv[2]) : unit_run(NULL, NULL);
}
