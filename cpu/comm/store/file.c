/*
 * file.c: a store in a folder that all processes see. Each key is a file of mode 0600 that appears whole, by rename.
 *
 * The waiting process gets no notice when a file has come: a folder of a network file system gives none of other
 * machines' changes. So it looks again: after 1 ms, and later after a sixteenth of the time that it has waited, at most
 * 50 ms.
 */
#include "cpu/comm/store/store.h"

#include "cpu/common/clock.h"
#include "cpu/common/fd.h"
#include "cpu/rpc/transport/channel.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_MOST = 255, LOOK_LEAST_MS = 1, LOOK_MOST_MS = 50 };

struct file_store {
    struct comm_store base;
    int folder;
    atomic_uint written; /* so each temporary file has a name of its own */
    char path[];
};

/* Letters, digits, "-" and "_" stand for themselves; all else is %XX. */
static int name_of(const char *key, char name[NAME_MOST + 1], char *error)
{
    size_t at = 0;
    for (const char *c = key; *c; c++) {
        bool plain = isalnum((unsigned char)*c) || *c == '-' || *c == '_';
        if (at + (plain ? 1 : 3) > NAME_MOST)
            return rpc_explain(error, -EINVAL, "store: the key %s is too long for the name of a file", key);
        at += (size_t)sprintf(name + at, plain ? "%c" : "%%%02X", (unsigned char)*c);
    }
    return 0;
}

static int write_all(int fd, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        ssize_t done = write(fd, bytes, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -errno;
        bytes += done;
        size -= (size_t)done;
    }
    return 0;
}

static int file_set(struct comm_store *store, const char *key, const void *value, size_t size, unsigned gets,
                    uint64_t deadline, char *error)
{
    struct file_store *f = (struct file_store *)store;
    char name[NAME_MOST + 1], temporary[64];
    int status = name_of(key, name, error);
    (void)gets;
    (void)deadline;
    if (status < 0)
        return status;
    /* "." begins no key's name */
    snprintf(temporary, sizeof temporary, ".%ld.%u", (long)getpid(), atomic_fetch_add(&f->written, 1));
    int fd = fd_keep(openat(f->folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (fd < 0)
        return rpc_explain(error, -errno, "store: writing into %s: %s", f->path, strerror(errno));
    status = write_all(fd, value, size);
    if (close(fd) != 0 && status == 0)
        status = -errno;
    if (status == 0 && renameat(f->folder, temporary, f->folder, name) != 0)
        status = -errno;
    if (status < 0)
        unlinkat(f->folder, temporary, 0);
    return status < 0 ? rpc_explain(error, status, "store: writing %s/%s: %s", f->path, name, strerror(-status)) : 0;
}

/* 0, -ENOENT, -EMSGSIZE or another -errno. */
static int read_file(const struct file_store *f, const char *name, uint8_t *value, size_t room, size_t *size)
{
    struct stat there;
    int status = 0, fd = fd_keep(openat(f->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (fd < 0)
        return -errno;
    if (fstat(fd, &there) != 0)
        status = -errno;
    else if (!S_ISREG(there.st_mode) || there.st_size > COMM_STORE_VALUE_MOST)
        status = -EPROTO;
    else if (value && (size_t)there.st_size > room)
        status = -EMSGSIZE;
    *size = status == 0 || status == -EMSGSIZE ? (size_t)there.st_size : 0;
    for (size_t done = 0; value && status == 0 && done < *size;) {
        ssize_t got = read(fd, value + done, *size - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            status = got < 0 ? -errno : -EIO;
        else
            done += (size_t)got;
    }
    close(fd);
    return status;
}

static int file_get(struct comm_store *store, const char *key, void *value, size_t room, size_t *size,
                    uint64_t deadline, char *error)
{
    struct file_store *f = (struct file_store *)store;
    char name[NAME_MOST + 1];
    int status = name_of(key, name, error);
    if (status < 0)
        return status;
    for (uint64_t begin = clock_now();;) {
        status = read_file(f, name, value, room, size);
        if (status != -ENOENT)
            break;
        int left = clock_poll_timeout(deadline);
        if (left == 0)
            return rpc_explain(error, -ETIMEDOUT, "store: nobody has set %s in %s in time", key, f->path);
        int wait = (int)((clock_now() - begin) / CLOCK_NS_PER_MS / 16) + LOOK_LEAST_MS;
        wait = wait < LOOK_MOST_MS ? wait : LOOK_MOST_MS;
        poll(NULL, 0, wait < left ? wait : left);
    }
    return status < 0 ? rpc_explain(error, status, "store: reading %s/%s: %s", f->path, name, strerror(-status)) : 0;
}

static void file_destroy(struct comm_store *store)
{
    struct file_store *f = (struct file_store *)store;
    close(f->folder);
    free(f);
}

static const struct comm_store_operations file_operations = { file_set, file_get, file_destroy };

int comm_store_file(const char *folder, struct comm_store **out, char *error)
{
    struct stat there;
    struct file_store *f = calloc(1, sizeof *f + strlen(folder) + 1);
    if (!f)
        return rpc_explain(error, -ENOMEM, "store: no memory");
    f->base.operations = &file_operations;
    strcpy(f->path, folder);
    f->folder = fd_keep(open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    int status = f->folder < 0 || fstat(f->folder, &there) != 0 ? -errno : 0;
    if (status < 0)
        rpc_explain(error, status, "store: opening the folder %s: %s", folder, strerror(-status));
    else if ((there.st_uid != geteuid() && there.st_uid != 0) || (there.st_mode & (S_IWGRP | S_IWOTH)))
        status = rpc_explain(error, -EPERM,
                             "store: others may write into the folder %s, and values in it contain keys: use one of "
                             "mode 0700 that is yours",
                             folder);
    if (status < 0) {
        if (f->folder >= 0)
            close(f->folder);
        free(f);
        return status;
    }
    *out = &f->base;
    return 0;
}
