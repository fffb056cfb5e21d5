/*
 * privileged.c: a CUDA program that setuid.py gives to root with the setuid bit. It makes calls that fail, so that
 * CUDA_LOG_FILE has something to hold, asks NVML with all rights taken over, and prints what it found.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cudaGetDeviceCount(int *);
int cudaMalloc(void **, size_t);
int cudaFree(void *);
int cudaMemcpy(void *, const void *, size_t, int);
int nvmlInit_v2(void);
int nvmlDeviceGetCount_v2(unsigned *);

int main(int argc, char **argv)
{
    int devices = 0, round_trip = 5;
    unsigned seen = 0;
    void *memory = NULL;
    if (argc > 1 && strcmp(argv[1], "own") == 0)
        setenv("FLYT_SERVER", "unix:///nowhere", 1);
    int counted = cudaGetDeviceCount(&devices), allocated = cudaMalloc(&memory, sizeof round_trip);
    int wrong = cudaFree((void *)77), sent = cudaMemcpy(memory, &round_trip, sizeof round_trip, 1);
    round_trip = 0;
    int back = cudaMemcpy(&round_trip, memory, sizeof round_trip, 2);
    printf("%s: %d %d, %d, %d, %d %d %d\n", getuid() == geteuid() ? "plain" : "setuid", counted, devices, allocated,
           wrong, sent, back, round_trip);
    if (setuid(geteuid()))
        return 1;
    int nvml = nvmlInit_v2(), asked = nvmlDeviceGetCount_v2(&seen);
    printf("nvml: %d %d %u\n", nvml, asked, seen);
    return 0;
}
