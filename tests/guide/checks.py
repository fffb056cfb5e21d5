"""checks.py: what the files of checks share: saying what is so, a program that runs meanwhile, asking systemd."""

import os
import shutil
import subprocess

from boxes import TOP, USER, until
from machines import Machine
import testlib

DAEMONS = ("cluster-manager", "node-manager", "client-manager")
CONFIGURATION = {name: f"/etc/flyt/{name}.conf" for name in DAEMONS}


def need(condition, what=""):
    if not condition:
        raise AssertionError(what)


def ok(what, check, *arguments):
    """check(*arguments) raises or returns False when it is not so."""
    try:
        testlib.ok(check(*arguments) is not False, what)
    except Exception as problem:  # the next check says something of its own
        testlib.result(what, f"{type(problem).__name__}: {problem}")


def show(box, daemon, what):
    return box.run(f"systemctl show --property={what} --value flyt-{daemon}")


def connected(boxes):
    """Waits until vm1's client manager is."""
    def there():
        said = boxes["cluster"].run("flytctl vm show vm1", None)
        need("Connected yes" in " ".join(said.split()),
             said + boxes["vm1"].run("journalctl -q -n 10 -u flyt-client-manager; ls -l /etc/flyt /etc/flyt/tls"))
        return True
    until(there, "vm1 is connected", 60)


class Worker:
    """A program that uses the GPU until it is ended, and checks each result. manager: the cluster manager's box."""

    def __init__(self, box, manager):
        self.box = box
        status, said = box.shell().type("setsid -f flyt-run ./worker 600 7 >worker.log 2>&1")
        need(status == 0, said)

        def runs():
            need(self.pids(), self.said())
            rows = manager.run("flytctl program list").splitlines()
            return any("running" in row and str(self.pids()[0]) in row.split() for row in rows)
        until(runs, "the program has its GPU", 60)

    def pids(self):
        return [pid for pid, command in self.box.processes().items() if command.startswith("./worker ")]

    def said(self):
        return self.box.run(f"cat /home/{USER}/worker.log", None)

    def passed(self):
        """Ends it; all was right until then."""
        need(self.pids(), self.said())
        self.box.run(f"kill {self.pids()[0]}")
        until(lambda: not self.pids(), "the program ends", 60)
        need("passed:" in self.said(), self.said())


class Mongo:
    """A machine with a server that speaks MongoDB's protocol. program None: there is none to be had."""

    def __init__(self, boxes):
        ours = os.path.join(TOP, "build/mongo/bin/secantusd-py")
        mongod = os.environ.get("FLYT_TEST_MONGOD") or shutil.which("mongod") or ours
        self.program = mongod if os.path.exists(mongod) else None
        self.folder = os.path.join(boxes.work, "mongo")

    def __enter__(self):
        if not self.program:
            return self
        os.mkdir(self.folder)
        machine = Machine("db", 9)
        arguments = ["--dbpath", self.folder, "--bind_ip"]
        if "secantus" in self.program:
            arguments = ["--storage-path", self.folder, "--cache-size", "64M", "--host"]
        command = machine.command(self.program, *arguments, machine.address, "--port", "27017")
        self.process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        probe = machine.command("bash", "-c", f"</dev/tcp/{machine.address}/27017")
        until(lambda: subprocess.run(probe, capture_output=True).returncode == 0, "the database listens", 30)
        return self

    def __exit__(self, *_):
        if self.program:
            self.process.kill()
            self.process.wait()
