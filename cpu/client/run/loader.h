/*
 * loader.h: what the system's loader (ld.so) says of a program and of Flyt's libraries, before the program is started.
 *
 * A program that opens libcuda.so.1 itself (NVIDIA's static runtime does) takes a library that cannot be loaded for a
 * machine without a driver, and goes on without a GPU. So the loader is asked first, as ldd asks it: it maps what is
 * needed, lists it, and ends.
 */
#ifndef FLYT_RUN_LOADER_H
#define FLYT_RUN_LOADER_H

#include "cpu/client/run/program.h"

struct loader_view {
    char problem[1024];             /* why Flyt's libcuda.so.1 cannot be loaded; "": it can, or nobody could be asked */
    bool compiles;                  /* the program, or a library of it, knows NVRTC, nvJitLink or NVVM */
    bool nccl;                      /* the program, or a library of it, is linked with NCCL */
};

/* folder: where flyt-run and the libraries lie. LD_LIBRARY_PATH is set already. */
void loader_look(const struct run_program *, const char *folder, struct loader_view *);

#endif
