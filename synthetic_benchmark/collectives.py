#!/usr/bin/env python3
"""collectives.py BIN [FILE...]: collectives on GPUs of one process, on processes, and Gloo's beside them.

FILE: bench-collectives, and bench-gloo if it is there. One JSON object on a line for each measurement. BASE=FOLDER in
the environment: the binaries there, too, in turn, with 20 pairs and the median of their ratios for 8 bytes.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile

BIN = os.path.abspath(sys.argv[1])
FILES = {os.path.basename(path): os.path.abspath(path) for path in sys.argv[2:]}
PAIRS = 20


def on_gpus(binaries, gpus, size=64 << 20, transport="unix"):
    with tempfile.TemporaryDirectory(prefix="flyt-bench.") as folder:
        server = subprocess.Popen([f"{binaries}/cricket-rpc-server", "--gpu", "software", "--listen",
                                   f"{transport}://{folder}/s"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  env={**os.environ, "FLYT_SOFTGPU_DEVICES": str(gpus)}, text=True)
        try:
            uri = server.stdout.readline().split()[-1]
            said = subprocess.run([f"{binaries}/flyt-run", "--server", uri, FILES["bench-collectives"], str(gpus),
                                   str(size)], check=True, capture_output=True, text=True, timeout=300,
                                  env={**os.environ, "FLYT_NCCL": "flyt"}).stdout
        finally:
            server.terminate()
            server.communicate()
    return json.loads(said)


def made_by_processes(ranks):
    """Milliseconds until the last of so many processes, with a GPU of one server each, has its rank."""
    with tempfile.TemporaryDirectory(prefix="flyt-bench.") as folder:
        server = subprocess.Popen([f"{BIN}/cricket-rpc-server", "--gpu", "software", "--listen", "tcp://127.0.0.1:0",
                                   "--links", "tcp://127.0.0.1:*"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  env={**os.environ, "FLYT_SOFTGPU_DEVICES": str(ranks)}, text=True)
        try:
            uri = server.stdout.readline().split()[-1]
            programs = [subprocess.Popen([f"{BIN}/flyt-run", "--server", uri, FILES["bench-collectives"], str(ranks),
                                          str(rank), f"{folder}/id"], stdout=subprocess.PIPE, text=True,
                                         env={**os.environ, "FLYT_NCCL": "flyt", "FLYT_COMM_INTERFACES": "lo"})
                        for rank in range(ranks)]
            return max(float(program.communicate(timeout=60)[0]) for program in programs)
        finally:
            server.terminate()
            server.communicate()


def show(what, **values):
    print(json.dumps({"what": what, **values}), flush=True)


def main():
    for gpus in 2, 4, 8:
        show("GPUs of one process", **on_gpus(BIN, gpus))
    show("GPUs of one process, shared memory", **on_gpus(BIN, 4, transport="shm"))
    for ranks in 2, 8:
        show("a communicator of processes", ranks=ranks, made_ms=statistics.median(
            made_by_processes(ranks) for _ in range(5)))
    for ranks in 2, 4, 8:
        said = subprocess.run([f"{BIN}/flyt-comm-perf", "--ranks", str(ranks), "-s", "8,64M", "-n", "5", "-i", "lo",
                               "--json"], check=True, capture_output=True, text=True, timeout=300).stdout
        for line in said.splitlines():
            show("processes", **json.loads(line))
        if "bench-gloo" in FILES:
            with tempfile.TemporaryDirectory(prefix="flyt-bench.") as folder:
                show("Gloo", **json.loads(subprocess.run([FILES["bench-gloo"], str(ranks), folder], check=True,
                                                         capture_output=True, text=True, timeout=300).stdout))
    if "BASE" in os.environ:
        times = [(on_gpus(os.environ["BASE"], 4, 4096)["small_us"], on_gpus(BIN, 4, 4096)["small_us"])
                 for _ in range(PAIRS)]
        ratios = sorted(new / old for old, new in times)
        show("8 bytes on 4 GPUs, ÷ BASE", ratio=statistics.median(ratios), interval=[ratios[5], ratios[-6]],
             old_us=statistics.median(old for old, _ in times), new_us=statistics.median(new for _, new in times))


main()
