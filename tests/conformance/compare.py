#!/usr/bin/env python3
"""compare.py BIN [--runtime FOLDER | --driver] [--all] [--gaps HEADERS] [--arguments A_B] PROGRAM...

The conformance suite; TAP on stdout.

shows: conformance: each chapter prints line by line what NVIDIA's runtime prints on Flyt's libcuda, but for known lines

Each PROGRAM is a chapter (tests/conformance/suite.h says how it is written). It runs with Flyt's libcudart and with the
libcudart of FOLDER; --driver: with Flyt's libcuda and with the software GPU's own. A line that differs must be in
KNOWN, and a line that says "(documented: …)" in UNDOCUMENTED; docs/limits.md has the same for users.
--all: a row of these that no chapter needs any more is a failure, too. --gaps: so is a code that CUDA's headers in
HEADERS document and no PROGRAM shows, unless gaps.txt lists it (gaps.py).
"""
import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile

import gaps

LIMIT = 300
# A pattern for what stands before " -> ", or for a whole line without it, and why; "older": only of the runtimes that
# tools/cuda-releases fetches.
KNOWN = (
    (r"(launched|cudaLaunch(Kernel|KernelExC|CooperativeKernel))\("
     r".*(threads|threads in z|no blocks|blocks in [yz]|2\^31 blocks)",
     "13.0 returns what the driver returns for impossible dimensions; 11.8 to 12.9 look at them, as Flyt does"),
    (r".*: no kernel", "12.4: before 12.9 a function that is not registered was no kernel's handle", "older"),
    (r"cudaGetDeviceFlags\(.*: between the reset and what makes the context anew",
     "13.0 returns what the driver says of a primary context that does not exist yet"),
    (r"cudaGraph(Create|Instantiate|InstantiateWithFlags)\(.*: behind (the|a) fault",
     "what a driver says there of a call that needs no device is not known"),
    (r"cudaMemcpy((To|From)ArrayAsync|FromArray)\(.*: kind 9",
     "NVIDIA's runtime copies nothing and succeeds where these deprecated functions get an unknown kind"),
    (r"  flags = (0|4|8|12)", "what NVIDIA's driver says of CU_CTX_MAP_HOST is not known; earlier runtimes add it"),
)
UNDOCUMENTED = (
)
used = set()


def run(program, arguments, folders):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, errors="replace", timeout=LIMIT,
                          env={**os.environ, "FLYT_SERVER": "local:software",
                               "LD_LIBRARY_PATH": ":".join(os.path.abspath(folder) for folder in folders)})
    return done.stdout.splitlines(), done


def known(rows, line, older):
    for row in rows:
        if (older or len(row) == 2) and re.fullmatch(row[0], line.split(" -> ")[0]):
            used.add(row)
            return True
    return False


def compare(ours, theirs, second, older=False):
    """What differs and should not."""
    found = []
    matcher = difflib.SequenceMatcher(a=[line.split(" -> ")[0] for line in ours],
                                      b=[line.split(" -> ")[0] for line in theirs], autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            found += [(x, y) for x, y in zip(ours[a:b], theirs[c:d]) if x != y]
        else:
            found += [(x, None) for x in ours[a:b]] + [(None, y) for y in theirs[c:d]]
    unknown = [f"Flyt: {x or 'no such line'}\n#     {second}: {y or 'no such line'}" for x, y in found
               if not all(known(KNOWN, line, older) for line in (x, y) if line)]
    return unknown + [f"not as documented: {line}" for line in ours
                      if "(documented: " in line and not known(UNDOCUMENTED, line, older)]


def driver_folder(binaries, folder):
    """Where libcuda.so.1 is the software GPU itself."""
    os.symlink(os.path.abspath(os.path.join(binaries, "libsoftgpu.so")), os.path.join(folder, "libcuda.so.1"))
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--runtime")
    parser.add_argument("--driver", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--gaps")
    parser.add_argument("--arguments", default="", help="of each program, joined by _: a seed, a number of calls")
    parser.add_argument("program", nargs="+")
    options = parser.parse_intermixed_args()
    if options.runtime and not os.path.isdir(options.runtime):
        print(f"1..1\nok 1 - NVIDIA's runtime # SKIP {options.runtime} is not there (tools/cuda-releases fetches it)")
        return 0
    failed, flyts, shown = 0, (os.path.join(options.bin, "cudart"), options.bin), []
    with tempfile.TemporaryDirectory() as folder:
        first = driver_folder(options.bin, folder) if options.driver else options.runtime
        second = "software GPU" if options.driver else "NVIDIA"
        for number, program in enumerate(options.program, 1):
            arguments = options.arguments.split("_") if options.arguments else []
            ours, done = run(program, arguments, flyts)
            theirs, other = run(program, arguments, (first, *flyts))
            unknown = compare(ours, theirs, second, "cuda-releases" in (options.runtime or ""))
            if done.returncode or other.returncode:
                unknown.append(f"ends with {done.returncode}, over the other with {other.returncode}")
            failed += bool(unknown)
            shown += ours
            print(f"{'not ok' if unknown else 'ok'} {number} - {os.path.basename(program)}: {len(ours)} lines")
            print(*(f"#   {line}\n" for line in unknown[:40]), sep="", end="", flush=True)
    count = len(options.program)
    if options.gaps:
        wrong = gaps.differences(shown, options.gaps)
        count, failed = count + 1, failed + bool(wrong)
        about = " # SKIP the headers are not those of CUDA 13" if wrong is None else ""
        print(f"{'not ok' if wrong else 'ok'} {count} - gaps.txt lists what no chapter shows{about}")
        print(*(f"#   {line}\n" for line in wrong or ()), sep="", end="")
    if options.all:
        unused = [row for row in (*KNOWN, *UNDOCUMENTED) if row not in used and len(row) == 2]
        count, failed = count + 1, failed + bool(unused)
        print(f"{'not ok' if unused else 'ok'} {count} - every known difference is one")
        print(*(f"#   {row[0]}\n" for row in unused), sep="", end="")
    print(f"1..{count}")
    return failed != 0


sys.exit(main())
