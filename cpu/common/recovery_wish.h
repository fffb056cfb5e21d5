/* recovery_wish.h: what is to become of a program whose GPU server is lost, as people write it (docs/elastic.md). */
#ifndef FLYT_COMMON_RECOVERY_WISH_H
#define FLYT_COMMON_RECOVERY_WISH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { RECOVERY_JOURNAL_SHIFT = 30 }; /* bytes of a journal, where nobody says: 1 GiB */

/* "", "off": *limit 0; "journal"; "journal:SIZE", SIZE being 512M, 2G, or bytes. False: it is none of these. */
static inline bool recovery_wish_parse(const char *wish, size_t *limit)
{
    static const char word[] = "journal";
    *limit = 0;
    if (!*wish || strcmp(wish, "off") == 0)
        return true;
    if (strncmp(wish, word, sizeof word - 1) != 0)
        return false;
    wish += sizeof word - 1;
    if (!*wish) {
        *limit = (size_t)1 << RECOVERY_JOURNAL_SHIFT;
        return true;
    }
    char *end = NULL;
    if (*wish++ != ':' || *wish < '0' || *wish > '9')
        return false;
    unsigned long long number = strtoull(wish, &end, 10);
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    end += shift != 0;
    if (*end || !number || number > (SIZE_MAX >> 1 >> shift))
        return false;
    *limit = (size_t)number << shift;
    return true;
}

#endif
