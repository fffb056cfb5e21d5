#!/usr/bin/env python3
"""native.py [--rounds N] [--jobs N] [--limit SECONDS] [--programs FOLDER] [--out FOLDER]: what NVIDIA's driver answers.

Runs every chapter of the conformance suite on a machine with a GPU, with the libraries that LD_LIBRARY_PATH names, and
writes what it printed to FOLDER/CHAPTER.txt (default: tests/conformance/native). A row that ended the process, or that
had no answer within the limit, is left out in the next round, and listed in FOLDER/CHAPTER.left-out; what such a row
left behind in the driver is gone with its process. The chapter that needs more rounds is written as far as it came.
compare.py --recorded compares Flyt with these files. FOLDER/about.txt says where they come from.
"""
import argparse
import concurrent.futures
import datetime
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Chapters of several devices end early on a machine with one GPU.
LEFT_OUT = {"current", "peer", "driver/peer"}


def run(program, left_out, limit):
    """What it printed, and how it ended."""
    # Lazily loaded kernels wait for kernels that run, and some chapters have kernels that wait for the program.
    env = {**os.environ, "FLYT_CONFORMANCE_NATIVE": left_out, "CUDA_MODULE_LOADING": "EAGER"}
    try:
        done = subprocess.run([program], capture_output=True, timeout=limit, env=env, stdin=subprocess.DEVNULL)
        return done.stdout.decode(errors="replace"), done.returncode
    except subprocess.TimeoutExpired as ended:
        return (ended.stdout or b"").decode(errors="replace"), "no end"


def unanswered(lines):
    """The rows that were asked and not answered: at the end, or before a line that tells of a child's end."""
    found, asked = [], None
    for line in lines:
        if asked and line.startswith("the process ended with status"):
            found.append(asked)
        if line.startswith("??"):
            asked = line[2:]
        elif asked and line.startswith(asked + " -> "):
            asked = None
    return found + ([asked] if asked and asked not in found else [])


def record(name, options):
    program, left_out = os.path.join(options.programs, name), os.path.join(options.out, name + ".left-out")
    os.makedirs(os.path.dirname(left_out), exist_ok=True)
    open(left_out, "a").close()
    text, ended = "", None
    for round_ in range(options.rounds):
        text, ended = run(program, left_out, options.limit)
        wrong = unanswered(text.splitlines()) if ended or "the process ended with status" in text else []
        if not wrong:
            break
        with open(left_out, "a") as file:
            file.write("".join(f"{row}\n" for row in wrong))
    with open(os.path.join(options.out, name + ".txt"), "w") as file:
        file.write("".join(f"{line}\n" for line in text.splitlines() if not line.startswith("??")))
        if ended:
            file.write(f"ended: {ended}\n")
    return name, ended, round_ + 1, sum(1 for _ in open(left_out))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--limit", type=float, default=30)
    parser.add_argument("--programs", default=os.path.join(HERE, "../../build/conformance"))
    parser.add_argument("--out", default=os.path.join(HERE, "native"))
    parser.add_argument("chapter", nargs="*")
    options = parser.parse_args()
    chapters = options.chapter or sorted(
        name for folder in ("", "driver/") for name in (folder + one for one in os.listdir(
            os.path.join(options.programs, folder))) if os.path.isfile(os.path.join(options.programs, name)))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, ended, rounds, rows in pool.map(lambda c: record(c, options),
                                                  (c for c in chapters if c not in LEFT_OUT)):
            print(f"{name}: {'complete' if not ended else f'ended: {ended}'} after {rounds} runs, {rows} rows left out",
                  flush=True)
    driver = "none"
    if os.path.exists("/dev/nvidia0"):
        driver = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], text=True,
                                capture_output=True, check=False).stdout.strip()
    with open(os.path.join(options.out, "about.txt"), "w") as file:
        file.write(f"GPU and driver: {driver}\nrecorded: {datetime.date.today()}\n")


sys.exit(main())
