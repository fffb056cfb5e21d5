#!/usr/bin/env python3
"""second.py BIN (--runtime FOLDER | --static [--release RELEASE]) PROGRAM...: a second reference; TAP on stdout.

NVIDIA's own runtime, over Flyt's libcuda.so.1.

shows: first steps: NVIDIA's runtime over Flyt's libcuda.so.1 prints what Flyt's runtime prints, but for known lines

Every PROGRAM runs twice in this way: with Flyt's libcudart, and with NVIDIA's. --runtime: the libcudart of FOLDER takes
the place of Flyt's. --static: STATIC=PROGRAM names two builds, the first with NVIDIA's static runtime (of RELEASE).
Times, process ids and addresses are not compared.
--all: a row of KNOWN that no program needs any more is a failure, too.
"""
import argparse
import collections
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from reference import Known, each_is_needed, is_missing, run  # noqa: E402
from testlib import plan, result, skip  # noqa: E402

# Which program, which line (whole), why. docs/limits.md has the same list for users.
CALL = r"tests/cuda/\S+: "
KNOWN = (
    ("environment", r".*", "this runtime loads the driver, which reads FLYT_SERVER, at the first CUDA call"),
    ("streams", CALL + r"cudaSetDevice\(0\): got 0 \(cudaSuccess\), expected 800",
     "a host function may make a context current; what NVIDIA's driver answers there is not known"),
    ("cancelled", r"flyt\[#\] warning: cu(da)?\w+ is not supported by this version of Flyt; it returns error 801",
     "a message names the function of the API that was called"),
    ("locked", r"flyt\[#\] error: FLYT_SERVER=local:software: cannot run the server in this process: .*",
     "what no longer fits into the limit on locked memory depends on what the runtime has locked before"),
)
# The same, of 11.8 alone: it forgets that cuDevicePrimaryCtxReset failed, and then wants the context back.
KNOWN_OF_11 = (
    ("sticky", CALL + r"cudaMalloc\(.*\): got 46 \(cudaErrorDevicesUnavailable\), expected 7\d\d",
     "it cannot be had back"),
    ("sticky", r"[\w ]+: child ended with status 0x#|" + CALL + r"does not hold: status == 0", "as a consequence"),
    ("streams", CALL + r"cudaDeviceReset\(\): got 0 \(cudaSuccess\), expected 800",
     "the error of a host function's call"),
)
# Programs that cannot be compared.
LEFT_OUT = {
    "answers": "it counts the calls of Flyt's runtime",
    "assertion": "how many threads tell of their failed assertion before the kernel ends differs from run to run",
    "forks": "NVIDIA's runtime does not survive a fork while another thread initialises it",
}
SUMMARY = re.compile(r"[\w-]+: (passed|\d+ checks failed)|seed \d+, .*")
CHANGING = ((re.compile(r"flyt\[\d+\]"), "flyt[#]"), (re.compile(r"0x[0-9a-f]+"), "0x#"),
            (re.compile(r"\b\d+(\.\d+)? ?(ns|us|ms|s|[KMG]i?B/s)\b"), "# \\2"), (re.compile(r"\s+"), " "))
known_always, known_of_11 = (Known(rows, lambda row: row[1]) for rows in (KNOWN, KNOWN_OF_11))


def lines(done):
    result = []
    for line in (done.stdout + done.stderr).splitlines():
        for pattern, name in CHANGING:
            line = pattern.sub(name, line)
        if not SUMMARY.fullmatch(line.strip()):
            result.append(line.strip())
    return collections.Counter(result)


def known(name, line, more):
    return any(rows.has(line, lambda row: name.split("-")[0] in row[0].split()) for rows in (known_always, *more))


def compare(name, ours, theirs, more):
    """What differs and should not."""
    first, second = lines(ours), lines(theirs)
    differing = [("Flyt's only:    ", line) for line in (first - second).elements()]
    differing += [("NVIDIA's only:  ", line) for line in (second - first).elements()]
    unknown = [where + line for where, line in differing if not known(name, line, more)]
    if not unknown and ours.returncode != theirs.returncode and not differing:
        unknown.append(f"ends with {theirs.returncode} instead of {ours.returncode}: {theirs.stderr[-300:]}")
    return unknown


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--runtime")
    parser.add_argument("--static", action="store_true")
    parser.add_argument("--release", default="")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("program", nargs="+")
    options = parser.parse_intermixed_args()
    if is_missing(options.runtime):
        return plan()
    more = [known_of_11] if "/11." in f"{options.runtime}/{options.release}" else []
    for program in options.program:
        static, shared = program.split("=") if options.static else (program, program)
        name = os.path.basename(shared)
        if name in LEFT_OUT:
            skip(name, LEFT_OUT[name])
        elif not os.path.exists(static):
            skip(name, f"{static} is not there (tools/cuda-releases --static)")
        else:
            unknown = compare(name, run(shared, options.bin), run(static, options.bin, options.runtime), more)
            result(name, "\n".join(unknown[:20]))
    if options.all:
        each_is_needed(known_always)
    return plan()


sys.exit(main())
