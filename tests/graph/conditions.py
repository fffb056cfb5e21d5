#!/usr/bin/env python3
"""tests/graph/conditions.py [--bin DIR] [PROGRAM]: loops of graphs, as seen from outside; TAP.

shows: graphs: a launch of a graph with a loop is one message, however many turns the loop has
shows: graphs: a loop without end goes with its program: killed, interrupted, or ended beside it

Runs build/cuda/conditions with the arguments `loop`, `endless` and `leave`; or build/cuda/device_graphs,
whose loop is a graph that launches itself.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import ok, plan  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests/cuda"))
from e2e import Server, sanitizer_environment  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--bin", default="bin")
parser.add_argument("program", nargs="?", default=os.path.join(ROOT, "build/cuda/conditions"))
BIN = os.path.abspath(parser.parse_args().bin)
PROGRAM = os.path.abspath(parser.parse_args().program)
FEW, MORE = 5, 15


def command(uri, *arguments):
    return [os.path.join(BIN, "flyt-run"), "--server", uri, PROGRAM, *map(str, arguments)]


def environment(**more):
    return {**os.environ, **sanitizer_environment(BIN), **more}


def calls(uri, turns, launches):
    done = subprocess.run(command(uri, "loop", turns, launches), capture_output=True, text=True, timeout=100,
                          env=environment(FLYT_STATS="json"))
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    line = next(line for line in done.stderr.splitlines() if line.startswith('{"flyt"'))
    return {name: row["calls"] for name, row in json.loads(line)["flyt"]["procedures"].items()}


def per_launch(uri, turns):
    few, more = calls(uri, turns, FEW), calls(uri, turns, MORE)
    names = set(more) - {"FLYT_EVENTS", "FLYT_STREAM_SYNC"}
    return {name.removeprefix("FLYT_"): (more[name] - few.get(name, 0)) / (MORE - FEW) for name in names
            if more[name] != few.get(name, 0)}


def busy(pid):
    """The processor time that the server and its workers have used, in ticks; of those that live."""
    total, todo = 0, [pid]
    while todo:
        now = todo.pop()
        try:
            with open(f"/proc/{now}/stat", encoding="ascii") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
            for task in os.listdir(f"/proc/{now}/task"):
                with open(f"/proc/{now}/task/{task}/children", encoding="ascii") as f:
                    todo += map(int, f.read().split())
        except OSError:
            pass
    return total


def rests(pid, seconds=60):
    """Whether nothing runs on the server any more."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        before = busy(pid)
        time.sleep(0.5)
        if busy(pid) - before <= 2:
            return True
    return False


def ended_by(server, how):
    """An endless loop is ended: the server rests, and serves the next program."""
    program = subprocess.Popen(command(server.uri, "endless"), stdout=subprocess.PIPE, text=True, env=environment())
    begun = program.stdout.readline() == "running\n"
    before = busy(server.process.pid)
    time.sleep(0.5)
    loops = busy(server.process.pid) - before > 2 and program.poll() is None
    program.send_signal(how)
    program.wait(30)
    program.stdout.close()
    return begun, loops, rests(server.process.pid), calls(server.uri, 3, 1) is not None


with tempfile.TemporaryDirectory() as folder:
    server = Server(BIN, "unix", "software", folder, sanitizer_environment(BIN))
    calls(server.uri, 1, 1)                       # a first start sends the program's code
    found = [per_launch(server.uri, turns) for turns in (1, 40)]
    ok(found == [{"GRAPH_LAUNCH": 1}] * 2, f"a launch is one message, whatever the number of turns {found}")
    for how in signal.SIGKILL, signal.SIGINT:
        found = ended_by(server, how)
        ok(all(found), f"a loop without end is ended with its program ({how.name}) {found}")
    for uri in server.uri, "local:":
        done = subprocess.run(command(uri, "leave"), capture_output=True, text=True, timeout=60, env=environment(),
                              check=False)
        good = done.stdout == "running\nleaving\n" and done.returncode == 0 and rests(server.process.pid)
        ok(good, f"a program ends beside a loop without end ({uri.split(':')[0]}) {done.returncode}")
    server.stop()
sys.exit(plan())
