#!/usr/bin/env python3
"""tests/nccl/nccl_tests.py BIN NVCC FOLDER [--processes] [NAME...]: NVIDIA's nccl-tests on Flyt's libnccl.so.2 and
software GPUs.

FOLDER has their source (https://github.com/NVIDIA/nccl-tests), or gets it; they are built there, for PTX. NAME: of
binaries; without it all. --processes: with MPI (Debian's openmpi), else all ranks are of one process.

shows: nccl: NVIDIA's nccl-tests, all binaries, on 1 to 8 GPUs of one process, also in graphs (-G) and with several
  operations under way (-m): no wrong number; all types and operations of an all-reduce
shows: nccl: NVIDIA's nccl-tests, all binaries, with processes of MPI on 1, 2 and 4 GPU servers, also in graphs, and
  with the ranks split into several communicators: no wrong number; all types and operations of an all-reduce
"""
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import GpuServer, comment, ok, skip, totals  # noqa: E402

BIN, NVCC, FOLDER = (os.path.abspath(path) for path in sys.argv[1:4])
PROCESSES = "--processes" in sys.argv
NAMES = [name for name in sys.argv[4:] if name != "--processes"] or [
    "all_reduce", "all_gather", "broadcast", "reduce", "reduce_scatter", "alltoall", "alltoallv", "gather", "scatter",
    "sendrecv", "hypercube"]
SOURCE, VERSION = "https://github.com/NVIDIA/nccl-tests", "v2.19.6"
LIMIT = 300
# hypercube puts steps that need each other into one group: it wants a thread for each GPU.
THREADS = {"hypercube"}
WAYS = [[], ["-G", "2"], ["-m", "4"]]
MPI = "/usr/lib/x86_64-linux-gnu/openmpi"
BUILT = f"{FOLDER}/build-mpi" if PROCESSES else f"{FOLDER}/build"
# GPU servers, GPUs of each, and processes at each: 4 ranks in all; 2 processes have 2 GPUs each.
PLACES = [(1, 4, 4), (1, 4, 2), (2, 2, 1), (4, 1, 1)]


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
    done = subprocess.run(["make", "-j2", "-C", os.path.join(FOLDER, "src"), f"CUDA_HOME={cuda}", f"NCCL_HOME={home}",
                           f"BUILDDIR={BUILT}", *(["MPI=1", f"MPI_HOME={MPI}"] if PROCESSES else []),
                           "NVCC_GENCODE=-gencode=arch=compute_75,code=compute_75"],
                          check=False, capture_output=True, text=True)
    if done.returncode:
        comment(done.stdout[-1000:] + done.stderr[-3000:])
    return done.returncode == 0


class Server(GpuServer):
    """On a unix socket; or at a TCP address, with links to all of this machine."""

    def __init__(self, gpus, linked=False):
        self.folder = tempfile.TemporaryDirectory(prefix="flyt-nccl-tests.")
        where = ["tcp://127.0.0.1:0", "--links", "tcp://127.0.0.1:*"] if linked else [f"unix://{self.folder.name}/s"]
        super().__init__(BIN, where[0], more=where[1:], FLYT_SOFTGPU_DEVICES=str(gpus))

    def end(self):
        super().end()
        self.folder.cleanup()


def carried_out(command):
    """What is wrong with the numbers of the column #wrong, or with the run; "": nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired as late:
        return f"over {LIMIT} s: {(late.stdout or b'')[-500:]}"
    total = re.search(r"# Out of bounds values : (\d+) (\w+)", done.stdout)
    if done.returncode or not total:
        return f"ended with {done.returncode}: {done.stdout[-800:]}{done.stderr[-800:]}"
    return "" if total.groups() == ("0", "OK") else total.group(0)


def sizes(options):
    return ["-b", "8", "-e", "256K", "-f", "32", "-n", "2", "-w", "1", "-c", "1", *options]


def run(server, name, gpus, options):
    each = ["-t", str(gpus), "-g", "1"] if name in THREADS else ["-g", str(gpus)]
    return carried_out([f"{BIN}/flyt-run", "--server", server.uri, f"{BUILT}/{name}_perf", *each, *sizes(options)])


def run_processes(servers, at_each, name, options, split=""):
    """One process of MPI after the other, server by server. Those of one server take their GPUs by their rank there."""
    gpus = 4 // (len(servers) * at_each)
    each = ["-t", str(gpus), "-g", "1"] if name in THREADS else ["-t", "1", "-g", str(gpus)]
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader"]
    for server in servers:
        command += [":"] if server is not servers[0] else []
        command += ["-np", str(at_each), *(["-x", "NCCL_TESTS_DEVICE=0"] if len(servers) > 1 else []),
                    *(["-x", f"NCCL_TESTS_SPLIT={split}"] if split else []), f"{BIN}/flyt-run", "--server", server.uri,
                    f"{BUILT}/{name}_perf", *each, *sizes(options)]
    return carried_out(command)


def processes():
    for count, gpus, at_each in PLACES:
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(Server(gpus, linked=True)) for _ in range(count)]
            what = f"{count * at_each} processes on {count} servers of {gpus} GPUs"
            for name in NAMES:
                ways = [[], ["-G", "2"]] if name in ("all_reduce", "sendrecv") else [[]]
                wrong = [said for options in ways if (said := run_processes(servers, at_each, name, options))]
                ok(not wrong, f"{name}, {what}")
                for said in wrong:
                    comment(said)
            if "all_reduce" in NAMES:
                said = run_processes(servers, at_each, "all_reduce", ["-o", "all", "-d", "all"])
                ok(not said, f"all types and operations of all_reduce, {what}")
                comment(said)
            if "all_reduce" in NAMES and count * at_each == 4:
                said = run_processes(servers, at_each, "all_reduce", [], "%2")
                ok(not said, f"two communicators of every second rank, {what}")
                comment(said)


def one_process():
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


def main():
    if not os.access(NVCC, os.X_OK) or not shutil.which("make"):
        skip("nccl-tests", f"there is no {NVCC}")
        return totals()
    if PROCESSES and not (shutil.which("mpirun") and os.path.exists(f"{MPI}/include/mpi.h")):
        skip("nccl-tests", "there is no MPI (Debian's openmpi-bin and libopenmpi-dev)")
        return totals()
    if not fetched():
        skip("nccl-tests", f"{SOURCE} could not be fetched")
        return totals()
    if not built():
        ok(False, "nccl-tests: building them")
        return totals()
    if PROCESSES:
        processes()
    else:
        one_process()
    return totals()


if __name__ == "__main__":
    sys.exit(main())
