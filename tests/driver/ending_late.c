/* ending_late.c LIBRARY: initialises the driver, and then loads a library that has NVIDIA's static runtime, and that
   starts work that never ends. */
#include <dlfcn.h>
#include <stdio.h>

#include <cuda.h>

int main(int argc, char **argv)
{
    if (cuInit(0) != CUDA_SUCCESS || argc < 2)
        return 1;
    void *library = dlopen(argv[1], RTLD_NOW);
    int (*late)(void) = library ? (int (*)(void))dlsym(library, "late") : NULL;
    if (!late) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    return late();
}
