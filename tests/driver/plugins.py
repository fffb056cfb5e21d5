#!/usr/bin/env python3
"""plugins.py BIN FOLDER CUDA_LIBRARIES: libflyt-nvrtc.so and programs that have NVRTC in several ways; TAP on stdout.

shows: first steps: a program that opens NVRTC itself needs no setting to have it translated for the software GPU
shows: first steps: a plugin that is linked with NVRTC, nvJitLink or NVVM and opened with RTLD_LOCAL gets its own copy

FOLDER has what tests/driver/plugin.c makes: the program, and plugins and compilers that know 3 and 5 architectures.
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import Skip, case, only_cases  # noqa: E402

BIN, FOLDER, LIBRARIES = (os.path.abspath(path) for path in sys.argv[1:4])


def run(*arguments, server="local:null", nvrtc="always", program="plugins"):
    return subprocess.run([f"{BIN}/flyt-run", "--server", server, f"{FOLDER}/{program}", *arguments],
                          capture_output=True, text=True, timeout=60, env={**os.environ, "FLYT_NVRTC": nvrtc})


def plugin(number):
    return f"{FOLDER}/plugin{number}.so"


def compiler(number):
    return f"open={FOLDER}/libnvrtc-{number}.so"


def own(number):
    """What a plugin prints where nothing is changed."""
    return (f"known: 0 {number}, 0 101\ncompiler {number}: --gpu-architecture=sm_101\nnvvm 7{number}\n"
            f"link 8{number} 9{number}\n")


def for_software(number):
    """The device's architecture is one more, and PTX is asked for; an error of nvJitLinkCreate leaves a handle."""
    return (f"known: 0 {number + 1}, 0 101\ncompiler {number}: --gpu-architecture=compute_101\nnvvm 7{number}\n"
            f"link 8{number} 0\n")


def asked(number, served):
    known, form = (number + 1, "compute") if served else (number, "sm")
    return f"asked: 0 {known}\ncompiler {number}: --gpu-architecture={form}_101\n"


def good(done, wanted):
    assert done.returncode == 0 and done.stdout == wanted, done


@case
def without_the_library():
    good(run(plugin(3), plugin(5), nvrtc="never"), own(3) + own(5))


@case
def a_program_that_opens_it_without_a_setting():
    good(run(compiler(5), server="local:software", nvrtc=""), asked(5, True))


@case
def a_program_with_a_library_that_is_linked_with_it_without_a_setting():
    good(run(plugin(3), server="local:software", nvrtc="", program="plugins-below"), for_software(3))


@case
def plugins_with_another_GPU():
    good(run(plugin(3), plugin(5), plugin(3)), own(3) + own(5) + own(3))


@case
def plugins_with_the_software_GPU():
    good(run(plugin(3), plugin(5), plugin(3), server="local:software"), for_software(3) + for_software(5) +
         for_software(3))


@case
def plugins_beside_a_copy_that_the_program_asks():
    good(run(compiler(5), plugin(3), compiler(5), plugin(5), server="local:software"), asked(5, True) +
         for_software(3) + asked(5, True) + for_software(5))


@case
def a_plugin_that_is_not_linked_with_what_it_calls():
    """NVRTC is found by its name among all that is loaded. There is no library of the names of the other two: their
    functions return an internal error."""
    good(run(f"{FOLDER}/plugin-above.so", server="local:software"),
         for_software(5).replace("nvvm 75", "nvvm 9").replace("link 85", "link 6"))


@case
def a_second_copy_that_the_program_asks_is_its_own():
    good(run(compiler(5), compiler(3), server="local:software"), asked(5, True) + asked(3, False))


@case
def a_program_that_is_linked_with_a_copy_and_asks_another():
    good(run(compiler(5), plugin(5), compiler(3), server="local:software", program="plugins-linked"),
         asked(5, False) + for_software(5) + asked(3, True))


LOADS_MACHINE_CODE = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
compilers = [ctypes.CDLL(path) for path in sys.argv[1:]]
context, module = ctypes.c_void_p(), ctypes.c_void_p()
cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cuda.cuCtxSetCurrent(context)
print(cuda.cuModuleLoadData(ctypes.byref(module), b"\x7fELF\x02\x01\x01" + bytes(57)))
"""


@case
def machine_code_of_a_compiler_that_was_not_asked_for_PTX():
    """The message names the setting where a compiler is loaded that nobody interposes, and only there."""
    for compilers, nvrtc, named in (([f"{FOLDER}/libnvrtc-3.so"], "never", True), ([], "never", False),
                                    ([f"{FOLDER}/libnvrtc-3.so"], "always", False)):
        done = subprocess.run([f"{BIN}/flyt-run", "--server", "local:software", sys.executable, "-c",
                               LOADS_MACHINE_CODE, *compilers], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "FLYT_NVRTC": nvrtc})
        assert done.stdout == "209\n", done
        assert ("libnvrtc-3.so, start the program by flyt-run with FLYT_NVRTC=always" in done.stderr) == named, done


@case
def NVIDIAs_own_in_a_plugin():
    if not os.path.exists(f"{LIBRARIES}/libnvrtc.so.13"):
        raise Skip("the toolkit has no NVRTC here")
    for server in ("local:null", "local:software"):
        done = run(f"{FOLDER}/plugin-nvidia.so", server=server)
        first, *lines = done.stdout.splitlines()
        assert done.returncode == 0 and first.startswith("known: 0 ") and lines[-1].startswith("link "), done


sys.exit(only_cases())
