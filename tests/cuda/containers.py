#!/usr/bin/env python3
# shows: shared memory: programs in namespaces of their own (mounts, processes, network, IPC, users) come to it
#   through the unix socket alone
"""tests/cuda/containers.py: a server here, programs in containers; TAP on stdout.

    containers.py [--bin DIR]

A container is what unshare(1) makes. The program asks for shared memory or nothing, and uses pinned memory in place.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e

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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="bin")
    bindir = os.path.abspath(parser.parse_args().bin)
    folder = tempfile.mkdtemp(prefix="flyt-containers.")
    server, failed = e2e.Server(bindir, "shm", "software", folder, {}), 0
    print(f"1..{len(CONTAINERS) + 1}")
    try:
        for number, (name, words) in enumerate(CONTAINERS.items(), 1):
            unshare = ["unshare", *(ROOT if "-U" not in words else []), *words]
            probe = subprocess.run([*unshare, "true"], capture_output=True, text=True)
            if probe.returncode:
                print(f"ok {number} - a program with {name} of its own # SKIP {probe.stderr.strip()}", flush=True)
                continue
            shell = "exec \"$@\""
            if "/proc" in name:
                shell = "mount -t tmpfs none /dev/shm && mount -t proc none /proc && " + shell
            command = [*unshare, "sh", "-c", shell, "sh", os.path.join(bindir, "flyt-run"), "--server", server.uri,
                       PROGRAM]
            env = {**os.environ, **e2e.sanitizer_environment(bindir), "FLYT_STATS": "1"}
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=100, env=env)
            good = done.returncode == 0 and "received over shm" in done.stderr
            print(f"{'ok' if good else 'not ok'} {number} - a program with {name} of its own", flush=True)
            if not good:
                failed += 1
                print("\n".join("# " + line for line in (done.stdout + done.stderr).splitlines()[-20:]), flush=True)
    finally:
        status, log = server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{'ok' if status == 0 else 'not ok'} {len(CONTAINERS) + 1} - the server stops cleanly")
    if status:
        print("\n".join("# " + line for line in log.splitlines()[-20:]))
    return 1 if failed or status else 0


if __name__ == "__main__":
    sys.exit(main())
