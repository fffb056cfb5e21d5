#!/usr/bin/env python3
"""programs.py BIN BUILD CUDA_HOME SHARED NAME...: programs that reach Flyt's libcuda.so.1; TAP on stdout.

shows: first steps: programs with NVIDIA's static runtime print what the same programs print with Flyt's runtime; NVIDIA's shared runtime, programs of the driver API, scripts

BUILD/static-NAME is built with nvcc -cudart static, SHARED/NAME with -cudart shared. Each is started by flyt-run, as a
user would.
"""
import os
import re
import subprocess
import sys
import tempfile

BIN, BUILD, CUDA_HOME, SHARED = (os.path.abspath(path) for path in sys.argv[1:5])
NAMES = sys.argv[5:]
RUN = os.path.join(BIN, "flyt-run")
cases, folder = [], tempfile.mkdtemp(prefix="flyt-driver-")


class Skip(Exception):
    pass


def case(function):
    cases.append((function.__name__.replace("_", " "), function))
    return function


def run(*command, cwd=None, **environment):
    return subprocess.run([RUN, "--server", "local:software", *command], capture_output=True, text=True,
                          errors="replace", timeout=100, cwd=cwd, env={**os.environ, **environment})


def own(name):
    return os.path.join(BUILD, name)


def messages(done):
    return [line for line in done.stderr.splitlines() if re.match(r"flyt\[\d+\] ", line)]


def same_as_shared(name):
    def compare():
        static, shared = run(own(f"static-{name}")), run(os.path.join(SHARED, name))
        assert shared.returncode == 0, f"the shared one fails: {shared.stderr}"
        assert static.returncode == 0, f"{static.returncode}: {static.stdout[-2000:]}{static.stderr[-2000:]}"
        assert static.stdout == shared.stdout, f"shared:\n{shared.stdout}static:\n{static.stdout}"

    return compare


for program in NAMES:
    cases.append((f"{program} with the static runtime", same_as_shared(program)))


@case
def a_program_of_the_driver_api():
    done = run(own("direct"))
    wanted = "version 0 13000\ninit 0\nname 0 CUDA_ERROR_NO_DEVICE\ncount 0 1\nalloc 201 77\nentry 0 0 1\nnone 0 1 0\n"
    assert done.stdout == wanted and not done.stderr, done


@case
def nvidias_own_runtime():
    library = os.path.join(CUDA_HOME, "lib64/libcudart.so.13")
    if not os.path.exists(library):
        raise Skip(f"{library} is not there")
    done = run(sys.executable, "-c", f"import ctypes; print(ctypes.CDLL('{library}').cudaFree(0))")
    assert done.stdout == "0\n", done


@case
def a_library_of_a_script():
    script = os.path.join(folder, "program.py")
    with open(script, "w") as file:
        file.write(f"#!{sys.executable}\nimport ctypes\nlibrary = ctypes.CDLL('libcuda.so.1')\n"
                   "print(library.cuCtxSynchronize(), library.cuInit(1), library.cuInit(0),"
                   " library.cuCtxSynchronize())\n")
    os.chmod(script, 0o755)
    done = run("./program.py", cwd=folder)
    assert done.stdout == "3 1 0 201\n" and not done.stderr, done


@case
def what_is_not_implemented_names_itself_once():
    done = run(sys.executable, "-c", "import ctypes; l = ctypes.CDLL('libcuda.so.1')\n"
               "print(l.cuInit(0), l.cuGraphCreate(None, 0), l.cuGraphCreate(None, 0))")
    assert done.stdout == "0 801 801\n" and len(messages(done)) == 1, done
    assert "cuGraphCreate is not supported" in done.stderr, done


@case
def unknown_tables_are_refused_with_one_line():
    done = run(sys.executable, "-c", "import ctypes; l = ctypes.CDLL('libcuda.so.1'); t = ctypes.c_void_p(7)\n"
               "for id in (b'0123456789abcdef', b'fedcba9876543210'):\n"
               "    print(l.cuGetExportTable(ctypes.byref(t), id), t.value)")
    assert done.stdout == "1 None\n1 None\n" and len(messages(done)) == 1 and "30313233" in done.stderr, done


@case
def trace():
    done = run(own("direct"), FLYT_TRACE="1")
    assert re.search(r"cuInit\(Flags=0(x0)?\) = CUDA_SUCCESS", done.stderr), done.stderr
    assert re.search(r"cuMemAlloc_v2\(.*\) = CUDA_ERROR_INVALID_CONTEXT", done.stderr), done.stderr
    done = run(own("static-vector_add"), FLYT_TRACE="1")
    assert "cuLaunchKernel(f=" in done.stderr, done.stderr[-2000:]


@case
def no_server():
    done = subprocess.run([own("direct")], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "FLYT_SERVER": f"unix://{folder}/none.sock",
                               "LD_LIBRARY_PATH": f"{BIN}/cudart"})
    assert "init 802\n" in done.stdout and "count 3 -1\n" in done.stdout and len(messages(done)) == 1, done


def main():
    failed = 0
    for number, (name, function) in enumerate(cases, 1):
        try:
            function()
            print(f"ok {number} - {name}", flush=True)
        except Skip as reason:
            print(f"ok {number} - {name} # SKIP {reason}", flush=True)
        except Exception as problem:  # a failed test is reported, whatever it was
            failed += 1
            words = f"{type(problem).__name__}: {problem}".splitlines()
            print(f"not ok {number} - {name}", *words, sep="\n# ", flush=True)
    print(f"1..{len(cases)}")
    return failed != 0


sys.exit(main())
