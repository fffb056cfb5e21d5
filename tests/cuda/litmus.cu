// shows: memory model: MP, SB, LB and IRIW over blocks, with fences and release/acquire forbidden outcomes never appear
#include "check.h"
#include <cuda/atomic>

using word = cuda::atomic<int, cuda::thread_scope_device>;
struct cell { word x, y; int pad[30]; };

__device__ void meet(word *gate, int parties)      // so that both really run at once
{
    gate->fetch_add(1, cuda::memory_order_acq_rel);
    while (gate->load(cuda::memory_order_acquire) < parties)
        ;
}

__global__ void litmus(int test, cell *cells, word *gates, int *seen, int rounds)
{
    int who = blockIdx.x, lane = threadIdx.x;
    for (int r = 0; r < rounds; r++) {
        if (lane == 0)
            meet(&gates[r], gridDim.x);
        __syncwarp();
        cell &c = cells[r * 32 + lane];
        int *out = seen + (r * 32 + lane) * 4;
        switch (test) {
        case 0:                                      // MP: data, then flag
            if (who == 0) {
                c.x.store(1, cuda::memory_order_relaxed);
                c.y.store(1, cuda::memory_order_release);
            } else {
                out[0] = c.y.load(cuda::memory_order_acquire);
                out[1] = c.x.load(cuda::memory_order_relaxed);
            }
            break;
        case 1:                                      // SB with sequentially consistent fences
            if (who == 0) {
                c.x.store(1, cuda::memory_order_relaxed);
                cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_device);
                out[0] = c.y.load(cuda::memory_order_relaxed);
            } else {
                c.y.store(1, cuda::memory_order_relaxed);
                cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_device);
                out[1] = c.x.load(cuda::memory_order_relaxed);
            }
            break;
        case 2:                                      // LB with release/acquire
            if (who == 0) {
                out[0] = c.x.load(cuda::memory_order_acquire);
                c.y.store(1, cuda::memory_order_release);
            } else {
                out[1] = c.y.load(cuda::memory_order_acquire);
                c.x.store(1, cuda::memory_order_release);
            }
            break;
        case 3:                                      // IRIW, sequentially consistent
            if (who == 0)
                c.x.store(1, cuda::memory_order_seq_cst);
            else if (who == 1)
                c.y.store(1, cuda::memory_order_seq_cst);
            else if (who == 2) {
                out[0] = c.x.load(cuda::memory_order_seq_cst);
                out[1] = c.y.load(cuda::memory_order_seq_cst);
            } else {
                out[2] = c.y.load(cuda::memory_order_seq_cst);
                out[3] = c.x.load(cuda::memory_order_seq_cst);
            }
            break;
        }
    }
}

int main()
{
    const int rounds = 300, n = rounds * 32;
    cell *cells;
    word *gates;
    int *seen;
    static int h[n * 4];
    MUST(cudaMalloc((void **)&cells, n * sizeof(cell)));
    MUST(cudaMalloc((void **)&gates, rounds * sizeof(word)));
    MUST(cudaMalloc((void **)&seen, sizeof h));
    for (int test = 0; test < 4; test++) {
        MUST(cudaMemset(cells, 0, n * sizeof(cell)));
        MUST(cudaMemset(gates, 0, rounds * sizeof(word)));
        MUST(cudaMemset(seen, 0xff, sizeof h));
        litmus<<<test == 3 ? 4 : 2, 32>>>(test, cells, gates, seen, rounds);
        MUST(cudaMemcpy(h, seen, sizeof h, cudaMemcpyDeviceToHost));
        int forbidden = 0, unwritten = 0;
        for (int i = 0; i < n; i++) {
            int *o = h + i * 4;
            unwritten += o[0] == -1 || o[1] == -1;
            forbidden += test == 0 ? o[0] == 1 && o[1] == 0
                       : test == 1 ? o[0] == 0 && o[1] == 0
                       : test == 2 ? o[0] == 1 && o[1] == 1
                                   : o[0] == 1 && o[1] == 0 && o[2] == 1 && o[3] == 0;
        }
        printf("test %d: %d of %d forbidden\n", test, forbidden, n);
        HOLDS(forbidden == 0 && unwritten == 0);
    }
    return check_result("litmus");
}
