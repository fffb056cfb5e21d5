/*
 * log.c: see log.h. A message is one write() of one line, so lines of several threads and processes never
 * mix. The level is read from the environment once; nothing is allocated, so a failing allocator can be
 * reported too.
 */
#include "cpu/common/cancel.h"
#include "cpu/common/log.h"
#include "cpu/common/env.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_SIZE = 4096, LEVEL_UNKNOWN = -1 };

static const char *const level_names[] = { "error", "warning", "info", "debug" };

static _Atomic(const char *) program_name = "flyt";
static _Atomic(void (*)(void)) before_message;
static _Atomic(void (*)(int, const char *)) copy_to;
static atomic_int            output_fd = 2;
static atomic_int            current_level = LEVEL_UNKNOWN;

void log_set_name(const char *name)
{
    atomic_store_explicit(&program_name, name, memory_order_relaxed);
}

void log_set_before(void (*function)(void))
{
    atomic_store_explicit(&before_message, function, memory_order_relaxed);
}

void log_set_copy(void (*function)(int level, const char *text))
{
    atomic_store_explicit(&copy_to, function, memory_order_relaxed);
}

void log_set_fd(int fd)
{
    atomic_store_explicit(&output_fd, fd, memory_order_relaxed);
}

/* LEVEL_UNKNOWN: FLYT_LOG has a value that is none. */
static int level_from_environment(void)
{
    const char *wanted = env_get("FLYT_LOG");
    if (!wanted || !*wanted)
        return LOG_LEVEL_WARNING;
    for (int level = LOG_LEVEL_ERROR; level <= LOG_LEVEL_DEBUG; level++)
        if (strcmp(wanted, level_names[level]) == 0)
            return level;
    return LEVEL_UNKNOWN;
}

bool log_enabled(enum log_level level)
{
    int limit = atomic_load_explicit(&current_level, memory_order_relaxed);
    if (limit == LEVEL_UNKNOWN) {
        /* Two threads may both come here: they store the same value. */
        limit = level_from_environment();
        bool wrong = limit == LEVEL_UNKNOWN;
        limit = wrong ? LOG_LEVEL_WARNING : limit;
        atomic_store_explicit(&current_level, limit, memory_order_relaxed);
        static atomic_flag told = ATOMIC_FLAG_INIT;
        if (wrong && !atomic_flag_test_and_set(&told))
            log_message(LOG_LEVEL_WARNING, "FLYT_LOG=%s is not error, warning, info or debug: warning is used",
                        env_get("FLYT_LOG"));
    }
    return (int)level <= limit;
}

static void write_line(const char *line, size_t size)
{
    int fd = atomic_load_explicit(&output_fd, memory_order_relaxed);
    while (size > 0) {
        ssize_t written = write(fd, line, size);
        if (written < 0) {
            if (errno == EINTR)
                continue;
            return;                         /* nowhere left to complain */
        }
        line += written;
        size -= (size_t)written;
    }
}

const char *log_text(char *out, size_t size, const char *text)
{
    size_t used = 0;
    for (; used + 1 < size && text[used]; used++) {
        unsigned char byte = (unsigned char)text[used];
        out[used] = byte < ' ' || byte == 0x7f ? ' ' : byte == '"' ? '\'' : (char)byte;
    }
    out[used] = '\0';
    return out;
}

void log_message(enum log_level level, const char *format, ...)
{
    if (!log_enabled(level))
        return;

    int saved_errno = errno;                /* a caller may log before it reads errno */
    char line[LINE_SIZE];
    int head = snprintf(line, sizeof line, "%s[%d] %s: ",
                        atomic_load_explicit(&program_name, memory_order_relaxed), (int)getpid(),
                        level_names[level]);
    size_t used = head < 0 ? 0 : (size_t)head < sizeof line - 1 ? (size_t)head : sizeof line - 2;
    char *text = line + used;

    va_list arguments;
    va_start(arguments, format);
    int body = vsnprintf(text, sizeof line - 1 - used, format, arguments);
    va_end(arguments);
    if (body > 0) {
        size_t room = sizeof line - 2 - used;       /* what vsnprintf can have written */
        used += (size_t)body < room ? (size_t)body : room;
    }
    CANCEL_OFF;
    void (*copy)(int, const char *) = atomic_load_explicit(&copy_to, memory_order_relaxed);
    if (copy && level <= LOG_LEVEL_WARNING)
        copy(level, text);
    line[used++] = '\n';
    void (*before)(void) = atomic_load_explicit(&before_message, memory_order_relaxed);
    if (before)
        before();
    write_line(line, used);
    errno = saved_errno;
}
