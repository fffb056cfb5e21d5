#!/usr/bin/env python3
# shows: order: programs over TCP, a unix socket and shared memory at once on one server, all results right
# shows: survival: programs killed with -9 at any moment disturb no other, and leave no worker, on each transport
"""tests/cuda/together.py: programs over every transport at once on one server; TAP on stdout.

    together.py [--bin DIR] [--seed N] [--rounds N] [--steps N]

In each round three stress programs (build/cuda/stress), one over each transport, run beside three others that are
killed at a random moment. Those that are left alone must succeed; afterwards the server must have no worker but its
idle ones.
"""
import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e  # noqa: E402
from testlib import comment, ok, plan  # noqa: E402

STRESS = "build/cuda/stress"
SPARES = 2                              # workers that a server keeps ready


def say(good, name, details=""):
    ok(good, name)
    if not good:
        comment("\n".join(details.splitlines()[-20:]))


def start(bindir, where, uri, seed, steps):
    perf = {"FLYT_PERF": "no_shm"} if where == "unix" else {}
    env = {**os.environ, **e2e.sanitizer_environment(bindir), **perf}
    return subprocess.Popen([os.path.join(bindir, "flyt-run"), "--server", uri, STRESS, str(seed), str(steps)], env=env,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL)


def workers(server):
    """Process numbers of the server's children."""
    with open(f"/proc/{server.process.pid}/task/{server.process.pid}/children") as file:
        return file.read().split()


def settled(server, seconds):
    """Whether only idle workers are left in time."""
    deadline = time.monotonic() + seconds
    while len(workers(server)) > SPARES and time.monotonic() < deadline:
        time.sleep(0.1)
    return len(workers(server)) <= SPARES


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="bin")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=300)
    arguments = parser.parse_args()
    bindir, chance = os.path.abspath(arguments.bin), random.Random(arguments.seed)
    folder = tempfile.mkdtemp(prefix="flyt-together.")

    try:
        server = e2e.Server(bindir, "tcp", "software", folder, {}, also=f"unix://{folder}/both.sock")
        places = {"tcp": server.uri, "unix": f"unix://{folder}/both.sock", "shm": f"shm://{folder}/both.sock"}
        for number in range(arguments.rounds):
            seed = arguments.seed * 1000 + number
            running = {where: start(bindir, where, uri, seed, arguments.steps) for where, uri in places.items()}
            doomed = [start(bindir, where, uri, seed + 500, arguments.steps * 100) for where, uri in places.items()]
            for program in doomed:
                time.sleep(chance.uniform(0, 0.4))
                program.send_signal(signal.SIGKILL)
                program.communicate()
            for where, program in running.items():
                try:
                    output, _ = program.communicate(timeout=120)
                except subprocess.TimeoutExpired:
                    program.kill()
                    output = program.communicate()[0] + "\nran past 120 s"
                say(program.returncode == 0, f"stress over {where} beside the others, seed {seed}", output)
            say(settled(server, 10), "no worker is left of programs that were killed", f"children: {workers(server)}")
        status, log = server.stop()
        say(status == 0, "the server stops cleanly", log)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return plan()


if __name__ == "__main__":
    sys.exit(main())
