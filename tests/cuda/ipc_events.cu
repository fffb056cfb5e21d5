// shows: streams: an event that another process opened: its stream waits for a kernel of this process, and the other
//   way
//   round; queries and synchronisation say what the other process recorded last
#include "software.h"
#include "together.h"

enum { WORDS = 4096, ROUNDS = 20 };

__global__ void spin_and_add(unsigned *words, const volatile unsigned *go, unsigned what)
{
    while (go && !*go)
        __nanosleep(20000);
    words[blockIdx.x * blockDim.x + threadIdx.x] += what;
}

__global__ void twice(unsigned *words) { words[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }

struct message {
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t ours, early, other;
};

static int child_main()
{
    message m;
    unsigned *words, word;
    cudaEvent_t ours, theirs, early, again;
    cudaStream_t stream;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    together_hear(&m, sizeof m);
    MUST(cudaIpcOpenMemHandle((void **)&words, m.memory, cudaIpcMemLazyEnablePeerAccess));
    cudaIpcEventHandle_t wrong = m.ours;
    wrong.reserved[41] ^= 1;
    if (with_flyt()) // natively not all of a handle counts, and a handle of memory gives 205
        GIVES(cudaErrorInvalidValue, cudaIpcOpenEventHandle(&theirs, wrong));
    memcpy(&wrong, &m.memory, sizeof wrong);
    HOLDS(cudaIpcOpenEventHandle(&theirs, wrong) != cudaSuccess);
    GIVES(cudaErrorInvalidValue, cudaIpcOpenEventHandle(nullptr, m.ours));
    MUST(cudaIpcOpenEventHandle(&theirs, m.ours));
    MUST(cudaIpcOpenEventHandle(&again, m.ours));
    MUST(cudaIpcOpenEventHandle(&early, m.early));
    GIVES(cudaErrorNotReady, cudaEventQuery(early));          // recorded before it was exported, behind a kernel
    GIVES(cudaSuccess, cudaEventQuery(theirs));               // never recorded
    MUST(cudaEventCreateWithFlags(&ours, cudaEventInterprocess | cudaEventDisableTiming));
    cudaIpcEventHandle_t name;
    MUST(cudaIpcGetEventHandle(&name, ours));
    together_say(&name, sizeof name);
    for (unsigned round = 0; round < ROUNDS; round++) {
        // a kernel that waits was launched, then the event recorded
        together_meet();
        GIVES(cudaErrorNotReady, cudaEventQuery(theirs));
        MUST(cudaStreamWaitEvent(stream, round % 2 ? theirs : again, 0));
        twice<<<WORDS / 256, 256, 0, stream>>>(words);
        MUST(cudaEventRecord(ours, stream));
        GIVES(cudaErrorNotReady, cudaEventQuery(ours));
        together_meet();
    }
    together_meet();
    MUST(cudaEventSynchronize(early));
    MUST(cudaEventDestroy(again));
    MUST(cudaEventSynchronize(theirs));
    MUST(cudaMemcpy(&word, words, sizeof word, cudaMemcpyDeviceToHost));
    float ms;
    GIVES(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, theirs, ours));
    MUST(cudaEventDestroy(theirs));
    MUST(cudaEventDestroy(early));
    MUST(cudaIpcCloseMemHandle(words));
    MUST(cudaDeviceReset());
    return check_result("ipc_events, the other process");
}

int main(int argc, char **argv)
{
    if (together_is(argc, argv, "import"))
        return child_main();
    alarm(TOGETHER_SECONDS);
    pid_t child = together_start("import");
    message m;
    unsigned *words, *go;
    cudaEvent_t ours, early, theirs, plain;
    cudaStream_t stream;
    int supported = -1;
    MUST(cudaDeviceGetAttribute(&supported, (cudaDeviceAttr)125, 0));
    cudaError_t possible = cudaEventCreateWithFlags(&ours, cudaEventInterprocess | cudaEventDisableTiming);
    if (possible == cudaErrorNotSupported) {                  // the server is in this process
        HOLDS(supported == 0);
        kill(child, SIGKILL);
        return check_result("ipc_events");
    }
    HOLDS(supported == 1);
    MUST(possible);
    GIVES(cudaErrorInvalidValue, cudaEventCreateWithFlags(&early, cudaEventInterprocess));
    MUST(cudaEventCreateWithFlags(&early, cudaEventInterprocess | cudaEventDisableTiming));
    MUST(cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
    GIVES(cudaErrorInvalidResourceHandle, cudaIpcGetEventHandle(&m.ours, plain));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaMalloc(&words, WORDS * sizeof *words));
    MUST(cudaMalloc(&go, sizeof *go));
    MUST(cudaMemset(words, 0, WORDS * sizeof *words));
    MUST(cudaMemset(go, 0, sizeof *go));
    MUST(cudaDeviceSynchronize());
    cudaStream_t first;
    MUST(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    spin_and_add<<<WORDS / 256, 256, 0, first>>>(words, go, 0);
    MUST(cudaEventRecord(early, first));
    MUST(cudaIpcGetEventHandle(&m.early, early));
    MUST(cudaIpcGetEventHandle(&m.ours, ours));
    MUST(cudaIpcGetEventHandle(&m.other, ours));
    HOLDS(memcmp(&m.ours, &m.other, sizeof m.ours) == 0);
    MUST(cudaIpcGetMemHandle(&m.memory, words));
    cudaEvent_t same;
    GIVES(cudaErrorDeviceUninitialized, cudaIpcOpenEventHandle(&same, m.ours));
    (void)cudaGetLastError();
    together_say(&m, sizeof m);
    cudaIpcEventHandle_t name;
    together_hear(&name, sizeof name);
    MUST(cudaIpcOpenEventHandle(&theirs, name));
    unsigned one = 1, expected = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        MUST(cudaMemsetAsync(go, 0, sizeof *go, stream));
        MUST(cudaStreamSynchronize(stream));                  // it is another stream that sets it
        spin_and_add<<<WORDS / 256, 256, 0, stream>>>(words, go, round);
        MUST(cudaEventRecord(ours, stream));
        together_meet();
        together_meet();                                      // the other stream waits for us, and we for the other one
        GIVES(cudaErrorNotReady, cudaEventQuery(theirs));
        MUST(cudaStreamWaitEvent(stream, theirs, 0));
        cudaStream_t third;
        MUST(cudaStreamCreateWithFlags(&third, cudaStreamNonBlocking));
        MUST(cudaMemcpyAsync(go, &one, sizeof one, cudaMemcpyHostToDevice, third));
        MUST(cudaStreamSynchronize(third));
        MUST(cudaStreamDestroy(third));
        MUST(cudaEventSynchronize(theirs));
        MUST(cudaStreamSynchronize(stream));
        expected = (expected + round) * 2;
        static unsigned all[WORDS];
        MUST(cudaMemcpyAsync(all, words, sizeof all, cudaMemcpyDeviceToHost, stream));
        MUST(cudaStreamSynchronize(stream));
        for (unsigned value : all)
            HOLDS(value == expected);
    }
    MUST(cudaStreamSynchronize(first));
    together_meet();
    MUST(cudaEventDestroy(ours));
    MUST(cudaEventDestroy(early));
    MUST(cudaEventDestroy(theirs));
    HOLDS(together_end(child) == 0);
    return check_result("ipc_events");
}
