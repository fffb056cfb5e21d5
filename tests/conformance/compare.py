#!/usr/bin/env python3
"""compare.py BIN [--runtime FOLDER | --driver | --recorded FOLDER] [--all] [--gaps HEADERS] [--arguments A_B]
    PROGRAM...

The conformance suite; TAP on stdout.

shows: conformance: each chapter prints line by line what NVIDIA's runtime prints on Flyt's libcuda, but for known lines

Each PROGRAM is a chapter (tests/conformance/suite.h says how it is written). It runs with Flyt's libcudart and with the
libcudart of FOLDER; --driver: with Flyt's libcuda and with the software GPU's own; --recorded: with Flyt's alone, and
what a GPU with NVIDIA's driver printed (native.py) is in FOLDER. A line that differs must be in KNOWN (of records:
KNOWN_NATIVE), and a line that says "(documented: …)" in UNDOCUMENTED; docs/limits.md has the same for users.
--all: a row of these that no chapter needs any more is a failure, too. --gaps: so is a code that CUDA's headers in
HEADERS document and no PROGRAM shows, unless gaps.txt lists it (gaps.py).
"""
import argparse
import difflib
import os
import re
import sys
import tempfile

import gaps

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from reference import Known, each_is_needed, is_missing, run  # noqa: E402
from testlib import plan, result, skip  # noqa: E402

# A pattern for what stands before " -> ", or for a whole line without it, and why; "older": only of the runtimes that
# tools/cuda-releases fetches.
KNOWN = Known((
    (r".*: no kernel", "12.4: before 12.9 a function that is not registered was no kernel's handle", "older"),
    (r"cudaGetDeviceFlags\(.*: between the reset and what makes the context anew",
     "13.0 returns what the driver says of a primary context that does not exist yet"),
    (r"cudaGraph(Instantiate|InstantiateWithFlags)\(.*: behind (the|a) fault",
     "what a driver says there of a call that needs no device is not known"),
    (r"cudaMemcpy((To|From)ArrayAsync|FromArray)\(.*: kind 9",
     "NVIDIA's runtime copies nothing and succeeds where these deprecated functions get an unknown kind"),
))
UNDOCUMENTED = Known(())
# What Flyt and the software GPU answer otherwise than a recorded GPU: chapters (words), pattern as above, why.
KNOWN_NATIVE = Known((
    ("arrays", r"cudaMalloc3DArray: 16 by 8 by 0, flags 100|cudaMallocArray: kind 4|.*: 10, 10, 10 and 2 bits",
     "not supported: docs/limits.md"),
    ("arrays", r"cudaMalloc3DArray: 1 by 1 by 16385, flags 0", "alternate limits of arrays of three dimensions"),
    ("device", r"cudaDeviceGetAttribute: \d+|cudaDeviceGetLimit: [16]|  (name|major.minor|totalGlobalMem|id) = .*",
     "another device"),
    ("device", r"cudaDeviceFlushGPUDirectRDMAWrites\(.*: owner", "RDMA is not supported"),
    ("events", r"cudaEventCreateWithFlags: [67]|cudaEvent(Record|Synchronize|Query|Destroy)\(e(, idle)?\): it",
     "events of several processes, of which this server has none"),
    ("graph_edges", r"add_child\(.*: (ownership 7|itself|moved.*)|cudaGraph(Instantiate|Destroy)\(.*: a moved graph|"
     r"cudaGraphAddEmptyNode\(&more, child, NULL, 0\): an empty node|  the same = \d",
     "the driver copies a child whatever its ownership; Flyt moves it, as documented"),
    ("host memory pointers", r"cudaPointerGetAttributes: registered.*", "mapped registered memory: docs/limits.md"),
    ("library", r"cudaLibraryLoadData\(.*: nonsense", "the driver looks at code when a kernel of it is wanted"),
    ("managed", r"cudaFree\(p\): twice", "the driver takes it the second time, too"),
    ("perthread", r"  id = \d+|callback: stream .*|  policy = -?\d", "numbers of streams and a callback's stream"),
    ("perthread", r"cudaStreamSetAttribute\(0, cudaLaunchAttributeSynchronizationPolicy.*", "as a consequence"),
    ("reset", r"  limit = \d+", "the driver's steps and least values of limits"),
    ("reset", r"cudaEvent\w+\(e.*: an event of before|cudaStreamQuery\(s\): of before another thread's reset",
     "the handles are gone: 400 and not 709"),
    ("reset", r"cudaFreeHost\(pinned\): pinned memory of before", "pinned memory survives a reset"),
    ("reset", r"  dynamic shared memory = \d+", "begins anew"),
    ("seldom", r"cudaMemPoolImportFromShareableHandle\(.*: no descriptor|"
     r"cudaIpc\w+\(.*: (null memory|of the host|zeros)",
     "memory of several processes, of which this server has none"),
), lambda row: row[1])


def known_native(chapter):
    return lambda line: KNOWN_NATIVE.has(line.split(" -> ")[0],
                                         lambda row: not row[0] or chapter in row[0].split())


def known(rows, line, older):
    return rows.has(line.split(" -> ")[0], lambda row: older or len(row) == 2)


def compare(ours, theirs, second, is_known):
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
               if not all(is_known(line) for line in (x, y) if line)]
    return unknown


def not_as_documented(lines, older):
    return [f"not as documented: {line}" for line in lines
            if "(documented: " in line and not known(UNDOCUMENTED, line, older)]


def compare_recorded(options, program):
    """None: nothing is recorded of it."""
    chapter = program.split("build/conformance/", 1)[-1]
    record = os.path.join(options.recorded, chapter + ".txt")
    if not os.path.exists(record):
        return None
    with open(record) as file:
        theirs = [undocumented(line) for line in file.read().splitlines()]
    os.environ["FLYT_CONFORMANCE_NATIVE"] = os.path.join(options.recorded, chapter + ".left-out")
    ours = [undocumented(line) for line in run(program, options.bin).stdout.splitlines() if not line.startswith("??")]
    del os.environ["FLYT_CONFORMANCE_NATIVE"]
    if theirs and theirs[-1].startswith("ended: "):
        ours, theirs = up_to(ours, theirs[:-1])
    return compare(ours, theirs, "GPU", known_native(chapter))


def undocumented(line):
    """Without what a reference documents, which a chapter may have learnt since it was recorded."""
    return re.sub(r" \(documented: .*?\)", "", line)


def up_to(ours, theirs):
    """Of ours, what comes before the place where theirs ended."""
    matcher = difflib.SequenceMatcher(a=[line.split(" -> ")[0] for line in ours],
                                      b=[line.split(" -> ")[0] for line in theirs], autojunk=False)
    kind, a, _, c, d = matcher.get_opcodes()[-1]
    return (ours[:a + d - c] if kind in ("delete", "replace") else ours), theirs


def driver_folder(binaries, folder):
    """Where libcuda.so.1 is the software GPU itself."""
    os.symlink(os.path.abspath(os.path.join(binaries, "libsoftgpu.so")), os.path.join(folder, "libcuda.so.1"))
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--runtime")
    parser.add_argument("--driver", action="store_true")
    parser.add_argument("--recorded")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--gaps")
    parser.add_argument("--arguments", default="", help="of each program, joined by _: a seed, a number of calls")
    parser.add_argument("program", nargs="+")
    options = parser.parse_intermixed_args()
    if is_missing(options.runtime):
        return plan()
    if options.recorded:
        for program in options.program:
            unknown = compare_recorded(options, program)
            if unknown is not None:
                result(f"{os.path.basename(program)}, as recorded", "\n".join(unknown[:60]))
        if options.all:
            each_is_needed(KNOWN_NATIVE)
        return plan()
    shown, arguments = [], options.arguments.split("_") if options.arguments else []
    with tempfile.TemporaryDirectory() as folder:
        first = driver_folder(options.bin, folder) if options.driver else options.runtime
        second = "software GPU" if options.driver else "NVIDIA"
        for program in options.program:
            ours = run(program, options.bin, arguments=arguments)
            theirs = run(program, options.bin, first, arguments=arguments)
            lines = ours.stdout.splitlines()
            older = "cuda-releases" in (options.runtime or "")
            unknown = compare(lines, theirs.stdout.splitlines(), second, lambda line: known(KNOWN, line, older))
            unknown += not_as_documented(lines, older)
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
