/* A session's memory: the allocator and its credit, and host memory. Each body in a process of its own. */
#include <pthread.h>
#include <unistd.h>

#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/wire/state.h"
#include "tests/lib/unit.h"
#include "work.h"

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
        int code = core_memory_allocate(on(0), size, &h->at);
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
    CHECK(core_memory_info(on(0), &available, &all) == 0);
    CHECK(available == all);                  /* unused credit counts as free */
    memory_recall(&core_session, 1, UINT64_MAX);             /* everything coalesced, so every piece can go */
    CHECK(core_memory_info(on(0), &available, &all) == 0);
    CHECK(fake_mapped[0] == 0 && memory_credit(on(0)) == 0);
}

/* What does not fit fails at once, and leaves everything usable; what fits exactly does not fail for our credit. */
static void body_out_of_memory(void)
{
    fake_options.memory = 64 * MIB;
    fake_start();
    uint64_t small = allocate(1), big;
    CHECK(core_memory_allocate(on(0), 65 * MIB, &big) == 2);
    CHECK(core_memory_allocate(on(0), SIZE_MAX, &big) == 2 && core_memory_allocate(on(0), SIZE_MAX / 2, &big) == 2);
    CHECK(core_memory_allocate(on(0), 0, &big) == 1);
    CHECK(core_memory_allocate(on(0), 62 * MIB, &big) == 0);
    CHECK(core_memory_allocate(on(0), 4 * MIB, &small) == 2);
    CHECK(core_memory_free(big) == 0);
    uint64_t parts[31];
    for (int i = 0; i < 31; i++)
        CHECK(core_memory_allocate(on(0), 2 * MIB, &parts[i]) == 0);
    for (int i = 0; i < 31; i += 2)
        CHECK(core_memory_free(parts[i]) == 0);
    for (int i = 1; i < 31; i += 2)
        CHECK(core_memory_free(parts[i]) == 0);
    CHECK(core_memory_allocate(on(0), 62 * MIB, &big) == 0);
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
    CHECK(core_memory_allocate(on(0), 56 * MIB, &big) == 0);
    CHECK(core_memory_free(big) == 0);
    fake_recall(UINT64_MAX);
    while (!fake_recalled)               /* behind the UNMAPs */
        usleep(1000);
    CHECK(fake_mapped[0] == 2 * MIB && fake_idle == 0);     /* the piece that holds the last one */
    CHECK(core_memory_free(parts[15]) == 0);
}

/* Its idle credit is not given back piece by piece while a context ends: the server has unmapped all of it. */
static void body_end_and_recall(void)
{
    uint64_t at;
    core_context *made;
    fake_options.recalls_at_end = true;
    fake_start();
    CHECK(core_memory_free(allocate(40 * MIB)) == 0 && fake_mapped[0] >= 40 * MIB);
    CHECK(core_context_reset(core_context_primary(0)) == 0);
    CHECK(fake_recalled == 1 && fake_calls[FLYT_UNMAP] == 0 && core_take_latched() == 0);
    /* The next life of both gives back what it has. */
    CHECK(core_context_create(0, 0, &made) == 0 && core_memory_allocate(made, 40 * MIB, &at) == 0);
    CHECK(core_memory_free(at) == 0 && core_context_destroy(made) == 0);
    CHECK(fake_recalled == 2 && fake_calls[FLYT_UNMAP] == 0);
    CHECK(core_memory_free(allocate(40 * MIB)) == 0);
    fake_recall(UINT64_MAX);
    while (fake_recalled < 3)
        usleep(1000);
    CHECK(fake_mapped[0] == 0 && fake_calls[FLYT_UNMAP] > 0);
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
            CHECK(core_memory_allocate(on(0), h->size, &h->at) == 0);
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
    CHECK(core_stream_create(on(0), 1, 0, &stream) == 0);
    uint64_t used = allocate(4 * MIB), other;
    CHECK(launch("hold", stream, NULL) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body_free_other, (void *)(uintptr_t)used) == 0);
    while (!fake_calls[FLYT_CONTEXT_SYNC])
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
    /* and the kernel still finds it */
    CHECK(fake_peek(used, &byte, 1) && fake_peek(used + 4 * MIB - 1, &byte, 1));
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
    CHECK(fake_calls[FLYT_CONTEXT_SYNC] == 0);
    CHECK(core_memory_free(other) == 0);
    CHECK(fake_calls[FLYT_CONTEXT_SYNC] == 1);
    CHECK(core_memory_free(keep) == 0);
    CHECK(fake_calls[FLYT_CONTEXT_SYNC] == 1);
}

ISOLATED(memory, body_allocator, body_out_of_memory, body_give_back, body_end_and_recall, body_malloc_free_messages,
         body_long_run, body_idle_credit, body_freed_addresses)

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
    CHECK(core_host_flags((char *)a + 4999, &flags) == 0 && flags == (1 | 2));
    CHECK(core_address_lookup((uint64_t)(uintptr_t)b + 17, &r) && r.kind == CORE_PINNED_MEMORY &&
          r.base == (uint64_t)(uintptr_t)b);
    CHECK(core_host_device_pointer(a, &address) == 801 && core_host_device_pointer(ordinary, &address) == 1);
    CHECK(core_host_register(ordinary, 100000, 0) == 0 && core_host_register(ordinary + 10, 10, 0) == 712);
    CHECK(core_host_register(a, 100, 0) == 1 && core_host_unregister(a) == 1);
    CHECK(core_host_unregister(ordinary + 1) == 1 && core_host_unregister(ordinary) == 0 &&
          core_host_unregister(ordinary) == 713);
    CHECK(core_host_free(ordinary) == 1 && core_host_free((char *)a + 1) == 1 && core_host_free(a) == 0 &&
          core_host_free(a) == 1);
    CHECK(core_host_free(b) == 0);
    CHECK(core_memory_free((uint64_t)(uintptr_t)b) == 1);
    free(ordinary);
}

ISOLATED(host_memory, body_host_memory)

int main(void) { return unit_run(NULL, NULL); }
