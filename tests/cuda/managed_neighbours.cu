// shows: managed memory: small allocations side by side, which kernels of several streams use: by functions of the
//   program, one for each stream, and by several of its threads
#include <atomic>
#include <thread>
#include <vector>

#include "managed.h"

enum { STREAMS = 4, N = 300 };

__global__ void change(int *a)
{
    for (int i = threadIdx.x; i < N; i += blockDim.x)
        a[i] = a[i] * 3 + 1;
}

// Memory that the kernels of one stream use, and what must be there. The other ones' is in the pages beside it.
struct part {
    cudaStream_t stream;
    int *memory, expected[N];
    std::atomic<int> wrong{0};

    part()
    {
        MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        memory = managed<int>(N);
        write(0);
    }
    ~part()
    {
        MUST(cudaStreamDestroy(stream));
        MUST(cudaFree(memory));
    }
    void write(int from)
    {
        for (int i = 0; i < N; i++)
            memory[i] = expected[i] = from + i;
    }
    void launch()
    {
        change<<<1, 32, 0, stream>>>(memory);
        MUST(cudaGetLastError());
    }
    // Behind a kernel. What is written next goes to the next kernel.
    void check()
    {
        int errors = 0;
        for (int i = 0; i < N; i++)
            errors += memory[i] != expected[i] * 3 + 1;
        wrong += errors > 0;
        write(expected[0] + 7);
    }
};

static void CUDART_CB check_in_turn(void *of)
{
    ((part *)of)->check();
}

// One thread gives work to all streams. While the function of one runs, kernels of the others do.
static void functions(int rounds)
{
    part parts[STREAMS];
    for (int round = 0; round < rounds; round++)
        for (part &p : parts) {
            p.launch();
            MUST(cudaLaunchHostFunc(p.stream, check_in_turn, &p));
        }
    MUST(cudaDeviceSynchronize());
    for (part &p : parts) {
        if (p.wrong)
            fprintf(stderr, "functions: %d of %d rounds are wrong\n", p.wrong.load(), rounds);
        HOLDS(p.wrong == 0);
    }
}

// The first round is special: each thread's kernel wants memory that another thread's launch may just be sending.
static void threads(int rounds)
{
    part parts[STREAMS];
    std::vector<std::thread> all;
    for (part &p : parts)
        all.emplace_back([&p, rounds] {
            for (int round = 0; round < rounds; round++) {
                p.launch();
                MUST(cudaStreamSynchronize(p.stream));
                p.check();
            }
        });
    for (std::thread &t : all)
        t.join();
    for (part &p : parts) {
        if (p.wrong)
            fprintf(stderr, "threads: %d of %d rounds are wrong\n", p.wrong.load(), rounds);
        HOLDS(p.wrong == 0);
    }
}

int main(int, char **arguments)
{
    functions(40);
    for (int i = 0; i < 10; i++)
        threads(10);
    return check_result("managed_neighbours") | run_by_signal(arguments);
}
