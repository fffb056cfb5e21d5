"""measure.py: runs servers and programs and reads the figures they print. Used by bench.py.

A program runs on the two CPUs of the bench, with its server; the raw limits pin one end to each of them. (The ends of
Flyt are not pinned to one CPU each: a process that may use only one does not spin while it waits, and that would be
another waiting policy than the one that is compared.)
"""
import os
import re
import subprocess
import threading
import time


class Problem(Exception):
    """Something that makes a figure, or the whole bench, worthless; its text says what."""


def figures(text):
    """`key value` lines as a dictionary of numbers."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2:
            try:
                found[words[0]] = float(words[1])
            except ValueError:
                pass
    return found


class Place:
    """Where things are: binaries, programs, CPUs, a folder for sockets."""

    def __init__(self, bindir, limits, programs, scratch):
        self.bin, self.limits = os.path.abspath(bindir), os.path.abspath(limits)
        self.programs, self.scratch = programs, scratch
        allowed = sorted(os.sched_getaffinity(0))
        self.cpus = (allowed[0], allowed[1] if len(allowed) > 1 else allowed[0])

    def on_two_cpus(self):
        os.sched_setaffinity(0, set(self.cpus))

    def limit(self, what, ms):
        command = [self.limits, "--cpus", "%d,%d" % self.cpus, "--ms", str(ms)] + what.split()
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise Problem(f"{' '.join(command)}: {done.stderr.strip()}")
        return figures(done.stdout)


class Server:
    """A cricket-rpc-server on a unix socket and two TCP ports, one of them with TLS, its log read as it comes."""

    def __init__(self, place, gpu, name=None, env=None):
        self.place, self.gpu = place, gpu
        self.path = os.path.join(place.scratch, (name or gpu) + ".sock")
        self.lines, self.news = [], threading.Condition()
        self.begun = {}         # process id of a client: the log's lines before it. The system uses process ids again
        self.process = subprocess.Popen(
            [os.path.join(place.bin, "cricket-rpc-server"), "--listen", "unix://" + self.path, "--listen",
             "tcp://127.0.0.1:0",
             "--listen", "tls://127.0.0.1:0", "--plain-tcp", "--gpu", gpu],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "FLYT_LOG": "info", **(env or {})}, preexec_fn=place.on_two_cpus)
        uris = []
        while len(uris) < 3:
            line = self.process.stdout.readline()
            if not line:
                raise Problem("the server did not start: " + self.process.stderr.read().strip())
            if match := re.search(r"listening on (\S+)", line):
                uris.append(match.group(1))
        self.port = int(uris[1].rsplit(":", 1)[1])
        self.tls = uris[2]
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self):
        for line in self.process.stderr:
            with self.news:
                self.lines.append(line)
                self.news.notify_all()

    def find(self, pattern, client, seconds=5):
        """The first match of a line of the log since a client's start, waited for; None after so many seconds."""
        expression, end, at = re.compile(pattern), time.monotonic() + seconds, self.begun.get(client, 0)
        with self.news:
            while True:
                for line in self.lines[at:]:
                    if match := expression.search(line):
                        return match
                at = len(self.lines)
                if not self.news.wait(max(0.0, end - time.monotonic())) and time.monotonic() >= end:
                    return None

    def uri(self, transport):
        return {"shm": f"shm://{self.path}", "unix": f"unix://{self.path}", "tcp": f"tcp://127.0.0.1:{self.port}",
                "tls": self.tls}[transport]

    def worker(self, client):
        """(process id of the worker that serves a client process, the transport they agreed on)."""
        match = self.find(r"flyt-worker\[(\d+)\] info: event=session-began \S+ program=\S*\[%d\] "
                          r"transport=(\w+)" % client,
                          client)
        if not match:
            raise Problem(f"the server's log does not name the session of process {client}")
        return int(match.group(1)), match.group(2)

    def null_launches(self, client):
        worker, _ = self.worker(client)
        match = self.find(r"flyt-worker\[%d\] info: event=null-device launches=(\d+)" % worker, client, 10)
        if not match:
            raise Problem(f"worker {worker} did not say how many launches the null device was given")
        return int(match.group(1))

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Local:
    """No server: client and server in the program's own process."""

    def __init__(self, gpu):
        self.gpu = gpu

    def uri(self, transport):
        return f"local:{self.gpu}"


def environment(place, server, transport, perf):
    """A plain unix socket or TCP is asked for by switching shared memory off."""
    switches = ([] if transport in ("shm", "local", "best") else ["no_shm"]) + ([perf] if perf else [])
    env = {k: v for k, v in os.environ.items() if not k.startswith("FLYT_") or k.startswith("FLYT_SOFTGPU")}
    env.update(FLYT_SERVER=server.uri("unix" if transport == "best" else transport),
               LD_LIBRARY_PATH=os.path.join(place.bin, "cudart"))
    if switches:
        env["FLYT_PERF"] = ",".join(switches)
    return env


def connections(port):
    """Established TCP connections to a port of this machine, as the clients see them."""
    count = 0
    with open("/proc/net/tcp") as table:
        for line in table:
            words = line.split()
            if len(words) > 3 and words[3] == "01" and int(words[2].split(":")[1], 16) == port:
                count += 1
    return count


def start(place, server, transport, arguments, perf="", **more):
    command = [os.path.join(place.programs, arguments[0])] + [str(a) for a in arguments[1:]]
    lines_before = len(server.lines) if isinstance(server, Server) else 0
    variables = {**environment(place, server, transport, perf), **more.pop("env", {})}
    process = subprocess.Popen(command, env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               preexec_fn=place.on_two_cpus, **more)
    if isinstance(server, Server):
        server.begun[process.pid] = lines_before
    return process


def run(place, server, transport, words, perf="", limit=60, env=None):
    """Runs a program; its figures. Under a null server the launches are compared with what the device was given."""
    arguments = words.split() if isinstance(words, str) else words
    process = start(place, server, transport, arguments, perf, stdin=subprocess.DEVNULL, env=env or {})
    lanes = 0
    try:
        if transport == "tcp":
            time.sleep(0.08)
            lanes = connections(server.port)
        output, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Problem(f"{' '.join(map(str, arguments))} over {transport}: ran past {limit} s")
    if process.returncode:
        raise Problem(f"{' '.join(map(str, arguments))} over {transport}: exit status {process.returncode}: "
                      f"{errors.strip()[-300:]}")
    found = figures(output)
    if isinstance(server, Server):
        _, agreed = server.worker(process.pid)
        if transport != "best" and agreed != transport:
            raise Problem(f"{arguments[1]}: {transport} was asked for, {agreed} was used")
        found["transport"] = agreed
        if server.gpu == "null" and "launches" in found:
            given = server.null_launches(process.pid)
            if given != int(found["launches"]):
                raise Problem(f"{' '.join(map(str, arguments))} over {transport}: {int(found['launches'])} "
                              f"launches were sent, "
                              f"the null device was given {given}")
            found["counted"] = given
    if lanes:
        found["lanes"] = lanes
    found["errors"] = errors
    return found


def resident(pid):
    """Bytes of memory that a process has for itself and has written. (Unwritten pages of its libraries count as private
    or shared by who else happens to run.)"""
    total = 0
    with open(f"/proc/{pid}/smaps_rollup") as rollup:
        for line in rollup:
            if line.startswith(("Private_Dirty:", "Swap:")):
                total += int(line.split()[1]) * 1024
    return total


class Link:
    """A TCP link of so many bytes a second (all connections together, each way) in front of a port of this machine:
    link.c."""

    def __init__(self, place, port, bytes_per_second, delay_us=0):
        program = os.path.join(os.path.dirname(place.limits), "bench_link")
        self.process = subprocess.Popen([program, str(port), str(int(bytes_per_second)), str(delay_us)],
                                        stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        words = self.process.stdout.readline().split()
        if len(words) != 2:
            raise Problem(f"{program} did not start")
        self.port = int(words[1])

    def uri(self, transport):
        return f"tcp://127.0.0.1:{self.port}"

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(10)
