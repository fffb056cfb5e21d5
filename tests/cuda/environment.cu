// shows: a guest in the program: a program that clears its environment before its first CUDA call still finds its
//   server; CUDA's own variables count as they are at the first call
//
// With an argument: what to do to the environment before the first call. "keep": nothing.
#include "check.h"
#include "passing.h"
#include <sys/wait.h>
#include <unistd.h>

__global__ void bump(int *p) { ++*p; }

__global__ void run_for(unsigned long long ns) { pass(ns, 20000); }

static int with(const char *change)
{
    int *d, h = 0, count = -1, sms = 0;
    const char *server = getenv("FLYT_SERVER");
    bool local = server && !strncmp(server, "local:", 6);
    if (!strcmp(change, "clear")) {
        clearenv();
    } else if (!strcmp(change, "hide")) {
        clearenv();
        setenv("CUDA_VISIBLE_DEVICES", "", 1);
    } else if (!strcmp(change, "seen")) {     // hidden when the library was loaded: as natively, that is not kept
        clearenv();
    } else if (!strcmp(change, "block")) {
        setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    } else if (!strcmp(change, "another")) {  // what the program sets itself counts
        clearenv();
        setenv("FLYT_SERVER", "carrier-pigeon://loft", 1);
        GIVES(cudaErrorSystemNotReady, cudaMalloc((void **)&d, sizeof *d));
        return check_failures;
    }
    if (!strcmp(change, "hide")) {
        GIVES(cudaErrorNoDevice, cudaGetDeviceCount(&count));
        return check_failures;
    }
    MUST(cudaGetDeviceCount(&count));
    HOLDS(count > 0);
    MUST(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    HOLDS(!local || sms == 3);                // in process, the software GPU's settings are the program's
    MUST(cudaMalloc((void **)&d, sizeof *d));
    MUST(cudaMemset(d, 0, sizeof *d));
    bump<<<1, 1>>>(d);
    MUST(cudaMemcpy(&h, d, sizeof h, cudaMemcpyDeviceToHost));
    HOLDS(h == 1);
    if (!strcmp(change, "block")) {
        run_for<<<1, 1>>>(20000000);
        GIVES(cudaSuccess, cudaStreamQuery(0));
    }
    return check_failures;
}

int main(int argc, char **argv)
{
    static const char *const changes[] = {"keep", "clear", "hide", "seen", "block", "another"};
    if (argc > 1)
        return with(argv[1]);
    for (const char *change : changes) {
        fflush(stdout);
        pid_t child = fork();                 // no CUDA call yet: the child is a program of its own
        if (child == 0) {
            if (!strcmp(change, "seen"))
                setenv("CUDA_VISIBLE_DEVICES", "", 1);
            setenv("FLYT_SOFTGPU_SMS", "3", 1);
            execl("/proc/self/exe", "environment", change, (char *)NULL);
            _exit(101);
        }
        int status = -1;
        waitpid(child, &status, 0);
        if (status)
            fprintf(stderr, "environment %s: status %#x\n", change, status);
        HOLDS(status == 0);
    }
    return check_result("environment");
}
