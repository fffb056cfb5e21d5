// One of several programs that write random patterns into each other's memory: stripes NUMBER COUNT FOLDER SEED. Each
// makes memory and opens that of all others. Words belong to the programs in stripes; each writes into its own stripes,
// by copies, sets and kernels, and keeps a model of all memory in FOLDER/model, which the programs have in common. Told
// on stdin what to do besides, one line of answer for each. They move meanwhile: tests/control/groups_random.py.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>
#include <cuda_runtime.h>
#include "../../lib/dice.h"

enum { MOST = 8, STRIPE = 256, WORDS = 840 * STRIPE, BLOCK = 64, AT_ONCE = 16 };

// Of all programs. The memory of one is more than one piece of 2 MiB with its event.
struct model {
    uint32_t words[MOST][WORDS];
};

__global__ void fill(uint32_t *at, uint32_t count, uint32_t value)
{
    for (uint32_t i = threadIdx.x; i < count; i += BLOCK)
        at[i] = value;
}

__global__ void add(uint32_t *at, uint32_t count)
{
    for (uint32_t i = threadIdx.x; i < count; i += BLOCK)
        at[i] += i;
}

static std::atomic<bool> ending;
static std::atomic<int> error, wrong, rounds;
static std::mutex lock;                       // of pausing and paused
static std::condition_variable changed;
static bool pausing, paused;
static int number, count;
static uint64_t seed;
static model *expected;
static uint32_t *memory[MOST];
static cudaStream_t stream;
static cudaEvent_t record, heard[MOST];

static int failed(cudaError_t code)
{
    if (code && !error)
        error = code;
    return code;
}

static void compare(const uint32_t *found, const uint32_t *model, uint32_t words)
{
    if (!error && memcmp(found, model, words * sizeof *found))
        wrong = 1;
}

struct range { uint32_t *at, *model, count; };

static range draw()
{
    const uint32_t owner = dice(&seed, (uint32_t)count), stripes = WORDS / STRIPE / (uint32_t)count;
    const uint32_t stripe = (uint32_t)number + (uint32_t)count * dice(&seed, stripes), offset = dice(&seed, STRIPE);
    const uint32_t start = stripe * STRIPE + offset;
    return { memory[owner] + start, expected->words[owner] + start, 1 + dice(&seed, STRIPE - offset) };
}

static void write_once()
{
    uint32_t words[STRIPE];
    range range = draw(), from;
    const uint32_t value = dice(&seed, UINT32_MAX), what = dice(&seed, 6);
    switch (what) {
    case 0:
        for (uint32_t i = 0; i < range.count; i++)
            range.model[i] = words[i] = value * (i + 1);
        failed(cudaMemcpyAsync(range.at, words, range.count * 4, cudaMemcpyHostToDevice, stream));
        break;
    case 1:
    case 2:
        if (what == 1)
            fill<<<1, BLOCK, 0, stream>>>(range.at, range.count, value);
        else
            failed(cudaMemsetAsync(range.at, (int)(value & 0xff), range.count * 4, stream));
        for (uint32_t i = 0; i < range.count; i++)
            range.model[i] = what == 1 ? value : (value & 0xff) * 0x01010101u;
        break;
    case 3:
        add<<<1, BLOCK, 0, stream>>>(range.at, range.count);
        for (uint32_t i = 0; i < range.count; i++)
            range.model[i] += i;
        break;
    case 4:
        from = draw();
        if (from.count > range.count)
            from.count = range.count;
        if (from.at + STRIPE > range.at && range.at + STRIPE > from.at)
            break;                            // they may be the same words
        failed(cudaMemcpyAsync(range.at, from.at, from.count * 4, cudaMemcpyDeviceToDevice, stream));
        memcpy(range.model, from.model, from.count * 4);
        break;
    default:
        failed(cudaMemcpyAsync(words, range.at, range.count * 4, cudaMemcpyDeviceToHost, stream));
        failed(cudaStreamSynchronize(stream));
        compare(words, range.model, range.count);
    }
    failed(cudaGetLastError());
}

static void work()
{
    while (!ending && !error) {
        for (int i = 0; i < AT_ONCE; i++)
            write_once();
        rounds++;
        std::unique_lock<std::mutex> held(lock);
        if (!pausing)
            continue;
        failed(cudaEventRecord(record, stream));
        paused = true;
        changed.notify_all();
        changed.wait(held, [] { return !pausing; });
        paused = false;
    }
    std::unique_lock<std::mutex> held(lock);
    paused = true;
    changed.notify_all();
}

// What this program has given to its stream is recorded by its event when this returns.
static void pause_all()
{
    std::unique_lock<std::mutex> held(lock);
    pausing = true;
    changed.wait(held, [] { return paused; });
}

static void go_on()
{
    std::unique_lock<std::mutex> held(lock);
    pausing = false;
    changed.notify_all();
}

// All programs have paused.
static void check()
{
    std::vector<uint32_t> words(WORDS);
    for (int i = 0; i < count; i++)
        if (i != number)
            failed(cudaStreamWaitEvent(stream, heard[i], 0));
    for (int i = 0; i < count; i++) {
        failed(cudaMemcpyAsync(words.data(), memory[i], WORDS * 4, cudaMemcpyDeviceToHost, stream));
        failed(cudaStreamSynchronize(stream));
        compare(words.data(), expected->words[i], WORDS);
    }
}

struct handles { cudaIpcMemHandle_t memory; cudaIpcEventHandle_t event; };

static std::string path(const char *folder, int of) { return std::string(folder) + "/" + std::to_string(of); }

static void give(const char *folder)
{
    handles mine;
    failed(cudaIpcGetMemHandle(&mine.memory, memory[number]));
    failed(cudaIpcGetEventHandle(&mine.event, record));
    const std::string name = path(folder, number), temporary = name + ".new";
    FILE *file = fopen(temporary.c_str(), "wb");
    if (!file || fwrite(&mine, sizeof mine, 1, file) != 1 || fclose(file) || rename(temporary.c_str(), name.c_str()))
        error = -1;
}

static void take(const char *folder, int of)
{
    handles theirs;
    FILE *file = nullptr;
    for (int i = 0; i < 3000 && !(file = fopen(path(folder, of).c_str(), "rb")); i++)
        usleep(10000);
    if (!file || fread(&theirs, sizeof theirs, 1, file) != 1)
        error = -2;
    if (file)
        fclose(file);
    if (error || failed(cudaIpcOpenMemHandle((void **)&memory[of], theirs.memory, cudaIpcMemLazyEnablePeerAccess)))
        return;
    failed(cudaIpcOpenEventHandle(&heard[of], theirs.event));
}

static model *model_open(const char *folder)
{
    const int fd = open((std::string(folder) + "/model").c_str(), O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(model)))
        return nullptr;
    void *at = mmap(nullptr, sizeof(model), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? nullptr : (model *)at;
}

int main(int argc, char **argv)
{
    char line[256];
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (argc < 5 || !(expected = model_open(argv[3])))
        return 2;
    number = atoi(argv[1]);
    count = atoi(argv[2]);
    seed = strtoull(argv[4], nullptr, 10) * MOST + (uint64_t)number;
    failed(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    failed(cudaMalloc(&memory[number], WORDS * 4));
    failed(cudaMemset(memory[number], 0, WORDS * 4));
    failed(cudaEventCreateWithFlags(&record, cudaEventDisableTiming | cudaEventInterprocess));
    give(argv[3]);
    printf("ready %d\n", (int)error);
    for (int i = 0; i < count; i++)
        if (i != number)
            take(argv[3], i);
    std::thread thread(work);
    while (fgets(line, sizeof line, stdin)) {
        if (!strncmp(line, "state", 5))
            printf("state %d %d %d\n", (int)error, (int)wrong, (int)rounds);
        else if (!strncmp(line, "pause", 5)) {
            pause_all();
            printf("pause %d\n", (int)error);
        } else if (!strncmp(line, "check", 5)) {
            check();
            printf("check %d %d\n", (int)error, (int)wrong);
        } else if (!strncmp(line, "go", 2)) {
            go_on();
            printf("go 0\n");
        } else if (!strncmp(line, "end", 3)) {
            break;
        }
    }
    ending = true;
    go_on();
    thread.join();
    printf("end %d %d %d %d\n", (int)error, (int)wrong, (int)rounds, 1);
    return error || wrong;
}
