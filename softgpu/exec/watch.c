/*
 * watch.c: which granules of one window of the address space have been written since somebody last asked (memory.h).
 *
 * A granule that is watched has no right to be written in the table of rights: the right is kept in `held`. The first
 * write finds none, comes here, and opens the granule again; the next ones find the right. So nothing is slower while
 * nobody watches, and while somebody does, one write to each granule between two questions.
 *
 * The look into the table and the access behind it are not one step. So sg_watch_ask gives no answer before each block
 * whose turn was running has ended it, in which it may have found a right that was taken meanwhile: what it wrote is
 * there when the caller reads the granule, which counts as written, since it was open.
 *
 * The lock orders changes of the two tables.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cpu/common/lock.h"
#include "softgpu/memory.h"

enum { WRITES = 0xAA };                /* SG_WRITE of each device */

static atomic_bool watch_used;      /* somebody has watched once */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct sg_window *window;
    uint64_t granules;
    uint8_t *held;                     /* what watching has taken of the rights */
    uint8_t *written;                  /* not 0: since the last question */
} watch;

bool sg_watch_lock(const struct sg_window *w)
{
    pthread_mutex_lock(&lock);
    if (watch.window == w)
        return true;
    pthread_mutex_unlock(&lock);
    return false;
}

void sg_watch_unlock(void) { pthread_mutex_unlock(&lock); }

void sg_watch_changed(uint64_t granule, unsigned devices, bool open)
{
    FLYT_ASSERT_HELD(&lock);
    if (granule >= watch.granules)
        return;
    watch.held[granule] &= (uint8_t)~devices;
    watch.written[granule] |= open;
}

static bool is_inside(uint64_t address, uint64_t size, uint64_t *first, uint64_t *last)
{
    FLYT_ASSERT_HELD(&lock);
    const uint64_t offset = watch.window ? address - atomic_load(&watch.window->base) : 0;
    if (!watch.window || !size || offset >= watch.granules << SG_GRANULE_SHIFT ||
        size > (watch.granules << SG_GRANULE_SHIFT) - offset)
        return false;
    *first = offset >> SG_GRANULE_SHIFT;
    *last = (offset + size - 1) >> SG_GRANULE_SHIFT;
    return true;
}

/* Another thread may have opened it meanwhile, or ended the watch: so the caller's look is made again, under the lock,
   where nobody takes the right once more. */
static bool open_and_look(uint64_t address, uint64_t size, unsigned devices, unsigned rights)
{
    uint64_t first, last;
    bool may = false;
    pthread_mutex_lock(&lock);
    if (is_inside(address, size, &first, &last))
        for (uint64_t g = first; g <= last; g++)
            if (watch.held[g]) {
                watch.written[g] = 1;
                atomic_fetch_or(&atomic_load(&watch.window->rights)[g], watch.held[g]);
                watch.held[g] = 0;
            }
    for (unsigned d = 0; d < 4 && !may; d++)
        may = devices >> d & 1u && sg_memory_may(address, size, d, rights);
    pthread_mutex_unlock(&lock);
    return may;
}

bool sg_watch_opens(uint64_t address, uint64_t size, unsigned device, unsigned rights)
{
    return atomic_load(&watch_used) && rights & SG_WRITE && open_and_look(address, size, 1u << (device & 3u), rights);
}

bool sg_watch_opens_to_any(uint64_t address, uint64_t size, unsigned rights)
{
    return atomic_load(&watch_used) && rights & SG_WRITE && open_and_look(address, size, 0xF, rights);
}

bool sg_watch_holds(uint64_t address, unsigned device)
{
    uint64_t first, last;
    bool holds = false;
    if (!atomic_load(&watch_used))
        return false;
    pthread_mutex_lock(&lock);
    if (is_inside(address, 1, &first, &last))
        holds = watch.held[first] >> (2 * (device & 3u)) & SG_WRITE;
    pthread_mutex_unlock(&lock);
    return holds;
}

static bool begin(struct sg_window *w)
{
    FLYT_ASSERT_HELD(&lock);
    watch.granules = (atomic_load(&w->size) + (UINT64_C(1) << SG_GRANULE_SHIFT) - 1) >> SG_GRANULE_SHIFT;
    watch.held = calloc(2, watch.granules);
    if (!watch.held)
        return false;
    watch.written = watch.held + watch.granules;
    memset(watch.written, 1, watch.granules);
    watch.window = w;
    atomic_store(&watch_used, true);
    return true;
}

static void end(void)
{
    FLYT_ASSERT_HELD(&lock);
    free(watch.held);
    watch.held = watch.written = NULL;
    watch.window = NULL;
    watch.granules = 0;
}

/* Notes what was written, and goes on watching or not. Memory that nobody may touch is nothing that was written. */
static void collect(uint8_t *changed, bool again)
{
    FLYT_ASSERT_HELD(&lock);
    _Atomic uint8_t *rights = atomic_load(&watch.window->rights);
    for (uint64_t g = 0; g < watch.granules; g++) {
        const unsigned now = atomic_load_explicit(&rights[g], memory_order_relaxed);
        if (watch.written[g] && (now || watch.held[g]))
            changed[g / 8] |= (uint8_t)(1u << g % 8);
        watch.written[g] = 0;
        if (again && now & WRITES)
            watch.held[g] |= (uint8_t)(atomic_fetch_and(&rights[g], (uint8_t)~WRITES) & WRITES);
        else if (!again && watch.held[g])
            atomic_fetch_or(&rights[g], watch.held[g]);
    }
}

void sg_watch_drop(const struct sg_window *w)
{
    pthread_mutex_lock(&lock);
    if (watch.window == w)
        end();
    pthread_mutex_unlock(&lock);
}

int sg_watch_ask(struct sg_window *w, uint8_t *changed, bool again)
{
    int result = 0;
    pthread_mutex_lock(&lock);
    if (watch.window && watch.window != w)
        result = SG_WATCH_TAKEN;
    else if (!watch.window && again && !begin(w))
        result = SG_WATCH_NO_MEMORY;
    if (!result && watch.window)
        collect(changed, again);
    if (!result && watch.window && !again)
        end();
    pthread_mutex_unlock(&lock);
    return result;
}
