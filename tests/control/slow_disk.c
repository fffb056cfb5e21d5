/*
 * slow_disk.c: to be preloaded. While the file $FLYT_TEST_SLOW is there, the calls whose time depends on what others
 * have written take long: removing a file or cutting it 20 ms, and waiting for the disk two seconds.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REMOVE_MS = 20, SYNC_MS = 2000 };

static void take(int ms)
{
    const char *path = getenv("FLYT_TEST_SLOW");
    if (path && access(path, F_OK) == 0)
        usleep((useconds_t)ms * 1000);
}

static void find(const char *name, void *real, size_t size)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(real, &symbol, size);
}

#define SHOWN __attribute__((visibility("default")))

SHOWN int unlinkat(int folder, const char *name, int flags)
{
    int (*real)(int, const char *, int);
    find("unlinkat", &real, sizeof real);
    take(REMOVE_MS);
    return real(folder, name, flags);
}

SHOWN int unlink(const char *path)
{
    int (*real)(const char *);
    find("unlink", &real, sizeof real);
    take(REMOVE_MS);
    return real(path);
}

SHOWN int ftruncate(int fd, off_t size)
{
    int (*real)(int, off_t);
    find("ftruncate", &real, sizeof real);
    take(REMOVE_MS);
    return real(fd, size);
}

static int sync_by(const char *name, int fd)
{
    int (*real)(int);
    find(name, &real, sizeof real);
    take(SYNC_MS);
    return real(fd);
}

SHOWN int fsync(int fd) { return sync_by("fsync", fd); }
SHOWN int fdatasync(int fd) { return sync_by("fdatasync", fd); }
