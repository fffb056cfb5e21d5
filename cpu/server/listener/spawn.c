/* spawn.c: see spawn.h. A worker is this program again, with --worker. */
#include "cpu/server/listener/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cpu/common/log.h"
#include "cpu/server/listener/knock.h"

/* Its command line, from number 1 on. */
static void add_arguments(const struct listener_options *options, const struct image_cache *cache, bool usher,
                          const char **argument)
{
    *argument++ = "--worker";
    *argument++ = "--gpu";
    *argument++ = usher ? "null" : options->gpu;
    if (options->tls)
        *argument++ = "--tls";
    if (usher) {
        *argument = "--usher";
        return;
    }
    if (cache) {
        *argument++ = "--cache";
        *argument++ = image_cache_path(cache);
    }
    if (options->host_memory) {
        *argument++ = "--host-memory";
        *argument++ = options->host_memory;
    }
    if (options->bar) {
        *argument++ = "--bar";
        *argument++ = options->bar;
    }
    if (options->links || options->links_ordered) {
        *argument++ = "--links";
        *argument++ = options->links_ordered ? LINKS_ORDERED : options->links;
    }
}

/* In the child, between fork and exec. */
static void child(const char *const *arguments, int socket, pid_t parent)
{
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing < 0 || dup2(nothing, 0) < 0)
        _exit(1);
    if (socket == WORKER_SOCKET)
        fcntl(socket, F_SETFD, 0);
    else if (dup2(socket, WORKER_SOCKET) < 0)
        _exit(1);
    close_range(WORKER_SOCKET + 1, ~0u, 0);               /* also what the listener has inherited itself */
    execv("/proc/self/exe", (char *const *)(uintptr_t)arguments);
    _exit(127);
}

pid_t spawn_worker(const struct listener_options *options, const struct image_cache *cache, bool usher, int *socket)
{
    const char *arguments[15] = { "cricket-rpc-server" };
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        log_error("event=worker-not-started why=\"socketpair: %s\"", strerror(errno));
        return -1;
    }
    add_arguments(options, cache, usher, arguments + 1);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        child(arguments, pair[1], parent);
    close(pair[1]);
    if (pid < 0) {
        log_error("event=worker-not-started why=\"fork: %s\"", strerror(errno));
        close(pair[0]);
        return -1;
    }
    *socket = pair[0];
    log_debug("event=worker-started worker=%d%s", (int)pid, usher ? " usher=yes" : "");
    return pid;
}

int spawn_hand_over(int socket, int fd, bool tls, const struct identity *identity, const struct knock *knock)
{
    struct worker_gift gift = { .word = WORKER_CONNECTION, .tls = tls, .passed = knock && knock->good };
    union { struct cmsghdr header; char bytes[CMSG_SPACE(sizeof(int))]; } control;
    struct iovec data[2] = { { &gift, sizeof gift }, { identity->packed, tls ? identity->size : 0 } };
    struct msghdr message = { .msg_iov = data, .msg_iovlen = 2, .msg_control = &control,
                              .msg_controllen = sizeof control };
    if (gift.passed)
        memcpy(gift.pass, knock->pass, sizeof gift.pass);
    else if (knock)
        snprintf(gift.refusal, sizeof gift.refusal, "%s", knock->refusal);
    memset(&control, 0, sizeof control);
    struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(part), &fd, sizeof fd);
    return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) > 0 ? 0 : -errno;
}
