"""host.py: the host of the guests: a cluster manager and a node manager with software GPUs, where guests reach them."""
import glob
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from guest import HOST, REPO


def until(condition, what, seconds=20):
    """Waits for a true value, and returns it."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)
    return value


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Host:
    """The folder lies among the sources, where guests see it too. servers: further keys of the node manager's
    virt-server; cluster: further lines of the cluster manager's configuration."""

    def __init__(self, bindir, servers="", cluster=""):
        self.bin, self.daemons = bindir, {}
        self.folder = tempfile.mkdtemp(prefix="host.", dir=os.path.join(REPO, "build/vm"))
        self.run = tempfile.mkdtemp(prefix="flyt-host.")             # short names, for sockets
        self.ports = free_port(), free_port()
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
        self.start("cluster-manager", self.write("cluster.conf", f'''
vm-resource-db = {{ uri = "sqlite://{self.folder}/flyt.db"; }};
ports = {{ address = "127.0.0.1"; node = {self.ports[0]}; client = {self.ports[1]}; }};
ipc = {{ frontend-socket = "{self.run}/cluster.sock"; }};
virt-server-auto-deallocate = {{ enabled = true; grace-period = 2.0; }};
security = {{ node-secret = "file:{secret}"; ticket-key = "{self.folder}/ticket.key"; tls = "off";
             tls-folder = "{self.folder}/tls"; }};
{cluster}
'''))
        until(lambda: self.try_ctl("status"), "the cluster manager answers")
        self.start("node-manager", self.write("node.conf", f'''
resource-manager = {{ address = "127.0.0.1"; port = {self.ports[0]}; }};
node = {{ name = "host"; secret = "file:{secret}"; addresses = ["127.0.0.1"]; gpu = "software";
         state-directory = "{self.folder}/node"; }};
virt-server = {{ program-path = "{bindir}/cricket-rpc-server"; listen-address = "127.0.0.1";
                advertise-address = "{HOST}"; {servers} }};
'''), "--stop-servers")
        until(lambda: self.ctl("status")["nodes_up"] == 1, "the node has joined")

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.folder, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
            file.write(text)
        return path

    def start(self, name, configuration, *more):
        words = [os.path.join(self.bin, "flyt-" + name), "--config", configuration, *more]
        with open(os.path.join(self.folder, name + ".log"), "a") as log:
            self.daemons[name] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                  env=self.environment)

    def try_ctl(self, *words):
        flytctl = [os.path.join(self.bin, "flytctl"), "--json", "--manager", f"unix://{self.run}/cluster.sock"]
        done = subprocess.run([*flytctl, *words], capture_output=True, text=True, timeout=30)
        if done.returncode or not done.stdout.strip():
            return None
        if words[0] == "events":                                     # a line for each
            return [json.loads(line) for line in done.stdout.splitlines()]
        return json.loads(done.stdout)

    def ctl(self, *words):
        answer = self.try_ctl(*words)
        assert answer is not None, f"flytctl {' '.join(words)} failed:\n{self.logs()}"
        return answer

    def entitle(self, vm, *more):
        """Entitles a VM, and writes what its client manager needs. Its configuration, for `join`."""
        answer = self.ctl("vm", "add", vm, "--memory", "256M", *more)
        secret = self.write(f"{vm}.secret", re.search(r'"secret": *"([^"]+)"', json.dumps(answer)).group(1), 0o600)
        return self.write(f"{vm}.conf", f'''
resource-manager = {{ address = "{HOST}"; port = {self.ports[1]}; }};
vm = {{ name = "{vm}"; secret = "file:{secret}"; state-directory = "/run/flyt-state"; }};
ipc = {{ socket = "/run/flyt.sock"; mode = "0666"; }};
''')

    def join(self, guest, configuration):
        """Starts the client manager in a guest."""
        log = "/tmp/client-manager.log"
        guest.must(f"FLYT_LOG=info {self.bin}/flyt-client-manager --config {configuration} >{log} 2>&1 &")
        guest.until(f"grep -q event=registered {log} || {{ cat {log}; false; }}")

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

    def __init__(self):
        self.number = self.failed = 0

    def case(self, what, function, *arguments):
        """Whether it went well."""
        self.number += 1
        begun = time.monotonic()
        try:
            function(*arguments)
        except (AssertionError, OSError, ValueError, subprocess.TimeoutExpired) as problem:
            self.failed += 1
            print(f"not ok {self.number} - {what}")
            print("\n".join("# " + line for line in str(problem).splitlines()[-60:]), flush=True)
            return False
        print(f"ok {self.number} - {what} # {time.monotonic() - begun:.1f} s", flush=True)
        return True

    def end(self):
        print(f"1..{self.number}", flush=True)
        sys.exit(1 if self.failed else 0)
