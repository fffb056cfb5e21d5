#!/usr/bin/env python3
"""Programs whose GPU server, worker or node is killed, in a cluster; TAP on stdout.

    recovers.py BIN -

shows: recovery: with `vm set --recovery journal` a program goes on after the loss of its worker, its GPU server and its
   node, with the same values and the same ID; listings and events say so; one whose worker is lost before its node
   has come back to a cluster manager that was started again waits for the node
shows: recovery: a program that has moved is protected again, with `journal`, and goes on after the loss of its new
   GPU server with the same ID
shows: recovery: a program whose client manager is away when its worker is lost waits for the next one, and goes on with
   the same ID
shows: recovery: a program that is not protected any more is shown as such, with the reason, and gets error 46; one
   that is to have no recovery gets 46 too; a wish that makes no sense is refused
shows: recovery: checkpoints lie in `recovery.folder` of the client manager, and nothing stays of them; a program whose
   journal would be larger than `recovery.journal` allows is shown as unprotected
shows: recovery: with `vm set --recovery checkpoint:TIME` a program goes on likewise, some checkpoints after its begin
shows: recovery: the commands of docs/elastic.md do what it says
"""
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from moves import BIN, Cluster  # noqa: E402
from testlib import ends_of_logs, ok, read, story, until, write  # noqa: E402

# Each number that it reads is stored in all bytes of its memory; it says what was there before, or the error.
PROGRAM = """
import ctypes, sys
cuda = ctypes.CDLL("libcudart.so.13")
memory, host, size = ctypes.c_void_p(), (ctypes.c_ubyte * (1 << 20))(), ctypes.c_size_t(1 << 20)
code = cuda.cudaMalloc(ctypes.byref(memory), size) or cuda.cudaMemset(memory, 0, size)
print("ready", code, flush=True)
for line in sys.stdin:
    if line.strip() == "pin":
        pinned = ctypes.c_void_p()
        print("pinned", cuda.cudaMallocHost(ctypes.byref(pinned), size), flush=True)
        continue
    if line.strip() == "copy":
        print("copied", cuda.cudaMemcpy(memory, host, size, 1), flush=True)
        continue
    code = cuda.cudaMemcpy(host, memory, size, 2)
    good = len(set(host)) == 1
    print(f"error {code}" if code else host[0] if good else "mixed", flush=True)
    cuda.cudaMemset(memory, int(line), size)
"""


class Program:
    def __init__(self, cluster):
        self.cluster, self.last = cluster, 0
        self.log = open(f"{cluster.dir}/program.log", "a", encoding="utf-8")
        before = {row["id"] for row in cluster.rows("program", "list")}
        self.process = subprocess.Popen([f"{BIN}/flyt-run", sys.executable, "-c", PROGRAM],
                                        env={**cluster.env, "FLYT_LOG": "info"},
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)
        assert self.process.stdout.readline() == "ready 0\n"
        until(lambda: {row["id"] for row in cluster.rows("program", "list")} - before, "it is listed")

    def tell(self, word):
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def say(self, word):
        self.tell(word)
        return self.process.stdout.readline().strip()

    def goes_on(self, meanwhile=lambda: None):
        """meanwhile: what is done while it has been asked."""
        self.tell((self.last + 1) % 256)
        meanwhile()
        said, before = self.process.stdout.readline().strip(), self.last
        self.last = (self.last + 1) % 256
        assert said == str(before), (said, before, read(self.log.name)[-2000:])

    def copies(self):
        assert self.say("copy") == "copied 0"

    def row(self):
        return next(row for row in self.cluster.rows("program", "list") if row["pid"] == self.process.pid)

    def node(self):
        server = self.row()["server"]
        return next(row["node"] for row in self.cluster.rows("server", "list") if row["id"] == server)

    def end(self):
        self.process.communicate(timeout=60)
        until(lambda: not self.cluster.rows("program", "list"), "it is gone")


def workers(server):
    return [int(pid) for pid in read(f"/proc/{server}/task/{server}/children").split()]


def kill_all(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def recovered(cluster, a, what, count):
    known = a.row()["id"]
    for _ in range(3):
        a.goes_on()
    until(lambda: a.row()["recovery"] == "recovered", lambda: f"it is shown as recovered: {a.row()}")
    assert cluster.kinds().count("program-recovered") == count, cluster.kinds()
    assert a.row()["id"] == known and a.row()["state"] == "running", (known, a.row())
    assert cluster.kinds().count("program-ended") == 0, cluster.kinds()
    ok(f"{what} was killed: the program goes on as the same one, and listing and events say so")


def protected(cluster):
    assert "not 'sometimes'" in cluster.run("vm", "set", "local", "--recovery", "sometimes", expect=2)
    cluster.run("vm", "set", "local", "--recovery", "journal:64M")
    assert cluster.rows("vm", "list")[0]["recovery"] == "journal:64M"
    a = Program(cluster)
    a.goes_on()
    until(lambda: a.row()["recovery"] == "protected", lambda: f"it is shown as protected: {a.row()}")
    assert "protected" in cluster.run("program", "list", "-o", "wide")
    server = cluster.server_pids()[0]
    kill_all(workers(server))
    recovered(cluster, a, "the worker", 1)
    kill_all([*workers(server), server])
    recovered(cluster, a, "the GPU server", 2)
    node = a.node()
    servers = cluster.server_pids()
    again = cluster.kill(node)
    for pid in servers:
        kill_all([*workers(pid), pid])
    recovered(cluster, a, "the node", 3)
    assert a.node() != node
    again()
    for daemon in ("client-manager", "cluster-manager"):
        cluster.kill(daemon)()
        until(lambda: cluster.command("program", "list").returncode == 0 and a.row()["state"] == "running" and
              cluster.server_pids(), "it is known again")
        until(lambda: a.row()["recovery"] in ("protected", "recovered"), lambda: f"it is shown as protected: {a.row()}")
        known = a.row()["id"]
        for pid in cluster.server_pids():
            kill_all(workers(pid))
        a.goes_on()
        assert a.row()["id"] == known, (known, a.row())
        ok(f"the {daemon} and then the worker were killed: the program goes on as the same one")
    return a


def without_its_manager(cluster, a):
    known, words = a.row()["id"], "is away; this program waits for it"
    again = cluster.kill("client-manager")
    before = read(a.log.name).count(words)
    for pid in cluster.server_pids():
        kill_all(workers(pid))

    def manager_comes():
        until(lambda: read(a.log.name).count(words) > before, "it waits for the client manager")
        again()

    a.goes_on(manager_comes)
    until(lambda: cluster.command("program", "list").returncode == 0 and cluster.rows("program", "list"),
          "it is listed")
    assert a.row()["id"] == known, (known, a.row())
    ok("the worker was killed while the client manager was away: the program goes on as the same one")


def before_its_node(cluster, a):
    """The cluster manager begins anew, and does not know yet where the program's server listens."""
    known, node = a.row()["id"], a.node()
    words = f"node {node}, which has its GPU server, is not connected"
    before = cluster.log("client-manager").count(words)
    node_again = cluster.kill(node)
    cluster.kill("cluster-manager")()
    until(lambda: a.row()["state"] == "running", "it is known again")
    for pid in cluster.server_pids():
        kill_all(workers(pid))

    def node_comes():
        until(lambda: cluster.log("client-manager").count(words) > before, "it waits for the node")
        node_again()

    a.goes_on(node_comes)
    assert a.row()["id"] == known, (known, a.row())
    ok("the worker was killed while the cluster manager knew no address of the server: the program waits for its node")


def moved(cluster, a):
    known, words = a.row()["id"], "is protected against the loss of its GPU server again"
    before, other = read(a.log.name).count(words), "node-1" if a.node() == "node-2" else "node-2"
    cluster.run("program", "migrate", str(known), "--to", other)
    until(lambda: read(a.log.name).count(words) > before, "it is protected at the new server")
    until(lambda: a.node() == other and a.row()["recovery"] != "unprotected", "listings say so")
    a.goes_on()
    for pid in cluster.server_pids():
        kill_all([*workers(pid), pid])
    for _ in range(3):
        a.goes_on()
    assert a.row()["id"] == known and a.row()["state"] == "running", (known, a.row())
    ok("a program that had moved lost its GPU server: it goes on as the same one")


def unprotected(cluster, a):
    assert a.say("pin") == "pinned 0"
    until(lambda: a.row()["recovery"] == "unprotected" and "pinned" in a.row()["recovery_why"],
          lambda: f"it is shown as unprotected: {a.row()}")
    assert "program-unprotected" in cluster.kinds()
    for pid in cluster.server_pids():
        kill_all([*workers(pid), pid])
    until(lambda: a.say(1) == "error 46", "it gets error 46")
    a.end()
    ok("a program with pinned memory: shown as unprotected, and error 46")


def checkpointed(cluster):
    """Each loss comes some checkpoints after the one before; the node's goes to the other node."""
    cluster.run("vm", "set", "local", "--recovery", "checkpoint:300ms")
    a = Program(cluster)
    known = a.row()["id"]
    for what in ("worker", "server", "node"):
        for _ in range(12):
            a.goes_on()
            time.sleep(0.1)
        servers, node, again = cluster.server_pids(), a.node(), lambda: None
        if what == "node":
            again = cluster.kill(node)
        for pid in servers:
            kill_all([*workers(pid), *([pid] if what != "worker" else [])])
        for _ in range(3):
            a.goes_on()
        assert a.row()["id"] == known and a.row()["state"] == "running", (known, a.row())
        assert what != "node" or a.node() != node
        again()
        ok(f"with checkpoints the {what} was killed: the program goes on as the same one")
    a.end()


def configured(cluster):
    """Where checkpoints lie, and how large a journal may become, in the client manager's configuration."""
    folder, path = f"{cluster.dir}/checkpoints", f"{cluster.dir}/etc/client-manager.conf"
    os.mkdir(folder)
    os.chmod(folder, 0o1777)
    write(path, read(path) + f'recovery = {{ folder = "{folder}"; journal = "8M"; }};\n')
    cluster.kill("client-manager")()
    until(lambda: cluster.command("program", "list").returncode == 0, "it is there again")
    env = cluster.env
    cluster.env = {name: env[name] for name in env if name not in ("FLYT_SUSPEND_FOLDER", "TMPDIR")}
    cluster.run("vm", "set", "local", "--recovery", "checkpoint:300ms:1G")
    a = Program(cluster)

    def lies():
        shown = subprocess.run(["ls", "-l", f"/proc/{a.process.pid}/fd"], capture_output=True, text=True).stdout
        return f" {folder}/" in shown

    def made():
        a.goes_on()
        return lies()
    until(made, "a checkpoint lies in the folder")
    a.end()
    assert not os.listdir(folder)
    cluster.run("vm", "set", "local", "--recovery", "journal:1G")
    a = Program(cluster)
    for _ in range(12):                     # a MiB each
        a.copies()
    until(lambda: a.row()["recovery"] == "unprotected" and "journal is full" in a.row()["recovery_why"],
          lambda: f"it is shown as unprotected: {a.row()}")
    a.end()
    cluster.env = env
    ok("recovery.folder and recovery.journal: checkpoints lie there; a program with a full journal is shown as such")


def as_documented(cluster):
    """The commands of docs/elastic.md; the last one is `off`."""
    block = read("docs/elastic.md").split("\n## Recovery")[1].split("```sh\n")[1].split("```")[0]
    lines = [line.split("#")[0].replace("NAME", "local").split() for line in block.splitlines()]
    words = [line[1:] for line in lines if line[0] == "flytctl"]
    assert len(words) == 4, block
    for each in words:
        cluster.run(*each)
        assert cluster.rows("vm", "list")[0]["recovery"] == each[-1], each
    ok("docs/elastic.md: the commands do what it says")


def off(cluster):
    as_documented(cluster)
    a = Program(cluster)
    a.goes_on()
    assert a.row()["recovery"] == "off", a.row()
    for pid in cluster.server_pids():
        kill_all([*workers(pid), pid])
    until(lambda: a.say(1) == "error 46", "it gets error 46")
    a.end()
    ok("without recovery: error 46")


def main():
    with Cluster() as cluster:
        try:
            a = protected(cluster)
            without_its_manager(cluster, a)
            before_its_node(cluster, a)
            moved(cluster, a)
            unprotected(cluster, a)
            checkpointed(cluster)
            configured(cluster)
            off(cluster)
            print("#", json.dumps(cluster.kinds()))
        except BaseException:
            ends_of_logs(f"{cluster.dir}/program.log")
            raise


if __name__ == "__main__":
    sys.exit(story(main))
