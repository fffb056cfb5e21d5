/* frame.h: what the writer and the reader of checkpoint.h share. */
#ifndef FLYT_CHECKPOINT_FRAME_H
#define FLYT_CHECKPOINT_FRAME_H

#include "cpu/checkpoint/checkpoint.h"

enum packing { PACKED_NOT = 0, PACKED_ZSTD = 1, PACKED_ZERO = 2 /* all bytes are 0: no data */,
               PACKED_KEPT = 3 /* no data: of KEPT */ };

struct frame_head {
    uint32_t type, stored, size, packing, kind, zero;
    uint64_t object, offset, check;
};

void frame_encode(const struct frame_head *, uint8_t out[CHECKPOINT_HEAD]);
struct frame_head frame_decode(const uint8_t in[CHECKPOINT_HEAD]);
/* What belongs into `check`. */
uint64_t frame_check(const uint8_t head[CHECKPOINT_HEAD], const void *data, size_t stored);
/* The data lie in two pieces. */
uint64_t frame_check_two(const uint8_t head[CHECKPOINT_HEAD], const void *data, size_t size, const void *more,
                         size_t more_size);

#endif
