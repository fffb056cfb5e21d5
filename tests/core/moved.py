#!/usr/bin/env python3
"""tests/core/moved.py: programs that move between two servers with the software GPU while they run; TAP on stdout.

    moved.py [--bin DIR] [--transport tcp|unix] --mover LIBRARY [--pause MICROSECONDS] [--least MOVES]
        PROGRAM[:LEAST]...

shows: moving: programs with arrays, textures, managed memory, graphs, streams and kernels that launch kernels or graphs
  give the same results while their sessions move again and again
"""
import argparse
import os
import shutil
import sys
import tempfile

AGAIN = 8      # on a busy machine a short program may end before it has moved often enough; so it runs again
TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(TESTS, "cuda"), os.path.join(TESTS, "lib")]
import e2e  # noqa: E402
from testlib import ok, plan, read, result  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="bin")
    parser.add_argument("--transport", choices=["tcp", "unix"], default="unix")
    parser.add_argument("--mover", required=True)
    parser.add_argument("--pause", default="2000")
    parser.add_argument("--least", type=int, default=1, help="moves that each program makes at least")
    parser.add_argument("--limit", type=float, default=120, help="seconds for one program")
    parser.add_argument("program", nargs="+")
    arguments = parser.parse_args()
    arguments.bin, arguments.way, arguments.arguments = os.path.abspath(arguments.bin), "preload", ""
    folders = [tempfile.mkdtemp(prefix="flyt-moved.") for _ in range(2)]
    try:
        servers = [e2e.Server(arguments.bin, arguments.transport, "software", folder, {}) for folder in folders]
        for program in arguments.program:
            program, _, least = program.partition(":")
            said = os.path.join(folders[0], "moved-" + os.path.basename(program))
            for _ in range(AGAIN):
                problem, output, _ = e2e.run(os.path.abspath(program), arguments, servers[0].uri, {
                    "LD_PRELOAD": os.path.abspath(arguments.mover), "FLYT_TEST_MOVED": said, "FLYT_TEST_MOVES":
                    " ".join(server.uri for server in servers), "FLYT_TEST_PAUSE_US": arguments.pause})
                lines = read(said).splitlines() if os.path.exists(said) else []      # one for each run so far
                moved = sum(int(line.split()[0]) for line in lines)
                if problem or moved >= int(least or arguments.least):
                    break
            else:
                problem = "it moved too rarely"
            result(f"{os.path.basename(program)}, {arguments.transport}; moves, refusals: {' '.join(lines)}",
                   f"{problem}\n{output[-3000:]}" if problem else None)
        for server in servers:
            status, log = server.stop()
            ok(status == 0, "the server stops")
            if status != 0:
                print("\n".join("# server: " + line for line in log.splitlines()[-40:]))
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    return plan()


if __name__ == "__main__":
    sys.exit(main())
