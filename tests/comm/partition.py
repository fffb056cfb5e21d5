#!/usr/bin/env python3
"""tests/comm/partition.py BIN: the cable between two network namespaces is pulled while ranks are at work; TAP.

shows: communication: both ends of a link, and all ranks of a context, notice a cut network within FLYT_SILENCE and 2 s
"""
import os
import subprocess
import sys
import tempfile
import time

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(TESTS, "lib"), os.path.join(os.path.dirname(TESTS), "synthetic_benchmark")]
from testlib import case, need, plan, run_cases, until  # noqa: E402
from comm import Pair  # noqa: E402

TOOL = os.path.join(os.path.abspath(sys.argv[1]), "flyt-comm-perf")
SILENCE = 2


def start(space, *options, **environment):
    return subprocess.Popen(["ip", "netns", "exec", space, TOOL, "-i", "c0", *options], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "FLYT_SILENCE": str(SILENCE), **environment})


def read_card(space, what):
    return subprocess.run(["ip", "netns", "exec", space, "cat", f"/sys/class/net/c0/{what}"], capture_output=True,
                          text=True, check=True).stdout.strip()


def sent(pair):
    return int(read_card(pair.spaces[0], "statistics/tx_bytes"))


def cut_while_busy(pair, ends):
    """The ends fail, each in time, and say something."""
    until(lambda: sent(pair) > 3 << 20, "bytes are under way")
    subprocess.run(["ip", "-n", pair.spaces[0], "link", "set", "c0", "down"], check=True)
    begin = time.monotonic()
    try:
        for end in ends:
            said = end.communicate(timeout=30)[1]
            took = time.monotonic() - begin
            need(end.returncode == 1 and "flyt-comm-perf: " in said, (end.returncode, said))
            need(took < SILENCE + 2, f"noticed after {took:.1f} s: {said}")
    finally:
        for end in ends:
            end.kill()


@case
def both_ends_of_a_link():
    pair = Pair([100])
    try:
        serve = start(pair.spaces[1], "--serve", "-c", "4")
        cut_while_busy(pair, [start(pair.spaces[0], "--to", "10.77.0.2", "-s", "256M", "--no-raw"), serve])
    finally:
        pair.close()


@case
def both_ends_of_a_link_by_ucx():
    pair = Pair([100])
    try:
        for space in pair.spaces:               # UCX knows a card only then
            until(lambda: read_card(space, "operstate") == "up", "the card works")
        serve = start(pair.spaces[1], "--serve", "-c", "4", "-t", "ucx", UCX_TLS="tcp")
        other = start(pair.spaces[0], "--to", "10.77.0.2", "-s", "256M", "--no-raw", "-t", "ucx", UCX_TLS="tcp")
        try:
            until(lambda: sent(pair) > 3 << 20 or other.poll() is not None, "bytes are under way, or there is no UCX")
            if other.poll() is not None and "libucx" in (said := other.stderr.read()):
                return said.strip()
            return cut_while_busy(pair, [other, serve])
        finally:
            serve.kill()
    finally:
        pair.close()


@case
def all_ranks_of_a_context():
    pair = Pair([100])
    try:
        with tempfile.TemporaryDirectory() as folder:
            options = ("--ranks", "3", "--store", folder, "-s", "64M", "-c", "2")
            # two ranks on one side of the cable, one on the other
            cut_while_busy(pair, [start(pair.spaces[r // 2], "--rank", str(r), *options) for r in range(3)])
    finally:
        pair.close()


if os.geteuid() != 0:
    print("network namespaces need root: skipped")
    sys.exit(77)
run_cases()
sys.exit(plan())
