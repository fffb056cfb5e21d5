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
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cpu/common/env.h"
#include "cpu/common/log.h"
#include "softgpu/alu/clones.h"
#include "softgpu/exec/callbacks.h"
#include "softgpu/exec/parted.h"
#include "softgpu/exec/phases.h"
#include "softgpu/exec/span.h"
#include "softgpu/exec/straight.h"

/* OFTEN: runs of a region in the interpreter before it is compiled, which takes 5 to 200 ms. OFTEN_BLOCKS: likewise.
   DONE, in place of their number: it was compiled, or refused. */
enum { OFTEN = 5000, OFTEN_BLOCKS = 500, DONE = UINT_MAX };
/* Of the thread that compiles, in bytes: LLVM calls itself deeply, and the system's default may be less than 2 MiB. */
enum { STACK = 32 << 20 };
enum jit_mode { JIT_OFF, JIT_ON, JIT_ALWAYS };

/* A kernel that has gone while a region of it was being compiled: the thread that compiles frees it. */
struct kernel_left { struct exec_region *regions; void (*end)(sg_kernel *); sg_kernel *kernel; };

static struct {
    pthread_once_t once;
    enum jit_mode mode;
    bool whole;                       /* code for whole blocks, too */
    const struct sg_jit *library;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct exec_compiled *queue, **queue_end;
    bool thread, busy;
    char folder[PATH_MAX];            /* in which compiled code is kept; empty: it is not */
    bool folder_told;                 /* by FLYT_SOFTGPU_CACHE */
    struct kernel_left left;          /* NULL in it: there is none */
    uint64_t regions[SG_JIT_SOURCES], refused, defects, nanoseconds;
    uint64_t last;                    /* the process's processor time when the last region was compiled */
} jit = { .once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

void exec_jit_tell(void (*say)(const char *))
{
    char line[128];
    if (!exec_callbacks_counted)
        return;
    snprintf(line, sizeof line, "softgpu: compiled %llu regions in %.1f ms of processor time, refused %llu",
             (unsigned long long)jit.regions[SG_JIT_MADE], (double)jit.nanoseconds / 1e6,
             (unsigned long long)jit.refused);
    say(line);
    snprintf(line, sizeof line, "softgpu: %llu regions had code on disk, %llu in another copy of their kernel",
             (unsigned long long)jit.regions[SG_JIT_STORED], (unsigned long long)jit.regions[SG_JIT_SHARED]);
    say(line);
    pthread_mutex_lock(&jit.lock);
    unsigned waiting = jit.busy;
    for (const struct exec_compiled *x = jit.queue; x; x = x->next_wish)
        waiting++;
    pthread_mutex_unlock(&jit.lock);
    snprintf(line, sizeof line, "softgpu: the compiler ended after %.1f ms of the process's processor time; %u wait",
             (double)jit.last / 1e6, waiting);
    say(line);
    exec_callbacks_tell(say);
}

static void say_on_stderr(const char *line) { fprintf(stderr, "%s\n", line); }

static void tell(void) { exec_jit_tell(say_on_stderr); }

/* Beside the library or program that this code is in. false: it is not there. */
static bool find_library(char *path, size_t size)
{
    Dl_info here;
    if (!dladdr((const void *)&jit, &here) || !here.dli_fname || !strrchr(here.dli_fname, '/'))
        return false;
    int folder = (int)(strrchr(here.dli_fname, '/') - here.dli_fname);
    return snprintf(path, size, "%.*s/libsoftgpu-jit.so", folder, here.dli_fname) < (int)size && !access(path, R_OK);
}

/* Beside this code, else where the system looks. NULL: why says the reason. */
static const struct sg_jit *load_library(char *why, size_t size)
{
    char path[PATH_MAX];
    void *library = dlopen(find_library(path, sizeof path) ? path : "libsoftgpu-jit.so", RTLD_NOW | RTLD_LOCAL);
    const struct sg_jit *found = library ? dlsym(library, SG_JIT_SYMBOL) : NULL;
    if (!found)
        snprintf(why, size, "there is no compiler (%s)", dlerror());
    else if (found->build != EXEC_JIT_BUILD)
        snprintf(why, size, "libsoftgpu-jit.so is of another build");
    return found && found->build == EXEC_JIT_BUILD ? found : NULL;
}

static void set_folder(const char *path, const char *inside)
{
    if (snprintf(jit.folder, sizeof jit.folder, "%s%s", path, inside) >= (int)sizeof jit.folder)
        *jit.folder = 0;
}

/* Compiled code is kept where FLYT_SOFTGPU_CACHE says, else in the user's folder for what can be made again. With sudo,
   HOME may be another user's, who could not remove what root makes there. */
static void find_folder(void)
{
    const char *wish = env_get("FLYT_SOFTGPU_CACHE"), *caches = secure_getenv("XDG_CACHE_HOME"),
               *home = secure_getenv("HOME");
    struct stat s;
    jit.folder_told = wish && *wish;
    if (jit.folder_told)
        set_folder(strcmp(wish, "off") ? wish : "", "");
    else if (caches && *caches == '/')
        set_folder(caches, "/flyt/softgpu");
    else if (home && *home == '/' && !stat(home, &s) && s.st_uid == geteuid())
        set_folder(home, "/.cache/flyt/softgpu");
}

static void keep_code(void)
{
    char why[PATH_MAX + 128];
    if (!*jit.folder || jit.library->keep(jit.folder, why, sizeof why))
        return;
    if (jit.folder_told)
        log_warning("FLYT_SOFTGPU_CACHE: compiled code is not kept: %s", why);
    else
        log_debug("softgpu: compiled code is not kept: %s", why);
}

/* false: the interpreter runs, and why says the reason. */
static bool have_library(char *why, size_t size)
{
    if (!jit.library && (jit.library = load_library(why, size)))
        keep_code();
    return jit.library;
}

/* LLVM ends the process where it gets no memory. */
static bool memory_is_limited(void)
{
    struct rlimit data, all;
    return getrlimit(RLIMIT_DATA, &data) || getrlimit(RLIMIT_AS, &all) || data.rlim_cur != RLIM_INFINITY ||
           all.rlim_cur != RLIM_INFINITY;
}

/* What FLYT_SOFTGPU_JIT asks for. Without it code is compiled where the compiler is installed, and only when some has
   run often the compiler is loaded: that takes 20 ms. A GPU server has it loaded before its sandbox closes. */
static enum jit_mode mode_wanted(void)
{
    const char *wish = env_get("FLYT_SOFTGPU_JIT");
    char why[PATH_MAX + 128];
    if (!wish)
        return sg_cpu_level() >= SG_CPU_V3 && !memory_is_limited() && find_library(why, sizeof why) ? JIT_ON : JIT_OFF;
    if (!*wish || !strcmp(wish, "off"))
        return JIT_OFF;
    if (strcmp(wish, "on") && strcmp(wish, "always"))
        log_warning("FLYT_SOFTGPU_JIT=%s is none of off, on, always; nothing is compiled", wish);
    else if (sg_cpu_level() < SG_CPU_V3)
        log_warning("FLYT_SOFTGPU_JIT=%s: code is compiled for AVX2 and up only; the interpreter runs", wish);
    else if (!have_library(why, sizeof why))
        log_warning("FLYT_SOFTGPU_JIT=%s: %s; the interpreter runs", wish, why);
    else
        return !strcmp(wish, "on") ? JIT_ON : JIT_ALWAYS;
    return JIT_OFF;
}

/* Reads the environment, as the thread that compiles must not: the program may change it meanwhile. */
static void start(void)
{
    const char *stats = env_get("FLYT_STATS"), *whole = env_get("FLYT_SOFTGPU_WHOLE");
    find_folder();
    jit.mode = mode_wanted();
    if (jit.mode == JIT_OFF)
        return;
    jit.queue_end = &jit.queue;
    jit.whole = !whole || strcmp(whole, "off");
    exec_callbacks_counted = stats && !strcmp(stats, "1");
    if (exec_callbacks_counted)
        atexit(tell);
}

uint64_t exec_jit_defects(void)
{
    pthread_mutex_lock(&jit.lock);
    const uint64_t defects = jit.defects;
    pthread_mutex_unlock(&jit.lock);
    return defects;
}

bool exec_jit_on(void)
{
    pthread_once(&jit.once, start);
    return jit.mode != JIT_OFF;
}

/* Processor time of this thread, or of the process. */
static uint64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static bool is_whole(const struct exec_region *r, const struct exec_compiled *x)
{
    return x == &r->whole[0] || x == &r->whole[1];
}

static void compile(struct exec_compiled *x)
{
    struct exec_region *r = (struct exec_region *)(uintptr_t)x->region;
    const struct sg_jit_wish wish = { .insns = r->function->insns,
                                      .count = r->function->insn_count,
                                      .head = r->head,
                                      .avx512 = sg_cpu_level() == SG_CPU_V4,
                                      .united = x == &r->full[1] || x == &r->whole[1],
                                      .entry = r->function->ptx->is_entry,
                                      .may_stop = jit.mode == JIT_ON,
                                      .counted = exec_callbacks_counted,
                                      .places = x == &r->some ? &r->places : NULL,
                                      .whole = is_whole(r, x),
                                      .phases = is_whole(r, x) && r->phases,
                                      .begin = r->phases ? exec_phases_begin : exec_parted_begin,
                                      .find = exec_span_find,
                                      .near = exec_parted_near,
                                      .step = exec_parted_step };
    char why[256] = "";
    struct sg_jit_made code = { .code = NULL };
    uint64_t begun = now(CLOCK_THREAD_CPUTIME_ID);
    struct sg_jit_region *made = jit.library->compile(&wish, &code, why, sizeof why);
    const bool defect = !made && !strncmp(why, SG_JIT_DEFECT, strlen(SG_JIT_DEFECT));
    if (defect)
        log_warning("softgpu: %s, instruction %u: not compiled: %s", r->function->ptx->name, r->head, why);
    else if (!made)
        log_debug("softgpu: %s, instruction %u: not compiled: %s", r->function->ptx->name, r->head, why);
    pthread_mutex_lock(&jit.lock);
    jit.nanoseconds += now(CLOCK_THREAD_CPUTIME_ID) - begun;
    jit.last = now(CLOCK_PROCESS_CPUTIME_ID);
    *(made ? &jit.regions[code.source] : &jit.refused) += 1;
    jit.defects += defect;
    x->made = made;
    x->compiling = jit.busy = false;
    atomic_store_explicit(&x->runs, DONE, memory_order_relaxed);
    atomic_store_explicit(&x->code, code.code, memory_order_release);
    pthread_mutex_unlock(&jit.lock);
}

static void take_out(struct exec_compiled **at)
{
    if (jit.queue_end == &(*at)->next_wish)
        jit.queue_end = at;
    *at = (*at)->next_wish;
}

/* How often the region has run, in parts of what makes it worth compiling. */
static double heat(const struct exec_compiled *x)
{
    const unsigned worth = is_whole(x->region, x) ? OFTEN_BLOCKS : OFTEN;
    return (double)atomic_load_explicit(&x->runs, memory_order_relaxed) / worth;
}

/* What has run most by now, of what waits. Under the lock. */
static struct exec_compiled *take_hottest(void)
{
    struct exec_compiled **hottest = &jit.queue, *x;
    for (struct exec_compiled **at = &jit.queue; *at; at = &(*at)->next_wish)
        if (heat(*at) > heat(*hottest))
            hottest = at;
    x = *hottest;
    take_out(hottest);
    return x;
}

static void free_code(struct exec_compiled *x)
{
    if (x->made)
        jit.library->free(x->made);
}

static void free_regions(const struct kernel_left *left)
{
    for (struct exec_region *r = left->regions; r; r = r->next) {
        for (unsigned k = 0; k < 2; k++) {
            free_code(&r->full[k]);
            free_code(&r->whole[k]);
        }
        free_code(&r->some);
    }
    left->end(left->kernel);
}

static void free_left(void)
{
    pthread_mutex_lock(&jit.lock);
    struct kernel_left left = jit.left;
    jit.left.kernel = NULL;
    pthread_mutex_unlock(&jit.lock);
    if (left.kernel)
        free_regions(&left);
}

static void *compile_all(void *unused)
{
    char why[PATH_MAX + 128];
    (void)unused;
    if (!have_library(why, sizeof why)) {
        log_debug("softgpu: %s; the interpreter runs", why);
        return NULL;
    }
    for (;;) {
        pthread_mutex_lock(&jit.lock);
        while (!jit.queue)
            pthread_cond_wait(&jit.changed, &jit.lock);
        struct exec_compiled *x = take_hottest();
        x->compiling = jit.busy = true;
        pthread_mutex_unlock(&jit.lock);
        compile(x);
        free_left();
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
    pthread_attr_setstacksize(&detached, STACK);
    jit.thread = !pthread_create(&thread, &detached, compile_all, NULL);
    pthread_attr_destroy(&detached);
    return jit.thread;
}

static void ask(struct exec_compiled *x)
{
    pthread_mutex_lock(&jit.lock);
    if (jit.mode == JIT_ALWAYS) {
        x->compiling = true;
        pthread_mutex_unlock(&jit.lock);
        compile(x);
        return;
    }
    if (have_thread()) {
        x->next_wish = NULL;
        *jit.queue_end = x;
        jit.queue_end = &x->next_wish;
        pthread_cond_broadcast(&jit.changed);
    }
    pthread_mutex_unlock(&jit.lock);
}

/* Counts a run of the region's code x, which there is not yet. The code, if there is some now. */
static sg_jit_code *count(struct exec_region *r, struct exec_compiled *x, const struct exec_function *f,
                          const struct exec_insn *head)
{
    const unsigned runs = atomic_load_explicit(&x->runs, memory_order_relaxed);
    if (runs >= DONE - 1)
        return NULL;
    atomic_store_explicit(&x->runs, runs + 1, memory_order_relaxed);
    if (runs + 1 < (jit.mode == JIT_ALWAYS ? 1 : is_whole(r, x) ? OFTEN_BLOCKS : OFTEN) ||
        atomic_load_explicit(&x->asked, memory_order_relaxed) || atomic_exchange(&x->asked, true))
        return NULL;
    pthread_mutex_lock(&jit.lock);
    r->function = f;
    r->head = (uint32_t)(head - f->insns);
    x->region = r;
    pthread_mutex_unlock(&jit.lock);
    ask(x);
    return atomic_load_explicit(&x->code, memory_order_acquire);
}

sg_jit_code *exec_region_count(struct exec_warp *w, const struct exec_insn *i, bool some)
{
    struct exec_region *r = (struct exec_region *)(uintptr_t)i->extra;
    return count(r, some ? &r->some : &r->full[w->united], w->frame->function, i);
}

sg_jit_whole *exec_region_whole(struct exec_region *r, const struct exec_function *entry, bool in_line)
{
    sg_jit_code *code = atomic_load_explicit(&r->whole[in_line].code, memory_order_acquire);
    if (!code && jit.whole)
        code = count(r, &r->whole[in_line], entry, entry->insns);
    return (sg_jit_whole *)(void (*)(void))code;
}

static sg_jit_code *code_for_some(struct exec_warp *w, const struct exec_insn *head)
{
    const struct exec_region *r = head->extra;
    sg_jit_code *code = atomic_load_explicit(&r->some.code, memory_order_acquire);
    return code ? code : exec_region_count(w, head, true);
}

void exec_run_region(struct exec_warp *w, const struct exec_insn *i)
{
    sg_jit_code *code = code_for_some(w, i);
    if (code && exec_parted_take(w, i->extra))
        exec_parted_run(w, i->extra, code);
}

bool exec_region_part(struct exec_warp *w, const struct exec_insn *head, const struct exec_insn *i)
{
    const uint32_t taken = i->straight == EXEC_STRAIGHT_BRANCH_IF ? *exec_pred(w, i->guard) ^ i->guard_flip : 0;
    if (!taken || taken == UINT32_MAX)
        return false;
    sg_jit_code *code = code_for_some(w, head);
    if (!code || w->budget <= (int32_t)i->cost || !exec_parted_branch(w, head->extra, i, taken))
        return false;
    w->budget -= (int32_t)i->cost;
    exec_parted_run(w, head->extra, code);
    return true;
}

/* Takes it out of the queue. true: it is being compiled. Under the lock. */
static bool forget(struct exec_compiled *x)
{
    struct exec_compiled **at = &jit.queue;
    while (*at && *at != x)
        at = &(*at)->next_wish;
    if (*at)
        take_out(at);
    return x->compiling;
}

void exec_regions_free(struct exec_region *list, void (*end)(sg_kernel *), sg_kernel *kernel)
{
    const struct kernel_left gone = { list, end, kernel };
    bool compiling = false;
    pthread_mutex_lock(&jit.lock);
    for (struct exec_region *r = list; r; r = r->next) {
        for (unsigned k = 0; k < 2; k++) {
            compiling |= forget(&r->full[k]);
            compiling |= forget(&r->whole[k]);
        }
        compiling |= forget(&r->some);
    }
    if (compiling)
        jit.left = gone;
    pthread_mutex_unlock(&jit.lock);
    if (!compiling)
        free_regions(&gone);
}
