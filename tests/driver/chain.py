#!/usr/bin/env python3
"""chain.py BIN PROGRAM...: program, Flyt, Flyt, software GPU; TAP on stdout.

shows: first steps: two servers in a row: the end-to-end programs pass where the first one's driver is Flyt's own

The first server (--gpu nvidia) serves the program; what it asks of the driver goes to the second one (--gpu software).
So everything that the server does with NVIDIA's driver, and much of libcuda.so.1, runs as it does with a GPU.
FLYT_TEST_CHAIN allows the first server to take Flyt's own library for a driver.
"""
import os
import shutil
import subprocess
import sys
import tempfile

# Programs that need what Flyt offers only on the software GPU. (graph_random asks, and does without.)
LEFT_OUT = dict.fromkeys(("conditions", "condition_random"),
                         "conditional nodes give 801 on NVIDIA's driver: docs/limits.md")
LEFT_OUT["device_graphs"] = "kernels cannot launch graphs on NVIDIA's driver: docs/limits.md"
BIN = os.path.abspath(sys.argv[1])
folder = tempfile.mkdtemp(prefix="flyt-chain-")


def serve(name, *arguments, **environment):
    """The server's process and address."""
    address = f"unix://{folder}/{name}"
    with open(f"{folder}/{name}.log", "w") as log:
        server = subprocess.Popen([f"{BIN}/cricket-rpc-server", *arguments, "--listen", address], text=True,
                                  stdout=subprocess.PIPE, stderr=log, env={**os.environ, **environment})
    if "listening on" not in server.stdout.readline():
        with open(f"{folder}/{name}.log") as log:
            sys.exit(f"the server {name} does not start: {log.read()}")
    return server, address


def run(program, address):
    try:
        done = subprocess.run([f"{BIN}/flyt-run", "--server", address, program], capture_output=True, text=True,
                              errors="replace", timeout=200)
    except subprocess.TimeoutExpired:
        return "does not end"
    if done.returncode in (0, 77):
        return None
    return f"ends with {done.returncode}: {done.stdout[-500:]}{done.stderr[-1500:]}"


def main():
    second, second_address = serve("second", "--gpu", "software")
    first, address = serve("first", "--gpu", "nvidia", FLYT_TEST_CHAIN="1", FLYT_SERVER=second_address,
                           LD_LIBRARY_PATH=f"{BIN}/cudart")
    failed, programs = 0, sys.argv[2:]
    for number, program in enumerate(programs, 1):
        if os.path.basename(program) in LEFT_OUT:
            print(f"ok {number} - {os.path.basename(program)} # SKIP {LEFT_OUT[os.path.basename(program)]}")
            continue
        problem = run(program, address)
        failed += problem is not None
        print(f"{'not ok' if problem else 'ok'} {number} - {os.path.basename(program)}", flush=True)
        if problem:
            print(*problem.splitlines(), sep="\n# ", flush=True)
    for server in (first, second):
        server.terminate()
        server.wait(20)
    print(f"1..{len(programs)}")
    shutil.rmtree(folder, ignore_errors=True)
    return failed != 0


sys.exit(main())
