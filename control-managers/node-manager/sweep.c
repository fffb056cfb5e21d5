/*
 * sweep.c: the sweeper, a thread that removes what GPU servers leave behind, and looks at how much they have in their
 * folders (bounds.c).
 *
 * A GPU server runs tenants' code. The tenant decides how many entries its folder has, how deep its folders lie in each
 * other, and how large its files are. Removing, counting or cutting them may take minutes, in which the node manager's
 * loop would answer nobody, and the node would be taken for lost. So the loop only moves things away (sweep_aside): a
 * rename takes the same time for everything. What was moved lies in STATE/servers/.removed, which no GPU server can
 * enter. The thread removes it, also what an earlier node manager has left there.
 *
 * A folder within a folder is moved up to .removed before it is emptied. So neither the stack nor the number of
 * descriptors bounds how deep folders may lie.
 *
 * The loop hands over which servers there are (sweep_look), and takes up what the sweeper has found (sweep_answers).
 * They share struct sweep; its lock is held for moments only, never during a system call on a tenant's files. The
 * sweeper reads of struct node_manager only what does not change while it runs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "control-managers/node-manager/node.h"
#include "cpu/common/clock.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"

#define REMOVED ".removed" /* in the folder of servers, whose other entries are numbers */

enum {
    SLICE = 4096,    /* entries that are removed before servers are looked at again */
    END_MS = 2000,   /* so long the end of the node manager waits for what is being removed */
    RETRY_MS = 10000 /* what could not be removed is tried again */
};

struct sweep {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool started, ending;       /* ending: with the lock */
    bool ended;                 /* the thread does no more, and signals `changed` */
    bool added;                 /* something was moved to .removed */
    bool look, looked;          /* `seen` is the sweeper's while look is set; looked: the answers are there */
    atomic_bool hurry;          /* as ending, without the lock */
    int removed;                /* the folder .removed */
    atomic_uint_fast64_t moved; /* for names in it */
    uint64_t incarnation;       /* the same */
    const struct node_manager *node;
    sweep_look_at *look_at;
    struct sweep_seen seen[CTL_MAX_NODE_SERVERS];
    size_t count;
};

/* ---- moving away: any thread ---- */

static void name_aside(struct sweep *sweep, char name[48])
{
    snprintf(name, 48, "%016llx.%llu", (unsigned long long)sweep->incarnation,
             (unsigned long long)atomic_fetch_add(&sweep->moved, 1));
}

/* A folder that its owner may not write cannot be moved to another one, except by root. */
static void open_up(int folder, const char *name)
{
    char path[32];
    int fd = openat(folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (chmod(path, 0700) != 0)
        log_debug("event=folder-closed name=%s why=\"%s\"", name, strerror(errno));
    close(fd);
}

static int move_away(struct sweep *sweep, int folder, const char *name)
{
    char unique[48];
    name_aside(sweep, unique);
    if (renameat(folder, name, sweep->removed, unique) == 0)
        return 0;
    if (errno == EACCES) {
        open_up(folder, name);
        if (renameat(folder, name, sweep->removed, unique) == 0)
            return 0;
    }
    return -errno;
}

int sweep_aside(const struct node_manager *node, int folder, const char *name)
{
    struct sweep *sweep = node->sweep;
    int failure = move_away(sweep, folder, name);
    if (failure)
        return failure;
    pthread_mutex_lock(&sweep->lock);
    sweep->added = true;
    pthread_cond_signal(&sweep->changed);
    pthread_mutex_unlock(&sweep->lock);
    return 0;
}

/* ---- removing ---- */

static DIR *open_entries(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == EACCES) {
        open_up(folder, name);
        fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !dir)
        close(fd);
    return dir;
}

static bool is_dots(const char *name)
{
    return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/* 0: it has gone. -ENOTEMPTY: a folder with something in it. */
static int remove_entry(int folder, const char *name)
{
    if (unlinkat(folder, name, 0) == 0 || errno == ENOENT)
        return 0;
    /* A folder is EISDIR to Linux and EPERM to POSIX. */
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    if (unlinkat(folder, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    return errno == EEXIST ? -ENOTEMPTY : -errno;
}

/* Empties a folder of .removed, as far as *left allows: what is itself a full folder moves up. Counts *gone. */
static void empty(struct sweep *sweep, const char *name, unsigned *left, unsigned *gone)
{
    struct dirent *entry;
    DIR *dir = open_entries(sweep->removed, name);
    while (dir && *left && !atomic_load(&sweep->hurry) && (entry = readdir(dir))) {
        if (is_dots(entry->d_name))
            continue;
        int failure = remove_entry(dirfd(dir), entry->d_name);
        if (failure == -ENOTEMPTY)
            failure = move_away(sweep, dirfd(dir), entry->d_name);
        *gone += failure == 0;
        --*left;
    }
    if (dir)
        closedir(dir);
}

/* A slice of what is to be removed. False: there is nothing more that could be. */
static bool remove_slice(struct sweep *sweep)
{
    unsigned left = SLICE, gone = 0;
    bool any = false;
    struct dirent *entry;
    DIR *dir = open_entries(sweep->removed, ".");
    while (dir && left && !atomic_load(&sweep->hurry) && (entry = readdir(dir))) {
        if (is_dots(entry->d_name))
            continue;
        any = true;
        int failure = remove_entry(sweep->removed, entry->d_name);
        if (failure == -ENOTEMPTY) {
            empty(sweep, entry->d_name, &left, &gone);
            failure = remove_entry(sweep->removed, entry->d_name);
        }
        gone += failure == 0;
        left -= left > 0;
        if (failure && failure != -ENOTEMPTY)
            log_warning("event=state-left name=%s why=\"%s\"", entry->d_name, strerror(-failure));
    }
    if (dir)
        closedir(dir);
    return any && gone;
}

/* ---- the thread ---- */

static void *sweep_thread(void *context)
{
    struct sweep *sweep = context;
    bool more = true; /* an earlier node manager may have left something */
    pthread_mutex_lock(&sweep->lock);
    while (!sweep->ending || more) {
        struct timespec until = clock_timespec(clock_now() + RETRY_MS * CLOCK_NS_PER_MS);
        if (!more && !sweep->added && !sweep->look)
            more = pthread_cond_clockwait(&sweep->changed, &sweep->lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT;
        bool look = sweep->look && !sweep->ending;
        more |= sweep->added;
        sweep->added = false;
        pthread_mutex_unlock(&sweep->lock);
        for (size_t i = 0; look && i < sweep->count && !atomic_load(&sweep->hurry); i++)
            sweep->look_at(sweep->node, &sweep->seen[i]);
        more = more && remove_slice(sweep) && !atomic_load(&sweep->hurry);
        pthread_mutex_lock(&sweep->lock);
        if (look) {
            sweep->look = false;
            sweep->looked = true;
        }
        more |= sweep->added;
    }
    sweep->ended = true;
    pthread_cond_signal(&sweep->changed);
    pthread_mutex_unlock(&sweep->lock);
    return NULL;
}

static void start_thread(struct sweep *sweep)
{
    sigset_t all, before;
    sigfillset(&all); /* signals are the loop's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&sweep->thread, NULL, sweep_thread, sweep);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    sweep->started = failure == 0;
    if (failure)
        log_error("event=no-sweeper why=\"%s\": what GPU servers leave behind stays, and nobody counts their files",
                  strerror(failure));
}

/* ---- the loop's side ---- */

int sweep_open(struct node_manager *node, sweep_look_at *look_at, char *error)
{
    char path[NODE_PATH_SIZE];
    if (snprintf(path, sizeof path, "%s/" REMOVED, node->servers_path) >= (int)sizeof path)
        return explain(error, -ENAMETOOLONG, "%s is too long", node->servers_path);
    struct sweep *sweep = calloc(1, sizeof *sweep);
    if (!sweep)
        return explain(error, -ENOMEM, "no memory for the sweeper");
    bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
    sweep->removed = made ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (sweep->removed < 0) {
        int failure = explain(error, -errno, "making the folder %s: %s", path, strerror(errno));
        free(sweep);
        return failure;
    }
    sweep->incarnation = node->incarnation ? node->incarnation : clock_now();
    sweep->node = node;
    sweep->look_at = look_at;
    pthread_mutex_init(&sweep->lock, NULL);
    pthread_cond_init(&sweep->changed, NULL);
    node->sweep = sweep;
    start_thread(sweep);
    return 0;
}

/* Waits with the lock until the thread has ended, or too long; then the next node manager goes on. */
static void wait_for_end(struct sweep *sweep)
{
    struct timespec until = clock_timespec(clock_now() + END_MS * CLOCK_NS_PER_MS);
    int failure = 0;
    while (!sweep->ended && failure == 0)
        failure = pthread_cond_clockwait(&sweep->changed, &sweep->lock, CLOCK_MONOTONIC, &until);
    atomic_store(&sweep->hurry, true);
}

void sweep_close(struct node_manager *node)
{
    struct sweep *sweep = node->sweep;
    if (!sweep)
        return;
    if (sweep->started) {
        pthread_mutex_lock(&sweep->lock);
        sweep->ending = true;
        pthread_cond_signal(&sweep->changed);
        wait_for_end(sweep);
        pthread_mutex_unlock(&sweep->lock);
        pthread_join(sweep->thread, NULL);
    }
    pthread_cond_destroy(&sweep->changed);
    pthread_mutex_destroy(&sweep->lock);
    close(sweep->removed);
    free(sweep);
    node->sweep = NULL;
}

bool sweep_answers(struct node_manager *node, struct sweep_seen *seen, size_t *count)
{
    struct sweep *sweep = node->sweep;
    pthread_mutex_lock(&sweep->lock);
    bool busy = sweep->look;
    *count = sweep->looked ? sweep->count : 0;
    memcpy(seen, sweep->seen, *count * sizeof *seen);
    sweep->looked = sweep->looked && busy;
    pthread_mutex_unlock(&sweep->lock);
    return !busy;
}

void sweep_look(struct node_manager *node, const struct sweep_seen *seen, size_t count)
{
    struct sweep *sweep = node->sweep;
    pthread_mutex_lock(&sweep->lock);
    if (!sweep->look) {
        memcpy(sweep->seen, seen, count * sizeof *seen);
        sweep->count = count;
        sweep->look = true;
        pthread_cond_signal(&sweep->changed);
    }
    pthread_mutex_unlock(&sweep->lock);
}
