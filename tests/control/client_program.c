/*
 * client_program.c [MIB [hide]]: a program that uses a GPU, for tests: attaches, takes MIB of memory (1), says
 * "attached", waits for a line on stdin, uses the GPU again, says "done". hide: when it has attached, it shuts the
 * socket to its client manager, and says "hidden" in place of "attached". Exit status: 0; 1 the first use failed; 2 a
 * later one did.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "cpu/client/core/core.h"

/* Its connections to this unix socket. */
static void shut(const char *path)
{
    enum { MOST = 1024 };
    for (int fd = 3; fd < MOST; fd++) {
        struct sockaddr_un peer = { .sun_family = AF_UNSPEC };
        socklen_t size = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.sun_family == AF_UNIX &&
            strcmp(peer.sun_path, path) == 0)
            shutdown(fd, SHUT_RDWR);
    }
}

int main(int argc, char **argv)
{
    size_t size = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1) << 20;
    char line[64];
    uint64_t address;
    core_context *context = core_context_primary(0);
    int code = core_attach();
    if (!code)
        code = core_context_retain(context);
    if (!code)
        code = core_memory_allocate(context, size, &address);
    if (code) {
        printf("not attached: %d\n", code);
        return 1;
    }
    size_t unused, total;
    if (argc == 2 && core_memory_info(context, &unused, &total) == 0)
        printf("%zu of %zu MiB free\n", unused >> 20, total >> 20);
    const char *manager = getenv("FLYT_MANAGER");
    bool hides = argc > 2 && manager;
    if (hides)
        shut(strncmp(manager, "unix://", 7) == 0 ? manager + 7 : manager);
    puts(hides ? "hidden" : "attached");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        line[0] = '\0';
    unsigned char out[256] = { 0 }, in[256];
    memset(in, 0x5a, sizeof in);
    void *device = (void *)(uintptr_t)address;
    code = core_copy(context, 0, device, in, sizeof in, CORE_HOST_TO_DEVICE, true);
    if (!code)
        code = core_copy(context, 0, out, device, sizeof out, CORE_DEVICE_TO_HOST, true);
    if (!code)
        code = core_context_synchronize(context);
    if (code || memcmp(in, out, sizeof in) != 0) {
        printf("failed: %d\n", code);
        return 2;
    }
    puts("done");
    return 0;
}
