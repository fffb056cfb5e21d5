/*
 * abi_layout.c: prints the layout of NVIDIA's structures as the header at hand has it: `type.member offset size`.
 * tests/runtime/layouts/<N>.txt are its outputs for the headers of CUDA 11.8, 12.9 and 13.0.
 */
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdio.h>

#define FLYT_CUDART (CUDART_VERSION / 1000)

int main(void) {
#define ROW(theirs, member, ours, our_member) \
    printf("%s.%s %zu %zu\n", #theirs, #member, offsetof(theirs, member), sizeof ((theirs *)0)->member);
#include "tests/runtime/abi_rows.h"
    return 0;
}
