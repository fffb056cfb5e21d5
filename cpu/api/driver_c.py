"""driver_c.py: what libcuda.so.1 is made of: the names that it exports, and the table of errors."""

import api

# What refusal.c answers itself. All other names are refused.
ANSWERED = (
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetExportTable",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
)
OURS = "flyt_libcuda"  # cpu/common/driver_library.h


def names():
    return [name for function in api.driver() for name in function.names()]


def refused():
    return ["/* Made by cpu/api/generate.py. */"] + [f"NAME({name})" for name in names() if name not in ANSWERED]


def errors():
    return ["/* Made by cpu/api/generate.py. */"] + [
        f'ERROR({error.code}, "{error.driver}", "{error.text}")' for error in api.all_errors() if error.driver
    ]


def version_script():
    return ["{", "  global:"] + [f"    {name};" for name in [OURS, *names()]] + ["  local: *;", "};"]


MAKERS = {"refused.h": refused, "errors.h": errors, "exports.map": version_script}
