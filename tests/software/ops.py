"""Operations of a piece of software, each compared with the CPU's result: tests/software/NAME.py uses this.

A test is a function marked with @op; it fails by an exception. close() compares two results. run() runs all of them,
or those that the command line names without those in $OPERATIONS_DONE, and ends the process: 0 passed, 1 failed,
77 not installed. It prints how many there are, a line before and after each one, and the count.
"""

import importlib
import os
import signal
import sys
import time
import traceback

SKIP = 77
LIMIT = int(os.environ.get("OPERATION_LIMIT", "120"))
_ops = []


def need(*names):
    """Imports modules by name and returns them. Ends the process with 77 and the name of one that is not installed."""
    modules = []
    for name in names:
        try:
            modules.append(importlib.import_module(name))
        except ModuleNotFoundError as missing:
            print(f"SKIP: {missing.name} is not installed")
            sys.exit(SKIP)
    return modules[0] if len(modules) == 1 else modules


def op(function):
    _ops.append(function)
    return function


def close(got, want, tolerance=1e-5):
    import numpy

    numpy.testing.assert_allclose(numpy.asarray(got), numpy.asarray(want), rtol=tolerance, atol=tolerance)


def same(got, want):
    import numpy

    numpy.testing.assert_array_equal(numpy.asarray(got), numpy.asarray(want))


def _late(*_):
    raise TimeoutError(f"not ended after {LIMIT} s")


def run():
    done = os.environ.get("OPERATIONS_DONE", "").split(",")
    ops = [o for o in _ops if o.__name__ not in done and (not sys.argv[1:] or o.__name__ in sys.argv[1:])]
    print(f"operations: {len(ops)}", flush=True)
    passed = failed = 0
    signal.signal(signal.SIGALRM, _late)
    for function in ops:
        print(f"begin {function.__name__}", flush=True)
        began = time.monotonic()
        signal.alarm(LIMIT)
        try:
            function()
            passed += 1
            print(f"pass {function.__name__} {time.monotonic() - began:.1f} s", flush=True)
        except Exception as error:  # whatever the software raises is its answer
            failed += 1
            lines = (str(error).strip() or type(error).__name__).splitlines()
            text = f"{type(error).__name__}: {' '.join(lines[:6])[:400]}"
            print(f"FAIL {function.__name__} {time.monotonic() - began:.1f} s: {text}", flush=True)
            if os.environ.get("VERBOSE"):
                traceback.print_exc()
        finally:
            signal.alarm(0)
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed else 0)
