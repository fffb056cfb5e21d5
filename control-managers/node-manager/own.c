/*
 * own.c: what a GPU server can write: the folder STATE/servers/<id>/own, with its socket, the account of its tenant's
 * memory, and who of its workers serves whom. The server runs tenants' code and may have been taken over, and the node
 * manager has more rights than it. So nothing in there is opened by a path that the server could have changed: folders
 * are entered one by one, and links are not followed. What the node manager keeps for itself (state, output, log) lies
 * beside this folder, where the server cannot see it.
 *
 * A server that an earlier version has started has all of it in one folder until it ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control-managers/node-manager/node.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"

enum { MAX_DEPTH = 64 };

int own_folder(const struct server *server, const char *name, char path[NODE_PATH_SIZE])
{
    char inner[300];
    snprintf(inner, sizeof inner, "%s%s%.255s", server->own ? "own" : "", server->own && *name ? "/" : "", name);
    return state_folder(server, inner, path);
}

int own_open_folder(const struct server *server)
{
    char path[NODE_PATH_SIZE];
    struct stat st;
    if (state_folder(server, "", path) != 0)
        return -1;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0 && server->own) {
        int own = openat(folder, "own", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(folder);
        folder = own;
    }
    if (folder < 0 || (fstat(folder, &st) == 0 &&
                       (st.st_uid == geteuid() || (server->user && st.st_uid == server->user))))
        return folder;
    close(folder);
    errno = EPERM;
    return -1;
}

int own_open_file(const struct server *server, const char *name)
{
    struct stat st;
    int folder = own_open_folder(server);
    int fd = folder < 0 ? -1 : openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (folder >= 0)
        close(folder);
    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)))
        return fd;
    close(fd);
    return -1;
}

DIR *own_open_entries(const struct server *server, const char *name)
{
    int folder = own_open_folder(server);
    int fd = folder < 0 ? -1 : openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0)
        close(folder);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !dir)
        close(fd);
    return dir;
}

void own_unlink(const struct server *server, const char *name)
{
    int folder = own_open_folder(server);
    if (folder < 0)
        return;
    unlinkat(folder, name, 0);
    close(folder);
}

int own_write(const struct server *server, const char *name, const void *bytes, size_t size, char *error)
{
    char temporary[64];
    int folder = own_open_folder(server), failure = 0;
    if (folder < 0)
        return explain(error, -errno, "opening the folder of server %llu: %s", (unsigned long long)server->id,
                       strerror(errno));
    snprintf(temporary, sizeof temporary, ".%.50s.new", name);
    unlinkat(folder, temporary, 0);
    errno = 0;
    int fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size || fdatasync(fd) != 0 ||
        (server->user && fchown(fd, server->user, server->user) != 0) ||
        renameat(folder, temporary, folder, name) != 0)
        failure = errno ? -errno : -EIO;
    if (fd >= 0)
        close(fd);
    if (failure)
        unlinkat(folder, temporary, 0);
    close(folder);
    return failure ? explain(error, failure, "writing %s: %s", name, strerror(-failure)) : 0;
}

int own_mark(const struct server *server, const char *folder, const char *name)
{
    int own = own_open_folder(server), inner = -1, fd = -1;
    if (own >= 0 && mkdirat(own, folder, 0700) == 0 && server->user &&
        fchownat(own, folder, server->user, server->user, AT_SYMLINK_NOFOLLOW) != 0)
        log_warning("event=file-not-given name=%s why=\"%s\"", folder, strerror(errno));
    if (own >= 0)
        inner = openat(own, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner >= 0)
        fd = openat(inner, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
    int failure = fd < 0 || futimens(fd, NULL) != 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    if (inner >= 0)
        close(inner);
    if (own >= 0)
        close(own);
    return failure;
}

/* ---- whose it is ---- */

static void give_entries(int folder, uid_t user, gid_t group, unsigned depth)
{
    int fd = dup(folder);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    if (fd >= 0 && !dir)
        close(fd);
    while (dir && (entry = readdir(dir))) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        if (fchownat(folder, name, user, group, AT_SYMLINK_NOFOLLOW) != 0)
            log_warning("event=file-not-given name=%s why=\"%s\"", name, strerror(errno));
        int inner = depth < MAX_DEPTH ? openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        if (inner >= 0) {
            give_entries(inner, user, group, depth + 1);
            close(inner);
        }
    }
    if (dir)
        closedir(dir);
}

void own_give(const struct server *server, uid_t given)
{
    uid_t user = given ? given : geteuid();
    gid_t group = given ? (gid_t)given : getegid();
    int folder = own_open_folder(server);
    if (folder < 0)
        return;
    if (fchown(folder, user, group) != 0)
        log_warning("event=folder-not-given server=%llu why=\"%s\"", (unsigned long long)server->id, strerror(errno));
    give_entries(folder, user, group, 0);
    close(folder);
}

/* ---- removing ---- */

static void remove_entries(int folder, unsigned depth);

static void remove_entry(int folder, const char *name, unsigned depth)
{
    if (unlinkat(folder, name, 0) == 0 || errno == ENOENT)
        return;
    int inner = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner >= 0 && depth < MAX_DEPTH)
        remove_entries(inner, depth + 1);
    if (inner >= 0)
        close(inner);
    if (unlinkat(folder, name, AT_REMOVEDIR) != 0)
        log_warning("event=state-left name=%s why=\"%s\"", name, strerror(errno));
}

static void remove_entries(int folder, unsigned depth)
{
    int fd = dup(folder);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    if (fd >= 0 && !dir)
        close(fd);
    while (dir && (entry = readdir(dir))) {
        const char *name = entry->d_name;
        bool later = strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || (depth == 0 && strcmp(name, "state") == 0);
        if (!later)
            remove_entry(folder, name, depth);
    }
    if (dir)
        closedir(dir);
}

/* `state` goes last: if the node manager is killed in the middle, the next one finds a server that has ended, and goes
   on here. */
void own_remove_all(const struct server *server)
{
    char path[NODE_PATH_SIZE];
    int folder = state_folder(server, "", path) == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (folder < 0)
        return;
    remove_entries(folder, 0);
    remove_entry(folder, "state", 1);
    close(folder);
    if (rmdir(path) != 0)
        log_warning("event=state-left path=%s why=\"%s\"", path, strerror(errno));
}
