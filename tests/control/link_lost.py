#!/usr/bin/env python3
"""The link between a VM and the machine of its GPU server is lost, while programs start.

    link_lost.py BIN CLIENT_PROGRAM

shows: survival: a link that is lost for less than 10 s: programs that start meanwhile wait, as long as FLYT_WAIT lets
   them; a program gets a server on another node that is free

In a network namespace of its own: GPU servers of node-1 listen on an address that the test makes unreachable.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import Local, ok, read, story, until, write  # noqa: E402

BIN, HOLDER = (os.path.abspath(path) for path in sys.argv[1:3])
SERVERS = "127.0.0.9"
LOST = 6.5  # seconds; a try to connect takes five
SOON = 8  # beyond what a program has to wait, on a busy machine


def run(*command, env=None, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=90, env=env, **more)


def link(there):
    made = run("ip", "route", "del" if there else "add", "unreachable", f"{SERVERS}/32", "table", "local")
    assert made.returncode == 0, made.stderr


class Program:
    """HOLDER, which attaches, uses its GPU and ends."""

    def __init__(self, env, **variables):
        self.begun, self.result = time.monotonic(), None
        self.thread = threading.Thread(target=self.run, args=({**env, **variables},))
        self.thread.start()

    def run(self, env):
        self.result = run(HOLDER, env=env, stdin=subprocess.DEVNULL)
        self.took = time.monotonic() - self.begun

    def end(self):
        self.thread.join(90)
        return self.result


def cluster_up(cluster):
    """With the GPU servers of node-1 on another address, and none that programs reach by a unix socket."""
    again = cluster.kill("node-1", signal.SIGTERM)
    config = f"{cluster.dir}/etc/node-1.conf"
    write(config, re.sub('listen-address = "[^"]*"',
                         f'listen-address = "{SERVERS}"; advertise-address = "{SERVERS}"', read(config)))
    again()
    cluster.ctl("vm", "set", "local", "--host", "another-machine")
    cluster.ctl("node", "drain", "node-2")
    until(lambda: cluster.ctl("node", "list").count(" up ") == 2, "both nodes are up")


def nodes_of_servers(cluster):
    return {server["node"] for server in cluster.json("server", "list")}


def scenario(cluster):
    cluster_up(cluster)
    env = cluster.env
    assert Program(env).end().returncode == 0
    assert "node-1" in nodes_of_servers(cluster)
    link(False)
    waits, limited, hasty = Program(env), Program(env, FLYT_WAIT="2"), Program(env, FLYT_WAIT="fail")
    time.sleep(LOST)
    link(True)
    said = waits.end()
    assert said.returncode == 0 and waits.took >= LOST, (waits.took, said)
    assert f"waiting for the GPU server at tcp://{SERVERS}" in said.stderr, said
    ok("a link that is lost for some seconds: a program that starts waits for it")
    said = limited.end()
    assert said.returncode == 1 and 2 <= limited.took < 2 + SOON and "2 s of FLYT_WAIT" in said.stderr, said
    ok("FLYT_WAIT limits the wait")
    said = hasty.end()
    assert said.returncode == 1 and "no GPU server answers" in said.stderr, (hasty.took, said)
    assert hasty.took < LOST + SOON, hasty.took
    ok("FLYT_WAIT=fail: one try")

    cluster.ctl("node", "undrain", "node-2")
    link(False)
    other = Program(env)
    said = other.end()
    assert said.returncode == 0, (other.took, said)
    events = cluster.json("events", "--kind", "server-unreached")
    assert any(event["node"] == "node-1" for event in events) and SERVERS in str(events), events
    assert "node-2" in nodes_of_servers(cluster)
    link(True)
    ok("while the link is lost, a program gets a server on the other node")


def main():
    folder = tempfile.mkdtemp(prefix="flyt-link-")
    cluster = Local(BIN, f"{folder}/c", "--nodes", "2", "--sms", "2", "--memory", "128M")
    try:
        return story(scenario, cluster, logs=cluster.logs())
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)


def in_namespace():
    """Again in a network namespace."""
    flags = ["-n"] if os.geteuid() == 0 else ["-Urn"]
    if os.environ.get("FLYT_LINK_INSIDE"):
        return
    if not shutil.which("ip") or run("unshare", *flags, "ip", "route", "add", "unreachable", f"{SERVERS}/32", "table",
                                     "local").returncode:
        print("1..0 # SKIP no network namespaces, or no ip")
        sys.exit(77)
    command = ["unshare", *flags, "sh", "-c", 'ip link set lo up && exec "$@"', "-", sys.executable, *sys.argv]
    os.execvpe("unshare", command, {**os.environ, "FLYT_LINK_INSIDE": "1"})


in_namespace()
sys.exit(main())
