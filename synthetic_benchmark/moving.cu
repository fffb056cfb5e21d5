// A program that has so much on its GPU and waits, for what moves and checkpoints take (moving.py). Told on stdin what
// to do, one line of answer for each:
//   hold MIB      memory whose bytes zstd packs to about two thirds
//   handles N     so many events, streams and small allocations, a third each
//   dirty PERCENT so much of the memory gets other bytes, in one run
//   busy MIB      from now on so much other memory is written again and again; 0: not any more
//   rate SECONDS  a kernel writes rows of 64 MiB for so long: GB a second
//   grow MIB      tries to get so much memory until it does: the time (CLOCK_MONOTONIC, seconds)
//   check         1: all memory is as it should be
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>
#include <cuda_runtime.h>

static const size_t MIB = 1 << 20, PIECE = 16 * MIB;
static std::vector<char *> held;
static std::vector<uint32_t> seeds;             // of each MiB
static std::vector<uint32_t> bytes(MIB / 4);
static cudaError_t failed;

static void must(cudaError_t code)
{
    if (code && !failed)
        failed = code;
}

// Numbers such as 0x3f00ab12: two bytes of four are random.
static void fill(uint32_t seed)
{
    uint64_t state = seed * 2 + 1;
    for (uint32_t &word : bytes) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        word = 0x3f000000u | (uint32_t)(state >> 48);
    }
}

static char *at(size_t mib) { return held[mib * MIB / PIECE] + mib * MIB % PIECE; }

static void put(size_t mib, uint32_t seed)
{
    seeds[mib] = seed;
    fill(seed);
    must(cudaMemcpy(at(mib), bytes.data(), MIB, cudaMemcpyHostToDevice));
}

static void hold(size_t mib)
{
    for (size_t i = seeds.size(); i < mib && !failed; i++) {
        char *piece;
        if (i * MIB % PIECE == 0) {
            must(cudaMalloc(&piece, PIECE));
            held.push_back(piece);
        }
        seeds.push_back(0);
        put(i, (uint32_t)i);
    }
}

static int check()
{
    std::vector<uint32_t> back(MIB / 4);
    for (size_t i = 0; i < seeds.size() && !failed; i++) {
        fill(seeds[i]);
        must(cudaMemcpy(back.data(), at(i), MIB, cudaMemcpyDeviceToHost));
        if (memcmp(back.data(), bytes.data(), MIB) != 0)
            return 0;
    }
    return !failed;
}

static void handles(long count)
{
    for (long i = 0; i < count; i++) {
        cudaEvent_t event;
        cudaStream_t stream;
        void *memory;
        must(i % 3 == 0 ? cudaEventCreate(&event) : i % 3 == 1 ? cudaStreamCreate(&stream) : cudaMalloc(&memory, 512));
    }
}

static double now_s()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static std::thread writer;
static std::atomic<bool> writes;

static void busy(size_t mib)
{
    static char *memory;
    writes = false;
    if (writer.joinable())
        writer.join();
    if (!mib)
        return;
    if (!memory)
        must(cudaMalloc(&memory, mib * MIB));
    writes = true;
    writer = std::thread([mib] {
        cudaStream_t stream;
        must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        for (int value = 0; writes && !failed; value++) {
            must(cudaMemsetAsync(memory, value, mib * MIB, stream));
            must(cudaStreamSynchronize(stream));
        }
        must(cudaStreamDestroy(stream));
    });
}

__global__ static void rows(uint32_t *to, size_t count, uint32_t value)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        to[i] = value + (uint32_t)i;
}

static double rate(double seconds)
{
    static uint32_t *memory;
    const size_t bytes_of_all = 64 * MIB;
    if (!memory)
        must(cudaMalloc(&memory, bytes_of_all));
    const double begun = now_s();
    double done = 0;
    for (uint32_t value = 0; now_s() - begun < seconds && !failed; value++) {
        rows<<<8, 256>>>(memory, bytes_of_all / 4, value);
        must(cudaDeviceSynchronize());
        done += (double)bytes_of_all;
    }
    return done / (now_s() - begun) / 1e9;
}

static double grow(size_t mib)
{
    void *memory;
    while (cudaMalloc(&memory, mib * MIB) == cudaErrorMemoryAllocation)
        cudaGetLastError();
    const double then = now_s();
    must(cudaFree(memory));
    return then;
}

int main()
{
    char line[256], word[64];
    setvbuf(stdout, nullptr, _IOLBF, 0);
    must(cudaFree(nullptr));
    printf("ready %d\n", (int)failed);
    while (fgets(line, sizeof line, stdin)) {
        double value = 0, answer = 0;
        if (sscanf(line, "%63s %lf", word, &value) < 1)
            continue;
        if (!strcmp(word, "hold"))
            hold((size_t)value);
        else if (!strcmp(word, "handles"))
            handles((long)value);
        else if (!strcmp(word, "dirty"))
            for (size_t i = 0; i < (size_t)((double)seeds.size() * value / 100); i++)
                put(i, seeds[i] + 1000003);
        else if (!strcmp(word, "busy"))
            busy((size_t)value);
        else if (!strcmp(word, "rate"))
            answer = rate(value);
        else if (!strcmp(word, "grow"))
            answer = grow((size_t)value);
        else if (!strcmp(word, "check"))
            answer = check();
        printf("%s %d %.9f\n", word, (int)failed, answer);
    }
    busy(0);
    return failed != 0;
}
