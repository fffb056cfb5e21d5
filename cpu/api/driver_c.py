"""driver_c.py: lists about the driver API, each a file of rows for a macro that the including file defines."""

import re

import api

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


def unsupported():
    return symbols(lambda function: function.kind == "unsupported")


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
            yield f"{need.upper()}({field(function)}, {quoted(function.name)}, ({arguments(function)}))"


def null_device():
    """FUNCTION(field, (parameters)): what the null device has."""
    yield MADE
    for function in api.driver():
        if "null" in function.options:
            yield f"FUNCTION({field(function)}, ({arguments(function)}))"


MAKERS = {
    "errors.inc": errors,
    "symbols.inc": symbols,
    "unsupported.inc": unsupported,
    "exports.map": version_script,
    "entries.inc": entries,
    "soft_per_thread.inc": soft_per_thread,
    "server.inc": server,
    "null.inc": null_device,
}
