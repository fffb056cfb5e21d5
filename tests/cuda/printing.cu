// shows: printf: device text comes through the program's own stdout, in order with its own text
#include "check.h"

__global__ void speak(int who, double value, int word)
{
    if (threadIdx.x == 0)
        printf("kernel %d says %s %.3f %5d|%-5d|%x %c %%\n", who, word == 1 ? "one" : "two", value, who * 10, who, 255,
               'z');
}
__device__ const char greeting[] = "hello";
__global__ void many() { printf("line %d of block %d\n", threadIdx.x, blockIdx.x); }
__global__ void greet() { printf("%s, %llu %lld\n", greeting, 18446744073709551615ull, -5ll); }

int main()
{
    printf("program before\n");
    speak<<<1, 32>>>(1, 2.5, 1);
    speak<<<1, 32>>>(2, -0.125, 2);
    MUST(cudaDeviceSynchronize());
    printf("program between\n");
    greet<<<1, 1>>>();
    cudaStream_t stream;
    MUST(cudaStreamCreate(&stream));
    MUST(cudaDeviceSynchronize());
    many<<<3, 4, 0, stream>>>();
    MUST(cudaStreamSynchronize(stream));
    printf("program after\n");
    return check_result("printing");
}
