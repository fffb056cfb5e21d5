/* A session's code: what a launch checks, images; what kernels print, errors that come late, many threads with every
   switch. Each body in a process of its own. */
#include <pthread.h>
#include <unistd.h>

#include "tests/lib/unit.h"
#include "work.h"

/* ---- code ---- */

static int try_launch(uint32_t gx, uint32_t gy, uint32_t bx, uint32_t by, uint32_t bz, size_t shared, bool cooperative)
{
    return core_launch(on(0), &(struct core_launch){ .function = kernel("hold"),
                                                     .grid = { gx, gy, 1 },
                                                     .block = { bx, by, bz },
                                                     .shared = shared,
                                                     .cooperative = cooperative });
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
    CHECK(fake_calls[FLYT_OCCUPANCY_MAX_ACTIVE_BLOCKS_PER_MULTIPROCESSOR_WITH_FLAGS] == 1);   /* the answer is kept */
    CHECK(core_launch(on(0), &(struct core_launch){ .function = NULL, .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } }) ==
          400);
    CHECK(launch("fill", 0, NULL) == 1);      /* parameters are missing */
    CHECK(launch("absent", 0, NULL) == 500 && launch("absent", 0, NULL) == 500);
    CHECK(fake_calls[FLYT_FUNCTION_GET] == 4); /* failures are kept too; the first came before the image's bytes */
    CHECK(core_function_set(on(0), kernel("hold"), 8, 30000) == 0 && try_launch(1, 1, 1, 1, 1, 30000, false) == 0);
    CHECK(core_function_set(on(0), kernel("hold"), 8, 30000) == 0 && fake_calls[FLYT_FUNC_SET_ATTRIBUTE] == 1);
    CHECK(core_function_set(on(0), kernel("hold"), 8, 20000) == 0 && fake_calls[FLYT_FUNC_SET_ATTRIBUTE] == 2);
    uint64_t a = allocate(64);
    struct { uint64_t address; uint32_t count, value; } packed = { a, 2, 77 };
    struct core_launch l = { .function = kernel("fill"), .grid = { 1, 1, 1 }, .block = { 1, 1, 1 }, .packed = &packed,
                             .packed_size = 16 };
    uint32_t got[2];
    CHECK(core_launch(on(0), &l) == 0 && copy_out(on(0), 0, got, a, 8, true) == 0 && got[0] == 77 && got[1] == 77);
    packed.value = 78;
    l.packed_size = 12;                       /* the last parameter is missing: zero, as NCCL's kernels need it */
    CHECK(core_launch(on(0), &l) == 0 && copy_out(on(0), 0, got, a, 8, true) == 0 && got[0] == 0 && got[1] == 0);
    CHECK(core_context_synchronize(on(0)) == 0 && core_take_latched() == 0);
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
    CHECK(core_variable_add(image, "a", 64, false, &v) == 0 &&
          core_variable_add(image, "missing", 4, false, &missing) == 0);
    CHECK(core_variable_address(on(0), v, &address, &size) == 0 && size == 64);
    CHECK(core_address_lookup(address + 63, &r) && r.kind == CORE_DEVICE_MEMORY && r.base == address &&
          core_memory_free(address) == 1);
    CHECK(core_variable_address(on(0), missing, &address, &size) == 500);
    CHECK(fake_calls[FLYT_MODULE_LOAD] == 2); /* the first came before the image's bytes */
    /* registered late */
    CHECK(core_variable_add(image, "b", 64, false, &w) == 0 && core_variable_address(on(0), w, &address, &size) == 0);
    CHECK(fake_calls[FLYT_MODULE_LOAD] == 3 && fake_calls[FLYT_IMAGE] == 1 && fake_calls[FLYT_IMAGE_DATA] == 1);
    uint64_t other;
    CHECK(core_variable_address(on(1), w, &other, &size) == 0 && other != address);
    const struct core_function_info *info;
    CHECK(core_function_info(on(0), f, &info) == 0 && info->parameter_count == 3 && info->parameter_bytes == 16 &&
          info->max_threads == 512);
    /* A reset takes everything of the device; code comes back by itself. */
    uint64_t a = allocate(64);
    core_stream s;
    core_event e;
    CHECK(core_stream_create(on(0), 0, 0, &s) == 0 && core_event_create(on(0), 0, &e) == 0);
    CHECK(core_context_reset(on(0)) == 0 && !core_context_active(core_context_primary(0)));
    CHECK(core_memory_free(a) == 1 && core_stream_query(on(0), s) == 400 && core_event_query(e) == 400);
    CHECK(!core_address_lookup(address, &r) && core_address_lookup(other, &r));
    a = allocate(64);
    CHECK(core_launch(on(0), &(struct core_launch){ .function = f, .grid = { 1, 1, 1 }, .block = { 1, 1, 1 },
                                                .arguments = (void *[]){ &a, &(uint32_t){ 1 },
                                                                         &(uint32_t){ 2 } } }) == 0);
    CHECK(core_variable_address(on(0), v, &address, &size) == 0);
    core_image_remove(image);
    CHECK(core_context_synchronize(on(0)) == 0 && fake_calls[FLYT_MODULE_UNLOAD] == 2);
    CHECK(core_function_info(on(0), f, &info) == 400 && core_variable_address(on(0), v, &address, &size) == 400);
    CHECK(!core_address_lookup(other, &r));
    core_image *bad;
    CHECK(core_image_add("this is not code at all", &bad) == 0 && core_function_add(bad, "fill", &f) == 0);
    CHECK(core_function_info(on(0), f, &info) == 200);
}

/* An image of about so many bytes, none like another. */
static core_image *image_of(size_t size)
{
    static int number;
    char *text = malloc(size + 64);
    CHECK(text);
    memset(text, ' ', size);
    snprintf(text + size, 64, ".version 9.0 // %d", number++);
    core_image *image;
    CHECK(core_image_add(text, &image) == 0); /* it stays, and so does its text */
    return image;
}

/* The first kernel of an image: what of it travelled how often, and with which result. */
static int first_use(core_image *image, const char *name, unsigned loads, unsigned data)
{
    const struct core_function_info *info;
    uint64_t loaded = fake_calls[FLYT_MODULE_LOAD], sent = fake_calls[FLYT_IMAGE_DATA];
    core_function *f;
    CHECK(core_function_add(image, name, &f) == 0);
    int code = core_function_info(on(0), f, &info);
    CHECK(fake_calls[FLYT_MODULE_LOAD] == loaded + loads && fake_calls[FLYT_IMAGE_DATA] == sent + data);
    return code;
}

static void body_first_use(void)
{
    fake_options.lacks_images = true;
    fake_start();
    CHECK(first_use(image_of(100), "fill", 2, 1) == 0);
    CHECK(first_use(image_of(100), "fill", 1, 1) == 0);           /* the bytes go along */
    CHECK(first_use(image_of((1 << 20) + 1), "fill", 2, 2) == 0); /* but not so many */
    CHECK(first_use(image_of(100), "absent", 1, 1) == 500);
    fake_options.lacks_images = false;
    CHECK(first_use(image_of(100), "fill", 1, 1) == 0); /* in vain */
    CHECK(first_use(image_of(100), "fill", 1, 0) == 0);
    fake_options.refuses_modules = 209;
    core_image *image = image_of(100);
    CHECK(first_use(image, "fill", 1, 0) == 209 && first_use(image, "hold", 0, 0) == 209);
    fake_options.refuses_modules = 2;
    CHECK(first_use(image = image_of(100), "fill", 1, 0) == 2);
    fake_options.refuses_modules = 0;
    CHECK(first_use(image, "fill", 1, 0) == 0); /* another try after "out of memory" */
    CHECK(core_take_latched() == 0);
}

ISOLATED(code, body_launch_checks, body_images, body_first_use)

/* ---- text and latched errors ---- */

static void body_text(void)
{
    fake_options.print = "from the kernel\n";
    fake_start();
    uint64_t a = allocate(64);
    setvbuf(stdout, NULL, _IOFBF, 65536);
    printf("before\n");
    CHECK(fill(0, a, 1, 1) == 0 && core_context_synchronize(on(0)) == 0);
    printf("after\n");
    fake_options.print = NULL;
    fake_say("by itself\n");
    usleep(300000);
}

TEST(text)
{
    static char output[4096];
    assert_int_equal(isolated_output(body_text, 60, output, sizeof output), 0);
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
    CHECK(core_context_synchronize(on(0)) == 0);
    CHECK(core_take_latched() == 716 && core_take_latched() == 0 && core_sticky() == 0);
}

ISOLATED(latched, body_latched)

/* ---- many threads, every switch ---- */

static void *worker(void *argument)
{
    uint32_t mine = (uint32_t)(uintptr_t)argument, got[64];
    core_stream s;
    void *pinned;
    CHECK(core_stream_create(on(0), 1, 0, &s) == 0 && core_host_allocate(256, 0, &pinned) == 0);
    for (uint32_t i = 0; i < 100; i++) {
        uint64_t a;
        CHECK(core_memory_allocate(on(0), 256, &a) == 0);
        CHECK(fill(i % 2 ? s : CORE_STREAM_PER_THREAD, a, 64, mine * 1000 + i) == 0);
        if (i % 5 == 0) {
            CHECK(core_stream_synchronize(on(0), i % 2 ? s : CORE_STREAM_PER_THREAD) == 0);
            CHECK(copy_out(on(0), s, pinned, a, 256, false) == 0 && core_stream_synchronize(on(0), s) == 0);
            memcpy(got, pinned, 256);
        } else {
            CHECK(copy_out(on(0), i % 2 ? s : CORE_STREAM_PER_THREAD, got, a, 256, true) == 0);
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

TEST(threads)
{
    static const char *const all[] = { "", "no_async", "no_batch", "no_cache", "no_pipeline" };
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
        switches = all[i];
        assert_int_equal(isolated(body_threads, 60), 0);
    }
}

int main(void) { return unit_run(NULL, NULL); }
