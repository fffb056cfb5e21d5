/* held_move.h: a move of a program between two servers that waits at a point of FLYT_MOVE_HOLD (docs/debugging.md). */
#ifndef TESTS_CORE_HELD_MOVE_H
#define TESTS_CORE_HELD_MOVE_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/core/moved_program.h"

enum { HELD_LIMIT_MS = 20000 };

static char hold_path[512], here_path[512];

/* The next move waits at the point of that name until hold_path is gone. */
static inline void hold(const char *name)
{
    const char *folder = getenv("TEST_FOLDER");
    setenv("FLYT_MOVE_HOLD", folder, 1);
    snprintf(hold_path, sizeof hold_path, "%s/%s", folder, name);
    snprintf(here_path, sizeof here_path, "%s/%s.here", folder, name);
    close(open(hold_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

/* A thread: moves the program to server 1, and writes the result to *code, an atomic_int, which is -1 until then. */
static inline void *held_move(void *code)
{
    atomic_store((atomic_int *)code, moved_try(1, HELD_LIMIT_MS));
    return NULL;
}

/* The move, in another thread, has come to the point. */
static inline void hold_await(const atomic_int *code)
{
    while (access(here_path, F_OK) != 0 && atomic_load(code) < 0)
        usleep(1000);
    if (atomic_load(code) >= 0)
        fprintf(stderr, "not moved: %d: %s\n", atomic_load(code), why);
    CHECK(atomic_load(code) < 0);
}

#endif
