#!/usr/bin/env python3
"""tests/control/trouble.py BIN PROGRAM [TEST...]: what an operator meets when something is wrong. Speaks TAP.

shows: Operators: the cluster manager tells systemd when it is ready and why it waits, a reload takes everything over
   or says why not, refused peers and reloads are events
"""
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import testlib  # noqa: E402
from testlib import (Ctl, chosen, client_config, cluster_config, end, free_ports, listens, need,  # noqa: E402
                     node_config, only_cases, until)

BIN = os.path.abspath(sys.argv[1])
work = tempfile.mkdtemp(prefix="flyt-operator-")
environment = {name: value for name, value in os.environ.items() if not name.startswith("FLYT")}
environment |= {"LC_ALL": "C.UTF-8", "FLYTCTL_SETTINGS": f"{work}/flytctl.conf", "FLYT_LOG": "info"}
running = []
BAD_CONFIG, UNREACHABLE, DB_AWAY = 10, 3, 11


def write(name, text, mode=0o600):
    return testlib.write(f"{work}/{name}", text, mode)


class Daemon:
    """A daemon with its log, started as systemd does it: what it says by sd_notify is read."""

    def __init__(self, program, config, **more):
        name = os.path.basename(config)
        self.log = f"{work}/{name}.log"
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        if os.path.exists(f"{work}/{name}.notify"):
            os.unlink(f"{work}/{name}.notify")
        self.notify.bind(f"{work}/{name}.notify")
        self.notify.settimeout(20)
        self.begun = time.monotonic()
        self.process = testlib.spawn(self.log, f"{BIN}/{program}", "--config", config, environment={
            **environment, "NOTIFY_SOCKET": f"{work}/{name}.notify", **more})
        running.append(self)

    def said(self):
        return testlib.read(self.log)

    def ready(self):
        """Its status when it says that it is ready."""
        while True:
            text = self.notify.recv(8192).decode()
            if "READY=1" in text.split("\n"):
                return text

    def reload(self):
        """SIGHUP, until it says that it has reloaded."""
        self.process.send_signal(signal.SIGHUP)
        while self.notify.recv(8192).decode() != "RELOADING=1":
            pass
        self.ready()

    def end(self):
        end(self.process)
        self.notify.close()


class Cluster(Daemon):
    def __init__(self, name, uri=None, security="", more=""):
        self.name = name
        self.node_port, self.client_port = free_ports(2)
        self.uri = uri or f"sqlite://{work}/{name}.db"
        self.ctl = Ctl(BIN, "-M", f"unix://{work}/{name}.sock", environment=environment)
        self.configure(security, more)
        super().__init__("flyt-cluster-manager", f"{work}/{name}.conf")

    def configure(self, security="", more=""):
        ports = self.node_port, self.client_port
        write(f"{self.name}.conf", cluster_config(work, ports, self.uri, self.name, f"{self.name}-tls",
                                                  security=security, more=more))

    def said_of(self, *arguments, expect=0):
        """All that flytctl says."""
        done = self.ctl.run(*arguments, expect=expect)
        return done.stdout + done.stderr

    def events(self, kind):
        return [event["text"] for event in self.ctl.json("events", "-n", "1000", "--kind", kind)]


def check(config, expect):
    done = subprocess.run(
        [f"{BIN}/flytctl", "config", "check", "--file-only", config], capture_output=True, text=True, env=environment
    )
    need(done.returncode == expect, f"config check: exit {done.returncode}, not {expect}: {done.stdout}{done.stderr}")
    return done.stdout


# ---- ready, or waiting ----


def ready_means_that_it_serves():
    cluster = Cluster("serves")
    need("STATUS=serving" in cluster.ready(), "no status")
    cluster.ctl("status")


def status_waits_until_it_serves():
    """The line after the one that starts the daemon."""
    late = subprocess.Popen(
        [f"{BIN}/flytctl", "-M", f"unix://{work}/late.sock", "status", "--wait", "20"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    cluster = Cluster("late", f"sqlite://{work}/late/flyt.db")
    cluster.ready()
    cluster.ctl("status", "--wait", "1", expect=DB_AWAY)
    need(late.poll() is None, "it does not wait for the DB")
    os.mkdir(f"{work}/late")
    out, error = late.communicate(timeout=20)
    need(late.returncode == 0 and "Resource DB is up" in out and not error, (out, error))
    cluster.end()
    cluster.ctl("status", "--wait", "1", expect=UNREACHABLE)


def a_db_that_is_away_is_no_reason_to_wait_for_ever():
    """`systemctl start` returns, and the status says what the daemon waits for."""
    for uri in (f"sqlite://{work}/no/such/folder/flyt.db", f"mongodb://127.0.0.1:{free_ports(1)[0]}/flyt"):
        cluster = Cluster("away" + uri[0], uri)
        status = cluster.ready()
        need("STATUS=waiting for the resource DB" in status and len(status) > 80, status)
        need("resource DB" in cluster.said_of("status", expect=DB_AWAY), "no reason")
        cluster.end()


def its_status_follows_the_db():
    cluster = Cluster("follows", f"sqlite://{work}/later/flyt.db")
    need("waiting for the resource DB" in cluster.ready(), "it is there")
    os.mkdir(f"{work}/later")
    need("STATUS=serving" in cluster.ready(), "it does not serve")


def a_standby_is_ready_too():
    first = Cluster("first")
    first.ready()
    second = Cluster("second", first.uri)
    need("STATUS=standing by: " in second.ready(), "no status")
    first.end()
    need("STATUS=serving" in second.ready(), "it does not take over")


def an_address_that_makes_no_sense_ends_it_at_once():
    for uri, what in (
        ("sqlite://var/lib/flyt/flyt.db", "three slashes"),
        ("sqlite:flyt.db", "three slashes"),
        ("mongodb:///flyt", "names no host"),
        ("mongodb://ann:word@/flyt", "names no host"),
        ("mysql://here/flyt", "neither sqlite:// nor mongodb://"),
    ):
        cluster = Cluster("senseless", uri)
        need(cluster.process.wait(10) == 3, f"{uri}: exit {cluster.process.returncode}")
        need(what in cluster.said() and f"{work}/senseless.conf:1" in cluster.said(), cluster.said())
        shutil.copy(f"{work}/senseless.conf", f"{work}/senseless-cluster-manager.conf")
        said = check(f"{work}/senseless-cluster-manager.conf", BAD_CONFIG)
        need(what in said and "word" not in said, said)
    for uri in ("sqlite:///a/b", "sqlite:/a/b", "sqlite::memory:", "mongodb://h/f", "mongodb+srv://u:p@h/",
                "mongodb://a:1,b:2/f?x=y"):
        check(write("good-cluster-manager.conf", cluster_config(work, uri=uri)), 0)
    # What only MongoDB's driver sees.
    cluster = Cluster("driver", "mongodb://127.0.0.1:99999999/flyt")
    need(cluster.process.wait(10) == 3 and "not understood" in cluster.said(), cluster.said())


# ---- reloading ----


def a_reload_remembers_what_awaits_a_restart():
    cluster = Cluster("twice")
    cluster.ready()
    port = cluster.node_port
    cluster.node_port = free_ports(1)[0]
    cluster.configure(more="silence = { lost = 77.0; };\n")
    for _ in range(3):
        need("take a restart: ports.node" in cluster.said_of("reload"), "it has forgotten")
    cluster.node_port = port
    cluster.configure(more="silence = { lost = 78.0; };\n")
    need("restart" not in cluster.said_of("reload"), "what was taken back is named")


def certificates_that_cannot_be_read_refuse_the_reload():
    folder = make_certificates("unreadable")
    cluster = Cluster("unreadable", security='tls = "on";')
    cluster.ready()
    os.chmod(f"{folder}/cluster.key", 0o644)  # open to all: refused
    cluster.configure(security='tls = "on";', more="silence = { lost = 77.0; };\n")
    answer = cluster.ctl("reload", "--json", expect=BAD_CONFIG)
    need(answer["error"] == "bad-config" and "certificates cannot be read" in answer["message"], answer)
    cluster.reload()
    need(len(cluster.events("reload-refused")) == 2, cluster.events("reload-refused"))
    os.chmod(f"{folder}/cluster.key", 0o600)
    need("done" in cluster.said_of("reload"), "it is refused for ever")


def make_certificates(name):
    """An authority, and a cluster manager's certificate. Returns the folder of the latter."""
    ca, folder = f"{work}/{name}-ca", f"{work}/{name}-tls"
    for arguments in (["create", ca], ["issue", ca, "cluster", "main", "--out", folder]):
        subprocess.run([f"{BIN}/flytctl", "ca", *arguments], check=True, capture_output=True)
    return folder


def vm_daemon(name, port, more=""):
    write(f"{name}.conf", client_config(port, "vm1", f"{work}/{name}", f"{work}/{name}.client", f"{work}/vm.secret",
                                        more))
    return Daemon("flyt-client-manager", f"{work}/{name}.conf")


def node_daemon(name, port):
    write(f"{name}.conf", node_config(BIN, port, "n1", f"{work}/{name}", f"{work}/node-own.secret"))
    return Daemon("flyt-node-manager", f"{work}/{name}.conf")


def a_corrected_secret_is_read_by_a_reload():
    write("node.secret", "what the cluster manager expects")
    write("node-own.secret", "what the node has by mistake")
    write("vm.secret", "what the VM has by mistake")
    cluster = Cluster("secrets", security=f'node-secret = "file:{work}/node.secret";')
    cluster.ready()
    right = cluster.ctl("vm", "add", "vm1", "--sms", "1", "--memory", "64M", "--json")["secret"]
    vm, node = vm_daemon("vm", cluster.client_port), node_daemon("node", cluster.node_port)
    vm.ready(), node.ready()
    for daemon in (vm, node):
        until(lambda: "with this secret" in daemon.said(), daemon.said)
    write("vm.secret", right)
    vm.reload()
    until(lambda: cluster.ctl("vm", "show", "vm1", "--json")["connected"], vm.said)
    write("node-own.secret", "what the cluster manager expects")
    node.reload()
    until(lambda: "up" in [node["state"] for node in cluster.ctl("node", "list", "--json")], node.said)
    # The cluster manager's own: from now on nodes need another one.
    write("node.secret", "a new one")
    need("done" in cluster.said_of("reload"), "refused")
    node.end()
    write("node-own.secret", "a new one")
    node = node_daemon("node", cluster.node_port)
    until(lambda: "up" in [node["state"] for node in cluster.ctl("node", "list", "--json")], node.said)
    write("vm.secret", "x", 0o644)
    vm.reload()
    until(lambda: "event=secret-not-read" in vm.said(), vm.said)


def mistakes_fill_one_line_of_the_log():
    cluster = Cluster("lines")
    cluster.ready()
    write("vm.secret", "something that is long enough")
    vm = vm_daemon("lines-vm", cluster.client_port)
    vm.ready()
    with open(f"{work}/lines-vm.conf", "a") as out:
        out.write("nonsense = 1;\nmore = 2;\n")
    vm.reload()
    lines = [line for line in vm.said().splitlines() if "nonsense" in line or "more" in line]
    need(len(lines) == 1 and "event=reload-refused" in lines[0] and "; " in lines[0], vm.said())


# ---- who is refused ----


def refused_peers_are_events():
    """Once for each, though they try again and again."""
    write("vm.secret", "not the one of this VM")
    cluster = Cluster("refuses")
    cluster.ready()
    vm = vm_daemon("refused", cluster.client_port)
    until(lambda: cluster.events("peer-refused"), vm.said)
    text = cluster.events("peer-refused")[0]
    need("'vm1' from 127.0.0.1: there is no client 'vm1' with this secret" in text, text)
    until(lambda: cluster.said().count("event=denied") >= 3, "it does not try again")
    need(len(cluster.events("peer-refused")) == 1, cluster.events("peer-refused"))
    need("peer-refused" in cluster.said_of("events", "--kind", "peer-refused"), "flytctl does not know it")


def peers_without_tls_are_events():
    make_certificates("mixed")
    write("vm.secret", "not the one of this VM")
    cluster = Cluster("mixed", security='tls = "on";')
    cluster.ready()
    vm = vm_daemon("plain", cluster.client_port)
    until(lambda: cluster.events("peer-refused"), vm.said)
    text = cluster.events("peer-refused")[0]
    need("somebody from 127.0.0.1: the peer does not speak TLS" in text, text)


# ---- config check ----


def checked(name, text, *mentions, expect=BAD_CONFIG, user=None):
    """`flytctl config check` as the daemon's user, who is the caller unless it is named."""
    me = pwd.getpwuid(os.geteuid()).pw_name
    done = subprocess.run(
        [f"{BIN}/flytctl", "config", "check", *([] if user else ["--user", me]), write(name, text, 0o644)],
        capture_output=True,
        text=True,
        env=environment,
        user=user,
    )
    need(done.returncode == expect, f"{text}: exit {done.returncode}, not {expect}: {done.stdout}{done.stderr}")
    for each in mentions:
        need(each in done.stdout, f"{text}: no {each!r} in {done.stdout}")
    return done.stdout


NODE = 'node = {{ state-directory = "{0}/node"; {1} }};\nvirt-server = {{ program-path = "/bin/true"; {2} }};\n'


def addresses_are_checked():
    for address, what in (("1.2.3.999", "is no IP address"), ("10.255.254.253", "no interface of this machine has it"),
                          ("no-such-host.invalid", "knows no host")):
        checked("a-cluster-manager.conf", cluster_config(work, tls="", address=address), "ports.address", what)
        checked("a-node-manager.conf", NODE.format(work, 'gpu = "software";', f'listen-address = "{address}";'),
                "virt-server.listen-address", what)
    for address in ("0.0.0.0", "127.0.0.1", "::", "localhost"):
        checked("a-cluster-manager.conf", cluster_config(work, tls="", address=address), expect=0)
    advertise = lambda address: NODE.format(work, 'gpu = "software";', f'advertise-address = "{address}";')
    checked("a-node-manager.conf", advertise("1.2.3.999"), "virt-server.advertise-address", "is no IP address")
    checked("a-node-manager.conf", advertise("foo.invalid"), "note: ", "knows no host of that name", expect=0)
    need("note: " not in checked("a-node-manager.conf", advertise("192.0.2.7"), expect=0), "a good address")


def gpus_are_checked():
    checked("a-node-manager.conf", NODE.format(work, 'gpu = "software"; sharing = ("mig");', ""), "node.sharing",
            "exclusive, time-slice and mps only")
    if not os.path.exists("/dev/nvidia0"):
        checked("a-node-manager.conf", NODE.format(work, 'gpu = "nvidia";', ""), "node.gpu", "no NVIDIA driver")
    checked("a-node-manager.conf", NODE.format(work, 'gpu = "software"; sharing = ("mig", "mps");', ""), expect=0)


def a_group_that_is_given_twice_is_named():
    text = "# one\nports =\n{\n  node = 1;\n};\nlog = { };\nports: { address = \"0.0.0.0\"; };\n"
    checked("b-cluster-manager.conf", text, "b-cluster-manager.conf:7: ports is given a second time", "in line 2")


def advice_takes_nothing_from_the_daemon():
    """Somebody who is not the daemon hears what he may not do, not how to take the daemon's files."""
    if os.geteuid() != 0:
        return
    os.chmod(work, 0o755)
    os.makedirs(f"{work}/theirs", 0o700)
    write("theirs/node.secret", "a secret that is long enough")
    text = f'node = {{ secret = "file:{work}/theirs/node.secret"; state-directory = "{work}/theirs"; }};\n'
    said = checked("c-node-manager.conf", text, "cannot", expect=0, user=65534)
    need("chown" not in said and "chgrp" not in said and "chmod" not in said, said)
    # And root, who runs the daemon of another user by hand, is told to run it as that user.
    cluster = Cluster("byhand")
    cluster.ready()
    cluster.end()
    os.chown(f"{work}/byhand.key", 65534, 65534)
    byhand = Daemon("flyt-cluster-manager", f"{work}/byhand.conf")
    need(byhand.process.wait(10) == 3, byhand.process.returncode)
    need("belongs to user 65534" in byhand.said() and "chown" not in byhand.said(), byhand.said())


# ---- secrets ----


def a_secret_is_not_overwritten():
    cluster = Cluster("files")
    cluster.ready()
    add = lambda name, *more, **expect: cluster.said_of("vm", "add", name, "--sms", "1", "--memory", "64M",
                                                        "--secret-file", f"{work}/vm.new", *more, **expect)
    add("a")
    with open(f"{work}/vm.new") as file:
        first = file.read()
    need("is there already" in add("b", expect=6), "no reason")
    with open(f"{work}/vm.new") as file:
        need(file.read() == first, "it is another one")
    need([vm["name"] for vm in cluster.ctl("vm", "list", "--json")] == ["a"], "the VM was added")
    add("b", "--force")


def very_little_memory_is_warned_of():
    """And a program that fails for that reason hears of the limit."""
    write("little.secret", "the nodes' secret, long enough")
    shutil.copy(f"{work}/little.secret", f"{work}/node-own.secret")
    cluster = Cluster("little", security=f'node-secret = "file:{work}/little.secret";')
    cluster.ready()
    entitled = ("--sms", "1", "--memory", "1", "--sharing", "any")
    said = cluster.said_of("vm", "add", "vm1", *entitled, "--secret-file", f"{work}/vm.secret", "--force")
    need("warning: 1 MiB for a GPU server is very little" in said, said)
    need("very little" not in cluster.said_of("vm", "set", "vm1", "--memory", "64"), "a warning without a reason")
    need("very little" in cluster.said_of("vm", "set", "vm1", "--memory", "3"), "no warning")
    node_daemon("little-node", cluster.node_port)
    vm = vm_daemon("little-vm", cluster.client_port)
    until(lambda: "up" in [node["state"] for node in cluster.ctl("node", "list", "--json")], "no node")
    until(lambda: listens(f"{work}/little-vm.client"), vm.said)
    done = subprocess.run([f"{BIN}/flyt-run", sys.argv[2]], capture_output=True, text=True, timeout=60,
                          env={**environment, "FLYT_MANAGER": f"{work}/little-vm.client", "FLYT_WAIT": "20"})
    need("Its VM may use 3 MiB: is that too little (flytctl vm set vm1 --memory SIZE)?" in done.stderr, done)


TESTS = [
    ready_means_that_it_serves,
    status_waits_until_it_serves,
    a_db_that_is_away_is_no_reason_to_wait_for_ever,
    its_status_follows_the_db,
    a_standby_is_ready_too,
    an_address_that_makes_no_sense_ends_it_at_once,
    a_reload_remembers_what_awaits_a_restart,
    certificates_that_cannot_be_read_refuse_the_reload,
    a_corrected_secret_is_read_by_a_reload,
    mistakes_fill_one_line_of_the_log,
    refused_peers_are_events,
    peers_without_tls_are_events,
    addresses_are_checked,
    gpus_are_checked,
    a_group_that_is_given_twice_is_named,
    advice_takes_nothing_from_the_daemon,
    a_secret_is_not_overwritten,
    very_little_memory_is_warned_of,
]


def with_its_daemons(test):
    """The daemons that a test has started end with it."""
    try:
        return test()
    finally:
        for daemon in reversed(running):
            daemon.end()
        running.clear()


write("flytctl.conf", "")
sys.exit(only_cases(work, chosen(TESTS), with_its_daemons))
