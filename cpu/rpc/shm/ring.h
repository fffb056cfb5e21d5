/*
 * ring.h: two byte streams in memory that two processes share. The layout is described at the head of channel_shm.c.
 *
 * The other side may write anything into these pages at any time. So: what a side itself decides (its positions, sizes)
 * lives in its own memory and is only published here; what the other side decides is read once into a local variable,
 * checked, and only the copy is used; bytes are copied out before anybody looks at them.
 */
#ifndef FLYT_RPC_RING_H
#define FLYT_RPC_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define RING_MAGIC UINT64_C(0x676e697274796c66)         /* "flytring" */
enum {
    RING_VERSION = 2,
    RING_LINE    = 128,         /* two cache lines: neighbours are fetched in pairs */
    RING_SIZE    = 1024 * 1024, /* of each ring; a power of two */
    RING_HEAD    = 4096,        /* header and control words */
    RING_NUMBERS = 4096,        /* completed numbers, 8 bytes each */
    RING_NEAR    = 112          /* so many bytes find room beside their tail; 48 on its own cache line */
};

enum ring_direction { RING_COMMANDS, RING_REPLIES, RING_COUNT };
enum ring_side { RING_CLIENT, RING_SERVER };

struct ring_place { uint64_t control, data, size; };    /* offsets from the start of the memory */

/* At offset 0. Written by the server before the client sees the memory; read once. */
struct ring_header {
    uint64_t          magic;
    uint32_t          version, flags;
    uint64_t          total;                            /* bytes */
    struct ring_place rings[RING_COUNT];
    uint64_t          sleep[2];                         /* offsets of the sleep words of client and server */
    uint64_t          numbers, number_count;            /* written by the server, 8 bytes each, by stream id */
    uint64_t          payload, payload_size;            /* memory that copies read and write in place; 0: none */
};

/* Bytes written and read since the beginning; never wrap. Each line is written by one side only. */
struct ring_control {
    /* the writer's */
    _Alignas(RING_LINE) _Atomic uint64_t tail;
    /* Lowest 32 bits: of the position up to which the writer of this ring has read the other one, a hint. Next 8: so
       many bytes of the stream, from the position whose lowest bits are the highest 24 of these, stand in `near` and
       not in the ring. */
    _Atomic uint64_t beside;
    uint8_t          near[RING_NEAR];
    /* the reader's */
    _Alignas(RING_LINE) _Atomic uint64_t head;
};

/* Which sleepers of this side there are. Set by that side, taken (exchanged for 0) by the other, which wakes them.
   Beside it, since the other side has this line at hand and it changes rarely: where this side's reader waited last, 1
   + the processor's number; 0: not known. A hint. */
enum { RING_FUTEX_IN = 1, RING_SOCKET_IN = 2, RING_FUTEX_OUT = 4 };
struct ring_sleep {
    _Alignas(RING_LINE) _Atomic uint32_t word;
    _Atomic uint32_t                     place;
};

/* One side's view of the memory. Positions of its own are atomic (relaxed) only because others of its threads may
   look at them while they wait. */
struct ring_writer {
    struct ring_control *control;
    uint8_t             *data;
    uint64_t             size;
    _Atomic uint64_t     tail;
    uint64_t             head_seen;                     /* the sending thread's; this and the rest */
    uint64_t             near_begin;
    uint32_t             near_size;                     /* 0: none that might be unread */
};
struct ring_reader {
    struct ring_control *control;
    const uint8_t       *data;
    uint64_t             size;
    _Atomic uint64_t     head;
    uint64_t             tail_seen;                     /* the receiving thread's */
};
struct ring_view {
    struct ring_writer out;
    struct ring_reader in;
    struct ring_sleep *mine, *theirs;
    _Atomic uint64_t  *numbers;
    uint32_t           number_count;
    uint64_t           payload, payload_size;           /* place in the memory; whole pages */
};

/* Bytes of memory that the layout needs, with so much payload (a multiple of RING_HEAD); without it the part that
   ring_attach and the rings use. */
size_t ring_memory_size(size_t payload);
/* Lays it out; the memory is zero. Only the part without the payload is touched. */
void   ring_format(void *memory, size_t payload);
/* `mapped` bytes of `size` are at `memory`. 0, or -EPROTO: this is no memory of ours (or not of this version), or says
   things that cannot be. */
int    ring_attach(void *memory, size_t mapped, size_t size, enum ring_side, struct ring_view *);

/* Copies what fits, a chunk at a time, so that the other side can begin; after each chunk `moved` is called.
   Bytes written, 0: full, -EPROTO: the reader's position cannot be. What fits into the tail's line goes there (near) if
   the reader has read all before it. */
ssize_t ring_write(struct ring_view *, const struct iovec *, int count, void (*moved)(void *context), void *context);
/* Copies at most `size` bytes out. Bytes read, 0: empty, -EPROTO. `moved` is called when much room has come. */
ssize_t ring_read(struct ring_view *, void *to, size_t size, void (*moved)(void *context), void *context);

/* Asks so often, with a pause between, whether there is anything to read. */
bool ring_look(struct ring_view *, unsigned looks);

/* For those who are about to sleep: anything to read, worthwhile room to write (or nonsense, which reading and writing
   will report). */
bool ring_readable(struct ring_view *);
bool ring_writable(struct ring_view *);

#endif
