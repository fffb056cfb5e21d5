// More of a program with GPUs of several servers (tests/cuda/stopped.py, several.py): see main.cu.
//
//   graph            captured copies between the first and the last device, also of variables whose addresses are equal
//   mapped           kernels of the first and the last device use the same pinned memory
//   stopped PHASE    prints "ready", waits for a line, then prints with which error and after how many ms its copies
//                    with device 1 have failed, and what the other devices say. PHASE says when device 1 is stopped:
//     first          before the first copy with it, so without a link
//     idle           between two synchronous copies
//     given          before an asynchronous copy is given
//     queued         while an asynchronous copy waits behind a host function
//     sending        while another thread copies large memory from it, again and again
//     receiving      while another thread copies to it
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "../check.h"

enum { BYTES = 1 << 20, LARGE = 32 << 20 };

__device__ unsigned device_number;

static int devices;

__global__ void add(unsigned *number, unsigned value) { *number += value; }

static unsigned number_at(const void *memory)
{
    unsigned number;
    MUST(cudaMemcpy(&number, memory, sizeof number, cudaMemcpyDefault));
    return number;
}

static unsigned char *memory_of(int device, size_t size, int value)
{
    unsigned char *memory;
    MUST(cudaSetDevice(device));
    MUST(cudaMalloc(&memory, size));
    MUST(cudaMemset(memory, value, size));
    MUST(cudaDeviceSynchronize());
    return memory;
}

// ---- graphs ----

static int graph()
{
    const int last = devices - 1;
    cudaStream_t stream;
    cudaGraph_t kept;
    cudaGraphExec_t executable;
    void *variable;
    auto *there = (unsigned *)memory_of(last, BYTES, 0);
    unsigned value = 700;
    MUST(cudaMemcpyToSymbol(device_number, &value, sizeof value));
    MUST(cudaGetSymbolAddress(&variable, device_number));
    auto *here = (unsigned *)memory_of(0, BYTES, 0), *read = (unsigned *)memory_of(0, BYTES, 0);
    value = 600;
    MUST(cudaMemcpyToSymbol(device_number, &value, sizeof value));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaMemcpy3DPeerParms peer = {};
    peer.srcDevice = last;
    peer.srcPtr = make_cudaPitchedPtr(variable, 4, 4, 1);
    peer.dstDevice = 0;
    peer.dstPtr = make_cudaPitchedPtr(read, 4, 4, 1);
    peer.extent = make_cudaExtent(4, 1, 1);
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    add<<<1, 1, 0, stream>>>(here, 5);
    MUST(cudaMemcpyAsync(there, here, BYTES, cudaMemcpyDefault, stream));
    MUST(cudaMemcpyAsync(here + 1, there, 4, cudaMemcpyDefault, stream));
    MUST(cudaMemcpy3DPeerAsync(&peer, stream));
    MUST(cudaStreamEndCapture(stream, &kept));
    MUST(cudaGraphInstantiate(&executable, kept, 0));
    for (int launch = 1; launch <= 3; launch++) {
        MUST(cudaGraphLaunch(executable, stream));
        MUST(cudaStreamSynchronize(stream));
        printf("launch: %u %u %u\n", number_at(here), number_at(there), number_at(here + 1));
    }
    printf("variable: %u\n", number_at(read));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    printf("captured peer copy: %d\n", (int)cudaMemcpyPeerAsync(there, last, here, 0, BYTES, stream));
    printf("the capture: %d\n", (int)cudaStreamEndCapture(stream, &kept));
    return 0;
}

// ---- pinned memory ----

enum { WORDS = 4096, TOGETHER = 256, GO = 1000, DATA = 1001, ANSWER = 1002, FIRST = 2000, SECOND = 2001 };

__global__ void raise_all(unsigned *words, unsigned by) { words[threadIdx.x] += by; }

__global__ void await_word(volatile unsigned *word, unsigned value, const volatile unsigned *data, unsigned *answer)
{
    while (*word != value)
        ;
    __threadfence_system();
    *answer = *data + 1;
}

__global__ void say_word(volatile unsigned *word, unsigned value, unsigned *data, unsigned number)
{
    *data = number;
    __threadfence_system();
    *word = value;
}

// Kernels of both devices in turn: each waits for an event of the other one, the program for the last one only.
static unsigned wrong_behind_events(unsigned *words, int last)
{
    const int on[2] = { 0, last };
    unsigned *number, wrong = 0;
    cudaStream_t streams[2];
    cudaEvent_t events[2];
    for (int i : { 0, 1 }) {
        MUST(cudaSetDevice(on[i]));
        MUST(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
        MUST(cudaEventCreateWithFlags(&events[i], cudaEventDisableTiming));
    }
    MUST(cudaSetDevice(0));
    MUST(cudaMalloc(&number, TOGETHER * sizeof *number));
    for (unsigned turn = 0; turn < 3; turn++) {
        memset(words, 0, TOGETHER * sizeof *words);
        for (int step = 0; step < 6; step++) {
            const int i = step % 2;
            MUST(cudaSetDevice(on[i]));
            if (step)
                MUST(cudaStreamWaitEvent(streams[i], events[!i], 0));
            raise_all<<<1, TOGETHER, 0, streams[i]>>>(words, 1);
            MUST(cudaEventRecord(events[i], streams[i]));
        }
        // a copy from the other device's memory into it, in the last one's stream, and a kernel behind that
        MUST(cudaMemcpyAsync(number, words, TOGETHER * sizeof *number, cudaMemcpyDefault, streams[1]));
        raise_all<<<1, TOGETHER, 0, streams[1]>>>(words, 100);
        MUST(cudaMemcpyAsync(words + TOGETHER, number, TOGETHER * sizeof *number, cudaMemcpyDefault, streams[1]));
        raise_all<<<1, TOGETHER, 0, streams[1]>>>(words + TOGETHER, 1);
        MUST(cudaStreamSynchronize(streams[1]));
        for (unsigned i = 0; i < TOGETHER; i++)
            wrong += (words[i] != 106) + (words[i + TOGETHER] != 7);
    }
    return wrong;
}

static int mapped()
{
    const int last = devices - 1;
    unsigned *words, wrong = 0, *there;
    int can[2] = { -1, -1 };
    MUST(cudaDeviceGetAttribute(&can[0], cudaDevAttrCanMapHostMemory, 0));
    MUST(cudaDeviceGetAttribute(&can[1], cudaDevAttrCanMapHostMemory, last));
    printf("can map: %d %d\n", can[0], can[1]);
    MUST(cudaHostAlloc(&words, WORDS * sizeof *words, cudaHostAllocPortable | cudaHostAllocMapped));
    if (!can[0]) {
        raise_all<<<1, TOGETHER>>>(words, 1);
        printf("a kernel that uses it: %d\n", (int)cudaDeviceSynchronize());
        return 0;
    }
    for (unsigned i = 0; i < WORDS; i++)
        words[i] = i;
    for (unsigned turn = 1; turn <= 3; turn++)
        for (int d : { 0, last }) {
            MUST(cudaSetDevice(d));
            raise_all<<<1, TOGETHER>>>(words, 1000);
            MUST(cudaDeviceSynchronize());
            for (unsigned i = 0; i < TOGETHER; i++)
                wrong += words[i] != i + 1000 * (2 * turn - (d == 0));
        }
    printf("one after the other: %u wrong\n", wrong);
    MUST(cudaSetDevice(last));
    await_word<<<1, 1>>>(words + GO, 7, words + DATA, words + ANSWER);
    auto *program = (volatile unsigned *)words;
    program[DATA] = 41;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    program[GO] = 7;
    MUST(cudaDeviceSynchronize());
    printf("a kernel waits for the program: %u\n", words[ANSWER]);
    await_word<<<1, 1>>>(words + FIRST, 5, words + SECOND, words + ANSWER);
    MUST(cudaSetDevice(0));
    say_word<<<1, 1>>>(words + FIRST, 5, words + SECOND, 60);
    MUST(cudaDeviceSynchronize());
    MUST(cudaSetDevice(last));
    MUST(cudaDeviceSynchronize());
    printf("a kernel waits for one of another device: %u\n", words[ANSWER]);
    MUST(cudaMalloc(&there, TOGETHER * sizeof *there));
    MUST(cudaMemcpyAsync(there, words, TOGETHER * sizeof *there, cudaMemcpyHostToDevice));
    raise_all<<<1, TOGETHER>>>(there, 1);
    MUST(cudaMemcpyAsync(words, there, TOGETHER * sizeof *there, cudaMemcpyDeviceToHost));
    MUST(cudaDeviceSynchronize());
    MUST(cudaSetDevice(0));
    raise_all<<<1, TOGETHER>>>(words, 1);
    MUST(cudaDeviceSynchronize());
    for (unsigned i = 0; i < TOGETHER; i++)
        wrong += words[i] != i + 6002;
    printf("with copies between: %u wrong\n", wrong);
    printf("behind events: %u wrong\n", wrong_behind_events(words, last));
    MUST(cudaFreeHost(words));
    return 0;
}

// ---- a server that stands still ----

static std::atomic<bool> released;
static void CUDART_CB hold(void *)
{
    while (!released)
        usleep(1000);
}

static double seconds()
{
    using namespace std::chrono;
    return duration<double>(steady_clock::now().time_since_epoch()).count();
}

// The first error, and 0 if there is none.
static int use(unsigned char *memory)
{
    cudaError_t error = cudaMemset(memory, 5, BYTES);
    if (!error)
        error = cudaDeviceSynchronize();
    cudaGetLastError();
    return (int)error;
}

static std::atomic<int> failed;
static void again_and_again(unsigned char *to, int to_device, const unsigned char *from, int from_device)
{
    MUST(cudaSetDevice(to_device));
    while (!failed)
        failed = (int)cudaMemcpyPeer(to, to_device, from, from_device, LARGE);
}

static int await(const char *phase, unsigned char *const memory[3], cudaStream_t stream)
{
    if (strcmp(phase, "first") == 0 || strcmp(phase, "idle") == 0)
        return (int)cudaMemcpyPeer(memory[0], 0, memory[1], 1, BYTES);
    if (strcmp(phase, "given") == 0) {
        cudaError_t error = cudaMemcpyPeerAsync(memory[0], 0, memory[1], 1, BYTES, stream);
        return (int)(error ? error : cudaStreamSynchronize(stream));
    }
    if (strcmp(phase, "queued") == 0) {
        released = true;
        return (int)cudaStreamSynchronize(stream);
    }
    while (!failed)
        usleep(1000);
    return failed;
}

static int stopped(const char *phase)
{
    unsigned char *memory[3], *more[2] = { nullptr, nullptr };
    const bool sending = strcmp(phase, "sending") == 0, receiving = strcmp(phase, "receiving") == 0;
    char line[16];
    cudaStream_t stream;
    std::thread other;
    for (int d = 2; d >= 0; d--)
        memory[d] = memory_of(d, BYTES, d + 1);
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaMemcpyPeer(memory[0], 0, memory[2], 2, BYTES));
    if (strcmp(phase, "first") != 0)
        MUST(cudaMemcpyPeer(memory[0], 0, memory[1], 1, BYTES));
    if (strcmp(phase, "queued") == 0) {
        MUST(cudaLaunchHostFunc(stream, hold, nullptr));
        MUST(cudaMemcpyPeerAsync(memory[0], 0, memory[1], 1, BYTES, stream));
    }
    if (sending || receiving) {
        more[1] = memory_of(1, LARGE, 1);
        more[0] = memory_of(0, LARGE, 2);
        other = sending ? std::thread(again_and_again, more[0], 0, more[1], 1)
                        : std::thread(again_and_again, more[1], 1, more[0], 0);
    }
    printf("ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 2;
    const double begun = seconds();
    MUST(cudaSetDevice(2));
    printf("device 2 meanwhile: %d\n", use(memory[2]));
    MUST(cudaSetDevice(0));
    const int error = await(phase, memory, stream);
    printf("error: %d after %.0f ms\n", error, (seconds() - begun) * 1e3);
    if (other.joinable())
        other.join();
    for (int d : { 1, 2, 0 }) {
        MUST(cudaSetDevice(d));
        printf("device %d: %d\n", d, use(memory[d]));
    }
    printf("from 2 to 0: %d\n", (int)cudaMemcpyPeer(memory[0], 0, memory[2], 2, BYTES));
    return 0;
}

int main(int argc, char **argv)
{
    MUST(cudaGetDeviceCount(&devices));
    if (argc == 2 && strcmp(argv[1], "graph") == 0)
        return graph();
    if (argc == 2 && strcmp(argv[1], "mapped") == 0)
        return mapped();
    return argc == 3 && strcmp(argv[1], "stopped") == 0 ? stopped(argv[2]) : 2;
}
