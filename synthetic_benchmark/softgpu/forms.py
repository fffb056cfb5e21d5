#!/usr/bin/env python3
"""forms.py SOURCES DIR: public programs that have a CUDA and an OpenMP form, on the software GPU and on the processor.

    forms.py SOURCES DIR [--bin DIR] [--rounds N] [--parts build,check,measure,table] [--seconds S]
             [--forms openmp,off,on] [--avx2] [NAME ...]

SOURCES holds a checkout of HeCBench, of which forms.tsv names 20 programs. Both forms of each are built into DIR: the
CUDA form as PTX, the OpenMP form for the host (`g++ -O3 -march=native -fopenmp`; its directives ask for a device,
and without one the host executes them). The parts, of which each can be run alone, because they keep what they found
in DIR/found.json:

    build      builds the forms that DIR does not have yet
    check      both forms print the same results: lines without times are compared, numbers to 10⁻³
    measure    how many repetitions the warm-up and a measurement need, then rounds in which the forms take turns, until
               each program has N; begins no more after S seconds. Compiled code is kept in DIR/NAME.compiled, and the
               warm-up lasts until the compiler has no work left: a run with FLYT_STATS=1 says when it ended, and its
               repetitions are doubled until no region was compiled in the second half, or it takes 20 s of processor
               time
    table      the ratios, as Markdown

The time of a repetition is the difference of two processes with different numbers of repetitions, divided by the
difference of the numbers. So what happens once (set-up, the first runs of code before it is compiled, compiling, the
program's own check) is in neither. The OpenMP form has the numbers of repetitions of compiled code, but no more than
5 s of warm-up, since it has nothing to compile. The table has the median of the rounds and, beside it, what happens
once: the processor time of compiling, in all, and `*` where the second half of the longest warm-up still had some.
With --avx2, no form has AVX-512; it wants a DIR of its own. A program whose OpenMP form moves more than 70 % of what
that of babelstream moves in a second stands apart. Exit status 1: a program failed or two forms disagree.
"""
import argparse
import csv
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests/programs"))
from trial import VARIES  # noqa: E402

FORMS = ("openmp", "off", "on")
PARTS = ("build", "check", "measure", "table")
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
TOLERANCE = 1e-3
# Of programs that measure what they print: the lines of babelstream and ising that have a rate without its unit.
RATES = re.compile(r"^(?:Copy|Mul|Add|Triad|Dot|Nstream) |updates per")
# Seconds of processor time before the measurement, so that hot code is compiled, and of the measurement.
WARM = {"openmp": 5, "off": 0.1, "on": 2.5}
WARM_MOST = 20
TRIES = 4
LONG = 4
COMPILED = re.compile(r"^softgpu: compiled (\d+) regions in ([\d.]+) ms", re.M)
ENDED = re.compile(r"^softgpu: the compiler ended after ([\d.]+) ms of the process's processor time; (\d+) wait", re.M)
LIMIT = 1200
APART = 0.7


class Program:
    def __init__(self, row, options):
        self.name, self.arguments, other, flags, moved, self.change, self.what = row
        self.other = other or self.arguments
        self.flags = flags.split()
        self.moved = float(moved) * 1e6 if moved else 0
        self.options = options
        self.found = options.found.setdefault(self.name, {})

    def binary(self, form):
        return os.path.join(self.options.dir, f"{self.name}.{'openmp' if form == 'openmp' else 'cuda'}")

    def kept(self):
        return os.path.abspath(os.path.join(self.options.dir, f"{self.name}.compiled"))

    def folder(self, form):
        kind = "omp" if form == "openmp" else "cuda"
        return os.path.join(self.options.sources, "HeCBench/src", f"{self.name}-{kind}")

    def build(self):
        """Empty when both forms are there, else why not."""
        for form in ("openmp", "off"):
            if os.path.exists(self.binary(form)):
                continue
            folder = self.folder(form)
            with open(f"{folder}/Makefile", encoding="utf-8") as file:
                names = re.search(r"^source\s*=\s*(.*)", file.read(), re.M).group(1).split()
            if self.change:
                names = [self.changed(folder, name) for name in names]
            if form == "openmp":
                command = ["g++", "-O3", f"-march={'x86-64-v3' if self.options.avx2 else 'native'}", "-fopenmp"]
            else:
                command = [self.options.compiler, "-std=c++17", "-O3", "-arch=compute_80", "-cudart", "shared"]
            command += ["-w", *self.flags, "-I.", f"-I../{self.name}-cuda", *names, "-o", self.binary(form)]
            done = subprocess.run(command, cwd=folder, stderr=subprocess.PIPE, text=True)
            if done.returncode:
                return f"{form}: {(done.stderr.splitlines() or ['it failed'])[0][:140]}"
        return ""

    def changed(self, folder, name):
        _, found, instead, _ = self.change.split("/")
        with open(f"{folder}/{name}", encoding="utf-8") as file:
            text = file.read()
        with open(f"{folder}/smaller-{name}", "w", encoding="utf-8") as file:
            file.write(text.replace(found, instead))
        return f"smaller-{name}"

    def run(self, form, repetitions, check=0, **more):
        """(seconds, seconds of processor time, what it printed)"""
        environment = dict(os.environ, OMP_WAIT_POLICY="passive", **more)
        if form != "openmp":
            environment.update(FLYT_SERVER="local:", FLYT_SOFTGPU_JIT=form, FLYT_SOFTGPU_CACHE=self.kept())
            environment.update({"FLYT_SOFTGPU_CPU": "v3"} if self.options.avx2 else {})
            environment["LD_LIBRARY_PATH"] = os.path.abspath(os.path.join(self.options.bin, "cudart"))
        words = (self.other if form == "openmp" else self.arguments).format(n=repetitions, check=check).split()
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run([self.binary(form), *words], cwd=self.folder(form), env=environment, timeout=LIMIT,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise RuntimeError(f"{form}: exit status {done.returncode}: {done.stdout.strip()[-200:]}")
        return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout

    def lines(self, form):
        """What a form prints, but for times, or the picture that it writes: each byte is a line."""
        text = self.run(form, 3, 1)[2]
        for name in os.listdir(self.folder(form)):
            if name.endswith(".ppm"):
                with open(os.path.join(self.folder(form), name), "rb") as file:
                    return list(map(str, file.read()))
        return [line for line in text.splitlines() if not VARIES.search(line) and not RATES.search(line)]

    def check(self):
        if "checked" in self.found:
            return ""
        printed = {form: self.lines(form) for form in FORMS}
        lines = compared(printed["openmp"], printed["off"])
        if printed["off"] != printed["on"]:
            return "compiled code prints other results than interpreted"
        bad = [line for form in FORMS for line in printed[form] if re.search(r"\bFAIL", line)]
        if bad:
            return bad[0]
        passes = all("PASS" in "".join(printed[form]) for form in FORMS)
        of = max(len(printed["openmp"]), len(printed["off"]))
        if not passes and lines < of / 2:
            return f"of {of} lines {lines} are the same"
        self.found["checked"] = "both pass" if passes else f"{lines} of {of} lines"
        return ""

    def cost(self, form):
        """Processor time of a repetition, before anything is compiled."""
        first, more = self.run(form, 3)[1], 2
        while (cost := (self.run(form, 3 + more)[1] - first) / more) * more < 0.15:
            more *= 4
        return cost

    def warm(self, cost):
        """Repetitions until the compiler has no work left, and what one costs then at most."""
        repetitions, seconds = 3 + int(WARM["on"] / cost), 0
        shutil.rmtree(self.kept(), ignore_errors=True)
        while True:
            _, spent, text = self.run("on", repetitions, FLYT_STATS="1")
            ended, waiting = ENDED.search(text).groups()
            regions, time = COMPILED.search(text).groups()
            seconds += float(time) / 1e3
            done = waiting == "0" and float(ended) / 1e3 < spent / 2
            if done or spent > WARM_MOST:
                break
            repetitions *= 2
        self.found["compiled"] = {"regions": int(regions), "seconds": seconds, "all": done}
        return repetitions, (spent - float(time) / 1e3) / repetitions

    def count(self):
        """How many repetitions each form needs."""
        counts, cost = {}, {form: self.cost(form) for form in self.options.forms}
        for form in self.options.forms:
            counts[form] = [3 + int(WARM[form] / cost[form]), max(1, int(LONG / cost[form]))]
        if "on" in cost:
            warm, least = self.warm(cost["on"])
            # The longer the warm-up, the more its two runs differ.
            counts["on"] = [warm, max(1, int(LONG / least), counts.get("openmp", [0, 0])[1], warm // 4)]
            if "openmp" in cost:
                counts["openmp"] = [min(warm, counts["openmp"][0]), counts["on"][1]]
        self.found["counts"] = counts

    def steady(self, form, repetitions):
        """The first of some runs in which the compiler had nearly nothing to do: what one compiles, the next finds."""
        for _ in range(TRIES):
            done = self.run(form, repetitions, FLYT_STATS="1")
            found = COMPILED.search(done[2]) if form == "on" else None
            if not found or float(found[2]) / 1e3 < done[1] / 100:
                break
        return done

    def measure(self):
        if "counts" not in self.found:
            self.count()
        for form in self.options.forms:
            warm, more = self.found["counts"][form]
            short, long = self.steady(form, warm), self.steady(form, warm + more)
            times = [(long[i] - short[i]) / more for i in (0, 1)]
            self.found.setdefault("times", {}).setdefault(form, []).append(times)

    def rounds(self):
        return min((len(self.found.get("times", {}).get(form, [])) for form in self.options.forms), default=0)

    def time(self, form, which):
        return statistics.median(one[which] for one in self.found["times"][form])

    def ratio(self, form, which):
        return self.time(form, which) / self.time("openmp", which)


def same(line, other):
    if line == other or NUMBER.sub("#", line) != NUMBER.sub("#", other):
        return line == other
    pairs = zip(map(float, NUMBER.findall(line)), map(float, NUMBER.findall(other)))
    return all(abs(x - y) <= TOLERANCE * max(abs(x), abs(y), 1e-6) for x, y in pairs)


def compared(here, there):
    """How many lines of two outputs have the same words and, nearly, the same numbers."""
    if len(here) == len(there):
        return sum(map(same, here, there))
    equal, left = 0, list(there)
    for line in filter(str.strip, here):
        for other in left:
            if same(line, other):
                left.remove(other)
                equal += 1
                break
    return equal


def rate(programs):
    """Bytes per second that the memory gives, by the best of the programs that say what they move."""
    measured = [one for one in programs if one.moved and "openmp" in one.found.get("times", {})]
    return max((one.moved / one.time("openmp", 0) for one in measured), default=0)


def ratios(programs, form, which):
    """Their median as a cell of the table."""
    found = [one.ratio(form, which) for one in programs if form in one.found["times"]]
    return f"{statistics.median(found):.2f}" if found else ""


def compiling(one):
    found = one.found.get("compiled")
    return f"{found['seconds']:.1f} s{'' if found['all'] else '*'}" if found else ""


def print_table(programs):
    best = rate(programs)
    print("| | OpenMP, ms | off ÷ OpenMP | on ÷ OpenMP | off, CPU | on, CPU | compiling | results |")
    print("|---" * 8 + "|")
    groups = {"": [], "apart": []}
    for one in programs:
        if "openmp" not in one.found.get("times", {}):
            continue
        apart = best and one.moved / one.time("openmp", 0) > APART * best
        groups["apart" if apart else ""].append(one)
    for group, members in groups.items():
        for one in members:
            cells = [f"{one.time('openmp', 0) * 1e3:.3g}"]
            cells += [ratios([one], form, which) for which in (0, 1) for form in ("off", "on")]
            print(f"| {one.name}{' (apart)' if group else ''} | "
                  + " | ".join(cells + [compiling(one), one.found.get("checked", "")]) + " |")
        if members:
            cells = [ratios(members, form, which) for which in (0, 1) for form in ("off", "on")]
            print(f"| **median{', apart' if group else f' of {len(members)}'}** | | " + " | ".join(cells) + " | | |")
    print(f"\nThe memory's rate: {best / 1e9:.1f} GB/s. OpenMP, ms: of one repetition, two threads. Compiling: in all.")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sources", type=os.path.abspath)
    parser.add_argument("dir", type=os.path.abspath)
    parser.add_argument("--bin", default=os.path.join(ROOT, "bin"))
    parser.add_argument("--compiler", default=os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin/nvcc"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--forms", type=lambda text: text.split(","), default=list(FORMS))
    parser.add_argument("--avx2", action="store_true", help="without AVX-512")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    options.end = time.monotonic() + options.seconds
    os.makedirs(options.dir, exist_ok=True)
    kept = os.path.join(options.dir, "found.json")
    options.found = {}
    if os.path.exists(kept):
        with open(kept, encoding="utf-8") as file:
            options.found = json.load(file)
    with open(os.path.join(HERE, "forms.tsv"), encoding="utf-8") as file:
        rows = [row for row in csv.reader(file, delimiter="\t") if not row[0].startswith("#")]
    programs = [Program(row, options) for row in rows if not options.names or row[0] in options.names]
    parts, wrong = options.parts.split(","), []
    for part in PARTS[:-1]:
        for turn in range(options.rounds if part == "measure" and part in parts else part in parts):
            for one in programs:
                if one.name in wrong or (part == "measure" and one.rounds() > turn):
                    continue
                if time.monotonic() > options.end:
                    break
                try:
                    why = getattr(one, part)()
                except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                    why = str(error)[:200]
                if why:
                    wrong.append(one.name)
                    print(f"WRONG {one.name}: {part}: {why}", file=sys.stderr)
                with open(kept, "w", encoding="utf-8") as file:
                    json.dump(options.found, file, indent=1)
    if "table" in parts:
        print_table(programs)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
