#!/usr/bin/env python3
"""tests/tools/runner.py: the words behind a command's `@` (tests/run); TAP on stdout.

shows: tests: the runner keeps each command's limit, runs those that sleep beside the others, starts those
  with long limits first where that is asked for, and names the slowest and what passed only at the second attempt
"""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import plan, result  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def run(folder, *commands):
    """What the runner says of these commands, one busy at a time, and its exit status."""
    words = ["tests/run", "--jobs", "1", "--sleepers", "1", "--limit", "20", "--logs", folder, *commands]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=100)
    return done.stdout, done.returncode


def main():
    with tempfile.TemporaryDirectory() as folder:
        sign = f"{folder}/sign"
        waits = f"sh -c 'until [ -e {sign} ]; do sleep 0.02; done'"
        beside, well = run(folder, f"{waits}@sleeps,10", f"touch {sign}")
        os.unlink(sign)
        places, shared = run(folder, "true@sleeps", f"{waits}@10", f"touch {sign}")
        os.unlink(sign)
        behind, late = run(folder, f"{waits}@1", f"touch {sign}")
        busy, _ = run(folder, "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'")
        once = f"sh -c 'test -e {folder}/been || {{ touch {folder}/been; exit 1; }}'"
        second, mended = run(folder, "--again", once, "true")
        with open(f"{folder}/second-attempts") as file:
            kept = file.read()
        always, broken = run(folder, "--again", "false", "true")
        many, _ = run(folder, "--again", *["sh -c 'echo ran >> $0; exit 1' " + f"{folder}/ran"] * 4)
        with open(f"{folder}/ran") as ran:
            times = len(ran.readlines())
        order, first = run(folder, "--longest-first", f"touch {folder}/later", f"test ! -e {folder}/later@30")
        eleven, _ = run(folder, *["true"] * 10, "sleep 0.3")
    found = re.search(r"busy ([\d.]+) s", busy)
    for good, what, said in (
            (well == 0 and "2 passed, 0 failed" in beside, "a command that sleeps runs beside the others", beside),
            (shared == 0 and "3 passed, 0 failed" in places, "a sleeper's place is free for others behind it", places),
            (late == 1 and "ran past its limit of 1.0 s" in behind and "1 passed, 1 failed" in behind,
             "a command ends when its own limit is over, and others follow", behind),
            (mended == 0 and "FAIL sh" in second and "\n1 passed only at the second attempt (goal: 0)\n    sh" in second
             and "2 passed, 0 failed" in second and kept.endswith("exit status 1\n") and kept.count("\n") == 1,
             "a command that passes when it runs again is counted, named, and kept with what failed at first", second),
            (broken == 1 and "\n0 passed only at the second" in always and "1 passed, 1 failed" in always
             and "second attempt" not in beside, "a command that fails twice fails", always),
            (times == 4 and "0 passed, 4 failed" in many, "where many fail, none runs again", many),
            (first == 0, "a command with a longer limit than the others starts before them", order),
            (eleven.count("slowest:") == 10 and re.search(r"slowest: .*\n", eleven).group(0).endswith("sleep 0.3\n"),
             "the slowest ten are named, the slowest first", eleven),
            (found and float(found.group(1)) > 0, "it is shown how long a command was busy", busy)):
        result(what, "" if good else said or "it says nothing")
    return plan()


if __name__ == "__main__":
    sys.exit(main())
