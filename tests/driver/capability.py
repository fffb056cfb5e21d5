#!/usr/bin/env python3
"""capability.py BIN PROGRAM: the compute capability that the software GPU shows; TAP on stdout.

PROGRAM opens the libraries that it is given, prints what shows a capability, and ends when its input ends.

shows: capability: what a program has loaded decides which compute capability its own software GPU shows
shows: capability: FLYT_SOFTGPU_CC of the program counts before that of the server, and that before what is loaded
shows: capability: FLYT_STATS, its JSON, FLYT_LOG and flyt-run --verbose say which one it is, and why
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(TESTS, "cuda"), os.path.join(TESTS, "lib")]
import e2e  # noqa: E402
from testlib import case, only_cases  # noqa: E402

BIN, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:3])
SHARED = {"13.0": 228 << 10, "12.0": 100 << 10, "9.0": 228 << 10}
folder = tempfile.mkdtemp(prefix="flyt-capability.")


def library(path):
    """A library of this name, with nothing in it."""
    path = os.path.join(folder, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    subprocess.run(["gcc", "-x", "c", "-shared", "-fPIC", "-o", path, "/dev/null"], check=True)
    return path


def start(server, *libraries, options=(), **environment):
    environment = {"FLYT_SERVER": server, **environment}
    return subprocess.Popen([os.path.join(BIN, "flyt-run"), *options, PROGRAM, *libraries], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, **environment})


def end(program):
    out, errors = program.communicate("\n", timeout=60)
    assert program.returncode == 0, f"{program.returncode}: {out}{errors}"
    return errors


def shows(program, capability, code):
    number = capability.replace(".", "")
    line, wanted = program.stdout.readline(), (
        f"driver {capability} function {capability} properties {capability} nvml {capability} binary {number} "
        f"code {code} shared {SHARED[capability]}\n")
    assert line == wanted, f"{line!r} instead of {wanted!r}; {program.stderr.read() if not line else ''}"
    return end(program)


@case
def everything_shows_what_the_software_needs():
    shows(start("local:software"), "13.0", 120)
    shows(start("local:software", TRITON), "12.0", 120)


@case
def two_programs_of_one_server_differ():
    one, two = start(server.uri, TRITON), start(server.uri)
    first, second = one.stdout.readline(), two.stdout.readline()     # both have their sessions
    assert "driver 12.0" in first and "nvml 12.0" in first and "driver 13.0" in second, (first, second)
    end(one)
    end(two)


@case
def the_program_s_variable_counts_first():
    shows(start(server.uri, TRITON, FLYT_SOFTGPU_CC="9.0"), "9.0", 90)
    shows(start(operated.uri, TRITON, FLYT_SOFTGPU_CC="12.0"), "12.0", 120)


@case
def the_server_s_variable_counts_before_what_is_loaded():
    errors = shows(start(operated.uri, TRITON, options=["--stats"]), "9.0", 90)
    assert "compute capability 9.0, the GPU server's choice; Triton, which is loaded, asks for 12.0: " in errors, errors


@case
def nonsense_is_named_and_ignored():
    errors = shows(start(server.uri, TRITON, FLYT_SOFTGPU_CC="nine"), "12.0", 120)
    assert "FLYT_SOFTGPU_CC=nine is not a compute capability such as 9.0; it is ignored" in errors, errors


@case
def the_reason_is_shown():
    because = "compute capability 12.0, asked for because Triton is loaded: the compiler in it knows no architecture"
    assert f"flyt: {because}" in end(start(server.uri, TRITON, options=["--stats"]))
    assert because in end(start(server.uri, TRITON, options=["--verbose"]))
    own = end(start(server.uri, FLYT_STATS="1", FLYT_SOFTGPU_CC="9"))
    assert "compute capability 9.0, from FLYT_SOFTGPU_CC\n" in own, own
    assert "compute capability 13.0, the GPU server's choice; nothing that is loaded asks for another one\n" in \
        end(start(server.uri, FLYT_STATS="1"))
    for line in end(start(server.uri, TRITON, FLYT_STATS="json")).splitlines():
        if line.startswith("{"):
            compute = json.loads(line)["flyt"]["compute"]
            assert compute["capability"] == "12.0" and "Triton" in compute["why"], compute
            break
    else:
        raise AssertionError("no line of JSON")


os.environ.pop("FLYT_SOFTGPU_CC", None)
TRITON = library("triton/_C/libtriton.so")
server = operated = None
try:
    os.makedirs(os.path.join(folder, "operated"))
    server = e2e.Server(BIN, "unix", "software", folder, {})
    operated = e2e.Server(BIN, "unix", "software", os.path.join(folder, "operated"), {"FLYT_SOFTGPU_CC": "9.0"})
    status = only_cases()
finally:
    for running in (server, operated):
        if running:
            running.stop()
    shutil.rmtree(folder, ignore_errors=True)
sys.exit(status)
