// shows: forward progress: spin lock in a warp, ring of flags, shuffles in both arms, __syncwarp from different lines,
//   early exits,
// shows: forward progress: cells of a graph, each of a lane, that wait for others of the same warp and of other blocks
// shows: forward progress: ticket lock over 1,000 blocks, hand-made grid barrier, decoupled look-back
#include "check.h"

__device__ int lock_word, locked_sum;
__global__ void spin_lock()
{
    while (atomicCAS(&lock_word, 0, 1) != 0)
        ;
    __threadfence();
    locked_sum = locked_sum * 1 + 1;
    __threadfence();
    atomicExch(&lock_word, 0);
}

__global__ void ring(volatile int *flags, int *out)
{
    int i = threadIdx.x, n = blockDim.x;
    if (i == 0)
        flags[1 % n] = 1;                   // passes the token on; each lane waits for its own
    while (flags[i] == 0)
        ;
    if (i != 0)
        flags[(i + 1) % n] = 1;
    out[i] = i + 100;
}

__global__ void two_arms(int *out)
{
    int lane = threadIdx.x, v;
    if (lane % 3 == 0)
        v = __shfl_sync(~0u, lane, 30);
    else
        v = __shfl_sync(~0u, lane, 31);     // the same shuffle for the whole warp, from two lines
    out[lane] = v;
}

__global__ void two_syncwarps(int *out)
{
    __shared__ int box[32];
    int lane = threadIdx.x;
    if (lane < 16) {
        box[lane] = lane * 7;
        __syncwarp();
        out[lane] = box[31 - lane];
    } else {
        box[lane] = lane * 11;
        __syncwarp();
        out[lane] = box[31 - lane];
    }
}

__global__ void early_exit(int *out)
{
    __shared__ int sum;
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    if (threadIdx.x % 5 == 4)
        return;
    atomicAdd(&sum, 1);
    __syncthreads();
    out[threadIdx.x] = sum;
}

__device__ unsigned next_ticket, serving;
__device__ unsigned long long ticket_sum;
__global__ void ticket_lock()
{
    if (threadIdx.x == 0) {
        unsigned mine = atomicAdd(&next_ticket, 1);
        while (atomicAdd(&serving, 0) != mine)
            ;
        __threadfence();
        ticket_sum += blockIdx.x;
        __threadfence();
        atomicAdd(&serving, 1);
    }
}

__device__ unsigned arrived;
__global__ void grid_barrier(int *data, int *out)
{
    int n = gridDim.x;
    data[blockIdx.x] = blockIdx.x + 1;
    __threadfence();
    if (threadIdx.x == 0) {
        atomicAdd(&arrived, 1);
        while (atomicAdd(&arrived, 0) < (unsigned)n)
            ;
    }
    __syncthreads();
    int sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        sum += ((volatile int *)data)[i];
    atomicAdd(&out[blockIdx.x], sum);
}

// state of a block: 0 nothing, 1 own sum known, 2 prefix known; in the upper half of a 64-bit word
__global__ void look_back(const int *in, int *out, volatile unsigned long long *state)
{
    __shared__ int prefix;
    int value = in[blockIdx.x * blockDim.x + threadIdx.x];
    typedef unsigned long long word;
    int sum = value;
    for (int d = 1; d < 32; d *= 2) {
        int other = __shfl_up_sync(~0u, sum, d);
        if ((int)threadIdx.x >= d)
            sum += other;
    }
    if (threadIdx.x == 31) {
        state[blockIdx.x] = (word)(blockIdx.x == 0 ? 2 : 1) << 32 | (unsigned)sum;
        int before = 0;
        for (int b = (int)blockIdx.x - 1; b >= 0;) {
            word seen = state[b];
            if (seen >> 32 == 0)
                continue;
            before += (int)(unsigned)seen;
            if (seen >> 32 == 2)
                break;
            b--;
        }
        prefix = before;
        if (blockIdx.x != 0)
            state[blockIdx.x] = (word)2 << 32 | (unsigned)(before + sum);
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = prefix + sum;
}

// The lanes of a warp wait for one another in a loop in which they part and meet all the time; none may be forgotten.
enum { CELLS = 20000, CHILDREN = 8, GRAPHS = 4 };

__global__ void wait_in_graph(volatile unsigned *value, const int *child)
{
    int missing = 0, cached[CHILDREN];
    for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < CELLS;) {
        int i;
        if (missing == 0) {
            missing = CHILDREN;
            for (i = 0; i < CHILDREN; i++) {
                cached[i] = child[k * CHILDREN + i];
                if (cached[i] < 0 || value[cached[i]] != 0)
                    missing--;
            }
        } else {
            missing = CHILDREN;
            for (i = 0; i < CHILDREN; i++)
                if (cached[i] < 0 || value[cached[i]] != 0)
                    missing--;
        }
        if (missing == 0) {
            unsigned sum = k;
            for (i = 0; i < CHILDREN; i++)
                if (cached[i] >= 0)
                    sum = sum * 3 + value[cached[i]];
            value[k] = sum | 1;
            k += gridDim.x * blockDim.x;
        }
    }
}

static void graphs()
{
    static int child[CELLS * CHILDREN];
    static unsigned expected[CELLS], got[CELLS];
    int *child_d;
    unsigned *value, random = 1;
    MUST(cudaMalloc((void **)&child_d, sizeof child));
    MUST(cudaMalloc((void **)&value, sizeof got));
    for (int graph = 0; graph < GRAPHS; graph++) {
        for (int k = 0; k < CELLS; k++) {
            unsigned sum = k;
            for (int i = 0; i < CHILDREN; i++) {
                random = random * 1664525 + 1013904223;
                int near = 1 + (random >> 16) % (graph % 2 ? 400 : 4000), ch = random & 0x300 ? -1 : k - near;
                child[k * CHILDREN + i] = ch = ch < 0 ? -1 : ch;
                if (ch >= 0)
                    sum = sum * 3 + expected[ch];
            }
            expected[k] = sum | 1;
        }
        MUST(cudaMemcpy(child_d, child, sizeof child, cudaMemcpyHostToDevice));
        MUST(cudaMemset(value, 0, sizeof got));
        wait_in_graph<<<8, 256>>>(value, child_d);
        MUST(cudaMemcpy(got, value, sizeof got, cudaMemcpyDeviceToHost));
        HOLDS(memcmp(got, expected, sizeof got) == 0);
    }
    MUST(cudaFree(child_d));
    MUST(cudaFree(value));
}

int main()
{
    int *d, *e, h[1024];
    MUST(cudaMalloc((void **)&d, 1 << 20));
    MUST(cudaMalloc((void **)&e, 1 << 20));

    spin_lock<<<4, 64>>>();
    MUST(cudaMemcpyFromSymbol(h, locked_sum, sizeof(int)));
    HOLDS(h[0] == 256);

    graphs();

    MUST(cudaMemset(d, 0, 4096));
    ring<<<1, 32>>>(d, e);
    MUST(cudaMemcpy(h, e, 32 * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++)
        HOLDS(h[i] == i + 100);
    MUST(cudaMemset(d, 0, 4096));
    ring<<<1, 2>>>(d, e);
    MUST(cudaDeviceSynchronize());

    two_arms<<<1, 32>>>(d);
    MUST(cudaMemcpy(h, d, 32 * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++)
        HOLDS(h[i] == (i % 3 == 0 ? 30 : 31));
    two_syncwarps<<<1, 32>>>(d);
    MUST(cudaMemcpy(h, d, 32 * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++)
        HOLDS(h[i] == (i < 16 ? (31 - i) * 11 : (31 - i) * 7));

    MUST(cudaMemset(d, 0, 4096));
    early_exit<<<1, 256>>>(d);
    MUST(cudaMemcpy(h, d, 256 * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 256; i++)
        HOLDS(h[i] == (i % 5 == 4 ? 0 : 205));

    ticket_lock<<<1000, 32>>>();
    unsigned long long tickets = 0;
    MUST(cudaMemcpyFromSymbol(&tickets, ticket_sum, sizeof tickets));
    HOLDS(tickets == 999ull * 1000 / 2);

    struct cudaDeviceProp properties;
    MUST(cudaGetDeviceProperties(&properties, 0));
    int blocks = properties.multiProcessorCount;        // as many as are resident at once on any device
    MUST(cudaMemset(e, 0, 4096));
    grid_barrier<<<blocks, 64>>>(d, e);
    MUST(cudaMemcpy(h, e, blocks * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < blocks; i++)
        HOLDS(h[i] == blocks * (blocks + 1) / 2);

    const int n = 500 * 32;
    static int in[n], out[n];
    for (int i = 0; i < n; i++)
        in[i] = i % 7 - 2;
    unsigned long long *state;
    MUST(cudaMalloc((void **)&state, 500 * sizeof *state));
    MUST(cudaMemset(state, 0, 500 * sizeof *state));
    MUST(cudaMemcpy(d, in, sizeof in, cudaMemcpyHostToDevice));
    look_back<<<500, 32>>>(d, e, state);
    MUST(cudaMemcpy(out, e, sizeof out, cudaMemcpyDeviceToHost));
    int sum = 0, wrong = 0;
    for (int i = 0; i < n; i++)
        wrong += out[i] != (sum += in[i]);
    HOLDS(wrong == 0);
    return check_result("progress");
}
