/*
 * watch.c: which device memory has been written since somebody last asked (softgpu/exec/watch.c). Not CUDA's; a server
 * finds it by dlsym (cpu/server/gpu/gpu.h), and copies what has changed once more while the program goes on.
 */
#include <time.h>

#include "softgpu/driver/calls/calls.h"
#include "softgpu/memory.h"

static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;

/* A turn may itself wait for the mutex, so it is not held meanwhile. */
static void await_turns(void)
{
    enum { SHORTEST_NS = 10000, LONGEST_NS = 1000000 };
    for (long pause = SHORTEST_NS; !sgd_enter(); pause = pause < LONGEST_NS ? 2 * pause : pause) {
        bool passed = sgd_turns_passed();
        sgd_leave();
        if (passed)
            return;
        nanosleep(&(struct timespec){ 0, pause }, NULL);
    }
}

/* Of the window (a reservation of its own) that begins at base. changed: `size` bytes, all 0, with a bit for each
   granule; *granule: how many bytes that is. A bit is set if the granule was written since the last question, or became
   memory, or at the first question if it is memory; what was written before this returns can be read. again: goes on;
   else the watch ends. */
__attribute__((visibility("default")))
CUresult softgpu_watch(uint64_t base, uint8_t *changed, uint64_t size, uint64_t *granule, bool again);
CUresult softgpu_watch(uint64_t base, uint8_t *changed, uint64_t size, uint64_t *granule, bool again)
{
    *granule = SGD_GRANULE;
    pthread_mutex_lock(&asking);
    CUresult r = sgd_enter();
    if (!r) {
        r = sgd_space_watch(base, changed, size, again);
        if (!r)
            sgd_turns_note();
        sgd_leave();
        if (!r)
            await_turns();
    }
    pthread_mutex_unlock(&asking);
    return r;
}
