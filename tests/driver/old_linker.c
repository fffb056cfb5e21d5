/* old_linker.c: what programs.py takes for the nvJitLink of CUDA 12.9: it gives an internal error for architectures
 * that came after it, says so on stderr, and links nothing itself. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { OK = 0, INTERNAL = 6, NEWEST = 121 };

int nvJitLinkVersion(unsigned *major, unsigned *minor)
{
    *major = 12;
    *minor = 9;
    return OK;
}

int nvJitLinkCreate(void **handle, uint32_t count, const char *const *options)
{
    int architecture = 0;
    for (uint32_t i = 0; i < count; i++)
        if (sscanf(options[i], "-arch=sm_%d", &architecture) != 1)
            sscanf(options[i], "-arch=compute_%d", &architecture);
    if (architecture > NEWEST)
        fprintf(stderr, "fatal   : Internal error: couldn't initialize arch state\n");
    *handle = malloc(1);
    return architecture > NEWEST ? INTERNAL : OK;
}

int nvJitLinkDestroy(void **handle)
{
    free(*handle);
    *handle = NULL;
    return OK;
}

static int none(void) { return INTERNAL; }
#define NONE(name) int name(void) __attribute__((alias("none")))
NONE(nvJitLinkAddData);
NONE(nvJitLinkAddFile);
NONE(nvJitLinkComplete);
NONE(nvJitLinkGetLinkedCubinSize);
NONE(nvJitLinkGetLinkedCubin);
NONE(nvJitLinkGetLinkedPtxSize);
NONE(nvJitLinkGetLinkedPtx);
NONE(nvJitLinkGetErrorLogSize);
NONE(nvJitLinkGetErrorLog);
NONE(nvJitLinkGetInfoLogSize);
NONE(nvJitLinkGetInfoLog);
