/* Contexts that the program has before the server has answered (context_life.c). Each body in a process of its own. */
#include <pthread.h>

#include "cpu/client/core/code/code.h"
#include "cpu/client/core/stream/context.h"
#include "tests/lib/unit.h"
#include "work.h"

static core_context *attached(int refusals)
{
    fake_options.room = true;
    fake_options.refuses_contexts = refusals;
    fake_start();
    CHECK(core_attach() == 0);
    return core_context_primary(0);
}

static bool promised(const core_context *c) { return atomic_load(&c->live) == CONTEXT_PROMISED; }

/* The context, its memory and the program's code are asked for at once, and nothing is waited for. */
static void body_kept(void)
{
    core_context *c = attached(0);
    core_function *f = kernel("fill");
    struct core_context_info info;
    uint64_t a;
    CHECK(core_context_retain(c) == 0 && promised(c));
    CHECK(core_context_active(c) && core_context_check(c) == 0 && core_context_enter(c) == 0 && promised(c));
    CHECK(core_context_info(c, &info) == 0 && info.active && info.owners == 1 && promised(c));
    CHECK(core_memory_allocate(c, 64, &a) == 0 && !promised(c));
    CHECK(fake_calls[FLYT_CONTEXT_RETAIN] == 1 && fake_calls[FLYT_MAP] == 1);
    CHECK(core_function_check(f, NULL, NULL) == 0 && fill(0, a, 4, 7) == 0);
    CHECK(core_context_synchronize(c) == 0);
    CHECK(core_context_release(c) == 0 && fake_calls[FLYT_CONTEXT_RELEASE] == 1 && !fake_mapped[0]);
    /* Once: what the server said has grown old. */
    CHECK(core_context_retain(c) == 0 && !promised(c) && fill(0, a, 0, 0) == 0);
}

static void body_no_room(void)
{
    fake_start();
    core_context *c = core_context_primary(0);
    CHECK(core_context_retain(c) == 0 && !promised(c));
}

static void body_switched_off(void)
{
    setenv("FLYT_PERF", "no_ahead", 1);
    core_context *c = attached(0);
    CHECK(core_context_retain(c) == 0 && !promised(c));
}

/* The server refuses: the calls that need the context say so, and ask again. */
static void body_refused(void)
{
    core_context *c = attached(3);
    core_stream s;
    core_event e;
    uint64_t a;
    kernel("fill");
    CHECK(core_context_retain(c) == 0);
    CHECK(core_memory_allocate(c, 64, &a) == 2 && core_context_enter(c) == 0 && core_take_latched() == 0);
    CHECK(core_stream_create(c, 0, 0, &s) == 2 && core_event_create(c, 0, &e) == 2 && promised(c));
    CHECK(fake_calls[FLYT_CONTEXT_RETAIN] == 3 && core_sticky() == 0);
    CHECK(core_memory_allocate(c, 64, &a) == 0 && !promised(c) && fill(0, a, 4, 7) == 0);
    CHECK(core_context_synchronize(c) == 0 && core_take_latched() == 0);
    CHECK(core_context_release(c) == 0 && fake_calls[FLYT_CONTEXT_RELEASE] == 1);
    CHECK(code_modules() == 0 && code_functions() == 0);
}

/* The first call that needs it is a launch. */
static void body_refused_launch(void)
{
    core_context *c = attached(1);
    core_function *f = kernel("hold");
    CHECK(core_context_retain(c) == 0);
    struct core_launch l = { .function = f, .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } };
    CHECK(core_launch(c, &l) == 2 && core_launch(c, &l) == 0);
    fake_release();
    CHECK(core_context_synchronize(c) == 0 && core_take_latched() == 0);
}

/* The server knows nothing of a context that it has refused, and is not told of its end. fake.c ends if it is. */
static void body_refused_ends(void)
{
    core_context *c = attached(2), *other;
    uint64_t a;
    kernel("fill");
    CHECK(core_context_retain(c) == 0 && core_context_retain(c) == 0 && core_context_release(c) == 0);
    CHECK(core_context_release(c) == 0 && core_context_check(c) == 709 && core_context_release(c) == 201);
    CHECK(fake_calls[FLYT_CONTEXT_RETAIN] == 1 && !fake_calls[FLYT_CONTEXT_RELEASE]);
    fake_options.refuses_contexts = 0;
    CHECK(core_context_retain(c) == 0 && !promised(c) && core_memory_allocate(c, 64, &a) == 0);
    fake_options.refuses_contexts = 1;
    CHECK(core_context_create(1, 0, &other) == 0 && promised(other));
    CHECK(core_context_destroy(other) == 0 && core_context_check(other) == 709);
    CHECK(!fake_calls[FLYT_CONTEXT_DESTROY] && code_modules() == 0);
}

static void body_refused_reset(void)
{
    core_context *c = attached(1);
    uint64_t a;
    CHECK(core_context_retain(c) == 0 && core_context_reset(c) == 0 && core_context_check(c) == 709);
    CHECK(!fake_calls[FLYT_CONTEXT_RESET] && core_context_release(c) == 0);
    CHECK(core_context_retain(c) == 0 && core_memory_allocate(c, 64, &a) == 0);
}

/* The answer has not been taken when the context ends. */
static void body_ends_at_once(void)
{
    core_context *c = attached(0), *other;
    uint64_t a;
    kernel("fill");
    CHECK(core_context_create(0, 0, &other) == 0 && promised(other) && core_context_destroy(other) == 0);
    CHECK(fake_calls[FLYT_CONTEXT_DESTROY] == 1 && !fake_mapped[0] && code_modules() == 0 && code_functions() == 0);
    CHECK(core_context_retain(core_context_primary(1)) == 0 && promised(core_context_primary(1)));
    CHECK(core_context_reset(core_context_primary(1)) == 0 && fake_calls[FLYT_CONTEXT_RESET] == 1 && !fake_mapped[1]);
    CHECK(core_context_retain(c) == 0 && core_memory_allocate(c, 64, &a) == 0 && fill(0, a, 1, 1) == 0);
    CHECK(core_context_synchronize(c) == 0);
}

/* A module that the program loads travels with the context, and brings its kernels. */
static void body_module(void)
{
    core_context *c = attached(0);
    core_image *image;
    core_function *f;
    uint64_t calls;
    CHECK(core_context_retain(c) == 0 && promised(c));
    CHECK(core_image_add_copy(".version 9.0\n.visible .entry fill(\n.entry hold\n", 0, &image) == 0);
    CHECK(core_image_load(c, image, NULL) == 0 && !promised(c) && code_modules() == 1 && code_functions() == 2);
    calls = fake_calls[FLYT_FUNCTION_GET];
    CHECK(calls >= 2 && core_function_find(c, image, "fill", &f) == 0 && core_function_find(c, image, "hold", &f) == 0);
    CHECK(fake_calls[FLYT_FUNCTION_GET] == calls && core_function_find(c, image, "absent", &f) == 500);
    core_image_remove(image);
    CHECK(code_modules() == 0 && code_functions() == 0);
}

/* A kernel that cannot be had, and that the program does not ask for, is no error of the module. */
static void body_module_with_another(void)
{
    core_context *c = attached(0);
    core_image *image;
    core_function *f;
    CHECK(core_context_retain(c) == 0);
    CHECK(core_image_add_copy(".version 9.0\n.entry absent(\n.entry hold(\n", 0, &image) == 0);
    CHECK(core_image_load(c, image, NULL) == 0 && core_function_find(c, image, "hold", &f) == 0);
    CHECK(core_function_find(c, image, "absent", &f) == 500);
    core_image_remove(image);
    CHECK(code_modules() == 0 && code_functions() == 0);
}

/* A module of a context that is refused. */
static void body_module_refused(void)
{
    core_context *c = attached(1);
    core_image *image;
    CHECK(core_context_retain(c) == 0);
    CHECK(core_image_add_copy(".version 9.0\n.entry fill(\n", 0, &image) == 0);
    CHECK(core_image_load(c, image, NULL) == 2 && code_modules() == 0 && code_functions() == 0);
    CHECK(core_image_load(c, image, NULL) == 0 && code_modules() == 1 && core_take_latched() == 0);
}

/* An image that came with the context is removed before anything used it; and one that the server cannot load. */
static void body_unused(void)
{
    core_context *c = attached(0);
    core_image *image;
    uint64_t a;
    CHECK(core_image_add("// code\n.version 9.0\n.entry fill(\n", &image) == 0);
    CHECK(core_context_retain(c) == 0 && core_memory_allocate(c, 64, &a) == 0);
    core_image_remove(image);
    CHECK(core_context_synchronize(c) == 0 && core_take_latched() == 0 && code_modules() == 0 && code_functions() == 0);
}

static void body_bad_code(void)
{
    fake_options.refuses_modules = 218;
    core_context *c = attached(0);
    core_function *f = kernel("fill");
    uint64_t a;
    CHECK(core_context_retain(c) == 0 && core_memory_allocate(c, 64, &a) == 0 && core_context_synchronize(c) == 0);
    CHECK(core_function_check(f, NULL, NULL) == 0 && fill(0, a, 1, 1) == 218 && core_take_latched() == 0);
}

/* A move or a suspend awaits what was loaded ahead. A refusal is the program's only when it wants the image. */
static void body_settled(void)
{
    fake_options.refuses_modules = 218;
    core_context *c = attached(0);
    core_function *f = kernel("fill");
    uint64_t a;
    CHECK(core_context_retain(c) == 0 && core_memory_allocate(c, 64, &a) == 0);
    context_settle_promises();
    code_settle();
    CHECK(fake_calls[FLYT_MODULE_LOAD] > 0);
    fprintf(stderr, "settled\n");
    CHECK(core_function_check(f, NULL, NULL) == 0 && fill(0, a, 1, 1) == 218 && core_take_latched() == 0);
}

TEST(a_refusal_is_printed_when_the_image_is_wanted)
{
    char output[4096];
    assert_int_equal(isolated_output(body_settled, 20, output, sizeof output), 0);
    const char *settled = strstr(output, "settled\n"), *printed = strstr(output, "cannot be used on the GPU server");
    assert_non_null(settled);
    assert_non_null(printed);
    assert_true(printed > settled);
}

/* Many images: each is loaded when it is used, as before. */
static void body_many_images(void)
{
    core_context *c = attached(0);
    core_image *image;
    uint64_t a;
    for (int i = 0; i < 5; i++)
        CHECK(core_image_add("// one of many\n.version 9.0\n.entry fill(\n", &image) == 0);
    CHECK(core_context_retain(c) == 0 && promised(c) && core_memory_allocate(c, 64, &a) == 0);
    CHECK(core_context_synchronize(c) == 0 && !fake_calls[FLYT_IMAGE] && !fake_calls[FLYT_MODULE_LOAD]);
}

enum { THREADS = 8 };

static void *retain_and_use(void *context)
{
    core_context *c = context;
    uint64_t a;
    CHECK(core_context_retain(c) == 0 && core_memory_allocate(c, 64, &a) == 0 && core_memory_free(a) == 0);
    CHECK(core_context_release(c) == 0);
    return NULL;
}

static void body_threads(void)
{
    core_context *c = attached(0);
    pthread_t threads[THREADS];
    kernel("fill");
    CHECK(core_context_retain(c) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, retain_and_use, c) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(fake_calls[FLYT_CONTEXT_RETAIN] == 1 && core_context_release(c) == 0);
    CHECK(fake_calls[FLYT_CONTEXT_RELEASE] == 1 && !fake_mapped[0]);
}

/* The server goes away before it has answered. */
static void body_lost(void)
{
    fake_options.close_at = FLYT_CONTEXT_RETAIN;
    core_context *c = attached(0);
    uint64_t a;
    kernel("fill");
    CHECK(core_context_retain(c) == 0 || core_sticky() == 46);
    CHECK(core_memory_allocate(c, 64, &a) == 46 && core_sticky() == 46);
}

ISOLATED(promises, body_kept, body_no_room, body_switched_off, body_refused, body_refused_launch, body_refused_ends,
     body_refused_reset, body_ends_at_once, body_module, body_module_with_another, body_module_refused, body_unused,
     body_bad_code, body_many_images, body_threads, body_lost)

int main(void) { return unit_run(NULL, NULL); }
