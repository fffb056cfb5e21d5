#!/usr/bin/env python3
"""worker_code.py BIN PROGRAM: a GPU server of a node manager compiles hot code (FLYT_SOFTGPU_JIT) inside its sandbox.
PROGRAM has a kernel that does not end by itself. TAP on stdout.

shows: software GPU: a GPU server of a node manager compiles code in its sandbox; none of its memory is writable and
  executable at once, and it keeps no code on disk; without the setting there is no compiler in it
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import Local, need, ok, plan, read, until  # noqa: E402

BIN, PROGRAM = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
FOLDER = "/tmp/flyt-worker-code"


def maps_of_server(cluster):
    """(rights, file) of each mapping of the one GPU server and its worker; none: there is no server yet."""
    servers = cluster.json("server", "list")
    pids = [str(server["pid"]) for server in servers]
    for pid in pids:
        pids += read(f"/proc/{pid}/task/{pid}/children").split()
    parts = [line.split(None, 5) for pid in pids for line in read(f"/proc/{pid}/maps").splitlines()]
    return [(part[1], part[5].strip() if len(part) > 5 else "") for part in parts]


def code_made(cluster):
    """Executable memory that is of no file: what a compiler has made."""
    return any("x" in rights and not name for rights, name in maps_of_server(cluster))


def server_of(cluster):
    return subprocess.Popen([f"{BIN}/flyt-run", PROGRAM], env=cluster.env, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)


def with_compiler():
    with Local(BIN, FOLDER, FLYT_SOFTGPU_JIT="always") as cluster:
        program = server_of(cluster)
        until(lambda: code_made(cluster), "the server has compiled code", 60)
        both = [rights for rights, _ in maps_of_server(cluster) if "w" in rights and "x" in rights]
        need(not both, both)
        settings = [read(f"/proc/{server['pid']}/environ") for server in cluster.json("server", "list")]
        need(all("FLYT_SOFTGPU_CACHE=off" in setting.split("\0") for setting in settings), settings)
        program.kill()
        program.wait()
    ok("a GPU server compiles code in its sandbox, and no memory is writable and executable at once")


def without():
    with Local(BIN, FOLDER) as cluster:
        program = server_of(cluster)
        until(lambda: any("libsoftgpu.so" in name for _, name in maps_of_server(cluster)), "the server runs", 60)
        need(not any("LLVM" in name or "softgpu-jit" in name for _, name in maps_of_server(cluster)), "a compiler")
        program.kill()
        program.wait()
    ok("without the setting it has no compiler")


def main():
    with_compiler()
    without()
    return plan()


if __name__ == "__main__":
    sys.exit(main())
