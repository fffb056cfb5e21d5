/* symbols.h: what symbols.awk makes. It must not include cuda.h: the weak definitions have no parameters. */
#ifndef SOFTGPU_DRIVER_SYMBOLS_H
#define SOFTGPU_DRIVER_SYMBOLS_H

#include <stddef.h>

struct sgd_symbol {
    const char *name;                    /* as cuGetProcAddress is asked */
    int version;                         /* the first CUDA version where it means this */
    int per_thread;                      /* the per-thread default stream's variant */
    void (*address)(void);
};
extern const struct sgd_symbol sgd_symbols[];
extern const size_t sgd_symbol_count;

int sgd_unsupported(const char *name);   /* says so once; CUDA_ERROR_NOT_SUPPORTED */

#endif
