"""boxes.py: machines with a booted systemd, in which somebody can log in and type.

A box is a systemd-nspawn container: an overlay over the root file systems of make-roots, with the network namespace of
tests/cluster's machines. All of it is inside namespaces of the test's own, so nothing is left, however the test ends.
"""
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
ROOTS = os.path.join(TOP, "build/guide")
sys.path.insert(0, os.path.join(TOP, "tests/cluster"))
import machines                                                 # noqa: E402
from machines import ip                                  # noqa: E402
from testlib import until  # noqa: E402

NETWORK = machines.NETWORK = "10.0.0."                          # the guide's
USER = "ann"
MARK = "--said-and-done--"


class Unusable(Exception):
    """This machine boots no containers; the message says why."""


# ---- cgroups ----

def cgroup_folders():
    """The folder of our own cgroup in each hierarchy that systemd uses."""
    with open("/proc/self/cgroup") as lines:
        for line in lines:
            number, names, path = line.strip().split(":", 2)
            if names == "name=systemd":
                yield "/sys/fs/cgroup/systemd" + path
            elif number == "0":
                unified = "/sys/fs/cgroup/unified"
                yield (unified if os.path.isdir(unified) else "/sys/fs/cgroup") + path


def cgroup_remove(folder):
    """An empty tree of cgroups; one that is not empty stays."""
    for path, folders, _ in os.walk(folder, topdown=False):
        for name in folders:
            try:
                os.rmdir(os.path.join(path, name))
            except OSError:
                pass
    try:
        os.rmdir(folder)
    except OSError:
        pass


class Box:
    """One machine. root: its root folder as seen from here."""

    def __init__(self, name, number, work, build=False, binds=(), sudo=True):
        self.name, self.sudo, self.binds = name, sudo, binds
        self.network = machines.Machine(name, number)
        self.address = self.network.address
        self.folder = os.path.join(work, name)
        self.root = os.path.join(self.folder, "root")
        self.console = os.path.join(self.folder, "console")
        self.process = self.leader = None
        self.shells = {}
        for part in ("upper", "work", "root"):
            os.makedirs(os.path.join(self.folder, part))
        lower = f"{ROOTS}/build:{ROOTS}/base" if build else f"{ROOTS}/base"
        layers = f"lowerdir={lower},upperdir={self.folder}/upper,workdir={self.folder}/work"
        command = ["mount", "-t", "overlay", "overlay", "-o", layers, self.root]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Unusable(f"no overlay file system can be mounted here: {done.stderr.strip()}")

    def furnish(self, hosts):
        """What an administrator has done before reading the guide."""
        self.write("etc/hostname", self.name + "\n")
        self.write("etc/machine-id", "")
        self.write("etc/hosts", "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in hosts))
        subprocess.run(["chroot", self.root, "useradd", "--create-home", "--shell", "/bin/bash", USER], check=True)
        if self.sudo:
            self.write("etc/sudoers.d/ann", f"{USER} ALL=(ALL) NOPASSWD: ALL\n", 0o440)

    def path(self, name):
        return os.path.join(self.root, name.lstrip("/"))

    def write(self, name, text, mode=0o644):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as out:
            out.write(text)
        os.chmod(self.path(name), mode)

    # ---- life ----

    def boot(self):
        own = f"flyt-{os.path.basename(os.path.dirname(self.folder))}-{self.name}"
        self.cgroups = [os.path.join(folder, own) for folder in cgroup_folders()]
        for folder in self.cgroups:
            os.makedirs(folder, exist_ok=True)
        enter = "".join(f"echo $$ >{folder}/cgroup.procs && " for folder in self.cgroups)
        command = ["systemd-nspawn", "--register=no", "--keep-unit", "--quiet", f"--directory={self.root}",
                   f"--machine={self.name}", f"--network-namespace-path=/run/netns/{self.name}", "--resolv-conf=off",
                   "--timezone=off", "--boot"]
        command += [f"--bind{mode}={outside}:{inside}" for mode, outside, inside in self.binds]
        command = ["sh", "-c", enter + 'exec "$@"', "-", *command, "systemd.unit=multi-user.target"]
        with open(self.console, "wb") as console:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=console, stderr=console)

    def booted(self, seconds=180):
        """Waits until it is up."""
        def up():
            if self.process.poll() is not None:
                raise Unusable(f"systemd-nspawn boots nothing here: {self.last_words()}")
            self.leader = self.init()
            return self.leader and self.run("systemctl is-system-running --wait", None) in ("running", "degraded")
        try:
            until(up, f"{self.name} boots", seconds)
        except AssertionError as late:
            raise AssertionError(f"{late}: {self.last_words()}") from late

    def init(self):
        """The machine's process 1; None before there is one. systemd-nspawn's first child only makes it, and ends."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as children:
            for child in children.read().split():
                try:
                    with open(f"/proc/{child}/status") as status:
                        numbers = re.search(r"^NSpid:(.*)", status.read(), re.M).group(1).split()
                except FileNotFoundError:
                    continue                                    # it has just ended
                if len(numbers) > 1 and numbers[-1] == "1":
                    return int(child)
        return None

    def last_words(self):
        with open(self.console, errors="replace") as console:
            said = re.sub(r"\x1b\[[0-9;]*m", "", console.read())
        return " / ".join(line.strip() for line in said.splitlines() if line.strip())[-500:]

    def end(self):
        for shell in self.shells.values():
            shell.end()
        self.shells = {}
        if self.process:
            self.process.kill()
            self.process.wait()
        for folder in getattr(self, "cgroups", ()):
            cgroup_remove(folder)
        subprocess.run(["umount", "--lazy", self.root])
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- commands ----

    def enter(self, *words):
        return ["nsenter", f"--target={self.leader}", "--all", "--", *words]

    def run(self, command, expect=0, seconds=120):
        """As root, with nothing of a login. What it printed."""
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        try:
            done = subprocess.run(self.enter("env", "-i", path, "LC_ALL=C.UTF-8", "bash", "-c", command), text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  errors="replace", timeout=seconds)
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f"on {self.name}: {command}: not done within {seconds} s: {late.output}") from late
        said = done.stdout.strip()
        if expect is not None and done.returncode != expect:
            raise AssertionError(f"on {self.name}: {command}: exit status {done.returncode}: {said}")
        return said

    def processes(self):
        """{process id there: its command line}, of what runs beside this question."""
        look = r"""c=$(tr '\0' ' ' <$p/cmdline) && [ -n "$c" ] && echo "${p#/proc/} $c" """
        rows = self.run(f"for p in /proc/[0-9]*; do {look}; done 2>/dev/null", None).splitlines()
        found = {int(pid): command for pid, command in (row.split(" ", 1) for row in rows)}
        return {pid: command for pid, command in found.items() if "/proc/[0-9]*" not in command}

    def shell(self, user=USER):
        if user not in self.shells:
            self.shells[user] = Shell(self, user)
        return self.shells[user]

    def log_in_again(self):
        for shell in self.shells.values():
            shell.end()
        self.shells = {}


class Shell:
    """A login shell that is typed into."""

    def __init__(self, box, user):
        self.box = box
        self.process = subprocess.Popen(
            box.enter("systemd-run", "--quiet", "--pipe", "--wait", "--property=PAMName=login", f"--uid={user}",
                      f"--working-directory=/home/{user}", "--setenv=LC_ALL=C.UTF-8", "bash", "-l"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        os.set_blocking(self.process.stdout.fileno(), False)

    def type(self, command, given="", seconds=60):
        """Runs it, with `given` at standard input. (exit status, what it printed); status None: not done in time."""
        quoted = "'" + command.replace("'", "'\\''") + "'"
        text = "'" + given.replace("'", "'\\''") + "'"
        # A pipe at standard input, and not a file: /dev/stdin of another user's file could not be opened.
        line = f"eval {quoted} < <(printf %s {text}) 2>&1; printf '\\n%s %d\\n' {MARK} $?\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()
        said, end = b"", time.monotonic() + seconds
        while time.monotonic() < end:
            more = self.process.stdout.read()
            if more:
                said += more
            elif more == b"":
                break                                           # the shell has ended
            if match := re.search(rb"\n" + MARK.encode() + rb" (\d+)\n", said):
                return int(match.group(1)), said[:match.start()].decode(errors="replace").strip("\n")
            time.sleep(0.01)
        return None, said.decode(errors="replace")

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Boxes:
    """Those of one scenario, in one network."""

    def __init__(self, names, **options):
        """names: {name: last number of the address}."""
        clear()
        self.work = tempfile.mkdtemp(prefix="boxes-", dir=ROOTS)
        self.lock = lock(self.work)
        self.all = {}
        try:
            for name, number in names.items():
                self.all[name] = Box(name, number, self.work, **options)
            hosts = [(name, box.address) for name, box in self.all.items()]
            for box in self.all.values():
                box.furnish(hosts)
                box.boot()
            for box in self.all.values():
                box.booted()
        except BaseException:
            self.end()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def __getitem__(self, name):
        return self.all[name]

    def end(self):
        for name, box in self.all.items():
            box.end()
            ip(f"link del {name}", f"netns del {name}")
        shutil.rmtree(self.work, ignore_errors=True)
        self.lock.close()


def lock(folder):
    """Held as long as the folder is in use; None: somebody holds it."""
    file = open(os.path.join(folder, "lock"), "w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def clear():
    """Removes what is left of tests that were killed: their mounts and processes are gone already."""
    for name in os.listdir(ROOTS):
        if not name.startswith("boxes-") or not (held := lock(os.path.join(ROOTS, name))):
            continue
        for folder in cgroup_folders():
            for each in os.listdir(folder):
                if each.startswith(f"flyt-{name}-"):
                    cgroup_remove(os.path.join(folder, each))
        shutil.rmtree(os.path.join(ROOTS, name), ignore_errors=True)
        held.close()
