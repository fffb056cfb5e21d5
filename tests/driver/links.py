#!/usr/bin/env python3
"""links.py NVJITLINK [NVVM]: links PTX as Numba does, for machine code of the device, and runs it.

It also asks NVVM for that architecture.
"""

import ctypes
import sys

linker, cuda = ctypes.CDLL(sys.argv[1]), ctypes.CDLL("libcuda.so.1")
nvvm = ctypes.CDLL(sys.argv[2]) if len(sys.argv) > 2 else None
HEAD = b".version 7.0\n.target sm_50\n.address_size 64\n"
KERNEL = HEAD + b""".extern .func (.param .b32 r) forty ();
.visible .entry add(.param .u64 p) { .reg .b64 %p; .reg .b32 %a, %b; ld.param.u64 %p, [p]; ld.global.u32 %a, [%p];
{ .param .b32 y; call (y), forty, (); ld.param.b32 %b, [y]; } add.u32 %a, %a, %b; st.global.u32 [%p], %a; ret; }
"""
FORTY = (
    # of a compiler that is newer than the software GPU
    HEAD.replace(b"7.0", b"9.5")
    + b".visible .func (.param .b32 r) forty () { .reg .b32 %a; mov.b32 %a, 40; st.param.b32 [r], %a; ret; }\n"
)
PTX, INVALID_OPTION = 2, 7
UNRECOGNIZED_OPTION, MISSING_ARCH, UNRECOGNIZED_ARCH = 1, 2, 16


def good(code):
    assert code == 0, code


def link(options, *inputs):
    handle, size = ctypes.c_void_p(), ctypes.c_size_t()
    good(linker.nvJitLinkCreate(ctypes.byref(handle), 1, options))
    for text in inputs:
        good(linker.nvJitLinkAddData(handle, PTX, text, len(text), b"input"))
    result = linker.nvJitLinkComplete(handle)
    if result:
        good(linker.nvJitLinkGetErrorLogSize(handle, ctypes.byref(size)))
        log = ctypes.create_string_buffer(size.value + 1)
        good(linker.nvJitLinkGetErrorLog(handle, log))
        print("refused", log.value.decode())
        image = None
    else:
        good(linker.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(size)))
        image = ctypes.create_string_buffer(size.value)
        good(linker.nvJitLinkGetLinkedCubin(handle, image))
    good(linker.nvJitLinkDestroy(ctypes.byref(handle)))
    return image


def options_are_checked(good_one):
    """As nvJitLink itself says. The handle of a failed call has the log, and can be destroyed."""
    size = ctypes.c_size_t()
    for texts, code in (((b"-nonsense",), UNRECOGNIZED_OPTION), ((b"-lto",), MISSING_ARCH), ((), MISSING_ARCH),
                        ((good_one, b"-nonsense"), UNRECOGNIZED_OPTION), ((b"-arch=sm_999",), UNRECOGNIZED_ARCH)):
        handle = ctypes.c_void_p()
        options = (ctypes.c_char_p * max(len(texts), 1))(*texts)
        got = linker.nvJitLinkCreate(ctypes.byref(handle), len(texts), options)
        assert got == code, (texts, got)
        good(linker.nvJitLinkGetErrorLogSize(handle, ctypes.byref(size)))
        good(linker.nvJitLinkDestroy(ctypes.byref(handle)))


def main():
    context, module, function, program = (ctypes.c_void_p() for _ in range(4))
    memory, number = ctypes.c_uint64(), ctypes.c_int(2)
    major, minor = ctypes.c_int(), ctypes.c_int()
    good(cuda.cuInit(0))
    good(
        cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, 0) or cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, 0)
    )
    options = (ctypes.c_char_p * 1)(b"-arch=sm_%d%d" % (major.value, minor.value))
    options_are_checked(options[0])
    image = link(options, KERNEL, FORTY)  # no context yet
    link(options, KERNEL)
    good(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cuda.cuCtxSetCurrent(context))
    good(cuda.cuModuleLoadData(ctypes.byref(module), image))
    good(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"add"))
    good(cuda.cuMemAlloc_v2(ctypes.byref(memory), 4) or cuda.cuMemcpyHtoD_v2(memory, ctypes.byref(number), 4))
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
    good(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None))
    good(cuda.cuMemcpyDtoH_v2(ctypes.byref(number), memory, 4))
    print("result", number.value)
    if not nvvm:
        return
    good(nvvm.nvvmCreateProgram(ctypes.byref(program)))
    ir = b'target triple = "nvptx64-nvidia-cuda"\n'
    good(nvvm.nvvmAddModuleToProgram(program, ir, len(ir), b"empty"))
    options = (ctypes.c_char_p * 1)(b"-arch=compute_%d%d" % (major.value, minor.value))
    print("architecture", nvvm.nvvmVerifyProgram(program, 1, options) != INVALID_OPTION)
    print("option", nvvm.nvvmVerifyProgram(program, 1, (ctypes.c_char_p * 1)(b"-nonsense")) != INVALID_OPTION)


main()
