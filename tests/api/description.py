#!/usr/bin/env python3
"""description.py INCLUDE [--record]: the checks of cpu/api notice a wrong description, and one that makes no sense.

shows: description of CUDA: whatever differs from NVIDIA's headers is noticed: functions, types, values, layouts
--record renews the list of forwarded calls in golden/.

shows: description of CUDA: a row that makes no sense is refused with its file and line
shows: description of CUDA: a call that cannot be forwarded is refused; numbers of forwarded calls stay what they were
"""

import contextlib
import difflib
import io
import os
import re
import shutil
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = os.path.join(ROOT, "cpu/api"), os.path.join(ROOT, "tests/lib")
import api  # noqa: E402
import check  # noqa: E402
import forward_c  # noqa: E402
from testlib import ok, plan, result, skip  # noqa: E402

# file, what is changed there, into what, the check that must notice it, what it says
CHANGES = (
    (
        "runtime.api",
        r"cudaMalloc\(out void \*\*devPtr, size_t size\)",
        "cudaMalloc(out void **devPtr, int size)",
        check.check_functions,
        "cudaMalloc",
    ),
    ("runtime.api", r"cudaError_t cudaFree\(.*\n", "", check.check_functions, "cudaFree: .* nothing"),
    ("runtime.api", r"(cudaError_t cudaStreamQuery\(.*) ptsz", r"\1", check.check_functions, "cudaStreamQuery_ptsz"),
    (
        "driver.api",
        r"cuMemFree_v2\(CUdeviceptr dptr\)",
        "cuMemFree_v2(unsigned int dptr)",
        check.check_functions,
        "cuMemFree_v2",
    ),
    ("driver.api", r"(cuMemFree_v2.*)entry=3020", r"\1entry=3010", check.check_entries, "cuMemFree: "),
    (
        "runtime_types.api",
        "cudaMemcpyDeviceToHost = 2",
        "cudaMemcpyDeviceToHost = 5",
        check.check_enums,
        "cudaMemcpyDeviceToHost",
    ),
    ("runtime_types.api", "    size_t pitch\n", "", check.check_layouts, "pitch is only in NVIDIA's header"),
    (
        "runtime_types.api",
        "    size_t totalGlobalMem",
        "    int totalGlobalMem",
        check.check_layouts,
        "cudaDeviceProp.accessPolicyMaxWindowSize: offset",
    ),
    ("driver_types.api", "CU_LIMIT_MALLOC_HEAP_SIZE = 2", "CU_LIMIT_MALLOC_HEAP_SIZE = 3", check.check_driver_enums,
     "CU_LIMIT_MALLOC_HEAP_SIZE"),
    ("driver_types.api", "    unsigned int firstLayer\n", "", check.check_driver_layouts,
     "firstLayer is only in NVIDIA's header"),
    ("driver_types.api", "    CUfilter_mode filterMode\n", "    size_t filterMode\n", check.check_driver_layouts,
     "CUDA_TEXTURE_DESC.flags: offset"),
    ("launch_attributes.api", r"(PRIORITY +launch) node", r"\1", check.check_launch_attributes, "PRIORITY: node: only"),
    ("launch_attributes.api", "(SERIALIZATION +launch)", r"\1 node", check.check_launch_attributes, "ION: node: not"),
    ("errors.api", r"cudaErrorNotReady\b", "cudaErrorNotYet", check.check_enums, "cudaErrorNotReady"),
)

MISTAKES = (
    ("runtime.api", "cudaError_t cudaX(int a)  hnad", "'hnad' is not understood"),
    ("runtime.api", "cudaError_t cudaX(int a)  12-", "has no class"),
    ("runtime.api", "cudaError_t cudaX(out[n] int *a)  hand", "no parameter n"),
    ("runtime.api", "cudaError_t cudaFree(void *p)  hand", "already"),
    ("runtime.api", "cudaError_t cudaX(int)  hand", "the parameter 'int' is not understood"),
    ("runtime_types.api", "enum cudaX\n    cudaY", "has no number"),
    ("runtime_types.api", "struct cudaX\n    int", "not understood"),
    ("errors.api", '1  - - "late"', "comes after"),
    ("launch_attributes.api", "17  X  launch", "X is not 17 in CUlaunchAttributeID"),
    ("launch_attributes.api", "17  X  lunch", "lunch: not one of launch"),
    ("launch_attributes.api", "17  X  stream", "say size="),
    ("launch_attributes.api", "17  X  launch cheque=y", "not understood"),
)


@contextlib.contextmanager
def changed(name, change):
    """The description with one of its files changed."""
    kept = api.HERE
    with tempfile.TemporaryDirectory() as folder:
        for file in os.listdir(kept):
            if file.endswith(".api"):
                shutil.copy(os.path.join(kept, file), folder)
        path = os.path.join(folder, name)
        with open(path) as file:
            text = file.read()
        new = change(text)
        assert new != text, f"{name}: the change changes nothing"
        with open(path, "w") as file:
            file.write(new)
        api.HERE = folder
        try:
            yield
        finally:
            api.HERE = kept


def noticed(include, name, old, new, run, says):
    output = io.StringIO()
    with changed(name, lambda text: re.sub(old, new, text, count=1)), contextlib.redirect_stdout(output):
        run(check.Report(), include, (13, 0))
    return [line for line in output.getvalue().splitlines() if line.startswith("#") and re.search(says, line)]


def refused(name, row, says):
    with changed(name, lambda text: text + row + "\n"):
        try:
            for read in (api.runtime, api.driver, api.runtime_types, api.all_errors, api.launch_attributes):
                read()
        except api.Wrong as wrong:
            return re.search(rf"{re.escape(name)}:\d+: .*{re.escape(says)}", str(wrong)) is not None
    return False


# what is changed in driver.api, into what, what the generator of forwarded calls says
REFUSED = (
    (r"forward call=104", "forward call=100", "its number 100 is that of cuCtxGetLimit"),
    (r"forward call=104", "forward", "of class forward without the word call="),
    (r"call=102 async", "call=102 async=2", "async=2"),
    (r"CUlimit limit\)  hand call", "void *limit)  hand call", "the parameter limit cannot be forwarded"),
    (r"CUlimit limit\)  hand call", "CUexample limit)  hand call", "the type CUexample of the parameter limit is not"),
    (r"call=100 blocks", "call=100 async", "has the word async and something to answer"),
    (r"call=120 role=makes", "call=120 role=keeps", "role=keeps: not one of makes, ends, lends"),
    (r"call=123 role=lends", "call=123", "makes, ends or lends an object in no way that can be generated"),
    (r"call=108 ", "call=108 role=lends ", "makes, ends or lends an object in no way that can be generated"),
    (r"call=121 role=ends charge", "call=121 charge", "has the word charge, and neither makes nor ends an object"),
)


def unforwardable(old, new, says):
    with changed("driver.api", lambda text: re.sub(old, new, text, count=1)):
        try:
            forward_c.calls()
        except api.Wrong as wrong:
            return says in str(wrong)
    return False


GOLDEN = os.path.join(ROOT, "tests/api/golden/forwarded-calls.txt")


def forwarded():
    """The forwarded calls are those that were recorded, so that a number is never given to another call."""
    have = [line + "\n" for line in forward_c.listed()]
    if "--record" in sys.argv:
        with open(GOLDEN, "w") as file:
            file.writelines(have)
    with open(GOLDEN) as file:
        want = file.readlines()
    result("forwarded calls, as recorded",
           "".join(difflib.unified_diff(want, have, "recorded", "cpu/api/driver.api", n=0)))


def main():
    include = sys.argv[1]
    for name, old, new, run, says in CHANGES:
        title = f"{run.__name__} notices that {name} lacks or changes {says}"
        if check.release_of(include) != (13, 0):
            skip(title, "the headers at hand are not those of CUDA 13.0")
        else:
            ok(noticed(include, name, old, new, run, says), title)
    for name, row, says in MISTAKES:
        ok(refused(name, row, says), f"{name} with {row!r} is refused: {says}")
    for old, new, says in REFUSED:
        ok(unforwardable(old, new, says), f"not forwarded: {says}")
    forwarded()
    return plan()


if __name__ == "__main__":
    sys.exit(main())
