#!/usr/bin/env python3
"""Programs that share memory are suspended, resumed and saved together; TAP on stdout.

    groups_rests.py BIN PROGRAM [suspends|resumes]

suspends, resumes: everybody is killed at each point of that; else those that took most thought.

shows: suspending: three programs of a VM that have memory and events of each other are suspended and resumed on two
   nodes, by one order of an administrator each, and count on; meanwhile they wait, and their share is free; without
   --together they stay as they are, and it is said why; without room they stay suspended
shows: suspending: whoever is killed whenever a group is suspended or resumed, the programs that live are all running at
   one server, or all suspended and can be resumed, or have error 46 where their server had them alone. What shared
   memory with one that was killed while it was suspended stays suspended, by name
shows: checkpoints: programs that share memory are saved together, also with the changes alone; none has a file where
   one of them cannot write its own
"""
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import groups  # noqa: E402
import moves_killed  # noqa: E402
from moves import Cluster, Hold  # noqa: E402
from testlib import Failed, ok, read, story, until  # noqa: E402

SUSPENDS, RESUMES = sys.argv[3:] == ["suspends"], sys.argv[3:] == ["resumes"]
LOST = moves_killed.LOST
SUSPENDING = ("taken", "shut", "sealed", "permitted", "moved")
RESUMING = ("taken", "shut", "sealed", "permitted", "moved")
SOME_SUSPENDING = {("client-manager", "permitted"), ("member", "shut"), ("source", "sealed")}
SOME_RESUMING = {("client-manager", "permitted"), ("target", "sealed")}


class Ring(groups.Ring):
    """That can be suspended."""

    def states(self):
        living = {member.id for member in self.living()}
        return {row["state"] for row in self.cluster.rows("program", "list") if row["id"] in living}

    def command(self, action, *words, expect=0):
        return self.cluster.run("program", action, str(self.living()[0].id), *words, expect=expect)

    def rest(self):
        self.command("suspend", "--together")
        until(lambda: self.states() == {"suspended"}, lambda: f"they are suspended: {self.states()}", 20)
        until(lambda: free(self.cluster), "their share is free")

    def go_on_at(self, *to):
        self.command("resume", "--together", *to)
        until(lambda: self.states() == {"running"}, lambda: f"they are running: {self.states()}", 20)
        node = self.together()
        self.goes_on()
        return node

    def kill(self):
        for member in self.living():
            member.process.kill()
            member.process.wait()
        shutil.rmtree(self.folder)


def free(cluster):
    return not cluster.rows("server", "list") and cluster.json("status")["sms_used"] == 0


def begin_anew(cluster, ring):
    """Both managers, one after the other: the new ones know that the programs are suspended."""
    for party in ("client-manager", "cluster-manager"):
        cluster.kill(party)()
    until(lambda: cluster.command("program", "list").returncode == 0 and ring.states() == {"suspended"},
          "they are known again", 40)
    until(lambda: all(row["state"] == "up" for row in cluster.rows("node", "list")), "the nodes are there again", 40)


def gone(cluster):
    until(lambda: not cluster.rows("program", "list") and moves_killed.quiet(cluster),
          lambda: f"everything is free: {cluster.rows('program', 'list')} {moves_killed.books(cluster)}", 60)


# ---- there and back ----

def waits(ring):
    """None of them calls CUDA."""
    before = [member.ask("state")[2] for member in ring.all]
    assert [member.ask("state") for member in ring.all] == [[0, 0, rounds] for rounds in before], "they wait"


def back_and_forth(cluster, ring):
    for node in ("node-2", "node-1"):
        ring.rest()
        waits(ring)
        assert ring.go_on_at("--to", node) == node
    moved = cluster.rows("move", "list")
    assert len(moved) == 12 and all(row["state"] == "done" for row in moved), moved
    # Each piece once: what one of them counts is in its own file, and not in that of the next.
    assert all(4 << 20 <= row["bytes"] < 8 << 20 for row in moved), moved
    ok("three programs are suspended and resumed, on either node: their share is free meanwhile, and they count on")


def as_documented(cluster, ring):
    """The commands of docs/elastic.md, one after the other."""
    section = read("docs/elastic.md").split("\n### Programs that share memory\n")[1]
    lines = section.split("```sh\n")[1].split("```")[0].splitlines()
    assert len(lines) == 3, lines
    for line in lines:
        words = line.replace("ID", str(ring.all[0].id)).replace("/var/tmp", cluster.dir).split()
        assert words[0] == "flytctl", line
        cluster.run(*words[1:])
    ring.goes_on()
    files = {name for name in os.listdir(cluster.dir) if name.startswith("saved")}
    assert files == {"saved", *(f"saved.{member.id}" for member in ring.all[1:])}, files
    ok("docs/elastic.md: the commands do what it says")


def refusals(cluster, ring):
    here = ring.together()
    for action, what in (("suspend", "suspend them together (--together)"),
                         ("checkpoint", "save them together (--together)")):
        words = [os.path.join(cluster.dir, "alone")] if action == "checkpoint" else []
        said = ring.command(action, *words, expect=9)
        assert what in said, said
    said = ring.command("suspend", os.path.join(cluster.dir, "frozen"), "--together", expect=9)
    assert "without names" in said, said
    assert not any(os.path.exists(os.path.join(cluster.dir, name)) for name in ("alone", "frozen"))
    assert ring.together() == here and ring.states() == {"running"}
    ring.goes_on()
    ring.rest()
    said = ring.command("resume", expect=9)
    assert "resume them together (--together)" in said, said
    cluster.run("vm", "set", "local", "--sms", "5")
    said = ring.command("resume", "--together", expect=8)
    assert "5 SMs" in said and ring.states() == {"suspended"}, said
    cluster.run("vm", "set", "local", "--sms", "2")
    begin_anew(cluster, ring)
    ring.go_on_at()
    ok("alone, into a file with a name, or without room: they stay as they are, and it is said why; a client manager"
       " and a cluster manager that begin anew resume them")


def saved(cluster, ring):
    first, *others = ring.all
    whole, changes = (os.path.join(cluster.dir, name) for name in ("whole", "changes"))
    ring.command("checkpoint", whole, "--together")
    ring.command("checkpoint", changes, "--base", whole, "--together")
    for path in (whole, changes):
        shown = {member: json.loads(cluster.run("--json", "checkpoint", "show", path + end)) for member, end in
                 [(first, ""), *((other, f".{other.id}") for other in others)]}
        for member, file in shown.items():
            assert file["hashed"] and file["facts"]["pid"] == str(member.process.pid), (path, file)
    ring.goes_on()
    taken = os.path.join(cluster.dir, "taken")
    with open(f"{taken}.{others[0].id}", "w", encoding="ascii") as file:
        file.write("mine")
    said = ring.command("checkpoint", taken, "--together", expect=9)
    assert "is not a checkpoint" in said or "does not go along" in said, said
    assert not os.path.exists(taken) and not os.path.exists(f"{taken}.{others[1].id}")
    ring.goes_on()
    ok("saved together, and the changes since; none has a file where one of them cannot write its own")


# ---- somebody is killed ----

def settle(cluster, command):
    """The command ends, nothing is under way, and everybody is there again."""
    try:
        command.wait(90)
    except subprocess.TimeoutExpired as late:
        command.kill()
        raise Failed("the command does not end") from late
    finally:
        said = command.communicate()
    until(lambda: cluster.command("move", "list").returncode == 0 and
          all(row["ended"] for row in cluster.rows("move", "list")) and
          all(row["state"] == "up" for row in cluster.rows("node", "list")), "no move is under way", 60)
    return said[0] + said[1]


def held(cluster, party, point, resumes):
    """The ring, after somebody was killed while its first program was held there."""
    hold = Hold(cluster)
    ring = Ring(cluster, 3, hold)
    if resumes:
        ring.rest()
    hold.at(point)
    command = cluster.begin("program", "resume" if resumes else "suspend", str(ring.all[0].id), "--together")
    hold.reached(point)
    move = next(row for row in cluster.rows("move", "list") if not row["ended"] and row["program"] == ring.all[0].id)
    back = moves_killed.hit(cluster, "program" if party == "member" else party, ring.all[1], move)
    hold.let_go(point)
    back()
    settle(cluster, command)
    shutil.rmtree(hold.folder)
    return ring


def lost(ring):
    for member in ring.living():
        until(lambda member=member: member.ask("state")[0] == LOST, lambda: f"46 is expected: {member.ask('state')}",
              30)
    ring.kill()
    return "error 46"


def suspended(cluster, ring, party):
    """All of them are. If all live, they can be resumed; else the next one in the ring has lost what it shared."""
    if len(ring.living()) == len(ring.all):
        if party == "client-manager":
            begin_anew(cluster, ring)
        ring.go_on_at()
        ring.end()
        return "suspended"
    said = ring.command("resume", "--together", expect=9)
    assert "has the program that made it ended?" in said, said
    assert ring.states() == {"suspended"}
    ring.kill()
    return "suspended, and stay so"


def running(ring):
    node = ring.together()
    ring.goes_on()
    ring.end()
    return f"running on {node}"


def expected(party, point, resumes):
    """None: it depends on who was first."""
    decided = point in ("permitted", "moved")
    before, after = ("suspended", "running") if resumes else ("running", "suspended")
    if party in ("source-node", "target-node"):
        return after
    if party == "cluster-manager":
        return after if point != "taken" else None
    if party == "source":
        return after if decided else "lost"
    if party == "target":
        return "lost" if decided else before
    return after if decided else before


def cell(cluster, party, point, resumes):
    ring = held(cluster, party, point, resumes)
    expects = expected(party, point, resumes)
    if expects == "lost":
        what = lost(ring)
    else:
        until(lambda: len(ring.states()) == 1 and (not expects or ring.states() == {expects}),
              lambda: f"all of them are {expects or 'the same'}: {ring.states()}", 40)
        what = suspended(cluster, ring, party) if ring.states() == {"suspended"} else running(ring)
    gone(cluster)
    ok(f"killed at {point} of {'resume' if resumes else 'suspend'}: {party}: all that live are {what}")


def killed(cluster):
    for party in ("client-manager", "cluster-manager", "member", "source", "source-node"):
        for point in SUSPENDING:
            if SUSPENDS or (not RESUMES and (party, point) in SOME_SUSPENDING):
                cell(cluster, party, point, False)
    for party in ("client-manager", "cluster-manager", "member", "target", "target-node"):
        for point in RESUMING:
            if (party, point) == ("target", "taken"):
                continue  # nobody is there yet
            if RESUMES or (not SUSPENDS and (party, point) in SOME_RESUMING):
                cell(cluster, party, point, True)


def in_between(cluster):
    """Killed while they are suspended."""
    ring = Ring(cluster, 3)
    ring.rest()
    ring.all[1].process.kill()
    ring.all[1].process.wait()
    until(lambda: len(cluster.rows("program", "list")) == 2, "it is gone", 40)
    what = suspended(cluster, ring, "member")
    gone(cluster)
    ok(f"killed while they are suspended: member: the others are {what}")


def main():
    with Cluster() as cluster:
        cluster.run("vm", "set", "local", "--grouping", "on")
        if not SUSPENDS and not RESUMES:
            ring = Ring(cluster, 3)
            back_and_forth(cluster, ring)
            as_documented(cluster, ring)
            refusals(cluster, ring)
            saved(cluster, ring)
            ring.end()
            gone(cluster)
            in_between(cluster)
        killed(cluster)


if __name__ == "__main__":
    sys.exit(story(main))
