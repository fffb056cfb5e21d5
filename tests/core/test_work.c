/* What a session does: memory, copies, streams, events, host functions, code. Each test in a process of its own. */
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "cpu/client/core/internal.h"
#include "cpu/common/clock.h"
#include "fake.h"

#define MIB UINT64_C(1048576)

static uint64_t random_next(void)
{
    static uint64_t x = 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return x;
}

static core_function *kernel(const char *name)
{
    static core_image *image;
    core_function *f;
    if (!image)
        CHECK(core_image_add("// a module\n.version 9.0\n", &image) == 0);
    CHECK(core_function_add(image, name, &f) == 0);
    return f;
}

static int launch(const char *name, core_stream stream, void **arguments)
{
    return core_launch(0, &(struct core_launch){ .function = kernel(name), .stream = stream, .grid = { 1, 1, 1 }, .block = { 1, 1, 1 },
                                                 .arguments = arguments });
}

static int fill(core_stream stream, uint64_t address, uint32_t count, uint32_t value)
{
    return launch("fill", stream, (void *[]){ &address, &count, &value });
}

static uint64_t allocate(size_t size)
{
    uint64_t address = 0;
    CHECK(core_memory_allocate(0, size, &address) == 0);
    return address;
}

static void run(void (*body)(void))
{
    assert_int_equal(fake_isolated(body), 0);
}

/* ---- memory ---- */

struct held { uint64_t at, size; };

/* Random allocations and frees: aligned, disjoint, found again by any interior address, and all credit comes back. */
static void body_allocator(void)
{
    enum { SLOTS = 200 };
    static struct held held[SLOTS];
    uint64_t total = 0;
    fake_options.memory = 512 * MIB;
    memory_grow_at_least = 4 * MIB;
    fake_start();
    for (int step = 0; step < 4000; step++) {
        struct held *h = &held[random_next() % SLOTS];
        if (h->at) {
            struct core_range r;
            CHECK(core_address_lookup(h->at + random_next() % h->size, &r) && r.base == h->at && r.size == h->size);
            CHECK(r.kind == CORE_DEVICE_MEMORY && r.device == 0);
            CHECK(!core_address_lookup(h->at + h->size, &r) || r.base != h->at);
            if (h->size > 1)
                CHECK(core_memory_free(h->at + 1) == 1);
            CHECK(core_memory_free(h->at) == 0 && core_memory_free(h->at) == 1);
            total -= h->size;
            h->at = 0;
            continue;
        }
        uint64_t size = 1 + random_next() % (UINT64_C(1) << (random_next() % 22));
        int code = core_memory_allocate(0, size, &h->at);
        CHECK(code == 0 || (code == 2 && total > 128 * MIB));
        if (code) {
            h->at = 0;
            continue;
        }
        h->size = size;
        total += size;
        CHECK(h->at % 256 == 0);
        for (int i = 0; i < SLOTS; i++)
            CHECK(&held[i] == h || !held[i].at || held[i].at >= h->at + h->size || h->at >= held[i].at + held[i].size);
    }
    CHECK(fake_calls[FLYT_MAP] < 200);         /* most cost no message */
    for (int i = 0; i < SLOTS; i++)
        if (held[i].at)
            CHECK(core_memory_free(held[i].at) == 0);
    size_t available, all;
    CHECK(core_memory_info(0, &available, &all) == 0);
    CHECK(available == all);                  /* unused credit counts as free */
    memory_recall(1, UINT64_MAX);             /* everything coalesced, so every piece can go */
    CHECK(core_memory_info(0, &available, &all) == 0);
    CHECK(fake_mapped[0] == 0 && memory_credit(0) == 0);
}

/* What does not fit fails at once, and leaves everything usable; what fits exactly does not fail for our credit. */
static void body_out_of_memory(void)
{
    fake_options.memory = 64 * MIB;
    fake_start();
    uint64_t small = allocate(1), big;
    CHECK(core_memory_allocate(0, 65 * MIB, &big) == 2);
    CHECK(core_memory_allocate(0, SIZE_MAX, &big) == 2 && core_memory_allocate(0, SIZE_MAX / 2, &big) == 2);
    CHECK(core_memory_allocate(0, 0, &big) == 1);
    CHECK(core_memory_allocate(0, 62 * MIB, &big) == 0);
    CHECK(core_memory_allocate(0, 4 * MIB, &small) == 2);
    CHECK(core_memory_free(big) == 0);
    uint64_t parts[31];
    for (int i = 0; i < 31; i++)
        CHECK(core_memory_allocate(0, 2 * MIB, &parts[i]) == 0);
    for (int i = 0; i < 31; i += 2)
        CHECK(core_memory_free(parts[i]) == 0);
    for (int i = 1; i < 31; i += 2)
        CHECK(core_memory_free(parts[i]) == 0);
    CHECK(core_memory_allocate(0, 62 * MIB, &big) == 0);
    CHECK(core_take_latched() == 0);
}

/* The idle credit of a hundred small allocations is given back when a large one needs it. */
static void body_give_back(void)
{
    uint64_t parts[16], big;
    fake_options.memory = 64 * MIB;
    memory_grow_at_least = 2 * MIB;
    fake_start();
    for (int i = 0; i < 16; i++)
        parts[i] = allocate(2 * MIB);
    for (int i = 0; i < 15; i++)
        CHECK(core_memory_free(parts[i]) == 0);
    CHECK(core_memory_allocate(0, 56 * MIB, &big) == 0);
    CHECK(core_memory_free(big) == 0);
    fake_recall(UINT64_MAX);
    while (!fake_recalled)               /* behind the UNMAPs */
        usleep(1000);
    CHECK(fake_mapped[0] == 2 * MIB && fake_idle == 0);     /* the piece that holds the last one */
    CHECK(core_memory_free(parts[15]) == 0);
}

/* A million random operations on a bounded set: what is mapped does not grow with them, and it is quick. */
static void body_long_run(void)
{
    enum { SLOTS = 1000, STEPS = 1000000 };
    static struct held held[SLOTS];
    uint64_t total = 0, most = 0, mapped = 0;
    session_dead_seconds = 100;              /* the fake server does not beat, and a sanitizer takes its time */
    fake_start();
    struct core_statistics before, after;
    for (int step = 0; step < STEPS; step++) {
        struct held *h = &held[random_next() % SLOTS];
        if (step == STEPS / 10)
            core_statistics(&before);
        if (h->at) {
            CHECK(core_memory_free(h->at) == 0);
            total -= h->size;
            h->at = 0;
        } else {
            h->size = 1 + random_next() % (UINT64_C(1) << (4 + random_next() % 17));
            CHECK(core_memory_allocate(0, h->size, &h->at) == 0);
            total += h->size;
        }
        most = total > most ? total : most;
        mapped = fake_mapped[0] > mapped ? fake_mapped[0] : mapped;
    }
    core_statistics(&after);
    CHECK(mapped <= most + most / 4 + 64 * MIB);
    CHECK(after.travelled - before.travelled < 100);
}

/* What lay unused for a beat goes back, but for a little; what was used meanwhile stays. */
static void body_idle_credit(void)
{
    fake_start();
    uint64_t big = allocate(300 * MIB), small = allocate(100);
    CHECK(core_memory_free(big) == 0 && fake_mapped[0] >= 300 * MIB);
    fake_say("");
    usleep(1100000);
    CHECK(core_memory_free(allocate(100 * MIB)) == 0);
    fake_say("");
    while (fake_mapped[0] > 240 * MIB)       /* 100 MiB and 32 */
        usleep(1000);
    CHECK(fake_mapped[0] >= 130 * MIB);
    usleep(1100000);
    fake_say("");
    while (fake_mapped[0] > 40 * MIB)
        usleep(1000);
    CHECK(fake_mapped[0] >= 32 * MIB);
    CHECK(core_memory_free(small) == 0 && core_take_latched() == 0);
}

/* Freed memory is not handed out while a kernel may touch it: the free waits, on whichever stream the kernel is. */
static void *body_free_other(void *address)
{
    CHECK(core_memory_free((uint64_t)(uintptr_t)address) == 0);
    return NULL;
}

static void body_freed_addresses(void)
{
    fake_start();
    core_stream stream;
    CHECK(core_stream_create(0, 1, 0, &stream) == 0);
    uint64_t used = allocate(4 * MIB), other;
    CHECK(launch("hold", stream, NULL) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body_free_other, (void *)(uintptr_t)used) == 0);
    while (!fake_calls[FLYT_DEVICE_SYNC])
        usleep(1000);
    for (int i = 0; i < 30; i++) {
        other = allocate(4 * MIB);
        CHECK(other >= used + 4 * MIB || used >= other + 4 * MIB);
    }
    struct core_range r;
    CHECK(!core_address_lookup(used, &r));                /* nobody may use it any more */
    fake_recall(UINT64_MAX);
    while (!fake_recalled)
        usleep(1000);
    uint8_t byte;
    CHECK(fake_peek(used, &byte, 1) && fake_peek(used + 4 * MIB - 1, &byte, 1));      /* and the kernel still finds it */
    fake_release();
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(core_memory_free(other) == 0 && core_take_latched() == 0);
}

static void body_malloc_free_messages(void)
{
    setenv("FLYT_STATS", "1", 1);
    fake_start();
    uint64_t keep = allocate(100);
    struct core_statistics before, after;
    core_statistics(&before);
    for (int i = 0; i < 1000; i++)
        CHECK(core_memory_free(allocate(1000)) == 0);
    core_statistics(&after);
    CHECK(after.travelled == before.travelled);
    /* With work outstanding a free waits for it. */
    uint64_t other = allocate(4096);
    CHECK(fill(0, keep, 4, 1) == 0);
    CHECK(fake_calls[FLYT_DEVICE_SYNC] == 0);
    CHECK(core_memory_free(other) == 0);
    CHECK(fake_calls[FLYT_DEVICE_SYNC] == 1);
    CHECK(core_memory_free(keep) == 0);
    CHECK(fake_calls[FLYT_DEVICE_SYNC] == 1);
}

static void memory(void **unused)
{
    (void)unused;
    run(body_allocator);
    run(body_out_of_memory);
    run(body_give_back);
    run(body_malloc_free_messages);
    run(body_long_run);
    run(body_idle_credit);
    run(body_freed_addresses);
}

static void body_host_memory(void)
{
    fake_start();
    void *a, *b;
    char *ordinary = malloc(100000);
    unsigned flags;
    uint64_t address;
    struct core_range r;
    CHECK(core_host_allocate(0, 0, &a) == 1 && core_host_allocate(10, 99, &a) == 1);
    CHECK(core_host_allocate(5000, 1, &a) == 0 && core_host_allocate(3 * MIB, 0, &b) == 0);
    memset(a, 1, 5000);
    memset(b, 2, 3 * MIB);
    CHECK(core_host_flags((char *)a + 4999, &flags) == 0 && flags == 1);
    CHECK(core_address_lookup((uint64_t)(uintptr_t)b + 17, &r) && r.kind == CORE_PINNED_MEMORY && r.base == (uint64_t)(uintptr_t)b);
    CHECK(core_host_device_pointer(a, &address) == 801 && core_host_device_pointer(ordinary, &address) == 1);
    CHECK(core_host_register(ordinary, 100000, 0) == 0 && core_host_register(ordinary + 10, 10, 0) == 712);
    CHECK(core_host_register(a, 100, 0) == 712);
    CHECK(core_host_unregister(ordinary + 1) == 713 && core_host_unregister(ordinary) == 0 && core_host_unregister(ordinary) == 713);
    CHECK(core_host_free(ordinary) == 1 && core_host_free((char *)a + 1) == 1 && core_host_free(a) == 0 && core_host_free(a) == 1);
    CHECK(core_host_free(b) == 0);
    CHECK(core_memory_free((uint64_t)(uintptr_t)b) == 1);
    free(ordinary);
}

static void host_memory(void **unused)
{
    (void)unused;
    run(body_host_memory);
}

/* ---- copies ---- */

static void body_copies(void)
{
    fake_start();
    enum { SIZE = 5 * FLYT_MAX_INLINE + 12345 };
    uint8_t *from = malloc(SIZE), *to = calloc(1, SIZE);
    for (int i = 0; i < SIZE; i++)
        from[i] = (uint8_t)random_next();
    uint64_t a = allocate(SIZE), b = allocate(SIZE);
    CHECK(core_copy_in(0, 0, a, from, SIZE, true) == 0);
    CHECK(core_copy(0, 0, b, a, SIZE, true) == 0);
    CHECK(core_copy_out(0, 0, to, b, SIZE, true) == 0);
    CHECK(memcmp(from, to, SIZE) == 0);
    /* odd sizes and offsets, around the size of a chunk */
    for (int i = 0; i < 200; i++) {
        size_t at = random_next() % 1000, size = 1 + random_next() % (i % 2 ? 100 : 2 * FLYT_MAX_INLINE);
        memset(to, 0, size);
        CHECK(core_copy_in(0, 0, a + at, from + at / 2, size, i % 3) == 0);
        CHECK(core_copy_out(0, 0, to, a + at, size, i % 2) == 0);
        CHECK(memcmp(from + at / 2, to, size) == 0);
    }
    /* outside */
    CHECK(core_copy_in(0, 0, a + SIZE - 10, from, 11, true) == 1 && core_copy_out(0, 0, to, a + SIZE, 1, true) == 1);
    CHECK(core_copy(0, 0, a, b + SIZE - 1, 2, true) == 1 && core_copy_in(0, 0, 12345, from, 1, true) == 1);
    CHECK(core_copy_in(0, 0, a, NULL, 1, true) == 1 && core_copy_out(0, 0, NULL, a, 1, true) == 1);
    CHECK(core_copy_in(0, 0, 0, NULL, 0, true) == 0);
    CHECK(core_copy_in(0, 0x1234567890, a, from, 1, true) == 400);
    /* host to host */
    CHECK(core_copy_host(0, 0, to, from, 1000, true) == 0 && memcmp(to, from, 1000) == 0);
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
        struct core_extent e = { 1 + random_next() % (wide ? 2500000 : 90), 1 + random_next() % (wide ? 2 : 60), 1 + random_next() % (wide ? 1 : 9) };
        struct core_box host = { (uint64_t)(uintptr_t)from, e.width + random_next() % 20, e.height + random_next() % 3 };
        struct core_box device = { a, e.width + random_next() % 20, e.height + random_next() % 3 };
        struct core_box other = { b, e.width + random_next() % 20, e.height + random_next() % 3 };
        struct core_box back = { (uint64_t)(uintptr_t)(i % 2 ? to : pinned), e.width + random_next() % 20, e.height + random_next() % 3 };
        uint8_t *result = i % 2 ? to : pinned;
        memset(result, 0xEE, SPACE);
        memset(model, 0xEE, SPACE);
        CHECK(core_copy_box_in(0, 0, &device, &host, &e, i % 3 == 0) == 0);
        CHECK(core_copy_box(0, 0, &other, &device, &e, true) == 0);
        CHECK(core_copy_box_out(0, 0, &back, &other, &e, i % 4 != 2) == 0);
        CHECK(core_stream_synchronize(0, 0) == 0);
        for (size_t z = 0; z < e.depth; z++)
            for (size_t y = 0; y < e.height; y++)
                memcpy(model + (z * back.height + y) * back.pitch, from + (z * host.height + y) * host.pitch, e.width);
        CHECK(memcmp(model, result, SPACE) == 0);
    }
    struct core_extent e = { 10, 3, 1 };
    CHECK(core_set(0, 0, &(struct core_box){ a, 64, 3 }, &e, 0x01020304, 4, false) == 0);
    CHECK(core_copy_out(0, 0, to, a, 200, true) == 0);
    uint32_t word;
    memcpy(&word, to + 64 + 36, 4);
    CHECK(word == 0x01020304);
    CHECK(core_set(0, 0, &(struct core_box){ a + 2, 64, 3 }, &e, 1, 4, false) == 1);
    CHECK(core_set(0, 0, &(struct core_box){ a, 64, 3 }, &e, 1, 3, false) == 1);
    CHECK(core_set(0, 0, &(struct core_box){ a, SPACE, 3 }, &e, 1, 1, false) == 1);
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
    CHECK(core_stream_create(0, 1, 0, &s) == 0 && launch("hold", s, NULL) == 0);
    memset(buffer, 1, 1 << 20);
    CHECK(core_copy_in(0, s, a, buffer, 1 << 20, false) == 0);
    memset(buffer, 2, 1 << 20);
    CHECK(core_stream_query(0, s) == 600);
    fake_release();
    CHECK(core_copy_out(0, s, buffer, a, 1 << 20, true) == 0);
    CHECK(buffer[0] == 1 && buffer[(1 << 20) - 1] == 1);
    free(buffer);
}

/* Device to pinned and on to the device, one stream, nobody waits in between: the second copy must see the first's bytes. */
static void body_pinned_chain(void)
{
    fake_start();
    enum { SIZE = 3 << 20 };
    uint64_t a = allocate(SIZE), b = allocate(SIZE);
    void *pinned;
    core_stream s;
    uint8_t *buffer = malloc(SIZE);
    memset(buffer, 7, SIZE);
    CHECK(core_host_allocate(SIZE, 0, &pinned) == 0 && core_stream_create(0, 0, 0, &s) == 0);
    CHECK(core_copy_in(0, s, a, buffer, SIZE, true) == 0);
    CHECK(launch("hold", s, NULL) == 0);
    CHECK(core_copy_out(0, s, pinned, a, SIZE, false) == 0);          /* returns at once */
    CHECK(core_copy_in(0, s, b, pinned, SIZE, false) == 0);           /* and so does this */
    CHECK(((uint8_t *)pinned)[5] == 0 && core_stream_query(0, s) == 600);
    fake_release();
    CHECK(core_stream_synchronize(0, s) == 0);
    CHECK(((uint8_t *)pinned)[SIZE - 1] == 7);
    memset(buffer, 0, SIZE);
    CHECK(core_copy_out(0, s, buffer, b, SIZE, true) == 0 && buffer[0] == 7 && buffer[SIZE - 1] == 7);
    CHECK(core_take_latched() == 0);
    free(buffer);
}

/* A synchronous copy waits behind a kernel, and its errors come back there; behind nothing it does not wait. */
static void body_waiting_rule(void)
{
    setenv("FLYT_STATS", "1", 1);
    fake_start();
    uint64_t a = allocate(64);
    uint32_t value = 5;
    struct core_statistics before, after;
    CHECK(core_device_synchronize(0) == 0);
    core_statistics(&before);
    for (int i = 0; i < 100; i++)
        CHECK(core_copy_in(0, 0, a, &value, 4, true) == 0);
    core_statistics(&after);
    CHECK(after.waited == before.waited);
    CHECK(fill(0, a, 1, 6) == 0);
    core_statistics(&before);
    CHECK(core_copy_in(0, 0, a, &value, 4, true) == 0);
    core_statistics(&after);
    CHECK(after.waited == before.waited + 1);
    CHECK(launch("fault", 0, NULL) == 0);
    CHECK(core_copy_in(0, 0, a, &value, 4, true) == 700);
    CHECK(core_sticky() == 700 && core_device_synchronize(0) == 700 && core_device_reset(0) == 700 && core_memory_free(a) == 700);
}

static void copies(void **unused)
{
    (void)unused;
    run(body_copies);
    run(body_boxes);
    run(body_source_taken);
    run(body_pinned_chain);
    run(body_waiting_rule);
}

/* ---- streams and events ---- */

static void body_streams(void)
{
    fake_start();
    core_stream s, t;
    struct core_stream_info info;
    CHECK(core_stream_create(0, 8, 0, &s) == 1 && core_stream_create(9, 0, 0, &s) == 101);
    CHECK(core_stream_create(0, 1, -99, &s) == 0 && s > 2);
    CHECK(core_stream_info(0, s, &info) == 0 && info.device == 0 && info.flags == 1 && info.priority == -5);
    CHECK(core_stream_query(0, s) == 0 && core_stream_synchronize(0, s) == 0);
    CHECK(core_stream_destroy(s) == 0 && core_stream_destroy(s) == 400 && core_stream_query(0, s) == 400);
    CHECK(core_stream_destroy(0) == 400 && core_stream_destroy(1) == 400 && core_stream_synchronize(0, 0xDEADBEEF) == 400);
    CHECK(core_stream_create(0, 0, 0, &t) == 0 && t != s && core_stream_query(0, s) == 400);
    /* A stream of another device */
    core_stream other;
    CHECK(core_stream_create(1, 0, 0, &other) == 0 && launch("hold", other, NULL) == 400);
    /* Per thread: one stream, found again; not the legacy one */
    struct core_stream_info again;
    CHECK(core_stream_info(0, CORE_STREAM_PER_THREAD, &info) == 0 && core_stream_info(0, CORE_STREAM_PER_THREAD, &again) == 0);
    CHECK(info.id == again.id);
    CHECK(core_stream_info(0, 0, &again) == 0 && info.id != again.id);
    CHECK(core_stream_info(0, CORE_STREAM_LEGACY, &info) == 0 && info.id == again.id);
    /* Many, created and destroyed with work in them: ids return, results stay right. */
    uint64_t a = allocate(4);
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t got = 0;
        CHECK(core_stream_create(0, 1, 0, &s) == 0 && fill(s, a, 1, i) == 0);
        CHECK(i % 3 == 0 || core_copy_out(0, s, &got, a, 4, true) == 0);
        CHECK(i % 3 == 0 || got == i);
        CHECK(core_stream_destroy(s) == 0);
        if (i % 3 == 0)
            CHECK(core_device_synchronize(0) == 0);
    }
    CHECK(core_stream_info(0, t, &info) == 0 && info.id < 4096);
}

static void body_events(void)
{
    fake_start();
    core_event e, f;
    core_stream s, t;
    float ms;
    uint64_t a = allocate(4);
    CHECK(core_event_create(0, 64, &e) == 1 && core_event_create(0, 0, &e) == 0 && core_event_create(0, 2, &f) == 0);
    CHECK(core_event_query(e) == 0 && core_event_synchronize(e) == 0);        /* never recorded */
    CHECK(core_event_elapsed(e, e, &ms) == 400 && core_event_query(12345) == 400);
    CHECK(core_stream_create(0, 1, 0, &s) == 0 && core_stream_create(0, 1, 0, &t) == 0);
    CHECK(launch("hold", s, NULL) == 0 && core_event_record(0, e, s, 0) == 0 && core_event_query(e) == 600);
    CHECK(core_stream_wait(0, t, e, 0) == 0 && fill(t, a, 1, 1) == 0 && core_stream_query(0, t) == 600);
    fake_release();
    CHECK(core_event_synchronize(e) == 0 && core_event_query(e) == 0);
    CHECK(core_stream_synchronize(0, t) == 0 && core_event_elapsed(e, e, &ms) == 0 && ms > 1);
    CHECK(core_event_record(0, f, s, 0) == 0 && core_event_elapsed(e, f, &ms) == 400);    /* no timing */
    core_event other;
    CHECK(core_event_create(1, 0, &other) == 0 && core_event_record(0, other, s, 0) == 400);
    CHECK(core_event_destroy(e) == 0 && core_event_destroy(e) == 400 && core_event_query(e) == 400);
    /* Known from the stream's numbers: no message. */
    CHECK(core_event_record(0, f, s, 0) == 0 && core_stream_synchronize(0, s) == 0);
    uint64_t asked = fake_calls[FLYT_EVENT_QUERY];
    CHECK(core_event_query(f) == 0 && fake_calls[FLYT_EVENT_QUERY] == asked);
}

/* Who polls does not flood the server, whatever else is going on; the errors that it waits for come all the same. */
static void body_polling(void)
{
    fake_start();
    core_event e;
    core_stream s, t;
    uint64_t a = allocate(4);
    CHECK(core_event_create(0, 0, &e) == 0 && core_stream_create(0, 1, 0, &s) == 0 && core_stream_create(0, 1, 0, &t) == 0);
    CHECK(launch("hold", s, NULL) == 0 && core_event_record(0, e, s, 0) == 0);
    uint64_t began = clock_now(), polls = 0;
    for (; clock_now() - began < 30000000; polls++)
        CHECK((polls & 8 ? core_event_query(e) : core_stream_query(0, s)) == 600);
    uint64_t most = 2 * ((clock_now() - began) / 10000 + 1), asked = fake_calls[FLYT_EVENT_QUERY] + fake_calls[FLYT_STREAM_QUERY];
    CHECK(asked >= 2 && asked <= most && polls > asked);
    /* Anything heard from the server makes the next query ask: it may be known by now that the work has ended. */
    for (int i = 0; i < 20; i++) {
        CHECK(core_event_query(e) == 600);
        asked = fake_calls[FLYT_EVENT_QUERY];
        CHECK(fill(t, a, 1, 1) == 0 && core_stream_synchronize(0, t) == 0 && core_event_query(e) == 600);
        CHECK(fake_calls[FLYT_EVENT_QUERY] == asked + 1);
    }
    CHECK(launch("fault", s, NULL) == 0 && core_event_record(0, e, s, 0) == 0 && core_event_query(e) == 600);
    fake_release();
    int code;
    while ((code = core_event_query(e)) == 600)
        ;
    CHECK(code == 700 && core_stream_query(0, s) == 700 && core_sticky() == 700);
}

/* A synchronisation asks though the work is known to have ended, while what a kernel printed has not come. */
static void body_heard(void)
{
    fake_options.print = "# text\n";
    fake_start();
    core_event e;
    core_stream s;
    uint64_t a = allocate(4);
    CHECK(core_event_create(0, 0, &e) == 0 && core_stream_create(0, 1, 0, &s) == 0);
    CHECK(fill(s, a, 1, 1) == 0 && core_event_record(0, e, s, 0) == 0);
    while (core_event_query(e) == 600)
        ;
    uint64_t asked = fake_calls[FLYT_STREAM_SYNC];
    CHECK(core_stream_synchronize(0, s) == 0 && fake_calls[FLYT_STREAM_SYNC] == asked + 1);
    CHECK(core_stream_synchronize(0, s) == 0 && core_event_synchronize(e) == 0);
    CHECK(fake_calls[FLYT_STREAM_SYNC] == asked + 1 && fake_calls[FLYT_EVENT_SYNC] == 0);
    CHECK(core_event_record(0, e, s, 0) == 0 && core_device_synchronize(0) == 0);
    asked = fake_calls[FLYT_DEVICE_SYNC];
    CHECK(core_device_synchronize(0) == 0 && fake_calls[FLYT_DEVICE_SYNC] == asked);
}

/* What the server publishes is believed without a message, unless it cannot be; a new stream of an id begins at 0. */
static void body_published(void)
{
    fake_options.shared = true;
    fake_start();
    core_event e, f;
    core_stream s;
    CHECK(core_event_create(0, 0, &e) == 0 && core_event_create(0, 0, &f) == 0 && core_stream_create(0, 1, 0, &s) == 0);
    CHECK(launch("hold", s, NULL) == 0 && core_event_record(0, e, s, 0) == 0);
    CHECK(launch("hold", s, NULL) == 0 && core_event_record(0, f, s, 0) == 0);
    uint32_t id = FLYT_FIRST_STREAM;                  /* the first one made */
    CHECK(core_event_query(e) == 600 && core_event_query(f) == 600);
    fake_publish(id, 5);                              /* four were sent */
    CHECK(core_event_query(e) == 600);
    fake_publish(id, UINT64_MAX);
    CHECK(core_event_query(e) == 600 && core_stream_query(0, s) == 600);
    fake_publish(id, 2);
    uint64_t asked = fake_calls[FLYT_EVENT_QUERY];
    CHECK(core_event_query(e) == 0 && fake_calls[FLYT_EVENT_QUERY] == asked && core_event_query(f) == 600);
    fake_publish(id, 1);                              /* nothing that has ended begins again */
    CHECK(core_event_query(e) == 0);
    fake_publish(id, 4);
    CHECK(core_event_query(f) == 0 && core_stream_query(0, s) == 0);
    fake_publish(id, 0);                              /* as the server does at the stream's end */
    fake_release();
    CHECK(core_stream_destroy(s) == 0 && core_device_synchronize(0) == 0);
    CHECK(core_stream_create(0, 1, 0, &s) == 0 && core_event_record(0, e, s, 0) == 0 && core_event_synchronize(e) == 0);
}

static void body_always_asks(void)
{
    setenv("FLYT_PERF", "no_cache", 1);
    fake_start();
    core_event e;
    CHECK(core_event_create(0, 0, &e) == 0 && core_event_record(0, e, 0, 0) == 0 && core_device_synchronize(0) == 0);
    uint64_t asked = fake_calls[FLYT_EVENT_QUERY];
    for (int i = 0; i < 10; i++)
        CHECK(core_event_query(e) == 0);
    CHECK(fake_calls[FLYT_EVENT_QUERY] == asked + 10);
}

static void streams_events(void **unused)
{
    (void)unused;
    run(body_polling);
    run(body_heard);
    run(body_always_asks);
    run(body_published);
    run(body_streams);
    run(body_events);
}

/* ---- host functions ---- */

static int order[64], orders;
static uint8_t *host_buffer;

static void note(void *user, int status)
{
    CHECK(status == 0);
    usleep(500);
    order[orders++] = (int)(intptr_t)user;
}

static void scribble(void *user, int status)
{
    (void)status;
    usleep(20000);
    memset(user, 9, 1000);
}

static void note_error(void *user, int status)
{
    *(_Atomic int *)user = status;
}

static void never(void *user, int status)
{
    (void)user;
    (void)status;
    fake_failed("not run after the stream had failed", __FILE__, __LINE__);
}

static void body_host_functions(void)
{
    fake_start();
    core_stream s;
    uint64_t a = allocate(1000);
    void *pinned;
    CHECK(core_stream_create(0, 1, 0, &s) == 0 && core_host_function(0, s, NULL, NULL, false) == 1);
    for (intptr_t i = 0; i < 40; i++) {
        CHECK(core_host_function(0, s, note, (void *)i, false) == 0);
        CHECK(fill(s, a, 1, (uint32_t)i) == 0);
    }
    CHECK(core_stream_synchronize(0, s) == 0 && orders == 40);
    for (int i = 0; i < 40; i++)
        CHECK(order[i] == i);
    /* A function writes the source of copies that follow it: they must take it afterwards. */
    uint8_t got[1000];
    CHECK(core_host_allocate(1000, 0, &pinned) == 0);
    CHECK(core_host_function(0, s, scribble, pinned, false) == 0 && core_copy_in(0, s, a, pinned, 1000, false) == 0);
    CHECK(core_copy_out(0, s, got, a, 1000, true) == 0 && got[0] == 9 && got[999] == 9);
    memset(pinned, 0, 1000);
    CHECK(core_host_function(0, s, scribble, pinned, false) == 0 && core_copy_in(0, s, a, pinned, 1000, true) == 0);
    CHECK(core_copy_out(0, s, got, a, 1000, true) == 0 && got[0] == 9 && got[999] == 9);
    /* A host to host copy keeps its place. */
    host_buffer = calloc(1, 1000);
    memset(pinned, 3, 1000);
    CHECK(core_host_function(0, s, scribble, pinned, false) == 0 && core_copy_host(0, s, host_buffer, pinned, 1000, false) == 0);
    CHECK(core_stream_synchronize(0, s) == 0 && host_buffer[0] == 9);
    /* After an error: callbacks hear of it, host functions are not run. */
    static _Atomic int status = -1;
    CHECK(launch("fault", s, NULL) == 0);
    core_host_function(0, s, never, NULL, false);
    core_host_function(0, s, note_error, &status, true);
    for (int i = 0; i < 2000 && status == -1; i++)
        usleep(1000);
    CHECK(status == 700 || core_sticky() == 700);
}

/* Host memory goes away only when no copy can still come. */
static void body_free_pinned_late(void)
{
    fake_start();
    core_stream s;
    void *pinned;
    uint64_t a = allocate(4 << 20);
    CHECK(core_host_allocate(4 << 20, 0, &pinned) == 0 && core_stream_create(0, 1, 0, &s) == 0);
    for (int i = 0; i < 20; i++) {
        CHECK(core_copy_out(0, s, pinned, a, 4 << 20, false) == 0 && core_host_free(pinned) == 0);
        CHECK(core_host_allocate(4 << 20, 0, &pinned) == 0);
    }
}

static void host_functions(void **unused)
{
    (void)unused;
    run(body_host_functions);
    run(body_free_pinned_late);
}

/* ---- code ---- */

static int try_launch(uint32_t gx, uint32_t gy, uint32_t bx, uint32_t by, uint32_t bz, size_t shared, bool cooperative)
{
    return core_launch(0, &(struct core_launch){ .function = kernel("hold"), .grid = { gx, gy, 1 }, .block = { bx, by, bz },
                                                 .shared = shared, .cooperative = cooperative });
}

static void body_launch_checks(void)
{
    fake_start();
    fake_release();
    CHECK(try_launch(1, 1, 1, 1, 1, 0, false) == 0);
    CHECK(try_launch(0, 1, 1, 1, 1, 0, false) == 1 && try_launch(1, 1, 0, 1, 1, 0, false) == 1);
    CHECK(try_launch(1, 65536, 1, 1, 1, 0, false) == 1 && try_launch(1, 1, 1025, 1, 1, 0, false) == 1);
    CHECK(try_launch(1, 1, 1, 1, 65, 0, false) == 1 && try_launch(1, 1, 64, 64, 1, 0, false) == 1);
    CHECK(try_launch(1, 1, 1024, 1, 1, 0, false) == 701 && try_launch(1, 1, 512, 1, 1, 0, false) == 0);
    CHECK(try_launch(1, 1, 1, 1, 1, 16385, false) == 1 && try_launch(1, 1, 1, 1, 1, 16384, false) == 0);
    CHECK(try_launch(8, 1, 64, 1, 1, 0, true) == 0 && try_launch(9, 1, 64, 1, 1, 0, true) == 720);
    CHECK(fake_calls[FLYT_OCCUPANCY] == 1);   /* the answer is kept */
    CHECK(core_launch(0, &(struct core_launch){ .function = NULL, .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } }) == 400);
    CHECK(launch("fill", 0, NULL) == 1);      /* parameters are missing */
    CHECK(launch("absent", 0, NULL) == 500 && launch("absent", 0, NULL) == 500);
    CHECK(fake_calls[FLYT_FUNCTION_GET] == 3);                       /* failures are kept too */
    CHECK(core_function_set(0, kernel("hold"), 8, 30000) == 0 && try_launch(1, 1, 1, 1, 1, 30000, false) == 0);
    uint64_t a = allocate(64);
    struct { uint64_t address; uint32_t count, value; } packed = { a, 2, 77 };
    struct core_launch l = { .function = kernel("fill"), .grid = { 1, 1, 1 }, .block = { 1, 1, 1 }, .packed = &packed, .packed_size = 16 };
    uint32_t got[2];
    CHECK(core_launch(0, &l) == 0 && core_copy_out(0, 0, got, a, 8, true) == 0 && got[0] == 77 && got[1] == 77);
    l.packed_size = 15;
    CHECK(core_launch(0, &l) == 1);
    CHECK(core_device_synchronize(0) == 0 && core_take_latched() == 0);
}

static void body_images(void)
{
    fake_start();
    core_image *image;
    core_function *f, *g;
    core_variable *v, *w, *missing;
    uint64_t address;
    size_t size;
    struct core_range r;
    CHECK(core_image_add(".version 9.0", &image) == 0);
    CHECK(core_function_add(image, "fill", &f) == 0 && core_function_add(image, "fill", &g) == 0 && f == g);
    for (int i = 0; i < 1000; i++) {
        char name[32];
        snprintf(name, sizeof name, "k%d", i);
        CHECK(core_function_add(image, name, &g) == 0 && g != f);
    }
    CHECK(core_variable_add(image, "a", 64, false, &v) == 0 && core_variable_add(image, "missing", 4, false, &missing) == 0);
    CHECK(core_variable_address(0, v, &address, &size) == 0 && size == 64);
    CHECK(core_address_lookup(address + 63, &r) && r.kind == CORE_DEVICE_MEMORY && r.base == address && core_memory_free(address) == 1);
    CHECK(core_variable_address(0, missing, &address, &size) == 500);
    CHECK(fake_calls[FLYT_MODULE_LOAD] == 1);
    CHECK(core_variable_add(image, "b", 64, false, &w) == 0 && core_variable_address(0, w, &address, &size) == 0);    /* registered late */
    CHECK(fake_calls[FLYT_MODULE_LOAD] == 2 && fake_calls[FLYT_IMAGE] == 1 && fake_calls[FLYT_IMAGE_DATA] == 1);
    uint64_t other;
    CHECK(core_variable_address(1, w, &other, &size) == 0 && other != address);
    const struct core_function_info *info;
    CHECK(core_function_info(0, f, &info) == 0 && info->parameter_count == 3 && info->parameter_bytes == 16 && info->max_threads == 512);
    /* A reset takes everything of the device; code comes back by itself. */
    uint64_t a = allocate(64);
    core_stream s;
    core_event e;
    CHECK(core_stream_create(0, 0, 0, &s) == 0 && core_event_create(0, 0, &e) == 0);
    CHECK(core_device_reset(0) == 0 && !core_device_active(0));
    CHECK(core_memory_free(a) == 1 && core_stream_query(0, s) == 400 && core_event_query(e) == 400);
    CHECK(!core_address_lookup(address, &r) && core_address_lookup(other, &r));
    a = allocate(64);
    CHECK(core_launch(0, &(struct core_launch){ .function = f, .grid = { 1, 1, 1 }, .block = { 1, 1, 1 },
                                                .arguments = (void *[]){ &a, &(uint32_t){ 1 }, &(uint32_t){ 2 } } }) == 0);
    CHECK(core_variable_address(0, v, &address, &size) == 0);
    core_image_remove(image);
    CHECK(core_device_synchronize(0) == 0 && fake_calls[FLYT_MODULE_UNLOAD] == 2);
    CHECK(core_function_info(0, f, &info) == 400 && core_variable_address(0, v, &address, &size) == 400);
    CHECK(!core_address_lookup(other, &r));
    core_image *bad;
    CHECK(core_image_add("this is not code at all", &bad) == 0 && core_function_add(bad, "fill", &f) == 0);
    CHECK(core_function_info(0, f, &info) == 200);
}

static void code(void **unused)
{
    (void)unused;
    run(body_launch_checks);
    run(body_images);
}

/* ---- text and latched errors ---- */

static void body_text(void)
{
    fake_options.print = "from the kernel\n";
    fake_start();
    uint64_t a = allocate(64);
    setvbuf(stdout, NULL, _IOFBF, 65536);
    printf("before\n");
    CHECK(fill(0, a, 1, 1) == 0 && core_device_synchronize(0) == 0);
    printf("after\n");
    fake_options.print = NULL;
    fake_say("by itself\n");
    usleep(300000);
}

static void text(void **unused)
{
    (void)unused;
    static char output[4096];
    assert_int_equal(fake_isolated_output(body_text, output, sizeof output), 0);
    assert_non_null(strstr(output, "before\nfrom the kernel\n"));
    assert_true(strstr(output, "from the kernel") < strstr(output, "after"));
    assert_non_null(strstr(output, "by itself"));
}

static void body_latched(void)
{
    fake_start();
    uint64_t a = allocate(64);
    CHECK(core_take_latched() == 0);
    CHECK(fill(0, a, 1, 1) == 0);
    fake_latch(716);
    CHECK(core_device_synchronize(0) == 0);
    CHECK(core_take_latched() == 716 && core_take_latched() == 0 && core_sticky() == 0);
}

static void latched(void **unused)
{
    (void)unused;
    run(body_latched);
}

/* ---- many threads, every switch ---- */

static void *worker(void *argument)
{
    uint32_t mine = (uint32_t)(uintptr_t)argument, got[64];
    core_stream s;
    void *pinned;
    CHECK(core_stream_create(0, 1, 0, &s) == 0 && core_host_allocate(256, 0, &pinned) == 0);
    for (uint32_t i = 0; i < 100; i++) {
        uint64_t a;
        CHECK(core_memory_allocate(0, 256, &a) == 0);
        CHECK(fill(i % 2 ? s : CORE_STREAM_PER_THREAD, a, 64, mine * 1000 + i) == 0);
        if (i % 5 == 0) {
            CHECK(core_stream_synchronize(0, i % 2 ? s : CORE_STREAM_PER_THREAD) == 0);
            CHECK(core_copy_out(0, s, pinned, a, 256, false) == 0 && core_stream_synchronize(0, s) == 0);
            memcpy(got, pinned, 256);
        } else {
            CHECK(core_copy_out(0, i % 2 ? s : CORE_STREAM_PER_THREAD, got, a, 256, true) == 0);
        }
        for (int k = 0; k < 64; k++)
            CHECK(got[k] == mine * 1000 + i);
        CHECK(core_memory_free(a) == 0);
    }
    CHECK(core_stream_destroy(s) == 0 && core_host_free(pinned) == 0);
    return NULL;
}

static const char *switches;

static void body_threads(void)
{
    setenv("FLYT_PERF", switches, 1);
    fake_start();
    kernel("fill");
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, worker, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK(core_take_latched() == 0);
}

static void threads(void **unused)
{
    (void)unused;
    static const char *const all[] = { "", "no_async", "no_batch", "no_cache", "no_pipeline" };
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
        switches = all[i];
        run(body_threads);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory), cmocka_unit_test(host_memory), cmocka_unit_test(copies), cmocka_unit_test(streams_events),
        cmocka_unit_test(host_functions), cmocka_unit_test(code), cmocka_unit_test(text), cmocka_unit_test(latched),
        cmocka_unit_test(threads),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
