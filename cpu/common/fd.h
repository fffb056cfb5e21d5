/*
 * fd.h: file descriptors in somebody else's process.
 *
 * A program may have closed 0, 1 or 2. A descriptor that the library opens then gets that number, and what the program
 * prints to stdout later would go there. So every descriptor that the library or a server keeps passes through fd_keep.
 */
#ifndef FLYT_COMMON_FD_H
#define FLYT_COMMON_FD_H

enum { FD_FIRST = 3 };                        /* the first number that no program takes for stdin, stdout or stderr */

/* Takes over fd, which was just opened, and gives the same file under a number of FD_FIRST or above, close-on-exec. fd
   below 0 (it could not be opened) is given back, with errno unchanged. -1 and errno: no number is free, and fd is
   closed. */
int fd_keep(int fd);

/* fd_keep for a pair, as socketpair makes it. 0; or -1 and errno: both are closed. */
int fd_keep_pair(int fds[2]);

/* For a program of ours, before it opens anything: opens /dev/null as each of 0, 1 and 2 that is closed. 0; or -1 and
 * errno. */
int fd_open_standard(void);

/* Makes room for that many descriptors, or for as many as the process may have, while it has one thread. The kernel
   doubles the table when it is full; where threads share it, whoever needs the room waits some milliseconds each time
   (for an RCU grace period). */
void fd_make_room(int count);

#endif
