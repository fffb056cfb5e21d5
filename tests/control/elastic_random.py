#!/usr/bin/env python3
"""A program moves, is suspended, saved and given other shares, at random; TAP on stdout.

    elastic_random.py BIN PROGRAM [FIRST-SEED COUNT]

shows: elastic: a program computes what it would have computed, in whatever order it is moved between nodes and on one,
   suspended into files with and without a name, resumed elsewhere, saved, and given other shares, and moves are
   called off; books and servers agree at the end
"""
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import moves_killed  # noqa: E402
from moves import Cluster, Program  # noqa: E402
from saves import state  # noqa: E402
from testlib import ok, story, until  # noqa: E402

FIRST, COUNT = (int(word) for word in sys.argv[3:5]) if len(sys.argv) > 4 else (1, 1)
STEPS = 50
# Exit statuses of flytctl: done; called off; a wrong moment (it came too late, another move is under way); no room.
FINE, CANCELLED, REFUSED, NO_ROOM = 0, 4, 7, 8


class Round:
    """One seed."""

    def __init__(self, cluster, seed):
        self.cluster, self.dice = cluster, random.Random(seed)
        self.program = Program(cluster)
        assert self.program.ask("take", self.dice.randrange(1, 16)) == [0]
        self.last = None                                    # its last checkpoint
        self.done = {}

    def command(self, may, *words):
        done = self.cluster.command(*words)
        assert done.returncode in may, (words, done)
        return done.returncode == FINE

    def path(self, name):
        return os.path.join(self.cluster.dir, f"{name}-{self.dice.randrange(1 << 30)}")

    def migrate(self, a):
        return self.command((FINE,), "program", "migrate", str(a.id), "--to", self.cluster.other(a))

    def fresh(self, a):
        return self.command((FINE,), "program", "migrate", str(a.id), "--fresh")

    def cancelled(self, a):
        """At some moment of a move."""
        moving = self.cluster.begin("program", "migrate", str(a.id), "--to", self.cluster.other(a))
        time.sleep(self.dice.uniform(0, 2.5))
        under_way = [row for row in self.cluster.rows("move", "list") if not row["ended"]]
        for row in under_way:
            self.command((FINE, REFUSED), "move", "cancel", str(row["id"]))
        moving.communicate(timeout=60)
        assert moving.returncode in (FINE, CANCELLED), moving.returncode
        return moving.returncode == CANCELLED

    def suspended(self, a):
        path = [self.path("frozen")] if self.dice.randrange(2) else []
        self.command((FINE,), "program", "suspend", str(a.id), *path)
        assert state(self.cluster, a) == "suspended" and all(map(os.path.exists, path))
        to = ["--to", self.dice.choice(("node-1", "node-2"))] if self.dice.randrange(2) else []
        self.command((FINE,), "program", "resume", str(a.id), *to)
        assert not any(map(os.path.exists, path))
        return True

    def saved(self, a):
        base = ["--base", self.last] if self.last and self.dice.randrange(3) else []
        path = self.path("saved")
        self.command((FINE,), "program", "checkpoint", str(a.id), path, *base)
        self.cluster.run("checkpoint", "show", path)
        self.last = path
        return True

    def share(self, a):
        """Of its server; less than it holds is refused."""
        return self.command((FINE, NO_ROOM), "change-config", "--ip", "local", "--client-id", str(a.id), "--sm-cores",
                            str(self.dice.randrange(1, 3)), "--memory", str(self.dice.choice((16, 64, 96, 128))))

    def step(self):
        what = self.dice.choice((self.migrate, self.migrate, self.fresh, self.cancelled, self.suspended, self.saved,
                                 self.share, self.share))
        # A GPU has room for two of its servers. Those that it has left end behind its back.
        until(lambda: len(self.cluster.rows("server", "list")) == 1, "the servers that it has left have ended", 60)
        good = what(self.program)
        count = self.done.setdefault(what.__name__, [0, 0])
        count[not good] += 1
        self.program.goes_on(1)

    def end(self):
        self.program.end()
        said = [line for line in self.program.process.stderr if "Is it stopped or overloaded?" not in line]
        assert not said, f"it is told: {said}"
        until(lambda: not self.cluster.rows("program", "list") and moves_killed.quiet(self.cluster),
              "everything is free", 60)


def main():
    for seed in range(FIRST, FIRST + COUNT):
        with Cluster(sms=8, memory=512) as cluster:
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
