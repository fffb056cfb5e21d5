#!/usr/bin/env python3
"""Programs that share memory move, are suspended, resumed and saved together, at random; TAP on stdout.

    groups_random.py BIN PROGRAM [FIRST-SEED COUNT]

shows: elastic: three programs that write random patterns into each other's memory find what a model says, in whatever
   order they are moved between nodes and on one, suspended, resumed elsewhere, and saved, and whoever of them is named;
   moves are called off, and managers and node managers are killed meanwhile; books and servers agree at the end
"""
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import moves  # noqa: E402
import moves_killed  # noqa: E402
from moves import Cluster  # noqa: E402
from testlib import ok, story, until  # noqa: E402

BIN, PROGRAM = (os.path.abspath(p) for p in sys.argv[1:3])
FIRST, COUNT = (int(word) for word in sys.argv[3:5]) if len(sys.argv) > 4 else (1, 1)
STEPS, PROGRAMS = 24, 3
# Exit statuses of flytctl: done; called off; a wrong moment; another one of the group was called off.
FINE, CANCELLED, REFUSED, NOT_SUPPORTED = 0, 4, 7, 9


class Member(moves.Program):
    def __init__(self, cluster, number, folder, seed):
        self.process = subprocess.Popen([f"{BIN}/flyt-run", PROGRAM, str(number), str(PROGRAMS), folder, str(seed)],
                                        env=cluster.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        assert self.hear("ready") == [0]
        self.id = self.own_row(cluster.rows("program", "list"))["id"]


class Round:
    """One seed."""

    def __init__(self, cluster, seed):
        self.cluster, self.dice = cluster, random.Random(seed)
        self.folder = tempfile.mkdtemp(prefix="model-", dir=cluster.dir)
        self.all = [Member(cluster, number, self.folder, seed) for number in range(PROGRAMS)]
        self.done = {}

    def command(self, may, action, *words):
        """For any one of them."""
        done = self.cluster.command("program", action, str(self.dice.choice(self.all).id), *words, "--together")
        assert done.returncode in may, (action, words, done)
        return done.returncode == FINE

    def rows(self):
        ids = {member.id for member in self.all}
        return [row for row in self.cluster.rows("program", "list") if row["id"] in ids]

    def states(self):
        return {row["state"] for row in self.rows()}

    def settled(self):
        """All of them run at one server, or all are suspended; and nothing is under way."""
        def good():
            rows = self.rows()
            return (len(rows) == PROGRAMS and len({(row["state"], row["server"]) for row in rows}) == 1 and
                    self.states() <= {"running", "suspended"} and
                    all(row["ended"] for row in self.cluster.rows("move", "list")) and
                    all(row["state"] == "up" for row in self.cluster.rows("node", "list")))
        until(lambda: self.cluster.command("program", "list").returncode == 0 and good(),
              lambda: f"they are in one place: {self.rows()} {self.cluster.rows('move', 'list')}", 60)
        return self.states().pop()

    def node(self):
        servers = {row["id"]: row["node"] for row in self.cluster.rows("server", "list")}
        return servers[self.rows()[0]["server"]]

    def other(self):
        return "node-2" if self.node() == "node-1" else "node-1"

    def moved(self):
        return self.command((FINE,), "migrate", "--to", self.other())

    def fresh(self):
        return self.command((FINE,), "migrate", "--fresh")

    def rested(self):
        self.command((FINE,), "suspend")
        assert self.settled() == "suspended"
        to = ["--to", self.dice.choice(("node-1", "node-2"))] if self.dice.randrange(2) else []
        return self.command((FINE,), "resume", *to)

    def saved(self):
        name = f"saved-{self.dice.randrange(1 << 30)}"
        self.command((FINE,), "checkpoint", os.path.join(self.cluster.dir, name))
        files = [file for file in os.listdir(self.cluster.dir) if file.startswith(name)]
        assert len(files) == PROGRAMS, files
        for file in files:
            self.cluster.run("checkpoint", "show", os.path.join(self.cluster.dir, file))
            os.unlink(os.path.join(self.cluster.dir, file))
        return True

    def begin(self):
        action = self.dice.choice(("migrate", "suspend"))
        words = ["--to", self.other()] if action == "migrate" else []
        moving = self.cluster.begin("program", action, str(self.dice.choice(self.all).id), *words, "--together")
        time.sleep(self.dice.uniform(0, 2.5))
        return moving

    def cancelled(self):
        """At some moment, one of the moves."""
        moving = self.begin()
        for row in self.cluster.rows("move", "list"):
            if not row["ended"] and self.dice.randrange(2):
                done = self.cluster.command("move", "cancel", str(row["id"]))
                assert done.returncode in (FINE, REFUSED), done
        moving.communicate(timeout=90)
        assert moving.returncode in (FINE, CANCELLED, REFUSED, NOT_SUPPORTED), moving.returncode
        return moving.returncode == FINE

    def killed(self):
        """Somebody who begins anew."""
        moving = self.begin()
        self.cluster.kill(self.dice.choice(("client-manager", "cluster-manager", "node-1", "node-2")))()
        moving.communicate(timeout=120)
        return moving.returncode == FINE

    def compared(self):
        """Their memory with the model."""
        for word, heard in (("pause", [0]), ("check", [0, 0]), ("go", [0])):
            for member in self.all:
                assert member.ask(word) == heard, (word, member.ask("state"))

    def step(self):
        what = self.dice.choice((self.moved, self.moved, self.fresh, self.rested, self.rested, self.saved,
                                 self.cancelled, self.killed))
        good = what()
        count = self.done.setdefault(what.__name__, [0, 0])
        count[not good] += 1
        if self.settled() == "suspended":
            self.command((FINE,), "resume")
            assert self.settled() == "running"
        self.compared()
        for member in self.all:
            member.goes_on(1)

    def end(self):
        for member in self.all:
            member.end()
        until(lambda: not self.cluster.rows("program", "list") and moves_killed.quiet(self.cluster),
              "everything is free", 60)
        shutil.rmtree(self.folder)


def main():
    for seed in range(FIRST, FIRST + COUNT):
        with Cluster(sms=8, memory=512) as cluster:
            cluster.run("vm", "set", "local", "--grouping", "on")
            print(f"# seed {seed}", flush=True)
            rounds = Round(cluster, seed)
            for _ in range(STEPS):
                rounds.step()
            rounds.end()
        said = ", ".join(f"{name} {good}" + (f" (not {bad})" if bad else "")
                         for name, (good, bad) in sorted(rounds.done.items()))
        ok(f"seed {seed}: {said}")


if __name__ == "__main__":
    sys.exit(story(main))
