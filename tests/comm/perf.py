#!/usr/bin/env python3
"""tests/comm/perf.py BIN: flyt-comm-perf on this machine; TAP on stdout.

shows: communication: flyt-comm-perf measures over TCP, TLS and shared memory, between two processes that meet at a port
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import case, free_ports, plan, run_cases  # noqa: E402

TOOL = os.path.join(sys.argv[1], "flyt-comm-perf")


def perf(*options, expect=0, **environment):
    done = subprocess.run([TOOL, *options], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "FLYT_COMM_INTERFACES": "lo", **environment})
    assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
    return done


@case
def each_transport():
    for transport in ("tcp", "tls", "shm"):
        lines = [json.loads(line) for line in perf("--json", "-t", transport, "-s", "1K,3M", "-n", "2", "-c",
                                                   "3").stdout.splitlines()]
        assert [line.get("bytes") for line in lines] == [None, 1024, 3 << 20], lines
        assert all(line["transport"] == transport and line["channels"] == 3 for line in lines), lines
        assert lines[0]["latency_us"] > 0 and all(line["ratio"] > 0 for line in lines[1:]), lines


@case
def two_processes():
    port = str(free_ports(1)[0])
    serve = subprocess.Popen([TOOL, "--serve", "-i", "lo", "-c", "2"],
                             env={**os.environ, "FLYT_BOOTSTRAP_PORT_BASE": port})
    said = perf("--to", "127.0.0.1", "-s", "1M", "-n", "1", "--no-raw", FLYT_BOOTSTRAP_PORT_BASE=port).stdout
    assert serve.wait(timeout=30) == 0
    assert "2 channels" in said and "1048576" in said, said         # the smaller number of the two ends


@case
def all_reduce_of_ranks():
    lines = [json.loads(line) for line in perf("--json", "--ranks", "3", "-s", "1K,2M", "-n", "2").stdout.splitlines()]
    assert lines[0]["ranks"] == 3 and lines[0]["made_ms"] > 0 and lines[0]["all_reduce_8_us"] > 0, lines
    assert [line["bytes"] for line in lines[1:]] == [1024, 2 << 20] and lines[2]["bus_mb_s"] > 0, lines


@case
def bad_input():
    assert "--to HOST" in perf("--help").stdout
    for options in (("-s", "0"), ("-s", "1X"), ("-c", "17"), ("-t", "udp"), ("--serve", "--to", "x"), ("more",),
                    ("--ranks", "2", "--rank", "2"), ("--store", "/tmp"), ("--ranks", "2", "--serve")):
        assert "--help" in perf(*options, expect=2).stderr, options
    assert "no network card nowhere" in perf("-i", "nowhere", expect=1).stderr
    assert "FLYT_CHANNELS" in perf(FLYT_CHANNELS="99", expect=1).stderr


run_cases()
sys.exit(plan())
