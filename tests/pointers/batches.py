#!/usr/bin/env python3
"""tests/pointers/batches.py: makes, compiles and runs random programs with pointers to functions; TAP on stdout.

    batches.py [--bin DIR] [--nvcc NVCC] [--seed S] [--programs N] [--batch B] [--keep DIR]

The programs have the seeds S to S + N - 1. They are compiled in units of 50, a batch of units is one program with one
module a unit, and a line of TAP. Batches differ in how they are compiled and run: optimised, with -G, with -Xcicc -O1,
for other architectures, linked into one module (-rdc), with chaos, and watched by memcheck. To see a batch again, with
its sources and its program in a folder: --batch with its number, and the first of its seeds.

shows: pointers to functions: random programs with tables of functions, virtual classes, pointers to methods, lambdas
   and recursion through all of them compute what the host computes, whatever module the functions are of, optimised and
   not, with chaos and under memcheck
"""
import argparse
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from testlib import comment, plan, result  # noqa: E402

PROGRAMS = 50                              # of a unit

# nvcc's own error with -Xcicc -O1 (13.0): a call through a pointer whose function it knows, but with a prototype
NVCC_FAILS = "Argument 1 of instruction 'call': must be register"
PTX = "-gencode=arch=compute_{0},code=compute_{0}"
OPTIMISED, DEBUG, LITTLE = [], ["-G"], ["-Xcicc", "-O1"]
# how the units of a batch are compiled, for which architecture, linked into one module or not, and run
BATCHES = [
    ((OPTIMISED, DEBUG, LITTLE), "75", False, {}),
    ((DEBUG, LITTLE, DEBUG), "90", False, {"FLYT_SOFTGPU_CHAOS": "{seed}", "FLYT_SOFTGPU_THREADS": "3"}),
    ((OPTIMISED, LITTLE), "100", False, {"FLYT_SOFTGPU_MEMCHECK": "1"}),
    ((OPTIMISED, DEBUG), "75", True, {}),
]


def command(words, output, **more):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode:
        output.append(f"{' '.join(words)}: status {done.returncode}")
        output += done.stdout.splitlines()[:20]
    return done.returncode == 0


def compile_batch(options, folder, units, batch):
    """The program; None after an error, which stands in the list of lines."""
    kinds, architecture, linked, _ = batch
    if f"compute_{architecture}" not in options.architectures:          # an older compiler
        architecture = "75"
    lines = []
    words = [options.nvcc, "-cudart", "shared", "-fmad=false", "-Wno-deprecated-gpu-targets", "-diag-suppress", "177",
             f"-I{HERE}"] + ([f"-arch=sm_{architecture}", "-rdc=true"] if linked else [PTX.format(architecture)])
    generate = os.path.join(HERE, "generate.py")
    objects = []
    for (name, seed, count), kind in zip(units, kinds):
        source = os.path.join(folder, f"{name}.cu")
        with open(source, "w") as file:
            subprocess.run([generate, "--unit", name, "--seed", str(seed), "--programs", str(count)], stdout=file,
                           check=True)
        objects.append(os.path.join(folder, f"{name}.o"))
        built = command(words + kind + ["-c", "-o", objects[-1], source], lines)
        if not built and kind == LITTLE and any(NVCC_FAILS in line for line in lines):
            lines.clear()
            comment(f"seeds {seed} to {seed + count - 1}: optimised, nvcc cannot compile them with {' '.join(kind)}")
            built = command(words + OPTIMISED + ["-c", "-o", objects[-1], source], lines)
        if not built:
            return None, lines
    with open(os.path.join(folder, "units.cu"), "w") as file:
        subprocess.run([generate, "--list"] + [name for name, _, _ in units], stdout=file, check=True)
    program = os.path.join(folder, "pointers")
    sources = [os.path.join(folder, "units.cu"), os.path.join(HERE, "main.cu")]
    return program if command(words + ["-o", program] + objects + sources, lines) else None, lines


def run_batch(options, number, first, last, folder):
    batch = BATCHES[number % len(BATCHES)]
    units, seed = [], first
    while seed < last:
        units.append((f"u{len(units)}", seed, min(PROGRAMS, last - seed)))
        seed += PROGRAMS
    program, lines = compile_batch(options, folder, units, batch)
    settings = {name: value.format(seed=first) for name, value in batch[3].items()}
    if program:
        run = [os.path.join(options.bin, "flyt-run"), "--server", "local:software", program]
        try:
            command(run, lines, env={**os.environ, **settings}, timeout=600)
        except subprocess.TimeoutExpired:
            lines.append("not over after 600 s")
    kinds = ", ".join(" ".join(kind) or "optimised" for kind in batch[0][:len(units)])
    what = f"seeds {first} to {last - 1}: {kinds}, compute_{batch[1]}{', one module' if batch[2] else ''} " \
           f"{' '.join(f'{name}={value}' for name, value in settings.items())}".rstrip()
    result(f"batch {number + 1}: {what}", "\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="bin")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--programs", type=int, default=600)
    parser.add_argument("--batch", type=int, default=1, help="its number")
    parser.add_argument("--keep")
    options = parser.parse_args()
    end = options.seed + options.programs
    listed = subprocess.run([options.nvcc, "--list-gpu-arch"], stdout=subprocess.PIPE, text=True, check=True).stdout
    options.architectures = listed.split()
    number, first = options.batch - 1, options.seed
    while first < end:
        last = min(first + PROGRAMS * len(BATCHES[number % len(BATCHES)][0]), end)
        with tempfile.TemporaryDirectory() as folder:
            if options.keep:
                folder = options.keep
                os.makedirs(folder, exist_ok=True)
            run_batch(options, number, first, last, folder)
        number, first = number + 1, last
    return plan()


if __name__ == "__main__":
    sys.exit(main())
