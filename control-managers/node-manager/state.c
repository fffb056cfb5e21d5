/*
 * state.c: what lies on disk about a server, STATE/servers/<id>/state: lines of a key and a value, written whole and
 * renamed into place whenever something in it changes. A node manager that starts takes over every server that it finds
 * there. Process ids count only within the same run of the machine (its boot id).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cpu/common/explain.h"
#include "control-managers/node-manager/node.h"
#include "cpu/common/clock.h"
#include "cpu/common/log.h"

int state_folder(const struct node_server *server, const char *name, char path[NODE_PATH_SIZE])
{
    int size = snprintf(path, NODE_PATH_SIZE, "%s/%llu%s%s", server->node->servers_path, (unsigned long long)server->id,
                        *name ? "/" : "", name);
    return size > 0 && size < NODE_PATH_SIZE ? 0 : -ENAMETOOLONG;
}

/* One that is there stays as it is. The mode counts whatever our umask is: programs have to get through to sockets. */
static int make_one_folder(const char *path, mode_t mode)
{
    if (mkdir(path, 0700) != 0)
        return errno == EEXIST ? 0 : -1;
    return chmod(path, mode);
}

int state_make_folder(const char *path, mode_t mode, char *error)
{
    char part[NODE_PATH_SIZE];
    if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part)
        return explain(error, -ENAMETOOLONG, "%s is too long", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (make_one_folder(part, 0755) != 0)
            return explain(error, -errno, "making the folder %s: %s", part, strerror(errno));
        *slash = '/';
    }
    if (make_one_folder(path, mode) != 0)
        return explain(error, -errno, "making the folder %s: %s", path, strerror(errno));
    return 0;
}

/* Replaced atomically. Not waited for until it is on the disk. */
static int state_write(const char *path, const void *bytes, size_t size, char *error)
{
    char temporary[NODE_PATH_SIZE];
    if ((size_t)snprintf(temporary, sizeof temporary, "%s.new", path) >= sizeof temporary)
        return explain(error, -ENAMETOOLONG, "%s is too long", path);
    unlink(temporary);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return explain(error, -errno, "writing %s: %s", temporary, strerror(errno));
    /* Nobody waits for the disk, which tenants can keep busy. After a crash of the machine no server of this file runs:
       one that is empty then is as good (state_load). */
    bool good = write(fd, bytes, size) == (ssize_t)size;
    int failure = good ? 0 : errno ? -errno : -EIO;
    close(fd);
    if (good && rename(temporary, path) == 0)
        return 0;
    failure = good ? -errno : failure;
    unlink(temporary);
    return explain(error, failure, "writing %s: %s", path, strerror(-failure));
}

int state_save(const struct node_server *server, char *error)
{
    char path[NODE_PATH_SIZE], *text = NULL;
    size_t size = 0;
    FILE *out = state_folder(server, "state", path) == 0 ? open_memstream(&text, &size) : NULL;
    if (!out)
        return explain(error, -ENOMEM, "no memory to write the state of server %llu", (unsigned long long)server->id);
    fprintf(out,
            "version 1\nboot %s\nid %llu\nvm %s\ngpu %s\nvm-address %s\nsharing %u\nsms %u\nmemory %llu\nprogram %llu\n"
            "same-host %d\npid %d\nstarted %llu\nrestarts %u\nfresh %d\nstopping %d\nshown-sms %u\nown %d\nuser %u\n"
            "port %u\nordered-sms %u\nordered-memory %llu\n",
            process_boot(), (unsigned long long)server->id, server->vm, server->gpus[0], server->vm_address,
            server->sharing, server->sms, (unsigned long long)server->memory, (unsigned long long)server->program,
            server->same_host, (int)server->process.pid, (unsigned long long)server->process.started, server->restarts,
            server->fresh, server->state == CTL_SERVER_STOPPING, server->shown_sms, server->own,
            (unsigned)server->user, server->port, server->ordered_sms,
            (unsigned long long)server->ordered_memory);
    for (unsigned i = 1; i < server->gpu_count; i++)
        fprintf(out, "next-gpu %s\n", server->gpus[i]);
    for (unsigned i = 0; i < server->address_count; i++)
        fprintf(out, "address %s\n", server->addresses[i]);
    bool bad = ferror(out) != 0;
    if (fclose(out) != 0 || bad) {
        free(text);
        return explain(error, -ENOMEM, "no memory to write the state of server %llu", (unsigned long long)server->id);
    }
    int failure = state_write(path, text, size, error);
    free(text);
    return failure;
}

/* ---- reading ---- */

struct saved { char boot[64]; pid_t pid; uint64_t started; int version, stopping; };

static void take_text(char *to, size_t size, const char *value) { snprintf(to, size, "%s", value); }

static void take_line(struct node_server *server, struct saved *saved, const char *key, const char *value)
{
    uint64_t number = strtoull(value, NULL, 10);
    if (strcmp(key, "version") == 0)
        saved->version = (int)number;
    else if (strcmp(key, "boot") == 0)
        take_text(saved->boot, sizeof saved->boot, value);
    else if (strcmp(key, "id") == 0)
        server->id = number;
    else if (strcmp(key, "vm") == 0)
        take_text(server->vm, sizeof server->vm, value);
    else if ((strcmp(key, "gpu") == 0 || strcmp(key, "next-gpu") == 0) && server->gpu_count < CTL_MAX_SERVER_GPUS)
        take_text(server->gpus[server->gpu_count++], sizeof server->gpus[0], value);
    else if (strcmp(key, "vm-address") == 0)
        take_text(server->vm_address, sizeof server->vm_address, value);
    else if (strcmp(key, "sharing") == 0)
        server->sharing = (uint32_t)number;
    else if (strcmp(key, "sms") == 0)
        server->sms = (uint32_t)number;
    else if (strcmp(key, "memory") == 0)
        server->memory = number;
    else if (strcmp(key, "program") == 0)
        server->program = number;
    else if (strcmp(key, "same-host") == 0)
        server->same_host = number != 0;
    else if (strcmp(key, "pid") == 0)
        saved->pid = (pid_t)number;
    else if (strcmp(key, "started") == 0)
        saved->started = number;
    else if (strcmp(key, "restarts") == 0)
        server->restarts = (unsigned)number;
    else if (strcmp(key, "fresh") == 0)
        server->fresh = number != 0;
    else if (strcmp(key, "stopping") == 0)
        saved->stopping = number != 0;
    else if (strcmp(key, "own") == 0)
        server->own = number != 0;
    else if (strcmp(key, "user") == 0)
        server->user = (uid_t)number;
    else if (strcmp(key, "port") == 0)
        server->port = (unsigned)number;
    else if (strcmp(key, "ordered-sms") == 0)
        server->ordered_sms = (uint32_t)number;
    else if (strcmp(key, "ordered-memory") == 0)
        server->ordered_memory = number;
    else if (strcmp(key, "shown-sms") == 0)
        server->shown_sms = (uint32_t)number;
    else if (strcmp(key, "address") == 0 && server->address_count < CTL_MAX_ADDRESSES)
        take_text(server->addresses[server->address_count++], sizeof server->addresses[0], value);
}

/* Without a state: the machine has crashed before it was on the disk. So its server does not run. */
static void forget_folder(const struct node_manager *node, const char *name)
{
    int servers = open(node->servers_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (servers < 0 || sweep_aside(node, servers, name) != 0)
        log_warning("event=state-left path=%s/%s", node->servers_path, name);
    if (servers >= 0)
        close(servers);
}

static struct node_server *read_server(struct node_manager *node, const char *name)
{
    char path[NODE_PATH_SIZE], line[CTL_MAX_URI + 64];
    struct saved saved = { 0 };
    if ((size_t)snprintf(path, sizeof path, "%s/%s/state", node->servers_path, name) >= sizeof path)
        return NULL;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    struct node_server *server = file ? calloc(1, sizeof *server) : NULL;
    if (!server) {
        bool absent = fd < 0 && errno == ENOENT;
        log_warning("event=state-unreadable path=%s why=\"%s\"", path, strerror(errno));
        if (file)
            fclose(file);
        if (absent)
            forget_folder(node, name);
        return NULL;
    }
    server->node = node;
    server->process = PROCESS_NONE;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *value = strchr(line, ' ');
        if (value) {
            *value = '\0';
            take_line(server, &saved, line, value + 1);
        }
    }
    fclose(file);
    if (saved.version != 1 || server->id != strtoull(name, NULL, 10) || !server->vm[0] || !server->gpus[0][0]) {
        log_warning("event=state-unreadable path=%s why=\"it is not of this version, or incomplete\"", path);
        if (!saved.version)
            forget_folder(node, name);
        free(server);
        return NULL;
    }
    server->state = saved.stopping ? CTL_SERVER_STOPPING : server->fresh ? CTL_SERVER_STARTING : CTL_SERVER_RUNNING;
    if (strcmp(saved.boot, process_boot()) == 0 && saved.pid > 0 && saved.started)
        process_open(saved.pid, saved.started, &server->process);
    return server;
}

void state_load(struct node_manager *node)
{
    DIR *dir = opendir(node->servers_path);
    struct dirent *entry;
    if (!dir)
        return;
    while ((entry = readdir(dir))) {
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
            continue;
        struct node_server *server = read_server(node, entry->d_name);
        if (!server)
            continue;
        server->next = node->servers;
        node->servers = server;
    }
    closedir(dir);
}

static void wait_for_servers(const struct node_manager *node, double seconds)
{
    const struct timespec pause = { .tv_nsec = 20 * (long)CLOCK_NS_PER_MS };
    for (uint64_t end = clock_now() + (uint64_t)(seconds * 1e9); clock_now() < end; nanosleep(&pause, NULL)) {
        bool alive = false;
        for (const struct node_server *server = node->servers; server; server = server->next)
            alive |= process_alive(&server->process);
        if (!alive)
            return;
    }
}

int state_end_servers(struct node_manager *node, char *error)
{
    static const int signals[] = { SIGTERM, SIGKILL };
    int failure = sweep_open(node, NULL, error);
    if (failure)
        return failure;
    state_load(node);
    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++) {
        for (struct node_server *server = node->servers; server; server = server->next)
            if (process_alive(&server->process))
                process_signal(&server->process, signals[i]);
        wait_for_servers(node, node->config->stop_timeout);
    }
    for (struct node_server *server = node->servers; server; server = server->next) {
        log_info("event=server-ended server=%llu vm=%s pid=%d", (unsigned long long)server->id, server->vm,
                 (int)server->process.pid);
        own_discard_all(server);
        cgroup_remove(server);
    }
    sweep_close(node);
    return 0;
}
