/* A session's streams, events and host functions. Each body in a process of its own. */
#include <unistd.h>

#include "cpu/common/clock.h"
#include "tests/lib/unit.h"
#include "work.h"

/* ---- streams and events ---- */

static void body_streams(void)
{
    fake_start();
    core_stream s, t;
    struct core_stream_info info;
    CHECK(core_stream_create(on(0), 8, 0, &s) == 1 && core_stream_create(on(9), 0, 0, &s) == 201);
    CHECK(core_stream_create(on(0), 1, -99, &s) == 0 && s > 2);
    CHECK(core_stream_info(on(0), s, &info) == 0 && info.device == 0 && info.flags == 1 && info.priority == -5);
    CHECK(core_stream_query(on(0), s) == 0 && core_stream_synchronize(on(0), s) == 0);
    CHECK(core_stream_destroy(s) == 0 && core_stream_destroy(s) == 400 && core_stream_query(on(0), s) == 400);
    CHECK(core_stream_destroy(0) == 400 && core_stream_destroy(1) == 400 &&
          core_stream_synchronize(on(0), 0xDEADBEEF) == 400);
    CHECK(core_stream_create(on(0), 0, 0, &t) == 0 && t != s && core_stream_query(on(0), s) == 400);
    /* A stream of another device */
    core_stream other;
    CHECK(core_stream_create(on(1), 0, 0, &other) == 0 && launch("hold", other, NULL) == 400);
    /* Per thread: one stream, found again; not the legacy one */
    struct core_stream_info again;
    CHECK(core_stream_info(on(0), CORE_STREAM_PER_THREAD, &info) == 0 &&
          core_stream_info(on(0), CORE_STREAM_PER_THREAD, &again) == 0);
    CHECK(info.id == again.id);
    CHECK(core_stream_info(on(0), 0, &again) == 0 && info.id != again.id);
    CHECK(core_stream_info(on(0), CORE_STREAM_LEGACY, &info) == 0 && info.id == again.id);
    /* Many, created and destroyed with work in them: ids return, results stay right. */
    uint64_t a = allocate(4);
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t got = 0;
        CHECK(core_stream_create(on(0), 1, 0, &s) == 0 && fill(s, a, 1, i) == 0);
        CHECK(i % 3 == 0 || copy_out(on(0), s, &got, a, 4, true) == 0);
        CHECK(i % 3 == 0 || got == i);
        CHECK(core_stream_destroy(s) == 0);
        if (i % 3 == 0)
            CHECK(core_context_synchronize(on(0)) == 0);
    }
    CHECK(core_stream_info(on(0), t, &info) == 0 && info.id < 4096);
}

static void body_events(void)
{
    fake_start();
    core_event e, f;
    core_stream s, t;
    float ms;
    uint64_t a = allocate(4);
    CHECK(core_event_create(on(0), 64, &e) == 1 && core_event_create(on(0), 0, &e) == 0 &&
          core_event_create(on(0), 2, &f) == 0);
    CHECK(core_event_query(e) == 0 && core_event_synchronize(e) == 0);        /* never recorded */
    CHECK(core_event_elapsed(e, e, &ms) == 400 && core_event_query(12345) == 400);
    CHECK(core_stream_create(on(0), 1, 0, &s) == 0 && core_stream_create(on(0), 1, 0, &t) == 0);
    CHECK(launch("hold", s, NULL) == 0 && core_event_record(on(0), e, s, 0) == 0 && core_event_query(e) == 600);
    CHECK(core_stream_wait(on(0), t, e, 0) == 0 && fill(t, a, 1, 1) == 0 && core_stream_query(on(0), t) == 600);
    fake_release();
    CHECK(core_event_synchronize(e) == 0 && core_event_query(e) == 0);
    CHECK(core_stream_synchronize(on(0), t) == 0 && core_event_elapsed(e, e, &ms) == 0 && ms > 1);
    CHECK(core_event_record(on(0), f, s, 0) == 0 && core_event_elapsed(e, f, &ms) == 400);    /* no timing */
    core_event other;
    CHECK(core_event_create(on(1), 0, &other) == 0 && core_event_record(on(0), other, s, 0) == 400);
    CHECK(core_event_destroy(e) == 0 && core_event_destroy(e) == 400 && core_event_query(e) == 400);
    /* Known from the stream's numbers: no message. */
    CHECK(core_event_record(on(0), f, s, 0) == 0 && core_stream_synchronize(on(0), s) == 0);
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
    CHECK(core_event_create(on(0), 0, &e) == 0 && core_stream_create(on(0), 1, 0, &s) == 0 &&
          core_stream_create(on(0), 1, 0, &t) == 0);
    CHECK(launch("hold", s, NULL) == 0 && core_event_record(on(0), e, s, 0) == 0);
    uint64_t began = clock_now(), polls = 0;
    for (; clock_now() - began < 30000000; polls++)
        CHECK((polls & 8 ? core_event_query(e) : core_stream_query(on(0), s)) == 600);
    uint64_t most = 2 * ((clock_now() - began) / 10000 + 1),
             asked = fake_calls[FLYT_EVENT_QUERY] + fake_calls[FLYT_STREAM_QUERY];
    CHECK(asked >= 2 && asked <= most && polls > asked);
    /* Anything heard from the server makes the next query ask: it may be known by now that the work has ended. */
    for (int i = 0; i < 20; i++) {
        CHECK(core_event_query(e) == 600);
        asked = fake_calls[FLYT_EVENT_QUERY];
        CHECK(fill(t, a, 1, 1) == 0 && core_stream_synchronize(on(0), t) == 0 && core_event_query(e) == 600);
        CHECK(fake_calls[FLYT_EVENT_QUERY] == asked + 1);
    }
    CHECK(launch("fault", s, NULL) == 0 && core_event_record(on(0), e, s, 0) == 0 && core_event_query(e) == 600);
    fake_release();
    int code;
    while ((code = core_event_query(e)) == 600)
        ;
    CHECK(code == 700 && core_stream_query(on(0), s) == 700 && core_sticky() == 700);
}

/* A synchronisation asks though the work is known to have ended, while what a kernel printed has not come. */
static void body_heard(void)
{
    fake_options.print = "# text\n";
    fake_start();
    core_event e;
    core_stream s;
    uint64_t a = allocate(4);
    CHECK(core_event_create(on(0), 0, &e) == 0 && core_stream_create(on(0), 1, 0, &s) == 0);
    CHECK(fill(s, a, 1, 1) == 0 && core_event_record(on(0), e, s, 0) == 0);
    while (core_event_query(e) == 600)
        ;
    uint64_t asked = fake_calls[FLYT_STREAM_SYNC];
    CHECK(core_stream_synchronize(on(0), s) == 0 && fake_calls[FLYT_STREAM_SYNC] == asked + 1);
    CHECK(core_stream_synchronize(on(0), s) == 0 && core_event_synchronize(e) == 0);
    CHECK(fake_calls[FLYT_STREAM_SYNC] == asked + 1 && fake_calls[FLYT_EVENT_SYNC] == 0);
    CHECK(core_event_record(on(0), e, s, 0) == 0 && core_context_synchronize(on(0)) == 0);
    asked = fake_calls[FLYT_CONTEXT_SYNC];
    CHECK(core_context_synchronize(on(0)) == 0 && fake_calls[FLYT_CONTEXT_SYNC] == asked);
}

/* What the server publishes is believed without a message, unless it cannot be; a new stream of an id begins at 0. */
static void body_published(void)
{
    fake_options.shared = true;
    fake_start();
    core_event e, f;
    core_stream s;
    CHECK(core_event_create(on(0), 0, &e) == 0 && core_event_create(on(0), 0, &f) == 0 &&
          core_stream_create(on(0), 1, 0, &s) == 0);
    CHECK(launch("hold", s, NULL) == 0 && core_event_record(on(0), e, s, 0) == 0);
    CHECK(launch("hold", s, NULL) == 0 && core_event_record(on(0), f, s, 0) == 0);
    uint32_t id = FLYT_FIRST_STREAM;                  /* the first one made */
    CHECK(core_event_query(e) == 600 && core_event_query(f) == 600);
    fake_publish(id, 5);                              /* four were sent */
    CHECK(core_event_query(e) == 600);
    fake_publish(id, UINT64_MAX);
    CHECK(core_event_query(e) == 600 && core_stream_query(on(0), s) == 600);
    fake_publish(id, 2);
    uint64_t asked = fake_calls[FLYT_EVENT_QUERY];
    CHECK(core_event_query(e) == 0 && fake_calls[FLYT_EVENT_QUERY] == asked && core_event_query(f) == 600);
    fake_publish(id, 1);                              /* nothing that has ended begins again */
    CHECK(core_event_query(e) == 0);
    fake_publish(id, 4);
    CHECK(core_event_query(f) == 0 && core_stream_query(on(0), s) == 0);
    fake_publish(id, 0);                              /* as the server does at the stream's end */
    fake_release();
    CHECK(core_stream_destroy(s) == 0 && core_context_synchronize(on(0)) == 0);
    CHECK(core_stream_create(on(0), 1, 0, &s) == 0 && core_event_record(on(0), e, s, 0) == 0 &&
          core_event_synchronize(e) == 0);
}

static void body_always_asks(void)
{
    setenv("FLYT_PERF", "no_cache", 1);
    fake_start();
    core_event e;
    CHECK(core_event_create(on(0), 0, &e) == 0 && core_event_record(on(0), e, 0, 0) == 0 &&
          core_context_synchronize(on(0)) == 0);
    uint64_t asked = fake_calls[FLYT_EVENT_QUERY];
    for (int i = 0; i < 10; i++)
        CHECK(core_event_query(e) == 0);
    CHECK(fake_calls[FLYT_EVENT_QUERY] == asked + 10);
}

/* Threads with streams of their own beside one that works in the legacy stream, which asks about all of theirs. */
static _Atomic bool legacy_goes_on = true;

static void *body_threads_own(void *unused)
{
    core_context *c = on(0);
    uint64_t a = allocate(64);
    for (uint32_t i = 0; i < 300; i++) {
        core_stream s;
        core_event e;
        uint32_t got;
        CHECK(core_stream_create(c, i % 2, 0, &s) == 0 && core_event_create(c, 2, &e) == 0);
        CHECK(fill(s, a, 1, i) == 0 && core_event_record(c, e, s, 0) == 0);
        while (i % 3 == 0 && core_stream_query(c, s) == 600)
            ;
        CHECK(i % 3 == 1 || core_event_synchronize(e) == 0);
        CHECK(copy_out(c, s, &got, a, 4, true) == 0 && got == i);
        CHECK(i % 5 || core_context_synchronize(c) == 0);
        CHECK(core_stream_destroy(s) == 0 && core_event_destroy(e) == 0);
    }
    return unused;
}

static void *body_threads_legacy(void *unused)
{
    core_context *c = on(0);
    uint64_t a = allocate(64);
    for (uint32_t i = 0, got; legacy_goes_on; i++) {
        CHECK(copy_in(c, 0, a, &i, 4, true) == 0 && fill(0, a + 4, 1, i) == 0);
        CHECK(core_stream_query(c, 0) % 600 == 0 && core_stream_synchronize(c, 0) == 0);
        CHECK(copy_out(c, 0, &got, a, 4, true) == 0 && got == i);
    }
    return unused;
}

static void body_threads(void)
{
    fake_start();
    pthread_t own[4], legacy;
    CHECK(on(0) && pthread_create(&legacy, NULL, body_threads_legacy, NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&own[i], NULL, body_threads_own, NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(own[i], NULL) == 0);
    legacy_goes_on = false;
    CHECK(pthread_join(legacy, NULL) == 0 && core_context_synchronize(on(0)) == 0 && core_take_latched() == 0);
}

ISOLATED(streams_events, body_polling, body_heard, body_always_asks, body_published, body_streams, body_events,
     body_threads)

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
    isolated_failed("not run after the stream had failed", __FILE__, __LINE__);
}

static void body_host_functions(void)
{
    fake_start();
    core_stream s;
    uint64_t a = allocate(1000);
    void *pinned;
    CHECK(core_stream_create(on(0), 1, 0, &s) == 0 && core_host_function(on(0), s, NULL, NULL, false) == 1);
    for (intptr_t i = 0; i < 40; i++) {
        CHECK(core_host_function(on(0), s, note, (void *)i, false) == 0);
        CHECK(fill(s, a, 1, (uint32_t)i) == 0);
    }
    CHECK(core_stream_synchronize(on(0), s) == 0 && orders == 40);
    for (int i = 0; i < 40; i++)
        CHECK(order[i] == i);
    /* A function writes the source of copies that follow it: they must take it afterwards. */
    uint8_t got[1000];
    CHECK(core_host_allocate(1000, 0, &pinned) == 0);
    CHECK(core_host_function(on(0), s, scribble, pinned, false) == 0 &&
          copy_in(on(0), s, a, pinned, 1000, false) == 0);
    CHECK(copy_out(on(0), s, got, a, 1000, true) == 0 && got[0] == 9 && got[999] == 9);
    memset(pinned, 0, 1000);
    CHECK(core_host_function(on(0), s, scribble, pinned, false) == 0 &&
          copy_in(on(0), s, a, pinned, 1000, true) == 0);
    CHECK(copy_out(on(0), s, got, a, 1000, true) == 0 && got[0] == 9 && got[999] == 9);
    /* A host to host copy keeps its place. */
    host_buffer = calloc(1, 1000);
    memset(pinned, 3, 1000);
    CHECK(core_host_function(on(0), s, scribble, pinned, false) == 0 &&
          core_copy(on(0), s, host_buffer, pinned, 1000, CORE_HOST_TO_HOST, false) == 0);
    CHECK(core_stream_synchronize(on(0), s) == 0 && host_buffer[0] == 9);
    /* After an error: callbacks hear of it, host functions are not run. */
    static _Atomic int status = -1;
    CHECK(launch("fault", s, NULL) == 0);
    core_host_function(on(0), s, never, NULL, false);
    core_host_function(on(0), s, note_error, &status, true);
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
    CHECK(core_host_allocate(4 << 20, 0, &pinned) == 0 && core_stream_create(on(0), 1, 0, &s) == 0);
    for (int i = 0; i < 20; i++) {
        CHECK(copy_out(on(0), s, pinned, a, 4 << 20, false) == 0 && core_host_free(pinned) == 0);
        CHECK(core_host_allocate(4 << 20, 0, &pinned) == 0);
    }
}

ISOLATED(host_functions, body_host_functions, body_free_pinned_late)

int main(void) { return unit_run(NULL, NULL); }
