/*
 * state.c: is the driver usable, its one mutex, the fault that sticks, and the table of handles.
 *
 * A handle is a token: 0xF17A in the top bits (so that it is no address), 16 bits of generation, the slot's
 * index. A token whose slot has been used again since has another generation and is refused.
 * In the child of a fork the mutex may be held by a thread that is not there: nothing but `forked` is looked at.
 */
#include "softgpu/driver/driver.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu/common/lock.h"

pthread_mutex_t sgd_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool initialised, forked;
static atomic_int fault;
static uint64_t random_state, last_id;
static CUresult start_result;

struct slot { void *object; uint32_t generation; enum sgd_kind kind; uint32_t next_free; };
static struct slot *slots;
static uint32_t slot_count, slot_room, first_free = UINT32_MAX;

static _Thread_local char last_log[8192];

void sgd_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

static void in_child(void)
{
    if (atomic_load(&initialised))
        atomic_store(&forked, true);
}

/* ---- initialisation ----------------------------------------------------------------------------------- */

CUresult sgd_devices_start(void);           /* device.c */

static void start(void)
{
    sgd_cond_init(&progress);
    sgd_config_read();
    random_state = sgd_config.chaos * 0x9E3779B97F4A7C15u + 1;
    pthread_atfork(NULL, NULL, in_child);
    start_result = sgd_config.devices ? sgd_space_start() : CUDA_ERROR_NO_DEVICE;
    if (start_result == CUDA_SUCCESS && sgd_config.fault_gpu)
        start_result = sgd_domain_join();
    if (start_result == CUDA_SUCCESS) {
        sgd_lock();
        start_result = sgd_devices_start();
        sgd_unlock();
    }
    if (start_result == CUDA_SUCCESS)
        atomic_store(&initialised, true);
}

CUresult cuInit(unsigned int flags)
{
    if (atomic_load(&forked))
        return CUDA_ERROR_NOT_INITIALIZED;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_once(&once, start);
    return start_result;
}

bool sgd_initialised(void)
{
    return atomic_load(&initialised) && !atomic_load(&forked);
}

CUresult sgd_enter(void)
{
    if (!sgd_initialised())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!sgd_fault() && sgd_in_callback())
        return CUDA_ERROR_NOT_PERMITTED;
    sgd_lock();
    if (!sgd_fault() && sgd_domain_fault())
        sgd_fault_raise(sgd_domain_fault());
    /* Under the lock: what has ended by now and the fault that ended it are seen together. */
    CUresult stuck = sgd_fault();
    if (stuck)
        sgd_unlock();
    return stuck;
}

CUresult sgd_enter_current(struct sgd_context **context)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    *context = sgd_context_current();
    if (*context && (*context)->active)
        return CUDA_SUCCESS;
    r = sgd_current_any() ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
    sgd_leave();
    return r;
}

void sgd_leave(void) { sgd_unlock(); }
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
    struct timespec at = { .tv_sec = (time_t)(*deadline_ns / 1000000000u), .tv_nsec = (long)(*deadline_ns % 1000000000u) };
    pthread_cond_timedwait(cond, &sgd_mutex, &at);
}

void sgd_progress(void) { pthread_cond_broadcast(&progress); }

/* ---- faults -------------------------------------------------------------------------------------------- */

CUresult sgd_fault(void) { return (CUresult)atomic_load(&fault); }

void sgd_fault_raise(CUresult code)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    int none = 0;
    if (code != CUDA_SUCCESS && atomic_compare_exchange_strong(&fault, &none, (int)code)) {
        if (code != CUDA_ERROR_ASSERT)       /* that one ends with its context */
            sgd_domain_tell(code);
        sgd_queue_fault();
    }
}

void sgd_fault_clear_assert(void)
{
    int assertion = CUDA_ERROR_ASSERT;
    atomic_compare_exchange_strong(&fault, &assertion, 0);
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

/* ---- handles ------------------------------------------------------------------------------------------- */

static const uint64_t handle_tag = 0xF17Au;

void *sgd_handle_new(enum sgd_kind kind, void *object)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    if (first_free == UINT32_MAX) {
        if (slot_count == slot_room) {
            uint32_t room = slot_room ? slot_room * 2 : 256;
            struct slot *grown = room > (1u << 28) ? NULL : realloc(slots, room * sizeof *grown);
            if (!grown)
                return NULL;
            slots = grown;
            slot_room = room;
        }
        slots[slot_count] = (struct slot){ .generation = 1, .next_free = UINT32_MAX };
        first_free = slot_count++;
    }
    uint32_t index = first_free;
    struct slot *s = &slots[index];
    first_free = s->next_free;
    s->object = object;
    s->kind = kind;
    return (void *)(uintptr_t)(handle_tag << 48 | (uint64_t)(s->generation & 0xFFFFu) << 32 | (uint64_t)(index + 1) << 3);
}

static struct slot *slot_of(const void *handle)
{
    uint64_t token = (uint64_t)(uintptr_t)handle;
    uint32_t index = (uint32_t)token >> 3;
    if (token >> 48 != handle_tag || token & 7u || !index || index > slot_count)
        return NULL;
    struct slot *s = &slots[index - 1];
    return s->kind != SGD_FREE && (s->generation & 0xFFFFu) == ((token >> 32) & 0xFFFFu) ? s : NULL;
}

void *sgd_handle_get(enum sgd_kind kind, const void *handle)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    struct slot *s = slot_of(handle);
    return s && s->kind == kind ? s->object : NULL;
}

void sgd_handle_drop(const void *handle)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    struct slot *s = slot_of(handle);
    if (!s)
        return;
    s->object = NULL;
    s->kind = SGD_FREE;
    s->generation++;
    s->next_free = first_free;
    first_free = (uint32_t)(s - slots);
}
