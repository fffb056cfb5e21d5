/* explain.h: errors as sentences. */
#ifndef FLYT_COMMON_EXPLAIN_H
#define FLYT_COMMON_EXPLAIN_H

#include <stdarg.h>
#include <stdio.h>

enum { EXPLAIN_SIZE = 1024 };           /* of every `char *error`; the size that callers provide */

/* Fills error (may be NULL) and returns code. */
static inline __attribute__((format(printf, 3, 4))) int explain(char *error, int code, const char *format, ...)
{
    if (error) {
        va_list list;
        va_start(list, format);
        vsnprintf(error, EXPLAIN_SIZE, format, list);
        va_end(list);
    }
    return code;
}

#endif
