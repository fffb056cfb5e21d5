/*
 * door.h: connections that have no worker yet, and where they come from (listener.c).
 *
 * A source is a machine (an IPv4 address, the first half of an IPv6 address) or, at a unix socket, a user. What one
 * source does costs the others nothing: places are taken from the source that has the most, and each source has only a
 * few workers at a time whose client has not proved itself, and few of them per second once it has often failed.
 */
#ifndef FLYT_SERVER_DOOR_H
#define FLYT_SERVER_DOOR_H

#include <stdbool.h>
#include <stdint.h>

enum { DOOR_PLACES = 1024, DOOR_SOURCE_PLACES = 512 };
/* Workers whose client has not said HELLO: at most so many in all, and of one source. As OpenSSH's MaxStartups. */
enum { DOOR_GREETING = 64, DOOR_SOURCE_GREETING = 8 };
/* So many workers may end that were given a connection and had not taken it. */
enum { DOOR_GIVEN_MOST = 10 };
/* Clients of one source that fail: at once, and per second from then on. */
enum { DOOR_FAILURES = 20, DOOR_FAILURES_PER_SECOND = 2 };

struct door_source {
    uint8_t kind, bytes[8];
};

struct knock;
struct door_waiting {
    int fd;
    bool spoke, tls;
    uint8_t given;                       /* to so many workers that ended before they had taken it */
    uint64_t deadline;
    uint64_t again;                      /* 0, or: too little has come, and it is looked at again then */
    struct knock *knock;                 /* malloced; NULL: it has shown no pass so far */
    struct door_source source;
};

struct door_failures {
    struct door_source source;
    uint32_t count;
    uint64_t since;
};
enum { DOOR_FAILURE_SOURCES = 256 };

struct door {
    struct door_waiting waiting[DOOR_PLACES]; /* in the order in which they came */
    int count, most;                     /* most: fewer where few files may be open */
    struct door_failures failures[DOOR_FAILURE_SOURCES];
};

bool door_same_source(const struct door_source *, const struct door_source *);

/* Takes over fd. When there is no place, somebody who waits is closed: of a source that has too many, one of its own,
   the longest silent one first; else one of the source that has the most. False: it is fd itself that was closed. */
bool door_add(struct door *, int fd, bool tls, uint64_t deadline);
void door_remove(struct door *, int i);                 /* and closes it */
/* Takes it out, with its descriptor and its knock, which are the caller's then. */
struct door_waiting door_take(struct door *, int i);
/* It waits again, before all others. There is no place for it, or it was given out too often: it is closed. */
void door_put_back(struct door *, const struct door_waiting *);
void door_close(const struct door_waiting *);

/* A client of this source has ended without having proved itself. */
void door_failed(struct door *, const struct door_source *, uint64_t now);
/* Until when it has to wait for its next worker; 0: it need not. */
uint64_t door_barred(struct door *, const struct door_source *, uint64_t now);

#endif
