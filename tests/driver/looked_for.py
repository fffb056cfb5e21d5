#!/usr/bin/env python3
"""looked_for.py BIN STANDIN: what programs look for before they try CUDA; TAP on stdout.

STANDIN is a library that stands for NVRTC.

shows: flyt-run: /dev/nvidia0 and its kin seem to be there for Python and for programs that compile kernels
shows: flyt-run: NVRTC is found by its name without a number
"""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import Skip, case, only_cases  # noqa: E402

BIN, STANDIN = (os.path.abspath(path) for path in sys.argv[1:3])


def python(text, *before, **environment):
    done = subprocess.run([os.path.join(BIN, "flyt-run"), *before, sys.executable, "-c", text], capture_output=True,
                          text=True, env={**os.environ, **environment}, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@case
def the_files_seem_to_be_there():
    said = python("""
import fcntl, os, stat
for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
    path = "/dev/" + name
    assert os.path.exists(path) and os.path.lexists(path), path
    assert os.access(path, os.R_OK | os.W_OK) and not os.access(path, os.X_OK), path
    for what in (os.stat(path), os.lstat(path)):
        assert stat.S_ISCHR(what.st_mode) and os.major(what.st_rdev) in (195, 511), what
    for flags in (os.O_RDWR, os.O_RDONLY | os.O_CLOEXEC):
        file = os.open(path, flags)
        try:
            fcntl.ioctl(file, 0xc8, b"\\0" * 8)
            raise SystemExit("a request is answered")
        except OSError as problem:
            assert problem.errno == 25, problem
        os.close(file)
    with open(path, "rb") as file:
        assert file.read() == b""
print("all")
""")
    assert said == "all", said


@case
def other_files_are_as_they_are():
    said = python("""
import os
for path in ("/dev/nvidia7", "/dev/nvidiactl2", "/dev/nvidia0/x", "/none"):
    for ask in (os.stat, os.lstat, open):
        try:
            ask(path)
            raise SystemExit(f"{path} is there")
        except (FileNotFoundError, NotADirectoryError):
            pass
    assert not os.access(path, os.F_OK)
with open("/proc/self/status") as file:
    assert file.readline().startswith("Name")
print(os.stat("/").st_ino == os.lstat("/").st_ino)
""")
    assert said == "True", said


@case
def nvrtc_needs_no_number():
    folder = tempfile.mkdtemp(prefix="flyt-looked-for.")
    try:
        shutil.copy(STANDIN, os.path.join(folder, "libnvrtc.so.12"))
        # The machine's own NVRTC must not be found: where it has one, the cache of the loader names it.
        said = python("import ctypes; ctypes.CDLL('libnvrtc.so'); print('found')", "/lib64/ld-linux-x86-64.so.2",
                      "--inhibit-cache", LD_LIBRARY_PATH=folder, FLYT_NVRTC="always")
        assert said == "found", said
        said = python("""
import ctypes
try:
    ctypes.CDLL("libnone.so")
except OSError as problem:
    print(problem)
""")
        assert said.startswith("libnone.so: cannot open shared object file"), said
    finally:
        shutil.rmtree(folder)


def test(function):
    if "file" in function.__name__ and os.path.exists("/dev/nvidia0"):
        raise Skip("this machine has NVIDIA's driver")
    function()


sys.exit(only_cases(call=test))
