/* mps.c: whether the control daemon of NVIDIA MPS runs for this user, as mps/start_mps.sh starts it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu/common/explain.h"
#include "control-managers/node-manager/node.h"
#include "control-managers/node-manager/sandbox.h"

bool mps_ready(const char *directory, char *text)
{
    char path[NODE_PATH_SIZE], digits[32] = "";
    struct stat st;
    uint64_t started;
    snprintf(path, sizeof path, "%s/control", directory);
    if (stat(path, &st) != 0) {
        explain(text, 0, "MPS does not run (%s: %s): start it with mps/start_mps.sh, or take other kinds of sharing",
                path, strerror(errno));
        return false;
    }
    if (st.st_uid != geteuid()) {
        explain(text, 0,
                "MPS at %s belongs to user %u, GPU servers run as %u, and MPS serves one user: start it as that user",
                directory, (unsigned)st.st_uid, (unsigned)geteuid());
        return false;
    }
    if (launch_has_users() && stat(directory, &st) == 0 && !(st.st_mode & S_IXOTH)) {
        explain(text, 0, "GPU servers run as users of their own, and cannot get through %s: chmod 0711 %s", directory,
                directory);
        return false;
    }
    snprintf(path, sizeof path, "%s/nvidia-cuda-mps-control.pid", directory);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, digits, sizeof digits - 1);
    if (fd >= 0)
        close(fd);
    if (size <= 0 || process_start_time((pid_t)strtol(digits, NULL, 10), &started) != 0) {
        explain(text, 0, "the MPS control daemon of %s has ended (%s): start it again with mps/start_mps.sh", directory,
                path);
        return false;
    }
    return true;
}
