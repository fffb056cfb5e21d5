#!/usr/bin/env python3
"""tests/nccl/abi.py BIN [FOLDER...]: Flyt's libnccl.so.2 beside NVIDIA's nccl.h, as it lies in one of the folders.

shows: nccl: libnccl.so.2 exports each function of NVIDIA's header, also as pNAME, and nothing else but a mark; results,
  types, operations, sizes and the version have the header's numbers
"""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests/lib"))
from testlib import case, need, plan, run_cases  # noqa: E402

BIN = sys.argv[1]
headers = [os.path.join(folder, "nccl.h") for folder in sys.argv[2:] if os.path.exists(os.path.join(folder, "nccl.h"))]
if not headers:
    print("1..0 # SKIP there is no nccl.h in", *sys.argv[2:])
    sys.exit(77)


def text(path):
    with open(path) as file:
        return re.sub(r"/\*.*?\*/|//[^\n]*", "", file.read(), flags=re.DOTALL)


HEADER = text(headers[0])
OURS = "".join(text(os.path.join(ROOT, path)) for path in
               ("cpu/client/nccl/calls.h", "cpu/client/nccl/nccl.h", "cpu/comm/reduce/reduce.h"))


def described():
    with open(os.path.join(ROOT, "cpu/client/nccl/names.txt")) as file:
        return {line.split()[0] for line in file if line.strip() and not line.startswith("#")}


@case
def the_description_has_each_function_of_the_header():
    functions = set(re.findall(r"\b(nccl[A-Z]\w*)\s*\(", HEADER))
    need(len(functions) > 40 and not functions - described(), functions - described())


@case
def the_library_exports_what_is_described():
    listed = subprocess.run(["nm", "-D", "--defined-only", os.path.join(BIN, "nccl/libnccl.so.2")], text=True,
                            capture_output=True, check=True).stdout
    exported = {line.split()[-1] for line in listed.splitlines()}
    wanted = {prefix + name for name in described() for prefix in ("", "p")} | {"flyt_libnccl"}
    need(exported == wanted, sorted(exported ^ wanted))


def enumerated(source, first):
    """Names and numbers of the enum that begins with this name."""
    values, next_value = {}, 0
    for item in re.search(r"\{\s*(" + first + r"\b.*?)\}", source, re.DOTALL).group(1).split(","):
        name, _, value = (part.strip() for part in item.partition("="))
        if not name:
            continue
        next_value = int(value) if re.fullmatch(r"-?\d+", value) else values.get(value, next_value)
        values[name] = next_value
        next_value += 1
    return list(values.items())


@case
def results_types_and_operations_have_the_headers_numbers():
    results = [number for name, number in enumerated(HEADER, "ncclSuccess")]
    need([number for name, number in enumerated(OURS, "NCCL_SUCCESS")] == results, results)
    types = dict(enumerated(HEADER, "ncclInt8"))
    ours = dict(enumerated(OURS, "COMM_INT8"))
    same = {"INT8": "Int8", "UINT8": "Uint8", "INT32": "Int32", "UINT32": "Uint32", "INT64": "Int64",
            "UINT64": "Uint64", "FLOAT16": "Float16", "FLOAT32": "Float32", "FLOAT64": "Float64",
            "BFLOAT16": "Bfloat16", "FLOAT8_E4M3": "Float8e4m3", "FLOAT8_E5M2": "Float8e5m2", "TYPES": "NumTypes"}
    need({name: ours["COMM_" + name] for name in same} == {name: types["nccl" + name_there]
                                                           for name, name_there in same.items()}, (ours, types))
    operations = dict(enumerated(HEADER, "ncclSum"))
    ours = dict(enumerated(OURS, "COMM_SUM"))
    need([ours["COMM_" + name] for name in ("SUM", "PRODUCT", "MAXIMUM", "MINIMUM", "AVERAGE", "MULTIPLIED_SUM")] ==
         [operations["nccl" + name] for name in ("Sum", "Prod", "Max", "Min", "Avg", "NumOps")], (ours, operations))


@case
def the_version_and_the_sizes_are_the_headers():
    def defined(name):
        return int(re.search(r"#define\s+" + name + r"\s+\(?(-?\w+)", HEADER).group(1), 0)

    def constant(name):
        return int(re.search(r"\b" + name + r" = (?:\(int\))?(-?\w+)", OURS).group(1), 0)

    need(constant("NCCL_ID_SIZE") == defined("NCCL_UNIQUE_ID_BYTES"), "the size of a unique id")
    need(constant("NCCL_SPLIT_NOCOLOR") == defined("NCCL_SPLIT_NOCOLOR"), "no color")
    need(f"0x{constant('NCCL_CONFIG_MAGIC'):x}" in HEADER, "the magic number of a configuration")
    need(re.search(r"struct ncclConfig_\w+ \{\s*size_t size;\s*unsigned int magic;\s*unsigned int version;\s*"
                   r"int blocking;\s*int cgaClusterSize;\s*int minCTAs;\s*int maxCTAs;\s*"
                   r"const char \*netName;\s*int splitShare;", HEADER), "the beginning of a configuration")
    if defined("NCCL_VERSION_CODE") <= constant("NCCL_VERSION"):
        need(defined("NCCL_VERSION_CODE") == constant("NCCL_VERSION"), "the version")


run_cases()
sys.exit(plan())
