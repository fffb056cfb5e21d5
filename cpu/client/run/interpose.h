/*
 * interpose.h: libflyt-nvrtc.so, which flyt-run preloads into programs that compile or link kernels at run time
 * (CuPy, Numba …). NVIDIA's compilers and linkers make machine code of the device's architecture. The software GPU
 * has none: it executes PTX. So where the device is one, they are asked for PTX, and the program gets the PTX when
 * it asks for machine code; cuModuleLoadData takes either. With any other device nothing is changed.
 * It also answers for files that such programs look for (files.c).
 */
#ifndef FLYT_CLIENT_RUN_INTERPOSE_H
#define FLYT_CLIENT_RUN_INTERPOSE_H

#include <stdbool.h>
#include <stddef.h>

#define EXPORTED __attribute__((visibility("default")))

typedef void (*any_function)(void);
typedef any_function dlsym_function(void *, const char *);

dlsym_function *real_dlsym(void);

/* A library whose functions are interposed. A process may have several copies of it: each object that is linked with
   one uses that one. Of those that the process asks with dlsym, one is served; the functions of a second one are its
   own. */
struct interposed {
    const char *prefix; /* of its functions' names, and behind "lib" of the library's */
    const struct interposed_function {
        const char *name;
        any_function function;
    } * functions;
    size_t count;
    any_function missing;  /* returns the library's code for an internal error, whatever its arguments are */
    bool linked;           /* the program was started with it: it comes behind libflyt-nvrtc.so in the global scope */
    void *_Atomic library; /* the one that dlsym was asked for; NULL: none */
};
extern struct interposed interposed_nvrtc, interposed_nvvm, interposed_jitlink;

/* Every function that programs call begins with this. It notes who calls, for interposed_original. */
#define INTERPOSED_ENTER() (interposed_caller = __builtin_return_address(0))
extern _Thread_local const void *interposed_caller;

/* The function of the library that the caller uses; if that copy of the library lacks it, the function `missing`. */
any_function interposed_original(struct interposed *, const char *name);
/* The function of the library that the caller uses; NULL if the library lacks it. */
any_function interposed_known(struct interposed *, const char *name);

/* The compute capability of a software GPU, such as 99; 0: the device has machine code, or there is none. */
int software_gpu(void);
/* A function of libcuda.so.1; NULL: there is none. */
any_function driver_function(const char *name);

/* The architecture in "sm_120", "compute_90a"; 0: it is none. */
int architecture_number(const char *text);
/* The text after "-arch=" or "--gpu-architecture=", or of the option behind "-arch"; NULL: it is no such option. */
const char *architecture_option(const char *const *options, int number, int *prefix_length);

/* The bound of registers that the options say (-maxrregcount and its other forms), as NVIDIA's assembler takes it; 0:
   none. */
unsigned registers_option(const char *const *options, unsigned count);

/* Makes the text, PTX of a compiler that is newer than the software GPU, PTX of the newest version that this one
   knows. NVIDIA's GPUs get machine code of such a compiler, so its version does not matter there. An instruction that
   is new is still an error when the kernel is loaded. */
void lower_ptx_version(char *text, size_t size);

#endif
