// One of several programs, each of which has memory of the one before: ring NUMBER COUNT FOLDER. Each counts in its own
// memory, notes there what it has seen of the other's, and writes into the other's what it has counted. Told on stdin
// what to do besides, one line of answer for each. They move to other GPUs meanwhile: tests/control/groups.py.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <unistd.h>
#include <cuda_runtime.h>

enum { OWN, SEEN, OF_NEXT, LOST, WORDS = 1 << 20 };

// own[OWN] counts; own[SEEN] is the other's count as it was seen last; own[OF_NEXT] is what the next one has counted.
// A count that goes back is noted in LOST: then there are two copies of it.
__global__ void step(uint32_t *own, volatile uint32_t *other)
{
    const uint32_t count = other[OWN];
    if (count < own[SEEN])
        own[LOST]++;
    own[SEEN] = count;
    own[OWN]++;
    other[OF_NEXT] = own[OWN];
}

static std::atomic<bool> ending;
static std::atomic<int> error, wrong, rounds;
static uint32_t *own, *other;
static cudaEvent_t record, heard;

static int failed(cudaError_t code)
{
    if (code && !error)
        error = code;
    return code;
}

static uint32_t word(int which)
{
    uint32_t value = 0;
    failed(cudaMemcpy(&value, own + which, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

static void work()
{
    while (!ending && !error) {
        failed(cudaStreamWaitEvent(nullptr, heard, 0));
        step<<<1, 1>>>(own, other);
        failed(cudaEventRecord(record, nullptr));
        if (failed(cudaStreamSynchronize(nullptr)))
            return;
        rounds++;
        if (word(OWN) != (uint32_t)rounds || word(LOST))
            wrong = 1;
    }
}

struct handles { cudaIpcMemHandle_t memory; cudaIpcEventHandle_t event; };

static std::string path(const char *folder, int number) { return std::string(folder) + "/" + std::to_string(number); }

static void give(const char *folder, int number, const handles &all)
{
    std::string name = path(folder, number), temporary = name + ".new";
    FILE *file = fopen(temporary.c_str(), "wb");
    if (!file || fwrite(&all, sizeof all, 1, file) != 1 || fclose(file) || rename(temporary.c_str(), name.c_str()))
        error = -1;
}

static void take(const char *folder, int number, handles *all)
{
    FILE *file = nullptr;
    for (int i = 0; i < 3000 && !(file = fopen(path(folder, number).c_str(), "rb")); i++)
        usleep(10000);
    if (!file || fread(all, sizeof *all, 1, file) != 1)
        error = -2;
    if (file)
        fclose(file);
}

int main(int argc, char **argv)
{
    char line[256];
    handles mine, theirs;
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (argc < 4)
        return 2;
    const int number = atoi(argv[1]), count = atoi(argv[2]);
    failed(cudaMalloc(&own, WORDS * sizeof *own));
    failed(cudaMemset(own, 0, WORDS * sizeof *own));
    failed(cudaEventCreateWithFlags(&record, cudaEventDisableTiming | cudaEventInterprocess));
    failed(cudaIpcGetMemHandle(&mine.memory, own));
    failed(cudaIpcGetEventHandle(&mine.event, record));
    give(argv[3], number, mine);
    printf("ready %d\n", (int)error);
    take(argv[3], (number + count - 1) % count, &theirs);
    if (!error && !failed(cudaIpcOpenMemHandle((void **)&other, theirs.memory, cudaIpcMemLazyEnablePeerAccess)))
        failed(cudaIpcOpenEventHandle(&heard, theirs.event));
    std::thread thread(work);
    while (fgets(line, sizeof line, stdin)) {
        if (!strncmp(line, "state", 5))
            printf("state %d %d %d\n", (int)error, (int)wrong, (int)rounds);
        else if (!strncmp(line, "seen", 4)) {
            const uint32_t seen = word(SEEN), of_next = word(OF_NEXT);
            printf("seen %u %u\n", seen, of_next);
        } else if (!strncmp(line, "end", 3))
            break;
    }
    ending = true;
    thread.join();
    printf("end %d %d %d %d\n", (int)error, (int)wrong, (int)rounds, 1);
    return error || wrong;
}
