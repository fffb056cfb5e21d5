/*
 * handle.c: the table of handles.
 *
 * A handle is a token: 0xF17A in the top bits (so that it is no address), 16 bits of generation, the slot's
 * index. A token whose slot has been used again since has another generation and is refused.
 */
#include "softgpu/driver/machine/machine.h"

#include <stdlib.h>

#include "cpu/common/lock.h"

struct handle_slot {
    void *object;
    uint32_t generation;
    enum sgd_kind kind;
    uint32_t next_free;
};
static struct handle_slot *slots;
static uint32_t slot_count, slot_room, first_free = UINT32_MAX;

static const uint64_t handle_tag = 0xF17Au;

void *sgd_handle_new(enum sgd_kind kind, void *object)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    if (first_free == UINT32_MAX) {
        if (slot_count == slot_room) {
            uint32_t room = slot_room ? slot_room * 2 : 256;
            struct handle_slot *grown = room > (1u << 28) ? NULL : realloc(slots, room * sizeof *grown);
            if (!grown)
                return NULL;
            slots = grown;
            slot_room = room;
        }
        slots[slot_count] = (struct handle_slot){ .generation = 1, .next_free = UINT32_MAX };
        first_free = slot_count++;
    }
    uint32_t index = first_free;
    struct handle_slot *s = &slots[index];
    first_free = s->next_free;
    s->object = object;
    s->kind = kind;
    return (void *)(uintptr_t)(handle_tag << 48 | (uint64_t)(s->generation & 0xFFFFu) << 32 |
                               (uint64_t)(index + 1) << 3);
}

static struct handle_slot *slot_of(const void *handle)
{
    uint64_t token = (uint64_t)(uintptr_t)handle;
    uint32_t index = (uint32_t)token >> 3;
    if (token >> 48 != handle_tag || token & 7u || !index || index > slot_count)
        return NULL;
    struct handle_slot *s = &slots[index - 1];
    return s->kind != SGD_FREE && (s->generation & 0xFFFFu) == ((token >> 32) & 0xFFFFu) ? s : NULL;
}

void *sgd_handle_get(enum sgd_kind kind, const void *handle)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    struct handle_slot *s = slot_of(handle);
    return s && s->kind == kind ? s->object : NULL;
}

void sgd_handle_drop(const void *handle)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    struct handle_slot *s = slot_of(handle);
    if (!s)
        return;
    s->object = NULL;
    s->kind = SGD_FREE;
    s->generation++;
    s->next_free = first_free;
    first_free = (uint32_t)(s - slots);
}
