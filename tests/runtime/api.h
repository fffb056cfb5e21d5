/* api.h: the entry points that the tests call. */
#ifndef FLYT_TESTS_RUNTIME_API_H
#define FLYT_TESTS_RUNTIME_API_H

#include "tests/lib/unit.h"
#include "tests/runtime/fake_core.h"

#if FLYT_CUDART == 11
#include "api/cudart11/entries.h"
#elif FLYT_CUDART == 12
#include "api/cudart12/entries.h"
#else
#include "api/cudart13/entries.h"
#endif

/* Every test begins with a process that has not used CUDA. */
int runtime_begin(void **state);

int device_tests(void);
int memory_tests(void);
int code_tests(void);
int stream_tests(void);
int graph_tests(void);

#endif
