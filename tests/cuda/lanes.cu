// shows: lanes: threads copy large and small pieces both ways, pageable and pinned, flat and pitched, and read what
//   belongs there
// shows: lanes: while a kernel holds a stream and large copies stand behind it, another stream's large copies pass, and
//   end it
// shows: lanes: pinned copies of any size, queued behind a kernel without end, do not keep their caller waiting
// shows: lanes: a pageable source may be overwritten as soon as a copy of many parts has returned
// shows: lanes: an event behind a copy to pinned memory is not complete before the bytes are there
// shows: lanes: a device reset with copies under way, and copies after it
#include "check.h"
#include "../lib/now.h"
#include <pthread.h>
#include <time.h>

enum { MIB = 1 << 20 };

static unsigned next_random(unsigned *state) { return *state = *state * 1103515245u + 12345u; }

// Word i of the pattern `seed`.
static unsigned word(unsigned seed, size_t i) { return (unsigned)(i * 2654435761u) ^ seed * 40503u; }

static void fill(unsigned *p, size_t words, unsigned seed)
{
    for (size_t i = 0; i < words; i++)
        p[i] = word(seed, i);
}

static size_t wrong_words(const unsigned *p, size_t words, unsigned seed)
{
    size_t wrong = 0;
    for (size_t i = 0; i < words; i++)
        wrong += p[i] != word(seed, i);
    return wrong;
}

__global__ void flip(unsigned *p, size_t words)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < words; i += (size_t)gridDim.x * blockDim.x)
        p[i] = ~p[i];
}

__global__ void wait_for(volatile int *flag) { while (!*flag) __nanosleep(20000); }

static void failed(const char *what, unsigned who, unsigned round, size_t wrong)
{
    fprintf(stderr, "%s: thread %u, round %u: %zu words wrong\n", what, who, round, wrong);
    __atomic_fetch_add(&check_failures, 1, __ATOMIC_RELAXED);
}

// ---- threads ----

struct worker { pthread_t thread; unsigned who, rounds; };

static void flat(unsigned who, unsigned round, unsigned *state, cudaStream_t stream)
{
    size_t words = 1 + next_random(state) / 8 % (next_random(state) / 65536 % 3 ? 700000 : 3000);
    bool pinned = next_random(state) / 65536 % 2, asynchronous = next_random(state) / 65536 % 2;
    unsigned *host, *back, *device;
    if (pinned) {
        MUST(cudaMallocHost((void **)&host, words * 4));
        MUST(cudaMallocHost((void **)&back, words * 4));
    } else {
        host = (unsigned *)malloc(words * 4);
        back = (unsigned *)malloc(words * 4);
    }
    MUST(cudaMalloc((void **)&device, words * 4));
    fill(host, words, who * 1000 + round);
    memset(back, 0, words * 4);
    if (asynchronous)
        MUST(cudaMemcpyAsync(device, host, words * 4, cudaMemcpyHostToDevice, stream));
    else
        MUST(cudaMemcpy(device, host, words * 4, cudaMemcpyHostToDevice));
    if (!asynchronous)
        // from pageable memory it may not have arrived, and other streams do not wait
        MUST(cudaStreamSynchronize(0));
    if (!pinned && asynchronous)
        memset(host, 0xee, words * 4);                 // it has been taken
    flip<<<4, 64, 0, stream>>>(device, words);
    flip<<<4, 64, 0, stream>>>(device, words);
    if (asynchronous) {
        MUST(cudaMemcpyAsync(back, device, words * 4, cudaMemcpyDeviceToHost, stream));
        MUST(cudaStreamSynchronize(stream));
    } else {
        MUST(cudaStreamSynchronize(stream));
        MUST(cudaMemcpy(back, device, words * 4, cudaMemcpyDeviceToHost));
    }
    size_t wrong = wrong_words(back, words, who * 1000 + round);
    if (wrong)
        failed(pinned ? "flat pinned" : "flat", who, round, wrong);
    MUST(cudaFree(device));
    if (pinned) {
        MUST(cudaFreeHost(host));
        MUST(cudaFreeHost(back));
    } else {
        free(host);
        free(back);
    }
}

static void pitched(unsigned who, unsigned round, unsigned *state, cudaStream_t stream)
{
    size_t width = 1 + next_random(state) / 65536 % 3000, height = 1 + next_random(state) / 65536 % 300, pitch;
    size_t host_pitch = width + next_random(state) / 65536 % 50;
    unsigned char *host = (unsigned char *)malloc(host_pitch * height),
                  *back = (unsigned char *)malloc(host_pitch * height), *device;
    MUST(cudaMallocPitch((void **)&device, &pitch, width, height));
    for (size_t i = 0; i < host_pitch * height; i++) {
        host[i] = (unsigned char)(i * 7 + round);
        back[i] = 0xaa;
    }
    MUST(cudaMemcpy2DAsync(device, pitch, host, host_pitch, width, height, cudaMemcpyHostToDevice, stream));
    MUST(cudaMemcpy2DAsync(back, host_pitch, device, pitch, width, height, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    size_t wrong = 0;
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < host_pitch; x++) {
            bool inside = x < width || y + 1 == height;
            if (x < width ? back[y * host_pitch + x] != host[y * host_pitch + x]
                          : !inside && back[y * host_pitch + x] != 0xaa)
                wrong++;
        }
    if (wrong)
        failed("pitched", who, round, wrong);
    MUST(cudaFree(device));
    free(host);
    free(back);
}

static void *work(void *argument)
{
    struct worker *w = (struct worker *)argument;
    unsigned state = w->who * 77 + 5;
    cudaStream_t stream = 0;
    if (w->who % 3)
        MUST(cudaStreamCreateWithFlags(&stream, w->who % 3 == 1 ? cudaStreamNonBlocking : cudaStreamDefault));
    for (unsigned round = 0; round < w->rounds; round++) {
        if (next_random(&state) / 65536 % 4)
            flat(w->who, round, &state, stream ? stream : cudaStreamPerThread);
        else
            pitched(w->who, round, &state, stream);
    }
    if (stream)
        MUST(cudaStreamDestroy(stream));
    return NULL;
}

static void threads(unsigned count, unsigned rounds)
{
    struct worker *w = (struct worker *)calloc(count, sizeof *w);
    for (unsigned i = 0; i < count; i++) {
        w[i].who = i;
        w[i].rounds = rounds;
        pthread_create(&w[i].thread, NULL, work, &w[i]);
    }
    for (unsigned i = 0; i < count; i++)
        pthread_join(w[i].thread, NULL);
    free(w);
}

// ---- a stream that stands still ----

struct behind { cudaStream_t stream; unsigned *device, *host; size_t words; };

static void *copy_behind(void *argument)
{
    struct behind *b = (struct behind *)argument;
    MUST(cudaMemcpyAsync(b->device, b->host, b->words * 4, cudaMemcpyHostToDevice, b->stream));
    return NULL;
}

static void held(bool pinned, size_t words)
{
    enum { STREAMS = 3 };
    cudaStream_t free_stream;
    int *flags, one = 1;
    struct behind b[STREAMS];
    pthread_t threads[STREAMS];
    unsigned *other, *source = (unsigned *)malloc(words * 4), *back = (unsigned *)malloc(words * 4);
    MUST(cudaMalloc((void **)&flags, sizeof *flags));
    MUST(cudaMemset(flags, 0, sizeof *flags));
    MUST(cudaMalloc((void **)&other, words * 4));
    MUST(cudaStreamCreateWithFlags(&free_stream, cudaStreamNonBlocking));
    for (int i = 0; i < STREAMS; i++) {
        b[i].words = words;
        MUST(cudaStreamCreateWithFlags(&b[i].stream, cudaStreamNonBlocking));
        MUST(cudaMalloc((void **)&b[i].device, words * 4));
        if (pinned)
            MUST(cudaMallocHost((void **)&b[i].host, words * 4));
        else
            b[i].host = (unsigned *)malloc(words * 4);
        fill(b[i].host, words, 10 + (unsigned)i);
    }
    MUST(cudaDeviceSynchronize());
    double start = now_s();
    for (int i = 0; i < STREAMS; i++)
        wait_for<<<1, 1, 0, b[i].stream>>>(flags);
    MUST(cudaGetLastError());
    for (int i = 0; i < STREAMS; i++) {
        if (pinned)
            copy_behind(&b[i]);                            // must not wait, whatever its size
        else
            pthread_create(&threads[i], NULL, copy_behind, &b[i]);
    }
    for (unsigned round = 0; round < 3; round++) {
        fill(source, words, round);
        memset(back, 0, words * 4);
        MUST(cudaMemcpyAsync(other, source, words * 4, cudaMemcpyHostToDevice, free_stream));
        MUST(cudaMemcpyAsync(back, other, words * 4, cudaMemcpyDeviceToHost, free_stream));
        MUST(cudaStreamSynchronize(free_stream));
        HOLDS(wrong_words(back, words, round) == 0);
    }
    for (int i = 0; i < STREAMS; i++)
        GIVES(cudaErrorNotReady, cudaStreamQuery(b[i].stream));
    MUST(cudaMemcpyAsync(flags, &one, sizeof one, cudaMemcpyHostToDevice, free_stream));
    for (int i = 0; i < STREAMS; i++) {
        if (!pinned)
            pthread_join(threads[i], NULL);
        MUST(cudaStreamSynchronize(b[i].stream));
        memset(back, 0, words * 4);
        MUST(cudaMemcpy(back, b[i].device, words * 4, cudaMemcpyDeviceToHost));
        HOLDS(wrong_words(back, words, 10 + (unsigned)i) == 0);
        if (pinned)
            MUST(cudaFreeHost(b[i].host));
        else
            free(b[i].host);
        MUST(cudaFree(b[i].device));
        MUST(cudaStreamDestroy(b[i].stream));
    }
    printf("held, %s: %.2f s\n", pinned ? "pinned" : "pageable", now_s() - start);
    MUST(cudaStreamDestroy(free_stream));
    MUST(cudaFree(other));
    MUST(cudaFree(flags));
    free(source);
    free(back);
}

// ---- the end of everything, in the middle ----

static void reset()
{
    const size_t words = 3 * MIB;
    unsigned *device, *host;
    cudaStream_t stream;
    MUST(cudaMallocHost((void **)&host, words * 4));
    fill(host, words, 3);
    MUST(cudaMalloc((void **)&device, words * 4));
    MUST(cudaStreamCreate(&stream));
    MUST(cudaMemcpyAsync(host, device, words * 4, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    for (int i = 0; i < 4; i++)
        MUST(cudaMemcpyAsync(device, host, words * 4, cudaMemcpyHostToDevice, stream));
    MUST(cudaDeviceReset());
    host = (unsigned *)malloc(words * 4);
    fill(host, words, 4);
    MUST(cudaMalloc((void **)&device, words * 4));
    MUST(cudaMemcpy(device, host, words * 4, cudaMemcpyHostToDevice));
    memset(host, 0, words * 4);
    MUST(cudaMemcpy(host, device, words * 4, cudaMemcpyDeviceToHost));
    HOLDS(wrong_words(host, words, 4) == 0);
    free(host);
}

// One thread, one stream, nothing else: what comes back is what was sent.
static void plain(size_t words)
{
    unsigned *host = (unsigned *)malloc(words * 4), *back = (unsigned *)malloc(words * 4), *device;
    MUST(cudaMalloc((void **)&device, words * 4));
    for (unsigned round = 0; round < 3; round++) {
        fill(host, words, round);
        MUST(cudaMemcpy(device, host, words * 4, cudaMemcpyHostToDevice));
        MUST(cudaMemcpy(back, device, words * 4, cudaMemcpyDeviceToHost));
        if (size_t wrong = wrong_words(back, words, round))
            failed("plain", 0, round, wrong);
    }
    MUST(cudaFree(device));
    free(host);
    free(back);
}

// An event behind a copy to pinned memory is not complete before its bytes are there, however often one asks.
static void event_behind(size_t words)
{
    unsigned *filled = (unsigned *)malloc(words * 4), *host, *device;
    cudaEvent_t event;
    cudaError_t code;
    MUST(cudaMalloc((void **)&device, words * 4));
    MUST(cudaMallocHost((void **)&host, words * 4));
    MUST(cudaEventCreate(&event));
    for (unsigned round = 0; round < 3; round++) {
        fill(filled, words, round);
        MUST(cudaMemcpy(device, filled, words * 4, cudaMemcpyHostToDevice));
        memset(host, 0, words * 4);
        MUST(cudaMemcpyAsync(host, device, words * 4, cudaMemcpyDeviceToHost, 0));
        MUST(cudaEventRecord(event, 0));
        while ((code = cudaEventQuery(event)) == cudaErrorNotReady)
            ;
        HOLDS(code == cudaSuccess);
        if (size_t wrong = wrong_words(host, words, round))
            failed("event", 0, round, wrong);
    }
    MUST(cudaEventDestroy(event));
    MUST(cudaFreeHost(host));
    MUST(cudaFree(device));
    free(filled);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "event") == 0) {
        event_behind((size_t)atoi(argv[2]) * MIB / 4);
        return check_result("lanes");
    }
    if (argc > 2 && strcmp(argv[1], "plain") == 0) {
        plain((size_t)atoi(argv[2]) * MIB / 4);
        return check_result("lanes");
    }
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 6;
    // 24 MiB: more than is kept anywhere for a stream
    size_t words = (argc > 2 ? (size_t)atoi(argv[2]) : 24) * MIB / 4;
    MUST(cudaFree(0));
    threads(8, rounds);
    held(false, words);
    held(true, words);
    reset();
    return check_result("lanes");
}
