#!/usr/bin/env python3
"""tests/comm/perf.py BIN: flyt-comm-perf on this machine; TAP on stdout.

shows: communication: flyt-comm-perf measures over TCP, TLS and shared memory, between two processes that meet at a port
shows: communication: and by UCX, where it is there; where it is not, its package is named
shows: communication: GPU servers that are started by hand link their workers by UCX, and refuse one that does not
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import GpuServer, case, free_ports, plan, run_cases  # noqa: E402

TOOL = os.path.join(sys.argv[1], "flyt-comm-perf")


def perf(*options, expect=0, **environment):
    done = subprocess.run([TOOL, *options], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "FLYT_COMM_INTERFACES": "lo", **environment})
    assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
    return done


def measure(transport, *options, **environment):
    lines = [json.loads(line) for line in perf("--json", "-s", "1K,3M", "-n", "2", "-c", "3", *options,
                                               **environment).stdout.splitlines()]
    assert [line.get("bytes") for line in lines] == [None, 1024, 3 << 20], lines
    assert all(line["transport"] == transport and line["channels"] == 3 for line in lines), lines
    assert lines[0]["latency_us"] > 0 and all(line["ratio"] > 0 for line in lines[1:]), lines


@case
def each_transport():
    for transport in ("tcp", "tls", "shm"):
        measure(transport, "-t", transport)


def without_ucx():
    """What is said where there is no UCX; None: it is there."""
    done = subprocess.run([TOOL, "-t", "ucx", "-s", "1", "-n", "1", "--no-raw"], capture_output=True, text=True,
                          timeout=60)
    return done.stderr.splitlines()[-1] if done.returncode and "libucx" in done.stderr else None


@case
def by_ucx():
    why = without_ucx()
    if why:
        return why
    for tls in ("tcp", "posix,sysv,cma"):
        measure("ucx", "-t", "ucx", UCX_TLS=tls)
        measure("ucx", FLYT_LINK_TRANSPORT="ucx-in-clear", UCX_TLS=tls)
    measure("tcp", "-t", "tcp", FLYT_LINK_TRANSPORT="ucx")
    assert "UCX" in perf("-t", "ucx", UCX_TLS="none-such", expect=1).stderr
    return None


@case
def gpus_of_servers_by_ucx():
    why = without_ucx()
    if why:
        return why
    ports = free_ports(2)
    addresses = [f"tcp://127.0.0.1:{port}" for port in ports]
    for transports in (("ucx", "ucx"), ("ucx", "sockets")):
        with (GpuServer(sys.argv[1], addresses[0], more=("--links", addresses[1]), UCX_TLS="tcp",
                        FLYT_LINK_TRANSPORT=transports[0]),
              GpuServer(sys.argv[1], addresses[1], more=("--links", addresses[0]), UCX_TLS="tcp",
                        FLYT_LINK_TRANSPORT=transports[1])):
            alike = transports[0] == transports[1]
            done = perf("--gpus", ",".join(addresses), "-s", "3M", "-n", "1", expect=0 if alike else 1)
            assert alike or "one end wants UCX" in done.stderr, done
    return None


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
    assert "FLYT_LINK_TRANSPORT" in perf(FLYT_LINK_TRANSPORT="tcp5", expect=1).stderr


run_cases()
sys.exit(plan())
