#!/usr/bin/env python3
"""A program fills every kind of memory, and ends in one way or another; the next one looks for what it left.

    fresh.py [--bin DIR] [--transport unix|shm|tcp] PROGRAM

shows: attacks: what an ended or killed program left in memory of any kind is not in fresh memory of the next one
"""
import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from e2e import Server, sanitizer_environment     # noqa: E402
from testlib import ok, plan  # noqa: E402



def workers(server):
    with open(f"/proc/{server.process.pid}/task/{server.process.pid}/children") as file:
        return {int(pid) for pid in file.read().split()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default="bin")
    parser.add_argument("--transport", choices=["unix", "shm", "tcp"], default="shm")
    parser.add_argument("program")
    arguments = parser.parse_args()
    binaries = os.path.abspath(arguments.bin)
    folder = tempfile.mkdtemp(prefix="flyt-fresh-")
    env = {**os.environ, **sanitizer_environment(binaries)}
    # One worker is ready: it begins before the program whose memory it might see has filled it.
    server = Server(binaries, arguments.transport, "software", folder, {}, more=("--workers", "1"))
    command = [f"{binaries}/flyt-run", "--server", server.uri, os.path.abspath(arguments.program)]
    try:
        for way in ("ends", "is killed", "has its worker killed"):
            before = workers(server)
            filler = subprocess.Popen([*command, "fill"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True)
            said = filler.stdout.readline()
            ok(said == "filled\n", f"a program fills all kinds of memory ({said.strip()})")
            looked = subprocess.run([*command, "look"], env=env, capture_output=True, text=True, timeout=120)
            ok(looked.returncode == 0, f"one beside it finds zeros: {looked.stdout.strip()}{looked.stderr[-500:]}")
            if way == "is killed":
                filler.send_signal(signal.SIGKILL)
            elif way == "has its worker killed":
                for pid in before & workers(server):
                    os.kill(pid, signal.SIGKILL)
            filler.communicate(timeout=60)
            for number in (1, 2):
                looked = subprocess.run([*command, "look"], env=env, capture_output=True, text=True, timeout=120)
                ok(looked.returncode == 0, f"it {way}; program {number} after it finds zeros: "
                                           f"{looked.stdout.strip()}{looked.stderr[-500:]}")
    finally:
        status, log = server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    ok(status == 0, f"the server stops cleanly: {status}")
    return plan()


sys.exit(main())
