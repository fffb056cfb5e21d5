#!/usr/bin/env python3
"""strict.py BIN FOLDER PROGRAM...: programs through a server with `--gpu nvidia`; TAP on stdout.

shows: code and kernels: device-linked programs run with a driver that takes their images only as NVIDIA's does
shows: first steps: a GPU that can RDMA and handles for other machines seems to have none of it, as Flyt has not
shows: code and kernels: kernels wait for each other, though the driver loads each at its first launch as NVIDIA's does

FOLDER holds a libcuda.so.1 that is the software GPU with those rules (strict_driver.c).
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import GpuServer, plan, read, result  # noqa: E402

BIN, DRIVER = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])


# XLA drops a device that says that it has memory for RDMA (110) and then gives none.
OFFERS = """
import ctypes
cuda, value = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
assert cuda.cuInit(0) == 0
for attribute in (110, 116, 117, 118, 124, 128, 132, 142, 143, 144, 146):
    assert cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, 0) == 0 and value.value == 0, attribute
"""


def run(address, *program):
    try:
        done = subprocess.run([f"{BIN}/flyt-run", "--server", address, *program], capture_output=True, text=True,
                              errors="replace", timeout=200)
    except subprocess.TimeoutExpired:
        return "does not end"
    if done.returncode == 0:
        return None
    return f"ends with {done.returncode}: {done.stdout[-500:]}{done.stderr[-1500:]}"


def main():
    with tempfile.TemporaryDirectory(prefix="flyt-strict-") as folder:
        with GpuServer(BIN, f"unix://{folder}/server", gpu="nvidia", log=f"{folder}/log",
                       LD_LIBRARY_PATH=f"{DRIVER}:{BIN}") as server:
            for program in sys.argv[3:]:
                result(os.path.basename(program), run(server.uri, program))
            result("what Flyt has not is not offered", run(server.uri, sys.executable, "-c", OFFERS))
        ended = [line for line in read(server.log).splitlines(True) if "worker-ended" in line and "signal=" in line]
        result("no worker of the server ended by a signal", "".join(ended) or None)
    return plan()


sys.exit(main())
