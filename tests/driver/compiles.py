#!/usr/bin/env python3
"""compiles.py NVRTC|nvcc|ptxas: compiles a kernel for machine code with that library, as CuPy does, or with the program
nvcc, as PyCUDA does, or hands PTX to ptxas, as Triton does, and runs it."""
import ctypes
import os
import re
import subprocess
import sys
import tempfile

cuda = ctypes.CDLL("libcuda.so.1")
SOURCE = b"""extern "C" __global__ void add(int *p) { p[threadIdx.x] += 40; }
extern "C" __global__ void hungry(float *p, int n)
{
    float v[60];
    for (int i = 0; i < 60; i++) v[i] = p[i * n];
    for (int j = 0; j < n; j++)
        for (int i = 0; i < 60; i++) v[i] = v[i] * v[(i + 7) % 60] + 1;
    for (int i = 0; i < 60; i++) p[i * n] = v[i];
}
"""

VALUES = range(100)
HUNGRY = (
    ".visible .entry hungry(.param .u64 p)\n{\n.reg .u64 %p; .reg .f64 %f<100>;\nld.param.u64 %p, [p];\n"
    + "".join(f"ld.global.f64 %f{i}, [%p + {8 * i}];\n" for i in VALUES)
    + "bar.sync 0;\n"
    + "".join(f"st.global.f64 [%p + {8 * (7 * i % 100)}], %f{i};\n" for i in VALUES)
    + "ret;\n}\n"
)
PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry add(.param .u64 p)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3];
    add.s32 %r2, %r2, 40;
    st.global.u32 [%rd3], %r2;
    ret;
}
"""


def good(code):
    assert code == 0, code


def code_of_nvrtc(library, architecture):
    nvrtc = ctypes.CDLL(library)
    program, size, count = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_int()
    good(nvrtc.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    known = (ctypes.c_int * count.value)()
    good(nvrtc.nvrtcGetSupportedArchs(known))
    print("known", architecture in list(known))
    options = (ctypes.c_char_p * 2)(b"--gpu-architecture=sm_%d" % architecture, b"--maxrregcount=40")
    good(nvrtc.nvrtcCreateProgram(ctypes.byref(program), SOURCE, b"add.cu", 0, None, None))
    unknown = (ctypes.c_char_p * 1)(b"--gpu-architecture=sm_999")
    print("unknown", nvrtc.nvrtcCompileProgram(program, 1, unknown))
    good(nvrtc.nvrtcCompileProgram(program, 2, options))
    good(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    code = ctypes.create_string_buffer(size.value + 1)
    good(nvrtc.nvrtcGetCUBIN(program, code))
    return code


def code_of_nvcc(architecture):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "kernel.cu"), "wb") as file:
            file.write(SOURCE)
        for step in ("--preprocess", "--cubin"):
            subprocess.run(["nvcc", step, "-arch", f"sm_{architecture}", "-I/usr/include", "-maxrregcount", "40",
                            "kernel.cu"], cwd=folder, stdout=subprocess.DEVNULL, check=True)
        with open(os.path.join(folder, "kernel.cubin"), "rb") as file:
            return ctypes.create_string_buffer(file.read())


def code_of_ptxas(architecture):
    """Triton asks for the release first, and reads it from the text."""
    tool = os.environ["TRITON_PTXAS_BLACKWELL_PATH" if architecture >= 90 else "TRITON_PTXAS_PATH"]
    version = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
    print("release", bool(re.search(r"release \d+\.\d+", version)), "Flyt" in version)
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "kernel.ptx")
        with open(source, "w") as file:
            file.write(PTX + HUNGRY)
        subprocess.run([tool, "-lineinfo", "-v", "--regAllocOptLevel=2", "--opt-level", "1", "--maxrregcount", "40",
                        f"--gpu-name=sm_{architecture}a", source, "-o", f"{source}.o"], check=True)
        with open(f"{source}.o", "rb") as file:
            code = file.read()
        return ctypes.create_string_buffer(code + b"U", len(code) + 1)      # as XLA: no zero byte of its own behind it


CODE_OF = {"nvcc": code_of_nvcc, "ptxas": code_of_ptxas}


def main():
    context, module, function = (ctypes.c_void_p() for _ in range(3))
    memory, numbers = ctypes.c_uint64(), (ctypes.c_int * 4)(1, 2, 3, 4)
    major, minor = ctypes.c_int(), ctypes.c_int()
    good(cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cuda.cuCtxSetCurrent(context))
    good(cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, 0) or cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, 0))
    architecture = major.value * 10 + minor.value
    compiler = CODE_OF.get(sys.argv[1])
    code = compiler(architecture) if compiler else code_of_nvrtc(sys.argv[1], architecture)
    good(cuda.cuModuleLoadData(ctypes.byref(module), code))
    good(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"hungry"))
    good(cuda.cuFuncGetAttribute(ctypes.byref(minor), 4, function))
    print("registers", minor.value)
    good(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"add"))
    good(cuda.cuMemAlloc_v2(ctypes.byref(memory), 16) or cuda.cuMemcpyHtoD_v2(memory, numbers, 16))
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
    good(cuda.cuLaunchKernel(function, 1, 1, 1, 4, 1, 1, 0, None, arguments, None))
    good(cuda.cuMemcpyDtoH_v2(numbers, memory, 16))
    print("result", *numbers)


main()
