/* How a session begins, is forked, is lost, and ends: each test in a process of its own. */
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cpu/client/core/wire/state.h"
#include "tests/lib/now.h"
#include "tests/lib/unit.h"
#include "fake.h"
#include "isolated.h"
#include "on.h"

/* The test's code, what it says, and how often it says it. */
static void says(void (*test)(void), const char *sentence)
{
    static char output[65536];
    assert_int_equal(isolated_output(test, 60, output, sizeof output), 0);
    const char *at = strstr(output, sentence);
    if (!at)
        fail_msg("\"%s\" does not contain \"%s\"", output, sentence);
    assert_null(strstr(at + 1, sentence));    /* once */
}

/* ---- attaching ---- */

static void attach_gives(int code)
{
    int count = -1;
    CHECK(core_attach() == code);
    CHECK(core_attach() == code);             /* kept */
    CHECK(core_device_count(&count) == code && count == 0);
    uint64_t address;
    CHECK(core_memory_allocate(on(0), 100, &address) == code);
}

static void with_uri(const char *uri, int code)
{
    setenv("FLYT_SERVER", uri, 1);
    attach_gives(code);
}

static void body_wrong_uri(void) { with_uri("gpu1:9000", 802); }
static void body_nobody(void) { with_uri("unix:///tmp/flyt-test-nobody.sock", 802); }
static void body_nobody_tcp(void) { with_uri("tcp://127.0.0.1:1", 802); }

static void body_version(void)
{
    fake_options.major = 77;
    fake_start();
    attach_gives(803);
}

static void body_refused(void)
{
    fake_options.refusal = "the tenant has no GPU";
    fake_start();
    attach_gives(999);
}

static void body_silent(void)
{
    fake_options.silent = true;
    fake_start();
    session_dead_seconds = 1;
    double before = now_s();
    attach_gives(802);
    CHECK(now_s() - before < 5);
}

static void body_hello_garbage(void)
{
    fake_options.garbage_at = FLYT_HELLO;
    fake_start();
    attach_gives(802);
}

static void body_closes_at_hello(void)
{
    fake_options.close_at = FLYT_HELLO;
    fake_start();
    attach_gives(802);
}

TEST(attach_failures)
{
    says(body_wrong_uri, "gpu1:9000 is not the address of a GPU server; write tls://");
    says(body_nobody, "no GPU server answers at unix:///tmp/flyt-test-nobody.sock");
    says(body_nobody_tcp, "no GPU server answers at tcp://127.0.0.1:1");
    says(body_version, "speaks protocol 77.0");
    says(body_refused, "refuses this program: the tenant has no GPU");
    says(body_silent, "does not answer as a GPU server");
    says(body_hello_garbage, "does not answer as a GPU server");
    says(body_closes_at_hello, "does not answer as a GPU server");
}

/* The worker that was to serve it was killed just then. */
static void body_cut_short(void)
{
    fake_options.cuts = 2;
    fake_start();
    CHECK(core_attach() == 0);
    CHECK(fake_calls[FLYT_HELLO] == 1);
}

TEST(cut_short) { assert_int_equal(isolated(body_cut_short, 60), 0); }

static void *attach_thread(void *unused)
{
    (void)unused;
    CHECK(core_attach() == 0);
    CHECK(core_context_retain(core_context_primary(0)) == 0);
    return NULL;
}

static void body_attach(void)
{
    fake_start();
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, attach_thread, NULL);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    CHECK(fake_calls[FLYT_HELLO] == 1);
    CHECK(fake_calls[FLYT_CONTEXT_RETAIN] == 1);
    int value, count;
    CHECK(core_device_count(&count) == 0 && count == 2);
    CHECK(core_driver_version(&value) == 0 && value == 13000);
    CHECK(strcmp(core_device(1)->name, "Fake 1") == 0 && !core_device(2) && !core_device(-1));
    CHECK(core_device_attribute(0, 1, &value) == 0 && value == 1024);
    CHECK(core_device_attribute(0, 19, &value) == 0 && value == 0);       /* CAN_MAP_HOST_MEMORY: honest */
    CHECK(core_device_attribute(0, 9999, &value) == 1);
    CHECK(core_device_attribute(7, 1, &value) == 101);
    CHECK(core_context_retain(core_context_primary(7)) == 201);
}

/* A server of an earlier release does not know the wish, and no other GPU obeys it. */
static void body_capability(bool software)
{
    fake_options.software = software;
    setenv("FLYT_SOFTGPU_CC", "9.0", 1);
    setenv("FLYT_LOG", "info", 1);
    fake_start();
    int major = 0;
    CHECK(core_device_attribute(0, 75, &major) == 0 && major == 13);
    CHECK(fake_told >> FLYT_COMPUTE_SHIFT == (90 | FLYT_COMPUTE_INSISTS));
}

static void body_capability_before(void) { body_capability(true); }
static void body_capability_other(void) { body_capability(false); }

TEST(capability_is_a_wish)
{
    says(body_capability_before, "compute capability 13.0, the GPU server's choice; FLYT_SOFTGPU_CC asks for 9.0, "
                                 "which this server does not obey");
    says(body_capability_other, "compute capability 13.0, the GPU's own");
}

static void body_window(void)
{
    fake_options.bad_windows = 3;
    fake_start();
    CHECK(core_attach() == 0);
    CHECK(fake_calls[FLYT_WINDOW] == 3);
    uint64_t address;
    CHECK(core_memory_allocate(on(0), 100, &address) == 0);
    CHECK(address - core_session.window < core_session.window_size);
}

static void body_window_own(void)
{
    uint64_t address;
    fake_options.bad_windows = 1;
    fake_options.no_windows = true;
    fake_start();
    CHECK(core_attach() == 0 && fake_calls[FLYT_WINDOW] == 1 && fake_calls[FLYT_WINDOW_TAKE] == 1);
    CHECK(core_memory_allocate(on(0), 100, &address) == 0);
    CHECK(address - core_session.window < core_session.window_size);
}

static void body_visible(void)
{
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    fake_start();
    int count;
    CHECK(core_device_count(&count) == 0 && count == 1);
    CHECK(strcmp(core_device(0)->name, "Fake 1") == 0);
    uint64_t address;
    CHECK(core_memory_allocate(on(0), 100, &address) == 0);
    CHECK(fake_mapped[1] && !fake_mapped[0]);
}

static void body_invisible(void)
{
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    fake_start();
    int count;
    CHECK(core_device_count(&count) == 0 && count == 0);
    CHECK(!core_context_primary(0) && core_context_retain(NULL) == 201);
}

TEST(attaching)
{
    assert_int_equal(isolated(body_attach, 60), 0);
    assert_int_equal(isolated(body_window, 60), 0);
    assert_int_equal(isolated(body_window_own, 60), 0);
    assert_int_equal(isolated(body_visible, 60), 0);
    assert_int_equal(isolated(body_invisible, 60), 0);
}

/* ---- fork ---- */

static void in_child(void)
{
    int count;
    uint64_t address;
    struct core_range range;
    core_image *image;
    core_function *function;
    CHECK(core_forked());
    CHECK(core_attach() == 3 && core_device_count(&count) == 3 && core_memory_allocate(on(0), 64, &address) == 3);
    CHECK(core_context_synchronize(on(0)) == 3 && core_stream_synchronize(on(0), 0) == 3);
    CHECK(!core_address_lookup(0x300000000000, &range));
    CHECK(core_image_add("x", &image) == 0 && core_function_add(image, "f", &function) == 0);
    CHECK(core_launch(on(0), &(struct core_launch){ .function = function }) == 3);
    core_image_remove(image);
    exit(0);                                  /* with all destructors */
}

static void body_fork(void)
{
    fake_start();
    uint64_t address;
    uint32_t value = 7, back = 0;
    CHECK(core_memory_allocate(on(0), 64, &address) == 0);
    CHECK(copy_in(on(0), 0, address, &value, 4, true) == 0);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (!child)
            in_child();
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        CHECK(copy_out(on(0), 0, &back, address, 4, true) == 0 && back == 7);
    }
    CHECK(!core_forked());
}

static _Atomic bool stop;

static void *busy(void *unused)
{
    (void)unused;
    core_image *image;
    core_function *f;
    for (int i = 0; !stop; i++) {
        uint64_t address;
        char byte = 1;
        CHECK(core_memory_allocate(on(0), 1000, &address) == 0 &&
              copy_in(on(0), 0, address, &byte, 1, false) == 0);
        CHECK(copy_out(on(0), 0, &byte, address, 1, true) == 0 && core_memory_free(address) == 0);
        if (i < 500)
            CHECK(core_image_add(".version", &image) == 0 && core_function_add(image, "f", &f) == 0);
    }
    return NULL;
}

/* Other threads hold every lock now and then when the fork happens. */
__attribute__((unused)) static void body_fork_busy(void)
{
    fake_start();
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, busy, NULL);
    CHECK(core_attach() == 0);
    for (int i = 0; i < 40; i++) {
        pid_t child = fork();
        if (!child)
            in_child();
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    stop = true;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

__attribute__((unused)) static void body_fork_first(void)
{
    fake_start();
    setenv("FLYT_SERVER", "unix:///tmp/flyt-test-nobody.sock", 1);
    pid_t child = fork();
    if (!child)
        _exit(core_forked() ? 1 : core_attach() == 802 ? 0 : 2);      /* its own attempt */
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

TEST(forking)
{
    assert_int_equal(isolated(body_fork, 60), 0);
/* which allows no new thread in the child of a process with threads */
#ifndef __SANITIZE_THREAD__
    assert_int_equal(isolated(body_fork_first, 60), 0);
#endif
/* whose allocator may stay locked in the child of a process with threads */
#ifndef __SANITIZE_ADDRESS__
    assert_int_equal(isolated(body_fork_busy, 60), 0);
#endif
}

/* ---- signals: the core's threads take none of the program's ---- */

static pthread_t program_thread;
static _Atomic int taken;

static void on_signal(int number)
{
    (void)number;
    if (!pthread_equal(pthread_self(), program_thread))
        taken = 100;
    taken++;
}

static void nothing(void *user, int status)
{
    (void)user;
    (void)status;
}

static void body_signals(void)
{
    sigset_t one, before = { 0 }, after = { 0 };
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    fake_start();
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    CHECK(core_attach() == 0 && core_host_function(on(0), 0, nothing, NULL, false) == 0 &&
          core_context_synchronize(on(0)) == 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    CHECK(memcmp(&before, &after, sizeof before) == 0);
    program_thread = pthread_self();
    signal(SIGUSR1, on_signal);
    pthread_sigmask(SIG_BLOCK, &one, NULL);
    for (int i = 0; i < 20; i++) {
        kill(getpid(), SIGUSR1);              /* nobody may take it while this thread does not */
        usleep(1000);
        CHECK(taken == 0);
    }
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    CHECK(taken == 1);
}

TEST(signals)
{
    assert_int_equal(isolated(body_signals, 60), 0);
}

/* ---- loss ---- */

/* Uses the session in every way until it is lost; then everything gives 46, quickly. */
static void use_until_lost(void)
{
    fake_start();
    session_dead_seconds = 1;
    uint64_t a = 0;
    char buffer[64] = "x";
    void *pinned = NULL;
    core_stream s = 0;
    core_event e = 0;
    core_image *image;
    core_function *f;
    core_image_add(".version 9.0", &image);
    core_function_add(image, "hold", &f);
    core_memory_allocate(on(0), 64, &a);
    core_host_allocate(64, 0, &pinned);
    core_stream_create(on(0), 0, 0, &s);
    core_event_create(on(0), 0, &e);
    copy_in(on(0), s, a, buffer, 64, false);
    core_event_record(on(0), e, s, 0);
    copy_out(on(0), s, pinned ? pinned : buffer, a, 64, false);
    core_stream_synchronize(on(0), s);
    core_event_synchronize(e);
    core_launch(on(0), &(struct core_launch){ .function = f, .stream = s, .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } });
    core_context_synchronize(on(0));
    copy_out(on(0), 0, buffer, a, 64, true);
    if (core_attach())
        exit(0);                              /* it never got so far: told at attach */
    double before = now_s();
    CHECK(core_sticky() == 46);
    CHECK(copy_out(on(0), 0, buffer, a, 64, true) == 46);
    CHECK(core_context_synchronize(on(0)) == 46 && core_stream_query(on(0), s) == 46 && core_event_query(e) == 46);
    CHECK(core_memory_free(a) == 46 && core_memory_allocate(on(0), 64, &a) == 46 && core_stream_destroy(s) == 46);
    CHECK(core_context_reset(on(0)) == 46);
    core_image_remove(image);
    CHECK(now_s() - before < 0.5);
}

TEST(loss_at_each_stage)
{
    static const uint32_t stages[] = { FLYT_EVENTS, FLYT_CONTEXT_RETAIN, FLYT_MAP, FLYT_STREAM_CREATE,
                                       FLYT_EVENT_CREATE, FLYT_COPY_IN,
                                       FLYT_EVENT_RECORD, FLYT_COPY_OUT, FLYT_STREAM_SYNC, FLYT_IMAGE, FLYT_IMAGE_DATA,
                                       FLYT_MODULE_LOAD, FLYT_FUNCTION_GET, FLYT_LAUNCH };
    for (unsigned i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        static char output[65536];
        fake_options = (struct fake_options){ .close_at = stages[i] };
        assert_int_equal(isolated_output(use_until_lost, 60, output, sizeof output), 0);
        assert_true(strstr(output, "is lost") || strstr(output, "went away"));
    }
    static const uint32_t mute[] = { FLYT_CONTEXT_RETAIN, FLYT_STREAM_SYNC, FLYT_LAUNCH };
    for (unsigned i = 0; i < sizeof mute / sizeof mute[0]; i++) {
        fake_options = (struct fake_options){ .silent_from = mute[i] };
        says(use_until_lost, "is lost");
    }
    static const uint32_t garbage[] = { FLYT_CONTEXT_RETAIN, FLYT_MAP, FLYT_COPY_OUT, FLYT_EVENTS, FLYT_MODULE_LOAD };
    for (unsigned i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        fake_options = (struct fake_options){ .garbage_at = garbage[i] };
        assert_int_equal(isolated(use_until_lost, 60), 0);
    }
    fake_options = (struct fake_options){ 0 };
}

static void *wait_for_ever(void *unused)
{
    (void)unused;
    CHECK(core_context_synchronize(on(0)) == 46);
    return NULL;
}

/* A thread waits behind a kernel that does not end; the loss wakes it, and nobody else needs to call. */
static void body_loss_wakes(void)
{
    fake_start();
    core_image *image;
    core_function *f;
    core_image_add(".version 9.0", &image);
    core_function_add(image, "hold", &f);
    CHECK(core_launch(on(0), &(struct core_launch){ .function = f, .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } }) == 0);
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_ever, NULL);
    while (!fake_calls[FLYT_CONTEXT_SYNC])
        usleep(1000);
    fake_cut();
    pthread_join(thread, NULL);
}

TEST(loss_wakes)
{
    says(body_loss_wakes, "is lost");
}

/* ---- the end ---- */

static core_stream late_stream;

static void late(void)
{
    uint64_t address;
    float ms;
    core_event e;
    core_memory_allocate(on(0), 64, &address);
    core_stream_destroy(late_stream);
    core_event_create(on(0), 0, &e);
    core_event_elapsed(e, e, &ms);
    core_context_synchronize(on(0));
}

static void body_exit(void)
{
    setenv("FLYT_STATS", "1", 1);
    atexit(late);
    fake_start();
    CHECK(core_stream_create(on(0), 0, 0, &late_stream) == 0);
    core_count_local();
    struct core_statistics s;
    core_statistics(&s);
    CHECK(s.local == 1 && s.travelled >= 4 && s.waited >= 2 && s.waited < s.travelled && s.bytes_sent > 0 &&
          s.bytes_received > 0);
}

TEST(at_exit)
{
    says(body_exit, "calls travelled");
}

static void body_unsupported(void)
{
    core_unsupported("cudaSomething");
    core_unsupported("cudaSomething");
}

TEST(unsupported_once)
{
    says(body_unsupported, "cudaSomething is not supported");
}

int main(void) { return unit_run(NULL, NULL); }
