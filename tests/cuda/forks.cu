// shows: fork: the child's first CUDA call gives an initialisation error, its exit disturbs nothing
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

__global__ void bump(int *p) { ++*p; }

int main()
{
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
