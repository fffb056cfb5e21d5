#!/usr/bin/env python3
"""tests/cuda/managed_calls.py [--bin DIR]: how many messages launches on managed memory cost; TAP on stdout.

shows: managed memory: a launch sends nothing but itself if the program has touched no page since the last one; else the
    block of the page moves, and not the allocation

Runs build/cuda/managed_launches twice with different numbers of launches and takes the difference of what
FLYT_STATS counts.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from e2e import Server, sanitizer_environment  # noqa: E402
from testlib import ok, plan  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--bin", default="bin")
BIN = os.path.abspath(parser.parse_args().bin)
PROGRAM = os.path.join(HERE, "../../build/cuda/managed_launches")
FEW, MORE = 10, 60
BLOCK = 64 * 1024


def statistics(uri, kind, launches, perf):
    done = subprocess.run([os.path.join(BIN, "flyt-run"), "--server", uri, PROGRAM, kind, str(launches)],
                          capture_output=True, text=True, timeout=60,
                          env={**os.environ, **sanitizer_environment(BIN), "FLYT_STATS": "json", "FLYT_PERF": perf})
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    line = next(line for line in done.stderr.splitlines() if line.startswith('{"flyt"'))
    return json.loads(line)["flyt"]["procedures"]


def per_launch(uri, kind, perf):
    """Calls of each procedure, and bytes that travel both ways, for each launch."""
    few, more = statistics(uri, kind, FEW, perf), statistics(uri, kind, MORE, perf)
    names = set(more) - {"FLYT_EVENTS", "FLYT_STREAM_SYNC", "FLYT_CONTEXT_SYNC"}

    def difference(name, key):
        return (more[name][key] - few.get(name, {key: 0})[key]) / (MORE - FEW)
    calls = {name.removeprefix("FLYT_"): difference(name, "calls") for name in names if difference(name, "calls")}
    moved = sum(difference(name, key) for name in names for key in ("bytes_sent", "bytes_received"))
    return calls, moved


with tempfile.TemporaryDirectory() as folder:
    server = Server(BIN, "tcp", "software", folder, sanitizer_environment(BIN))
    statistics(server.uri, "left", 1, "")         # a first start sends the program's code
    for way, perf in (("userfaultfd", "no_lanes"), ("SIGSEGV", "no_lanes,no_userfault")):
        left, left_bytes = per_launch(server.uri, "left", perf)
        read, read_bytes = per_launch(server.uri, "read", perf)
        written, written_bytes = per_launch(server.uri, "written", perf)
        for name, good, found in (
                ("a launch between which nothing is touched is one message",
                 left == {"LAUNCH": 1} and left_bytes < 200, (left, left_bytes)),
                ("a page that is read brings its block, and nothing goes back",
                 set(read) == {"LAUNCH", "COPY_OUT"} and BLOCK <= read_bytes < BLOCK + 1000, (read, read_bytes)),
                ("a page that is written goes back with its block",
                 set(written) == {"LAUNCH", "COPY_OUT", "COPY_IN"} and written_bytes < 2 * BLOCK + 1000,
                 (written, written_bytes))):
            ok(good, f"{name} ({way}): {found}")
    server.stop()
sys.exit(plan())
