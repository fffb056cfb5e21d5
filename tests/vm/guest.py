"""guest.py: a virtual machine under QEMU. Its programs are the host's. It does what it is told over a serial line."""
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

REPO = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
sys.path.insert(0, os.path.join(REPO, "tests/lib"))
import testlib  # noqa: E402

MADE = os.path.join(REPO, "build/vm")
TREE = os.path.join(MADE, "modules")          # modules() fills it
ACCELERATION = {"tcg": ("-accel", "tcg,thread=multi", "-cpu", "max"), "kvm": ("-accel", "kvm", "-cpu", "host")}
BOOT_SECONDS, COMMAND_SECONDS = 100, 60
TAIL = 16                                       # MiB
HOST = "10.0.2.2"                               # what the guest calls the machine that QEMU runs on


def made():
    """None; or why no guest can be had here."""
    done = subprocess.run([os.path.join(REPO, "tests/vm/make-guest")], capture_output=True, text=True, timeout=300)
    said = done.stderr.strip().splitlines() or ["make-guest failed"]
    return None if done.returncode == 0 else f"no virtual machine can be had: {said[-1]}"


def skip_if(why):
    """Ends a test that cannot run here. why: of None or False: it can."""
    if why:
        sys.exit(testlib.skip_all(why))


def modules():
    """The kernel's modules, where guests see them. Why not, or None."""
    packages = glob.glob(f"{MADE}/packages/*.deb")
    if os.path.isdir(f"{TREE}/lib/modules"):
        return None
    if not packages:
        return "the packages of the guests' kernel are gone: remove build/vm"
    made = tempfile.mkdtemp(prefix="modules.", dir=MADE)
    for package in packages:
        subprocess.run(["dpkg", "-x", package, made], check=True)
    version, = os.listdir(f"{made}/lib/modules")
    subprocess.run(["/sbin/depmod", "-b", made, version], check=True)
    os.chmod(made, 0o755)
    try:
        os.rename(made, TREE)
    except OSError:                             # another one was quicker
        shutil.rmtree(made)
    return None


def accelerator():
    """tcg unless asked otherwise: where /dev/kvm is, Debian's kernel need not run under it."""
    return os.environ.get("FLYT_TEST_VM_ACCEL") or "tcg"


def small_root(programs, bindir, folder):
    """Writes a first file system that has all that these programs need, and the client's part of Flyt. Its name."""
    files = {*programs, "tests/vm/agent", f"{bindir}/flyt-run", f"{bindir}/libflyt-client.so", "/bin/bash",
             *glob.glob(f"{bindir}/cudart/*"), *glob.glob("/lib/x86_64-linux-gnu/libgcc_s.so*")}
    files = {os.path.join(REPO, name) for name in files}
    for name in list(files):
        done = subprocess.run(["ldd", name], capture_output=True, text=True)
        files |= {word for word in done.stdout.split() if word.startswith("/") and not word.startswith(REPO)}
    parents = set()
    for name in files:
        while (name := os.path.dirname(name)) != "/":
            parents.add(name)
    path = os.path.join(folder, "root.cpio")
    shutil.copy(f"{MADE}/initrd", path)
    size = os.path.getsize(path)
    with open(path, "ab") as file:
        file.write(b"\0" * (-size % 512))          # the kernel takes one archive behind another
        # -L: what is behind the links
        subprocess.run(["cpio", "--quiet", "-o", "-L", "-H", "newc"], input="\n".join(sorted(parents) + sorted(files)),
                       text=True, stdout=file, check=True, cwd="/")
    return path


class Guest:
    """shared: (path, bytes) of the memory of an ivshmem device; QEMU makes the file if it is not there. ours: the same
    of a part of the guest's own memory, which its kernel leaves alone and shows as a dax device. root: what small_root
    made, in place of the host's files. state: a file that `save` wrote; QEMU saves no guest that sees the
    host's files. cable: (path of a socket, "on" or "off"): a second network card, whose cable leads to the guest that
    has the same path and the other word; the one with "on" is started first."""

    def __init__(self, name, memory=192, shared=None, ours=None, root=None, state=None, writable=False, cable=None):
        self.name, self.folder = name, tempfile.mkdtemp(prefix="flyt-vm.")
        self.console = os.path.join(self.folder, "console")
        words = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-name", name,
                 "-machine", "q35", *ACCELERATION[accelerator()], "-smp", "1", *self._memory(memory, ours),
                 "-kernel", f"{MADE}/vmlinux", "-initrd", root or f"{MADE}/initrd",
                 "-append", f"console=ttyS0 quiet no_timer_check flyt.repo={REPO}"
                 + (" flyt.root=ram" if root else " flyt.root=writable" if writable else "")
                 + (f" memmap={ours[1] >> 20}M%{memory - TAIL}M-1+0xefffffff" if ours else ""),
                 "-serial", f"file:{self.console}",
                 "-chardev", f"socket,id=agent,path={self.folder}/agent,server=on,wait=off", "-serial", "chardev:agent",
                 "-qmp", f"unix:{self.folder}/qmp,server=on,wait=off",
                 "-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile="]
        if not root:
            words += ["-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
                      "-device", "virtio-9p-pci,fsdev=root,mount_tag=host"]
        if shared:
            path, size = shared
            words += ["-object", f"memory-backend-file,id=flyt,mem-path={path},size={size},share=on",
                      "-device", "ivshmem-plain,memdev=flyt,master=on"]
        if cable:
            path, serves = cable
            words += ["-netdev", f"stream,id=cable,server={serves},addr.type=unix,addr.path={path}", "-device",
                      f"virtio-net-pci,netdev=cable,romfile=,mac=52:54:00:77:00:{1 if serves == 'on' else 2:02d}"]
        if state:
            words += ["-incoming", f"exec:cat {state}"]
        self.began = time.monotonic()
        self.errors = open(os.path.join(self.folder, "errors"), "w+")
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.errors, stderr=self.errors)
        self.line, self.bytes = self._connect("agent"), b""
        if state:
            while self.monitor(("query-status", {}))[0]["status"] == "inmigrate":
                time.sleep(0.02)
            self.go_on()
            self.run("true")
        else:
            self.ready()

    @staticmethod
    def _memory(memory, ours):
        """QEMU's arguments. The firmware keeps the end of the memory, so the file is not its last part."""
        if not ours:
            return ("-m", f"{memory}M")
        path, size = ours
        parts = (("ram", f"{memory - TAIL}M", ""), ("file", size, f",mem-path={path},share=on"),
                 ("ram", f"{TAIL}M", ""))
        words = ["-m", f"{memory + (size >> 20)}M"]
        for number, (kind, bytes_, more) in enumerate(parts):
            words += ["-object", f"memory-backend-{kind},id=m{number},size={bytes_}{more}",
                      "-numa", f"node,memdev=m{number}" + (",cpus=0" if number == 0 else "")]
        return words

    def _connect(self, name):
        end = time.monotonic() + 20
        while True:
            line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                line.connect(os.path.join(self.folder, name))
                return line
            except OSError as problem:
                line.close()
                if time.monotonic() > end or self.process.poll() is not None:
                    raise AssertionError(f"QEMU did not start: {problem}\n{self.said()}") from None
                time.sleep(0.02)

    def said(self):
        """What QEMU and the guest's kernel printed, for messages."""
        self.errors.seek(0)
        text = self.errors.read()
        try:
            with open(self.console, errors="replace") as file:
                text += file.read()
        except OSError:
            pass
        return text[-2000:]

    # ---- the agent ----

    def _read(self, enough, seconds, what):
        end = time.monotonic() + seconds
        while not enough():
            self.line.settimeout(max(end - time.monotonic(), 0.001))
            try:
                came = self.line.recv(65536)
            except TimeoutError:
                raise AssertionError(f"guest {self.name}: nothing within {seconds} s: {what}\n{self.said()}") from None
            if not came:
                raise AssertionError(f"guest {self.name} has ended: {what}\n{self.said()}")
            self.bytes += came

    def ready(self):
        """Waits until it has booted; `seconds` is how long that took."""
        self.bytes = b""
        self._read(lambda: b"ready\n" in self.bytes, BOOT_SECONDS, "its boot")
        self.bytes = self.bytes.split(b"ready\n", 1)[1]
        self.seconds = time.monotonic() - self.began

    def run(self, command, seconds=COMMAND_SECONDS):
        """(exit status, what it printed) of a shell command in the sources' folder, which has the host's path."""
        assert "\n" not in command
        self.line.settimeout(10)
        self.line.sendall(command.encode() + b"\n")
        self._read(lambda: b"\n" in self.bytes, seconds, command)
        head, self.bytes = self.bytes.split(b"\n", 1)
        match = re.fullmatch(rb"done (\d+) (\d+)", head)
        assert match, f"guest {self.name}: the agent says {head!r} to {command}"
        size = int(match.group(2))
        self._read(lambda: len(self.bytes) >= size, seconds, command)
        text, self.bytes = self.bytes[:size], self.bytes[size:]
        return int(match.group(1)), text.decode(errors="replace")

    def must(self, command, seconds=COMMAND_SECONDS):
        status, text = self.run(command, seconds)
        assert status == 0, f"guest {self.name}: {command} ended with {status}:\n{text[-2000:]}"
        return text

    def repeat(self, command, seconds=60):
        """Repeats a command until it succeeds; what it printed then."""
        return testlib.until(lambda: (self.must(command),), f"guest {self.name}: {command}", seconds)[0]

    # ---- QEMU ----

    def monitor(self, *commands):
        """Commands of QMP, each (name, arguments); the answers' values."""
        answers = []
        with self._connect("qmp") as line, line.makefile("rw") as file:
            file.readline()
            for name, arguments in (("qmp_capabilities", {}), *commands):
                file.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
                file.flush()
                while True:
                    answer = json.loads(file.readline())
                    assert "error" not in answer, f"{name}: {answer}"
                    if "return" in answer:
                        answers.append(answer["return"])
                        break
        return answers[1:]

    def pause(self):
        self.monitor(("stop", {}))

    def go_on(self):
        self.monitor(("cont", {}))

    def reset(self):
        """As the reset button: the guest boots again."""
        self.began = time.monotonic()
        self.monitor(("system_reset", {}))
        self.ready()

    def save(self, path):
        """Its state, into a file from which Guest(state=path) goes on."""
        self.monitor(("stop", {}), ("migrate", {"uri": f"exec:cat >{path}"}))
        end = time.monotonic() + 30
        while (status := self.monitor(("query-migrate", {}))[0].get("status")) != "completed":
            assert status != "failed" and time.monotonic() < end, f"saving guest {self.name}: {status}"
            time.sleep(0.02)

    def kill(self):
        """As a power cut."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.line.close()
        self.errors.close()
        shutil.rmtree(self.folder, ignore_errors=True)
