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

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cuda"))
from e2e import sanitizer_environment  # noqa: E402

BIN, HOLDER, VECTOR_ADD, FAULTY = (os.path.abspath(p) for p in sys.argv[1:5])
PATIENCE = 30
done = 0


def ok(what):
    global done
    done += 1
    print(f"ok {done} - {what}", flush=True)


def until(condition, what, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.03)


def run(*command, status=0, env=None):
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
    text = result.stdout + result.stderr
    assert status is None or result.returncode == status, f"{command} ended with {result.returncode}: {text}"
    return text


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Cluster:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="flyt-local-")
        os.rmdir(self.dir)
        os.mkdir(self.dir)

    def up(self, *options, **variables):
        text = subprocess.run([f"{BIN}/flyt-local", "up", "--gpu", "software", *options, self.dir],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=90, env=os.environ | variables)
        assert text.returncode == 0, text.stderr
        # What the shell makes of the lines.
        out = subprocess.run(["bash", "-c", 'eval "$1"; env -0', "-", text.stdout], stdout=subprocess.PIPE,
                             timeout=10).stdout
        self.env = dict(item.split("=", 1) for item in out.decode().split("\0") if "=" in item)
        assert "FLYT_SERVER" not in self.env and self.dir in self.env["FLYT_MANAGER"]

    def ctl(self, *arguments):
        return json.loads(run(f"{BIN}/flytctl", "--json", *arguments, env=self.env))

    def pid(self, daemon):
        return int(open(f"{self.dir}/run/{daemon}.pid").read().split()[0])

    def kill(self, daemon):
        """kill -9; returns what starts it again."""
        pid = self.pid(daemon)
        command = open(f"/proc/{pid}/cmdline").read().split("\0")[:-1]
        environment = dict(item.split("=", 1) for item in open(f"/proc/{pid}/environ").read().split("\0")
                           if "=" in item)
        os.kill(pid, signal.SIGKILL)
        until(lambda: not alive(pid), f"{daemon} ends")

        def again():
            with open(f"{self.dir}/log/{daemon}.log", "a") as log:
                process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                           start_new_session=True)
            started = open(f"/proc/{process.pid}/stat").read().rsplit(")", 1)[1].split()[19]
            with open(f"{self.dir}/run/{daemon}.pid", "w") as file:
                file.write(f"{process.pid} {started}\n")
            self.children.append(process)
        return again

    children = []

    def server_pids(self):
        pids = []
        for state in glob.glob(f"{self.dir}/state/node-*/servers/*/state"):
            pids += [int(line.split()[1]) for line in open(state) if line.startswith("pid ")]
        return [pid for pid in pids if pid]

    def processes(self):
        """Everything that has our folder on its command line."""
        found = []
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                command = open(path, errors="replace").read()
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
    rows = cluster.ctl("vm", "show", "local")["running"]
    return {row["pid"]: (row["transport"], row["transport_why"]) for row in rows}


def shows_ways(cluster):
    shares, slower = Holder(cluster), Holder(cluster, FLYT_PERF="no_shm")
    wanted = {shares.process.pid: ("shared-memory", "the GPU server is on this machine"),
              slower.process.pid: ("unix", "FLYT_PERF=no_shm")}
    until(lambda: ways(cluster) == wanted, f"flytctl shows {wanted}, not {ways(cluster)}")
    text = run(f"{BIN}/flytctl", "vm", "show", "local", env=cluster.env)
    assert re.search(rf"{slower.process.pid} .* unix +FLYT_PERF=no_shm ", text), text
    cluster.kill("cluster-manager")()

    def known():
        try:
            return ways(cluster) == wanted
        except AssertionError:              # it waits for its resource DB
            return False
    until(known, "a new cluster manager knows it from the client manager")
    cluster.kill("client-manager")()
    until(lambda: cluster.ctl("status")["vms_connected"] == 1, "the client manager is back")
    assert ways(cluster) == wanted, ways(cluster)
    shares.finish()
    slower.finish()
    quiet(cluster)


def drains(cluster):
    program = Holder(cluster)
    name = cluster.ctl("server", "list")[0]["node"]
    text = run(f"{BIN}/flytctl", "node", "drain", name, "--wait", "1", status=7, env=cluster.env)
    assert "1 GPU server is still there after 1 s" in text, text
    waits = subprocess.Popen([f"{BIN}/flytctl", "node", "drain", name, "--wait", "60"], env=cluster.env,
                             stdout=subprocess.PIPE, text=True)
    other = Holder(cluster)
    assert {row["node"] for row in cluster.ctl("server", "list")} == {"node-1", "node-2"}
    assert waits.poll() is None
    program.finish()
    assert "no program runs there" in waits.communicate(timeout=PATIENCE)[0] and waits.returncode == 0
    other.finish()
    run(f"{BIN}/flytctl", "node", "undrain", name, env=cluster.env)
    quiet(cluster)


def quiet(cluster):
    until(lambda: cluster.ctl("status")["programs"] == 0, "no program is left in the books")


def scenario(cluster):
    cluster.up("--nodes", "2", "--sms", "3", "--memory", "256M")
    ok("up with two nodes")
    text = run(f"{BIN}/flyt-run", VECTOR_ADD, env=cluster.env | sanitizer_environment(BIN))
    assert "passed" in text and "3 SMs" in text and "256 MiB" in text, text
    ok("a CUDA program runs and sees its slice")

    nodes, servers = cluster.ctl("node", "list"), cluster.ctl("server", "list")
    assert "node-1" in json.dumps(nodes) and "node-2" in json.dumps(nodes)
    assert json.dumps(servers).count("running") == 1, servers
    assert "node-1" in run(f"{BIN}/flytctl", "list-servernodes", env=cluster.env)
    assert run(f"{BIN}/flyt-local", "status", cluster.dir).count("runs, process") == 4
    run(f"{BIN}/flyt-local", "up", cluster.dir, status=1)
    ok("flytctl and status show it; a second up refuses")

    run(f"{BIN}/flytctl", "key", "rotate", env=cluster.env)
    assert "passed" in run(f"{BIN}/flyt-run", VECTOR_ADD, env=cluster.env | sanitizer_environment(BIN))
    ok("the key that signs tickets is changed: the next program runs on the server that is there")

    shows_ways(cluster)
    ok("flytctl vm show tells how each program reaches its server and why, also after both managers were killed")

    program = Holder(cluster)
    again = cluster.kill("client-manager")
    other_try = subprocess.run([HOLDER], env=cluster.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               timeout=PATIENCE)
    assert other_try.returncode == 1 and "client manager" in other_try.stderr, other_try.stderr
    again()
    until(lambda: cluster.ctl("status")["vms_connected"] == 1, "the client manager is back")
    assert cluster.ctl("status")["programs"] == 1
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
    node = json.loads(json.dumps(cluster.ctl("server", "list")))
    name = re.search(r"node-[12]", json.dumps(node)).group()
    again = cluster.kill(name)
    assert all(alive(pid) for pid in before)
    time.sleep(0.3)
    again()
    until(lambda: json.dumps(cluster.ctl("node", "list")).count('"up"') == 2, "the node is back")
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
    run(f"{BIN}/flytctl", "vm", "set", "local", "--sms", "2", "--memory", "256M", env=cluster.env)
    secret = re.search(r'"secret": *"([^"]+)"',
                       json.dumps(cluster.ctl("vm", "add", "other", "--sms", "2", "--memory", "256M", "--sharing",
                                              "any"))).group(1)
    with open(os.open(f"{cluster.dir}/etc/other.secret", os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write(secret)
    text = open(f"{cluster.dir}/etc/client-manager.conf").read()
    for old, new in (('"local"', '"other"'), ("vm.secret", "other.secret"), ("state/vm", "state/other"),
                     ("client.sock", "other.sock")):
        text = text.replace(old, new)
    with open(f"{cluster.dir}/etc/other.conf", "w") as file:
        file.write(text)
    with open(f"{cluster.dir}/log/other.log", "w") as log:
        other = subprocess.Popen([f"{BIN}/flyt-client-manager", "--config", f"{cluster.dir}/etc/other.conf"],
                                 stderr=log, stdin=subprocess.DEVNULL)
    try:
        until(lambda: cluster.ctl("status")["vms_connected"] == 2, "both VMs are connected")
        program = Holder(cluster)
        theirs = cluster.env | {"FLYT_MANAGER": f"{cluster.dir}/run/other.sock"}
        run(f"{BIN}/flyt-run", FAULTY, status=None, env=theirs | sanitizer_environment(BIN))
        until(lambda: "gpu-fault" in open(f"{cluster.dir}/log/node-1.log").read(), "the fault is noticed")
        until(lambda: "event=gpu-ready" in open(f"{cluster.dir}/log/node-1.log").read(), "the GPU is ready again", 10)
        assert "which several tenants share" in program.finish(2)
        Holder(cluster).finish()
        assert "passed" in run(f"{BIN}/flyt-run", VECTOR_ADD, env=theirs | sanitizer_environment(BIN))
        ok("a neighbour's fault: the other tenant is told, and both work again")
    finally:
        other.terminate()
        other.wait(10)
    run(f"{BIN}/flyt-local", "down", cluster.dir)


def clean_logs(cluster):
    """Reports of sanitizer builds."""
    for log in glob.glob(f"{cluster.dir}/log/*.log"):
        text = open(log, errors="replace").read()
        assert "Sanitizer" not in text and "runtime error" not in text, log


def main():
    cluster = Cluster()
    try:
        scenario(cluster)
        neighbours(cluster)
        print(f"1..{done}")
        status = 0
    except BaseException as error:
        print(f"not ok {done + 1} - {type(error).__name__}: {error}\n1..{done + 1}")
        logs = glob.glob(f"{cluster.dir}/log/*.log") + glob.glob(f"{cluster.dir}/state/node-*/servers/*/log")
        for log in sorted(logs):
            print(f"# {log}")
            for line in open(log, errors="replace").read().splitlines()[-40:]:
                print("#   " + line)
        status = 1
    subprocess.run([f"{BIN}/flyt-local", "down", cluster.dir], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   timeout=60)
    for process in cluster.children:
        process.wait(10)
    for pid, _ in cluster.processes():
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(cluster.dir, ignore_errors=True)
    return status


sys.exit(main())
