// shows: robustness: an event of several processes whose recorder is killed before the record is complete: queries,
//   synchronisation and streams of other processes do not wait for ever, whoever made the event
#include "check.h"
#include "together.h"

// The stream stands still for as long as the process lives.
static void CUDART_CB never_ends(void *)
{
    for (;;)
        pause();
}

static void record_and_wait(cudaEvent_t event)
{
    cudaStream_t stream;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaLaunchHostFunc(stream, never_ends, nullptr));
    MUST(cudaEventRecord(event, stream));
}

// Its own event, then the other process's; it is killed each time.
static int child_main(bool own)
{
    cudaEvent_t event;
    cudaIpcEventHandle_t name;
    char byte = 1;
    if (own) {
        MUST(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
        MUST(cudaIpcGetEventHandle(&name, event));
        together_say(&name, sizeof name);
    } else {
        together_hear(&name, sizeof name);
        MUST(cudaIpcOpenEventHandle(&event, name));
    }
    record_and_wait(event);
    together_say(&byte, 1);
    for (;;)
        pause();
}

static void waits(bool own)
{
    pid_t child = together_start(own ? "own" : "other");
    cudaEvent_t event;
    cudaIpcEventHandle_t name;
    cudaStream_t stream;
    unsigned *word, got = 0;
    char byte;
    MUST(cudaMalloc(&word, sizeof *word));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (own) {
        together_hear(&name, sizeof name);
        MUST(cudaIpcOpenEventHandle(&event, name));
    } else {
        MUST(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
        MUST(cudaIpcGetEventHandle(&name, event));
        together_say(&name, sizeof name);
    }
    together_hear(&byte, 1);
    GIVES(cudaErrorNotReady, cudaEventQuery(event));
    MUST(cudaStreamWaitEvent(stream, event, 0));
    MUST(cudaMemsetAsync(word, 1, sizeof *word, stream));
    usleep(1200000);                          // nobody takes a process that lives for dead
    GIVES(cudaErrorNotReady, cudaStreamQuery(stream));
    HOLDS(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    MUST(cudaEventSynchronize(event));
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaMemcpy(&got, word, sizeof got, cudaMemcpyDeviceToHost));
    HOLDS(got == 0x01010101);
    GIVES(cudaSuccess, cudaEventQuery(event));
    MUST(cudaEventRecord(event, stream));     // and it can be used on
    MUST(cudaEventSynchronize(event));
    MUST(cudaEventDestroy(event));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFree(word));
    close(together_socket);
}

int main(int argc, char **argv)
{
    for (bool own : { true, false })
        if (together_is(argc, argv, own ? "own" : "other"))
            return child_main(own);
    alarm(TOGETHER_SECONDS);
    cudaEvent_t event;
    cudaError_t possible = cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming);
    if (possible == cudaErrorNotSupported)    // the server is in this process
        return check_result("ipc_killed");
    MUST(possible);
    waits(true);
    waits(false);
    return check_result("ipc_killed");
}
