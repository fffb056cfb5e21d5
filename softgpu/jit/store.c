/* store.c: compiled code on disk. See store.h. */
#include "softgpu/jit/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu/code/hash.h"

/* In front of the code. `sum`: BLAKE2b-256 of the key and the code. */
struct store_header { char magic[8]; uint64_t size; uint8_t sum[STORE_KEY]; };
static const char magic[8] = "flytcode";

/* Files that are written before the folder is counted again: other processes write, too. */
enum { WRITES_MOST = 64, NAME_SIZE = 2 * STORE_KEY + 1 };

static struct {
    int folder;                       /* -1: there is none */
    size_t files;                     /* in the folder, as far as this process knows, and their bytes */
    uint64_t bytes;
    unsigned writes;                  /* since they were counted */
} store = { .folder = -1 };

static void name_of(const uint8_t *key, char name[NAME_SIZE])
{
    for (unsigned k = 0; k < STORE_KEY; k++)
        snprintf(name + 2 * k, 3, "%02x", key[k]);
}

void store_sum(uint8_t sum[STORE_KEY], const void *bytes, size_t size)
{
    uint8_t both[2 * STORE_KEY];
    memcpy(both, sum, STORE_KEY);
    hash_bytes(bytes, size, both + STORE_KEY);
    hash_bytes(both, sizeof both, sum);
}

/* Of the key and the code. */
static void sum_of(const uint8_t *key, const void *code, size_t size, uint8_t sum[STORE_KEY])
{
    memcpy(sum, key, STORE_KEY);
    store_sum(sum, code, size);
}

/* Only this user may write it. */
static bool is_own(const struct stat *s) { return s->st_uid == geteuid() && !(s->st_mode & (S_IWGRP | S_IWOTH)); }

/* ---- how much there is ---- */

struct stored_file { char name[NAME_SIZE]; uint64_t bytes; struct timespec used; };

static int by_age(const void *a, const void *b)
{
    const struct stored_file *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return x->used.tv_nsec < y->used.tv_nsec ? -1 : x->used.tv_nsec > y->used.tv_nsec;
}

/* The files of the folder whose names are keys, and how many there are; NULL: none, or no memory. */
static struct stored_file *files_of(size_t *count, uint64_t *bytes)
{
    struct stored_file *list = NULL;
    size_t room = 0;
    int fd = openat(store.folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    *count = *bytes = 0;
    if (!folder && fd >= 0)
        close(fd);
    for (struct dirent *d; folder && (d = readdir(folder));) {
        struct stat s;
        if (strlen(d->d_name) != NAME_SIZE - 1 || strspn(d->d_name, "0123456789abcdef") != NAME_SIZE - 1 ||
            fstatat(store.folder, d->d_name, &s, AT_SYMLINK_NOFOLLOW) || !S_ISREG(s.st_mode))
            continue;
        if (*count == room) {
            struct stored_file *more = realloc(list, (room = room ? 2 * room : 256) * sizeof *list);
            if (!more)
                break;
            list = more;
        }
        struct stored_file *e = &list[(*count)++];
        snprintf(e->name, sizeof e->name, "%s", d->d_name);
        e->bytes = (uint64_t)s.st_size;
        e->used = s.st_mtim;
        *bytes += e->bytes;
    }
    if (folder)
        closedir(folder);
    return list;
}

static bool is_over(size_t files, uint64_t bytes)
{
    return store.files > files || store.bytes > bytes;
}

/* Counts the files. If they are too many, a quarter of what the folder may hold goes. */
static void count(void)
{
    struct stored_file *list = files_of(&store.files, &store.bytes);
    const size_t all = store.files;
    store.writes = 0;
    if (is_over(STORE_FILES_MOST, STORE_BYTES_MOST)) {
        qsort(list, all, sizeof *list, by_age);
        for (size_t k = 0; k < all && is_over(STORE_FILES_MOST / 4 * 3, STORE_BYTES_MOST / 4 * 3); k++) {
            unlinkat(store.folder, list[k].name, 0);
            store.bytes -= list[k].bytes;
            store.files--;
        }
    }
    free(list);
}

/* ---- the folder ---- */

static bool make_folders(const char *path)
{
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (char *end = part + 1; (end = strchr(end, '/')); *end++ = '/') {
        *end = 0;
        if (mkdir(part, 0700) && errno != EEXIST)
            return false;
    }
    return !mkdir(part, 0700) || errno == EEXIST;
}

bool store_open(const char *folder, char *why, size_t size)
{
    struct stat s;
    int fd = *folder == '/' && make_folders(folder) ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0 || fstat(fd, &s)) {
        snprintf(why, size, "%s: %s", folder, *folder == '/' ? strerror(errno) : "not an absolute path");
    } else if (!is_own(&s)) {
        snprintf(why, size, "%s: others may write it", folder);
    } else {
        if (store.folder >= 0)
            close(store.folder);
        store.folder = fd;
        count();
        return true;
    }
    if (fd >= 0)
        close(fd);
    return false;
}

/* ---- one file ---- */

static bool read_all(int fd, void *bytes, size_t size)
{
    for (ssize_t n; size; bytes = (char *)bytes + n, size -= (size_t)n) {
        n = read(fd, bytes, size);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return false;
        n = n < 0 ? 0 : n;
    }
    return true;
}

static bool write_all(int fd, const void *bytes, size_t size)
{
    for (ssize_t n; size; bytes = (const char *)bytes + n, size -= (size_t)n) {
        n = write(fd, bytes, size);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return false;
        n = n < 0 ? 0 : n;
    }
    return true;
}

static void *read_code(int fd, const uint8_t *key, size_t *size)
{
    struct stat s;
    struct store_header h;
    uint8_t sum[STORE_KEY];
    if (fstat(fd, &s) || !S_ISREG(s.st_mode) || !is_own(&s) || !read_all(fd, &h, sizeof h) ||
        memcmp(h.magic, magic, sizeof magic) || h.size > STORE_FILE_MOST || !h.size ||
        (uint64_t)s.st_size != sizeof h + h.size)
        return NULL;
    void *code = malloc(h.size);
    if (!code || !read_all(fd, code, h.size)) {
        free(code);
        return NULL;
    }
    sum_of(key, code, h.size, sum);
    if (memcmp(sum, h.sum, sizeof sum)) {
        free(code);
        return NULL;
    }
    *size = h.size;
    return code;
}

void *store_read(const uint8_t key[STORE_KEY], size_t *size)
{
    char name[NAME_SIZE];
    if (store.folder < 0)
        return NULL;
    name_of(key, name);
    int fd = openat(store.folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    void *code = read_code(fd, key, size);
    if (code)
        futimens(fd, NULL);
    else
        unlinkat(store.folder, name, 0);
    close(fd);
    return code;
}

/* Into a file of this process alone, which then gets its name: others see the whole of it, or nothing. What a process
   that is killed leaves behind is overwritten by the next one of the same number. */
void store_write(const uint8_t key[STORE_KEY], const void *code, size_t size)
{
    char name[NAME_SIZE], mine[NAME_SIZE];
    struct store_header h = { .size = size };
    uint8_t process[STORE_KEY] = { 0 };
    if (store.folder < 0 || size > STORE_FILE_MOST)
        return;
    const long number = getpid();
    memcpy(process, &number, sizeof number);
    name_of(key, name);
    name_of(process, mine);
    memcpy(h.magic, magic, sizeof magic);
    sum_of(key, code, size, h.sum);
    unlinkat(store.folder, mine, 0);
    int fd = openat(store.folder, mine, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    const bool written = write_all(fd, &h, sizeof h) && write_all(fd, code, size);
    if (close(fd) || !written || renameat(store.folder, mine, store.folder, name))
        unlinkat(store.folder, mine, 0);
    store.files++;
    store.bytes += sizeof h + size;
    if (++store.writes >= WRITES_MOST || is_over(STORE_FILES_MOST, STORE_BYTES_MOST))
        count();
}

void store_remove(const uint8_t key[STORE_KEY])
{
    char name[NAME_SIZE];
    name_of(key, name);
    if (store.folder >= 0)
        unlinkat(store.folder, name, 0);
}
