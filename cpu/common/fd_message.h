/* fd_message.h: messages over unix sockets that carry file descriptors (SCM_RIGHTS). */
#ifndef FLYT_COMMON_FD_MESSAGE_H
#define FLYT_COMMON_FD_MESSAGE_H

#include <stddef.h>
#include <sys/types.h>

enum { FD_MESSAGE_MOST = 64 };                /* descriptors in one message */

/* Does not wait. The descriptors stay the caller's. 0 or -errno. */
int fd_message_send(int socket, const void *bytes, size_t size, const int *fds, unsigned count);
/* The next message, of at most `size` bytes. flags: of recvmsg. Its descriptors are the caller's from now on, close on
   exec, at most FD_MESSAGE_MOST of them. Its size, size + 1: it was longer; 0: the other end is closed; or -errno, as
   -EAGAIN. */
ssize_t fd_message_receive(int socket, void *bytes, size_t size, int flags, int fds[FD_MESSAGE_MOST], unsigned *count);
void fd_message_close(const int *fds, unsigned count);

#endif
