/*
 * calls.cu: one program for the figures of single calls. It is an ordinary CUDA program: what runs it (a GPU, Flyt in
 * process, Flyt over a transport) is chosen from outside. Figures are printed as lines `key value`.
 *
 *     calls WHAT [ARGUMENT ...]
 *
 *   rtt MS               a call that must be waited for (cudaMemGetInfo)                       p50_ns, p99_ns
 *   launches N           N launches with three arguments, then a synchronise                   per_second, launches
 *   caller N             the time that one launch takes its caller                             p50_ns, p99_ns
 *   graph N              the time that the launch of a graph of 20 kernels takes its caller     p50_ns, p99_ns
 *   malloc N             cudaMalloc and cudaFree of 1 MiB                                      per_second
 *   properties N         cudaGetDeviceProperties                                               per_second
 *   copy h2d|d2h pageable|pinned BYTES MS   one copy after the other, each finished            gbs, best_gbs
 *   check BYTES          copies out and back and compares: 1 if the device stores bytes        stored
 *   start                first result of a kernel; prints it                                   result
 *   threads N MS         N threads, each with a stream: launch and synchronise                 per_second, p50_ns
 *   busy BYTES           copies BYTES over and over until killed; prints `running` first
 *   memory FIRST LAST    launches FIRST, prints `at FIRST`, waits for a line on stdin, goes on to LAST, the same
 *   step N               N training steps as PyTorch makes them: see step()                        steps
 *   beside BYTES               a thread copies BYTES once while another launches and synchronises
 *                              on its own stream                                              interference_us …
 */
#include "bench.h"

#include <pthread.h>

__global__ void three(int *out, int a, int b) { if (out) *out = a + b; }

static long number(int argc, char **argv, int at, long otherwise)
{
    return at < argc ? strtol(argv[at], NULL, 10) : otherwise;
}

/* The kernel is known to the device, and nothing is under way. */
static void warm(int *device)
{
    three<<<1, 1>>>(device, 1, 2);
    MUST(cudaGetLastError());
    MUST(cudaDeviceSynchronize());
}

static void rtt(long ms)
{
    size_t free_bytes, total, count = 0, room = 2000000;
    uint64_t *times = bench_array(room);
    for (int i = 0; i < 200; i++)
        MUST(cudaMemGetInfo(&free_bytes, &total));
    for (uint64_t before = bench_now(), end = before + (uint64_t)ms * 1000000; before < end && count < room; count++) {
        MUST(cudaMemGetInfo(&free_bytes, &total));
        uint64_t after = bench_now();
        times[count] = after - before;
        before = after;
    }
    bench_times(times, count);
}

static void launches(long n, int *device)
{
    warm(device);
    uint64_t began = bench_now();
    for (long i = 0; i < n; i++)
        three<<<1, 1>>>(device, (int)i, 2);
    MUST(cudaGetLastError());
    uint64_t sent = bench_now() - began;
    MUST(cudaDeviceSynchronize());
    printf("per_second %.1f\nsent_per_second %.1f\nlaunches %ld\n", (double)n * 1e9 / (double)(bench_now() - began),
           (double)n * 1e9 / (double)sent, n + 1);
}

static void launch_one(int *device, cudaGraphExec_t, int i) { three<<<1, 1>>>(device, i, 2); }
static void launch_graph(int *, cudaGraphExec_t graph, int) { MUST(cudaGraphLaunch(graph, 0)); }

/* Bursts with a pause (a synchronise) between them: the caller's time, not that of a full queue. The clock's own cost
   is measured the same way and taken off. kernels: of one launch. */
static void caller(long n, int *device, int kernels, cudaGraphExec_t graph,
                   void (*launch)(int *device, cudaGraphExec_t graph, int i))
{
    const int burst = 256 / kernels;
    uint64_t *times = bench_array((size_t)n), *clock = bench_array((size_t)n);
    warm(device);
    for (long i = 0; i < n;) {
        for (int j = 0; j < burst && i < n; j++, i++) {
            uint64_t before = bench_now();
            launch(device, graph, (int)i);
            times[i] = bench_now() - before;
        }
        MUST(cudaDeviceSynchronize());
    }
    for (long i = 0; i < n; i++) {
        uint64_t before = bench_now();
        clock[i] = bench_now() - before;
    }
    qsort(clock, (size_t)n, sizeof *clock, bench_compare);
    for (long i = 0; i < n; i++)
        times[i] = times[i] > clock[n / 2] ? times[i] - clock[n / 2] : 0;
    bench_times(times, (size_t)n);
    printf("clock_ns %llu\nlaunches %ld\n", (unsigned long long)clock[n / 2], n * kernels + 1);
}

static void caller_graph(long n, int *device)
{
    enum { KERNELS = 20 };
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    MUST(cudaStreamCreate(&stream));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < KERNELS; i++)
        three<<<1, 1, 0, stream>>>(device, i, 2);
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    caller(n, device, KERNELS, executable, launch_graph);
}

static void mallocs(long n)
{
    void *at;
    MUST(cudaDeviceSynchronize());
    for (int i = 0; i < 100; i++) {
        MUST(cudaMalloc(&at, 1 << 20));
        MUST(cudaFree(at));
    }
    uint64_t began = bench_now();
    for (long i = 0; i < n; i++) {
        MUST(cudaMalloc(&at, 1 << 20));
        MUST(cudaFree(at));
    }
    printf("per_second %.1f\n", (double)n * 1e9 / (double)(bench_now() - began));
}

static void properties(long n)
{
    static struct cudaDeviceProp found;
    MUST(cudaGetDeviceProperties(&found, 0));
    uint64_t began = bench_now();
    for (long i = 0; i < n; i++)
        MUST(cudaGetDeviceProperties(&found, 0));
    printf("per_second %.1f\nmultiprocessors %d\n", (double)n * 1e9 / (double)(bench_now() - began),
           found.multiProcessorCount);
}

/* cudaMemcpy, then a synchronise: the bytes have arrived when the clock is read. */
static void copy(const char *direction, const char *kind, size_t bytes, long ms)
{
    bool out = strcmp(direction, "d2h") == 0;
    void *device, *host = NULL;
    MUST(cudaMalloc(&device, bytes));
    if (strcmp(kind, "pinned") == 0)
        MUST(cudaMallocHost(&host, bytes));
    else
        host = malloc(bytes);
    memset(host, 1, bytes);
    size_t count = 0, room = 200000;
    uint64_t *times = bench_array(room);
    for (int warm_up = 1; warm_up >= 0; warm_up--) {
        uint64_t end = bench_now() + (uint64_t)(warm_up ? 1 : ms) * 1000000;
        for (count = 0; count < room && (count < 3 || bench_now() < end); count++) {
            uint64_t before = bench_now();
            MUST(out ? cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost)
                     : cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
            MUST(cudaDeviceSynchronize());
            times[count] = bench_now() - before;
        }
    }
    qsort(times, count, sizeof *times, bench_compare);
    printf("gbs %.4f\nbest_gbs %.4f\np50_ns %llu\ncount %zu\n", (double)bytes / (double)times[count / 2],
           (double)bytes / (double)times[0], (unsigned long long)times[count / 2], count);
}

/* Does the device keep what it is given? (The null device does not: its copies cost less than real ones.) */
static void check(size_t bytes)
{
    unsigned char *host = (unsigned char *)malloc(bytes), *back = (unsigned char *)calloc(bytes, 1);
    void *device;
    for (size_t i = 0; i < bytes; i++)
        host[i] = (unsigned char)(i * 31 + (i >> 12) + 7);
    MUST(cudaMalloc(&device, bytes));
    MUST(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(back, device, bytes, cudaMemcpyDeviceToHost));
    printf("stored %d\n", memcmp(host, back, bytes) == 0);
}

static void start(int *device)
{
    int result = 0;
    three<<<1, 1>>>(device, 40, 2);
    MUST(cudaGetLastError());
    MUST(cudaMemcpy(&result, device, sizeof result, cudaMemcpyDeviceToHost));
    printf("result %d\n", result);
}

/*
 * The calls of a PyTorch training step: what its dispatcher asks around each kernel, a batch that comes from pinned
 * memory, gradients that are cleared, an event for the memory that the copies used, and loss.item(), which waits.
 */
enum { STEP_FORWARD = 40, STEP_BACKWARD = 80, STEP_OPTIMIZER = 20, STEP_BATCH = 1 << 16 };

static void step_kernels(int count, int *device, cudaStream_t stream)
{
    for (int i = 0; i < count; i++) {
        int current, blocks;
        cudaStreamCaptureStatus status;
        MUST(cudaGetDevice(&current));
        MUST(cudaStreamIsCapturing(stream, &status));
        if (i % 8 == 0)
            MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, three, 128, 0));
        three<<<1, 1, 0, stream>>>(device, i, 2);
        MUST(cudaPeekAtLastError());
    }
}

static void step(long n, int *device)
{
    cudaStream_t stream;
    cudaEvent_t copied;
    int *batch, *input, loss = 0;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
    MUST(cudaMallocHost((void **)&batch, STEP_BATCH));
    MUST(cudaMalloc((void **)&input, STEP_BATCH));
    for (long i = 0; i < n; i++) {
        memset(batch, (int)i, STEP_BATCH);
        MUST(cudaMemcpyAsync(input, batch, STEP_BATCH, cudaMemcpyHostToDevice, stream));
        MUST(cudaEventRecord(copied, stream));
        step_kernels(STEP_FORWARD, device, stream);
        MUST(cudaMemsetAsync(input, 0, STEP_BATCH, stream));
        step_kernels(STEP_BACKWARD, device, stream);
        step_kernels(STEP_OPTIMIZER, device, stream);
        MUST(cudaMemcpyAsync(&loss, device, sizeof loss, cudaMemcpyDeviceToHost, stream));
        MUST(cudaStreamSynchronize(stream));
        cudaError_t ended = cudaEventQuery(copied);
        if (ended != cudaErrorNotReady)
            MUST(ended);
    }
    printf("steps %ld\nlaunches %ld\n", n, n * (STEP_FORWARD + STEP_BACKWARD + STEP_OPTIMIZER));
}

/* ---- several threads ---- */

static volatile int stop_threads;
struct worker { pthread_t thread; uint64_t *times; volatile size_t count; size_t room; };

static void *launch_and_wait(void *context)
{
    struct worker *w = (struct worker *)context;
    cudaStream_t stream;
    MUST(cudaStreamCreate(&stream));
    for (w->count = 0; w->count < w->room && !stop_threads; w->count++) {
        uint64_t before = bench_now();
        three<<<1, 1, 0, stream>>>(NULL, 1, 2);
        MUST(cudaStreamSynchronize(stream));
        w->times[w->count] = bench_now() - before;
    }
    return NULL;
}

static void worker_start(struct worker *w, size_t room)
{
    w->room = room;
    w->times = bench_array(room);
    pthread_create(&w->thread, NULL, launch_and_wait, w);
}

static void sleep_ms(long ms)
{
    struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
    nanosleep(&t, NULL);
}

static void threads(long n, long ms, int *device)
{
    warm(device);
    struct worker *workers = (struct worker *)calloc((size_t)n, sizeof *workers);
    uint64_t *all, began = bench_now();
    size_t count = 0, at = 0;
    for (long i = 0; i < n; i++)
        worker_start(&workers[i], 200000);
    sleep_ms(ms);
    stop_threads = 1;
    for (long i = 0; i < n; i++) {
        pthread_join(workers[i].thread, NULL);
        count += workers[i].count;
    }
    double seconds = (double)(bench_now() - began) / 1e9;
    all = bench_array(count + 1);
    for (long i = 0; i < n; at += workers[i++].count)
        memcpy(all + at, workers[i].times, workers[i].count * sizeof *all);
    printf("per_second %.1f\nlaunches %zu\n", (double)count / seconds, count + 1);
    bench_times(all, count);
}

/* The worker's times without, then with, a large copy on another thread. */
static void beside(size_t bytes, int *device)
{
    void *target, *source = malloc(bytes);
    memset(source, 1, bytes);
    MUST(cudaMalloc(&target, bytes));
    warm(device);
    double medians[2];
    for (int with = 0; with < 2; with++) {
        struct worker w = {};
        stop_threads = 0;
        worker_start(&w, 1000000);
        while (w.count < 20)
            sleep_ms(1);
        size_t first = w.count;                              /* what was under way now belongs to it */
        uint64_t began = bench_now();
        if (with)
            MUST(cudaMemcpy(target, source, bytes, cudaMemcpyHostToDevice));
        else
            sleep_ms(300);
        uint64_t took = bench_now() - began;
        stop_threads = 1;
        pthread_join(w.thread, NULL);
        size_t count = w.count - first;
        uint64_t *times = w.times + first;
        qsort(times, count, sizeof *times, bench_compare);
        medians[with] = (double)times[count / 2] / 1e3;
        printf("%s_p50_us %.3f\n%s_p99_us %.3f\n%s_max_us %.3f\n%s_count %zu\n", with ? "beside" : "alone",
               medians[with], with ? "beside" : "alone", (double)times[count * 99 / 100] / 1e3,
               with ? "beside" : "alone", (double)times[count - 1] / 1e3, with ? "beside" : "alone", count);
        if (with)
            printf("copy_gbs %.4f\n", (double)bytes / (double)took);
        free(w.times);
    }
    printf("interference_us %.3f\n", medians[1] - medians[0]);
}

/* ---- programs that the driver script talks to ---- */

static void busy(size_t bytes)
{
    void *device, *host = malloc(bytes);
    memset(host, 1, bytes);
    MUST(cudaMalloc(&device, bytes));
    MUST(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
    printf("running\n");
    fflush(stdout);
    for (;;)
        MUST(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
}

static void memory(long first, long last, int *device)
{
    char line[8];
    warm(device);
    for (long i = 1, mark = first; i < last; i++) {
        three<<<1, 1>>>(device, (int)i, 2);
        if (i + 1 == mark || i + 1 == last) {
            MUST(cudaDeviceSynchronize());
            printf("at %ld\n", i + 1);
            fflush(stdout);
            if (!fgets(line, sizeof line, stdin))
                return;
            mark = last;
        }
    }
    printf("launches %ld\n", last);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int *device;
    if (strcmp(what, "properties") == 0)
        return properties(number(argc, argv, 2, 100000)), 0;
    if (strcmp(what, "malloc") == 0)
        return mallocs(number(argc, argv, 2, 100000)), 0;
    MUST(cudaMalloc((void **)&device, 4096));
    if (strcmp(what, "start") == 0)
        start(device);
    else if (strcmp(what, "rtt") == 0)
        rtt(number(argc, argv, 2, 200));
    else if (strcmp(what, "launches") == 0)
        launches(number(argc, argv, 2, 100000), device);
    else if (strcmp(what, "caller") == 0)
        caller(number(argc, argv, 2, 20000), device, 1, NULL, launch_one);
    else if (strcmp(what, "graph") == 0)
        caller_graph(number(argc, argv, 2, 20000), device);
    else if (strcmp(what, "copy") == 0 && argc > 4)
        copy(argv[2], argv[3], (size_t)number(argc, argv, 4, 0), number(argc, argv, 5, 200));
    else if (strcmp(what, "check") == 0)
        check((size_t)number(argc, argv, 2, 1 << 20));
    else if (strcmp(what, "threads") == 0)
        threads(number(argc, argv, 2, 4), number(argc, argv, 3, 200), device);
    else if (strcmp(what, "beside") == 0)
        beside((size_t)number(argc, argv, 2, 1 << 30), device);
    else if (strcmp(what, "busy") == 0)
        busy((size_t)number(argc, argv, 2, 256 << 20));
    else if (strcmp(what, "step") == 0)
        step(number(argc, argv, 2, 10), device);
    else if (strcmp(what, "memory") == 0)
        memory(number(argc, argv, 2, 1000000), number(argc, argv, 3, 11000000), device);
    else {
        fprintf(stderr,
                "usage: calls rtt|launches|caller|graph|malloc|properties|copy|check|start|step|threads|beside|busy|"
                "memory … (see calls.cu)\n");
        return 2;
    }
    return 0;
}
