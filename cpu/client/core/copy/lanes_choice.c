/*
 * lanes_choice.c: whether large copies use lanes, and how many.
 *
 * Bytes inside the calls reach the device by the shortest way: whoever reads a call makes its copy, and nothing is
 * said about them but the call. But the calls of others stand behind them: behind a part of CHUNK_SIZE, and what lies
 * unsent in the socket, which is little (rpc_socket_tune). Where a part takes less than FAST_PART_NS on its way
 * nobody notices; so on such a connection, as between containers of a machine or over a fast network, large copies go
 * inside their calls, unless their stream may stand still: then their bytes would fill the queue of the session
 * (lanes have their credit against that).
 *
 * A connection counts as fast until copies find otherwise. The parts of each are timed, in windows of WINDOW_NS or
 * WINDOW_BYTES. When as much time as SLOW_WINDOWS have passed in succession that were too slow, large copies use
 * lanes, the rest of the one that is under way too. (Not sooner: memory that is written for the first time, at either
 * end, takes its time too. One window counts for SLOW_ONE at most, however long somebody was held up.) They go back
 * to the calls when AGAIN copies of TUNE_BYTES in succession went more than twice as fast as need be; each time that
 * turns out wrong it takes twice as many. The lanes stay open: the server might not have noticed the end of one when
 * it is asked for it again, and refuse.
 *
 * Where the program may use LANES_PROCESSORS or more (`many`) large copies always use lanes: what several connections
 * cost, above all of encryption, is divided between processors, and one connection alone would be slower.
 *
 * One lane more is tried when enough has been copied over lanes to know how fast it goes, and kept if that gains a
 * tenth.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "cpu/common/clock.h"
#include "cpu/common/lock.h"
#include "cpu/common/log.h"
#include "lane_state.h"

enum {
    FAST_PART_NS = 1000 * 1000,
    WINDOW_BYTES = 4 << 20,
    WINDOW_NS = WINDOW_BYTES / CHUNK_SIZE * FAST_PART_NS,
    SLOW_WINDOWS = 6,
    SLOW_ONE = 3,
    AGAIN = 4,
    AGAIN_MAX = 1024
};

static struct {
    atomic_bool          beside;          /* large copies use lanes */
    pthread_mutex_t      lock;
    /* under the lock: the window, of all copies together */
    uint64_t             bytes, ns;
    unsigned             slow;            /* as many windows in succession */
    unsigned             fast, again;     /* copies over lanes in succession; so many are wanted */
} choice = { .lock = PTHREAD_MUTEX_INITIALIZER, .again = AGAIN };

void lanes_choose(bool beside)
{
    atomic_store(&choice.beside, beside);
}

bool lanes_beside(void)
{
    return atomic_load_explicit(&choice.beside, memory_order_relaxed);
}

/* ---- with the calls, or over lanes ---- */

/* So many bytes in so long: more time than a fast connection takes. */
static bool slow(uint64_t bytes, uint64_t ns)
{
    return ns > bytes * FAST_PART_NS / CHUNK_SIZE;
}

void lanes_pace(uint64_t bytes, uint64_t ns)
{
    if (!lanes.offered || lanes.fixed || lanes_beside())
        return;
    pthread_mutex_lock(&choice.lock);
    choice.bytes += bytes;
    choice.ns += ns;
    if (choice.bytes >= WINDOW_BYTES || choice.ns >= WINDOW_NS) {
        unsigned windows = choice.ns / WINDOW_NS < SLOW_ONE ? (unsigned)(choice.ns / WINDOW_NS) : SLOW_ONE;
        choice.slow = slow(choice.bytes, choice.ns) ? choice.slow + windows : 0;
        choice.bytes = choice.ns = 0;
    }
    bool turn = choice.slow >= SLOW_WINDOWS && !lanes_beside();
    if (turn) {
        choice.slow = choice.fast = 0;
        lanes_choose(true);
    }
    pthread_mutex_unlock(&choice.lock);
    if (turn)
        log_debug("large copies get connections of their own: others' calls would wait too long behind them");
}

/* A copy over lanes. */
static void pace_on_lanes(uint64_t bytes, uint64_t ns)
{
    FLYT_ASSERT_HELD(&lanes.opening);
    pthread_mutex_lock(&choice.lock);
    choice.fast = slow(bytes, 2 * ns) ? 0 : choice.fast + 1;
    bool turn = lanes_beside() && !lanes.many && choice.fast >= choice.again;
    if (turn) {
        choice.again = choice.again < AGAIN_MAX ? 2 * choice.again : AGAIN_MAX;
        choice.fast = 0;
        lanes_choose(false);
    }
    pthread_mutex_unlock(&choice.lock);
    if (turn)
        log_debug("large copies go with the calls: the connection is fast");
}

/* ---- how many lanes ---- */

void lanes_tune(unsigned way, uint64_t bytes, uint64_t ns)
{
    if (lanes.fixed || bytes < TUNE_BYTES || !ns || (lanes.settled && !lanes_beside()) ||
        pthread_mutex_trylock(&lanes.opening) != 0)
        return;
    unsigned now = atomic_load(&lanes.used);
    double rate = (double)bytes / (double)ns, *best = lanes.rate[way].best;
    if (rate > best[now])
        best[now] = rate;
    if (lanes_beside() && !lanes.settled && ++lanes.rate[way].samples[now] >= TUNE_SAMPLES && now > 0) {
        if (now > 1 && best[now] < 1.1 * best[now - 1])
            lanes.settled = lane_close(&lanes.lanes[now - 1]);
        else if (now == lanes.most)
            lanes.settled = true;
        else
            lanes.settled = !lane_open(now + 1);
    }
    pace_on_lanes(bytes, ns);
    pthread_mutex_unlock(&lanes.opening);
}
