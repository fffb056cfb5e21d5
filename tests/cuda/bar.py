#!/usr/bin/env python3
# shows: ivshmem: programs with FLYT_BAR and a server with --bar run through a file that stands for the device's
#   memory, pinned memory included
# shows: ivshmem: a client or worker that is killed gives its part of the memory back; with none free a program runs
#   over the network
"""tests/cuda/bar.py: programs that go on through the memory of an ivshmem device, here a file in /dev/shm; TAP on
stdout.

    bar.py [--bin DIR]
"""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e  # noqa: E402
from testlib import bin_folder, only_cases  # noqa: E402

PROGRAMS = ("vector_add", "streams", "pinned", "memory", "cancelled")
MIB = 1 << 20


class Bar:
    """A file, and a server that has it."""

    def __init__(self, bindir, size, sessions, transport="tcp"):
        self.bin, self.folder = bindir, tempfile.mkdtemp(prefix="flyt-bar.")
        handle, self.path = tempfile.mkstemp(prefix="flyt-bar.", dir="/dev/shm")
        os.truncate(handle, size)
        os.close(handle)
        more = ("--bar", f"{self.path},{sessions}") if sessions else ()
        self.server = e2e.Server(bindir, transport, "software", self.folder, {"FLYT_LOG": "info"}, more=more)

    def environment(self, **env):
        return {**os.environ, **e2e.sanitizer_environment(self.bin), "FLYT_STATS": "1", "FLYT_SERVER": self.server.uri,
                "FLYT_BAR": self.path, **env}

    def run(self, program, **env):
        """Exit status, the transport, all that was said."""
        done = subprocess.run([os.path.join(self.bin, "flyt-run"), f"build/cuda/{program}"], capture_output=True,
                              text=True, errors="replace",
                              timeout=100, env=self.environment(**env))
        match = re.search(r"received over (\S+)", done.stderr)
        return done.returncode, match.group(1) if match else "nothing", done.stdout + done.stderr

    def runs_over(self, wanted, warning=None, program="vector_add", **env):
        status, transport, said = self.run(program, **env)
        warnings = re.findall(r"FLYT_BAR.*", said)
        unexpected = len(warnings) != (warning is not None) or (warning and warning not in warnings[0])
        if status or transport != wanted or unexpected:
            raise AssertionError(f"{program}: status {status}, over {transport} (not {wanted}):\n{said[-2000:]}")

    def soon_over(self, wanted):
        """A worker whose client was killed needs a moment to notice."""
        end = time.monotonic() + 10
        while True:
            status, transport, said = self.run("vector_add")
            if transport == wanted or time.monotonic() > end:
                break
            time.sleep(0.1)
        if status or transport != wanted:
            raise AssertionError(f"status {status}, over {transport} (not {wanted}):\n{said[-2000:]}")

    def forever(self):
        """A program that holds its part."""
        process = subprocess.Popen([os.path.join(self.bin, "flyt-run"), "build/cuda/forever"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=self.environment())
        if "running" not in process.stdout.readline():
            raise AssertionError(process.stderr.read())
        return process

    def holders(self):
        """Processes of the server that have the file open."""
        found = []
        for link in glob.glob("/proc/[0-9]*/fd/*"):
            try:
                name = f"/proc/{link.split('/')[2]}/comm"
                if os.readlink(link) == self.path and "cricket-worker" in open(name).read():
                    found.append(int(link.split("/")[2]))
            except OSError:
                pass
        return found

    def end(self):
        status, log = self.server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        os.unlink(self.path)
        if status:
            raise AssertionError(f"the server: {status}\n{log[-2000:]}")
        return log


def everything(bindir):
    bar = Bar(bindir, 512 * MIB, 2)
    try:
        for program in PROGRAMS:
            bar.runs_over("shm", program=program)
        bar.runs_over("tcp", FLYT_PERF="no_shm")
    finally:
        log = bar.end()
    if len(re.findall(r"transport=shm", log)) < len(PROGRAMS):
        raise AssertionError("the server's log:\n" + log[-2000:])


def a_small_one(bindir):
    bar = Bar(bindir, 4 * MIB, 1)                     # the rings, and no byte for copies
    try:
        bar.runs_over("shm")
        bar.runs_over("shm", program="memory")
    finally:
        bar.end()


def killed(bindir):
    bar = Bar(bindir, 64 * MIB, 1)
    try:
        one = bar.forever()
        bar.runs_over("tcp", "no part of its --bar free")
        one.kill()
        one.communicate()
        bar.soon_over("shm")
        two = bar.forever()
        holders = bar.holders()
        if len(holders) != 1:
            raise AssertionError(f"workers with the file: {holders}")
        os.kill(holders[0], signal.SIGKILL)
        output = two.communicate(timeout=30)
        if two.returncode != 3:
            raise AssertionError(f"its server was killed, and it ended with {two.returncode}: {output}")
        bar.soon_over("shm")
    finally:
        bar.end()


def none(bindir):
    bar = Bar(bindir, 64 * MIB, 0)
    try:
        bar.runs_over("tcp", "without --bar")
        bar.runs_over("tcp", "No such file", FLYT_BAR="/dev/shm/flyt-none-such")
    finally:
        bar.end()
    bar = Bar(bindir, 64 * MIB, 0, "tls")
    try:
        bar.runs_over("tls", "not encrypted")
    finally:
        bar.end()


def wrong(bindir):
    server = [os.path.join(bindir, "cricket-rpc-server"), "--gpu", "null"]
    for words, pattern in ((("tcp://127.0.0.1:0", "/dev/shm/flyt-none-such"), "No such file"),
                           (("tcp://127.0.0.1:0", "/dev/shm,x"), "from 1 to 256"),
                           (("tcp://127.0.0.1:0", sys.argv[0]), "sessions need"),
                           (("tcp://127.0.0.1:0", "/dev/null"), "neither a file in memory"),
                           (("tls://127.0.0.1:0", "/dev/null"), "no --listen has such an address")):
        done = subprocess.run([*server, "--listen", words[0], "--bar", words[1]], capture_output=True, text=True,
                              timeout=30)
        if done.returncode != 2 or pattern not in done.stderr:
            raise AssertionError(f"{words}: {done.returncode} {done.stderr}")


CASES = {"programs, pinned memory included, go through a file": everything,
         "a file without room for copies will do for calls": a_small_one,
         "a killed client or worker gives its part back": killed,
         "without it they go over the network and say why": none,
         "wrong settings of the server are named": wrong}


def main():
    bindir = bin_folder(__doc__)
    for name, case in CASES.items():
        case.__name__ = name
    return only_cases(tests=list(CASES.values()), call=lambda case: case(bindir))


if __name__ == "__main__":
    sys.exit(main())
