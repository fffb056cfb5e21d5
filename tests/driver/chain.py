#!/usr/bin/env python3
"""chain.py BIN PROGRAM...: program, Flyt, Flyt, software GPU; TAP on stdout.

shows: first steps: two servers in a row: the end-to-end programs pass where the first one's driver is Flyt's own

The first server (--gpu nvidia) serves the program; what it asks of the driver goes to the second one (--gpu software).
So everything that the server does with NVIDIA's driver, and much of libcuda.so.1, runs as it does with a GPU.
FLYT_TEST_CHAIN allows the first server to take Flyt's own library for a driver.
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import GpuServer, plan, result, skip  # noqa: E402

# Programs that need what Flyt offers only on the software GPU. (graph_random asks, and does without.)
LEFT_OUT = dict.fromkeys(("conditions", "condition_random"),
                         "conditional nodes give 801 on NVIDIA's driver: docs/limits.md")
LEFT_OUT["device_graphs"] = "kernels cannot launch graphs on NVIDIA's driver: docs/limits.md"
# The first server takes its window from the one that its own client has, behind which that one's host memory lies.
LEFT_OUT["pinned_random"] = "kernels reach no pinned memory through two servers"
BIN = os.path.abspath(sys.argv[1])


def run(program, address):
    try:
        done = subprocess.run([f"{BIN}/flyt-run", "--server", address, program], capture_output=True, text=True,
                              errors="replace", timeout=200)
    except subprocess.TimeoutExpired:
        return "does not end"
    if done.returncode in (0, 77):
        return None
    return f"ends with {done.returncode}: {done.stdout[-500:]}{done.stderr[-1500:]}"


def main():
    with (tempfile.TemporaryDirectory(prefix="flyt-chain-") as folder,
          GpuServer(BIN, f"unix://{folder}/second", log=f"{folder}/second.log") as second,
          GpuServer(BIN, f"unix://{folder}/first", gpu="nvidia", log=f"{folder}/first.log", FLYT_TEST_CHAIN="1",
                    FLYT_SERVER=second.uri, LD_LIBRARY_PATH=f"{BIN}/cudart") as first):
        for program in sys.argv[2:]:
            name = os.path.basename(program)
            if name in LEFT_OUT:
                skip(name, LEFT_OUT[name])
            else:
                result(name, run(program, first.uri))
    return plan()


sys.exit(main())
