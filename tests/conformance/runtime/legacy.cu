// shows: conformance: what waits for held work of the legacy stream, or of a stream that it waits for, and what does
//   not: records, queries, times, waits, synchronisations, functions; line by line with NVIDIA's runtime
//
// One stream is held: by a kernel, a host function, or a wait for a value. Another one has nothing to do, and is given
// an event, a kernel, a function, a wait. The chapter asks whether these are seen to end before the first stream goes
// on.
#include "../gate.h"

#include <dlfcn.h>

__global__ void none() {}

enum { PATIENCE = 40 }; /* seconds until a held stream goes on by itself: something waits that must not wait */
enum holder { KERNEL, FUNCTION, VALUE, HOLDERS };
static const char *const holders[] = { "a kernel", "a host function", "a wait for a value" };

static struct state {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned holds;      /* how often a stream was held, and let go */
    bool held, function_begun, function_may_go;
    bool gone;           /* the stream has been let go: what stands behind it may end from here on */
    int ran, early;      /* functions */
    holder by;
} state = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER };

static struct gate *g;
static volatile uint32_t *words; /* in mapped memory; one for each hold by a value that can be at one time */
static int (*wait_value)(cudaStream_t, unsigned long long, uint32_t, unsigned);

static void wait_for_word(cudaStream_t stream, int word)
{
    uint32_t *there;
    words[word] = 0;
    MUST(cudaHostGetDevicePointer((void **)&there, (void *)(words + word), 0));
    MUST((cudaError_t)wait_value(stream, (unsigned long long)(uintptr_t)there, 1, 0));
}
static void set_word(int word) { __atomic_store_n(words + word, 1, __ATOMIC_RELEASE); }

static void CUDART_CB stands(void *)
{
    pthread_mutex_lock(&state.lock);
    state.function_begun = true;
    pthread_cond_broadcast(&state.changed);
    while (!state.function_may_go)
        pthread_cond_wait(&state.changed, &state.lock);
    pthread_mutex_unlock(&state.lock);
}

/* Under the lock. */
static void goes_on()
{
    state.gone = true;
    state.held = false;
    state.holds++;
    state.function_may_go = true;
    gate_open(g);
    set_word(0);
    pthread_cond_broadcast(&state.changed);
}

static void *watch(void *)
{
    pthread_mutex_lock(&state.lock);
    for (;;) {
        struct timespec until;
        unsigned seen = state.holds;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += PATIENCE;
        while (state.holds == seen && pthread_cond_timedwait(&state.changed, &state.lock, &until) == 0)
            ;
        if (state.holds != seen || !state.held)
            continue;
        printf("the stream is let go: something waits that must not wait\n");
        set_word(1);
        goes_on();
    }
    return NULL;
}

static void hold(holder by, cudaStream_t stream)
{
    pthread_mutex_lock(&state.lock);
    state.by = by;
    state.function_begun = state.function_may_go = state.gone = false;
    state.ran = state.early = 0;
    state.held = true;
    state.holds++;
    pthread_cond_broadcast(&state.changed);
    pthread_mutex_unlock(&state.lock);
    if (by == KERNEL)
        gate_close(g, stream, 200000);
    if (by == VALUE)
        wait_for_word(stream, 0);
    if (by != FUNCTION)
        return;
    MUST(cudaLaunchHostFunc(stream, stands, NULL));
    pthread_mutex_lock(&state.lock);
    while (!state.function_begun)
        pthread_cond_wait(&state.changed, &state.lock);
    pthread_mutex_unlock(&state.lock);
}

static void let_go()
{
    pthread_mutex_lock(&state.lock);
    goes_on();
    pthread_mutex_unlock(&state.lock);
}

static void runs()
{
    pthread_mutex_lock(&state.lock);
    state.ran++;
    state.early += !state.gone;
    pthread_mutex_unlock(&state.lock);
}
static void CUDART_CB function(void *) { runs(); }
static void CUDART_CB callback(cudaStream_t, cudaError_t, void *) { runs(); }

/* ---- threads that wait ---- */

static struct sleeper {
    pthread_t thread;
    cudaEvent_t event;
    cudaStream_t stream;
    cudaError_t result;
    bool behind; /* it returned when the stream had been let go */
} sleepers[3];

static void *sleeps(void *of)
{
    sleeper *s = (sleeper *)of;
    s->result = s->event ? cudaEventSynchronize(s->event) : cudaStreamSynchronize(s->stream);
    pthread_mutex_lock(&state.lock);
    s->behind = state.gone;
    pthread_mutex_unlock(&state.lock);
    return NULL;
}
/* event NULL: the stream is waited for. A thread that is named the per-thread stream has another one. */
static void sleep_begins(sleeper *s, cudaEvent_t event, cudaStream_t stream)
{
    *s = { 0, event, stream, cudaSuccess, false };
    pthread_create(&s->thread, NULL, sleeps, s);
}
static void sleep_ends(sleeper *s, const char *what)
{
    pthread_join(s->thread, NULL);
    printf("%s -> %s, %s\n", what, cudaGetErrorName(s->result),
           s->behind ? "behind it" : "before it (documented: behind it)");
}

/* ---- a stream that is held, and another one ---- */

/* behind: CUDA orders what the second stream is given from here on behind what the first one has been given. */
static void beside(holder by, cudaStream_t first, cudaStream_t second, bool behind, const char *about)
{
    cudaEvent_t before, e, f;
    cudaStream_t third;
    cudaError_t late = behind ? cudaErrorNotReady : cudaSuccess;
    bool functions = behind || by != FUNCTION; /* one function runs at a time */
    float ms = -1;
    int given = 0;
    printf("-- %s holds %s\n", holders[by], about);
    MUST(cudaEventCreate(&before));
    MUST(cudaEventCreate(&e));
    MUST(cudaEventCreate(&f));
    MUST(cudaStreamCreateWithFlags(&third, cudaStreamNonBlocking));
    MUST(cudaEventRecord(before, second));
    MUST(cudaDeviceSynchronize());
    hold(by, first);
    WORKS(cudaEventRecord(e, second), "an idle stream");
    if (!behind)
        WORKS(cudaEventSynchronize(e), "not behind it");
    GIVES(late, cudaEventQuery(e), "recorded");
    GIVES(late, cudaStreamQuery(second), "a record");
    GIVES(late, cudaEventElapsedTime(&ms, before, e), "one before, one behind");
    WORKS(cudaStreamWaitEvent(third, e, 0), "a non-blocking stream");
    GIVES(late, cudaStreamQuery(third), "it waits for the event");
    none<<<1, 1, 0, third>>>();
    if (!behind)
        WORKS(cudaStreamSynchronize(third), "a kernel behind the wait");
    GIVES(late, cudaStreamQuery(third), "a kernel behind the wait");
    WORKS(cudaEventRecord(f, third), "behind the kernel");
    if (!behind)
        WORKS(cudaEventSynchronize(f), "behind the kernel");
    GIVES(late, cudaEventQuery(f), "behind the kernel");
    GIVES(late, cudaEventElapsedTime(&ms, before, f), "one before, one behind");
    if (functions) {
        WORKS(cudaLaunchHostFunc(second, function, NULL), "second stream");
        WORKS(cudaStreamAddCallback(second, callback, NULL, 0), "second stream");
        WORKS(cudaLaunchHostFunc(third, function, NULL), "third stream");
        given = 3;
    }
    none<<<1, 1, 0, second>>>();
    if (behind) {
        sleep_begins(&sleepers[0], e, 0);
        sleep_begins(&sleepers[1], NULL, third);
        sleep_begins(&sleepers[2], f, 0);
        for (int i = 0; i < 50; i++) {
            cudaStreamQuery(third);
            sched_yield();
        }
        cudaGetLastError();
        GIVES(cudaErrorNotReady, cudaEventQuery(e), "others wait for it");
    } else if (second != cudaStreamLegacy) {
        WORKS(cudaStreamSynchronize(second), "not behind it");
        WORKS(cudaStreamSynchronize(third), "not behind it");
    }
    pthread_mutex_lock(&state.lock);
    if (!behind && second != cudaStreamLegacy)
        printf("functions before it goes on: %d\n", state.early);
    else if (behind && state.early)
        printf("functions before it goes on: %d (documented: 0)\n", state.early);
    pthread_mutex_unlock(&state.lock);
    let_go();
    if (behind) {
        sleep_ends(&sleepers[0], "cudaEventSynchronize(e)");
        sleep_ends(&sleepers[1], "cudaStreamSynchronize(third)");
        sleep_ends(&sleepers[2], "cudaEventSynchronize(f)");
    }
    MUST(cudaDeviceSynchronize());
    printf("functions: %d of %d\n", state.ran, given);
    WORKS(cudaEventQuery(e), "over");
    WORKS(cudaStreamQuery(second), "over");
    WORKS(cudaEventElapsedTime(&ms, before, e), "over");
    if (ms < 0)
        printf("the time is %f ms (documented: no negative one)\n", ms);
    WORKS(cudaEventElapsedTime(&ms, e, f), "over");
    if (ms < 0)
        printf("the time is %f ms (documented: no negative one)\n", ms);
    MUST(cudaEventDestroy(before));
    MUST(cudaEventDestroy(e));
    MUST(cudaEventDestroy(f));
    MUST(cudaStreamDestroy(third));
}

/* What has been given nothing is over, whatever others do. */
static void idle(holder by, cudaStream_t blocking, cudaStream_t apart)
{
    cudaEvent_t never;
    printf("-- %s: streams that have been given nothing\n", holders[by]);
    MUST(cudaEventCreate(&never));
    hold(by, cudaStreamLegacy);
    WORKS(cudaStreamQuery(blocking), "a blocking stream");
    WORKS(cudaStreamSynchronize(blocking), "a blocking stream");
    WORKS(cudaStreamQuery(apart), "a non-blocking stream");
    WORKS(cudaStreamSynchronize(cudaStreamPerThread), "per thread");
    WORKS(cudaEventQuery(never), "never recorded");
    WORKS(cudaStreamWaitEvent(blocking, never, 0), "never recorded");
    GIVES(cudaErrorNotReady, cudaStreamQuery(cudaStreamLegacy), "the legacy stream");
    let_go();
    WORKS(cudaDeviceSynchronize(), "all");
    hold(by, blocking);
    GIVES(cudaErrorNotReady, cudaStreamQuery(cudaStreamLegacy), "a blocking stream is held");
    WORKS(cudaStreamQuery(apart), "a non-blocking stream");
    let_go();
    WORKS(cudaStreamSynchronize(cudaStreamLegacy), "a blocking stream was held");
    hold(by, apart);
    WORKS(cudaStreamQuery(cudaStreamLegacy), "a non-blocking stream is held");
    WORKS(cudaStreamSynchronize(cudaStreamLegacy), "a non-blocking stream is held");
    let_go();
    MUST(cudaDeviceSynchronize());
    MUST(cudaEventDestroy(never));
}

/* Two blocking streams have to do with each other only where the legacy stream is given something between. */
static void through(holder by, cudaStream_t a, cudaStream_t b, int what)
{
    static const char *const between[] = { "nothing", "a record", "a wait", "a kernel", "a function", "a memset",
                                          "a wait for an event that is over",
                                          "a wait for an event that was never recorded" };
    cudaEvent_t e, of_legacy, of_held;
    static void *memory;
    if (!memory)
        MUST(cudaMalloc(&memory, 64));
    printf("-- %s holds a blocking stream, the legacy stream is given %s\n", holders[by], between[what]);
    MUST(cudaEventCreate(&e));
    MUST(cudaEventCreate(&of_legacy));
    MUST(cudaEventCreate(&of_held));
    if (what == 6) {
        MUST(cudaEventRecord(of_legacy, b));
        MUST(cudaEventSynchronize(of_legacy));
    }
    hold(by, a);
    WORKS(cudaEventRecord(of_held, a), "the held stream");
    switch (what) {
    case 1: WORKS(cudaEventRecord(of_legacy, cudaStreamLegacy), "legacy"); break;
    case 2: WORKS(cudaStreamWaitEvent(cudaStreamLegacy, of_held, 0), "legacy"); break;
    case 3: none<<<1, 1, 0, cudaStreamLegacy>>>(); break;
    case 4: WORKS(cudaLaunchHostFunc(cudaStreamLegacy, function, NULL), "legacy"); break;
    case 6:
    case 7: WORKS(cudaStreamWaitEvent(cudaStreamLegacy, of_legacy, 0), "legacy"); break;
    case 5: WORKS(cudaMemsetAsync(memory, 0, 64, cudaStreamLegacy), "legacy"); break;
    default: break;
    }
    WORKS(cudaEventRecord(e, b), "another blocking stream");
    if (what == 0) {
        WORKS(cudaEventSynchronize(e), "another blocking stream");
        WORKS(cudaStreamSynchronize(b), "another blocking stream");
        WORKS(cudaStreamQuery(b), "another blocking stream");
    } else {
        GIVES(cudaErrorNotReady, cudaEventQuery(e), "behind the legacy stream");
        GIVES(cudaErrorNotReady, cudaStreamQuery(b), "behind the legacy stream");
        sleep_begins(&sleepers[0], e, 0);
        sleep_begins(&sleepers[1], b == cudaStreamPerThread ? e : NULL, b);
    }
    let_go();
    if (what) {
        sleep_ends(&sleepers[0], "cudaEventSynchronize(e)");
        sleep_ends(&sleepers[1], "another thread's synchronisation");
    }
    MUST(cudaDeviceSynchronize());
    WORKS(cudaEventQuery(e), "over");
    MUST(cudaEventDestroy(e));
    MUST(cudaEventDestroy(of_legacy));
    MUST(cudaEventDestroy(of_held));
}

/* A stream's own work has ended, and what another stream was given later is held: a question about the first does not
   wait for the second. asked: a thread synchronises the first stream while both are held. */
static void later(cudaStream_t first, cudaStream_t second, bool asked, int many, const char *about)
{
    cudaEvent_t e;
    bool legacy = first == cudaStreamLegacy; /* which ends with the blocking ones */
    printf("-- %s is over, the other one is held by %s that it was given later%s\n", about, many > 1 ? "much" : "work",
           asked ? "; a thread waits" : "");
    MUST(cudaEventCreate(&e));
    hold(VALUE, first);
    none<<<1, 1, 0, first>>>();
    WORKS(cudaEventRecord(e, first), "the first stream");
    none<<<1, 1, 0, first>>>();
    none<<<1, 1, 0, second>>>();
    wait_for_word(second, 1);
    for (int i = 0; i < many; i++)
        none<<<1, 1, 0, second>>>();
    if (asked) {
        GIVES(cudaErrorNotReady, cudaStreamQuery(first), "the first stream");
        GIVES(cudaErrorNotReady, cudaEventQuery(e), "the first stream");
        sleep_begins(&sleepers[0], legacy || first == cudaStreamPerThread ? e : NULL, first);
        sleep_begins(&sleepers[1], e, 0);
        for (int i = 0; i < 50; i++) {
            cudaStreamQuery(first);
            sched_yield();
        }
        cudaGetLastError();
    }
    set_word(0); /* watched still: state.held */
    pthread_mutex_lock(&state.lock);
    state.gone = true;
    pthread_mutex_unlock(&state.lock);
    if (asked) {
        sleep_ends(&sleepers[0], "a thread's synchronisation");
        sleep_ends(&sleepers[1], "cudaEventSynchronize(e)");
    }
    WORKS(cudaEventSynchronize(e), "the first stream");
    WORKS(cudaEventQuery(e), "the first stream");
    if (!legacy) {
        WORKS(cudaStreamSynchronize(first), "the first stream");
        WORKS(cudaStreamQuery(first), "the first stream");
    } else {
        GIVES(cudaErrorNotReady, cudaStreamQuery(first), "the legacy stream waits for the other one");
    }
    GIVES(cudaErrorNotReady, cudaStreamQuery(second), "the second stream");
    set_word(1);
    let_go();
    WORKS(cudaDeviceSynchronize(), "both");
    MUST(cudaEventDestroy(e));
}

/* Another thread's stream per thread. */
static cudaStream_t shared;
static void in_another_thread()
{
    cudaEvent_t e;
    MUST(cudaEventCreate(&e));
    WORKS(cudaEventRecord(e, cudaStreamPerThread), "another thread's");
    GIVES(cudaErrorNotReady, cudaEventQuery(e), "another thread's");
    GIVES(cudaErrorNotReady, cudaStreamQuery(cudaStreamPerThread), "another thread's");
    WORKS(cudaEventRecord(e, shared), "non-blocking, in another thread");
    WORKS(cudaEventSynchronize(e), "non-blocking, in another thread");
    MUST(cudaEventDestroy(e));
}

int main()
{
    cudaStream_t used, other, apart, fresh;
    pthread_t watcher;
    MUST(cudaFree(0));
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&wait_value = driver ? dlsym(driver, "cuStreamWaitValue32_v2") : NULL;
    if (!wait_value) {
        printf("libcuda.so.1 has no cuStreamWaitValue32_v2\n");
        return 3;
    }
    g = gate_new();
    MUST(cudaHostAlloc((void **)&words, 64, cudaHostAllocMapped));
    pthread_create(&watcher, NULL, watch, NULL);
    MUST(cudaStreamCreate(&used));
    MUST(cudaStreamCreate(&other));
    MUST(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
    shared = apart;
    none<<<1, 1, 0, used>>>();
    none<<<1, 1>>>();
    none<<<1, 1, 0, cudaStreamPerThread>>>();
    MUST(cudaDeviceSynchronize());
    for (int by = 0; by < HOLDERS; by++) {
        holder h = (holder)by;
        idle(h, used, apart);
        MUST(cudaStreamCreate(&fresh));
        beside(h, cudaStreamLegacy, fresh, true, "the legacy stream; a new blocking stream");
        MUST(cudaStreamDestroy(fresh));
        beside(h, cudaStreamLegacy, used, true, "the legacy stream; a blocking stream");
        beside(h, cudaStreamLegacy, cudaStreamPerThread, true, "the legacy stream; the per-thread stream");
        beside(h, cudaStreamLegacy, apart, false, "the legacy stream; a non-blocking stream");
        beside(h, used, cudaStreamLegacy, true, "a blocking stream; the legacy stream");
        beside(h, cudaStreamPerThread, cudaStreamLegacy, true, "the per-thread stream; the legacy stream");
        beside(h, apart, cudaStreamLegacy, false, "a non-blocking stream; the legacy stream");
        beside(h, apart, used, false, "a non-blocking stream; a blocking stream");
        beside(h, used, other, false, "a blocking stream; another blocking stream");
        beside(h, cudaStreamPerThread, used, false, "the per-thread stream; a blocking stream");
        for (int what = 0; what < 8; what++)
            through(h, used, what % 2 ? cudaStreamPerThread : other, what);
        printf("-- %s holds the legacy stream\n", holders[by]);
        hold(h, cudaStreamLegacy);
        in_thread(in_another_thread);
        let_go();
        WORKS(cudaDeviceSynchronize(), "all");
    }
    /* Many: the most that a driver takes at once is less. */
    for (int how = 0; how < 4; how++) {
        bool asked = how % 2;
        int many = how < 2 ? 1 : 3000;
        later(used, cudaStreamLegacy, asked, many, "a blocking stream");
        later(cudaStreamPerThread, cudaStreamLegacy, asked, many, "the per-thread stream");
        later(cudaStreamLegacy, used, asked, many, "the legacy stream");
        later(used, other, asked, many, "a blocking stream (the other one is blocking, too)");
        later(apart, cudaStreamLegacy, asked, many, "a non-blocking stream");
    }
    return 0;
}
