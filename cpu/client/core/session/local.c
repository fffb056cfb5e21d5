/* local.c: FLYT_SERVER=local:[gpu] runs the server's session code in this process (libflyt-server.so). */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "cpu/client/core/api_session.h"
#include "cpu/common/clock.h"
#include "cpu/common/env.h"
#include "cpu/server/listener/local.h"
#include "attach.h"

enum { LOCAL_END_MS = 1000 };

static struct flyt_server_local *local_server;
static flyt_server_local_end_function *local_end;

/* libflyt-server.so beside the file that holds this function; else by the linker's search path. */
static void *local_library(char *error)
{
    Dl_info here;
    char path[4096];
    void *library = NULL;
    if (dladdr((void *)(uintptr_t)core_attach, &here) && here.dli_fname) {
        const char *slash = strrchr(here.dli_fname, '/');
        int folder = slash ? (int)(slash - here.dli_fname + 1) : 0;
        snprintf(path, sizeof path, "%.*slibflyt-server.so", folder, here.dli_fname);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    if (!library)
        library = dlopen("libflyt-server.so", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        snprintf(error, RPC_ERROR_SIZE, "%s", dlerror());
    return library;
}

int local_open(const char *gpu, rpc_channel **out, char *error)
{
    void *library = local_library(error);
    if (!library)
        return -1;
    flyt_server_local_function *start;
    *(void **)&start = dlsym(library, "flyt_server_local");
    *(void **)&local_end = dlsym(library, "flyt_server_local_end");
    if (!start || !local_end) {
        snprintf(error, RPC_ERROR_SIZE, "libflyt-server.so lacks flyt_server_local; it is of another version");
        return -1;
    }
    env_share(library);
    rpc_channel *pair[2];
    if (rpc_channel_pair(pair, error) < 0)
        return -1;
    if (start(pair[1], gpu, &local_server, error) < 0) {
        rpc_channel_destroy(pair[0]);
        return -1;
    }
    *out = pair[0];
    return 0;
}

static sem_t ended;

static void *close_run(void *unused)
{
    local_end(local_server);
    sem_post(&ended);
    return unused;
}

/* The server gives everything back, but a kernel that runs for ever must not keep the process from ending. */
void local_close(void)
{
    pthread_t thread;
    if (!local_server || sem_init(&ended, 0, 0) || pthread_create(&thread, NULL, close_run, NULL))
        return;
    pthread_detach(thread);
    struct timespec until = clock_timespec(clock_now() + LOCAL_END_MS * CLOCK_NS_PER_MS);
    while (sem_clockwait(&ended, CLOCK_MONOTONIC, &until) && errno == EINTR)
        ;
}
