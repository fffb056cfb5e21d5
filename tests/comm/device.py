#!/usr/bin/env python3
"""tests/comm/device.py BIN PROGRAM: libflyt-comm on memory of GPUs: PROGRAM (device.c), a process for each of 3 ranks.

shows: libflyt-comm: a program with its header alone runs collectives, parts of different sizes and messages on memory
  of GPUs, in streams; without Flyt's libnccl.so.2 that is refused by name
"""
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import GpuServer, case, need, plan, run_cases  # noqa: E402

BIN, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:3])
RANKS = 3


def ranks(folder, command, **environment):
    os.mkdir(f"{folder}/store", 0o700)
    children = [subprocess.Popen([*command, str(rank), str(RANKS), f"{folder}/store"], stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, env={**os.environ, **environment})
                for rank in range(RANKS)]
    return [child.communicate(timeout=120)[0] for child in children]


def served(run):
    with tempfile.TemporaryDirectory(prefix="flyt-device.") as folder:
        with GpuServer(BIN, "tcp://127.0.0.1:0", more=("--links", "tcp://127.0.0.1:*"),
                       FLYT_SOFTGPU_DEVICES=str(RANKS)) as server:
            run(folder, server.uri)


@case
def collectives_parts_and_messages_of_GPUs():
    def run(folder, uri):
        for rank, said in enumerate(ranks(folder, [f"{BIN}/flyt-run", "--server", uri, PROGRAM])):
            need(f"rank {rank}: all good" in said, said)
    served(run)


@case
def a_library_that_is_apart_from_nccl():
    def run(folder, uri):
        shutil.copy(f"{BIN}/libflyt-comm.so", folder)
        for said in ranks(folder, [PROGRAM], FLYT_SERVER=uri, LD_LIBRARY_PATH=f"{folder}:{BIN}/cudart:{BIN}"):
            need("memory of GPUs needs Flyt's libnccl.so.2" in said, said)
    served(run)


run_cases()
sys.exit(plan())
