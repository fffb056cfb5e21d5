"""moving.py: the section "moves" of bench.py: what moves, checkpoints and changes of a share cost a program.

A cluster of two nodes (flyt-local) and a program that holds memory (moving.cu). Times are those that the cluster says:
how long no call of the program could go on. What they are compared with is measured in the same repetition.
"""
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "lib"))
from measure import Problem, figures  # noqa: E402
from testlib import Local, until  # noqa: E402

MIB = 1 << 20
LANES = 4                               # connections between two servers (control-managers/node-manager/dial.c)
HANDLES = 300
SPARE, MORE = 192, 128                  # MiB that the VM has beyond what its program holds, and that it is given


class Program:
    def __init__(self, place, cluster, variables):
        self.process = subprocess.Popen(
            [os.path.join(place.bin, "flyt-run"), os.path.join(place.programs, "moving")], text=True,
            env=cluster.env | variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=place.on_two_cpus)
        self.hear("ready")
        self.id = str(cluster.json("program", "list")[0]["id"])

    def hear(self, word):
        words = self.process.stdout.readline().split()
        if words[:2] != [word, "0"]:
            raise Problem(f"the program that is to move: {word}: {words}")
        return float(words[2]) if len(words) > 2 else 0

    def tell(self, word, value=0):
        self.process.stdin.write(f"{word} {value}\n")
        self.process.stdin.flush()

    def ask(self, word, value=0):
        self.tell(word, value)
        return self.hear(word)


class Rig:
    """The cluster and its program."""

    def __init__(self, place, mib, **variables):
        self.place, self.dir = place, tempfile.mkdtemp(prefix="flyt-bench-moves.")
        self.cluster = Local(place.bin, self.dir, "--nodes", "2", "--memory", f"{mib + SPARE + MORE}M")
        self.program = None
        try:
            self.ctl("vm", "set", "local", "--sms", "2", "--memory", f"{mib + SPARE}M")
            self.program = Program(place, self.cluster, variables)
        except BaseException:
            self.down()
            raise

    def ctl(self, *words):
        """What `flytctl --json` says."""
        done = subprocess.run([os.path.join(self.place.bin, "flytctl"), "--json", *words], env=self.cluster.env,
                              capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise Problem(f"flytctl {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
        return json.loads(done.stdout) if done.stdout[:1] in ("{", "[") else {}

    def rows(self, *words):
        said = self.ctl(*words)
        return said if isinstance(said, list) else next(value for value in said.values() if isinstance(value, list))

    def elsewhere(self):
        servers = {row["id"]: row["node"] for row in self.rows("server", "list")}
        here = servers[self.rows("program", "list")[0]["server"]]
        return "--to", "node-2" if here == "node-1" else "node-1"

    def begin(self, *words):
        return subprocess.Popen([os.path.join(self.place.bin, "flytctl"), *words], env=self.cluster.env,
                                stdout=subprocess.DEVNULL)

    def migrate(self, *where):
        """Seconds that the program stood still, and bytes."""
        where = where or self.elsewhere()
        move = self.ctl("program", "migrate", self.program.id, *where)["move"]
        self.program.ask("handles", 0)                      # it answers
        until(lambda: len(self.rows("server", "list")) == 1, "what it had is free", 20)
        return move["outage_ms"] / 1e3, move["bytes"]

    def checkpoint(self, path, *more):
        self.ctl("program", "checkpoint", self.program.id, path, *more)
        move = self.rows("move", "list")[-1]
        return move["outage_ms"] / 1e3, move["bytes"]

    def down(self):
        if self.program:
            self.program.process.kill()
            self.program.process.communicate()
        self.cluster.down()
        shutil.rmtree(self.dir, ignore_errors=True)


def limit(place, *words):
    program = os.path.join(os.path.dirname(place.limits), "bench_moving_limits")
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise Problem(f"{program} {' '.join(map(str, words))}: {done.stderr.strip()}")
    return figures(done.stdout)


def available():
    """MiB of memory that this machine could give."""
    with open("/proc/meminfo") as info:
        return next(int(line.split()[1]) // 1024 for line in info if line.startswith("MemAvailable:"))


def sizes_of(r):
    return [mib for mib in r.size["moves"] if mib <= 256 or 4 * mib <= available()]


BUSY = 32                               # MiB that are written all the time


def between_nodes(r, rig):
    """Each size several times, at rest and while some of it is written; and what the bytes that are written take over
    as many connections."""
    for mib in sizes_of(r):
        rig.program.ask("hold", mib)
        stream = r.limit(f"stream {LANES} {min(max(mib, 64), 256) * MIB} move")["best_gbs"] * 1e9
        r.keep("moves.stream", stream / 1e9)
        for _ in range(r.size["turns"]):
            took, _ = rig.migrate()
            r.keep(f"moves.outage.{mib}m", took * 1e3)
            r.keep("moves.over", took * 1e3)
        rig.program.ask("busy", BUSY)
        for _ in range(r.size["turns"]):
            took, _ = rig.migrate()
            r.keep(f"moves.busy.{mib}m", took * 1e3)
            r.keep("moves.over", (took - BUSY * MIB / stream) * 1e3)
        rig.program.ask("busy", 0)


def watched(r, rig):
    """A kernel that writes rows, while the program's memory is copied so slowly that it is watched all the time."""
    for _ in range(r.size["turns"]):
        r.keep("watched.not", rig.program.ask("rate", 1))
        moving = rig.begin("program", "migrate", rig.program.id, *rig.elsewhere(), "--bandwidth", "16M")
        until(lambda: rig.rows("move", "list")[-1]["bytes_done"] > 0, "it copies", 20)
        r.keep("watched.is", rig.program.ask("rate", 1))
        rig.ctl("move", "cancel", str(rig.rows("move", "list")[-1]["id"]))
        if moving.wait(60) != 4:
            raise Problem("the move ended before the rate was known")


def straight(r, rig):
    """How fast bytes go, where all of them are copied at rest."""
    times = {}
    for mib in sizes_of(r):
        rig.program.ask("hold", mib)
        stream = r.limit(f"stream {LANES} {min(max(mib, 64), 256) * MIB} move")["best_gbs"] * 1e9
        for _ in range(r.size["turns"]):
            times.setdefault(mib, []).append(rig.migrate())
    few, many = (min((took, size) for took, size in times[mib]) for mib in (min(times), max(times)))
    if many[0] > few[0]:
        r.keep("moves.direct", (many[1] - few[1]) / (many[0] - few[0]) / 1e9)
        r.keep("moves.direct_stream", stream / 1e9)


def on_one_node(r, rig):
    rig.program.ask("handles", HANDLES)
    for _ in range(r.size["turns"]):
        took, size = rig.migrate("--fresh")
        if size >= MIB:
            raise Problem(f"{size} bytes were copied on one node")
        r.keep("moves.fresh", took * 1e3)
        r.keep("moves.fresh_over", took * 1e3 - 0.05 * HANDLES)


def checkpoints(r, rig, folder):
    """In a folder in memory, so that no cache of the kernel stands between the file and its disk."""
    whole, changes = (os.path.join(folder, name) for name in ("whole", "changes"))
    mib = max(sizes_of(r))
    packs, disk = limit(r.place, "pack", min(mib, 256))["gbs"], limit(r.place, "disk", folder + "/disk", mib)["gbs"]
    took, size = rig.checkpoint(whole)
    stored = os.path.getsize(whole)
    r.keep("checkpoint", size / took / 1e9)
    r.keep("checkpoint.limit", min(packs, disk * size / stored))
    r.keep("checkpoint.pack", packs)
    r.keep("checkpoint.disk", disk)
    rig.program.ask("dirty", 5 if mib >= 20 else 50)
    rig.checkpoint(changes, "--base", whole)
    r.keep("checkpoint.changes", os.path.getsize(changes) / stored)


def growth(r, rig):
    """From the command to the first use, without what a command takes that changes nothing."""
    for _ in range(r.size["turns"]):
        began = time.monotonic()
        rig.ctl("vm", "show", "local")
        nothing = time.monotonic() - began
        rig.program.tell("grow", SPARE + 16)
        time.sleep(0.05)                                    # it tries, and gets none
        began = time.monotonic()
        rig.ctl("inc-resources", "--ip", "local", "--memory", str(MORE))
        used = rig.program.hear("grow")
        r.keep("growth", (used - began - nothing) * 1e3)
        rig.ctl("dec-resources", "--ip", "local", "--memory", str(MORE), "--within", "5")


def gate(r):
    r.keep("gate_ns", limit(r.place, "gate")["gate_ns"])
    program = os.path.join(os.path.dirname(r.place.limits), "core_gate")
    said = subprocess.run([program], capture_output=True, text=True, timeout=120).stdout
    match = re.search(r"64 threads: at rest after ([\d.]+) ms", said)
    if not match:
        raise Problem(f"{program}: {said[-300:]}")
    r.keep("freeze", float(match.group(1)))
    found = r.program("null", "best", f"calls launches {r.size['launches']}")["per_second"]
    r.keep("gate_part", r.values["gate_ns"][-1] * found / 1e9)


def section(r):
    gate(r)
    mib = max(sizes_of(r))
    rig = Rig(r.place, mib)
    folder = tempfile.mkdtemp(prefix="flyt-bench.", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    try:
        between_nodes(r, rig)
        watched(r, rig)
        growth(r, rig)
        on_one_node(r, rig)
        checkpoints(r, rig, folder)
        if rig.program.ask("check") != 1:
            raise Problem("what the program has on its GPU is not what it was")
    finally:
        rig.down()
        shutil.rmtree(folder, ignore_errors=True)
    rig = Rig(r.place, mib, FLYT_PERF="no_rounds")
    try:
        straight(r, rig)
    finally:
        rig.down()


def p95(values):
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.95))]


def metrics(r):
    """The keys of bench.py's table; None where something was not measured."""
    v = r.values
    median = lambda name: statistics.median(v[name]) if v.get(name) else None
    return {
        "move_gate_launch_ratio": 1 - median("gate_part") if v.get("gate_part") else None,
        "move_direct_ratio": r.ratio("moves.direct", "moves.direct_stream"),
        "move_outage_over_ms": p95(v["moves.over"]) if v.get("moves.over") else None,
        "move_watched_ratio": r.ratio("watched.is", "watched.not"),
        "move_same_node_over_ms": p95(v["moves.fresh_over"]) if v.get("moves.fresh_over") else None,
        "move_freeze_64_ms": median("freeze"),
        "grow_usable_ms": median("growth"),
        "checkpoint_ratio": r.ratio("checkpoint", "checkpoint.limit"),
        "checkpoint_changes_ratio": median("checkpoint.changes"),
    }
