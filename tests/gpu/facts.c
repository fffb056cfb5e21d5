/*
 * facts.c: asks a CUDA driver, natively, what the design takes for granted about it.
 *
 *   facts [--driver LIBRARY] [NAME...]        default: libcuda.so.1, all facts
 *
 * Each fact is a small program of its own in a child process (errors stick to a process, and the driver reads its
 * environment once), with a time limit; it prints one line: name, answer, and the assumption of the design in brackets.
 * Nothing here passes or fails: the answers are committed under docs/measurements/, and design and code follow them.
 * Run it with and without MPS, and with --driver bin/libsoftgpu.so to see where the software GPU differs.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#include "facts.h"

/* Runs the fact in a child, so that nothing it breaks reaches the others. */
static void ask(const struct fact *fact, const char *driver)
{
    int ends[2];
    char answer[2048] = "";
    size_t length = 0;
    if (pipe(ends) != 0)
        return;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        library = dlopen(driver, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            printf("no driver: %s", dlerror());
        } else {
            fact->ask();
        }
        fflush(stdout);
        _exit(0);
    }
    close(ends[1]);
    double deadline = now() + 10;
    while (length < sizeof answer - 1) {
        struct timeval left = {.tv_sec = 0, .tv_usec = 100000};
        fd_set set;
        FD_ZERO(&set);
        FD_SET(ends[0], &set);
        if (select(ends[0] + 1, &set, NULL, NULL, &left) > 0) {
            ssize_t n = read(ends[0], answer + length, sizeof answer - 1 - length);
            if (n <= 0)
                break;
            length += (size_t)n;
        }
        if (now() > deadline) {
            kill(child, SIGKILL);
            snprintf(answer + length, sizeof answer - length, "%sno answer within 10 s", length ? "; " : "");
            break;
        }
    }
    waitpid(child, NULL, 0);
    close(ends[0]);
    answer[strcspn(answer, "\n")] = 0;
    printf("%-28s %s  [%s]\n", fact->name, answer, fact->assumption);
}

int main(int argc, char **argv)
{
    const char *driver = "libcuda.so.1";
    int first = 1;
    if (argc > 2 && strcmp(argv[1], "--driver") == 0) {
        driver = argv[2];
        first = 3;
    } else if (argc > 1 && argv[1][0] == '-') {
        fprintf(stderr, "usage: facts [--driver LIBRARY] [NAME...]\n");
        return 2;
    }
    static const struct fact *const all[] = { launch_facts, memory_facts, limits_facts, code_facts };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (const struct fact *fact = all[i]; fact->name; fact++) {
            bool wanted = first >= argc;
            for (int a = first; a < argc; a++)
                wanted |= strcmp(argv[a], fact->name) == 0;
            if (wanted)
                ask(fact, driver);
        }
    return 0;
}
