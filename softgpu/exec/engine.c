/*
 * engine.c: host threads and grids.
 *
 * One lock guards everything here and in place.c; it is taken twice per turn of a block. Resident blocks that can run
 * stand in one queue.
 *
 * A block whose warps all sleep (nanosleep) stays in the queue, but gets its next turn only when its time has come.
 * While no other block can run, one of the threads sleeps until then: a kernel that waits in this way leaves the
 * processors to others.
 *
 * The engine knows how long the blocks of a kernel took last. Where all blocks of a grid are expected to take a few
 * microseconds, the thread that launches it may run it (sg_run): to wake another one would take as long.
 */
#include "softgpu/exec/family.h"
#include "softgpu/exec/place.h"
#include "softgpu/exec/pointer.h"
#include "softgpu/exec/whole.h"

#include <cuda.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/common/env.h"
#include "cpu/common/lock.h"

/* In nanoseconds. A shorter sleep costs more than it saves; a longer one would hold up the end of a grid that failed.
   */
enum { SHORTEST_NAP = 20000, LONGEST_NAP = 1000000 };
/* So long all blocks of a brief grid may take, in microseconds: about what it takes to wake a thread for them. */
enum { BRIEF_US = 10 };

int sg_engine_create(const struct sg_limits *limits, unsigned ordinal, unsigned threads, uint64_t chaos,
                     sg_engine **out)
{
    sg_engine *e = calloc(1, sizeof *e);
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->limits = *limits;
    e->ordinal = ordinal;
    const char *wish = env_get("FLYT_SOFTGPU_THREADS");
    if (!threads && wish)
        threads = (unsigned)strtoul(wish, NULL, 10);
    if (!threads) {                   /* the cores that this process may use */
        cpu_set_t cores;
        threads = sched_getaffinity(0, sizeof cores, &cores) ? (unsigned)sysconf(_SC_NPROCESSORS_ONLN)
                                                             : (unsigned)CPU_COUNT(&cores);
    }
    e->thread_count = threads > 1024 ? 1024 : threads;
    wish = env_get("FLYT_SOFTGPU_BRIEF");
    e->brief = (wish && *wish ? strtoul(wish, NULL, 10) : BRIEF_US) * 1000;
    e->chaos = chaos;
    e->grids_end = &e->grids;
    e->ready_end = &e->ready;
    e->next_code = EXEC_WINDOW_BASE(EXEC_WINDOW_CODE) + 4096;
    e->sms = calloc(EXEC_MAX_SMS, sizeof *e->sms);
    e->threads = calloc(e->thread_count, sizeof *e->threads);
    if (!e->sms || !e->threads) {
        free(e->sms);
        free(e->threads);
        free(e);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_init(&e->lock, NULL);
    *out = e;
    return CUDA_SUCCESS;
}

void sg_engine_describe(sg_engine *e, const struct sg_limits *limits)
{
    pthread_mutex_lock(&e->lock);
    e->limits = *limits;
    pthread_mutex_unlock(&e->lock);
}
void sg_engine_turns_note(sg_engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->turns_seen++;
    pthread_mutex_unlock(&e->lock);
}

bool sg_engine_turns_passed(sg_engine *e)
{
    pthread_mutex_lock(&e->lock);
    bool passed = e->in_turn[~e->turns_seen & 1] == 0;
    pthread_mutex_unlock(&e->lock);
    return passed;
}

void sg_engine_is_part(sg_engine *e) { e->part = true; }

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* After a turn: when the next one may be. The blocks of a cluster have theirs together, and it does not nap. */
static uint64_t nap_end(const struct exec_block *b)
{
    if (b->cluster || b->nap < SHORTEST_NAP)
        return 0;
    return now() + (b->nap < LONGEST_NAP ? b->nap : LONGEST_NAP);
}

/*
 * Who takes a block that can run. A thread that puts one into the queue, and looks into the queue itself right after
 * that, takes it: so for one block it wakes nobody. Nor does it for all blocks of a brief grid, as long as nothing else
 * waits: waking another thread takes longer than running them. An outside thread (sg_run) takes blocks of brief grids
 * only.
 *
 * takes: of this thread, the engine whose queue it looks into next; NULL while it runs a block or reports the end of a
 * grid, and in other threads.
 * outside: the same, of a thread that is not the engine's.
 */
static _Thread_local struct { sg_engine *takes, *outside; bool holds; } self;

static bool takes_itself(const sg_engine *e, const sg_grid *g)
{
    FLYT_ASSERT_HELD(&e->lock);
    if (self.takes != e || e->chaos)
        return false;
    return g->brief ? e->ready_count <= g->block_count : e->ready_count == 1 && !self.outside;
}

/* For the blocks in the queue for which nobody was woken. */
static void wake_for_rest(sg_engine *e)
{
    FLYT_ASSERT_HELD(&e->lock);
    for (uint64_t n = e->ready_count; n > 0 && sleepers_wake(&e->idle); n--)
        ;
}

static void ready_push(sg_engine *e, struct exec_block *b, uint64_t naps_until)
{
    FLYT_ASSERT_HELD(&e->lock);
    b->next = NULL;
    b->naps_until = naps_until;
    e->ready_count++;
    if (e->chaos) {                   /* now and then to the front */
        e->chaos_state = (e->chaos_state ^ e->chaos) * 6364136223846793005u + 1442695040888963407u;
        if ((e->chaos_state >> 60) < 3) {
            b->next = e->ready;
            e->ready = b;
            if (!b->next)
                e->ready_end = &b->next;
            goto wake;
        }
    }
    *e->ready_end = b;
    e->ready_end = &b->next;
wake:
    if (!(naps_until && e->clocked) && !takes_itself(e, b->grid))
        sleepers_wake(&e->idle);
}

void exec_ready_push(sg_engine *e, struct exec_block *b)
{
    ready_push(e, b, 0);
}

/* The first block in the queue that does not sleep; NULL: there is none. wake: when the first that sleeps may run. */
static struct exec_block *ready_take(sg_engine *e, uint64_t *wake)
{
    FLYT_ASSERT_HELD(&e->lock);
    struct exec_block **at = &e->ready, *b;
    uint64_t moment = e->ready && e->ready->naps_until ? now() : 0;
    *wake = UINT64_MAX;
    for (; (b = *at) && b->naps_until > moment; at = &b->next)
        *wake = b->naps_until < *wake ? b->naps_until : *wake;
    if (b) {
        *at = b->next;
        if (!b->next)
            e->ready_end = at;
        e->ready_count--;
    }
    return b;
}

/* Until there may be a block to run. One thread minds the clock; another one takes its place when it leaves. */
static void sleep_until(sg_engine *e, uint64_t wake)
{
    FLYT_ASSERT_HELD(&e->lock);
    if (wake == UINT64_MAX || e->clocked) {
        sleepers_wait(&e->idle, &e->lock, NULL);
    } else {
        struct timespec t = { (time_t)(wake / 1000000000), (long)(wake % 1000000000) };
        e->clocked = true;
        sleepers_wait(&e->idle, &e->lock, &t);
        e->clocked = false;
        if (e->ready && e->ready->next)
            sleepers_wake(&e->idle);
    }
}

static void append(sg_engine *e, sg_grid *g)
{
    FLYT_ASSERT_HELD(&e->lock);
    g->next = NULL;
    g->link = e->grids_end;
    *e->grids_end = g;
    e->grids_end = &g->next;
    ((sg_kernel *)(uintptr_t)g->kernel)->running++;
}

static void set_error(sg_grid *g, int error)
{
    int none = 0;
    atomic_compare_exchange_strong(&g->error, &none, error);
}

/* The grid has ended or never began; its parent learns of an error. What waited for it goes to the end of *ready. */
static void leave_family(sg_engine *e, sg_grid *g, sg_grid **ready)
{
    FLYT_ASSERT_HELD(&e->lock);
    if (g->task) {
        if (!g->next_block)
            e->waiting_children--;
        if (atomic_load(&g->error))
            set_error(g->parent, atomic_load(&g->error));
        exec_family_over(g->task, ready);
    }
    exec_family_leave(g);
}

/* Starts the grids of the list, which wait for nothing any more. Those whose parent has failed end at once: they go to
   the front of *over. */
static void start_children(sg_engine *e, sg_grid *ready, sg_grid **over)
{
    FLYT_ASSERT_HELD(&e->lock);
    while (ready) {
        sg_grid *g = ready, *parent = g->parent;
        ready = g->next;
        if (!atomic_load(&parent->error)) {
            append(e, g);
            continue;
        }
        set_error(g, atomic_load(&parent->error));
        parent->children--;
        leave_family(e, g, &ready);
        g->next = *over;
        *over = g;
    }
}

/* Have its blocks and its children ended? If so and it has a tail, the tail's next grid starts. */
static bool has_ended(sg_engine *e, sg_grid *g, sg_grid **over)
{
    FLYT_ASSERT_HELD(&e->lock);
    while (!g->running && !g->children && (!exec_blocks_left(g) || atomic_load(&g->error))) {
        sg_grid *next = g->tail;
        if (!next)
            return true;
        g->tail = next->next;
        next->next = NULL;
        g->children++;
        start_children(e, next, over);
    }
    return false;
}

/* Takes a finished grid off the list, and its parents that have only waited for it. Returns a list of what is over,
   children before their parents, since the driver may free the program when it hears of the last one. The caller
   reports it without the lock. */
static sg_grid *grids_over(sg_engine *e, sg_grid *g)
{
    FLYT_ASSERT_HELD(&e->lock);
    sg_grid *over = NULL, *ready = NULL;
    while (g && has_ended(e, g, &over)) {
        sg_grid *parent = g->parent;
        *g->link = g->next;
        if (g->next)
            g->next->link = g->link;
        else
            e->grids_end = g->link;
        ((sg_kernel *)(uintptr_t)g->kernel)->running--;
        exec_spare_leave(e, g);
        leave_family(e, g, &ready);
        if (parent)
            parent->children--;
        start_children(e, ready, &over);
        ready = NULL;
        sg_grid **end = &over;
        while (*end)
            end = &(*end)->next;
        *end = g;
        g->next = NULL;
        g = parent;
    }
    return over;
}

static void grid_report(sg_grid *g)
{
    exec_free_blocks(g);
    if (g->engine->chaos && g->id * 0x9E3779B97F4A7C15u >> 62 == 0)
        usleep((useconds_t)(g->id * 0x9E3779B97F4A7C15u >> 40 & 1023));
    if (g->launch.done)
        g->launch.done(g->launch.context, atomic_load(&g->error));
    free(g);
}

static void report_all(sg_grid *over)
{
    sg_grid *next;
    for (; over; over = next) {
        next = over->next;
        grid_report(over);
    }
}

/* Wakes the blocks that nothing else would: those that wait for a barrier when their grid has failed. */
static void wake_residents(sg_engine *e, sg_grid *g)
{
    FLYT_ASSERT_HELD(&e->lock);
    for (struct exec_block *b = g->resident; b; b = b->resident_next)
        if (b->parked) {
            b->parked = false;
            exec_ready_push(e, b);
        }
}

static sg_grid *root_of(sg_grid *g)
{
    while (g->parent)
        g = g->parent;
    return g;
}

/* Ends every grid, or those that the kernels of `root` have launched, and root. Returns those of which nothing runs. */
static sg_grid *fail_grids(sg_engine *e, sg_grid *root, int error)
{
    FLYT_ASSERT_HELD(&e->lock);
    sg_grid *over = NULL, *last = NULL, *next;
    for (sg_grid *g = e->grids; g; g = g->next)
        if (!root || root_of(g) == root) {
            set_error(g, error);
            wake_residents(e, g);
            last = g;
        }
    for (sg_grid *g = e->grids; last && g; g = next) {       /* parents stand before their children */
        bool end = g == last;
        next = end ? NULL : g->next;
        if (root && root_of(g) != root)
            continue;
        sg_grid *more = grids_over(e, g), **tail = &more;
        while (*tail)
            tail = &(*tail)->next;
        *tail = over;
        over = more;
    }
    return over;
}

/* Without the lock: the block's turn, and, where that is its last one, those of the blocks that were claimed with it. A
   block that has launched others is left to the lock. done: how many of those have begun. */
static enum exec_turn run_turns(struct exec_block *b, struct exec_range claimed, uint64_t *done)
{
    exec_whole_turn(b);
    b->behind = 0;
    enum exec_turn turn = b->cluster ? exec_cluster_turn(b->cluster) : exec_block_turn(b);
    for (*done = 0; turn == EXEC_TURN_DONE && *done < claimed.count;) {
        if (b->stream || b->buffers || b->errors || atomic_load_explicit(&b->grid->error, memory_order_relaxed))
            break;
        b->index = claimed.first + *done;
        b->behind = claimed.count - *done - 1;
        b->fresh = true;
        turn = exec_block_turn(b);
        *done = claimed.count - b->behind;
    }
    return turn;
}

/* Reports what is over, without the lock. That may take long: meanwhile others take what can run. */
static void report_unlocked(sg_engine *e, sg_grid *over)
{
    FLYT_ASSERT_HELD(&e->lock);
    if (!over)
        return;
    wake_for_rest(e);
    self.takes = NULL;
    pthread_mutex_unlock(&e->lock);
    report_all(over);
    pthread_mutex_lock(&e->lock);
    self.takes = e;
}

/* Notes how long a block of the kernel took, by which the next grid is called brief or not. If this grid was called
   brief and takes longer, all threads run its blocks. */
static void note_time(sg_engine *e, sg_grid *g, enum exec_turn turn, uint64_t done, uint64_t took)
{
    FLYT_ASSERT_HELD(&e->lock);
    ((sg_kernel *)(uintptr_t)g->kernel)->took = turn == EXEC_TURN_DONE ? took / (done + 1) + 1 : UINT64_MAX;
    if (g->brief && (turn != EXEC_TURN_DONE || took > e->brief)) {
        g->brief = false;
        wake_for_rest(e);
    }
}

/* A turn of the block, which has been taken from the queue, and what comes of it. Gives the lock up meanwhile. */
static void take_turn(sg_engine *e, struct exec_block *b)
{
    FLYT_ASSERT_HELD(&e->lock);
    const bool begins = b->fresh;
    if (begins)
        b = exec_warm_block(e, b);
    sg_grid *g = b->grid;
    const struct exec_range claimed = exec_claim_blocks(e, b);
    const unsigned since = e->turns_seen & 1;
    e->in_turn[since]++;
    self.takes = NULL;
    pthread_mutex_unlock(&e->lock);
    const uint64_t before = begins ? now() : 0;
    uint64_t done;
    enum exec_turn turn = run_turns(b, claimed, &done);
    const uint64_t took = begins ? now() - before : 0;
    pthread_mutex_lock(&e->lock);
    self.takes = e;
    e->in_turn[since]--;
    if (begins) {
        note_time(e, g, turn, done, took);
        exec_claim_over(e, g, claimed, done, turn == EXEC_TURN_DONE ? took : UINT64_MAX);
    }
    int error = atomic_load_explicit(&g->error, memory_order_relaxed);
    bool failed = error != 0;
    if (failed)
        report_unlocked(e, fail_grids(e, root_of(g), error));
    if (turn == EXEC_TURN_MORE || (turn == EXEC_TURN_WAIT && failed)) {
        ready_push(e, b, nap_end(b));
        if (e->placed_on < exec_active_sms(e))
            exec_place_blocks(e);                     /* there are more SMs than before: blocks need not wait */
        return;
    }
    if (turn == EXEC_TURN_WAIT) {                     /* a deadlock of the kernel's own: until it is cancelled */
        b->parked = true;
        return;
    }
    if (exec_next_block(e, g, b))
        return;
    exec_end_block(e, g, b);
    sg_grid *over = grids_over(e, g);
    exec_place_blocks(e);
    report_unlocked(e, over);
    if (over && e->stopping)
        sleepers_wake_all(&e->idle);
}

static void *engine_thread(void *context)
{
    sg_engine *e = context;
    uint64_t wake;
    pthread_mutex_lock(&e->lock);
    self.takes = e;
    for (;;) {
        struct exec_block *b = ready_take(e, &wake);
        if (b)
            take_turn(e, b);
        else if (e->stopping && !e->grids)
            break;
        else
            sleep_until(e, wake);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* Program signals are for the program's own threads. */
static int start_threads(sg_engine *e)
{
    FLYT_ASSERT_HELD(&e->lock);
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (e->started < e->thread_count && !pthread_create(&e->threads[e->started], NULL, engine_thread, e))
        e->started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return e->started ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Clusters as the launch names them; else the kernel's own. */
static int grid_clusters(sg_grid *g)
{
    uint64_t size = 1;
    g->cluster_given = g->launch.cluster[0] || g->kernel->ptx->req_cluster[0] || g->kernel->ptx->explicit_cluster;
    for (int i = 0; i < 3; i++) {
        uint32_t n = g->launch.cluster[0] ? g->launch.cluster[i] : g->kernel->ptx->req_cluster[i];
        g->cluster[i] = n ? n : 1;
        size *= g->cluster[i];
        if (g->launch.grid[i] % g->cluster[i])
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        if (size > EXEC_CLUSTER_MOST)
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    g->cluster_size = (uint32_t)size;
    return CUDA_SUCCESS;
}

static int grid_new(sg_engine *e, const struct sg_launch *launch, sg_grid **out)
{
    const sg_kernel *k = launch->kernel;
    const size_t head = (sizeof(sg_grid) + 63) / 64 * 64, params = (k->ptx->param_size + 127) / 64 * 64;
    sg_grid *g = aligned_alloc(64, head + params);
    if (!g)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(g, 0, head + params);
    g->engine = e;
    g->launch = *launch;
    g->kernel = k;
    g->entry = atomic_load_explicit(&k->functions[k->index], memory_order_acquire);
    g->params_size = k->ptx->param_size;
    g->params = (unsigned char *)g + head;
    if (launch->params)
        memcpy(g->params, launch->params, launch->params_size < g->params_size ? launch->params_size : g->params_size);
    g->launch.params = NULL;
    g->registers = exec_registers_of_thread(k);
    g->threads_per_block = launch->block[0] * launch->block[1] * launch->block[2];
    g->warps_per_block = (g->threads_per_block + 31) / 32;
    g->block_count = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    g->shared_size = k->static_shared + launch->dynamic_shared;
    g->local_size = k->local_static;
    if (k->stack_limited) {
        /* The limit on stacks is the least that there is. Arguments of calls live in local memory too, beside what it
           is about. */
        if (g->launch.stack < k->stack_static)
            g->launch.stack = k->stack_static;
        size_t size = g->entry->local_size + 4 * g->launch.stack + 8192;
        g->local_size = size > g->local_size ? size : g->local_size;
    }
    int result = !g->block_count || !g->threads_per_block || g->warps_per_block > EXEC_MAX_WARPS
                     ? CUDA_ERROR_INVALID_VALUE
                     : grid_clusters(g);
    const struct exec_sm none = { 0 };
    if (!result) {
        uint64_t fit = exec_blocks_that_fit(&e->limits, &none, g->threads_per_block, g->registers, g->shared_size);
        result = !fit                                         ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
                 : fit * e->limits.sm_count < g->cluster_size ? CUDA_ERROR_INVALID_CLUSTER_SIZE
                                                              : CUDA_SUCCESS;
    }
    g->whole = result ? NULL : exec_whole_of(g);
    if (result)
        free(g);
    else
        *out = g;
    return result;
}

/* Its kernel's blocks were short of late. */
static bool is_brief(const sg_engine *e, const sg_grid *g)
{
    FLYT_ASSERT_HELD(&e->lock);
    const uint64_t took = g->kernel->took;
    return took && g->block_count <= e->brief / took && g->cluster_size == 1 && !e->chaos;
}

/* Can a thread run the kernel that nobody but it may keep waiting? What the kernel may call does not wait, either. */
static bool waits_for_nobody(const sg_kernel *k)
{
    return !(k->uses & (SOFTGPU_USES_GRAPHS | SOFTGPU_USES_CHILDREN)) && !k->calls_pointers &&
           !atomic_load_explicit(&sg_absent, memory_order_relaxed) &&
           !atomic_load_explicit(&sg_released, memory_order_relaxed);
}

/* This thread runs the grid in sg_run, if it has said that it will call it. */
static void lend_thread(sg_engine *e, const sg_grid *g)
{
    FLYT_ASSERT_HELD(&e->lock);
    if (!self.holds || self.outside || !g->brief || !waits_for_nobody(g->kernel))
        return;
    self.takes = self.outside = e;
    e->outside++;
}

int sg_engine_launch(sg_engine *e, const struct sg_launch *launch)
{
    sg_grid *g;
    int result = grid_new(e, launch, &g);
    if (result)
        return result;
    pthread_mutex_lock(&e->lock);
    result = e->stopping ? CUDA_ERROR_DEINITIALIZED : e->started ? CUDA_SUCCESS : start_threads(e);
    if (result) {
        pthread_mutex_unlock(&e->lock);
        free(g);
        return result;
    }
    g->id = ++e->grid_ids;
    sg_kernel *k = (sg_kernel *)(uintptr_t)g->kernel, *gone = NULL;
    if (atomic_load(&k->guests) && !k->running)
        gone = exec_guests_gone(k);
    g->brief = is_brief(e, g);
    lend_thread(e, g);
    exec_spare_take(e, g);
    append(e, g);
    exec_place_blocks(e);
    pthread_mutex_unlock(&e->lock);
    exec_guests_free(gone);
    return CUDA_SUCCESS;
}

void sg_hold(void) { self.holds = true; }

void sg_run(bool here)
{
    sg_engine *e = self.outside;
    self.holds = false;
    if (!e)
        return;
    const uint64_t until = now() + e->brief;
    uint64_t wake;
    pthread_mutex_lock(&e->lock);
    while (here && e->ready && e->ready->grid->brief && waits_for_nobody(e->ready->grid->kernel)) {
        take_turn(e, ready_take(e, &wake));
        here = now() < until;
    }
    self.takes = self.outside = NULL;
    wake_for_rest(e);
    if (!--e->outside && e->stopping)
        sleepers_wake_all(&e->idle);
    pthread_mutex_unlock(&e->lock);
}

/* What a thread of the block launches. How many may wait is a limit of the context. */
int exec_launch_child(struct exec_block *b, const struct sg_launch *launch, uint64_t stream)
{
    enum { PENDING = CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT };
    sg_engine *e = b->grid->engine;
    sg_grid *g, *ready = NULL, *over = NULL;
    int result = grid_new(e, launch, &g);
    if (result)
        return result;
    g->depth = b->grid->depth + 1;
    pthread_mutex_lock(&e->lock);
    if (launch->limit_count > PENDING && e->waiting_children >= launch->limits[PENDING])
        result = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (!result)
        switch (exec_family_launch(b, g, stream, &ready)) {
        case EXEC_FAMILY_NO_STREAM: result = CUDA_ERROR_INVALID_HANDLE; break;
        case EXEC_FAMILY_NO_MEMORY: result = CUDA_ERROR_OUT_OF_MEMORY; break;
        default:                    break;
        }
    if (!result) {
        g->id = ++e->grid_ids;
        e->waiting_children++;
        start_children(e, ready, &over);
        exec_place_blocks(e);
    }
    pthread_mutex_unlock(&e->lock);
    report_all(over);
    if (result)
        free(g);
    return result;
}

void sg_engine_cancel(sg_engine *e, int error)
{
    pthread_mutex_lock(&e->lock);
    sg_grid *over = fail_grids(e, NULL, error);
    pthread_mutex_unlock(&e->lock);
    report_all(over);
}

void sg_engine_destroy(sg_engine *e)
{
    if (!e)
        return;
    pthread_mutex_lock(&e->lock);
    e->stopping = true;
    pthread_mutex_unlock(&e->lock);
    sg_engine_cancel(e, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    pthread_mutex_lock(&e->lock);
    sleepers_wake_all(&e->idle);
    while (e->outside)
        sleepers_wait(&e->idle, &e->lock, NULL);
    pthread_mutex_unlock(&e->lock);
    for (unsigned i = 0; i < e->started; i++)
        pthread_join(e->threads[i], NULL);
    exec_spares_free(e, NULL);
    pthread_mutex_destroy(&e->lock);
    free(e->threads);
    free(e->sms);
    free(e);
}
