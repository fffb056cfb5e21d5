// shows: order: random copies (all kinds), memsets, kernels, host functions, allocations over several streams of
//   several threads, against a model
#include "check.h"
#include "../lib/dice.h"
#include <pthread.h>
#include <unistd.h>

/*
 * Each thread has buffers, streams and a model of what each buffer holds, and does random things to both. An operation
 * goes to any of its streams; if a buffer was last used on another one, an event makes the stream wait. So the device
 * must end where the model does, whatever runs at the same time. The seed is the first argument, the number of steps
 * the second.
 */
enum { THREADS = 5, BUFFERS = 4, STREAMS = 3, LONGEST = 700000, PENDING = 16 };

typedef unsigned int word;

__global__ void affine(word *p, int n, word by, word plus)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        p[i] = p[i] * by + plus;
}

__global__ void add_to(word *p, const word *q, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        p[i] += q[i];
}

struct buffer { word *device, *model; int size; int stream; };
struct out { word *pinned, *expected; int size; int stream; };         // an asynchronous copy back, not yet looked at
struct worker {
    unsigned long long random;
    int who, steps, called, notes;
    struct buffer buffers[BUFFERS];
    cudaStream_t streams[STREAMS];
    cudaEvent_t event;
    struct out outs[PENDING];
    int out_count;
    word *pinned[PENDING];            // sources of asynchronous copies, free after the next synchronisation
    int pinned_count;
    int wrong;
};

static unsigned draw(struct worker *w, unsigned below) { return dice(&w->random, below); }

// Mostly small, now and then large enough to be cut into pieces.
static int draw_size(struct worker *w, int most)
{
    int size = draw(w, 8) ? 1 + draw(w, 3000) : 1 + draw(w, LONGEST);
    return size < most ? size : most;
}

static void differ(struct worker *w, const char *what, const word *got, const word *expected, int n)
{
    int wrong = 0, first = -1;
    for (int i = 0; i < n; i++)
        if (got[i] != expected[i] && !wrong++)
            first = i;
    if (wrong && !w->wrong++)
        fprintf(stderr, "thread %d: %s: %d of %d words wrong, the first at %d: %u instead of %u\n", w->who, what, wrong,
                n, first, got[first], expected[first]);
}

static void look_at_outs(struct worker *w)
{
    for (int i = 0; i < w->out_count; i++) {
        differ(w, "asynchronous copy back", w->outs[i].pinned, w->outs[i].expected, w->outs[i].size);
        MUST(cudaFreeHost(w->outs[i].pinned));
        free(w->outs[i].expected);
    }
    w->out_count = 0;
    while (w->pinned_count)
        MUST(cudaFreeHost(w->pinned[--w->pinned_count]));
}

static void synchronize(struct worker *w)
{
    for (int i = 0; i < STREAMS; i++)
        MUST(cudaStreamSynchronize(w->streams[i]));
    HOLDS(w->notes == w->called);
    look_at_outs(w);
}

// The stream on which the buffer is used next: the one that was used last, or another that waits for it.
static void move_to(struct worker *w, struct buffer *b, int stream)
{
    if (b->stream == stream)
        return;
    MUST(cudaEventRecord(w->event, w->streams[b->stream]));
    MUST(cudaStreamWaitEvent(w->streams[stream], w->event, 0));
    b->stream = stream;
}

static void CUDART_CB note(void *data)
{
    __atomic_fetch_add(&((struct worker *)data)->notes, 1, __ATOMIC_RELAXED);
}

static word *fresh_words(struct worker *w, bool pinned, int n)
{
    word *words;
    if (pinned)
        MUST(cudaMallocHost((void **)&words, n * sizeof *words));
    else
        words = (word *)malloc(n * sizeof *words);
    word value = draw(w, 1u << 31);
    for (int i = 0; i < n; i++)
        words[i] = value += 2654435761u;
    return words;
}

static void copy_in(struct worker *w, struct buffer *b, int at, int n, cudaStream_t stream)
{
    bool pinned = draw(w, 2);
    if (pinned && w->pinned_count == PENDING)
        synchronize(w);
    word *source = fresh_words(w, pinned, n);
    memcpy(b->model + at, source, n * sizeof *source);
    MUST(cudaMemcpyAsync(b->device + at, source, n * sizeof *source, cudaMemcpyHostToDevice, stream));
    if (pinned) {
        w->pinned[w->pinned_count++] = source;
    } else {
        memset(source, 0xee, n * sizeof *source);       // a pageable source has been taken when the call returns
        free(source);
    }
}

static void copy_in_rows(struct worker *w, struct buffer *b, cudaStream_t stream)
{
    int width = 1 + draw(w, 200), pitch = width + draw(w, 50), rows = b->size / pitch;
    if (!rows)
        return;
    rows = rows < 60 ? rows : 60;
    word *source = fresh_words(w, false, width * rows);
    for (int y = 0; y < rows; y++)
        memcpy(b->model + y * pitch, source + y * width, width * sizeof *source);
    MUST(cudaMemcpy2DAsync(b->device, pitch * sizeof *source, source, width * sizeof *source, width * sizeof *source,
                           rows, cudaMemcpyHostToDevice, stream));
    memset(source, 0xee, width * rows * sizeof *source);
    free(source);
}

static void copy_out(struct worker *w, struct buffer *b, int at, int n, cudaStream_t stream)
{
    if (draw(w, 3) == 0) {                              // pageable: the bytes are there when it returns
        word *to = (word *)malloc(n * sizeof *to);
        MUST(cudaMemcpyAsync(to, b->device + at, n * sizeof *to, cudaMemcpyDeviceToHost, stream));
        differ(w, "copy back", to, b->model + at, n);
        free(to);
        return;
    }
    if (w->out_count == PENDING)
        synchronize(w);
    struct out *out = &w->outs[w->out_count++];
    out->size = n;
    MUST(cudaMallocHost((void **)&out->pinned, n * sizeof(word)));
    out->expected = (word *)malloc(n * sizeof(word));
    memcpy(out->expected, b->model + at, n * sizeof(word));
    MUST(cudaMemcpyAsync(out->pinned, b->device + at, n * sizeof(word), cudaMemcpyDeviceToHost, stream));
}

static void make(struct worker *w, struct buffer *b)
{
    b->size = draw(w, 4) ? 1 + draw(w, 5000) : 1 + draw(w, LONGEST);
    b->stream = draw(w, STREAMS);
    b->model = (word *)calloc(b->size, sizeof(word));
    MUST(cudaMalloc((void **)&b->device, b->size * sizeof(word)));
    MUST(cudaMemsetAsync(b->device, 0, b->size * sizeof(word), w->streams[b->stream]));
}

static void unmake(struct worker *w, struct buffer *b)
{
    word *all = (word *)malloc(b->size * sizeof(word));
    MUST(cudaMemcpyAsync(all, b->device, b->size * sizeof(word), cudaMemcpyDeviceToHost, w->streams[b->stream]));
    MUST(cudaStreamSynchronize(w->streams[b->stream]));
    differ(w, "at the end", all, b->model, b->size);
    free(all);
    free(b->model);
    MUST(cudaFree(b->device));
}

static void step(struct worker *w)
{
    int s = draw(w, STREAMS), i = draw(w, BUFFERS);
    struct buffer *b = &w->buffers[i], *other = &w->buffers[(i + 1 + draw(w, BUFFERS - 1)) % BUFFERS];
    cudaStream_t stream = w->streams[s];
    move_to(w, b, s);
    int n = draw_size(w, b->size), at = draw(w, b->size - n + 1), both = n < other->size ? n : other->size;
    switch (draw(w, 12)) {
    case 0: case 1:
        copy_in(w, b, at, n, stream);
        break;
    case 2:
        copy_in_rows(w, b, stream);
        break;
    case 3: case 4:
        copy_out(w, b, at, n, stream);
        break;
    case 5: {
        word value = draw(w, 256) * 0x01010101u;
        for (int k = 0; k < n; k++)
            b->model[at + k] = value;
        MUST(cudaMemsetAsync(b->device + at, (int)(value & 255), n * sizeof(word), stream));
        break;
    }
    case 6: case 7: {
        word by = draw(w, 1000) | 1, plus = draw(w, 1000);
        for (int k = 0; k < n; k++)
            b->model[at + k] = b->model[at + k] * by + plus;
        affine<<<1 + draw(w, 4), 64, 0, stream>>>(b->device + at, n, by, plus);
        break;
    }
    case 8:
        move_to(w, other, s);
        for (int k = 0; k < both; k++)
            b->model[k] += other->model[k];
        add_to<<<2, 64, 0, stream>>>(b->device, other->device, both);
        break;
    case 9:
        move_to(w, other, s);
        memcpy(b->model, other->model, both * sizeof(word));
        MUST(cudaMemcpyAsync(b->device, other->device, both * sizeof(word), cudaMemcpyDeviceToDevice, stream));
        break;
    case 10:
        MUST(cudaLaunchHostFunc(stream, note, w));
        w->called++;
        break;
    default:
        if (draw(w, 4)) {
            synchronize(w);
        } else {
            unmake(w, b);
            make(w, b);
        }
    }
    MUST(cudaGetLastError());
}

static void *work(void *argument)
{
    struct worker *w = (struct worker *)argument;
    for (int i = 0; i < STREAMS; i++)
        MUST(cudaStreamCreateWithFlags(&w->streams[i], cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&w->event, cudaEventDisableTiming));
    for (int i = 0; i < BUFFERS; i++)
        make(w, &w->buffers[i]);
    for (int i = 0; i < w->steps && !w->wrong; i++)
        step(w);
    synchronize(w);
    for (int i = 0; i < BUFFERS; i++)
        unmake(w, &w->buffers[i]);
    for (int i = 0; i < STREAMS; i++)
        MUST(cudaStreamDestroy(w->streams[i]));
    MUST(cudaEventDestroy(w->event));
    return NULL;
}

int main(int argc, char **argv)
{
    static struct worker workers[THREADS];
    pthread_t threads[THREADS];
    unsigned long long seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    int steps = argc > 2 ? atoi(argv[2]) : 150;
    for (int i = 0; i < THREADS; i++) {
        workers[i].who = i;
        workers[i].steps = steps;
        workers[i].random = seed * 1000003 + i * 7919;
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        check_failures += workers[i].wrong;
    }
    if (check_failures)
        fprintf(stderr, "seed %llu, %d steps\n", seed, steps);
    return check_result("stress");
}
