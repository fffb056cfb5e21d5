#!/usr/bin/env python3
"""compiling.py BIN: where code is compiled, and what the end of a process does to the compiler. TAP on stdout.

shows: software GPU: code is compiled where the compiler is installed, in GPU servers only where the setting asks for it
shows: software GPU: a process and a module end at once, and a forked child ends, while a thread compiles
shows: software GPU: a program that uses the same LLVM as the compiler ends if its own use of it fails
"""
import ctypes
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import (case, end, listens, need, only_cases, patience, read, sanitizer_environment,  # noqa: E402
                     spawn, until)

BIN = os.path.abspath(sys.argv[1])
SHORT, LONG = 40, 600      # instructions of a loop; sines, of which the compiler takes ten seconds for the long one
OFTEN = 6000               # rounds of the loop, after which it is worth compiling
COMPILER = "libsoftgpu-jit.so"
FOLDER = tempfile.mkdtemp(prefix="flyt-compiling-") if len(sys.argv) == 2 else None


# ---- a program whose kernel takes long to compile ----

def kernel(length):
    """32 threads run a loop of so many instructions n times."""
    body = "\n".join(f"sin.approx.f32 %f{k % 32}, %f{(k * 7 + 3) % 32};" for k in range(length))
    start = "\n".join(f"cvt.rn.f32.u32 %f{k}, %t;" for k in range(32))
    return f""".version 7.0
.target sm_70
.address_size 64
.visible .entry busy(.param .u64 p, .param .u32 n) {{
.reg .b64 %p, %a; .reg .f32 %f<32>; .reg .b32 %n, %t; .reg .pred %q;
ld.param.u64 %p, [p]; ld.param.u32 %n, [n]; mov.u32 %t, %tid.x;
{start}
again:
{body}
sub.u32 %n, %n, 1; setp.ne.u32 %q, %n, 0; @%q bra again;
mul.wide.u32 %a, %t, 4; add.u64 %a, %a, %p; st.global.f32 [%a], %f0; ret; }}
""".encode() + b"\0"


def good(code):
    need(code == 0, f"error {code}")


def busy(how, length):
    """A process of its own: runs the kernel until its loop is worth compiling. When that has begun it ends (`ends`),
    unloads the module first (`unloads`), or has a child that ends (`forks`); or it goes on until the compiler is
    loaded, or long enough for that (`waits`), or does so after it has cleared its environment (`clears`), or goes on
    until code is on disk, and then uses LLVM itself, which fails (`fails`)."""
    cuda = ctypes.CDLL("libcuda.so.1")
    if os.environ.get("TEST_LIMIT"):
        resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, 8 << 30))
    if how == "clears":
        os.environ.clear()
    context, module, function = (ctypes.c_void_p() for _ in range(3))
    memory, count = ctypes.c_uint64(), ctypes.c_uint32(OFTEN)
    good(cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cuda.cuCtxSetCurrent(context))
    good(cuda.cuModuleLoadData(ctypes.byref(module), kernel(length)))
    good(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"busy"))
    good(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(128)))
    arguments = (ctypes.c_void_p * 2)(ctypes.addressof(memory), ctypes.addressof(count))

    def launch():
        good(cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, arguments, None) or cuda.cuCtxSynchronize())

    launch()
    if how not in ("waits", "clears", "fails"):
        time.sleep(0.1)
    begun = time.monotonic()
    if how == "unloads":
        good(cuda.cuModuleUnload(module))
    elif how == "forks":
        child = os.fork()
        if not child:
            sys.exit(7)
        need(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7, "the child ended in another way")
    elif how in ("waits", "clears"):
        last = time.monotonic() + 3
        while time.monotonic() < last and not has_compiler("self"):
            launch()
    elif how == "fails":
        until(lambda: launch() or os.listdir(os.environ["FLYT_SOFTGPU_CACHE"]), "code is on disk")
        fail_in_llvm()
    print(has_compiler("self"), begun if how == "unloads" else time.monotonic(), flush=True)


def fail_in_llvm():
    """In the LLVM that the compiler uses: code for an instruction that the processor lacks."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        llvm = ctypes.CDLL(next(line.split()[-1] for line in file if "libLLVM" in line))
    for function in (llvm.LLVMContextCreate, llvm.LLVMCreateMemoryBufferWithMemoryRangeCopy,
                     llvm.LLVMCreateTargetMachine):
        function.restype = ctypes.c_void_p
    aes, row = b"@llvm.x86.aesni.aesenc", b"<2 x i64>"
    code = b"declare %s %s(%s, %s)\ndefine %s @f(%s %%a) { %%b = call %s %s(%s %%a, %s %%a)\n ret %s %%b }\n" % (
        row, aes, row, row, row, row, row, aes, row, row, row)
    module, target, out, message = (ctypes.c_void_p() for _ in range(4))
    buffer = ctypes.c_void_p(llvm.LLVMCreateMemoryBufferWithMemoryRangeCopy(code, ctypes.c_size_t(len(code)), b"code"))
    need(not llvm.LLVMParseIRInContext(ctypes.c_void_p(llvm.LLVMContextCreate()), buffer, ctypes.byref(module),
                                       ctypes.byref(message)), "LLVM does not read the code")
    triple = b"x86_64-pc-linux-gnu"
    need(not llvm.LLVMGetTargetFromTriple(triple, ctypes.byref(target), ctypes.byref(message)), "no target")
    machine = ctypes.c_void_p(llvm.LLVMCreateTargetMachine(target, triple, b"x86-64", b"", 2, 0, 0))
    llvm.LLVMTargetMachineEmitToMemoryBuffer(machine, module, 1, ctypes.byref(message), ctypes.byref(out))


def has_compiler(process):
    with open(f"/proc/{process}/maps", encoding="utf-8") as file:
        return COMPILER in file.read()


def run(how, length, bindir=BIN, **setting):
    """Was the compiler loaded, what has the process written to stderr, and how many seconds did its end take?"""
    environment = {**os.environ, **sanitizer_environment(BIN), "FLYT_SERVER": "local:", "FLYT_SOFTGPU_CACHE": "off",
                   "LD_LIBRARY_PATH": f"{bindir}/cudart:{bindir}", **setting}
    for name in [name for name in environment if environment[name] is None]:
        del environment[name]
    done = subprocess.run([sys.executable, __file__, BIN, how, str(length)], env=environment, text=True,
                          capture_output=True, timeout=patience(120))
    ended = time.monotonic()
    if how == "fails":
        return done.returncode, done.stderr, 0
    need(done.returncode == 0, (done.returncode, done.stderr))
    loaded, at = done.stdout.split()
    return loaded == "True", done.stderr, ended - float(at)


DEFAULT = {"FLYT_SOFTGPU_JIT": None}     # whatever the test's own environment says


@case
def an_installed_compiler_is_used():
    loaded, said, _ = run("waits", SHORT, **DEFAULT)
    need(loaded and not said, said)
    loaded, said, _ = run("waits", SHORT, FLYT_SOFTGPU_JIT="off")
    need(not loaded and not said, said)
    loaded, said, _ = run("waits", SHORT, TEST_LIMIT="1", **DEFAULT)
    need(not loaded and not said, said)


@case
def the_setting_counts_after_the_environment_was_cleared():
    loaded, said, _ = run("clears", SHORT, FLYT_SOFTGPU_JIT="off")
    need(not loaded and not said, said)


@case
def without_a_compiler_the_interpreter_runs():
    bindir = f"{FOLDER}/bin"
    shutil.copytree(BIN, bindir, ignore=shutil.ignore_patterns("flyt*", "compilers", COMPILER), symlinks=True)
    loaded, said, _ = run("waits", SHORT, bindir, **DEFAULT)
    need(not loaded and not said, said)
    loaded, said, _ = run("waits", SHORT, bindir, FLYT_SOFTGPU_JIT="on")
    need(not loaded and "there is no compiler" in said, said)


@case
def a_server_compiles_only_where_it_is_told():
    """Whatever the program says."""
    for setting, expected in ((None, False), ("on", True)):
        environment = {**os.environ, **sanitizer_environment(BIN), "FLYT_SOFTGPU_JIT": setting, "FLYT_STATS": "1",
                       "FLYT_LOG": "info"}
        environment = {name: value for name, value in environment.items() if value is not None}
        log = f"{FOLDER}/server-{setting}.log"
        server = spawn(log, f"{BIN}/cricket-rpc-server", "--gpu", "software", "--listen", f"unix://{FOLDER}/s",
                       environment=environment)
        try:
            until(lambda: listens(f"{FOLDER}/s"), "the server listens")
            loaded, said, _ = run("waits", SHORT, FLYT_SERVER=f"unix://{FOLDER}/s", FLYT_SOFTGPU_JIT="on")
            need(not loaded and not said, said)
            until(lambda: "event=session-ends" in read(log), "the session has ended")
            until(lambda: ("softgpu: compiled" in read(log)) == expected, "the server says what it has compiled")
        finally:
            end(server)


@case
def a_process_ends_in_the_midst_of_a_region():
    for _ in range(3):
        _, said, seconds = run("ends", LONG, FLYT_SOFTGPU_JIT="on")
        need(seconds < patience(2) and not said, f"the end took {seconds:.1f} s: {said}")


@case
def a_module_is_unloaded_while_its_code_is_compiled():
    _, said, seconds = run("unloads", LONG, FLYT_SOFTGPU_JIT="on")
    need(seconds < patience(2) and not said, f"unloading and the end took {seconds:.1f} s: {said}")


@case
def a_child_ends_while_its_parent_compiles():
    _, said, seconds = run("forks", LONG, FLYT_SOFTGPU_JIT="on")
    need(seconds < patience(2) and not said, f"the end took {seconds:.1f} s: {said}")


@case
def a_program_whose_own_use_of_llvm_fails_ends():
    code, said, _ = run("fails", SHORT, FLYT_SOFTGPU_JIT="on", FLYT_SOFTGPU_CACHE=f"{FOLDER}/cache")
    need(code != 0 and said.startswith("LLVM ERROR: "), (code, said))


if __name__ == "__main__":
    if len(sys.argv) > 3:
        sys.exit(busy(sys.argv[2], int(sys.argv[3])))
    sys.exit(only_cases(FOLDER))
