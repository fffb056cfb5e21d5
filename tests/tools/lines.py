#!/usr/bin/env python3
"""tests/tools/lines.py: tools/lines on small trees that this script makes. TAP on stdout.

shows: structure: a line over 120 columns, a tab, blanks at the end and a misplaced brace are found; old ones may
   only get fewer
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import plan, result  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LONG = "int " + 117 * "x" + ";\n"
DEBT = "tools/lines.debt"


def check(name, files, status, *words, lacking=(), arguments=(), debt=None):
    """Runs tools/lines on a git tree with these files; compares its exit status, what it prints, and the debt
    afterwards."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        os.makedirs(os.path.join(root, "tools"), exist_ok=True)
        subprocess.run(["git", "init", "-q", root], check=True, stderr=subprocess.DEVNULL)
        done = subprocess.run([os.path.join(ROOT, "tools/lines"), "--root", root, *arguments],
                              capture_output=True, text=True)
        said = done.stdout + done.stderr
        problems = [f"exit status {done.returncode}, not {status}"] if done.returncode != status else []
        problems += [f"does not say: {word}" for word in words if word not in said]
        problems += [f"says: {word}" for word in lacking if word in said]
        if debt is not None:
            with open(os.path.join(root, DEBT)) as file:
                found = [line.strip() for line in file if not line.startswith("#")]
            problems += [] if found == debt else [f"the debt is {found}, not {debt}"]
    result(name, problems and "\n".join(problems + said.splitlines()))


def main():
    check("a clean tree passes in silence", {"a.c": "int x;\n"}, 0, lacking=("a.c", "findings"))
    check("a long line is found", {"a.c": "int x;\n" + LONG}, 1, "long-C: 1 findings, at most 0", "a.c:2")
    check("120 columns are allowed", {"a.c": LONG.replace("xx", "", 1) + "/* " + 114 * "ä" + " */\n"}, 0)
    check("each kind of file has a number of its own",
          {"a.c": LONG, "b.py": LONG, "c.sh": LONG, "d": "#!/bin/sh\n" + LONG, "e": "#!/usr/bin/env python3\n" + LONG,
           "f.mk": LONG}, 1, "long-C: 1 ", "long-Python: 2 ", "long-shell: 2 ", "long-make: 1 ")
    check("a struct that two rooms define is found",
          {"cpu/server/a/a.c": "struct same {\n    int x;\n};\nstruct own {\n    int x;\n};\n",
           "cpu/server/b/b.h": "struct own {\n    int x;\n};\n",
           "softgpu/exec/c.h": "int x;\nstruct same {\n    int y;\n};\n",
           "tests/d.c": "struct own {\n    int x;\n};\n"}, 1, "shared-tag: 1 ", "softgpu/exec/c.h:2")
    check("documents may have long lines", {"a.md": LONG}, 0)
    check("measurements may have lines of 160 columns, not longer ones",
          {"docs/measurements/a.md": LONG + 160 * "x" + "\n" + 161 * "x" + "\n"}, 1, "long-measurement: 1 ", "a.md:3")
    check("old findings pass", {"a.c": LONG, DEBT: "long-C 1\n"}, 0, "long-C: 1 findings (debt)")
    check("more than the old ones fail", {"a.c": LONG + LONG, DEBT: "long-C 1\n"}, 1, "long-C: 2 findings, at most 1")
    check("fewer are named", {"a.c": LONG, DEBT: "long-C 2\n"}, 0, "long-C: 1 findings (debt: 2)", "--lower")
    check("--lower writes the lower number", {"a.c": LONG, DEBT: "long-C 2\ntab-C 1\n"}, 0,
          arguments=("--lower",), debt=["long-C 1"])
    check("--lower never raises", {"a.c": LONG + LONG, DEBT: "long-C 1\n"}, 1,
          arguments=("--lower",), debt=["long-C 1"])
    check("a tab is found", {"a.c": "\tint x;\n"}, 1, "tab-C: 1 ")
    check("make needs its tabs", {"a.mk": "a:\n\tb\n"}, 0)
    check("blanks at the end are found", {"a.c": "int x; \n"}, 1, "blank-at-end: 1 ")
    check("a last line without its end is found", {"a.c": "int x;"}, 1, "no-newline-at-end: 1 ")
    check("a function's brace stands in a line of its own",
          {"a.c": "int f(void) {\n    return 0;\n}\nint g(void)\n{\n    if (f()) {\n    }\n}\n"}, 1,
          "brace-of-function: 1 ", "a.c:1", lacking=("a.c:6",))
    check("a function of one line keeps its brace", {"a.c": "int f(void) { return 0; }\n"}, 0)
    check("a daemon's log line begins with its event",
          {"cpu/server/a.c": 'void f(void) { log_info("it works"); log_info("event=works"); }\n',
           "cpu/client/b.c": 'void g(void) { log_info("it works"); }\n'}, 1,
          "log-without-event: 1 ", "cpu/server/a.c:1", lacking=("b.c",))
    check("the tests' prelude is written once",
          {"tests/lib/unit.h": "#include <cmocka.h>\n", "tests/rpc/a.c": "#include <cmocka.h>\n"}, 1,
          "own-prelude: 1 ", "tests/rpc/a.c:1", lacking=("unit.h",))
    check("tests in Python neither wait nor print TAP in ways of their own",
          {"tests/lib/testlib.py": "def until(condition, what):\n",
           "tests/cuda/a.py": "def until(condition):\n    print(f'ok {n}')\ndef ctl(*words):\n",
           "tools/b.py": "def until(condition):\n"}, 1,
          "own-waiting: 1 ", "own-ctl: 1 ", "tests/cuda/a.py:1", lacking=("testlib.py", "tools/b.py"))
    check("--list prints every finding", {"a.c": LONG + LONG}, 0, "a.c:1\na.c:2\n", arguments=("--list", "long-C"))
    return plan()


if __name__ == "__main__":
    sys.exit(main())
