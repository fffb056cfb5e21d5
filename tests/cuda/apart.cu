// shows: order: streams that have no order never wait for each other: two with 60,000 launches each behind a kernel
//   that spins on a flag, while another stream runs and sets it
// shows: order: two such streams copy from the device to the same pinned bytes; the second arrives though the first
//   stands still
// shows: order: host functions in a blocking stream beside copies of the NULL stream, from two threads at once
#include "check.h"
#include <thread>
#include <unistd.h>

__global__ void wait_for(volatile int *flag)
{
    while (!*flag)
        __nanosleep(1000);
}

__global__ void set(int *p, int value) { *p = value; }
__global__ void count(int *p) { atomicAdd(p, 1); }

static int *flag, *counts;
static cudaStream_t other;

static void lower_flag() { MUST(cudaMemset(flag, 0, sizeof *flag)); }
static void raise_flag() { set<<<1, 1, 0, other>>>(flag, 1); }

static void behind_a_kernel()
{
    enum { STREAMS = 2, LAUNCHES = 60000 };
    cudaStream_t streams[STREAMS];
    std::thread threads[STREAMS];
    int got[STREAMS];
    lower_flag();
    MUST(cudaMemset(counts, 0, sizeof got));
    MUST(cudaDeviceSynchronize());
    for (int s = 0; s < STREAMS; s++) {
        MUST(cudaStreamCreateWithFlags(&streams[s], cudaStreamNonBlocking));
        threads[s] = std::thread([s, &streams] {
            wait_for<<<1, 1, 0, streams[s]>>>(flag);
            for (int i = 0; i < LAUNCHES; i++)
                count<<<1, 1, 0, streams[s]>>>(counts + s);
            MUST(cudaGetLastError());
        });
    }
    for (int i = 0; i < 200; i++) {           // while they fill what there is to fill
        set<<<1, 1, 0, other>>>(counts + STREAMS, i);
        MUST(cudaStreamSynchronize(other));
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    raise_flag();
    for (int s = 0; s < STREAMS; s++)
        threads[s].join();
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(got, counts, sizeof got, cudaMemcpyDeviceToHost));
    for (int s = 0; s < STREAMS; s++) {
        HOLDS(got[s] == LAUNCHES);
        MUST(cudaStreamDestroy(streams[s]));
    }
}

static void same_bytes()
{
    enum { SIZE = 4096 };
    cudaStream_t first, second;
    unsigned char *a, *b, *pinned;
    lower_flag();
    MUST(cudaMalloc((void **)&a, SIZE));
    MUST(cudaMalloc((void **)&b, SIZE));
    MUST(cudaMemset(a, 1, SIZE));
    MUST(cudaMemset(b, 2, SIZE));
    MUST(cudaMallocHost((void **)&pinned, SIZE));
    MUST(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    MUST(cudaDeviceSynchronize());
    wait_for<<<1, 1, 0, first>>>(flag);
    MUST(cudaMemcpyAsync(pinned, a, SIZE, cudaMemcpyDeviceToHost, first));
    MUST(cudaMemcpyAsync(pinned, b, SIZE, cudaMemcpyDeviceToHost, second));
    MUST(cudaStreamSynchronize(second));
    for (int i = 0; i < SIZE; i++)
        if (pinned[i] != 2) {
            HOLDS(pinned[i] == 2);
            break;
        }
    raise_flag();
    MUST(cudaStreamSynchronize(first));
    HOLDS(pinned[0] == 1 && pinned[SIZE - 1] == 1);
    MUST(cudaFreeHost(pinned));
    MUST(cudaFree(a));
    MUST(cudaFree(b));
}

static void CUDART_CB note(void *p) { ++*(int *)p; }

// Which of the two comes first is open, but client and server must be of one mind about it.
static void two_threads()
{
    enum { ROUNDS = 3000, SIZE = 256 };
    cudaStream_t blocking;
    unsigned char *device, *pinned;
    int noted = 0;
    MUST(cudaMalloc((void **)&device, SIZE));
    MUST(cudaMallocHost((void **)&pinned, SIZE));
    MUST(cudaStreamCreate(&blocking));
    std::thread copier([=] {
        for (int i = 0; i < ROUNDS; i++)
            MUST(cudaMemcpyAsync(pinned, device, SIZE, cudaMemcpyDeviceToHost, 0));
    });
    for (int i = 0; i < ROUNDS; i++)
        MUST(cudaLaunchHostFunc(blocking, note, &noted));
    copier.join();
    MUST(cudaDeviceSynchronize());
    HOLDS(noted == ROUNDS);
    MUST(cudaFreeHost(pinned));
    MUST(cudaFree(device));
}

int main()
{
    alarm(50);                                // what this is about are calls that never return
    MUST(cudaMalloc((void **)&flag, sizeof *flag));
    MUST(cudaMalloc((void **)&counts, 4 * sizeof *counts));
    MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    same_bytes();
    two_threads();
    behind_a_kernel();
    return check_result("apart");
}
