#!/usr/bin/env python3
"""tests/guide/pages.py BIN [reading]: the pages of docs that a reader follows on one machine, as they stand; TAP.

`reading` types nothing. A page is typed into one shell; all pages share a folder. Its fenced blocks:

    sh      commands, one after the other; each must end with status 0
    text    behind it: what the last command prints: each line is among its lines, in this order; … stands for anything
    others  (cuda, make, cmake, python): a file, whose name is in the comment that is its first line

shows: guide: first-program, build-systems, operating, monitoring, python: each command does what the page says
shows: guide: docs/README.md names every page, links lead somewhere, docs/troubleshooting.md has messages that exist
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = HERE, os.path.join(TOP, "tests/lib")
from guide import is_whole, matches                             # noqa: E402
from testlib import case, need, only_cases                      # noqa: E402

BIN = os.path.abspath(sys.argv[1])
NVCC = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
FOLDER = tempfile.mkdtemp(prefix="flyt-pages-")
MARK = "--said-and-done--"
LIMIT = 120


def blocks(name):
    """(kind, line, lines) of each."""
    found, fence = [], None
    with open(f"{TOP}/docs/{name}", encoding="utf-8") as page:
        for number, line in enumerate(page, 1):
            line = line.rstrip("\n")
            if fence and line == "```":
                found.append(fence)
                fence = None
            elif fence:
                fence[2].append(line)
            elif match := re.fullmatch(r"```(\w+)", line):
                fence = (match.group(1), number, [])
    return found


class Shell:
    def __init__(self, limit=LIMIT):
        path = f"{BIN}:{os.path.dirname(NVCC)}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "LC_ALL": "C.UTF-8"}
        for name in ("FLYT_SERVER", "FLYT_MANAGER", "FLYT_CLUSTER", "MAKEFLAGS", "MAKELEVEL"):
            environment.pop(name, None)
        self.process = subprocess.Popen(["timeout", str(limit), "bash", "--norc"], cwd=FOLDER, env=environment,
                                        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)

    def type(self, command):
        self.process.stdin.write(f"{command}\necho; echo {MARK} $?\n")
        self.process.stdin.flush()
        said = []
        for line in self.process.stdout:
            if line.startswith(MARK):
                need(line.split()[1] == "0", f"{command}: {line} {''.join(said)}")
                return "".join(said)
            said.append(line)
        raise AssertionError(f"the shell has ended: {command}: {''.join(said)}")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def commands(lines):
    command = ""
    for line in lines:
        command += ("\n" if command else "") + line
        if command.strip() and is_whole(command):
            yield command
            command = ""
    need(not command.strip(), f"bash does not understand: {command}")


def follow(name, most_files=9, limit=LIMIT):
    shell, said, files, typed = Shell(limit), "", 0, 0
    for kind, number, lines in blocks(name):
        if kind == "sh":
            for command in commands(lines):
                said = shell.type(command)
                typed += 1
        elif kind == "text":
            need(matches([line for line in lines if line.strip()], said), f"docs/{name}:{number}: printed was\n{said}")
        else:
            path = lines[0].lstrip("/# ")
            need(re.fullmatch(r"[\w.]+", path), f"docs/{name}:{number}: no name of a file: {lines[0]}")
            with open(f"{FOLDER}/{path}", "w", encoding="utf-8") as out:
                out.write("\n".join(lines) + "\n")
            files += 1
    shell.close()
    need(typed > 3 and files <= most_files, f"{typed} commands")


@case
def first_program():
    follow("first-program.md")


@case
def build_systems():
    if not shutil.which("cmake"):
        return "cmake is not installed"
    follow("build-systems.md")


@case
def operating():
    follow("operating.md")


@case
def monitoring():
    """Its program is the one of first-program.md."""
    missing = [tool for tool in ("curl", "promtool") if not shutil.which(tool)]
    if missing:
        return f"{' and '.join(missing)} not installed"
    follow("monitoring.md")


@case
def python():
    download = [sys.executable, "-m", "pip", "download", "--no-deps", "-qd", f"{FOLDER}/pip", "numba-cuda"]
    if subprocess.run(download, capture_output=True, timeout=LIMIT, check=False).returncode:
        return "packages of PyPI cannot be had here"
    follow("python.md", limit=900)


# ---- what pages say ----

def sources():
    """All code of the product without comments, string literals joined as the compiler does."""
    text = ""
    for pattern in ("cpu/**/*.[ch]", "control-managers/**/*.[ch]", "softgpu/**/*.[ch]"):
        for path in glob.glob(f"{TOP}/{pattern}", recursive=True):
            with open(path, encoding="utf-8") as file:
                text += file.read() + "\n"
    token = r"""(?s)"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|/\*.*?\*/|//[^\n]*"""
    text = re.sub(token, lambda found: "" if found[0].startswith("/") else found[0], text)
    text = re.sub(r'"\s*\n\s*"', "", text)
    return re.sub(r"\s+", " ", text.replace('\\"', '"'))


@case
def troubleshooting_names_what_is_printed():
    known, count, unknown = sources(), 0, []
    with open(f"{TOP}/docs/troubleshooting.md", encoding="utf-8") as page:
        for line in page:
            if not line.startswith("| `"):
                continue
            for message in re.findall(r"`([^`]+)`", line.split(" | ")[0]):
                pieces = [piece.strip() for piece in re.split(r"…|\b[NM]\b", message) if len(piece.strip()) > 3]
                count += 1
                if not pieces or not all(piece in known for piece in pieces):
                    unknown.append(message)
    need(not unknown, f"nobody says: {unknown}")
    need(count > 30, f"only {count} messages")


@case
def the_index_names_every_page():
    with open(f"{TOP}/docs/README.md", encoding="utf-8") as page:
        named = set(re.findall(r"\(([\w-]+\.md)", page.read()))
    there = {os.path.basename(path) for path in glob.glob(f"{TOP}/docs/*.md")} - {"README.md"}
    need(named >= there, f"not in docs/README.md: {there - named}")
    need(named <= there, f"named, and not there: {named - there}")


def anchors(path):
    """Of headings, as GitHub makes them."""
    with open(path, encoding="utf-8") as page:
        heads = re.findall(r"(?m)^#+ (.*)$", re.sub(r"(?s)```.*?```", "", page.read()))
    return {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]|\]\([^)]*\)", "", head).lower()).replace(" ", "-") for head in heads}


@case
def links_lead_somewhere():
    wrong = []
    for path in glob.glob(f"{TOP}/docs/**/*.md", recursive=True) + [f"{TOP}/README.md", f"{TOP}/CONTRIBUTING.md"]:
        with open(path, encoding="utf-8") as page:
            text = re.sub(r"(?s)```.*?```|`[^`\n]*`", "", page.read())
        for file, anchor in re.findall(r"\]\(([^):# ]*)(?:#([^) ]*))?\)", text):
            to = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
            if not os.path.exists(to) or (anchor and to.endswith(".md") and anchor not in anchors(to)):
                wrong.append(f"{os.path.relpath(path, TOP)}: {file}#{anchor}")
    need(not wrong, "\n".join(wrong))


READING = (troubleshooting_names_what_is_printed, the_index_names_every_page, links_lead_somewhere)
try:
    code = only_cases(tests=READING if sys.argv[2:] == ["reading"] else None)
finally:
    subprocess.run([f"{BIN}/flyt-local", "down", f"{FOLDER}/cluster"], capture_output=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
sys.exit(code)
