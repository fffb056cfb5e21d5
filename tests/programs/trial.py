"""Runs one public program one way, and judges what it printed. For tools/check-programs and tests/programs/fit."""

import dataclasses
import itertools
import os
import re
import resource
import shlex
import signal
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BAD = re.compile(
    r".*(?:\bFAIL|\b[Ff]ail(?:s|ed|ures?|ing)?\b|[Mm]ismatch|\b[Ee]rrors?\b(?! ?rate)|ERROR|[Ss]egmentation fault"
    r"|No such file).*"
)
# Some programs want two devices. They do not pass on one, and the others do not mind.
os.environ.setdefault("FLYT_SOFTGPU_DEVICES", "2")
# What may say error without meaning one: a figure ("error = 1e-7", "max error: 0", "0 errors"), or a word of the field.
HARMLESS = re.compile(
    r"(?i)\b(?:no|0|zero) (?:\w+ )?(?:errors?|mismatch|failures?)"
    r"|\berrors?\b(?! at\b)[^:=]{0,40}[:=(]? *[-+]?\d|(?:mismatch\w*|\bfailures?)[^:=]{0,20}[:=] *0\b"
    r"|error (?:statistic|rate|norm|bound|toler|correct|control)"
)
# A line with a time, a speed or the memory of the process in it differs from run to run.
VARIES = re.compile(
    r"(?i)time|second|\bm?s\b|\bu?s\b|\(s\)|[0-9](?:ms|us|s|ns)\b|[km/]?b/s|[gmt]b(?:yte)?s?[/ ]|gb/"
    r"|flop|/s\b|/sec|per sec|bandwidth|throughput|elapsed|speed|perf|clock|cycles|0x[0-9a-f]{6,}"
    r"|memory usage|\b1[0-9]{12}\b"
)


@dataclasses.dataclass
class Row:
    suite: str
    name: str
    arguments: str
    rule: str


@dataclasses.dataclass
class Result:
    problem: str
    output: str
    seconds: float
    cpu: float


def verdict(rule, status, output):
    """Empty when the program passed, else why not."""
    rule = rule.removeprefix("server:")
    if status is None:
        return "ran past its limit"
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    if rule == "exit":
        return f"exit status {status}" if status else ""
    if rule.startswith("text:"):
        found = re.search(rule[5:], output, re.M)
        return f"exit status {status}" if status else "" if found else f"no line that matches {rule[5:]}"
    bad = [line for line in BAD.findall(output) if not HARMLESS.search(line) or "FAIL" in line]
    if bad:
        return bad[0].strip()[:100]
    if status:
        return f"exit status {status}"
    return "" if rule == "clean" or "PASS" in output else "no line with PASS"


def folder_of(directory, row):
    """Where the program is, and where it runs: some want the data that lie beside their sources."""
    folder = os.path.join(directory, row.suite, row.name)
    named = os.path.join(folder, "folder")
    if not os.path.exists(named):
        return folder, folder
    with open(named, encoding="utf-8") as file:
        return folder, file.read().strip()


def stable(output):
    """The lines of an output that do not change from run to run, as far as their words tell."""
    return [line for line in output.splitlines() if not VARIES.search(line)]


def run(directory, row, uri, limit, ending="", cpu_limit=None, extra=None):
    """A Result; None when the program is not there. ENDING names another build of it, for example ".static". LIMIT is
    in seconds; CPU_LIMIT in seconds of the program's own processor time, the same on a busy machine and an idle one.
    The row's arguments may begin with settings of the environment, as in a shell; EXTRA are more of them."""
    folder, place = folder_of(directory, row)
    program = os.path.join(folder, row.name + ending)
    if not os.path.exists(program):
        return None
    before, started = os.times(), time.monotonic()
    limits = (lambda: resource.setrlimit(resource.RLIMIT_CPU, (cpu_limit, cpu_limit + 1))) if cpu_limit else None
    words = shlex.split(row.arguments)
    settings = list(itertools.takewhile(re.compile(r"[A-Z_]+=").match, words))
    child = subprocess.Popen(
        [os.path.join(ROOT, "bin/flyt-run"), "--server", uri, program] + words[len(settings) :],
        env=os.environ | (extra or {}) | dict(setting.split("=", 1) for setting in settings),
        cwd=place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=limits,
    )
    try:
        output, status = child.communicate(timeout=limit)[0], child.returncode
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        output, status = child.communicate()[0], None
    if status == -signal.SIGXCPU:
        status = None
    seconds, after = time.monotonic() - started, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    text = output.decode(errors="replace")
    return Result(verdict(row.rule, status, text), text, seconds, cpu)
