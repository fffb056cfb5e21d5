#!/usr/bin/env python3
"""tests/guide/reading.py: docs/setup.md can be read: its blocks say where they belong, and what is edited is right.

shows: guide: each block of commands in docs/setup.md says on which machine it is typed
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = HERE, os.path.join(TOP, "tests/lib")
import guide                                                    # noqa: E402
from testlib import case, only_cases                            # noqa: E402


@case
def blocks():
    found = guide.read()
    assert len(found) > 60, len(found)
    commands = [command for block in found if block.kind == "sh" for command in block.commands()]
    assert len(commands) > 70 and any("vm add" in command for command in commands), len(commands)


@case
def edits():
    """Each `conf` block changes what it says in the configuration as shipped, and nothing else."""
    for block in guide.read():
        if block.kind != "conf":
            continue
        with open(os.path.join(TOP, "configs", os.path.basename(block.file))) as file:
            text = file.read()
        fragment = "\n".join(block.lines)
        new = guide.edit(text, fragment)
        values = guide.VALUE.findall(fragment.split("{", 1)[1])
        assert values and all(re.search(rf"^ *{key} = {re.escape(value)};", new, re.M) for key, value in values), new
        same = [line for line in new.splitlines() if line in text.splitlines()]
        assert len(same) >= len(text.splitlines()) - len(values), (block.file, values)
        assert guide.edit(new, fragment) == new, "twice"


@case
def expectations():
    assert guide.matches(["gpu-1  up …", "x"], "NAME STATE\ngpu-1   up    no\n x ")
    assert guide.matches(["flyt: … over tls"], "flyt: 1 call over tls")
    assert not guide.matches(["gpu-1 up …"], "gpu-1  away no")
    assert not guide.matches(["b", "a"], "a\nb"), "their order"
    assert not guide.matches(["Without TLS 0"], "Without TLS 10")


@case
def mistakes():
    """A block that does not say where it belongs is no guide."""
    for text in ("```sh\nls\n```\n", "```sh\n# on the moon\nls\n```\n", "```conf\n# on the VM\na: {};\n```\n"):
        path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"flyt-reading-{os.getpid()}.md")
        with open(path, "w") as file:
            file.write("# x\n" + text)
        try:
            guide.read(path)
            raise AssertionError(text)
        except ValueError:
            pass
        finally:
            os.remove(path)


sys.exit(only_cases())
