#!/usr/bin/env python3
"""ending.py BIN PROGRAM LATE LIBRARY: programs end while their work does not; TAP on stdout.

shows: life and death: a program with NVIDIA's static runtime ends although its kernel or host function never does

NVIDIA's runtime releases its contexts when exit() runs its destructors. This must not wait for the work.
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import GpuServer, plan, result  # noqa: E402

BIN, PROGRAM, LATE, LIBRARY = (os.path.abspath(path) for path in sys.argv[1:5])
LIMIT = 20
WANTED = 5


def cases(address):
    for how in ("return", "function", "signal", "pinned"):
        yield f"{how} over {address.partition(':')[0]}", address, [PROGRAM, how]
    yield f"a runtime that came later, over {address.partition(':')[0]}", address, [LATE, LIBRARY]


def main():
    with tempfile.TemporaryDirectory(prefix="flyt-ending.") as folder, GpuServer(BIN, f"unix://{folder}/s") as server:
        running = [(name, subprocess.Popen([f"{BIN}/flyt-run", "--server", at, *command], stdin=subprocess.DEVNULL,
                                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
                   for name, at, command in (*cases(server.uri), *cases("local:software"))]
        for name, program in running:
            try:
                text = program.communicate(timeout=LIMIT)[0]
                problem = None if program.returncode == WANTED else f"exit status {program.returncode}: {text[-1000:]}"
            except subprocess.TimeoutExpired:
                program.kill()
                problem = f"it has not ended after {LIMIT} s: {program.communicate()[0][-1000:]}"
            result(name, problem)
    return plan()


if __name__ == "__main__":
    sys.exit(main())
