/*
 * store.c: compiled code on disk (softgpu/jit/store.h): what was written is found again, and nothing else: no file that
 * is not whole, that is another key's, or that others may write. The folder keeps its bounds.
 */
#include "tests/lib/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "softgpu/jit/store.h"

enum { HEADER = 48, SIZE = 5000 };

static char folder[128], why[512];
static uint8_t code[SIZE];

/* The name of a key's file. */
static void path_of(uint8_t first, char *path, size_t size)
{
    int at = snprintf(path, size, "%s/%02x", folder, first);
    for (unsigned k = 1; k < STORE_KEY; k++)
        at += snprintf(path + at, size - (size_t)at, "%02x", 0xab);
}

static const uint8_t *key_of(uint8_t first)
{
    static uint8_t key[STORE_KEY];
    memset(key, 0xab, sizeof key);
    key[0] = first;
    return key;
}

static void open_new(void)
{
    snprintf(folder, sizeof folder, "/tmp/flyt-store-%d/a/b", getpid());
    for (unsigned k = 0; k < SIZE; k++)
        code[k] = (uint8_t)(k * 7 + k / 256);
    if (!store_open(folder, why, sizeof why))
        fail_msg("%s", why);
}

static int clean(void **state)
{
    char command[160];
    (void)state;
    snprintf(command, sizeof command, "rm -rf /tmp/flyt-store-%d", getpid());
    return system(command);
}

static bool has(uint8_t first)
{
    size_t size = 0;
    uint8_t *found = store_read(key_of(first), &size);
    if (found) {
        assert_int_equal(size, SIZE);
        assert_memory_equal(found, code, SIZE);
    }
    free(found);
    return found;
}

static unsigned files(uint64_t *bytes)
{
    unsigned count = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    *bytes = 0;
    for (struct dirent *e; (e = readdir(d));) {
        struct stat s;
        if (!fstatat(dirfd(d), e->d_name, &s, 0) && S_ISREG(s.st_mode)) {
            count++;
            *bytes += (uint64_t)s.st_size;
        }
    }
    closedir(d);
    return count;
}

TEST_WITH(what_is_written_is_found, NULL, clean)
{
    size_t size;
    assert_null(store_read(key_of(1), &size));
    store_write(key_of(1), code, SIZE); /* the first test: no folder is open, and nothing happens */
    assert_false(has(1));
    open_new();
    assert_false(has(1));
    store_write(key_of(1), code, SIZE);
    store_write(key_of(2), code, SIZE);
    assert_true(has(1));
    store_remove(key_of(1));
    assert_false(has(1));
    assert_true(has(2));
    assert_true(store_open(folder, why, sizeof why)); /* as the next process does */
    assert_true(has(2));
}

/* Each byte of the header and some of the code, each length: the file is not used, and goes. */
TEST_WITH(a_damaged_file_is_not_used, NULL, clean)
{
    char path[256];
    open_new();
    path_of(3, path, sizeof path);
    for (unsigned at = 0; at < HEADER + SIZE; at += at < HEADER + 4 ? 1 : 97) {
        store_write(key_of(3), code, SIZE);
        int fd = open(path, O_RDWR);
        uint8_t byte;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        close(fd);
        assert_false(has(3));
        assert_int_equal(access(path, F_OK), -1);
    }
    for (unsigned length = 0; length < HEADER + SIZE; length += length < HEADER + 4 ? 1 : 997) {
        store_write(key_of(3), code, SIZE);
        assert_int_equal(truncate(path, length), 0);
        assert_false(has(3));
    }
    store_write(key_of(3), code, SIZE);
    assert_int_equal(truncate(path, HEADER + SIZE + 1), 0);
    assert_false(has(3));
}

TEST_WITH(a_file_of_another_key_is_not_used, NULL, clean)
{
    char from[256], to[256];
    open_new();
    store_write(key_of(4), code, SIZE);
    path_of(4, from, sizeof from);
    path_of(5, to, sizeof to);
    assert_int_equal(link(from, to), 0);
    assert_false(has(5));
    assert_true(has(4));
    path_of(6, to, sizeof to);
    assert_int_equal(symlink(from, to), 0);
    assert_false(has(6));
    path_of(7, to, sizeof to);
    assert_int_equal(mkfifo(to, 0600), 0);
    assert_false(has(7)); /* and does not wait for a writer */
}

TEST_WITH(what_others_may_write_is_not_used, NULL, clean)
{
    char path[256];
    open_new();
    path_of(8, path, sizeof path);
    store_write(key_of(8), code, SIZE);
    assert_int_equal(chmod(path, 0620), 0);
    assert_false(has(8));
    assert_int_equal(chmod(folder, 0777), 0);
    assert_false(store_open(folder, why, sizeof why));
    assert_non_null(strstr(why, "others may write"));
    assert_false(store_open("relative/folder", why, sizeof why));
    assert_false(store_open("/proc/flyt/none", why, sizeof why));
    assert_true(*why);
}

static void write_another(unsigned k, const void *bytes, size_t size)
{
    uint8_t key[STORE_KEY] = { 0xee };
    memcpy(key + 1, &k, sizeof k);
    store_write(key, bytes, size);
}

/* Of many small files and of few large ones, those go that were used least lately. */
TEST_WITH(the_folder_keeps_its_bounds, NULL, clean)
{
    enum { LARGE = 8 << 20, LARGE_FILES = 60 };
    uint64_t bytes;
    uint8_t *large = calloc(1, STORE_FILE_MOST + 1);
    struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
    char path[256];
    open_new();
    assert_non_null(large);
    store_write(key_of(9), code, SIZE);
    store_write(key_of(10), code, SIZE);
    path_of(9, path, sizeof path);
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    path_of(10, path, sizeof path);
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    for (unsigned k = 0; k < STORE_FILES_MOST + 100; k++) {
        write_another(k, code, 8);
        assert_true(k % 500 || has(10)); /* which makes it young again */
    }
    assert_true(files(&bytes) <= STORE_FILES_MOST);
    assert_false(has(9));
    assert_true(has(10));
    for (unsigned k = 0; k < LARGE_FILES; k++)
        write_another(k, large, LARGE);
    assert_true(files(&bytes) <= STORE_FILES_MOST);
    assert_in_range(bytes, 1, STORE_BYTES_MOST);
    write_another(1 << 20, large, STORE_FILE_MOST);
    uint8_t key[STORE_KEY] = { 0xdd };
    size_t size;
    store_write(key, large, STORE_FILE_MOST + 1);
    assert_null(store_read(key, &size));
    free(large);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
