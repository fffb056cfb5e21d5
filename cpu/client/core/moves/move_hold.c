/* move_hold.c: see mover.h. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/env.h"
#include "cpu/client/core/moves/mover.h"

enum { HOLD_LOOK_MS = 2 };

void move_hold(const char *name)
{
    const char *folder = env_get("FLYT_MOVE_HOLD");
    char path[PATH_MAX], here[PATH_MAX];
    if (!folder || !*folder || snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path ||
        snprintf(here, sizeof here, "%s/%s.here", folder, name) >= (int)sizeof here || access(path, F_OK) != 0)
        return;
    int fd = open(here, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    while (access(path, F_OK) == 0)
        nanosleep(&(struct timespec){ .tv_nsec = HOLD_LOOK_MS * CLOCK_NS_PER_MS }, NULL);
    unlink(here);
}
