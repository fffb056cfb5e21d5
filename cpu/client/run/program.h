/*
 * program.h: what flyt-run can see of a program before it starts it.
 *
 * Flyt serves a program through libraries that the dynamic loader of glibc loads into it. Some programs keep that
 * loader from doing so; without a word from flyt-run their user would see NVIDIA's message about a missing driver,
 * or none.
 */
#ifndef FLYT_RUN_PROGRAM_H
#define FLYT_RUN_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

struct run_program {
    char path[PATH_MAX];            /* the file that execvp will run; "" if there is none */
    bool privileged;                /* setuid, setgid or with capabilities: the loader ignores LD_LIBRARY_PATH */
    bool foreign;                   /* not for x86-64 */
    bool no_loader;                 /* linked with -static */
    bool asan, tsan;                /* it was built with that sanitizer, by gcc or by clang */
    bool rpath;                     /* has a DT_RPATH, which the loader searches before LD_LIBRARY_PATH */
    char interpreter[PATH_MAX];     /* of a script or of a dynamic program; "" if it has none */
    bool compiles;                  /* it may compile kernels: linked with NVRTC, nvJitLink or NVVM, or Python */
    bool nccl;                      /* it may bring an NCCL that no LD_LIBRARY_PATH hides: linked with one, or Python */
    char runtime[32];               /* the CUDA runtime that it was linked with, such as "libcudart.so.12"; or "" */
};

/* Finds the program as execvp does, and reads its head. What cannot be read stays empty: execvp says what is wrong. */
void program_read(const char *name, struct run_program *);

#endif
