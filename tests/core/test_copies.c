/* A session's copies: of every shape, when the source has been taken, and which of them wait. Each body in a process
   of its own. */
#include "tests/lib/unit.h"
#include "work.h"

/* ---- copies ---- */

static void body_copies(void)
{
    fake_start();
    enum { SIZE = 5 * FLYT_MAX_INLINE + 12345 };
    uint8_t *from = malloc(SIZE), *to = calloc(1, SIZE);
    for (int i = 0; i < SIZE; i++)
        from[i] = (uint8_t)random_next();
    uint64_t a = allocate(SIZE), b = allocate(SIZE);
    CHECK(copy_in(on(0), 0, a, from, SIZE, true) == 0);
    CHECK(copy_on_device(on(0), 0, b, a, SIZE, true) == 0);
    CHECK(copy_out(on(0), 0, to, b, SIZE, true) == 0);
    CHECK(memcmp(from, to, SIZE) == 0);
    /* odd sizes and offsets, around the size of a chunk */
    for (int i = 0; i < 200; i++) {
        size_t at = random_next() % 1000, size = 1 + random_next() % (i % 2 ? 100 : 2 * FLYT_MAX_INLINE);
        memset(to, 0, size);
        CHECK(copy_in(on(0), 0, a + at, from + at / 2, size, i % 3) == 0);
        CHECK(copy_out(on(0), 0, to, a + at, size, i % 2) == 0);
        CHECK(memcmp(from + at / 2, to, size) == 0);
    }
    /* outside */
    CHECK(copy_in(on(0), 0, a + SIZE - 10, from, 11, true) == 1 &&
          copy_out(on(0), 0, to, a + SIZE, 1, true) == 1);
    CHECK(copy_on_device(on(0), 0, a, b + SIZE - 1, 2, true) == 1 && copy_in(on(0), 0, 12345, from, 1, true) == 1);
    CHECK(copy_in(on(0), 0, a, NULL, 1, true) == 1 && copy_out(on(0), 0, NULL, a, 1, true) == 1);
    CHECK(copy_in(on(0), 0, 0, NULL, 0, true) == 0);
    CHECK(copy_in(on(0), 0x1234567890, a, from, 1, true) == 400);
    /* host to host */
    CHECK(core_copy(on(0), 0, to, from, 1000, CORE_HOST_TO_HOST, true) == 0 && memcmp(to, from, 1000) == 0);
    /* a side that is stated to be the device's must be; one that is stated to be the host's may be either */
    for (int way = CORE_HOST_TO_HOST; way <= CORE_DEVICE_TO_DEVICE; way++) {
        bool to_device = way == CORE_HOST_TO_DEVICE || way == CORE_DEVICE_TO_DEVICE;
        bool from_device = way == CORE_DEVICE_TO_HOST || way == CORE_DEVICE_TO_DEVICE;
        void *target[] = { to, (void *)(uintptr_t)a };
        const void *source[] = { from, (const void *)(uintptr_t)b };
        for (int i = 0; i < 4; i++)
            CHECK(core_copy(on(0), 0, target[i & 1], source[i >> 1], 8, (enum core_direction)way, i & 1) ==
                  ((to_device && !(i & 1)) || (from_device && !(i >> 1)) ? 1 : 0));
        CHECK(core_copy(on(0), 0, target[to_device], source[from_device], 8, CORE_ANY_DIRECTION, true) == 0);
    }
    CHECK(core_take_latched() == 0);
    free(from);
    free(to);
}

static void body_boxes(void)
{
    fake_start();
    enum { SPACE = 6 << 20 };
    uint8_t *from = malloc(SPACE), *to = malloc(SPACE), *model = malloc(SPACE);
    void *pinned;
    uint64_t a = allocate(SPACE), b = allocate(SPACE);
    CHECK(core_host_allocate(SPACE, 0, &pinned) == 0);
    for (int i = 0; i < SPACE; i++)
        from[i] = (uint8_t)random_next();
    for (int i = 0; i < 60; i++) {
        bool wide = i % 10 == 0;
        struct core_extent e = { 1 + random_next() % (wide ? 2500000 : 90), 1 + random_next() % (wide ? 2 : 60),
                                 1 + random_next() % (wide ? 1 : 9) };
        struct core_box host = { (uint64_t)(uintptr_t)from, e.width + random_next() % 20,
                                 e.height + random_next() % 3 };
        struct core_box device = { a, e.width + random_next() % 20, e.height + random_next() % 3 };
        struct core_box other = { b, e.width + random_next() % 20, e.height + random_next() % 3 };
        struct core_box back = { (uint64_t)(uintptr_t)(i % 2 ? to : pinned), e.width + random_next() % 20,
                                 e.height + random_next() % 3 };
        uint8_t *result = i % 2 ? to : pinned;
        memset(result, 0xEE, SPACE);
        memset(model, 0xEE, SPACE);
        CHECK(core_copy_box(on(0), 0, &device, &host, &e, CORE_HOST_TO_DEVICE, i % 3 == 0) == 0);
        CHECK(core_copy_box(on(0), 0, &other, &device, &e, CORE_DEVICE_TO_DEVICE, true) == 0);
        CHECK(core_copy_box(on(0), 0, &back, &other, &e, CORE_DEVICE_TO_HOST, i % 4 != 2) == 0);
        CHECK(core_stream_synchronize(on(0), 0) == 0);
        for (size_t z = 0; z < e.depth; z++)
            for (size_t y = 0; y < e.height; y++)
                memcpy(model + (z * back.height + y) * back.pitch, from + (z * host.height + y) * host.pitch, e.width);
        CHECK(memcmp(model, result, SPACE) == 0);
    }
    struct core_extent e = { 10, 3, 1 };
    CHECK(core_set(on(0), 0, &(struct core_box){ a, 64, 3 }, &e, 0x01020304, 4, false) == 0);
    CHECK(copy_out(on(0), 0, to, a, 200, true) == 0);
    uint32_t word;
    memcpy(&word, to + 64 + 36, 4);
    CHECK(word == 0x01020304);
    CHECK(core_set(on(0), 0, &(struct core_box){ a + 2, 64, 3 }, &e, 1, 4, false) == 1);
    CHECK(core_set(on(0), 0, &(struct core_box){ a, 64, 3 }, &e, 1, 3, false) == 1);
    CHECK(core_set(on(0), 0, &(struct core_box){ a, SPACE, 3 }, &e, 1, 1, false) == 1);
    CHECK(core_take_latched() == 0);
    free(from);
    free(to);
    free(model);
}

/* A source may be overwritten as soon as an asynchronous copy from pageable memory has returned. */
static void body_source_taken(void)
{
    fake_start();
    uint64_t a = allocate(1 << 20);
    core_stream s;
    uint8_t *buffer = malloc(1 << 20);
    CHECK(core_stream_create(on(0), 1, 0, &s) == 0 && launch("hold", s, NULL) == 0);
    memset(buffer, 1, 1 << 20);
    CHECK(copy_in(on(0), s, a, buffer, 1 << 20, false) == 0);
    memset(buffer, 2, 1 << 20);
    CHECK(core_stream_query(on(0), s) == 600);
    fake_release();
    CHECK(copy_out(on(0), s, buffer, a, 1 << 20, true) == 0);
    CHECK(buffer[0] == 1 && buffer[(1 << 20) - 1] == 1);
    free(buffer);
}

/* Device to pinned and on to the device, one stream, nobody waits in between: the second copy must see the first's
   bytes. */
static void body_pinned_chain(void)
{
    fake_start();
    enum { SIZE = 3 << 20 };
    uint64_t a = allocate(SIZE), b = allocate(SIZE);
    void *pinned;
    core_stream s;
    uint8_t *buffer = malloc(SIZE);
    memset(buffer, 7, SIZE);
    CHECK(core_host_allocate(SIZE, 0, &pinned) == 0 && core_stream_create(on(0), 0, 0, &s) == 0);
    CHECK(copy_in(on(0), s, a, buffer, SIZE, true) == 0);
    CHECK(launch("hold", s, NULL) == 0);
    CHECK(copy_out(on(0), s, pinned, a, SIZE, false) == 0);          /* returns at once */
    CHECK(copy_in(on(0), s, b, pinned, SIZE, false) == 0);           /* and so does this */
    CHECK(((uint8_t *)pinned)[5] == 0 && core_stream_query(on(0), s) == 600);
    fake_release();
    CHECK(core_stream_synchronize(on(0), s) == 0);
    CHECK(((uint8_t *)pinned)[SIZE - 1] == 7);
    memset(buffer, 0, SIZE);
    CHECK(copy_out(on(0), s, buffer, b, SIZE, true) == 0 && buffer[0] == 7 && buffer[SIZE - 1] == 7);
    /* pinned memory stands on both sides */
    CHECK(core_copy(on(0), s, (void *)(uintptr_t)a, pinned, 8, CORE_DEVICE_TO_DEVICE, true) == 0 &&
          core_copy(on(0), s, buffer, pinned, 8, CORE_DEVICE_TO_HOST, true) == 0);
    CHECK(core_take_latched() == 0);
    free(buffer);
}

/* An event outlives its stream, whose structure becomes the next stream's: what waits for the event does not wait for
   copies of that one. */
static void body_stream_of_before(void)
{
    fake_start();
    core_stream before, next, other;
    core_event event;
    void *pinned;
    uint64_t a = allocate(4096);
    CHECK(core_host_allocate(4096, 0, &pinned) == 0 && core_stream_create(on(0), 1, 0, &other) == 0);
    CHECK(core_event_create(on(0), 2, &event) == 0 && core_stream_create(on(0), 1, 0, &before) == 0);
    for (uint32_t i = 0; i < 20; i++)
        CHECK(fill(before, a, 1, i) == 0);
    CHECK(core_event_record(on(0), event, before, 0) == 0 && core_stream_synchronize(on(0), before) == 0);
    CHECK(core_stream_destroy(before) == 0);
    CHECK(core_event_synchronize(event) == 0);           /* its answer says that the server has seen the end */
    CHECK(core_stream_create(on(0), 1, 0, &next) == 0 && launch("hold", next, NULL) == 0);
    CHECK(copy_out(on(0), next, pinned, a, 4096, false) == 0);
    CHECK(core_event_synchronize(event) == 0);
    CHECK(core_stream_wait(on(0), other, event, 0) == 0 && core_stream_synchronize(on(0), other) == 0);
    CHECK(core_stream_query(on(0), next) == 600);
    fake_release();
    CHECK(core_stream_synchronize(on(0), next) == 0 && *(uint32_t *)pinned == 19 && core_take_latched() == 0);
}

/* A synchronous copy waits behind a kernel, and its errors come back there; behind nothing it does not wait. */
static void body_waiting_rule(void)
{
    setenv("FLYT_STATS", "1", 1);
    fake_start();
    uint64_t a = allocate(64);
    uint32_t value = 5;
    struct core_statistics before, after;
    CHECK(core_context_synchronize(on(0)) == 0);
    core_statistics(&before);
    for (int i = 0; i < 100; i++)
        CHECK(copy_in(on(0), 0, a, &value, 4, true) == 0);
    core_statistics(&after);
    CHECK(after.waited == before.waited);
    CHECK(fill(0, a, 1, 6) == 0);
    core_statistics(&before);
    CHECK(copy_in(on(0), 0, a, &value, 4, true) == 0);
    core_statistics(&after);
    CHECK(after.waited == before.waited + 1);
    CHECK(launch("fault", 0, NULL) == 0);
    CHECK(copy_in(on(0), 0, a, &value, 4, true) == 700);
    CHECK(core_sticky() == 700 && core_context_synchronize(on(0)) == 700 && core_memory_free(a) == 700);
    /* a reset ends the context, and there is no other */
    CHECK(core_context_reset(on(0)) == 0 && core_context_synchronize(on(0)) == 709 &&
          core_context_retain(on(0)) == 700);
}

ISOLATED(copies, body_copies, body_boxes, body_source_taken, body_pinned_chain,
     body_stream_of_before, body_waiting_rule)

int main(void) { return unit_run(NULL, NULL); }
