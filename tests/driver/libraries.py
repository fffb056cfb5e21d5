#!/usr/bin/env python3
"""libraries.py BIN PROGRAM...: NVIDIA's own libraries, unmodified, on the software GPU; TAP on stdout.

shows: NVIDIA's libraries: cuBLAS, cuDNN, cuFFT, cuRAND, cuSOLVER and cuSPARSE compute what a processor computes

A PROGRAM that is not there was not built, because the toolkit lacks its library.
"""
import os
import subprocess
import sys


def main():
    failed, programs = 0, sys.argv[2:]
    for number, program in enumerate(programs, 1):
        name = os.path.basename(program)
        if not os.path.exists(program):
            print(f"ok {number} - {name} # SKIP this toolkit lacks the library")
            continue
        done = subprocess.run([f"{sys.argv[1]}/flyt-run", "--server", "local:software", program], capture_output=True,
                              text=True, errors="replace", timeout=300)
        good = done.returncode == 0 and "passed" in done.stdout
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {name}", flush=True)
        if not good:
            print(f"# ends with {done.returncode}", *(done.stdout + done.stderr).splitlines()[-20:], sep="\n# ")
    print(f"1..{len(programs)}")
    return failed != 0


sys.exit(main())
