// ending.cu: ends with CUDA work that never finishes, in the way that argv[1] names. Its exit status is 5. Built with
// NVIDIA's static runtime, and with -DLATE as a library that brings this runtime into a program of the driver API.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <signal.h>
#include <unistd.h>

#include <cuda_runtime.h>

__global__ void spin(volatile int *word)
{
    while (!*word)
        ;
}

static int failed(const char *what)
{
    printf("%s: %s\n", what, cudaGetErrorString(cudaGetLastError()));
    return 1;
}

static int never_ends(void)
{
    int *word;
    if (cudaMalloc(&word, sizeof *word) != cudaSuccess || cudaMemset(word, 0, sizeof *word) != cudaSuccess)
        return failed("memory");
    spin<<<1, 1>>>(word);
    return cudaGetLastError() == cudaSuccess ? 5 : failed("launch");
}

#ifdef LATE
extern "C" int late(void) { return never_ends(); }
#else
static void sleeps(void *pipe_to_main)
{
    char byte = 0;
    if (write(*(int *)pipe_to_main, &byte, 1) == 1)
        for (;;)
            pause();
}

static void end(int) { exit(5); }

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    static int ends[2];
    char byte;
    if (!strcmp(how, "return"))
        return never_ends();
    if (!strcmp(how, "function")) { // a host function that does not return
        if (pipe(ends) || cudaLaunchHostFunc(0, sleeps, &ends[1]) != cudaSuccess || read(ends[0], &byte, 1) != 1)
            return failed("host function");
        exit(5);
    }
    if (!strcmp(how, "signal")) { // while the program waits for the kernel
        signal(SIGALRM, end);
        if (never_ends() == 5) {
            ualarm(100000, 0);
            cudaDeviceSynchronize();
        }
        return failed("synchronisation");
    }
    if (!strcmp(how, "pinned")) {
        void *memory;
        int status = never_ends();
        exit(cudaMallocHost(&memory, 100) == cudaSuccess ? status : failed("pinned memory"));
    }
    return 2;
}
#endif
