/*
 * move_ahead.h: memory that the new server of a move has already when the program comes to rest (move_prepare.c), and
 * what of it has been written at the old server since it was copied. Of one context. The mover's thread alone uses it.
 */
#ifndef FLYT_CLIENT_CORE_MOVE_AHEAD_H
#define FLYT_CLIENT_CORE_MOVE_AHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core_context;
struct client_session;

struct ahead_span { uint64_t start, end; };
struct ahead_spans { struct ahead_span *all; size_t count, room; };   /* in order, none touches another */
/* False: no memory, and nothing has changed. */
bool ahead_spans_add(struct ahead_spans *, uint64_t start, uint64_t end);
/* The first part of [from, end) that no span has, or that one has. False: there is none. */
bool ahead_spans_gap(const struct ahead_spans *, uint64_t from, uint64_t end, struct ahead_span *gap);
bool ahead_spans_part(const struct ahead_spans *, uint64_t from, uint64_t end, struct ahead_span *part);

struct move_ahead {
    struct core_context   *context;
    uint64_t               generation;   /* its, when it began */
    struct client_session *there;        /* for calls to the new server while the program goes on */
    struct ahead_spans     mapped;       /* there */
    bool                   watches;      /* the old server notes what is written */
    uint64_t base, granule, granules;    /* of the window; granule 0: nothing is known about writes yet */
    uint8_t *changed;                    /* a bit for each granule that is to be copied (again) */
};

/* The granules of the window of which `bits` (size bytes) has a bit are to be copied. granule: bytes of one. False: no
   memory, or it makes no sense. */
bool move_ahead_note(struct move_ahead *, uint64_t granule, const uint8_t *bits, size_t size);
void move_ahead_note_all(struct move_ahead *);
/* Of whole granules: they have been copied. */
void move_ahead_copied(struct move_ahead *, uint64_t from, uint64_t end);
/* The first part of [from, end) that is to be copied, at most `most` bytes of it: what is not at the new server, or has
   changed. False: there is none. */
bool move_ahead_next(const struct move_ahead *, uint64_t from, uint64_t end, uint64_t most, struct ahead_span *);
/* Bytes of it that are to be copied. ahead NULL: all. */
uint64_t move_ahead_left(const struct move_ahead *, const struct core_context *, uint64_t address, uint64_t size);
void move_ahead_free(struct move_ahead *);       /* NULL is allowed */

#endif
