/* local.c: see local.h. */
#include "cpu/server/listener/local.h"

#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "cpu/server/session.h"

#define LOCAL_API __attribute__((visibility("default")))

struct flyt_server_local {
    struct session *session;
    pthread_t thread;
};

static void *local_main(void *context)
{
    struct flyt_server_local *local = context;
    fesetenv(FE_DFL_ENV); /* for every thread of the session: kernels must not round or trap as the program does */
    session_run(local->session);
    return NULL;
}

LOCAL_API int flyt_server_local(rpc_channel *channel, const char *gpu, struct flyt_server_local **out, char *error)
{
    struct session_options options = { .in_process = true, .host_memory = host_memory_default() };
    char why[GPU_ERROR_SIZE];
    if (gpu_open(gpu, &options.gpu, why) < 0) {
        snprintf(error, RPC_ERROR_SIZE, "%s", why);
        rpc_channel_destroy(channel);
        return -ENODEV;
    }
    struct flyt_server_local *local = calloc(1, sizeof *local);
    if (!local) {
        snprintf(error, RPC_ERROR_SIZE, "no memory for a server in this process");
        rpc_channel_destroy(channel);
        return -ENOMEM;
    }
    int r = session_create(channel, &options, &local->session, error);
    if (r == 0) {
        sigset_t all, old;
        sigfillset(&all);
        sigdelset(&all, SIGSEGV);                         /* the reader may run kernels, which may have them */
        sigdelset(&all, SIGBUS);
        sigdelset(&all, SIGFPE);
        sigdelset(&all, SIGILL);
        pthread_sigmask(SIG_SETMASK, &all, &old);         /* inherited by every thread of the session */
        r = -pthread_create(&local->thread, NULL, local_main, local);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        if (r != 0) {
            snprintf(error, RPC_ERROR_SIZE, "a thread for the server in this process cannot be started");
            session_destroy(local->session);
        }
    }
    if (r != 0) {
        free(local);
        return r;
    }
    *out = local;
    return 0;
}

LOCAL_API void flyt_server_local_end(struct flyt_server_local *local)
{
    if (!local)
        return;
    pthread_join(local->thread, NULL);
    session_destroy(local->session);
    free(local);
}
