#!/usr/bin/env python3
"""native.py BIN CORE_DIR: without a driver, our libraries answer as NVIDIA's do: which error, in which order of checks.

NVIDIA's library is run where it finds no libcuda (it answers 35), ours on the core that fails to connect with 35. What
differs on purpose is listed below with the reason. Skipped where NVIDIA's library is not there, or finds a driver.
CUDART_REFERENCE as in errors.py.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from errors import reference  # noqa: E402
from testlib import plan, result, skip  # noqa: E402

CALLS = """
import ctypes, json, sys
library = ctypes.CDLL(sys.argv[1])
number, buffer, none = ctypes.c_int(77), ctypes.create_string_buffer(4096), ctypes.c_void_p(None)
size, long = ctypes.c_size_t, ctypes.c_ulonglong
results = {}

def call(name, *arguments):
    function = getattr(library, name, None)
    if function is None:
        return
    number.value = 77
    names = ((none, "NULL"), (buffer, "buffer"), (reference, "&n"))
    words = [next((word for one, word in names if a is one), str(getattr(a, "value", a))) for a in arguments]
    text = f"{name}({', '.join(words)})"
    results[text] = [function(*arguments), number.value, library.cudaPeekAtLastError()]

reference = ctypes.byref(number)
call("cudaRuntimeGetVersion", none)
call("cudaRuntimeGetVersion", reference)
call("cudaDriverGetVersion", reference)
call("cudaDriverGetVersion", none)
call("cudaGetDeviceCount", reference)
call("cudaGetDeviceCount", none)
call("cudaGetDevice", reference)
call("cudaGetDevice", none)
call("cudaSetDevice", 0)
call("cudaSetDevice", -1)
call("cudaChooseDevice", none, none)
call("cudaSetValidDevices", none, 0)
call("cudaSetDeviceFlags", 0)
call("cudaSetDeviceFlags", 64)
call("cudaGetDeviceFlags", buffer)
call("cudaGetDeviceProperties", buffer, 0)
call("cudaGetDeviceProperties_v2", buffer, 0)
call("cudaDeviceGetAttribute", reference, 0, 0)
call("cudaDeviceGetPCIBusId", buffer, 0, 0)
call("cudaDeviceGetByPCIBusId", reference, none)
call("cudaDeviceGetStreamPriorityRange", none, none)
call("cudaDeviceGetLimit", none, 99)
call("cudaDeviceSynchronize")
call("cudaDeviceReset")
call("cudaThreadSynchronize")
call("cudaThreadExit")
call("cudaInitDevice", 0, 0, 99)
call("cudaDeviceCanAccessPeer", none, 0, 0)
call("cudaDeviceEnablePeerAccess", 0, 1)
call("cudaMalloc", buffer, size(4))
call("cudaMalloc", none, size(4))
call("cudaMalloc", buffer, size(0))
call("cudaFree", none)
call("cudaMallocPitch", none, none, size(0), size(0))
call("cudaMallocHost", none, size(4))
call("cudaHostAlloc", none, size(4), 99)
call("cudaFreeHost", none)
call("cudaHostRegister", none, size(0), 99)
call("cudaMemcpy", buffer, buffer, size(4), 9)
call("cudaMemcpy", buffer, buffer, size(0), 0)
call("cudaMemcpyAsync", none, none, size(0), 9, none)
call("cudaMemcpy2D", buffer, size(1), buffer, size(1), size(2), size(2), 0)
call("cudaMemcpy3D", none)
call("cudaMemcpy3DPeer", none)
call("cudaMemcpyPeer", none, 99, none, 99, size(0))
call("cudaMemcpyToSymbol", buffer, buffer, size(4), size(0), 2)
call("cudaMemcpyFromSymbol", buffer, buffer, size(4), size(0), 1)
call("cudaMemset", none, 0, size(0))
call("cudaMemGetInfo", none, none)
call("cudaPointerGetAttributes", none, none)
call("cudaGetSymbolAddress", none, buffer)
call("cudaGetSymbolSize", none, buffer)
call("cudaStreamCreate", none)
call("cudaStreamCreateWithFlags", none, 99)
call("cudaStreamDestroy", none)
call("cudaStreamQuery", none)
call("cudaStreamWaitEvent", none, none, 99)
call("cudaStreamIsCapturing", none, none)
call("cudaStreamAddCallback", none, none, none, 99)
call("cudaLaunchHostFunc", none, none, none)
call("cudaThreadExchangeStreamCaptureMode", none)
call("cudaThreadExchangeStreamCaptureMode", reference)
call("cudaEventCreate", none)
call("cudaEventCreateWithFlags", none, 99)
call("cudaEventRecord", none, none)
call("cudaEventQuery", none)
call("cudaEventDestroy", none)
call("cudaEventElapsedTime", none, none, none)
call("cudaFuncGetAttributes", none, none)
call("cudaFuncSetAttribute", none, 99, 0)
call("cudaFuncSetCacheConfig", none, 99)
call("cudaFuncGetName", buffer, buffer)
call("cudaFuncGetParamInfo", none, size(0), none, none)
call("cudaGetFuncBySymbol", none, none)
call("cudaGetKernel", buffer, buffer)
call("__cudaGetKernel", none, buffer)
call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", none, none, 0, size(0))
call("cudaLaunchKernelExC", none, none, none)
call("cudaGetDriverEntryPoint", b"cuInit", buffer, long(99), none)
call("cudaProfilerStart")
call("cudaMallocAsync", none, size(0), none)
call("cudaFreeAsync", none, none)
call("cudaFreeArray", none)
call("cudaSetDoubleForHost", none)
call("cudaDeviceSetCacheConfig", 99)
call("cudaDeviceGetSharedMemConfig", none)
call("cudaDeviceGetP2PAttribute", none, 99, 0, 0)
print(json.dumps(results))
"""


def answers(library, **environment):
    done = subprocess.run([sys.executable, "-c", CALLS, library], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **environment})
    if done.returncode:
        raise RuntimeError(f"{library}: exit status {done.returncode}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def main():
    binaries, core = sys.argv[1:3]
    for soname in ("libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13"):
        name = f"answers without a driver, {soname}"
        theirs = reference(soname)
        if not theirs:
            skip(name, f"no {soname} of NVIDIA's here")
            continue
        want = answers(theirs)
        if want["cudaGetDevice(&n)"][0] != 35:
            skip(name, "there is a driver here")
            continue
        have = answers(os.path.join(binaries, "cudart", soname), LD_LIBRARY_PATH=core, FAKE_CORE_ATTACH_ERROR="35")
        # A call that succeeded leaves no last error of its own behind, and the lasting one is 35 on both sides.
        wrong = [(call, want[call], have.get(call)) for call in want if want[call] != have.get(call)]
        result(name, "\n".join(f"{call}: NVIDIA's gives [result, n, last] {w}, ours {h}" for call, w, h in wrong))
    return plan()


if __name__ == "__main__":
    sys.exit(main())
