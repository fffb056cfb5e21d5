#!/usr/bin/env python3
"""refused.py BIN BUILD: what the user of `flyt-run ./anything` sees where Flyt cannot serve the program yet; TAP on
stdout.

shows: first steps: a DT_RPATH, setuid, -static, musl, a file that is not there: one line says why and what to do

BUILD holds the programs of tests/driver/room.mk. Each is started by flyt-run, as a user would.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import Skip, case, only_cases  # noqa: E402

BIN, BUILD = (os.path.abspath(path) for path in sys.argv[1:3])
RUN = os.path.join(BIN, "flyt-run")
folder = tempfile.mkdtemp(prefix="flyt-refused-")


def run(*command, cwd=None, server="local:software", **environment):
    return subprocess.run([RUN, "--server", server, *command], capture_output=True, text=True, errors="replace",
                          timeout=100, cwd=cwd,
                          env={**os.environ, **environment})


def one_line(done, *patterns):
    """Flyt says one thing, and it has every pattern."""
    lines = [line for line in done.stderr.splitlines() if re.match(r"flyt\[\d+\] |flyt-run: ", line)]
    assert len(lines) == 1, f"{len(lines)} lines: {done.stderr}"
    for pattern in patterns:
        assert re.search(pattern, lines[0]), f"no /{pattern}/ in {lines[0]}"


def own(name):
    return os.path.join(BUILD, name)


@case
def a_program_that_calls_nothing():
    """Many are linked with -lcuda and use the runtime only."""
    done = run(own("linked"))
    assert done.returncode == 0 and "vector_add: passed" in done.stdout and not done.stderr, done


@case
def rpath():
    """NVIDIA's runtime is named by the program itself: without flyt-run's LD_PRELOAD it would be used."""
    listed = subprocess.run(["readelf", "-d", own("rpath")], capture_output=True, text=True).stdout
    assert "(RPATH)" in listed, listed
    done = run(own("rpath"), LD_PRELOAD="")
    assert done.returncode == 0 and "vector_add: passed" in done.stdout and not done.stderr, done


@case
def fully_static():
    done = run(own("alone"))
    assert done.stdout == "alone\n" and done.returncode == 0, done
    one_line(done, r"/alone is fully static", r"without -static")


@case
def musl():
    done = run(own("musl"))
    if os.path.exists("/lib/ld-musl-x86_64.so.1"):
        raise Skip("musl is installed here")
    assert done.returncode == 127, done
    assert re.search(r"warning: .*/musl was built for musl",
                     done.stderr) and "/lib/ld-musl-x86_64.so.1, which is not there" in done.stderr, done


@case
def setuid():
    if os.geteuid() != 0:
        raise Skip("only root can give a program to another user")
    if os.statvfs(folder).f_flag & os.ST_NOSUID:
        raise Skip("the temporary folder is mounted with nosuid")
    os.chmod(folder, 0o755)
    path = shutil.copy(own("quiet"), os.path.join(folder, "privileged"))
    os.chown(path, 65534, 65534)
    os.chmod(path, 0o4755)
    done = run(path)
    assert done.stdout == "quiet\n", done
    one_line(done, r"/privileged runs with other rights than yours", r"install-client-lib")
    os.chmod(path, 0o755)
    assert not run(path).stderr


@case
def another_processor():
    with open(own("quiet"), "rb") as file:
        image = bytearray(file.read())
    image[18:20] = (183).to_bytes(2, "little")      # e_machine: AArch64
    path = os.path.join(folder, "foreign")
    with open(path, "wb") as file:
        file.write(image)
    os.chmod(path, 0o755)
    assert re.search(r"^flyt-run: warning: .*/foreign is not a program for 64-bit x86", run(path).stderr), "no warning"


@case
def programs_that_are_none():
    done = run("/nonexistent/program")
    assert done.returncode == 127
    one_line(done, r"/nonexistent/program: No such file or directory")
    with open(os.path.join(folder, "program.py"), "w") as file:
        file.write("#!/bin/sh\n")
    os.chmod(os.path.join(folder, "program.py"), 0o755)
    done = run("program.py", cwd=folder)
    assert done.returncode == 127
    one_line(done, r"not found in PATH; .* say \./program\.py")
    done = run(folder)
    assert done.returncode == 126
    one_line(done, r"it is a folder")
    path = os.path.join(folder, "plain")
    with open(path, "w") as file:
        file.write("#!/nonexistent/interpreter\n")
    done = run(path)
    assert done.returncode == 126
    one_line(done, r"not executable; .*chmod \+x")
    os.chmod(path, 0o755)
    done = run(path)
    assert done.returncode == 127
    one_line(done, r"it is started by /nonexistent/interpreter, which is not there")


@case
def the_server_does_not_take_it_for_a_driver():
    done = subprocess.run([RUN, f"{BIN}/cricket-rpc-server", "--gpu", "nvidia", "--listen",
                           f"unix://{folder}/server.sock"],
                          capture_output=True, text=True, timeout=60)
    if "does not start" in done.stderr:
        raise Skip("there is a driver on this machine")
    assert done.returncode == 3 and "is Flyt's own" in done.stderr, done
    done = run(own("linked"), server="local:auto")
    assert done.returncode == 0 and "vector_add: passed" in done.stdout, done


@case
def the_server_finds_the_driver_behind_it():
    """The software GPU stands for NVIDIA's driver, in a folder that is searched whatever LD_LIBRARY_PATH says."""
    script = (f"mount -t tmpfs none /run && mkdir -p /run/opengl-driver/lib && cp {BIN}/libsoftgpu.so "
              f"/run/opengl-driver/lib/libcuda.so.1 &&"
              f" exec {RUN} --server local:nvidia {own('linked')}")
    if subprocess.run(["unshare", "-Urm", "mount", "-t", "tmpfs", "none", "/run"], capture_output=True).returncode:
        raise Skip("no user and mount namespaces here")
    done = subprocess.run(["unshare", "-Urm", "sh", "-c", script], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "vector_add: passed" in done.stdout, done


sys.exit(only_cases(folder))
