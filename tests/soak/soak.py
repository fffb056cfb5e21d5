#!/usr/bin/env python3
"""tests/soak/soak.py: the soak through Flyt, in rounds, with chaos; TAP on stdout.

    soak.py [--bin DIR] [--seconds N] [--seed N] [--rounds N] [--transport shm] [--transport tcp] PROGRAM

Each round starts a server with a chaos seed of its own and runs PROGRAM against it, with a seed of its own. The rounds
take the transports in turn and share the time. All seeds follow from --seed (default: the time), which is printed. A
wrong result ends the soak, and the message says how to repeat that round and, within it, that run. The first round is
without chaos.
"""
import argparse
import os
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cuda"))
import e2e  # noqa: E402
from testlib import comment, ok, plan, result, skip  # noqa: E402

# Seconds beyond a round's own, after which the program is ended. It notices an endless run itself before that.
ENDLESS = 300


def one_round(arguments, transport, seconds, seed, chaos):
    """Returns what is wrong (None: nothing), and what the program and the server said."""
    folder = tempfile.mkdtemp(prefix="flyt-soak.")
    extra = {"FLYT_SOFTGPU_CHAOS": str(chaos)} if chaos else {}
    options = argparse.Namespace(bin=arguments.bin, way="run", limit=seconds + ENDLESS, arguments=f"{seconds} {seed}")
    try:
        server = e2e.Server(arguments.bin, transport, "software", folder, extra)
        try:
            problem, output, _ = e2e.run(os.path.abspath(arguments.program), options, server.uri, extra)
        finally:
            status, log = server.stop()
        if problem is None and status != 0:
            problem = f"the server ended with {status}"
        return problem, output, log
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="bin")
    parser.add_argument("--seconds", type=float, default=8, help="for all rounds together (default 8)")
    parser.add_argument("--seed", type=int, default=None, help="default: the time")
    parser.add_argument("--rounds", type=int, default=None,
                        help="default: one for every 60 s, at least one for each transport")
    parser.add_argument("--transport", action="append", choices=["shm", "unix", "tcp", "tls"], default=None,
                        help="may be repeated (default shm and tcp)")
    parser.add_argument("program")
    arguments = parser.parse_args()
    arguments.bin = os.path.abspath(arguments.bin)
    transports = arguments.transport or ["shm", "tcp"]
    seed = arguments.seed if arguments.seed is not None else int(time.time())
    rounds = arguments.rounds or max(len(transports), int(arguments.seconds / 60))
    seconds = round(arguments.seconds / rounds, 1)
    comment(f"soak: seed {seed}, {rounds} rounds of {seconds} s")
    for k in range(rounds):
        transport, mine = transports[k % len(transports)], seed + k
        chaos = mine % 100003 if k else 0
        name = f"soak ({transport}, seed {mine}, chaos {chaos or 'none'})"
        problem, output, log = one_round(arguments, transport, seconds, mine, chaos)
        said = output.strip().splitlines()
        if problem:
            server_said = ["server: " + line for line in log.splitlines()[-20:]]
            result(f"{name}: {problem}", "\n".join(said[-30:] + server_said) or problem)
            comment(f"repeat: FLYT_SOFTGPU_CHAOS={chaos} in the server's and the program's environment, "
                    f"{arguments.program} {seconds} {mine}")
            for _ in range(k + 1, rounds):
                skip("soak", "an earlier round was wrong")
            break
        ok(f"{name} # {said[-1] if said else ''}")
    return plan()


if __name__ == "__main__":
    sys.exit(main())
