#!/usr/bin/env python3
"""links.py NVJITLINK: links PTX as Numba does, for machine code of the device, and runs it.

With LTO IR in a fat binary also that. It also asks NVVM for that architecture.
"""

import argparse
import ctypes
import struct

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("linker", type=ctypes.CDLL)
parser.add_argument("--nvvm", type=ctypes.CDLL)
parser.add_argument("--lto", metavar="FATBIN", help="with a kernel add as that of this file")
parser.add_argument("--unchecked", action="store_true", help="the linker does not look at options and inputs")
arguments = parser.parse_args()
linker, nvvm, cuda = arguments.linker, arguments.nvvm, ctypes.CDLL("libcuda.so.1")
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
VALUES = range(100)
HUNGRY = (
    HEAD
    + b".visible .entry hungry(.param .u64 p)\n{\n.reg .u64 %p; .reg .f64 %f<100>;\nld.param.u64 %p, [p];\n"
    + b"".join(b"ld.global.f64 %%f%d, [%%p + %d];\n" % (i, 8 * i) for i in VALUES)
    + b"bar.sync 0;\n"
    + b"".join(b"st.global.f64 [%%p + %d], %%f%d;\n" % (8 * (7 * i % 100), i) for i in VALUES)
    + b"ret;\n}\n"
)
# What nothing calls need not be complete.
UNUSED = HEAD + b".extern .func missing;\n.visible .func unused { call missing; ret; }\n"
PTX, LTOIR, FATBIN, LIBRARY, ANY, UNKNOWN, INVALID_OPTION = 2, 3, 4, 6, 10, 99, 7
UNRECOGNIZED_OPTION, MISSING_ARCH, INVALID_INPUT, PTX_COMPILE, UNRECOGNIZED_INPUT = 1, 2, 3, 4, 12
LTO_NOT_ENABLED, UNRECOGNIZED_ARCH = 18, 16


def good(code):
    assert code == 0, code


def create(*options):
    handle = ctypes.c_void_p()
    code = linker.nvJitLinkCreate(ctypes.byref(handle), len(options), (ctypes.c_char_p * (len(options) + 1))(*options))
    return code, handle


def add(handle, kind, data):
    return linker.nvJitLinkAddData(handle, kind, data, len(data), b"input")


def link(options, *inputs, kind=PTX):
    size = ctypes.c_size_t()
    code, handle = create(*options)
    good(code)
    for data in inputs:
        good(add(handle, kind, data))
    result = linker.nvJitLinkComplete(handle)
    if result:
        print("refused", log_of(handle).decode())
        image = None
    else:
        good(linker.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(size)))
        image = ctypes.create_string_buffer(size.value)
        good(linker.nvJitLinkGetLinkedCubin(handle, image))
    good(linker.nvJitLinkDestroy(ctypes.byref(handle)))
    return image


def log_of(handle):
    size = ctypes.c_size_t()
    good(linker.nvJitLinkGetErrorLogSize(handle, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value + 1)
    good(linker.nvJitLinkGetErrorLog(handle, text))
    return text.value


def options_are_checked(good_one):
    """As nvJitLink itself says. The handle of a failed call has the log, and can be destroyed."""
    for options, wanted in (((b"-nonsense",), UNRECOGNIZED_OPTION), ((b"-lto",), MISSING_ARCH), ((), MISSING_ARCH),
                            ((good_one, b"-nonsense"), UNRECOGNIZED_OPTION), ((b"-arch=sm_999",), UNRECOGNIZED_ARCH),
                            ((good_one, b"-O9"), UNRECOGNIZED_OPTION)):
        code, handle = create(*options)
        assert code == wanted, (options, code)
        log_of(handle)
        good(linker.nvJitLinkDestroy(ctypes.byref(handle)))


def inputs_are_checked(architecture, lto):
    """As nvJitLink itself says, whose log stays. What is wrong with PTX itself is found later."""
    for options, kind, data, wanted, reason in (
        ((), UNKNOWN, KERNEL, UNRECOGNIZED_INPUT, b"unsupported input type: input"),
        ((), LTOIR, KERNEL, UNRECOGNIZED_INPUT, b"does not match type NVJITLINK_INPUT_LTOIR"),
        ((), FATBIN, KERNEL, UNRECOGNIZED_INPUT, b"does not match type NVJITLINK_INPUT_FATBIN"),
        ((), LIBRARY, KERNEL, UNRECOGNIZED_INPUT, b"does not match type NVJITLINK_INPUT_LIBRARY"),
        ((), FATBIN, lto, LTO_NOT_ENABLED, b"without LTO enabled"),
        ((b"-maxrregcount=many",), PTX, FORTY, PTX_COMPILE, b"Invalid value 'many' for option 'maxrregcount'"),
        ((b"-Xptxas=--nonsense",), PTX, FORTY, PTX_COMPILE, b"Unknown option '-nonsense'"),
    ):
        code, handle = create(architecture, *options)
        good(code)
        assert (code := add(handle, kind, data)) == wanted, (options, kind, code)
        assert reason in log_of(handle), (kind, log_of(handle))
        good(linker.nvJitLinkComplete(handle))
        assert reason in log_of(handle), (kind, log_of(handle))
        assert linker.nvJitLinkGetLinkedPtxSize(handle, ctypes.byref(ctypes.c_size_t())) == INVALID_INPUT
        good(linker.nvJitLinkDestroy(ctypes.byref(handle)))
    code, handle = create(architecture, b"-lto")  # nothing to compile
    good(code)
    assert linker.nvJitLinkComplete(handle) and log_of(handle)
    good(linker.nvJitLinkDestroy(ctypes.byref(handle)))


def lto_of(fatbin):
    """What the first entry of a fat binary has. (cpu/code/fatbin.c describes the form.)"""
    head, size = struct.unpack_from("<IQ", fatbin, 20)
    return fatbin[16 + head : 16 + head + size]


def ptx_of(architecture, lto):
    """The result of a link can be PTX."""
    size = ctypes.c_size_t()
    code, handle = create(architecture, b"-lto", b"-ptx")
    good(code or add(handle, FATBIN, lto) or linker.nvJitLinkComplete(handle))
    good(linker.nvJitLinkGetLinkedPtxSize(handle, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value + 1)
    good(linker.nvJitLinkGetLinkedPtx(handle, text) or linker.nvJitLinkDestroy(ctypes.byref(handle)))
    assert b".visible .entry add" in text.value, text.value


def run(image):
    module, function, memory, number = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int(2)
    good(cuda.cuModuleLoadData(ctypes.byref(module), image))
    good(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"add"))
    good(cuda.cuMemAlloc_v2(ctypes.byref(memory), 4) or cuda.cuMemcpyHtoD_v2(memory, ctypes.byref(number), 4))
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
    good(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, parameters, None))
    good(cuda.cuMemcpyDtoH_v2(ctypes.byref(number), memory, 4))
    return number.value


def registers_of(image):
    module, function, registers = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    good(cuda.cuModuleLoadData(ctypes.byref(module), image))
    good(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"hungry"))
    good(cuda.cuFuncGetAttribute(ctypes.byref(registers), 4, function))
    good(cuda.cuModuleUnload(module))
    return registers.value


def main():
    context, program = ctypes.c_void_p(), ctypes.c_void_p()
    major, minor = ctypes.c_int(), ctypes.c_int()
    good(cuda.cuInit(0))
    good(
        cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, 0) or cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, 0)
    )
    architecture = b"-arch=sm_%d%d" % (major.value, minor.value)
    lto = open(arguments.lto, "rb").read() if arguments.lto else b""
    if not arguments.unchecked:
        options_are_checked(architecture)
        inputs_are_checked(architecture, lto)
    for arch in architecture, architecture.replace(b"sm", b"compute"):  # the linker may not know the architecture
        code, handle = create(arch, b"-lto", b"-ptx")
        good(code or linker.nvJitLinkDestroy(ctypes.byref(handle)))
    image = link([architecture], KERNEL, FORTY, UNUSED)  # no context yet
    link([architecture], KERNEL)
    good(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cuda.cuCtxSetCurrent(context))
    print("result", run(image))
    bounds = () if arguments.unchecked else ((b"-maxrregcount=40", 40), (b"-Xptxas=-maxrregcount=48", 48))
    for option, registers in bounds:
        assert (got := registers_of(link([architecture, option], HUNGRY))) == registers, (option, got)
    if lto:
        bare = lto_of(lto)
        for data, kind in (lto, FATBIN), (lto, ANY), (bare, LTOIR), (bare, ANY):
            print("lto", run(link([architecture, b"-lto"], data, kind=kind)))
        ptx_of(architecture, lto)
    if not nvvm:
        return
    good(nvvm.nvvmCreateProgram(ctypes.byref(program)))
    ir = b'target triple = "nvptx64-nvidia-cuda"\n'
    good(nvvm.nvvmAddModuleToProgram(program, ir, len(ir), b"empty"))
    options = (ctypes.c_char_p * 1)(b"-arch=compute_%d%d" % (major.value, minor.value))
    print("architecture", nvvm.nvvmVerifyProgram(program, 1, options) != INVALID_OPTION)
    print("option", nvvm.nvvmVerifyProgram(program, 1, (ctypes.c_char_p * 1)(b"-nonsense")) != INVALID_OPTION)


main()
