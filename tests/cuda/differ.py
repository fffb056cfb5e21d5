#!/usr/bin/env python3
# shows: order: the same random work in process and over shared memory, a unix socket, TCP with and without lanes, and
#   TLS: the same results and error codes, call by call
"""tests/cuda/differ.py: build/cuda/differ over every transport, compared call by call with a run in process; TAP on
stdout.

    differ.py [--bin DIR] [--seeds FIRST-LAST] [--steps N] [--threads N] [--devices N] [--chaos SEED] [--only NAME]

The program checks memory against a model by itself; here what its calls returned is compared.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e
from testlib import plan, result, sanitized  # noqa: E402

PROGRAM = "build/cuda/differ"

# name: transport, environment of the program
REMAPPED = "shared memory, registered ranges remapped"
PLACES = {
    "shared memory": ("shm", {}),
    "a unix socket": ("unix", {"FLYT_PERF": "no_shm"}),
    "TCP": ("tcp", {}),
    "TCP with lanes": ("tcp", {"FLYT_LANES": "3:1"}),
    "TCP without lanes": ("tcp", {"FLYT_LANES": "0"}),
    "TCP, sources read in turn": ("tcp", {"FLYT_PERF": "no_early"}),
    "TLS": ("tls", {}),
    "shared memory, each call waited for": ("shm", {"FLYT_PERF": "no_async"}),
    "shared memory, nothing kept": ("shm", {"FLYT_PERF": "no_cache,no_pipeline"}),
    "shared memory, no host memory shared": ("shm", {"FLYT_PERF": "no_payload"}),
    REMAPPED: ("shm", {"FLYT_REGISTER": "remap"}),
}


def run(bindir, uri, arguments, environment):
    command = [os.path.join(bindir, "flyt-run"), "--server", uri, PROGRAM, *arguments]
    env = {**os.environ, **e2e.sanitizer_environment(bindir), **environment}
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, errors="replace", timeout=100,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return "none", "ran past 100 s", []
    return done.returncode, done.stderr, done.stdout.splitlines()


def end_of(text, lines=25):
    return "\n".join((text or "").splitlines()[-lines:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="bin")
    parser.add_argument("--seeds", default="1-1")
    parser.add_argument("--steps", default="150")
    parser.add_argument("--threads", default="3")
    parser.add_argument("--devices", default="2")
    parser.add_argument("--chaos", default="")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    bindir = os.path.abspath(arguments.bin)
    first, _, last = arguments.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    places = {name: place for name, place in PLACES.items() if not arguments.only or name == arguments.only}
    if sanitized(bindir, "address"):
        places.pop(REMAPPED, None)          # whole pages are copied, with what the sanitizer keeps around a block
    device = {"FLYT_SOFTGPU_DEVICES": arguments.devices,
              **({"FLYT_SOFTGPU_CHAOS": arguments.chaos} if arguments.chaos else {})}
    folder = tempfile.mkdtemp(prefix="flyt-differ.")
    servers = {}
    try:
        for where in {where for where, _ in places.values()}:
            own = os.path.join(folder, where)
            os.mkdir(own)
            servers[where] = e2e.Server(bindir, where, "software", own, device)
        for seed in seeds:
            words = [str(seed), arguments.steps, arguments.threads]
            status, text, here = run(bindir, "local:software", words, device)
            text_here = text if status else ""
            result(f"in process, seed {seed}", end_of(text_here or ("exit status " + str(status) if status else "")))
            for name, (where, environment) in places.items():
                status, text, there = run(bindir, servers[where].uri, words, environment)
                problem = f"exit status {status}: {text}" if status else None
                if not problem and not text_here and here != there:
                    different = [f"{a}   in process, there {b}" for a, b in zip(here, there) if a != b]
                    problem = "\n".join(different[:20] or [f"{len(here)} calls in process, {len(there)} there"])
                result(f"{name}, seed {seed}", end_of(problem))
    finally:
        for where, server in servers.items():
            status, log = server.stop()
            result(f"the {where} server stops cleanly", end_of(f"{status}\n{log}" if status else ""))
        shutil.rmtree(folder, ignore_errors=True)
    return plan()


if __name__ == "__main__":
    sys.exit(main())
