/*
 * error_log.c: the process's log of errors, as cuLogs… and cudaLogs… show it: for each call that failed the line
 * "Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuMemAlloc_v2", and before it, where the library can say more, why.
 *
 * The last LOG_ENTRIES messages are kept. A message has a number, and an iterator of the program's is such a number cut
 * to 32 bits. $CUDA_LOG_FILE gets each message when it is kept.
 *
 * Callbacks run in the thread whose call has failed, when that call is about to return: a message may come into
 * being while the library holds locks, and a callback may make CUDA calls. What a callback's own calls add to the log
 * is kept, but no callback is called for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cpu/common/cancel.h"
#include "cpu/common/fd.h"
#include "cpu/common/log.h"
#include "cpu/client/core/api_errors.h"

static void error_log_printed(int level, const char *text);

/* NVIDIA's sizes: so many messages, each in so many bytes; a buffer of 25,600 bytes holds all. */
enum { LOG_ENTRIES = 100, LOG_LINE = 256, LOG_TEXT = 200 };

struct entry {
    struct timespec time;
    pthread_t thread;
    int level;
    bool own;                             /* a thread's own call failed: its callbacks are called by that thread only */
    bool told;                            /* callbacks need not be called for it (any more) */
    char text[LOG_TEXT];
};

struct log_callback {
    struct log_callback *next;            /* in the order of registration */
    uint64_t number;                      /* which it is, of all that were ever registered */
    core_log_function *function;
    void *user;
    unsigned running;                     /* threads that are inside function */
    bool removed;                         /* by itself, and still running */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;       /* a leaf */
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;        /* a callback has returned */
static struct entry entries[LOG_ENTRIES];
static uint64_t count;                                         /* messages so far; the next one's number */
static struct log_callback *callbacks;
static uint64_t registered;
static int file = -1;
static bool file_opened;

/* What the calling thread runs now; NULL: no callback. */
static _Thread_local const struct log_callback *inside __attribute__((tls_model("initial-exec")));

/* ---- forks: the child's calls fail, and are kept like others ---- */

static void fork_prepare(void) { pthread_mutex_lock(&lock); }
static void fork_parent(void) { pthread_mutex_unlock(&lock); }

/* The threads that were inside callbacks are the parent's. */
static void fork_child(void)
{
    for (struct log_callback *c = callbacks; c; c = c->next)
        c->running = c == inside;
    pthread_cond_init(&ended, NULL);
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void begin(void)
{
    pthread_atfork(fork_prepare, fork_parent, fork_child);
    log_set_copy(error_log_printed);
}

/* ---- keeping messages ---- */

static struct entry *entry_of(uint64_t number) { return &entries[number % LOG_ENTRIES]; }
static uint64_t oldest(void) { return count > LOG_ENTRIES ? count - LOG_ENTRIES : 0; }

/* With the newline; without the NUL. */
static size_t format_line(const struct entry *entry, char line[LOG_LINE])
{
    struct tm at;
    localtime_r(&entry->time.tv_sec, &at);
    int size = snprintf(line, LOG_LINE, "[%02d:%02d:%02d.%03d][%lu][CUDA][%c] %s\n", at.tm_hour, at.tm_min, at.tm_sec,
                        (int)(entry->time.tv_nsec / 1000000), (unsigned long)entry->thread,
                        entry->level == CORE_LOG_WARNING ? 'W' : 'E', entry->text);
    return (size_t)size;
}
_Static_assert(LOG_TEXT + sizeof "[00:00:00.000][18446744073709551615][CUDA][E] \n" <= LOG_LINE, "lines are whole");

static bool write_all(int fd, const char *bytes, size_t size)
{
    while (size) {
        ssize_t written = write(fd, bytes, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        bytes += written;
        size -= (size_t)written;
    }
    return true;
}

/* What $CUDA_LOG_FILE names; -1: nothing, or it cannot be written. It is opened for the first message. */
static int destination(void)
{
    const char *name = file_opened ? NULL : secure_getenv("CUDA_LOG_FILE");
    file_opened = true;
    if (!name || !*name)
        return file;
    if (strcmp(name, "stdout") == 0)
        file = STDOUT_FILENO;
    else if (strcmp(name, "stderr") == 0)
        file = STDERR_FILENO;
    else
        file = fd_keep(open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    return file;
}

/* Runs in signal handlers, too: what formats may fault on managed memory, and so comes before the lock. */
static void keep(int level, bool own, const char *format, va_list arguments)
{
    CANCEL_OFF;
    int saved = errno;
    char line[LOG_LINE];
    struct entry entry = { .thread = pthread_self(), .level = level, .own = own };
    clock_gettime(CLOCK_REALTIME, &entry.time);
    vsnprintf(entry.text, sizeof entry.text, format, arguments);
    for (char *c = entry.text; *c; c++)
        *c = *c == '\n' ? ' ' : *c;
    pthread_mutex_lock(&lock);
    entry.told = !callbacks || inside;
    *entry_of(count++) = entry;
    int fd = destination();
    if (fd >= 0)
        write_all(fd, line, format_line(&entry, line));
    pthread_mutex_unlock(&lock);
    errno = saved;
}

static __attribute__((format(printf, 3, 4))) void add(int level, bool own, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    keep(level, own, format, arguments);
    va_end(arguments);
}

/* Keeps a message, as core_log does, which this library also prints: cpu/common/log.h calls it. */
static void error_log_printed(int level, const char *text) { add(level, false, "%s", text); }

void core_log(enum core_log_level level, const char *format, ...)
{
    CANCEL_DEFERRED;
    va_list arguments;
    va_start(arguments, format);
    keep(level, false, format, arguments);
    va_end(arguments);
}

/* ---- callbacks ---- */

static struct log_callback *callback_after(uint64_t number)
{
    struct log_callback *c = callbacks;
    while (c && c->number <= number)
        c = c->next;
    return c;
}

/* One message, which is a copy, to all. The lock is held, and given back meanwhile. */
static void tell(struct entry *entry)
{
    uint64_t done = 0;
    for (struct log_callback *c; (c = callback_after(done));) {
        c->running++;
        inside = c;
        pthread_mutex_unlock(&lock);
        c->function(c->user, entry->level, entry->text, strlen(entry->text));
        pthread_mutex_lock(&lock);
        inside = NULL;
        done = c->number;
        bool last = !--c->running && c->removed;
        pthread_cond_broadcast(&ended);
        if (last)
            free(c);
    }
}

/* Of those that this thread may print, the first. */
static struct entry *untold(void)
{
    for (uint64_t number = oldest(); number < count; number++) {
        struct entry *entry = entry_of(number);
        if (!entry->told && (!entry->own || pthread_equal(entry->thread, pthread_self())))
            return entry;
    }
    return NULL;
}

void core_log_failure(int code, const char *code_name, const char *function)
{
    CANCEL_DEFERRED;
    add(CORE_LOG_ERROR, true, "Returning %d (%s) from %s", code, code_name ? code_name : "unknown", function);
    if (inside)
        return;
    pthread_mutex_lock(&lock);
    for (struct entry *entry; callbacks && (entry = untold());) {
        struct entry copy = *entry;
        entry->told = true;
        tell(&copy);
    }
    pthread_mutex_unlock(&lock);
}

int core_log_register(core_log_function *function, void *user, void **handle)
{
    CANCEL_DEFERRED;
    struct log_callback *c = function ? calloc(1, sizeof *c) : NULL;
    if (!function)
        core_log(CORE_LOG_ERROR, "the callback cannot be NULL");
    if (!c)
        return function ? CORE_OUT_OF_MEMORY : CORE_INVALID_VALUE;
    c->function = function;
    c->user = user;
    pthread_mutex_lock(&lock);
    struct log_callback **end = &callbacks;
    while (*end)
        end = &(*end)->next;
    *end = c;
    c->number = ++registered;
    pthread_mutex_unlock(&lock);
    if (handle)
        *handle = c;
    return CORE_OK;
}

/* A callback that runs in other threads is waited for: afterwards the program may unload its code. */
int core_log_unregister(void *handle)
{
    CANCEL_OFF;
    pthread_mutex_lock(&lock);
    struct log_callback **at = &callbacks;
    while (*at && *at != handle)
        at = &(*at)->next;
    struct log_callback *c = *at;
    if (c) {
        *at = c->next;
        while (c->running > (c == inside))
            pthread_cond_wait(&ended, &lock);
        c->removed = c == inside;         /* tell() frees it when it returns */
        if (!c->removed)
            free(c);
    }
    pthread_mutex_unlock(&lock);
    if (!c)
        core_log(CORE_LOG_ERROR, "no callback has this handle");
    return c ? CORE_OK : CORE_INVALID_VALUE;
}

/* ---- what the program reads ---- */

uint32_t core_log_end(void)
{
    CANCEL_DEFERRED;
    pthread_mutex_lock(&lock);
    uint32_t end = (uint32_t)count;
    pthread_mutex_unlock(&lock);
    return end;
}

/* The messages from the iterator on, or all. *lost: how many of them are gone. false: there was never such an iterator.
   The lock is held. */
static bool range_of(const uint32_t *iterator, uint64_t *first, uint64_t *lost)
{
    uint64_t wanted = 0;
    if (iterator) {
        uint32_t back = (uint32_t)count - *iterator;
        if (back > count)
            return false;
        wanted = count - back;
    }
    *first = wanted > oldest() ? wanted : oldest();
    *lost = *first - wanted;
    return true;
}

static size_t note_of(uint64_t lost, const char *why, char line[LOG_LINE])
{
    struct entry note = { .thread = pthread_self(), .level = CORE_LOG_WARNING };
    clock_gettime(CLOCK_REALTIME, &note.time);
    snprintf(note.text, sizeof note.text, "The log is truncated: %llu older messages %s", (unsigned long long)lost,
             why);
    return format_line(&note, line);
}
#define LOST_LONG_AGO "have been overwritten"
#define LOST_HERE "are not shown, for lack of room"

/* All of the range in a copy, so that files are written without the lock. *size: without the NUL. */
static int copy_range(uint32_t *iterator, char **out, size_t *size, uint64_t *lost, uint32_t *end)
{
    uint64_t first;
    int code = CORE_OK;
    char *text = malloc((LOG_ENTRIES + 1) * LOG_LINE);
    if (!text)
        return CORE_OUT_OF_MEMORY;
    *size = 0;
    pthread_mutex_lock(&lock);
    if (range_of(iterator, &first, lost)) {
        for (; first < count; first++)
            *size += format_line(entry_of(first), text + *size);
        *end = (uint32_t)count;
    } else {
        code = CORE_INVALID_VALUE;
    }
    pthread_mutex_unlock(&lock);
    if (code) {
        core_log(CORE_LOG_ERROR, "the iterator is not one of this log");
        free(text);
        text = NULL;
    }
    *out = text;
    return code;
}

int core_log_dump_to_file(uint32_t *iterator, const char *path)
{
    CANCEL_OFF;
    char *text, line[LOG_LINE];
    size_t size;
    uint64_t lost;
    uint32_t end;
    if (!path) {
        core_log(CORE_LOG_ERROR, "the path cannot be NULL");
        return CORE_INVALID_VALUE;
    }
    int code = copy_range(iterator, &text, &size, &lost, &end);
    if (code)
        return code;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool good = fd >= 0 && (!lost || write_all(fd, line, note_of(lost, LOST_LONG_AGO, line))) &&
                write_all(fd, text, size);
    int reason = errno;
    if (fd >= 0)
        close(fd);
    free(text);
    if (!good)
        core_log(CORE_LOG_ERROR, "%s cannot be written: %s", path, strerror(reason));
    else if (iterator)
        *iterator = end;
    return good ? CORE_OK : CORE_INVALID_VALUE;
}

/* Where the last lines begin that fit into `room` bytes; *left_out: how many lines stand before. */
static const char *last_lines(const char *text, size_t size, size_t room, uint64_t *left_out)
{
    const char *at = text, *end = text + size;
    while ((size_t)(end - at) > room) {
        at = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1;
        ++*left_out;
    }
    return at;
}

int core_log_dump_to_memory(uint32_t *iterator, char *buffer, size_t *size)
{
    CANCEL_OFF;
    char *text, line[LOG_LINE];
    size_t length, note = 0;
    uint64_t lost, left_out = 0;
    uint32_t end;
    if (!buffer || !size) {
        core_log(CORE_LOG_ERROR, "%s cannot be NULL", buffer ? "size" : "buffer");
        return CORE_INVALID_VALUE;
    }
    int code = copy_range(iterator, &text, &length, &lost, &end);
    if (code)
        return code;
    bool terminated = *size;
    size_t room = terminated ? *size - 1 : 0;
    const char *from = text;
    if (lost)
        note = note_of(lost, LOST_LONG_AGO, line);
    if (note + length > room) {
        note = note_of(UINT64_MAX, LOST_HERE, line);      /* as long as it can be */
        from = last_lines(text, length, room > note ? room - note : 0, &left_out);
        note = note_of(lost + left_out, LOST_HERE, line);
    }
    bool none = from == text + length && length;
    *size = none ? 0 : note + (size_t)(text + length - from);
    if (!none) {
        memcpy(buffer, line, note);
        memcpy(buffer + note, from, *size - note);
    }
    if (terminated)
        buffer[*size] = 0;
    free(text);
    if (none)
        core_log(CORE_LOG_ERROR, "the buffer is too small for a message");
    else if (iterator)
        *iterator = end;
    return none ? CORE_INVALID_VALUE : CORE_OK;
}
