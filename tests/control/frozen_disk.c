/*
 * frozen_disk.c: to be preloaded. fsync and fdatasync wait as long as the file $FLYT_TEST_FROZEN is there, as on a
 * disk, or a file server, that has stopped to answer.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void wait_for_disk(void)
{
    const char *path = getenv("FLYT_TEST_FROZEN");
    while (path && access(path, F_OK) == 0)
        usleep(10000);
}

static int call(const char *name, int fd)
{
    int (*real)(int);
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(&real, &symbol, sizeof real);
    wait_for_disk();
    return real(fd);
}

__attribute__((visibility("default"))) int fsync(int fd) { return call("fsync", fd); }
__attribute__((visibility("default"))) int fdatasync(int fd) { return call("fdatasync", fd); }
