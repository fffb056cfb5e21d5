/*
 * follow.h: what has changed, for programs that show the cluster all the time (ADMIN_FOLLOW).
 *
 * Whatever changes a VM, a node, a server or a program does not have to say so. Instead, when a follower asks, the
 * row of each thing is made, and its digest is compared with the one of the last time: admin_follow.c does this in
 * slices of a millisecond. A thing whose row has changed goes to the end of the journal, with the next number. A thing
 * that is gone leaves an entry there, if a follower may know it. So a follower that has read up to a number needs only
 * what stands behind it, however many followers there are.
 *
 * While nobody follows, all of this costs a pointer for each thing.
 */
#ifndef FLYT_CLUSTER_FOLLOW_H
#define FLYT_CLUSTER_FOLLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control-managers/common/loop.h"

/* In what is followed: struct vm, node, server, program, total, used (a program that is served alone). */
struct followed {
    size_t place; /* in follow.things, from 1; 0: none */
    size_t entry; /* in follow.journal, from 1; 0: no follower has seen it */
    uint64_t digest;
    uint32_t size; /* of its row, in bytes */
    uint8_t kind;  /* admin_news_kind */
    bool alone;    /* of a program: it is a struct used */
};

struct follow_entry {
    uint64_t number;
    struct followed *thing; /* NULL: it is gone, or an entry behind this one is about it */
    uint64_t gone_id;
    char *gone_name; /* of a node or a VM that is gone */
    uint8_t gone;    /* admin_news_kind + 1 of what is gone; 0: nothing is */
};

struct follow {
    struct followed **things;
    size_t count, room;
    /* Numbers rise. While it is compacted: those before `write` and those from `read` on; nothing stands between. */
    struct follow_entry *journal;
    size_t entries, entry_room;
    size_t read, write;
    size_t gone, drop; /* entries about what is gone, and how many of the oldest of them are to be dropped */
    bool compacts;
    uint64_t last, forgotten; /* numbers: of the newest entry; of the newest about something gone that was dropped */
    size_t left;              /* things that the present comparison has still to look at */
    int64_t looked;           /* when the last whole comparison began; 0: never */
    int64_t looking;          /* when the present one began; 0: none */
    struct loop_timer slice;
    void *page; /* admin_follow.c */
};

void follow_free(struct follow *);
/* Without memory it is not followed: nobody sees it. */
void follow_add(struct follow *, struct followed *, int kind);
/* It ends. Its id, or its name. */
void follow_remove(struct follow *, struct followed *, uint64_t id, const char *name);
/* Its row is another one now: it goes to the end of the journal. */
void follow_note(struct follow *, struct followed *);
/* The first entry behind this number, and the next one; `entries`: none. */
size_t follow_behind(const struct follow *, uint64_t number);
size_t follow_next(const struct follow *, size_t entry);

#endif
