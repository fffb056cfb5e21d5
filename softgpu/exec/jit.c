/*
 * jit.c: which regions are compiled, when and by whom; what compiled code asks the interpreter for. See jit.h.
 *
 * Lock: `jit.lock` guards the queue and which region is being compiled. Nothing else is taken under it.
 */
#include "softgpu/exec/jit.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cpu/common/log.h"
#include "softgpu/alu/clones.h"
#include "softgpu/exec/decode.h"
#include "softgpu/exec/straight.h"

/* OFTEN: runs of a region in the interpreter before it is compiled, which takes 5 to 200 ms. */
enum { OFTEN = 5000, ASKED = UINT_MAX };
enum jit_mode { JIT_OFF, JIT_ON, JIT_ALWAYS };

static struct {
    pthread_once_t once;
    enum jit_mode mode;
    const struct sg_jit *library;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct exec_region *queue, **queue_end;
    bool thread;
    uint64_t regions, refused, nanoseconds;
} jit = { .once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

void exec_run_region(struct exec_warp *w, const struct exec_insn *i)
{
    (void)w;
    (void)i;
}

static void tell(void)
{
    fprintf(stderr, "softgpu: compiled %llu regions in %.1f ms, refused %llu\n", (unsigned long long)jit.regions,
            (double)jit.nanoseconds / 1e6, (unsigned long long)jit.refused);
}

/* Beside the library or program that this code is in, else where the system looks. */
static void *open_library(void)
{
    Dl_info here;
    char path[PATH_MAX];
    if (dladdr((const void *)&jit, &here) && here.dli_fname && strrchr(here.dli_fname, '/')) {
        int folder = (int)(strrchr(here.dli_fname, '/') - here.dli_fname);
        if (snprintf(path, sizeof path, "%.*s/libsoftgpu-jit.so", folder, here.dli_fname) < (int)sizeof path &&
            !access(path, R_OK))
            return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return dlopen("libsoftgpu-jit.so", RTLD_NOW | RTLD_LOCAL);
}

static void start(void)
{
    const char *wish = getenv("FLYT_SOFTGPU_JIT");
    const char *stats = getenv("FLYT_STATS");
    enum jit_mode mode = !wish                    ? JIT_OFF
                         : !strcmp(wish, "on")     ? JIT_ON
                         : !strcmp(wish, "always") ? JIT_ALWAYS
                                                   : JIT_OFF;
    if (mode == JIT_OFF) {
        if (wish && *wish && strcmp(wish, "off"))
            log_warning("FLYT_SOFTGPU_JIT=%s is none of off, on, always; nothing is compiled", wish);
        return;
    }
    if (sg_cpu_level() < SG_CPU_V3) {
        log_warning("FLYT_SOFTGPU_JIT=%s: code is compiled for AVX2 and up only; the interpreter runs", wish);
        return;
    }
    void *library = open_library();
    const struct sg_jit *found = library ? dlsym(library, SG_JIT_SYMBOL) : NULL;
    if (!found) {
        log_warning("FLYT_SOFTGPU_JIT=%s: there is no compiler (%s); the interpreter runs", wish, dlerror());
        return;
    }
    if (found->build != EXEC_JIT_BUILD) {
        log_warning("FLYT_SOFTGPU_JIT=%s: libsoftgpu-jit.so is of another build; the interpreter runs", wish);
        return;
    }
    jit.library = found;
    jit.queue_end = &jit.queue;
    jit.mode = mode;
    if (stats && !strcmp(stats, "1"))
        atexit(tell);
}

bool exec_jit_on(void)
{
    pthread_once(&jit.once, start);
    return jit.mode != JIT_OFF;
}

/* Compiled code looks next time in the window where this access of global memory is. */
static void move_near(struct exec_warp *w, const struct exec_insn *i)
{
    const uint64_t *address = exec_row(w, i->s[0]);
    uint32_t count = atomic_load_explicit(&sg_memory.window_count, memory_order_acquire);
    for (uint32_t k = 0; k < count; k++) {
        const struct sg_window *window = &sg_memory.windows[k];
        uint64_t base = atomic_load_explicit(&window->base, memory_order_relaxed);
        if (address[0] + (uint64_t)i->offset - base < atomic_load_explicit(&window->size, memory_order_relaxed))
            w->near = window;
    }
}

/* What compiled code calls for an instruction or a case that it does not know. */
static bool step(struct exec_warp *w, const struct exec_insn *i)
{
    if (i->known >= EXEC_STRAIGHT_LOAD_8 && i->known <= EXEC_STRAIGHT_STORE_64)
        move_near(w, i);
    w->pc = i + 1;
    if (i->straight == EXEC_STRAIGHT_GUARDED)
        exec_run_guarded(w, i);
    else
        (i->straight == EXEC_STRAIGHT_NONE ? i->run : i->inner)(w, i);
    return w->pc == i + 1 && !w->stop && w->mask == UINT32_MAX;
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void compile(struct exec_region *r)
{
    const struct sg_jit_wish wish = { .insns = r->function->insns,
                                      .count = r->function->insn_count,
                                      .head = r->head,
                                      .avx512 = sg_cpu_level() == SG_CPU_V4,
                                      .step = step };
    char why[256] = "";
    sg_jit_code *code = NULL;
    uint64_t begun = now();
    struct sg_jit_region *made = jit.library->compile(&wish, &code, why, sizeof why);
    if (!made)
        log_debug("softgpu: %s, instruction %u: not compiled: %s", r->function->ptx->name, r->head, why);
    pthread_mutex_lock(&jit.lock);
    jit.nanoseconds += now() - begun;
    *(made ? &jit.regions : &jit.refused) += 1;
    r->compiled = made;
    r->compiling = false;
    atomic_store_explicit(&r->code, code, memory_order_release);
    pthread_cond_broadcast(&jit.changed);
    pthread_mutex_unlock(&jit.lock);
}

static void *compile_all(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&jit.lock);
        while (!jit.queue)
            pthread_cond_wait(&jit.changed, &jit.lock);
        struct exec_region *r = jit.queue;
        jit.queue = r->next_wish;
        if (!jit.queue)
            jit.queue_end = &jit.queue;
        r->compiling = true;
        pthread_mutex_unlock(&jit.lock);
        compile(r);
    }
    return NULL;
}

/* Under the lock. false: there is no thread. */
static bool have_thread(void)
{
    pthread_t thread;
    pthread_attr_t detached;
    if (jit.thread)
        return true;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    jit.thread = !pthread_create(&thread, &detached, compile_all, NULL);
    pthread_attr_destroy(&detached);
    return jit.thread;
}

static void ask(struct exec_region *r)
{
    pthread_mutex_lock(&jit.lock);
    if (jit.mode == JIT_ALWAYS) {
        r->compiling = true;
        pthread_mutex_unlock(&jit.lock);
        compile(r);
        return;
    }
    if (have_thread()) {
        *jit.queue_end = r;
        jit.queue_end = &r->next_wish;
        pthread_cond_broadcast(&jit.changed);
    }
    pthread_mutex_unlock(&jit.lock);
}

sg_jit_code *exec_region_count(struct exec_warp *w, const struct exec_insn *i)
{
    struct exec_region *r = (struct exec_region *)(uintptr_t)i->extra;
    unsigned runs = atomic_load_explicit(&r->runs, memory_order_relaxed);
    if (runs == ASKED)
        return NULL;
    if (runs + 1 < (jit.mode == JIT_ALWAYS ? 1 : OFTEN)) {
        atomic_store_explicit(&r->runs, runs + 1, memory_order_relaxed);
        return NULL;
    }
    if (atomic_exchange(&r->runs, ASKED) == ASKED)
        return NULL;
    r->function = w->frame->function;
    r->head = (uint32_t)(i - r->function->insns);
    ask(r);
    return atomic_load_explicit(&r->code, memory_order_acquire);
}

void exec_regions_free(struct exec_region *list)
{
    if (!list)
        return;
    pthread_mutex_lock(&jit.lock);
    for (struct exec_region *r = list; r; r = r->next) {
        struct exec_region **at = &jit.queue;
        while (*at && *at != r)
            at = &(*at)->next_wish;
        if (*at) {
            *at = r->next_wish;
            if (jit.queue_end == &r->next_wish)
                jit.queue_end = at;
        }
        while (r->compiling)
            pthread_cond_wait(&jit.changed, &jit.lock);
    }
    pthread_mutex_unlock(&jit.lock);
    for (struct exec_region *r = list; r; r = r->next)
        if (r->compiled)
            jit.library->free(r->compiled);
}
