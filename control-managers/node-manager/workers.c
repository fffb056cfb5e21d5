/*
 * workers.c: the worker processes of a server, each of which serves one program. A worker that has accepted a ticket
 * leaves a file programs/<program>.<pid> in its server's folder; the process id is that of the server's own namespace,
 * so the process is found among the server's children by the ids that /proc shows for every namespace.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control-managers/node-manager/node.h"
#include "cpu/common/tenant_ledger.h"

/* A server that was taken over may have any number of children, and of files about them: the loop looks at so many, and
   puts so many files away, each time. */
enum { MAX_WORKERS = 4096, MAX_ENTRIES = 4 * MAX_WORKERS, MAX_STALE = 1024 };
struct node_worker { pid_t pid, inner; };

static bool worker_read(pid_t pid, pid_t parent, pid_t *inner)
{
    char path[64], line[256];
    long number = 0;
    bool child = false;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    *inner = pid;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "PPid: %ld", &number) == 1)
            child = number == parent;
        if (strncmp(line, "NSpid:", 6) == 0) {
            char *last = strrchr(line, '\t');
            *inner = (pid_t)strtol(last ? last : line + 6, NULL, 10);
        }
    }
    fclose(file);
    return child;
}

/* The kernel's list of its children: workers are made by its one thread. False: this kernel has no such list. */
static bool children_read(const struct node_server *server, struct node_worker *workers, unsigned *count)
{
    char path[64];
    long pid;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)server->process.pid, (int)server->process.pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (*count < MAX_WORKERS && fscanf(file, "%ld", &pid) == 1)
        if (worker_read((pid_t)pid, server->process.pid, &workers[*count].inner))
            workers[(*count)++].pid = (pid_t)pid;
    fclose(file);
    return true;
}

/* Among all processes. */
static void processes_read(const struct node_server *server, struct node_worker *workers, unsigned *count)
{
    DIR *proc = process_alive(&server->process) ? opendir("/proc") : NULL;
    struct dirent *entry;
    while (proc && *count < MAX_WORKERS && (entry = readdir(proc))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && worker_read(pid, server->process.pid, &workers[*count].inner))
            workers[(*count)++].pid = pid;
    }
    if (proc)
        closedir(proc);
}

static int by_inner(const void *a, const void *b)
{
    pid_t one = ((const struct node_worker *)a)->inner, other = ((const struct node_worker *)b)->inner;
    return (one > other) - (one < other);
}

/* In the order of their inner ids: a server may have as many children, and files about them, as it likes. */
static unsigned workers_read(const struct node_server *server, struct node_worker *workers)
{
    unsigned count = 0;
    if (!children_read(server, workers, &count))
        processes_read(server, workers, &count);
    qsort(workers, count, sizeof *workers, by_inner);
    return count;
}

/* The worker with this process id in the workers' own namespace; NULL: there is none. */
static const struct node_worker *worker_find(const struct node_worker *workers, unsigned count, int64_t inner)
{
    const struct node_worker wanted = { .inner = (pid_t)inner };
    return inner > 0 && inner <= INT_MAX ? bsearch(&wanted, workers, count, sizeof *workers, by_inner) : NULL;
}

/* What they share: rows of the same number follow each other and count once. */
static uint64_t ledger_shared_sum(int fd, const struct node_worker *workers, unsigned count)
{
    struct ledger_shared rows[128];
    uint32_t all = 0, seen = 0;
    uint64_t sum = 0, counted = 0;
    ssize_t size;
    if (pread(fd, &all, sizeof all, offsetof(struct ledger, shared_count)) != sizeof all || all > LEDGER_SHARED)
        return 0;
    while (seen < all && (size = pread(fd, rows, sizeof rows, (off_t)(offsetof(struct ledger, shared) +
                                                                      seen * sizeof *rows))) > 0) {
        size_t got = (size_t)size / sizeof *rows;
        for (size_t i = 0; i < got && seen < all; i++, seen++)
            if (rows[i].number != counted && worker_find(workers, count, rows[i].pid)) {
                counted = rows[i].number;
                sum += rows[i].bytes;
            }
        if (!got)
            break;
    }
    return sum;
}

/* Adds up what the workers hold, from the usage file that they keep (cpu/common/tenant_ledger.h). What a dead one held
   may stand there for a moment. */
static uint64_t ledger_sum(const struct node_server *server, const struct node_worker *workers, unsigned count)
{
    struct ledger_slot slots[64];
    uint64_t sum = 0;
    int fd = own_open_file(server, "memory");
    ssize_t size;
    off_t at = offsetof(struct ledger, slots);
    const off_t end = (off_t)offsetof(struct ledger, programs);
    for (; fd >= 0 && at < end && (size = pread(fd, slots, sizeof slots, at)) > 0; at += size)
        for (size_t i = 0; i < (size_t)size / sizeof *slots; i++)
            sum += worker_find(workers, count, slots[i].pid) ? slots[i].bytes : 0;
    if (fd >= 0) {
        sum += ledger_shared_sum(fd, workers, count);
        close(fd);
    }
    return sum;
}

/* The CUDA error that a worker has written into its file, which is its server's own: any number. 0: none. */
static uint32_t fault_read(int dir, const char *name)
{
    char text[16] = "";
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    return size > 0 ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

/* A worker has ended. Its server has noted when, unless the server ended with it. */
static void note_left(struct served_now *now, uint64_t program, int dir, const char *name, bool noted)
{
    struct stat st;
    if (!now->left && !(now->left = malloc(MAX_STALE * sizeof *now->left)))
        return;
    bool timed = noted && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    now->left[now->left_count++] = (struct served_left){
        .program = program, .fault = fault_read(dir, name),
        .when = timed ? (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000 : 0
    };
}

/* Visits the programs that are served now; files of workers that have gone are removed. now: what it finds, may be
   NULL. */
static unsigned programs_visit(const struct node_server *server, uint64_t wanted, bool end, uint64_t *used,
                               struct served_now *now)
{
    unsigned found = 0, count = 0, seen = 0, stale = 0;
    DIR *dir;
    struct dirent *entry;
    struct node_worker *workers = NULL;
    if (server->process.pid <= 0)
        return 0;
    dir = own_open_entries(server, "programs");
    if (!dir) {
        if (now)
            now->known = errno == ENOENT; /* it has not served anybody yet */
        return 0;
    }
    workers = malloc(MAX_WORKERS * sizeof *workers);
    if (workers)
        count = workers_read(server, workers);
    if (workers && now)
        now->known = (now->ids = malloc(MAX_ENTRIES * sizeof *now->ids)) != NULL &&
                     (now->pids = malloc(MAX_ENTRIES * sizeof *now->pids)) != NULL;
    if (used)
        *used = ledger_sum(server, workers, count);
    while (workers && seen++ < MAX_ENTRIES && (entry = readdir(dir))) {
        unsigned long long program;
        int pid, length = 0;
        if (sscanf(entry->d_name, "%llu.%d%n", &program, &pid, &length) != 2)
            continue;
        const bool ended = entry->d_name[length] != '\0';
        const struct node_worker *worker = ended ? NULL : worker_find(workers, count, pid);
        if (!worker) {
            if (stale++ >= MAX_STALE)
                continue;
            if (now)
                note_left(now, program, dirfd(dir), entry->d_name, ended);
            sweep_aside(server->node, dirfd(dir), entry->d_name);
        } else if (!wanted || wanted == program) {
            struct process process;
            found++;
            if (now && now->known) {
                now->pids[now->count] = pid;
                now->ids[now->count++] = program;
            }
            if (end && process_open(worker->pid, 0, &process) == 0) {
                process_signal(&process, SIGKILL);
                process_close(&process);
            }
        }
    }
    free(workers);
    closedir(dir);
    return found;
}

void workers_forget(const struct node_server *server)
{
    own_discard(server, "programs");
    own_discard(server, "memory");
    own_discard(server, COMM_BOOK_NAME);
}

void workers_look(struct node_server *server)
{
    struct served_now now = { 0 };
    server->used = 0;
    server->workers = programs_visit(server, 0, false, &server->used, &now);
    if (now.known) {
        works_look(server, &now);
        served_seen(server, &now);
    }
    free(now.ids);
    free(now.pids);
    free(now.left);
    /* The books are the server's own: one that was taken over can write what it likes, but not that it has more than it
       was given. */
    const uint64_t most = share_bound_memory(server) * server->gpu_count;
    if (server->used > most)
        server->used = most;
}

unsigned workers_end(const struct node_server *server, uint64_t program)
{
    return programs_visit(server, program, true, NULL, NULL);
}
