#!/usr/bin/env python3
"""exports.py: tools/exports finds what it is there for.

shows: lint: a function that only its own file uses and that is not static is found; what another file or a test uses,
   and what is listed, is not; the list never grows by itself

TAP on stdout. Needs a C compiler and readelf.
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import ok, story  # noqa: E402

TOOL = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tools/exports")
ONE = "int only_here(void); int elsewhere(void); int in_a_test(void); int offered(void);\n" \
      "int only_here(void) { return 1; }\nint elsewhere(void) { return 2; }\nint in_a_test(void) { return 3; }\n" \
      '__attribute__((visibility("default"))) int offered(void) { return 4; }\n' \
      "static int own(void) { return only_here(); }\nint (*own_pointer)(void) = own;\n"
TWO = "int elsewhere(void); extern int (*own_pointer)(void); int main(void) { return elsewhere() + own_pointer(); }\n"


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def tool(root, *arguments):
    return subprocess.run([TOOL, "--root", root, *arguments], capture_output=True, text=True)


def main():
    cases = []
    with tempfile.TemporaryDirectory() as root:
        subprocess.run(["git", "init", "-q", root], check=True)
        cases.append(("without objects it says so", tool(root).returncode == 2))
        write(f"{root}/tests/a.c", "int in_a_test(void);\n")
        for name, text in (("one", ONE), ("two", TWO)):
            write(f"{root}/cpu/room/{name}.c", text)
            os.makedirs(f"{root}/build/plain/cpu/room", exist_ok=True)
            subprocess.run([os.environ.get("CC", "cc"), "-fvisibility=hidden", "-c", f"{root}/cpu/room/{name}.c", "-o",
                            f"{root}/build/plain/cpu/room/{name}.o"], check=True)
        done = tool(root)
        found = [line.split()[1] for line in done.stderr.splitlines()]
        print(f"# {done.stderr.strip()}")
        cases.append(("the one function is found, and no other", done.returncode == 1 and found == ["only_here"]))
        tool_list = f"{root}/tools/exports.debt"
        write(tool_list, "cpu/room/one.c elsewhere\n")
        tool(root, "--lower")
        with open(tool_list) as file:
            cases.append(("--lower takes out and adds nothing", not any("one.c" in line for line in file)))
        write(tool_list, "cpu/room/one.c only_here # a reason\n")
        cases.append(("what is listed is no finding", tool(root).returncode == 0))
        tool(root, "--lower")
        with open(tool_list) as file:
            cases.append(("--lower keeps the reason", "only_here # a reason" in file.read()))
    for name, good in cases:
        ok(good, name)


sys.exit(story(main))
