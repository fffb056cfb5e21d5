#!/usr/bin/env python3
"""worker_statistics.py BIN PROGRAM: a server with FLYT_STATS=1 says what the compiler has done for a program that has
ended. PROGRAM has a kernel without loops. TAP on stdout.

shows: software GPU: FLYT_STATS=1 of a server prints in its log what was compiled and the share of compiled code when a
  program has ended; not in the program's output, and not without the setting
"""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lib"), os.path.join(HERE, "..", "cuda")]
from e2e import Server  # noqa: E402
from testlib import case, need, only_cases, read, sanitizer_environment, until  # noqa: E402

BIN, PROGRAM = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
COMPILED = re.compile(r"^softgpu: compiled (\d+) regions in [\d.]+ ms of processor time, refused \d+$", re.M)
SHARE = re.compile(r"^softgpu: \d+ instructions of warps, ([\d.]+) % of them in compiled code$", re.M)
KERNEL = re.compile(r"^softgpu: \d+ instructions of warps of \S*vector_add\S*, [\d.]+ % of them in compiled code$",
                    re.M)
CLOSED = "event=worker-ended"


def run(**setting):
    """What the server logs, and what the program prints."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(BIN, "unix", "software", folder, {"FLYT_SOFTGPU_JIT": "always", "FLYT_LOG": "debug", **setting},
                        more=("--workers", "1"))
        environment = {**os.environ, **sanitizer_environment(BIN)}
        environment.pop("FLYT_STATS", None)
        done = subprocess.run([f"{BIN}/flyt-run", "--server", server.uri, PROGRAM], env=environment, text=True,
                              capture_output=True, timeout=100)
        need(done.returncode == 0, done.stderr)
        until(lambda: CLOSED in read(f"{folder}/server.log"), "the worker has ended")
        return server.stop()[1], done.stdout + done.stderr


@case
def the_log_has_them():
    log, said = run(FLYT_STATS="1")
    compiled, share = COMPILED.search(log), SHARE.search(log)
    need(compiled and int(compiled[1]) > 0, log)
    need(share and float(share[1]) > 10, log)
    need(KERNEL.search(log), log)
    need("softgpu:" not in said, said)


@case
def the_log_has_none_without_the_setting():
    log, said = run()
    need("softgpu: compiled" not in log + said, log + said)


if __name__ == "__main__":
    sys.exit(only_cases())
