/*
 * files.c: what programs look for before they try CUDA (interpose.h): the files of NVIDIA's kernel driver, and NVRTC by
 * its name without a number, which only packages for developers have.
 *
 * The files seem to be there where they are not. What opens one gets /dev/null: only NVIDIA's driver knows what to ask
 * them, and every such request fails (ENOTTY). A call for another path, or one that succeeds, is the C library's.
 */
#define _GNU_SOURCE
#include "cpu/client/run/interpose.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Numbers of NVIDIA's driver; that of nvidia-uvm is given by the kernel, from 511 downwards. */
enum { MAJOR = 195, CONTROL = 255, MAJOR_UVM = 511 };
static const struct file { const char *path; unsigned major, minor; } files[] = {
    { "/dev/nvidia0", MAJOR, 0 },
    { "/dev/nvidiactl", MAJOR, CONTROL },
    { "/dev/nvidia-uvm", MAJOR_UVM, 0 },
};

/* After a call that has failed; NULL: it is right. */
static const struct file *absent(const char *path)
{
    if (errno != ENOENT || !path || strncmp(path, "/dev/nvidia", 11) != 0)
        return NULL;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (strcmp(path, files[i].path) == 0)
            return &files[i];
    return NULL;
}

static int describe(const struct file *file, struct stat *out)
{
    memset(out, 0, sizeof *out);
    out->st_mode = S_IFCHR | 0666;
    out->st_nlink = 1;
    out->st_rdev = makedev(file->major, file->minor);
    out->st_blksize = 4096;
    errno = 0;
    return 0;
}

/* A function of the C library under its own name. The compiler sees another one, so that no header contradicts. */
#define TAKE_PLACE_OF(function) __asm__(#function) EXPORTED
/* The next definition of it in the process. An old C library lacks some, and then nobody calls them. */
#define NEXT(function, ...) \
    static int (*_Atomic next)(__VA_ARGS__); \
    if (!next) \
        next = (int (*)(__VA_ARGS__))real_dlsym()(RTLD_NEXT, #function)

/* ---- what a file is; for x86-64 struct stat64 is struct stat ---- */

#define STAT(function) \
    int own_##function(const char *path, struct stat *out) TAKE_PLACE_OF(function); \
    int own_##function(const char *path, struct stat *out) \
    { \
        NEXT(function, const char *, struct stat *); \
        int r = next(path, out); \
        const struct file *file = r ? absent(path) : NULL; \
        return file ? describe(file, out) : r; \
    }
#define STAT_OF_VERSION(function) \
    int own_##function(int version, const char *path, struct stat *out) TAKE_PLACE_OF(function); \
    int own_##function(int version, const char *path, struct stat *out) \
    { \
        NEXT(function, int, const char *, struct stat *); \
        int r = next(version, path, out); \
        const struct file *file = r ? absent(path) : NULL; \
        return file ? describe(file, out) : r; \
    }
#define STAT_AT(function) \
    int own_##function(int folder, const char *path, struct stat *out, int flags) TAKE_PLACE_OF(function); \
    int own_##function(int folder, const char *path, struct stat *out, int flags) \
    { \
        NEXT(function, int, const char *, struct stat *, int); \
        int r = next(folder, path, out, flags); \
        const struct file *file = r ? absent(path) : NULL; \
        return file ? describe(file, out) : r; \
    }
STAT(stat)
STAT(stat64)
STAT(lstat)
STAT(lstat64)
STAT_OF_VERSION(__xstat)
STAT_OF_VERSION(__xstat64)
STAT_OF_VERSION(__lxstat)
STAT_OF_VERSION(__lxstat64)
STAT_AT(fstatat)
STAT_AT(fstatat64)

int own_statx(int folder, const char *path, int flags, unsigned mask, struct statx *out) TAKE_PLACE_OF(statx);
int own_statx(int folder, const char *path, int flags, unsigned mask, struct statx *out)
{
    NEXT(statx, int, const char *, int, unsigned, struct statx *);
    int r = next(folder, path, flags, mask, out);
    const struct file *file = r ? absent(path) : NULL;
    struct stat basic;
    if (!file)
        return r;
    memset(out, 0, sizeof *out);
    r = describe(file, &basic);
    out->stx_mask = STATX_TYPE | STATX_MODE | STATX_NLINK;
    out->stx_mode = (__u16)basic.st_mode;
    out->stx_nlink = 1;
    out->stx_blksize = 4096;
    out->stx_rdev_major = file->major;
    out->stx_rdev_minor = file->minor;
    return r;
}

/* ---- may it be used; everybody may read and write it ---- */

int own_access(const char *path, int mode) TAKE_PLACE_OF(access);
int own_access(const char *path, int mode)
{
    NEXT(access, const char *, int);
    int r = next(path, mode);
    if (r && absent(path)) {
        errno = mode & X_OK ? EACCES : 0;
        r = mode & X_OK ? -1 : 0;
    }
    return r;
}

int own_faccessat(int folder, const char *path, int mode, int flags) TAKE_PLACE_OF(faccessat);
int own_faccessat(int folder, const char *path, int mode, int flags)
{
    NEXT(faccessat, int, const char *, int, int);
    int r = next(folder, path, mode, flags);
    if (r && absent(path)) {
        errno = mode & X_OK ? EACCES : 0;
        r = mode & X_OK ? -1 : 0;
    }
    return r;
}

/* ---- opening ---- */

static mode_t mode_of(int flags, va_list arguments)
{
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

/* Who creates files under these names means files. */
#define OPEN(function) \
    int own_##function(const char *path, int flags, ...) TAKE_PLACE_OF(function); \
    int own_##function(const char *path, int flags, ...) \
    { \
        NEXT(function, const char *, int, mode_t); \
        va_list arguments; \
        va_start(arguments, flags); \
        mode_t mode = mode_of(flags, arguments); \
        va_end(arguments); \
        int r = next(path, flags, mode); \
        return r < 0 && absent(path) ? next("/dev/null", flags, mode) : r; \
    }
#define OPEN_AT(function) \
    int own_##function(int folder, const char *path, int flags, ...) TAKE_PLACE_OF(function); \
    int own_##function(int folder, const char *path, int flags, ...) \
    { \
        NEXT(function, int, const char *, int, mode_t); \
        va_list arguments; \
        va_start(arguments, flags); \
        mode_t mode = mode_of(flags, arguments); \
        va_end(arguments); \
        int r = next(folder, path, flags, mode); \
        return r < 0 && absent(path) ? next(folder, "/dev/null", flags, mode) : r; \
    }
OPEN(open)
OPEN(open64)
OPEN_AT(openat)
OPEN_AT(openat64)

/* ---- NVRTC ---- */

typedef void *dlopen_function(const char *, int);

static dlopen_function *real_dlopen(void)
{
    static dlopen_function *_Atomic found;
    if (!found) {
        void *address = dlvsym(RTLD_NEXT, "dlopen", "GLIBC_2.34");
        if (!address)
            address = dlvsym(RTLD_NEXT, "dlopen", "GLIBC_2.2.5");
        found = (dlopen_function *)address;
    }
    return found;
}

/* The first of these names under which a library can be found; the first one if there is none. */
static const char *name_of_nvrtc(void)
{
    static const char *const names[] = { "libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *library = real_dlopen()(names[i], RTLD_LAZY | RTLD_LOCAL);
        if (library) {
            dlclose(library);
            return names[i];
        }
    }
    return names[0];
}

/* dlopen looks at its return address to know in whose folders to search, so the real one is jumped to (interpose.c). */
EXPORTED void *dlopen(const char *name, int flags)
{
    if (name && strcmp(name, "libnvrtc.so") == 0)
        name = name_of_nvrtc();
    return real_dlopen()(name, flags);
}
