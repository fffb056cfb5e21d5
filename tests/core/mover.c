/*
 * mover.c: a library to be preloaded: its thread moves the program's session again and again between the servers of
 * FLYT_TEST_MOVES (two URIs), with pauses of FLYT_TEST_PAUSE_US microseconds. Each third time it suspends the session,
 * and resumes it at the other server. After FLYT_TEST_MOST moves, if that is set, it stays where it is. At the end of
 * the program it adds a line to the file FLYT_TEST_MOVED: how often the session moved, how often it was refused, and
 * the last reason.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int (*move)(const char *uri, unsigned limit_ms, char *why, size_t size);
static int (*suspend)(unsigned limit_ms, char *why, size_t size);
static int (*resume)(const char *uri, char *why, size_t size);
static char uris[2][256], last[1024];
static long pause_us = 2000;
static unsigned moved, refused, most = UINT_MAX;
static sem_t stop;
static pthread_t thread;
static pid_t mover;

/* The library of the session may come with one that the program loads later. False: it is not there yet. */
static bool found(void)
{
    void *library = move ? NULL : dlopen("libflyt-client.so", RTLD_LAZY | RTLD_NOLOAD);
    if (library) {
        *(void **)&suspend = dlsym(library, "flyt_core_suspend");
        *(void **)&resume = dlsym(library, "flyt_core_resume");
        *(void **)&move = dlsym(library, "flyt_core_move");
    }
    return move && suspend && resume;
}

/* False: the program ends. */
static bool paused(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += pause_us / 1000000;
    until.tv_nsec += pause_us % 1000000 * 1000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    int code;
    do
        code = sem_timedwait(&stop, &until);
    while (code && errno == EINTR);
    return code != 0;
}

/* What was suspended is resumed: else the program would wait for ever. */
static int go(const char *uri, char *why, size_t size)
{
    static unsigned tries;
    if (++tries % 3)
        return move(uri, 500, why, size);
    int code = suspend(500, why, size);
    while (!code && resume(uri, why, size) != 0) {
        fprintf(stderr, "mover: not resumed: %s\n", why);
        sleep(1);
    }
    return code;
}

static void *moves(void *unused)
{
    int where = 0;
    (void)unused;
    while (moved < most && paused()) {
        char why[1024];
        if (!found())
            continue;
        if (go(uris[!where], why, sizeof why) == 0) {
            where = !where;
            moved++;
        } else {
            refused++;
            memcpy(last, why, sizeof last);
        }
    }
    return NULL;
}

__attribute__((constructor)) static void begin(void)
{
    const char *servers = getenv("FLYT_TEST_MOVES"), *pause = getenv("FLYT_TEST_PAUSE_US");
    const char *limit = getenv("FLYT_TEST_MOST");
    if (!servers || sscanf(servers, "%255s %255s", uris[0], uris[1]) != 2)
        return;
    if (pause)
        pause_us = atol(pause);
    if (limit)
        most = (unsigned)atol(limit);
    if (sem_init(&stop, 0, 0) == 0 && pthread_create(&thread, NULL, moves, NULL) == 0)
        mover = getpid();
}

/* The library of the session ends after this one, which was loaded later. */
__attribute__((destructor)) static void end(void)
{
    if (mover != getpid())
        return;
    sem_post(&stop);
    pthread_join(thread, NULL);
    FILE *out = getenv("FLYT_TEST_MOVED") ? fopen(getenv("FLYT_TEST_MOVED"), "a") : NULL;
    if (!out)
        return;
    fprintf(out, "%u %u %s\n", moved, refused, last);
    fclose(out);
}
