// shows: pinned memory in kernels: random programs of kernels on pinned memory, copies, sets, host functions, events
//   and accesses of the program agree with a model on the host
//
// Arguments: seed, steps. The program keeps CUDA's rules: it orders what conflicts by streams, events and waits.
#include "check.h"
#include "../lib/dice.h"
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

enum { BUFFERS = 10, STREAMS = 3, NOBODY = -1 };

static unsigned long long seed = 1;
static unsigned below(unsigned n) { return dice(&seed, n); }

// `memory` is pinned, or on the device.
struct buffer {
    unsigned *memory = NULL;
    bool pinned = false;
    std::vector<unsigned> model;
    int user = NOBODY;                        // the last stream with work on it
};

static buffer buffers[BUFFERS];
static cudaStream_t streams[STREAMS];
static cudaEvent_t events[STREAMS];
static bool busy[STREAMS];

__global__ void change(unsigned *a, size_t n, unsigned by)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        a[i] = a[i] * 3 + by;
}
__global__ void mix(unsigned *a, const unsigned *b, size_t n)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        a[i] += b[i] ^ 5;
}
__global__ void count(unsigned *a, unsigned by) { atomicAdd(a, by); }

// The stream comes behind what others have done with the buffer.
static void order(buffer &b, int s)
{
    if (b.user != NOBODY && b.user != s) {
        MUST(cudaEventRecord(events[b.user], streams[b.user]));
        MUST(cudaStreamWaitEvent(streams[s], events[b.user], 0));
    }
    b.user = s;
    busy[s] = true;
}

// The program may touch it from here on: in one of the ways that wait for a stream.
static void settle(const buffer &b)
{
    if (b.user == NOBODY || !busy[b.user])
        return;
    switch (below(5)) {
    case 0:
        MUST(cudaDeviceSynchronize());
        for (bool &any : busy)
            any = false;
        return;
    case 1:
        MUST(cudaEventRecord(events[b.user], streams[b.user]));
        MUST(cudaEventSynchronize(events[b.user]));
        break;
    case 2:
        MUST(cudaEventRecord(events[b.user], streams[b.user]));
        while (cudaEventQuery(events[b.user]) == cudaErrorNotReady)
            ;
        break;
    case 3:
        while (cudaStreamQuery(streams[b.user]) == cudaErrorNotReady)
            ;
        break;
    default: MUST(cudaStreamSynchronize(streams[b.user]));
    }
    cudaGetLastError();
    busy[b.user] = false;
}

static void renew(buffer &b)
{
    settle(b);
    if (b.memory)
        MUST(b.pinned ? cudaFreeHost(b.memory) : cudaFree(b.memory));
    size_t n = below(3) ? 1 + below(3000) : 1 + below(300000);
    bool pinned = below(4) != 0;
    b = buffer();
    b.pinned = pinned;
    b.model.resize(n);
    for (unsigned &word : b.model)
        word = below(1000);
    if (pinned) {
        MUST(cudaHostAlloc((void **)&b.memory, n * sizeof(unsigned), below(2) ? cudaHostAllocMapped : 0));
        memcpy(b.memory, b.model.data(), n * sizeof(unsigned));
    } else {
        MUST(cudaMalloc((void **)&b.memory, n * sizeof(unsigned)));
        MUST(cudaMemcpy(b.memory, b.model.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
    }
}

static void part(const buffer &b, size_t *from, size_t *size)
{
    *from = below(2) ? 0 : below((unsigned)b.model.size());
    *size = 1 + below((unsigned)(b.model.size() - *from));
    if (below(3) == 0)
        *from = 0, *size = b.model.size();
}

static void touch(buffer &b, bool write)
{
    size_t from, size, step = 1 + below(3) * below(700);
    if (!b.pinned)
        return;
    part(b, &from, &size);
    settle(b);
    for (size_t i = from; i < from + size; i += step) {
        if (b.memory[i] != b.model[i]) {
            fprintf(stderr, "buffer %d [%zu] is %u, not %u\n", (int)(&b - buffers), i, b.memory[i], b.model[i]);
            check_failures++;
            return;
        }
        if (write)
            b.memory[i] = b.model[i] = (unsigned)i * 7 + below(9);
    }
}

static void launch(buffer &b)
{
    size_t from, size;
    unsigned by = below(100);
    int s = (int)below(STREAMS);
    part(b, &from, &size);
    order(b, s);
    if (below(4) == 0) {
        count<<<1, 64, 0, streams[s]>>>(b.memory + from, by);
        b.model[from] += 64 * by;
        return;
    }
    change<<<4, 128, 0, streams[s]>>>(b.memory + from, size, by);
    for (size_t i = from; i < from + size; i++)
        b.model[i] = b.model[i] * 3 + by;
}

static void both(buffer &a, buffer &b)
{
    size_t size = a.model.size() < b.model.size() ? a.model.size() : b.model.size();
    int s = (int)below(STREAMS);
    size = 1 + below((unsigned)size);
    order(a, s);
    order(b, s);
    bool copies = below(2);
    if (copies && below(3) == 0) {
        MUST(cudaMemcpy(a.memory, b.memory, 0, cudaMemcpyDefault));
        settle(a);                            // the copy is in the legacy stream, which the others do not wait for
        settle(b);
        MUST(cudaMemcpy(a.memory, b.memory, size * sizeof(unsigned), cudaMemcpyDefault));
        MUST(cudaStreamSynchronize(0));
    } else if (copies) {
        MUST(cudaMemcpyAsync(a.memory, b.memory, size * sizeof(unsigned), cudaMemcpyDefault, streams[s]));
    } else {
        mix<<<4, 128, 0, streams[s]>>>(a.memory, b.memory, size);
    }
    for (size_t i = 0; i < size; i++)
        a.model[i] = copies ? b.model[i] : a.model[i] + (b.model[i] ^ 5);
}

static void set(buffer &b)
{
    size_t from, size;
    unsigned value = below(256);
    int s = (int)below(STREAMS);
    part(b, &from, &size);
    order(b, s);
    MUST(cudaMemsetAsync(b.memory + from, (int)value, size * sizeof(unsigned), streams[s]));
    for (size_t i = from; i < from + size; i++)
        b.model[i] = value * 0x01010101u;
}

struct job { unsigned *memory; size_t size; unsigned by; };
static void CUDART_CB work(void *argument)
{
    job *j = (job *)argument;
    for (size_t i = 0; i < j->size; i += 3)
        j->memory[i] += j->by;
    delete j;
}

static void host_function(buffer &b)
{
    size_t from, size;
    int s = (int)below(STREAMS);
    if (!b.pinned)
        return;
    part(b, &from, &size);
    order(b, s);
    job *j = new job{ b.memory + from, size, below(50) };
    for (size_t i = 0; i < size; i += 3)
        b.model[from + i] += j->by;
    MUST(cudaLaunchHostFunc(streams[s], work, j));
}

int main(int argc, char **argv)
{
    int can = 0, steps = argc > 2 ? atoi(argv[2]) : 400;
    seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    // Behind the first window of device memory that a server offers. There is room for host memory behind another one.
    void *behind = (void *)((1ull << 45) + (1ull << 40));
    // ThreadSanitizer's mmap takes no such address.
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    syscall(SYS_mmap, behind, 4096, PROT_NONE, flags, -1, 0);
    MUST(cudaDeviceGetAttribute(&can, cudaDevAttrCanMapHostMemory, 0));
    HOLDS(can);
    if (!can)
        return check_result("pinned_random");
    for (int s = 0; s < STREAMS; s++) {
        MUST(cudaStreamCreateWithFlags(&streams[s], cudaStreamNonBlocking));
        MUST(cudaEventCreateWithFlags(&events[s], cudaEventDisableTiming));
    }
    for (buffer &b : buffers)
        renew(b);
    for (int step = 0; step < steps && !check_failures; step++) {
        buffer &b = buffers[below(BUFFERS)], &c = buffers[below(BUFFERS)];
        switch (below(12)) {
        case 0: renew(b); break;
        case 1:
        case 2: touch(b, true); break;
        case 3: touch(b, false); break;
        case 4: set(b); break;
        case 5: host_function(b); break;
        case 6:
        case 7:
        case 8: launch(b); break;
        default:
            if (&b != &c)
                both(b, c);
        }
        if (check_failures)
            fprintf(stderr, "in step %d\n", step);
    }
    for (buffer &b : buffers) {
        settle(b);
        std::vector<unsigned> seen(b.model.size());
        MUST(cudaMemcpy(seen.data(), b.memory, seen.size() * sizeof(unsigned), cudaMemcpyDefault));
        HOLDS(seen == b.model);
    }
    return check_result("pinned_random");
}
