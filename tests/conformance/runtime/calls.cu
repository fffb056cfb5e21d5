// shows: conformance: random calls over streams, events, host functions, graphs and memory of pools, legal and illegal
//   ones, against a model on the host, line by line with NVIDIA's runtime
//
// The model knows of each stream and event which earlier operations it stands behind. So it knows the code of each call
// (a query, too: one gate at a time, a kernel or a stream that waits, decides what is not ready), and which functions
// must have run before a function runs. The calls are made by several threads in turn, each of which has a per-thread
// stream, while another thread uses a non-blocking stream. Arguments: a seed, a number of calls.
#include "../suite.h"
#include "../../lib/dice.h"

#include <dlfcn.h>

enum { THREADS = 3, EVENTS = 6, GRAPHS = 3, BLOCKS = 10, BLOCK_WORDS = 3000, OPS = 8192, WORDS = OPS / 64 };
enum { LEGACY = 0, PER_THREAD = 1, CREATED = PER_THREAD + THREADS, STREAMS = CREATED + 5 };

__global__ void none() {}
/* In memory of the device, so that it works over a network, too. Gives up in the end. */
__global__ void gate(volatile uint32_t *open)
{
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do {
        __nanosleep(20000);
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (!*open && now - begin < 100000000000ull);
}
__global__ void fill(int *block, int value)
{
    for (int i = threadIdx.x; i < BLOCK_WORDS; i += blockDim.x)
        block[i] = value;
}
__global__ void check(const int *block, int value, int *wrong)
{
    for (int i = threadIdx.x; i < BLOCK_WORDS; i += blockDim.x)
        if (block[i] != value)
            atomicAdd(wrong, 1);
}

struct past {
    uint64_t word[WORDS];
};
static void with(past *p, const past &other)
{
    for (int i = 0; i < WORDS; i++)
        p->word[i] |= other.word[i];
}
static bool has(const past &p, int op) { return p.word[op / 64] >> op % 64 & 1; }
static void mark(past *p, int op) { p->word[op / 64] |= (uint64_t)1 << op % 64; }

static struct stream {
    cudaStream_t handle;
    bool alive, blocking;
    int priority;
    past tail;
} streams[STREAMS];

static struct event {
    cudaEvent_t handle;
    bool alive, timed, recorded;
    past at;
} events[EVENTS];

/* A graph with one function. Its launches do not run at the same time. */
static struct graph {
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    cudaGraphNode_t node;
    past last;
} graphs[GRAPHS];

/* Memory of the pool that has been filled. */
static struct block {
    int *at, value;
    past filled;
} blocks[BLOCKS];
static int *wrong_words; /* how many kernels found that were not as filled */

static cudaStream_t dead_stream;
static cudaEvent_t dead_event;
static unsigned long long seed = 1;
static uint32_t *word; /* not 0: the gate is open */
static cudaStream_t opener;
static int turn; /* the thread that makes the calls: it can name its own per-thread stream only */
static int (*wait_value)(cudaStream_t, unsigned long long, uint32_t, unsigned);
static int ops, gate_op = -1;
static past needs[OPS]; /* of each function: what must have run before it */
static past ran;
static bool is_function[OPS];
static int too_early, run_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned below(unsigned n) { return dice(&seed, n); }

static void runs(int op)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < op; i++)
        if (is_function[i] && has(needs[op], i) && !has(ran, i))
            too_early++;
    mark(&ran, op);
    run_count++;
    pthread_mutex_unlock(&lock);
}
static void CUDART_CB function(void *op) { runs((int)(uintptr_t)op); }
static void CUDART_CB callback(cudaStream_t, cudaError_t status, void *op)
{
    if (status != cudaSuccess)
        too_early++;
    runs((int)(uintptr_t)op);
}

/* What an operation that is given to the stream now stands behind. */
static past before(const stream &s)
{
    past p = s.tail;
    if (&s == &streams[LEGACY]) {
        for (const stream &other : streams)
            if (other.alive && other.blocking)
                with(&p, other.tail);
    } else if (s.blocking) {
        with(&p, streams[LEGACY].tail);
    }
    return p;
}
/* What a query looks at: the work of the stream itself. */
static past given(const stream &s) { return &s == &streams[LEGACY] ? before(s) : s.tail; }
static bool held(const past &p) { return gate_op >= 0 && has(p, gate_op); }

static int take_op(stream *s)
{
    s->tail = before(*s);
    needs[ops] = s->tail;
    mark(&s->tail, ops);
    return ops++;
}

static void say(const char *call, int on, cudaError_t result, cudaError_t expected)
{
    cudaError_t last = cudaGetLastError();
    bool as_last = last == result || (result == cudaErrorNotReady && last == cudaSuccess);
    printf("%s %d -> %s", call, on, cudaGetErrorName(result));
    if (result != expected)
        printf(" (documented: %s)", cudaGetErrorName(expected));
    if (!as_last)
        printf(" (last error: %s)", cudaGetErrorName(last));
    printf("\n");
}

static int live_stream()
{
    int i;
    do
        i = (int)below(STREAMS);
    while (!streams[i].alive);
    return i < PER_THREAD || i >= CREATED ? i : PER_THREAD + turn;
}

/* A stream, or a handle that is none: -1. */
static int any_stream(cudaStream_t *handle)
{
    unsigned wrong = below(24) + 2 * suite_native();
    if (wrong == 0)
        return *handle = WRONG(cudaStream_t), -1;
    if (wrong == 1 && dead_stream)
        return *handle = dead_stream, -1;
    int i = live_stream();
    *handle = streams[i].handle;
    if (i == LEGACY && below(2))
        *handle = cudaStreamLegacy;
    return i;
}
static int any_event(cudaEvent_t *handle)
{
    unsigned wrong = below(24) + 2 * suite_native();
    if (wrong == 0)
        return *handle = WRONG(cudaEvent_t), -1;
    if (wrong == 1 && dead_event)
        return *handle = dead_event, -1;
    if (wrong == 2)
        return *handle = NULL, -1;
    int i = (int)below(EVENTS);
    if (!events[i].alive)
        return *handle = suite_native() ? NULL : events[i].handle, -1;
    *handle = events[i].handle;
    return i;
}

/* ---- the calls ---- */

static void create_stream()
{
    int i;
    for (i = CREATED; i < STREAMS && streams[i].alive; i++)
        ;
    if (i == STREAMS)
        return;
    stream *s = &streams[i];
    unsigned flags = below(8) ? below(2) : 2 + below(8);
    cudaError_t r;
    if (below(2)) {
        r = cudaStreamCreateWithFlags(&s->handle, flags);
        s->priority = 0;
    } else {
        int priority = (int)below(14) - 8;
        r = cudaStreamCreateWithPriority(&s->handle, flags, priority);
        s->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    }
    say("create a stream", (int)flags, r, flags > 1 ? cudaErrorInvalidValue : cudaSuccess);
    if (r != cudaSuccess)
        return;
    s->alive = true;
    s->blocking = flags == 0;
    memset(&s->tail, 0, sizeof s->tail);
}

static void destroy_stream()
{
    cudaStream_t handle;
    int i = any_stream(&handle);
    if (i >= 0 && (i < CREATED || held(before(streams[i]))))
        return;
    say("destroy the stream", i, cudaStreamDestroy(handle), i < 0 ? cudaErrorInvalidResourceHandle : cudaSuccess);
    if (i >= 0) {
        dead_stream = handle;
        streams[i].alive = false;
    }
}

static void create_event()
{
    int i;
    for (i = 0; i < EVENTS && events[i].alive; i++)
        ;
    if (i == EVENTS)
        return;
    unsigned flags = below(8) ? below(4) : 8 + below(100);
    cudaError_t r = cudaEventCreateWithFlags(&events[i].handle, flags);
    say("create an event", (int)flags, r, flags > 7 ? cudaErrorInvalidValue : cudaSuccess);
    if (r != cudaSuccess)
        return;
    events[i].alive = true;
    events[i].timed = !(flags & cudaEventDisableTiming);
    events[i].recorded = false;
    memset(&events[i].at, 0, sizeof events[i].at);
}

static void destroy_event()
{
    cudaEvent_t handle;
    int i = any_event(&handle);
    if (i >= 0 && below(3))
        return;
    say("destroy the event", i, cudaEventDestroy(handle), i < 0 ? cudaErrorInvalidResourceHandle : cudaSuccess);
    if (i >= 0) {
        dead_event = handle;
        events[i].alive = false;
    }
}

static void record()
{
    cudaStream_t handle;
    cudaEvent_t of;
    int s = any_stream(&handle), e = any_event(&of);
    cudaError_t r = below(3) ? cudaEventRecord(of, handle) : cudaEventRecordWithFlags(of, handle, 0);
    say("record in stream", s, r, s < 0 || e < 0 ? cudaErrorInvalidResourceHandle : cudaSuccess);
    if (r == cudaSuccess && s >= 0 && e >= 0) {
        streams[s].tail = before(streams[s]);
        events[e].at = streams[s].tail;
        events[e].recorded = true;
    }
}

static void wait()
{
    cudaStream_t handle;
    cudaEvent_t of;
    int s = any_stream(&handle), e = any_event(&of);
    unsigned flags = s < 0 || e < 0 || below(12) ? 0 : 2 + below(9);
    cudaError_t r = cudaStreamWaitEvent(handle, of, flags);
    say("wait in stream", s, r,
        s < 0 || e < 0 ? cudaErrorInvalidResourceHandle
        : flags        ? cudaErrorInvalidValue
                       : cudaSuccess);
    /* It is work of its stream also where the event is complete, or was never recorded: the reference names it beside
       launches as what the legacy stream joins the blocking ones with. */
    if (r == cudaSuccess && s >= 0 && e >= 0) {
        streams[s].tail = before(streams[s]);
        if (events[e].recorded)
            with(&streams[s].tail, events[e].at);
    }
}

static void give_function()
{
    cudaStream_t handle;
    int s = any_stream(&handle), op = ops;
    bool old = below(3) == 0, null = s >= 0 && below(20) == 0;
    unsigned flags = s >= 0 && !null && old && below(8) == 0 ? 1 + below(5) : 0;
    bool good = s >= 0 && !null && !flags;
    if (ops == OPS)
        return;
    if (good) {
        pthread_mutex_lock(&lock);
        is_function[op] = true;
        take_op(&streams[s]);
        pthread_mutex_unlock(&lock);
    }
    void *argument = (void *)(uintptr_t)op;
    cudaError_t r = old ? cudaStreamAddCallback(handle, null ? NULL : callback, argument, flags)
                        : cudaLaunchHostFunc(handle, null ? NULL : function, argument);
    say(old ? "a callback in stream" : "a function in stream", s, r,
        s < 0    ? cudaErrorInvalidResourceHandle
        : !good  ? cudaErrorInvalidValue
                 : cudaSuccess);
}

static void launch_graph()
{
    int s = live_stream(), op = ops;
    graph *which = &graphs[below(GRAPHS)];
    if (ops == OPS)
        return;
    cudaHostNodeParams params = { function, (void *)(uintptr_t)op };
    MUST(cudaGraphExecHostNodeSetParams(which->ready, which->node, &params));
    pthread_mutex_lock(&lock);
    is_function[op] = true;
    streams[s].tail = before(streams[s]);
    with(&streams[s].tail, which->last);
    take_op(&streams[s]);
    which->last = streams[s].tail;
    pthread_mutex_unlock(&lock);
    say("a graph in stream", s, cudaGraphLaunch(which->ready, streams[s].handle), cudaSuccess);
}

/* Memory that is filled in one stream is looked at and freed in another one, which stands behind that. */
static void use_block()
{
    int s = live_stream();
    block *b = &blocks[below(BLOCKS)];
    cudaStream_t stream = streams[s].handle;
    if (ops == OPS)
        return;
    if (!b->at) {
        b->value = ops;
        say("allocate in stream", s, cudaMallocAsync((void **)&b->at, BLOCK_WORDS * sizeof(int), stream), cudaSuccess);
        fill<<<1, 64, 0, stream>>>(b->at, b->value);
        take_op(&streams[s]);
        b->filled = streams[s].tail;
        return;
    }
    past p = before(streams[s]);
    for (int i = 0; i < WORDS; i++)
        if (b->filled.word[i] & ~p.word[i])
            return; /* it does not stand behind it */
    check<<<1, 64, 0, stream>>>(b->at, b->value, wrong_words);
    take_op(&streams[s]);
    say("free in stream", s, cudaFreeAsync(b->at, stream), cudaSuccess);
    b->at = NULL;
}

static void launch()
{
    cudaStream_t handle;
    int s = any_stream(&handle);
    if (ops == OPS)
        return;
    none<<<1, 1, 0, handle>>>();
    cudaError_t r = cudaPeekAtLastError();
    say("a kernel in stream", s, r, s < 0 ? cudaErrorInvalidResourceHandle : cudaSuccess);
    if (s >= 0)
        take_op(&streams[s]);
}

static void query()
{
    cudaStream_t handle;
    int s = any_stream(&handle);
    cudaError_t expected = s < 0                        ? cudaErrorInvalidResourceHandle
                           : held(given(streams[s])) ? cudaErrorNotReady
                                                       : cudaSuccess;
    if (expected == cudaSuccess)
        say("synchronise the stream", s, cudaStreamSynchronize(handle), cudaSuccess);
    say("query the stream", s, cudaStreamQuery(handle), expected);
}

static void query_event()
{
    cudaEvent_t handle;
    int e = any_event(&handle);
    cudaError_t expected = e < 0                                        ? cudaErrorInvalidResourceHandle
                           : events[e].recorded && held(events[e].at) ? cudaErrorNotReady
                                                                        : cudaSuccess;
    if (expected != cudaErrorNotReady)
        say("synchronise the event", e, cudaEventSynchronize(handle), expected);
    say("query the event", e, cudaEventQuery(handle), expected);
}

static void elapsed()
{
    cudaEvent_t from, to;
    int a = any_event(&from), b = any_event(&to);
    float ms = -1;
    bool good = a >= 0 && b >= 0 && events[a].timed && events[b].timed && events[a].recorded && events[b].recorded;
    bool late = good && (held(events[a].at) || held(events[b].at));
    if (good && !late) {
        MUST(cudaEventSynchronize(from));
        MUST(cudaEventSynchronize(to));
    }
    say("time from event", a, cudaEventElapsedTime(&ms, from, to),
        !good  ? cudaErrorInvalidResourceHandle
        : late ? cudaErrorNotReady
               : cudaSuccess);
}

static void ask()
{
    cudaStream_t handle;
    int s = any_stream(&handle), priority = 77;
    unsigned flags = 77;
    cudaError_t expected = s < 0 ? cudaErrorInvalidResourceHandle : cudaSuccess;
    say("flags of stream", s, cudaStreamGetFlags(handle, &flags), expected);
    say("priority of stream", s, cudaStreamGetPriority(handle, &priority), expected);
    if (s >= CREATED)
        printf("  %u %d%s\n", flags, priority,
               flags == (streams[s].blocking ? 0 : 1u) && priority == streams[s].priority ? ""
                                                                                          : " (documented: other)");
}

static void synchronise()
{
    say("synchronise the device", 0, cudaDeviceSynchronize(), cudaSuccess);
    pthread_mutex_lock(&lock);
    int given = 0;
    for (int i = 0; i < ops; i++)
        given += is_function[i];
    printf("  functions: %d given, %d run, %d too early\n", given, run_count, too_early);
    if (given != run_count || too_early)
        printf("  (documented: all of them in order)\n");
    int wrong = 0;
    MUST(cudaMemcpy(&wrong, wrong_words, sizeof wrong, cudaMemcpyDeviceToHost));
    if (wrong)
        printf("  (documented: all memory as it was filled; %d words are not)\n", wrong);
    pthread_mutex_unlock(&lock);
}

static void gates()
{
    if (gate_op >= 0) {
        const uint32_t one = 1;
        MUST(cudaMemcpyAsync(word, &one, sizeof one, cudaMemcpyHostToDevice, opener));
        gate_op = -1;
        printf("the gate opens\n");
        synchronise();
        return;
    }
    int s = live_stream();
    if (ops == OPS)
        return;
    MUST(cudaDeviceSynchronize());
    gate_op = take_op(&streams[s]);
    MUST(cudaMemset(word, 0, sizeof *word));
    MUST(cudaDeviceSynchronize());
    if (below(2))
        MUST((cudaError_t)wait_value(streams[s].handle, (unsigned long long)(uintptr_t)word, 1, 0));
    else
        gate<<<1, 1, 0, streams[s].handle>>>(word);
    printf("the gate closes in stream %d\n", s);
}

static void step()
{
    switch (below(30)) {
    case 0:
    case 1: create_stream(); break;
    case 2: destroy_stream(); break;
    case 3:
    case 4: create_event(); break;
    case 5: destroy_event(); break;
    case 6:
    case 7:
    case 8: record(); break;
    case 9:
    case 10:
    case 11: wait(); break;
    case 12:
    case 13:
    case 14:
    case 15: give_function(); break;
    case 16: launch(); break;
    case 17:
    case 18: query(); break;
    case 19:
    case 20: query_event(); break;
    case 21: elapsed(); break;
    case 22: ask(); break;
    case 23:
    case 24: launch_graph(); break;
    case 25:
    case 26:
    case 27: use_block(); break;
    default: gates(); break;
    }
}

/* ---- threads ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int whose; /* -1: the main thread's turn; THREADS: all end */
} turns = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, -1 };

static void pass_to(int whose)
{
    pthread_mutex_lock(&turns.lock);
    turns.whose = whose;
    pthread_cond_broadcast(&turns.changed);
    pthread_mutex_unlock(&turns.lock);
}
static int wait_for_turn(int mine)
{
    pthread_mutex_lock(&turns.lock);
    while (turns.whose != mine && turns.whose != THREADS)
        pthread_cond_wait(&turns.changed, &turns.lock);
    int whose = turns.whose;
    pthread_mutex_unlock(&turns.lock);
    return whose;
}
static void *takes_turns(void *number)
{
    int mine = (int)(uintptr_t)number;
    while (wait_for_turn(mine) == mine) {
        step();
        pass_to(-1);
    }
    return NULL;
}

/* What it does has nothing to do with the other threads' streams. */
static volatile int over;
static void CUDART_CB nothing(void *) {}
static void *uses_its_own(void *)
{
    cudaStream_t s;
    cudaEvent_t e;
    int *memory;
    MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    while (!over) {
        MUST(cudaMallocAsync((void **)&memory, BLOCK_WORDS * sizeof(int), s));
        fill<<<1, 64, 0, s>>>(memory, -1);
        MUST(cudaEventRecord(e, s));
        check<<<1, 64, 0, s>>>(memory, -1, wrong_words);
        MUST(cudaFreeAsync(memory, s));
        MUST(cudaEventSynchronize(e));
        MUST(cudaStreamWaitEvent(s, e, 0));
        MUST(cudaLaunchHostFunc(s, nothing, NULL));
        cudaStreamQuery(cudaStreamLegacy);
        MUST(cudaStreamSynchronize(s));
        cudaGetLastError();
    }
    MUST(cudaEventDestroy(e));
    MUST(cudaStreamDestroy(s));
    return NULL;
}

int main(int count, char **arguments)
{
    int calls = count > 2 ? atoi(arguments[2]) : 1500;
    seed = count > 1 ? strtoull(arguments[1], NULL, 10) : 1;
    MUST(cudaFree(0));
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&wait_value = driver ? dlsym(driver, "cuStreamWaitValue32_v2") : NULL;
    if (!wait_value) {
        printf("libcuda.so.1 has no cuStreamWaitValue32_v2\n");
        return 3;
    }
    MUST(cudaStreamCreateWithFlags(&opener, cudaStreamNonBlocking));
    MUST(cudaMalloc((void **)&word, 64));
    MUST(cudaMalloc((void **)&wrong_words, 64));
    MUST(cudaMemset(wrong_words, 0, 64));
    /* Else memory may make a stream wait that the model knows nothing of. */
    cudaMemPool_t pool;
    int none_of_these = 0;
    MUST(cudaDeviceGetDefaultMemPool(&pool, 0));
    MUST(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &none_of_these));
    cudaHostNodeParams params = { function, NULL };
    for (graph &each : graphs) {
        MUST(cudaGraphCreate(&each.graph, 0));
        MUST(cudaGraphAddHostNode(&each.node, each.graph, NULL, 0, &params));
        MUST(cudaGraphInstantiateWithFlags(&each.ready, each.graph, 0));
    }
    streams[LEGACY].alive = true;
    for (int i = PER_THREAD; i < CREATED; i++) {
        streams[i].alive = streams[i].blocking = true;
        streams[i].handle = cudaStreamPerThread;
    }
    pthread_t threads[THREADS], other;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, takes_turns, (void *)(uintptr_t)i);
    pthread_create(&other, NULL, uses_its_own, NULL);
    for (int i = 0; i < calls; i++) {
        turn = (int)below(THREADS);
        pass_to(turn);
        wait_for_turn(-1);
    }
    pass_to(THREADS);
    for (pthread_t thread : threads)
        pthread_join(thread, NULL);
    over = 1;
    pthread_join(other, NULL);
    if (gate_op >= 0)
        gates();
    synchronise();
    return 0;
}
