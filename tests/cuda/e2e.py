#!/usr/bin/env python3
"""tests/cuda/e2e.py: runs end-to-end programs through Flyt; TAP on stdout.

    e2e.py [--bin DIR] [--transport tcp|tls|unix|shm|local] [--way preload|run] [--gpu KIND] [--chaos SEED]
           [--arguments WORDS] PROGRAM...

One server is started for all of them on a free port or a socket in a temporary folder, and stopped at the end, when it
must exit with status 0 and leave nothing behind. A program passes with exit status 0; `expect` files next to its source
(NAME.expect: one regular expression a line) must match its output in order.
"""
import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from testlib import GpuServer, allowed, comment, ok, plan, read, result, sanitizer_environment, skip  # noqa: E402


class Server(GpuServer):
    """A cricket-rpc-server of our own, ready when it says where it listens."""

    def __init__(self, bindir, transport, gpu, folder, extra_env, also=None, more=()):
        uri = f"{transport}://127.0.0.1:0" if transport in ("tcp", "tls") else f"{transport}://{folder}/server.sock"
        super().__init__(bindir, uri, *([also] if also else []), gpu=gpu, more=more, log=f"{folder}/server.log",
                         **extra_env)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = "killed: it did not stop within 10 s of SIGTERM"
        return status, read(self.log)


def expectations(program):
    path = os.path.join(HERE, os.path.basename(program) + ".expect")
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [line.rstrip("\n") for line in file if line.strip()]


def run(program, arguments, uri, extra_env):
    env = {**os.environ, **sanitizer_environment(arguments.bin), **extra_env, "FLYT_SERVER": uri}
    command = [program, *arguments.arguments.split()]
    if arguments.way == "preload":
        env["LD_PRELOAD"] = " ".join(filter(None,
                                            [env.get("LD_PRELOAD"), os.path.join(arguments.bin, "cricket-client.so")]))
        env["LD_LIBRARY_PATH"] = os.path.join(arguments.bin,
                                              "cudart")   # only so that the loader finds a libcudart at all
    else:
        command = [os.path.join(arguments.bin, "flyt-run"), "--server", uri] + command
    started, limit = time.monotonic(), allowed(arguments.limit, arguments.bin)
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, errors="replace", timeout=limit,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"") + (late.stderr or b"")
        return f"ran past {limit:.0f} s", said.decode(), limit
    output, position = done.stdout + done.stderr, 0
    problem = f"exit status {done.returncode}" if done.returncode not in (0, 77) else None
    for pattern in expectations(program) if done.returncode == 0 else []:
        match = re.compile(pattern, re.M).search(output, position)
        if not match:
            problem = f"its output lacks (in this order): {pattern}"
            break
        position = match.end()
    if done.returncode == 77:
        problem = "SKIP"
    return problem, output, time.monotonic() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="bin")
    parser.add_argument("--transport", choices=["tcp", "tls", "unix", "shm", "local"], default="unix")
    parser.add_argument("--way", choices=["preload", "run"], default="run")
    parser.add_argument("--gpu", default="software")
    parser.add_argument("--chaos", default="")
    parser.add_argument("--arguments", default="", help="for each program, separated by spaces")
    parser.add_argument("--limit", type=float, default=60,
                        help="seconds for one program on an idle machine, without a sanitizer")
    parser.add_argument("program", nargs="+")
    arguments = parser.parse_args()
    arguments.bin = os.path.abspath(arguments.bin)
    folder = tempfile.mkdtemp(prefix="flyt-e2e.")
    extra = {"FLYT_SOFTGPU_CHAOS": arguments.chaos} if arguments.chaos else {}
    if arguments.transport == "unix":
        extra["FLYT_PERF"] = "no_shm"           # or it would be shared memory: shm:// insists on that
    where = f"{arguments.transport}, {arguments.way}" + (f", chaos {arguments.chaos}" if arguments.chaos else "")
    failed = 0
    try:
        server = None
        if arguments.transport != "local":
            server = Server(arguments.bin, arguments.transport, arguments.gpu, folder, extra)
        for program in arguments.program:
            problem, output, seconds = run(os.path.abspath(program), arguments,
                                           server.uri if server else f"local:{arguments.gpu}", extra)
            name = f"{os.path.basename(program)} ({where})"
            if problem == "SKIP":
                skip(name, output.strip().splitlines()[-1] if output.strip() else "")
            elif problem:
                failed += 1
                result(f"{name}: {problem}", "\n".join(output.splitlines()[-30:]) or problem)
            else:
                ok(f"{name} # {seconds:.2f} s")
        if server:
            status, log = server.stop()
            ok(status == 0, f"the server stops cleanly ({where})" + (f": {status}" if status else ""))
            if status or failed:
                comment("\n".join("server: " + line for line in log.splitlines()[-40:]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return plan()


if __name__ == "__main__":
    sys.exit(main())
