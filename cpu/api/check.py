#!/usr/bin/env python3
"""check.py [--releases DIR] [--include DIR] [--libraries DIR] [--golden DIR [--record]]

Compares the description with NVIDIA's releases, and prints TAP.

--releases   what tools/cuda-releases fetched: DIR/<release>/nvidia/*/{include,lib}
--include    the headers of the toolkit at hand; --libraries: its libcudart.so
--golden     what was recorded: the names that NVIDIA's libraries export, in libcudart-<release>.txt and
             libcuda-<release>.txt, and the layouts of its structures, in layouts-<release>.txt. --record
             writes the layouts

What is not there is skipped. A developer who adds a release runs this and writes into the description what it finds.
"""

import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import api  # noqa: E402
import c_types  # noqa: E402
import driver_c  # noqa: E402
import headers  # noqa: E402


class Report:
    """TAP, one line per comparison, with what differs below it."""

    def __init__(self):
        self.number = 0

    def test(self, name, wrong):
        self.number += 1
        print(f"{'not ok' if wrong else 'ok'} {self.number} - {name}")
        for line in wrong[:20]:
            print(f"# {line}")
        if len(wrong) > 20:
            print(f"# … and {len(wrong) - 20} more")

    def skip(self, name, why):
        self.number += 1
        print(f"ok {self.number} - {name} # SKIP {why}")


def release_of(include):
    """(major, minor) of the headers in a folder, or None."""
    try:
        with open(os.path.join(include, "cuda.h"), errors="replace") as file:
            match = re.search(r"^#define CUDA_VERSION (\d+)", file.read(), re.M)
    except OSError:
        return None
    return (int(match.group(1)) // 1000, int(match.group(1)) % 1000 // 10)


def text_of(release):
    return f"{release[0]}.{release[1]}"


# ---- functions ----


def shape(returns, types):
    return f"{returns} ({', '.join(types)})"


def described(functions, release):
    """{exported name: shape} in one release."""
    return {
        name: shape(function.returns, [p.type for p in function.parameters])
        for function in functions
        if function.versions.has(release)
        for name in function.names()
    }


def differences(ours, theirs, only_theirs):
    wrong = [
        f"{name}: NVIDIA's header has {theirs[name]}, the description {ours.get(name, 'nothing')}"
        for name in sorted(theirs)
        if ours.get(name) != theirs[name]
    ]
    return wrong + [
        f"{name} is described, and not in NVIDIA's header" for name in sorted(only_theirs(set(ours) - set(theirs)))
    ]


def functions_in(include, names, prefix):
    return {
        f.name: shape(f.returns, [t for t, _ in f.parameters])
        for f in headers.functions(include, names, prefix).values()
    }


def check_functions(report, include, release):
    """The runtime's, and the driver's: an older driver header must not say anything else of what it has."""
    theirs = functions_in(include, headers.RUNTIME, "cuda")
    # The compiler's interface has no header in PyPI's packages; the profiler's has a package of its own.
    report.test(
        f"functions of the runtime API in the headers of {text_of(release)}",
        differences(
            described(api.runtime(), release),
            theirs,
            lambda names: {n for n in names if not n.startswith("__") and not n.startswith("cudaProfiler")},
        ),
    )
    ours = described(api.driver(), release)
    theirs = functions_in(include, headers.DRIVER, "cu")
    if release[0] < 13:
        theirs = {name: theirs[name] for name in theirs if name in ours}
    if release[0] < 12:  # the first layout had no number yet
        theirs = {
            name: text.replace("CUDA_KERNEL_NODE_PARAMS ", "CUDA_KERNEL_NODE_PARAMS_v1 ")
            for name, text in theirs.items()
        }
    report.test(
        f"functions of the driver API in the headers of {text_of(release)}",
        differences(
            ours,
            theirs,
            lambda names: names if release[0] >= 13 and include_has(include, "cudaProfiler.h") else set(),
        ),
    )


def include_has(include, name):
    return os.path.exists(os.path.join(include, name))


def check_entries(report, include, release):
    """What cuGetProcAddress gives: the typedefs of a name, in order of version, are its symbols in order of number."""
    if release[0] < 13:
        return
    theirs, ours = {}, {}
    for header in headers.DRIVER_ENTRIES:
        with open(os.path.join(include, header), errors="replace") as file:
            for name, version, variant in re.findall(r"PFN_(cu\w+?)_v(\d+)(_pt[sd][sz])?\)", file.read()):
                if name not in headers.WINDOWS:
                    theirs.setdefault((name, bool(variant)), set()).add(int(version))
    for function in api.driver():
        name = re.sub(r"_v\d+$", "", function.name)
        ours.setdefault((name, False), []).append(int(function.options["entry"]))
        if function.per_thread:
            ours.setdefault((name, True), []).append(int(function.options["per_thread_entry"]))
    wrong = [
        f"{name[0]}: NVIDIA's typedefs say {sorted(theirs.get(name, ()))}, the description {sorted(ours.get(name, ()))}"
        for name in sorted({*theirs, *ours})
        if sorted(theirs.get(name, ())) != sorted(ours.get(name, ()))
    ]
    report.test(f"versions of driver entry points in the headers of {text_of(release)}", wrong)


# ---- types ----

SENTINEL = re.compile(r"(Max|_MAX|Count|_NUM_OPTIONS)$")  # "one more than the last": no value of its own


def check_enums(report, include, release):
    _, theirs, _ = headers.types(include, headers.RUNTIME)
    wrong = []
    for enum in api.runtime_types().enums.values():
        if not enum.versions.has(release):
            continue
        if enum.name not in theirs:
            if include_has(include, "cuda_profiler_api.h") or "OutputMode" not in enum.name:
                wrong.append(f"NVIDIA's header has no {enum.name}")
            continue
        have = {name: number for name, number, range_ in enum.values if range_.has(release)}
        want = headers.numbers(theirs[enum.name])
        wrong += [
            f"{enum.name}: {name} is {want.get(name)} in NVIDIA's header, {have.get(name)} in the description"
            for name in {**want, **have}
            if want.get(name) != have.get(name) and not (name not in have and SENTINEL.search(name))
        ]
    report.test(f"enums of the runtime API in the headers of {text_of(release)}", wrong)
    want = headers.numbers(theirs["cudaError"])
    have = {error.runtime: error.code for error in api.all_errors() if error.runtime and error.versions.has(release)}
    wrong = [
        f"{name} is {want.get(name)} in NVIDIA's header, {have.get(name)} in the description"
        for name in {**want, **have}
        if want.get(name) != have.get(name)
    ]
    _, theirs, _ = headers.types(include, headers.DRIVER)
    want = headers.numbers(theirs["cudaError_enum"])
    have = {error.driver: error.code for error in api.all_errors() if error.driver}
    wrong += [
        f"{name} is {want[name]} in NVIDIA's header, {have.get(name)} in the description"
        for name in want
        if want[name] != have.get(name)
    ]
    report.test(f"error codes in the headers of {text_of(release)}", wrong)


PROBE = """#include <stdio.h>
#include <stddef.h>
#include <stdint.h>
{text}
int main(void)
{{
{lines}
    return 0;
}}
"""


def measured(language, text, asked, flags=()):
    """{"struct.member": "offset size"} as the compiler lays them out. asked: (struct, member path or "")."""
    lines = []
    for struct, path in asked:
        if path:
            lines.append(
                f'    printf("{struct}.{path} %zu %zu\\n", offsetof({struct}, {path}), '
                f"sizeof((({struct} *)0)->{path}));"
            )
        else:
            lines.append(f'    printf("{struct} 0 %zu\\n", sizeof({struct}));')
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "probe")
        compiler = os.environ.get("CC", "cc").split() if language == "c" else ["g++"]
        run = subprocess.run(
            [*compiler, "-x", language, "-w", *flags, "-o", program, "-"],
            text=True,
            capture_output=True,
            input=PROBE.format(text=text, lines="\n".join(lines)),
        )
        if run.returncode:
            raise RuntimeError(f"the probe does not compile:\n{run.stderr[:3000]}")
        output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return dict(line.split(" ", 1) for line in output.splitlines())


def header_paths(struct, prefix=""):
    """The member paths that a struct has in NVIDIA's header."""
    for member in struct.members:
        if isinstance(member, headers.Member):
            yield prefix + member.name
        else:
            nested, array = member
            if nested.name:
                yield prefix + nested.name
            if not array:
                yield from header_paths(nested, prefix + nested.name + "." if nested.name else prefix)


def header_layouts(include, release):
    """({"struct.member": "offset size"} of the described structures in NVIDIA's header, what one side lacks)."""
    theirs, _, _ = headers.types(include, headers.RUNTIME)
    newest = release[1] == api.NEWEST[release[0]]
    asked, wrong = [], []
    for struct in api.runtime_types().structs.values():
        if not struct.versions.has(release):
            continue
        if struct.name not in theirs and struct.name != "cudaUUID_t":
            wrong.append(f"NVIDIA's header has no {struct.name}")
            continue
        asked.append((struct.name, ""))
        present = set(header_paths(theirs.get(struct.name, theirs["CUuuid_st"])))
        ours = {path for path, _ in c_types.places(struct, release)}
        if newest:
            wrong += [f"{struct.name}.{path} is only in NVIDIA's header" for path in sorted(present - ours)]
            wrong += [f"{struct.name}.{path} is only in the description" for path in sorted(ours - present)]
        asked += [
            (struct.name, path) for path in sorted(ours & present) if newest or not re.search(r"reserved|pad", path)
        ]
    with tempfile.TemporaryDirectory() as folder:
        headers.write_stand_ins(folder)
        text = "".join(f"#include <{name}>\n" for name in headers.RUNTIME if include_has(include, name))
        return measured("c++", text, asked, ["-I", folder, "-I", include]), wrong


def our_layouts(keys, release):
    """The same of the description, for the keys that it knows."""
    known = {
        struct.name: {path for path, _ in c_types.places(struct, release)}
        for struct in api.runtime_types().structs.values()
        if struct.versions.has(release)
    }
    asked = [key.split(".", 1) if "." in key else [key, ""] for key in keys]
    asked = [(struct, path) for struct, path in asked if struct in known and (not path or path in known[struct])]
    return measured("c", c_types.runtime_types(api.runtime_types(), api.all_errors(), release), asked)


def layout_differences(want, have, who):
    return [
        f"{key}: offset and size are {want[key]} {who}, {have.get(key, 'nothing')} in the description"
        for key in want
        if want[key] != have.get(key)
    ]


def check_layouts(report, include, release):
    want, wrong = header_layouts(include, release)
    wrong += layout_differences(want, our_layouts(want, release), "in NVIDIA's header")
    report.test(
        f"layouts of {sum('.' not in key for key in want)} structures in the headers of {text_of(release)}", wrong
    )


# ---- types of the driver API: described as 13.0 has them; an older header lacks some, and says the same of the rest


# CUDA 12 gave these two names to new attributes; those of CUDA 11 are now called …_V1.
MOVED = {"CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS", "CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR"}


def check_driver_enums(report, include, release):
    _, theirs, _ = headers.types(include, headers.DRIVER)
    newest, wrong = release == driver_c.RELEASE, []
    for enum in api.driver_types().enums.values():
        if enum.name not in theirs:
            wrong += [f"NVIDIA's header has no {enum.name}"] if newest else []
            continue
        have = {name: number for name, number, _ in enum.values}
        want = headers.numbers(theirs[enum.name])
        wrong += [
            f"{enum.name}: {name} is {want.get(name)} in NVIDIA's header, {have.get(name)} in the description"
            for name in ({**want, **have} if newest else want)
            if want.get(name) != have.get(name)
            and not (name not in have and (SENTINEL.search(name) or not newest))
            and not (name in MOVED and release[0] < 12)
        ]
    report.test(f"enums of the driver API in the headers of {text_of(release)}", wrong)


# Words of NVIDIA's comments, and of launch_attributes.api.
PLACES = {"launches": "launch", "graph nodes": "node", "streams": "stream"}
UNSAID = {("PREFERRED_SHARED_MEMORY_CARVEOUT", "node")}  # what the library does and the comment does not say
VALID = re.compile(r"CU_LAUNCH_ATTRIBUTE_(\w+)\s*=\s*\d+\s*/\*\*<\s*Valid for ([a-z, ]+)\.")


def check_launch_attributes(report, include, release):
    """Compares where the table allows an attribute with the comments of NVIDIA's newest header."""
    if release != driver_c.RELEASE:
        return
    with open(os.path.join(include, "cuda.h"), errors="replace") as file:
        valid = VALID.findall(file.read())
    want = {(name, PLACES[place]) for name, places in valid for place in places.split(", ")}
    have = {(row.name, place) for row in api.launch_attributes() for place in row.places if place in PLACES.values()}
    have -= UNSAID | {("IGNORE", "launch")}
    wrong = [f"{name}: {place}: only in NVIDIA's header" for name, place in sorted(want - have)]
    wrong += [f"{name}: {place}: not in NVIDIA's header" for name, place in sorted(have - want)]
    report.test(f"where launch attributes are allowed, in the header of {text_of(release)}", wrong)


def driver_struct(structs, aliases, name):
    """The structure that a name stands for: they are typedefs of numbered ones."""
    while name in aliases and name not in structs:
        name = aliases[name]
    return structs.get(name)


# Of structures with unions the description has the parts that somebody uses.
def check_driver_layouts(report, include, release):
    structs, _, aliases = headers.types(include, headers.DRIVER)
    newest, wrong, asked = release == driver_c.RELEASE, [], []
    for struct in api.driver_types().structs.values():
        theirs = driver_struct(structs, aliases, struct.name)
        if not theirs:
            wrong += [f"NVIDIA's header has no {struct.name}"] if newest else []
            continue
        present = set(header_paths(theirs))
        ours = {path for path, _ in c_types.places(struct, driver_c.RELEASE)}
        if newest and not theirs.union and not any(m.nested for m in struct.of(release)):
            wrong += [f"{struct.name}.{path} is only in NVIDIA's header" for path in sorted(present - ours)]
            wrong += [f"{struct.name}.{path} is only in the description" for path in sorted(ours - present)]
        asked += [(struct.name, ""), *((struct.name, path) for path in sorted(ours & present))]
    with tempfile.TemporaryDirectory() as folder:
        headers.write_stand_ins(folder)
        want = measured("c++", "#include <cuda.h>\n", asked, ["-I", folder, "-I", include])
    have = measured("c", c_types.driver_types(api.driver_types(), api.all_errors(), driver_c.RELEASE), asked)
    # A structure that has grown since keeps the places of what it had.
    if not newest:
        want = {key: place for key, place in want.items() if "." in key and not re.search(r"reserved|pad", key)}
        want, have = ({key: places[key].split()[0] for key in want} for places in (want, have))
    wrong += layout_differences(want, have, "in NVIDIA's header")
    count = len({struct for struct, _ in asked})
    report.test(f"layouts of {count} structures of the driver API in the headers of {text_of(release)}", wrong)


def layout_path(folder, release):
    return os.path.join(folder, f"layouts-{text_of(release)}.txt")


def record_layouts(folder, include, release):
    want, _ = header_layouts(include, release)
    with open(layout_path(folder, release), "w") as file:
        file.write("".join(f"{key} {place}\n" for key, place in sorted(want.items())))


# ---- libraries ----


def exported(library):
    output = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    ).stdout
    return {
        fields[2].split("@")[0]
        for fields in map(str.split, output.splitlines())
        if len(fields) == 3 and fields[1] != "A"
    }


def check_names(report, name, ours, theirs):
    report.test(
        name,
        [f"{n} is not described" for n in sorted(theirs - ours)]
        + [f"{n} is described, and not exported" for n in sorted(ours - theirs)],
    )


def runtime_names(release):
    return {name for function in api.runtime() if function.versions.has(release) for name in function.names()}


def stub_names():
    """Those of the toolkit's libcuda, a stub for linkers. It lacks what deals with OpenGL, EGL and VDPAU, which the
    driver's libcuda exports."""
    graphics = ("OpenGL Interoperability", "EGL Interoperability", "VDPAU Interoperability")
    return {name for f in api.driver() if not f.chapter.startswith(graphics) for name in f.names()}


def check_golden(report, folder):
    for path in sorted(glob.glob(os.path.join(folder, "libcud*-*.txt"))):
        library, version = re.match(r"(libcuda(?:rt)?)-([\d.]+)\.txt", os.path.basename(path)).groups()
        with open(path) as file:
            names = set(file.read().split())
        release = tuple(map(int, version.split(".")))
        ours = runtime_names(release) if library == "libcudart" else stub_names()
        check_names(report, f"names of {library} of {version}, as recorded", ours, names)
    for release in api.NEWEST.items():
        if folder:
            with open(layout_path(folder, release)) as file:
                want = dict(line.rstrip("\n").split(" ", 1) for line in file)
            report.test(
                f"layouts of {text_of(release)}, as recorded",
                layout_differences(want, our_layouts(want, release), "as recorded"),
            )


CHECKS = (
    check_functions,
    check_entries,
    check_enums,
    check_layouts,
    check_driver_enums,
    check_launch_attributes,
    check_driver_layouts,
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--releases", "--include", "--libraries", "--golden"):
        parser.add_argument(option, default="")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    report = Report()
    sources = [
        (folder, os.path.join(os.path.dirname(folder), "lib"))
        for folder in sorted(glob.glob(os.path.join(options.releases, "*/nvidia/*/include")))
    ]
    if options.include:
        sources.append((options.include, options.libraries))
    if options.record:
        for include, _ in sources:
            if release_of(include) in api.NEWEST.items():
                record_layouts(options.golden, include, release_of(include))
        return
    check_golden(report, options.golden)
    if not options.releases or len(sources) < 2:
        report.skip("older and newer releases", "tools/cuda-releases has fetched none")
    known = {(major, minor) for major, newest in api.NEWEST.items() for minor in range(newest + 1)}
    for include, libraries in sources:
        release = release_of(include)
        if release is None or release not in known:
            report.skip(f"headers in {include}", f"CUDA {text_of(release) if release else '?'} is not described")
            continue
        for check in CHECKS:
            check(report, include, release)
        for library in sorted(glob.glob(os.path.join(libraries, "libcudart.so.1*")))[:1]:
            check_names(
                report,
                f"names that NVIDIA's libcudart of {text_of(release)} exports",
                runtime_names(release),
                exported(library),
            )
        for library in glob.glob(os.path.join(libraries, "stubs/libcuda.so")):
            if release == (13, 0):
                check_names(
                    report,
                    "names that NVIDIA's libcuda of 13.0 exports",
                    stub_names(),
                    exported(library),
                )
    print(f"1..{report.number}")


if __name__ == "__main__":
    main()
