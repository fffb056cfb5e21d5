#!/usr/bin/env python3
"""tests/vm/measure.py: copies and calls inside a guest, against memcpy and a ping-pong in it, for each mode.
Prints a table for docs/measurements; no test.

    measure.py [--bin DIR]
"""
import sys

import guest
from testlib import bin_folder
from memory import COPIES, Bed


def values(text):
    return dict(line.split() for line in text.splitlines() if line.count(" ") == 1 and "_" in line.split()[0])


def main():
    bindir = bin_folder(__doc__)
    why = guest.made()
    if why:
        sys.exit(f"measure: {why}")
    bed = Bed(bindir)
    try:
        found = {}
        for mode, before in (("shared memory", ""), ("network", "FLYT_PERF=no_shm")):
            command = f"{before} FLYT_SERVER={bed.uri} {bindir}/flyt-run {COPIES} measure"
            found[mode] = values(bed.guest.must(command, 100))
        print("| figure |" + "".join(f" {mode} |" for mode in found) + "\n|---|" + "---|" * len(found))
        for key in next(iter(found.values())):
            print(f"| `{key}` |" + "".join(f" {of[key]} |" for of in found.values()))
    finally:
        bed.end()


if __name__ == "__main__":
    main()
