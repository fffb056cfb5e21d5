/* unit_cuda.h: unit.h for tests that call the Driver API. */
#ifndef FLYT_TESTS_LIB_UNIT_CUDA_H
#define FLYT_TESTS_LIB_UNIT_CUDA_H

#include <cuda.h>

#include "tests/lib/unit.h"

#define OK(call) assert_int_equal((call), CUDA_SUCCESS)
#define FAILS(code, call) assert_int_equal((call), (code))

#endif
