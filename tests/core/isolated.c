#include "isolated.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void isolated_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
    fflush(NULL);
    _exit(99);
}

/* The folder and the files in it. */
static void folder_remove(const char *path)
{
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        closedir(folder);
    rmdir(path);
}

enum { LOOKS_EVERY_MS = 10, PIECE_MS = 100 };

#if defined __has_feature
#if __has_feature(thread_sanitizer)
#define ISOLATED_TSAN 1
#endif
#endif
#if defined __SANITIZE_THREAD__ || defined ISOLATED_TSAN
/* The limits are for other builds: with ThreadSanitizer a program needs ten times the processor. */
enum { SLOWER = 8 };
/* It sleeps for a second at the end of each process, in case another thread still makes an error. Weak: a test may have
   options of its own. */
__attribute__((weak, visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "atexit_sleep_ms=50"; }
#else
enum { SLOWER = 1 };
#endif

static unsigned long milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long)now.tv_sec * 1000 + (unsigned long)now.tv_nsec / 1000000;
}

static bool has_ended(pid_t child)
{
    siginfo_t info = { .si_pid = 0 };
    return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == child;
}

/* Takes what there is to read; what does not fit is lost. False: the other end is closed. */
static bool keep(int printed, char *output, unsigned long size, unsigned long *at)
{
    char lost[4096];
    const bool fits = *at + 1 < size;
    const ssize_t got = fits ? read(printed, output + *at, size - 1 - *at) : read(printed, lost, sizeof lost);
    if (got > 0 && fits)
        *at += (unsigned long)got;
    return got > 0;
}

/* Keeps what the child prints until it ends, or kills it behind the limit. The time between two looks counts as a
   piece at most: where everything is stopped for a minute or gets no processor, the child has had no minute, either. */
static void await(pid_t child, unsigned limit, int printed, char *output, unsigned long size)
{
    struct pollfd pipe = { .fd = output ? printed : -1, .events = POLLIN };
    unsigned long at = 0, spent = 0, before = milliseconds();
    while (pipe.fd >= 0 || !has_ended(child)) {
        if (poll(&pipe, 1, LOOKS_EVERY_MS) > 0 && !keep(printed, output, size, &at))
            pipe.fd = -1;
        const unsigned long now = milliseconds();
        spent += now - before < PIECE_MS ? now - before : PIECE_MS;
        before = now;
        if (spent > limit * 1000UL * SLOWER) {
            kill(child, SIGALRM);
            break;
        }
    }
    if (output)
        output[at] = 0;
}

int isolated_output(void (*test)(void), unsigned limit, char *output, unsigned long size)
{
    char folder[] = "/tmp/flyt-test-XXXXXX";
    int ends[2];
    fflush(NULL);
    if (!mkdtemp(folder) || pipe2(ends, O_CLOEXEC))
        return -1;
    pid_t child = fork();
    if (!child) {
        setenv("TEST_FOLDER", folder, 1);
        if (output) {
            dup2(ends[1], 1);
            dup2(ends[1], 2);
        }
        close(ends[0]);
        close(ends[1]);
        test();
        exit(0);
    }
    close(ends[1]);
    await(child, limit, ends[0], output, size);
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    folder_remove(folder);
    if (output && status)
        fprintf(stderr, "%s", output);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int isolated(void (*test)(void), unsigned limit)
{
    return isolated_output(test, limit, NULL, 0);
}
