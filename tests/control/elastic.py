#!/usr/bin/env python3
"""A VM's share of a GPU changes while its programs run, and while daemons die; TAP on stdout.

    elastic.py BIN PROGRAM [all]

all: at each step a daemon is killed; else at one of them.

shows: elastic: memory of a running program grows at once, does not shrink below what it holds, and shrinks when it has
   freed enough, by `vm set --now`, change-config, inc-resources and dec-resources
shows: elastic: kernels of many blocks and cooperative grids go on while their multiprocessors become fewer and more
shows: elastic: node manager and cluster manager are killed between the steps of a change: books and server agree
"""
import glob
import json
import os
import re
import signal
import sys
import tempfile
import time

for room in ("cuda", "lib"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room))
from quota import Program  # noqa: E402
from testlib import Local, ok, story, until  # noqa: E402

ALL = sys.argv[3:] == ["all"]
BIN, PROGRAM = (os.path.abspath(p) for p in sys.argv[1:3])
MIB = 1 << 20
SMS, MEMORY = 8, 512 * MIB


class Cluster(Local):
    """With the VM `local`, which has half of the only GPU."""

    def __init__(self):
        super().__init__(BIN, tempfile.mkdtemp(prefix="flyt-elastic-"), "--sms", str(SMS), "--memory",
                         f"{MEMORY >> 20}M", FLYT_LOG="info")
        self.place = self.env
        self.run("vm", "set", "local", "--sms", "4", "--memory", "128M")

    def share(self):
        """What is booked, what the node has said, and what the GPU's books add up to."""
        row = self.rows("server", "list")[0]
        used = json.loads(self.run("--json", "status"))
        return {"sms": row["sms"], "memory": row["memory"] // MIB, "sms_granted": row["sms_granted"],
                "memory_limit": row["memory_limit"] // MIB, "sms_used": used["sms_used"],
                "memory_used": used["memory_used"] // MIB}

    def agrees(self, sms, mib):
        wanted = {"sms": sms, "memory": mib, "sms_granted": sms, "memory_limit": mib, "sms_used": sms,
                  "memory_used": mib}
        until(lambda: self.share() == wanted, lambda: f"{wanted}: {self.share()}", 20)

    def state(self):
        with open(glob.glob(f"{self.dir}/state/node-1/servers/*/state")[0]) as file:
            return dict(line.strip().split(" ", 1) for line in file if " " in line.strip())

    def registered(self):
        return self.log("node-1").count("event=registered")

    def kill(self, name):
        self.before = self.registered()
        self.again = super().kill(name)

    def start(self):
        self.again()

    def settled(self):
        until(lambda: self.registered() > self.before and self.command("node", "list").returncode == 0 and
              [row["state"] for row in self.rows("node", "list")] == ["up"], "the node is back", 30)

    def kinds(self):
        return [row["kind"] for row in map(json.loads, self.run("events", "-j").splitlines())]


def memory(cluster):
    a = Program(cluster, PROGRAM)
    assert a.ready == [0] and a.ask("props")[:2] == [4, 4]
    cluster.agrees(4, 128)
    held = a.ask("take", 8 * MIB, 100)
    assert held[1] == 2 and 8 <= held[0] < 16, held
    a.tell("until", 32 * MIB)
    begin = time.monotonic()
    text = cluster.run("inc-resources", "--ip", "local", "--memory", "64")
    error, when = a.hear("until")
    assert error == 0 and re.search(r"has 4 SMs and 192 MiB\nTime taken: \d+\.\d{3} s", text), (error, text)
    print(f"# memory is used {1000 * (float(when) - begin):.1f} ms after the command began", flush=True)
    assert a.ask("info")[1] == 192 * MIB and a.ask("props")[2] == 128 * MIB
    cluster.agrees(4, 192)
    assert cluster.rows("vm", "list")[0]["memory"] == 128 * MIB, "inc-resources leaves the entitlement"
    ok("inc-resources: a program that tries to get memory gets it, and flytctl shows what the server has")

    text = cluster.run("vm", "set", "local", "--memory", "64M", "--now", expect=8)
    assert re.search(r"its programs hold 1\d\d MiB.*more than 64 MiB", text), text
    cluster.agrees(4, 192)
    assert cluster.rows("vm", "list")[0]["memory"] == 128 * MIB and a.ask("info")[1] == 192 * MIB
    text = cluster.run("dec-resources", "-i", "local", "-m", "128", "--within", "1", expect=8)
    assert "nothing was changed" in text, text
    cluster.agrees(4, 192)
    assert a.ask("take", 8 * MIB, 1) == [1, 0]
    ok("less than is held is refused, also after --within SECONDS; all is as it was")

    waiting = cluster.begin("vm", "set", "local", "--memory", "64M", "--now", "--within", "20")
    until(lambda: cluster.state()["ordered-memory"] == str(64 * MIB), "the order is at the node")
    until(lambda: a.ask("info")[0] == 0, "the server has it, and nothing is left")
    assert waiting.poll() is None and a.ask("take", 16 * MIB, 1) == [0, 2]
    assert a.ask("free", 1000) == [0, 0]
    assert waiting.wait(20) == 0, waiting.communicate()
    cluster.agrees(4, 64)
    assert cluster.rows("vm", "list")[0]["memory"] == 64 * MIB and a.ask("info")[1] == 64 * MIB
    ok("--within: meanwhile nobody gets more; what the program frees goes back, and then it fits")
    cluster.run("change-config", "-i", "local", "-m", "128")
    cluster.agrees(4, 128)
    assert "nothing had to be changed" in cluster.run("change-config", "-i", "local", "-m", "128")
    cluster.run("inc-resources", "-i", "local", "-m", "4096", expect=8)
    cluster.run("dec-resources", "-i", "local", "-s", "4", expect=2)
    cluster.run("change-config", "-i", "local", "-c", "99999", "-m", "64", expect=5)
    cluster.agrees(4, 128)

    base = a.ask("info")[0]
    assert a.ask("kinds", 8 * MIB) == [0] * 6
    left = a.ask("info")[0]
    assert base - left >= 4 * 8 * MIB, (base, left)
    fits = (128 * MIB - left) // MIB
    text = cluster.run("change-config", "-i", "local", "-m", str(fits - 8), "--within", "1", expect=8)
    assert "still hold" in text, text
    assert a.ask("heap", 24 * MIB) == [0]
    a.end()
    ok("pools, arrays, managed memory and graphs count: their memory keeps the share from shrinking")
    assert cluster.kinds().count("server-resized") == 3 and "command-refused" in cluster.kinds(), cluster.kinds()


def multiprocessors(cluster):
    a = Program(cluster, PROGRAM)
    assert a.ask("start", 200, 8000) == [0]
    time.sleep(0.15)
    cluster.run("change-config", "-i", "local", "-s", "2")
    fewer = time.monotonic()
    time.sleep(0.25)
    cluster.run("vm", "set", "local", "--sms", "6", "--now")
    error, *beside = a.ask("end")
    assert error == 0 and len(beside) == 200, (error, len(beside))
    assert max(beside[:8]) <= 4 and max(beside[-20:]) >= 5 and max(beside) <= 6, beside
    down = [i for i in range(len(beside) - 10) if max(beside[i:i + 10]) <= 2]
    assert down, beside
    assert a.ask("props")[:2] == [4, 4], "what it was told stays"
    cluster.agrees(6, cluster.share()["memory"])
    b = Program(cluster, PROGRAM)
    assert b.ask("props")[:2] == [6, 6]
    b.end()
    ok(f"a kernel of 200 blocks runs on 4, 2 and 6 multiprocessors, from the next block on "
       f"({time.monotonic() - fewer:.1f} s)")
    assert a.ask("meet", 40, 5000) == [4, 0]
    cluster.run("change-config", "-i", "local", "-s", "1")
    assert a.ask("wait") == [0]
    assert a.ask("meet", 3, 1000) == [4, 0] and a.ask("wait") == [0]
    assert a.ask("start", 6, 1000) == [0]
    error, *beside = a.ask("end")
    assert error == 0 and max(beside) == 1, beside
    a.end()
    cluster.run("vm", "set", "local", "--sms", "4", "--memory", "128M", "--now")
    ok("cooperative grids that run, and that are launched afterwards, meet as before; other kernels have one")


def restarts(cluster):
    a = Program(cluster, PROGRAM)
    assert a.ask("take", 8 * MIB, 8) == [8, 0]
    cluster.agrees(4, 128)
    cluster.kill("node-1")
    cluster.start()
    cluster.settled()
    cluster.run("change-config", "-i", "local", "-m", "160", "-s", "5")
    cluster.agrees(5, 160)
    assert a.ask("info")[1] == 160 * MIB
    ok("a node manager that was started again finds the server, and changes its share")

    # Between order and answer: the server is stopped.
    server = int(cluster.state()["pid"])
    for sms, mib, dead in ((3, 200, "node-1"), (6, 96, "node-1"), (2, 240, "cluster-manager"))[:3 if ALL else 1]:
        row = cluster.share()
        os.kill(server, signal.SIGSTOP)
        change = cluster.begin("change-config", "-i", "local", "-m", str(mib), "-s", str(sms))
        until(lambda: cluster.state()["ordered-sms"] == str(sms), "the order is on the node's disk")
        booked = cluster.rows("server", "list")[0]
        assert booked["sms"] == max(sms, row["sms"]) and booked["memory"] == max(mib, row["memory"]) * MIB, booked
        cluster.kill(dead)
        os.kill(server, signal.SIGCONT)
        cluster.start()
        change.wait(30)
        cluster.settled()
        until(lambda: cluster.state()["ordered-memory"] == "0", "it is settled")
        has = cluster.state()
        assert (has["sms"], has["memory"]) in ((str(sms), str(mib * MIB)), (str(row["sms"]), str(row["memory"] * MIB)))
        assert change.returncode or has["sms"] == str(sms), (change.communicate(), has)
        cluster.agrees(int(has["sms"]), int(has["memory"]) // MIB)
        assert a.ask("info")[1] == int(has["memory"])
        ok(f"killed between order and answer: {dead}; books, node and server agree "
           f"({'the new share' if has['sms'] == str(sms) else 'the old share'}, status {change.returncode})")

    if ALL:
        silent(cluster, server)
    row = cluster.share()
    change = cluster.begin("change-config", "-i", "local", "-m", "32", "--within", "20")
    until(lambda: cluster.state()["ordered-memory"] == str(32 * MIB), "the order is at the node")
    os.kill(server, signal.SIGKILL)
    assert change.wait(30) == 3, change.communicate()
    said = change.stderr.read()
    assert "has ended meanwhile" in said, said
    cluster.agrees(row["sms"], row["memory"])
    a.process.kill()
    ok("a server that dies while it waits begins again with its old share")


def silent(cluster, server):
    os.kill(server, signal.SIGSTOP)
    change = cluster.begin("change-config", "-i", "local", "-m", "120", "-s", "7")
    until(lambda: cluster.state()["ordered-sms"] == "7", "the order is on the node's disk")
    until(lambda: cluster.command("node", "list").returncode == 0, "the others are served")
    assert change.wait(30) == 12, change.communicate()
    os.kill(server, signal.SIGCONT)
    until(lambda: cluster.state()["ordered-memory"] == "0", "it is settled", 20)
    has = cluster.state()
    cluster.agrees(int(has["sms"]), int(has["memory"]) // MIB)
    ok("a server that does not answer: the command says so in time, and the books follow when it does")


def main(*parts):
    with Cluster() as cluster:
        for part in parts:
            part(cluster)


if __name__ == "__main__":
    sys.exit(story(main, memory, multiprocessors, restarts))
