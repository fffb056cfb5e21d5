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
#include <sys/stat.h>
#include <unistd.h>

#include "cpu/client/run/loader.h"
#include "cpu/client/run/program.h"
#include "cpu/common/version.h"

enum { EXIT_USAGE = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

static const char help[] =
    "NAME\n"
    "    flyt-run - run a CUDA program on a remote GPU\n"
    "\n"
    "SYNOPSIS\n"
    "    flyt-run [--server URI] [--stats] [--verbose] [--] PROGRAM [ARGUMENT...]\n"
    "    flyt-run --status [--json]\n"
    "    flyt-run --help | --version\n"
    "\n"
    "DESCRIPTION\n"
    "    Runs PROGRAM, unchanged, with Flyt's CUDA libraries, which send its CUDA calls to a GPU server. A program\n"
    "    with the shared CUDA runtime gets Flyt's libcudart. One with the static runtime (nvcc's default), or one\n"
    "    that uses the CUDA Driver API itself, gets Flyt's libcuda.so.1. Flyt's libraries cannot be loaded into\n"
    "    programs that are fully static, setuid, or built for musl: flyt-run prints a warning and starts them. If one\n"
    "    of Flyt's own libraries cannot be loaded, flyt-run names what is missing.\n"
    "\n"
    "OPTIONS\n"
    "    --server URI   The GPU server: tls://HOST:PORT?sha256=..., tcp://HOST:PORT, unix:///PATH, shm:///PATH, or\n"
    "                   local: to run the server's part in the program's own process. Several addresses with commas\n"
    "                   between them: GPUs of several servers. Without it, $FLYT_SERVER is\n"
    "                   used; without both, the client manager of this machine is asked, or, if none runs,\n"
    "                   unix:///run/flyt/server.sock is used.\n"
    "    --stats        When the program ends, print statistics on stderr: how many calls travelled, were waited for,\n"
    "                   and were answered by the client; then calls, bytes and times of each operation.\n"
    "    --verbose      Print on stderr what is set for the program, and what it does when it connects: which server,\n"
    "                   over which transport, and which compute capability a software GPU shows it, and why.\n"
    "    --status       Print what the cluster gives this machine, which GPU your programs use, how much memory they\n"
    "                   hold and how busy they keep it, or why they wait and at which place in the queue. With\n"
    "                   --json, as JSON. It is what flyt-smi status prints.\n"
    "    --help         Print this page.\n"
    "    --version      Print the version.\n"
    "\n"
    "ENVIRONMENT\n"
    "    FLYT_SERVER    The GPU server.\n"
    "    FLYT_TLS_CA    For tls:// without a fingerprint: the authority that signed the server's certificate.\n"
    "    FLYT_MANAGER   Socket of the client manager; default /run/flyt/client-manager.sock.\n"
    "    FLYT_WAIT      fail (or no): fail at once if no GPU is free. in-line (or yes): wait in the queue. A number:\n"
    "                   wait at most that many seconds in total. After two seconds a message on stderr says what the\n"
    "                   program waits for.\n"
    "    FLYT_STATS     1: as --stats. json: the same as one JSON object on one line of stderr.\n"
    "    FLYT_PERF      Switches optimisations off, to measure them or to narrow down a fault. Words separated by\n"
    "                   commas: no_async, no_batch, no_cache, no_pipeline, no_shm, no_payload, no_lanes, no_direct,\n"
    "                   no_rounds, no_ahead, no_early, no_graph, no_userfault, no_pull, no_membarrier, no_spin,\n"
    "                   no_fingerprints, no_watch, no_code_rounds.\n"
    "    FLYT_SOFTGPU_CC\n"
    "                   The compute capability that a software GPU shows the program. Without it: what the server\n"
    "                   says, or what the software needs that the program has loaded at its first CUDA call.\n"
    "    FLYT_LOG       Which messages appear on stderr: error, warning (default), info or debug.\n"
    "    FLYT_NVRTC     NVRTC, nvJitLink and NVVM produce PTX for the software GPU if flyt-run preloads\n"
    "                   libflyt-nvrtc.so and puts Flyt's nvcc and ptxas first in PATH. It does so for Python and for\n"
    "                   programs that are linked with one of the three or name their functions; always or never\n"
    "                   override that.\n"
    "    FLYT_NCCL      flyt (the default): the program uses Flyt's libnccl.so.2, which lets GPU servers exchange\n"
    "                   data directly; or its own, if the GPU server cannot do that. program: its own.\n"
    "    FLYT_NCCL_PROGRAM\n"
    "                   The file of the program's own libnccl.so.2, if it is to be that one.\n"
    "    CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER\n"
    "                   As with NVIDIA's driver.\n"
    "\n"
    "ENVIRONMENT OF THE PROGRAM\n"
    "    flyt-run changes these variables for PROGRAM:\n"
    "    LD_LIBRARY_PATH\n"
    "                   Begins with Flyt's folders.\n"
    "    LD_PRELOAD     Begins with Flyt's libcudart if the program has a DT_RPATH, which the system would search\n"
    "                   before LD_LIBRARY_PATH; with libflyt-nvrtc.so if the program compiles kernels; and with\n"
    "                   libnccl.so.2 for Python and for programs that are linked with NCCL, unless FLYT_NCCL says\n"
    "                   program.\n"
    "    ASAN_OPTIONS, TSAN_OPTIONS\n"
    "                   For programs built with these sanitizers: begin with verify_asan_link_order=0 (with\n"
    "                   LD_PRELOAD) and ignore_noninstrumented_modules=1.\n"
    "    PATH           Begins with a folder in which nvidia-smi is flyt-smi. Before that, for programs that compile\n"
    "                   kernels: a folder whose nvcc and ptxas produce PTX instead of machine code if the GPU is the\n"
    "                   software GPU.\n"
    "    TRITON_PTXAS_PATH, TRITON_PTXAS_BLACKWELL_PATH\n"
    "                   For the same programs: the ptxas of that folder. If the GPU is another one, it calls the\n"
    "                   program that the variable named before, or else Triton's own.\n"
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

/* Puts `first` in front of a variable that is a list of paths. 0, or -1. */
static int put_first(const char *variable, const char *first)
{
    char paths[4 * PATH_MAX];
    const char *before = getenv(variable);
    bool more = before && *before;
    int length = snprintf(paths, sizeof paths, "%s%s%s", first, more ? ":" : "", more ? before : "");
    if (length < 0 || (size_t)length >= sizeof paths) {
        fprintf(stderr, "flyt-run: %s is too long\n", variable);
        return -1;
    }
    return setenv(variable, paths, 1);
}

static int set_library_path(const char *folder)
{
    char path[2 * PATH_MAX + 16], library[PATH_MAX + 32];
    snprintf(library, sizeof library, "%s/libflyt-client.so", folder);
    if (access(library, R_OK)) {
        fprintf(stderr, "flyt-run: %s: %s; install Flyt's libraries beside flyt-run, or run make\n", library,
                strerror(errno));
        return -1;
    }
    snprintf(path, sizeof path, "%s/cudart:%s", folder, folder);
    return put_first("LD_LIBRARY_PATH", path);
}

/* The loader takes a library that is loaded already for the one that a program names: so the program's own path
   (DT_RPATH) is not searched for it. */
static int set_preload(const char *folder, const struct run_program *program)
{
    char library[PATH_MAX + 64];
    if (!program->rpath || !*program->runtime)
        return 0;
    snprintf(library, sizeof library, "%s/cudart/%s", folder, program->runtime);
    if (access(library, R_OK))
        return 0;                   /* a version that Flyt does not have */
    if (strpbrk(library, " :")) {
        fprintf(stderr,
                "flyt-run: warning: %s has a DT_RPATH, which hides Flyt's libraries, and LD_PRELOAD cannot name %s, "
                "since there is a space or colon in it. Put Flyt into another folder\n",
                program->path, library);
        return 0;
    }
    return put_first("LD_PRELOAD", library);
}

/* Triton does not look into PATH for ptxas. For other GPUs our ptxas calls the one that the user named before: `kept`
   has it. */
static int set_assembler(const char *variable, const char *kept, const char *compilers, const char *name)
{
    char path[PATH_MAX + 96];
    const char *before = getenv(variable);
    snprintf(path, sizeof path, "%s/%s", compilers, name);
    if (before && *before && strcmp(before, path) != 0 && setenv(kept, before, 1))
        return -1;
    return setenv(variable, path, 1);
}

/* Programs that stand for NVIDIA's compilers: nvcc and ptxas. */
static int set_compiler_programs(const char *folder)
{
    char compilers[PATH_MAX + 32];
    snprintf(compilers, sizeof compilers, "%s/compilers", folder);
    if (access(compilers, X_OK))
        return 0;
    if (put_first("PATH", compilers) || set_assembler("TRITON_PTXAS_PATH", "FLYT_PTXAS", compilers, "ptxas"))
        return -1;
    return set_assembler("TRITON_PTXAS_BLACKWELL_PATH", "FLYT_PTXAS_BLACKWELL", compilers, "ptxas-blackwell");
}

/* Programs that stand for NVIDIA's tools: nvidia-smi. */
static int set_tools(const char *folder)
{
    char tools[PATH_MAX + 32];
    snprintf(tools, sizeof tools, "%s/tools", folder);
    return access(tools, X_OK) ? 0 : put_first("PATH", tools);
}

/* FLYT_NVRTC: always, never, or, as it is without, for programs that look as if they compile kernels. */
static int set_compiler(const char *folder, const struct run_program *program)
{
    char library[PATH_MAX + 64];
    const char *when = getenv("FLYT_NVRTC");
    bool always = when && strcmp(when, "always") == 0, never = when && strcmp(when, "never") == 0;
    bool wanted = always || (program->compiles && !never);
    if (!wanted || program->foreign || program->no_loader || strstr(program->interpreter, "ld-musl"))
        return 0;
    snprintf(library, sizeof library, "%s/libflyt-nvrtc.so", folder);
    if (access(library, R_OK) || strpbrk(library, " :"))
        return 0;
    return put_first("LD_PRELOAD", library) || set_compiler_programs(folder) ? -1 : 0;
}

/* Unless FLYT_NCCL says program: Flyt's NCCL comes before the program's own, also where that is named by a DT_RPATH.
   Which of the two serves the program is decided there (cpu/client/nccl/choice.c). */
static int set_nccl(const char *folder, const struct run_program *program)
{
    char path[PATH_MAX + 32], library[PATH_MAX + 64];
    const char *whose = getenv("FLYT_NCCL");
    const bool said = whose && *whose;
    if (said && strcmp(whose, "program") == 0)
        return 0;
    if (said && strcmp(whose, "flyt") != 0) {
        fprintf(stderr, "flyt-run: FLYT_NCCL is flyt or program, not %s\n", whose);
        return -1;
    }
    snprintf(path, sizeof path, "%s/nccl", folder);
    snprintf(library, sizeof library, "%s/libnccl.so.2", path);
    if (access(library, R_OK)) {
        if (said)
            fprintf(stderr, "flyt-run: FLYT_NCCL=flyt: %s: %s\n", library, strerror(errno));
        return said ? -1 : 0;
    }
    bool loads = !program->foreign && !program->no_loader && !strstr(program->interpreter, "ld-musl");
    if (program->nccl && loads && !strpbrk(library, " :") && put_first("LD_PRELOAD", library))
        return -1;
    return put_first("LD_LIBRARY_PATH", path);
}

/* One line for a program that Flyt's libraries cannot be loaded into. It is started all the same: it may be no CUDA
   program, or start others that Flyt can serve. */
static void warn(const struct run_program *program)
{
    const char *why = NULL, *advice = NULL;
    if (program->foreign) {
        why = "is not a program for 64-bit x86";
        advice = "Build it for x86-64";
    } else if (program->no_loader) {
        why = "is fully static (linked with -static)";
        advice = "Link it without -static";
    } else if (strstr(program->interpreter, "ld-musl")) {
        why = "was built for musl (Alpine Linux)";
        advice = "Build it on a system with glibc, such as Debian";
    } else if (program->privileged) {
        why = "runs with other rights than yours (setuid, setgid or file capabilities)";
        advice = "Run a copy without them, or give Flyt's libraries to all programs: sudo make install-client-lib. "
                 "Your FLYT_ variables do not count there: the machine's configuration names the server";
    }
    if (why)
        fprintf(stderr, "flyt-run: warning: %s %s, so Flyt's libraries cannot be loaded into it. %s\n", program->path,
                why, advice);
}

/* A warning too: the program may do without a GPU. */
static void warn_of_libraries(const struct run_program *program, const struct loader_view *view)
{
    if (*view->problem && !program->foreign && !program->no_loader && !strstr(program->interpreter, "ld-musl"))
        fprintf(stderr,
                "flyt-run: warning: Flyt's libraries cannot be loaded here, so the program finds no GPU: %s. They need "
                "glibc 2.31 or newer, and all files that lie beside flyt-run\n",
                view->problem);
}

/* AddressSanitizer wants to be the first library, so that no other one takes its functions; ours take none of them.
   ThreadSanitizer must not look for races in libraries that it has not compiled: it sees their accesses and not what
   orders them. */
static int set_sanitizers(const struct run_program *program)
{
    if (program->asan && getenv("LD_PRELOAD") && put_first("ASAN_OPTIONS", "verify_asan_link_order=0"))
        return -1;
    return program->tsan ? put_first("TSAN_OPTIONS", "ignore_noninstrumented_modules=1") : 0;
}

/* What was set, and, unless the user chose another level, what the program's Flyt has to say. */
static int say_what_is_set(void)
{
    static const char *const names[] = { "FLYT_SERVER", "LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "FLYT_SOFTGPU_CC" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (getenv(names[i]))
            fprintf(stderr, "flyt-run: %s=%s\n", names[i], getenv(names[i]));
    return setenv("FLYT_LOG", "info", 0);
}

static int explain_failure(const char *name, const struct run_program *program, int error)
{
    struct stat is;
    char here[PATH_MAX];
    snprintf(here, sizeof here, "./%s", name);
    if (error == ENOENT && *program->path && *program->interpreter)
        fprintf(stderr, "flyt-run: %s: it is started by %s, which is not there\n", name, program->interpreter);
    else if (error == ENOENT && !strchr(name, '/') && access(here, X_OK) == 0)
        fprintf(stderr, "flyt-run: %s: not found in PATH; for the file in this folder say %s\n", name, here);
    else if (error == EACCES && strchr(name, '/') && stat(name, &is) == 0 && S_ISDIR(is.st_mode))
        fprintf(stderr, "flyt-run: %s: it is a folder\n", name);
    else if (error == EACCES && strchr(name, '/') && stat(name, &is) == 0 && !(is.st_mode & 0111))
        fprintf(stderr, "flyt-run: %s: the file is not executable; if it is a program, chmod +x makes it so\n", name);
    else
        fprintf(stderr, "flyt-run: %s: %s\n", name, strerror(error));
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

/* flyt-smi, which lies beside this program, knows. */
static int show_status(int count, char **arguments)
{
    char folder[PATH_MAX], path[PATH_MAX + 16];
    bool json = count == 1 && strcmp(arguments[0], "--json") == 0;
    if (count && !json)
        return usage("--status stands alone, or with --json behind it", NULL);
    if (own_folder(folder)) {
        fprintf(stderr, "flyt-run: cannot find its own folder (/proc/self/exe): %s\n", strerror(errno));
        return EXIT_USAGE;
    }
    snprintf(path, sizeof path, "%s/flyt-smi", folder);
    execl(path, "flyt-smi", "status", json ? "--json" : NULL, (char *)NULL);
    fprintf(stderr, "flyt-run: %s: %s; install it beside flyt-run, or run make\n", path, strerror(errno));
    return EXIT_NOT_EXECUTABLE;
}

int main(int argc, char **argv)
{
    static struct run_program program;
    static struct loader_view view;
    char folder[PATH_MAX];
    int at = 1;
    bool verbose = false;
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
            printf("flyt-run %s\n", flyt_version);
            return fflush(stdout) ? EXIT_USAGE : 0;
        }
        if (strcmp(option, "--status") == 0)
            return show_status(argc - at - 1, argv + at + 1);
        if (strcmp(option, "--stats") == 0)
            setenv("FLYT_STATS", "1", 1);
        else if (strcmp(option, "--verbose") == 0)
            verbose = true;
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
    if (own_folder(folder)) {
        fprintf(stderr, "flyt-run: cannot find its own folder (/proc/self/exe): %s\n", strerror(errno));
        return EXIT_USAGE;
    }
    program_read(argv[at], &program);
    if (set_library_path(folder))
        return EXIT_USAGE;
    loader_look(&program, folder, &view);
    program.compiles |= view.compiles;
    program.nccl |= view.nccl;
    if (set_tools(folder) || set_preload(folder, &program) || set_compiler(folder, &program) ||
        set_nccl(folder, &program) || set_sanitizers(&program))
        return EXIT_USAGE;
    warn(&program);
    warn_of_libraries(&program, &view);
    if (verbose && say_what_is_set())
        return EXIT_USAGE;
    execvp(argv[at], argv + at);
    return explain_failure(argv[at], &program, errno);
}
