/* patch: what changed in memory that two sides have, there and back, and bytes that are no patch. */
#include "cpu/common/patch.h"

#include "tests/lib/unit.h"

enum { SIZE = 64 * 1024, ROOM = 3 * SIZE };
#define AT UINT64_C(0x200000000000)

struct side { uint8_t *memory, *base; };

static struct side side_new(void)
{
    struct side s = { aligned_alloc(PATCH_PAGE, SIZE), aligned_alloc(PATCH_PAGE, SIZE) };
    memset(s.memory, 0, SIZE);
    memset(s.base, 0, SIZE);
    return s;
}

static void side_free(struct side *s)
{
    free(s->memory);
    free(s->base);
}

static bool place(void *user, uint64_t address, size_t size, uint8_t **memory, uint8_t **base)
{
    const struct side *s = user;
    if (address - AT >= SIZE || size > SIZE - (address - AT))
        return false;
    *memory = s->memory + (address - AT);
    *base = s->base + (address - AT);
    return true;
}

static uint8_t bytes[ROOM];

static size_t made(struct side *s, size_t room)
{
    struct patch p = { bytes, 0, room };
    size_t seen = patch_add(&p, AT, s->memory, s->base, SIZE);
    assert_true(seen <= SIZE && seen % PATCH_LINE == 0 && p.used <= room);
    assert_true(seen == SIZE || room - p.used < 16 + PATCH_LINE);
    return p.used;
}

static uint64_t any(void)
{
    static uint64_t number = 88172645463325252u;
    number ^= number << 13;
    number ^= number >> 7;
    return number ^= number << 17;
}

TEST(nothing_changed)
{
    struct side s = side_new();
    assert_int_equal(made(&s, ROOM), 0);
    s.memory[70] = 5;
    assert_int_equal(made(&s, ROOM), 8 + 8 + 1);             /* that byte and no other */
    assert_int_equal(s.base[70], 5);
    assert_int_equal(made(&s, ROOM), 0);
    assert_true(patch_apply(bytes, 0, place, &s));
    side_free(&s);
}

TEST(both_sides_change)
{
    struct side a = side_new(), b = side_new();
    uint8_t *model = calloc(1, SIZE);
    for (int round = 0; round < 300; round++) {
        struct side *from = round % 2 ? &a : &b, *to = round % 2 ? &b : &a;
        unsigned many = (unsigned)(any() % (round % 7 ? 40 : 9000));
        for (unsigned i = 0; i < many; i++) {
            size_t at = any() % SIZE, run = 1 + any() % (i % 9 ? 4 : 200);
            for (size_t k = at; k < at + run && k < SIZE; k++) {
                /* `from` has the even bytes, `to` the odd ones: in the same words */
                struct side *whose = k % 2 ? to : from;
                whose->memory[k] = model[k] = (uint8_t)any();
            }
        }
        for (int way = 0; way < 2; way++) {
            struct side *sender = way ? to : from, *receiver = way ? from : to;
            size_t room = round % 3 ? ROOM : 200 + any() % 5000, used;
            while ((used = made(sender, room)))
                assert_true(patch_apply(bytes, used, place, receiver));
        }
        assert_memory_equal(a.memory, model, SIZE);
        assert_memory_equal(b.memory, model, SIZE);
        assert_memory_equal(a.base, model, SIZE);
        assert_memory_equal(b.base, model, SIZE);
    }
    side_free(&a);
    side_free(&b);
    free(model);
}

TEST(no_patch)
{
    struct side s = side_new();
    memset(s.memory + 100, 7, 500);
    size_t used = made(&s, ROOM);
    for (size_t cut = 1; cut < used; cut++)
        assert_false(patch_apply(bytes, cut, place, &s));
    const uint64_t wrong[] = { AT - 64, AT + SIZE, AT + SIZE - 64 + 1, UINT64_MAX, UINT64_MAX - 63, 0 };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint64_t head[2 + 64] = { wrong[i] };
        assert_false(patch_apply((const uint8_t *)head, sizeof head, place, &s));
    }
    uint64_t many[2] = { AT, UINT64_MAX };                   /* bytes that are not there */
    assert_false(patch_apply((const uint8_t *)many, sizeof many, place, &s));
    for (int round = 0; round < 20000; round++) {
        size_t size = any() % 200;
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)any();
        uint64_t head = AT + any() % (SIZE + 128);
        if (size >= 8)
            memcpy(bytes, &head, 8);
        patch_apply(bytes, size, place, &s);                 /* whatever it says, it writes nowhere else */
    }
    side_free(&s);
}

int main(void) { return unit_run(NULL, NULL); }
