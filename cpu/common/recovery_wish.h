/* recovery_wish.h: what is to become of a program whose GPU server is lost, as people write it (docs/elastic.md). */
#ifndef FLYT_COMMON_RECOVERY_WISH_H
#define FLYT_COMMON_RECOVERY_WISH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { RECOVERY_JOURNAL_SHIFT = 30 }; /* bytes of a journal, where nobody says: 1 GiB */
/* Milliseconds between checkpoints, at least and at most (a day). */
enum { RECOVERY_INTERVAL_LEAST = 100, RECOVERY_INTERVAL_MOST = 24 * 3600 * 1000 };

struct recovery_wish {
    size_t journal;       /* bytes; 0: the program is not to be recovered */
    uint64_t interval_ms; /* between checkpoints; 0: none are made */
};

/* 512M, 2G, or bytes; up to the end. */
static inline bool recovery_size_parse(const char *text, size_t *size)
{
    char *end = NULL;
    if (*text < '0' || *text > '9')
        return false;
    unsigned long long number = strtoull(text, &end, 10);
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    end += shift != 0;
    if (*end || !number || number > (SIZE_MAX >> 1 >> shift))
        return false;
    *size = (size_t)number << shift;
    return true;
}

/* 500ms, 30s, 5m; up to `end`, which is a colon or the end. */
static inline bool recovery_time_parse(const char *text, const char **end, uint64_t *ms)
{
    char *unit = NULL;
    if (*text < '0' || *text > '9')
        return false;
    unsigned long long number = strtoull(text, &unit, 10);
    unsigned factor = strncmp(unit, "ms", 2) == 0 ? 1 : *unit == 's' ? 1000 : *unit == 'm' ? 60000 : 0;
    *end = unit + (factor == 1 ? 2 : 1);
    if (!factor || number > RECOVERY_INTERVAL_MOST || (**end && **end != ':'))
        return false;
    *ms = number * factor;
    return *ms >= RECOVERY_INTERVAL_LEAST && *ms <= RECOVERY_INTERVAL_MOST;
}

/* "", "off"; "journal", "journal:SIZE"; "checkpoint:TIME", "checkpoint:TIME:SIZE". False: it is none of these, and *out
   says off. */
static inline bool recovery_wish_parse(const char *wish, struct recovery_wish *out)
{
    static const char journal[] = "journal", checkpoint[] = "checkpoint:";
    struct recovery_wish wanted = { .journal = (size_t)1 << RECOVERY_JOURNAL_SHIFT };
    const char *rest;
    *out = (struct recovery_wish){ 0 };
    if (!*wish || strcmp(wish, "off") == 0)
        return true;
    if (strncmp(wish, journal, sizeof journal - 1) == 0)
        rest = wish + sizeof journal - 1;
    else if (strncmp(wish, checkpoint, sizeof checkpoint - 1) != 0 ||
             !recovery_time_parse(wish + sizeof checkpoint - 1, &rest, &wanted.interval_ms))
        return false;
    if (*rest && (*rest != ':' || !recovery_size_parse(rest + 1, &wanted.journal)))
        return false;
    *out = wanted;
    return true;
}

/* Whether a program can have been without a server for so long, and have kept a journal of so many bytes: bounds for
   what programs say of themselves (30 days, a pebibyte). */
static inline bool recovery_figures_possible(uint64_t outage_us, uint64_t bytes)
{
    return outage_us <= UINT64_C(30) * 24 * 3600 * 1000000 && bytes <= UINT64_C(1) << 50;
}

#endif
