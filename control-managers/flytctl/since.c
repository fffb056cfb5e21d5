/* since.c: a moment in the past, as people write it: 30s, 10m, 1h, 2d, 1w ago; 14:30, 2026-11-23, 2026-11-23T14:30:05Z.
 * Times are local, as flytctl prints them; with --utc, or a Z behind them, they are UTC. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control-managers/flytctl/flytctl.h"

enum { MICROSECONDS = 1000000, DAY_SECONDS = 86400 };
#define MOST_SECONDS (INT64_MAX / MICROSECONDS / 2) /* in microseconds it and any time of today have room */

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
            if (number > MOST_SECONDS / units[i].seconds)
                return false;
            *seconds = number * units[i].seconds;
            return true;
        }
    return false;
}

/* The whole text; a Z behind it says that it is UTC. */
static bool read_form(const char *text, const char *form, struct tm *parts, bool *utc)
{
    memset(parts, 0, sizeof *parts);
    const char *end = strptime(text, form, parts);
    *utc = *utc || (end && strcmp(end, "Z") == 0);
    return end && (!*end || strcmp(end, "Z") == 0);
}

/* Seconds since 1970. Whether it is summer then is found out. */
static int64_t seconds_of(struct tm *parts, bool utc)
{
    parts->tm_isdst = -1;
    return (int64_t)(utc ? timegm(parts) : mktime(parts));
}

int64_t since_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * MICROSECONDS + now.tv_nsec / 1000;
}

bool parse_since(const char *text, int64_t now, bool utc, int64_t *when)
{
    static const char *const dates[] = { "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M",
                                         "%Y-%m-%d" };
    static const char *const times[] = { "%H:%M:%S", "%H:%M" };
    struct tm parts, day;
    int64_t seconds;
    time_t today = (time_t)(now / MICROSECONDS);
    if (read_age(text, &seconds)) {
        *when = now - seconds * MICROSECONDS;
        return true;
    }
    for (size_t i = 0; i < COUNT(dates); i++)
        if (read_form(text, dates[i], &parts, &utc)) {
            *when = seconds_of(&parts, utc) * MICROSECONDS;
            return true;
        }
    for (size_t i = 0; i < COUNT(times); i++)
        if (read_form(text, times[i], &parts, &utc) && (utc ? gmtime_r(&today, &day) : localtime_r(&today, &day))) {
            day.tm_hour = parts.tm_hour;
            day.tm_min = parts.tm_min;
            day.tm_sec = parts.tm_sec;
            *when = seconds_of(&day, utc) * MICROSECONDS;
            if (*when > now) { /* it was yesterday */
                day.tm_mday--;
                *when = seconds_of(&day, utc) * MICROSECONDS;
            }
            return true;
        }
    return false;
}
