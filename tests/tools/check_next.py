#!/usr/bin/env python3
"""tests/tools/check_next.py: tools/check-next in a tree that this script makes, with a make and tests of its own. TAP.

shows: long tests: the wheel runs what has waited longest, in its time, writes its rows, and names what failed
shows: long tests: the wheel keeps how many tests of `make check` needed a second attempt in each of its last 20 runs
"""
import csv
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import plan, result  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MAKEFILE = """\
FUZZ_TARGETS := rpc
all fuzz good bad:
\t@echo made $@
print-tests:
\t@echo 'LONG_TESTS tests/one/room.mk "true a"@300 ./fails "true b" @60'
\t@echo 'LONG_TESTS tests/none/room.mk'
\t@echo 'TESTS tests/twice/room.mk ./once'
\t@echo 'TESTS tests/two/room.mk $(if $(SANITIZE),build/thread/x build/address-undefined/x,build/plain/x)'
"""
# Fails, and never again.
ONCE = "#!/bin/sh\ntest -e build/been || { mkdir -p build; touch build/been; exit 1; }\n"
HEAD = ["part", "commit", "date", "load", "result", "seconds"]         # as it was before the column `again`


def git(tree, *words):
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@y", *words], cwd=tree, check=True,
                   capture_output=True)


def make_tree(tree):
    for folder in ("tools", "tests/programs"):
        os.makedirs(os.path.join(tree, folder))
    shutil.copy(os.path.join(ROOT, "tools/check-next"), os.path.join(tree, "tools"))
    shutil.copy(os.path.join(ROOT, "tests/run"), os.path.join(tree, "tests"))
    for name, text in (("Makefile", MAKEFILE), ("fails", "#!/bin/sh\nexit 1\n"), ("once", ONCE),
                       (".gitignore", "build\n")):
        with open(os.path.join(tree, name), "w") as file:
            file.write(text)
    for name in ("fails", "once"):
        os.chmod(os.path.join(tree, name), 0o755)
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "a tree")


def run(tree, *words):
    done = subprocess.run(["tools/check-next", *words], cwd=tree, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def rows(tree):
    try:
        with open(os.path.join(tree, "tests/long.tsv"), newline="") as file:
            return {row["part"]: row for row in csv.DictReader(file, delimiter="\t")}
    except FileNotFoundError:
        return {}


def write_rows(tree, *some):
    with open(os.path.join(tree, "tests/long.tsv"), "w", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerows([HEAD, *some])


def lacks(text, *words):
    missing = [word for word in words if word not in text]
    return f"{missing} not in:\n{text}" if missing else ""


def main():
    with tempfile.TemporaryDirectory() as tree:
        make_tree(tree)
        _, text = run(tree, "--list")
        result("a list in quotes, with marks apart, is read as its commands",
              lacks(text, "long/one 3", "asan/two 1", "tsan/two 1", "fuzz/rpc 1", "programs/12 1") or
              ("none" in text and text))
        _, text = run(tree, "--status")
        result("at first nothing has run", lacks(text, "never ran", "long/one"))
        status, text = run(tree, "long/one")
        result("a part whose test fails is a failure, with the test's name, in its row and in the exit status",
              lacks(text, "2 passed, 1 failed: fails", "\n2 passed, 1 failed\n") or
              (status != 1 and f"exit status {status}") or
              lacks(rows(tree).get("long/one", {}).get("result", "no row"), "2 passed, 1 failed: fails"))
        _, text = run(tree, "--status")
        result("the status names it", lacks(text, "failed: long/one: 2 passed, 1 failed: fails"))
        for _ in range(2):
            status, text = run(tree, "check/twice")
        row = rows(tree).get("check/twice", {})
        result("the tests of `make check` get a second attempt, and their row says of each run how many needed one",
               lacks(text, "== check/twice", "second attempts: 1 in the last 2 to 2 runs of 1 parts",
                     "check/twice 1") or
               (status and f"exit status {status}") or
               (row.get("again") != "10" or rows(tree)["long/one"]["again"]) and f"{rows(tree)}")
        status, text = run(tree, "programs/1")
        result("a part that cannot run here says why, and does not count",
              lacks(text, "skipped: FLYT_PROGRAMS", "\n0 passed, 0 failed\n") or (status and f"exit status {status}"))
        result("a part's whole name is that part's alone", "== programs/12" in text and text)
        commit = rows(tree)["long/one"]["commit"]
        every = [line.split()[0] for line in run(tree, "--list")[1].splitlines()]
        recent = [[name, commit, "2030-01-01T00:00:00+00:00", "0", "1 passed, 0 failed", "1"] for name in every]
        old = {"fuzz/rpc": "2020-01-01T00:00:00+00:00", "long/one": "2020-01-02T00:00:00+00:00"}
        write_rows(tree, *([row[0], row[1], old.get(row[0], row[2]), *row[3:5], "2" if row[0] == "fuzz/rpc" else "100"]
                           for row in recent))
        _, text = run(tree, "--minutes", "0.1")
        result("what has waited longest runs first, and what would take too long does not begin",
              lacks(text, "== fuzz/rpc") or ("== long/one" in text and text))
        result("a row that is new takes the place of the old one",
              rows(tree)["fuzz/rpc"]["date"] < "2026" and rows(tree)["fuzz/rpc"])
        git(tree, "add", "-A")
        git(tree, "commit", "-qm", "rows alone")
        run(tree, "long/one")
        result("a row names the last commit that changed more than rows",
              rows(tree)["long/one"]["commit"] != commit and f"{rows(tree)['long/one']} and not {commit}")
        with open(os.path.join(tree, "fails"), "a") as file:
            file.write("# changed\n")
        status, text = run(tree, "long/one")
        result("a tree that is not clean is refused", lacks(text, "commit first", "fails") or
              (status != 2 and f"exit status {status}"))
    return plan()


if __name__ == "__main__":
    sys.exit(main())
