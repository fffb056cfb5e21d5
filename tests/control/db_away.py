#!/usr/bin/env python3
"""tests/control/db_away.py BIN FROZEN_DISK.so: every command that changes the resource DB, while that does not answer.

The DB is SQLite whose file another program has locked, SQLite on a disk that has stopped, MongoDB whose server is
stopped, and MongoDB behind a network that loses the answer to a write, or the write itself. Speaks TAP.

shows: resource DB: while SQLite or MongoDB is silent, each changing command says so; what it calls failed never happens
shows: resource DB: a change whose outcome is unknown is called so, with its secret, and is completed later
"""
import concurrent.futures
import contextlib
import hashlib
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import (Ctl, chosen, cluster_config, end, free_ports, need, node_config, only_cases,  # noqa: E402
                     spawn, until, write)

BIN, FROZEN_DISK = (os.path.abspath(each) for each in sys.argv[1:3])
HERE = os.path.dirname(os.path.abspath(__file__))
work = tempfile.mkdtemp(prefix="flyt-away-")
DB_AWAY, UNKNOWN = 11, 12
# flytctl waits for 10 s. Whether the manager's answer came before shows in its text; this is only about the whole.
IN_TIME = 15


def path(name):
    return os.path.join(work, name)


class Cluster:
    """A cluster manager with its resource DB, and a node that is played by nobody: it is in the DB only."""

    def __init__(self, name, uri, **environment):
        self.socket, self.log = path(name + ".sock"), path(name + ".log")
        config = write(path(name + ".conf"), cluster_config(work, uri=uri, name=name, security='tls = "off";'))
        self.process = spawn(self.log, os.path.join(BIN, "flyt-cluster-manager"), "-c", config,
                             environment={**os.environ, **environment})

        self.ctl = Ctl(BIN, "-M", "unix://" + self.socket)
        self.json = self.ctl.json

    @property
    def said(self):
        return self.ctl.last.stderr

    def what_is(self):
        """All that a change could have changed, verifiers of secrets included."""
        return self.json("vm", "export")["vms"], [(node["name"], node["drained"]) for node in self.json("node", "list")]

    def events(self, kind):
        return [event for event in self.json("events", "-n", "1000") if event["kind"] == kind]

    def end(self):
        end(self.process)


# What an administrator may ask for. Each changes something if it happens.
CHANGES = [
    ["vm", "add", "new", "--sms", "1", "--memory", "1G"],
    ["vm", "set", "old", "--sms", "7"],
    ["vm", "set", "old", "--new-secret"],
    ["vm-grouping", "-i", "old", "-e", "off"],
    ["vm", "remove", "old"],
    ["vm", "remove", "--force", "old"],
    ["node", "drain", "n1"],
    ["node", "remove", "n1"],
    ["vm", "import", "-"],
]
IMPORTED = '[{"name": "imported", "sms": 1, "memory": 1048576}, {"name": "imported-too", "sms": 1, "memory": 1048576}]'


def settle(cluster, what):
    """Whatever the manager still has for the DB has reached it: a change of ours stands behind it in the same line."""
    until(lambda: cluster.json("status")["db_up"], "the DB is back, and the manager does not see it")
    cluster.ctl("vm", "add", what, "--sms", "1", "--memory", "1G")
    cluster.ctl("vm", "remove", what)


def changes_fail_and_do_not_happen(cluster, away, back):
    cluster.ctl("vm", "add", "old", "--sms", "2", "--memory", "1G")
    before = cluster.what_is()
    need(len(before[0]) == 1 and len(before[1]) == 1, before)
    for change in CHANGES:
        away()
        began = time.monotonic()
        cluster.ctl(*change, expect=DB_AWAY, stdin=IMPORTED)
        took = time.monotonic() - began
        need(took < IN_TIME, f"{change} took {took:.1f} s")
        need(
            "the resource DB does not answer: " in cluster.said and "Nothing was changed" in cluster.said,
            f"{change}: {cluster.said}",
        )
        # Again, now that the manager knows: it does not keep anybody waiting.
        began = time.monotonic()
        cluster.ctl(*change, expect=DB_AWAY, stdin=IMPORTED)
        need(
            time.monotonic() - began < IN_TIME and "does not answer" in cluster.said, f"{change}, again: {cluster.said}"
        )
        back()
        settle(cluster, "probe")
        need(cluster.what_is() == before, f"{change} was reported as failed, and happened: {cluster.what_is()}")
    need(
        len(cluster.events("vm-added")) == 1 + len(CHANGES) and not cluster.events("change-unknown"),
        cluster.ctl("events"),
    )
    cluster.ctl("node", "drain", "n1")
    need(cluster.json("node", "list")[0]["drained"], "drained")


def knows_the_secret(cluster, name, secret):
    verifier = hashlib.sha256(hashlib.sha256(b"flyt client key" + secret.encode()).digest()).hexdigest()
    return [vm["verifier"] for vm in cluster.json("vm", "export")["vms"] if vm["name"] == name] == [verifier]


def unknown_outcome(cluster, away, back, happened):
    """The DB has the change, and does not say so. What was said must be true of what is found later."""
    answer = None
    for change in (
        ["vm", "add", "one", "--sms", "1", "--memory", "1G"],
        ["vm", "set", "one", "--sms", "3", "--new-secret"],
    ):
        away()
        began = time.monotonic()
        answer = cluster.json(*change, expect=UNKNOWN)
        need(time.monotonic() - began < IN_TIME, f"{change}: too late")
        need(
            answer["error"] == "unknown-outcome"
            and "flytctl vm show one" in answer["message"]
            and len(answer["secret"]) >= 32,
            answer,
        )
        back()
        settle(cluster, "probe")
        need(happened(cluster, change), f"{change}: {cluster.what_is()}")
    need(
        knows_the_secret(cluster, "one", answer["secret"]) and len(cluster.events("change-unknown")) == 2,
        cluster.ctl("events"),
    )
    # The secret goes where it was to go; a file with the secret that holds stays.
    with open(cluster.log + ".secret", "w") as out:
        out.write("the one that holds")
    away()
    cluster.ctl("vm", "set", "one", "--new-secret", "--secret-file", cluster.log + ".secret", expect=UNKNOWN)
    back()
    settle(cluster, "probe")
    need(
        open(cluster.log + ".secret").read() == "the one that holds"
        and knows_the_secret(cluster, "one", open(cluster.log + ".secret.new").read().strip()),
        "the files of secrets",
    )
    away()
    cluster.ctl("vm", "remove", "one", expect=UNKNOWN)
    back()
    settle(cluster, "probe")
    need(cluster.json("vm", "list") == [], cluster.what_is())


def completed(cluster, change):
    row = cluster.json("vm", "show", "one")
    return row["sms"] == (1 if change[1] == "add" else 3)


# ---- SQLite ----


def add_node(database):
    with sqlite3.connect(database) as db:
        db.execute("INSERT INTO nodes (name, host, drained, last_heard) VALUES('n1', 'host-1', 0, 0)")
    db.close()


def sqlite_cluster(name, **environment):
    database = path(name + ".db")
    first = Cluster(name, "sqlite://" + database)
    until(lambda: first.ctl("status"), f"no start: {open(first.log).read()}")
    first.end()
    add_node(database)
    cluster = Cluster(name, "sqlite://" + database, **environment)
    until(lambda: cluster.ctl("status"), "no start")
    return cluster, database


def sqlite_whose_file_is_locked():
    cluster, database = sqlite_cluster("locked")
    other = sqlite3.connect(database, isolation_level=None, timeout=20)
    try:
        changes_fail_and_do_not_happen(
            cluster, lambda: other.execute("BEGIN IMMEDIATE"), lambda: other.execute("ROLLBACK")
        )
    finally:
        other.close()
        cluster.end()


def sqlite_on_a_disk_that_stops():
    frozen = path("frozen")
    cluster, _ = sqlite_cluster("stopped", LD_PRELOAD=FROZEN_DISK, FLYT_TEST_FROZEN=frozen)

    def stop():
        # Nothing of the manager's own is on its way when the disk stops: the change that follows meets it first.
        settle(cluster, "still")
        time.sleep(0.3)
        open(frozen, "w").close()

    try:
        unknown_outcome(cluster, stop, lambda: os.unlink(frozen), completed)
        # While one change is stuck in the disk, others are withdrawn.
        stop()
        cluster.ctl("vm", "add", "two", "--sms", "1", "--memory", "1G", expect=UNKNOWN)
        cluster.ctl("vm", "add", "three", "--sms", "1", "--memory", "1G", expect=DB_AWAY)
        need("silent for" in cluster.said and not cluster.json("status")["db_up"], cluster.said)
        os.unlink(frozen)
        settle(cluster, "probe")
        need([vm["name"] for vm in cluster.json("vm", "list")] == ["two"], cluster.what_is())
    finally:
        with contextlib.suppress(OSError):
            os.unlink(frozen)
        cluster.end()


def sqlite_on_a_full_disk():
    folder = path("small")
    os.mkdir(folder)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True).returncode:
        return "no right to mount here"
    cluster, full = None, os.path.join(folder, "full")

    def fill():
        with contextlib.suppress(OSError), open(full, "wb") as out:
            while True:
                out.write(bytes(4096))
                out.flush()
    try:
        cluster = Cluster("small", f"sqlite://{folder}/flyt.db")
        until(lambda: cluster.ctl("status"), "no start")
        fill()
        # Until the log of SQLite has no page left that it could use again.
        until(lambda: cluster.ctl("vm", "add", "x", "--sms", "1", "--memory", "1G", expect=None) == "",
                   "it is not full", 30)
        before = [vm["name"] for vm in cluster.json("vm", "list")]
        cluster.ctl("vm", "add", "new", "--sms", "1", "--memory", "1G", expect=DB_AWAY)
        need("make room on its file system. Nothing was changed" in cluster.said, cluster.said)
        os.unlink(full)
        settle(cluster, "probe")
        need([vm["name"] for vm in cluster.json("vm", "list")] == before, "what failed happened")
    finally:
        if cluster:
            cluster.end()
        subprocess.run(["umount", "-l", folder], check=False)
    return None


def sqlite_whose_file_is_taken_away():
    """SQLite itself would go on writing into the file that has no name any more."""
    cluster, database = sqlite_cluster("taken")
    try:
        cluster.ctl("vm", "add", "old", "--sms", "1", "--memory", "1G")
        os.rename(database, database + ".aside")
        cluster.ctl("vm", "add", "new", "--sms", "1", "--memory", "1G", expect=DB_AWAY)
        need("the file is not there any more" in cluster.said, cluster.said)
        until(lambda: not cluster.json("status")["db_up"], "the status says that all is well")
        shutil.copy(database + ".aside", database)
        cluster.ctl("vm", "add", "new", "--sms", "1", "--memory", "1G", expect=DB_AWAY)
        until(lambda: "another file has taken its place" in cluster.json("status")["db_text"],
                   "a copy is taken for the DB")
        os.rename(database + ".aside", database)
        settle(cluster, "probe")
        need([vm["name"] for vm in cluster.json("vm", "list")] == ["old"], cluster.what_is())
    finally:
        cluster.end()


def changes_of_one_vm_follow_each_other():
    """Twenty at once: each keeps what the one before it changed, and of twenty that add the same VM one does."""
    cluster, _ = sqlite_cluster("many")
    try:
        tries = [
            subprocess.Popen(
                [
                    os.path.join(BIN, "flytctl"),
                    "-M",
                    "unix://" + cluster.socket,
                    "vm",
                    "add",
                    "busy",
                    "--sms",
                    "1",
                    "--memory",
                    f"{1 + i}M",
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for i in range(20)
        ]
        need(sorted(each.wait() for each in tries) == [0] + 19 * [6], "each of twenty added the VM")
        options = [
            ["--sms", "5"],
            ["--memory", "64M"],
            ["--host", "10.0.0.1"],
            ["--address", "10.0.0.2"],
            ["--grouping", "off"],
            ["--wait", "fail"],
            ["--sharing", "mps"],
        ] * 3
        tries = [
            subprocess.Popen(
                [os.path.join(BIN, "flytctl"), "-M", "unix://" + cluster.socket, "vm", "set", "busy", *each],
                stdout=subprocess.DEVNULL,
            )
            for each in options
        ]
        need([each.wait() for each in tries] == len(options) * [0], "a change failed")
        row = cluster.json("vm", "show", "busy")
        need(
            (row["sms"], row["memory"], row["host"], row["address"], row["grouping"], row["wait"], row["sharing"])
            == (5, 64 << 20, "10.0.0.1", "10.0.0.2", False, "fail", ["mps"]),
            row,
        )
    finally:
        cluster.end()


def an_asker_that_gives_up():
    """flytctl with less patience than the manager: the outcome is unknown to it, and the manager drops what it can."""
    cluster, database = sqlite_cluster("impatient")
    other = sqlite3.connect(database, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        # This one is with the DB, so that the next stands behind it.
        first = subprocess.Popen(
            [
                os.path.join(BIN, "flytctl"),
                "-M",
                "unix://" + cluster.socket,
                "vm",
                "add",
                "first",
                "--sms",
                "1",
                "--memory",
                "1G",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(0.3)
        cluster.ctl("-t", "1", "vm", "add", "new", "--sms", "1", "--memory", "1G", expect=UNKNOWN)
        need("may have been made" in cluster.said and "flytctl vm show new" in cluster.said, cluster.said)
        other.execute("ROLLBACK")
        done = first.wait()
        settle(cluster, "probe")
        need(done in (0, DB_AWAY), f"exit {done}")
        need(
            [vm["name"] for vm in cluster.json("vm", "list")] == ([] if done else ["first"]),
            "nobody has its secret, and it exists",
        )
    finally:
        other.close()
        cluster.end()


def a_standby_is_no_error():
    cluster, database = sqlite_cluster("serving")
    standby = Cluster("standby", "sqlite://" + database)
    try:
        until(lambda: "event=standby" in open(standby.log).read(), open(standby.log).read())
        standby.ctl("status", expect=DB_AWAY)
        need("another cluster manager uses it" in standby.said, standby.said)
        time.sleep(1)
        need(
            "error" not in open(standby.log).read() and open(standby.log).read().count("event=standby") == 1,
            open(standby.log).read(),
        )
        cluster.end()
        until(lambda: standby.ctl("status"), "it does not take over")
    finally:
        standby.end()
        cluster.end()


# ---- MongoDB ----


class Mongo:
    def __init__(self, program):
        self.port = free_ports(1)[0]
        folder = path(f"mongo-{self.port}")
        os.makedirs(folder)
        command = [
            program,
            "--storage-path",
            folder,
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--cache-size",
            "64M",
        ]
        if "secantus" not in os.path.basename(program):
            command = [program, "--dbpath", folder, "--port", str(self.port), "--bind_ip", "127.0.0.1"]
        with open(path("mongo.log"), "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=work)
        until(
            lambda: socket.create_connection(("127.0.0.1", self.port), 0.5).close() is None,
            "MongoDB does not start",
            20,
        )

    def end(self):
        self.process.send_signal(signal.SIGCONT)
        end(self.process, 10)


class Network:
    """Between the manager and MongoDB. Once armed, it breaks at the first write to the entitlements: the write comes
    through or not, its answer does not, and nothing else does until it is mended."""

    def __init__(self, port):
        self.target, self.armed, self.broken, self.deliver = port, False, threading.Event(), True
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(near,), daemon=True).start()

    def serve(self, near):
        try:
            far = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            near.close()
            return
        threading.Thread(target=self.pump, args=(near, far, True), daemon=True).start()
        self.pump(far, near, False)

    def pump(self, source, sink, asks):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                write = (
                    asks
                    and b"vm_required_resources" in data
                    and (b"update" in data or b"delete" in data)
                    and b"createIndexes" not in data
                )
                if self.armed and write and not self.broken.is_set():
                    self.broken.set()
                    if not self.deliver:
                        continue
                elif self.broken.is_set():
                    continue  # lost
                sink.sendall(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def arm(self, deliver):
        self.deliver, self.armed = deliver, True

    def mend(self):
        self.armed = False
        self.broken.clear()


def mongo_program():
    named = os.environ.get("FLYT_TEST_MONGOD") or shutil.which("mongod")
    if named:
        return named
    done = subprocess.run([os.path.join(HERE, "mongo-install")], capture_output=True, text=True)
    return done.stdout.strip().splitlines()[-1] if done.returncode == 0 and done.stdout.strip() else None


def mongo_node(cluster):
    """A node in the DB: a node manager that came once."""
    write(path("node.conf"), node_config(BIN, cluster.node_port, "n1", path("node"), path("node.secret")))


def mongo_cluster(name, port):
    write(path("node.secret"), "a secret of nodes")
    node_port = free_ports(1)[0]
    cluster = Cluster(name, f"mongodb://127.0.0.1:{port}/{name}")
    cluster.end()
    config = path(name + ".conf")
    text = (
        open(config)
        .read()
        .replace("node = 0", f"node = {node_port}")
        .replace("security = {", f'security = {{ node-secret = "file:{path("node.secret")}";')
    )
    open(config, "w").write(text)
    with open(cluster.log, "wb") as log:
        cluster.process = subprocess.Popen(
            [os.path.join(BIN, "flyt-cluster-manager"), "-c", config], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    until(lambda: cluster.ctl("status"), f"no start: {open(cluster.log).read()}")
    cluster.node_port = node_port
    mongo_node(cluster)
    node = subprocess.Popen(
        [os.path.join(BIN, "flyt-node-manager"), "-c", path("node.conf")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=open(path("node.log"), "ab"),
    )
    until(lambda: cluster.json("node", "list")[0]["state"] == "up", f"no node: {open(path('node.log')).read()}")
    node.terminate()
    node.wait(10)
    return cluster


def mongodb_whose_server_is_stopped():
    program = mongo_program()
    if not program:
        return "no MongoDB here"
    server = Mongo(program)
    cluster = mongo_cluster("halted", server.port)

    def stop():
        time.sleep(0.5)  # what the manager itself writes about the change before
        server.process.send_signal(signal.SIGSTOP)

    try:
        changes_fail_and_do_not_happen(cluster, stop, lambda: server.process.send_signal(signal.SIGCONT))
    finally:
        server.end()
        cluster.end()
    return None


def mongodb_whose_answer_is_lost():
    return mongodb_behind_a_network(True)


def mongodb_that_a_write_does_not_reach():
    return mongodb_behind_a_network(False)


def mongodb_behind_a_network(deliver):
    program = mongo_program()
    if not program:
        return "no MongoDB here"
    server = Mongo(program)
    network = Network(server.port)
    name = "lost-answer" if deliver else "lost-write"
    cluster = Cluster(name, f"mongodb://127.0.0.1:{network.port}/{name}")
    try:
        until(lambda: cluster.ctl("status"), f"no start: {open(cluster.log).read()}")
        unknown_outcome(cluster, lambda: network.arm(deliver), network.mend, completed)
    finally:
        network.mend()
        cluster.end()
        server.end()
    return None


TESTS = [
    sqlite_whose_file_is_locked,
    sqlite_on_a_disk_that_stops,
    sqlite_on_a_full_disk,
    sqlite_whose_file_is_taken_away,
    changes_of_one_vm_follow_each_other,
    an_asker_that_gives_up,
    a_standby_is_no_error,
    mongodb_whose_server_is_stopped,
    mongodb_whose_answer_is_lost,
    mongodb_that_a_write_does_not_reach,
]
TESTS = chosen(TESTS)
# Each has a cluster of its own and waits most of the time.
with concurrent.futures.ThreadPoolExecutor(len(TESTS)) as pool:
    begun = {test: pool.submit(test) for test in TESTS}
    status = only_cases(work, TESTS, lambda test: begun[test].result())
sys.exit(status)
