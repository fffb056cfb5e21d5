#include "isolated.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

void isolated_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
    fflush(NULL);
    _exit(99);
}

/* The folder and the files in it. */
static void folder_remove(const char *path)
{
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        closedir(folder);
    rmdir(path);
}

int isolated_output(void (*test)(void), unsigned limit, char *output, unsigned long size)
{
    char folder[] = "/tmp/flyt-test-XXXXXX";
    int ends[2];
    fflush(NULL);
    if (!mkdtemp(folder) || pipe2(ends, O_CLOEXEC))
        return -1;
    pid_t child = fork();
    if (!child) {
        alarm(limit);
        setenv("TEST_FOLDER", folder, 1);
        if (output) {
            dup2(ends[1], 1);
            dup2(ends[1], 2);
        }
        close(ends[0]);
        close(ends[1]);
        test();
        exit(0);
    }
    close(ends[1]);
    unsigned long at = 0;
    ssize_t got;
    while (output && at + 1 < size && (got = read(ends[0], output + at, size - 1 - at)) > 0)
        at += (unsigned long)got;
    if (output)
        output[at] = 0;
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    folder_remove(folder);
    if (output && status)
        fprintf(stderr, "%s", output);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int isolated(void (*test)(void), unsigned limit)
{
    return isolated_output(test, limit, NULL, 0);
}
