// managed.h: what the programs about managed memory share. Each runs twice, in a process of its own: as pages are
// watched here by default, and with SIGSEGV (FLYT_PERF=no_userfault).
#ifndef FLYT_TESTS_CUDA_MANAGED_H
#define FLYT_TESTS_CUDA_MANAGED_H

#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static bool by_signal() { return getenv("MANAGED_BY_SIGNAL") != NULL; }
// The server is in this process: managed memory is the software GPU's own.
static bool in_process() { return strncmp(getenv("FLYT_SERVER") ? getenv("FLYT_SERVER") : "", "local:", 6) == 0; }

template <typename T> static T *managed(size_t count, unsigned flags = cudaMemAttachGlobal)
{
    T *memory;
    MUST(cudaMallocManaged(&memory, count * sizeof(T), flags));
    return memory;
}

// Runs the program again with the other way. Returns what it returns there.
static int run_by_signal(char **arguments)
{
    if (by_signal() || in_process())
        return 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        std::string perf = getenv("FLYT_PERF") ? std::string(getenv("FLYT_PERF")) + "," : "";
        setenv("FLYT_PERF", (perf + "no_userfault").c_str(), 1);
        setenv("MANAGED_BY_SIGNAL", "1", 1);
        execv("/proc/self/exe", arguments);
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status)
        fprintf(stderr, "watched by SIGSEGV: status 0x%x\n", status);
    return status != 0;
}

#endif
