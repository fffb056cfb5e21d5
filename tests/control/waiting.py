#!/usr/bin/env python3
"""What a program says while it waits for its GPU server, and when it stops waiting: one of the daemons is missing,
stopped, or refuses.

    waiting.py BIN HOLDER_PROGRAM

shows: first steps: any daemon, DB, disk or server is away, stopped or full: a line says what is awaited
shows: first steps: a wrong secret, VM or certificate, TLS on one side, no right: the program fails at once
shows: first steps: FLYT_WAIT limits the whole wait
shows: first steps: the memory limit of the VM is named; every FLYT_ setting with a wrong value is named once

HOLDER_PROGRAM attaches, uses its GPU and ends. Each case is a test; the cases of one cluster share it.
"""

import contextlib
import glob
import os
import re
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import Local, Skip, flytctl, listens, plan, read, run_cases, spawn, until, write  # noqa: E402

BIN, HOLDER = (os.path.abspath(path) for path in sys.argv[1:3])
FOLDER = tempfile.mkdtemp(prefix="flyt-wait-")
LIMIT = 3  # FLYT_WAIT in most cases
AHEAD = 0.3  # the line of two seconds comes so much before the end of that wait, and usually a second
SOON = 8  # "at once", on a busy machine; who waits does so for much longer
ROOM = 8  # so much later than its limit a program may end there
plain, secure, numbers = [], [], iter(range(1, 100))


class Cluster(Local):
    @contextlib.contextmanager
    def stopped(self, *pids):
        """With these processes stopped (SIGSTOP)."""
        try:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):  # a worker whose program has just ended
                    os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    @contextlib.contextmanager
    def killed(self, daemon):
        """Without this daemon; it is started again as it was."""
        again = self.kill(daemon)
        try:
            yield
        finally:
            again()

    @contextlib.contextmanager
    def other_vm(self, *changes, secret=None, more=""):
        """A client manager with a configuration that differs; gives FLYT_MANAGER."""
        name = f"other{next(numbers)}"
        text = read(f"{self.dir}/etc/client-manager.conf")
        for old, new in (("state/vm", f"state/{name}"), ("client.sock", f"{name}.sock"), *changes):
            assert old in text, (old, text)
            text = text.replace(old, new)
        if secret:
            text = text.replace("etc/vm.secret", f"etc/{name}.secret")
            write(f"{self.dir}/etc/{name}.secret", secret)
        process = spawn(f"{self.dir}/log/{name}.log", f"{BIN}/flyt-client-manager", "--config",
                        write(f"{self.dir}/etc/{name}.conf", text + more))
        try:
            until(lambda: listens(f"{self.dir}/run/{name}.sock"), "the other client manager listens")
            yield f"{self.dir}/run/{name}.sock"
        finally:
            process.terminate()
            process.wait(10)

    def end_servers(self):
        for server in self.json("server", "list"):
            self.ctl("server", "stop", "--force", str(server["id"]), expect=None)
        until(lambda: not self.json("server", "list"), "no GPU server is left")

    def server_processes(self):
        """GPU servers and their workers."""
        found = self.server_pids()
        children = [
            int(pid)
            for parent in found
            for pid in subprocess.run(["pgrep", "-P", str(parent)], capture_output=True, text=True).stdout.split()
        ]
        return found + children


class Program:
    """HOLDER, with the time at which it printed each line."""

    def __init__(self, env, *arguments, user=None, **variables):
        self.begun, self.lines = time.monotonic(), []
        self.process = subprocess.Popen(
            [HOLDER, *arguments],
            env={**env, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **({"user": user, "group": user, "extra_groups": []} if user else {}),
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append((time.monotonic() - self.begun, line.rstrip()))

    def finish(self, seconds=60):
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"it still waits after {seconds} s: {self.lines}") from None
        self.reader.join(10)
        return time.monotonic() - self.begun

    def find(self, pattern):
        for moment, line in self.lines:
            if re.search(pattern, line):
                return moment
        raise AssertionError(f"no /{pattern}/ in {self.lines}")


def told(cluster, *patterns, env=None, **variables):
    """The program says after two seconds what it waits for, and ends after LIMIT with a message that names it."""
    program = Program(env or cluster.env, FLYT_WAIT=str(LIMIT), **variables)
    took = program.finish()
    for pattern in patterns:
        said = program.find(r"warning: waiting for .*" + pattern)
        assert said <= program.find(r"error: .*" + pattern) - AHEAD, program.lines
    assert LIMIT - 0.1 <= took <= LIMIT + ROOM, (took, program.lines)
    assert program.process.returncode == 1, program.lines


def refused(cluster, *patterns, **variables):
    """The program fails at once."""
    program = Program(cluster.env, **variables)
    took = program.finish()
    for pattern in patterns:
        program.find(r"error: .*" + pattern)
    assert program.process.returncode == 1 and took <= SOON, (took, program.lines)


def served(cluster, **variables):
    program = Program(cluster.env, **variables)
    program.finish()
    assert program.process.returncode == 0, program.lines


def case(cases):
    def add(function):
        cases.append(function)
        return function

    return add


# ---- a cluster without TLS ----


@case(plain)
def the_resource_db_is_away(cluster):
    """Somebody holds it. A program that was told to wait goes on when it is back."""
    keeper = sqlite3.connect(glob.glob(f"{cluster.dir}/state/flyt.db")[0], isolation_level=None, timeout=20)
    keeper.execute("BEGIN EXCLUSIVE")
    try:
        told(cluster, r"resource DB")
        waiting = Program(cluster.env)
        until(lambda: any("resource DB" in line for _, line in waiting.lines), "the program says why it waits")
        until(lambda: re.search("is up +no", cluster.ctl("status")), "the cluster manager knows it")
        refused(cluster, r"resource DB is away.*not to wait", FLYT_WAIT="no")
    finally:
        keeper.rollback()
        keeper.close()
    waiting.finish()
    assert waiting.process.returncode == 0, waiting.lines


@case(plain)
def the_disk_of_the_resource_db_is_full(cluster):
    place = f"{cluster.dir}/small"
    os.mkdir(place)
    # With room for what SQLite writes in the cases behind this one: its journal grows before it is written back.
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", place], capture_output=True).returncode:
        raise Skip("no tmpfs can be mounted")
    cluster.end_servers()
    with cluster.killed("cluster-manager"):
        for file in glob.glob(f"{cluster.dir}/state/flyt.db*"):
            shutil.copy(file, place)
        config = f"{cluster.dir}/etc/cluster-manager.conf"
        write(config, read(config).replace(f"{cluster.dir}/state/flyt.db", f"{place}/flyt.db"))
    served(cluster)
    cluster.end_servers()
    with open(f"{place}/filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(512))
    try:
        told(cluster, r"resource DB.*full")
    finally:
        os.unlink(f"{place}/filler")
    served(cluster)


def sockets(folder, names):
    return [name for name in names if os.path.exists(f"{folder}/{name}") and
            stat.S_ISSOCK(os.stat(f"{folder}/{name}").st_mode)]


@case(plain)
def the_disk_of_the_node_is_full(cluster):
    """The program hears that, and not what follows from it."""
    place = f"{cluster.dir}/state/node-1"
    cluster.end_servers()
    with cluster.killed("node-1"):
        with tempfile.TemporaryDirectory() as kept:
            shutil.copytree(place, f"{kept}/node", ignore=sockets)
            if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=711", "none", place],
                              capture_output=True).returncode:
                raise Skip("no small file system can be mounted")
            shutil.copytree(f"{kept}/node", place, dirs_exist_ok=True)
    try:
        until(lambda: "up" in [node["state"] for node in cluster.json("node", "list")], "the node is back")
        served(cluster)
        cluster.end_servers()
        with open(f"{place}/filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(bytes(4096))
        refused(cluster, r"could not be started.*No space left on device")
    finally:
        with cluster.killed("node-1"):
            subprocess.run(["umount", "-l", place], capture_output=True)
    served(cluster)


@case(plain)
def the_node_manager_is_stopped(cluster):
    cluster.end_servers()
    with cluster.stopped(cluster.pid("node-1")):
        told(cluster, r"its GPU server starts on node node-1")
    served(cluster)


@case(plain)
def the_gpu_server_is_stopped(cluster):
    served(cluster)
    with cluster.stopped(*cluster.server_processes()):
        told(cluster, r"the GPU server at \S+, which does not answer")
    served(cluster)


@case(plain)
def the_client_manager_is_stopped(cluster):
    with cluster.stopped(cluster.pid("client-manager")):
        program = Program(cluster.env, FLYT_WAIT="fail")
        assert program.finish() <= SOON, program.lines
        program.find(r"error: .*FLYT_WAIT=fail.*the client manager at \S+client\.sock, which does not answer")
        told(cluster, r"the client manager at \S+client\.sock, which does not answer")
    served(cluster)


@case(plain)
def the_client_manager_is_not_there(cluster):
    with cluster.killed("client-manager"):
        refused(cluster, r"no client manager answers at \S+client\.sock: .*Start flyt-client-manager")
        refused(cluster, r"no client manager answers at \S+client\.sock: .*Start flyt-client-manager", FLYT_WAIT="fail")
        told(cluster, r"the client manager at \S+client\.sock, which is not there\. Start flyt-client-manager")
        waiting = Program(cluster.env, FLYT_WAIT="30")
        until(lambda: any("which is not there" in line for _, line in waiting.lines), "the program says why it waits")
    waiting.finish()
    assert waiting.process.returncode == 0, waiting.lines
    until(lambda: cluster.json("vm", "show", "local")["connected"], "it is back")


@case(plain)
def no_client_manager_where_one_is_installed(cluster):
    """Nothing says where it is: on a machine that is set up as a VM, the client manager is what is missing."""
    if os.path.exists("/run/flyt"):
        raise Skip("Flyt runs on this machine")
    env = {name: value for name, value in cluster.env.items() if name not in ("FLYT_MANAGER", "FLYT_SERVER")}
    program = Program(env)
    program.finish()
    if not os.path.exists("/etc/flyt/client-manager.conf"):
        program.find(r"error: no GPU server answers at unix:///run/flyt/server\.sock.*Start cricket-rpc-server")
    with tempfile.TemporaryDirectory() as folder:
        options = f"lowerdir=/etc,upperdir={folder}/upper,workdir={folder}/work"
        if subprocess.run(["mount", "-t", "tmpfs", "none", folder], capture_output=True).returncode:
            raise Skip("nothing can be mounted")
        try:
            for name in ("upper", "work"):
                os.mkdir(f"{folder}/{name}")
            if subprocess.run(["mount", "-t", "overlay", "none", "-o", options, "/etc"],
                              capture_output=True).returncode:
                raise Skip("nothing can be laid over /etc")
            try:
                os.makedirs("/etc/flyt", exist_ok=True)
                with open("/etc/flyt/client-manager.conf", "a"):
                    program = Program(env)
                took = program.finish()
                program.find(r"error: no client manager answers at /run/flyt/client-manager\.sock.*Start "
                             r"flyt-client-manager")
                assert took <= SOON, program.lines
                told(cluster, r"the client manager at /run/flyt/client-manager\.sock, which is not there", env=env)
            finally:
                subprocess.run(["umount", "-l", "/etc"], capture_output=True)
        finally:
            subprocess.run(["umount", "-l", folder], capture_output=True)


@case(plain)
def the_cluster_manager_is_stopped(cluster):
    with cluster.stopped(cluster.pid("cluster-manager")):
        told(cluster, r"the cluster manager at 127\.0\.0\.1:\d+ was asked and has not answered yet")
    served(cluster)


@case(plain)
def the_cluster_manager_is_not_there(cluster):
    with cluster.killed("cluster-manager"):
        told(
            cluster,
            r"the cluster manager cannot be reached: .*127\.0\.0\.1:\d+: Connection refused.*Is flyt-cluster-manager",
        )
        refused(cluster, r"the cluster manager cannot be reached", FLYT_WAIT="no")
    served(cluster)


@case(plain)
def a_wrong_secret(cluster):
    with cluster.other_vm(secret="this is not it, and it is long enough") as manager:
        for _ in range(2):  # the first may come before the client manager has tried
            refused(
                cluster,
                r"does not accept this VM: .*there is no client 'local' with this secret.*vm\.secret",
                FLYT_MANAGER=manager,
            )


@case(plain)
def an_unknown_vm(cluster):
    with cluster.other_vm(('name = "local"', 'name = "nobody"')) as manager:
        refused(cluster, r"there is no client 'nobody' with this secret", FLYT_MANAGER=manager)


@case(plain)
def what_was_wrong_is_corrected(cluster):
    """The next program finds out by itself, though the client manager has been refused just before."""
    with cluster.other_vm(('name = "local"', 'name = "later"'), secret="0123456789abcdef0123456789abcdef") as manager:
        refused(cluster, r"no client 'later'", FLYT_MANAGER=manager)
        secret = cluster.json("vm", "add", "later", "--sms", "1", "--memory", "64M", "--sharing", "any")["secret"]
        with open(re.sub(r"/run/(\w+)\.sock$", r"/etc/\1.secret", manager), "w") as file:
            file.write(secret)
        refused(cluster, r"no client 'later'", FLYT_MANAGER=manager)  # it has read the old one


@case(plain)
def tls_where_the_cluster_has_none(cluster):
    flytctl(BIN, "ca", "create", f"{cluster.dir}/ca")
    flytctl(BIN, "ca", "issue", f"{cluster.dir}/ca", "client", "local", "--out", f"{cluster.dir}/ca")
    with cluster.other_vm(
        more=f'tls = {{ ca = "{cluster.dir}/ca/ca.crt"; certificate = "{cluster.dir}/ca/local.crt"; '
        f'key = "{cluster.dir}/ca/local.key"; }};\n'
    ) as manager:
        refused(cluster, r"does not accept this VM: .*TLS", FLYT_MANAGER=manager)


@case(plain)
def no_right_to_the_socket(cluster):
    if os.geteuid() != 0 or open("/proc/self/uid_map").read().split()[:3] != ["0", "0", "4294967295"]:
        raise Skip("only root can be somebody else")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{folder}/m.sock")
            listener.listen()
            os.chmod(f"{folder}/m.sock", 0o660)
            # The libraries and the program must be readable by that user.
            trial = Program({"FLYT_SERVER": "unix:///none"}, user=65534)
            trial.finish()
            if trial.process.returncode != 1:
                raise Skip("another user cannot run the program here")
            program = Program(cluster.env, user=65534, FLYT_MANAGER=f"{folder}/m.sock")
            assert program.finish() <= SOON
            program.find(
                r"error: this user may not use the client manager's socket .*m\.sock \(mode 0660, group root\)"
            )


@case(plain)
def more_memory_than_the_vm_may_have(cluster):
    """CUDA's error says only that memory is short."""
    program = Program(cluster.env, "200")
    program.finish()
    program.find(r"out of GPU memory: 200 MiB were asked for, and the programs of this VM may use 128 MiB together")
    assert program.process.returncode == 1, program.lines


@case(plain)
def settings_that_make_no_sense(cluster):
    """Each is said once, and the program goes on."""
    wrong = {"LOG": "loud", "WAIT": "soon", "STATS": "yes", "PERF": "no_such", "LANES": "many", "SILENCE": "long"}
    program = Program(cluster.env, **{f"FLYT_{name}": value for name, value in wrong.items()})
    program.finish()
    assert program.process.returncode == 0, program.lines
    for name in wrong:
        told = [line for _, line in program.lines if f"warning: FLYT_{name}" in line]
        assert len(told) == 1, (name, program.lines)


# ---- straight to a server ----


@case(plain)
def a_server_that_takes_no_connection(cluster):
    """Its queue is full, so the kernel drops what comes: as a firewall does."""
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        uri = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        told(cluster, rf"the GPU server at {uri}, to which there is no connection yet", FLYT_SERVER=uri)


@case(plain)
def a_tls_server_that_says_nothing(cluster):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        uri = f"tls://127.0.0.1:{listener.getsockname()[1]}?sha256={'0' * 64}"
        told(cluster, r"the GPU server at tls://127\.0\.0\.1:\d+, to which there is no connection yet", FLYT_SERVER=uri)


@case(plain)
def a_name_server_that_does_not_answer(cluster):
    if "thread" in os.path.basename(os.path.dirname(BIN)):
        raise Skip("glibc looks names up in a thread that ThreadSanitizer does not know, and which crashes in malloc")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server, tempfile.NamedTemporaryFile("w") as file:
        try:
            server.bind(("127.0.0.1", 53))
            file.write("nameserver 127.0.0.1\noptions timeout:20\n")
            file.flush()
            subprocess.run(
                ["mount", "--bind", file.name, os.path.realpath("/etc/resolv.conf")], check=True, capture_output=True
            )
        except (OSError, subprocess.CalledProcessError):
            raise Skip("not this machine's name server, and not to be replaced") from None
        try:
            told(
                cluster,
                r"the GPU server at tcp://gpu\.example:1, to which there is no connection yet",
                FLYT_SERVER="tcp://gpu.example:1",
            )
        finally:
            subprocess.run(["umount", os.path.realpath("/etc/resolv.conf")], check=True)


# ---- a cluster with TLS ----


@case(secure)
def no_tls_where_the_cluster_wants_it(cluster):
    tls = re.search(r"^tls = .*\n", read(f"{cluster.dir}/etc/client-manager.conf"), re.M).group()
    with cluster.other_vm((tls, "")) as manager:
        refused(cluster, r"does not accept this VM: .*the peer wants TLS.*tls\.ca", FLYT_MANAGER=manager)


@case(secure)
def a_certificate_of_another_ca(cluster):
    flytctl(BIN, "ca", "create", f"{cluster.dir}/ca")
    flytctl(BIN, "ca", "issue", f"{cluster.dir}/ca", "client", "local", "--out", f"{cluster.dir}/ca")
    shutil.copy(f"{cluster.dir}/etc/tls/ca.crt", f"{cluster.dir}/ca/theirs.crt")
    with cluster.other_vm((f"{cluster.dir}/etc/tls/", f"{cluster.dir}/ca/")) as manager:
        refused(cluster, r"the peer's certificate is not good", FLYT_MANAGER=manager)
    with cluster.other_vm(
        (f"{cluster.dir}/etc/tls/ca.crt", f"{cluster.dir}/ca/theirs.crt"),
        (f"{cluster.dir}/etc/tls/local", f"{cluster.dir}/ca/local"),
    ) as manager:
        refused(cluster, r"does not accept this side's certificate", FLYT_MANAGER=manager)


@case(secure)
def a_vm_that_was_removed(cluster):
    """The last of these: it is gone then. The reason comes through TLS together with the end of the connection."""
    cluster.ctl("vm", "remove", "local", "--force")
    for _ in range(2):
        refused(cluster, r"does not accept this VM: .*refused us: ")


def main():
    only = sys.argv[3:]
    try:
        clusters = (("plain", ("--sms", "2", "--memory", "128M"), plain), ("secure", ("--tls",), secure))
        for name, options, tests in clusters:
            if tests := [each for each in tests if not only or each.__name__ in only]:
                cluster = Cluster(BIN, os.path.join(FOLDER, name), *options)
                try:
                    run_cases(tests, lambda test: test(cluster))
                finally:
                    cluster.down()
    finally:
        for mounted in ("small", "state/node-1"):
            subprocess.run(["umount", f"{FOLDER}/plain/{mounted}"], capture_output=True)
        shutil.rmtree(FOLDER, ignore_errors=True)
    return plan()


def in_namespaces():
    """Again in a mount and network namespace, so that file systems, name servers and ports are its own."""
    flags = ["-mn"] if os.geteuid() == 0 else ["-Urmn"]
    command = ["unshare", *flags, "sh", "-c", 'ip link set lo up && exec "$@"', "-", sys.executable, *sys.argv]
    if (
        not os.environ.get("FLYT_WAITING_INSIDE")
        and shutil.which("ip")
        and subprocess.run(["unshare", *flags, "true"], capture_output=True).returncode == 0
    ):
        os.execvpe("unshare", command, {**os.environ, "FLYT_WAITING_INSIDE": "1"})


in_namespaces()
sys.exit(main())
