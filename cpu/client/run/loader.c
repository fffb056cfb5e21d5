/* loader.c: see loader.h. ld.so lists a line per library: "name => path (address)", "name => not found". */
#include "cpu/client/run/loader.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usual_loader[] = "/lib64/ld-linux-x86-64.so.2";
enum { LISTING = 256 * 1024, LOOKED_AT_MOST = 32 << 20 };

/* ---- asking ---- */

/* What the loader prints for `object`, and for `preload` with it if that is not NULL. The caller frees it. NULL: it
   cannot be asked. */
static char *listing(const char *loader, const char *object, const char *preload)
{
    int ends[2];
    char *text = malloc(LISTING);
    if (!text || pipe2(ends, O_CLOEXEC)) {
        free(text);
        return NULL;
    }
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        unsetenv("LD_PRELOAD");
        unsetenv("LD_AUDIT");
        unsetenv("LD_DEBUG");
        if (preload)
            setenv("LD_PRELOAD", preload, 1);
        execl(loader, loader, "--list", object, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t size = 0;
    for (ssize_t got = 1; pid > 0 && got > 0 && size < LISTING - 1; size += got > 0 ? (size_t)got : 0)
        got = read(ends[0], text + size, LISTING - 1 - size);
    close(ends[0]);
    text[size] = 0;
    int status = 127 << 8;
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        ;
    if (pid > 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 127 && !size))
        return text;
    free(text);
    return NULL;
}

/* ---- what a file knows ---- */

static bool contains(const char *bytes, size_t size, const char *name)
{
    return memmem(bytes, size, name, strlen(name)) != NULL;
}

/* A program that opens a compiler itself has the names of the functions that it asks for. */
static bool names_compilers(const char *path)
{
    struct stat is;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool small = fd >= 0 && fstat(fd, &is) == 0 && S_ISREG(is.st_mode) && is.st_size && is.st_size <= LOOKED_AT_MOST;
    size_t size = small ? (size_t)is.st_size : 0;
    char *bytes = small ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (bytes == MAP_FAILED)
        return false;
    bool found = contains(bytes, size, "nvrtcCompileProgram") || contains(bytes, size, "nvJitLinkCreate") ||
                 contains(bytes, size, "nvvmCompileProgram");
    munmap(bytes, size);
    return found;
}

/* Large libraries that nearly every program has. */
static bool is_of_the_system(const char *name)
{
    static const char *const known[] = { "ld-linux", "libc.so.", "libm.so.", "libstdc++.so.", "libgcc_s.so.",
                                         "libpthread.so.", "libdl.so.", "librt.so.", "libanl.so.", "libcuda.so." };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strncmp(name, known[i], strlen(known[i])) == 0)
            return true;
    return false;
}

/* ---- the listing ---- */

static bool is_problem(const char *text)
{
    return strstr(text, "not found") || strstr(text, "error while loading");
}

/* The lines that name a problem, without their indents, separated by "; ". */
static void collect_problems(char *text, char *out, size_t size)
{
    size_t used = 0;
    for (char *rest = NULL, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        line += strspn(line, " \t");
        int length = is_problem(line) ? snprintf(out + used, size - used, "%s%s", used ? "; " : "", line) : 0;
        if (length < 0 || (size_t)length >= size - used)
            return;
        used += (size_t)length;
    }
}

static bool listed_compilers(const char *text, const char *folder)
{
    char line[PATH_MAX + 256];
    for (const char *at = text; *at; at += *at == '\n') {
        char *path;
        at += strspn(at, "\t ");
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        at += strcspn(at, "\n");
        if (strncmp(line, "libnvrtc.so.", 12) == 0 || strncmp(line, "libnvJitLink.so.", 16) == 0 ||
            strncmp(line, "libnvvm.so.", 11) == 0)
            return true;
        if (is_of_the_system(line) || !(path = strstr(line, " => /")))
            continue;
        path += strlen(" => ");
        path[strcspn(path, " ")] = 0;
        if (strncmp(path, folder, strlen(folder)) != 0 && names_compilers(path))
            return true;
    }
    return false;
}

void loader_look(const struct run_program *program, const char *folder, struct loader_view *view)
{
    char library[PATH_MAX + 32];
    bool dynamic = strstr(program->interpreter, "ld-linux") != NULL;
    const char *loader = dynamic ? program->interpreter : usual_loader;
    memset(view, 0, sizeof *view);
    snprintf(library, sizeof library, "%s/cudart/libcuda.so.1", folder);
    char *text = dynamic ? listing(loader, program->path, strpbrk(library, " :") ? NULL : library) : NULL;
    view->nccl = text && strstr(text, "libnccl.so.");
    if (text)
        view->compiles = listed_compilers(text, folder) || names_compilers(program->path);
    /* A problem may be the program's own, which the loader reports when it starts. */
    if (!text || is_problem(text) || strpbrk(library, " :")) {
        free(text);
        text = listing(loader, library, NULL);
        if (text && is_problem(text))
            collect_problems(text, view->problem, sizeof view->problem);
    }
    free(text);
}
