#!/usr/bin/env python3
"""A program moves between nodes that have addresses of their own, and links are cut at each point of it; TAP on stdout.

    moves_cut.py BIN PROGRAM [all]

all: every machine at each point; else those that took most thought.

shows: moving: between machines with network addresses of their own, by which nodes are named, too; a cut of two seconds
   at any point is a delay, whoever is cut off; after a longer one the program is on exactly one server, or has error 46
   where only the one that is cut off had its session
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../lib"), os.path.join(HERE, "../control")]
import machines  # noqa: E402

if __name__ == "__main__" and "--inside" not in sys.argv:
    machines.enter([*sys.argv, "--inside"], False)
sys.argv.remove("--inside")
import moves  # noqa: E402
from cluster import Cluster  # noqa: E402
from moves import BIN, PROGRAM, Hold  # noqa: E402
from testlib import ok, story, until  # noqa: E402

ALL = sys.argv[3:] == ["all"]
LOST, SHORT, LONG = 46, 2.0, 16.0       # seconds; the data plane's limit on silence is 10
CLUSTER_LONG = 8.0                      # below silence.lost: else the servers of the nodes are given up
VM = "vm2"
POINTS = ("taken", "shut", "sealed", "permitted", "settled", "moved")
PARTIES = ("source", "target", VM, "cluster")
SHORT_SOME = {("source", "shut"), (VM, "sealed")}
# What a longer cut leaves: error 46, or the program on this one of the two.
LONG_CUTS = {("source", "shut"): LOST, ("target", "shut"): "source", ("source", "permitted"): "target",
             ("target", "settled"): LOST, (VM, "shut"): LOST, ("cluster", "sealed"): "target"}
LONG_SOME = {("target", "shut"), ("source", "permitted")}


class Cut(Cluster):
    """With what the programs of moves.py ask for."""

    def __init__(self, folder):
        super().__init__(folder, BIN, "sqlite", False)
        self.env = {k: v for k, v in os.environ.items() if k not in ("FLYT_SERVER", "LD_PRELOAD")} | {
            "FLYT_MANAGER": f"{folder}/run/{VM}.sock"}

    def listed(self, *words):
        rows = self.ctl(*words)
        return rows if isinstance(rows, list) else next(value for value in rows.values() if isinstance(value, list))

    def begin(self, *words):
        return subprocess.Popen([f"{self.bin}/flytctl", "--manager", f"unix://{self.dir}/run/cluster.sock", *words],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def node_of(self, program):
        servers = {row["id"]: row["node"] for row in self.listed("server", "list")}
        row = next(row for row in self.listed("program", "list") if row["id"] == program.id)
        return servers.get(row["server"])


class Program(moves.Program):
    """On the machine of the VM."""

    def __init__(self, cluster, **variables):
        command = cluster.machines[VM].command(f"{BIN}/flyt-run", PROGRAM)
        self.process = subprocess.Popen(command, env=cluster.env | variables, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.hear("ready") == [0]
        self.id = self.own_row(cluster.listed("program", "list"))["id"]


def begun(cluster, point):
    """The program, held there, what holds it, and the command that moves it."""
    hold = Hold(cluster)
    program = Program(cluster, FLYT_MOVE_HOLD=hold.folder, FLYT_LOG="error")
    hold.at(point)
    here = cluster.node_of(program)
    there = next(row["name"] for row in cluster.listed("node", "list") if row["name"] != here)
    moving = cluster.begin("migrate", "--ip", VM, "--client-id", str(program.id), "--dst-node",
                           cluster.machines[there].address)
    hold.reached(point)
    return hold, program, moving, {"source": here, "target": there}


def ended(cluster, program, moving):
    program.process.kill()
    program.process.wait(20)
    if moving.poll() is None:
        moving.kill()
    moving.communicate()
    until(lambda: cluster.joined() and not cluster.listed("program", "list") and not cluster.listed("server", "list"),
          lambda: f"{cluster.listed('program', 'list')} {cluster.listed('server', 'list')}", 60)


def short(cluster, party, point):
    hold, program, moving, at = begun(cluster, point)
    machine = cluster.machines[at.get(party, party)]
    machine.drop()
    hold.let_go(point)
    time.sleep(SHORT)
    machine.forward()
    assert moving.wait(60) == 0, moving.communicate()
    program.goes_on()
    until(lambda: cluster.node_of(program) == at["target"], lambda: f"{at}: {cluster.node_of(program)}")
    ended(cluster, program, moving)
    ok(f"cut off for {SHORT:g} s at {point}: {party}: it moves, and computes what it would have computed")


def long(cluster, party, point, wanted):
    hold, program, moving, at = begun(cluster, point)
    machine = cluster.machines[at.get(party, party)]
    machine.drop()
    hold.let_go(point)
    since = time.monotonic()
    if wanted == LOST:
        until(lambda: program.ask("state")[0] == LOST, "error 46", 60)
    else:
        time.sleep(max(0, (CLUSTER_LONG if party == "cluster" else LONG) - (time.monotonic() - since)))
        until(lambda: not os.path.exists(f"{hold.folder}/{point}.here"), "it goes on", 60)
        program.goes_on()
    machine.forward()
    until(cluster.joined, "all are there again", 60)
    if wanted == LOST:
        what = "error 46"
    else:
        until(lambda: cluster.node_of(program) == at[wanted], lambda: f"{at}: {cluster.node_of(program)}", 60)
        program.goes_on()
        what = f"it is on the {wanted}"
    ended(cluster, program, moving)
    ok(f"cut off for long at {point}: {party}: {what}")


def main():
    folder = tempfile.mkdtemp(prefix="flyt-cut-")
    cluster = Cut(folder)
    try:
        cluster.start()
        for point in POINTS:
            for party in PARTIES:
                if ALL or (party, point) in SHORT_SOME:
                    short(cluster, party, point)
        for (party, point), wanted in LONG_CUTS.items():
            if ALL or (party, point) in LONG_SOME:
                long(cluster, party, point, wanted)
    except BaseException:
        for name in ("cluster", VM):
            with open(f"{folder}/log/{name}.log", errors="replace") as log:
                print("\n".join(f"# {name}: {line.rstrip()}" for line in log.readlines()[-20:]), flush=True)
        raise
    finally:
        cluster.stop()
        subprocess.run(["umount", f"{folder}/db"], check=False)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(story(main))
