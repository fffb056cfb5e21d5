/* since.c: a moment in the past, as people write it: 30s, 10m, 1h, 2d, 1w ago; 14:30, 2026-11-23, 2026-11-23T14:30:05Z.
 * Times are UTC, as flytctl prints them. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control-managers/flytctl/flytctl.h"

enum { MICROSECONDS = 1000000, DAY_SECONDS = 86400 };

static bool read_age(const char *text, int64_t *seconds)
{
    static const struct { char unit; int64_t seconds; } units[] = {
        { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', DAY_SECONDS }, { 'w', 7 * DAY_SECONDS },
    };
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (!isdigit((unsigned char)*text) || errno || number > INT32_MAX || !*end || end[1])
        return false;
    for (size_t i = 0; i < COUNT(units); i++)
        if (*end == units[i].unit) {
            *seconds = number * units[i].seconds;
            return true;
        }
    return false;
}

/* The whole text, a Z behind it allowed. */
static bool read_form(const char *text, const char *form, struct tm *parts)
{
    memset(parts, 0, sizeof *parts);
    const char *end = strptime(text, form, parts);
    return end && (!*end || strcmp(end, "Z") == 0);
}

bool parse_since(const char *text, int64_t now, int64_t *when)
{
    static const char *const dates[] = { "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M",
                                         "%Y-%m-%d" };
    static const char *const times[] = { "%H:%M:%S", "%H:%M" };
    struct tm parts;
    int64_t seconds, today = now / MICROSECONDS;
    if (read_age(text, &seconds)) {
        *when = now - seconds * MICROSECONDS;
        return true;
    }
    for (size_t i = 0; i < COUNT(dates); i++)
        if (read_form(text, dates[i], &parts)) {
            *when = (int64_t)timegm(&parts) * MICROSECONDS;
            return true;
        }
    today -= today % DAY_SECONDS;
    for (size_t i = 0; i < COUNT(times); i++)
        if (read_form(text, times[i], &parts)) {
            *when = (today + parts.tm_hour * 3600 + parts.tm_min * 60 + parts.tm_sec) * MICROSECONDS;
            *when -= *when > now ? (int64_t)DAY_SECONDS * MICROSECONDS : 0; /* it was yesterday */
            return true;
        }
    return false;
}
