"""machines.py: machines made of network namespaces, what runs on them, and the links between them.

Everything is inside namespaces of the test's own (network, mount, IPC, process ids): /proc shows what the test started
and nothing else, /dev/shm and /run are empty at first, and all of it ends with the test, however that ends.
"""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import alive  # noqa: E402

NETWORK = "10.77.0."
SPACES = ["unshare", "--net", "--mount", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"]
PREPARE = ("mount -t tmpfs -o mode=1777 none /dev/shm && mount -t tmpfs none /run && mkdir /run/netns && "
           "ip link set lo up && "
           "ip link add br0 type bridge && ip link set br0 up")


def enter(arguments, user_namespace):
    """Runs this program again inside. Does not return; exit status 77 where this machine does not let us."""
    tries = [SPACES, SPACES + ["--user", "--map-root-user"]]
    if user_namespace or os.geteuid() != 0:
        tries = tries[1:]
    why = ""
    for tool in ("unshare", "nsenter", "ip", "mount"):
        if not shutil.which(tool):
            why = f"there is no {tool} here (Debian: util-linux, iproute2, mount)"
            tries = []
    for words in tries:
        result = subprocess.run(words + ["sh", "-c",
                                         PREPARE + " && ip netns add x && ip link add x type veth peer name eth0 "
                                         "netns x"],
                                capture_output=True, text=True, timeout=30)
        if result.returncode == 0:
            os.execvp(words[0],
                      words + ["sh", "-c", PREPARE + ' && { "$@"; exit $?; }', "-", sys.executable, *arguments])
        why = (result.stderr or result.stdout).strip().splitlines()[-1:] or [f"exit status {result.returncode}"]
        why = why[0]
    print(f"1..0 # SKIP neither root nor a user namespace gives us network namespaces: {why}")
    sys.exit(77)


def ip(*commands):
    subprocess.run(["ip", "-batch", "-"], input="\n".join(commands) + "\n", text=True, check=True, timeout=30)


class Machine:
    """One network namespace; its cable ends in the switch br0 of the test's own."""

    def __init__(self, name, number):
        self.name, self.address = name, NETWORK + str(number)
        ip(f"netns add {name}", f"link add {name} type veth peer name eth0 netns {name}",
           f"link set {name} master br0 up")
        for command in (["link", "set", "lo", "up"], ["address", "add", self.address + "/24", "dev", "eth0"],
                        ["link", "set", "eth0", "up"]):
            subprocess.run(["ip", "-n", name, *command], check=True, timeout=30)

    def command(self, *words):
        return ["nsenter", f"--net=/run/netns/{self.name}", "--", *words]

    def unplug(self):
        """The cable is pulled: both ends see it."""
        ip(f"link set {self.name} down")

    def plug(self):
        ip(f"link set {self.name} up")

    def drop(self):
        """The switch forwards nothing any more; nobody is told."""
        ip(f"link set {self.name} nomaster")

    def forward(self):
        ip(f"link set {self.name} master br0")


# ---- processes ----

def parent(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return int(stat.read().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        return 0


def processes():
    """{pid: command line} of all that lives in our process-id namespace, ourselves and the shell that reaps orphans
    left out."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        pid = int(path.split("/")[2])
        try:
            with open(path, errors="replace") as file:
                command = file.read().replace("\0", " ").strip()
        except OSError:
            continue
        if pid not in (1, os.getpid()) and alive(pid):
            found[pid] = command
    return found


def descendants(pid):
    """The process and all that came of it."""
    tree = {}
    for other in processes():
        tree.setdefault(parent(other), []).append(other)
    found, todo = [], [pid]
    while todo:
        one = todo.pop()
        found.append(one)
        todo += tree.get(one, [])
    return found


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def slowness():
    """How many times longer than on a machine of its own a test may take: 1, up to 6 where many want the processors."""
    return min(max(1, os.getloadavg()[0] / os.cpu_count()), 6)


class Daemon:
    """A program that is kept running, by us instead of systemd."""

    def __init__(self, machine, name, command, log, environment=None):
        self.machine, self.name, self.command, self.log = machine, name, command, log
        self.environment = os.environ | (environment or {})
        self.process = None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.machine.command(*self.command), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log,
                                            env=self.environment, start_new_session=True)

    def signal(self, number):
        send(self.process.pid, number)

    def kill(self):
        self.process.kill()
        self.process.wait(10)

    def end(self, seconds=20):
        """As asked; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
            return f"it did not end within {seconds} s"

    def running(self):
        return self.process is not None and self.process.poll() is None

    def descriptors(self):
        """What they are, numbers left out: "socket:", "anon_inode:[pidfd]" …"""
        found = []
        for name in os.listdir(f"/proc/{self.process.pid}/fd"):
            try:
                found.append(re.sub(r":\[\d+\]$", ":", os.readlink(f"/proc/{self.process.pid}/fd/{name}")))
            except OSError:
                pass
        return sorted(found)
