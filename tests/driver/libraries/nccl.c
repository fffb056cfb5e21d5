/* nccl.c: one rank, and two ranks on two devices of one process: the results of collectives against sums made here. */
#include "library.h"

#include <nccl.h>

enum { COUNT = 5000, MOST = 2 };

static cudaStream_t streams[MOST];
static ncclComm_t ranks[MOST];
static float *sent[MOST], *received[MOST], here[MOST * COUNT];

static float value(int rank, int i) { return (float)(i % 97) * (float)(rank + 1); }

/* The worst error over the ranks, of COUNT numbers each at `offset` of what a rank received. */
static double worst(int count, float (*wanted)(int rank, int i), int numbers)
{
    double worst_of_all = 0;
    for (int r = 0; r < count; r++) {
        GOOD(cudaSetDevice(r));
        GOOD(cudaStreamSynchronize(streams[r]));
        from_device(here, received[r], (size_t)numbers * sizeof *here);
        for (int i = 0; i < numbers; i++)
            worst_of_all = worse(worst_of_all, fabs(here[i] - wanted(r, i)));
    }
    return worst_of_all;
}

static int ranks_now;

static float total(int i)
{
    float sum = 0;
    for (int r = 0; r < ranks_now; r++)
        sum += value(r, i);
    return sum;
}

static float all_reduced(int rank, int i) { return (void)rank, total(i); }
static float gathered(int rank, int i) { return (void)rank, value(i / COUNT, i % COUNT); }
static float broadcast(int rank, int i) { return (void)rank, value(ranks_now - 1, i); }
static float scattered(int rank, int i) { return total(rank * (COUNT / ranks_now) + i); }
static float neighbours(int rank, int i) { return value((rank + 1) % ranks_now, i); }

static void collectives(int count)
{
    ranks_now = count;
    GOOD(ncclCommInitAll(ranks, count, NULL));
    if (failures)
        return;
    for (int r = 0; r < count; r++) {
        float numbers[COUNT];
        for (int i = 0; i < COUNT; i++)
            numbers[i] = value(r, i);
        GOOD(cudaSetDevice(r));
        GOOD(cudaStreamCreate(&streams[r]));
        sent[r] = to_device(numbers, sizeof numbers);
        received[r] = to_device(NULL, sizeof here);
    }
#define EACH(call)                        \
    do {                                  \
        GOOD(ncclGroupStart());           \
        for (int r = 0; r < count; r++)   \
            GOOD(call);                   \
        GOOD(ncclGroupEnd());             \
    } while (0)
    EACH(ncclAllReduce(sent[r], received[r], COUNT, ncclFloat, ncclSum, ranks[r], streams[r]));
    near("all-reduce", worst(count, all_reduced, COUNT), 0, 0);
    EACH(ncclAllGather(sent[r], received[r], COUNT, ncclFloat, ranks[r], streams[r]));
    near("all-gather", worst(count, gathered, COUNT * count), 0, 0);
    EACH(ncclBroadcast(sent[r], received[r], COUNT, ncclFloat, count - 1, ranks[r], streams[r]));
    near("broadcast", worst(count, broadcast, COUNT), 0, 0);
    EACH(ncclReduceScatter(sent[r], received[r], COUNT / (size_t)count, ncclFloat, ncclSum, ranks[r], streams[r]));
    near("reduce-scatter", worst(count, scattered, COUNT / count), 0, 0);
    GOOD(ncclGroupStart());
    for (int r = 0; r < count; r++) {
        GOOD(ncclSend(sent[r], COUNT, ncclFloat, (r + count - 1) % count, ranks[r], streams[r]));
        GOOD(ncclRecv(received[r], COUNT, ncclFloat, (r + 1) % count, ranks[r], streams[r]));
    }
    GOOD(ncclGroupEnd());
    near("send and receive", worst(count, neighbours, COUNT), 0, 0);
    for (int r = 0; r < count; r++) {
        GOOD(ncclCommDestroy(ranks[r]));
        GOOD(cudaSetDevice(r));
        GOOD(cudaFree(sent[r]));
        GOOD(cudaFree(received[r]));
        GOOD(cudaStreamDestroy(streams[r]));
    }
}

int main(void)
{
    int devices = 0;
    GOOD(cudaGetDeviceCount(&devices));
    near("devices", devices, MOST, 0);
    collectives(1);
    if (!failures)
        collectives(MOST);
    return result("nccl");
}
