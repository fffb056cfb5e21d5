"""cases.py: what tests of the control plane share that are lists of functions. Each function is one line of TAP."""
import contextlib
import socket
import sys
import time


class Failed(Exception):
    """A test did not find what it expected."""


def need(condition, what):
    """what: text, or a function that makes it when it is needed."""
    if not condition:
        raise Failed(what() if callable(what) else what)


def wait_until(question, what, seconds=20):
    """Asks until the answer is true. A question that fails, because a file is missing for example, counts as no."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(Failed, OSError, LookupError, ValueError):
            if question():
                return
        time.sleep(0.05)
    need(False, what)


def free_ports(count=2):
    """Ports of this machine that nobody uses at the moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def run_all(tests, call=lambda test: test()):
    """Calls each test; what it returns says why it was skipped. How many failed."""
    failures = 0
    print(f"1..{len(tests)}", flush=True)
    for number, test in enumerate(tests, 1):
        try:
            skipped = call(test)
            print(f"ok {number} - {test.__name__}" + (f" # SKIP {skipped}" if skipped else ""), flush=True)
        except Exception as problem:                        # a test that fails says nothing of the others
            failures += 1
            print("# " + f"{type(problem).__name__}: {problem}".strip().replace("\n", "\n# "))
            print(f"not ok {number} - {test.__name__}", flush=True)
    return failures


def chosen(tests):
    """Those that the command line names behind BIN and one more argument; all when it names none."""
    return [test for test in tests if not sys.argv[3:] or test.__name__ in sys.argv[3:]]
