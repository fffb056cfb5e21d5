"""driver_c.py: lists about the driver API, each a file of rows for a macro that the including file defines."""

import re

import api
import c_types
import gate_c
import trace_c

MADE = "/* Made by cpu/api/generate.py. */"
OLDEST_HEADER = 11080  # of cuda.h; what came later is compiled only with headers that have it


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def asked_name(function):
    """The name that cuGetProcAddress is asked for: without the number."""
    return re.sub(r"_v\d+$", "", function.name)


def arguments(function):
    return ", ".join(p.declaration() for p in function.parameters) or "void"


def guarded(function, row, version=None):
    """The row, only where cuda.h is new enough."""
    version = int(version or function.options["entry"])
    return [f"#if CUDA_VERSION >= {version}", row, "#endif"] if version > OLDEST_HEADER else [row]


def errors():
    """ERROR(code, name, text), in ascending order."""
    yield MADE
    for error in api.all_errors():
        if error.driver:
            yield f"ERROR({error.code}, {quoted(error.driver)}, {quoted(error.text)})"


def symbols(wanted=lambda function: True):
    """SYMBOL(name) of each exported name."""
    yield MADE
    for function in api.driver():
        if wanted(function):
            for name in function.names():
                yield f"SYMBOL({name})"


# ---- libcuda.so.1 for programs (cpu/client/driver) ----

STREAM = "CUstream"
RELEASE = (13, 0)


def implemented(function):
    return function.kind != "unsupported"


def body(function):
    """The prototype of what is written by hand. A function that has a form for the per-thread default stream, and no
    parameter for a stream, gets the default stream of the form as its last one."""
    made = function.prototype("driver_")
    return f"{made[:-1]}, core_stream default_stream)" if default_stream(function) else made


def default_stream(function):
    return function.per_thread and not any(p.type == STREAM for p in function.parameters)


def types_header():
    yield MADE
    yield "#ifndef FLYT_API_DRIVER_TYPES_H"
    yield "#define FLYT_API_DRIVER_TYPES_H"
    yield ""
    yield "#include <stddef.h>"
    yield "#include <stdint.h>"
    yield ""
    yield c_types.driver_types(api.driver_types(), api.all_errors(), RELEASE)
    yield "#endif"


def front_header():
    """Types, and the prototypes of the bodies."""
    yield MADE
    yield "#ifndef FLYT_API_DRIVER_H"
    yield "#define FLYT_API_DRIVER_H"
    yield ""
    yield '#include "api/driver/types.h"'
    yield '#include "cpu/client/core/core.h"'
    yield ""
    for function in api.driver():
        if implemented(function):
            yield f"{body(function)};"
    yield ""
    yield "#endif"


def call(function, ending):
    """The C of the call of the body."""
    arguments = [f"driver_per_thread({p.name})" if ending and p.type == STREAM else p.name for p in function.parameters]
    if default_stream(function):
        arguments.append("CORE_STREAM_PER_THREAD" if ending else "0")
    return f"driver_{function.name}({', '.join(arguments)})"


def front_entry(function, ending):
    """One exported function."""
    yield from trace_c.traced(function, ending, "driver_front", call(function, ending))
    yield f"DRIVER_API {function.prototype('', ending)};"
    yield from gate_c.entry(
        "DRIVER_API ", function, ending, "driver_traced", call(function, ending), "driver_failed"
    )


def unsupported_entry(name):
    yield f"DRIVER_API CUresult {name}(void);"
    yield f"DRIVER_API CUresult {name}(void)"
    yield "{"
    yield f'    CORE_GATE("{name}");'
    yield f'    return driver_failed(driver_unsupported("{name}"), "{name}");'
    yield "}"


def endings(function):
    return ("", f"_{function.per_thread}") if function.per_thread else ("",)


def front():
    """What libcuda.so.1 exports, and the table that cuGetProcAddress reads."""
    yield MADE
    yield '#include "cpu/client/driver/driver.h"'
    yield ""
    tables = trace_c.Tables(api.driver_types(), api.all_errors(), RELEASE, STREAM)
    forms = [(function, ending) for function in api.driver() for ending in endings(function)]
    for function, ending in forms:
        if implemented(function):
            tables.function(function, ending)
    yield from tables.lines
    yield ""
    for function, ending in forms:
        yield from front_entry(function, ending) if implemented(function) else unsupported_entry(function.name + ending)
    yield ""
    yield "const struct driver_entry driver_entries[] = {"
    yield "#define ENTRY(name, version, per_thread, symbol) { name, version, per_thread, (void (*)(void))symbol },"
    yield '#include "api/driver/entries.inc"'
    yield "#undef ENTRY"
    yield "};"
    yield "const size_t driver_entry_count = sizeof driver_entries / sizeof driver_entries[0];"


def gate_calls():
    """Those that are not implemented have no parameters."""
    forms = []
    for function in api.driver():
        for ending in endings(function):
            name = function.name + ending
            if implemented(function):
                forms.append((name, function.prototype("", ending), True, function.parameters))
            else:
                forms.append((name, f"CUresult {name}(void)", True, []))
    return gate_c.calls(forms, True)


OURS = "flyt_libcuda"                           # cpu/common/driver_library.h


def version_script():
    """For the linker: what libcuda.so.1 exports."""
    names = sorted(name for function in api.driver() for name in function.names())
    return ["{", "  global:", *(f"    {name};" for name in [OURS, *names]), "  local: *;", "};"]


def entries():
    """ENTRY(name, version, per thread, symbol), sorted: what cuGetProcAddress gives for a name from this version on."""
    yield MADE
    rows = []
    for function in api.driver():
        rows.append((asked_name(function), 0, int(function.options["entry"]), function.name))
        if function.per_thread:
            rows.append(
                (
                    asked_name(function),
                    1,
                    int(function.options["per_thread_entry"]),
                    f"{function.name}_{function.per_thread}",
                )
            )
    for name, per_thread, version, symbol in sorted(rows):
        yield f"ENTRY({quoted(name)}, {version}, {per_thread}, {symbol})"


def soft_per_thread():
    """PER_THREAD(name, ending, (parameters), (arguments)): such forms of what the software GPU has."""
    yield MADE
    for function in api.driver():
        if "soft" in function.options and function.per_thread:
            given = ", ".join(p.name for p in function.parameters)
            yield from guarded(
                function, f"PER_THREAD({function.name}, {function.per_thread}, ({arguments(function)}), ({given}))"
            )


def field(function):
    return asked_name(function)[2:]


def server():
    """REQUIRED(field, symbol, (parameters)) and OPTIONAL(…): what the server asks of its driver."""
    yield MADE
    for function in api.driver():
        need = function.options.get("server")
        if need == "required" and "null" not in function.options:
            raise api.Wrong(
                f"{function.place}: the server requires {function.name}; the null device must have it (word: null)"
            )
        if need:
            row = f"{need.upper()}({field(function)}, {quoted(function.name)}, ({arguments(function)}))"
            yield from guarded(function, row) if "call" in function.options else [row]


def null_device():
    """FUNCTION(field, (parameters)): what the null device has."""
    yield MADE
    for function in api.driver():
        if "null" in function.options:
            yield f"FUNCTION({field(function)}, ({arguments(function)}))"


MAKERS = {
    "errors.inc": errors,
    "symbols.inc": symbols,
    "types.h": types_header,
    "driver.h": front_header,
    "front.c": front,
    "gate_calls.inc": gate_calls,
    "exports.map": version_script,
    "entries.inc": entries,
    "soft_per_thread.inc": soft_per_thread,
    "server.inc": server,
    "null.inc": null_device,
}
