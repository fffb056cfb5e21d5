#!/usr/bin/env python3
"""loading.py BIN CORE_DIR PROGRAM_PREFIX: how programs get at the runtime: linked, preloaded, dlopened, from Python.

CORE_DIR holds the core without a server. PROGRAM_PREFIX + version is tests/runtime/linked.c, linked against our library
of that version.
"""
import os
import subprocess
import sys
import textwrap

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import plan, result  # noqa: E402

NODES = {11: "libcudart.so.11.0", 12: "libcudart.so.12", 13: "libcudart.so.13"}
PROPERTIES_SIZE = {11: 728, 12: 1032, 13: 1008}
results = []


def run(command, **environment):
    # Sanitized libraries want their run-time library first in a program that has none.
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment})


def test(name):
    def decorate(function):
        def once():
            try:
                function()
                results.append((name, ""))
            except Exception as problem:  # a failed test is reported, whatever it was
                results.append((name, f"{type(problem).__name__}: {problem}"))
        tests.append(once)
        return function
    return decorate


tests = []
binaries, core, prefix = (os.path.abspath(argument) for argument in sys.argv[1:4])
cudart = os.path.join(binaries, "cudart")
preload = os.path.join(binaries, "cricket-client.so")


def expect(have, want):
    if have != want:
        raise AssertionError(f"have {have!r}, want {want!r}")


def seen(version, result=0):
    if result:
        version = 0 if version == 11 else version  # 11 initialises in every call, also in cudaRuntimeGetVersion
        return (f"runtime {version} count {result}:-1 bus {result}: launch {result} bad {result} last {result} "
                "unsupported 801\n")
    wrong = 1 if version == 13 else 9  # 13.0 passes on what the driver says of dimensions
    return f"runtime {version} count 0:2 bus 0:0000:01:00.0 launch 0 bad {wrong} last {wrong} unsupported 801\n"


def python(code, **environment):
    done = run([sys.executable, "-c", textwrap.dedent(code)], LD_LIBRARY_PATH=f"{core}:{cudart}", **environment)
    if done.returncode:
        raise AssertionError(f"exit status {done.returncode}: {done.stderr.strip()[-600:]}")
    return done.stdout


for version in NODES:
    def linked(version=version):
        done = run([prefix + str(version)], LD_LIBRARY_PATH=f"{core}:{cudart}")
        expect((done.returncode, done.stdout), (0, seen(version)))
    test(f"linked, CUDA {version}")(linked)

    # The folder named first has the program's library under its name, so the preloaded one has to win.
    def preloaded(version=version):
        done = run([prefix + str(version)], LD_LIBRARY_PATH=f"{core}:{cudart}", LD_PRELOAD=preload, LD_DEBUG="bindings")
        expect((done.returncode, done.stdout), (0, seen(version)))
        bound = [line for line in done.stderr.splitlines() if "`cudaGetDeviceCount'" in line and "linked" in line]
        expect(len(bound) >= 1 and all("cricket-client.so" in line and f"[{NODES[version]}]" in line for line in bound),
               True)
    test(f"preloaded, CUDA {version}")(preloaded)

    def without_server(version=version):
        done = run([prefix + str(version)], LD_LIBRARY_PATH=f"{core}:{cudart}", FAKE_CORE_ATTACH_ERROR="802")
        expect((done.returncode, done.stdout), (0, seen(version, 802)))
        expect("attached" in done.stderr, False)
    test(f"registration and launch without a server, CUDA {version}")(without_server)

    def quiet(version=version):
        done = run([prefix + str(version), "quiet"], LD_LIBRARY_PATH=f"{core}:{cudart}", FAKE_CORE_TRACE="1")
        expect((done.returncode, done.stdout, done.stderr), (0, "", ""))
    test(f"a program with device code that calls nothing connects to nothing, CUDA {version}")(quiet)

    def from_python(version=version):
        out = python(f"""
            import ctypes
            cudart = ctypes.CDLL("{NODES[version]}")
            count = ctypes.c_int()
            properties = ctypes.create_string_buffer(b"\\xaa" * 2048, 2048)
            entry = cudart.cudaGetDeviceProperties_v2 if {version} == 12 else cudart.cudaGetDeviceProperties
            print(cudart.cudaGetDeviceCount(ctypes.byref(count)), count.value, entry(properties, 0),
                  properties.value.decode(),
                  properties.raw.rindex(bytes([b for b in properties.raw if b != 0xaa][-1:])) + 1,
                  cudart.cudaMalloc(None, ctypes.c_size_t(4)))
            """)
        expect(out.split()[:3], ["0", "2", "0"])
        expect(out.split()[3:], ["Fake", "GPU", str(PROPERTIES_SIZE[version]), "1"])
    test(f"dlopen from Python, layout of CUDA {version}")(from_python)


@test("CUDA_LAUNCH_BLOCKING makes a launch wait for its kernel")
def blocking_launches():
    for setting, waits in (("1", True), ("0", False)):
        done = run([prefix + "13"], LD_LIBRARY_PATH=f"{core}:{cudart}", FAKE_CORE_TRACE="1",
                   CUDA_LAUNCH_BLOCKING=setting)
        expect((done.returncode, "synchronised" in done.stderr), (0, waits))


@test("two versions in one process have errors of their own and one core")
def two_in_one_process():
    out = python("""
        import ctypes
        old, new = ctypes.CDLL("libcudart.so.11.0"), ctypes.CDLL("libcudart.so.13")
        pointer = ctypes.c_void_p()
        print(old.cudaSetDevice(99), new.cudaGetLastError(), old.cudaGetLastError(),
              new.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(64)),
              old.cudaMemset(pointer, 1, ctypes.c_size_t(64)), old.cudaFree(pointer), new.cudaFree(pointer))
        """)
    expect(out.split(), ["101", "0", "101", "0", "0", "0", "1"])


@test("the preloaded file answers for each version's node, and by default for the newest")
def versions_in_the_preload():
    out = python("""
        import ctypes
        libc = ctypes.CDLL(None)
        libc.dlvsym.restype = libc.dlsym.restype = ctypes.c_void_p
        libc.dlvsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
        libc.dlsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        found = [libc.dlvsym(None, b"cudaRuntimeGetVersion", node)
                 for node in (b"libcudart.so.11.0", b"libcudart.so.12", b"libcudart.so.13")]
        value = ctypes.c_int()
        for address in [*found, libc.dlsym(None, b"cudaRuntimeGetVersion")]:
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(address)(ctypes.addressof(value))
            print(value.value // 1000)
        print(libc.dlvsym(None, b"cudaThreadSynchronize", b"libcudart.so.13"))
        """, LD_PRELOAD=preload)
    expect(out.split(), ["11", "12", "13", "13", "None"])


@test("loading and unloading again and again keeps nothing back")
def loading_again():
    out = python("""
        import ctypes, _ctypes
        for _ in range(200):
            library = ctypes.CDLL("libcudart.so.12")
            library.cudaGetLastError()
            _ctypes.dlclose(library._handle)
        print("done")
        """)
    expect(out, "done\n")


for once in tests:
    once()
for name, problem in results:
    result(name, problem)
sys.exit(plan())
