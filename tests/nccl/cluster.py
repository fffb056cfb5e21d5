#!/usr/bin/env python3
"""tests/nccl/cluster.py BIN PROGRAM: Flyt's libnccl.so.2 in a cluster. PROGRAM is tests/nccl/ranks.c.

shows: nccl: in a cluster two processes, each with a GPU of another node, carry out all functions of libnccl.so.2; and
  a process with two GPUs; and one with four GPUs of two nodes
shows: flytctl comm: ranks of a communicator on two servers, which of them is behind, and what each has called;
  those of programs that were killed have ended; where a server has more than it records, the list says so
"""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import Local, need, ok, story, until  # noqa: E402

CALL = "all-reduce of 1000 int32, sum"
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


def ctl_json(cluster, *words):
    done = cluster.ctl.run(*words, "-j")
    need(done.returncode == 0, done)
    return json.loads(done.stdout)


def two_ranks(cluster, folder):
    """Two processes with a rank each. Rank 1 has not called what rank 0 waits for."""
    env = dict(cluster.env, FLYT_COMM_INTERFACES="lo", FLYT_NCCL_TIMEOUT="40")
    command = [os.path.join(BIN, "flyt-run"), PROGRAM, "behind", "2"]
    programs = [subprocess.Popen(command + [str(first), "1", os.path.join(folder, "id")], env=env, text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE) for first in range(2)]
    for program in programs:
        for line in program.stdout:
            if line == "ready\n":
                break
    return programs


def killed(cluster):
    """Nobody takes communicators of programs that were killed for some that go on."""
    with tempfile.TemporaryDirectory() as folder:
        programs = two_ranks(cluster, folder)
        need("runs" in [row["state"] for row in ctl_json(cluster, "comm", "list")], "it runs")
        for program in programs:
            program.kill()
            program.communicate()
        until(lambda: all(row["state"] != "runs" for row in ctl_json(cluster, "comm", "list", "--all")), "they ended")


def watched(cluster):
    with tempfile.TemporaryDirectory() as folder:
        programs = two_ranks(cluster, folder)
        rows = until(lambda: [row for row in ctl_json(cluster, "comm", "list") if row["behind"]], "a rank behind")
        row = rows[0]
        need(len(rows) == 1 and row["behind"] == [1] and row["calls"] == 4 and row["seen"] == row["ranks"] == 2 and
             row["state"] == "runs" and row["vm"] == "local" and len(row["servers"]) == 2, rows)
        name = row["communicator"]
        table = cluster.ctl.run("comm", "list").stdout
        need(re.search(name + r" +local +2/2 .* runs +4 +1 ", table), table)
        need(cluster.ctl.run("complete", "comm", "show", name[:3]).stdout == name + "\n", "completion")
        ranks = ctl_json(cluster, "comm", "show", name[:10])
        need([(r["rank"], r["calls"], r["behind"], r["over"], r["call"]) for r in ranks] ==
             [(0, 4, False, False, CALL), (1, 3, True, True, CALL)], ranks)
        need({r["node"] for r in ranks} <= {"node-1", "node-2"} and "nccl_ranks[" in ranks[0]["program"], ranks)
        dump = ctl_json(cluster, "comm", "dump", name)
        need([[call["status"] for call in rank["recorded"]] for rank in dump] == [[0, 0, 0, None], [0, 0, 0]], dump)
        newest = ctl_json(cluster, "comm", "dump", name, "--calls", "2")[0]["recorded"]
        need([call["number"] for call in newest] == [3, 4], newest)
        need(cluster.ctl.run("comm", "show", "nothing").returncode == 5, "an unknown name")
        for program in programs:
            program.stdin.write("go on\n")
            program.stdin.flush()
        for program in programs:
            said = program.communicate(timeout=60)[0]
            need(program.returncode == 0 and said.endswith("ok\n"), said)
    return name


def many(cluster):
    env = dict(cluster.env, FLYT_COMM_INTERFACES="lo", FLYT_NCCL_TIMEOUT="40")
    with tempfile.TemporaryDirectory() as folder:
        command = [os.path.join(BIN, "flyt-run"), PROGRAM, "many", "2", "0", "2", os.path.join(folder, "id")]
        need("records" not in cluster.ctl.run("comm", "list").stderr, "all are shown")
        with subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
            need(any(line == "ready\n" for line in program.stdout), "many communicators")
            done = cluster.ctl.run("comm", "list")
            need(re.search(r"server \d+ records 64 ranks at a time, and all go on", done.stderr), done)
            said = program.communicate("go on\n", timeout=60)[0]
            need(program.returncode == 0 and said.endswith("ok\n"), said)


def main():
    with Local(BIN, tempfile.mkdtemp(prefix="flyt-nccl-"), "--nodes", "2", "--gpus-per-node", "2", "--sms", "2",
               "--memory", "256M", "--tls") as cluster:
        cluster.ctl("vm", "set", "local", "--sms", "8", "--memory", "1G", "--grouping", "off")
        run(cluster, 2, 1)
        ok("two processes with a GPU each")
        watched(cluster)
        ok("a rank that is behind")
        killed(cluster)
        ok("communicators of programs that were killed have ended")
        cluster.ctl("vm", "set", "local", "--gpus", "2", "--sms", "2", "--memory", "256M")
        run(cluster, 1, 2)
        ok("one process with two GPUs")
        many(cluster)
        ok("more communicators than a server records")
        run(cluster, 2, 2)
        ok("two processes with two GPUs each, of two nodes")
        cluster.ctl("vm", "set", "local", "--gpus", "4", "--sms", "2", "--memory", "256M")
        run(cluster, 1, 4)
        ok("one process with four GPUs of two nodes")


story(main)
