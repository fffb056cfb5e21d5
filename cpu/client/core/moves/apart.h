/*
 * apart.h: a process whose session is suspended into a file with a name may be frozen (CRIU, docs/elastic.md). Then it
 * holds nothing that CRIU could not write down.
 */
#ifndef FLYT_CLIENT_CORE_APART_H
#define FLYT_CLIENT_CORE_APART_H

#include <stdbool.h>
#include <stddef.h>

/* Whether that can be had. False, with why. */
bool apart_possible(char *why, size_t size);
/* Gives up the addresses that are reserved without access: CRIU looks at each page of them, a TiB. */
void apart_give(void);
/* Reserves them again. False, with why: somebody else has them; none is reserved then. */
bool apart_take(char *why, size_t size);

#endif
