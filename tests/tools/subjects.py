#!/usr/bin/env python3
"""subjects.py: tools/subjects on subjects and on small histories that this script makes. TAP on stdout.

shows: lint: subjects of commits are `area: imperative` of at most 72 characters, one thing each; commits before the
   named one do not count, a shallow clone is judged by what it has
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import ok, story  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.path.join(ROOT, "tools/subjects")
GOOD = ("core: answer a query without a message", "tests/cuda, docs: run peers.cu over TCP",
        "libcuda.so.1: add cuLinkX", "client: feed the throttle", "softgpu: read PTX 9.2", "x: " + 69 * "y")
BAD = ("answer a query", "Core: answer a query", "core: Answer a query", "core: the query is answered", "core: a query",
       "core: answering a query", "core: answered a query", "core: answer a query; wrap lines", "core: answer a query.",
       "x: " + 70 * "y", "core:answer", "core: what a query costs")


def git(folder, *arguments):
    done = subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always",
                           *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(folder, subject):
    git(folder, "commit", "-q", "--allow-empty", "-m", subject)
    return git(folder, "rev-parse", "HEAD")


def judged(root):
    done = subprocess.run([TOOL, "--root", root], capture_output=True, text=True)
    return done.returncode, done.stderr


def write_since(folder, since):
    os.makedirs(os.path.join(folder, "tools"), exist_ok=True)
    with open(os.path.join(folder, "tools/subjects.since"), "w") as file:
        file.write(f"# a comment\n{since}\n")


def main():
    cases = []
    for subject in GOOD + BAD:
        done = subprocess.run([TOOL, subject], capture_output=True, text=True)
        cases.append((f"{subject[:50]}: {'good' if subject in GOOD else 'bad'}",
                      (done.returncode == 0) == (subject in GOOD)))
    with tempfile.TemporaryDirectory() as folder:
        whole, shallow, other = (os.path.join(folder, name) for name in ("whole", "shallow", "other"))
        for path in (whole, other):
            git(folder, "init", "-q", path)
        commit(whole, "Old. And long; as it was")
        since = commit(whole, "Also old")
        write_since(whole, since)
        git(whole, "add", "-A")
        git(whole, "commit", "-q", "-m", "tools: judge subjects")
        cases.append(("older commits do not count", judged(whole)[0] == 0))
        commit(whole, "A bad one")
        code, text = judged(whole)
        cases.append(("a newer one is found", code == 1 and "A bad one" in text and "Also old" not in text))
        git(folder, "clone", "-q", "--depth", "1", f"file://{whole}", shallow)
        cases.append(("in a shallow clone, too", judged(shallow)[0] == 1))
        commit(whole, "tools: judge it again")
        git(folder, "clone", "-q", "--depth", "1", f"file://{whole}", shallow + "2")
        cases.append(("a shallow clone is judged by what it has", judged(shallow + "2")[0] == 0))
        commit(other, "Another history")
        write_since(other, since)
        cases.append(("a history without the named commit is not judged", judged(other)[0] == 0))
    for name, good in cases:
        ok(good, name)


sys.exit(story(main))
