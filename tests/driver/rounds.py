#!/usr/bin/env python3
"""rounds.py BIN PROGRAM...: what programs wait for, as the library counts it; TAP on stdout.

shows: order: launches, async copies, memsets and events are never waited for, with Flyt's and NVIDIA's runtime
shows: first steps: from the start of a process to the first number of a kernel, a bounded number of calls is waited for
"""

import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import GpuServer, plan, result  # noqa: E402

BIN = os.path.abspath(sys.argv[1])
WHAT = ["launch", "copy_in", "copy_out", "copy_pageable", "set", "record", "wait", "event"]
# Calls of other kinds by which two runs may differ: for memory, and for what the server has to tell.
OTHERS_AT_MOST = 10
# The connection; context, first memory and code, as far as they have not come with it; the copy that brings the result.
START_AT_MOST = 3
# count: the program asks about the devices first, as PyTorch does. copy: it copies to the device before the launch.
RUNTIME = ["start", "start-count", "start-copy"]
STARTS = {"shared": RUNTIME, "static": RUNTIME, "driver": ["start"]}
# Programs that make no context, or do not use it, load no code; the former make none.
FEW = {"shared": ["count"], "static": ["count"], "driver": ["count", "unused"]}


def counts(program, address, *arguments):
    """What FLYT_STATS=json says, or an error's text."""
    done = subprocess.run(
        [f"{BIN}/flyt-run", "--server", address, program, *arguments],
        env={**os.environ, "FLYT_STATS": "json"}, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("{")]
    if done.returncode or len(lines) != 1:
        return f"exit status {done.returncode}: {done.stdout[-300:]}{done.stderr[-700:]}"
    return json.loads(lines[0])["flyt"]


def waits(program, address, what):
    """None, or what is wrong: 100 more of them wait for nothing, and make no other call that could wait."""
    few, many = counts(program, address, what, "5"), counts(program, address, what, "105")
    for found in (few, many):
        if isinstance(found, str):
            return found
    before, after = few["procedures"], many["procedures"]
    more = {name: row["calls"] - before.get(name, {"calls": 0})["calls"] for name, row in after.items()}
    if sum(more.values()) + many["local"] - few["local"] < 100:
        return f"100 more of them made no more calls: they are not counted: {more}"
    # Whether the start of a program and its three synchronisations wait depends on what has been heard by then: they
    # are not looked at. They do not become more with the repetitions.
    each = [name for name, count in more.items() if count >= 100]
    waited = {name: after[name]["waited"] for name in each if after[name]["waited"]}
    if waited:
        return f"they wait: {waited}"
    others = {name: count for name, count in more.items() if count > 0 and name not in each}
    too_many = sum(others.values()) > OTHERS_AT_MOST
    return f"100 more of them made more of these calls, too: {others}" if too_many else None


def start(program, address, what):
    counts(program, address, what)  # the server has the program's image from here on
    found = counts(program, address, what)
    if isinstance(found, str):
        return found
    waited = {name: row["waited"] for name, row in found["procedures"].items() if row["waited"]}
    print(f"# {os.path.basename(program)} {what}: {found['waited']} calls waited for: {' '.join(waited)}")
    return None if found["waited"] <= START_AT_MOST else f"{waited} were waited for"


def sends(program, address, what):
    found = counts(program, address, what)
    if isinstance(found, str):
        return found
    sent = {name: row["calls"] for name, row in found["procedures"].items() if row["calls"]}
    print(f"# {os.path.basename(program)} {what}: {sent}")
    code = [name for name in sent if name in ("FLYT_IMAGE", "FLYT_MODULE_LOAD", "FLYT_FUNCTION_GET")]
    contexts = [name for name in sent if name.startswith("FLYT_CONTEXT")] if what == "count" else []
    return f"{sent} were sent" if code or contexts else None


def main():
    with (tempfile.TemporaryDirectory(prefix="flyt-rounds.") as folder,
          GpuServer(BIN, f"unix://{folder}/s", "tcp://127.0.0.1:0") as server):
        for address in server.uris:
            for program in sys.argv[2:]:
                kind = program.rpartition("-")[2]
                for what in [*STARTS[kind], *FEW[kind], *(WHAT if kind != "driver" else [])]:
                    test = start if what in STARTS[kind] else sends if what in FEW[kind] else waits
                    problem = test(program, address, what)
                    result(f"{os.path.basename(program)} {what} over {address.split(':')[0]}", problem)
    return plan()


if __name__ == "__main__":
    sys.exit(main())
