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
import sys
import tempfile

import gaps

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from reference import Known, each_is_needed, is_missing, run  # noqa: E402
from testlib import plan, result, skip  # noqa: E402

# A pattern for what stands before " -> ", or for a whole line without it, and why; "older": only of the runtimes that
# tools/cuda-releases fetches.
KNOWN = Known((
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
))
UNDOCUMENTED = Known(())


def known(rows, line, older):
    return rows.has(line.split(" -> ")[0], lambda row: older or len(row) == 2)


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
    unknown = [f"Flyt: {x or 'no such line'}\n    {second}: {y or 'no such line'}" for x, y in found
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
    if is_missing(options.runtime):
        return plan()
    shown, arguments = [], options.arguments.split("_") if options.arguments else []
    with tempfile.TemporaryDirectory() as folder:
        first = driver_folder(options.bin, folder) if options.driver else options.runtime
        second = "software GPU" if options.driver else "NVIDIA"
        for program in options.program:
            ours = run(program, options.bin, arguments=arguments)
            theirs = run(program, options.bin, first, arguments=arguments)
            lines = ours.stdout.splitlines()
            unknown = compare(lines, theirs.stdout.splitlines(), second, "cuda-releases" in (options.runtime or ""))
            if ours.returncode or theirs.returncode:
                unknown.append(f"ends with {ours.returncode}, over the other with {theirs.returncode}")
            shown += lines
            result(f"{os.path.basename(program)}: {len(lines)} lines", "\n".join(unknown[:40]))
    if options.gaps:
        wrong, what = gaps.differences(shown, options.gaps), "gaps.txt lists what no chapter shows"
        if wrong is None:
            skip(what, "the headers are not those of CUDA 13")
        else:
            result(what, "\n".join(wrong))
    if options.all:
        each_is_needed(KNOWN, UNDOCUMENTED, fits=lambda row: len(row) == 2)
    return plan()


sys.exit(main())
