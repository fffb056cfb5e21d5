/*
 * bounds.c: how many files a GPU server may have in its folder (virt-server.max-files), what they may take of the disk
 * (virt-server.max-disk), and how long its log may be. No limit of the system bounds one folder, so the sweeper counts
 * once a second. A server that has more is ended; its VM gets no other one here for a while, or it would make files
 * faster than they are removed.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "control-managers/node-manager/node.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"

enum {
    LOOK_MS = 1000,
    DEPTH = 32,        /* folders within each other; a GPU server needs three */
    BLOCK_BYTES = 512, /* of st_blocks */
    ENTRY_BYTES = 256, /* of a folder's own size, for an entry that it may have had: some file systems never make a
                           folder smaller, and reading one that was emptied takes as long as reading a full one */
    REFUSED_MS = 60000
};

/* ---- counting ---- */

static bool is_dots(const char *name)
{
    return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/* What a folder may still have. */
struct room {
    uint64_t files, blocks;
};

static bool take(uint64_t *left, uint64_t what)
{
    bool within = *left >= what;
    *left -= within ? what : 0;
    return within;
}

/* A file with several names counts as often. */
static bool count_entry(int folder, const char *name, struct room *left)
{
    struct stat st;
    return take(&left->files, 1) &&
           (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || take(&left->blocks, (uint64_t)st.st_blocks));
}

/* Counts what is in the folder and below; the descriptor is taken over. False: there is more than may be, or folders
   lie deeper than any GPU server makes them. */
static bool count_folder(int fd, struct room *left, unsigned depth)
{
    struct dirent *entry;
    struct stat st;
    bool within = depth < DEPTH && fstat(fd, &st) == 0 && (uint64_t)st.st_size / ENTRY_BYTES <= left->files;
    DIR *dir = within ? fdopendir(fd) : NULL;
    if (!dir)
        close(fd);
    while (dir && within && (entry = readdir(dir))) {
        if (is_dots(entry->d_name))
            continue;
        within = count_entry(dirfd(dir), entry->d_name, left);
        int inner = entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN
                        ? openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                        : -1;
        if (inner >= 0)
            within = count_folder(inner, left, depth + 1) && within;
    }
    if (dir)
        closedir(dir);
    return within;
}

static uint64_t blocks_of(const struct node_manager *node, int folder)
{
    struct statvfs fs;
    if (node->config->disk)
        return node->config->disk / BLOCK_BYTES;
    return fstatvfs(folder, &fs) == 0 ? (uint64_t)fs.f_blocks * fs.f_frsize / BLOCK_BYTES / 2 : UINT64_MAX;
}

/* In the sweeper's thread, which knows no struct node_server of the loop's. */
static void look_at(const struct node_manager *node, struct sweep_seen *seen)
{
    struct node_server *server = calloc(1, sizeof *server);
    if (!server)
        return;
    server->node = (struct node_manager *)(uintptr_t)node;
    server->id = seen->id;
    server->user = seen->user;
    server->own = seen->own;
    files_bound(server);
    int folder = own_open_folder(server);
    struct room left = { (uint64_t)node->config->files, folder >= 0 ? blocks_of(node, folder) : 0 };
    seen->over = folder >= 0 && !count_folder(folder, &left, 0);
    free(server);
}

/* ---- the loop's side ---- */

static void end_overfull(struct node_manager *node, struct node_server *server)
{
    char text[256];
    struct overfull *overfull = &node->overfull[node->next_overfull++ % NODE_OVERFULL];
    snprintf(overfull->vm, sizeof overfull->vm, "%s", server->vm);
    overfull->until = loop_now(node->loop) + REFUSED_MS;
    log_warning("event=folder-overfull server=%llu vm=%s most=%lld: it is ended", (unsigned long long)server->id,
                server->vm, (long long)node->config->files);
    snprintf(text, sizeof text,
             "the GPU server of VM %s had more than %lld files in its folder (virt-server.max-files), more bytes than "
             "virt-server.max-disk allows, or folders too deep in each other; it was ended",
             server->vm, (long long)node->config->files);
    server_fault(server, CTL_NO_ROOM, text);
}

static void look(struct loop_timer *timer, void *context)
{
    static struct sweep_seen seen[CTL_MAX_NODE_SERVERS];
    struct node_manager *node = context;
    size_t count;
    loop_timer_start(node->loop, timer, LOOK_MS, look, node);
    if (!sweep_answers(node, seen, &count))
        return;
    for (size_t i = 0; i < count; i++) {
        struct node_server *server = seen[i].over ? server_find(node, seen[i].id) : NULL;
        if (server && server->state != CTL_SERVER_STOPPING)
            end_overfull(node, server);
    }
    count = 0;
    for (const struct node_server *server = node->servers; server && count < CTL_MAX_NODE_SERVERS;
         server = server->next)
        seen[count++] = (struct sweep_seen){ .id = server->id, .user = server->user, .own = server->own };
    sweep_look(node, seen, count);
}

int bounds_open(struct node_manager *node, char *error) { return sweep_open(node, look_at, error); }

void bounds_begin(struct node_manager *node) { loop_timer_start(node->loop, &node->folders, LOOK_MS, look, node); }

ctl_code bounds_check(const struct node_manager *node, const char *vm, char *text)
{
    for (unsigned i = 0; i < NODE_OVERFULL; i++)
        if (node->overfull[i].until > loop_now(node->loop) && strcmp(node->overfull[i].vm, vm) == 0)
            return explain(
                text, CTL_DENIED,
                "a GPU server of VM %s on this node had more in its folder than virt-server.max-files or max-disk "
                "allow a moment ago: for a minute the VM gets no other one here",
                vm);
    return CTL_OK;
}
