// shows: threads: many host threads on streams of their own and on the default one, all results right
// shows: memory: threads allocate and free in a loop, each allocation is its own
#include "check.h"
#include <pthread.h>

__global__ void scale(int *p, int n, int by)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        p[i] = p[i] * by + (int)threadIdx.x * 0;
}

static void *work(void *argument)
{
    int who = (int)(size_t)argument;
    cudaStream_t stream = 0;
    if (who % 2)
        MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int round = 0; round < 25; round++) {
        int n = 100 + (who * 37 + round * 101) % 5000, *d, wrong = 0;
        int *h = (int *)malloc(n * sizeof(int));
        MUST(cudaMalloc((void **)&d, n * sizeof(int)));
        for (int i = 0; i < n; i++)
            h[i] = i + who;
        MUST(cudaMemcpyAsync(d, h, n * sizeof(int), cudaMemcpyHostToDevice, stream));
        scale<<<1, 64, 0, stream>>>(d, n, 3);
        scale<<<1, 64, 0, stream>>>(d, n, who + 1);
        MUST(cudaMemcpyAsync(h, d, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
        MUST(cudaStreamSynchronize(stream));
        for (int i = 0; i < n; i++)
            wrong += h[i] != (i + who) * 3 * (who + 1);
        if (wrong) {
            fprintf(stderr, "thread %d, round %d: %d of %d wrong\n", who, round, wrong, n);
            __atomic_fetch_add(&check_failures, 1, __ATOMIC_RELAXED);
        }
        MUST(cudaFree(d));
        free(h);
    }
    if (stream)
        MUST(cudaStreamDestroy(stream));
    return NULL;
}

int main()
{
    pthread_t threads[8];
    for (size_t i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    MUST(cudaDeviceSynchronize());
    return check_result("threads");
}
