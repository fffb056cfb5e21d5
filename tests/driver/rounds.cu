/*
 * rounds.cu: does one thing N times, so that rounds.py can count what it waits for.
 *
 *     rounds launch|copy_in|copy_out|copy_pageable|set|record|wait|event N       then one synchronise
 *     rounds start[-count|-copy]       the first result of a kernel; in a program that asks for the number of devices
 *                                      first, or that copies to the device before the launch
 *     rounds count                     only asks for the number of devices
 */
#include "tests/cuda/check.h"

__global__ void add(int *out, int a, int b) { *out = a + b; }

enum { BYTES = 4096 };
static int *device, *pinned, pageable[BYTES / sizeof(int)];
static cudaStream_t stream, other;
static cudaEvent_t event;

/* An event of its own stream costs no message. */
static void wait_for_other(void)
{
    MUST(cudaEventRecord(event, other));
    MUST(cudaStreamWaitEvent(stream, event, 0));
}

static void once(const char *what, int i)
{
    if (strcmp(what, "launch") == 0) {
        add<<<1, 1, 0, stream>>>(device, i, 1);
        MUST(cudaGetLastError());
    } else if (strcmp(what, "copy_in") == 0)
        MUST(cudaMemcpyAsync(device, pinned, BYTES, cudaMemcpyHostToDevice, stream));
    else if (strcmp(what, "copy_out") == 0)
        MUST(cudaMemcpyAsync(pinned, device, BYTES, cudaMemcpyDeviceToHost, stream));
    else if (strcmp(what, "copy_pageable") == 0)
        MUST(cudaMemcpyAsync(device, pageable, BYTES, cudaMemcpyHostToDevice, stream));
    else if (strcmp(what, "set") == 0)
        MUST(cudaMemsetAsync(device, i, BYTES, stream));
    else if (strcmp(what, "record") == 0)
        MUST(cudaEventRecord(event, stream));
    else if (strcmp(what, "wait") == 0)
        wait_for_other();
    else if (strcmp(what, "event") == 0) {
        cudaEvent_t another;
        MUST(cudaEventCreate(&another));
        MUST(cudaEventDestroy(another));
    } else {
        fprintf(stderr, "rounds: no such thing: %s\n", what);
        exit(2);
    }
}

static int start(const char *what)
{
    int result = 0, count = 0;
    if (strcmp(what, "start-count") == 0 || strcmp(what, "count") == 0)
        MUST(cudaGetDeviceCount(&count));
    if (strcmp(what, "count") == 0)
        return check_result(what);
    MUST(cudaMalloc(&device, sizeof *device));
    if (strcmp(what, "start-copy") == 0)
        MUST(cudaMemcpy(device, &result, sizeof result, cudaMemcpyHostToDevice));
    add<<<1, 1>>>(device, 40, 2);
    MUST(cudaGetLastError());
    MUST(cudaMemcpy(&result, device, sizeof result, cudaMemcpyDeviceToHost));
    HOLDS(result == 42);
    return check_result(what);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "start";
    if (strncmp(what, "start", 5) == 0 || strcmp(what, "count") == 0)
        return start(what);
    MUST(cudaMalloc(&device, BYTES));
    MUST(cudaMallocHost(&pinned, BYTES));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    MUST(cudaEventCreate(&event));
    memset(pinned, 1, BYTES);
    once("launch", 0);
    once(what, 0);
    MUST(cudaStreamSynchronize(stream));
    for (int i = 0; i < atoi(argv[2]); i++)
        once(what, i);
    MUST(cudaStreamSynchronize(stream));
    once("launch", 41);
    once("copy_out", 0);
    MUST(cudaStreamSynchronize(stream));
    HOLDS(pinned[0] == 42);
    return check_result(what);
}
