"""recovering.py: the section "recovery" of bench.py: what checkpoints cost a program, and how soon it is back.

Programs of one server. What they say of their checkpoints and of the loss of their worker is read from their logs.
"""
import os
import re
import signal
import statistics
import threading
import time

import measure
from measure import Problem

MIB = 1 << 20
KEPT = re.compile(r"a checkpoint took (\d+) ms, and the program stood still for (\d+) ms: (\d+) KiB were read from the "
                  r"GPU, and (\d+) KiB written")
LOST, BACK = re.compile(r"is lost: .* The program waits"), re.compile(r"the session goes on at")


class Protected:
    """The program `moving`, protected by checkpoints; its log, with the times at which lines came."""

    def __init__(self, r, recovery):
        self.server = r.servers["device"]
        self.process = measure.start(r.place, self.server, "best", ["moving"], stdin=-1, bufsize=1,
                                     env={"FLYT_RECOVERY": recovery, "FLYT_LOG": "info"})
        self.lines, self.news = [], threading.Condition()
        threading.Thread(target=self._follow, daemon=True).start()
        self._hear("ready")

    def _follow(self):
        for line in self.process.stderr:
            with self.news:
                self.lines.append((time.monotonic(), line))
                self.news.notify_all()

    def _hear(self, word):
        words = self.process.stdout.readline().split()
        if words[:2] != [word, "0"]:
            raise Problem(f"the program that is protected: {word}: {words}: {''.join(l for _, l in self.lines[-3:])}")
        return float(words[2]) if len(words) > 2 else 0

    def ask(self, word, value=0):
        self.process.stdin.write(f"{word} {value}\n")
        self.process.stdin.flush()
        return self._hear(word)

    def find(self, pattern, since, seconds):
        """The match, and when it came, of the first line behind that number of lines; the number of lines with it."""
        until = time.monotonic() + seconds
        with self.news:
            while True:
                for number, (when, line) in enumerate(self.lines[since:], since + 1):
                    if match := pattern.search(line):
                        return match, when, number
                if not self.news.wait(max(0, until - time.monotonic())) and time.monotonic() >= until:
                    raise Problem(f"the log of the program that is protected has no line like {pattern.pattern!r}")

    def kept(self, since, seconds=60):
        """Of the next checkpoint: ms that the program stood still, KiB read and written; the number of lines then."""
        match, _, number = self.find(KEPT, since, seconds)
        return [int(match.group(i)) for i in (2, 3, 4)], number

    def settled(self, seconds):
        """No checkpoint comes for so long."""
        number = len(self.lines)
        while True:
            try:
                number = self.kept(number, seconds)[1]
            except Problem:
                return number

    def end(self):
        self.process.kill()
        self.process.communicate()


def kept_and_lost(r):
    """A program with much memory: its checkpoints, and the way back."""
    mib = r.size["protected"]
    a = Protected(r, f"checkpoint:500ms:{2 * mib + 256}M")
    try:
        a.ask("hold", mib)
        at = a.settled(2)
        whole = [sum(int(m.group(i)) for _, line in a.lines if (m := KEPT.search(line))) for i in (3, 4)]
        for _ in range(r.size["turns"]):
            a.ask("handles", 1)
            (still, _, _), at = a.kept(at)
            r.keep("kept.nothing_ms", still)
        for _ in range(r.size["turns"]):
            at = a.settled(1)
            a.ask("dirty", 5 if mib >= 20 else 25)
            a.kept(at)
            at = a.settled(1)
            found = [list(map(int, m.groups())) for _, line in a.lines[-50:] if (m := KEPT.search(line))][-1]
            r.keep("kept.changes_ms", found[1])
            r.keep("kept.read", found[2] / whole[0])
            r.keep("kept.written", found[3] / whole[1])
        for _ in range(r.size["turns"]):
            at, begun = len(a.lines), len(a.server.lines)
            os.kill(a.server.worker(a.process.pid)[0], signal.SIGKILL)
            a.server.begun[a.process.pid] = begun
            _, lost, at = a.find(LOST, at, 10)
            _, back, at = a.find(BACK, at, 120)
            r.keep("recovered", back - lost)
        if a.ask("check") != 1:
            raise Problem("what the program has on its GPU is not what it was")
    finally:
        a.end()


def trained(r):
    """Training with checkpoints and without, in turn."""
    steps, width, held = r.size["training"]
    for turn in range(r.size["pairs_trained"]):
        found = {}
        for wish in ("off", "checkpoint:1s") if turn % 2 else ("checkpoint:1s", "off"):
            found[wish] = r.program("device", "best", f"training {steps} {width} {held}", limit=300,
                                    env={"FLYT_RECOVERY": wish, "FLYT_LOG": "info"})
        on, off = found["checkpoint:1s"], found["off"]
        if on["loss"] != off["loss"]:
            raise Problem(f"training with checkpoints ends with another loss: {on['loss']} {off['loss']}")
        kept = [list(map(int, found)) for found in KEPT.findall(on["errors"])]
        r.keep("training.checkpoints", len(kept))
        r.keep("training.still_ms", sum(still for _, still, _, _ in kept))
        r.keep("training.step_ms", off["time_us"] / 1e3 / (steps - 1))
        r.keep("training.ratio", on["time_us"] / off["time_us"])


def section(r):
    kept_and_lost(r)
    trained(r)


def interval(values):
    """Of a median, 95 %: between which of the ordered values it lies (binomial)."""
    ordered, n = sorted(values), len(values)
    low = max(0, int(n / 2 - 0.98 * n ** 0.5))
    return ordered[low], ordered[n - 1 - low]


def metrics(r):
    v = r.values
    median = lambda name: statistics.median(v[name]) if v.get(name) else None
    if len(v.get("training.ratio", [])) > 5:
        low, high = interval(v["training.ratio"])
        r.notes.append(f"training with checkpoints ÷ without: {median('training.ratio'):.3f} "
                       f"({low:.3f} to {high:.3f}), {len(v['training.ratio'])} pairs")
    return {
        "recovery_training_ratio": median("training.ratio"),
        "recovery_back_s": median("recovered"),
        "recovery_read_ratio": median("kept.read"),
        "recovery_written_ratio": median("kept.written"),
    }
