/*
 * launch.c: makes the process of a GPU server. It is a child of ours with nothing open but its output, its log and the
 * socket that it listens on, and it is in no process group of ours, so that neither a terminal nor a service manager
 * that stops us stops it. It executes tenants' code, so it is put into a sandbox first:
 *
 *   a user id of its own        it is not root, and no other server's; without root a user namespace does instead
 *   mount namespace             a root folder of its own (root.c)
 *   process-id namespace        other processes have no name there: no signal, no ptrace, no /proc/PID/mem
 *   network namespace           it can reach no address; it accepts what comes to the socket that we made
 *   IPC and host name ones      no System V shared memory of others
 *   no capabilities, no new privileges, a list of system calls (seccomp.c)
 *
 * What this kernel and our user do not give is found out once, by trying (launch_probe), and said. A piece that the
 * probe could have and that fails later keeps the server from starting.
 *
 * Between clone and exec the child makes system calls only: other threads of ours may hold locks of the C library.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control-managers/node-manager/sandbox.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"

#define SPACES (CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS)

/* What could not be done; bits of the probe's exit status. */
enum {
    LACKS_ROOT = 1,
    LACKS_PROC = 2,
    LACKS_CAPABILITIES = 4,
    LACKS_FILTER = 8,
    LACKS_IDENTITY = 16,
    LACKS_NETWORK = 32
};
static const char *const lacks_text[] = {
    "GPU servers see the machine's files and other tenants' folders",
    "GPU servers see other processes in /proc",
    "GPU servers keep capabilities",
    "GPU servers may make all system calls",
    "GPU servers run as this node manager's user",
    "GPU servers can connect to every address",
};

/* A way to make the process. */
struct way {
    unsigned long spaces;
    bool user;
};
static struct way chosen;
static int known; /* what it lacks */
static bool probed;

static void write_text(const char *path, const char *text, size_t size)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (write(fd, text, size) < 0)
        size = 0;
    close(fd);
}

/* "INNER OUTER 1", without the C library's help. */
static size_t map_line(char *out, unsigned inner, unsigned outer)
{
    size_t size = 0;
    for (int which = 0; which < 2; which++) {
        char digits[12];
        size_t n = 0;
        unsigned id = which ? outer : inner;
        do
            digits[n++] = (char)('0' + id % 10);
        while (id /= 10);
        while (n)
            out[size++] = digits[--n];
        out[size++] = ' ';
    }
    out[size++] = '1';
    return size;
}

/* Who a server is in its user namespace: never 0. */
static unsigned inner_user(const struct sandbox_launch *launch, unsigned outer) { return outer ? outer : launch->user; }

static int enter_user_namespace(const struct sandbox_launch *launch, uid_t uid, gid_t gid)
{
    char line[48];
    unsigned user = inner_user(launch, uid);
    write_text("/proc/self/setgroups", "deny", 4);
    write_text("/proc/self/uid_map", line, map_line(line, user, uid));
    write_text("/proc/self/gid_map", line, map_line(line, inner_user(launch, gid), gid));
    return geteuid() == user ? 0 : LACKS_IDENTITY;
}

static void drop_bounding_set(void)
{
    for (unsigned long capability = 0; capability < 64; capability++)
        prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
}

static int drop_capabilities(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2];
    memset(none, 0, sizeof none);
    return syscall(SYS_capset, &header, none) == 0 ? 0 : LACKS_CAPABILITIES;
}

/* The system calls themselves: the C library's functions would inform its other threads, which this child lacks. */
static int become(const struct sandbox_launch *launch)
{
    struct rlimit processes = { launch->processes, launch->processes };
    if (launch->processes)
        setrlimit(RLIMIT_NPROC, &processes);
    bool is = syscall(SYS_setgroups, launch->group_count, launch->groups) == 0 &&
              syscall(SYS_setresgid, launch->user, launch->user, launch->user) == 0 &&
              syscall(SYS_setresuid, launch->user, launch->user, launch->user) == 0;
    return is ? 0 : LACKS_IDENTITY;
}

/* In the child. Returns what could not be done. uid, gid: of the node manager. */
static int isolate(const struct sandbox_launch *launch, struct way way, uid_t uid, gid_t gid)
{
    int lacks = 0;
    if (way.spaces & CLONE_NEWUSER)
        lacks |= enter_user_namespace(launch, uid, gid);
    if (way.spaces & CLONE_NEWNS) {
        int made = root_enter(launch->root);
        if (made < 0)
            return lacks | LACKS_ROOT;
        lacks |= made & ROOT_NO_PROC ? LACKS_PROC : 0;
    } else {
        lacks |= LACKS_ROOT | LACKS_PROC;
    }
    lacks |= way.spaces & CLONE_NEWNET ? 0 : LACKS_NETWORK;
    drop_bounding_set();
    if (way.user)
        lacks |= become(launch);
    else if (!(way.spaces & CLONE_NEWUSER))
        lacks |= LACKS_IDENTITY;
    lacks |= drop_capabilities();
    ports_shut(); /* an addition where the kernel has it: the filter is what counts */
    if (seccomp_restrict(launch->calls) != 0)
        lacks |= LACKS_FILTER;
    return lacks;
}

static void reset_signals(void)
{
    sigset_t none;
    for (int number = 1; number < NSIG; number++)
        if (number != SIGKILL && number != SIGSTOP)
            signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* As fork, with namespaces and a pidfd. */
static pid_t clone_process(unsigned long spaces, int *pidfd)
{
#if defined __x86_64__ || defined __aarch64__
    return (pid_t)syscall(SYS_clone, spaces | CLONE_PIDFD | SIGCHLD, NULL, pidfd, NULL, 0);
#else
    *pidfd = -1;
    return fork();
#endif
}

/* ---- what this kernel offers ---- */

/* One try. What it lacks, or -errno when the namespaces cannot be had. */
static int probe(const struct sandbox_launch *launch, struct way way)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    int fd = -1, status;
    pid_t pid = clone_process(way.spaces, &fd);
    if (pid == 0)
        _exit(isolate(launch, way, uid, gid));
    int failure = pid < 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (failure)
        return failure;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -EIO;
}

/* Tries the ways from the best to the worst; the first without a gap, else the one with the fewest. */
static void choose(const struct sandbox_launch *launch)
{
    static const struct way ways[] = {
        { SPACES | CLONE_NEWNET, true },
        { CLONE_NEWUSER | SPACES | CLONE_NEWNET, false },
        { SPACES, true },
        { CLONE_NEWUSER | SPACES, false },
        { 0, true },
        { 0, false },
    };
    int best = INT_MAX;
    for (size_t i = 0; i < sizeof ways / sizeof *ways && best; i++) {
        int lacks = probe(launch, ways[i]);
        /* Without a root of its own, a mount namespace is half made. */
        if (lacks < 0 || (lacks & LACKS_ROOT && ways[i].spaces) || (lacks & LACKS_IDENTITY && ways[i].user))
            continue;
        int gaps = __builtin_popcount((unsigned)lacks);
        if (gaps >= best)
            continue;
        best = gaps;
        chosen = ways[i];
        known = lacks;
    }
    probed = best != INT_MAX;
}

static void say_lacks(void)
{
    for (unsigned i = 0; i < sizeof lacks_text / sizeof *lacks_text; i++)
        if (known & 1 << i)
            log_warning("event=sandbox-incomplete what=\"%s\"", lacks_text[i]);
}

int launch_probe(const char *base, uid_t users, enum node_sandbox wanted, char *error)
{
    struct root root;
    if (wanted == NODE_SANDBOX_OFF) {
        log_warning("event=sandbox-off: GPU servers of all tenants can see each other's processes and files");
        return 0;
    }
    if (seccomp_prepare(error) != 0)
        log_warning("event=sandbox-incomplete what=\"%s\"", error);
    root_begin(&root, base, geteuid() ? geteuid() : users);
    const struct sandbox_launch launch = { .root = &root, .user = users };
    choose(&launch);
    root_end(&root);
    if (!probed)
        return explain(error, -EPERM, "no process can be made for GPU servers");
    say_lacks();
    if (wanted == NODE_SANDBOX_REQUIRED && known)
        return explain(error, -EPERM,
                       "node.sandbox is \"required\", and this kernel or user cannot have all of it (see the log); "
                       "run as root, or set \"best-effort\"");
    if (!known)
        log_info("event=sandbox what=\"%s, a root folder, processes and a network of its own, no capabilities, a list "
                 "of system calls\"",
                 chosen.user ? "a user id for each GPU server" : "a user namespace for each GPU server");
    return 0;
}

bool launch_has_users(void) { return chosen.user; }

uid_t launch_inner_user(uid_t users)
{
    bool root = !geteuid();
    return root && chosen.spaces & CLONE_NEWUSER ? users : geteuid();
}

/* ---- the process ---- */

static void child_say(const char *what)
{
    const char *why = strerrorname_np(errno);
    ssize_t n = write(2, what, strlen(what));
    n += why ? write(2, why, strlen(why)) : 0;
    n += write(2, "\n", 1);
    _exit(n < 0 ? 126 : 127);
}

/* The sockets to where the server looks for them; all else is closed. */
static void give_sockets(const struct sandbox_launch *launch)
{
    enum { SOCKETS = LAUNCH_FIRST_CLOSED - LAUNCH_LISTEN };
    const int given[SOCKETS] = { launch->listen, launch->listen_unix, launch->control };
    const int places[SOCKETS] = { LAUNCH_LISTEN, LAUNCH_LISTEN_UNIX, LAUNCH_CONTROL };
    int above[SOCKETS];
    for (int i = 0; i < SOCKETS; i++) /* first out of the way: one may lie in the other's place */
        if ((above[i] = given[i]) >= 0 && (above[i] = fcntl(given[i], F_DUPFD, LAUNCH_FIRST_CLOSED)) < 0)
            _exit(126);
    for (int i = 0; i < SOCKETS; i++)
        if (above[i] < 0 ? close(places[i]) != 0 && errno != EBADF : dup2(above[i], places[i]) < 0)
            _exit(126);
    syscall(SYS_close_range, LAUNCH_FIRST_CLOSED + 0u, ~0u, 0u);
}

static void child(const struct sandbox_launch *launch, struct way way, uid_t uid, gid_t gid)
{
    reset_signals();
    setsid();
    if (launch->cgroup >= 0 && write(launch->cgroup, "0", 1) != 1)
        _exit(126);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(launch->output, 1) < 0 || dup2(launch->log, 2) < 0)
        _exit(126);
    give_sockets(launch);
    errno = 0;
    if (launch->sandbox != NODE_SANDBOX_OFF && isolate(launch, way, uid, gid) & ~known)
        child_say("the sandbox cannot be made: ");
    if (chdir(launch->own) != 0)
        child_say("its folder cannot be entered: ");
    execve(launch->program, launch->arguments, launch->environment);
    child_say("it cannot be executed: ");
}

int launch_process(const struct sandbox_launch *launch, struct process *out, char *error)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    struct way way = launch->sandbox == NODE_SANDBOX_OFF ? (struct way){ 0, false } : chosen;
    int fd = -1;
    *out = PROCESS_NONE;
    if (launch->sandbox != NODE_SANDBOX_OFF && !probed)
        return explain(error, -EINVAL, "the sandbox was not probed");
    if (launch->root->bad)
        return explain(error, -ENOMEM, "no memory, or too many files, for the root folder of a GPU server");
    /* A signal for the child that came before it has let go of our handlers would be reported to our own loop, through
       the pipe that both have: a server that is stopped at once would stop this manager. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pid_t pid = clone_process(way.spaces, &fd);
    if (pid == 0)
        child(launch, way, uid, gid);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0)
        return explain(error, -errno, "making a process for %s: %s", launch->program, strerror(errno));
    out->pid = pid;
    out->fd = fd;
    if (fd >= 0)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (process_start_time(pid, &out->started) != 0)
        out->started = 0; /* The process has ended already. The caller learns it from the pidfd. */
    return 0;
}
