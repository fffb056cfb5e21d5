/*
 * per_thread.c: the _ptds and _ptsz functions: as those without, but stream 0 is the calling thread's own default
 * stream. They say so in a thread-local flag that sgd_stream_find reads.
 */
#include "softgpu/driver/calls/calls.h"

#define PER_THREAD(name, suffix, parameters, arguments) \
    CUresult name##_##suffix parameters                  \
    {                                                    \
        sgd_per_thread = true;                           \
        CUresult r = name arguments;                     \
        sgd_per_thread = false;                          \
        return r;                                        \
    }

#include "api/driver/soft_per_thread.inc"
