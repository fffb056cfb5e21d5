#!/usr/bin/env python3
"""tests/comm/manager_store.py BIN PROGRAM: the cluster manager's store; PROGRAM is manager_store.c.

shows: libflyt-comm: ranks meet in the cluster manager's store, without a GPU; values are set, waited for and added to;
  they end with the program that set them first, also when it is killed
shows: attacks: a program cannot fill the cluster manager's store beyond its VM's bounds, nor store what is none; it is
  refused by name, and others go on
"""
import os
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import Local, need, ok, story, until  # noqa: E402

BIN, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:3])
RANKS = 4


def start(cluster, *words):
    return subprocess.Popen([PROGRAM, *map(str, words)], env=cluster.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True)


def said(cluster, *words):
    child = start(cluster, *words)
    return child.communicate(timeout=120)[0].strip()


def main():
    with Local(BIN, tempfile.mkdtemp(prefix="flyt-store-"), "--nodes", "1") as cluster:
        tell(cluster)


def tell(cluster):
    ranks = [start(cluster, "job", rank, RANKS) for rank in range(RANKS)]
    for rank in ranks:
        line = rank.communicate(timeout=120)[0].strip()
        need(line == f"sum {RANKS * (RANKS + 1) // 2} count {RANKS}", line)
    ok("ranks meet, and count themselves")
    until(lambda: said(cluster, "get", "count", 0).startswith("-"), "the job's values go with it")
    need(not cluster.json("server", "list"), "a GPU server was started for a store")
    ok("a job's values go with it, and it needed no GPU")

    waits = start(cluster, "get", "late", 30000)
    setter = start(cluster, "set", "late", "word")
    need(waits.communicate(timeout=60)[0].strip() == "word", "what was waited for")
    setter.stdout.readline()
    other = start(cluster, "set", "late", "another")
    need(other.stdout.readline() == "set\n", "setting again")
    other.communicate("", timeout=60)
    need(said(cluster, "get", "late", 0) == "another", "of who set it first")
    ok("a value is waited for, replaced, and stays with who set it first")
    setter.send_signal(signal.SIGKILL)
    setter.wait()
    until(lambda: "nobody has set late" in said(cluster, "get", "late", 0), "a killed program's values are gone")
    ok("a killed program's values are gone")

    first = start(cluster, "add", "number", 5)
    need(first.stdout.readline() == "5\n", "the first number")
    second = start(cluster, "add", "number", -2)
    need(second.stdout.readline() == "3\n", "the sum")
    first.communicate("", timeout=60)
    second.communicate("", timeout=60)
    ok("programs add to a number")

    keeps = start(cluster, "set", "kept", "yes")
    need(keeps.stdout.readline() == "set\n", "a value of another program")
    full = said(cluster, "fill")
    need(" values: -28: " in full and "programs of this VM have left" in full, full)
    need(5000 < int(full.split()[0]) <= 8192, full)
    need(said(cluster, "get", "kept", 0) == "yes", "the other program's value")
    until(lambda: said(cluster, "get", "fill-0", 0).startswith("-"), "what filled the store is gone")
    keeps.communicate("", timeout=60)
    ok("a program fills its VM's store, is refused, and leaves nothing behind")
    need(said(cluster, "wrong") == "all refused", "what is wrong")
    ok("keys, values and numbers that are none are refused")

    cluster.env = {**cluster.env, "FLYT_MANAGER": "/nowhere/at/all"}
    need("no client manager answers at /nowhere/at/all" in said(cluster, "get", "x", 0), "no client manager")
    ok("without a client manager the store is refused by name")


sys.exit(story(main))
