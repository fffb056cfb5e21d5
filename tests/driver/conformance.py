#!/usr/bin/env python3
"""conformance.py FOLDER SUITE...: the software GPU's driver tests, linked with libcuda.so.1 of programs; TAP on stdout.

shows: Driver API: what the software GPU's tests demand of a driver holds through Flyt, but for a list with reasons

FOLDER holds each tests/softgpu/test_SUITE.c as a program whose driver is Flyt's libcuda.so.1, with the software GPU
behind it. A test that fails and is not in KNOWN is a failure, and so is one in KNOWN that passes.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import plan, result  # noqa: E402

LIMIT = 400
AFFINITY = "no part of the device's SMs can be asked for"
LIMITS = "limits of a context belong to the device's"
OWN = "the test looks into the software GPU: its environment, its log, its private rules"
KEPT = "freed memory stays the program's for a while"
INITIAL = "what the PTX gives a texture reference at first is replaced when the program binds it"
KNOWN = {
    "contexts": {"heaps": LIMITS, "flags": AFFINITY, "destroyed_while_others_wait": AFFINITY},
    "devices": {"affinity": AFFINITY},
    "faults": {"freed": KEPT},
    "launch": {"checks": "more threads than __launch_bounds__ allows: 701 and not 1"},
    "memory": {"alloc_and_free": OWN, "pinned_and_registered": "memory of the program that is not registered gives 713",
               "pointer_attribute_widths": "some answers are one byte wide"},
    "modules": {"refused": OWN},
    "samplers": {"names_addresses_and_objects": INITIAL, "unified_mode": INITIAL},
    "streams": {"at_most_1024": "a launch waits for room later than the software GPU's does"},
    "vmm": {"large_window": "the session's window of 1 TiB holds the context's first memory, too",
            "create_and_map": "a memset of memory that may only be read fails later",
            "two_addresses": "as a consequence", "sharing": "memory is not given to other processes"},
}
# What may fail because a test before it did, and left memory behind; or because unmapped memory stays for a while.
MAYBE = {"memory": ("stacks",), "faults": ("copy_unmapped",)}


def run(program):
    done = subprocess.run([program], capture_output=True, text=True, errors="replace", timeout=LIMIT,
                          env={**os.environ, "FLYT_SERVER": "local:software"})
    found = re.findall(r"^(not )?ok \d+ - (\w+)", done.stdout, re.M)
    return {name: not failed for failed, name in found}, done


def main():
    for suite in sys.argv[2:]:
        known = KNOWN.get(suite, {})
        results, done = run(os.path.join(sys.argv[1], suite))
        problems = [f"{name} fails" for name, passed in results.items() if not passed and name not in known
                    and name not in MAYBE.get(suite, ())]
        problems += [f"{name} passes now: take it out of KNOWN" for name in known if results.get(name)]
        problems += [f"{name} did not run" for name in known if name not in results]
        if not results or done.returncode < 0:
            problems.append(f"ends with {done.returncode} after {len(results)} tests")
        result(f"{suite}: {sum(results.values())} of {len(results)}",
               "\n".join(problems + done.stdout.splitlines()[-12:]) if problems else "")
    return plan()


sys.exit(main())
