/* harness.c: see harness.h. The rights of a window are what softgpu/driver/machine/ would keep; here one window, always
 * open. */
#include "tests/exec/harness.h"

#include <cuda.h>
#include <pthread.h>
#include <time.h>

#include "tests/exec/device.h"
#include "tests/exec/record.h"

enum { WINDOW = 256 << 20, MAPPED = 192 << 20, MODULES = 64 };

static struct {
    sg_engine *engine;
    sg_heap *heap;
    sg_print *print;
    struct sg_limits limits;
    size_t stack;
    const void *space;
    unsigned char *base;
    size_t used;
    sg_program *programs[MODULES];
    unsigned program_count, selected;
    uint64_t addresses[4096]; /* of the variables of the module loaded last */
} gpu;

sg_engine *gpu_engine(void) { return gpu.engine; }
sg_print *gpu_print(void) { return gpu.print; }
void gpu_set_stack(size_t bytes) { gpu.stack = bytes; }
void gpu_set_space(const void *space) { gpu.space = space; }
unsigned gpu_module(void) { return gpu.program_count - 1; }
void gpu_select(unsigned module) { gpu.selected = module; }

void gpu_unload(unsigned module)
{
    record_forget(module);
    sg_program_destroy(gpu.programs[module]);
    gpu.programs[module] = NULL;
}

void gpu_start(const struct gpu_config *c)
{
    static _Atomic uint8_t rights[WINDOW >> SG_GRANULE_SHIFT];
    gpu.base = device_window_at(record_wanted() ? RECORD_BASE : 0, WINDOW, rights, 0, MAPPED >> SG_GRANULE_SHIFT);
    assert_non_null(gpu.base);
    gpu.limits = device_limits(4, (size_t)1 << 30);
    assert_int_equal(sg_engine_create(&gpu.limits, 0, c->threads, c->chaos, &gpu.engine), CUDA_SUCCESS);
    gpu.stack = c->stack ? c->stack : 1024;
    assert_non_null(gpu.print = sg_print_create());
    if (c->fifo)
        sg_print_resize(gpu.print, c->fifo);
    if (c->heap)                                      /* at the end of the mapped part */
        assert_non_null(gpu.heap = sg_heap_create((uintptr_t)gpu.base + MAPPED - c->heap, c->heap));
}

void gpu_reset(void)
{
    while (gpu.program_count) {
        sg_program_destroy(gpu.programs[--gpu.program_count]);
        record_forget(gpu.program_count);
    }
    gpu.used = 0;
    gpu.space = NULL;
}

void gpu_stop(void)
{
    gpu_reset();
    sg_engine_destroy(gpu.engine);
    sg_heap_destroy(gpu.heap);
    sg_print_destroy(gpu.print);
    gpu.engine = NULL;
    gpu.heap = NULL;
    gpu.print = NULL;
}

void *gpu_alloc(size_t size)
{
    gpu.used = (gpu.used + 255) & ~(size_t)255;
    void *p = gpu.base + gpu.used;
    gpu.used += size;
    assert_true(gpu.used < MAPPED - (32 << 20));
    memset(p, 0, size);
    return p;
}

static struct ptx_module *read_module(const char *ptx)
{
    char log[1024] = "", *whole = NULL;
    const char *head = strstr(ptx, ".version") ? "" : ".version 8.7\n.target sm_100a\n.address_size 64\n";
    if (asprintf(&whole, "%s%s", head, ptx) < 0)
        fail_msg("no memory");
    struct ptx_source source = { .text = whole, .size = strlen(whole), .name = "test" };
    struct ptx_module *m = NULL;
    if (ptx_module_read_later(&source, 1, &m, log, sizeof log))
        fail_msg("PTX: %s", log);
    free(whole);
    return m;
}

static void load_module(struct ptx_module *m)
{
    assert_true(gpu.program_count < MODULES && m->variable_count < 4096);
    memset(gpu.addresses, 0, sizeof gpu.addresses);
    for (uint32_t i = 0; i < m->variable_count; i++)
        if (m->variables[i].space == PTX_SPACE_GLOBAL || m->variables[i].space == PTX_SPACE_CONST) {
            unsigned char *p = gpu_alloc((size_t)m->variables[i].size + 16);
            gpu.addresses[i] = (uintptr_t)p;
            if (m->variables[i].init)
                memcpy(p, m->variables[i].init, (size_t)m->variables[i].size);
        }
    sg_program *program;
    assert_int_equal(sg_program_create(gpu.engine, m, gpu.addresses, gpu.space, &program), CUDA_SUCCESS);
    gpu.selected = gpu.program_count;
    gpu.programs[gpu.program_count++] = program;
    for (uint32_t i = 0; i < m->variable_count; i++)
        for (size_t k = 0; k < m->variables[i].relocation_count; k++) {
            const struct ptx_relocation *r = &m->variables[i].relocations[k];
            uint64_t to = r->is_function ? sg_program_function_address(program, r->symbol) : gpu.addresses[r->symbol];
            to = (to + (uint64_t)r->addend) >> r->shift;
            memcpy((unsigned char *)(uintptr_t)gpu.addresses[i] + r->offset, &to, r->size);
        }
}

void gpu_load(const char *ptx)
{
    load_module(read_module(ptx));
    record_module(gpu.selected, ptx);
}

void *gpu_variable(const char *name)
{
    const struct ptx_module *m = sg_program_module(gpu.programs[gpu.program_count - 1]);
    for (uint32_t i = 0; i < m->variable_count; i++)
        if (!strcmp(m->variables[i].name, name))
            return (void *)(uintptr_t)gpu.addresses[i];
    fail_msg("no variable %s", name);
    return NULL;
}

const char *gpu_refuses(const char *ptx, const char *kernel)
{
    static char log[512];
    sg_kernel *k;
    gpu_load(ptx);
    return sg_program_kernel(gpu.programs[gpu.program_count - 1], kernel, &k, log, sizeof log) ? log : NULL;
}

const struct sg_limits *gpu_limits(void) { return &gpu.limits; }

sg_kernel *gpu_kernel(const char *name)
{
    char log[512] = "";
    sg_kernel *k = NULL;
    int result = sg_program_kernel(gpu.programs[gpu.selected], name, &k, log, sizeof log);
    if (result)
        fail_msg("kernel %s: %d %s", name, result, log);
    return k;
}

struct gpu_running {
    pthread_mutex_t lock;
    pthread_cond_t over;
    int ended, error;
    const char *name;
    pthread_t ended_by;
};
static void done(void *context, int error)
{
    struct gpu_running *w = context;
    pthread_mutex_lock(&w->lock);
    w->ended = 1;
    w->error = error;
    w->ended_by = pthread_self();
    pthread_cond_signal(&w->over);
    pthread_mutex_unlock(&w->lock);
}

struct gpu_running *gpu_begin(const char *kernel, const struct gpu_shape *shape, unsigned count,
                              const uint64_t *arguments)
{
    struct sg_kernel_info info;
    sg_kernel *k = gpu_kernel(kernel);
    sg_kernel_describe(k, &info);
    unsigned char params[4096] = { 0 };
    assert_int_equal(info.function->signature.param_count, count);
    for (unsigned i = 0; i < count; i++) {
        const struct ptx_variable *p = &info.function->signature.params[i];
        memcpy(params + p->offset, &arguments[i], p->size < 8 ? p->size : 8);
    }
    if (gpu.selected == gpu.program_count - 1) /* the addresses of its variables are known */
        record_launch(gpu.selected, kernel, shape, sg_program_module(gpu.programs[gpu.selected]), gpu.addresses,
                      info.function, arguments, gpu.base, gpu.used);
    struct gpu_running *w = calloc(1, sizeof *w);
    assert_non_null(w);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->over, NULL);
    w->name = kernel;
    struct sg_launch launch = { .kernel = k, .dynamic_shared = shape->shared, .flags = shape->flags, .params = params,
                                .params_size = info.function->param_size, .stack = gpu.stack,
                                .heap = gpu.heap, .print = gpu.print, .done = done, .context = w };
    memcpy(launch.grid, shape->grid, sizeof launch.grid);
    memcpy(launch.block, shape->block, sizeof launch.block);
    memcpy(launch.cluster, shape->cluster, sizeof launch.cluster);
    int result = sg_engine_launch(gpu.engine, &launch);
    if (result) {                                     /* then done() is never called; else it may have been already */
        w->error = result;
        w->ended = 1;
    }
    return w;
}

/* A tenth of a second from now. Time is counted in such pieces: a process that is stopped, or gets no processor, for a
   minute begins only one of them, and its kernel has had no more time than that. */
static struct timespec next_piece(void)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_nsec += 100000000;
    if (at.tv_nsec >= 1000000000)
        at.tv_sec++, at.tv_nsec -= 1000000000;
    return at;
}

bool gpu_ended_here(struct gpu_running *w)
{
    pthread_mutex_lock(&w->lock);
    const bool here = w->ended && pthread_equal(w->ended_by, pthread_self());
    pthread_mutex_unlock(&w->lock);
    return here;
}

int gpu_wait(struct gpu_running *w, double seconds)
{
    const char *jit = getenv("FLYT_SOFTGPU_JIT");
    if (jit && !strcmp(jit, "always")) /* a launch compiles all that it runs, at once */
        seconds *= 10;
    unsigned pieces = (unsigned)(seconds * 10);
    pthread_mutex_lock(&w->lock);
    while (!w->ended && pieces) {
        const struct timespec until = next_piece();
        int late = 0;
        while (!w->ended && !late)
            late = pthread_cond_timedwait(&w->over, &w->lock, &until);
        pieces--;
    }
    const bool late = !w->ended;
    pthread_mutex_unlock(&w->lock);
    if (late)
        sg_engine_cancel(gpu.engine, CUDA_ERROR_LAUNCH_TIMEOUT);
    pthread_mutex_lock(&w->lock);
    while (!w->ended)
        pthread_cond_wait(&w->over, &w->lock);
    pthread_mutex_unlock(&w->lock);
    int error = w->error;
    const char *name = w->name;
    record_result(error);
    pthread_cond_destroy(&w->over);
    pthread_mutex_destroy(&w->lock);
    free(w);
    if (late)
        fail_msg("%s: not over after %g s", name, seconds);
    return error;
}

int gpu_launch(const char *kernel, const struct gpu_shape *shape, unsigned count, const uint64_t *arguments,
               double seconds)
{
    return gpu_wait(gpu_begin(kernel, shape, count, arguments), seconds);
}

int gpu_run(const char *kernel, uint32_t grid, uint32_t block, unsigned count, ...)
{
    uint64_t arguments[32];
    va_list ap;
    va_start(ap, count);
    for (unsigned i = 0; i < count; i++)
        arguments[i] = va_arg(ap, uint64_t);
    va_end(ap);
    struct gpu_shape shape = { .grid = { grid, 1, 1 }, .block = { block, 1, 1 } };
    return gpu_launch(kernel, &shape, count, arguments, 20);
}

void *gpu_written(const char *kernel, uint32_t grid, uint32_t block, size_t bytes)
{
    void *memory = gpu_alloc(bytes);
    const int error = gpu_run(kernel, grid, block, 1, ARG(memory));
    if (error)
        fail_msg("kernel %s: error %d", kernel, error);
    return memory;
}
