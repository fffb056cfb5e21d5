#!/usr/bin/env python3
"""coverage.py [--check]: makes docs/api-coverage.md from the description and the tests.

--check changes nothing; exit status 1 when docs/api-coverage.md is not what they say.
"""

import collections
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import api  # noqa: E402
import forward_c  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(api.HERE))
PATH = os.path.join(ROOT, "docs/api-coverage.md")
TESTED = (".cu", ".c", ".h", ".py")
# Of several tests that call a function the first is named, in this order of folders.
PREFERRED = ("runtime", "cuda", "driver", "softgpu", "server")

HEAD = """# CUDA functions: what works

Made by `cpu/api/coverage.py` from the description of CUDA in `cpu/api` and from the tests. Do not edit.

"""

RUNTIME = """## CUDA Runtime API

`libcudart` of CUDA 11.8, 12.0 to 12.9 and 13.0. Forms for the per-thread default stream (`_ptsz`, `_ptds`) are not
listed.

A function that Flyt does not implement is there. It returns `cudaErrorNotSupported` (801), and names itself once on
stderr.

- **CUDA**: the releases that have the function; empty: all.
- **client**: `local`: answered without the server; `yes`: implemented; `in part`:
  [limits](limits.md) says what is missing; `–`: not supported, for the reason given.
- **wire**: the procedures of `cpu/rpc/cpu_rpc_prot.x` that do the work of the call itself. Connecting, the first use of
  a module, and memory that is fetched or given back take further ones; many calls end without any.
- **test**: a file in `tests/` that calls it.
"""

DRIVER = """## CUDA Driver API

`libcuda.so.1` of CUDA 13.0. Forms for the per-thread default stream are not listed.

Flyt's `libcuda.so.1` has all these functions. One that it does not implement returns `CUDA_ERROR_NOT_SUPPORTED` (801),
and names itself once on stderr.

- **since**: the CUDA version from which `cuGetProcAddress` gives this symbol.
- **program**: whether Flyt's `libcuda.so.1` implements it for programs; `–`: not, for the reason given; `forwarded`:
  from the program to the server's driver, the code of the call is generated from its row in `cpu/api/driver.api`.
- **server**: whether the GPU server calls it; `optional`: it does without where the driver lacks it.
- **software GPU**, **null device**: whether these implement it.
- **test**: a file in `tests/` that calls it.
"""


def test_files():
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "tests"], capture_output=True, text=True, cwd=ROOT
    )
    return sorted({name for name in listed.stdout.split() if name.endswith(TESTED) and "/golden/" not in name})


def calls():
    """{function: [test files that call it]}. A file of tests/api speaks about functions and calls none."""
    found = collections.defaultdict(list)
    for name in test_files():
        path = os.path.join(ROOT, name)
        if name.startswith("tests/api/") or not os.path.exists(path):
            continue
        with open(path, errors="replace") as file:
            text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", file.read(), flags=re.S)
        used = set(re.findall(r"\b((?:__)?cu(?:da)?[A-Z]\w*)\s*\(", text))
        used |= set(re.findall(r"call\(\"(cuda\w+)\"", text))  # tests/runtime/native.py
        if "<<<" in text:
            used.add("cudaLaunchKernel")
        for function in used:
            found[function].append(name[len("tests/") :])
    return found


def rank(file):
    folder = file.split("/")[0]
    return (PREFERRED.index(folder) if folder in PREFERRED else len(PREFERRED), file)


def test_of(names, called):
    """One test that calls one of these names."""
    files = sorted({file for name in names for file in called.get(name, ())}, key=rank)
    return f"`{files[0]}`" if files else ""


def by_chapter(functions):
    chapters = collections.OrderedDict()
    for function in functions:
        chapters.setdefault(function.chapter, []).append(function)
    return chapters


def implemented(function):
    return function.kind != "unsupported"


def summary(chapters, called, unique):
    """A table with a row per chapter."""
    yield "| chapter | functions | implemented | of these with a test |"
    yield "|---|---|---|---|"
    total = [0, 0, 0]
    for chapter, functions in chapters.items():
        names = unique(functions)
        works = unique([f for f in functions if implemented(f)])
        row = [len(names), len(works), len([name for name in works if called.get(name)])]
        total = [a + b for a, b in zip(total, row)]
        yield f"| {chapter} | {row[0]} | {row[1]} | {row[2]} |"
    yield f"| **all** | **{total[0]}** | **{total[1]}** | **{total[2]}** |"
    yield ""


def unique_names(functions):
    return list(dict.fromkeys(function.name for function in functions))


def runtime_rows(functions, called):
    yield "| function | CUDA | client | wire | test |"
    yield "|---|---|---|---|---|"
    for function in functions:
        client = {"local": "local", "hand": "yes"}.get(function.kind, f"– {function.reason}")
        if "partial" in function.options:
            client = "in part"
        wire = str(function.options.get("wire", "")).replace(",", ", ")
        yield f"| `{function.name}` | {function.versions} | {client} | {wire} | {test_of(function.names(), called)} |"
    yield ""


def program(function):
    if function.kind == "forward":
        return "forwarded"
    return "yes" if implemented(function) else f"– {function.reason}"


def driver_rows(functions, called):
    yield "| function | since | program | server | software GPU | null device | test |"
    yield "|---|---|---|---|---|---|---|"
    for function in functions:
        options = function.options
        since = int(options["entry"])
        server = {"required": "yes", "optional": "optional"}.get(options.get("server"), "")
        short = re.sub(r"_v\d+$", "", function.name)  # in C, the name of the newest form
        later = [f.name for f in functions if re.fullmatch(short + r"_v\d+", f.name) and f.name > function.name]
        names = [] if later and function.name == short else function.names() + ([] if later else [short])
        yield (
            f"| `{function.name}` | {since // 1000}.{since % 1000 // 10} | {program(function)} "
            f"| {server} | {'yes' if 'soft' in options else ''} | {'yes' if 'null' in options else ''} "
            f"| {test_of(names, called)} |"
        )
    yield ""


def driver_summary(chapters):
    yield "| chapter | functions | program | server | software GPU | null device |"
    yield "|---|---|---|---|---|---|"
    total = [0] * 5
    for chapter, functions in chapters.items():
        row = [
            len(functions),
            sum(map(implemented, functions)),
            *(sum(w in f.options for f in functions) for w in ("server", "soft", "null")),
        ]
        total = [a + b for a, b in zip(total, row)]
        yield f"| {chapter} | " + " | ".join(map(str, row)) + " |"
    yield "| **all** | " + " | ".join(f"**{n}**" for n in total) + " |"
    yield ""


def document():
    called = calls()
    lines = [HEAD + RUNTIME]
    chapters = by_chapter(api.runtime())
    lines += summary(chapters, called, unique_names)
    for chapter, functions in chapters.items():
        lines += [f"### Runtime: {chapter}", "", *runtime_rows(functions, called)]
    chapters = by_chapter(api.driver())
    lines += [DRIVER, *driver_summary(chapters)]
    for chapter, functions in chapters.items():
        lines += [f"### Driver: {chapter}", "", *driver_rows(functions, called)]
    return "\n".join(lines).rstrip("\n") + "\n"


def unknown_procedures():
    """Words of wire= that the protocol lacks, and functions that are said to be local and use it."""
    known = set(re.findall(r"^%#define FLYT_CLASS_FLYT_(\w+)", "\n".join(forward_c.protocol()), re.M))
    for function in api.runtime():
        wire = str(function.options.get("wire", ""))
        for procedure in filter(None, wire.split(",")):
            if procedure not in known:
                yield f"{function.place}: {function.name}: the protocol has no procedure {procedure}"
        if wire and function.kind != "hand":
            yield f"{function.place}: {function.name} is {function.kind}, and has the word wire"


def main():
    wrong = list(unknown_procedures())
    text = document()
    if "--check" in sys.argv[1:]:
        with open(PATH) as file:
            if file.read() != text:
                wrong.append("docs/api-coverage.md is not what cpu/api and the tests say: run cpu/api/coverage.py")
    elif not wrong:
        with open(PATH, "w") as file:
            file.write(text)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
