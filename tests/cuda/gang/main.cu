// A program with several GPUs that tests/control/gangs.py and spread.py tell on stdin what to do. It answers each line
// with one that begins with the same word; errors are CUDA's numbers.
//
//   look            devices, and then whether all are distinct: 1 or 0, SMs and MiB of each
//   take D MIB      cudaMalloc on device D: its error
//   free D          all that was taken on device D: an error
//   keep            fills some memory of each device, and has a stream and an event there: an error
//   check           what it has kept, after one more kernel on each: words that are wrong, an error
//   left D          MiB that cudaMemGetInfo says are free on device D, and its total
//   ring            peer copies and peer access between all pairs: pairs that were tried, words that are wrong
//   around          peer copies between all pairs: pairs, words that are wrong, the most bytes that one of 16 MiB has
//                   cost the program's own connections, pairs with peer access
//   alive           the error of a memset and a synchronisation on each device
//   end
#include "../check.h"

#include <dlfcn.h>

#include <cstdint>
#include <vector>

enum { MOST = 16, WORDS = 1 << 18 };
static const size_t mib = 1 << 20;
static int devices;
static std::vector<void *> taken[MOST];

__global__ void fill(unsigned *p, unsigned salt)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    p[i] = i * 2654435761u + salt;
}

// Reads the memory of another device.
__global__ void add_peer(unsigned *to, const unsigned *peer)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] += peer[i];
}

static void look()
{
    cudaDeviceProp all[MOST];
    bool distinct = true;
    for (int d = 0; d < devices; d++)
        MUST(cudaGetDeviceProperties(&all[d], d));
    for (int a = 0; a < devices; a++)
        for (int b = 0; b < a; b++)
            if (memcmp(&all[a].uuid, &all[b].uuid, sizeof all[a].uuid) == 0 ||
                (all[a].pciBusID == all[b].pciBusID && all[a].pciDomainID == all[b].pciDomainID))
                distinct = false;
    printf("look %d %d", devices, distinct);
    for (int d = 0; d < devices; d++)
        printf(" %d %zu", all[d].multiProcessorCount, all[d].totalGlobalMem / mib);
    printf("\n");
}

static void take(int device, size_t size)
{
    void *p = NULL;
    MUST(cudaSetDevice(device));
    cudaError_t error = cudaMalloc(&p, size * mib);
    if (error == cudaSuccess)
        taken[device].push_back(p);
    cudaGetLastError();
    printf("take %d\n", (int)error);
}

static void release(int device)
{
    cudaError_t error = cudaSetDevice(device);
    for (void *p : taken[device])
        error = error ? error : cudaFree(p);
    taken[device].clear();
    printf("free %d\n", (int)error);
}

static unsigned *kept[MOST], rounds;
static cudaStream_t streams[MOST];
static cudaEvent_t events[MOST];

__global__ void raise(unsigned *p) { p[blockIdx.x * blockDim.x + threadIdx.x]++; }

static void keep()
{
    cudaError_t error = cudaSuccess;
    for (int d = 0; d < devices && !error; d++) {
        MUST(cudaSetDevice(d));
        error = cudaMalloc(&kept[d], WORDS * sizeof *kept[d]);
        error = error ? error : cudaStreamCreate(&streams[d]);
        error = error ? error : cudaEventCreate(&events[d]);
        if (!error)
            fill<<<WORDS / 256, 256, 0, streams[d]>>>(kept[d], 1000u * (unsigned)d);
        error = error ? error : cudaStreamSynchronize(streams[d]);
    }
    rounds = 0;
    printf("keep %d\n", (int)error);
}

static void check()
{
    static unsigned words[WORDS];
    cudaError_t error = cudaSuccess;
    long wrong = 0;
    rounds++;
    for (int d = 0; d < devices && !error; d++) {
        error = cudaSetDevice(d);
        raise<<<WORDS / 256, 256, 0, streams[d]>>>(kept[d]);
        error = error ? error : cudaEventRecord(events[d], streams[d]);
        error = error ? error : cudaEventSynchronize(events[d]);
        error = error ? error : cudaMemcpy(words, kept[d], sizeof words, cudaMemcpyDeviceToHost);
        for (unsigned i = 0; i < WORDS && !error; i++)
            wrong += words[i] != i * 2654435761u + 1000u * (unsigned)d + rounds;
    }
    printf("check %ld %d\n", wrong, (int)error);
}

static void left(int device)
{
    size_t free_bytes, total;
    MUST(cudaSetDevice(device));
    MUST(cudaMemGetInfo(&free_bytes, &total));
    printf("left %zu %zu\n", free_bytes / mib, total / mib);
}

static unsigned *filled(int device)
{
    unsigned *p;
    MUST(cudaSetDevice(device));
    MUST(cudaMalloc(&p, WORDS * sizeof *p));
    fill<<<WORDS / 256, 256>>>(p, (unsigned)device);
    MUST(cudaDeviceSynchronize());
    return p;
}

static long count_wrong(const unsigned *p, unsigned times, unsigned salts)
{
    static unsigned words[WORDS];
    long wrong = 0;
    MUST(cudaMemcpy(words, p, sizeof words, cudaMemcpyDefault));
    for (unsigned i = 0; i < WORDS; i++)
        wrong += words[i] != times * (i * 2654435761u) + salts;
    return wrong;
}

static void ring()
{
    unsigned *here[MOST];
    long wrong = 0;
    int pairs = 0;
    for (int d = 0; d < devices; d++)
        here[d] = filled(d);
    for (int from = 0; from < devices; from++)
        for (int to = 0; to < devices; to++) {
            int can = 0;
            unsigned *copy;
            if (from == to)
                continue;
            pairs++;
            MUST(cudaSetDevice(to));
            MUST(cudaMalloc(&copy, WORDS * sizeof *copy));
            MUST(cudaMemcpyPeer(copy, to, here[from], from, WORDS * sizeof *copy));
            wrong += count_wrong(copy, 1, (unsigned)from);
            MUST(cudaDeviceCanAccessPeer(&can, to, from));
            if (can) {
                MUST(cudaDeviceEnablePeerAccess(from, 0));
                add_peer<<<WORDS / 256, 256>>>(copy, here[from]);
                MUST(cudaDeviceSynchronize());
                wrong += count_wrong(copy, 2, 2 * (unsigned)from);
                MUST(cudaDeviceDisablePeerAccess(from));
            } else {
                wrong += WORDS;
            }
            MUST(cudaFree(copy));
        }
    for (int d = 0; d < devices; d++)
        MUST(cudaFree(here[d]));
    printf("ring %d %ld\n", pairs, wrong);
}

// As core_statistics of cpu/client/core/api_session.h.
struct statistics {
    uint64_t travelled, waited, local, bytes_sent, bytes_received;
    unsigned lanes;
};

static uint64_t carried()
{
    static void *core = dlopen("libflyt-client.so", RTLD_LAZY | RTLD_NOLOAD);
    static void (*ask)(statistics *) = core ? (void (*)(statistics *))dlsym(core, "flyt_core_statistics") : nullptr;
    statistics now = {};
    if (ask)
        ask(&now);
    return now.bytes_sent + now.bytes_received;
}

static void around()
{
    const size_t size = 16 * mib;
    unsigned char *here[MOST];
    std::vector<unsigned char> back(size);
    uint64_t most = 0;
    long wrong = 0;
    int pairs = 0, access = 0;
    for (int d = 0; d < devices; d++) {
        MUST(cudaSetDevice(d));
        MUST(cudaMalloc(&here[d], size));
    }
    for (int from = 0; from < devices; from++)
        for (int to = 0; to < devices; to++) {
            int can;
            if (from == to)
                continue;
            MUST(cudaDeviceCanAccessPeer(&can, to, from));
            access += can;
            MUST(cudaSetDevice(from));
            MUST(cudaMemset(here[from], 16 * from + to, size));
            MUST(cudaMemcpyPeer(here[to], to, here[from], from, 4));      // what the first copy makes
            const uint64_t before = carried();
            MUST(cudaMemcpyPeer(here[to], to, here[from], from, size));
            const uint64_t cost = carried() - before;
            most = cost > most ? cost : most;
            MUST(cudaMemcpy(back.data(), here[to], size, cudaMemcpyDefault));
            for (unsigned char byte : back)
                wrong += byte != (unsigned char)(16 * from + to);
            pairs++;
        }
    for (int d = 0; d < devices; d++)
        MUST(cudaFree(here[d]));
    printf("around %d %ld %llu %d\n", pairs, wrong, (unsigned long long)most, access);
}

static void alive()
{
    printf("alive");
    for (int d = 0; d < devices; d++) {
        cudaError_t error = cudaSetDevice(d);
        error = error ? error : cudaMemset(kept[d], 1, WORDS);
        error = error ? error : cudaDeviceSynchronize();
        cudaGetLastError();
        printf(" %d", (int)error);
    }
    printf("\n");
}

int main()
{
    char line[128], word[32];
    int device, n;
    size_t size;
    cudaError_t error = cudaGetDeviceCount(&devices);
    printf("ready %d\n", (int)error);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        device = 0;
        size = 0;
        n = sscanf(line, "%31s %d %zu", word, &device, &size);
        if (n < 1 || device < 0 || device >= devices || devices > MOST)
            return 2;
        if (!strcmp(word, "look"))
            look();
        else if (!strcmp(word, "take"))
            take(device, size);
        else if (!strcmp(word, "free"))
            release(device);
        else if (!strcmp(word, "left"))
            left(device);
        else if (!strcmp(word, "keep"))
            keep();
        else if (!strcmp(word, "check"))
            check();
        else if (!strcmp(word, "ring"))
            ring();
        else if (!strcmp(word, "around"))
            around();
        else if (!strcmp(word, "alive"))
            alive();
        else
            return strcmp(word, "end") != 0;
        fflush(stdout);
    }
    return 0;
}
