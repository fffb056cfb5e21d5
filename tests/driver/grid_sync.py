#!/usr/bin/env python3
"""grid_sync.py LIBCUDADEVRT: links a kernel with that library, as Numba does for grid groups; its grid meets twice."""

import ctypes
import sys

cuda = ctypes.CDLL("libcuda.so.1")
PTX, LIBRARY, BLOCKS, THREADS = 1, 4, 4, 64
ROUND = b"""red.global.add.u32 [%p], 1;
{ .param .b64 a; .param .b32 b; .param .b32 y; st.param.b64 [a], %h; st.param.b32 [b], 0;
  call (y), cudaCGSynchronize, (a, b); ld.param.b32 %r, [y]; }
"""
KERNEL = b""".version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b64 r) cudaCGGetIntrinsicHandle (.param .b32 scope);
.extern .func (.param .b32 r) cudaCGSynchronize (.param .b64 handle, .param .b32 flags);
.visible .entry meet(.param .u64 p) { .reg .b64 %p, %h, %a; .reg .b32 %r, %n, %i, %b, %t;
ld.param.u64 %p, [p];
{ .param .b32 a; .param .b64 y; st.param.b32 [a], 1; call (y), cudaCGGetIntrinsicHandle, (a); ld.param.b64 %h, [y]; }
""" + ROUND + ROUND + b"""ld.volatile.global.u32 %n, [%p]; add.u32 %n, %n, %r;
mov.u32 %i, %ctaid.x; mov.u32 %b, %ntid.x; mov.u32 %t, %tid.x; mad.lo.u32 %i, %i, %b, %t;
mul.wide.u32 %a, %i, 4; add.u64 %a, %a, %p; st.global.u32 [%a+4], %n; ret; }
"""


def good(code):
    assert code == 0, code


def main():
    context, state, image, module, function = (ctypes.c_void_p() for _ in range(5))
    size, memory = ctypes.c_size_t(), ctypes.c_uint64()
    numbers = (ctypes.c_uint32 * (1 + BLOCKS * THREADS))()
    with open(sys.argv[1], "rb") as file:
        library = file.read()
    good(cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cuda.cuCtxSetCurrent(context))
    good(cuda.cuLinkCreate_v2(0, None, None, ctypes.byref(state)))
    for kind, data in ((PTX, KERNEL + b"\0"), (LIBRARY, library)):
        good(cuda.cuLinkAddData_v2(state, kind, data, ctypes.c_size_t(len(data)), b"input", 0, None, None))
    good(cuda.cuLinkComplete(state, ctypes.byref(image), ctypes.byref(size)))
    good(cuda.cuModuleLoadData(ctypes.byref(module), image) or cuda.cuLinkDestroy(state))
    good(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"meet"))
    good(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(ctypes.sizeof(numbers))))
    good(cuda.cuMemcpyHtoD_v2(memory, numbers, ctypes.c_size_t(ctypes.sizeof(numbers))))
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
    good(cuda.cuLaunchCooperativeKernel(function, BLOCKS, 1, 1, THREADS, 1, 1, 0, None, arguments))
    good(cuda.cuMemcpyDtoH_v2(numbers, memory, ctypes.c_size_t(ctypes.sizeof(numbers))))
    print("met", *sorted(set(numbers)))


main()
