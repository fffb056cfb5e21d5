/*
 * benchB: a program that runs until SIGINT (or for ROUNDS rounds): clear, launch, synchronise (timed), copy back, add
 * up, sleep a second. It shows a share being changed, or a program being moved, under a program that runs.
 *
 *     benchB THREADS ITERATIONS [ROUNDS [SLEEP_MS]]
 */
#include "workload.h"
#include "rounds.h"

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 5) {
        fprintf(stderr, "usage: benchB THREADS ITERATIONS [ROUNDS [SLEEP_MS]]\n");
        return 2;
    }
    return rounds_run(workload_number(argv[1]), workload_number(argv[2]), 0, argc > 3 ? workload_number(argv[3]) : 0,
                      argc > 4 ? workload_number(argv[4]) : 1000);
}
