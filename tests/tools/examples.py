#!/usr/bin/env python3
"""examples.py [--build DIR]: what CONTRIBUTING.md says about the code is true.

shows: contributing: the maps in core.h, session.h and machine.h name each source of their rooms; each file that
   docs/moved-files.tsv names is at its new path
shows: contributing: the files, functions, commands and tests that CONTRIBUTING.md names exist, each function in the
   file that is named beside it; a query of the driver, an operation of streams and a command of flytctl, added as it
   says, compile

TAP on stdout. Nothing of the tree changes: the examples are built in a folder of their own, which borrows sources
and objects from here.
"""
import argparse
import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import result, story  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GUIDE = "CONTRIBUTING.md"
SOURCES = (".c", ".h", ".x", ".py", ".api", ".cu", ".mk", ".sh", ".awk")
# What looks like a name of the code, but is a word of CUDA, of make or of an example.
NO_NAMES = {"_ptsz"}
WRITTEN = {"tests/long.tsv"}  # by tools/check-next
WRITES = "cpu/api/generate.py", "awk ", "cmp ", "cd ", "grep "  # commands that write generated files
# Where a room's map is, and what of the room it must name.
MAPS = (("cpu/client/core/core.h", "cpu/client/core/*.c"), ("cpu/server/session.h", "cpu/server/*.c"),
        ("softgpu/driver/machine/machine.h", "softgpu/driver/machine/*.c"))


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, cwd=options.pop("cwd", TOP), **options)


# ---- what the guide names ----

def files_here():
    listed = run("git", "ls-files", "-co", "--exclude-standard").stdout.split("\n")
    if len(listed) < 10:  # an archive has no history
        listed = [os.path.relpath(os.path.join(folder, name), TOP) for folder, folders, names in os.walk(TOP)
                  if not os.path.relpath(folder, TOP).startswith(("build", "bin", ".git")) for name in names]
    return {path for path in listed if path and os.path.exists(os.path.join(TOP, path))}


def words_of(files):
    """word → the files that have it."""
    found = {}
    for path in files:
        if path.endswith(SOURCES):
            with open(os.path.join(TOP, path), errors="replace") as file:
                for word in set(re.findall(r"\w+", file.read())):
                    found.setdefault(word, set()).add(path)
    return found


def spans(text):
    """(line number, what stands between two backquotes) of everything outside of indented blocks."""
    shown = "\n".join("" if line.startswith("    ") and not line.strip().startswith(("*", "-")) else line
                      for line in text.split("\n"))
    for match in re.finditer(r"`([^`]+)`", shown):
        yield shown.count("\n", 0, match.start()) + 1, " ".join(match.group(1).split())


def missing_paths(text, files):
    folders = {path[:i] for path in files for i, c in enumerate(path) if c == "/"}
    for line, span in spans(text):
        word = span.split()[0].rstrip("/")
        if re.search(r"[<>…*{}$=]", word) or not re.fullmatch(r"[\w./-]+", word):
            continue
        if "/" in word and not word.startswith(("build/", "bin/", "/")):
            if word not in files | folders | WRITTEN:
                yield f"{GUIDE}:{line}: there is no {word}"
        elif re.fullmatch(r"[\w-]+\.(c|h|x|cu|py|sh|mk)", word):
            yield f"{GUIDE}:{line}: {word} needs its folder"


def missing_names(text, words):
    for line, span in spans(text):
        if re.fullmatch(r"[A-Za-z]\w*_\w+", span) and span not in NO_NAMES and span not in words:
            yield f"{GUIDE}:{line}: nothing here is called {span}"


def misplaced_names(text):
    """`function` (`file`): the file defines it."""
    for match in re.finditer(r"`(\w+)`\s+\(`([\w./-]+)`\)", text):
        line = text.count("\n", 0, match.start()) + 1
        try:
            with open(os.path.join(TOP, match.group(2))) as file:
                source = file.read()
        except OSError:
            continue  # missing_paths has said so
        name = match.group(1)
        defined = rf"^(?![ \t#/*]|typedef\b).*\b{name}\(|^def {name}\(|\b{name}\b.*="
        if not re.search(defined, source, re.MULTILINE):
            yield f"{GUIDE}:{line}: {match.group(2)} does not define {name}"


def commands(text):
    for number, line in enumerate(text.split("\n"), 1):
        if match := re.match(r"^ {4,}((?:git|make|bin/|build/)\S* .*?)(?:\s{2,}#.*)?$", line):
            yield number, match.group(1)
    for number, span in spans(text):
        if span.startswith(("git log ", "git grep ")):
            yield number, span


def commands_without_effect(text):
    shallow = run("git", "rev-parse", "--is-shallow-repository").stdout.strip()
    for number, command in commands(text):
        words = shlex.split(command)
        if words[:2] == ["git", "grep"] and shallow:
            hits = {line.split(":")[0] for line in run(*words).stdout.split("\n") if line} - {GUIDE}
            if len(hits) < 3:
                yield f"{GUIDE}:{number}: {command}: only in {', '.join(sorted(hits)) or 'no file'}"
        elif words[:2] == ["git", "log"] and shallow == "false":
            pattern = [word[len("--grep="):] for word in words if word.startswith("--grep=")]
            subjects = run("git", "log", "--format=%s", *[f"--grep={word}" for word in pattern]).stdout.split("\n")
            if len([subject for subject in subjects if subject]) != 1:
                yield f"{GUIDE}:{number}: {command}: {len(subjects) - 1} commits"


def empty_choices(text, tests):
    """ONLY=TEXT chooses at least one test."""
    for line, span in spans(text):
        for chosen in re.findall(r"\bONLY=(\S+)", span):
            if chosen != "TEXT" and chosen not in tests:
                yield f"{GUIDE}:{line}: no test's command contains {chosen}"


# ---- examples, followed ----

class Copy:
    """A folder with the sources, of which some may be changed, and the objects of a build."""

    def __init__(self, build):
        self.build, self.folder = build, tempfile.mkdtemp(prefix="flyt-examples-")
        self.borrow("")
        self.own(build)
        os.unlink(os.path.join(self.folder, build, "generated"))  # commands write there: a copy
        shutil.copytree(os.path.join(TOP, build, "generated"), os.path.join(self.folder, build, "generated"),
                        symlinks=True)

    def own(self, path):
        """Makes a folder a real one, whose entries still belong to the tree."""
        if path:
            self.own(os.path.dirname(path))  # first, or what follows would be the tree's
            made = os.path.join(self.folder, path)
            if os.path.islink(made):
                os.unlink(made)
                self.borrow(path)

    def borrow(self, path):
        made = os.path.join(self.folder, path)
        os.makedirs(made, exist_ok=True)
        for name in os.listdir(os.path.join(TOP, path)):
            os.symlink(os.path.join(TOP, path, name), os.path.join(made, name))

    def path(self, name):
        """A file that may be written, a copy of the tree's."""
        self.own(os.path.dirname(name))
        made = os.path.join(self.folder, name)
        if os.path.islink(made):
            os.unlink(made)
            if os.path.exists(os.path.join(TOP, name)):
                shutil.copy2(os.path.join(TOP, name), made)
        return made

    def edit(self, name, old, new):
        path = self.path(name)
        with open(path) as file:
            text = file.read()
        assert re.search(old, text, re.MULTILINE), f"{name} has no {old}"
        with open(path, "w") as file:
            file.write(re.sub(old, new, text, count=1, flags=re.MULTILINE))

    def commands(self, target, *changed):
        """The commands by which make would build the target after a change of some files."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
        words = [word for name in changed for word in ("-W", name)]
        done = run("make", "--no-print-directory", "-n", "V=1", "QUICK=1", *words, target, env=environment)
        assert done.returncode == 0, done.stderr[-600:]
        return [line for line in done.stdout.replace("\\\n", " ").split("\n") if line]

    def run(self, command):
        if made := re.search(r"^gcc .* -o (\S+)$", command):
            self.path(made.group(1))
        return run("bash", "-c", command, cwd=self.folder)

    def end(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def number_after(path, pattern):
    with open(os.path.join(TOP, path)) as file:
        return 1 + max(int(number) for number in re.findall(pattern, file.read()))


def follow_query(copy):
    """One row of driver.api and an enum. What is generated from them compiles: body, handler, a call of nonsense."""
    number = number_after("cpu/api/driver.api", r"\bcall=(\d+)")
    copy.edit("cpu/api/driver.api", r"^(CUresult cuDeviceGetTexture1DLinearMaxWidth)",
              f"CUresult cuDeviceGetExample(out int *value, CUflushGPUDirectRDMAWritesScope kind, CUdevice dev)  "
              rf"forward call={number} entry=13000 server=optional\n\1")
    copy.edit("cpu/api/driver_types.api", r"^enum CUfunc_cache$",
              "enum CUflushGPUDirectRDMAWritesScope\n    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER = 100\n\n"
              "enum CUfunc_cache")
    for name in os.listdir(os.path.join(TOP, "cpu/api")):
        if name.endswith((".py", ".api")):
            copy.path(f"cpu/api/{name}")  # a generator reads the files beside itself
    generated = f"{copy.build}/generated"
    for command in copy.commands("all", "cpu/api/driver.api"):
        if command.startswith(WRITES) and generated in command or re.search(r" -o \S+/forwarded\.o$", command):
            yield from failed(command, copy.run(command))
    for name, words in (("forward/server.c", ["serve_device_get_example"]),
                        ("forward/driver.c", ["driver_cuDeviceGetExample"]),
                        ("forward/core.c", ["core_device_get_example"]),
                        ("forward/hostile.inc", ["device_get_example"]),
                        ("forward/cpu_rpc_prot.x", [f"DEVICE_GET_EXAMPLE(device_get_example_args) = {number}"])):
        with open(os.path.join(copy.folder, generated, "api", name)) as file:
            text = " ".join(file.read().split())
        yield from (f"api/{name} has no {word}" for word in words if word.lower() not in text.lower())


def follow_operation(copy):
    """A kind and its row, a procedure, both functions. What names them compiles."""
    stream, protocol = "cpu/client/core/stream", "cpu/rpc/cpu_rpc_prot.x"
    number = number_after(protocol, r"\bFLYT_\w+\(\w+\)\s*= (\d+);")
    for name, old, new in (
            (protocol, r"^struct prefetch_args", "struct example_args { flyt_id stream; unsigned hyper size; };\n"),
            (protocol, r"^%#define FLYT_CLASS_FLYT_PREFETCH ", "%#define FLYT_CLASS_FLYT_EXAMPLE ASYNC\n"),
            (protocol, r"^ +void +FLYT_PREFETCH\(", f"        void FLYT_EXAMPLE(example_args) = {number};\n"),
            (f"{stream}/op.h", r"^ +OP_PREFETCH,", "    OP_EXAMPLE,\n"),
            (f"{stream}/op.h", r"^ +struct op_prefetch ", "        struct op_example { uint64_t size; } example;\n"),
            (f"{stream}/op.h", r"^op_sender copy_op", "op_sender example_op;\n"),
            (f"{stream}/op.c", r"^ +\[OP_PREFETCH\]", "    [OP_EXAMPLE] = example_op,\n"),
            ("cpu/client/core/memory/prefetch.c", r"^int prefetch_op",
             "int example_op(struct client_stream *s, const struct op *op)\n{\n"
             "    example_args args = { .stream = s->wire, .size = op->example.size };\n"
             "    struct stream_call call = { FLYT_EXAMPLE, (xdrproc_t)xdr_example_args, .args = &args };\n"
             "    return stream_send(s, &call, NULL);\n}\n\n"),
            ("cpu/server/memory/prefetch.c", r"^/\* The driver says ",
             "void serve_example(struct session *session, struct call *call)\n{\n"
             "    if (!server_stream_enter(session, call, call->args.example.stream))\n        return;\n"
             "    if (!call->args.example.size)\n"
             "        stream_refuse(session, call, CUDA_ERROR_INVALID_VALUE);\n"
             "    else\n        server_stream_submit(session, call, &prefetch_operation);\n}\n\n")):
        copy.edit(name, f"(?={old})", new)
    objects = r" -o \S+/(stream/op|client/core/memory/prefetch|server/memory/prefetch)\.o$"
    generated = f"{copy.build}/generated"
    for command in copy.commands("all", protocol, f"{stream}/op.h", "cpu/server/memory/prefetch.c"):
        if command.startswith(WRITES) and generated in command or re.search(objects, command):
            yield from failed(command, copy.run(command))


def follow_command(copy):
    """A row, a prototype and a function of flytctl; the new flytctl knows the command."""
    room = "control-managers/flytctl"
    copy.edit(f"{room}/commands.c", r"^    \{ \"key\", \"rotate\"",
              '    { "key", "example", "", 0, 0, "", "Does what the example does", NULL, command_key_example },\n'
              '    { "key", "rotate"')
    copy.edit(f"{room}/flytctl.h", r"command_key_rotate\(struct flytctl \*\)",
              "command_key_rotate(struct flytctl *), command_key_example(struct flytctl *)")
    copy.edit(f"{room}/cmd_watch.c", r"^int command_key_rotate",
              "int command_key_example(struct flytctl *ctl)\n{\n"
              '    return ask_plain(ctl, ADMIN_KEY_ROTATE, NULL, "the example was followed");\n}\n\n'
              "int command_key_rotate")
    for command in copy.commands("bin/flytctl", f"{room}/commands.c", f"{room}/cmd_watch.c"):
        if re.search(r" -o (bin/flytctl|\S*/(commands|cmd_watch)\.o)$", command):
            if problem := list(failed(command, copy.run(command))):
                yield from problem
                return
    for words in (["key", "--help"], ["key", "example", "--help"]):
        done = run("bin/flytctl", *words, cwd=copy.folder)
        if "Does what the example does" not in done.stdout:
            yield f"flytctl {' '.join(words)}: {done.stdout}{done.stderr}"


def moved_and_gone(files):
    """docs/moved-files.tsv: whoever has a branch finds each file where the list says."""
    with open(os.path.join(TOP, "docs/moved-files.tsv")) as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    for old, new in rows:
        if new not in files or old in files:
            yield f"docs/moved-files.tsv: {old} is now {new}: {'it was not moved' if old in files else 'not there'}"


def left_out_of_maps(files):
    for place, room in MAPS:
        with open(os.path.join(TOP, place)) as file:
            named = re.findall(r"[\w*]+\.c\b", file.read().split("*/")[0])
        for path in sorted(fnmatch.filter(files, room)):
            if not any(fnmatch.fnmatch(os.path.basename(path), name) for name in named):
                yield f"{place} does not name {path}"


def failed(command, done):
    if done.returncode:
        yield f"{command}: {(done.stdout + done.stderr)[-1500:]}"


def judge(name, findings):
    result(name, "\n".join(findings))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/plain")
    build = parser.parse_args().build
    with open(os.path.join(TOP, GUIDE)) as file:
        text = file.read()
    files = files_here()
    tests = run("make", "--no-print-directory", "print-tests").stdout
    judge("the maps name each source", list(left_out_of_maps(files)))
    judge("moved files are where the list says", list(moved_and_gone(files)))
    judge("the files exist", list(missing_paths(text, files)))
    judge("the names exist", list(missing_names(text, words_of(files - {GUIDE, "tests/tools/examples.py"}))))
    judge("the functions are where the guide says", list(misplaced_names(text)))
    judge("the commands find something", list(commands_without_effect(text)))
    judge("the tests that it says to run exist", list(empty_choices(text, tests)))
    for name, follow in (("a query, added", follow_query), ("an operation of streams, added", follow_operation),
                         ("a command of flytctl, added", follow_command)):
        copy = Copy(build)
        try:
            judge(name, list(follow(copy)))
        finally:
            copy.end()


sys.exit(story(main))
