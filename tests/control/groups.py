#!/usr/bin/env python3
"""Programs that share memory move to another GPU together; TAP on stdout.

    groups.py BIN PROGRAM [all]

all: everybody is killed at each point.

shows: moving: three programs of a VM that have memory and events of each other move together between two nodes and on
   one, by one order of an administrator, and count on; without --together they stay, and it is said why
shows: moving: no program takes the place of one that shares memory by saying that it has its session
shows: moving: whoever is killed whenever a group moves, the programs that live are all at one server, and count on
"""
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import moves  # noqa: E402
import wire  # noqa: E402
from moves import Cluster, Hold  # noqa: E402
from moves_killed import hit  # noqa: E402
from testlib import Failed, ok, read, story, until  # noqa: E402

ALL = sys.argv[3:] == ["all"]
BIN, PROGRAM = (os.path.abspath(p) for p in sys.argv[1:3])
SPEAKS, SESSION = 9, 117                # minor of the protocol, PROGRAM_SESSION
POINTS = ("taken", "shut", "sealed", "permitted", "settled")
SOME = {("client-manager", "sealed"), ("member", "shut"), ("member", "sealed"), ("target", "sealed")}


class Member(moves.Program):
    def __init__(self, cluster, number, count, folder, **variables):
        self.process = subprocess.Popen([f"{BIN}/flyt-run", PROGRAM, str(number), str(count), folder],
                                        env=cluster.env | variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        assert self.hear("ready") == [0]
        self.id = self.own_row(cluster.rows("program", "list"))["id"]


def no_move(cluster):
    """A command ends with the move of its program. Those of programs that moved along may end a moment later."""
    until(lambda: all(row["ended"] for row in cluster.rows("move", "list")), "no move is under way", 60)


class Ring:
    """So many programs. The first one waits where `hold` says."""

    def __init__(self, cluster, count, hold=None):
        self.cluster = cluster
        self.folder = tempfile.mkdtemp(prefix="ring-", dir=cluster.dir)
        self.all = [Member(cluster, number, count, self.folder,
                           **({"FLYT_MOVE_HOLD": hold.folder} if hold and not number else {}))
                    for number in range(count)]
        self.goes_on()

    def living(self):
        return [member for member in self.all if member.process.poll() is None]

    def goes_on(self):
        """Each counts, and sees that the one before and the one behind it do."""
        for member in self.living():
            member.goes_on()
        if len(self.living()) < len(self.all):
            return
        before = [member.ask("seen") for member in self.all]
        until(lambda: all(now[0] > was[0] and now[1] > was[1]
                          for now, was in zip([member.ask("seen") for member in self.all], before)),
              lambda: f"they see each other count: {before} {[member.ask('seen') for member in self.all]}", 60)

    def places(self):
        servers = {row["id"]: row["node"] for row in self.cluster.rows("server", "list")}
        living = {member.id for member in self.living()}
        return {(row["server"], servers.get(row["server"])) for row in self.cluster.rows("program", "list")
                if row["id"] in living}

    def together(self):
        no_move(self.cluster)
        until(lambda: len(self.places()) == 1, lambda: f"they are at one server: {self.places()}", 40)
        return next(iter(self.places()))[1]

    def end(self):
        for member in self.living():
            member.process.stdin.write("end\n")
            member.process.stdin.flush()
        for member in self.living():
            assert member.hear("end")[:2] == [0, 0]
            assert member.process.wait(20) == 0
        shutil.rmtree(self.folder)


def other(node):
    return "node-2" if node == "node-1" else "node-1"


def there_and_back():
    with Cluster() as cluster:
        cluster.run("vm", "set", "local", "--grouping", "on")
        ring = Ring(cluster, 3)
        for _ in range(2):
            here = ring.together()
            cluster.run("program", "migrate", str(ring.all[0].id), "--to", other(here), "--together")
            assert ring.together() == other(here)
            ring.goes_on()
        here, before = ring.together(), ring.places()
        cluster.run("program", "migrate", str(ring.all[2].id), "--fresh", "--together")
        assert ring.together() == here and ring.places() != before, ring.places()
        ring.goes_on()
        moved = cluster.rows("move", "list")
        assert len(moved) == 9 and all(row["state"] == "done" for row in moved), moved
        assert not any(row["bytes"] for row in moved[-3:]), moved
        ok("three programs there and back, and to another server of their node, where no byte is copied")
        here = ring.together()
        cluster.run("node", "drain", here, "--move")
        assert ring.together() == other(here)
        ring.goes_on()
        cluster.run("node", "undrain", here)
        ok("a node that is drained: the first program that moves takes the others along")
        here = ring.together()
        said = cluster.run("program", "migrate", str(ring.all[1].id), "--to", other(here), expect=9)
        assert "--together" in said, said
        assert ring.together() == here
        ring.goes_on()
        ok("one of them stays, and it is said why")
        impostor(cluster, ring)
        ring.end()


def impostor(cluster, ring):
    """A program says that it has the session of one of them, which would stay behind alone if it were believed."""
    here = ring.together()
    server, node = next(iter(ring.places()))
    began = re.findall(r"event=session-began session=(\d+)", read(f"{cluster.dir}/state/{node}/servers/{server}/log"))
    peer = wire.Peer(f"{cluster.dir}/run/client.sock")
    peer.hello(wire.OF_PROGRAM, "pid-1", minor=SPEAKS)
    peer.attach("/bin/impostor")
    until(lambda: [row["server"] for row in cluster.rows("program", "list")] == [server] * 4, "it has a server")
    peer.answer(SESSION, struct.pack(">Q", max(map(int, began))))
    for member in ring.all:
        said = cluster.run("program", "migrate", str(member.id), "--to", other(here), "--together", expect=9)
        assert "two programs say" in said, said
        no_move(cluster)
    assert ring.together() == here
    ring.goes_on()
    peer.close()
    until(lambda: len(cluster.rows("program", "list")) == 3, "it is gone")
    cluster.run("program", "migrate", str(ring.all[0].id), "--to", other(here), "--together")
    assert ring.together() == other(here)
    ring.goes_on()
    ok("a program that says that it has the session of one of them takes nobody's place: all stay while it is there")


def cell(cluster, party, point):
    hold = Hold(cluster)
    ring = Ring(cluster, 3, hold)
    here = ring.together()
    hold.at(point)
    moving = cluster.begin("program", "migrate", str(ring.all[0].id), "--to", other(here), "--together")
    hold.reached(point)
    move = next(row for row in cluster.rows("move", "list") if not row["ended"] and row["program"] == ring.all[0].id)
    back = hit(cluster, "program" if party == "member" else party, ring.all[1], move)
    hold.let_go(point)
    back()
    try:
        moving.wait(90)
    except subprocess.TimeoutExpired as late:
        moving.kill()
        raise Failed("the command does not end") from late
    finally:
        moving.communicate()
    node = ring.together()
    ring.goes_on()
    ring.end()
    until(lambda: not cluster.rows("program", "list"), "the programs have ended", 40)
    shutil.rmtree(hold.folder)
    if party in ("client-manager", "target"):
        assert node == here or point in ("permitted", "settled"), (point, node)
    ok(f"killed at {point}: {party}: all that live are on {'the old' if node == here else 'the new'} node")


def killed():
    with Cluster() as cluster:
        cluster.run("vm", "set", "local", "--grouping", "on")
        for party in ("client-manager", "cluster-manager", "member", "target-node", "target"):
            for point in POINTS:
                if party == "target" and point in ("permitted", "settled"):
                    continue  # they are there, and lose their session with it
                if ALL or (party, point) in SOME:
                    cell(cluster, party, point)


def main():
    there_and_back()
    killed()


if __name__ == "__main__":
    sys.exit(story(main))
