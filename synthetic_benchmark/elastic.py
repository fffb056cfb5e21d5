#!/usr/bin/env python3
"""elastic.py BIN PROGRAMS [--rounds N] [--mib N]: benchB and benchM of the earlier Flyt while their share changes and
while they move, by the commands of the earlier Flyt.

BIN: Flyt's; PROGRAMS: the folder of benchB and benchM (build/bench). A cluster of two nodes with software GPUs runs
them. Prints a table: the median of the rounds' times in each phase, the longest time between the ends of two rounds
beyond that of a phase without a change, and the "Time taken" that each command says.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "lib"))
from testlib import Local  # noqa: E402

LIMIT = 60                              # seconds for a phase


class Rounds:
    """A program that prints a line for each round, and when each line came."""

    def __init__(self, words, env):
        self.process = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True)
        self.ends, self.times = [], []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            match = re.match(r"time_us ([0-9.]+) ", line)
            if match:
                self.times.append(float(match.group(1)))
                self.ends.append(time.monotonic())

    def more(self, count):
        """So many more rounds; the times of these, and the longest gap between two ends."""
        first, until = len(self.ends), time.monotonic() + LIMIT
        while len(self.ends) < first + count:
            if self.process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"elastic.py: the program made no more rounds ({self.process.poll()})")
            time.sleep(0.01)
        return self.of(first)

    def of(self, first):
        gaps = [b - a for a, b in zip(self.ends[max(first - 1, 0):], self.ends[max(first, 1):])]
        return statistics.median(self.times[first:]) / 1000, max(gaps) * 1000

    def end(self):
        self.process.terminate()
        return self.process.wait(timeout=30)


def phases(cluster, rounds, count, mib):
    """Rows: what, median of the rounds, longest gap, what the command says; ms, ms, s."""
    rounds.more(3)
    rows = [("before", *rounds.more(count), None)]
    here = cluster.json("server", "list")[0]["node"]
    there = "node-2" if here == "node-1" else "node-1"
    small, large = f"{mib + 192}M", f"{mib + 320}M"
    for what, words in (("half of the SMs", ("change-config", "-s", "1", "-m", large)),
                        ("all SMs again, less memory", ("change-config", "-s", "2", "-m", small)),
                        ("more memory", ("inc-resources", "-m", "128M")),
                        ("less memory", ("dec-resources", "-m", "128M")),
                        ("another node", ("migrate", "-n", there, "-g", "0")),
                        ("back", ("migrate", "-n", here, "-g", "0"))):
        first = len(rounds.ends)
        said = cluster.ctl(words[0], "-i", "local", *words[1:])
        rounds.more(count)
        taken = re.search(r"Time taken: ([0-9.]+) s", said)
        rows.append((what, *rounds.of(first), float(taken.group(1)) if taken else None))
    return rows


def run(options, name, words, mib):
    memory = f"{2 * mib + 1024}M"
    with tempfile.TemporaryDirectory(prefix="flyt-elastic.") as folder, \
            Local(options.bin, os.path.join(folder, "cluster"), "--nodes", "2", "--memory", memory) as cluster:
        cluster.ctl("vm", "set", "local", "--sms", "2", "--memory", f"{mib + 320}M")
        program = [os.path.join(options.bin, "flyt-run"), os.path.join(options.programs, name), *words]
        rounds = Rounds(program, cluster.env)
        rows = phases(cluster, rounds, options.rounds, mib)
        usual = rows[0][2]
        for what, median, gap, taken in rows:
            print(f"| {name} {' '.join(words)} | {what} | {median:.2f} ms | "
                  f"{max(gap - usual, 0):.0f} ms | {'–' if taken is None else f'{taken:.3f} s'} |", flush=True)
        status = rounds.end()
    if status:
        raise SystemExit(f"elastic.py: {name} ended with status {status}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("programs")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--mib", type=int, default=512, help="what benchM holds")
    options = parser.parse_args()
    print("| program | phase | round, median | longest gap, beyond the one before | Time taken |")
    print("|---|---|---|---|---|")
    run(options, "benchB", ["1024", "50", "0", "20"], 0)
    run(options, "benchM", [str(options.mib), "50", "0", "20"], options.mib)


if __name__ == "__main__":
    main()
