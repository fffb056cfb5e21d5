/*
 * benchM: benchB with 512 threads that also holds MEMORY_MB of device memory all the time: memory limits, and moves of
 * programs with much memory. What it holds is filled, and looked at in every round.
 *
 *     benchM MEMORY_MB [ITERATIONS [ROUNDS [SLEEP_MS]]]
 */
#include "workload.h"
#include "rounds.h"

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 5) {
        fprintf(stderr, "usage: benchM MEMORY_MB [ITERATIONS [ROUNDS [SLEEP_MS]]]\n");
        return 2;
    }
    return rounds_run(512, argc > 2 ? workload_number(argv[2]) : 5000, workload_number(argv[1]) << 20,
                      argc > 3 ? workload_number(argv[3]) : 0, argc > 4 ? workload_number(argv[4]) : 1000);
}
