#!/usr/bin/env python3
"""Programs with GPUs of several nodes, in a whole cluster; TAP on stdout.

    spread.py BIN PROGRAM

shows: many-gpus: a program that is entitled to more GPUs than a node has gets them of several nodes, all or none;
   copies between all pairs go from server to server
shows: many-gpus: flyt-smi shows the memory of a program on its GPUs of all servers
shows: many-gpus: --spread takes GPUs of as many nodes as can be; programs of a VM share the servers, and leave none
shows: many-gpus: a program for which not all GPUs are free waits for all of them, and nothing is booked for it
shows: many-gpus: a move, a suspend and a checkpoint of a program with servers on several nodes are refused by name
shows: many-gpus: each daemon is killed and comes back: the program keeps all its servers, a new one of its VM shares
   them, neither moves, and the books hold
shows: many-gpus: node drain --move --wait names a program with servers on several nodes, which goes on
shows: many-gpus: the commands of docs/many-gpus.md for several nodes do what it says
shows: many-gpus: a program with servers on several nodes whose VM is to have recovery is shown as unprotected, with
   the reason
shows: many-gpus: a node's GPU server that is lost takes its GPUs with it (46), those of the other node go on;
   killed, it costs the program no time, and the program says why; stopped, FLYT_SILENCE + 2 s
"""
import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

for room in ("cuda", "lib"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", room))
from quota import Program  # noqa: E402
from testlib import Local, comment, ok, story, until  # noqa: E402

BIN, PROGRAM = (os.path.abspath(p) for p in sys.argv[1:3])
NODES, GPUS, SMS, MEMORY = 2, 2, 4, 256          # GPUs of a node; MiB
SILENCE, SOON = 3, 2                             # seconds


class Cluster(Local):
    """Two nodes with two GPUs each. The VM `local` has a part of each."""

    def __init__(self, *more):
        super().__init__(BIN, tempfile.mkdtemp(prefix="flyt-spread-"), "--nodes", str(NODES), "--gpus-per-node",
                         str(GPUS), "--sms", str(SMS), "--memory", f"{MEMORY}M", *more, FLYT_LOG="info")
        self.place = self.env
        self.run("vm", "set", "local", "--gpus", str(NODES * GPUS), "--sms", "2", "--memory", "96M")

    def booked(self):
        """SMs that are booked on each GPU, by node."""
        return [[gpu["sms_used"] for gpu in node["gpus"]] for node in self.json("node", "list")]

    def empty(self):
        """Ends the servers that wait for programs."""
        until(lambda: not self.json("program", "list"), "no program is left")
        for row in self.json("server", "list"):
            self.command("server", "stop", str(row["id"]), "--force")
        until(lambda: not self.json("server", "list"), "no server is left", 30)

    def shape(self):
        """GPUs of each server."""
        return sorted(row["gpu_count"] for row in self.json("server", "list"))


def sees(cluster):
    a = Program(cluster, PROGRAM)
    assert a.ready == [0]
    assert a.ask("look") == [4, 1] + [2, 96] * 4
    servers, programs = cluster.json("server", "list"), cluster.json("program", "list")
    assert cluster.shape() == [GPUS, GPUS] and len({row["node"] for row in servers}) == NODES, servers
    assert [row["gpus"] for row in programs] == [GPUS, GPUS] and {row["state"] for row in programs} == {"running"}
    assert {row["pid"] for row in programs} == {a.process.pid}, programs
    assert cluster.booked() == [[2] * GPUS] * NODES, cluster.booked()
    pairs, wrong, most, access = a.ask("around")
    comment(f"a copy of 16 MiB between nodes cost {most} bytes at most")
    assert (pairs, wrong, access) == (12, 0, 4) and 0 < most <= 1024, (pairs, wrong, most, access)
    ok("a program has the GPUs of two nodes, and copies go from server to server")
    smi = subprocess.run([f"{BIN}/flyt-smi", "-L"], env=cluster.place, capture_output=True, text=True, timeout=30)
    uuids = re.findall(r"GPU (\d): .*UUID: ([^)]+)", smi.stdout)
    assert [number for number, _ in uuids] == ["0", "1", "2", "3"] and len({uuid for _, uuid in uuids}) == 4, smi
    ok("flyt-smi lists all of them, each with a UUID of its own")
    assert a.ask("keep") == [0]
    smi = subprocess.run([f"{BIN}/flyt-smi", "--query-compute-apps=pid,gpu_uuid,used_memory",
                          "--format=csv,noheader,nounits"], env=cluster.place, capture_output=True, text=True,
                         timeout=30)
    rows = [line.split(", ") for line in smi.stdout.splitlines()]
    assert {row[1] for row in rows if int(row[0]) == a.process.pid} == {uuid for _, uuid in uuids}, (smi, uuids)
    assert all(int(row[2]) > 0 for row in rows if int(row[0]) == a.process.pid), rows
    ok("and the program's memory on each of them")
    b = Program(cluster, PROGRAM)
    assert b.ask("look")[0] == 4 and cluster.shape() == [GPUS, GPUS], "the VM's programs share its servers"
    b.end()
    visible = Program(type("", (), {"bin": BIN, "place": cluster.env | {"CUDA_VISIBLE_DEVICES": "3,0"}}), PROGRAM)
    assert visible.ask("look")[0] == 2 and visible.ask("around")[:2] == [2, 0]
    visible.end()
    ok("programs of the VM share the servers, and CUDA_VISIBLE_DEVICES chooses among all")
    return a


def refuses(cluster):
    for row in cluster.json("program", "list"):
        for words in (("migrate", str(row["id"])), ("suspend", str(row["id"])),
                      ("checkpoint", str(row["id"]), f"{cluster.dir}/file")):
            done = cluster.command("program", *words)
            assert done.returncode == 9 and "GPU servers on several nodes" in done.stderr, done


def refused(cluster, a):
    assert a.ask("keep") == [0] and a.ask("check") == [0, 0]
    refuses(cluster)
    assert a.ask("check") == [0, 0] and not cluster.json("move", "list")
    ok("a move, a suspend and a checkpoint are refused by name, and the program goes on")


def killed(cluster, a):
    before = cluster.json("server", "list")
    nodes = [row["name"] for row in cluster.json("node", "list")]
    for daemon in ("cluster-manager", nodes[1], "client-manager"):
        again = cluster.kill(daemon)
        assert a.ask("check") == [0, 0] and a.ask("around")[:2] == [12, 0]
        again()
        until(lambda: cluster.command("node", "list").returncode == 0 and
              all(each["state"] == "up" for each in cluster.json("node", "list")), "the nodes are back", 40)
        until(lambda: len(cluster.json("program", "list")) == NODES, "the program and its part are known", 40)
        now = cluster.json("server", "list")
        assert [row["id"] for row in now] == [row["id"] for row in before], (before, now)
        until(lambda: cluster.booked() == [[2] * GPUS] * NODES, lambda: f"{cluster.booked()}", 20)
        assert a.ask("check") == [0, 0] and a.ask("around")[:2] == [12, 0]
        b = Program(cluster, PROGRAM)
        assert b.ask("look")[0] == 4, "a new program of the VM shares them"
        assert [row["id"] for row in cluster.json("server", "list")] == [row["id"] for row in before], daemon
        b.end()
        until(lambda: len(cluster.json("program", "list")) == NODES, "it has ended")
        refuses(cluster)
    ok("each daemon is killed and comes back: the program keeps its servers, and others of its VM share them")
    a.end()
    until(lambda: not cluster.json("program", "list"), "its parts end with it", 20)


def drained(cluster, a):
    server = cluster.json("server", "list")[0]
    node = server["node"]
    there = [str(row["id"]) for row in cluster.json("program", "list") if row["server"] == server["id"]]
    assert len(there) == 1, there
    done = cluster.command("node", "drain", node, "--move", "--wait", "1")
    assert done.returncode == 7 and "1 GPU server is still there" in done.stderr, done
    for number in there:
        assert re.search(rf"program {number} .*GPU servers on several nodes", done.stderr), done
    assert a.ask("check") == [0, 0] and not cluster.json("move", "list")
    cluster.run("node", "undrain", node)
    ok("node drain --move --wait names the program that cannot move, and it goes on")


def as_documented():
    """The commands of docs/many-gpus.md, "Of several nodes": each says what stands behind its #."""
    begin = f'eval "$(flyt-local up --nodes {NODES} --gpus-per-node {GPUS})"'
    with open("docs/many-gpus.md", encoding="utf-8") as file:
        blocks = [part.split("```")[0].splitlines() for part in file.read().split("```sh\n")[1:]]
    lines = next(block for block in blocks if block[0] == begin)
    with Local(BIN, tempfile.mkdtemp(prefix="flyt-spread-doc-"), "--nodes", str(NODES), "--gpus-per-node",
               str(GPUS)) as cluster:
        for line in lines[1:]:
            command, _, expected = (part.strip() for part in line.partition("#"))
            told = cluster.shell(command.replace("./program", PROGRAM), input="look\naround\nend\n")
            assert told.returncode == 0, (line, told)
            sees_gpus = re.fullmatch(r"(\d) GPUs?, of (\d) nodes?", expected)
            if "flyt-run" in command:
                gpus, nodes = (int(text) for text in sees_gpus.groups())
                access = gpus * (gpus // nodes - 1)
                assert f"look {gpus} 1" in told.stdout, (line, told)
                assert re.search(rf"around {gpus * (gpus - 1)} 0 \d+ {access}\b", told.stdout), (line, told)
            else:
                assert expected and expected in told.stdout + told.stderr, (line, told)
    ok("docs/many-gpus.md: the commands of several nodes do what it says")


def chooses(cluster):
    cluster.empty()
    for words, shape in ((("--gpus", "2"), [2]), (("--spread",), [1, 1]), (("--no-spread",), [2]),
                         (("--gpus", "3"), [1, 2])):
        cluster.run("vm", "set", "local", *words)
        program = Program(cluster, PROGRAM)
        assert program.ask("look")[0] == sum(shape)
        until(lambda: cluster.shape() == shape, lambda: f"{words}: {cluster.shape()}", 20)   # idle ones end first
        program.end()
        until(lambda: not cluster.json("program", "list"), "it has ended")
    assert "could never be given" in cluster.run("vm", "set", "local", "--gpus", "5")
    cluster.run("vm", "export", f"{cluster.dir}/vms.json")
    cluster.run("vm", "set", "local", "--gpus", "4", "--spread")
    assert cluster.json("vm", "list")[0]["spread"] is True
    cluster.run("vm", "import", "--update", f"{cluster.dir}/vms.json")
    assert cluster.json("vm", "list")[0]["spread"] is False
    ok("one node is taken where it has so many, few where not, and many with --spread")


def waits(cluster):
    """One program of its own for each: the second waits for all four GPUs, whole ones."""
    cluster.run("vm", "set", "local", "--gpus", "1", "--sms", str(SMS), "--memory", "200M")
    cluster.empty()
    small = Program(cluster, PROGRAM)
    assert small.ask("look")[0] == 1
    cluster.run("vm", "set", "local", "--gpus", "4", "--grouping", "off", "--sms", str(SMS), "--memory", "800M")
    cluster.place = cluster.env | {"FLYT_WAIT": "in-line"}
    before = cluster.booked()
    process = subprocess.Popen([f"{BIN}/flyt-run", PROGRAM], env=cluster.place, stdin=subprocess.PIPE, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: "waiting" in [row["state"] for row in cluster.json("program", "list")],
          lambda: f"{cluster.json('program', 'list')}")
    assert cluster.booked() == before, "nothing is booked for it"
    assert select.select([process.stderr], [], [], 30)[0], "it says what it waits for"
    small.end()
    out, errors = process.communicate("look\nend\n", timeout=60)
    assert "look 4 1" in out, (out, errors)
    cluster.place = cluster.env
    ok("what does not fit waits as a whole")
    until(lambda: not cluster.json("server", "list"), "servers of their own end with their programs", 30)


def second(cluster):
    """The row of the program's further server."""
    first = min(cluster.json("program", "list"), key=lambda row: row["id"])
    return next(row for row in cluster.json("server", "list") if row["id"] != first["server"])


def lost(cluster):
    cluster.run("vm", "set", "local", "--gpus", "4", "--grouping", "on", "--sms", "2", "--memory", "96M", "--recovery",
                "journal")
    a = Program(cluster, PROGRAM)
    assert a.ask("keep") == [0] and a.ask("alive") == [0] * 4

    def unprotected():
        rows = cluster.json("program", "list")
        return len(rows) == NODES and all(row["recovery"] == "unprotected" and
                                          "several GPU servers" in row["recovery_why"] for row in rows)
    until(unprotected, lambda: f"it is shown as unprotected: {cluster.json('program', 'list')}")
    for daemon in ("client-manager", "cluster-manager"):
        cluster.kill(daemon)()
        until(unprotected, lambda: f"it still is: {cluster.json('program', 'list')}", 40)
    ok("where the VM is to have recovery, such a program and its parts are shown as unprotected, with the reason")
    cluster.run("server", "stop", str(second(cluster)["id"]), "--force")
    until(lambda: a.ask("alive") == [0, 0, 46, 46], lambda: f"{a.ask('alive')}", 30)
    ok("a server that is lost takes its GPUs with it, and the others go on")
    a.end()
    until(lambda: not cluster.json("program", "list"), "it has ended", 20)
    cluster.run("vm", "set", "local", "--recovery", "off")


def vanishes(cluster):
    """Its workers, too."""
    for number, most, why in ((signal.SIGKILL, SOON, True), (signal.SIGSTOP, SILENCE + 2, False)):
        with tempfile.TemporaryFile("w+") as errors:
            a = Program(cluster, PROGRAM, errors, FLYT_SILENCE=str(SILENCE))
            assert a.ask("keep") == [0] and a.ask("alive") == [0] * 4
            server = second(cluster)["pid"]
            with open(f"/proc/{server}/task/{server}/children") as file:
                processes = [server, *map(int, file.read().split())]
            for pid in processes:
                with contextlib.suppress(ProcessLookupError):       # workers end with their server
                    os.kill(pid, number)
            begun = time.monotonic()
            alive = a.ask("alive")
            took = time.monotonic() - begun
            a.end()
            errors.seek(0)
            text = errors.read()
        for pid in processes if number == signal.SIGSTOP else ():
            os.kill(pid, signal.SIGCONT)
        assert alive == [0, 0, 46, 46] and took <= most, (alive, took, text)
        assert not why or re.search(r"why, as the cluster says: GPU server \d+ crashed", text), text
        comment(f"{number.name}: after {took:.2f} s")
        until(lambda: not cluster.json("program", "list"), "it has ended", 20)
    ok("a server that is killed or stopped costs the program no more time than its silence and 2 s, and it says why")


def main():
    with Cluster() as cluster:
        a = sees(cluster)
        refused(cluster, a)
        drained(cluster, a)
        killed(cluster, a)
        chooses(cluster)
        waits(cluster)
        lost(cluster)
        vanishes(cluster)
    as_documented()


sys.exit(story(main))
