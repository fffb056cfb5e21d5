#!/usr/bin/env python3
"""wire.py BIN PROGRAM...: the words `wire=` in cpu/api/runtime.api are true, as far as these programs show.

Each program runs with FLYT_TRACE and FLYT_STATS. A procedure that it used must be one that a function it called is said
to use, or one of those that every program may need.

shows: description of CUDA: programs use no procedure that the description does not say of the functions that they call
"""

import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = os.path.join(HERE, "../../cpu/api"), os.path.join(HERE, "../lib")
import api  # noqa: E402
from testlib import plan, result  # noqa: E402

# Connecting, the first use of a device or module, host memory of the library's own, and what the server asks for.
ALWAYS = {"HELLO", "WINDOW", "EVENTS", "ABANDON", "LANE", "CONTEXT_RETAIN", "HOST_ADD", "HOST_REMOVE", "RECALLED"}
ALWAYS |= {"MAP", "UNMAP", "IMAGE", "IMAGE_DATA", "MODULE_LOAD", "MODULE_UNLOAD", "FUNCTION_GET"}
# What a procedure may bring with it: freeing waits for the device; behind a copy that returned early there is an event
# (returned.c); copies of rows and between host memory may be made of plain copies and a host function.
ALSO = {
    "UNMAP": {"CONTEXT_SYNC"},
    "HOST_REMOVE": {"CONTEXT_SYNC"},
    "COPY": {"EVENT_CREATE", "EVENT_RECORD", "HOST_FUNCTION"},
    "COPY_BOX": {"EVENT_CREATE", "EVENT_RECORD", "COPY", "COPY_WAITED"},
}


def allowed(functions):
    wire = {}
    for function in api.runtime():
        for name in function.names():
            wire.setdefault(name, set()).update(filter(None, str(function.options.get("wire", "")).split(",")))
    may = set().union(ALWAYS, *(wire[name] for name in functions))
    return may.union(*(ALSO.get(procedure, ()) for procedure in may))


def main():
    binaries, programs = sys.argv[1], sys.argv[2:]
    for program in programs:
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "trace")
            env = {**os.environ, "FLYT_TRACE": trace, "FLYT_STATS": "json"}
            command = [os.path.join(binaries, "flyt-run"), "--server", "local:software", program]
            run = subprocess.run(command, capture_output=True, text=True, errors="replace", env=env, timeout=120)
            with open(trace) as file:
                functions = set(re.findall(r"^\[\d+\] (\w+)\(", file.read(), re.M))
        statistics = [json.loads(line) for line in run.stderr.splitlines() if line.startswith('{"flyt"')]
        used = {name.removeprefix("FLYT_") for name in statistics[-1]["flyt"]["procedures"]} if statistics else set()
        more = sorted(used - allowed(functions))
        good = run.returncode == 0 and len(used) > 2 and functions and not more
        result(f"{os.path.basename(program)}: {len(functions)} functions", "" if good else
               f"exit status {run.returncode}, used {sorted(used)}, not said of the called functions: {more}")
    return plan()


if __name__ == "__main__":
    sys.exit(main())
