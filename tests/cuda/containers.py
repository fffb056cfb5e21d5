#!/usr/bin/env python3
# shows: shared memory: programs in namespaces of their own (mounts, processes, network, IPC, users) come to it
#   through the unix socket alone
"""tests/cuda/containers.py: a server here, programs in containers; TAP on stdout.

    containers.py [--bin DIR]

A container is what unshare(1) makes. The program asks for shared memory or nothing, and uses pinned memory in place.
"""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e  # noqa: E402
from testlib import bin_folder, plan, result, skip  # noqa: E402

PROGRAM = "build/cuda/pinned"
# unshare needs this of who is not root.
ROOT = [] if os.geteuid() == 0 else ["-U", "-r"]
CONTAINERS = {
    "mounts, processes and IPC": ["-m", "-p", "-f", "-i"],
    "a network": ["-n"],
    "users": ["-U", "-r"],
    "everything, and another /dev/shm and /proc": ["-m", "-p", "-f", "-i", "-n", "-u"],
}


def main():
    bindir = bin_folder(__doc__)
    folder = tempfile.mkdtemp(prefix="flyt-containers.")
    server = e2e.Server(bindir, "shm", "software", folder, {})
    try:
        for name, words in CONTAINERS.items():
            unshare = ["unshare", *(ROOT if "-U" not in words else []), *words]
            probe = subprocess.run([*unshare, "true"], capture_output=True, text=True)
            if probe.returncode:
                skip(f"a program with {name} of its own", probe.stderr.strip())
                continue
            shell = "exec \"$@\""
            if "/proc" in name:
                shell = "mount -t tmpfs none /dev/shm && mount -t proc none /proc && " + shell
            command = [*unshare, "sh", "-c", shell, "sh", os.path.join(bindir, "flyt-run"), "--server", server.uri,
                       PROGRAM]
            env = {**os.environ, **e2e.sanitizer_environment(bindir), "FLYT_STATS": "1"}
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=100, env=env)
            good = done.returncode == 0 and "received over shm" in done.stderr
            result(f"a program with {name} of its own", not good and (done.stdout + done.stderr)[-2000:])
    finally:
        status, log = server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    result("the server stops cleanly", status and f"{status}\n{log[-2000:]}")
    return plan()


if __name__ == "__main__":
    sys.exit(main())
