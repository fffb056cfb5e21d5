#!/usr/bin/env python3
"""soft.py LIBSOFTGPU INCLUDE: the word `soft` in cpu/api/driver.api is true.

shows: description of CUDA: the software GPU implements exactly the functions that the description says
"""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = os.path.join(HERE, "../../cpu/api"), os.path.join(HERE, "../lib")
import api  # noqa: E402
import check  # noqa: E402
from testlib import plan, result, skip  # noqa: E402


def main():
    library, include = sys.argv[1:3]
    title = "the software GPU implements what the description says"
    if check.release_of(include) < (13, 0):
        skip(title, "headers of CUDA 13.0 are needed to build all of it")
        return plan()
    output = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    ).stdout
    kinds = {fields[2]: fields[1] for fields in map(str.split, output.splitlines())}  # W: a stub, T: implemented
    said = {name: "soft" in function.options for function in api.driver() for name in function.names()}
    wrong = [name for name, soft in said.items() if soft != (kinds.get(name) == "T")]
    result(title, "\n".join(f"{name}: the description says {said[name]}, the library has {kinds.get(name, 'nothing')}"
                            for name in wrong))
    return plan()


if __name__ == "__main__":
    sys.exit(main())
