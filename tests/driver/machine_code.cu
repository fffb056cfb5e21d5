// machine_code.cu: a kernel, and the function NAME that launches it. It is built as machine code only, which the
// software GPU cannot run.
#include <cuda_runtime.h>
#include <stdio.h>

#define TEXT(name) #name
#define SIZE(name) sizeof TEXT(name) // another image for each name
__global__ static void kernel(int *p) { *p = SIZE(NAME); }

extern "C" int NAME(void)
{
    kernel<<<1, 1>>>(NULL);
    return cudaGetLastError();
}

#ifdef PROGRAM
extern "C" int second(void);
int main()
{
    const int codes[] = { NAME(), second(), NAME() };
    printf("%d %d %d\n", codes[0], codes[1], codes[2]);
}
#endif
