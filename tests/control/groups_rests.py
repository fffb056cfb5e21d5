#!/usr/bin/env python3
"""Programs that share memory are suspended, resumed and saved together; TAP on stdout.

    groups_rests.py BIN PROGRAM [suspends|resumes|saves]

suspends, resumes, saves: everybody is killed at each point of that; else those that took most thought.

shows: suspending: three programs of a VM that have memory and events of each other are suspended and resumed on two
   nodes, by one order of an administrator each, and count on; meanwhile they wait, and their share is free; without
   --together they stay as they are, and it is said why; without room they stay suspended
shows: suspending: whoever is killed whenever a group is suspended or resumed, the programs that live are all running at
   one server, or all suspended and can be resumed, or have error 46 where their server had them alone. So it is for
   whoever is killed while they are suspended. What shared memory with a program that was killed then stays suspended,
   by name
shows: suspending: an order to a group that has just been suspended or resumed waits while the move of another program
   of it has not ended, also where the command before has returned
shows: checkpoints: programs that share memory are saved together, also with the changes alone; none has a file where
   one of them cannot write its own
shows: checkpoints: whoever is killed whenever a group is saved, the programs that live run on at their server, or have
   error 46 where that was killed. Before the decision no file has its name; behind it, each program that lives has a
   whole one, and nothing else is left in the folder
"""
import json
import os
import pty
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import groups  # noqa: E402
import moves_killed  # noqa: E402
from moves import Cluster, Hold  # noqa: E402
from testlib import Failed, ok, read, story, until  # noqa: E402

LOST = moves_killed.LOST
LEAVING = ("taken", "resting", "shut", "copying", "sealed", "permitted", "moved")
POINTS = {"suspend": LEAVING, "resume": tuple(point for point in LEAVING if point != "resting"), "checkpoint": LEAVING}
# first: the program that stands at the point; member: another one. source, target: the programs' workers at that GPU
# server; server: that whole server.
PARTIES = {action: ("first", "member", "client-manager", "cluster-manager", end, "server", f"{end}-node")
           for action, end in (("suspend", "source"), ("resume", "target"), ("checkpoint", "source"))}
SOME = {("suspend", "client-manager", "permitted"), ("suspend", "member", "shut"), ("suspend", "source", "sealed"),
        ("resume", "client-manager", "permitted"), ("resume", "target", "sealed"), ("checkpoint", "first", "copying")}
ALL = {"suspends": "suspend", "resumes": "resume", "saves": "checkpoint"}.get(" ".join(sys.argv[3:]))


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


def waits_for(cluster, hold, *words):
    """While the first program of the group is held at the end of its move, the command says that it waits. Then it
    succeeds."""
    hold.reached("moved")
    ours, its = pty.openpty()
    command = subprocess.Popen([f"{groups.BIN}/flytctl", *words], env=cluster.env, stdout=subprocess.PIPE, stderr=its,
                               text=True)
    os.close(its)
    shown, ended, holds = b"", False, True
    while not ended:
        try:
            shown += os.read(ours, 65536)
        except OSError:                                     # the terminal's end
            ended = True
        if holds and (ended or b" waits: move " in shown):
            hold.let_go("moved")
            holds = False
    os.close(ours)
    said = command.communicate(timeout=60)[0]
    assert command.returncode == 0 and b" waits: move " in shown, (words, command.returncode, said, shown)


def one_after_another(cluster):
    """The order names another program than the one that is held, so that the command before has returned."""
    hold = Hold(cluster)
    ring = Ring(cluster, 3, hold)
    named = str(ring.all[1].id)
    hold.at("moved")
    cluster.run("program", "suspend", named, "--together")
    waits_for(cluster, hold, "program", "resume", named, "--together")
    ring.together()
    ring.goes_on()
    ring.rest()
    hold.at("moved")
    cluster.run("program", "resume", named, "--together")
    waits_for(cluster, hold, "program", "checkpoint", named, os.path.join(cluster.dir, "soon"), "--together")
    ring.together()
    ring.goes_on()
    ring.end()
    gone(cluster)
    ok("resume after suspend, checkpoint after resume: each waits for the last program of the order before")


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


def strike(cluster, party, ring, move):
    """Kills it. A function that brings back what comes back."""
    if party in ("first", "member"):
        return moves_killed.hit(cluster, "program", ring.all[party == "member"], move)
    if party == "server":
        row = next(row for row in cluster.rows("server", "list") if row["id"] == (move["target"] or move["source"]))
        os.kill(row["pid"], signal.SIGKILL)
        return lambda: None
    return moves_killed.hit(cluster, party, ring.all[1], move)


class Held:
    """A ring, after somebody was killed while its first program was held at that point."""

    def __init__(self, cluster, action, party, point):
        self.hold = Hold(cluster)
        self.ring = Ring(cluster, 3, self.hold)
        self.folder = os.path.join(self.ring.folder, "saved")
        os.mkdir(self.folder)
        if action == "resume":
            self.ring.rest()
        self.hold.at(point)
        file = [os.path.join(self.folder, "file")] if action == "checkpoint" else []
        command = cluster.begin("program", action, str(self.ring.all[0].id), *file, "--together")
        self.hold.reached(point)
        move = next(row for row in cluster.rows("move", "list")
                    if not row["ended"] and row["program"] == self.ring.all[0].id)
        back = strike(cluster, party, self.ring, move)
        self.hold.let_go(point)
        back()
        settle(cluster, command)
        shutil.rmtree(self.hold.folder)


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


def is_decided(point):
    return point in ("permitted", "moved")


def expected(action, party, point):
    """None: it depends on who was first."""
    decided = is_decided(point)
    before, after = {"suspend": ("running", "suspended"), "resume": ("suspended", "running"),
                     "checkpoint": ("running", "running")}[action]
    if party in ("source-node", "target-node"):
        return after
    if party == "cluster-manager":
        return after if point != "taken" else None
    if party in ("source", "target", "server"):
        if action == "resume":
            return "lost" if decided else before
        return after if decided and action == "suspend" else "lost"
    return after if decided else before


def files(cluster, held, party, point):
    """Of those that live, all or none; of one that was killed, perhaps. Nothing else is in the folder."""
    first, *others = held.ring.all
    own = {first: "file", **{other: f"file.{other.id}" for other in others}}
    names = set(os.listdir(held.folder))
    assert names <= set(own.values()), names
    living = {own[member] for member in held.ring.living()}
    assert living <= names or not living & names, names
    if party not in ("cluster-manager", "source", "server"):
        assert bool(living & names) == (is_decided(point) or party == "source-node"), (names, party, point)
    for name in names:
        assert json.loads(cluster.run("--json", "checkpoint", "show", os.path.join(held.folder, name)))["hashed"]
    return f", {len(names)} files"


def cell(cluster, action, party, point):
    held = Held(cluster, action, party, point)
    ring, expects = held.ring, expected(action, party, point)
    what = files(cluster, held, party, point) if action == "checkpoint" else ""
    if expects == "lost":
        what = lost(ring) + what
    else:
        until(lambda: len(ring.states()) == 1 and (not expects or ring.states() == {expects}),
              lambda: f"all of them are {expects or 'the same'}: {ring.states()}", 40)
        what = (suspended(cluster, ring, party) if ring.states() == {"suspended"} else running(ring)) + what
    gone(cluster)
    ok(f"killed at {point} of {action}: {party}: all that live are {what}")


def killed(cluster):
    for action, points in POINTS.items():
        for party in PARTIES[action]:
            for point in points:
                if action == "resume" and party in ("target", "server") and point == "taken":
                    continue  # a resume has no target and no server there yet
                if ALL == action or (not ALL and (action, party, point) in SOME):
                    cell(cluster, action, party, point)


def in_between(cluster, party):
    """Killed while they are suspended."""
    ring = Ring(cluster, 3)
    ring.rest()
    if party in ("first", "member"):
        strike(cluster, party, ring, None)
        until(lambda: len(cluster.rows("program", "list")) == 2, "it is gone", 40)
    else:
        cluster.kill(party)()
        until(lambda: cluster.command("program", "list").returncode == 0 and ring.states() == {"suspended"} and
              all(row["state"] == "up" for row in cluster.rows("node", "list")), "it is there again", 40)
    what = suspended(cluster, ring, "")
    gone(cluster)
    ok(f"killed while they are suspended: {party}: all that live are {what}")


def main():
    with Cluster() as cluster:
        cluster.run("vm", "set", "local", "--grouping", "on")
        if not ALL:
            ring = Ring(cluster, 3)
            back_and_forth(cluster, ring)
            as_documented(cluster, ring)
            refusals(cluster, ring)
            saved(cluster, ring)
            ring.end()
            gone(cluster)
            one_after_another(cluster)
            in_between(cluster, "member")
        if ALL == "suspend":
            for party in ("first", "client-manager", "cluster-manager", "node-1", "node-2"):
                in_between(cluster, party)
        killed(cluster)


if __name__ == "__main__":
    sys.exit(story(main))
