/*
 * old_glibc.c: functions that programs and libraries of this machine's glibc call, and older ones do not have, made of
 * what these have. tools/old-glibc links it into what is to run with older ones; nobody calls it otherwise.
 *
 * No header of the C library is included: it would declare the same names, and redirect some of them.
 */
typedef __SIZE_TYPE__ size_t;
struct stat;

enum { STAT_VERSION = 1, CLOSE_RANGE = 436, NO_SUCH_CALL = 38, MOST_DESCRIPTORS = 65536 }; /* of x86-64 */

int __xstat(int, const char *, struct stat *);
int __lxstat(int, const char *, struct stat *);
int __fxstat(int, int, struct stat *);
int __fxstatat(int, int, const char *, struct stat *, int);
long syscall(long, ...);
int *__errno_location(void);
int close(int);
int getdtablesize(void);

/* 2.33 */
int stat(const char *path, struct stat *out);
int lstat(const char *path, struct stat *out);
int fstat(int fd, struct stat *out);
int fstatat(int folder, const char *path, struct stat *out, int flags);
int stat(const char *path, struct stat *out) { return __xstat(STAT_VERSION, path, out); }
int lstat(const char *path, struct stat *out) { return __lxstat(STAT_VERSION, path, out); }
int fstat(int fd, struct stat *out) { return __fxstat(STAT_VERSION, fd, out); }
int fstatat(int folder, const char *path, struct stat *out, int flags)
{
    return __fxstatat(STAT_VERSION, folder, path, out, flags);
}

/* 2.34. The kernel has it since 5.9; before that, one by one. */
int close_range(unsigned first, unsigned last, int flags);
int close_range(unsigned first, unsigned last, int flags)
{
    int status = (int)syscall(CLOSE_RANGE, first, last, flags);
    if (status == 0 || *__errno_location() != NO_SUCH_CALL || flags)
        return status;
    int most = getdtablesize();
    for (unsigned fd = first; fd <= last && fd < (unsigned)most && fd < MOST_DESCRIPTORS; fd++)
        close((int)fd);
    return 0;
}

/* 2.38: the headers give these names to the functions of C23, which also know "0b1". */
#define OLD(type, name, parameters, arguments)                                                                 \
    extern type old_##name parameters __asm__(#name);                                                          \
    type __isoc23_##name parameters;                                                                           \
    type __isoc23_##name parameters { return old_##name arguments; }
OLD(long, strtol, (const char *text, char **end, int base), (text, end, base))
OLD(long long, strtoll, (const char *text, char **end, int base), (text, end, base))
OLD(unsigned long, strtoul, (const char *text, char **end, int base), (text, end, base))
OLD(unsigned long long, strtoull, (const char *text, char **end, int base), (text, end, base))
OLD(long, strtoimax, (const char *text, char **end, int base), (text, end, base))
OLD(unsigned long, strtoumax, (const char *text, char **end, int base), (text, end, base))
int __isoc99_vsscanf(const char *text, const char *format, __builtin_va_list list);
int __isoc23_sscanf(const char *text, const char *format, ...);
int __isoc23_sscanf(const char *text, const char *format, ...)
{
    __builtin_va_list list;
    __builtin_va_start(list, format);
    int count = __isoc99_vsscanf(text, format, list);
    __builtin_va_end(list);
    return count;
}
