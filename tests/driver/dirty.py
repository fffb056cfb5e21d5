#!/usr/bin/env python3
"""dirty.py BIN PROGRAM: a driver that hands out memory as another tenant has left it; TAP on stdout.

shows: attacks: behind a driver that does not clear its memory, the server does, for allocations and for handles

PROGRAM (tests/cuda/fresh.cu) looks for words that are not zero in fresh memory. It runs over a server whose driver is
Flyt's own libcuda.so.1 (chain.py), connected to a server whose software GPU is made to leave a pattern in what it hands
out. With FLYT_CLEAR_MEMORY=never the program has to find the pattern, else this test shows nothing.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import GpuServer, ok, plan  # noqa: E402

BIN, PROGRAM = (os.path.abspath(argument) for argument in sys.argv[1:3])
folder = tempfile.mkdtemp(prefix="flyt-dirty-")
started = []

# A handle of the Driver API: how many of its bytes are not zero. And what an allocation costs, in milliseconds.
HANDLES = """
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
def must(result):
    assert result == 0, result
class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]
class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]
prop = (ctypes.c_int * 16)(1, 0, 1, 0)
size, context, at, handle = 2 << 20, ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64()
must(cuda.cuInit(0))
must(cuda.cuMemAddressReserve(ctypes.byref(at), ctypes.c_size_t(size), ctypes.c_size_t(0), ctypes.c_uint64(0),
                              ctypes.c_uint64(0)))
must(cuda.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(size), prop, ctypes.c_uint64(0)))
must(cuda.cuMemMap(at, ctypes.c_size_t(size), ctypes.c_size_t(0), handle, ctypes.c_uint64(0)))
must(cuda.cuMemSetAccess(at, ctypes.c_size_t(size), ctypes.byref(Access(Location(1, 0), 3)), ctypes.c_size_t(1)))
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
must(cuda.cuCtxSetCurrent(context))
back = ctypes.create_string_buffer(b"x" * size, size)
must(cuda.cuMemcpyDtoH_v2(back, at, ctypes.c_size_t(size)))
begin = time.monotonic()
must(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(64 << 20)))
cost = time.monotonic() - begin
print("handle", size - back.raw.count(0), "alloc %.1f ms" % (1000 * cost))
"""


def serve(name, gpu, **environment):
    started.append(GpuServer(BIN, f"unix://{folder}/{name}", gpu=gpu, log=f"{folder}/{name}.log", **environment))
    return started[-1].uri


def found(address):
    """Words that are not zero, by kind of memory; bytes of a handle; what an allocation costs."""
    run = [f"{BIN}/flyt-run", "--server", address]
    looked = subprocess.run([*run, PROGRAM, "look"], capture_output=True, text=True, timeout=120)
    handles = subprocess.run([*run, sys.executable, "-c", HANDLES], capture_output=True, text=True, timeout=120)
    text = looked.stdout + handles.stdout
    kinds = {name: int(count) for name, count in re.findall(r"(\w+) (\d+)", text) if name != "alloc"}
    if "device" not in kinds or "handle" not in kinds:
        print("# " + (text + looked.stderr + handles.stderr).replace("\n", "\n# "))
    print(f"# {text.strip()}".replace("\n", ", "), flush=True)
    return kinds


def check(what, address, dirty):
    kinds = found(address)
    for kind in ("device", "managed", "pool", "handle"):
        count = kinds.get(kind, -1)
        ok(count > 0 if dirty else count == 0, f"{what}: {kind}: {count} are not zero")


try:
    below = serve("below", "software", FLYT_SOFTGPU_DIRTY="1")
    chain = {"FLYT_TEST_CHAIN": "1", "FLYT_SERVER": below, "LD_LIBRARY_PATH": f"{BIN}/cudart"}
    check("never", serve("never", "nvidia", FLYT_CLEAR_MEMORY="never", **chain), True)
    check("auto, as with NVIDIA's driver", serve("auto", "nvidia", **chain), False)
    check("software GPU, as it is", serve("clean", "software"), False)
    check("always", serve("always", "software", FLYT_SOFTGPU_DIRTY="1", FLYT_CLEAR_MEMORY="always"), False)
finally:
    for server in reversed(started):
        server.end()
    shutil.rmtree(folder, ignore_errors=True)
sys.exit(plan())
