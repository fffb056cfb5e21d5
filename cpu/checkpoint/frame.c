/* frame.c: see frame.h. */
#include "cpu/checkpoint/frame.h"

#include <endian.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { CHECKED = CHECKPOINT_HEAD - 8 };

void frame_encode(const struct frame_head *head, uint8_t out[CHECKPOINT_HEAD])
{
    const uint32_t words[] = { htole32(head->type),    htole32(head->stored), htole32(head->size),
                               htole32(head->packing), htole32(head->kind),   htole32(head->zero) };
    const uint64_t longs[] = { htole64(head->object), htole64(head->offset), htole64(head->check) };
    memcpy(out, words, sizeof words);
    memcpy(out + sizeof words, longs, sizeof longs);
}

struct frame_head frame_decode(const uint8_t in[CHECKPOINT_HEAD])
{
    uint32_t words[6];
    uint64_t longs[3];
    memcpy(words, in, sizeof words);
    memcpy(longs, in + sizeof words, sizeof longs);
    return (struct frame_head){ .type = le32toh(words[0]),    .stored = le32toh(words[1]),
                                .size = le32toh(words[2]),    .packing = le32toh(words[3]),
                                .kind = le32toh(words[4]),    .zero = le32toh(words[5]),
                                .object = le64toh(longs[0]),  .offset = le64toh(longs[1]),
                                .check = le64toh(longs[2]) };
}

uint64_t frame_check_two(const uint8_t head[CHECKPOINT_HEAD], const void *data, size_t size, const void *more,
                         size_t more_size)
{
    const uint64_t seed = XXH3_64bits(head, CHECKED);
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    if (!more_size)
        return XXH3_64bits_withSeed(data, size, seed);
    XXH3_64bits_reset_withSeed(&state, seed);
    XXH3_64bits_update(&state, data, size);
    XXH3_64bits_update(&state, more, more_size);
    return XXH3_64bits_digest(&state);
}

uint64_t frame_check(const uint8_t head[CHECKPOINT_HEAD], const void *data, size_t stored)
{
    return frame_check_two(head, data, stored, NULL, 0);
}
