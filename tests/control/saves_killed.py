#!/usr/bin/env python3
"""Somebody is killed or stopped, or a disk gets full, while a program is saved or suspended into a file; TAP on stdout.

    saves_killed.py BIN PROGRAM [suspends]

suspends: into files with names; else checkpoints.

shows: checkpoints: whoever is killed at whatever point of one with --base, the program computes what it would have
   computed, or gets error 46 where its server was; the checkpoint before is as it was, a new one is whole or not there,
   and nothing else is left in its folder
shows: checkpoints: whoever is stopped for two seconds at whatever point, the checkpoint is made
shows: checkpoints: a file that cannot grow is an error, for whole ones, changes, compact and suspend; the program goes
   on, nothing is left of the file, and the next one succeeds
shows: checkpoints: compact that is killed leaves nothing, and can be repeated
shows: suspending: whoever is killed or stopped at whatever point of a suspension into a file with a name, the program
   goes on, with what it had, where it is or when it is resumed, or gets error 46 where its server had it alone; there
   is a file exactly as long as it is suspended
shows: suspending: a client manager that is killed meanwhile, and hears late of what was ordered, knows the program; so
   does a cluster manager that is killed, to which the program was named before it was suspended
"""
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import moves_killed  # noqa: E402
from moves import BIN, Cluster, Hold, Program  # noqa: E402
from saves import save, show, state  # noqa: E402
from testlib import ok, story, until  # noqa: E402

SUSPENDS = sys.argv[3:] == ["suspends"]
POINTS = ("taken", "shut", "sealed", "permitted", "moved")
PARTIES = ("source", "source-node", "client-manager", "cluster-manager", "program")
MIB = 1 << 20
HELD = 16
SOME = 200 << 10                        # bytes: half of the smallest file of these; which parts are packed varies
DECIDED_SECONDS = 3                     # a program looks once in two
NOWHERE = (1 << 64) - 1                 # the server of one that is suspended, in the client manager's log
STOPPED_SECONDS = 2                     # the data plane's limit on silence is 10


class Folder:
    """For checkpoints of one program; nothing else lies there."""

    def __init__(self, cluster, name):
        self.path = os.path.join(cluster.dir, name)
        os.mkdir(self.path)

    def at(self, name):
        return os.path.join(self.path, name)

    def names(self):
        return sorted(os.listdir(self.path))


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def begin(cluster, name):
    """A program with a whole checkpoint."""
    hold, folder = Hold(cluster), Folder(cluster, name)
    a = Program(cluster, FLYT_MOVE_HOLD=hold.folder, FLYT_LOG="error")
    assert a.ask("take", HELD) == [0]
    save(cluster, a, folder.at("whole"))
    return a, hold, folder


def end(cluster, a, hold, folder):
    if a.process.poll() is None:
        a.end()
    until(lambda: state(cluster, a) == "gone" and moves_killed.quiet(cluster), "everything is free", 60)
    shutil.rmtree(folder.path)
    shutil.rmtree(hold.folder)


def up_again(cluster):
    until(lambda: cluster.command("move", "list").returncode == 0 and
          all(row["state"] == "up" for row in cluster.rows("node", "list")) and
          all(row["ended"] for row in cluster.rows("move", "list")), "the cluster is there again", 40)


def under_way(cluster, a, hold, folder, point):
    hold.at(point)
    command = cluster.begin("program", "checkpoint", str(a.id), folder.at("changes"), "--base", folder.at("whole"))
    hold.reached(point)
    return command, next(row for row in cluster.rows("move", "list") if not row["ended"])


def judge(cluster, folder, before):
    """The one before is as it was; the new one is whole, or not there."""
    assert contents(folder.at("whole")) == before
    names = folder.names()
    assert names in (["whole"], ["changes", "whole"]), names
    if "changes" not in names:
        return "no file"
    shown = show(cluster, folder.at("changes"))
    assert shown["facts"]["base"] == show(cluster, folder.at("whole"))["facts"]["id"] and shown["kept"] > 0, shown
    return "a whole file"


def killed(cluster, party, point):
    a, hold, folder = begin(cluster, f"{party}-{point}")
    before = contents(folder.at("whole"))
    command, move = under_way(cluster, a, hold, folder, point)
    back = moves_killed.hit(cluster, party, a, {**move, "to_node": move["from_node"]})
    hold.let_go(point)
    back()
    command.communicate(timeout=60)
    up_again(cluster)
    if party == "program":
        until(lambda: state(cluster, a) == "gone", "it is gone", 40)
    elif party == "source":
        until(lambda: a.ask("state")[0] == moves_killed.LOST, "46 is expected", 30)
        a.process.kill()
        a.process.wait()
    else:
        a.goes_on()
    what = judge(cluster, folder, before)
    if a.process.poll() is None:        # the next one follows the last that was made, or the whole one again
        save(cluster, a, folder.at("next"), "--base", folder.at("changes" if what == "a whole file" else "whole"))
        show(cluster, folder.at("next"))
    end(cluster, a, hold, folder)
    ok(f"killed at {point} of a checkpoint with --base: {party}: {what}")


def still(pids, meanwhile):
    """Stops these processes for a while."""
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        meanwhile()
        time.sleep(STOPPED_SECONDS)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def stopped(cluster, party, point):
    a, hold, folder = begin(cluster, f"{party}-{point}-stopped")
    before = contents(folder.at("whole"))
    command, move = under_way(cluster, a, hold, folder, point)
    still(moves_killed.pids_of(cluster, party, a, move), lambda: hold.let_go(point))
    said = command.communicate(timeout=60)
    assert command.returncode == 0, said
    assert judge(cluster, folder, before) == "a whole file"
    a.goes_on()
    end(cluster, a, hold, folder)
    ok(f"stopped for {STOPPED_SECONDS} s at {point} of a checkpoint with --base: {party}: it is made")


# ---- suspended into a file with a name ----

def begin_suspend(cluster, name, point):
    hold, folder = Hold(cluster), Folder(cluster, name)
    a = Program(cluster, FLYT_MOVE_HOLD=hold.folder, FLYT_LOG="error")
    hold.at(point)
    command = cluster.begin("program", "suspend", str(a.id), folder.at("frozen"))
    hold.reached(point)
    return a, hold, folder, command, next(row for row in cluster.rows("move", "list") if not row["ended"])


def decided(cluster, a, folder):
    """Whether it is suspended with its file, or running without one, and has been for some time: a new cluster manager
    knows of nothing that is under way until it is told."""
    def seen():
        return (state(cluster, a), folder.names(), [row for row in cluster.rows("move", "list") if not row["ended"]])
    first = seen()
    if first not in (("suspended", ["frozen"], []), ("running", [], [])):
        return False
    time.sleep(DECIDED_SECONDS)
    return seen() == first


def resumed(cluster, a, folder):
    """How it was decided. Then it runs."""
    until(lambda: decided(cluster, a, folder), lambda: f"it is decided: {state(cluster, a)}, {folder.names()}", 40)
    what = state(cluster, a)
    if what == "suspended":
        until(lambda: cluster.command("program", "resume", str(a.id)).returncode == 0, "it is resumed", 40)
    a.goes_on()
    assert folder.names() == [], folder.names()
    return what


def suspend_killed(cluster, party, point):
    a, hold, folder, command, move = begin_suspend(cluster, f"frozen-{party}-{point}", point)
    back = moves_killed.hit(cluster, party, a, {**move, "to_node": move["from_node"]})
    hold.let_go(point)
    back()
    command.communicate(timeout=60)
    up_again(cluster)
    if party == "program":
        until(lambda: state(cluster, a) == "gone", "it is gone", 40)
        what = "gone"
        assert not folder.names() or point != "taken", folder.names()
    elif party == "source" and point in ("taken", "shut"):
        until(lambda: a.ask("state")[0] == moves_killed.LOST, "46 is expected", 30)
        what = "error 46"
        assert folder.names() == [], folder.names()
        a.process.kill()
        a.process.wait()
    else:
        what = resumed(cluster, a, folder)
    end(cluster, a, hold, folder)
    ok(f"killed at {point} of a suspension into a file: {party}: {what}")


def suspend_stopped(cluster, party, point):
    a, hold, folder, command, move = begin_suspend(cluster, f"frozen-{party}-{point}-stopped", point)
    still(moves_killed.pids_of(cluster, party, a, move), lambda: hold.let_go(point))
    said = command.communicate(timeout=60)
    assert command.returncode == 0, said
    assert resumed(cluster, a, folder) == "suspended"
    end(cluster, a, hold, folder)
    ok(f"stopped for {STOPPED_SECONDS} s at {point} of a suspension into a file: {party}: it is suspended, and resumed")


def suspend_unheard(cluster):
    """The library has done it before the cluster manager has told the new client manager what was to be done."""
    a, hold, folder, command, _ = begin_suspend(cluster, "frozen-unheard", "taken")
    back = cluster.kill("client-manager")
    silent = cluster.pid("cluster-manager")
    os.kill(silent, signal.SIGSTOP)
    try:
        back()
        hold.let_go("taken")
        until(lambda: f" pid={a.process.pid} server={NOWHERE} move=0" in cluster.log("client-manager"),
              "it has looked in, suspended", 60)
    finally:
        os.kill(silent, signal.SIGCONT)
    command.communicate(timeout=60)
    up_again(cluster)
    assert resumed(cluster, a, folder) == "suspended"
    end(cluster, a, hold, folder)
    ok("suspended into a file before a new client manager hears from the cluster manager that it was to be")


def suspend_unknown(cluster):
    """The new cluster manager knows nothing of the order, and hears of the program before it is suspended."""
    a, hold, folder, command, _ = begin_suspend(cluster, "frozen-unknown", "taken")
    back = cluster.kill("cluster-manager")
    back()
    command.communicate(timeout=60)
    up_again(cluster)
    until(lambda: state(cluster, a) == "running", "the client manager has named it")
    hold.let_go("taken")
    assert resumed(cluster, a, folder) == "suspended"
    end(cluster, a, hold, folder)
    ok("suspended into a file after its client manager has named it to a new cluster manager")


# ---- files that cannot grow ----

class Limited:
    """Files of the process cannot grow beyond so many bytes, as on a disk that gets full."""

    def __init__(self, pid, size):
        self.pid, self.size = pid, size

    def __enter__(self):
        self.before = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (self.size, self.before[1]))

    def __exit__(self, *what):
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, self.before)


def full(cluster):
    a, hold, folder = begin(cluster, "full")
    whole = folder.at("whole")
    for words in (("checkpoint", str(a.id), folder.at("other")), ("suspend", str(a.id), folder.at("frozen")),
                  ("checkpoint", str(a.id), folder.at("changes"), "--base", whole), ("suspend", str(a.id))):
        with Limited(a.process.pid, 4096 if "--base" in words else SOME):
            said = cluster.run("program", *words, expect=8)
        assert "File too large" in said, said
        a.goes_on()
        assert folder.names() == ["whole"], (words, folder.names())
    save(cluster, a, folder.at("changes"), "--base", whole)
    cluster.run("program", "suspend", str(a.id), folder.at("frozen"))
    cluster.run("program", "resume", str(a.id))
    a.goes_on()
    compacted(cluster, folder)
    end(cluster, a, hold, folder)
    ok("a file that cannot grow: an error for each kind, nothing is left, the next one succeeds")


def compacted(cluster, folder):
    """Of the two checkpoints in the folder: without room, killed some times, and made."""
    words = [f"{BIN}/flytctl", "checkpoint", "compact", folder.at("made"), folder.at("whole"), folder.at("changes")]
    done = subprocess.run(words, env=cluster.env, capture_output=True, text=True, timeout=60,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (SOME, SOME)))
    assert done.returncode == 1 and "File too large" in done.stderr, done
    assert folder.names() == ["changes", "whole"], folder.names()
    dice = random.Random(1)
    for _ in range(20):
        process = subprocess.Popen(words, env=cluster.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(dice.uniform(0, 0.06))                   # somewhere on its way, or behind it
        process.kill()
        process.wait()
        assert folder.names() in (["changes", "whole"], ["changes", "made", "whole"]), folder.names()
        if "made" in folder.names():
            show(cluster, folder.at("made"))
            os.unlink(folder.at("made"))
    cluster.run("checkpoint", "compact", *words[3:])
    assert show(cluster, folder.at("made"))["kept"] == 0


def main():
    with Cluster(nodes=1) as cluster:
        if SUSPENDS:
            suspend_unheard(cluster)
            suspend_unknown(cluster)
        else:
            full(cluster)
        for point in POINTS:
            for party in PARTIES:
                (suspend_killed if SUSPENDS else killed)(cluster, party, point)
                left = SUSPENDS and (party, point) == ("source", "moved")      # it has no server any more
                if party != "program" and not left:
                    (suspend_stopped if SUSPENDS else stopped)(cluster, party, point)


if __name__ == "__main__":
    sys.exit(story(main))
