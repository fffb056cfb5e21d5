/*
 * region.c: the memory that a virtual machine of this host shares with its GPU servers: a file for each VM that
 * virt-server.shared-memory names. QEMU makes an ivshmem device of it (docs/vm.md), cricket-rpc-server gets it by
 * --bar.
 *
 * The node manager makes the file when it starts, so the file is there before the VM boots. It uses a file that QEMU
 * has already made. When the node manager ends with its servers, it removes the file, unless another process has it
 * open: the kernel grants a write lease only on a file that no other process has open (fcntl(2), F_SETLEASE). So a VM
 * that is still running keeps its file, and the next node manager finds it.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control-managers/node-manager/node.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"

struct region {
    char path[NODE_PATH_SIZE];
    uint64_t size;
    unsigned programs;
};

/* Of an item of the configuration. */
static bool region_of(const struct node_config *config, const char *item, struct region *region)
{
    size_t name;
    return node_memory_read(item, &name, &region->size, &region->programs) &&
           snprintf(region->path, sizeof region->path, "%s/flyt-vm-%.*s", config->shared_memory_folder, (int)name,
                    item) < NODE_PATH_SIZE;
}

static bool region_find(const struct node_config *config, const char *vm, struct region *region)
{
    size_t length = strlen(vm);
    for (size_t i = 0; i < config->shared_memory.count; i++) {
        const char *item = config->shared_memory.items[i];
        if (strncmp(item, vm, length) == 0 && item[length] == '=')
            return region_of(config, item, region);
    }
    return false;
}

/* Nobody else has it open. */
static bool is_unused(int fd)
{
    bool unused = fcntl(fd, F_SETLEASE, F_WRLCK) == 0;
    if (unused)
        fcntl(fd, F_SETLEASE, F_UNLCK);
    return unused;
}

/* Without a group of QEMU, GPU servers with users of their own get in by one. */
static int set_permissions(int fd, const char *group, gid_t own, char *error)
{
    struct group *entry = *group ? getgrnam(group) : NULL;
    gid_t wanted = entry ? entry->gr_gid : own;
    if (*group && !entry)
        return explain(error, -ENOENT, "there is no group %s (virt-server.shared-memory-group)", group);
    if ((wanted && fchown(fd, (uid_t)-1, wanted) != 0) || fchmod(fd, wanted ? 0660 : 0600) != 0)
        return explain(error, -errno, "setting its permissions: %s", strerror(errno));
    return 0;
}

static int set_size(int fd, const struct stat *is, uint64_t size, char *error)
{
    if ((uint64_t)is->st_size == size)
        return 0;
    if (is->st_size && !is_unused(fd))
        return explain(
            error, -EBUSY,
            "it has %lld bytes, and a running virtual machine uses it: the size is changed when that has ended",
            (long long)is->st_size);
    return ftruncate(fd, (off_t)size) == 0 ? 0 : explain(error, -errno, "setting its size: %s", strerror(errno));
}

static int region_make(const struct node_manager *node, const struct region *region, gid_t *group, char *error)
{
    struct stat is;
    int fd = open(region->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
        return explain(error, -errno, "opening it: %s", strerror(errno));
    int failure = 0;
    if (fstat(fd, &is) != 0 || !S_ISREG(is.st_mode) || is.st_nlink != 1)
        failure = explain(error, -EINVAL, "it is no ordinary file, or has a second name");
    if (!failure)
        failure = set_permissions(fd, node->config->shared_memory_group, (gid_t)users_shared(node), error);
    if (!failure)
        failure = set_size(fd, &is, region->size, error);
    if (!failure && fstat(fd, &is) == 0)
        *group = is.st_gid;
    close(fd);
    return failure;
}

void regions_make(const struct node_manager *node)
{
    struct region region;
    char error[EXPLAIN_SIZE];
    gid_t group;
    const struct config_strings *items = &node->config->shared_memory;
    for (size_t i = 0; i < items->count; i++) {
        if (!region_of(node->config, items->items[i], &region))
            continue;
        if (region_make(node, &region, &group, error) == 0)
            log_info("event=shared-memory path=%s size=%llu programs=%u", region.path, (unsigned long long)region.size,
                     region.programs);
        else
            log_error("event=shared-memory-missing path=%s why=\"%s\": programs of this VM use the network",
                      region.path, error);
    }
}

void regions_remove(const struct node_manager *node)
{
    struct region region;
    const struct config_strings *items = &node->config->shared_memory;
    for (size_t i = 0; i < items->count; i++) {
        int fd = region_of(node->config, items->items[i], &region)
                     ? open(region.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
                     : -1;
        if (fd < 0)
            continue;
        if (is_unused(fd))
            unlink(region.path);
        else
            log_info("event=shared-memory-stays path=%s why=\"a virtual machine uses it\"", region.path);
        close(fd);
    }
}

bool region_argument(const struct node_manager *node, const char *vm, char *out, size_t size, gid_t *group)
{
    struct region region;
    char error[EXPLAIN_SIZE];
    if (!region_find(node->config, vm, &region))
        return false;
    if (node_servers_tls(node)) {
        log_warning(
            "event=shared-memory-unused vm=%s why=\"programs reach GPU servers by TLS\": set virt-server.tls to off",
            vm);
        return false;
    }
    if (region_make(node, &region, group, error) != 0) {
        log_error("event=shared-memory-missing path=%s why=\"%s\": programs of this VM use the network", region.path,
                  error);
        return false;
    }
    return snprintf(out, size, "%s,%u", region.path, region.programs) < (int)size;
}

void region_file(const char *argument, char path[NODE_PATH_SIZE])
{
    const char *comma = strrchr(argument, ',');
    snprintf(path, NODE_PATH_SIZE, "%.*s", (int)(comma ? (size_t)(comma - argument) : strlen(argument)), argument);
}
