"""afterwards.py: what must be so on machines that were set up by the guide, beside what the guide itself shows."""
import os
import shutil
import subprocess

from boxes import TOP, USER, until
from machines import Machine

DAEMONS = ("cluster-manager", "node-manager", "client-manager")
OTHER = "ben"                   # a user of the machine who may not use GPUs


class Worker:
    """A program that uses the GPU for as long as a scenario lasts, and checks each result."""

    def __init__(self, box):
        self.box = box
        status, said = box.shell().type("setsid -f flyt-run ./worker 600 7 >worker.log 2>&1")
        need(status == 0, said)
        until(self.begun, "the program has used the GPU", 20)

    def pids(self):
        return [pid for pid, command in self.box.processes().items() if command.startswith("./worker ")]

    def begun(self):
        """It has a GPU server: what it says of it, or that it runs and its server serves somebody."""
        need(self.pids(), self.said())
        return self.box.good(f"grep -q '^voluntary_ctxt_switches:\\s*[1-9][0-9]' /proc/{self.pids()[0]}/status")

    def said(self):
        return self.box.run(f"cat /home/{USER}/worker.log", None)

    def passed(self):
        """Ends it; all was right until then."""
        need(self.pids(), self.said())
        self.box.run(f"kill {self.pids()[0]}")
        until(lambda: not self.pids(), "the program ends", 20)
        need("passed:" in self.said(), self.said())


def ok(tap, what, check):
    """check() raises or returns False when it is not so."""
    try:
        tap.ok(check() is not False, what)
    except Exception as problem:                                # the next check says something of its own
        tap.ok(False, what, f"{type(problem).__name__}: {problem}")


def need(condition, what=""):
    if not condition:
        raise AssertionError(what)


def as_other(box, command, expect):
    return box.run(f"runuser -u {OTHER} -- {command}", expect)


# ---- who may what ----

def who_may_what(tap, box):
    """On one machine with a GPU server that runs."""
    box.run(f"id -u {OTHER} >/dev/null 2>&1 || useradd --create-home {OTHER}")
    folder = box.run("ls -d /var/lib/flyt/node/servers/[0-9]*").split()[0]
    give = f"install -m 755 /home/{USER}/program /home/{OTHER}/program && cd /home/{OTHER} && "

    def listed():
        for each in ("/var/lib/flyt/node", "/var/lib/flyt/node/servers", folder, "/var/lib/flyt/cluster", "/var/lib/flyt/client"):
            as_other(box, f"ls {each}", 2)

    def read():
        files = [name for name in box.run("find /var/lib/flyt /etc/flyt/*.secret -type f").split()]
        need(any(name.endswith("/keys") for name in files) and any(name.endswith("flyt.db") for name in files), files)
        for name in files:
            as_other(box, f"cat '{name}'", 1)

    def ticket():
        said = box.run(give + f"runuser -u {OTHER} -- env FLYT_SERVER=unix://{folder}/s flyt-run ./program", None)
        need("ticket" in said and "passed" not in said, said)

    def manager():
        said = box.run(give + f"runuser -u {OTHER} -- flyt-run ./program", None)
        need("passed" not in said, said)
    ok(tap, "another user of the machine lists no folder of the daemons", listed)
    ok(tap, "nor reads a file of theirs or a secret", read)
    ok(tap, "nor uses a GPU server at its socket without a ticket", ticket)
    ok(tap, "nor gets one from the client manager", manager)


# ---- config check ----

CONFIGURATIONS = {name: f"/etc/flyt/{name}.conf" for name in DAEMONS}


def config_check(tap, box):
    """What a daemon of the user flyt cannot do is found, as root calls it, and what the message says mends it."""
    def found(daemon, spoil, mentions, mend=None):
        def check():
            box.run(spoil)
            said = box.run(f"flytctl config check {CONFIGURATIONS[daemon]}", 10)
            need(all(each in said for each in mentions), said)
            box.run(mend or said[said.rindex("chgrp "):].splitlines()[0])
            box.run(f"flytctl config check {CONFIGURATIONS[daemon]}", 0)
        return check
    closed = "chown root:root {0} && chmod 600 {0}"
    ok(tap, "config check: a VM's secret that its daemon cannot read, and the remedy it names",
       found("client-manager", closed.format("/etc/flyt/vm.secret"), ("user flyt cannot read /etc/flyt/vm.secret", "chmod 640")))
    ok(tap, "config check: the same of the node's secret", found("cluster-manager", closed.format("/etc/flyt/node.secret"),
                                                                  ("user flyt cannot read /etc/flyt/node.secret",)))
    ok(tap, "config check: a secret that everybody can read", found("client-manager", "chmod 644 /etc/flyt/vm.secret", ("chmod 640",),
                                                                    "chmod 640 /etc/flyt/vm.secret"))
    ok(tap, "config check: a folder for the state that the daemon cannot write in",
       found("client-manager", "chown root:root /var/lib/flyt/client", ("user flyt cannot write in the folder /var/lib/flyt/client",),
             "chown flyt:flyt /var/lib/flyt/client"))
    ok(tap, "config check: a resource DB that the daemon cannot write",
       found("cluster-manager", "chown root:root /var/lib/flyt/cluster/flyt.db", ("flyt.db",), "chown flyt:flyt /var/lib/flyt/cluster/flyt.db"))
    ok(tap, "config check: a configuration that the daemon cannot read",
       found("client-manager", "chmod 600 /etc/flyt/client-manager.conf", ("user flyt cannot read it",), "chmod 644 /etc/flyt/client-manager.conf"))
    ok(tap, "config check: a group for the socket that is not there",
       found("client-manager", "sed -i 's/group = .*;/group = \"nobody-here\";/' /etc/flyt/client-manager.conf", ("no group 'nobody-here'",),
             "sed -i 's/group = .*;/group = \"flyt-users\";/' /etc/flyt/client-manager.conf"))

    def certificates():
        box.run("flytctl ca create /root/ca && flytctl ca issue /root/ca cluster c && cp /root/ca/ca.crt /root/ca/cluster.crt /root/ca/cluster.key "
                "/etc/flyt/tls && chown root:root /etc/flyt/tls/* && chmod 600 /etc/flyt/tls/cluster.key")
        try:
            said = box.run("flytctl config check /etc/flyt/cluster-manager.conf", 10)
            need("user flyt cannot read /etc/flyt/tls/cluster.key" in said, said)
            box.run(said[said.rindex("chgrp "):].splitlines()[0] + " && flytctl config check /etc/flyt/cluster-manager.conf")
            box.run("flytctl ca issue /root/ca cluster c --out /etc/flyt/tls --force --days 3 && flytctl config check /etc/flyt/cluster-manager.conf | grep 'expires in [23] days'")
        finally:
            box.run("rm -rf /root/ca /etc/flyt/tls/*")

    def others():
        box.run(f"id -u {OTHER} >/dev/null 2>&1 || useradd --create-home {OTHER}")
        said = as_other(box, "flytctl config check " + " ".join(CONFIGURATIONS.values()), 0)
        need("checked as user ben, but the daemon runs as flyt" in said and "cannot read /etc/flyt/vm.secret" in said, said)
        need("only root" in as_other(box, "flytctl config check --user flyt /etc/flyt/client-manager.conf", 4), "--user")
    ok(tap, "config check: a TLS key that the daemon cannot read, and a certificate that soon expires", certificates)
    ok(tap, "config check: somebody else is told that it was not checked as the daemon", others)


# ---- systemd ----

def show(box, daemon, what):
    return box.run(f"systemctl show --property={what} --value flyt-{daemon}")


def units(tap, box):
    def reload(daemon):
        def check():
            pid, path = show(box, daemon, "MainPID"), CONFIGURATIONS[daemon]
            box.run(f"cp -p {path} /root/kept && echo 'nonsense = 1;' >>{path}")
            try:
                box.run(f"systemctl reload flyt-{daemon}", 1)
                need("nonsense" in box.run(f"journalctl -q -u flyt-{daemon} -n 20"), "the journal does not say why")
                need(show(box, daemon, "MainPID") == pid and show(box, daemon, "ActiveState") == "active", "it does not go on")
            finally:
                box.run(f"cp -p /root/kept {path}")
            box.run(f"systemctl reload flyt-{daemon}")
            need(show(box, daemon, "MainPID") == pid, "it was restarted")
        return check

    def stays_ended(daemon, spoil, mend):
        def check():
            box.run(f"systemctl stop flyt-{daemon} && {spoil}")
            try:
                box.run(f"systemctl start flyt-{daemon}", 1)
                until(lambda: show(box, daemon, "ActiveState") == "failed", "it has failed", 10)
                need(show(box, daemon, "ExecMainStatus") == "3" and show(box, daemon, "NRestarts") == "0", show(box, daemon, "NRestarts"))
            finally:
                box.run(mend)
            box.run(f"systemctl reset-failed flyt-{daemon}; systemctl start flyt-{daemon}")
        return check

    def killed(daemon):
        def check():
            pid = show(box, daemon, "MainPID")
            box.run(f"systemctl kill -s KILL --kill-who=main flyt-{daemon}")
            until(lambda: show(box, daemon, "ActiveState") == "active" and show(box, daemon, "MainPID") not in (pid, "0"), "it comes back", 20)
        return check
    for daemon in DAEMONS:
        ok(tap, f"reload of the {daemon} with a mistake in its configuration fails, the journal says why, and the daemon keeps the old one", reload(daemon))
    ok(tap, "a client manager that cannot read its secret is not started again and again",
       stays_ended("client-manager", "chgrp root /etc/flyt/vm.secret", "chgrp flyt /etc/flyt/vm.secret"))
    ok(tap, "nor a node manager without its secret",
       stays_ended("node-manager", "mv /etc/flyt/node.secret /root/n", "mv /root/n /etc/flyt/node.secret"))
    ok(tap, "nor a cluster manager with a key that it cannot read",
       stays_ended("cluster-manager", "chown root /var/lib/flyt/cluster/ticket.key", "chown flyt /var/lib/flyt/cluster/ticket.key"))
    for daemon in DAEMONS:
        ok(tap, f"a {daemon} that was killed comes back", killed(daemon))


# ---- TLS ----

def refused_without_tls(boxes):
    """A client manager that forgets its certificate."""
    box, path = boxes["vm1"], CONFIGURATIONS["client-manager"]
    box.run(f"cp -p {path} /root/kept && sed -i '/^tls:/,$d' {path} && systemctl restart flyt-client-manager")
    try:
        said = box.run(f"cd /home/{USER} && runuser -u {USER} -- env FLYT_WAIT=3 flyt-run ./program", None)
        need("does it want TLS" in said and "passed" not in said, said)
    finally:
        box.run(f"cp -p /root/kept {path} && systemctl restart flyt-client-manager")
    until(lambda: "Connected yes" in " ".join(boxes["cluster"].run("flytctl vm show vm1").split()), "it is back", 20)


def reload_without_key(box):
    pid = show(box, "client-manager", "MainPID")
    box.run("chmod 600 /etc/flyt/tls/vm1.key && chgrp root /etc/flyt/tls/vm1.key")
    box.run("systemctl reload flyt-client-manager", 1)
    need("user flyt cannot read /etc/flyt/tls/vm1.key" in box.run("journalctl -q -u flyt-client-manager -n 20"), "the journal does not say why")
    box.run("chgrp flyt /etc/flyt/tls/vm1.key && chmod 640 /etc/flyt/tls/vm1.key && systemctl reload flyt-client-manager")
    need(show(box, "client-manager", "MainPID") == pid, "it was restarted")


# ---- versions, backups, databases ----

def restored(box):
    names = box.run("flytctl vm list")
    need("vm1" in names and "late" not in names, names)


def upgraded(boxes, version):
    for box, daemon in ((boxes["cluster"], "cluster-manager"), (boxes["gpu-1"], "node-manager"), (boxes["vm1"], "client-manager")):
        there = box.run("dpkg-query -W -f '${Version}' flyt")
        need((there == version) == (version != "now"), there)
        need(show(box, daemon, "ActiveState") == "active", f"{daemon} does not run")
        conf = box.run(f"cat {CONFIGURATIONS[daemon]}")
        need("99.0" not in conf and "10.0.0.1" in conf + "10.0.0.1" * (daemon == "cluster-manager"), conf)
    until(lambda: "up" in boxes["cluster"].run("flytctl node list"), "the node is up", 20)
    until(lambda: "Connected yes" in " ".join(boxes["cluster"].run("flytctl vm show vm1").split()), "the VM is connected", 20)


def starts_again(boxes):
    for name, daemon in (("cluster", "cluster-manager"), ("gpu-1", "node-manager"), ("vm1", "client-manager")):
        boxes[name].run(f"systemctl start flyt-{daemon} || {{ journalctl -q -n 30 -u flyt-{daemon}; false; }}")

    def connected():
        said = boxes["cluster"].run("flytctl vm show vm1", None)
        need("Connected yes" in " ".join(said.split()), said + boxes["vm1"].run("journalctl -q -n 10 -u flyt-client-manager; ls -l /etc/flyt /etc/flyt/tls"))
        return True
    until(connected, "vm1 is entitled and connected", 20)


class Mongo:
    """A machine with a server that speaks MongoDB's protocol; program None: there is none."""

    def __init__(self, boxes):
        mongod = os.environ.get("FLYT_TEST_MONGOD") or shutil.which("mongod") or os.path.join(TOP, "build/mongo/bin/secantusd-py")
        self.program, self.folder = mongod if os.path.exists(mongod) else None, os.path.join(boxes.work, "mongo")

    def __enter__(self):
        if not self.program:
            return self
        os.mkdir(self.folder)
        self.machine = Machine("db", 9)
        arguments = ["--dbpath", self.folder, "--bind_ip"] if "secantus" not in self.program else ["--storage-path", self.folder, "--cache-size", "64M", "--host"]
        self.process = subprocess.Popen(self.machine.command(self.program, *arguments, self.machine.address, "--port", "27017"), cwd=self.folder,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        probe = self.machine.command("bash", "-c", f"</dev/tcp/{self.machine.address}/27017")
        until(lambda: subprocess.run(probe, capture_output=True).returncode == 0, "the database listens", 30)
        return self

    def __exit__(self, *_):
        if self.program:
            self.process.kill()
            self.process.wait()


# ---- removal ----

def nothing_left(tap, box, name, purged):
    """After the removal of Flyt: no process, unit, user, group; and, if it was to be, no state."""
    def processes():
        left = [command for command in box.processes().values() if ("flyt" in command or "cricket" in command) and "worker" not in command]
        need(not left, left)

    def files():
        left = box.run("find / -xdev \\( -name '*flyt*' -o -name '*cricket*' \\) -not -path '/proc/*' -not -path '/home/*' -not -path '/tmp/systemd*' "
                       "-not -path '/var/log/*' -not -path '/var/cache/*' -not -path '/root/*'").split()
        kept = () if purged else ("/etc/flyt", "/var/lib/flyt")
        need(not [each for each in left if not each.startswith(kept or "//")], left)

    def users():
        need("flyt" not in box.run("getent passwd; getent group"), "users or groups are left")
        need(not box.run("find /etc /var /run -xdev -nouser -o -nogroup"), "files of nobody")

    def units_gone():
        need("flyt" not in box.run("systemctl list-units --all --no-legend 'flyt*'; systemctl list-unit-files --no-legend 'flyt*'", None), "units")
    ok(tap, f"{name}: no daemon and no GPU server runs any more", processes)
    ok(tap, f"{name}: no unit is left", units_gone)
    ok(tap, f"{name}: no user or group is left, nor a file of one", users)
    ok(tap, f"{name}: no file is left" + ("" if purged else " but state and secrets"), files)
