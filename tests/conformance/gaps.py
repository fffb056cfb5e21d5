#!/usr/bin/env python3
"""gaps.py BIN HEADERS PROGRAM...: which functions and documented errors the chapters show; a table on stdout.

CUDA's headers say which codes each function returns. A chapter shows a code of a function when it prints a line

    cudaMalloc(NULL, 4): null pointer -> cudaErrorInvalidValue

`gaps.txt` lists what no chapter shows. compare.py compares that list with what the chapters of its run show, so a
function that is implemented without a case is noticed, and so is a line of the list that is not true any more: the
list may only become shorter. Functions that CUDA 13 does not have are looked for in the text of the chapters.

As a program it runs the chapters over Flyt's libcudart and prints the table; --write: and makes gaps.txt.
"""
import argparse
import collections
import glob
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LIST = os.path.join(HERE, "gaps.txt")
sys.path.insert(0, os.path.join(ROOT, "cpu/api"))
sys.path.insert(0, os.path.join(ROOT, "tests/lib"))
import api  # noqa: E402
from reference import run  # noqa: E402

# Codes that no test can cause here, or that come from earlier work and not from the call.
ELSEWHERE = {
    "cudaErrorLaunchFailure": "of earlier work: the chapter faults",
    "cudaErrorLaunchTimeout": "of earlier work, and of a watchdog that servers have not",
    "cudaErrorInitializationError": "of a machine whose driver does not start",
    "cudaErrorInsufficientDriver": "of an old driver",
    "cudaErrorDeviceUninitialized": "of an old driver",
    "cudaErrorDevicesUnavailable": "of a device that other programs hold",
    "cudaErrorDeviceUnavailable": "the same, as the reference spells it",
    "cudaErrorNoDevice": "of a machine without devices: tests/cuda/environment.cu",
    "cudaErrorCudartUnloading": "of the end of a process",
    "cudaErrorStartupFailure": "of emulators that CUDA has no longer",
    "cudaErrorSharedObjectInitFailed": "of a damaged installation",
    "cudaErrorSharedObjectSymbolNotFound": "of a damaged installation",
    "cudaErrorJitCompilerNotFound": "of a damaged installation",
    "cudaErrorJitCompilationDisabled": "of a setting of NVIDIA's driver",
    "cudaErrorOperatingSystem": "of a kernel of the machine that refuses",
    "cudaErrorUnknown": "says nothing that could be caused",
    "cudaErrorTimeout": "of an error log, which Flyt answers at once",
    "cudaErrorMapBufferObjectFailed": "of graphics",
    "cudaErrorUnmapBufferObjectFailed": "of graphics",
    # names that are no codes of the newest header
    "cudaErrorOutOfMemory": "misspelt for cudaErrorMemoryAllocation",
    "cudaErrorInvalidHandle": "misspelt for cudaErrorInvalidResourceHandle",
}
# Of functions that make only an object of the host: no test takes all of its memory.
HOST_MEMORY = re.compile(r"cuda(Event|Graph(?!AddMemAlloc)|Ipc|Library|Host(GetDevicePointer|Register)|DeviceSetLimit)")
# They return what earlier calls returned.
OF_OTHERS = ("cudaGetLastError", "cudaPeekAtLastError")
# What a line of a chapter calls, and the function that this is in the library.
SPELT = {"cudaLaunchKernelEx": "cudaLaunchKernelExC"}
LINE = re.compile(r"(cuda\w+)[(:].* -> (cuda(?:Success|Error\w+))")


def documented(headers):
    """{function: codes} as the newest header says, or None: the toolkit is an older one."""
    with open(os.path.join(headers, "cuda_runtime_api.h"), errors="replace") as file:
        text = file.read()
    if not re.search(r"^#define CUDART_VERSION\s+13", text, re.M):
        return None
    found = {}
    for match in re.finditer(r"/\*\*((?:(?!\*/).)*)\*/((?:(?!/\*\*).)*?)\b(cuda\w+)\s*\([^;{]*;", text, re.S):
        if "extern" in match.group(2):
            returns = re.search(r"\\returns?\b(.*?)(?=\\note|\\sa|\\ref|\Z)", match.group(1), re.S)
            codes = re.findall(r"::(cudaSuccess|cudaError[A-Z]\w+)", returns.group(1)) if returns else []
            found.setdefault(match.group(3), set(codes))
    return found


def implemented():
    """{function: whether CUDA 13 has it}"""
    found = {}
    for function in api.runtime():
        if function.kind != "unsupported" and function.chapter and function.returns.strip() == "cudaError_t":
            found[function.name] = found.get(function.name, False) or function.versions.has_major(13)
    return {name: newest for name, newest in found.items() if not name.startswith("__")}


def shown(lines):
    """{function: codes}"""
    found = collections.defaultdict(set)
    for line in lines:
        match = LINE.match(line)
        if match:
            found[SPELT.get(match.group(1), match.group(1))].add(match.group(2))
    return found


def shown_in_text():
    """The same, of the chapters' text; a line that makes no claim shows some error."""
    found = collections.defaultdict(set)
    for path in glob.glob(os.path.join(HERE, "runtime", "**", "*.cu"), recursive=True):
        with open(path) as file:
            text = file.read()
        for macro, code, name in re.findall(r"\b(GIVES|SAYS|WORKS|WAITS)\((?:(cuda\w+),\s*)?(cuda\w+)\(", text):
            found[name].add(code or ("cudaSuccess" if macro == "WORKS" else "some error"))
    return found


def possible(name, code):
    """Whether a case can show it."""
    if code in ELSEWHERE or name in OF_OTHERS:
        return False
    return code != "cudaErrorMemoryAllocation" or not HOST_MEMORY.match(name)


def gaps(lines, headers):
    """{function: what no chapter shows}, "nothing" for a function without any case; None: cannot be said."""
    said = documented(headers)
    if said is None:
        return None
    have, text, lacking = shown(lines), shown_in_text(), {}
    for name, newest in implemented().items():
        if newest:
            wanted = {code for code in said.get(name, ()) if possible(name, code)} | {"cudaSuccess"}
            lacks = wanted - have[name] if have[name] else {"everything"}
        else:
            lacks = set() if text[name] else {"everything"}
        if lacks:
            lacking[name] = lacks
    return lacking


def listed():
    known = {}
    with open(LIST) as file:
        for line in file:
            words = line.split("#")[0].split()
            if words:
                known[words[0]] = set(words[1:])
    return known


def differences(lines, headers):
    """What the list lacks, and what it has too much; None: cannot be said."""
    lacking = gaps(lines, headers)
    if lacking is None:
        return None
    known, wrong = listed(), []
    for name in sorted({*lacking, *known}):
        new, old = lacking.get(name, set()), known.get(name, set())
        wrong += [f"{name}: no chapter shows {code}" for code in sorted(new - old)]
        wrong += [f"{name}: gaps.txt still lists {code}" for code in sorted(old - new)]
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("headers")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("program", nargs="+")
    options = parser.parse_intermixed_args()
    lines = []
    for program in options.program:
        lines += run(program, options.bin).stdout.splitlines()
    lacking, have = gaps(lines, options.headers), shown(lines)
    if lacking is None:
        sys.exit("the headers are not those of CUDA 13")
    for name in sorted(implemented()):
        print(f"{name}: {' '.join(sorted(have[name])) or '-'}; lacks {' '.join(sorted(lacking.get(name, ()))) or '-'}")
    print(f"{len(lacking)} functions of {len(implemented())} lack {sum(map(len, lacking.values()))} cases")
    if options.write:
        with open(LIST, "w") as file:
            file.write("# What CUDA's reference documents and no chapter shows (gaps.py). May only become shorter.\n")
            file.writelines(f"{name} {' '.join(sorted(codes))}\n" for name, codes in sorted(lacking.items()))


if __name__ == "__main__":
    main()
