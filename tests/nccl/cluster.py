#!/usr/bin/env python3
"""tests/nccl/cluster.py BIN PROGRAM: Flyt's libnccl.so.2 in a cluster. PROGRAM is tests/nccl/ranks.c.

shows: nccl: in a cluster two processes, each with a GPU of another node, carry out all functions of libnccl.so.2; and
  a process with two GPUs
"""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import Local, need, ok, story  # noqa: E402

BIN, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:3])


def run(cluster, processes, gpus):
    env = dict(cluster.env, FLYT_COMM_INTERFACES="lo", FLYT_NCCL_TIMEOUT="40")
    with tempfile.TemporaryDirectory() as folder:
        command = [os.path.join(BIN, "flyt-run"), PROGRAM, "all", str(processes * gpus)]
        programs = [subprocess.Popen(command + [str(first * gpus), str(gpus), os.path.join(folder, "id")], env=env,
                                     stdout=subprocess.PIPE, text=True) for first in range(processes)]
        for program in programs:
            said = program.communicate(timeout=90)[0].splitlines()
            print(*(line for line in said if line.startswith("#")), sep="\n", flush=True)
            need(program.returncode == 0 and said[-1:] == ["ok"], said)


def main():
    with Local(BIN, tempfile.mkdtemp(prefix="flyt-nccl-"), "--nodes", "2", "--gpus-per-node", "2", "--sms", "2",
               "--memory", "256M", "--tls") as cluster:
        cluster.ctl("vm", "set", "local", "--sms", "8", "--memory", "1G", "--grouping", "off")
        run(cluster, 2, 1)
        ok("two processes with a GPU each")
        cluster.ctl("vm", "set", "local", "--gpus", "2", "--sms", "2", "--memory", "256M")
        run(cluster, 1, 2)
        ok("one process with two GPUs")
        run(cluster, 2, 2)
        ok("two processes with two GPUs each, of two nodes")


story(main)
