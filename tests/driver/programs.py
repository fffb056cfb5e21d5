#!/usr/bin/env python3
"""programs.py BIN BUILD CUDA_HOME SHARED NAME...: programs that reach Flyt's libcuda.so.1; TAP on stdout.

shows: first steps: programs with NVIDIA's static runtime print what the same programs print with Flyt's runtime
shows: first steps: NVIDIA's shared runtime, programs of the driver API, scripts, kernels compiled at run time
shows: first steps: the libraries installed for all programs of a machine, setuid ones too

BUILD/static-NAME is built with nvcc -cudart static, SHARED/NAME with -cudart shared. Each is started by flyt-run, as a
user would.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import GpuServer, Skip, case, cases, only_cases  # noqa: E402

BIN, BUILD, CUDA_HOME, SHARED = (os.path.abspath(path) for path in sys.argv[1:5])
NAMES = sys.argv[5:]
RUN = os.path.join(BIN, "flyt-run")
folder = tempfile.mkdtemp(prefix="flyt-driver-")


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

    compare.__name__ = f"{name} with the static runtime"
    return compare


cases += [same_as_shared(program) for program in NAMES]


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


def with_server(function):
    """Runs function(URI) beside a server; setuid programs cannot have it in their own process."""
    with GpuServer(BIN, f"unix://{folder}/server.sock") as server:
        os.chmod(f"{folder}/server.sock", 0o666)
        return function(server.uri)


@case
def a_runtime_without_a_number():
    done = run(sys.executable, "-c", "import ctypes; l = ctypes.CDLL('libcudart.so'); v = ctypes.c_int()\n"
               "print(l.cudaRuntimeGetVersion(ctypes.byref(v)), v.value // 1000)")
    assert done.stdout == "0 13\n" and not done.stderr, done


@case
def drivers_without_a_number():
    """As NVIDIA's installer makes the names; Taichi loads the driver so."""
    done = run(sys.executable, "-c", "import ctypes as c; d = c.CDLL('libcuda.so'); n = c.CDLL('libnvidia-ml.so')\n"
               "print(d.cuInit(0), d._handle == c.CDLL('libcuda.so.1')._handle, n.nvmlInit_v2())")
    assert done.stdout == "0 True 0\n" and not done.stderr, done


@case
def runtime_and_driver_api_together():
    """The context that the runtime makes is current for the Driver API, as natively; cuFFT counts on it."""
    done = run(sys.executable, "-c", "import ctypes as c; r = c.CDLL('libcudart.so'); d = c.CDLL('libcuda.so.1')\n"
               "p, q = c.c_void_p(), c.c_void_p(); a = c.c_uint64()\n"
               "print(d.cuInit(0), d.cuCtxGetCurrent(c.byref(p)), p.value, d.cuMemAlloc_v2(c.byref(a), 4))\n"
               "print(r.cudaFree(None), d.cuCtxGetCurrent(c.byref(p)), d.cuDevicePrimaryCtxRetain(c.byref(q), 0),"
               " p.value == q.value, d.cuMemAlloc_v2(c.byref(a), 4), r.cudaFree(a))")
    assert done.stdout == "0 0 None 201\n0 0 0 True 0 0\n" and not done.stderr, done


@case
def the_runtime_initialises_the_driver_api():
    """As NVIDIA's calls cuInit; PyTorch counts on it."""
    done = run(sys.executable, "-c", "import ctypes as c; r = c.CDLL('libcudart.so'); d = c.CDLL('libcuda.so.1')\n"
               "n, f = c.c_int(), c.c_uint(); state = lambda: d.cuDevicePrimaryCtxGetState(0, c.byref(f), c.byref(n))\n"
               "print(state(), r.cudaGetDeviceCount(c.byref(n)), state(), n.value)")
    assert done.stdout == "3 0 0 0\n" and not done.stderr, done


@case
def code_that_the_server_refuses():
    """A library with two images of machine code only: it is named once. The program's own two are told of once."""
    for library in "refused-static.so", "refused-shared.so":
        done = run(sys.executable, "-c", f"import ctypes as c; l = c.CDLL({own(library)!r})\n"
                   "print(l.first(), l.second(), l.first())")
        assert done.stdout == "209 209 209\n", done
        said = messages(done)
        assert len(said) == 1 and re.search(rf"warning: {library} has .*\(error 209\).* may go on with", said[0]), done
    done = run(own("refused"))
    said = messages(done)
    assert done.stdout == "209 209 209\n" and len(said) == 1 and "error: a code image of this program" in said[0], done


@case
def compute_sanitizer_does_not_end_the_program():
    """Its library takes a table that is refused for one that is there. So it gets one whose functions return 801."""
    ask = ("l, t = c.CDLL('libcuda.so.1'), c.c_void_p()\n"
           "for i in range(2): print(l.cuInit(0), l.cuGetExportTable(c.byref(t), b'?' * 16), t.value is not None)\n")
    done = run(sys.executable, "-c", "import ctypes as c\n" + ask)
    assert done.stdout == "0 1 False\n0 1 False\n" and "does not know" in done.stderr, done
    call = "print(c.CFUNCTYPE(c.c_int)(c.cast(t, c.POINTER(c.c_void_p))[5])())"
    load = f"import ctypes as c; c.CDLL({own('libsanitizer-collection.so')!r})\n"
    done = run(sys.executable, "-c", load + ask + call)
    assert done.stdout == "0 0 True\n0 0 True\n801\n", done
    assert len(messages(done)) == 1 and "compute-sanitizer cannot watch" in done.stderr, done


@case
def functions_of_the_driver_from_the_runtime():
    """cudaGetDriverEntryPoint finds them for a program that does not know libcuda."""
    program = ("import ctypes as c; r = c.CDLL(NAME); f, s, p = c.c_void_p(), c.c_int(), c.c_void_p(); "
               "a = c.c_uint64()\n"
               "for n in (b'cuMemAlloc', b'cuMemAlloc_v2', b'cuNoSuchFunction'):\n"
               "    print(r.cudaGetDriverEntryPoint(n, c.byref(f), c.c_ulonglong(0), c.byref(s)), "
               "s.value, f.value is None)\n"
               "    p = p if f.value is None else c.c_void_p(f.value)\n"
               "print(r.cudaFree(None), c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_size_t)(p.value)(c.addressof(a), 64),"
               " r.cudaFree(a))\n")
    wanted = "0 0 False\n0 1 True\n0 1 True\n0 0 0\n"
    done = run(sys.executable, "-c", program.replace("NAME", "'libcudart.so.13'"))
    assert done.stdout == wanted and not done.stderr, done
    done = run(sys.executable, "-c", program.replace("NAME", f"'{BIN}/cudart/libcudart.so.12'"))
    assert done.stdout == wanted and not done.stderr, done


@case
def compiled_at_run_time():
    """NVRTC is asked for machine code of the device; the software GPU gets PTX, and the program knows nothing of it."""
    library = os.path.join(CUDA_HOME, "lib64/libnvrtc.so.13")
    if not os.path.exists(library):
        raise Skip(f"{library} is not there")
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compiles.py")
    done = run(sys.executable, program, library)
    assert done.stdout == "known True\nunknown 5\nregisters 40\nresult 41 42 43 44\n" and not done.stderr, done
    done = run(sys.executable, program, library, FLYT_NVRTC="never")
    assert done.returncode, done
    for variable, preloaded in (("always", True), ("never", False), ("", False)):
        done = run("sh", "-c", "echo $LD_PRELOAD", FLYT_NVRTC=variable)
        assert done.stdout.startswith(f"{BIN}/libflyt-nvrtc.so") == preloaded, done
    done = run(program, library)
    assert done.stdout.endswith("result 41 42 43 44\n"), done


@case
def a_kernel_that_nvcc_compiles_at_run_time():
    """As PyCUDA does it. Without the folder that flyt-run puts into PATH, nvcc does not know the architecture."""
    if not os.access(f"{CUDA_HOME}/bin/nvcc", os.X_OK):
        raise Skip(f"{CUDA_HOME}/bin/nvcc is not there")
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compiles.py")
    paths = f"{CUDA_HOME}/bin:{os.environ['PATH']}"
    done = run(sys.executable, program, "nvcc", PATH=paths)
    assert done.stdout == "registers 40\nresult 41 42 43 44\n" and not done.stderr, done
    done = run(sys.executable, program, "nvcc", PATH=paths, FLYT_NVRTC="never")
    assert done.returncode, done
    done = run(sys.executable, "-c", "import subprocess; subprocess.run(['nvcc', '--version'])", PATH=paths)
    assert "Cuda compiler driver" in done.stdout, done
    done = run(sys.executable, "-c", "import subprocess; print(subprocess.call(['nvcc', '--version']))", PATH="/bin")
    assert done.stdout == "127\n" and "there is no NVIDIA nvcc in PATH" in done.stderr, done


def fake_ptxas(place, text):
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place, "w") as file:
        file.write(f"#!/bin/sh\necho {text} \"$@\"\n")
    os.chmod(place, 0o755)
    return place


@case
def a_kernel_that_ptxas_assembles_at_run_time():
    """As Triton does it: without a ptxas of NVIDIA's, and without flyt-run's, which leaves no path to any."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compiles.py")
    for capability in ("8.9", "13.0"):
        done = run(sys.executable, program, "ptxas", PATH="/bin:/usr/bin", FLYT_SOFTGPU_CC=capability)
        assert done.stdout == "release True True\nregisters 40\nresult 41 42 43 44\n" and not done.stderr, done
    done = run(sys.executable, program, "ptxas", FLYT_NVRTC="never")
    assert done.returncode and "TRITON_PTXAS" in done.stderr, done
    call = "import os, subprocess; print(subprocess.call([os.environ['TRITON_PTXAS_PATH'], 'a.ptx', '-o', 'b']))"
    done = run(sys.executable, "-c", call, PATH="/bin:/usr/bin", cwd=folder)
    assert done.stdout == "1\n" and done.stderr == "ptxas: no input file\n", done


@case
def the_ptxas_that_the_user_named():
    """On a GPU that is no software GPU (here: none answers), it gets the arguments. So does the first one in PATH where
    the user named none. A program that starts flyt-run again changes nothing."""
    named = fake_ptxas(f"{folder}/named/ptxas", "named")
    found = fake_ptxas(f"{folder}/found/ptxas", "found")
    call = "import os, subprocess; subprocess.call([os.environ['TRITON_PTXAS_PATH'], 'a.ptx', '-o', 'b c'])"
    paths = f"{os.path.dirname(found)}:/bin:/usr/bin"
    for before, variables, text in (([RUN], {"TRITON_PTXAS_PATH": named}, "named"), ([RUN], {}, "found"),
                                    ([RUN, RUN], {"TRITON_PTXAS_PATH": named, "FLYT_NVRTC": "always"}, "named")):
        done = subprocess.run([*before, sys.executable, "-c", call], capture_output=True, text=True, timeout=100,
                              env={**os.environ, "FLYT_SERVER": "unix:///nowhere", "PATH": paths, **variables})
        assert done.stdout == f"{text} a.ptx -o b c\n", done


LINKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "links.py")
LINKED = "refused error   : Undefined reference to 'forty' in 'input'\nresult 42\n"


@case
def linked_at_run_time():
    """nvJitLink is asked for machine code, and NVVM for the device's architecture: the software GPU gets PTX."""
    library = os.path.join(CUDA_HOME, "lib64/libnvJitLink.so.13")
    if not os.path.exists(library):
        raise Skip(f"{library} is not there")
    places = [os.path.join(CUDA_HOME, folder, "libnvvm.so.4") for folder in ("nvvm/lib64", "lib")]
    compiler = [f"--nvvm={place}" for place in places if os.path.exists(place)][:1]
    wanted = LINKED + 4 * "lto 42\n" + ("architecture True\noption False\n" if compiler else "")
    done = run(sys.executable, LINKS, library, "--lto", own("link/lto.fatbin"), *compiler)
    assert done.stdout == wanted and not done.stderr, done
    done = run(sys.executable, LINKS, library, "--unchecked", FLYT_NVRTC="never")
    assert done.returncode, done


@case
def linked_by_what_is_older_than_the_device():
    """nvJitLink of CUDA 12.9 fails for architectures that it does not know."""
    done = run(sys.executable, LINKS, own("libnvJitLink.so.12"), "--unchecked")
    assert done.stdout == LINKED and not done.stderr, done


@case
def a_grid_that_meets_through_the_device_runtime():
    """Numba's grid groups call functions of libcudadevrt, which call the driver's own."""
    library = os.path.join(CUDA_HOME, "lib64/libcudadevrt.a")
    if not os.path.exists(library):
        raise Skip(f"{library} is not there")
    done = run(sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "grid_sync.py"), library)
    assert done.stdout == "met 512\n" and not done.stderr, done


@case
def without_flyt_run():
    for variables in ({"LD_LIBRARY_PATH": f"{BIN}/cudart"}, {"LD_PRELOAD": f"{BIN}/cudart/libcuda.so.1"}):
        done = subprocess.run([own("static-vector_add")], capture_output=True, text=True, timeout=100,
                              env={**os.environ, "FLYT_SERVER": "local:software", **variables})
        assert done.returncode == 0 and "vector_add: passed" in done.stdout and not done.stderr, (variables, done)


@case
def installed_for_all_programs():
    """In a mount namespace: /etc and /usr/local/lib are copies there, and the server listens where programs look
    without a setting. The program is setuid, and knows nothing of Flyt."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        raise Skip("only root can change the machine's loader")
    if os.path.exists("/dev/nvidia0") or "libcuda.so.1 " in subprocess.run(["ldconfig", "-p"], capture_output=True,
                                                                           text=True).stdout:
        raise Skip("there is a driver on this machine")
    program = shutil.copy(own("static-vector_add"), os.path.join(folder, "privileged"))
    os.chmod(folder, 0o755)
    os.chown(program, 65534, 65534)
    os.chmod(program, 0o4755)
    script = ("set -e; for f in /etc /usr/local/lib; do cp -a $f/. $0$f; mount --bind $0$f $f; done\n"
              f"mount -t tmpfs none /run; mkdir /run/flyt; mount --bind {folder} /run/flyt\n"
              "ldconfig; before=$(ldconfig -p | cksum; ls -R /usr/local/lib | cksum)\n"
              f"cpu/client/install/install-client-lib {BIN}\n"
              f"env -u LD_LIBRARY_PATH {program}\n"
              "cpu/client/install/restore-client-lib\n"
              "[ \"$before\" = \"$(ldconfig -p | cksum; ls -R /usr/local/lib | cksum)\" ] && echo restored\n"
              f"env -u LD_LIBRARY_PATH {program} || true\n")
    copies = os.path.join(folder, "copies")
    os.makedirs(f"{copies}/etc")
    os.makedirs(f"{copies}/usr/local/lib")

    def installed(_address):
        return subprocess.run(["unshare", "-m", "sh", "-c", script, copies], capture_output=True, text=True,
                              timeout=100)

    done = with_server(installed)
    assert "vector_add: passed\nrestored\n" in done.stdout and done.stdout.count("passed") == 1, done


@case
def what_is_not_implemented_names_itself_once():
    done = run(sys.executable, "-c", "import ctypes; l = ctypes.CDLL('libcuda.so.1')\n"
               "print(l.cuInit(0), l.cuMulticastCreate(None, None), l.cuMulticastCreate(None, None))")
    assert done.stdout == "0 801 801\n" and len(messages(done)) == 1, done
    assert "cuMulticastCreate is not supported" in done.stderr, done


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


sys.exit(only_cases(folder))
