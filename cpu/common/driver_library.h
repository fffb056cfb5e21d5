/*
 * driver_library.h: loads the real CUDA driver, libcuda.so.1, on the side that has the GPU.
 *
 * Flyt's client side has a library of the same name, for programs. A shell whose LD_LIBRARY_PATH was set for programs
 * (flyt-run does it, and docs/setup.md shows it) would lead the server to that one. The server never uses it as
 * a driver, except for tests with FLYT_TEST_CHAIN=1. There the server uses a second server in place of an NVIDIA GPU,
 * so the tests need no GPU to run the server's code for NVIDIA's driver.
 */
#ifndef FLYT_COMMON_DRIVER_LIBRARY_H
#define FLYT_COMMON_DRIVER_LIBRARY_H

#include <stddef.h>

/* The name that every libcuda.so.1 of Flyt exports, and that no other has. */
#define DRIVER_LIBRARY_OURS "flyt_libcuda"

/* dlopen's handle of the driver: of the first libcuda.so.1 in the library path; when that is Flyt's, of one in the
   usual folders. NULL: there is none, and a sentence is in error (size bytes; 0: error may be NULL). */
void *driver_library_open(char *error, size_t size);

#endif
