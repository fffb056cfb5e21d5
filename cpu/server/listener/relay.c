/* relay.c: see relay.h. */
#include "cpu/server/listener/relay.h"
#include "cpu/server/memory/share.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

_Static_assert(CMSG_SPACE(SHARE_AT_ONCE * sizeof(int)) <= RELAY_CONTROL, "room for all descriptors of a message");
_Static_assert(sizeof(struct share_answer) <= WORKER_RELAY_BYTES, "a message holds an answer");

int relay_send(int socket, const struct relay_message *message)
{
    union { struct cmsghdr header; char bytes[RELAY_CONTROL]; } control;
    const struct worker_relay *relay = &message->relay;
    struct iovec data = { (void *)(uintptr_t)relay, offsetof(struct worker_relay, bytes) + relay->size };
    struct msghdr head = { .msg_iov = &data, .msg_iovlen = 1 };
    memset(&control, 0, sizeof control);
    if (message->count) {
        head.msg_control = &control;
        head.msg_controllen = CMSG_SPACE(message->count * sizeof(int));
        struct cmsghdr *part = CMSG_FIRSTHDR(&head);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(message->count * sizeof(int));
        memcpy(CMSG_DATA(part), message->fds, message->count * sizeof(int));
    }
    return sendmsg(socket, &head, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

void relay_drop(struct relay_message *message)
{
    for (unsigned i = 0; i < message->count; i++)
        close(message->fds[i]);
    message->count = 0;
}

unsigned relay_descriptors(struct msghdr *head, int *fds, unsigned most)
{
    unsigned count = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(head); part; part = CMSG_NXTHDR(head, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
            if (count < most)
                fds[count++] = fd;
            else
                close(fd);
        }
    }
    return count;
}
