/*
 * log.c: see log.h. A message is one write() of one line, so lines of several threads and processes never
 * mix. The level is read from the environment once; nothing is allocated, so a failing allocator can be
 * reported too.
 */
#include "cpu/common/cancel.h"
#include "cpu/common/log.h"
#include "cpu/common/env.h"
#include "cpu/common/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_SIZE = 4096, LEVEL_UNKNOWN = -1 };

static const char *const level_names[] = { "error", "warning", "info", "debug" };
static const char *const journal_priorities[] = { "<3>", "<4>", "<6>", "<7>" };

static _Atomic(const char *) program_name = "flyt";
static _Atomic(void (*)(void)) before_message;
static _Atomic(void (*)(int, const char *)) copy_to;
static atomic_int            output_fd = 2;
static atomic_int            current_level = LEVEL_UNKNOWN;
static atomic_int            journal_fd = -1, plain_fd = -1;    /* found to be the journal, or not to be it */

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
    atomic_store_explicit(&journal_fd, -1, memory_order_relaxed);
    atomic_store_explicit(&plain_fd, -1, memory_order_relaxed);
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

/* Whether the descriptor is a stream to systemd's journal: $JOURNAL_STREAM is "DEVICE:INODE" of it. A process that was
   started with its output elsewhere may have inherited the variable. */
static bool is_journal(int fd)
{
    if (fd == atomic_load_explicit(&journal_fd, memory_order_relaxed))
        return true;
    if (fd == atomic_load_explicit(&plain_fd, memory_order_relaxed))
        return false;
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat status;
    unsigned long long device, inode;
    bool found = stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(fd, &status) == 0 &&
                 status.st_dev == device && status.st_ino == inode;
    atomic_store_explicit(found ? &journal_fd : &plain_fd, fd, memory_order_relaxed);
    return found;
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

/* ---- values ---- */

/* The text without what must not be shown, and with ' in place of quote. Cut to size, between two characters. */
static const char *put_text(char *out, size_t size, const char *text, char quote)
{
    size_t used = 0;
    for (size_t length; text[used]; used += length) {
        unsigned char byte = (unsigned char)text[used];
        size_t shown = text_shown_length(text + used);
        length = shown ? shown : 1;
        if (used + length >= size)
            break;
        memcpy(out + used, text + used, length);
        if (!shown)
            out[used] = byte < ' ' || byte == 0x7f ? ' ' : '?';
        else if (byte == (unsigned char)quote)
            out[used] = '\'';
    }
    out[used] = '\0';
    return out;
}

const char *log_text(char *out, size_t size, const char *text) { return put_text(out, size, text, '"'); }

const char *log_value(char *out, size_t size, const char *text)
{
    bool bare = true;
    for (size_t at = 0, length; text[at] && bare; at += length) {
        length = text_shown_length(text + at);
        bare = length && text[at] != ' ' && text[at] != '"';
    }
    if (bare || size < sizeof "\"\"")
        return log_text(out, size, text);
    out[0] = '"';
    log_text(out + 1, size - 2, text);
    strcat(out, "\"");
    return out;
}

/* One conversion of an event's format. */
struct conversion {
    char text[24];
    size_t size;
    int longs;              /* how many l */
    bool of_size, star;
    char letter;
};

static struct conversion conversion_at(const char *format)
{
    struct conversion found = { .size = 1 };
    found.size += strspn(format + 1, "-+ #0123456789.*");
    found.star = format[found.size - 1] == '*';
    for (; format[found.size] && strchr("hlz", format[found.size]); found.size++) {
        found.longs += format[found.size] == 'l';
        found.of_size = format[found.size] == 'z';
    }
    found.letter = format[found.size];
    found.size += found.letter != '\0';
    snprintf(found.text, sizeof found.text, "%.*s", (int)found.size, format);
    return found;
}

/* before: what stands in front of it. Returns what snprintf returns. */
static int put_string(char *out, size_t size, const char *text, char before, bool quoted)
{
    if (quoted)
        log_text(out, size, text);
    else if (before == '=')
        log_value(out, size, text);
    else
        put_text(out, size, text, '\'');
    return (int)strlen(out);
}

/* As vsnprintf, for a format that begins with "event=" (log.h). Not inlined: programs with small stacks log, too. */
__attribute__((noinline)) static int put_event(char *out, size_t size, const char *format, va_list arguments)
{
    char whole[LINE_SIZE];
    size_t used = 0;
    bool quoted = false;
    for (const char *at = format; *at && used + 1 < size;) {
        if (*at != '%' || at[1] == '%') {
            quoted ^= *at == '"';
            out[used++] = *at;
            at += *at == '%' ? 2 : 1;
            continue;
        }
        struct conversion found = conversion_at(at);
        char *to = out + used;
        size_t room = size - used;
        int put;
        switch (found.letter) {
        case 's': {
            int most = found.star ? va_arg(arguments, int) : 0;
            const char *text = va_arg(arguments, const char *);
            if (found.star)
                snprintf(whole, sizeof whole, "%.*s", most, text ? text : "");
            else
                snprintf(whole, sizeof whole, found.text, text ? text : "");
            put = put_string(to, room, whole, at[-1], quoted);
            break;
        }
        case 'c': put = snprintf(to, room, found.text, va_arg(arguments, int)); break;
        case 'f':
        case 'g': put = snprintf(to, room, found.text, va_arg(arguments, double)); break;
        case 'p': put = snprintf(to, room, found.text, va_arg(arguments, void *)); break;
        default:
            if (found.of_size)
                put = snprintf(to, room, found.text, va_arg(arguments, size_t));
            else if (found.longs > 1)
                put = snprintf(to, room, found.text, va_arg(arguments, long long));
            else if (found.longs)
                put = snprintf(to, room, found.text, va_arg(arguments, long));
            else
                put = snprintf(to, room, found.text, va_arg(arguments, int));
        }
        used += put < 0 ? 0 : (size_t)put < room ? (size_t)put : room - 1;
        at += found.size;
    }
    out[used] = '\0';
    return (int)used;
}

void log_message(enum log_level level, const char *format, ...)
{
    if (!log_enabled(level))
        return;

    int saved_errno = errno;                /* a caller may log before it reads errno */
    char line[LINE_SIZE];
    bool journal = is_journal(atomic_load_explicit(&output_fd, memory_order_relaxed));
    int head = snprintf(line, sizeof line, "%s%s[%d] %s: ", journal ? journal_priorities[level] : "",
                        atomic_load_explicit(&program_name, memory_order_relaxed), (int)getpid(),
                        level_names[level]);
    size_t used = head < 0 ? 0 : (size_t)head < sizeof line - 1 ? (size_t)head : sizeof line - 2;
    char *text = line + used;

    va_list arguments;
    va_start(arguments, format);
    bool is_event = strncmp(format, "event=", strlen("event=")) == 0;
    int body = (is_event ? put_event : vsnprintf)(text, sizeof line - 1 - used, format, arguments);
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
