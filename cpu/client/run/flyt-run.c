/*
 * flyt-run.c: runs a CUDA program with Flyt's libraries in place of NVIDIA's. It sets the environment and becomes
 * the program (exec), so signals, terminal, process id and exit status are the program's own.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/common/version.h"

enum { EXIT_USAGE = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

static const char help[] =
    "NAME\n"
    "    flyt-run - run a CUDA program on a remote GPU\n"
    "\n"
    "SYNOPSIS\n"
    "    flyt-run [--server URI] [--stats] [--] PROGRAM [ARGUMENT...]\n"
    "    flyt-run --help | --version\n"
    "\n"
    "DESCRIPTION\n"
    "    Runs PROGRAM, unchanged, with Flyt's CUDA libraries, which send its CUDA calls to a GPU server. The program\n"
    "    must use the shared CUDA runtime (nvcc -cudart shared).\n"
    "\n"
    "OPTIONS\n"
    "    --server URI   The GPU server: tls://HOST:PORT?sha256=..., tcp://HOST:PORT, unix:///PATH, shm:///PATH, or\n"
    "                   local: to run the server's part in the program's own process. Without it $FLYT_SERVER\n"
    "                   holds; without that, the client manager of this machine is asked, or, where none runs,\n"
    "                   unix:///run/flyt/server.sock is used.\n"
    "    --stats        When the program ends, say on stderr how many calls travelled, waited, and were answered\n"
    "                   on this side; and for each operation its calls, bytes and times.\n"
    "    --help         Print this page.\n"
    "    --version      Print the version.\n"
    "\n"
    "ENVIRONMENT\n"
    "    FLYT_SERVER    The GPU server.\n"
    "    FLYT_TLS_CA    For tls:// without a fingerprint: the authority that made the server's certificate.\n"
    "    FLYT_MANAGER   Socket of the client manager; default /run/flyt/client-manager.sock.\n"
    "    FLYT_STATS     1: as --stats. json: the same for machines, one object on a line of stderr.\n"
    "    FLYT_PERF      Switches optimisations off, to measure or to narrow down a fault: a list of no_async,\n"
    "                   no_batch, no_cache, no_pipeline, no_shm, no_payload, no_lanes, no_spin, separated by commas.\n"
    "    FLYT_LOG       error, warning (default), info or debug.\n"
    "    CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER\n"
    "                   As with NVIDIA's driver.\n"
    "    LD_LIBRARY_PATH\n"
    "                   Flyt's folders are put in front of it.\n"
    "\n"
    "EXIT STATUS\n"
    "    The program's own; 125 for a wrong command line, 126 if PROGRAM cannot be executed, 127 if it is not found.\n"
    "\n"
    "EXAMPLE\n"
    "    flyt-run --server tcp://gpu1:9000 ./vectorAdd\n";

static int usage(const char *problem, const char *what)
{
    fprintf(stderr, "flyt-run: %s%s%s; see flyt-run --help\n", problem, what ? " " : "", what ? what : "");
    return EXIT_USAGE;
}

/* The folder of this program, where the libraries lie too. */
static int own_folder(char folder[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (length < 0)
        return -1;
    folder[length] = 0;
    char *slash = strrchr(folder, '/');
    if (!slash)
        return -1;
    *slash = 0;
    return 0;
}

static int set_library_path(void)
{
    char folder[PATH_MAX], path[4 * PATH_MAX], library[PATH_MAX + 32];
    if (own_folder(folder)) {
        fprintf(stderr, "flyt-run: cannot find its own folder (/proc/self/exe): %s\n", strerror(errno));
        return -1;
    }
    snprintf(library, sizeof library, "%s/libflyt-client.so", folder);
    if (access(library, R_OK)) {
        fprintf(stderr, "flyt-run: %s: %s; install Flyt's libraries beside flyt-run, or run make\n", library, strerror(errno));
        return -1;
    }
    const char *before = getenv("LD_LIBRARY_PATH");
    bool more = before && *before;
    int length = snprintf(path, sizeof path, "%s/cudart:%s%s%s", folder, folder, more ? ":" : "", more ? before : "");
    if (length < 0 || (size_t)length >= sizeof path) {
        fprintf(stderr, "flyt-run: LD_LIBRARY_PATH is too long\n");
        return -1;
    }
    return setenv("LD_LIBRARY_PATH", path, 1);
}

int main(int argc, char **argv)
{
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at++) {
        const char *option = argv[at];
        if (strcmp(option, "--") == 0) {
            at++;
            break;
        }
        if (strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0) {
            fputs(help, stdout);
            return fflush(stdout) ? EXIT_USAGE : 0;
        }
        if (strcmp(option, "--version") == 0) {
            puts("flyt-run " FLYT_VERSION);
            return fflush(stdout) ? EXIT_USAGE : 0;
        }
        if (strcmp(option, "--stats") == 0)
            setenv("FLYT_STATS", "1", 1);
        else if (strncmp(option, "--server=", 9) == 0)
            setenv("FLYT_SERVER", option + 9, 1);
        else if (strcmp(option, "--server") != 0)
            return usage("there is no option", option);
        else if (++at >= argc)
            return usage("--server wants an address", NULL);
        else
            setenv("FLYT_SERVER", argv[at], 1);
    }
    if (at >= argc)
        return usage("no program given", NULL);
    if (set_library_path())
        return EXIT_USAGE;
    execvp(argv[at], argv + at);
    int error = errno;
    fprintf(stderr, "flyt-run: %s: %s\n", argv[at], strerror(error));
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}
