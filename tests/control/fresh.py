#!/usr/bin/env python3
"""A GPU server is upgraded under running programs: they move to a fresh one of their GPU; TAP on stdout.

    fresh.py BIN PROGRAM [all]

all: everybody is killed at each point, and larger programs move.

shows: moving: program migrate --fresh puts a running program on a new GPU server, of the binary that is installed now,
   on a GPU that it fills alone: the share counts once meanwhile, nothing of its memory is copied, with a later try
   neither, and it stands still as long whether it has 1 MiB or 1 GiB
shows: moving: two programs of one server share the fresh one; what cannot be is refused by name
shows: moving: whoever is killed while a program moves to a fresh server, it goes on with what it had, or gets error 46
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import moves  # noqa: E402
from moves import Cluster, Hold, Program  # noqa: E402
from moves_killed import LOST, books, folders, kill_workers, quiet  # noqa: E402
from testlib import ok, read, sanitized, story, until  # noqa: E402

ALL = sys.argv[3:] == ["all"]
MIB = 1 << 20
SMALL = 64 << 10                # bytes that may be copied: variables of modules


class OneGpu(Cluster):
    """The VM `local` may have all of the only GPU."""

    def __init__(self, memory):
        super().__init__(nodes=1, memory=memory)
        self.run("vm", "set", "local", "--sms", "4", "--memory", f"{memory}M")

    def used(self):
        status = self.json("status")
        return status["sms_used"], status["memory_used"] // MIB

    def fresh(self, program, *more):
        """Moves it. The row of the move."""
        before = self.server(program)
        self.run("program", "migrate", str(program.id), "--fresh", *more)
        row = self.rows("move", "list")[-1]
        assert row["source"] == before["id"] and row["target"] == self.server(program)["id"] != before["id"], row
        assert (row["from_node"], row["from_gpu"]) == (row["to_node"], row["to_gpu"]), row
        return row

    def server(self, program):
        where = next(row["server"] for row in self.rows("program", "list") if row["id"] == program.id)
        return next(row for row in self.rows("server", "list") if row["id"] == where)


def binary(server):
    return os.stat(f"/proc/{server['pid']}/exe").st_ino


def upgraded(cluster):
    hold = Hold(cluster)
    a = Program(cluster, FLYT_MOVE_HOLD=hold.folder)
    a.goes_on()
    was = binary(cluster.server(a))
    assert cluster.used() == (4, 1536), cluster.used()
    new = f"{moves.BIN}/cricket-rpc-server"
    shutil.copy2(new, f"{new}.new")
    os.rename(f"{new}.new", new)
    hold.at("sealed")
    moving = cluster.begin("program", "migrate", str(a.id), "--fresh")
    hold.reached("sealed")
    # Both servers are there, and what they may have is counted once.
    assert len(cluster.rows("server", "list")) == 2 and cluster.used() == (4, 1536), cluster.used()
    hold.let_go("sealed")
    said = moving.communicate(timeout=60)
    assert moving.returncode == 0 and "0.0 MiB were copied" in said[0], said
    a.goes_on()
    assert was != binary(cluster.server(a)) == os.stat(new).st_ino
    until(lambda: quiet(cluster) and cluster.used() == (4, 1536), lambda: f"{books(cluster)} {cluster.used()}", 20)
    ok("a server's binary is replaced under a running program that has all of the GPU; the share counts once")
    outages = {}
    for size in (1, 64, 1023) if ALL else (1, 1023):
        assert a.ask("take", size) == [0]
        rows = []
        for _ in range(3):                  # the shortest counts: a busy machine makes any of them longer
            until(lambda: len(cluster.rows("server", "list")) == 1, "the server before it has ended", 20)
            rows.append(cluster.fresh(a))
            assert rows[-1]["bytes"] < SMALL, rows
            a.goes_on()
        outages[size] = min(row["outage_ms"] for row in rows)
    text = ", ".join(f"{ms:.1f} ms with {size} MiB more" for size, ms in outages.items())
    # Copied, a GiB takes a second here. A sanitizer marks each byte that is mapped, which takes as long.
    assert sanitized(moves.BIN) or outages[1023] < outages[1] + 400, text
    ok(f"nothing of its memory is copied, so how long it stands still does not follow its size: {text}")
    tried_again(cluster, hold, a)
    a.end()


def tried_again(cluster, hold, a):
    """Two tries at least, because its kernel takes longer than one waits."""
    until(lambda: len(cluster.rows("server", "list")) == 1, "the server before it has ended", 20)
    hold.at("taken")
    moving = cluster.begin("program", "migrate", str(a.id), "--fresh", "--patience", "1")
    hold.reached("taken")
    target = cluster.rows("move", "list")[-1]["target"]
    assert a.ask("spin", 12000 if sanitized(moves.BIN) else 4000) == [0]
    hold.let_go("taken")
    said = moving.communicate(timeout=120)
    assert moving.returncode == 0 and "0.0 MiB were copied" in said[0], said
    assert read(f"{cluster.dir}/state/node-1/servers/{target}/log").count("event=ticket-accepted") > 1
    a.goes_on()
    ok("nothing is copied either where the program comes to rest with a later try")


def upgrade():
    """The node's binary is replaced while the program runs."""
    installed = tempfile.mkdtemp(prefix="flyt-fresh-bin-")
    kept = moves.BIN
    # The folder above it has the name of the flavour: by that testlib knows what a sanitizer's build needs.
    moves.BIN = os.path.join(installed, os.path.basename(os.path.dirname(kept)), "bin")
    shutil.copytree(kept, moves.BIN, symlinks=True)
    try:
        with OneGpu(1536) as cluster:
            upgraded(cluster)
    finally:
        moves.BIN = kept
        shutil.rmtree(installed, ignore_errors=True)


def groups(cluster):
    a, b = Program(cluster), Program(cluster)
    old = cluster.server(a)
    assert cluster.server(b)["id"] == old["id"]
    # The one that stays keeps the server, and the GPU has no room for another.
    said = cluster.run("program", "migrate", str(a.id), "--fresh", expect=8)
    assert "does not take 4 SMs" in said, said
    said = cluster.run("program", "migrate", str(a.id), "--fresh", "--to", "nowhere", expect=5)
    cluster.run("node", "drain", "node-1")
    said = cluster.run("program", "migrate", str(a.id), "--fresh", expect=7)
    assert "is drained" in said, said
    cluster.run("node", "undrain", "node-1")
    assert cluster.server(a)["id"] == old["id"] and len(cluster.rows("server", "list")) == 1
    said = cluster.run("migrate-auto", "--ip", "local", "--fresh")
    assert re.search(r"Time taken: \d+\.\d{3} s", said), said
    assert cluster.server(a)["id"] == cluster.server(b)["id"] != old["id"]
    a.goes_on()
    b.goes_on()
    until(lambda: quiet(cluster) and cluster.used() == (4, 256), lambda: f"{books(cluster)} {cluster.used()}", 20)
    a.end()
    b.end()
    until(lambda: not cluster.rows("program", "list"), "they are gone")
    ok("two programs of one server share the fresh one; one of them alone is refused, for want of room")


def cell(cluster, party, point):
    """Kills it at that point of the move."""
    hold = Hold(cluster)
    a = Program(cluster, FLYT_MOVE_HOLD=hold.folder, FLYT_LOG="error")
    assert a.ask("take", 32) == [0]
    source = cluster.server(a)
    hold.at(point)
    moving = cluster.begin("program", "migrate", str(a.id), "--fresh")
    hold.reached(point)
    row = next(row for row in cluster.rows("move", "list") if not row["ended"])
    back = lambda: None  # noqa: E731
    if party == "program":
        a.process.kill()
        a.process.wait()
    elif party in ("source", "target"):
        kill_workers(cluster, row[party])
    else:
        back = cluster.kill({"node": "node-1"}.get(party, party))
    hold.let_go(point)
    back()
    try:
        code = moving.wait(60)
    except subprocess.TimeoutExpired:
        moving.kill()
        raise
    finally:
        moving.communicate()
    until(lambda: cluster.command("move", "list").returncode == 0 and
          all(row["state"] == "up" for row in cluster.rows("node", "list")), "the cluster is there again", 40)
    lost = (party, point) in {("source", "taken"), ("source", "shut"), ("target", "settled"), ("target", "moved")}
    if party == "program":
        what = "both parts end"
    elif lost:
        until(lambda: a.ask("state")[0] == LOST, lambda: f"46 is expected: {a.ask('state')}", 30)
        what = "error 46"
        a.process.kill()
        a.process.wait()
    else:
        a.goes_on()
        until(lambda: quiet(cluster) and len(books(cluster)[0]) == 1 and cluster.used() == (4, 256),
              lambda: f"one server is left: {books(cluster)} {cluster.used()} {cluster.rows('move', 'list')}", 40)
        a.goes_on()
        what = "it stays" if cluster.server(a)["id"] == source["id"] else "it has moved"
        a.end()
    until(lambda: not cluster.rows("program", "list") and quiet(cluster),
          lambda: f"{cluster.rows('program', 'list')} {books(cluster)} {folders(cluster)}", 60)
    shutil.rmtree(hold.folder)
    ok(f"killed at {point}: {party}: {what} (exit {code})")


def killed():
    some = {("target", "sealed"), ("source", "permitted")}
    with OneGpu(256) as cluster:
        groups(cluster)
        for point in ("taken", "shut", "sealed", "permitted", "settled", "moved"):
            for party in ("source", "target", "node", "cluster-manager", "client-manager", "program"):
                if ALL or (party, point) in some:
                    cell(cluster, party, point)


def main():
    upgrade()
    killed()


if __name__ == "__main__":
    sys.exit(story(main))
