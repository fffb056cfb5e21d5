#!/usr/bin/env python3
# shows: attacks: a GPU server takes memory and makes processes without end: the kernel ends it at its bound (cgroup v2)
"""tests/sandbox/in_guest.py: the bounds of a GPU server, and its sandbox, in a virtual machine, whose kernel is
Debian's and has control groups of version 2; TAP on stdout.

    in_guest.py BIN BOUNDS EATER
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../vm"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import guest  # noqa: E402
from testlib import plan, result  # noqa: E402


def main():
    bindir, bounds, eater = sys.argv[1:]
    guest.skip_if(guest.made())
    machine = guest.Guest("bounds", memory=320)
    try:
        machine.must("mount -t cgroup2 none /sys/fs/cgroup")
        status, said = machine.run(f"{bounds} {bindir} {eater}", seconds=120)
    finally:
        machine.kill()
    good = status == 0 and "\nok 1" in "\n" + said and "# SKIP" not in said
    result("a GPU server is ended at its bound of memory, and makes no more processes", not good and said)
    return plan()


if __name__ == "__main__":
    sys.exit(main())
