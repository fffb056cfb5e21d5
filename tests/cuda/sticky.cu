// shows: sticky errors: 700, 716 and 719 stay until the process ends, also over cudaDeviceReset, and reach no other
//   process
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

__global__ void read_zero(int *out) { *out = *(volatile int *)0; }
__global__ void misaligned(int *p) { *(volatile int *)((char *)p + 2) = 1; }
__global__ void trap() { asm volatile("trap;"); }
__global__ void fails(int x) { if (x != 3) __trap(); }
__global__ void plain(int *p) { *p = 42; }

static int fault(cudaError_t expected, int which)
{
    int *d, *e;
    MUST(cudaMalloc(&d, 64));
    switch (which) {
    case 0: read_zero<<<1, 1>>>(d); break;
    case 1: misaligned<<<1, 1>>>(d); break;
    case 2: trap<<<1, 1>>>(); break;
    case 3: fails<<<1, 1>>>(4); break;
    }
    cudaEvent_t event;                                 // made behind the fault: it has no error of its own
    if (!cudaEventCreate(&event) && !cudaEventRecord(event)) {
        cudaError_t got;
        do
            got = cudaEventQuery(event);
        while (got == cudaErrorNotReady);
        HOLDS(got == expected);
    }
    GIVES(expected, cudaDeviceSynchronize());
    GIVES(expected, cudaGetLastError());
    GIVES(cudaSuccess, cudaGetLastError());            // the thread's last error is cleared, the process's is not
    GIVES(expected, cudaMalloc((void **)&e, 64));
    plain<<<1, 1>>>(d);
    GIVES(expected, cudaGetLastError());
    MUST(cudaDeviceReset());
    GIVES(cudaErrorDevicesUnavailable, cudaMalloc((void **)&e, 64)); // there is no new context
    return check_failures != 0;
}

int main()
{
    static const struct { cudaError_t expected; const char *name; } cases[] = {
        {cudaErrorIllegalAddress, "illegal address"}, {cudaErrorMisalignedAddress, "misaligned address"},
        {cudaErrorLaunchFailure, "trap"}, {cudaErrorLaunchFailure, "__trap"},
    };
    for (int i = 0; i < 4; i++) {
        fflush(stdout);
        pid_t child = fork();                          // CUDA has not been used in this process yet
        if (child == 0)
            _exit(fault(cases[i].expected, i));
        int status = -1;
        waitpid(child, &status, 0);
        if (status != 0)
            fprintf(stderr, "%s: child ended with status %#x\n", cases[i].name, status);
        HOLDS(status == 0);
    }
    int *d, h = 0;                                     // and none of them has reached another process
    MUST(cudaMalloc(&d, sizeof h));
    plain<<<1, 1>>>(d);
    MUST(cudaMemcpy(&h, d, sizeof h, cudaMemcpyDeviceToHost));
    HOLDS(h == 42);
    return check_result("sticky");
}
