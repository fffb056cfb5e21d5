/*
 * cgroup.c: a control group (version 2) for each GPU server, where this machine gives us some: bounds on the memory and
 * on the number of processes of a tenant, and an equal share of the processors for each. They lie in the folder "flyt"
 * at the top of the hierarchy, not in that of our own service: GPU servers outlive it.
 *
 * The memory of a tenant on the host is virt-server.host-memory, and with a software GPU that of its device too.
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

static char base[NODE_PATH_SIZE / 2]; /* the folder "flyt"; "": there are no control groups */

/* Where the version 2 hierarchy is mounted; false: nowhere. */
static bool find_hierarchy(char *out, size_t size)
{
    char line[4096], where[1024];
    FILE *file = fopen("/proc/self/mountinfo", "re");
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file))
        found = strstr(line, " - cgroup2 ") && sscanf(line, "%*s %*s %*s %*s %1023s", where) == 1 &&
                (size_t)snprintf(out, size, "%s", where) < size;
    if (file)
        fclose(file);
    return found;
}

static int put(const char *folder, const char *name, const char *text)
{
    char path[NODE_PATH_SIZE];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    int failure = good ? 0 : -errno;
    if (fd >= 0)
        close(fd);
    return failure;
}

static const struct {
    const char *name, *enable, *what;
} controllers[] = {
    { "memory", "+memory", "the host memory of a tenant has no bound" },
    { "pids", "+pids", "the processes of a tenant have no bound" },
    { "cpu", "+cpu", "a tenant with many threads gets more of the processors" },
};

void cgroup_open(void)
{
    char top[NODE_PATH_SIZE / 4];
    base[0] = '\0';
    if (find_hierarchy(top, sizeof top))
        snprintf(base, sizeof base, "%s/flyt", top);
    if (!base[0] || (mkdir(base, 0755) != 0 && errno != EEXIST)) {
        log_warning("event=cgroup-missing why=\"%s\": the host memory of a tenant has no bound",
                    base[0] ? strerror(errno) : "this machine has no cgroup2 file system");
        base[0] = '\0';
        return;
    }
    for (size_t i = 0; i < sizeof controllers / sizeof *controllers; i++) {
        put(top, "cgroup.subtree_control", controllers[i].enable);
        int failure = put(base, "cgroup.subtree_control", controllers[i].enable);
        if (failure)
            log_warning("event=cgroup-missing controller=%s why=\"%s\": %s", controllers[i].name, strerror(-failure),
                        controllers[i].what);
    }
}

static bool folder_of(const struct node_server *server, char path[NODE_PATH_SIZE])
{
    struct stat st;
    if (!base[0] || stat(server->node->servers_path, &st) != 0)
        return false;
    /* Two node managers of one machine have different folders. */
    return snprintf(path, NODE_PATH_SIZE, "%s/%llu.%llu", base, (unsigned long long)st.st_ino,
                    (unsigned long long)server->id) < NODE_PATH_SIZE;
}

static void put_memory(const struct node_server *server, bool software, const char *folder)
{
    char text[32];
    snprintf(text, sizeof text, "%llu",
             (unsigned long long)(node_host_memory(server->node->config) +
                                  (software ? share_bound_memory(server) * server->gpu_count : 0)));
    put(folder, "memory.max", text);
}

void cgroup_limit(const struct node_server *server, bool software)
{
    char folder[NODE_PATH_SIZE];
    if (folder_of(server, folder))
        put_memory(server, software, folder);
}

int cgroup_make(const struct node_server *server, bool software)
{
    char folder[NODE_PATH_SIZE], path[NODE_PATH_SIZE + 32], text[32];
    const struct node_config *config = server->node->config;
    if (!folder_of(server, folder) || (mkdir(folder, 0755) != 0 && errno != EEXIST))
        return -1;
    put_memory(server, software, folder);
    put(folder, "memory.swap.max", "0");
    snprintf(text, sizeof text, "%lld", (long long)config->processes);
    put(folder, "pids.max", text);
    snprintf(path, sizeof path, "%s/cgroup.procs", folder);
    return open(path, O_WRONLY | O_CLOEXEC);
}

void cgroup_remove(const struct node_server *server)
{
    char folder[NODE_PATH_SIZE];
    if (!folder_of(server, folder))
        return;
    put(folder, "cgroup.kill", "1");
    if (rmdir(folder) != 0 && errno != ENOENT)
        log_debug("event=cgroup-left path=%s why=\"%s\"", folder, strerror(errno));
}

void cgroup_close(void)
{
    if (base[0] && rmdir(base) != 0)
        log_debug("event=cgroup-left path=%s why=\"%s\"", base, strerror(errno));
}

uint64_t node_host_memory(const struct node_config *config)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t half = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / 2 : UINT64_C(1) << 30;
    return config->host_memory ? config->host_memory : half;
}
