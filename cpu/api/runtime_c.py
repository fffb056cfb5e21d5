"""runtime_c.py: the C of libcudart: its types and prototypes, its entry points, its exported names."""

import api
import c_types
import gate_c
import trace_c

STREAM = "cudaStream_t"


def implemented(function):
    return function.kind != "unsupported"


def generated_variant(function):
    """Whether its _ptsz form is the function itself on another default stream."""
    return function.per_thread == "ptsz" and any(p.type == STREAM for p in function.parameters)


def bodies(function):
    """The endings of the names that are written by hand."""
    if implemented(function):
        yield ""
        if function.per_thread and not generated_variant(function):
            yield f"_{function.per_thread}"


def of(major):
    return [function for function in api.runtime() if function.versions.has_major(major)]


def c_string(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def list_macro(name, parameters, rows):
    """A list for the preprocessor, one row a line."""
    yield f"#define {name}({parameters}) \\"
    yield from (f"    {row} \\" for row in rows[:-1])
    yield f"    {rows[-1]}"
    yield ""


def property_rows(release):
    """Members of cudaDeviceProp that repeat an attribute; the elements of an array repeat that one and the next."""
    rows, numbers = [], {name: number for name, number, _ in api.runtime_types().enums["cudaDeviceAttr"].values}
    for member in api.runtime_types().structs["cudaDeviceProp"].of(release):
        if "attribute" not in member.options:
            continue
        name = member.options["attribute"]
        if member.array:
            rows += [f"ELEMENT({member.name}, {i}, {numbers[name] + i})" for i in range(int(member.array[1:-1]))]
        else:
            rows.append(f"MEMBER({member.name}, {name})")
    return rows


def header(major):
    """Types of this major version, and the prototypes of what is written by hand."""
    release = (major, api.NEWEST[major])
    yield f"/* Made by cpu/api/generate.py: types of the CUDA Runtime API {major}, and its hand-written functions. */"
    yield f"#ifndef FLYT_API_CUDART{major}_H"
    yield f"#define FLYT_API_CUDART{major}_H"
    yield ""
    yield "#include <stddef.h>"
    yield "#include <stdint.h>"
    yield ""
    yield c_types.runtime_types(api.runtime_types(), api.all_errors(), release)
    for function in of(major):
        for ending in bodies(function):
            yield f"{function.prototype('runtime_', ending)};"
    yield ""
    yield "/* The error codes of this version in ascending order: number, name, text. */"
    yield from list_macro(
        "CUDART_ERRORS",
        "ERROR",
        [
            f"ERROR({e.code}, {c_string(e.runtime)}, {c_string(e.text)})"
            for e in api.all_errors()
            if e.runtime and e.versions.has(release)
        ],
    )
    yield "/* The members of cudaDeviceProp that are attributes: name, (index,) attribute. */"
    yield from list_macro("CUDART_PROPERTIES", "MEMBER, ELEMENT", property_rows(release))
    yield "#endif"


def call(function, ending):
    """The C of the call of the body."""
    if not implemented(function):
        return f'(cudaError_t)runtime_unsupported("{function.name}{ending}")'
    per_thread = ending and generated_variant(function)
    arguments = ", ".join(
        f"runtime_per_thread({p.name})" if per_thread and p.type == STREAM else p.name for p in function.parameters
    )
    return f"runtime_{function.name}{'' if per_thread else ending}({arguments})"


# What these return is no failure of their own.
TELL_ERRORS = ("cudaGetLastError", "cudaPeekAtLastError")


def can_fail(function):
    return function.returns == "cudaError_t" and function.name not in TELL_ERRORS


def gated(function):
    """Whether its entry passes the gate (cpu/client/core/api_gate.h)."""
    return "ungated" not in function.options


def entry(function, ending):
    """One exported function."""
    traced = "untraced" not in function.options
    if traced:
        yield from trace_c.traced(function, ending, "runtime_front", call(function, ending))
    if gated(function):
        failed = "runtime_failed" if traced and can_fail(function) else ""
        flag = "runtime_traced" if traced else ""
        yield from gate_c.entry("RUNTIME_API ", function, ending, flag, call(function, ending), failed)
        return
    assert not traced, f"{function.place}: what does not pass the gate is not traced"
    yield f"RUNTIME_API {function.prototype('', ending)}"
    yield "{"
    yield f"    {'' if function.returns == 'void' else 'return '}{call(function, ending)};"
    yield "}"
    yield ""


def endings(function):
    return ("", f"_{function.per_thread}") if function.per_thread else ("",)


def entry_prototypes(major):
    """What the library exports; its own sources do not call it."""
    yield f"/* Made by cpu/api/generate.py: the functions that libcudart of CUDA {major} exports. */"
    yield f"#ifndef FLYT_API_CUDART{major}_ENTRIES_H"
    yield f"#define FLYT_API_CUDART{major}_ENTRIES_H"
    yield ""
    yield f'#include "api/cudart{major}/cudart.h"'
    yield ""
    for function in of(major):
        for ending in endings(function):
            yield f"{function.prototype('', ending)};"
    yield ""
    yield "#endif"


def entries(major):
    yield f"/* Made by cpu/api/generate.py: the functions that libcudart of CUDA {major} exports. */"
    yield '#include "cpu/client/runtime/runtime.h"'
    yield f'#include "api/cudart{major}/entries.h"'
    yield ""
    yield '#pragma GCC diagnostic ignored "-Wunused-parameter"'
    yield ""
    tables = trace_c.Tables(api.runtime_types(), api.all_errors(), (major, api.NEWEST[major]), STREAM)
    for function in of(major):
        for ending in endings(function):
            if "untraced" not in function.options:
                tables.function(function, ending)
    yield from tables.lines
    yield ""
    for function in of(major):
        for ending in endings(function):
            yield from entry(function, ending)


def gate_calls(major):
    return gate_c.calls(
        [
            (f"{function.name}{ending}", "", gated(function), function.parameters)
            for function in of(major)
            for ending in endings(function)
        ],
        False,
    )


def names(major):
    return sorted(name for function in of(major) for name in function.names())


NODES = {11: "libcudart.so.11.0", 12: "libcudart.so.12", 13: "libcudart.so.13"}


def version_script(major):
    """For the linker."""
    yield f"{NODES[major]} {{"
    yield "  global:"
    for name in names(major):
        yield f"    {name};"
    yield "  local: *;"
    yield "};"


def renames(major):
    """For objcopy: the names with their version node, the newest as the default."""
    for name in names(major):
        yield f"{name} {name}{'@@' if major == max(api.MAJORS) else '@'}{NODES[major]}"


def nodes():
    """For the linker: the version nodes alone, for a library whose names carry theirs already."""
    for node in NODES.values():
        yield f"{node} {{ }};"


MAKERS = {
    "cudart.h": header,
    "entries.h": entry_prototypes,
    "entries.c": entries,
    "gate_calls.inc": gate_calls,
    "exports.txt": names,
    "exports.map": version_script,
    "renames": renames,
}
