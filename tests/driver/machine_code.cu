// machine_code.cu: a kernel, and the function NAME that launches it. It is built as machine code only, which the
// software GPU cannot run.
#include <cuda_runtime.h>
#include <stdio.h>

__global__ static void kernel(int *p) { *p = 1; }

extern "C" int NAME(void)
{
    kernel<<<1, 1>>>(NULL);
    return cudaGetLastError();
}

#ifdef PROGRAM
int main()
{
    int codes[3];
    for (int i = 0; i < 3; i++)
        codes[i] = NAME();
    printf("%d %d %d\n", codes[0], codes[1], codes[2]);
}
#endif
