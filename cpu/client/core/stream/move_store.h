/*
 * move_store.h: what stands between the two servers of a move (move.h). Contents are copied in two steps: out of the
 * old server, and into the new one. A move takes both at once, one piece after the other, and keeps no more than the
 * pieces that are on their way. A session that is suspended takes the first step alone, into a store, and the second
 * from it. A store is a file (cpu/checkpoint).
 *
 * The client's tables do not change in between, so both steps go over the same objects in the same order.
 */
#ifndef FLYT_CLIENT_CORE_MOVE_STORE_H
#define FLYT_CLIENT_CORE_MOVE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The steps that are taken now: struct move has one or both. */
enum move_steps { MOVE_OUT = 1, MOVE_IN = 2, MOVE_ACROSS = MOVE_OUT | MOVE_IN };

/* A part of what an object holds: at most FLYT_MAX_INLINE bytes. */
struct move_part {
    unsigned kind;           /* enum client_kind */
    uint64_t object;         /* its address; of an array FLYT_ARRAY_SPACE and its name; of a heap its context's id;
                                of a memory handle its id */
    uint64_t offset, size;   /* in bytes; of a box without gaps */
};

/* Each function that can fail returns a result code; move_store_why says what failed. */
struct move_store;

struct checkpoint_seal;

/* The file is the store's from here on. facts: its first lines; hashed: with a checksum of the whole file; where: names
   the file or its folder in reasons. seal: NULL: not encrypted. NULL: no memory. */
struct move_store *move_store_new(int fd, const char *where, const char *facts, bool hashed,
                                  const struct checkpoint_seal *seal);
/* Before a seal is used. False, with why. */
bool move_store_can_seal(char *why, size_t size);
/* The folder for files without a name, unless the environment names one; empty: none is known. Before the first file,
   or by the thread that makes them. */
void move_store_folder(const char *);
/* For a suspended session, encrypted with a key that only this process has. path: "": without a name, in the folder
   FLYT_SUSPEND_FOLDER, or that of move_store_folder, or TMPDIR, or /var/tmp; else the file, which must not be there
   yet, and goes with the store. NULL, with why. */
struct move_store *move_store_suspended(const char *path, char *why, size_t size);
/* For the recovery of a program (moves/keeper.h): as move_store_suspended, without a name. older: only what has
   changed since is written, and `older` stays as long as this one; NULL: everything is. Its parts may be read in any
   order. NULL, with why. */
struct move_store *move_store_kept(struct move_store *older, char *why, size_t size);
/* How many files there are, with those that it needs; the bytes of this one and of the oldest, and of those between. */
struct move_store_files { unsigned count; uint64_t newest, oldest, between; };
struct move_store_files move_store_files(const struct move_store *);
/* Older ones of which it needs nothing any more go. */
void move_store_prune(struct move_store *);
/* Writes another store that needs no older one, with what this one holds, which stays as it is. NULL, with why. */
struct move_store *move_store_merge(struct move_store *, char *why, size_t size);
struct move_changes;
/* Before the first part: each is noted in `now`, and of one that is in `before` (NULL: none) only the changes are
   written. Both stay the caller's. */
void move_store_changes(struct move_store *, struct move_changes *now, const struct move_changes *before);
/* Before the first part of the kind. count: how many objects of it there are. */
int  move_store_kind(struct move_store *, unsigned kind, const char *name, uint64_t count);
/* Before the first part, where changes are looked for: move_written_begin. */
void move_store_begin(struct move_store *);
int  move_store_write(struct move_store *, const struct move_part *, const void *bytes);
/* As move_store_write; but *bytes are FLYT_MAX_INLINE bytes from malloc, which may become the store's: then *bytes are
   other ones. */
int  move_store_write_swap(struct move_store *, const struct move_part *, uint8_t **bytes);
/* The part lies at this address. Whether it is known to be as in the store before: then move_store_keep writes it. */
bool move_store_untouched(const struct move_store *, const struct move_part *, uint64_t address);
int  move_store_keep(struct move_store *, const struct move_part *);
/* The question that was asked when the store before was begun; 0: there was none. */
uint32_t move_store_question(const struct move_store *);
/* Whether the store before has the part. */
bool move_store_has(const struct move_store *, const struct move_part *);
/* And whether there is use in asking for its hashes before its bytes: not if the server has said that it was written,
   and all of it had changed the last time. */
bool move_store_compares(const struct move_store *, const struct move_part *);
struct move_hashes;
/* The part has these hashes. *at, *size: which bytes of the part must be read and given to move_store_write_at; size 0:
   none, and the part is written. */
int  move_store_look(struct move_store *, const struct move_part *, const struct move_hashes *, uint64_t *at,
                     uint64_t *size);
/* Writes a part of which only these bytes are here. The others are as in the store before. hashes: as of
   move_store_look; bytes: as of move_store_write_swap. */
int  move_store_write_at(struct move_store *, const struct move_part *, struct move_hashes *hashes, uint64_t at,
                         uint64_t size, uint8_t **bytes);
/* Nothing more is written. */
int  move_store_finish(struct move_store *);
/* Begins to read, from the first part on. */
int  move_store_again(struct move_store *);
/* The parts come in the order in which they were written; those of a store that move_store_kept has made in any order.
   part->size: room for so many bytes, and how many there are. */
int  move_store_read(struct move_store *, struct move_part *, void *bytes);
/* To read the parts of a store that move_store_kept has made in one more thread: between move_store_again and
   move_store_rest. NULL: no memory. Then as move_store_read, and why: empty until that has failed. */
struct move_store_view;
struct move_store_view *move_store_view(const struct move_store *);
int  move_store_view_read(struct move_store_view *, struct move_part *, void *bytes);
const char *move_store_view_why(const struct move_store_view *);
void move_store_view_free(struct move_store_view *);
/* Nothing more is read, until move_store_again. */
void move_store_rest(struct move_store *);
const char *move_store_why(const struct move_store *);
/* Those that it needs go with it. */
void move_store_free(struct move_store *);
/* As move_store_free, but those that it needs stay. */
void move_store_drop(struct move_store *);

#endif
