/*
 * record.h: what links say on their channels. Each record has a head of 64 bytes, little-endian; DATA is followed by
 * `length` bytes.
 *
 *   DATA     data channels. length, offset, total, note; EARLY in flags: sent before CLEAR, so it counts as early
 *   CLEAR    the receiver wants this transfer; total: its size there
 *   ASK      the sender could not send it early; total: its size; note
 *   CREDIT   channel: its window has room again; length: chunks, offset: bytes; extra: so much early data was taken
 *   DONE     the receiver has all of it
 *   REFUSE   the receiver does not take it; extra: errno
 *   ABORT    extra: errno; note: the first bytes of the reason
 *   BEAT     the peer lives
 *   BYE      on every channel: only CREDIT, DONE, BEAT and HEARD follow. HEARD, on channel 0: all BYEs were read
 */
#ifndef FLYT_COMM_LINK_RECORD_H
#define FLYT_COMM_LINK_RECORD_H

#include "cpu/comm/link/link.h"

enum comm_record_kind {
    RECORD_DATA = 1, RECORD_CLEAR, RECORD_ASK, RECORD_CREDIT, RECORD_DONE, RECORD_REFUSE, RECORD_ABORT, RECORD_BEAT,
    RECORD_BYE, RECORD_HEARD
};
enum { RECORD_SIZE = 64, RECORD_EARLY = 1 };

struct comm_record {
    uint8_t  kind, flags;
    uint16_t channel;
    uint32_t length;
    struct comm_name name;
    uint64_t offset, total, extra;
    uint8_t  note[COMM_NOTE_SIZE];
};

void comm_record_put(uint8_t head[RECORD_SIZE], const struct comm_record *);
/* False: no such record may come on this channel (0: control). */
bool comm_record_get(const uint8_t head[RECORD_SIZE], unsigned channel, struct comm_record *);

/* What an early record counts as: also an empty one keeps something. */
static inline uint64_t comm_early_cost(uint64_t length)
{
    return length < 1024 ? 1024 : length;
}

#endif
