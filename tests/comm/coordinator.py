#!/usr/bin/env python3
"""tests/comm/coordinator.py BIN PROGRAM: GPU servers, and PROGRAM (coordinator.c), which tells their GPUs what to send.

shows: links: a coordinator tells the sender first, by rank, and gets a number; then the receiver, with that number; in
  groups, in rings, and in copies, whose numbers it counts by itself
shows: links: a program with flyt_coordinator.h alone lets GPUs of three servers send to each other, over TCP and TLS
shows: links: a copy from GPU to GPU costs its coordinator's connections less than 1 KiB, whatever its size
shows: links: a GPU server that is killed is an error at its coordinator and at the other end of its links
"""
import os
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import GpuServer, case, need, plan, run_cases  # noqa: E402

BIN, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:3])


def run(kind):
    servers = [GpuServer(BIN, kind + "://127.0.0.1:0", more=("--workers", "1", "--links", kind + "://127.0.0.1:*"))
               for _ in range(3)]
    program = None
    try:
        program = subprocess.Popen([PROGRAM] + [server.uri for server in servers], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        said = []
        for line in program.stdout:
            said.append(line.rstrip())
            if line.startswith("# ready"):
                servers[1].process.send_signal(signal.SIGKILL)      # its workers end with it
                servers[1].process.wait()
                program.stdin.write("go on\n")
                program.stdin.flush()
        program.wait(timeout=60)
        for line in said:
            if line.startswith("#"):
                print(line)
        need(program.returncode == 0 and said[-1] == "ok 1 - coordinator", said)
    finally:
        if program and program.poll() is None:
            program.kill()
        for server in servers:
            server.end()


@case
def over_tcp():
    run("tcp")


@case
def over_tls():
    run("tls")


run_cases()
sys.exit(plan())
