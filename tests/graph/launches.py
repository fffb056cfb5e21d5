#!/usr/bin/env python3
"""tests/graph/launches.py [--bin DIR]: how many messages launches of graphs cost; TAP on stdout.

shows: graphs: a launched graph is one message; a change sends only what changed; a host function is one of its own

Runs build/cuda/graph_kept twice with different numbers of launches and takes the difference of what FLYT_STATS counts.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import ok, plan  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests/cuda"))
from e2e import Server, sanitizer_environment  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--bin", default="bin")
BIN = os.path.abspath(parser.parse_args().bin)
PROGRAM = os.path.join(ROOT, "build/cuda/graph_kept")
FEW, MORE = 10, 30


def statistics(uri, kind, launches, **environment):
    done = subprocess.run([os.path.join(BIN, "flyt-run"), "--server", uri, PROGRAM, kind, str(launches)],
                          capture_output=True, text=True, timeout=60,
                          env={**os.environ, **sanitizer_environment(BIN), "FLYT_STATS": "json", **environment})
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    line = next(line for line in done.stderr.splitlines() if line.startswith('{"flyt"'))
    return json.loads(line)["flyt"]


def per_launch(uri, kind, **environment):
    """Calls of each procedure, and bytes sent, for each launch."""
    few, more = (statistics(uri, kind, n, **environment)["procedures"] for n in (FEW, MORE))
    # How often the server speaks, and how often the client asks how far a stream is, depends on the time.
    names = set(more) - {"FLYT_EVENTS", "FLYT_STREAM_SYNC"}

    def difference(key):
        return {name.removeprefix("FLYT_"): (more[name][key] - few.get(name, {key: 0})[key]) / (MORE - FEW)
                for name in names}
    return {name: count for name, count in difference("calls").items() if count}, sum(difference("bytes_sent").values())


def check(name, good, found):
    ok(good, f"{name}: {found}")


with tempfile.TemporaryDirectory() as folder:
    server = Server(BIN, "unix", "software", folder, sanitizer_environment(BIN))
    statistics(server.uri, "line", 1)             # a first start sends the program's code
    calls, sent = per_launch(server.uri, "line")
    check("a line of 20 nodes is one message", calls == {"GRAPH_LAUNCH": 1} and sent < 100, (calls, sent))
    before, before_sent = per_launch(server.uri, "line", FLYT_PERF="no_graph")
    check("without it, each node is one, and the end another", before == {"LAUNCH": 20, "EVENT_RECORD": 1},
          (before, before_sent))
    calls, sent = per_launch(server.uri, "branches")
    check("branches are in the same message", calls == {"GRAPH_LAUNCH": 1}, (calls, sent))
    calls, sent = per_launch(server.uri, "large")
    check("1,500 nodes and their waits are a few messages",
          set(calls) == {"GRAPH_LAUNCH"} and calls["GRAPH_LAUNCH"] <= 4, (calls, sent))
    calls, sent = per_launch(server.uri, "changed")
    check("one changed node is sent, and not the others",
          calls.get("GRAPH_LAUNCH") == 1 and calls.get("GRAPH_SET", 0) <= 2 and "LAUNCH" not in calls and sent < 800,
          (calls, sent))
    calls, sent = per_launch(server.uri, "host")
    check("a host function is a message between two segments", calls == {"GRAPH_LAUNCH": 2, "HOST_FUNCTION": 1},
          (calls, sent))
    server.stop()
sys.exit(plan())
