"""host.py: the host of the guests: a cluster manager and a node manager with software GPUs, where guests reach them."""
import glob
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from guest import HOST, REPO  # noqa: E402
import testlib  # noqa: E402
from testlib import client_config, cluster_config, free_ports, node_config, until  # noqa: E402


class Host:
    """The folder lies among the sources, where guests see it too. servers: further keys of the node manager's
    virt-server; cluster: further lines of the cluster manager's configuration."""

    def __init__(self, bindir, servers="", cluster=""):
        self.bin, self.daemons = bindir, {}
        self.folder = tempfile.mkdtemp(prefix="host.", dir=os.path.join(REPO, "build/vm"))
        self.run = tempfile.mkdtemp(prefix="flyt-host.")             # short names, for sockets
        self.ports = free_ports()
        self.ctl = testlib.Ctl(bindir, "--manager", f"unix://{self.run}/cluster.sock").json
        self.environment = {**os.environ, "FLYT_LOG": "info", "FLYT_SOFTGPU_SMS": "4", "FLYT_SOFTGPU_MEMORY": "512M",
                            "FLYT_SOFTGPU_DEVICES": "2", "FLYT_SOFTGPU_THREADS": "1"}
        self.environment.pop("FLYT_SERVER", None)
        try:
            self.begin(bindir, servers, cluster)
        except AssertionError as problem:
            problem.args = (f"{problem}\n{self.logs()}",)
            self.stop()
            raise

    def begin(self, bindir, servers, cluster):
        secret = self.write("node.secret", secrets.token_hex(32), 0o600)
        self.start("cluster-manager", self.write("cluster.conf", cluster_config(
            self.run, self.ports, f"sqlite://{self.folder}/flyt.db",
            security=f'node-secret = "file:{secret}"; tls = "off";',
            more="virt-server-auto-deallocate = { enabled = true; grace-period = 2.0; };\n" + cluster)))
        until(lambda: self.ctl("status"), "the cluster manager answers")
        self.start("node-manager", self.write("node.conf", node_config(
            bindir, self.ports[0], "host", f"{self.folder}/node", secret,
            servers=f'advertise-address = "{HOST}"; {servers}')), "--stop-servers")
        until(lambda: self.ctl("status")["nodes_up"] == 1, "the node has joined")

    def write(self, name, text, mode=0o644):
        return testlib.write(os.path.join(self.folder, name), text, mode)

    def start(self, name, configuration, *more):
        words = [os.path.join(self.bin, "flyt-" + name), "--config", configuration, *more]
        self.daemons[name] = testlib.spawn(os.path.join(self.folder, name + ".log"), *words,
                                           environment=self.environment)

    def entitle(self, vm, *more):
        """Entitles a VM, and writes what its client manager needs. Its configuration, for `join`."""
        answer = self.ctl("vm", "add", vm, "--memory", "256M", *more)
        secret = self.write(f"{vm}.secret", re.search(r'"secret": *"([^"]+)"', json.dumps(answer)).group(1), 0o600)
        return self.write(f"{vm}.conf", client_config(self.ports[1], vm, "/run/flyt-state", "/run/flyt.sock", secret,
                                                      manager=HOST, mode="0666"))

    def join(self, guest, configuration):
        """Starts the client manager in a guest."""
        log = "/tmp/client-manager.log"
        guest.must(f"FLYT_LOG=info {self.bin}/flyt-client-manager --config {configuration} >{log} 2>&1 &")
        guest.repeat(f"grep -q event=registered {log} || {{ cat {log}; false; }}")

    def logs(self):
        text = ""
        for path in sorted(glob.glob(f"{self.folder}/*.log") + glob.glob(f"{self.folder}/node/servers/*/log")):
            with open(path, errors="replace") as file:
                text += f"--- {os.path.relpath(path, self.folder)}\n" + "".join(file.readlines()[-15:])
        return text

    def stop(self):
        """Ends the daemons; what did not end well is an AssertionError."""
        problems = []
        for name in ("node-manager", "cluster-manager"):
            process = self.daemons.get(name)
            if not process:
                continue
            process.terminate()
            try:
                if process.wait(15):
                    problems.append(f"{name} ended with {process.returncode}")
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                problems.append(f"{name} did not end within 15 s of SIGTERM")
        logs = self.logs() if problems else ""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.run, ignore_errors=True)
        assert not problems, "; ".join(problems) + "\n" + logs


class Tap:
    """Numbered lines of the test's output."""

    @property
    def failed(self):
        return testlib.Tap.failed

    def case(self, what, function, *arguments):
        """Whether it went well."""
        begun = time.monotonic()
        try:
            function(*arguments)
        except (AssertionError, OSError, ValueError, subprocess.TimeoutExpired) as problem:
            testlib.result(what, "\n".join(str(problem).splitlines()[-60:]) or repr(problem))
            return False
        testlib.ok(f"{what} # {time.monotonic() - begun:.1f} s")
        return True

    def end(self):
        sys.exit(testlib.plan())
