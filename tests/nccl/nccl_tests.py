#!/usr/bin/env python3
"""tests/nccl/nccl_tests.py BIN NVCC FOLDER [NAME...]: NVIDIA's nccl-tests on Flyt's libnccl.so.2 and software GPUs.

FOLDER has their source (https://github.com/NVIDIA/nccl-tests), or gets it; they are built there, for PTX. NAME: of
binaries; without it all.

shows: nccl: NVIDIA's nccl-tests, all binaries, on 1 to 8 GPUs of one process, also in graphs (-G) and with several
  operations under way (-m): no wrong number; all types and operations of an all-reduce
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import comment, ok, skip, totals  # noqa: E402

BIN, NVCC, FOLDER = (os.path.abspath(path) for path in sys.argv[1:4])
NAMES = sys.argv[4:] or ["all_reduce", "all_gather", "broadcast", "reduce", "reduce_scatter", "alltoall", "alltoallv",
                         "gather", "scatter", "sendrecv", "hypercube"]
SOURCE, VERSION = "https://github.com/NVIDIA/nccl-tests", "v2.19.6"
LIMIT = 300
# hypercube puts steps that need each other into one group: it wants a thread for each GPU.
THREADS = {"hypercube"}
WAYS = [[], ["-G", "2"], ["-m", "4"]]


def fetched():
    if os.path.exists(os.path.join(FOLDER, "src")):
        return True
    return subprocess.run(["git", "clone", "-q", "--depth", "1", "--branch", VERSION, SOURCE, FOLDER], check=False,
                          capture_output=True, timeout=120).returncode == 0


def built():
    home = os.path.join(FOLDER, "nccl")
    os.makedirs(home + "/lib", exist_ok=True)
    for name in "libnccl.so", "libnccl.so.2":
        if not os.path.lexists(f"{home}/lib/{name}"):
            os.symlink(os.path.join(BIN, "nccl/libnccl.so.2"), f"{home}/lib/{name}")
    cuda = os.path.dirname(os.path.dirname(NVCC))
    done = subprocess.run(["make", "-C", os.path.join(FOLDER, "src"), f"CUDA_HOME={cuda}", f"NCCL_HOME={home}",
                           f"BUILDDIR={FOLDER}/build", "NVCC_GENCODE=-gencode=arch=compute_75,code=compute_75"],
                          check=False, capture_output=True, text=True)
    if done.returncode:
        comment(done.stdout[-1000:] + done.stderr[-3000:])
    return done.returncode == 0


class Server:
    def __init__(self, gpus):
        self.folder = tempfile.TemporaryDirectory(prefix="flyt-nccl-tests.")
        self.process = subprocess.Popen(
            [f"{BIN}/cricket-rpc-server", "--gpu", "software", "--listen", f"unix://{self.folder.name}/s"],
            env={**os.environ, "FLYT_SOFTGPU_DEVICES": str(gpus)}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True)
        self.uri = self.process.stdout.readline().split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.terminate()
        self.process.communicate()
        self.folder.cleanup()


def run(server, name, gpus, options):
    """The numbers of the column #wrong; None: it failed."""
    each = ["-t", str(gpus), "-g", "1"] if name in THREADS else ["-g", str(gpus)]
    command = [f"{BIN}/flyt-run", "--server", server.uri, f"{FOLDER}/build/{name}_perf", "-b", "8", "-e", "256K", "-f",
               "32", "-n", "2", "-w", "1", "-c", "1", *each, *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired as late:
        return f"over {LIMIT} s: {(late.stdout or b'')[-500:]}"
    total = re.search(r"# Out of bounds values : (\d+) (\w+)", done.stdout)
    if done.returncode or not total:
        return f"ended with {done.returncode}: {done.stdout[-800:]}{done.stderr[-800:]}"
    return "" if total.groups() == ("0", "OK") else total.group(0)


def main():
    if not os.access(NVCC, os.X_OK) or not shutil.which("make"):
        skip("nccl-tests", f"there is no {NVCC}")
        return totals()
    if not fetched():
        skip("nccl-tests", f"{SOURCE} could not be fetched")
        return totals()
    if not built():
        ok(False, "nccl-tests: building them")
        return totals()
    for gpus in 1, 2, 4, 8:
        with Server(gpus) as server:
            for name in NAMES:
                wrong = [(options, said) for options in WAYS if (said := run(server, name, gpus, options))]
                ok(not wrong, f"{name} on {gpus} GPUs")
                for options, said in wrong:
                    comment(f"{' '.join(options)}: {said}")
    if "all_reduce" in NAMES:
        with Server(4) as server:
            said = run(server, "all_reduce", 4, ["-o", "all", "-d", "all"])
            ok(not said, "all types and operations of all_reduce on 4 GPUs")
            comment(said)
    return totals()


if __name__ == "__main__":
    sys.exit(main())
