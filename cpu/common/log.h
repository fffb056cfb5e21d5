/*
 * log.h: one line per message on stderr (or a descriptor): NAME[PID] LEVEL: TEXT.
 * Level from $FLYT_LOG (error, warning, info, debug; default warning). Never on the hot path at default level.
 * Where that is systemd's journal, "<N>" stands before it, which the journal takes for the priority: see sd-daemon(3).
 *
 * In the daemons and the GPU server TEXT is an event and its values, and what follows from it where that helps:
 *     event=worker-ended worker=12094 signal=11 why="Segmentation fault": its client has lost its session
 * In a library inside a program, TEXT is a sentence for the program's user. docs/architecture.md, "Logs", has the
 * rules.
 */
#ifndef FLYT_COMMON_LOG_H
#define FLYT_COMMON_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_set_name(const char *name);              /* static string; default "flyt" */
/* function is called before each message is written, by the thread that writes it. NULL: none. For whoever else writes
   to stderr, and may have a line there that is not ended. */
void log_set_before(void (*function)(void));
/* function gets the text of each error and warning that is written, before it is written. NULL: none. */
void log_set_copy(void (*function)(int level, const char *text));
void log_set_fd(int fd);                          /* default 2 */
bool log_enabled(enum log_level);
/* The text as a value between quotes: control characters become spaces, " becomes ', other bytes that must not be
   shown (text.h) become '?'; cut to size. Returns out. For texts that a peer or a compiler wrote. */
const char *log_text(char *out, size_t size, const char *text);
/* The text as a value; in quotes if it has blanks or quotes, or log_text would change it. Returns out. */
const char *log_value(char *out, size_t size, const char *text);
/* In a format that begins with "event=", each %s right behind a = is printed as log_value does, and each %s between
   quotes as log_text does: so what a peer wrote never looks like further values. All other %s lose what log_text would
   change but quotes. Widths and precisions that are arguments (*) stand in %.*s only. */
void log_message(enum log_level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...)   log_message(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_message(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    log_message(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)   do { if (log_enabled(LOG_LEVEL_DEBUG)) log_message(LOG_LEVEL_DEBUG, __VA_ARGS__); } while (0)

#endif
