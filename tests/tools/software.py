#!/usr/bin/env python3
"""tests/tools/software.py BIN: the runner of other people's software (tests/software/run); TAP on stdout.

shows: tests: where an operation of other people's software crashes or does not end, the others run all the same,
  and a run that was ended goes on where it was
"""
import math
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from testlib import case, only_cases, patience  # noqa: E402

BIN = os.path.abspath(sys.argv[1])
OPERATIONS = """
import os, signal, time
from ops import op, run, need
{needs}
@op
def first():
    open({began!r}, "a").write("first\\n")
@op
def hangs():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])     # as in a C function that does not return
    time.sleep(3600)
@op
def crashes():
    os.abort()
@op
def wrong():
    assert 1 == 2, "not as on the CPU"
@op
def last():
    open({began!r}, "a").write("last\\n")
run()
"""


class Folder:
    """A list with one software, whose operations are above."""

    def __init__(self, folder, needs=""):
        self.folder, self.began = folder, f"{folder}/began"
        with open(f"{folder}/list.tsv", "w") as file:
            file.write("# name\nsome\tsome_ops.py\tdeb:sh\nnowhere\tsome_ops.py\tdeb:no-such-program\n")
        with open(f"{folder}/some_ops.py", "w") as file:
            file.write(OPERATIONS.format(began=self.began, needs=needs))

    def run(self, *options):
        words = [f"{HERE}/../software/run", BIN, "--list", f"{self.folder}/list.tsv", "--limit", "1", *options]
        done = subprocess.run(words, env={**os.environ, "FLYT_SOFTWARE": f"{self.folder}/kept"}, timeout=patience(100),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.stdout, done.returncode

    def ran(self):
        with open(self.began) as file:
            return file.read().split()


@case
def what_hangs_or_crashes_costs_only_itself():
    with tempfile.TemporaryDirectory() as folder:
        some = Folder(folder)
        out, status = some.run("--transport", "local")
        assert "not ok 1 - some local: 2 passed, 3 failed\n" in out, out
        assert re.search("FAIL hangs: not ended after [0-9]+ s", out) and "FAIL crashes: ended by signal 6" in out, out
        assert "FAIL wrong: AssertionError: not as on the CPU" in out, out
        assert "ok 2 - nowhere # SKIP apt-get install no-such-program\n0 passed, 1 failed, 1 skipped\n" in out, out
        assert status == 1 and some.ran() == ["first", "last"], (status, some.ran())
        out, _ = some.run("--transport", "local", "--resume", "some")
        assert "2 passed, 3 failed\n" in out and some.ran() == ["first", "last"], (out, some.ran())
        out, status = some.run("--table")
        assert "| some | 2, 3 (" in out and status == 0, out


@case
def a_row_has_an_end():
    with tempfile.TemporaryDirectory() as folder:
        row = math.ceil(patience(1))      # time enough to begin the second operation
        out, _ = Folder(folder).run("--transport", "local", "--row", f"{row}", "--limit", f"{2 * row + 60}", "some")
        assert f"1 passed, 0 failed, 4 not run: hangs was running when the row's {row} s were over" in out, out


@case
def what_is_not_installed_is_named():
    with tempfile.TemporaryDirectory() as folder:
        out, status = Folder(folder, "need('no_such_module')").run("some")
        assert "ok 1 - some # SKIP no_such_module is not installed\n0 passed, 0 failed, 1 skipped\n" in out, out
        assert status == 0


@case
def rows_that_find_no_time_are_named():
    with tempfile.TemporaryDirectory() as folder:
        out, status = Folder(folder).run("--minutes", "0", "some")
        assert "ok 1 - some local # SKIP the 0 minutes are over" in out and status == 0, out


sys.exit(only_cases())
