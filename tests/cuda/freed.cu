// shows: memory: cudaFree waits for the work of every stream and for host functions, and no freed address is handed out
//   before
// shows: memory: cudaFree waits for copies of another device's streams that use the memory, and for no other work of
//   that device
#include "check.h"
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

__global__ void hold_then_write(volatile int *flag, unsigned char *at, size_t size, unsigned char mark)
{
    while (!*flag)
        __nanosleep(20000);
    for (size_t i = threadIdx.x; i < size; i += blockDim.x)
        at[i] = mark;
}

__global__ void late_write(unsigned char *at, size_t size, unsigned char mark, int rounds)
{
    unsigned x = mark;
    for (int i = 0; i < rounds; i++)
        x = x * 1664525u + 1013904223u;
    for (size_t i = threadIdx.x; i < size; i += blockDim.x)
        at[i] = (unsigned char)(x == 12345 ? 0 : mark);
}

static std::atomic<bool> called, freed;
static void CUDART_CB called_back(void *)
{
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    called = true;
}

// A kernel of one stream holds memory, a host function of another waits for it, a third thread frees.
static void waits_for_everything()
{
    const size_t size = 1 << 20;
    unsigned char *used, *other;
    int *flag, one = 1;
    cudaStream_t a, b, c;
    cudaEvent_t done;
    MUST(cudaMalloc((void **)&used, size));
    MUST(cudaMalloc((void **)&flag, sizeof *flag));
    MUST(cudaMemset(flag, 0, sizeof *flag));
    MUST(cudaDeviceSynchronize());
    for (cudaStream_t *s : { &a, &b, &c })
        MUST(cudaStreamCreateWithFlags(s, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    hold_then_write<<<1, 32, 0, a>>>(flag, used, size, 7);
    MUST(cudaEventRecord(done, a));
    MUST(cudaStreamWaitEvent(b, done, 0));
    MUST(cudaLaunchHostFunc(b, called_back, nullptr));
    std::thread freer([&] {
        MUST(cudaFree(used));
        HOLDS(called && cudaEventQuery(done) == cudaSuccess);
        freed = true;
    });
    std::vector<unsigned char *> others;
    for (int i = 0; i < 50; i++) {
        MUST(cudaMalloc((void **)&other, i % 2 ? size : 700));
        HOLDS(other + size <= used || used + size <= other);
        others.push_back(other);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    HOLDS(!freed && !called);
    MUST(cudaMemcpyAsync(flag, &one, sizeof one, cudaMemcpyHostToDevice, c));
    freer.join();
    for (unsigned char *p : others)
        MUST(cudaFree(p));
    MUST(cudaFree(flag));
    for (cudaStream_t s : { a, b, c })
        MUST(cudaStreamDestroy(s));
    MUST(cudaEventDestroy(done));
}

// What a block's last kernel writes late never appears in whoever has its address next.
static void nothing_late()
{
    const int streams = 3, rounds = 200;
    cudaStream_t stream[streams];
    for (cudaStream_t &s : stream)
        MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    std::vector<unsigned char> seen(8192);
    int again = 0;
    unsigned char *last = nullptr;
    for (int round = 0; round < rounds; round++) {
        const size_t size = 4096 + round % 7 * 512;
        unsigned char *p, *q;
        MUST(cudaMalloc((void **)&p, size));
        late_write<<<1, 32, 0, stream[round % streams]>>>(p, size, 0xee, 2000);
        if (round % 5 == 0)
            MUST(cudaStreamDestroy(stream[round % streams]));       // its work goes on
        MUST(cudaFree(p));
        if (round % 5 == 0)
            MUST(cudaStreamCreateWithFlags(&stream[round % streams], cudaStreamNonBlocking));
        MUST(cudaMalloc((void **)&q, size));
        again += q == p || q == last;
        MUST(cudaMemset(q, round & 0x7f, size));
        MUST(cudaMemcpy(seen.data(), q, size, cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < size; i++)
            HOLDS(seen[i] == (round & 0x7f));
        MUST(cudaFree(q));
        last = q;
    }
    printf("%d of %d addresses came again\n", again, rounds);
    for (cudaStream_t s : stream)
        MUST(cudaStreamDestroy(s));
}

// With two devices: a stream of the first is held, and has a copy from the second's memory behind that.
static void waits_for_other_devices()
{
    const size_t size = 1 << 20;
    int *flag, one = 1, count;
    unsigned char *mine, *theirs, *again, last = 0;
    cudaStream_t held, let_go;
    std::atomic<bool> released(false), done(false);
    MUST(cudaGetDeviceCount(&count));
    if (count < 2)
        return;
    for (bool used : {false, true}) {
        released = done = false;
        MUST(cudaSetDevice(1));
        MUST(cudaMalloc((void **)&theirs, size));
        MUST(cudaMemset(theirs, 5, size));
        MUST(cudaDeviceSynchronize());
        MUST(cudaSetDevice(0));
        MUST(cudaMalloc((void **)&mine, size));
        MUST(cudaMalloc((void **)&flag, sizeof *flag));
        MUST(cudaMemset(flag, 0, sizeof *flag));
        MUST(cudaDeviceSynchronize());
        MUST(cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking));
        MUST(cudaStreamCreateWithFlags(&let_go, cudaStreamNonBlocking));
        hold_then_write<<<1, 32, 0, held>>>(flag, mine, size, 7);
        if (used)
            MUST(cudaMemcpyAsync(mine, theirs, size, cudaMemcpyDefault, held));
        std::thread freer([&] {
            MUST(cudaSetDevice(1));
            MUST(cudaFree(theirs));
            HOLDS(!used || released);
            MUST(cudaMalloc((void **)&again, size));
            MUST(cudaMemset(again, 9, size));
            MUST(cudaDeviceSynchronize());
            done = true;
        });
        for (int i = 0; i < 5000 && !done && (!used || i < 30); i++)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        HOLDS(done == !used);
        released = true;
        MUST(cudaMemcpyAsync(flag, &one, sizeof one, cudaMemcpyHostToDevice, let_go));
        freer.join();
        MUST(cudaMemcpyAsync(&last, mine + size - 1, 1, cudaMemcpyDeviceToHost, held));
        MUST(cudaStreamSynchronize(held));
        HOLDS(last == (used ? 5 : 7));
        for (cudaStream_t s : {held, let_go})
            MUST(cudaStreamDestroy(s));
        for (void *p : {(void *)mine, (void *)flag, (void *)again})
            MUST(cudaFree(p));
    }
}

int main()
{
    waits_for_everything();
    waits_for_other_devices();
    nothing_late();
    return check_result("freed");
}
