#!/usr/bin/env python3
"""Programs are suspended, resumed and saved; TAP on stdout.

    suspends.py BIN PROGRAM [all]

all: more often, and everybody is killed at each point.

shows: suspending: a program with two threads is suspended and resumed on two nodes, and computes what it would have
   computed; meanwhile it waits, its share is free, and flytctl says so
shows: suspending: a resumption without room is refused by name, and the program stays suspended until there is room
shows: suspending: whoever is killed before, while and after a program is suspended, it goes on, or gets error 46 where
   its server had it alone; a cluster manager and a client manager that begin anew know that it is suspended
shows: checkpoints: a running program is saved; flytctl says what is in the file, and refuses one that is damaged
shows: suspending: where there is no room for its file, a program goes on
shows: suspending: when its VM is removed a suspended program gets error 46 and hears why, also with a file that has a
   name, and behind a restart of the client manager; one whose client manager is refused stays suspended
"""
import json
import os
import re
import shutil
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import moves_killed  # noqa: E402
import wire  # noqa: E402
from moves import Cluster, Hold, Program  # noqa: E402
from testlib import ok, story, until, write  # noqa: E402

ALL = sys.argv[3:] == ["all"]


def state(cluster, program):
    return next((row["state"] for row in cluster.rows("program", "list") if row["id"] == program.id), "gone")


def free(cluster):
    return not cluster.rows("server", "list") and cluster.json("status")["sms_used"] == 0


def suspend(cluster, program):
    done = json.loads(cluster.run("--json", "program", "suspend", str(program.id)))
    assert done["ok"] and done["move"]["action"] == "suspend" and done["move"]["state"] == "done", done
    assert state(cluster, program) == "suspended"


def resume(cluster, program, *more):
    done = json.loads(cluster.run("--json", "program", "resume", str(program.id), *more))
    assert done["ok"] and done["move"]["state"] == "done" and done["move"]["bytes"] > 0, done
    program.goes_on()
    assert state(cluster, program) == "running"


def back_and_forth(cluster):
    a = Program(cluster)
    a.goes_on()
    for i in range(6 if ALL else 1):
        suspend(cluster, a)
        until(lambda: free(cluster), "its share is free")
        before = a.ask("state")[2]
        assert a.ask("state") == [0, 0, before], "it waits"
        for words in (("suspend",), ("migrate", "--to", "node-1")):
            said = cluster.run("program", words[0], str(a.id), *words[1:], expect=7)
            assert "is suspended" in said, said
        resume(cluster, a, "--to", f"node-{2 - i % 2}")
        assert cluster.place(a)[0] == f"node-{2 - i % 2}"
    assert "is not suspended" in cluster.run("program", "resume", str(a.id), expect=7)
    kinds = cluster.kinds()
    assert "program-suspended" in kinds and "program-resumed" in kinds, kinds
    return a


def without_room(cluster, a):
    suspend(cluster, a)
    until(lambda: free(cluster), "its share is free")
    b = Program(cluster)                        # the place is not kept for the one that is suspended
    b.goes_on()
    b.end()
    until(lambda: state(cluster, b) == "gone", "it is gone")
    cluster.run("vm", "set", "local", "--sms", "5")
    said = cluster.run("program", "resume", str(a.id), expect=8)
    assert "5 SMs" in said and state(cluster, a) == "suspended", said
    cluster.run("vm", "set", "local", "--sms", "2", "--memory", "1M")      # no GPU server begins with that
    said = cluster.run("program", "resume", str(a.id), expect=3)
    assert "stays suspended" in said and state(cluster, a) == "suspended", said
    cluster.run("vm", "set", "local", "--memory", "128M")
    resume(cluster, a)
    ok("resumed without room: refused by name, and it stays suspended until there is room")


def damaged(cluster, path):
    with open(path, "rb") as file:
        good = file.read()
    other = path + ".other"
    at = len(good) // 2
    for what, data in (("cut off", good[:-40]), ("cut off", good[:60]), ("checksum", good[:at] + bytes([good[at] ^ 1]) +
                       good[at + 1:]), ("not a checkpoint", b"#!/bin/sh\n"), ("not a checkpoint", b""),
                       ("another release", b"FLYTCKP2" + good[8:]), ("follows", good + b"x")):
        with open(other, "wb") as file:
            file.write(data)
        said = cluster.run("checkpoint", "show", other, expect=1)
        assert what in said, (what, said)


def as_documented(cluster, a):
    """The commands of docs/elastic.md, one after the other."""
    with open("docs/elastic.md", encoding="utf-8") as file:
        section = file.read().split("## Suspending a program")[1].split("\n## ")[0]
    lines = section.split("```sh\n")[1].split("```")[0].splitlines()
    assert len(lines) == 5, lines
    said = ""
    for line in lines:
        words = line.split("#")[0].replace("ID", str(a.id)).replace("/var/tmp", cluster.dir).split()
        assert words[0] == "flytctl", line
        said = cluster.run(*words[1:])
        if "# " in line:
            assert line.split("# ")[1] in said, (line, said)
    assert "all checksums are right" in said and cluster.place(a)[0] == "node-2", said
    a.goes_on()
    ok("docs/elastic.md: the commands do what it says")


def saved(cluster, a):
    path = os.path.join(cluster.dir, "saved")
    for _ in range(2 if ALL else 1):            # it replaces the one of as_documented
        cluster.run("program", "checkpoint", str(a.id), path)
        a.goes_on(1)
        shown = json.loads(cluster.run("--json", "checkpoint", "show", path))
        kinds = {row["kind"]: row for row in shown["kinds"]}
        assert shown["hashed"] and shown["facts"]["pid"] == str(a.process.pid), shown
        assert kinds["allocations"]["bytes"] > 0 and kinds["modules"]["objects"] == 1, shown
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert re.search(r"all checksums are right", cluster.run("checkpoint", "show", path))
    damaged(cluster, path)
    taken = os.path.join(cluster.dir, "taken")
    with open(taken, "w", encoding="ascii") as file:
        file.write("mine")
    others = ((9, "No such file", "/nowhere/at/all"), (9, "cannot be written", "/proc/self/saved")) if ALL else ()
    for expect, what, where in ((9, "is not a checkpoint", taken), *others):
        said = cluster.run("program", "checkpoint", str(a.id), where, expect=expect)
        assert what in said and "goes on" in said, said
        a.goes_on(1)
    with open(taken, encoding="ascii") as file:
        assert file.read() == "mine"
    assert not [name for name in os.listdir(cluster.dir) if name.startswith("saved.") and name != "saved.other"]
    cluster.run("program", "checkpoint", str(a.id), "relative", expect=2)
    assert "program-saved" in cluster.kinds()
    ok("saved: twice, shown, damaged files are refused by name, and nobody's file is replaced")


def no_folder(cluster):
    a = Program(cluster, FLYT_SUSPEND_FOLDER="/proc")
    said = cluster.run("program", "suspend", str(a.id), expect=8)
    assert "stays on node" in said and "FLYT_SUSPEND_FOLDER" in said, said
    a.goes_on()
    a.end()
    until(lambda: state(cluster, a) == "gone", "it is gone")
    ok("without room for its file a program goes on where it is")


def strangers(cluster):
    peer = wire.Peer(f"{cluster.dir}/run/client.sock")
    peer.hello(wire.OF_PROGRAM, "pid-1")
    peer.attach("/bin/stranger")
    until(lambda: [row["state"] for row in cluster.rows("program", "list")] == ["running"], "it has a server")
    said = cluster.run("program", "suspend", str(cluster.rows("program", "list")[0]["id"]), expect=9)
    assert "library of an earlier release" in said, said
    peer.close()
    until(lambda: not cluster.rows("program", "list"), "it is gone")
    ok("a program with an earlier release's library is refused by name")


# ---- somebody is killed ----

def in_between(cluster, party):
    """Killed while the program is suspended."""
    a = Program(cluster, FLYT_LOG="error")
    suspend(cluster, a)
    if party == "program":
        a.process.kill()
        a.process.wait()
    else:
        cluster.kill(party)()
        until(lambda: cluster.command("program", "list").returncode == 0 and state(cluster, a) == "suspended" and
              all(row["state"] == "up" for row in cluster.rows("node", "list")), "the cluster is there again", 40)
        until(lambda: cluster.command("program", "resume", str(a.id)).returncode == 0, "it is resumed", 40)
        a.goes_on()
        a.end()
    until(lambda: state(cluster, a) == "gone" and moves_killed.quiet(cluster), "everything is free", 40)
    ok(f"killed while it is suspended: {party}")


def killed(cluster, party, point, resumes):
    hold = Hold(cluster)
    a = Program(cluster, FLYT_MOVE_HOLD=hold.folder, FLYT_LOG="error")
    if resumes:
        suspend(cluster, a)
    hold.at(point)
    command = cluster.begin("program", "resume" if resumes else "suspend", str(a.id))
    hold.reached(point)
    move = next(row for row in cluster.rows("move", "list") if not row["ended"])
    back = moves_killed.hit(cluster, party, a, move)
    hold.let_go(point)
    back()
    command.communicate(timeout=60)
    until(lambda: cluster.command("move", "list").returncode == 0 and
          all(row["state"] == "up" for row in cluster.rows("node", "list")), "the cluster is there again", 40)
    if party == "program":
        until(lambda: state(cluster, a) == "gone", "it is gone", 40)
        what = "everything is free"
    elif (party, resumes) == ("source", False) and point == "shut":
        until(lambda: a.ask("state")[0] == moves_killed.LOST, "46 is expected", 30)
        what = "error 46"
        a.process.kill()
        a.process.wait()
    else:
        until(lambda: state(cluster, a) in ("suspended", "running") and
              all(row["ended"] for row in cluster.rows("move", "list")), lambda: f"it is decided: {state(cluster, a)}",
              40)
        what = state(cluster, a)
        if what == "suspended":
            until(lambda: cluster.command("program", "resume", str(a.id)).returncode == 0, "it is resumed", 40)
        a.goes_on()
        a.end()
        expected = "running" if resumes else "suspended"
        assert what == ("suspended" if party == "target" else expected), (what, party, point)
    until(lambda: state(cluster, a) == "gone" and moves_killed.quiet(cluster), "everything is free", 60)
    shutil.rmtree(hold.folder)
    ok(f"killed at {point} of {'resume' if resumes else 'suspend'}: {party}: {what}")


SUSPENDING = {("source", "permitted"), ("cluster-manager", "moved")}
RESUMING = {("target", "shut")}


def kills(cluster):
    for party in ("cluster-manager", "client-manager", "node-1", "program"):
        if ALL or party in ("cluster-manager", "program"):
            in_between(cluster, party)
    for point in ("taken", "shut", "sealed", "permitted", "moved"):
        for party in ("source", "client-manager", "cluster-manager", "program"):
            if (ALL and (party, point) != ("source", "taken")) or (party, point) in SUSPENDING:
                killed(cluster, party, point, False)
    for point in ("taken", "shut", "sealed", "moved"):
        for party in ("target", "client-manager", "cluster-manager", "program"):
            if (ALL and (party, point) not in {("target", "moved"), ("target", "taken")}) or (party, point) in RESUMING:
                killed(cluster, party, point, True)


# ---- its VM is removed ----

def secret_of(cluster, *words):
    return json.loads(cluster.run("--json", "vm", *words))["secret"]


def take_secret(cluster, secret):
    """The client manager begins anew with it."""
    again = cluster.kill("client-manager")
    write(f"{cluster.dir}/etc/vm.secret", secret, 0o600)
    again()


def waits(*programs):
    for program in programs:
        before = program.ask("state")
        assert before[:2] == [0, 0] and program.ask("state") == before, before


def is_lost(program):
    until(lambda: program.ask("state")[0] == moves_killed.LOST, "46 is expected", 20)
    assert program.ask("end")[0] == moves_killed.LOST
    program.process.wait(20)
    said = program.process.stderr.read()
    assert "it was suspended, and cannot be resumed: its VM was removed" in said, said


def refused(cluster, *programs):
    """The cluster manager takes its client manager for somebody else: nothing is known of the VM."""
    secret = secret_of(cluster, "set", "local", "--new-secret")
    until(lambda: "event=not-connected" in cluster.log("client-manager"), "the client manager is refused")
    waits(*programs)
    take_secret(cluster, secret)
    until(lambda: all(state(cluster, program) == "suspended" for program in programs), "they are known", 20)
    waits(*programs)


def removed(cluster):
    hold = Hold(cluster)
    a, b, c = (Program(cluster) for _ in range(3))
    d = Program(cluster, FLYT_MOVE_HOLD=hold.folder)
    suspend(cluster, a)
    cluster.run("program", "suspend", str(b.id), os.path.join(cluster.dir, "named"))
    suspend(cluster, c)
    refused(cluster, a, b, c)
    hold.at("moved")
    order = cluster.begin("program", "suspend", str(d.id))
    hold.reached("moved")
    os.kill(c.process.pid, signal.SIGSTOP)      # it asks nothing
    cluster.run("vm", "remove", "local", "--force")
    hold.let_go("moved")
    for program in (a, b, d):                   # the client manager hears only now that d has left its server
        is_lost(program)
    assert order.wait(20) != 0, order.communicate()
    assert not os.path.exists(os.path.join(cluster.dir, "named"))
    cluster.kill("client-manager")()
    take_secret(cluster, secret_of(cluster, "add", "local", "--sms", "2", "--memory", "128M", "--sharing", "any",
                                   "--address", "127.0.0.1"))
    e = Program(cluster)
    e.goes_on()
    suspend(cluster, e)
    os.kill(c.process.pid, signal.SIGCONT)
    is_lost(c)
    assert [row["id"] for row in cluster.rows("program", "list")] == [e.id]
    waits(e)
    resume(cluster, e)
    e.end()
    ok("its VM was removed: 46, whatever becomes of the client manager; one that is only refused changes nothing")


def main():
    with Cluster() as cluster:
        strangers(cluster)
        no_folder(cluster)
        a = back_and_forth(cluster)
        ok("suspended and resumed on two nodes: it computes what it would have computed")
        as_documented(cluster, a)
        saved(cluster, a)
        without_room(cluster, a)
        a.end()
        until(lambda: state(cluster, a) == "gone", "it is gone")
        kills(cluster)
        removed(cluster)


if __name__ == "__main__":
    sys.exit(story(main))
