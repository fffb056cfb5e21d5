#!/usr/bin/env python3
"""flyt-local with two nodes: programs run, each daemon is killed in turn and comes back, and at the end nothing is
left.

    local_cluster.py BIN CLIENT_PROGRAM CUDA_PROGRAM FAULTY_PROGRAM

shows: survival: each daemon and a GPU server killed with -9 while programs run: running programs go on, or hear why
   not; nothing is left over
shows: flytctl: `vm show` tells how each program reaches its GPU server and why, also after the managers were killed
shows: neighbours: a fault that takes a whole GPU: the other tenant is told that a neighbour did it, programs are
   accepted again within 10 s
"""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import Local, alive, end, ok, read, spawn, story, until, write  # noqa: E402

BIN, HOLDER, VECTOR_ADD, FAULTY = (os.path.abspath(p) for p in sys.argv[1:5])
PATIENCE = 30


def run(*command, status=0, env=None):
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
    text = result.stdout + result.stderr
    assert status is None or result.returncode == status, f"{command} ended with {result.returncode}: {text}"
    return text


class Cluster(Local):
    def processes(self):
        """Everything that has our folder on its command line."""
        found = []
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                command = read(path)
            except OSError:
                continue
            pid = int(path.split("/")[2])
            if self.dir in command and pid != os.getpid() and alive(pid):
                found.append((pid, command.replace("\0", " ")))
        return found


def until_attached(process):
    """Reads what a holder prints; before "attached" that may be what it waits for."""
    text = ""
    while (line := process.stdout.readline()) != "attached\n":
        text += line
        assert line, text


class Holder:
    """A program that uses its GPU when it is told to."""

    def __init__(self, cluster, **variables):
        self.process = subprocess.Popen([HOLDER], env=cluster.env | variables, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        until_attached(self.process)

    def finish(self, status=0):
        text, _ = self.process.communicate("\n", timeout=PATIENCE)
        assert self.process.returncode == status, f"{self.process.returncode}: {text}"
        return text


def ways(cluster):
    """By process id: how each program of the VM reaches its server, and why."""
    rows = cluster.json("vm", "show", "local")["running"]
    return {row["pid"]: (row["transport"], row["transport_why"]) for row in rows}


def shows_ways(cluster):
    shares, slower = Holder(cluster), Holder(cluster, FLYT_PERF="no_shm")
    wanted = {shares.process.pid: ("shared-memory", "the GPU server is on this machine"),
              slower.process.pid: ("unix", "FLYT_PERF=no_shm")}
    until(lambda: ways(cluster) == wanted, f"flytctl shows {wanted}, not {ways(cluster)}")
    text = cluster.ctl("vm", "show", "local")
    assert re.search(rf"{slower.process.pid} .* unix +FLYT_PERF=no_shm ", text), text
    cluster.kill("cluster-manager")()
    # It waits for its resource DB at first.
    until(lambda: ways(cluster) == wanted, "a new cluster manager knows it from the client manager")
    cluster.kill("client-manager")()
    until(lambda: cluster.json("status")["vms_connected"] == 1, "the client manager is back")
    assert ways(cluster) == wanted, ways(cluster)
    shares.finish()
    slower.finish()
    quiet(cluster)


def drains(cluster):
    program = Holder(cluster)
    name = cluster.json("server", "list")[0]["node"]
    text = run(f"{BIN}/flytctl", "node", "drain", name, "--wait", "1", status=7, env=cluster.env)
    assert "1 GPU server is still there after 1 s" in text, text
    waits = subprocess.Popen([f"{BIN}/flytctl", "node", "drain", name, "--wait", "60"], env=cluster.env,
                             stdout=subprocess.PIPE, text=True)
    other = Holder(cluster)
    assert {row["node"] for row in cluster.json("server", "list")} == {"node-1", "node-2"}
    assert waits.poll() is None
    program.finish()
    assert "no program runs there" in waits.communicate(timeout=PATIENCE)[0] and waits.returncode == 0
    other.finish()
    cluster.ctl("node", "undrain", name)
    quiet(cluster)


def quiet(cluster):
    until(lambda: cluster.json("status")["programs"] == 0, "no program is left in the books")


def scenario(cluster):
    ok("up with two nodes")
    text = run(f"{BIN}/flyt-run", VECTOR_ADD, env=cluster.env)
    assert "passed" in text and "3 SMs" in text and "256 MiB" in text, text
    ok("a CUDA program runs and sees its slice")

    nodes, servers = cluster.json("node", "list"), cluster.json("server", "list")
    assert "node-1" in json.dumps(nodes) and "node-2" in json.dumps(nodes)
    assert json.dumps(servers).count("running") == 1, servers
    assert "node-1" in cluster.ctl("list-servernodes")
    assert run(f"{BIN}/flyt-local", "status", cluster.dir).count("runs, process") == 4
    run(f"{BIN}/flyt-local", "up", cluster.dir, status=1)
    ok("flytctl and status show it; a second up refuses")

    cluster.ctl("key", "rotate")
    assert "passed" in run(f"{BIN}/flyt-run", VECTOR_ADD, env=cluster.env)
    ok("the key that signs tickets is changed: the next program runs on the server that is there")

    shows_ways(cluster)
    ok("flytctl vm show tells how each program reaches its server and why, also after both managers were killed")

    program = Holder(cluster)
    again = cluster.kill("client-manager")
    other_try = subprocess.run([HOLDER], env=cluster.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               timeout=PATIENCE)
    assert other_try.returncode == 1 and "client manager" in other_try.stderr, other_try.stderr
    again()
    until(lambda: cluster.json("status")["vms_connected"] == 1, "the client manager is back")
    assert cluster.json("status")["programs"] == 1
    program.finish()
    quiet(cluster)
    Holder(cluster).finish()
    ok("the client manager is killed: the running program goes on, and its end is noticed")

    program = Holder(cluster)
    before = cluster.server_pids()
    again = cluster.kill("cluster-manager")
    time.sleep(0.3)
    waiting = subprocess.Popen([HOLDER], env=cluster.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    again()
    until_attached(waiting)
    assert cluster.server_pids() == before and all(alive(pid) for pid in before)
    program.finish()
    text, _ = waiting.communicate("\n", timeout=PATIENCE)
    assert waiting.returncode == 0, text
    quiet(cluster)
    ok("the cluster manager is killed: programs go on, one that starts waits, the server is adopted")

    program = Holder(cluster)
    name = re.search(r"node-[12]", cluster.ctl("server", "list")).group()
    again = cluster.kill(name)
    assert all(alive(pid) for pid in before)
    time.sleep(0.3)
    again()
    until(lambda: json.dumps(cluster.json("node", "list")).count('"up"') == 2, "the node is back")
    program.finish()
    Holder(cluster).finish()
    assert cluster.server_pids() == before
    quiet(cluster)
    ok("the node manager is killed: the program goes on, its server is taken over")

    program = Holder(cluster)
    os.kill(before[0], signal.SIGKILL)
    until(lambda: not alive(before[0]), "the server and its workers end")
    assert "lost" in program.finish(2)
    until(lambda: cluster.server_pids() not in ([], before) or not cluster.server_pids(),
          "the server is started again, or gone")
    Holder(cluster).finish()
    quiet(cluster)
    ok("the GPU server is killed: its program hears of it, the next one runs")

    drains(cluster)
    ok("a drained node: the next program of the same VM runs elsewhere, and --wait ends with the last program")

    run(f"{BIN}/flyt-local", "down", cluster.dir)
    until(lambda: not cluster.processes(), f"all processes end: {cluster.processes()}", 5)
    assert not glob.glob(f"{cluster.dir}/run/*.sock") and not glob.glob(f"{cluster.dir}/state/node-*/servers/[0-9]*")
    run(f"{BIN}/flyt-local", "status", cluster.dir, status=3)
    run(f"{BIN}/flyt-local", "down", cluster.dir)
    clean_logs(cluster)
    ok("down leaves nothing behind")

    cluster.up("--nodes", "1")
    Holder(cluster).finish()
    end = [f"{BIN}/flyt-node-manager", "--end-servers", "--config", f"{cluster.dir}/etc/node-1.conf"]
    assert "another flyt-node-manager" in run(*end, status=1)
    left = cluster.server_pids()
    cluster.kill("node-1")
    assert left and all(map(alive, left))
    run(*end)
    assert not any(map(alive, left)) and not glob.glob(f"{cluster.dir}/state/node-1/servers/[0-9]*")
    run(*end)
    run(f"{BIN}/flyt-local", "down", cluster.dir)
    ok("--end-servers ends what a node manager has left, and only that")

    cluster.up("--nodes", "1")
    cluster.kill("node-1")                  # its servers are for down to find
    run(f"{BIN}/flyt-local", "down", cluster.dir)
    assert not cluster.processes(), cluster.processes()
    ok("down after a node manager has died")
    clean_logs(cluster)


def neighbours(cluster):
    """Two VMs on one GPU; a fault of one takes all of it."""
    cluster.up("--sms", "4", "--memory", "512M", FLYT_SOFTGPU_FAULT_DOMAIN="gpu")
    cluster.ctl("vm", "set", "local", "--sms", "2", "--memory", "256M")
    secret = re.search(r'"secret": *"([^"]+)"',
                       json.dumps(cluster.json("vm", "add", "other", "--sms", "2", "--memory", "256M", "--sharing",
                                              "any"))).group(1)
    write(f"{cluster.dir}/etc/other.secret", secret)
    text = read(f"{cluster.dir}/etc/client-manager.conf")
    for old, new in (('"local"', '"other"'), ("vm.secret", "other.secret"), ("state/vm", "state/other"),
                     ("client.sock", "other.sock")):
        text = text.replace(old, new)
    other = spawn(f"{cluster.dir}/log/other.log", f"{BIN}/flyt-client-manager", "--config",
                  write(f"{cluster.dir}/etc/other.conf", text))
    try:
        until(lambda: cluster.json("status")["vms_connected"] == 2, "both VMs are connected")
        program = Holder(cluster)
        theirs = cluster.env | {"FLYT_MANAGER": f"{cluster.dir}/run/other.sock"}
        run(f"{BIN}/flyt-run", FAULTY, status=None, env=theirs)
        until(lambda: "gpu-fault" in cluster.log("node-1"), "the fault is noticed")
        until(lambda: "event=gpu-ready" in cluster.log("node-1"), "the GPU is ready again", 10)
        assert "which several tenants share" in program.finish(2)
        Holder(cluster).finish()
        assert "passed" in run(f"{BIN}/flyt-run", VECTOR_ADD, env=theirs)
        ok("a neighbour's fault: the other tenant is told, and both work again")
    finally:
        end(other)
    cluster.down()


def clean_logs(cluster):
    """Reports of sanitizer builds."""
    for log in glob.glob(f"{cluster.dir}/log/*.log"):
        text = read(log)
        assert "Sanitizer" not in text and "runtime error" not in text, log


def all_of_it(cluster):
    scenario(cluster)
    neighbours(cluster)


def main():
    cluster = Cluster(BIN, tempfile.mkdtemp(prefix="flyt-local-"), "--nodes", "2", "--sms", "3", "--memory", "256M")
    try:
        return story(all_of_it, cluster, logs=cluster.logs())
    finally:
        cluster.down()
        for pid, _ in cluster.processes():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(cluster.dir, ignore_errors=True)


sys.exit(main())
