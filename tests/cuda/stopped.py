#!/usr/bin/env python3
# shows: many-gpus: a GPU server, or a worker of it, that stands still (SIGSTOP) while copies between servers begin, go
#   on, wait in streams, or have not been linked yet: they fail with 46 within FLYT_SILENCE + 2 s, the GPUs of other
#   servers go on, and when the server goes on nothing of the program is left at any server
# shows: many-gpus: a worker that stands still while a link to it is being made costs no more time
"""tests/cuda/stopped.py [--bin DIR]: one program with three GPU servers, of which one is stopped; TAP on stdout."""
import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from several import Proxy, Servers, say  # noqa: E402
from testlib import plan, sanitizer_environment, until  # noqa: E402

PROGRAM = "build/cuda/across"
SILENCE = 3
# A copy that is queued in a stream when it fails ends the GPUs of the stream's server: that of device 0.
PHASES = (("first", True, 0), ("idle", False, 0), ("given", True, 46), ("queued", False, 46), ("sending", False, 0),
          ("receiving", True, 0), ("sending", True, 0))


def workers_of(server):
    """The spare one, and one for each program."""
    with open(f"/proc/{server.process.pid}/task/{server.process.pid}/children") as file:
        return [int(pid) for pid in file.read().split()]


def send(server, whole, number):
    for pid in workers_of(server) + ([server.process.pid] if whole else []):
        os.kill(pid, number)


def start(arguments, uri, phase):
    env = {**os.environ, **sanitizer_environment(arguments.bin), "FLYT_SILENCE": str(SILENCE)}
    return subprocess.Popen([os.path.join(arguments.bin, "flyt-run"), "--server", uri, PROGRAM, "stopped", phase],
                            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def look(process, what, own, servers):
    """own: what device 0 says in the end."""
    try:
        out, err = process.communicate("go\n", timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    match = re.search(r"^error: (\d+) after (\d+) ms$", out, re.M)
    code, ms = (int(match.group(1)), int(match.group(2))) if match else (-1, -1)
    good = process.returncode == 0 and code == 46 and ms <= (SILENCE + 2) * 1000
    say(good, f"{what}: error {code} after {ms} ms", out, err)
    good = all(line in out for line in ("device 2 meanwhile: 0\n", "device 1: 46\n", "device 2: 0\n",
                                        f"device 0: {own}\n", f"from 2 to 0: {own}\n"))
    say(good, f"{what}: the GPUs of other servers go on", out, err)
    send(servers.all[1], True, signal.SIGCONT)
    try:
        until(lambda: all(len(workers_of(server)) == 1 for server in servers.all), "one spare worker each", 20)
        say(True, f"{what}: nothing is left of the program")
    except AssertionError:
        say(False, f"{what}: nothing is left of the program", [workers_of(server) for server in servers.all])


def phases(arguments, servers):
    for phase, whole, own in PHASES:
        process = start(arguments, servers.uri, phase)
        ready = process.stdout.readline()
        send(servers.all[1], whole, signal.SIGSTOP)
        what = f"{'a server' if whole else 'a worker'}, {phase}" + ("" if ready else " (not ready)")
        look(process, what, own, servers)


class Stopping(Proxy):
    """Once armed, stops the workers of that server when a connection comes: the first of a link."""

    def __init__(self, uri, server):
        self.server, self.armed, self.stopped = server, False, False
        super().__init__(uri)

    def arrived(self):
        if self.armed and not self.stopped:
            self.stopped = True
            send(self.server, False, signal.SIGSTOP)


def joining(arguments, servers):
    """One of the two ends connects, which one is chance."""
    proxies = [Stopping(server.uri, servers.all[1]) for server in servers.all]
    process = start(arguments, ",".join(proxy.uri for proxy in proxies), "first")
    process.stdout.readline()
    for proxy in proxies:
        proxy.armed = True
    look(process, "a worker, while it is linked", 0, servers)
    say(any(proxy.stopped for proxy in proxies), "it was stopped by a connection of a link")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default="bin")
    arguments = parser.parse_args()
    arguments.bin = os.path.abspath(arguments.bin)
    folder = tempfile.mkdtemp(prefix="flyt-stopped-")
    os.environ["FLYT_SILENCE"] = str(SILENCE)
    statuses, servers = [], None
    try:
        servers = Servers(arguments.bin, folder, (1, 1, 1), 0, "tcp://127.0.0.1:*")
        phases(arguments, servers)
        joining(arguments, servers)
    finally:
        if servers:
            send(servers.all[1], True, signal.SIGCONT)
            statuses = servers.stop()
        shutil.rmtree(folder, ignore_errors=True)
    say(statuses == [0] * 3, "the servers end in good order", statuses)
    return plan()


if __name__ == "__main__":
    sys.exit(main())
