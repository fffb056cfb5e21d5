#!/usr/bin/env python3
"""libraries.py BIN PROGRAM...: NVIDIA's own libraries, unmodified, on the software GPU; TAP on stdout.

shows: NVIDIA's libraries: cuBLAS, cuDNN, cuFFT, cuRAND, cuSOLVER, cuSPARSE and NCCL compute what a processor computes

A PROGRAM that is not there was not built, because the toolkit lacks its library.
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import GpuServer, plan, result, skip  # noqa: E402

# NCCL exports memory, for which a GPU server of its own is needed, and copies between two devices only over a PCI
# switch, unless it is told otherwise. Its PTX takes a minute for each device.
TWO_DEVICES = {"FLYT_SOFTGPU_DEVICES": "2", "NCCL_P2P_LEVEL": "SYS", "FLYT_NCCL": "program"}


def run(binaries, program, address, environment, limit):
    return subprocess.run([f"{binaries}/flyt-run", "--server", address, program], env={**os.environ, **environment},
                          capture_output=True, text=True, errors="replace", timeout=limit)


def run_on_server(binaries, program):
    with tempfile.TemporaryDirectory(prefix="flyt-libraries.") as folder:
        with GpuServer(binaries, f"unix://{folder}/s", **TWO_DEVICES) as server:
            return run(binaries, program, server.uri, TWO_DEVICES, 800)


def main():
    for program in sys.argv[2:]:
        name = os.path.basename(program)
        if not os.path.exists(program):
            skip(name, "this toolkit lacks the library")
            continue
        if name == "nccl":
            done = run_on_server(sys.argv[1], program)
        else:
            done = run(sys.argv[1], program, "local:software", {}, 300)
        good = done.returncode == 0 and "passed" in done.stdout
        said = (done.stdout + done.stderr).splitlines()[-20:]
        result(name, "" if good else "\n".join([f"ends with {done.returncode}", *said]))
    return plan()


sys.exit(main())
