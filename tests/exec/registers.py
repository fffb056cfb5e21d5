#!/usr/bin/env python3
"""registers.py: how near the software GPU's estimate of the registers of kernels is to what ptxas gives them.

    make build/plain/registers-of
    tests/exec/registers.py FILE.ptx ...                  compares, for sm_90 and sm_120
    tests/exec/registers.py --fit FILE.ptx ...            makes weights for softgpu/exec/needs.c from one part of the
                                                          files, and says how they do on it and on the other part
    tests/exec/registers.py --beside sm_75 FILE.ptx ...   the same with machine code for that GPU beside the PTX
    tests/exec/registers.py --sample registers.ptx        fails where it is worse for registers.cu than it was

shows: Registers of kernels: as near to ptxas's as they were, for 55 kernels that the weights are not made from
shows: Registers of kernels: with machine code for another GPU beside the PTX, as nvcc puts it there, they are nearer
shows: Registers of kernels: with machine code that the device would run they are exactly those that it says

The parts are made by the folder of a file, or where its name has "__" by what stands before the last one. What ptxas
said is kept beside the file (FILE.ptx.sm_90), so that it is asked once. The arguments may be folders, too.
"""

import argparse
import collections
import os
import re
import subprocess
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import ok, plan, result  # noqa: E402

MACHINES = {"sm_90": (2048, 32), "sm_120": (1536, 40)}  # threads of an SM; registers with which all have room
REGISTERS, UNIT, LEAST, OF_CALLS, OF_NOTHING, MOST = 65536, 8, 8, 24, 4, 255
FOR_1024, WARP, UNKNOWN_BLOCK = 64, 32, 128
NAMES = "path name as_sm_90 as_sm_120 needed instructions calls unknown threads blocks most".split()
SKIP = 77
# Errors of the kernels of registers.cu, in percent, with CUDA 13.0, and a little more: median, 95 of 100, mean. Another
# release makes other PTX, so OTHERS times as much is allowed there.
SAMPLE = {"sm_90": (12.6, 36.5, 14.3), "sm_120": (14.4, 33.5, 16.5)}
SAMPLE_OF, OTHERS = "release 13.0", 1.5
# Bounds where machine code for sm_75 lies beside the PTX.
SAMPLE_BESIDE = {"sm_90": (6.0, 27.5, 9.1), "sm_120": (7.8, 26.5, 10.1)}
SMALL = 8  # measures of small kernels; those of large ones stand behind them


def ptx_files(paths):
    for path in paths:
        if os.path.isdir(path):
            for folder, _, names in os.walk(path):
                yield from sorted(os.path.join(folder, name) for name in names if name.endswith(".ptx"))
        else:
            yield path


def asked(ptxas, path, machine):
    """What ptxas -v says of the file, or None where it refuses it."""
    kept = f"{path}.{machine}"
    if not os.path.exists(kept) or os.path.getmtime(kept) < os.path.getmtime(path):
        command = [ptxas, f"-arch={machine}", "-v", "-o", os.devnull, path]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        with open(kept, "w", encoding="utf-8") as file:
            file.write(result.stdout + result.stderr if result.returncode == 0 else "refused\n")
    with open(kept, encoding="utf-8") as file:
        return file.read()


def with_machine_code(options, path, beside):
    """A fat binary of the PTX, and of what ptxas makes of it for that GPU; None where it refuses it."""
    tools, made = os.path.dirname(options.ptxas), f"{path}.with_{beside}.fatbin"
    cubin = f"{path}.{beside}.cubin"
    if not os.path.exists(made) or os.path.getmtime(made) < os.path.getmtime(path):
        if subprocess.run([options.ptxas, f"-arch={beside}", "-o", cubin, path], stderr=subprocess.DEVNULL).returncode:
            return None
        images = [f"--image3=kind=elf,sm={beside[3:]},file={cubin}", f"--image3=kind=ptx,sm={beside[3:]},file={path}"]
        subprocess.run([f"{tools}/fatbinary", "-64", f"--create={made}", *images], check=True)
    return made


def loaded(options, machine, files):
    """What the software GPU says of the kernels of these files when it is such a device: by (file, name)."""
    environment = {**os.environ, "FLYT_SOFTGPU_CC": f"{machine[3:-1]}.{machine[-1]}"}
    found = {}
    for at in range(0, len(files), 50):
        command = [options.loader, *files[at : at + 50]]
        lines = subprocess.run(command, capture_output=True, text=True, check=False, env=environment).stdout
        for line in lines.splitlines():
            path, name, registers = line.split("\t")
            found[path, name] = int(registers)
    return found


def estimate_beside(options, kernels, beside, machines):
    """Gives the kernels the numbers that count when there is machine code; returns those that have some."""
    made = {path: with_machine_code(options, path, beside) for path in sorted({k.path for k in kernels})}
    for machine in machines:
        numbers = loaded(options, machine, [path for path in made.values() if path])
        for k in kernels:
            k.beside[machine] = numbers.get((made[k.path], k.name))
    return [k for k in kernels if None not in k.beside.values()]


def registers_of(text):
    found, kernel = {}, None
    for line in text.splitlines():
        match = re.search(r"Compiling entry function '([^']+)'", line)
        if match:
            kernel = match.group(1)
        match = re.search(r"Used (\d+) registers", line)
        if match and kernel:
            found[kernel] = int(match.group(1))
            kernel = None
    return found


class Kernel:
    def __init__(self, line, truth):
        fields = line.split("\t")
        values = dict(zip(NAMES, fields))
        self.path, self.name = values["path"], values["name"]
        self.truth = {machine: found[self.name] for machine, found in truth.items()}
        self.estimate = {machine: int(values["as_" + machine]) for machine in MACHINES}
        for name in NAMES[4:]:
            setattr(self, name, int(values[name]))
        self.measures = [float(field) for field in fields[len(NAMES) :]]
        self.small, self.large = self.measures[:SMALL], self.measures[SMALL:]
        self.weight = 1.0
        self.beside = {}

    def project(self):
        folder, name = os.path.split(os.path.abspath(self.path))
        return name.rsplit("__", 1)[0] if "__" in name else folder

    def bounded(self, registers):
        """As sg_kernel_describe bounds it."""
        most = 255
        if not self.threads and FOR_1024 < registers <= FOR_1024 + UNIT:
            registers = FOR_1024
        if self.threads:
            most = REGISTERS // ((self.threads + 31) // 32 * 32 * max(self.blocks, 1)) // UNIT * UNIT
        if self.most:
            most = min(most, self.most)
        return min(registers, most, 255)

    def level(self, machine):
        """As needs.c does it: the most registers with which as many blocks have room as with those it needs."""
        threads, room = MACHINES[machine]
        block = (self.threads + WARP - 1) // WARP * WARP or UNKNOWN_BLOCK
        registers = (max(self.needed, room) + UNIT - 1) // UNIT * UNIT
        blocks = min(REGISTERS // (block * registers), threads // block)
        while blocks and registers < MOST and REGISTERS // (block * (registers + UNIT)) >= blocks:
            registers += UNIT
        return min(registers, MOST)

    def lowest(self):
        return OF_CALLS if self.unknown else LEAST

    def weigh(self, weights, machine):
        """As exec_registers_weigh does it."""
        room = MACHINES[machine][1]
        if self.instructions <= 1:
            return OF_NOTHING
        if self.needed > room:
            liked = sum(w * m for w, m in zip(weights[1], self.large))
            registers = self.needed if liked <= self.needed else int(min(liked, MOST) + 0.5)
            registers = min(registers, self.level(machine))
        else:
            liked = sum(w * m for w, m in zip(weights[0], self.small))
            registers = room if liked >= room - 0.5 else int(max(liked, 0) + 1) // 2 * 2
        return min(max(registers, self.lowest()), MOST)


def read(program, ptxas, machines, paths):
    kernels = []
    files = list(ptx_files(paths))
    truth = {path: {m: registers_of(asked(ptxas, path, m)) for m in machines} for path in files}
    for at in range(0, len(files), 50):
        lines = subprocess.run([program, *files[at : at + 50]], capture_output=True, text=True, check=False).stdout
        for line in lines.splitlines():
            path, name = line.split("\t")[:2]
            if all(name in found for found in truth[path].values()):
                kernels.append(Kernel(line, truth[path]))
    same = collections.Counter((k.name, *k.measures) for k in kernels)  # templates of libraries stand in many files
    for k in kernels:
        k.weight = same[(k.name, *k.measures)] ** -0.5
    return kernels, len(files)


def figures(errors):
    """The median, 90 and 95 of 100, and the mean."""
    errors = sorted(errors)
    at = [errors[min(len(errors) - 1, int(len(errors) * part))] for part in (0.5, 0.9, 0.95)]
    return *at, sum(errors) / len(errors)


def describe(errors):
    over = sum(error > 0.3 for error in errors) / len(errors)
    median, p90, p95, mean = figures(errors)
    return (
        f"{len(errors)} kernels, median {median:.1%}, p90 {p90:.1%}, p95 {p95:.1%}, mean {mean:.1%}, "
        f"over 30 %: {over:.1%}"
    )


def errors_of(kernels, machine, estimate):
    return [abs(k.bounded(estimate(k)) - k.truth[machine]) / k.truth[machine] for k in kernels]


# ---- fitting ----


def fit_part(rows, rounds=1500):
    """Least relative deviations, those above a quarter twice, by subgradients (Adam).

    Each row: measures, the registers, least and most (what is beyond them costs nothing), and weight."""
    count = len(rows[0][0])
    scale = [max(sum(row[0][i] for row in rows) / len(rows), 0.2) for i in range(count)]
    rows = [([m / s for m, s in zip(row[0], scale)], *row[1:]) for row in rows]
    weights, first, second, mean = [1.0] * count, [0.0] * count, [0.0] * count, [0.0] * count
    for step in range(1, rounds + 1):
        slope = [0.0] * count
        for measures, truth, least, most, weight in rows:
            off = sum(w * m for w, m in zip(weights, measures)) - truth
            if (off > 0 and truth >= most) or (off < 0 and truth <= least):
                continue
            push = weight / truth * (2 if abs(off) > truth / 4 else 1) * (1 if off > 0 else -1)
            for i, m in enumerate(measures):
                slope[i] += push * m
        rate = 0.2 * (1 - step / rounds) + 0.002
        for i in range(count):
            slope[i] /= len(rows)
            first[i] = 0.9 * first[i] + 0.1 * slope[i]
            second[i] = 0.99 * second[i] + 0.01 * slope[i] ** 2
            weights[i] -= rate * first[i] / (1 - 0.9**step) / ((second[i] / (1 - 0.99**step)) ** 0.5 + 1e-8)
            mean[i] += weights[i] / 100 if step > rounds - 100 else 0
    return [m / s for m, s in zip(mean, scale)]


def fit(kernels, machine):
    room = MACHINES[machine][1]
    small, large = [], []
    for k in kernels:
        truth = k.truth[machine]
        if k.needed > room:
            most = k.level(machine)
            truth = min(max(truth, k.needed), most)
            large.append((k.large, truth, k.needed, most - 1, k.weight))
        elif k.instructions > 1:
            small.append((k.small, min(truth, room), k.lowest(), room - 1, k.weight))
    return fit_part(small), fit_part(large)


def report(kernels, parts, machine, options):
    threads, room = MACHINES[machine]
    print(f"{machine}: {describe(errors_of(kernels, machine, lambda k: k.estimate[machine]))}")
    for part, name in zip(parts, ("the part that the weights are made from", "the other part")):
        if part:
            print(f"    {name}: {describe(errors_of(part, machine, lambda k: k.estimate[machine]))}")
    wrong = [
        sum((k.bounded(k.estimate[machine]) > 64) == a and (k.truth[machine] > 64) == b for k in kernels)
        for a, b in ((True, True), (True, False), (False, True))
    ]
    print(f"    over 64 registers: {wrong[0]} by both, {wrong[1]} by the estimate only, {wrong[2]} by ptxas only")
    if options.fit and all(parts):
        weights = fit(parts[0], machine)
        for part, name in zip(parts, ("made from", "the other part")):
            print(f"    fitted, {name}: {describe(errors_of(part, machine, lambda k: k.weigh(weights, machine)))}")
        numbers = [", ".join(f"{w:.2f}" for w in part) for part in weights]
        print(f"    threads_{threads} = {{ {room}, {{ {numbers[0]} }}, {{ {numbers[1]} }} }}")
    worst = sorted(kernels, key=lambda k: -abs(k.bounded(k.estimate[machine]) - k.truth[machine]) / k.truth[machine])
    for k in worst[: options.worst]:
        print(f"    {k.truth[machine]} {k.bounded(k.estimate[machine])} {k.name} {k.path}")


def errors_beside(kernels, machine):
    return [abs(k.beside[machine] - k.truth[machine]) / k.truth[machine] for k in kernels]


def judge(what, errors, bounds, part):
    """Are the errors of the sample below `part` times what they were?"""
    median, _, p95, mean = figures(errors)
    ok(
        all(found * 100 <= bound * part for found, bound in zip((median, p95, mean), bounds)),
        f"{what}: {describe(errors)}",
    )


def judge_sample(options, kernels, machines, part):
    for machine in machines:
        judge(machine, errors_of(kernels, machine, lambda k, m=machine: k.estimate[m]), SAMPLE[machine], part)
    with_code = estimate_beside(options, kernels, "sm_75", machines)
    ok(len(with_code) == len(kernels), "machine code for sm_75 lies beside the PTX of all")
    for machine in machines:
        errors = errors_beside(with_code, machine)
        judge(f"{machine}, with machine code for sm_75", errors, SAMPLE_BESIDE[machine], part)
    for machine in machines:
        own = estimate_beside(options, kernels, machine, [machine])
        wrong = [(k.name, k.beside[machine], k.truth[machine]) for k in own if k.beside[machine] != k.truth[machine]]
        wrong += [f"{len(kernels) - len(own)} kernels are missing"] * (len(own) < len(kernels))
        result(f"{machine}, with machine code for it: exactly those that it says", wrong)


def asked_for(ptxas, what):
    return subprocess.run([ptxas, what], capture_output=True, text=True, check=True).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/plain/registers-of")
    parser.add_argument("--ptxas", default=os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin/ptxas")
    parser.add_argument("--loader", default="build/plain/registers-loaded")
    parser.add_argument("--beside", metavar="SM", help="with machine code for such a GPU beside the PTX")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--worst", type=int, default=0, help="shows so many of the kernels with the largest errors")
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("paths", nargs="+")
    options = parser.parse_args()
    if not os.access(options.ptxas, os.X_OK):
        print(f"there is no ptxas at {options.ptxas}")
        sys.exit(SKIP)
    text = asked_for(options.ptxas, "--help")
    machines = [machine for machine in MACHINES if machine in text]
    kernels, files = read(options.program, options.ptxas, machines, options.paths)
    if not kernels:
        sys.exit("no kernel of these files is known to both")
    if options.sample:
        part = 1 if SAMPLE_OF in asked_for(options.ptxas, "--version") else OTHERS
        judge_sample(options, kernels, machines, part)
        sys.exit(plan())
    if options.beside:
        others = [machine for machine in machines if machine != options.beside]
        kernels = estimate_beside(options, kernels, options.beside, others)
        for machine in others:
            print(f"{machine}, with {options.beside}: {describe(errors_beside(kernels, machine))}")
            print(f"    without: {describe(errors_of(kernels, machine, lambda k, m=machine: k.estimate[m]))}")
        return
    parts = [[], []]
    for k in kernels:
        parts[zlib.crc32(k.project().encode()) % 2].append(k)
    print(f"{files} files, {len(kernels)} kernels")
    for machine in machines:
        report(kernels, parts, machine, options)


if __name__ == "__main__":
    main()
