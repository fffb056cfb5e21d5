#!/usr/bin/env python3
"""verdicts.py: what counts as a public program's success (trial.py), and that the two lists of programs agree.

shows: public programs: a program passes by its rule only; a line that says fail, error or mismatch spoils it
shows: public programs: "0 errors", "max error: 1e-7" and "Number of failures: 0" do not
shows: public programs: compiled code that prints other lines than the interpreter fails, and so does a missing compiler
shows: public programs: each is listed once, with arguments and a rule, or with the reason why it does not pass
"""

import csv
import os
import signal
import sys

import compiled
import trial

CASES = [
    # rule, exit status, output, whether it passes
    ("exit", 0, "FAILED", True),
    ("exit", 1, "PASSED", False),
    ("clean", 0, "done", True),
    ("clean", 3, "done", False),
    ("clean", None, "done", False),
    ("clean", -signal.SIGSEGV, "done", False),
    ("clean", 0, "Test FAILED", False),
    ("clean", 0, "Test failed!", False),
    ("clean", 0, "Fail", False),
    ("clean", 0, "the check fails at 3", False),
    ("clean", 0, "Verification failure", False),
    ("clean", 0, "failover, no failsafe", True),
    ("clean", 0, "Number of failures: 0 out of 1", True),
    ("clean", 0, "Number of failures: 1 out of 1", False),
    ("clean", 0, "Test Results: 0 Failures", True),
    ("clean", 0, "Test Results: 10 Failures", False),
    ("clean", 0, "max error: 1e-7", True),
    ("clean", 0, "0 errors", True),
    ("clean", 0, "error at 7", False),
    ("clean", 0, "Mismatch at 7", False),
    ("words", 0, "PASS", True),
    ("words", 0, "done", False),
    ("words", 0, "PASS\nFAIL", False),
    ("words", 0, "PASS\nfailed", False),
    ("text:^sum 3$", 0, "x\nsum 3", True),
    ("text:^sum 3$", 0, "sum 33", False),
    ("server:exit", 0, "", True),
]
# What the interpreter printed, compiled code, the interpreter again; whether the program passes.
COMPILED = [
    ("a\nb", "a\nb", "", True),
    ("a\nb", "b\na", "", True),
    ("sum 3\n7 ms", "sum 3\n5 ms", "", True),
    ("sum 3", "sum 4", "sum 3", False),
    ("sum 3", "sum 4", "sum 5", True),
    ("sum 3", "FLYT_SOFTGPU_JIT=always: there is no compiler (...); the interpreter runs\nsum 3", "sum 3", False),
]


CLASSES = "data build graphics MPI library unsupported waives long compilation".split() + ["own defect", "no program"]
RULES = ("exit", "words", "clean", "server:exit", "text:")


def rows(name):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name), encoding="utf-8") as file:
        return [row for row in csv.reader(file, delimiter="\t") if not row[0].startswith("#")]


def listed_wrongly():
    programs, reasons = rows("programs.tsv"), rows("reasons.tsv")
    names = [tuple(row[:2]) for row in programs + reasons]
    wrong = [f"{name}: twice" for name in set(names) if names.count(name) > 1]
    wrong += [f"{row}: no such rule" for row in programs if not row[3].startswith(RULES)]
    return wrong + [f"{row}: no such class" for row in reasons if row[2] not in CLASSES]


def main():
    listed = listed_wrongly()
    for line in listed:
        print(line)
    wrong = [case for case in CASES if (trial.verdict(*case[:3]) == "") != case[3]]
    for rule, status, output, passes in wrong:
        print(f"{rule}, status {status}, {output!r}: {'does not pass' if passes else 'passes'}")
    said = lambda output: trial.Result("", output, 0, 0)
    differ = [case for case in COMPILED
              if (compiled.problem_of(said(case[0]), said(case[1]), lambda case=case: said(case[2])) == "") != case[3]]
    for case in differ:
        print(f"compiled: {case}: {'does not pass' if case[3] else 'passes'}")
    return 1 if wrong or listed or differ else 0


if __name__ == "__main__":
    sys.exit(main())
