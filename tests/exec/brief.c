/* shows: Software GPU, short kernels: the launching thread runs them; others take over what is not short after all */
/* brief.c: kernels that are known to be short run in the thread that has launched them (sg_hold, sg_run). How long a
 * kernel of these tests takes does not matter: the setting says that all are short. */
#include "tests/exec/main.h"

#include <pthread.h>
#include <semaphore.h>

static struct gpu_running *begin(const char *kernel, uint32_t grid, void *out)
{
    struct gpu_shape shape = { { grid, 1, 1 }, { 64, 1, 1 }, 0, 0, { 0 } };
    uint64_t argument = ARG(out);
    return gpu_begin(kernel, &shape, 1, &argument);
}

/* [1]: how many threads there were. Waits until [0] is not 0. */
#define WAITS       \
    KERNEL("waits", \
           "W: ld.volatile.global.u32 r4, [a0]; setp.eq.u32 p1, r4, 0;\n@p1 bra W;\nred.global.add.u32 [a0+4], 1;")
/* A fault if [0] is 2. */
#define FAILS                                                                                                   \
    KERNEL("fails", "ld.global.u32 r4, [a0]; setp.ne.u32 p1, r4, 2; red.global.add.u32 [a0+4], 1;\n@p1 ret;\n" \
                    "trap;")

/* Once, so that the engine knows how long it takes. */
static uint32_t *known(const char *kernel)
{
    uint32_t *out = gpu_alloc(64);
    out[0] = 1;
    assert_int_equal(gpu_wait(begin(kernel, 1, out), 20), CUDA_SUCCESS);
    assert_int_equal(out[1], 64);
    return out;
}

/* A thread of the engine that has just ended another grid may still be awake, and take a block. */
EXEC_TEST(a_short_kernel_runs_where_it_was_launched)
{
    enum { TRIES = 10000, BLOCKS = 16 };
    gpu_load(WAITS);
    uint32_t *out = known("waits"), grids = 0;
    for (bool here = false; !here && grids < TRIES; grids++) {
        sg_hold();
        struct gpu_running *r = begin("waits", BLOCKS, out);
        sg_run(true);
        here = gpu_ended_here(r);
        assert_int_equal(gpu_wait(r, 20), CUDA_SUCCESS);
    }
    assert_in_range(grids, 1, TRIES - 1);
    assert_int_equal(out[1], 64 * (1 + grids * BLOCKS));
}

EXEC_TEST(a_thread_may_leave_it_to_others)
{
    gpu_load(WAITS);
    uint32_t *out = known("waits");
    sg_hold();
    struct gpu_running *r = begin("waits", 16, out);
    sg_run(false);
    assert_int_equal(gpu_wait(r, 20), CUDA_SUCCESS);
    assert_int_equal(out[1], 64 * 17);
    sg_run(true);                                         /* there is nothing to run */
}

/* Nobody knows how long they take. */
EXEC_TEST(new_kernels_begin_at_once)
{
    gpu_load(WAITS KERNEL("sets", "st.volatile.global.u32 [a0], 1;"));
    uint32_t *out = gpu_alloc(64);
    sg_hold();
    struct gpu_running *first = begin("waits", 4, out), *second = begin("sets", 1, out);
    assert_int_equal(gpu_wait(second, 20), CUDA_SUCCESS);
    assert_int_equal(gpu_wait(first, 20), CUDA_SUCCESS);
    sg_run(true);
}

/* It was short, and now waits for what the launching thread does later. */
EXEC_TEST(a_kernel_that_is_no_more_short_goes_on_elsewhere)
{
    gpu_load(WAITS);
    uint32_t *out = known("waits");
    __atomic_store_n(&out[0], 0, __ATOMIC_RELAXED);
    sg_hold();
    struct gpu_running *r = begin("waits", 16, out);
    sg_run(true);
    assert_false(gpu_ended_here(r));
    __atomic_store_n(&out[0], 1, __ATOMIC_RELAXED);
    assert_int_equal(gpu_wait(r, 20), CUDA_SUCCESS);
    assert_int_equal(__atomic_load_n(&out[1], __ATOMIC_RELAXED), 64 * 17);
}

EXEC_TEST(a_fault_is_reported)
{
    gpu_load(FAILS);
    uint32_t *out = known("fails");
    out[0] = 2;
    sg_hold();
    struct gpu_running *r = begin("fails", 16, out);
    sg_run(true);
    assert_int_equal(gpu_wait(r, 20), CUDA_ERROR_LAUNCH_FAILED);
    out[0] = 1;
    assert_int_equal(gpu_wait(begin("fails", 16, out), 20), CUDA_SUCCESS);
}

/* Threads that run their own kernels, and threads of the engine, at the same time. */
static void *runs_many(void *out)
{
    for (int k = 0; k < 300; k++) {
        struct gpu_running *r[3];
        sg_hold();
        for (int i = 0; i < 3; i++)
            r[i] = begin("waits", 1 + (uint32_t)(k + i) % 5, out);
        sg_run(k % 4 != 0);
        for (int i = 0; i < 3; i++)
            if (gpu_wait(r[i], 60))
                return "failed";
    }
    return NULL;
}
EXEC_TEST(several_threads_run_kernels)
{
    enum { THREADS = 3 };
    gpu_load(WAITS);
    uint32_t *out[THREADS];
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++)
        out[i] = known("waits");
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, runs_many, out[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(t[i], &failed);
        assert_null(failed);
        assert_int_equal(out[i][1], 64 * (1 + 3 * 900));
    }
}

/* An engine of its own, and one kernel. */
struct other { sg_engine *engine; sg_program *program; sg_kernel *kernel; sem_t over, ends; };

static void other_open(struct other *o)
{
    static const char ptx[] =
        ".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n";
    struct ptx_source source = { .text = ptx, .size = sizeof ptx - 1, .name = "test" };
    struct ptx_module *m;
    char log[512] = "";
    assert_int_equal(ptx_module_read_later(&source, 1, &m, log, sizeof log), 0);
    assert_int_equal(sg_engine_create(gpu_limits(), 0, 2, 0, &o->engine), CUDA_SUCCESS);
    assert_int_equal(sg_program_create(o->engine, m, NULL, NULL, &o->program), CUDA_SUCCESS);
    assert_int_equal(sg_program_kernel(o->program, "k", &o->kernel, log, sizeof log), CUDA_SUCCESS);
    sem_init(&o->over, 0, 0);
    sem_init(&o->ends, 0, 0);
}

static void is_over(void *context, int error)
{
    struct other *o = context;
    assert_int_equal(error, CUDA_SUCCESS);
    sem_post(&o->over);
    sem_wait(&o->ends);
}

static void other_launch(struct other *o)
{
    struct sg_launch launch = {
        .kernel = o->kernel, .grid = { 1, 1, 1 }, .block = { 32, 1, 1 }, .done = is_over, .context = o
    };
    assert_int_equal(sg_engine_launch(o->engine, &launch), CUDA_SUCCESS);
}

static void *runs_one(void *context)
{
    sg_hold();
    other_launch(context);
    sg_run(true);
    return NULL;
}

/* An engine may be destroyed when the last grid has ended: a thread that has run it may still be inside. */
EXEC_TEST(an_engine_waits_for_threads_that_run_its_kernels)
{
    for (int k = 0; k < 50; k++) {
        struct other o;
        pthread_t thread;
        other_open(&o);
        other_launch(&o);                                 /* the engine learns how long it takes */
        sem_post(&o.ends);
        sem_wait(&o.over);
        assert_int_equal(pthread_create(&thread, NULL, runs_one, &o), 0);
        sem_wait(&o.over);
        sg_program_destroy(o.program);
        sem_post(&o.ends);
        sg_engine_destroy(o.engine);
        pthread_join(thread, NULL);
    }
}

static int setup(void **state)
{
    setenv("FLYT_SOFTGPU_BRIEF", "10000000", 1);
    return exec_setup(state);
}

int main(void) { return unit_run(setup, exec_teardown); }
