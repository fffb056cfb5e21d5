/* fd.c: see fd.h. */
#include "cpu/common/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

int fd_keep(int fd)
{
    if (fd < 0 || fd >= FD_FIRST)
        return fd;
    int kept = fcntl(fd, F_DUPFD_CLOEXEC, FD_FIRST), error = errno;
    close(fd);
    errno = error;
    return kept;
}

int fd_keep_pair(int fds[2])
{
    fds[0] = fd_keep(fds[0]);
    int error = errno;
    fds[1] = fd_keep(fds[1]);
    if (fds[0] >= 0 && fds[1] >= 0)
        return 0;
    error = fds[1] < 0 ? errno : error;
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    errno = error;
    return -1;
}

int fd_open_standard(void)
{
    for (int fd = 0; fd < FD_FIRST; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)   /* the lowest free number: this one */
            return -1;
    return 0;
}

void fd_make_room(int count)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < (rlim_t)count)
        count = (int)files.rlim_cur;
    int last = fcntl(0, F_DUPFD_CLOEXEC, count - 1);
    if (last >= 0)
        close(last);
}
