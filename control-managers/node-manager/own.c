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

enum { GIVE_DEPTH = 4, GIVE_MOST = 10000 };

int own_folder(const struct node_server *server, const char *name, char path[NODE_PATH_SIZE])
{
    char inner[300];
    snprintf(inner, sizeof inner, "%s%s%.255s", server->own ? "own" : "", server->own && *name ? "/" : "", name);
    return state_folder(server, inner, path);
}

int own_open_folder(const struct node_server *server)
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

int own_open_file(const struct node_server *server, const char *name)
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

DIR *own_open_entries(const struct node_server *server, const char *name)
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

/* The name may be that of a file of any size, or of a folder. */
static void discard(const struct node_server *server, int folder, const char *name)
{
    int failure = sweep_aside(server->node, folder, name);
    if (failure && failure != -ENOENT)
        log_warning("event=file-left server=%llu name=%s why=\"%s\"", (unsigned long long)server->id, name,
                    strerror(-failure));
}

void own_discard(const struct node_server *server, const char *name)
{
    char path[NODE_PATH_SIZE];
    bool itself = !*name;
    int folder = !itself                               ? own_open_folder(server)
                 : state_folder(server, "", path) == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                                                       : -1;
    if (folder < 0)
        return;
    discard(server, folder, itself ? "own" : name);
    close(folder);
}

/* Gives the file `temporary` its name. What had the name may be large, and is not removed here: the two change places.
   0 or -errno. */
static int put_in_place(const struct node_server *server, int folder, const char *temporary, const char *name)
{
    if (renameat2(folder, temporary, folder, name, RENAME_EXCHANGE) == 0) {
        discard(server, folder, temporary);
        return 0;
    }
    /* It is not there, or this file system does not know the exchange. */
    return renameat(folder, temporary, folder, name) == 0 ? 0 : -errno;
}

int own_write(const struct node_server *server, const char *name, const void *bytes, size_t size, char *error)
{
    char temporary[64];
    int folder = own_open_folder(server), failure = 0;
    if (folder < 0)
        return explain(error, -errno, "opening the folder of server %llu: %s", (unsigned long long)server->id,
                       strerror(errno));
    snprintf(temporary, sizeof temporary, ".%.50s.new", name);
    discard(server, folder, temporary);
    errno = 0;
    int fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size ||
        (server->user && fchown(fd, server->user, server->user) != 0))
        failure = errno ? -errno : -EIO;
    if (fd >= 0)
        close(fd);
    if (!failure)
        failure = put_in_place(server, folder, temporary, name);
    if (failure)
        discard(server, folder, temporary);
    close(folder);
    return failure ? explain(error, failure, "writing %s: %s", name, strerror(-failure)) : 0;
}

int own_mark(const struct node_server *server, const char *folder, const char *name)
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

/* *left: how many entries may still be given. False: there are more, or folders lie deeper than ours. */
static bool give_entries(int folder, uid_t user, gid_t group, unsigned depth, unsigned *left)
{
    int fd = dup(folder);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    bool good = dir != NULL;
    if (fd >= 0 && !dir)
        close(fd);
    while (good && (entry = readdir(dir))) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        if (!*left)
            good = false;
        else if (--*left, fchownat(folder, name, user, group, AT_SYMLINK_NOFOLLOW) != 0)
            log_warning("event=file-not-given name=%s why=\"%s\"", name, strerror(errno));
        int inner = good ? openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        if (inner >= 0) {
            good = depth < GIVE_DEPTH && give_entries(inner, user, group, depth + 1, left);
            close(inner);
        }
    }
    if (dir)
        closedir(dir);
    return good;
}

bool own_give(const struct node_server *server, uid_t given)
{
    uid_t user = given ? given : geteuid();
    gid_t group = given ? (gid_t)given : getegid();
    unsigned left = GIVE_MOST;
    struct stat st;
    int folder = own_open_folder(server);
    if (folder < 0)
        return false;
    /* The folder itself is given last: one that is the user's was given with all that is in it. */
    bool all = (fstat(folder, &st) == 0 && st.st_uid == user) || give_entries(folder, user, group, 0, &left);
    if (all && fchown(folder, user, group) != 0)
        log_warning("event=folder-not-given server=%llu why=\"%s\"", (unsigned long long)server->id, strerror(errno));
    close(folder);
    return all;
}

/* ---- removing ---- */

void own_discard_all(const struct node_server *server)
{
    char name[32];
    int servers = open(server->node->servers_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    snprintf(name, sizeof name, "%llu", (unsigned long long)server->id);
    int failure = servers < 0 ? -errno : sweep_aside(server->node, servers, name);
    if (failure && failure != -ENOENT)
        log_warning("event=state-left path=%s/%s why=\"%s\"", server->node->servers_path, name, strerror(-failure));
    if (servers >= 0)
        close(servers);
}
