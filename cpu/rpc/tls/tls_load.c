/*
 * tls_load.c: the way to TLS for those who may never need it. A program that links channel_tls.o uses that; any other
 * loads libflyt-tls.so at its first tls:// address. So OpenSSL is not brought into every CUDA program, which may have
 * its own, and a Flyt without TLS runs where there is no OpenSSL.
 */
#include "cpu/rpc/transport/channel.h"
#include "cpu/rpc/tls/channel_tls.h"

#include "cpu/common/env.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern rpc_tls_connect_function rpc_channel_tls_connect __attribute__((weak));

/* Beside the file that holds this function, as everything of Flyt; else by the linker's search path. Never unloaded. */
void *rpc_tls_symbol(const char *name, char *error)
{
    Dl_info here;
    char path[4096];
    void *library = NULL;
    if (dladdr((void *)(uintptr_t)rpc_tls_load_connect, &here) && here.dli_fname) {
        const char *slash = strrchr(here.dli_fname, '/');
        int folder = slash ? (int)(slash - here.dli_fname + 1) : 0;
        snprintf(path, sizeof path, "%.*slibflyt-tls.so", folder, here.dli_fname);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    if (!library)
        library = dlopen("libflyt-tls.so", RTLD_NOW | RTLD_LOCAL);
    if (library)
        env_share(library);
    void *symbol = library ? dlsym(library, name) : NULL;
    if (!symbol)
        rpc_explain(error, 0, "TLS is not to be had here: %s (libflyt-tls.so of Flyt is needed)",
                    dlerror());
    return symbol;
}

static rpc_tls_connect_function *load(char *error)
{
    rpc_tls_connect_function *connect;
    *(void **)&connect = rpc_tls_symbol("rpc_channel_tls_connect", error);
    return connect;
}

int rpc_tls_load_connect(int fd, const struct rpc_address *address, const struct rpc_tls_files *files,
                         uint64_t deadline, rpc_channel **out, char *error)
{
    rpc_tls_connect_function *connect = rpc_channel_tls_connect ? rpc_channel_tls_connect : load(error);
    if (connect)
        return connect(fd, address, files, deadline, out, error);
    close(fd);
    return -ELIBACC;
}

int rpc_tls_check_client(const char *uri, const struct rpc_address *address, const struct rpc_tls_files *files,
                         char *error)
{
    if (!*address->pin && !files->ca)
        return rpc_explain(
            error, -EINVAL,
            "%s: nothing says how to know the server: use the address that the server prints, which ends in "
            "?sha256=…, or name the authority of its certificate with FLYT_TLS_CA=FILE",
            uri);
    if (!files->certificate != !files->key)
        return rpc_explain(error, -EINVAL,
                           "%s: FLYT_TLS_CERTIFICATE and FLYT_TLS_KEY belong together: give both or none", uri);
    return 0;
}
