"""programs.py: CUDA programs that run and start all the time, and what they may see (the table is in chaos.py's head).

On each VM there are always: one that runs from beginning to end (a new one takes its place only when it was lost), one
that runs for some seconds, and short ones, started all the time.
"""
import os
import random
import re
import subprocess
import threading
import time

from cluster import HOST
from machines import slowness

LOST = "the connection to the GPU server"
# What is written in docs/troubleshooting.md, and of GPU servers that went away between the grant
# and the call.
REFUSALS = {
    "manager": r"no client manager answers at|the client manager went away before|does not answer as a client manager",
    "cluster": r"the cluster manager cannot be reached",
    "server": r"no GPU server answers at|does not answer as a GPU server|the connection to the GPU server .* is lost|"
              r"the GPU server .* went away during the handshake",
    "gone": r"no GPU for this program: .*(GPU server|node .* silent)",
}
FOREVER = 1e6
HANGS = 45          # seconds over its time after which a program is taken for stuck, on a machine that is not busy


class Program:
    def __init__(self, cluster, vm, kind, seconds, number):
        self.vm, self.kind, self.seconds, self.number = vm, kind, seconds, number
        self.log = f"{cluster.dir}/programs/{number}-{vm}-{kind}.log"
        environment = {k: v for k, v in os.environ.items() if k not in ("FLYT_SERVER", "LD_PRELOAD")}
        environment |= {"FLYT_MANAGER": f"{cluster.dir}/run/{vm}.sock", "FLYT_LOG": "info",
                        "FLYT_STATS": "1"} | cluster.program_environment
        with open(self.log, "wb") as log:
            command = cluster.machines[vm].command(f"{cluster.bin}/flyt-run", cluster.worker, str(seconds), str(number))
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                                            start_new_session=True)
        self.pid, self.started, self.ended = self.process.pid, time.monotonic(), None
        self.killed = False

    def text(self):
        with open(self.log, errors="replace") as file:
            return file.read()

    def place(self):
        """(server, node) that it was given; (None, None) before."""
        found = re.search(r"GPU server (\d+) on node (\S+?):", self.text())
        return (int(found.group(1)), found.group(2)) if found else (None, None)

    def near(self):
        """Whether it uses shared memory."""
        return self.vm == "vm1" and self.place()[1] == HOST

    def has_lost(self):
        """Whether it has noticed that its connection is gone. It ends up to three seconds later: it asks why first."""
        return LOST in self.text()

    def poll(self):
        if self.ended is None and self.process.poll() is not None:
            self.ended = time.monotonic()
        return self.ended is not None

    def outcome(self):
        """'passed', 'killed', 'lost', ('refused', why), or a sentence that says what is wrong."""
        text, status = self.text(), self.process.returncode
        if self.killed and status in (-9, 137):
            return "killed"
        if status == 0 and re.search(r"^passed: [1-9]", text, re.M):
            return "passed"
        if status == 3 and "CUDA error 46 " in text and LOST in text:
            return "lost"
        if status == 4 and re.search(r"CUDA error (46|802) ", text):
            for why, pattern in REFUSALS.items():
                if re.search(pattern, text):
                    return ("refused", why)
        return f"ended with {status}: {text.strip()[-1500:]}"

    def transport(self):
        found = re.search(r"received over (\w+)", self.text())
        return found.group(1) if found else "none"

    def longest(self):
        """Milliseconds of the longest round."""
        found = re.search(r"longest (\d+) ms", self.text())
        return int(found.group(1)) if found else 0


class Programs(threading.Thread):
    """Starts them and looks after them, until told to stop. `blows` is the list of what was done to the cluster."""

    def __init__(self, cluster, seed, blows):
        super().__init__(daemon=True)
        self.cluster, self.random, self.blows = cluster, random.Random(seed), blows
        self.lock = threading.Lock()
        self.running, self.done, self.problems = [], [], []
        self.number, self.starting, self.error = 0, True, None
        self.next_short, self.next_long, self.next_try = ({vm: 0.0 for vm in cluster.vms} for _ in range(3))

    def launch(self, vm, kind, seconds):
        self.number += 1
        self.running.append(Program(self.cluster, vm, kind, seconds, self.number))

    def fill(self):
        now = time.monotonic()
        for vm in self.cluster.vms:
            kinds = [p.kind for p in self.running if p.vm == vm]
            if "marathon" not in kinds and now >= self.next_try[vm]:
                self.next_try[vm] = now + 1         # one that is refused at once is not tried a thousand times
                self.launch(vm, "marathon", FOREVER)
            if "long" not in kinds and now >= self.next_long[vm]:
                self.next_long[vm] = now + 1
                self.launch(vm, "long", round(self.random.uniform(4, 12), 1))
            if kinds.count("short") < 2 and now >= self.next_short[vm]:
                self.launch(vm, "short", round(self.random.uniform(0.1, 0.6), 1))
                self.next_short[vm] = now + self.random.uniform(0.3, 0.9)

    def run(self):
        try:
            while self.starting or self.running:
                with self.lock:
                    if self.starting:
                        self.fill()
                    for program in [p for p in self.running if p.poll()]:
                        self.running.remove(program)
                        self.done.append(program)
                    for program in self.running:
                        end = program.started + program.seconds + HANGS * slowness()
                        if time.monotonic() > end and not program.killed:
                            program.killed = True
                            self.problems.append(f"{describe(program)} is stuck: {program.text().strip()[-800:]}")
                            program.process.kill()
                time.sleep(0.03)
        except BaseException as error:          # told by the main thread
            self.error = error
            raise

    def stop(self):
        """No new ones; waits for the others, marathons are told to end."""
        with self.lock:
            self.starting = False
            for program in self.running:
                if program.kind == "marathon":
                    program.process.terminate()
                    program.seconds = time.monotonic() - program.started
        self.join(HANGS * slowness() + 20)
        assert not self.is_alive() and self.error is None, f"programs do not end, or {self.error}"

    def snapshot(self):
        with self.lock:
            return [p for p in self.running if not p.poll()]

    def count(self):
        with self.lock:
            return len(self.done)

    def passed_since(self, when):
        """VMs on which a program that was started after that has passed."""
        with self.lock:
            return {p.vm for p in self.done if p.started >= when and p.process.returncode == 0}

    def since(self, when):
        """What has become of those that were started after that: a line for each."""
        with self.lock:
            programs = [p for p in self.done + self.running if p.started >= when]
        now = time.monotonic()
        return [f"{describe(p)} {f'ended with {p.process.returncode}' if p.ended else 'runs'} after "
                f"{(p.ended or now) - p.started:.1f} s: {p.text().strip().splitlines()[-1:]}" for p in programs]

    def kill_one(self):
        with self.lock:
            candidates = [p for p in self.running if not p.poll() and p.place()[0] and p.kind != "short"]
            if not candidates:
                return None
            program = self.random.choice(candidates)
            program.killed = True
            program.process.kill()
            return program

    def kill_all(self, vm):
        with self.lock:
            for program in self.running:
                if program.vm == vm and not program.poll():
                    program.killed = True
                    program.process.kill()

    # ---- verdicts ----

    def judge(self):
        """Everything that a program saw and should not have."""
        counts = {}
        with self.lock:
            done = list(self.done)
        for program in done:
            outcome = program.outcome()
            name = "refused" if isinstance(outcome, tuple) else "bad"
            name = outcome if outcome in ("passed", "killed", "lost") else name
            counts[name] = counts.get(name, 0) + 1
            if name in ("passed", "killed"):
                continue
            if name == "bad":
                self.problems.append(f"{describe(program)} {outcome}")
            elif not any(blow.excuses(program, outcome) for blow in self.blows):
                self.problems.append(f"{describe(program)}: {outcome}, which nothing excuses: "
                                     f"{program.text().strip()[-1200:]}")
        for blow in self.blows:
            self.problems += blow.missing(done)
        return counts


def describe(program):
    server, node = program.place()
    return f"program {program.number} ({program.kind} of {program.vm}, pid {program.pid}, server {server} on {node})"
