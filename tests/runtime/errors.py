#!/usr/bin/env python3
"""errors.py BIN CORE_DIR: names and texts of every error code, ours against NVIDIA's own library.

NVIDIA's libcudart is looked for in the toolkit and in the folders of CUDART_REFERENCE (colon separated); versions
that are not there are skipped. Both run in processes of their own, for they know nothing of each other.
"""
import glob
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import plan, result, skip  # noqa: E402

CODES = [*range(-2, 1200), *range(9990, 10020), 2**31 - 1]
READER = """
import ctypes, json, sys
library = ctypes.CDLL(sys.argv[1])
answers = {}
for function in ("cudaGetErrorName", "cudaGetErrorString"):
    call = getattr(library, function)
    call.restype = ctypes.c_char_p
    answers[function] = [call(ctypes.c_int(code)).decode() for code in json.loads(sys.argv[2])]
print(json.dumps(answers))
"""


def answers(library, **environment):
    run = subprocess.run([sys.executable, "-c", READER, library, json.dumps(CODES)], capture_output=True, text=True,
                         timeout=60,
                         env={**os.environ, **environment})
    if run.returncode:
        raise RuntimeError(f"{library}: {run.stderr.strip()}")
    return json.loads(run.stdout)


def reference(soname):
    folders = os.environ.get("CUDART_REFERENCE",
                             "").split(":") + [os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "lib64")]
    for folder in filter(None, folders):
        for path in glob.glob(os.path.join(folder, soname + "*")):
            return path
    return None


def main():
    binaries, core = sys.argv[1:3]
    for soname in ("libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13"):
        name = f"error names and texts of {soname}"
        theirs = reference(soname)
        if not theirs:
            skip(name, f"no {soname} of NVIDIA's here")
            continue
        want, have = answers(theirs), answers(os.path.join(binaries, "cudart", soname), LD_LIBRARY_PATH=core)
        wrong = [f"{function}({code}): NVIDIA's says {w!r}, ours {h!r}" for function in want
                 for code, w, h in zip(CODES, want[function], have[function]) if w != h]
        result(name, "\n".join(wrong[:10]))
    return plan()


if __name__ == "__main__":
    sys.exit(main())
