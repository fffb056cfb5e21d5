#!/usr/bin/env python3
"""Programs move to other GPUs while they run; TAP on stdout.

    moves.py BIN PROGRAM [all]

all: more often.

shows: moving: a program with two threads is moved back and forth between two nodes by an administrator, and computes
   what it would have computed; books, servers and credentials follow; the bytes of its memory go from server to
   server, by TLS too
shows: moving: node drain --move, migrate and migrate-auto; a full target is refused before anything is done; by TLS
shows: moving: over unix sockets without shared memory, by TCP, and from each kind of connection to the other
shows: moving: a program that does not come to rest at once moves with a later try, which has its own ticket
shows: moving: move cancel waits until it is known how the move ended, and says it, also where it comes too late
shows: moving: an operator moves, suspends and saves, and changes no share; a viewer looks; the share that a program had
   holds at its new server
shows: moving: server stop --force ends either server of a program that moves, and it is said which
shows: moving: while the resource DB does not answer moves, suspensions and changes of shares are refused within
   seconds, and the program is not touched (check-long)
shows: policies: with elastic.policy = act real programs move to even the load, and to make room for the first in the
   queue (check-long)
shows: moving: what cannot be is refused by name, with its exit status, and the program goes on: unknown and full
   targets, its own GPU, a drained node, a second move, a program that cannot move or does not come to rest
"""
import glob
import json
import os
import re
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import wire  # noqa: E402
from testlib import Local, ok, read, sanitized, story, until, write  # noqa: E402

ALL = sys.argv[3:] == ["all"]
BIN, PROGRAM = (os.path.abspath(p) for p in sys.argv[1:3])
MOVE, MOVED, RESUME = 34, 35, 36        # procedures of programs


class Program:
    """The VM's program, told on stdin what to do."""

    def __init__(self, cluster, **variables):
        self.process = subprocess.Popen([f"{BIN}/flyt-run", PROGRAM], env=cluster.env | variables,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
        assert self.hear("ready") == [0]
        self.id = self.own_row(cluster.rows("program", "list"))["id"]

    def own_row(self, rows):
        """One that has ended is in the list again where its server has not said so within a second; it has no pid."""
        return next(row for row in rows if row["pid"] == self.process.pid)

    def hear(self, word):
        line = self.process.stdout.readline().split()
        assert line and line[0] == word, f"{word}: {line} {self.last_words()}"
        return [int(part) for part in line[1:]]

    def last_words(self):
        """Its exit status and what it said on stderr. It ends."""
        try:
            said = self.process.communicate(timeout=5)[1]
        except subprocess.TimeoutExpired:
            self.process.kill()
            said = self.process.communicate()[1]
        return f"status {self.process.returncode}: {said[-2000:]}"

    def ask(self, word, *values):
        self.process.stdin.write(" ".join(map(str, (word, *values))) + "\n")
        self.process.stdin.flush()
        return self.hear(word)

    def goes_on(self, more=3):
        error, wrong, rounds = self.ask("state")
        assert (error, wrong) == (0, 0), (error, wrong)
        until(lambda: self.ask("state")[2] >= rounds + more, "it computes")
        return rounds

    def end(self):
        error, wrong, rounds, counted = self.ask("end")
        assert (error, wrong, counted) == (0, 0, 1), (error, wrong, rounds, counted)
        assert self.process.wait(20) == 0
        return rounds


class Hold:
    """Where a move is to wait (FLYT_MOVE_HOLD)."""

    def __init__(self, cluster):
        self.folder = tempfile.mkdtemp(prefix="hold-", dir=cluster.dir)

    def at(self, name):
        write(f"{self.folder}/{name}", "")

    def reached(self, name):
        until(lambda: os.path.exists(f"{self.folder}/{name}.here"), f"the move is at {name}")

    def let_go(self, name):
        os.unlink(f"{self.folder}/{name}")


class Cluster(Local):
    """Of two nodes with a GPU each. The VM `local` may have half of one."""

    def __init__(self, *options, nodes=2, sms=4, memory=256):
        super().__init__(BIN, tempfile.mkdtemp(prefix="flyt-moves-"), "--nodes", str(nodes), "--sms", str(sms),
                         "--memory", f"{memory}M", *options, FLYT_LOG="info")
        self.run("vm", "set", "local", "--sms", str(sms // 2), "--memory", f"{memory // 2}M")

    def kinds(self):
        return [row["kind"] for row in map(json.loads, self.run("events", "-j").splitlines())]

    def place(self, program):
        """Of the program: its node. And all servers that there are."""
        servers = {row["id"]: row for row in self.rows("server", "list")}
        row = next(row for row in self.rows("program", "list") if row["id"] == program.id)
        return servers[row["server"]]["node"], servers

    def settled(self, program, node):
        """It is there, nothing else is booked, and nothing is left of elsewhere."""
        def good():
            where, servers = self.place(program)
            server = next(iter(servers.values()))
            used = json.loads(self.run("--json", "status"))
            return (where == node and len(servers) == 1 and
                    (used["sms_used"], used["memory_used"]) == (server["sms"], server["memory"]))
        until(good, lambda: f"{node}: {self.place(program)} {self.run('--json', 'status')}", 20)

    def other(self, program):
        return "node-2" if self.place(program)[0] == "node-1" else "node-1"


def straight(cluster):
    """How often the bytes of a program's memory went from server to server."""
    logs = [path for pattern in ("logs/*.log", "servers/*/log")
            for path in glob.glob(f"{cluster.dir}/state/node-*/{pattern}")]
    return sum(read(path).count("event=direct-lanes") for path in logs)


def back_and_forth(cluster, times):
    a = Program(cluster)
    a.goes_on()
    outages = []
    before = straight(cluster)
    for _ in range(times):
        to = cluster.other(a)
        done = json.loads(cluster.run("--json", "program", "migrate", str(a.id), "--to", to))
        move = done["move"]
        assert done["ok"] and move["state"] == "done" and move["to_node"] == to and move["bytes"] > 0, done
        outages.append(move["outage_ms"])
        a.goes_on()
        cluster.settled(a, to)
    over = cluster.run("vm", "show", "local")
    assert straight(cluster) == before + times, (before, straight(cluster))
    rounds = a.end()
    assert a.process.stderr.read() == "", "it is told nothing"
    ok(f"{times} times back and forth, {rounds} rounds, nothing ran for {min(outages):.0f} to {max(outages):.0f} ms "
       f"({'tls' if 'tls' in over else 'shared memory'})")


def moves():
    with Cluster() as cluster:
        back_and_forth(cluster, 10 if ALL else 3)
        kinds = cluster.kinds()
        for kind in ("move-begun", "move-ordered", "move-taken", "move-done"):
            assert kind in kinds, (kind, kinds)
        refusals(cluster)


def refusals(cluster):
    hold = Hold(cluster)
    a = Program(cluster, FLYT_MOVE_HOLD=hold.folder)
    here, there = cluster.place(a)[0], cluster.other(a)

    def refused(expect, what, *words):
        said = cluster.run(*words, expect=expect)
        assert re.search(what, said), (words, said)
        a.goes_on(1)

    def migrate(expect, what, to, *more):
        refused(expect, what, "program", "migrate", str(a.id), "--to", to, *more)

    migrate(5, "there is no node 'nowhere'", "nowhere")
    migrate(5, f"node {there} has no GPU '7'", f"{there}:7")
    migrate(2, "is on GPU .* already", here)
    migrate(2, "is on GPU .* already", f"{here}:0")
    refused(5, "there is no program 999999", "program", "migrate", "999999", "--to", there)
    cluster.run("node", "drain", there)
    migrate(7, f"node {there} is drained", there)
    cluster.run("node", "undrain", there)
    # Held in the middle: nothing else may be done with it.
    hold.at("taken")
    moving = cluster.begin("program", "migrate", str(a.id), "--to", there)
    hold.reached("taken")
    move = cluster.rows("move", "list")[-1]
    assert move["state"] == "moving" and move["program"] == a.id and move["from_node"] == here, move
    migrate(7, f"program {a.id} moves already", there)
    refused(7, "a program moves to or from GPU server", "change-config", "-i", "local", "-m", "64")
    refused(7, "a program moves to or from server", "server", "stop", "--", str(move["target"]))
    said = json.loads(cluster.run("--json", "move", "cancel", str(move["id"])))
    assert said["ok"] and said["move"]["state"] == "cancelled" and "stays as it was" in said["message"], said
    hold.let_go("taken")
    said = moving.communicate(timeout=30)
    assert moving.returncode == 4 and re.search("stays on node .*: cancelled by ", said[1]), said
    assert cluster.rows("move", "list")[-1]["state"] == "cancelled"
    cluster.settled(a, here)
    refused(7, "has ended already", "move", "cancel", str(move["id"]))
    ok("while it moves: no second move, no resize, no stop; cancelled, it stays, and its target goes")

    called_off_late(cluster, hold, a)
    here, there = there, here
    hold.at("taken")
    moving = cluster.begin("program", "migrate", str(a.id), "--to", there, "--patience", "1", "--within", "1")
    hold.reached("taken")
    assert a.ask("spin", 12000 if sanitized(BIN) else 4000) == [0]
    hold.let_go("taken")
    said = moving.communicate(timeout=60)[1]
    assert moving.returncode == 7 and re.search("stays on node .*did not end within", said), said
    assert a.ask("take", 1) == [0]             # it waits for the kernel, and so for the end of it
    cluster.run("program", "migrate", str(a.id))
    cluster.settled(a, there)
    here, there = there, here
    ok("a program that does not come to rest goes on, and moves another time, to a GPU that the manager chooses")

    tried_again(cluster, hold, a)

    assert a.ask("share") == [0]
    cluster.run("program", "migrate", str(a.id), "--to", there)
    a.goes_on()
    cluster.settled(a, there)
    ok("refused by name, with nothing changed: unknown places, its own GPU, a drained node; memory of which nobody has"
       " opened the handle moves")
    a.process.kill()
    a.process.wait()
    until(lambda: not cluster.rows("program", "list"), "it is gone")


def tried_again(cluster, hold, a):
    """The new server sees a ticket with each try, before it is known whether the program comes to rest."""
    there = cluster.other(a)
    hold.at("taken")
    moving = cluster.begin("program", "migrate", str(a.id), "--to", there, "--patience", "1")
    hold.reached("taken")
    target = cluster.rows("move", "list")[-1]["target"]
    assert a.ask("spin", 12000 if sanitized(BIN) else 4000) == [0]
    hold.let_go("taken")
    said = moving.communicate(timeout=120)
    assert moving.returncode == 0, said
    assert read(f"{cluster.dir}/state/{there}/servers/{target}/log").count("event=ticket-accepted") > 1
    assert a.ask("take", 1) == [0]
    cluster.settled(a, there)
    cluster.run("program", "migrate", str(a.id))
    ok("a program that does not come to rest is tried again, with another ticket, and moves")


def called_off_late(cluster, hold, a):
    """The library has the permission already, and only it knows whether the program has moved."""
    there = cluster.other(a)
    hold.at("permitted")
    moving = cluster.begin("program", "migrate", str(a.id), "--to", there)
    hold.reached("permitted")
    move = str(cluster.rows("move", "list")[-1]["id"])
    cancelling = cluster.begin("--json", "move", "cancel", move)
    until(lambda: cluster.rows("move", "list")[-1]["cancelled"], "it is asked for")
    said = cluster.run("move", "cancel", move, "--wait", "0", expect=12)
    assert "has not said yet whether it has moved" in said and cancelling.poll() is None, said
    hold.let_go("permitted")
    said = json.loads(cancelling.communicate(timeout=30)[0])
    assert cancelling.returncode == 7 and said["move"]["state"] == "done", said
    assert "could not be called off any more" in said["message"], said
    assert moving.wait(30) == 0, moving.stderr.read()
    moving.communicate()
    cluster.settled(a, there)
    ok("called off too late: move cancel waits for the outcome, and says that the program has moved")


def forced(cluster, which):
    """One of the two servers is stopped by force while the program moves."""
    hold = Hold(cluster)
    a = Program(cluster, FLYT_MOVE_HOLD=hold.folder, FLYT_LOG="error")
    here, there = cluster.place(a)[0], cluster.other(a)
    hold.at("taken")
    moving = cluster.begin("program", "migrate", str(a.id), "--to", there)
    hold.reached("taken")
    server = cluster.rows("move", "list")[-1][which]
    cluster.run("server", "stop", str(server), "--force")
    until(lambda: server not in {row["id"] for row in cluster.rows("server", "list")}, "it ends")
    hold.let_go("taken")
    said = moving.communicate(timeout=60)[1]
    assert moving.returncode == 3, (moving.returncode, said)
    if which == "target":
        assert "to which it was to move has ended: " in said, said
        a.goes_on()
        cluster.settled(a, here)
    else:
        assert "its GPU server has ended" in said, said
        until(lambda: a.ask("state")[0] == 46, "it has lost its session")
    a.process.kill()
    a.process.wait()
    until(lambda: not cluster.rows("program", "list"), "it is gone")
    ok(f"server stop --force ends the {which} of a program that moves, and it is said so")


def db_away(cluster):
    """The first command finds out that the DB does not answer; the second one knows."""
    a = Program(cluster)
    here = cluster.place(a)[0]
    lock = sqlite3.connect(f"{cluster.dir}/state/flyt.db", isolation_level=None, timeout=20)
    for words in (("program", "migrate", str(a.id)), ("program", "suspend", str(a.id)),
                  ("change-config", "-i", "local", "-m", "64")):
        lock.execute("BEGIN IMMEDIATE")
        for _ in range(2):
            began = time.monotonic()
            said = cluster.run(*words, expect=11)
            assert "the resource DB does not answer" in said and time.monotonic() - began < 15, said
            a.goes_on(1)
        lock.execute("ROLLBACK")
        until(lambda: cluster.json("status")["db_up"], "the DB answers")
        cluster.settled(a, here)
    lock.close()
    cluster.run("program", "migrate", str(a.id))
    a.end()
    until(lambda: not cluster.rows("program", "list"), "it is gone")
    ok("while the resource DB does not answer it is refused within seconds, and the program is not touched")


def strangers(cluster):
    """Programs that speak by hand: with the library of an earlier release, and with one that lies."""
    peer = wire.Peer(f"{cluster.dir}/run/client.sock")
    peer.hello(wire.OF_PROGRAM, "pid-1")
    peer.call(MOVED, struct.pack(">QIIIQQ", 7, 2, 0, 0, 1, 1))      # before it has attached
    assert peer.call(MOVE, struct.pack(">Q", 7))[28:32] == struct.pack(">I", 4)
    peer.attach("/bin/stranger")
    until(lambda: [row["state"] for row in cluster.rows("program", "list")] == ["running"], "it has a server")
    row = cluster.rows("program", "list")[0]
    servers = cluster.rows("server", "list")
    peer.call(MOVED, struct.pack(">QIIIQQ", 7, 2, 0, 0, 1, 1))      # a move that there is not
    peer.call(RESUME, struct.pack(">QQ", 99999, 7))                 # it is known already
    said = cluster.run("program", "migrate", str(row["id"]), expect=9)
    assert "library of an earlier release" in said, said
    assert cluster.rows("program", "list")[0]["server"] == row["server"]
    until(lambda: [each["id"] for each in cluster.rows("server", "list")] == [each["id"] for each in servers],
          "the target goes")
    other = wire.Peer(f"{cluster.dir}/run/client.sock")
    other.hello(wire.OF_PROGRAM, "pid-2")
    assert other.call(RESUME, struct.pack(">QQ", row["server"], 0))[28:32] == struct.pack(">I", 4)
    other.close()
    peer.close()
    until(lambda: not cluster.rows("program", "list"), "it is gone")
    ok("a program with an earlier release's library is refused by name; what others say of moves changes nothing")


def together(cluster):
    a, b = Program(cluster), Program(cluster)
    here, there = cluster.place(a)[0], cluster.other(a)
    assert len(cluster.place(b)[1]) == 1

    def both_at(node):
        def good():
            (one, servers), (other, _) = cluster.place(a), cluster.place(b)
            return one == other == node and len(servers) == 1
        until(good, lambda: f"{node}: {cluster.place(a)} {cluster.place(b)}", 20)
        a.goes_on()
        b.goes_on()

    said = cluster.run("node", "drain", here, "--move", "--wait", "20")
    assert said.count(f"is on node {there}") == 2 and "no program runs there" in said, said
    both_at(there)
    cluster.run("node", "undrain", here)
    ok("node drain --move: two programs of one server move, share one again, and the node is empty")

    said = cluster.run("migrate-auto", "--ip", "local")
    assert re.search(r"Time taken: \d+\.\d{3} s", said), said
    both_at(here)
    for word, grouping in (("0", False), ("1", True)):
        cluster.run("vm-grouping", "-i", "local", "-e", word)
        assert cluster.rows("vm", "list")[0]["grouping"] is grouping
    cluster.run("vm-grouping", "-i", "local", "-e", "2", expect=2)
    said = cluster.run("migrate", "-i", "local", "--dstsnodeip", there, "--dstgpuid", "0", "-c", str(b.id), "-s", "1")
    assert re.search(r"Time taken: \d+\.\d{3} s", said), said
    where, servers = cluster.place(b)
    assert where == there and len(servers) == 2 and cluster.place(a)[0] == here
    mine = next(row for row in servers.values() if row["node"] == there)
    assert mine["program"] == b.id and mine["sms"] == 1, mine
    ok("migrate-auto, migrate and vm-grouping, with the words of the earlier Flyt; one of two gets a server of its own,"
       " and a share")

    cluster.run("change-config", "-i", "local", "-c", str(a.id), "-s", "4")
    moves_before = len(cluster.rows("move", "list"))
    said = cluster.run("program", "migrate", str(a.id), "--to", there, expect=8)
    assert "does not take 4 SMs" in said and len(cluster.rows("move", "list")) == moves_before, said
    cluster.run("node", "drain", here, "--move", expect=8)
    assert cluster.place(a)[0] == here
    cluster.run("node", "undrain", here)
    ok("a full target is refused before anything is done, and drain --move says so")
    a.goes_on()
    b.goes_on()
    a.end()
    b.end()
    until(lambda: not cluster.rows("program", "list"), "they are gone")


def groups():
    with Cluster() as cluster:
        strangers(cluster)
        together(cluster)
        forced(cluster, "target")
        forced(cluster, "source")
        if ALL:
            db_away(cluster)


def wires():
    """Whatever the program's connections are, those to its new server are of the kind that this one offers."""
    with Cluster() as cluster:
        def transport(a):
            return next(row["transport"] for row in cluster.rows("program", "list") if row["id"] == a.id)

        def moves_on(a, before, after):
            until(lambda: transport(a) == before, lambda: f"{before}: {transport(a)}")
            for _ in range(4 if ALL else 1):
                to = cluster.other(a)
                cluster.run("program", "migrate", str(a.id), "--to", to)
                a.goes_on(1)
                assert cluster.place(a)[0] == to
                until(lambda: transport(a) == after, lambda: f"{after}: {transport(a)}")

        def ends(a):
            a.end()
            assert a.process.stderr.read() == ""
            for row in cluster.rows("server", "list"):                      # not the one of the next program
                cluster.run("server", "stop", "--force", str(row["id"]))
            until(lambda: not cluster.rows("server", "list"), "its server is gone")

        a = Program(cluster, FLYT_PERF="no_shm")
        moves_on(a, "unix", "unix")
        b = Program(cluster, FLYT_PERF="no_payload")
        cluster.run("vm", "set", "local", "--host", "another-machine")      # the new servers are reached by network
        moves_on(a, "unix", "tcp")
        a.end()
        moves_on(b, "shared-memory", "tcp")
        cluster.run("vm", "set", "local", "--host", "")
        moves_on(b, "tcp", "shared-memory")
        ends(b)
        ok("unix sockets without shared memory, TCP, and from each kind of connection to the other")

        if ALL:
            cluster.run("vm", "set", "local", "--host", "another-machine")
            a = Program(cluster)
            moves_on(a, "tcp", "tcp")
            cluster.run("program", "suspend", str(a.id))
            cluster.run("program", "resume", str(a.id))
            a.goes_on(1)
            assert transport(a) == "tcp"
            ends(a)
            ok("TCP from the beginning, with pinned memory; suspended and resumed")


def roles(cluster):
    folder, ca = f"{cluster.dir}/tls", f"{cluster.dir}/etc/ca"
    port = re.search(r"client\s*=\s*(\d+)", read(f"{cluster.dir}/etc/cluster-manager.conf")).group(1)
    for role, name in (("viewer", "vera"), ("operator", "oscar")):
        cluster.run("ca", "issue", ca, role, name, "--out", folder)
    a = Program(cluster)

    def asked_by(name, expect, what, *words):
        said = cluster.run("--manager", f"tcp://127.0.0.1:{port}", "--tls", folder, "--as", name, *words, expect=expect)
        assert what in said, (words, said)

    own = str(a.id)
    share = (("change-config", "-i", "local", "-m", "64"), ("inc-resources", "-i", "local", "-s", "1"),
             ("dec-resources", "-i", "local", "-m", "64"), ("vm", "set", "local", "--sms", "1", "--now"))
    for words in (*share, ("program", "migrate", own), ("program", "suspend", own), ("program", "resume", own),
                  ("program", "checkpoint", own, f"{cluster.dir}/saved"), ("move", "cancel", "1"),
                  ("migrate-auto", "-i", "local"), ("node", "drain", "node-1", "--move")):
        asked_by("vera", 4, "your role may not do this", *words)
    for words in share:
        asked_by("oscar", 4, "your role may not do this", *words)
    for more in (("-s", "1"), ("-m", "64")):
        asked_by("oscar", 4, "not change its share", "migrate", "-i", "local", "-n", cluster.other(a), *more)
    assert not [row for row in cluster.rows("move", "list") if row["program"] == a.id]
    cluster.run("change-config", "-i", "local", "-m", "64")
    there = cluster.other(a)
    asked_by("oscar", 0, there, "program", "migrate", own, "--to", there)
    assert a.ask("take", 96) == [2] and a.ask("take", 16) == [0]
    asked_by("oscar", 0, "is saved", "program", "checkpoint", own, f"{cluster.dir}/saved")
    asked_by("oscar", 0, "is suspended", "program", "suspend", own)
    asked_by("oscar", 0, "goes on", "program", "resume", own)
    a.goes_on()
    asked_by("vera", 0, "oscar", "move", "list")
    said = cluster.run("events", "-n", "100")
    for kind in ("move-begun", "move-done", "program-saved", "program-suspended", "program-resumed", "command-refused"):
        assert re.search(rf"{kind} .*\boscar\b", said), (kind, said)
    a.end()
    ok("operators move, suspend, resume and save programs, and change no share; viewers look; the share holds there")


def certificates():
    """All by TLS, with tickets and certificates as an ordinary program has them."""
    with Cluster("--tls") as cluster:
        back_and_forth(cluster, 10 if ALL else 2)
        roles(cluster)


def policies():
    """With elastic.policy = act real programs move because nobody else has room, or because loads are uneven."""
    with Cluster() as cluster:
        path = f"{cluster.dir}/etc/cluster-manager.conf"
        write(path, read(path) + 'elastic = { policy = "act"; pause = 5.0; margin = 10; };\n'
              'placement = { policy = "spread"; };\n')
        cluster.kill("cluster-manager")()
        until(lambda: [row["state"] for row in cluster.rows("node", "list")] == ["up"] * 2, "the nodes are back")
        # Each program has a server of its own, with a quarter of this.
        cluster.run("vm", "set", "local", "--grouping", "off", "--sms", "4", "--memory", "128M")
        a, b = Program(cluster), Program(cluster)
        assert cluster.place(a)[0] != cluster.place(b)[0]
        cluster.run("program", "migrate", str(a.id), "--to", cluster.place(b)[0])
        until(lambda: cluster.place(a)[0] != cluster.place(b)[0], "the policy evens the load", 20)
        assert [row["by"] for row in cluster.rows("move", "list")] == ["root", "policy"]
        a.goes_on()
        b.goes_on()
        ok("elastic.policy = act: a real program moves off a GPU that another one uses")
        # All four SMs of a GPU: none is free.
        cluster.run("vm", "set", "local", "--sms", "16", "--wait", "in-line")
        c = Program(cluster)
        assert cluster.place(a)[0] == cluster.place(b)[0] != cluster.place(c)[0]
        assert cluster.rows("move", "list")[-1]["by"] == "policy"
        for program in (a, b, c):
            program.goes_on()
            program.end()
        ok("elastic.policy = act: programs move so that the first in the queue has a whole GPU")


def main():
    moves()
    groups()
    wires()
    certificates()
    if ALL:
        policies()


if __name__ == "__main__":
    sys.exit(story(main))
