/*
 * seccomp.c: the system calls that a GPU server may make: a list of what is allowed. Every other call fails with
 * ENOSYS, as on a kernel that does not have it, so that libraries fall back to an older one.
 *
 * The list holds what cricket-rpc-server, the software GPU and the C library need, and what NVIDIA's driver
 * may need: it calls ioctl and mmap on its device files, and asks for the machine's memory nodes (mbind …). It does not
 * hold calls that look into other processes, that change the machine, or whose code in the kernel is large and seldom
 * used by programs of this kind (io_uring, bpf, perf events, userfaultfd, keys, asynchronous I/O, message queues).
 *
 * The filter is made before the process is (seccomp_prepare): libseccomp allocates memory, which a child must not do
 * between clone and exec.
 */
#include <errno.h>
#include <linux/filter.h>
#include <sched.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control-managers/node-manager/sandbox.h"
#include "cpu/common/explain.h"

#define NEW_NAMESPACES \
    (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

/* What the run-time libraries of sanitizers need besides. A server of such a build is for tests only. */
#if defined __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#if defined __SANITIZE_ADDRESS__
#define FOR_SANITIZERS "ptrace", /* LeakSanitizer attaches to its own threads */
#else
#define FOR_SANITIZERS
#endif
#if defined __SANITIZE_THREAD__
#define PERSONALITY_FOR_SANITIZERS 0x0040000 /* ADDR_NO_RANDOMIZE: ThreadSanitizer starts anew with fixed addresses */
#else
#define PERSONALITY_FOR_SANITIZERS 0
#endif

static const char *const allowed[] = {
    FOR_SANITIZERS
    /* files: which ones, its root folder says */
    "access", "chdir", "chmod", "close", "close_range", "creat", "dup", "dup2", "dup3", "faccessat", "faccessat2",
    "fadvise64", "fallocate", "fchdir", "fchmod", "fchmodat", "fcntl", "fdatasync", "flock", "fstat", "fstatfs",
    "fsync", "ftruncate", "getcwd", "getdents", "getdents64", "inotify_add_watch", "inotify_init1", "inotify_rm_watch",
    "ioctl", "lseek", "lstat", "mkdir", "mkdirat", "newfstatat", "open", "openat", "pread64", "preadv", "preadv2",
    "pwrite64", "pwritev", "pwritev2", "read", "readlink", "readlinkat", "readv", "rename", "renameat", "renameat2",
    "rmdir", "sendfile", "stat", "statfs", "statx", "truncate", "umask", "unlink", "unlinkat", "utimensat", "write",
    "writev",
    /* memory */
    "brk", "get_mempolicy", "madvise", "mbind", "memfd_create", "mincore", "mlock", "mlock2", "mlockall", "move_pages",
    "mremap", "msync", "munlock", "munlockall", "munmap", "set_mempolicy",
    /* waiting */
    "alarm", "clock_getres", "clock_gettime", "clock_nanosleep", "epoll_create", "epoll_create1", "epoll_ctl",
    "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd", "eventfd2", "futex", "futex_waitv", "get_robust_list",
    "getitimer", "gettimeofday", "membarrier", "nanosleep", "pause", "pipe", "pipe2", "poll", "ppoll", "pselect6",
    "restart_syscall", "rseq", "select", "set_robust_list", "setitimer", "time", "timer_create", "timer_delete",
    "timer_getoverrun", "timer_gettime", "timer_settime", "timerfd_create", "timerfd_gettime", "timerfd_settime",
    /* sockets: it accepts connections to those that the node manager made */
    "accept", "accept4", "getpeername", "getsockname", "getsockopt", "recvfrom", "recvmmsg", "recvmsg", "setsockopt",
    "shutdown", "socketpair",
    /* processes: its own */
    "arch_prctl", "capget", "execve", "exit", "exit_group", "fork", "getcpu", "getegid", "geteuid", "getgid",
    "getgroups", "getpgid", "getpgrp", "getpid", "getppid", "getpriority", "getrandom", "getresgid", "getresuid",
    "getrlimit", "getrusage", "getsid", "gettid", "getuid", "kill", "pidfd_open", "pidfd_send_signal", "prctl",
    "prlimit64", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend",
    "rt_sigtimedwait", "rt_tgsigqueueinfo", "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity",
    "sched_getattr", "sched_getparam", "sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity",
    "sched_setparam", "sched_setscheduler", "sched_yield", "set_tid_address", "setpgid", "setpriority", "setrlimit",
    "setsid", "sigaltstack", "signalfd4", "sysinfo", "tgkill", "times", "tkill", "uname", "vfork", "wait4", "waitid"
};

enum { MAX_FILTER = 4096 };           /* what the kernel takes (BPF_MAXINSNS) */
static struct sock_fprog programs[CALLS_COUNT];

static int allow(scmp_filter_ctx filter, const char *name, const struct scmp_arg_cmp *condition)
{
    int number = seccomp_syscall_resolve_name(name);
    if (number < 0)
        return 0; /* this processor, or this libseccomp, has no such call */
    return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, number, condition ? 1 : 0, condition);
}

/*
 * The socket that a server listens on, and those that it accepts, belong to the machine's network. Such a socket can be
 * closed for its first purpose and then be connected to any address, or listen at any free port, where a program may
 * look for another server; so no server may connect, bind or listen, except a client of MPS. To NVIDIA's driver the
 * refusal says that there is no MPS. That driver does not start where it cannot listen at a unix socket: its servers
 * may bind and listen, and ports.c keeps them from ports of their choice where the kernel can. MSG_FASTOPEN is another
 * way to connect.
 */
static int fill_connecting(scmp_filter_ctx filter, enum sandbox_calls calls)
{
    const bool connects = calls == CALLS_MPS, listens = calls != CALLS_SOFTWARE;
    const struct {
        const char *name;
        unsigned flags;
    } senders[] = { { "sendto", 3 }, { "sendmsg", 2 }, { "sendmmsg", 3 } };
    int failure =
        seccomp_rule_add(filter, connects ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(ECONNREFUSED), SCMP_SYS(connect), 0);
    if (!failure && listens)
        failure = allow(filter, "bind", NULL);
    if (!failure && listens)
        failure = allow(filter, "listen", NULL);
    for (size_t i = 0; !failure && i < sizeof senders / sizeof *senders; i++) {
        const struct scmp_arg_cmp plain = SCMP_CMP32(senders[i].flags, SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, 0);
        failure = allow(filter, senders[i].name, &plain);
    }
    return failure;
}

/* The compiler of the software GPU writes code into memory that cannot be executed, and makes that executable and
   read-only then. NVIDIA's driver may need both at once. */
static int fill_memory(scmp_filter_ctx filter, bool both)
{
    static const char *const names[] = { "mmap", "mprotect" };
    static const unsigned rights[] = { 0, PROT_WRITE, PROT_EXEC };
    int failure = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t k = 0; !failure && k < (both ? 1 : sizeof rights / sizeof *rights); k++) {
            const struct scmp_arg_cmp some = SCMP_CMP32(2, SCMP_CMP_MASKED_EQ, PROT_WRITE | PROT_EXEC, rights[k]);
            failure = allow(filter, names[i], both ? NULL : &some);
        }
    return failure;
}

static int fill(scmp_filter_ctx filter, enum sandbox_calls calls)
{
    /* Flags of clone3 are in memory, out of a filter's sight: it is not in the list, and libraries take clone. */
    const struct scmp_arg_cmp old_namespaces = SCMP_CMP64(0, SCMP_CMP_MASKED_EQ, NEW_NAMESPACES, 0);
    const struct scmp_arg_cmp same_machine = SCMP_CMP32(0, SCMP_CMP_EQ, AF_UNIX, 0);
    const struct scmp_arg_cmp personality[] = { SCMP_CMP32(0, SCMP_CMP_EQ, 0, 0),
                                                SCMP_CMP32(0, SCMP_CMP_EQ, 0xffffffff, 0), /* a question */
                                                SCMP_CMP32(0, SCMP_CMP_EQ, PERSONALITY_FOR_SANITIZERS, 0) };
    int failure = fill_connecting(filter, calls);
    if (!failure)
        failure = fill_memory(filter, calls != CALLS_SOFTWARE);
    for (size_t i = 0; !failure && i < sizeof allowed / sizeof *allowed; i++)
        failure = allow(filter, allowed[i], NULL);
    if (!failure)
        failure = allow(filter, "clone", &old_namespaces);
    if (!failure)
        failure = allow(filter, "socket", &same_machine);
    for (size_t i = 0; !failure && i < sizeof personality / sizeof *personality; i++)
        failure = allow(filter, "personality", &personality[i]);
    return failure;
}

/* libseccomp writes the filter to a file; it is kept in memory. */
static int keep(scmp_filter_ctx filter, enum sandbox_calls calls)
{
    static struct sock_filter codes[CALLS_COUNT][MAX_FILTER];
    struct sock_filter *code = codes[calls];
    const size_t room = sizeof codes[calls];
    int fd = memfd_create("seccomp", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    int failure = seccomp_export_bpf(filter, fd);
    ssize_t size = failure ? -1 : pread(fd, code, room, 0);
    close(fd);
    if (failure)
        return failure;
    if (size <= 0 || (size_t)size == room)
        return -E2BIG;
    programs[calls] = (struct sock_fprog){ .len = (unsigned short)((size_t)size / sizeof *code), .filter = code };
    return 0;
}

static int prepare(enum sandbox_calls calls, char *error)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    if (!filter)
        return explain(error, -ENOMEM, "libseccomp makes no filter");
    int failure = fill(filter, calls);
    if (!failure)
        failure = keep(filter, calls);
    seccomp_release(filter);
    return failure ? explain(error, failure, "making the filter of system calls: %s", strerror(-failure)) : 0;
}

int seccomp_prepare(char *error)
{
    int failure = 0;
    for (enum sandbox_calls calls = 0; !failure && calls < CALLS_COUNT; calls++)
        failure = prepare(calls, error);
    return failure;
}

int seccomp_restrict(enum sandbox_calls calls)
{
    const struct sock_fprog *program = &programs[calls];
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -errno;
    if (!program->len)
        return -ENOSYS;
    return prctl(PR_SET_SECCOMP, 2 /* SECCOMP_MODE_FILTER */, program) == 0 ? 0 : -errno;
}
