/* sided_head.c: the head of a one-sided message: kind (1), 0 (3), window (4), offset (8), size (8), little-endian. */
#include "cpu/comm/sided.h"

#include "cpu/common/little_endian.h"

void comm_sided_head_put(uint8_t bytes[COMM_SIDED_HEAD], const struct comm_sided_head *head)
{
    uint8_t *at = little_put(bytes, head->kind, 4);
    at = little_put(at, head->window, 4);
    at = little_put(at, head->offset, 8);
    little_put(at, head->size, 8);
}

bool comm_sided_head_get(const uint8_t *bytes, uint64_t length, struct comm_sided_head *head)
{
    if (length < COMM_SIDED_HEAD)
        return false;
    const uint64_t kind = little_get(&bytes, 4);
    head->kind = (enum comm_sided_kind)kind;
    head->window = (uint32_t)little_get(&bytes, 4);
    head->offset = little_get(&bytes, 8);
    head->size = little_get(&bytes, 8);
    const uint64_t behind = length - COMM_SIDED_HEAD;
    if (kind == COMM_SIDED_WINDOW)
        return head->window && !head->offset && head->size && !behind;
    if (kind != COMM_SIDED_PUT || !head->window != !head->size || (!head->window && head->offset))
        return false;
    return behind == (head->size <= COMM_SIDED_INLINE ? head->size : 0);
}
