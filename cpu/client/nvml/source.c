/*
 * source.c: flyt-nvml, its start, its reports, its end (helper.c says why it is a process of its own).
 *
 * The program must not notice it. It is no child of the program's, so no SIGCHLD comes and no wait() finds it: the
 * process that starts it ends at once, and is known to this file only (a clone without a signal). It has none of the
 * program's descriptors, or a pipe of the program's would never be seen to end.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu/client/nvml/nvml.h"
#include "cpu/common/clock.h"

enum { STACK = 65536, PATIENCE_MS = 30000 };
#define FRESH_NS (100 * CLOCK_NS_PER_MS)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned opened;
static int connection = -1;
static pid_t owner;                             /* the process that started it: a child of a fork has its own */
static uint64_t taken;
static struct view view;
static struct nvml_device handles[REPORT_DEVICES];

struct nvml_device *device_handle(unsigned index)
{
    handles[index].index = index;
    return &handles[index];
}

/* ---- start ---- */

struct start { const char *path; char *const *arguments; char *const *environment; int end; bool heard; };

/* In the program's memory, until exec: nothing but system calls. */
static int become_helper(void *context)
{
    const struct start *start = context;
    dup2(start->end, STDIN_FILENO);
    dup2(start->end, STDOUT_FILENO);
    if (!start->heard) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDERR_FILENO);
    }
    close_range(STDERR_FILENO + 1, ~0u, 0);
    execve(start->path, start->arguments, start->environment);
    _exit(127);
}

static int start_and_end(void *context)
{
    static char stack[STACK] __attribute__((aligned(16)));
    _exit(clone(become_helper, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, context) < 0);
}

extern char **environ;

/* A program with more rights than its caller may have made them its own (setuid(0)) before it asks us. The helper would
   then believe the caller's variables, which name servers and files. It gets none of them. */
static char **environment_of_helper(void)
{
    static char *none[] = { NULL };
    return getauxval(AT_SECURE) ? none : environ;
}

/* Beside this library: a descriptor that leads to it, or -1. */
static int helper_start(void)
{
    static char stack[STACK] __attribute__((aligned(16)));
    static char path[PATH_MAX];
    Dl_info self;
    int ends[2], status = -1;
    sigset_t all, before;
    const char *heard = secure_getenv("FLYT_LOG");
    if (!dladdr((void *)(uintptr_t)helper_start, &self) || !self.dli_fname ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    const char *slash = strrchr(self.dli_fname, '/');
    snprintf(path, sizeof path, "%.*sflyt-nvml", slash ? (int)(slash - self.dli_fname) + 1 : 0, self.dli_fname);
    char self_id[16];
    snprintf(self_id, sizeof self_id, "%d", (int)getpid()); /* the helper looks at what this process has loaded */
    char *const arguments[] = { path, self_id, NULL };
    struct start start = { path, arguments, environment_of_helper(), ends[1], heard && *heard };
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = clone(start_and_end, stack + sizeof stack, CLONE_VM | CLONE_VFORK, &start);
    while (pid > 0 && waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
        ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (pid > 0 && status == 0)
        return ends[0];
    close(ends[0]);
    return -1;
}

static void helper_end(void)
{
    if (connection >= 0)
        close(connection);
    connection = -1;
}

/* ---- reports ---- */

static bool take(void *bytes, size_t size)
{
    char *at = bytes;
    while (size) {
        struct pollfd ready = { .fd = connection, .events = POLLIN };
        int r = poll(&ready, 1, PATIENCE_MS);
        if (r < 0 && errno == EINTR)
            continue;
        ssize_t got = r > 0 ? recv(connection, at, size, 0) : 0;
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        size -= (size_t)got;
    }
    return true;
}

static bool take_report(void)
{
    struct report_head head;
    free(view.programs);
    view.programs = NULL;
    view.head.programs = 0;
    if (send(connection, "?", 1, MSG_NOSIGNAL) != 1 || !take(&head, sizeof head) || head.magic != REPORT_MAGIC ||
        head.devices > REPORT_DEVICES || head.programs > REPORT_PROGRAMS || head.result != 0)
        return false;
    view.programs = calloc(head.programs ? head.programs : 1, sizeof *view.programs);
    if (!view.programs || !take(view.devices, head.devices * sizeof *view.devices) ||
        !take(view.programs, head.programs * sizeof *view.programs))
        return false;
    view.head = head;
    taken = clock_now();
    return true;
}

static bool refresh(void)
{
    if (owner != getpid())                      /* the parent's is the parent's */
        helper_end();
    else if (connection >= 0 && clock_now() - taken < FRESH_NS)
        return true;
    if (connection >= 0) {
        if (take_report())
            return true;
        helper_end();                           /* it, or its GPU server, has ended; there may be another server */
    }
    connection = helper_start();
    owner = getpid();
    if (connection >= 0 && take_report())
        return true;
    helper_end();
    return false;
}

/* ---- for the others ---- */

int source_open(void)
{
    pthread_mutex_lock(&lock);
    bool there = opened || refresh();
    opened += there;
    pthread_mutex_unlock(&lock);
    return there ? NVML_SUCCESS : NVML_DRIVER_NOT_LOADED;
}

int source_close(void)
{
    pthread_mutex_lock(&lock);
    bool was = opened > 0;
    if (was && --opened == 0 && owner == getpid())
        helper_end();
    pthread_mutex_unlock(&lock);
    return was ? NVML_SUCCESS : NVML_UNINITIALIZED;
}

int view_hold(struct view **out)
{
    pthread_mutex_lock(&lock);
    int r = !opened ? NVML_UNINITIALIZED : refresh() ? NVML_SUCCESS : NVML_GPU_IS_LOST;
    if (r)
        pthread_mutex_unlock(&lock);
    *out = &view;
    return r;
}

void view_release(void) { pthread_mutex_unlock(&lock); }

int view_device(const struct nvml_device *device, struct view **out, struct report_device **found)
{
    int r = view_hold(out);
    if (r)
        return r;
    if (device < handles || device >= handles + view.head.devices || device != &handles[device->index]) {
        view_release();
        return NVML_INVALID_ARGUMENT;
    }
    *found = &view.devices[device->index];
    return NVML_SUCCESS;
}

/* fork: a mutex that another thread held would stay locked in the child. */
static void fork_prepare(void) { pthread_mutex_lock(&lock); }
static void fork_done(void) { pthread_mutex_unlock(&lock); }
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(fork_prepare, fork_done, fork_done); }
