/*
 * functions.h: that NVML's functions are exported, and what the files that have them share. NVML's types are declared
 * in these files, as its documentation gives them; its header is not needed to build. names.txt lists all functions of
 * that header (of NVML 13; names.awk made it); stubs.awk makes one that returns NVML_ERROR_NOT_SUPPORTED of each that
 * is not here.
 */
#ifndef FLYT_CLIENT_NVML_FUNCTIONS_H
#define FLYT_CLIENT_NVML_FUNCTIONS_H

#include <time.h>

#pragma GCC visibility push(default)
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* Copies text to a caller's buffer: 0, 2 or 7. */
__attribute__((visibility("hidden"))) int nvml_text(char *out, unsigned size, const char *text);

#endif
