/* fd_message.c: see fd_message.h. */
#include "cpu/common/fd_message.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The kernel gives at most so many with one message (SCM_MAX_FD): none is lost that would have to be closed. */
enum { KERNELS_MOST = 253 };
union control { struct cmsghdr header; char bytes[CMSG_SPACE(KERNELS_MOST * sizeof(int))]; };

int fd_message_send(int socket, const void *bytes, size_t size, const int *fds, unsigned count)
{
    union control control;
    struct iovec data = { (void *)(uintptr_t)bytes, size };
    struct msghdr head = { .msg_iov = &data, .msg_iovlen = 1 };
    memset(&control, 0, sizeof control);
    if (count) {
        head.msg_control = &control;
        head.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *part = CMSG_FIRSTHDR(&head);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(part), fds, count * sizeof(int));
    }
    return sendmsg(socket, &head, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static unsigned take(struct msghdr *head, int fds[FD_MESSAGE_MOST])
{
    unsigned count = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(head); part; part = CMSG_NXTHDR(head, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
            if (count < FD_MESSAGE_MOST)
                fds[count++] = fd;
            else
                close(fd);
        }
    }
    return count;
}

ssize_t fd_message_receive(int socket, void *bytes, size_t size, int flags, int fds[FD_MESSAGE_MOST], unsigned *count)
{
    union control control;
    struct iovec data = { bytes, size };
    struct msghdr head = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control,
                           .msg_controllen = sizeof control };
    ssize_t n;
    *count = 0;
    do
        n = recvmsg(socket, &head, flags | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    *count = take(&head, fds);
    return head.msg_flags & MSG_TRUNC ? (ssize_t)size + 1 : n;
}

void fd_message_close(const int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        close(fds[i]);
}
