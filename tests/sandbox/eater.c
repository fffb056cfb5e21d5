/*
 * eater.c: stands in for cricket-rpc-server: makes as many processes as it can, says how many, and then takes memory
 * until it is stopped.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { MOST = 400, STEP = 1 << 20, STEPS = 120 };

int main(void)
{
    pid_t made[MOST];
    int count = 0;
    alarm(300);                            /* a test that forgets us does not keep us */
    prctl(PR_SET_NAME, "cricket-rpc-bad"); /* by this the rig ends what is left */
    while (count < MOST && (made[count] = fork()) > 0)
        count++;
    if (count < MOST && made[count] == 0)
        for (;;)
            pause();
    for (int i = 0; i < count; i++)
        kill(made[i], SIGKILL);
    printf("device multiprocessors 2\nlistening on tcp://127.0.0.1:1\n");
    fflush(stdout);
    fprintf(stderr, "%d processes\n", count);
    for (int i = 0; i < STEPS; i++) {
        char *at = mmap(NULL, STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at != MAP_FAILED)
            memset(at, 1, STEP);
        usleep(2000);
    }
    fprintf(stderr, "%d MiB taken\n", STEPS);
    for (;;)
        pause();
}
