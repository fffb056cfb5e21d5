/* image_cache.c: see image_cache.h. */
#include "cpu/server/code/image_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu/common/fd.h"
#include "cpu/code/hash.h"

#define IMAGE_CACHE_LIMIT ((off_t)2 << 30)
/* What a file costs beside its bytes is not little; and so many are looked at when there are too many. */
enum { IMAGE_CACHE_FILES = 4096, IMAGE_CACHE_LOOK = 64 };
#define CACHE_PREFIX "flyt-images-"

struct image_cache {
    int directory;
    char path[PATH_MAX];
    unsigned puts; /* since it was last weighed */
    off_t put_bytes;
};

struct image_cache *image_cache_open(const char *path)
{
    struct image_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    snprintf(cache->path, sizeof cache->path, "%s", path);
    cache->directory = fd_keep(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (cache->directory < 0) {
        free(cache);
        return NULL;
    }
    return cache;
}

static void cache_empty(int directory)
{
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    if (!list && fd >= 0)
        close(fd);
    while (list && (entry = readdir(list)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(directory, entry->d_name, 0);
    if (list)
        closedir(list);
}

/* Directories of listeners that were killed: ours, and no longer locked. */
static void cache_sweep(const char *base)
{
    DIR *list = opendir(base);
    struct dirent *entry;
    struct stat status;
    while (list && (entry = readdir(list))) {
        if (strncmp(entry->d_name, CACHE_PREFIX, sizeof CACHE_PREFIX - 1) != 0)
            continue;
        int fd = openat(dirfd(list), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
            continue;
        if (fstat(fd, &status) == 0 && status.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0) {
            cache_empty(fd);
            unlinkat(dirfd(list), entry->d_name, AT_REMOVEDIR);
        }
        close(fd);
    }
    if (list)
        closedir(list);
}

struct image_cache *image_cache_create(void)
{
    const char *base = secure_getenv("TMPDIR");
    char path[PATH_MAX];
    if (!base || !*base)
        base = "/tmp";
    cache_sweep(base);
    snprintf(path, sizeof path, "%s/" CACHE_PREFIX "XXXXXX", base);
    struct image_cache *cache = mkdtemp(path) ? image_cache_open(path) : NULL;
    if (cache)
        flock(cache->directory, LOCK_EX | LOCK_NB);
    return cache;
}

const char *image_cache_path(const struct image_cache *cache) { return cache->path; }

static void image_cache_close(struct image_cache *cache)
{
    if (!cache)
        return;
    close(cache->directory);
    free(cache);
}

void image_cache_remove(struct image_cache *cache)
{
    if (!cache)
        return;
    cache_empty(cache->directory);
    rmdir(cache->path);
    image_cache_close(cache);
}

static void cache_name(const uint8_t *key, char *name)
{
    for (int i = 0; i < HASH_SIZE; i++)
        snprintf(name + 2 * i, 3, "%02x", key[i]);
}

static bool read_all(int fd, uint8_t *bytes, size_t size)
{
    while (size) {
        ssize_t n = read(fd, bytes, size);
        if (n <= 0)
            return false;
        bytes += n;
        size -= (size_t)n;
    }
    return true;
}

bool image_cache_get(struct image_cache *cache, const uint8_t *key, const uint8_t *nonce, const uint8_t *proof,
                     uint8_t *bytes, size_t size)
{
    char name[2 * HASH_SIZE + 1];
    uint8_t found[HASH_SIZE];
    struct stat status;
    cache_name(key, name);
    int fd = openat(cache->directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    bool good = fstat(fd, &status) == 0 && (size_t)status.st_size == size && read_all(fd, bytes, size);
    close(fd);
    hash *state = good ? hash_create_keyed(nonce) : NULL;
    if (!state)
        return false;
    hash_add(state, bytes, size);
    hash_finish(state, found);
    return hash_equal(found, proof);
}

struct cache_file {
    struct timespec written;
    off_t size;
    char name[2 * HASH_SIZE + 16];
};

static int older(const void *a, const void *b)
{
    const struct timespec *x = &((const struct cache_file *)a)->written, *y = &((const struct cache_file *)b)->written;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* All files, which the caller frees; NULL: there are none, or no memory. */
static struct cache_file *cache_list(struct image_cache *cache, size_t *count, off_t *bytes)
{
    struct cache_file *files = NULL;
    size_t room = 0;
    struct dirent *entry;
    struct stat status;
    int fd = openat(cache->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
    if (!list && fd >= 0)
        close(fd);
    *count = 0;
    *bytes = 0;
    while (list && (entry = readdir(list))) {
        if (entry->d_name[0] == '.' || fstatat(cache->directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (*count == room) {
            struct cache_file *more = realloc(files, (room + IMAGE_CACHE_FILES) * sizeof *files);
            if (!more)
                break;
            files = more;
            room += IMAGE_CACHE_FILES;
        }
        struct cache_file *file = &files[(*count)++];
        *file = (struct cache_file){ .written = status.st_mtim, .size = status.st_size };
        snprintf(file->name, sizeof file->name, "%.*s", (int)sizeof file->name - 1, entry->d_name);
        *bytes += status.st_size;
    }
    if (list)
        closedir(list);
    return files;
}

/* Makes room for one more: the oldest go, and where there are too many, an eighth of them at once. */
static void cache_trim(struct image_cache *cache, off_t size)
{
    size_t count, gone = 0;
    off_t bytes;
    cache->put_bytes += size;
    if (++cache->puts % IMAGE_CACHE_LOOK && cache->put_bytes < IMAGE_CACHE_LIMIT / IMAGE_CACHE_LOOK)
        return;
    cache->put_bytes = 0;
    struct cache_file *files = cache_list(cache, &count, &bytes);
    size_t most = count > IMAGE_CACHE_FILES - IMAGE_CACHE_LOOK ? IMAGE_CACHE_FILES / 8 * 7 : count;
    bool full = bytes + size > IMAGE_CACHE_LIMIT - IMAGE_CACHE_LIMIT / IMAGE_CACHE_LOOK;
    if (files && (full || most < count))
        qsort(files, count, sizeof *files, older);
    for (; gone < count && (count - gone > most || (full && bytes + size > IMAGE_CACHE_LIMIT / 8 * 7)); gone++)
        if (unlinkat(cache->directory, files[gone].name, 0) == 0)
            bytes -= files[gone].size;
    free(files);
}

void image_cache_put(struct image_cache *cache, const uint8_t *key, const uint8_t *bytes, size_t size)
{
    char name[2 * HASH_SIZE + 1], temporary[NAME_MAX + 1];
    if ((off_t)size > IMAGE_CACHE_LIMIT / 4)
        return;
    cache_trim(cache, (off_t)size);
    cache_name(key, name);
    snprintf(temporary, sizeof temporary, "%s.%d", name, (int)getpid());
    int fd = openat(cache->directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    size_t written = 0;
    while (written < size) {
        ssize_t n = write(fd, bytes + written, size - written);
        if (n <= 0)
            break;
        written += (size_t)n;
    }
    close(fd);
    if (written < size || renameat(cache->directory, temporary, cache->directory, name) != 0)
        unlinkat(cache->directory, temporary, 0);
}
