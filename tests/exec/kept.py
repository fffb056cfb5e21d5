#!/usr/bin/env python3
"""kept.py BIN PROGRAM ENDS: code that the software GPU has compiled lies on disk, and the next process takes it from
there. PROGRAM prints what does not differ from run to run, ENDS ends while code is being compiled. TAP on stdout.

shows: software GPU: compiled code is kept in a folder of the user's own (FLYT_SOFTGPU_CACHE); the next process compiles
  nothing and prints the same; a damaged file, another level of the processor and another build compile again; a
  process may end while code is being compiled
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import case, need, only_cases, sanitizer_environment  # noqa: E402

BIN, PROGRAM, ENDS = map(os.path.abspath, sys.argv[1:4])
FOLDER = tempfile.mkdtemp(prefix="flyt-kept-")
COMPILED = re.compile(r"^softgpu: compiled (\d+) regions", re.M)
STORED = re.compile(r"^softgpu: (\d+) regions had code on disk", re.M)


def environment(bindir, **setting):
    """With one host thread, the same regions run in each process."""
    return {**os.environ, **sanitizer_environment(BIN), "FLYT_SERVER": "local:", "FLYT_SOFTGPU_JIT": "always",
            "FLYT_SOFTGPU_THREADS": "1", "FLYT_STATS": "1", "LD_LIBRARY_PATH": f"{bindir}/cudart:{bindir}", **setting}


def run(program, bindir=BIN, **setting):
    """How many regions were compiled, how many were on disk, and what the program printed."""
    done = subprocess.run([program], env=environment(bindir, **setting), text=True, capture_output=True, timeout=300)
    need(done.returncode == 0, done.stderr)
    compiled, stored = COMPILED.search(done.stderr), STORED.search(done.stderr)
    need(compiled and stored, done.stderr)
    return int(compiled[1]), int(stored[1]), done.stdout


def files(folder):
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


def first_and_second(program, folder, **setting):
    """Runs it until all of its code is in the folder; how many regions that is, and what the program prints."""
    compiled, stored, said = run(program, FLYT_SOFTGPU_CACHE=folder, **setting)
    need(compiled > 0 and stored == 0, (compiled, stored))
    need(len(files(folder)) == compiled, (compiled, files(folder)))
    again = run(program, FLYT_SOFTGPU_CACHE=folder, **setting)
    need(again == (0, compiled, said), (again, compiled, said))
    return compiled, said


@case
def the_next_process_compiles_nothing():
    folder = f"{FOLDER}/next"
    _, said = first_and_second(PROGRAM, folder)
    need(run(PROGRAM, FLYT_SOFTGPU_CACHE="off")[2] == said, said)
    need({os.stat(path).st_mode & 0o777 for path in files(folder)} == {0o600}, "others may read it")
    need(os.stat(folder).st_mode & 0o777 == 0o700, "others may list it")


@case
def damaged_code_is_compiled_again():
    folder = f"{FOLDER}/damaged"
    count, said = first_and_second(PROGRAM, folder)
    for path in files(folder):
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 0x10]))
    need(run(PROGRAM, FLYT_SOFTGPU_CACHE=folder) == (count, 0, said), "damaged code was used")
    need(run(PROGRAM, FLYT_SOFTGPU_CACHE=folder) == (0, count, said), "it was not mended")


@case
def another_level_has_code_of_its_own():
    folder = f"{FOLDER}/level"
    count, said = first_and_second(PROGRAM, folder)
    compiled, stored, other = run(PROGRAM, FLYT_SOFTGPU_CACHE=folder, FLYT_SOFTGPU_CPU="v3")
    v4 = "avx512vl" in open("/proc/cpuinfo", encoding="utf-8").read()
    need((compiled, stored) == ((count, 0) if v4 else (0, count)), (compiled, stored))
    need(other == said, other)


@case
def another_build_has_code_of_its_own():
    """A compiler that differs in its build ID alone."""
    folder, bindir = f"{FOLDER}/build", f"{FOLDER}/bin"
    shutil.copytree(BIN, bindir, ignore=shutil.ignore_patterns("flyt*", "compilers"), symlinks=True)
    library = f"{bindir}/libsoftgpu-jit.so"
    notes = subprocess.run(["readelf", "-n", library], capture_output=True, text=True, check=True).stdout
    build = bytes.fromhex(re.search(r"Build ID: ([0-9a-f]+)", notes)[1])
    count, said = first_and_second(PROGRAM, folder)
    with open(library, "rb") as file:
        content = file.read()
    need(content.count(build) == 1, "the build ID is not in the library once")
    os.remove(library)
    with open(library, "wb") as file:
        file.write(content.replace(build, build[::-1]))
    need(run(PROGRAM, bindir, FLYT_SOFTGPU_CACHE=folder) == (count, 0, said), "code of another build was used")


@case
def the_folder_is_the_users():
    home = f"{FOLDER}/home"
    os.mkdir(home)
    none = {"FLYT_SOFTGPU_CACHE": "", "XDG_CACHE_HOME": ""}
    count = run(PROGRAM, HOME=home, **none)[0]
    need(len(files(f"{home}/.cache/flyt/softgpu")) == count, "not in the home folder")
    run(PROGRAM, HOME=home, **{**none, "XDG_CACHE_HOME": f"{home}/other"})
    need(len(files(f"{home}/other/flyt/softgpu")) == count, "not in XDG_CACHE_HOME")
    need(run(PROGRAM, HOME="/dev/null", **none)[1] == 0, "code from nowhere")
    if os.geteuid() == 0:             # as sudo may leave it
        os.chown(home, 1, 1)
        need(run(PROGRAM, HOME=home, **none)[:2] == (count, 0), "the home folder of another user was used")
        run(PROGRAM, HOME=f"{FOLDER}/absent", **none)
        need(not os.path.exists(f"{FOLDER}/absent"), "a home folder was made")
    need(run(PROGRAM, HOME=home, FLYT_SOFTGPU_CACHE="off")[1] == 0, "code was found though it is off")


@case
def processes_share_a_folder():
    """Four at a time write the same files."""
    folder = f"{FOLDER}/shared"
    script = f"for k in 1 2 3 4; do {PROGRAM} >{FOLDER}/said-$k 2>{FOLDER}/log-$k & done; wait"
    subprocess.run(["sh", "-c", script], check=True, timeout=600, env=environment(BIN, FLYT_SOFTGPU_CACHE=folder))
    compiled, stored, said = run(PROGRAM, FLYT_SOFTGPU_CACHE=folder)
    need(compiled == 0 and stored == len(files(folder)), (compiled, stored, files(folder)))
    for k in range(1, 5):
        with open(f"{FOLDER}/said-{k}", encoding="utf-8") as file:
            need(file.read() == said, said)


@case
def a_process_ends_while_code_is_compiled():
    """LLVM clears up then."""
    for k in range(10):
        setting = environment(BIN, FLYT_SOFTGPU_CACHE="off", FLYT_SOFTGPU_JIT="on", FLYT_SOFTGPU_THREADS="2")
        done = subprocess.run([ENDS], env=setting, text=True, capture_output=True, timeout=300)
        need(done.returncode == 0, (k, done.returncode, done.stderr))


if __name__ == "__main__":
    sys.exit(only_cases(FOLDER))
