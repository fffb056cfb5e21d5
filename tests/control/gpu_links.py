#!/usr/bin/env python3
"""Links between GPU servers of a cluster; TAP on stdout.

    gpu_links.py BIN PROGRAM [all]

all: by TCP, and the commands of docs/many-gpus.md, too. PROGRAM is tests/comm/coordinator.c, which knows
flyt_coordinator.h only.

shows: links under managers: a coordinator is given GPU servers on two nodes by its client manager, and their GPUs send
   to each other, by TLS and by TCP, in the sandbox; one that is killed is an error at the other end
shows: links under managers: a program that has links is not moved, suspended or saved, and its administrator is told
   so by name; when it ends nothing is left of it
shows: links under managers: the commands of docs/many-gpus.md do what it says
shows: attacks: a program that asks for a link with a false offer, or twice at a time, is refused by name
"""
import os
import signal
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import wire  # noqa: E402
from testlib import Local, alive, ok, story, until  # noqa: E402

ALL = sys.argv[3:] == ["all"]
BIN, PROGRAM = (os.path.abspath(p) for p in sys.argv[1:3])
LINK_OFFER, LINK_TAKE = 105, 106        # procedures of programs
NOT_FOUND, INVALID = 4, 2


class Cluster(Local):
    """Of two nodes with a GPU each, of which a program has all: the second one is on the other node."""

    def __init__(self, *options):
        super().__init__(BIN, tempfile.mkdtemp(prefix="flyt-links-"), "--nodes", "2", "--sms", "2", "--memory", "256M",
                         *options, FLYT_LOG="info")
        self.ctl("vm", "set", "local", "--sms", "8", "--memory", "1G", "--grouping", "off")


def stays(cluster, program):
    for word, *more in (("suspend",), ("checkpoint", "/tmp/a-file"), ("migrate", "--fresh")):
        done = cluster.ctl.run("program", word, str(program), *more)
        assert done.returncode and "has links between GPU servers" in done.stderr, done


def linked(cluster):
    program = subprocess.Popen([PROGRAM, "manager:", "manager:"], env=cluster.env, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    said = []
    for line in program.stdout:
        said.append(line.rstrip())
        if line.startswith("# ready"):
            servers = cluster.json("server", "list")
            assert sorted(row["node"] for row in servers) == ["node-1", "node-2"], servers
            last = max(servers, key=lambda row: row["id"])              # that of the second member
            for row in cluster.json("program", "list"):
                stays(cluster, row["id"])
            pid = last["pid"]
            os.kill(pid, signal.SIGKILL)
            until(lambda: not alive(pid), "the GPU server is gone")
            program.stdin.write("go on\n")
            program.stdin.flush()
    program.wait(timeout=60)
    for line in said:
        if line.startswith("#"):
            print(line, flush=True)
    assert program.returncode == 0 and said[-1] == "ok 1 - coordinator", said
    until(lambda: not cluster.json("program", "list") and not cluster.json("server", "list"), "nothing is left")


def code_of(answer):
    return struct.unpack(">I", answer[:4])[0]


def hostile(cluster):
    peer = wire.Peer(f"{cluster.dir}/run/client.sock")
    peer.hello(wire.OF_PROGRAM, "pid-1", minor=9)
    false = struct.pack(">QI", 0, 32) + os.urandom(32) + struct.pack(">I", 9)
    assert code_of(peer.answer(LINK_TAKE, false)) == INVALID                # it has not attached
    assert code_of(peer.answer(LINK_OFFER, struct.pack(">Q", 0))) == INVALID
    peer.attach("/bin/hostile")
    until(lambda: cluster.json("program", "list")[0]["state"] == "running", "it has a server")
    assert code_of(peer.answer(LINK_TAKE, false)) == NOT_FOUND
    peer.close()


def as_documented():
    with open("docs/many-gpus.md", encoding="utf-8") as file:
        blocks = [block.split("```")[0].splitlines() for block in file.read().split("```sh\n")[1:]]
    lines = next(block for block in blocks if any("manager:,manager:" in line for line in block))
    assert lines[0] == 'eval "$(flyt-local up --nodes 2 --sms 2 --tls)"' and len(lines) == 4, lines
    with Local(BIN, tempfile.mkdtemp(prefix="flyt-links-doc-"), "--nodes", "2", "--sms", "2", "--tls") as cluster:
        for line in lines[1:]:
            command, _, expected = (part.strip() for part in line.partition("#"))
            told = cluster.shell(command)
            assert told.returncode == 0 and expected and expected in told.stdout, (line, told)
    ok("docs/many-gpus.md: the commands do what it says")


def main():
    with Cluster("--tls") as cluster:
        linked(cluster)
        assert "sandbox-incomplete" not in cluster.log("node-1") or os.geteuid(), "the servers are in a sandbox"
        ok("GPUs of two nodes send to each other, by TLS")
        hostile(cluster)
        ok("false offers are refused")
    if not ALL:
        return
    with Cluster() as cluster:
        cluster.ctl("vm", "set", "local", "--host", "another-machine")      # its servers are reached by network
        linked(cluster)
        ok("GPUs of two nodes send to each other, by TCP")
    as_documented()


if __name__ == "__main__":
    sys.exit(story(main))
