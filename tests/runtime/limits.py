#!/usr/bin/env python3
"""limits.py STUBS.c...: docs/limits.md names each function that is only a stub, and none that is not one; TAP on stdout.

shows: unsupported calls: every function of the Runtime API that is not implemented is named in docs/limits.md, and no other
"""
import fnmatch
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def documented():
    """The patterns of the table whose head is `| chapter | functions |`."""
    with open(os.path.join(ROOT, "docs/limits.md")) as file:
        table = file.read().split("| chapter | functions |", 1)[1].split("\n\n", 1)[0]
    return [word for line in table.splitlines() for word in re.findall(r"`([A-Za-z0-9_*]+)`", line.split("|")[-2] if line else "")]


def stubs(path):
    with open(path) as file:
        names = re.findall(r'runtime_unsupported\("(\w+)"\)', file.read())
    return {re.sub(r"_pt[sd][zs]$", "", name) for name in names}


def main():
    patterns, number, failed = documented(), 0, 0
    every = set()
    print(f"1..{len(sys.argv)}")
    for path in sys.argv[1:]:
        number += 1
        names = stubs(path)
        every |= names
        missing = sorted(name for name in names if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns))
        if not names:
            missing = ["no stub was found at all"]
        failed += bool(missing)
        print(f"{'not ok' if missing else 'ok'} {number} - {os.path.basename(os.path.dirname(path))}: the stubs are documented")
        for name in missing:
            print(f"# docs/limits.md does not name {name}")
    stale = [pattern for pattern in patterns if not any(fnmatch.fnmatchcase(name, pattern) for name in every)]
    failed += bool(stale)
    print(f"{'not ok' if stale else 'ok'} {number + 1} - what is documented as missing is missing")
    for pattern in stale:
        print(f"# docs/limits.md names {pattern}, and no stub has such a name")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
