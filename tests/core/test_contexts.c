/* A device's contexts. Each body in a process of its own. */
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/session/kinds.h"
#include "tests/lib/unit.h"
#include "work.h"

static int launch_in(core_context *context, const char *name, core_stream stream, void **arguments)
{
    return core_launch(context, &(struct core_launch){ .function = kernel(name),
                                                       .stream = stream,
                                                       .grid = { 1, 1, 1 },
                                                       .block = { 1, 1, 1 },
                                                       .arguments = arguments });
}

/* A context and its memory that came with the connection. */
static void body_granted(void)
{
    fake_options.grants = true;
    fake_start();
    CHECK(core_attach_to_use() == 0);
    core_context *c = core_context_primary(0);
    struct core_context_info info;
    uint64_t a, mapped = fake_mapped[0];
    CHECK(mapped && !core_context_active(c) && core_context_info(c, &info) == 0 && !info.active && !info.owners);
    CHECK(core_context_retain(c) == 0 && core_memory_allocate(c, 64, &a) == 0);
    CHECK(!fake_calls[FLYT_CONTEXT_RETAIN] && !fake_calls[FLYT_MAP] && fake_mapped[0] == mapped);
    CHECK(core_memory_free(a) == 0 && core_memory_allocate(c, mapped, &a) == 0 && !fake_calls[FLYT_MAP]);
    CHECK(core_context_release(c) == 0 && fake_calls[FLYT_CONTEXT_RELEASE] == 1 && !fake_mapped[0]);
    CHECK(core_context_retain(c) == 0 && fake_calls[FLYT_CONTEXT_RETAIN] == 1 && fake_calls[FLYT_MAP] == 1);
}

/* The window where they are does not suit this process. */
static void body_granted_in_vain(void)
{
    fake_options.grants = true;
    fake_options.bad_windows = 1;
    fake_start();
    uint64_t a;
    CHECK(core_attach_to_use() == 0 && fake_calls[FLYT_CONTEXT_RELEASE] == 1 && fake_calls[FLYT_WINDOW] == 1);
    CHECK(!fake_mapped[0] && core_context_retain(core_context_primary(0)) == 0);
    CHECK(fake_calls[FLYT_CONTEXT_RETAIN] == 1 && core_memory_allocate(core_context_primary(0), 64, &a) == 0);
}

/* Nobody wishes for a context where CUDA_VISIBLE_DEVICES chooses, or where the caller only asks. */
static void body_not_granted(void)
{
    fake_options.grants = true;
    fake_start();
    setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
    CHECK(core_attach_to_use() == 0 && !fake_mapped[0] && core_context_retain(core_context_primary(0)) == 0);
    CHECK(fake_calls[FLYT_CONTEXT_RETAIN] == 1);
}

/* Device 0 of the program is another one of the server. */
static void body_granted_elsewhere(void)
{
    fake_options.grants = true;
    fake_start();
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    CHECK(core_attach_to_use() == 0 && fake_calls[FLYT_CONTEXT_RELEASE] == 1 && !fake_mapped[0]);
    CHECK(core_context_retain(core_context_primary(0)) == 0 && fake_calls[FLYT_CONTEXT_RETAIN] == 1);
}

static void body_only_asked(void)
{
    fake_options.grants = true;
    fake_start();
    int count;
    CHECK(core_device_count(&count) == 0 && core_attach_to_use() == 0 && !fake_mapped[0]);
}

/* Where there is no memory there can be a context. */
static void body_without_memory(void)
{
    fake_options.memory = 1;
    fake_start();
    core_context *c = core_context_primary(0);
    uint64_t a;
    CHECK(core_context_retain(c) == 0 && fake_calls[FLYT_MAP] == 1 && fake_mapped[0] == 0);
    CHECK(core_memory_allocate(c, 64, &a) == 2 && core_context_enter(c) == 0 && core_take_latched() == 0);
    CHECK(core_context_release(c) == 0);
}

/* A primary context has owners, and ends with the last of them. */
static void body_primary(void)
{
    fake_start();
    core_context *c = core_context_primary(0);
    struct core_context_info info;
    uint64_t a;
    CHECK(c && c == core_context_primary(0) && c != core_context_primary(1) && !core_context_primary(2) &&
          !core_context_primary(-1));
    CHECK(core_context_check(c) == 709 && core_context_enter(c) == 709 && core_memory_allocate(c, 64, &a) == 709 &&
          !core_context_active(c));
    CHECK(core_context_release(c) == 201 && core_context_retain(NULL) == 201 && core_context_enter(NULL) == 201);
    CHECK(core_context_set_flags(c, 4) == 0 && core_context_info(c, &info) == 0 && info.flags == 4 && !info.active &&
          info.primary);
    CHECK(core_context_retain(c) == 0 && core_context_retain(c) == 0 && fake_calls[FLYT_CONTEXT_RETAIN] == 1);
    CHECK(core_context_info(c, &info) == 0 && info.owners == 2 && info.active && info.device == 0);
    CHECK(fake_calls[FLYT_MAP] == 1); /* its first memory comes with it */
    CHECK(core_memory_allocate(c, 64, &a) == 0 && core_context_release(c) == 0 && core_context_enter(c) == 0);
    CHECK(fake_calls[FLYT_MAP] == 1);
    CHECK(core_context_release(c) == 0 && core_context_enter(c) == 709 && core_memory_free(a) == 1);
    CHECK(fake_calls[FLYT_CONTEXT_RELEASE] == 1 && core_context_release(c) == 201);
    /* A reset asks nobody, and leaves the owners; the next one begins a new life. */
    CHECK(core_context_retain(c) == 0 && core_context_retain(c) == 0 && core_context_reset(c) == 0);
    CHECK(core_context_info(c, &info) == 0 && info.owners == 2 && !info.active && core_context_check(c) == 709);
    CHECK(core_context_release(c) == 0 && core_context_release(c) == 0 && core_context_release(c) == 201);
    CHECK(fake_calls[FLYT_CONTEXT_RELEASE] == 1);       /* none of the two was told */
    CHECK(core_context_retain(c) == 0 && core_memory_allocate(c, 64, &a) == 0 && core_context_reset(c) == 0);
    CHECK(core_context_destroy(c) == 709 && core_context_retain(c) == 0 && core_context_destroy(c) == 201);
}

/* What a program made up, or kept, is told apart and harms nothing. */
static void body_handles(void)
{
    fake_start();
    core_context *c = NULL, *d = NULL;
    uint64_t a;
    CHECK(core_context_create(7, 0, &c) == 101 && core_context_create(0, 0, &c) == 0 && c != core_context_primary(0));
    core_context *const made_up[] = { NULL,
                                      (core_context *)1,
                                      (core_context *)(uintptr_t)0xDEADBEEF,
                                      (core_context *)((char *)c + 8),
                                      (core_context *)&d,
                                      c + 1,
                                      c + 1000 };
    for (unsigned i = 0; i < sizeof made_up / sizeof made_up[0]; i++)
        CHECK(core_context_check(made_up[i]) == 201 && core_context_destroy(made_up[i]) == 201);
    CHECK(core_context_check(c) == 0 && core_context_reset(c) == 201 && core_context_release(c) == 201);
    CHECK(core_memory_allocate(c, 64, &a) == 0 && core_context_destroy(c) == 0);
    CHECK(core_context_check(c) == 709 && core_context_destroy(c) == 709 && core_memory_allocate(c, 64, &a) == 709);
    CHECK(core_context_synchronize(c) == 709 && core_stream_query(c, 0) == 709 && launch_in(c, "hold", 0, NULL) == 709);
    /* Its structure serves the next one. */
    CHECK(core_context_create(1, 0, &d) == 0 && core_memory_allocate(d, 64, &a) == 0 &&
          core_context_synchronize(d) == 0);
    struct core_context_info info;
    CHECK(core_context_info(d, &info) == 0 && info.device == 1 && !info.primary);
    uint64_t id = info.id;
    CHECK(core_context_destroy(d) == 0 && core_context_create(1, 0, &d) == 0);
    CHECK(core_context_info(d, &info) == 0 && info.id != id && core_context_destroy(d) == 0);
    for (int i = 0; i < 200; i++)
        CHECK(core_context_create(i % 2, 0, &d) == 0 && core_context_destroy(d) == 0);
    core_context *many[FLYT_MAX_CONTEXTS];
    int count = 0;
    while (core_context_create(0, 0, &many[count]) == 0)
        count++;
    CHECK(count == FLYT_MAX_CONTEXTS - 2);            /* two devices' primary contexts have their places */
    while (count > 0)
        CHECK(core_context_destroy(many[--count]) == 0);
}

/* Streams, events, memory and code belong to one context; what runs in another does not touch it. */
static void body_apart(void)
{
    fake_start();
    core_context *p = on(0), *c;
    core_stream of_p, of_c;
    core_event event;
    uint64_t a, b;
    uint32_t count = 4, value = 7, got[4];
    struct core_range range;
    CHECK(core_context_create(0, 0, &c) == 0 && core_memory_allocate(p, 64, &a) == 0 &&
          core_memory_allocate(c, 64, &b) == 0 && a != b);
    CHECK(core_address_lookup(b, &range) && range.context == c && range.device == 0);
    CHECK(core_stream_create(p, 0, 0, &of_p) == 0 && core_stream_create(c, 0, 0, &of_c) == 0);
    CHECK(launch_in(p, "hold", of_c, NULL) == 400 && launch_in(c, "hold", of_p, NULL) == 400);
    CHECK(core_event_create(c, 2, &event) == 0 && core_event_record(p, event, of_p, 0) == 400 &&
          core_event_record(c, event, 0, 0) == 0);
    /* Work in one does not hold up the other. */
    CHECK(launch_in(p, "hold", of_p, NULL) == 0 && core_stream_query(p, of_p) == 600);
    CHECK(launch_in(c, "fill", 0, (void *[]){ &b, &count, &value }) == 0 && core_stream_synchronize(c, 0) == 0);
    CHECK(copy_out(c, of_c, got, b, sizeof got, true) == 0 && got[3] == 7 && core_context_synchronize(c) == 0);
    CHECK(core_event_query(event) == 0 && core_stream_query(p, of_p) == 600);
    /* And the per-thread stream is another in each. */
    struct core_stream_info one, other;
    CHECK(core_stream_info(p, CORE_STREAM_PER_THREAD, &one) == 0 &&
          core_stream_info(c, CORE_STREAM_PER_THREAD, &other) == 0);
    CHECK(one.id != other.id && one.context == p && other.context == c);
    /* With its context everything goes, and nothing else. */
    CHECK(core_context_destroy(c) == 0 && core_event_query(event) == 400 && core_stream_query(p, of_c) == 400 &&
          core_memory_free(b) == 1);
    CHECK(core_stream_query(p, of_p) == 600);
    fake_release();
    CHECK(core_context_synchronize(p) == 0 && core_memory_free(a) == 0);
    CHECK(core_context_create(0, 0, &c) == 0 && core_memory_allocate(c, 64, &b) == 0);
    CHECK(launch_in(c, "fill", CORE_STREAM_PER_THREAD, (void *[]){ &b, &count, &value }) == 0);
    CHECK(copy_out(c, CORE_STREAM_PER_THREAD, got, b, sizeof got, true) == 0 && got[0] == 7);
}

/* A synchronous copy returns early only while no other context could look at what it wrote. */
static void body_early(void)
{
    fake_start();
    core_context *p = on(0), *c;
    uint64_t a;
    static uint8_t bytes[1000];
    CHECK(core_memory_allocate(p, sizeof bytes, &a) == 0 && copy_in(p, 0, a, bytes, sizeof bytes, true) == 0);
    CHECK(fake_calls[FLYT_STREAM_SYNC] == 0 && core_context_create(0, 0, &c) == 0);
    CHECK(copy_in(p, 0, a, bytes, sizeof bytes, true) == 0 && fake_calls[FLYT_STREAM_SYNC] == 1);
    CHECK(core_context_destroy(c) == 0 && copy_in(p, 0, a, bytes, sizeof bytes, true) == 0 &&
          fake_calls[FLYT_STREAM_SYNC] == 1);
}

static void nothing(void *user, int status)
{
    (void)user;
    (void)status;
}

/* What belongs to a context is counted while it is there, and goes with it; nothing else does. */
static void body_kinds(void)
{
    fake_start();
    core_context *p = on(0), *c;
    uint64_t before[KINDS], with[KINDS], a;
    core_stream s;
    core_event e;
    void *pinned;
    static char registered[100];
    CHECK(core_host_allocate(100, 0, &pinned) == 0 && core_host_register(registered, sizeof registered, 0) == 0);
    CHECK(core_memory_allocate(p, 64, &a) == 0 && fill(0, a, 1, 1) == 0);
    for (int kind = 0; kind < KINDS; kind++)
        before[kind] = client_kinds[kind].count ? client_kinds[kind].count() : 0;
    CHECK(before[KIND_HOST_MEMORY] == 1 && before[KIND_REGISTERED] == 1 && before[KIND_ALLOCATION] == 1);
    CHECK(core_context_create(0, 0, &c) == 0 && core_stream_create(c, 0, 0, &s) == 0 &&
          core_event_create(c, 0, &e) == 0);
    CHECK(core_memory_allocate(c, 64, &a) == 0 && launch_in(c, "hold", s, NULL) == 0);
    CHECK(core_host_function(c, s, nothing, NULL, false) == 0);
    static const enum client_kind of_context[] = { KIND_CONTEXT, KIND_STREAM, KIND_EVENT, KIND_MODULE, KIND_FUNCTION,
                                            KIND_ALLOCATION,
                                            KIND_HOST_FUNCTION };
    for (int kind = 0; kind < KINDS; kind++)
        with[kind] = client_kinds[kind].count ? client_kinds[kind].count() : 0;
    for (unsigned i = 0; i < sizeof of_context / sizeof of_context[0]; i++)
        CHECK(with[of_context[i]] == before[of_context[i]] + 1);
    CHECK(with[KIND_MAPPING] > before[KIND_MAPPING]);
    fake_release();
    CHECK(core_context_destroy(c) == 0);
    for (int kind = 0; kind < KINDS; kind++) {
        CHECK(client_kinds[kind].name);
        CHECK(!client_kinds[kind].count || client_kinds[kind].count() == before[kind]);
    }
}

ISOLATED(contexts, body_primary, body_granted, body_granted_in_vain, body_not_granted, body_granted_elsewhere,
     body_only_asked, body_without_memory, body_handles, body_apart, body_early, body_kinds)

int main(void) { return unit_run(NULL, NULL); }
