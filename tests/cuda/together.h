// together.h: a program that runs as two processes. The parent starts the child, which is the same program with one
// argument, before either has made a CUDA call; they talk over a socket pair. A child that fails ends with status 1,
// and the parent sees that at the latest when it waits for it.
#ifndef FLYT_TESTS_CUDA_TOGETHER_H
#define FLYT_TESTS_CUDA_TOGETHER_H

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TOGETHER_SOCKET = 9, TOGETHER_SECONDS = 50 };

static int together_socket = -1;

// True in the child, which has argument `word`.
static bool together_is(int argc, char **argv, const char *word)
{
    if (argc != 2 || strcmp(argv[1], word) != 0)
        return false;
    together_socket = TOGETHER_SOCKET;
    alarm(TOGETHER_SECONDS);
    return true;
}

static pid_t together_start(const char *word)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0)
        exit(1);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(pair[0]);
        if (pair[1] != TOGETHER_SOCKET) {
            dup2(pair[1], TOGETHER_SOCKET);
            close(pair[1]);
        }
        execl("/proc/self/exe", "together", word, (char *)nullptr);
        _exit(127);
    }
    close(pair[1]);
    together_socket = pair[0];
    return child;
}

static void together_say(const void *bytes, size_t size, int fd = -1)
{
    union { cmsghdr header; char bytes[CMSG_SPACE(sizeof(int))]; } control = {};
    iovec data = { (void *)bytes, size };
    msghdr message = {};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control.bytes;
        cmsghdr *part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(part), &fd, sizeof fd);
    }
    if (sendmsg(together_socket, &message, MSG_NOSIGNAL) != (ssize_t)size) {
        fprintf(stderr, "the other process has gone\n");
        exit(1);
    }
}

static void together_hear(void *bytes, size_t size, int *fd = nullptr)
{
    union { cmsghdr header; char bytes[CMSG_SPACE(sizeof(int))]; } control = {};
    iovec data = { bytes, size };
    msghdr message = {};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof control.bytes;
    if (recvmsg(together_socket, &message, 0) != (ssize_t)size) {
        fprintf(stderr, "the other process has gone\n");
        exit(1);
    }
    cmsghdr *part = CMSG_FIRSTHDR(&message);
    if (fd)
        *fd = -1;
    if (fd && part)
        memcpy(fd, CMSG_DATA(part), sizeof *fd);
}

// Both have come here.
static void together_meet()
{
    char word = 1;
    together_say(&word, 1);
    together_hear(&word, 1);
}

// The child's exit status; -1: it was killed.
static int together_end(pid_t child)
{
    int status = -1;
    close(together_socket);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif
