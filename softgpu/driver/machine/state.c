/* state.c: the driver's one mutex, the fault that sticks, small things that everything uses. */
#include "softgpu/driver/machine/machine.h"
#include "softgpu/check.h"
#include "softgpu/exec/jit.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cpu/common/lock.h"

pthread_mutex_t sgd_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress;
static atomic_int fault;
static uint64_t random_state, last_id;
static _Atomic(softgpu_graph_launch *) graph_launch;
static _Thread_local char last_log[8192];

void sgd_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void sgd_state_start(void)
{
    sgd_cond_init(&progress);
    random_state = sgd_config.chaos * 0x9E3779B97F4A7C15u + 1;
}

void sgd_lock(void) { pthread_mutex_lock(&sgd_mutex); }
void sgd_unlock(void) { pthread_mutex_unlock(&sgd_mutex); }

void sgd_wait(const uint64_t *deadline_ns) { sgd_wait_on(&progress, deadline_ns); }

void sgd_wait_on(pthread_cond_t *cond, const uint64_t *deadline_ns)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    if (!deadline_ns) {
        pthread_cond_wait(cond, &sgd_mutex);
        return;
    }
    struct timespec at = { .tv_sec = (time_t)(*deadline_ns / 1000000000u),
                           .tv_nsec = (long)(*deadline_ns % 1000000000u) };
    pthread_cond_timedwait(cond, &sgd_mutex, &at);
}

void sgd_progress(void) { pthread_cond_broadcast(&progress); }

/* ---- faults -------------------------------------------------------------------------------------------- */

CUresult sgd_fault(void) { return (CUresult)atomic_load(&fault); }

bool sgd_fault_note(CUresult code)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    int none = 0;
    return code != CUDA_SUCCESS && atomic_compare_exchange_strong(&fault, &none, (int)code);
}

/* ---- small things -------------------------------------------------------------------------------------- */

void sgd_log(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_log, sizeof last_log, format, arguments);
    va_end(arguments);
}

/* Not of CUDA: the text that explains this thread's last failure (of a module or a function). Returns its length. */
__attribute__((visibility("default"))) size_t softgpu_last_log(char *buffer, size_t size);
size_t softgpu_last_log(char *buffer, size_t size)
{
    if (buffer && size)
        snprintf(buffer, size, "%s", last_log);
    return strlen(last_log);
}

uint64_t sgd_random(uint64_t below)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    if (!sgd_config.chaos || !below)
        return 0;
    random_state ^= random_state << 13;     /* xorshift64 */
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

uint64_t sgd_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t sgd_next_id(void) { return ++last_id; }

/* For servers whose clients cut allocations out of mapped memory themselves, under FLYT_SOFTGPU_MEMCHECK. state: 0
   freed, 1 allocated, 2 mapped for allocations to come. Returns whether anybody looks at it. */
__attribute__((visibility("default"))) int softgpu_extent(uint64_t address, uint64_t size, int state);
int softgpu_extent(uint64_t address, uint64_t size, int state)
{
    if (sg_check && size)
        (state == 0 ? sg_check_freed : state == 1 ? sg_check_allocated : sg_check_nobodys)(address, size);
    return sg_check != 0;
}

/* For servers whose clients have graphs that kernels launch: what becomes of these launches. */
__attribute__((visibility("default"))) void softgpu_graphs(softgpu_graph_launch *launch);
void softgpu_graphs(softgpu_graph_launch *launch) { atomic_store(&graph_launch, launch); }
softgpu_graph_launch *sgd_graph_launcher(void) { return atomic_load(&graph_launch); }

/* For servers that bring memory when a kernel touches it (calls/host.c has the rest). */
__attribute__((visibility("default"))) void softgpu_absences(softgpu_absent *absent);
void softgpu_absences(softgpu_absent *absent) { atomic_store(&sg_absent, absent); }
__attribute__((visibility("default"))) void softgpu_releases(softgpu_released *released);
void softgpu_releases(softgpu_released *released) { atomic_store(&sg_released, released); }

/* For servers, whose workers end without what atexit() calls: says what the compiler has done, for FLYT_STATS=1. */
__attribute__((visibility("default"))) void softgpu_tell_compiled(void (*say)(const char *));
void softgpu_tell_compiled(void (*say)(const char *)) { exec_jit_tell(say); }

/* For servers: sg_hold and sg_run, for launches of the calling thread. */
__attribute__((visibility("default"))) void softgpu_hold(void);
void softgpu_hold(void) { sg_hold(); }
__attribute__((visibility("default"))) void softgpu_run(int here);
void softgpu_run(int here) { sg_run(here != 0); }
