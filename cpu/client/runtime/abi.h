/*
 * abi.h: the binary interface of the CUDA Runtime, as generated from cpu/api for one major version.
 *
 * These sources are compiled once per major version, with FLYT_CUDART = 11, 12 or 13. No header of NVIDIA's is read, so
 * one build makes all three, whatever toolkit is at hand. A test compares the description with NVIDIA's headers.
 *
 * Handles are what programs hold as opaque pointers: a stream or event is the core's token, a kernel is the host
 * address under which it was registered.
 */
#ifndef FLYT_RUNTIME_ABI_H
#define FLYT_RUNTIME_ABI_H

#if FLYT_CUDART == 11
#include "api/cudart11/cudart.h"
#elif FLYT_CUDART == 12
#include "api/cudart12/cudart.h"
#elif FLYT_CUDART == 13
#include "api/cudart13/cudart.h"
#else
#error "compile with -DFLYT_CUDART=11, 12 or 13"
#endif

#endif
