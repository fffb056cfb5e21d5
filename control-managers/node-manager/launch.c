/*
 * launch.c: makes the process of a GPU server. It is a child of ours in namespaces of its own, with nothing open but
 * its output and log, no capabilities, no new privileges and a seccomp filter, and it is in no process group of ours,
 * so that neither a terminal nor a service manager that stops us stops it.
 *
 * Tenants are kept apart by: a process-id namespace with a /proc of its own (other tenants' processes have no
 * name there: no signal, no ptrace, no /proc/PID/mem), a mount namespace in which the others' folders are not there, an
 * IPC namespace, and the filter. What the kernel does not give is found out once (launch_probe) and said.
 *
 * Between clone and exec the child makes system calls only: other threads of ours may hold locks of the C library.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu/common/explain.h"
#include "control-managers/node-manager/node.h"
#include "cpu/common/log.h"

#define SPACES (CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS)

/* What could not be done; bits of the probe's exit status. */
enum { LACKS_FOLDERS = 1, LACKS_PROC = 2, LACKS_CAPABILITIES = 4, LACKS_FILTER = 8, LACKS_IDENTITY = 16 };
static const char *const lacks_text[] = {
    "a server's folder is visible to other tenants' servers",
    "/proc shows other tenants' processes",
    "capabilities are kept",
    "there is no seccomp filter",
    "there is no user namespace",
};

static unsigned long space_flags;       /* of clone; 0: no namespaces */
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

/* Formatting without the C library's help. */
static size_t map_line(char *out, unsigned id)
{
    char digits[12];
    size_t n = 0, size = 0;
    do
        digits[n++] = (char)('0' + id % 10);
    while (id /= 10);
    for (int twice = 0; twice < 2; twice++) {
        for (size_t i = n; i-- > 0;)
            out[size++] = digits[i];
        out[size++] = ' ';
    }
    out[size++] = '1';
    return size;
}

static int enter_user_namespace(uid_t uid, gid_t gid)
{
    char line[32];
    struct stat st;
    write_text("/proc/self/setgroups", "deny", 4);
    write_text("/proc/self/uid_map", line, map_line(line, uid));
    write_text("/proc/self/gid_map", line, map_line(line, gid));
    return geteuid() == uid && stat("/", &st) == 0 ? 0 : LACKS_IDENTITY;
}

/* The folder of all servers is covered by an empty one, in which only our own folder, held on to as ".", is put
 * back. */
static int hide_folders(const char *own, const char *above, const char *all)
{
    bool hidden = mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && chdir(own) == 0 &&
                  mount("none", all, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0711,size=64k") == 0 &&
                  (!above || mkdir(above, 0711) == 0) && mkdir(own, 0700) == 0 &&
                  mount(".", own, NULL, MS_BIND, NULL) == 0;
    return hidden ? 0 : LACKS_FOLDERS;
}

static int drop_capabilities(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2];
    memset(none, 0, sizeof none);
    for (unsigned long capability = 0; capability < 64; capability++)
        prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
    return syscall(SYS_capset, &header, none) == 0 ? 0 : LACKS_CAPABILITIES;
}

/* In the child. Returns what could not be done. */
static int isolate(const char *own, const char *above, const char *all, unsigned long spaces, uid_t uid, gid_t gid)
{
    int lacks = 0;
    if (spaces & CLONE_NEWUSER)
        lacks |= enter_user_namespace(uid, gid);
    if (spaces & CLONE_NEWNS) {
        lacks |= hide_folders(own, above, all);
        if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
            lacks |= LACKS_PROC;
    }
    lacks |= drop_capabilities();
    if (seccomp_restrict() != 0)
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

static void say_lacks(int lacks)
{
    for (unsigned i = 0; i < sizeof lacks_text / sizeof *lacks_text; i++)
        if (lacks & 1 << i)
            log_warning("event=sandbox-incomplete what=\"%s\"", lacks_text[i]);
}

/* One try. The bits that it lacks, -errno when the namespaces cannot be had. */
static int probe(const char *scratch, unsigned long spaces)
{
    char own[NODE_PATH_SIZE];
    uid_t uid = geteuid();
    gid_t gid = getegid();
    int fd = -1, status;
    if ((size_t)snprintf(own, sizeof own, "%s/.probe", scratch) >= sizeof own)
        return -ENAMETOOLONG;
    if (mkdir(own, 0700) != 0 && errno != EEXIST)
        return -errno;
    pid_t pid = clone_process(spaces, &fd);
    if (pid == 0)
        _exit(isolate(own, NULL, scratch, spaces, uid, gid));
    int failure = pid < 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    rmdir(own);
    if (failure)
        return failure;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -EIO;
}

int launch_probe(const char *scratch, enum node_sandbox wanted, char *error)
{
    static const unsigned long tries[] = { SPACES, CLONE_NEWUSER | SPACES, 0 };
    int lacks = -EPERM;
    if (wanted == NODE_SANDBOX_OFF) {
        log_warning("event=sandbox-off: GPU servers of all tenants can see each other's processes and files");
        return 0;
    }
    for (unsigned i = 0; i < sizeof tries / sizeof *tries; i++) {
        lacks = probe(scratch, tries[i]);
        if (lacks < 0 || lacks & LACKS_IDENTITY)
            continue;
        space_flags = tries[i];
        break;
    }
    probed = true;
    if (!space_flags)
        log_warning("event=sandbox-incomplete what=\"this kernel gives us no namespaces: GPU servers of all tenants "
                    "can see each "
                    "other's processes and files\"");
    if (lacks > 0)
        say_lacks(lacks);
    if (wanted == NODE_SANDBOX_REQUIRED && (lacks || !space_flags))
        return explain(
            error, -EPERM,
            "node.sandbox is \"required\", and this kernel or user cannot have all of it (see the log); run as "
            "root, or set \"best-effort\"");
    if (!lacks && space_flags)
        log_info("event=sandbox what=\"process, mount, IPC and host name namespaces%s, no capabilities, seccomp\"",
                 space_flags & CLONE_NEWUSER ? " in a user namespace" : "");
    return 0;
}

static void child_say(const char *what)
{
    const char *why = strerrorname_np(errno);
    ssize_t n = write(2, what, strlen(what));
    n += why ? write(2, why, strlen(why)) : 0;
    n += write(2, "\n", 1);
    _exit(n < 0 ? 126 : 127);
}

static void child(const struct launch *launch, unsigned long spaces, uid_t uid, gid_t gid)
{
    reset_signals();
    setsid();
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(launch->output, 1) < 0 || dup2(launch->log, 2) < 0)
        _exit(126);
    syscall(SYS_close_range, 3u, ~0u, 0u);
    if (launch->sandbox != NODE_SANDBOX_OFF) {
        int lacks = isolate(launch->own, launch->above, launch->all, spaces, uid, gid);
        if (lacks && launch->sandbox == NODE_SANDBOX_REQUIRED)
            child_say("the sandbox cannot be made: ");
    }
    if (chdir(launch->own) != 0)
        child_say("its folder cannot be entered: ");
    execve(launch->program, launch->arguments, launch->environment);
    child_say("it cannot be executed: ");
}

int launch_process(const struct launch *launch, struct process *out, char *error)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    unsigned long spaces = launch->sandbox == NODE_SANDBOX_OFF ? 0 : space_flags;
    int fd = -1;
    *out = PROCESS_NONE;
    if (launch->sandbox != NODE_SANDBOX_OFF && !probed)
        return explain(error, -EINVAL, "the sandbox was not probed");
    /* A signal for the child that came before it has let go of our handlers would be told to our own loop, through the
       pipe that both have: a server that is stopped at once would stop this manager. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pid_t pid = clone_process(spaces, &fd);
    if (pid == 0)
        child(launch, spaces, uid, gid);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0)
        return explain(error, -errno, "making a process for %s: %s", launch->program, strerror(errno));
    out->pid = pid;
    out->fd = fd;
    if (fd >= 0)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (process_start_time(pid, &out->started) != 0)
        out->started = 0;               /* it has ended already; its pidfd says so */
    return 0;
}
