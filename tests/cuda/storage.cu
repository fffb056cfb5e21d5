// shows: threads: Flyt's own threads have room for the thread-local memory of a program and its libraries, whatever it
//   is
//
// libc takes thread-local memory that is there from the start out of every thread's stack. cuBLAS has 106 KB of it;
// with so much, a thread of Flyt's whose stack had 128 KiB overflowed it at the first call.
#include "check.h"

static thread_local volatile char there[124000];

int main()
{
    void *memory;
    there[sizeof there - 1] = 1;
    MUST(cudaMalloc(&memory, 4096));
    MUST(cudaMemset(memory, there[sizeof there - 1], 4096));
    char back = 0;
    MUST(cudaMemcpy(&back, memory, 1, cudaMemcpyDeviceToHost));
    HOLDS(back == 1);
    MUST(cudaFree(memory));
    MUST(cudaFreeHost(NULL));
    return check_result("storage");
}
