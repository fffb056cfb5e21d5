/*
 * move_ahead.h: what the new server of a move has already when the program comes to rest (move_prepare.c): contexts,
 * the memory of their heaps, and modules; and what of the memory has been written at the old server since it was
 * copied. The mover's thread alone uses it.
 */
#ifndef FLYT_CLIENT_CORE_MOVE_AHEAD_H
#define FLYT_CLIENT_CORE_MOVE_AHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/rpc/cpu_rpc_prot.h"

struct core_context;
struct client_session;
struct prepared_code;

struct ahead_span { uint64_t start, end; };
struct ahead_spans { struct ahead_span *all; size_t count, room; };   /* in order, none touches another */
/* False: no memory, and nothing has changed. */
bool ahead_spans_add(struct ahead_spans *, uint64_t start, uint64_t end);
/* The first part of [from, end) that no span has, or that one has. False: there is none. */
bool ahead_spans_gap(const struct ahead_spans *, uint64_t from, uint64_t end, struct ahead_span *gap);
bool ahead_spans_part(const struct ahead_spans *, uint64_t from, uint64_t end, struct ahead_span *part);

/* A context. */
struct ahead_context {
    struct core_context *context;
    uint64_t             generation;     /* its, when it began */
    struct ahead_spans   mapped;         /* of its heap, there */
    uint64_t             heap;           /* of malloc() in kernels: its address, there too; 0: it had none */
    uint64_t             heap_size;
    flyt_id              stream;         /* the move's own in the context, while it is not that of struct move */
    uint64_t             stream_token;
    bool                 stream_made[2]; /* at either server */
};

struct move_ahead {
    struct ahead_context  *contexts;
    size_t                 count;
    struct client_session *there;        /* for calls to the new server while the program goes on */
    struct prepared_code  *code;         /* code_prepare.c; NULL: no modules are loaded there */
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
/* NULL: the new server does not have the context yet. ahead NULL is allowed. */
struct ahead_context *move_ahead_of(const struct move_ahead *, const struct core_context *);
/* Whether the context has not ended since. It ends under its lock, after its heap's copies have ended. */
bool move_ahead_stays(const struct ahead_context *);
/* The first part of [from, end) of the context's heap that is to be copied, at most `most` bytes of it: what is not at
   the new server, or has changed. False: there is none. */
bool move_ahead_next(const struct move_ahead *, const struct ahead_context *, uint64_t from, uint64_t end,
                     uint64_t most, struct ahead_span *);
/* Bytes of it that are to be copied. ahead NULL: all. */
uint64_t move_ahead_left(const struct move_ahead *, const struct core_context *, uint64_t address, uint64_t size);
void move_ahead_free(struct move_ahead *);       /* without the code (code_prepared_free). NULL is allowed */

#endif
