/*
 * db_mongo_lease.h: one manager at a time on one MongoDB: two that do not know of each other would hand out the same
 * GPU.
 *
 * The document { _id: "manager" } of flyt_lease says who it is: a token that nobody else has, a beat that grows while
 * it lives, and words for people. Clocks of machines are never compared: another manager takes over once it has watched
 * the same beat for LEASE_SECONDS, or at once where it sees that the holder's process is no more (same machine). Each
 * step is one update that matches what was seen, so of two that try one wins. A holder that finds another's token has
 * lost it for good: it must end, and may begin anew.
 */
#ifndef FLYT_CONTROL_DB_MONGO_LEASE_H
#define FLYT_CONTROL_DB_MONGO_LEASE_H

#include <mongoc/mongoc.h>
#include <stdbool.h>
#include <stdint.h>

enum { LEASE_SECONDS = 6, LEASE_RENEW_MS = 1500 };

struct mongo_lease {
    char token[33];
    bool held, lost;
    int64_t beat;        /* ours */
    uint64_t renewed;    /* milliseconds, monotonic */
    char seen_token[33]; /* of another */
    int64_t seen_beat;
    uint64_t seen; /* since when it is the same */
};

int mongo_lease_init(struct mongo_lease *); /* 0, or -ENOSYS without random numbers */
/* Takes or renews it where that is due. 0: it is ours; -EBUSY: another's, `text` (EXPLAIN_SIZE) says whose; -ESTALE: it
   was ours; 1: the database failed, see *failure. */
int mongo_lease_hold(struct mongo_lease *, mongoc_collection_t *, bson_error_t *failure, char *text);
/* Gives it back, as far as the database can be reached. */
void mongo_lease_release(struct mongo_lease *, mongoc_collection_t *);

#endif
