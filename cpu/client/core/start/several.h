/*
 * several.h: a program with several GPU servers, which FLYT_SERVER names (several.c).
 */
#ifndef FLYT_CLIENT_CORE_SEVERAL_H
#define FLYT_CLIENT_CORE_SEVERAL_H

#include <stdint.h>

/* From the text of FLYT_SERVER: the first session's uri, and a session for each further one. A result code. */
int  several_split(const char *uris);
/* In a cluster: so many sessions behind the first one. A result code. */
int  several_expect(unsigned more);
/* The first server offers a host window there, whose addresses are reserved here. */
void several_host(uint64_t at, uint64_t size);
/* At attach, when the first session has its window: connects the others, and agrees on the same window with them. Then
   the first session's facts are those that all have in common. A result code; an error has been explained.
   lead: what the client manager said of the program; NULL: FLYT_SERVER has named the servers. */
struct manager_place;
int  several_attach(const struct manager_place *lead);

#endif
