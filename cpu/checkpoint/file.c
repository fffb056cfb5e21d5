/* file.c: see file.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu/checkpoint/file.h"
#include "cpu/checkpoint/checkpoint.h"

static int failed(const char *what, const char *path, char *why, size_t size)
{
    int error = errno;
    snprintf(why, size, error == ENOSPC || error == EDQUOT ? "there is no room for %.400s (%.0s%s)"
                                                           : "the checkpoint %.400s cannot be %s: %s",
             path, what, strerror(error));
    errno = error;
    return -1;
}

/* Whoever orders a checkpoint may not have a file of the program's user replaced. */
static bool is_free(const char *path, char *why, size_t size)
{
    char magic[sizeof CHECKPOINT_MAGIC - 1];
    struct stat is;
    if (lstat(path, &is) != 0)
        return errno == ENOENT || failed("written", path, why, size) == 0;
    int fd = S_ISREG(is.st_mode) ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK) : -1;
    bool ours = fd >= 0 && read(fd, magic, sizeof magic) == (ssize_t)sizeof magic &&
                memcmp(magic, CHECKPOINT_MAGIC, sizeof magic) == 0;
    if (fd >= 0)
        close(fd);
    if (!ours)
        snprintf(why, size, "%.400s is there already, and is not a checkpoint", path);
    errno = EEXIST;
    return ours;
}

/* The folder that the path lies in. */
static void folder_of(const char *path, char folder[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    snprintf(folder, PATH_MAX, "%.*s", slash && slash != path ? (int)(slash - path) : 1, slash ? path : ".");
}

int checkpoint_file_make(struct checkpoint_file *file, const char *path, char *why, size_t size)
{
    char folder[PATH_MAX];
    *file = (struct checkpoint_file){ .named = false };
    if (snprintf(file->path, sizeof file->path, "%s", path) >= (int)sizeof file->path ||
        snprintf(file->temporary, sizeof file->temporary, "%s.XXXXXX", path) >= (int)sizeof file->temporary) {
        errno = ENAMETOOLONG;
        return failed("written", path, why, size);
    }
    if (!is_free(path, why, size))
        return -1;
    folder_of(path, folder);
    int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        fd = mkostemp(file->temporary, O_CLOEXEC);
        file->named = fd >= 0;
    }
    return fd >= 0 ? fd : failed("written", path, why, size);
}

/* A file without a name gets its temporary one: link cannot replace a file, rename can. */
static bool name_temporary(struct checkpoint_file *file, int fd)
{
    char own[64];
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    for (int tries = 0; !file->named && tries < 100; tries++) {
        unsigned random;
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
            return false;
        snprintf(file->temporary + strlen(file->path), sizeof ".XXXXXX", ".%06x", random & 0xffffff);
        file->named = linkat(AT_FDCWD, own, AT_FDCWD, file->temporary, AT_SYMLINK_FOLLOW) == 0;
        if (!file->named && errno != EEXIST)
            return false;
    }
    return file->named;
}

static bool folder_is_safe(const char *path)
{
    char folder[PATH_MAX];
    folder_of(path, folder);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool safe = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return safe;
}

bool checkpoint_file_name(struct checkpoint_file *file, int fd, char *why, size_t size)
{
    if (fsync(fd) == 0 && is_free(file->path, why, size) && name_temporary(file, fd) &&
        rename(file->temporary, file->path) == 0) {
        if (folder_is_safe(file->path))
            return true;
        failed("written", file->path, why, size);
        return false;
    }
    if (!*why)
        failed("written", file->path, why, size);
    checkpoint_file_drop(file);
    return false;
}

void checkpoint_file_drop(struct checkpoint_file *file)
{
    if (file->named)
        unlink(file->temporary);
}
