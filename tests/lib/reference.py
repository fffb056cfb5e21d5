"""reference.py: programs run with Flyt's libraries and with others, and what they print is compared line by line."""
import os
import re
import subprocess

from testlib import result, skip


def run(program, bindir, *before, arguments=(), limit=300):
    """Runs it with Flyt's libraries, and with those of the folders `before`, which come first (None: no folder)."""
    folders = (*(folder for folder in before if folder), os.path.join(bindir, "cudart"), bindir)
    try:
        return subprocess.run([program, *arguments], capture_output=True, text=True, errors="replace", timeout=limit,
                              env={**os.environ, "FLYT_SERVER": "local:software",
                                   "LD_LIBRARY_PATH": ":".join(map(os.path.abspath, folders))})
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess([program], "no end", "", "")


def is_missing(runtime):
    """Whether the folder of NVIDIA's runtime is not there, which is then said."""
    missing = bool(runtime) and not os.path.isdir(runtime)
    if missing:
        skip("NVIDIA's runtime", f"{runtime} is not there (tools/cuda-releases fetches it)")
    return missing


class Known:
    """Lines that may differ. Each row says why in its last word; pattern(row) matches a whole line."""

    def __init__(self, rows, pattern=lambda row: row[0]):
        self.rows, self.pattern, self.used = rows, pattern, set()

    def has(self, line, fits=lambda row: True):
        """Whether a row that fits knows the line."""
        row = next((row for row in self.rows if fits(row) and re.fullmatch(self.pattern(row), line)), None)
        self.used.add(row)
        return row is not None


def each_is_needed(*known, fits=lambda row: True):
    """A test: every row was used."""
    unused = [row for each in known for row in each.rows if row not in each.used and fits(row)]
    result("every known difference is one", "\n".join(f"{each}" for each in unused))
