/*
 * The file of a checkpoint (cpu/checkpoint), without a session.
 * shows: checkpoints: what is written is read, packed and in order, through a pipe too
 * shows: checkpoints: a file in which any one byte is different, or that is cut off anywhere, is refused with a reason
 * shows: checkpoints: a full disk is an error, and stays one
 * shows: checkpoints: several threads pack, and the parts are in the order in which they were given; an error of one
 *   part in the middle is said, and no thread is left after the end, or where the writer is given up
 * shows: checkpoints: a file gets its name when all of it is there, and replaces no file that is none
 */
#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu/checkpoint/checkpoint.h"
#include "cpu/checkpoint/file.h"
#include "tests/lib/unit.h"

enum { PARTS = 5, FACTS_SIZE = 18 };
static const char facts[] = "version=1\nname=a b\n";
static uint8_t parts[PARTS][CHECKPOINT_PART_MOST];
static const uint32_t sizes[PARTS] = { CHECKPOINT_PART_MOST, 4096, 1, 0, 777777 };

/* One of zeros, one that cannot be packed, one that can. */
static void fill(void)
{
    uint64_t seed = 1;
    for (uint32_t i = 0; i < sizes[1]; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1;
        parts[1][i] = (uint8_t)(seed >> 56);
    }
    parts[2][0] = 7;
    for (uint32_t i = 0; i < sizes[4]; i++)
        parts[4][i] = (uint8_t)(i / 100);
}

static int write_all(int fd, bool hashed)
{
    struct checkpoint_writer *w = checkpoint_writer_new(fd, hashed, NULL);
    uint64_t size;
    assert_non_null(w);
    int error = checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_FACTS, .size = sizeof facts - 1,
                                                                .data = facts });
    if (!error)
        error = checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_KIND, .kind = 3, .size = 4,
                                                                .object = 9, .data = "kind" });
    for (unsigned i = 0; i < PARTS && !error; i++)
        error = checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_PART, .kind = 3, .size = sizes[i],
                                                                .object = 100 + i, .offset = i, .data = parts[i] });
    if (!error)
        error = checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_END });
    assert_true(error || checkpoint_written(w, &size) == (uint64_t)CHECKPOINT_PART_MOST + 4096 + 1 + 777777);
    if (error)
        assert_int_equal(checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_END }), error);
    checkpoint_writer_free(w);
    return error;
}

/* What the last call said; the frames that came before. */
static int read_all(int fd, unsigned *frames, char why[CHECKPOINT_WHY_SIZE])
{
    struct checkpoint_reader *r = checkpoint_reader_new(fd);
    struct checkpoint_frame frame = { .type = CHECKPOINT_FACTS };
    int got;
    assert_non_null(r);
    *frames = 0;
    *why = 0;
    while ((got = checkpoint_read(r, &frame, why)) == 1 && frame.type != CHECKPOINT_END)
        ++*frames;
    checkpoint_reader_free(r);
    return got;
}

static int memory_file(bool hashed)
{
    int fd = memfd_create("checkpoint", MFD_CLOEXEC);
    assert_true(fd >= 0 && write_all(fd, hashed) == 0 && lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

TEST(what_is_written_is_read)
{
    fill();
    for (int hashed = 0; hashed < 2; hashed++) {
        int fd = memory_file(hashed);
        struct checkpoint_reader *r = checkpoint_reader_new(fd);
        struct checkpoint_frame frame;
        char why[CHECKPOINT_WHY_SIZE], value[16];
        assert_true(checkpoint_read(r, &frame, why) == 1 && frame.type == CHECKPOINT_FACTS);
        assert_true(checkpoint_fact(&frame, "name", value, sizeof value) && strcmp(value, "a b") == 0);
        assert_true(checkpoint_fact(&frame, "version", value, sizeof value) && strcmp(value, "1") == 0);
        assert_false(checkpoint_fact(&frame, "nam", value, sizeof value));
        assert_true(checkpoint_read(r, &frame, why) == 1 && frame.type == CHECKPOINT_KIND && frame.object == 9 &&
                    frame.size == 4 && memcmp(frame.data, "kind", 4) == 0);
        for (unsigned i = 0; i < PARTS; i++) {
            assert_int_equal(checkpoint_read(r, &frame, why), 1);
            assert_true(frame.type == CHECKPOINT_PART && frame.object == 100 + i && frame.offset == i &&
                        frame.kind == 3 && frame.size == sizes[i]);
            assert_memory_equal(frame.data, parts[i], sizes[i]);
        }
        assert_true(checkpoint_read(r, &frame, why) == 1 && frame.type == CHECKPOINT_END && frame.object == PARTS);
        assert_true(checkpoint_read(r, &frame, why) < 0);
        checkpoint_reader_free(r);
        assert_true(lseek(fd, 0, SEEK_END) < 100000);
        close(fd);
    }
}

TEST(through_a_pipe)
{
    int ends[2];
    unsigned frames;
    char why[CHECKPOINT_WHY_SIZE];
    fill();
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (!child) {
        close(ends[0]);
        _exit(write_all(ends[1], true) != 0);
    }
    close(ends[1]);
    assert_int_equal(read_all(ends[0], &frames, why), 1);
    assert_int_equal(frames, 2 + PARTS);
    close(ends[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* Each of the first bytes, and then one here and there. */
TEST(another_byte)
{
    unsigned frames;
    char why[CHECKPOINT_WHY_SIZE];
    fill();
    int fd = memory_file(true);
    off_t size = lseek(fd, 0, SEEK_END);
    for (off_t at = 0; at < size; at += at < 600 || at > size - 100 ? 1 : 97) {
        uint8_t byte;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= (uint8_t)(1 << at % 8);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        lseek(fd, 0, SEEK_SET);
        if (read_all(fd, &frames, why) >= 0 || !*why)
            fail_msg("byte %lld: %s", (long long)at, why);
        byte ^= (uint8_t)(1 << at % 8);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    lseek(fd, 0, SEEK_SET);
    assert_int_equal(read_all(fd, &frames, why), 1);
    close(fd);
}

TEST(cut_off)
{
    unsigned frames;
    char why[CHECKPOINT_WHY_SIZE];
    fill();
    for (int hashed = 0; hashed < 2; hashed++) {
        int fd = memory_file(hashed);
        for (off_t size = lseek(fd, 0, SEEK_END); size > 0; size = size > 600 ? size * 9 / 10 : size - 1) {
            assert_int_equal(ftruncate(fd, size - 1), 0);
            lseek(fd, 0, SEEK_SET);
            assert_true(read_all(fd, &frames, why) < 0 && *why);
        }
        close(fd);
    }
}

TEST(a_full_disk)
{
    fill();
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write_all(fd, true), -ENOSPC);
    close(fd);
}

/* ---- many parts: threads pack them ---- */

enum { MANY = 300, MANY_MOST = 64 << 10 };

static unsigned threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    unsigned count = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static unsigned alone;                       /* threads without a writer: a sanitizer may have one of its own */

static int begin(void **state)
{
    (void)state;
    alone = threads();
    return 0;
}

/* Every third part can hardly be packed, so the threads take different times. */
static uint32_t many_fill(unsigned number, uint8_t data[MANY_MOST])
{
    const uint32_t size = 1 + number * UINT32_C(7919) % MANY_MOST;
    uint64_t seed = number;
    for (uint32_t i = 0; i < size; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1;
        data[i] = number % 3 ? (uint8_t)number : (uint8_t)(seed >> 56);
    }
    return size;
}

/* Up to the first error. */
static int many_write(struct checkpoint_writer *w)
{
    uint8_t data[MANY_MOST];
    int error = checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_FACTS, .size = sizeof facts - 1,
                                                                .data = facts });
    if (!error)
        error = checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_KIND, .kind = 3, .size = 4,
                                                                .object = MANY, .data = "kind" });
    for (unsigned i = 0; i < MANY && !error; i++) {
        const uint32_t size = many_fill(i, data);
        error = checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_PART, .kind = 3, .size = size,
                                                                .object = i, .data = data });
        memset(data, 0xee, sizeof data);      /* they are ours again */
    }
    return error;
}

TEST_WITH(many_parts, begin, NULL)
{
    int fd = memfd_create("many", MFD_CLOEXEC);
    uint8_t data[MANY_MOST];
    struct checkpoint_frame frame;
    char why[CHECKPOINT_WHY_SIZE];
    struct checkpoint_writer *w = checkpoint_writer_new(fd, true, NULL);
    assert_true(w && many_write(w) == 0 && threads() > alone);
    assert_int_equal(checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_END }), 0);
    assert_int_equal(threads(), alone);
    checkpoint_writer_free(w);
    lseek(fd, 0, SEEK_SET);
    struct checkpoint_reader *r = checkpoint_reader_new(fd);
    assert_int_equal(checkpoint_read(r, &frame, why), 1);
    assert_int_equal(checkpoint_read(r, &frame, why), 1);
    for (unsigned i = 0; i < MANY; i++) {
        const uint32_t size = many_fill(i, data);
        assert_int_equal(checkpoint_read(r, &frame, why), 1);
        assert_true(frame.object == i && frame.size == size);
        assert_memory_equal(frame.data, data, size);
    }
    assert_true(checkpoint_read(r, &frame, why) == 1 && frame.type == CHECKPOINT_END && frame.object == MANY);
    checkpoint_reader_free(r);
    close(fd);
}

/* A file that may not grow beyond a limit stands for a disk that gets full. */
TEST_WITH(full_in_the_middle, begin, NULL)
{
    struct rlimit before, limit;
    int fd = memfd_create("limited", MFD_CLOEXEC);
    struct checkpoint_writer *w = checkpoint_writer_new(fd, true, NULL);
    assert_true(w && signal(SIGXFSZ, SIG_IGN) != SIG_ERR && getrlimit(RLIMIT_FSIZE, &before) == 0);
    limit = (struct rlimit){ 1 << 20, before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int error = many_write(w), ended = checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_END });
    assert_true((!error || error == -EFBIG) && ended == -EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_END }), -EFBIG);
    checkpoint_writer_free(w);
    assert_true(threads() == alone && lseek(fd, 0, SEEK_END) <= 1 << 20);
    close(fd);
}

TEST_WITH(given_up, begin, NULL)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct checkpoint_writer *w = checkpoint_writer_new(fd, false, NULL);
    assert_true(w && many_write(w) == 0 && threads() > alone);
    checkpoint_writer_free(w);
    assert_int_equal(threads(), alone);
    close(fd);
}

/* ---- its name ---- */

static unsigned entries(const char *folder)
{
    DIR *opened = opendir(folder);
    unsigned count = 0;
    assert_non_null(opened);
    for (struct dirent *entry; (entry = readdir(opened));)
        count += entry->d_name[0] != '.';
    closedir(opened);
    return count;
}

TEST(a_name_at_the_end)
{
    char folder[] = "/tmp/flyt-checkpoint-XXXXXX", path[64], why[512] = "";
    struct checkpoint_file file;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/saved", folder);
    for (int i = 0; i < 3; i++) {            /* the third is given up */
        int fd = checkpoint_file_make(&file, path, why, sizeof why);
        assert_true(fd >= 0);
        if (!file.named)                     /* nobody could see it */
            assert_int_equal(entries(folder), i ? 1 : 0);
        assert_int_equal(write_all(fd, true), 0);
        if (i < 2 && !checkpoint_file_name(&file, fd, why, sizeof why))
            fail_msg("%s", why);
        if (i == 2)
            checkpoint_file_drop(&file);
        close(fd);
        assert_int_equal(entries(folder), 1);
    }
    assert_int_equal(unlink(path), 0);
    int other = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(other, "mine", 4), 4);
    close(other);
    assert_int_equal(checkpoint_file_make(&file, path, why, sizeof why), -1);
    assert_non_null(strstr(why, "is not a checkpoint"));
    assert_true(unlink(path) == 0 && rmdir(folder) == 0);
}

/* Small files for tests/fuzz/checkpoint.c. */
static int seeds(const char *folder)
{
    char path[4096];
    fill();
    memset(parts[1], 5, sizes[1]);
    memset(parts[4], 6, sizes[4]);
    for (int hashed = 0; hashed < 2; hashed++) {
        snprintf(path, sizeof path, "%s/%d", folder, hashed);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (fd < 0 || write_all(fd, hashed) != 0)
            return 1;
        close(fd);
    }
    return 0;
}

int main(int argc, char **argv)
{
    return argc == 3 && strcmp(argv[1], "--seeds") == 0 ? seeds(argv[2]) : unit_run(NULL, NULL);
}
