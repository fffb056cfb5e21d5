// shows: fork: the child's first CUDA call gives an initialisation error, its exit disturbs nothing
// shows: fork: while another thread makes the first CUDA call: the child's calls return, with success or an
//   initialisation error
#include "check.h"
#include <thread>
#include <sys/wait.h>
#include <unistd.h>

__global__ void bump(int *p) { ++*p; }

// In a process that has made no CUDA call yet.
static int fork_at_first_call(int delay_us)
{
    std::thread caller([] {
        int *p;
        MUST(cudaMalloc((void **)&p, 64));
    });
    usleep(delay_us);
    pid_t child = fork();
    if (child == 0) {
        int *p;
        alarm(20);
        cudaError_t got = cudaMalloc((void **)&p, 64);
        _exit(got == cudaSuccess || got == cudaErrorInitializationError ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    HOLDS(status == 0);
    caller.join();
    return check_failures;
}

int main()
{
    for (int i = 0; i < 24; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(fork_at_first_call(i % 12 * 25));
        int status = -1;
        waitpid(child, &status, 0);
        HOLDS(status == 0);
    }
    int *d, h = 0;
    MUST(cudaMalloc((void **)&d, sizeof h));
    MUST(cudaMemset(d, 0, sizeof h));
    bump<<<1, 1>>>(d);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int *e;
        GIVES(cudaErrorInitializationError, cudaMalloc((void **)&e, 64));
        GIVES(cudaErrorInitializationError, cudaDeviceSynchronize());
        exit(check_failures);                 // through all destructors
    }
    int status = -1;
    waitpid(child, &status, 0);
    HOLDS(status == 0);
    bump<<<1, 1>>>(d);
    MUST(cudaMemcpy(&h, d, sizeof h, cudaMemcpyDeviceToHost));
    HOLDS(h == 2);
    return check_result("forks");
}
