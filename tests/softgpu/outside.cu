// outside.cu: writes behind an allocation, or into one that is freed, as its argument says: mistakes that no GPU
// notices by itself. For memcheck.sh. `pool…`: the same with memory of a pool; `graph…`: of an allocation node.
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

__global__ void fill(int *p, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] = i;                     // line 11
}

static enum { HEAP, POOL, GRAPH } from;
static cudaStream_t stream;

// An executable of what the stream was given since its capture began.
static cudaError_t captured(cudaGraphExec_t *out)
{
    cudaGraph_t graph;
    cudaError_t error = cudaStreamEndCapture(stream, &graph);
    return error ? error : cudaGraphInstantiateWithFlags(out, graph, 0);
}

static cudaError_t allocate_in_graph(int **p, size_t size)
{
    cudaGraphExec_t executable;
    cudaError_t error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
    if (!error)
        error = cudaMallocAsync((void **)p, size, stream);
    if (!error)
        error = captured(&executable);
    return error ? error : cudaGraphLaunch(executable, stream);
}

static cudaError_t allocate(int **p)
{
    size_t size = 100 * sizeof **p;
    return from == GRAPH  ? allocate_in_graph(p, size)
           : from == POOL ? cudaMallocAsync((void **)p, size, stream)
                          : cudaMalloc(p, size);
}

static cudaError_t give_back(int *p) { return from == HEAP ? cudaFree(p) : cudaFreeAsync(p, stream); }

// Memory that is freed and given out again while kernels still write to it, in the stream's order.
static bool again()
{
    int *first = NULL, *p;
    bool same = false;
    for (int i = 0; i < 50; i++) {
        if (allocate(&p))
            return false;
        same = same || p == first;
        first = p;
        fill<<<4, 32, 0, stream>>>(p, 100);
        if (give_back(p))
            return false;
    }
    return same;
}

// The same inside of a graph. count: what the last kernel fills, before or after the free: elements of an allocation of
// 100.
static bool graph_again(int launches, int count, bool freed)
{
    int *first, *p, *same;
    cudaGraphExec_t executable;
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) ||
        cudaMallocAsync((void **)&first, 400, stream) || cudaFreeAsync(first, stream) ||
        cudaMallocAsync((void **)&p, 400, stream))
        return false;
    fill<<<4, 32, 0, stream>>>(p, 100);
    if (cudaFreeAsync(p, stream) || (!freed && cudaMallocAsync((void **)&same, 400, stream)))
        return false;
    fill<<<4, 32, 0, stream>>>(p, count);
    if ((!freed && cudaFreeAsync(same, stream)) || captured(&executable))
        return false;
    for (int i = 0; i < launches; i++)
        if (cudaGraphLaunch(executable, stream))
            return false;
    return p == first && (freed || same == p);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "nothing", *mistake = what;
    int *p, *q, zero = 0;
    if (!strncmp(what, "pool-", 5) || !strncmp(what, "graph-", 6)) {
        from = what[0] == 'p' ? POOL : GRAPH;
        mistake = strchr(what, '-') + 1;
        if (cudaStreamCreate(&stream) || (from == POOL ? !again() : !graph_again(3, 100, false)))
            return 1;
    }
    if (!strcmp(mistake, "beyond-inside") || !strcmp(mistake, "freed-inside")) {
        bool freed = mistake[0] == 'f';
        if (!graph_again(1, freed ? 100 : 101, freed))
            return 1;
        printf("%s: error %d\n", what, (int)cudaDeviceSynchronize());
        return 0;
    }
    if (allocate(&p) || allocate(&q) || cudaStreamSynchronize(stream) ||
        cudaMemcpy(q, &zero, sizeof zero, cudaMemcpyHostToDevice) || (!strcmp(mistake, "freed") && give_back(p)) ||
        (!strcmp(mistake, "freed-at-once") && cudaFree(p)))
        return 1;
    fill<<<4, 32, 0, stream>>>(p, !strcmp(mistake, "beyond") ? 101 : 100);
    printf("%s: error %d\n", what, (int)cudaDeviceSynchronize());
    return 0;
}
