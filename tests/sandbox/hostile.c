/*
 * hostile.c: stands in for cricket-rpc-server: a GPU server that was taken over. It says on its output what it can see,
 * open, write, connect to and signal, and which system calls it may make. sandbox.c compares that with its lists.
 *
 * usage: hostile … [--only] --try KIND=VALUE … , as virt-server.program-args says; other arguments are those of a GPU
 * server. --only: it does not look through all files, and does not try all system calls.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stddef.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LISTEN = 3, LAST_CALL = 480, MAX_DEPTH = 40 };

static _Alignas(4096) char own[4096];

/* ---- what it sees and may write ---- */

/* Trees of the machine that are shown whole: they are one line of what is seen. */
static bool is_tree(const char *path)
{
    static const char *const trees[] = { "/usr",
                                         "/proc",
                                         "/sys/devices/system",
                                         "/etc/alternatives",
                                         "/etc/ld.so.conf.d",
                                         "/bin",
                                         "/sbin",
                                         "/lib",
                                         "/lib32",
                                         "/lib64",
                                         "/libx32" };
    for (size_t i = 0; i < sizeof trees / sizeof *trees; i++)
        if (strcmp(path, trees[i]) == 0)
            return true;
    return strcmp(path, own) == 0;
}

static void walk(const char *folder, bool writable, unsigned depth)
{
    char path[4096];
    struct stat st;
    struct dirent *entry;
    DIR *dir = opendir(folder);
    while (dir && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", strcmp(folder, "/") ? folder : "", entry->d_name);
        if (lstat(path, &st) != 0 || (writable && strcmp(path, "/dev/shm/hostile") == 0))
            continue;
        bool tree = !writable && is_tree(path), open = S_ISDIR(st.st_mode) && !tree;
        if (writable && !S_ISLNK(st.st_mode) && access(path, W_OK) == 0)
            printf("write %s\n", path);
        /* Its own folder is one line; /proc is looked through for the one process that counts. */
        if (strcmp(path, own) == 0 || (writable && strncmp(path, "/proc/", 6) == 0 && path[6] >= '0' && path[6] <= '9'))
            open = false;
        if (!writable && !open)
            printf("see %s\n", path);
        if (open && depth < MAX_DEPTH)
            walk(path, writable, depth + 1);
    }
    if (dir)
        closedir(dir);
}

/* ---- single attacks ---- */

static void say(const char *kind, const char *value, long result)
{
    printf("%s %s %s\n", kind, value, result >= 0 ? "POSSIBLE" : strerrorname_np(errno));
}

static long connect_tcp(int fd, unsigned port)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((unsigned short)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&to, sizeof to);
}

/* Of a path, or with '@' before it of an abstract name. */
static long connect_unix(const char *name)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    size_t size = strlen(name);
    memcpy(to.sun_path, name, size);
    if (name[0] == '@')
        to.sun_path[0] = '\0';
    return fd < 0 ? -1
                  : connect(fd, (struct sockaddr *)&to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size));
}

/* The socket that it listens on is one of the machine's network: it can be made one that connects. */
static long connect_by_own(unsigned port)
{
    struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
    int fd = dup(LISTEN);
    if (fd < 0)
        return -1;
    connect(fd, &nowhere, sizeof nowhere);
    shutdown(fd, SHUT_RDWR);
    return connect_tcp(fd, port);
}

static long send_by_own(unsigned port)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((unsigned short)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = dup(LISTEN);
    return fd < 0 ? -1 : sendto(fd, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL, (struct sockaddr *)&to, sizeof to);
}

/* Another free port of the machine, where a program may look for another server; any: the kernel takes one. */
static long listen_by_own(bool any)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = dup(LISTEN);
    if (fd < 0)
        return -1;
    shutdown(fd, SHUT_RDWR);
    return any ? listen(fd, 1) : bind(fd, (struct sockaddr *)&at, sizeof at);
}

static long execute_written(void)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/script", own);
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0700);
    if (fd < 0 || write(fd, "#!/bin/sh\nexit 0\n", 17) != 17)
        return -1;
    close(fd);
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        execl(path, path, (char *)NULL);
        _exit(errno);
    }
    waitpid(pid, &status, 0);
    unlink(path);
    errno = WEXITSTATUS(status);
    return errno ? -1 : 0;
}

/* Nothing is written, and nothing stays open, whether it works or not. */
static long try_open(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd;
}

static void attack(const char *text)
{
    char kind[32];
    const char *value = strchr(text, '=');
    snprintf(kind, sizeof kind, "%.*s", (int)(value - text), text);
    value++;
    unsigned number = (unsigned)strtoul(value, NULL, 10);
    if (strcmp(kind, "read") == 0)
        say(kind, value, try_open(value, O_RDONLY));
    else if (strcmp(kind, "change") == 0)
        say(kind, value, try_open(value, O_WRONLY));
    else if (strcmp(kind, "signal") == 0)
        say(kind, "PROCESS", kill((pid_t)number, 0));
    else if (strcmp(kind, "tcp") == 0)
        say(kind, "PORT", connect_tcp(socket(AF_INET, SOCK_STREAM, 0), number));
    else if (strcmp(kind, "own-tcp") == 0)
        say(kind, "PORT", connect_by_own(number));
    else if (strcmp(kind, "own-bind") == 0 || strcmp(kind, "own-listen") == 0)
        say(kind, value, listen_by_own(strcmp(kind, "own-listen") == 0));
    else if (strcmp(kind, "own-send") == 0)
        say(kind, "PORT", send_by_own(number));
    else if (strcmp(kind, "unix") == 0)
        say(kind, value, connect_unix(value));
}

/* New namespaces by clone: as unshare, in another call. A child would end at once. */
static long clone_into(unsigned long spaces)
{
    pid_t pid = (pid_t)syscall(SYS_clone, spaces | SIGCHLD, NULL, NULL, NULL, 0);
    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    return pid;
}

/* getpid by the numbers of another kind of program, of which a filter may not think. "KILLED": the filter ended it. */
static void other_numbers(const char *kind)
{
#if defined __x86_64__
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        long result = -1;
        if (strcmp(kind, "i386") == 0)
            __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory");
        else
            result = syscall(0x40000000 | SYS_getpid);
        _exit(result > 0 ? 0 : 1);
    }
    waitpid(pid, &status, 0);
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
    bool refused = (WIFEXITED(status) && WEXITSTATUS(status) == 1) || (WIFSIGNALED(status) && !killed);
    printf("numbers %s %s\n", kind, killed ? "KILLED" : refused ? "ENOSYS" : "POSSIBLE");
#else
    printf("numbers %s KILLED\n", kind);
#endif
}

/* Its standard output and log are files that the node manager made: by their names in /proc it would get them in
   another way than it was given them. */
static long reopen(const char *path) { return try_open(path, O_RDWR); }

static long raise_limit(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NPROC, &limit);
    limit.rlim_max = limit.rlim_cur = RLIM_INFINITY;
    struct rlimit before;
    getrlimit(RLIMIT_NPROC, &before);
    if (before.rlim_max == RLIM_INFINITY) {
        errno = EPERM; /* there is none to be raised */
        return -1;
    }
    return setrlimit(RLIMIT_NPROC, &limit);
}

static void descriptors(void)
{
    for (int fd = 0; fd < 1024; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            printf("descriptor %d\n", fd);
}

static void attacks(void)
{
    const struct sched_param first = { .sched_priority = 1 };
    say("realtime", "1", sched_setscheduler(0, SCHED_FIFO, &first));
    say("priority", "-20", setpriority(PRIO_PROCESS, 0, -20));
    say("limit", "processes", raise_limit());
    say("clone", "userns", clone_into(0x10000000));
    say("clone", "mounts", clone_into(0x00020000));
    say("clone3", "-", syscall(SYS_clone3, NULL, 0));
    say("setns", "1", syscall(SYS_setns, 1, 0));
    say("personality", "fixed", syscall(SYS_personality, 0x0040000));
    const int all = PROT_READ | PROT_WRITE | PROT_EXEC;
    say("code", "mapped", (long)mmap(NULL, sizeof own, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    say("code", "changed", mprotect(own, sizeof own, all));
    say("keys", "-", syscall(SYS_keyctl, 0, -3, 0));
    say("reopen", "output", reopen("/proc/self/fd/1"));
    say("reopen", "log", reopen("/proc/self/fd/2"));
    say("handle", "-", syscall(SYS_open_by_handle_at, 1, own, 0));
    other_numbers("i386");
    other_numbers("x32");
    say("signal", "-1", kill(-1, 0));
    say("ptrace", "1", syscall(SYS_ptrace, 16 /* PTRACE_ATTACH */, 1, 0, 0));
    say("execute", "own", execute_written());
    say("userns", "-", syscall(SYS_unshare, 0x10000000));
    say("mount", "-", syscall(SYS_mount, "none", own, "tmpfs", 0, NULL));
    say("io_uring", "-", syscall(SYS_io_uring_setup, 1, NULL));
    say("setuid", "0", setuid(0));
    say("chroot", "-", syscall(SYS_chroot, "/"));
    say("mknod", "-", syscall(SYS_mknod, "n", S_IFCHR | 0600, 1 << 8 | 1));
}

static void processes(void)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
            printf("process %s\n", entry->d_name);
    if (dir)
        closedir(dir);
}

/* ---- system calls ---- */

static void make_call(long number)
{
    /* Not -1 for those whose arguments count. */
    long first = number == SYS_clone || number == SYS_fork || number == SYS_vfork ? 0
                 : number == SYS_socket || number == SYS_socketpair               ? AF_UNIX
                 : number == SYS_personality                                      ? 0xffffffffL
                                                                                  : -1;
    static const long plain[] = { SYS_clone, SYS_sendto, SYS_sendmsg, SYS_sendmmsg, SYS_mmap, SYS_mprotect };
    long more = -1;
    for (size_t k = 0; k < sizeof plain / sizeof *plain; k++)
        more = number == plain[k] ? 0 : more;
    const struct itimerval soon = { .it_value = { .tv_usec = 100000 } };
    pid_t self = getpid();
    setitimer(ITIMER_REAL, &soon, NULL); /* some wait for ever */
    long result = syscall(number, first, more, more, more, more, more);
    if (getpid() != self)
        _exit(0);
    _exit(result == -1 && errno == ENOSYS ? 7 : 8);
}

static void calls(void)
{
    /* Only where a filter and a process-id namespace stand between us and the machine. */
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2 || getpid() != 1)
        return;
    for (long number = 0; number < LAST_CALL; number++) {
        int status;
        pid_t pid = fork();
        if (pid == 0)
            make_call(number);
        if (pid > 0 && waitpid(pid, &status, 0) == pid && !(WIFEXITED(status) && WEXITSTATUS(status) == 7))
            printf("call %ld\n", number);
    }
}

static void identity(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct has[2];
    memset(has, 0, sizeof has);
    syscall(SYS_capget, &header, has);
    printf("identity uid %u root %d groups %d capabilities %d no-new-privileges %d filter %ld\n", (unsigned)getuid(),
           getuid() == 0 || geteuid() == 0 || getgid() == 0, getgroups(0, NULL),
           (has[0].effective | has[1].effective | has[0].permitted | has[1].permitted) != 0,
           prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), (long)prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
}

int main(int argc, char **argv)
{
    if (!getcwd(own, sizeof own))
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(300);                            /* a test that forgets us does not keep us */
    prctl(PR_SET_NAME, "cricket-rpc-bad"); /* by this the rig ends what is left */
    identity();
    descriptors();
    processes();
    bool only = false;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--try") == 0 && argv[i + 1])
            attack(argv[++i]);
        else
            only |= strcmp(argv[i], "--only") == 0;
    attacks();
    if (!only) {
        walk("/", false, 0);
        walk("/", true, 0);
        calls();
    }
    printf("device multiprocessors 2\nlistening on tcp://127.0.0.1:1\n");
    for (;;)
        pause();
}
