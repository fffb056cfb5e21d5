#!/usr/bin/env python3
"""tests/cuda/guest.py [--bin DIR]: programs whose own state is unusual, and servers started in one; TAP on stdout.

shows: a guest in the program: a server that is started without stdin and stderr keeps their numbers free of its
   sockets, and so do its workers
"""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e  # noqa: E402
from testlib import bin_folder, case, need, only_cases  # noqa: E402

BIN = bin_folder(__doc__)
PROGRAMS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "build/cuda")


def flyt(uri, *command, **env):
    return subprocess.run([os.path.join(BIN, "flyt-run"), "--server", uri, *command], capture_output=True, text=True,
                          errors="replace",
                          timeout=100, env={**os.environ, **e2e.sanitizer_environment(BIN), **env},
                          stdin=subprocess.DEVNULL)


def descriptors(pid):
    """number -> (what it is, whether it is close-on-exec). Of a process that has ended, none."""
    found = {}
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except FileNotFoundError:
        return found
    for name in names:
        try:
            with open(f"/proc/{pid}/fdinfo/{name}") as file:
                flags = next(int(line.split()[1], 8) for line in file if line.startswith("flags:"))
            found[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}"), bool(flags & os.O_CLOEXEC)
        except FileNotFoundError:
            pass                                # closed meanwhile
    return found


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


@case
def a_server_without_stdin_and_stderr(folder):
    """Its stdout is a pipe, on which it says where it listens; 0 and 2 are closed when it starts."""
    def close_two():
        os.close(0)
        os.close(2)
    server = subprocess.Popen([f"{BIN}/cricket-rpc-server", "--listen", f"unix://{folder}/two.sock", "--gpu",
                               "software"],
                              stdout=subprocess.PIPE, text=True, preexec_fn=close_two)
    try:
        said = server.stdout.readline()
        if "listening" not in said:
            return f"it says {said!r}"
        if (done := flyt(f"unix://{folder}/two.sock", f"{PROGRAMS}/vector_add")).returncode:
            return done.stdout + done.stderr
        for pid in [server.pid, *children(server.pid)]:
            for fd, (what, closes) in descriptors(pid).items():
                captured = what.startswith("/memfd:flyt-std")       # a worker's stdout and stderr
                if fd < 3 and not (what == "/dev/null" or captured or fd == 1):
                    return f"process {pid} has {what} as descriptor {fd}"
                # a worker's socket to its listener crosses exec
                if fd >= 3 and not closes and not what.startswith("socket:"):
                    return f"process {pid}: descriptor {fd} ({what}) is not close-on-exec"
    finally:
        server.terminate()
        status = server.wait(10)
    return None if status == 0 else f"it ends with status {status}"


def call(function):
    """A case gets a folder, and returns what is wrong, or nothing."""
    folder = tempfile.mkdtemp(prefix="flyt-guest.")
    try:
        problem = function(folder)
        need(not problem, problem)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(only_cases(call=call))
