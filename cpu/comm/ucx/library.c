/* library.c: see library.h. */
#include "cpu/comm/ucx/library.h"

#include "cpu/rpc/transport/channel.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

static const struct { const char *name; size_t at; } functions[] = {
#define ONE(name) { #name, offsetof(struct ucx_library, name) },
    UCX_FUNCTIONS(ONE)
#undef ONE
};

/* UCX takes these signals for its own reports of crashes when it is loaded. They are the program's. */
static const int signals[] = { SIGILL, SIGSEGV, SIGBUS, SIGFPE };
enum { SIGNALS = sizeof signals / sizeof *signals };

static void *open_library(void)
{
    struct sigaction before[SIGNALS];
    bool keep = !getenv("UCX_HANDLE_ERRORS");
    for (int i = 0; i < SIGNALS; i++)
        sigaction(signals[i], NULL, &before[i]);
    void *opened = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
    for (int i = 0; keep && i < SIGNALS; i++)
        sigaction(signals[i], &before[i], NULL);
    return opened;
}

/* UCX reports on stdout, which is the program's. What matters to a link comes as a status. */
static void be_silent(void *opened)
{
    ucs_status_t (*set)(const char *name, const char *value);
    *(void **)&set = dlsym(opened, "ucs_global_opts_set_value");
    if (set && !getenv("UCX_LOG_LEVEL"))
        set("LOG_LEVEL", "fatal");
}

static bool load(struct ucx_library *library, char *error)
{
    void *opened = open_library();
    if (!opened) {
        rpc_explain(error, 0, "links by UCX: %s (Debian and Ubuntu: apt-get install libucx0)", dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(opened, functions[i].name);
        if (!found) {
            rpc_explain(error, 0, "links by UCX: libucp.so.0 has no %s: it is older than 1.13", functions[i].name);
            return false;
        }
        *(void **)((char *)library + functions[i].at) = found;
    }
    be_silent(opened);
    return true;
}

const struct ucx_library *ucx_library(char *error)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct ucx_library library;
    static bool there;
    pthread_mutex_lock(&lock);
    if (!there)
        there = load(&library, error);
    pthread_mutex_unlock(&lock);
    return there ? &library : NULL;
}
