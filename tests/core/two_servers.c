/* two_servers.c: see two_servers.h. */
#include "two_servers.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t servers[2];
char server_uris[2][128];
static char sockets[2][64];

static int server_start(int number, const char *kind, const char *program)
{
    char listen[128];
    int ends[2];
    snprintf(sockets[number], sizeof sockets[number], "/tmp/flyt-test-moves-%d-%d.sock", (int)getpid(), number);
    if (strcmp(kind, "tcp") == 0 || (strcmp(kind, "mixed") == 0 && number))
        snprintf(listen, sizeof listen, "tcp://127.0.0.1:0");
    else
        snprintf(listen, sizeof listen, "unix://%s", sockets[number]);
    if (pipe(ends))
        return -1;
    servers[number] = fork();
    if (!servers[number]) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        execl(program, program, "--listen", listen, "--gpu", "software", NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *said = fdopen(ends[0], "r");
    char line[256];
    return said && fgets(line, sizeof line, said) && sscanf(line, "listening on %127s", server_uris[number]) == 1 ? 0
                                                                                                                  : -1;
}

int two_servers_start(const char *kind, const char *program)
{
    if (strcmp(kind, "mixed") == 0)
        setenv("FLYT_PERF", "no_shm", 1);     /* page-locked memory that is shared does not move to where none is */
    return server_start(0, kind, program) || server_start(1, kind, program) || setenv("FLYT_SERVER", server_uris[0], 1);
}

void two_servers_end(void)
{
    for (int i = 0; i < 2; i++) {
        kill(servers[i], SIGTERM);
        waitpid(servers[i], NULL, 0);
        unlink(sockets[i]);
        unlink(strncat(sockets[i], ".lock", 6));
    }
}
