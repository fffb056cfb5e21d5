#include "cpu/rpc/shm/ring.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "cpu/common/relayed.h"

/* So much is copied before it is shown to the other side: large enough that the positions' cache lines hardly matter,
   small enough that both copies overlap and the bytes are still in the cache. */
enum { CHUNK = 64 * 1024 };
/* A writer that found the ring full waits for this part of it, or each small read would wake it. */
enum { ROOM_SHARE = 4 };
/* Each time the reader passes such a part of the ring it looks whether the writer sleeps. */
enum { TELL_SHARE = 16 };

enum {
    COMMANDS_AT = 512, REPLIES_AT = COMMANDS_AT + 2 * RING_LINE, CLIENT_SLEEP_AT = REPLIES_AT + 2 * RING_LINE,
    SERVER_SLEEP_AT = CLIENT_SLEEP_AT + RING_LINE, CONTROL_END = SERVER_SLEEP_AT + RING_LINE
};
_Static_assert(sizeof(struct ring_header) <= COMMANDS_AT, "the header stands before the control words");
_Static_assert(offsetof(struct ring_control, near) + RING_NEAR == RING_LINE, "near ends with the tail's line");
_Static_assert(sizeof(struct ring_control) == 2 * RING_LINE && sizeof(struct ring_sleep) == RING_LINE,
               "lines of their own");
_Static_assert((int)CONTROL_END <= (int)RING_HEAD, "the control words stand before the rings");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "a lock inside the process is no use here");

/* The payload begins where a huge page would. Nothing lies between: only what is touched costs memory. */
enum {
    NUMBERS_AT = RING_HEAD + RING_COUNT * RING_SIZE,
    NUMBERS_END = NUMBERS_AT + RING_NUMBERS * 8,
    PAYLOAD_AT = 4 << 20
};
_Static_assert((int)PAYLOAD_AT >= (int)NUMBERS_END && (int)PAYLOAD_AT % (int)RING_HEAD == 0,
               "whole pages behind the rest");

size_t ring_memory_size(size_t payload)
{
    return PAYLOAD_AT + payload;
}

void ring_format(void *memory, size_t payload)
{
    struct ring_header header = {
        .magic = RING_MAGIC, .version = RING_VERSION, .total = ring_memory_size(payload),
        .rings = { { COMMANDS_AT, RING_HEAD, RING_SIZE }, { REPLIES_AT, RING_HEAD + RING_SIZE, RING_SIZE } },
        .sleep = { CLIENT_SLEEP_AT, SERVER_SLEEP_AT },
        .numbers = NUMBERS_AT, .number_count = RING_NUMBERS, .payload = PAYLOAD_AT, .payload_size = payload,
    };
    memcpy(memory, &header, sizeof header);
}

/* `size` bytes at `offset`, aligned, lie behind the header and within the memory. */
static bool fits(uint64_t offset, uint64_t size, uint64_t total, uint64_t alignment)
{
    return offset >= sizeof(struct ring_header) && offset % alignment == 0 && size <= total && offset <= total - size;
}

static bool place_fits(const struct ring_place *place, uint64_t total)
{
    bool power = place->size >= CHUNK && (place->size & (place->size - 1)) == 0;
    return power && fits(place->control, sizeof(struct ring_control), total, RING_LINE) &&
           fits(place->data, place->size, total, RING_LINE);
}

int ring_attach(void *memory, size_t mapped, size_t size, enum ring_side side, struct ring_view *view)
{
    struct ring_header header;
    uint8_t *base = memory;
    if (mapped < sizeof header)
        return -EPROTO;
    memcpy(&header, memory, sizeof header);             /* once; only the copy counts from here on */
    bool good = header.magic == RING_MAGIC && header.version == RING_VERSION && header.total <= size;
    for (int i = 0; i < RING_COUNT; i++)
        good = good && place_fits(&header.rings[i], mapped) &&
               fits(header.sleep[i], sizeof(struct ring_sleep), mapped, RING_LINE);
    good = good && header.number_count <= RING_NUMBERS &&
           fits(header.numbers, header.number_count * 8, mapped, RING_LINE) &&
           fits(header.payload, header.payload_size, header.total, RING_HEAD) && header.payload_size % RING_HEAD == 0;
    if (!good)
        return -EPROTO;

    const struct ring_place *out = &header.rings[side == RING_CLIENT ? RING_COMMANDS : RING_REPLIES];
    const struct ring_place *in = &header.rings[side == RING_CLIENT ? RING_REPLIES : RING_COMMANDS];
    *view = (struct ring_view){
        .out = { .control = (void *)(base + out->control), .data = base + out->data, .size = out->size },
        .in = { .control = (void *)(base + in->control), .data = base + in->data, .size = in->size },
        .mine = (void *)(base + header.sleep[side]), .theirs = (void *)(base + header.sleep[1 - side]),
        .numbers = (void *)(base + header.numbers), .number_count = (uint32_t)header.number_count,
        .payload = header.payload, .payload_size = header.payload_size,
    };
    return 0;
}

/* ---- writing ---- */

/* Free bytes, or -EPROTO. Only the sending thread. */
static int64_t room_of(struct ring_writer *out, uint64_t tail)
{
    /* acquire: the reader has finished reading what it gives back, before we write over it */
    uint64_t head = atomic_load_explicit(&out->control->head, memory_order_acquire);
    /* it may only move forward, and not past what was written */
    if (head - out->head_seen > tail - out->head_seen)
        return -EPROTO;
    out->head_seen = head;
    return (int64_t)(out->size - (tail - head));
}

static void copy_in(struct ring_writer *out, uint64_t tail, const uint8_t *from, size_t size)
{
    uint64_t at = tail & (out->size - 1);
    size_t first = size < out->size - at ? size : (size_t)(out->size - at);
    memcpy(out->data + at, from, first);
    if (first < size)
        memcpy(out->data, from + first, size - first);
}

enum { BESIDE_SIZE = 32, BESIDE_BEGIN = 40 };          /* shifts in ring_control.beside */
#define BEGIN_BITS UINT64_C(0xFFFFFF)
_Static_assert(RING_NEAR < 256 && (int)RING_SIZE + (int)CHUNK < (int)BEGIN_BITS,
               "what `beside` says cannot be of an earlier round");

/* Shows the tail to the other side, and how far we have read its ring. */
static void show_tail(struct ring_view *view, uint64_t tail)
{
    struct ring_writer *out = &view->out;
    /* What stood near is read by now, or the ring would be over-full; said before its position's bits come again. */
    if (out->near_size > 0 && tail - out->near_begin > out->size)
        out->near_size = 0;
    /* acquire, then release: what the reading thread of ours has read it has done with, before the other side writes
     * there again */
    uint64_t taken = atomic_load_explicit(&view->in.head, memory_order_acquire);
    uint64_t beside = (uint32_t)taken | (uint64_t)out->near_size << BESIDE_SIZE | out->near_begin << BESIDE_BEGIN;
    relayed_sent();
    atomic_store_explicit(&out->control->beside, beside, memory_order_release);
    /* relaxed: for threads of our own that wait for room, which look again */
    atomic_store_explicit(&out->tail, tail, memory_order_relaxed);
    /* Release would do for the bytes. seq_cst, because `moved` looks at the sleep word next: of two sides that each
       write their word and then read the other's, at least one must see what the other wrote. */
    atomic_store_explicit(&out->control->tail, tail, memory_order_seq_cst);
}

/* May the next bytes go beside the tail? Only if the reader has read all before: then nothing there is still to be
   read. It says so with each write of its own; a lie costs it its own bytes. */
static bool near_free(struct ring_view *view, uint64_t tail)
{
    /* acquire: the reader has finished reading them, before we write over them */
    return (uint32_t)atomic_load_explicit(&view->in.control->beside, memory_order_acquire) == (uint32_t)tail;
}

static void write_near(struct ring_view *view, uint64_t tail, const struct iovec *vector, int count, size_t size)
{
    struct ring_control *control = view->out.control;
    uint8_t *to = control->near;
    for (int i = 0; i < count; i++) {
        memcpy(to, vector[i].iov_base, vector[i].iov_len);
        to += vector[i].iov_len;
    }
    view->out.head_seen = tail;                         /* the reader showed its head before it said so */
    view->out.near_begin = tail;
    view->out.near_size = (uint32_t)size;
    show_tail(view, tail + size);
}

ssize_t ring_write(struct ring_view *view, const struct iovec *vector, int count, void (*moved)(void *), void *context)
{
    struct ring_writer *out = &view->out;
    const uint64_t begin = atomic_load_explicit(&out->tail, memory_order_relaxed);
    size_t all = 0;
    for (int i = 0; i < count && all <= RING_NEAR; i++)
        all += vector[i].iov_len <= RING_NEAR ? vector[i].iov_len : RING_NEAR + 1;
    if (all > 0 && all <= RING_NEAR && near_free(view, begin)) {
        write_near(view, begin, vector, count, all);
        moved(context);
        return (ssize_t)all;
    }
    uint64_t tail = begin, shown = begin;
    uint64_t room = out->size - (tail - out->head_seen);
    for (int i = 0; i < count; i++) {
        const uint8_t *from = vector[i].iov_base;
        size_t left = vector[i].iov_len;
        while (left > 0) {
            size_t part = left < CHUNK ? left : CHUNK;
            if (room < part) {
                int64_t now = room_of(out, tail);
                if (now < 0)
                    return -EPROTO;
                room = (uint64_t)now;
            }
            part = room < part ? (size_t)room : part;
            if (part > 0) {
                copy_in(out, tail, from, part);
                tail += part;
                room -= part;
                from += part;
                left -= part;
            }
            if (tail - shown >= CHUNK || (part == 0 && tail != shown)) {
                show_tail(view, tail);
                shown = tail;
                moved(context);
            }
            if (part == 0)
                return (ssize_t)(tail - begin);
        }
    }
    if (tail != shown) {
        show_tail(view, tail);
        moved(context);
    }
    return (ssize_t)(tail - begin);
}

/* ---- reading ---- */

static void copy_out(const struct ring_reader *in, uint64_t head, uint8_t *to, size_t size)
{
    uint64_t at = head & (in->size - 1);
    size_t first = size < in->size - at ? size : (size_t)(in->size - at);
    memcpy(to, in->data + at, first);
    if (first < size)
        memcpy(to + first, in->data, size - first);
}

/* Copies the next bytes, at most `size` and not more than are there. How many; -EPROTO. */
static ssize_t take(const struct ring_reader *in, uint64_t head, uint8_t *to, size_t size)
{
    uint64_t there = in->tail_seen - head;
    size = there < size ? (size_t)there : size;
    size = size < CHUNK ? size : CHUNK;
    /* relaxed: what it says is of before the tail that was seen, and stays until we have read the bytes it speaks of */
    uint64_t beside = atomic_load_explicit(&in->control->beside, memory_order_relaxed);
    uint64_t offset = (head - (beside >> BESIDE_BEGIN)) & BEGIN_BITS;
    uint8_t near = (uint8_t)(beside >> BESIDE_SIZE);
    if (offset >= near) {
        copy_out(in, head, to, size);
        return (ssize_t)size;
    }
    if (near > RING_NEAR || near - offset > there)
        return -EPROTO;
    size = near - offset < size ? near - (size_t)offset : size;
    memcpy(to, in->control->near + offset, size);
    return (ssize_t)size;
}

ssize_t ring_read(struct ring_view *view, void *buffer, size_t size, void (*moved)(void *), void *context)
{
    struct ring_reader *in = &view->in;
    const uint64_t begin = atomic_load_explicit(&in->head, memory_order_relaxed);
    uint64_t head = begin;
    uint8_t *to = buffer;
    while (size > 0) {
        if (in->tail_seen == head) {
            /* acquire: the bytes were written before the position that covers them */
            uint64_t tail = atomic_load_explicit(&in->control->tail, memory_order_acquire);
            if (tail - head > in->size)
                return -EPROTO;         /* backwards, or more than there is room for */
            in->tail_seen = tail;
            if (tail == head)
                break;
            relayed_received();
        }
        ssize_t part = take(in, head, to, size);
        if (part < 0)
            return part;
        uint64_t before = head;
        head += (uint64_t)part;
        to += part;
        size -= (size_t)part;
        /* release: for show_tail */
        atomic_store_explicit(&in->head, head, memory_order_release);
        if (before / (in->size / TELL_SHARE) == head / (in->size / TELL_SHARE)) {
            /* release: our reads of the bytes come before it */
            atomic_store_explicit(&in->control->head, head, memory_order_release);
            continue;
        }
        /* seq_cst for the sleep word, as in show_tail. A writer sleeps until there is a ROOM_SHARE of room; before all
           that it has written is read, a place like this comes at which there is. */
        atomic_store_explicit(&in->control->head, head, memory_order_seq_cst);
        /* tail_seen is at most what was written, so this is never less than the room that there is */
        if (in->size - (in->tail_seen - head) >= in->size / ROOM_SHARE)
            moved(context);
    }
    return (ssize_t)(head - begin);
}

enum { NEAR_SECOND = RING_NEAR - RING_LINE / 2 };

static inline void pause_cpu(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

bool ring_look(struct ring_view *view, unsigned looks)
{
    const struct ring_reader *in = &view->in;
    uint64_t head = atomic_load_explicit(&in->head, memory_order_relaxed);
    for (; looks > 0; looks--) {
        __builtin_prefetch(&in->control->near[NEAR_SECOND]);      /* its second half comes with it */
        /* relaxed: ring_read looks again */
        if (atomic_load_explicit(&in->control->tail, memory_order_relaxed) != head)
            return true;
        pause_cpu();
    }
    return false;
}

/* ---- before sleeping: seq_cst, the counterpart of the stores above ---- */

bool ring_readable(struct ring_view *view)
{
    struct ring_reader *in = &view->in;
    uint64_t tail = atomic_load_explicit(&in->control->tail, memory_order_seq_cst);
    return tail != atomic_load_explicit(&in->head, memory_order_relaxed);
}

bool ring_writable(struct ring_view *view)
{
    struct ring_writer *out = &view->out;
    uint64_t head = atomic_load_explicit(&out->control->head, memory_order_seq_cst);
    uint64_t used = atomic_load_explicit(&out->tail, memory_order_relaxed) - head;
    return used > out->size || out->size - used >= out->size / ROOM_SHARE;
}
