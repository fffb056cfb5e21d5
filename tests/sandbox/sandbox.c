/*
 * What a GPU server that was taken over can do: hostile.c stands in for it, under a real flyt-node-manager, as root and
 * as an ordinary user. What it sees, may write, may call and can reach is exactly what the lists here say.
 * shows: attacks: hostile code inside the sandbox of a GPU server: what it sees, opens, writes, connects to, signals
  *   and calls is exactly a list; `required` starts no server without all of it
 */
#include "tests/control/node_fake.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_MS = 30000, MAX_LINES = 4096, NOBODY = 65534, FIRST_USER = 70000 };

#define COUNT(list) (sizeof(list) / sizeof *(list))
static const char *hostile, *nvidia_stand_in;
static bool unprivileged, limited, nvidia;

/* ---- the lists ---- */

/* What it sees. Of these, what the machine has. A folder named here is a tree of the machine, read-only. */
static const char *const seen[] = {
    /* programs and libraries, which hold no secret */
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
    /* how programs are loaded, which driver the distribution has chosen, the time zone, OpenSSL's settings */
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime",
    "/etc/ssl/openssl.cnf", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom",
    "/sys/devices/system", /* processors and memory nodes */
    "/proc"                /* of its own process-id namespace, read-only */
};

/* What it may write. */
static const char *const written[] = { "/dev/shm", /* in memory, 64 MiB, of its own */
                                       "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom" };

/* System calls that it may make. The others do not exist for it. */
static const char called[] =
#if defined __SANITIZE_ADDRESS__
    " ptrace" /* LeakSanitizer */
#endif
    " accept accept4 access alarm arch_prctl brk capget chdir chmod clock_getres clock_gettime"
    " clock_nanosleep clone close close_range connect creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl"
    " epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve exit exit_group faccessat faccessat2 fadvise64"
    " fallocate fchdir fchmod fchmodat fcntl fdatasync flock fork fstat fstatfs fsync ftruncate futex futex_waitv"
    " get_mempolicy get_robust_list getcpu getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer"
    " getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid getrlimit getrusage"
    " getsid getsockname getsockopt gettid gettimeofday getuid inotify_add_watch inotify_init1 inotify_rm_watch"
    " ioctl kill lseek lstat madvise mbind membarrier memfd_create mincore mkdir mkdirat mlock mlock2"
    " mlockall mmap move_pages mprotect mremap msync munlock munlockall munmap nanosleep newfstatat open openat"
    " pause personality pidfd_open pidfd_send_signal pipe pipe2 poll ppoll prctl pread64 preadv preadv2 prlimit64"
    " pselect6 pwrite64 pwritev pwritev2 read readlink readlinkat readv recvfrom recvmmsg recvmsg rename renameat"
    " renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn"
    " rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min"
    " sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity"
    " sched_setparam sched_setscheduler sched_yield select sendfile sendmmsg sendmsg sendto set_mempolicy"
    " set_robust_list set_tid_address setitimer setpgid setpriority setrlimit setsid setsockopt shutdown"
    " sigaltstack signalfd4 socket socketpair stat statfs statx sysinfo tgkill time timer_create timer_delete"
    " timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime times tkill"
    " truncate umask uname unlink unlinkat utimensat vfork wait4 waitid write writev"
    " ";

#if defined __SANITIZE_ADDRESS__
#define OWN_THREADS_ONLY "ptrace 1 EPERM" /* LeakSanitizer needs it */
#else
#define OWN_THREADS_ONLY "ptrace 1 ENOSYS"
#endif

/* Attacks that succeed, and do no harm. */
static bool permitted(const char *line)
{
#ifdef __SANITIZE_THREAD__
    if (strcmp(line, "personality fixed POSSIBLE") == 0) /* ThreadSanitizer asks for fixed addresses (seccomp.c) */
        return true;
#endif
    /* Under an ordinary user's node manager they belong to the server's user. It may write its own log anyway. */
    return unprivileged && (strcmp(line, "reopen output POSSIBLE") == 0 || strcmp(line, "reopen log POSSIBLE") == 0);
}

/* What fails, and how. */
static const char *const failing[] = { "read /etc/shadow ENOENT",
                                       "read /etc/passwd ENOENT",
                                       "read /root ENOENT",
                                       "read /home ENOENT",
                                       "read /run ENOENT",
                                       "read /var/lib/flyt/ticket.key ENOENT",
                                       "read /dev/mem ENOENT",
                                       "read SECRET ENOENT",
                                       "read STATE ENOENT",
                                       "read LOG ENOENT",
                                       "read NEIGHBOUR ENOENT",
                                       "read /proc/1/root/etc/shadow ENOENT",
                                       "change /proc/sys/kernel/core_pattern EROFS",
                                       "change /proc/sys/vm/overcommit_memory EROFS",
                                       "change /proc/sysrq-trigger EROFS|EACCES|ENOENT",
                                       "change /proc/1/oom_score_adj EROFS",
                                       "change PROGRAM EROFS|EACCES",
                                       "tcp PORT EAFNOSUPPORT|ENOSYS",
                                       "own-tcp PORT ECONNREFUSED",
                                       "own-send PORT ENOSYS",
                                       "own-listen 0 ENOSYS",
                                       "own-bind 0 ENOSYS",
                                       "unix @ABSTRACT ECONNREFUSED",
                                       "unix SOCKET ECONNREFUSED",
                                       "unix /run/dbus/system_bus_socket ECONNREFUSED",
                                       "signal PROCESS ESRCH",
                                       "signal -1 ESRCH",
                                       OWN_THREADS_ONLY,
                                       "execute own EACCES",
                                       "userns - ENOSYS",
                                       "mount - ENOSYS",
                                       "io_uring - ENOSYS",
                                       "setuid 0 ENOSYS",
                                       "chroot - ENOSYS",
                                       "mknod - ENOSYS",
                                       /* more of the processors than others have */
                                       "realtime 1 EPERM",
                                       "priority -20 EACCES",
                                       "limit processes EPERM",
                                       /* namespaces, in which it would have capabilities */
                                       "clone userns ENOSYS",
                                       "clone mounts ENOSYS",
                                       "clone3 - ENOSYS",
                                       "setns 1 ENOSYS",
                                       "keys - ENOSYS",
                                       /* memory that is writable and executable at once */
                                       "code mapped ENOSYS",
                                       "code changed ENOSYS",
#ifndef __SANITIZE_THREAD__
                                       "personality fixed ENOSYS",
#endif
                                       /* files of the node manager that it has open, with more rights */
                                       "reopen output EACCES|POSSIBLE",
                                       "reopen log EACCES|POSSIBLE",
                                       "handle - ENOSYS",
                                       /* system calls by other numbers */
                                       "numbers i386 KILLED",
                                       "numbers x32 KILLED|ENOSYS" };

/* ---- the machine that is attacked ---- */

static int tcp = -1, abstract = -1, path_socket = -1;
static unsigned tcp_port;

static int listen_unix(const char *name)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    size_t size = strlen(name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(at.sun_path, name, size);
    if (name[0] == '@')
        at.sun_path[0] = '\0';
    assert_int_equal(bind(fd, (struct sockaddr *)&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size)), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static void open_targets(char abstract_name[64], char socket_path[128])
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof at;
    tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(tcp, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(tcp, 8), 0);
    assert_int_equal(getsockname(tcp, (struct sockaddr *)&at, &size), 0);
    tcp_port = ntohs(at.sin_port);
    snprintf(abstract_name, 64, "@flyt-sandbox-test-%d", (int)getpid());
    abstract = listen_unix(abstract_name);
    snprintf(socket_path, 128, "%s/socket", fake.folder);
    path_socket = listen_unix(socket_path);
    assert_int_equal(chmod(socket_path, 0666), 0);
}

static void close_targets(void)
{
    int *const all[] = { &tcp, &abstract, &path_socket };
    for (size_t i = 0; i < COUNT(all); i++)
        if (*all[i] >= 0) {
            close(*all[i]);
            *all[i] = -1;
        }
}

/* ---- what the server says ---- */

static char *lines[MAX_LINES];
static int line_count;

static void read_lines(uint64_t id)
{
    char path[256], line[4096];
    snprintf(path, sizeof path, "%s/state/servers/%llu/output", fake.folder, (unsigned long long)id);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    for (line_count = 0; line_count < MAX_LINES && fgets(line, sizeof line, file); line_count++) {
        line[strcspn(line, "\n")] = '\0';
        lines[line_count] = strdup(line);
    }
    fclose(file);
}

static void free_lines(void)
{
    while (line_count)
        free(lines[--line_count]);
}

/* Replaces the names of this run by the words of the lists. */
static void rename_all(const char *from, const char *to)
{
    for (int i = 0; i < line_count; i++) {
        char *at = strstr(lines[i], from), *made;
        if (!at)
            continue;
        assert_true(asprintf(&made, "%.*s%s%s", (int)(at - lines[i]), lines[i], to, at + strlen(from)) > 0);
        free(lines[i]);
        lines[i] = made;
    }
}

static bool has_line(const char *kind, const char *value)
{
    char wanted[4200];
    snprintf(wanted, sizeof wanted, "%s %s", kind, value);
    for (int i = 0; i < line_count; i++)
        if (strcmp(lines[i], wanted) == 0)
            return true;
    return false;
}

static bool listed(const char *value, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(value, list[i]) == 0)
            return true;
    return false;
}

static int wrong;
static void complain(const char *what, const char *value)
{
    print_error("%s %s\n", what, value);
    wrong++;
}

/* Both ways: nothing more, nothing less. */
static void compare(const char *kind, const char *const *list, size_t count, bool (*there)(const char *))
{
    char prefix[16];
    size_t size = (size_t)snprintf(prefix, sizeof prefix, "%s ", kind);
    for (int i = 0; i < line_count; i++)
        if (strncmp(lines[i], prefix, size) == 0 && !listed(lines[i] + size, list, count))
            complain("not in the list:", lines[i]);
    for (size_t i = 0; i < count; i++)
        if (there(list[i]) && !has_line(kind, list[i]))
            complain("in the list only:", list[i]);
}

static bool on_machine(const char *path) { return path[0] != '/' || access(path, F_OK) == 0; }

static bool is_called(const char *name)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(called, word) != NULL;
}

static void check_calls(void)
{
#if defined __x86_64__
    for (int i = 0; i < line_count; i++) {
        if (strncmp(lines[i], "call ", 5) != 0)
            continue;
        int call = atoi(lines[i] + 5);
        char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, call);
        /* The kernel's own (uretprobe, uprobe): no filter sees it, and elsewhere than in its trampoline it kills. */
        if (call != 335 && call != 336 && (!name || !is_called(name)))
            complain("not in the list:", name ? name : lines[i]);
        free(name);
    }
    char *copy = strdup(called), *rest = copy;
    for (char *name; (name = strsep(&rest, " "));) {
        char number[16];
        int call = *name ? seccomp_syscall_resolve_name(name) : -1;
        snprintf(number, sizeof number, "%d", call);
        /* A call that this kernel does not have. */
        if (call >= 0 && !has_line("call", number) && !(syscall(call, -1, -1, -1, -1, -1, -1) == -1 && errno == ENOSYS))
            complain("in the list only:", name);
    }
    free(copy);
#endif
}

/* "own-tcp PORT ECONNREFUSED": one of the words at the end. */
static void check_failing(void)
{
    for (size_t i = 0; i < COUNT(failing); i++) {
        char head[256], error[32];
        const char *space = strrchr(failing[i], ' ');
        bool found = false;
        snprintf(head, sizeof head, "%.*s", (int)(space - failing[i]), failing[i]);
        for (const char *word = space + 1; *word; word += strcspn(word, "|") + (word[strcspn(word, "|")] == '|')) {
            snprintf(error, sizeof error, "%.*s", (int)strcspn(word, "|"), word);
            found |= has_line(head, error);
        }
        if (found)
            continue;
        complain("expected:", failing[i]);
        for (int l = 0; l < line_count; l++)
            if (strncmp(lines[l], head, strlen(head)) == 0)
                complain("but:", lines[l]);
    }
    for (int i = 0; i < line_count; i++)
        if (strstr(lines[i], "POSSIBLE") && !permitted(lines[i]))
            complain("possible:", lines[i]);
}

/* ---- the node manager ---- */

static void grant(const char *name, uid_t user)
{
    char path[300];
    snprintf(path, sizeof path, "%s%s%s", fake.folder, *name ? "/" : "", name);
    if (unprivileged)
        assert_int_equal(chown(path, user, user), 0);
}

static pid_t spawn_node(const char *sandbox, const char *tries)
{
    char config[256], program[PATH_MAX], libraries[300], *environment[] = { libraries, NULL };
    snprintf(config, sizeof config, "%s/node.conf", fake.folder);
    snprintf(libraries, sizeof libraries, "LD_LIBRARY_PATH=%s", fake.folder);
    snprintf(program, sizeof program, "%s/flyt-node-manager", fake_bin);
    fake_file("secret", "secret\n");
    fake_file("node.conf",
              "resource-manager = { address = \"127.0.0.1\"; port = %d; };\n"
              "node = { name = \"n1\"; secret = \"file:%s/secret\"; addresses = [\"10.0.0.1\"]; state-directory = "
              "\"%s/state\"; gpu = \"%s\"; sandbox = \"%s\"; };\n"
              "virt-server = { listen-address = \"127.0.0.1\"; program-path = \"%s\"; program-args = (%s); };\n",
              fake.port, fake.folder, fake.folder, nvidia ? "nvidia" : "software", sandbox, hostile, tries);
    grant("", NOBODY);
    grant("secret", NOBODY);
    grant("node.conf", NOBODY);
    char *as_root[] = { program, (char *)(uintptr_t) "--config", config, NULL };
    char *as_nobody[] = { (char *)(uintptr_t) "/usr/bin/setpriv",
                          (char *)(uintptr_t) "--reuid=65534",
                          (char *)(uintptr_t) "--regid=65534",
                          (char *)(uintptr_t) "--clear-groups",
                          program,
                          (char *)(uintptr_t) "--config",
                          config,
                          NULL };
    char *with_limit[] = { (char *)(uintptr_t) "/usr/bin/unshare",
                           (char *)(uintptr_t) "--user",
                           (char *)(uintptr_t) "--map-root-user",
                           (char *)(uintptr_t) "/bin/sh",
                           (char *)(uintptr_t) "-c",
                           (char *)(uintptr_t) "echo 0 >/proc/sys/user/max_net_namespaces && exec \"$@\"",
                           (char *)(uintptr_t) "sh",
                           program,
                           (char *)(uintptr_t) "--config",
                           config,
                           NULL };
    return fake_spawn(limited ? with_limit : unprivileged ? as_nobody : as_root, nvidia ? environment : NULL,
                      NULL);
}

static pid_t start_node(const char *tries)
{
    pid_t pid = spawn_node("required", tries);
    fake_until(fake.node_registrations || !fake_running(pid), START_MS);
    if (!fake.node_registrations && strstr(fake_log(pid), "sandbox-incomplete")) {
        print_message("skipped: this kernel lacks a part: %s\n", fake_log(pid));
        skip();
    }
    if (!fake.node_registrations)
        fail_msg("it ended: %s", fake_log(pid));
    return pid;
}

static void start_server(uint64_t id)
{
    ctl_server_spec spec;
    fake_spec(&spec, id);
    if (nvidia) {
        spec.gpu = fake.node_args.gpus.gpus_val[0].id;
        spec.sharing = CTL_SHARING_EXCLUSIVE;
        spec.sms = fake.node_args.gpus.gpus_val[0].sms;
    }
    node_order_body body = { .kind = NODE_ORDER_START };
    body.node_order_body_u.start = spec;
    uint64_t number = fake_order(&body);
    fake_until(fake_done(number), START_MS);
    if (fake_done(number)->code != CTL_OK)
        fail_msg("%s", fake_done(number)->text);
}

/* ---- tests ---- */

static void test_hostile(void **state)
{
    (void)state;
    char abstract_name[64], socket_path[128], tries[4096], identity[200];
    const char *const own = "OWN";
    open_targets(abstract_name, socket_path);
    snprintf(tries, sizeof tries,
             "\"--try\", \"read=/etc/shadow\", \"--try\", \"read=/etc/passwd\", \"--try\", \"read=/root\", "
             "\"--try\", \"read=/home\", \"--try\", \"read=/run\", "
             "\"--try\", \"read=/var/lib/flyt/ticket.key\", \"--try\", \"read=/dev/mem\", "
             "\"--try\", \"read=%s/secret\", \"--try\", \"read=%s/state/servers/1/state\", "
             "\"--try\", \"read=%s/state/servers/1/log\", \"--try\", \"read=%s/state/servers/2/own\", "
             "\"--try\", \"read=/proc/1/root/etc/shadow\", \"--try\", \"change=/proc/sys/kernel/core_pattern\", "
             "\"--try\", \"change=/proc/sys/vm/overcommit_memory\", \"--try\", \"change=/proc/sysrq-trigger\", "
             "\"--try\", \"change=/proc/1/oom_score_adj\", \"--try\", \"change=%s\", \"--try\", \"signal=%d\", "
             "\"--try\", \"tcp=%u\", \"--try\", \"own-tcp=%u\", "
             "\"--try\", \"own-send=%u\", \"--try\", \"own-listen=0\", \"--try\", \"own-bind=0\", "
             "\"--try\", \"unix=%s\", \"--try\", \"unix=%s\", "
             "\"--try\", \"unix=/run/dbus/system_bus_socket\"",
             fake.folder, fake.folder, fake.folder, fake.folder, hostile, (int)getpid(), tcp_port, tcp_port, tcp_port,
             abstract_name, socket_path);
    pid_t node = start_node(tries);
    start_server(2);
    start_server(1);
    read_lines(1);
    char path[300];
    snprintf(path, sizeof path, "%s/state/servers/1/own", fake.folder);
    rename_all(path, own);
    snprintf(path, sizeof path, "%s/state/servers/2/own", fake.folder);
    rename_all(path, "NEIGHBOUR");
    snprintf(path, sizeof path, "%s/state/servers/1/state", fake.folder);
    rename_all(path, "STATE");
    snprintf(path, sizeof path, "%s/state/servers/1/log", fake.folder);
    rename_all(path, "LOG");
    snprintf(path, sizeof path, "%s/secret", fake.folder);
    rename_all(path, "SECRET");
    rename_all(abstract_name, "@ABSTRACT");
    rename_all(socket_path, "SOCKET");
    rename_all(hostile, "PROGRAM");

    wrong = 0;
    const char *more_seen[COUNT(seen) + 3], *more_written[COUNT(written) + 1];
    memcpy(more_seen, seen, sizeof seen);
    more_seen[COUNT(seen)] = own;
    more_seen[COUNT(seen) + 1] = "PROGRAM";
    memcpy(more_written, written, sizeof written);
    more_written[COUNT(written)] = own;
    compare("see", more_seen, COUNT(seen) + 2, on_machine);
    compare("write", more_written, COUNT(written) + 1, on_machine);
    const char *const processes[] = { "1" };
    /* Nothing, output, log, the two sockets that it listens on. */
    const char *const descriptors[] = { "0", "1", "2", "3", "4", "5" };
    compare("descriptor", descriptors, COUNT(descriptors), on_machine);
    compare("process", processes, 1, on_machine);
    check_failing();
    check_calls();
    snprintf(identity, sizeof identity, "uid %d root 0 groups %d capabilities 0 no-new-privileges 1 filter 2",
             unprivileged ? NOBODY : FIRST_USER + 2, 0);
    if (!has_line("identity", identity))
        complain("expected: identity", identity);
    for (int i = 0; i < line_count; i++)
        if (strncmp(lines[i], "identity ", 9) == 0 && wrong)
            print_message("%s\n", lines[i]);
    free_lines();
    assert_int_equal(wrong, 0);
    assert_true(fake_running(node));
}

/* NVIDIA's driver does not start where it cannot name its threads: for it, a process may write into its own folder of
   /proc; the rest of /proc stays as it is. */
static void test_nvidia(void **state)
{
    (void)state;
    static const char *const names[] = { "libnvidia-ml.so.1", "libcuda.so.1" };
    static const char *const changed[] = { "/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory" };
    char path[300], line[300];
    nvidia = true;
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", fake.folder, names[i]);
        assert_int_equal(symlink(nvidia_stand_in, path), 0);
    }
    start_node("\"--only\", \"--try\", \"change=/proc/1/task/1/comm\", "
               "\"--try\", \"change=/proc/sys/kernel/core_pattern\", "
               "\"--try\", \"change=/proc/sys/vm/overcommit_memory\", "
               "\"--try\", \"own-bind=0\", \"--try\", \"own-tcp=1\"");
    start_server(1);
    read_lines(1);
    assert_true(has_line("change", "/proc/1/task/1/comm POSSIBLE"));
    for (size_t i = 0; i < COUNT(changed); i++) {
        snprintf(line, sizeof line, "%s EACCES", changed[i]);
        assert_true(has_line("change", line));
    }
    /* The driver listens at a unix socket. Landlock keeps ports of the network from it where it can: of version 4,
       Linux 6.7. */
    if (syscall(444 /* landlock_create_ruleset */, NULL, 0, 1 /* the version */) >= 4)
        assert_true(has_line("own-bind", "0 EACCES"));
    assert_true(has_line("own-tcp", "PORT ECONNREFUSED"));
    free_lines();
}

/* In a user namespace that may have no network namespaces, `required` starts nothing and says what is missing;
   `best-effort` says it too, and goes on. */
static void test_required(void **state)
{
    (void)state;
    limited = true;
    pid_t strict = spawn_node("required", "");
    assert_int_not_equal(WEXITSTATUS(fake_wait(strict, START_MS)), 0);
    assert_non_null(strstr(fake_log(strict), "can connect to every address"));
    assert_non_null(strstr(fake_log(strict), "run as root, or set"));
    assert_int_equal(fake.node_registrations, 0);
    pid_t lax = spawn_node("best-effort", "");
    fake_until(!fake_running(lax) || fake.node_registrations, START_MS);
    assert_int_equal(fake.node_registrations, 1);
    assert_non_null(strstr(fake_log(lax), "can connect to every address"));
}

static int setup(void **state)
{
    (void)state;
    unprivileged = limited = nvidia = false;
    fake_start();
    return 0;
}

static int setup_unprivileged(void **state)
{
    setup(state);
    unprivileged = getuid() == 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close_targets();
    fake_stop();
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest as_root[] = {
        cmocka_unit_test_setup_teardown(test_hostile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_required, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nvidia, setup, teardown),
    };
    const struct CMUnitTest as_user[] = {
        cmocka_unit_test_setup_teardown(test_hostile, setup_unprivileged, teardown),
        cmocka_unit_test_setup_teardown(test_nvidia, setup_unprivileged, teardown),
    };
    if (argc != 4) {
        fprintf(stderr, "usage: %s BIN HOSTILE STAND-IN\n", argv[0]);
        return 2;
    }
    fake_bin = argv[1];
    hostile = realpath(argv[2], NULL);
    nvidia_stand_in = realpath(argv[3], NULL);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    int failed = geteuid() ? 0 : cmocka_run_group_tests(as_root, NULL, NULL);
    return cmocka_run_group_tests(as_user, NULL, NULL) + failed;
}
