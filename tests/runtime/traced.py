#!/usr/bin/env python3
"""traced.py BIN: what FLYT_TRACE prints, of libcudart 11, 12 and 13 on a server in the program's own process.

shows: tracing: each call is printed with names of arguments, enums, errors and kernels, what it wrote, and its time
shows: tracing: a call that other threads interrupt is finished as ltrace does, and a forked child has lines of its own
shows: tracing: every function of the description can be traced, also with null pointers
"""

import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "cpu/api"))
sys.path.insert(0, os.path.join(ROOT, "tests/lib"))
import api  # noqa: E402
import runtime_c  # noqa: E402
from testlib import plan, result  # noqa: E402

PROLOGUE = """
import ctypes, os, sys, threading
ctypes.CDLL("libstdc++.so.6", ctypes.RTLD_GLOBAL)
cuda = ctypes.CDLL(sys.argv[1])
number, size, byref = ctypes.c_int(7), ctypes.c_size_t, ctypes.byref
pointer, none = ctypes.c_void_p(), ctypes.c_void_p(None)
"""

CALLS = PROLOGUE + """
cuda.cudaMalloc(byref(pointer), size(1024))
cuda.cudaMalloc(none, size(4))
host = ctypes.create_string_buffer(16)
cuda.cudaMemcpy(pointer, host, size(16), 1)
cuda.cudaMemcpy(pointer, host, size(16), 9)
cuda.cudaDeviceGetByPCIBusId(byref(number), b'no "bus"\\n\\x01' + b"x" * 100)
cuda.cudaDeviceGetPCIBusId(host, 16, 0)
cuda.cudaDeviceGetAttribute(byref(number), 75, 0)
stream = ctypes.c_void_p()
cuda.cudaStreamCreateWithFlags(byref(stream), 1)
cuda.cudaStreamSynchronize(ctypes.c_void_p(2))
cuda.cudaGraphicsUnregisterResource(None)
cuda.cudaGetErrorName.restype = ctypes.c_char_p
cuda.cudaGetErrorName(1)

image = ctypes.create_string_buffer(64)
wrapper = (ctypes.c_uint64 * 3)(0x1466243B1, ctypes.addressof(image), 0)
register = cuda.__getattr__("__cudaRegisterFatBinary")
register.restype = ctypes.c_void_p
handle = ctypes.c_void_p(register(ctypes.byref(wrapper)))
key = ctypes.create_string_buffer(8)
cuda.__getattr__("__cudaRegisterFunction")(handle, key, none, b"_Z3addPfi", -1, none, none, none, none, none)
class dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]
cuda.cudaLaunchKernel(key, dim3(4, 2, 1), dim3(32, 1, 1), none, size(8), stream)
"""

# Regular expressions for the lines of CALLS, in order.
P = "0x[0-9a-f]+"
EXPECTED = (
    rf"cudaMalloc\(devPtr=\[{P}\], size=1024\) = cudaSuccess",
    r"cudaMalloc\(devPtr=NULL, size=4\) = cudaErrorInvalidValue \(1\)",
    rf"cudaMemcpy\(dst={P}, src={P}, count=16, kind=cudaMemcpyHostToDevice\) = cudaSuccess",
    rf"cudaMemcpy\(dst={P}, src={P}, count=16, kind=9\) = cudaErrorInvalidMemcpyDirection \(21\)",
    rf'cudaDeviceGetByPCIBusId\(device={P}, pciBusId="no \\"bus\\"\\n\\x01x{{54}}"\.\.\.\)'
    r" = cudaErrorInvalidValue \(1\)",
    r'cudaDeviceGetPCIBusId\(pciBusId="[0-9a-fA-F:.]+", len=16, device=0\) = cudaSuccess',
    r"cudaDeviceGetAttribute\(value=\[\d+\], attr=cudaDevAttrComputeCapabilityMajor, device=0\) = cudaSuccess",
    rf"cudaStreamCreateWithFlags\(pStream=\[{P}\], flags=0x1\) = cudaSuccess",
    r"cudaStreamSynchronize\(stream=cudaStreamPerThread\) = cudaSuccess",
    r"cudaGraphicsUnregisterResource\(resource=(NULL|0x0)\) = cudaErrorNotSupported \(801\)",
    r'cudaGetErrorName\(error=cudaErrorInvalidValue\) = "cudaErrorInvalidValue"',
    r"cudaLaunchKernel\(func=add\(float\*, int\), gridDim={4, 2, 1}, blockDim={32, 1, 1}, args=NULL, "
    rf"sharedMem=8, stream={P}\) = cudaError\w+ \(\d+\)",
)

# One thread waits for a stream, which waits for a host function, which waits until the main thread has made a call.
THREADS = PROLOGUE + """
begun, go = threading.Event(), threading.Event()
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def function(user):
    begun.set()
    go.wait(20)
stream = ctypes.c_void_p()
cuda.cudaStreamCreate(byref(stream))
cuda.cudaLaunchHostFunc(stream, function, none)
waiter = threading.Thread(target=cuda.cudaStreamSynchronize, args=(stream,))
waiter.start()
begun.wait(20)
while b"cudaStreamSynchronize" not in open(os.environ["FLYT_TRACE"], "rb").read():
    pass
cuda.cudaGetDevice(byref(number))
go.set()
waiter.join(20)
"""

FORK = PROLOGUE + """
cuda.cudaGetDevice(byref(number))
child = os.fork()
if child == 0:
    cuda.cudaGetDevice(byref(number))
    os._exit(0)
os.waitpid(child, 0)
print(os.getpid(), child)
"""

ZEROS = PROLOGUE + """
cuda.cudaDeviceSynchronize()
for line in sys.stdin:
    name, count = line.split()
    getattr(cuda, name)(*[none] * int(count))
"""

TIME = r" <\d+\.\d{9}>$"


class Test:
    def __init__(self, binaries):
        self.binaries = binaries

    def run(self, major, program, trace, stdin="", server="local:null", log="error"):
        library = os.path.join(self.binaries, "cudart", runtime_c.NODES[major])
        env = {
            **os.environ,
            "FLYT_SERVER": server,
            "FLYT_LOG": log,
            **({"FLYT_TRACE": trace} if trace is not None else {}),
        }
        return subprocess.run(
            [sys.executable, "-c", program, library],
            capture_output=True,
            text=True,
            env=env,
            input=stdin,
            timeout=120,
        )

    def report(self, name, wrong):
        result(name, "\n".join(wrong[:15]))

    def calls(self, major):
        run = self.run(major, CALLS, "1")
        lines = [
            re.sub(r" <unfinished \.\.\.>$", "", line) for line in run.stderr.splitlines() if line.startswith("[")
        ]
        lines = re.sub(
            r"\n\[\d+\] <\.\.\. \w+ resumed>", "", "\n".join(lines)
        ).splitlines()  # an error of Flyt's is in between
        wrong = [
            f"line {i}: {line!r} does not match {want}"
            for i, (line, want) in enumerate(zip(lines, EXPECTED))
            if not re.match(rf"\[\d+\] {want}{TIME}", line)
        ]
        if len(lines) != len(EXPECTED) or run.returncode:
            wrong.append(
                f"{len(lines)} lines instead of {len(EXPECTED)}, exit status {run.returncode}: {run.stderr[-2000:]}"
            )
        self.report(f"{runtime_c.NODES[major]}: calls as they are printed", wrong)

    def threads(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace")
            run = self.run(13, THREADS, path, server="local:software")
            with open(path) as file:
                text = file.read()
        wanted = (
            rf"\[(\d+)\] cudaStreamSynchronize\(stream={P} <unfinished \.\.\.>\n"
            rf"\[(\d+)\] cudaGetDevice\(device=\[0\]\) = cudaSuccess <[\d.]+>\n"
            rf"\[\1\] <\.\.\. cudaStreamSynchronize resumed>\) = cudaSuccess <[\d.]+>\n"
        )
        found = re.search(wanted, text)
        self.report(
            "a call that another thread interrupts", [] if found and found[1] != found[2] else [text, run.stderr]
        )
        self.report("FLYT_TRACE=FILE leaves stderr alone", [run.stderr] if run.stderr or run.returncode else [])

    def fork(self):
        run = self.run(13, FORK, "1")
        parent, child = run.stdout.split()
        wrong = (
            []
            if re.search(rf"^\[{parent}\] cudaGetDevice.*\n\[{child}\] cudaGetDevice\(.*= cuda\w+", run.stderr, re.M)
            else [run.stderr]
        )
        self.report("a forked child has lines of its own", wrong)

    def switch(self):
        for setting in (None, "", "0"):
            run = self.run(13, FORK, setting)
            self.report(
                f"FLYT_TRACE {'not set' if setting is None else repr(setting)}: nothing is printed",
                [run.stderr] if run.stderr or run.returncode else [],
            )
        run = self.run(13, FORK, "/nowhere/trace", log="warning")
        self.report(
            "a file that cannot be written: one warning, and the program goes on",
            (
                []
                if run.returncode == 0 and run.stderr.count("FLYT_TRACE: cannot open /nowhere/trace") == 1
                else [run.stderr]
            ),
        )

    def messages(self):
        run = self.run(13, PROLOGUE + "cuda.cudaGraphicsUnregisterResource(none)\n", "1", log="warning")
        wanted = (
            r"\[\d+\] cudaGraphicsUnregisterResource\(resource=NULL <unfinished \.\.\.>\n"
            r"flyt\[\d+\] warning: cudaGraphicsUnregisterResource is not supported[^\n]*\n"
            r"\[\d+\] <\.\.\. cudaGraphicsUnregisterResource resumed>\) = cudaErrorNotSupported \(801\)"
        )
        self.report(
            "a message of Flyt's has a line of its own", [] if re.search(wanted, run.stderr) else [run.stderr]
        )

    def zeros(self, major):
        functions = [f for f in runtime_c.of(major) if "untraced" not in f.options]
        asked = [(name, f) for f in functions for name in f.names() if f.returns == "cudaError_t"]
        run = self.run(major, ZEROS, "1", "".join(f"{name} {len(f.parameters)}\n" for name, f in asked))
        lines = [line for line in run.stderr.splitlines() if line.startswith("[")][1:]
        wrong = []
        for (name, function), line in zip(asked, lines):
            outer = line
            while "{" in outer:
                outer = re.sub(r"\{[^{}]*\}", "", outer)  # members of structures
            names = re.findall(r"[(,] ?(\w+)=", outer)
            if names != [p.name for p in function.parameters] or not re.match(
                rf"\[\d+\] {name}\(.*\) = cuda\w+( \(\d+\))?{TIME}", line
            ):
                wrong.append(line)
        if len(lines) != len(asked) or run.returncode:
            wrong.append(
                f"{len(lines)} lines for {len(asked)} functions, exit status {run.returncode}: {run.stderr[-600:]}"
            )
        self.report(f"{runtime_c.NODES[major]}: all {len(asked)} functions with null arguments", wrong)


def main():
    test = Test(sys.argv[1])
    for major in api.MAJORS:
        test.calls(major)
    test.threads()
    test.fork()
    test.switch()
    test.messages()
    for major in api.MAJORS:
        test.zeros(major)
    return plan()


if __name__ == "__main__":
    sys.exit(main())
