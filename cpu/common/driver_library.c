/* driver_library.c: see driver_library.h. */
#include "cpu/common/driver_library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char name[] = "libcuda.so.1";

/* Where distributions, NVIDIA's installer, containers, WSL and NixOS put the driver. An absolute path is searched
   without LD_LIBRARY_PATH. */
static const char *const usual[] = {
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib64/libcuda.so.1",       "/usr/lib/libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",   "/usr/lib/wsl/lib/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1",
};

static bool is_ours(void *library)
{
    /* Tests chain two servers: program, Flyt, Flyt, software GPU. */
    const char *chain = secure_getenv("FLYT_TEST_CHAIN");
    if (chain && strcmp(chain, "1") == 0)
        return false;
    /* core_attach: a front end on the client core, which dlsym finds in what the library was linked with. */
    return dlsym(library, DRIVER_LIBRARY_OURS) || dlsym(library, "flyt_core_attach");
}

void *driver_library_open(char *error, size_t size)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(error, size, "cannot load the driver: %s. Install NVIDIA's driver, or use the software GPU",
                 dlerror());
        return NULL;
    }
    if (!is_ours(library))
        return library;
    dlclose(library);
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        library = dlopen(usual[i], RTLD_NOW | RTLD_LOCAL);
        if (library && !is_ours(library))
            return library;
        if (library)
            dlclose(library);
    }
    snprintf(error, size,
             "the %s in LD_LIBRARY_PATH is Flyt's own, which is for programs, and no driver is in the usual folders."
             " Install NVIDIA's driver",
             name);
    return NULL;
}
