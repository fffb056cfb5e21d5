#!/usr/bin/env python3
"""forms.py DECODE PTXAS [--all]: the forms of instructions that ptxas accepts, the software GPU decodes.

shows: PTX: forms of instructions: the software GPU decodes what ptxas accepts, and nothing else, but for known gaps

forms.txt says what is tried: each line is many forms. Each form becomes a kernel of its own. ptxas is asked for each
target, and DECODE (forms.c) once. A form on which they differ must be in forms-gaps.txt with a reason; --all: a row
there that no form needs any more is a failure, too. Without --all every eighth form is tried. TAP on stdout.
"""
import argparse
import itertools
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from testlib import plan, result, skip  # noqa: E402

BATCH = 1500  # kernels of one file for ptxas
PART = 8
SIZES = {"pred": "p", "b128": "q", "f16x2": "r", "bf16x2": "r", "u16x2": "r", "s16x2": "r", "u8x4": "r", "s8x4": "r",
         "f32x2": "l", "bf16": "h"}
COORDINATES = {"1d": 1, "2d": 2, "3d": 4, "a1d": 2, "a2d": 4, "cube": 4, "acube": 4, "2dms": 4, "a2dms": 4}
HEAD = """.address_size 64
.global .align 64 .b32 G[16]; .const .b32 C[4]; .shared .align 128 .b8 S[256];
.global .texref T; .global .surfref U;
.func F() { ret; }
.func f0() { ret; }
.func (.param .b32 x) f4(.param .b32 y) { .reg .b32 u; ld.param.b32 u, [y]; st.param.b32 [x], u; ret; }
.func f5(.param .b32 y) { ret; }
"""
KERNEL = (".entry k%d(.param .b64 P, .param .align 16 .b8 M[64]) { .reg .pred p<4>; .reg .b8 b<5>; .reg .b16 h<16>; "
          ".reg .b32 r<24>, s<4>; .reg .b64 l<24>; .reg .b128 q<4>; .reg .v4 .b32 v0, v1; .reg .v2 .b32 w0, w1; "
          ".local .b32 L[4]; .param .b32 y, z; %s; END: ret; }")


class Group:
    """Lines of forms.txt that need the same version."""

    def __init__(self, version, targets):
        self.version, self.forms = version, []
        self.targets = [target for target in targets if target != "alone"]
        self.batch = BATCH if self.targets == targets else 1

    def head(self, target):
        return f".version {self.version}\n.target {target}\n{HEAD}"


def list_of(count, first=0, name="r"):
    return "{" + ", ".join(f"{name}{first + i}" for i in range(count)) + "}"


def register(kind):
    if kind in SIZES:
        return SIZES[kind]
    bits = int(re.search(r"\d+", kind).group())
    return "h" if bits <= 16 else "r" if bits == 32 else "l"


def operand_text(text, bound):
    def typed(match):
        return register(bound[match.group(1)]) + match.group(2)

    def named(match):
        name = match.group(1)
        if name.isdigit():
            return list_of(int(name))
        if name == "A":
            return list_of(4, 8)
        if name == "I":
            return list_of(int(bound["D"][0]) - 2, 1, "h")
        value = bound[name]
        return {"N": lambda: list_of(int(value[1:])), "D": lambda: list_of(int(value[0]), 8),
                "G": lambda: list_of(COORDINATES[value], 4)}[name]()

    text = re.sub(r"\$([A-Z])(\d+)", typed, text)
    return re.sub(r"(?<![a-z.%])%(\d|[A-Z])(?![a-z_])", named, text)


def expand(line):
    """The instructions of a line, without semicolons."""
    words, _, operands = line.partition(" :")
    choices = []
    for word in words.split():
        name, _, rest = word.rpartition("=")
        choices.append([(name, "" if choice == "-" else choice) for choice in rest.split("/")])
    for chosen in itertools.product(*choices):
        bound = {name: value for name, value in chosen if name}
        # A name alone repeats what it stands for.
        parts = [bound.get(value, value) for _, value in chosen]
        opcode = ".".join(part for part in parts if part)
        for text in operands.split("|") if "|p" not in operands and "|" not in operands else split(operands):
            yield f"{opcode} {operand_text(text.strip(), bound)}".strip()


def split(operands):
    """At each | between blanks: d|p is one operand."""
    return re.split(r"(?:^| )\|(?: |$)", operands)


def read_forms(path):
    groups = []
    with open(path, encoding="utf-8") as file:
        for line in file.read().splitlines():
            if line.startswith("@"):
                _, version, *targets = line.split()
                groups.append(Group(version, targets))
            elif line.startswith("."):
                groups[-1].forms.append(line)
            elif line and not line.startswith("#"):
                groups[-1].forms += expand(line)
    for group in groups:
        group.forms = list(dict.fromkeys(group.forms))
    return groups


def read_gaps(path):
    """[(which, pattern, reason)] of lines `refused|accepted PATTERN -- reason`."""
    rows = []
    with open(path, encoding="utf-8") as file:
        for line in file.read().splitlines():
            if line and not line.startswith("#"):
                which, _, rest = line.partition(" ")
                pattern, _, reason = rest.partition(" -- ")
                if which not in ("refused", "accepted") or not reason:
                    raise SystemExit(f"forms-gaps.txt: {line}")
                rows.append((which, re.compile(pattern.strip()), reason))
    return rows


def kernel(form, number):
    return form.replace("$", str(number)) if form.startswith(".") else KERNEL % (number, form)


def mentioned(lines):
    """Those that say which kernel is wrong: a place in the file, or else whatever names a line or a kernel."""
    errors = [line for line in lines if re.search(r"forms\.ptx, line \d+; *(error|fatal)", line)]
    return errors or [line for line in lines if "Advisory" not in line and "<builtin>" not in line]


def refused_by_ptxas(ptxas, group, target, folder):
    """{form: why}"""
    refused = {}
    for at in range(0, len(group.forms), group.batch):
        left = {number: form for number, form in enumerate(group.forms) if at <= number < at + group.batch}
        while left:
            head, numbers = group.head(target), list(left)
            first = head.count("\n") + 1
            path = os.path.join(folder, "forms.ptx")
            with open(path, "w", encoding="utf-8") as file:
                file.write(head + "".join(kernel(left[number], number) + "\n" for number in numbers))
            done = subprocess.run([ptxas, "-O0", f"-arch={target}", path, "-o", os.path.join(folder, "forms.cubin")],
                                  capture_output=True, text=True, errors="replace")
            if not done.returncode:
                break
            before = len(left)
            for line in mentioned((done.stdout + done.stderr).splitlines()):
                place, name = re.search(r"line '?(\d+)", line), re.search(r"'k(\d+)'", line)
                number = numbers[int(place.group(1)) - first] if place and int(place.group(1)) >= first else \
                    int(name.group(1)) if name else None
                if number in left:
                    refused[left.pop(number)] = line.partition(";")[2].strip() or line
            if len(left) == before:
                if before == 1:
                    refused[left.popitem()[1]] = (done.stdout + done.stderr).strip()[:200]
                    break
                raise SystemExit(f"ptxas fails without a line: {done.stderr[:2000]} {done.returncode}")
    return refused


def refused_by_decoder(decode, group, target):
    text = group.head(target).encode() + b"\n\0\n"
    text += "".join(kernel(form, number) + "\n" for number, form in enumerate(group.forms)).encode()
    done = subprocess.run([decode], input=text, capture_output=True, check=True)
    refused = {}
    for line in done.stdout.decode(errors="replace").splitlines():
        number, _, why = line.partition(" ")
        refused[group.forms[int(number)]] = why
    return refused


def check_group(options, group, rows, used, folder):
    """The differences that no row explains; and how many forms ptxas accepts."""
    wrong, accepted = [], 0
    ours = refused_by_decoder(options.decode, group, group.targets[-1])
    theirs = {target: refused_by_ptxas(options.ptxas, group, target, folder) for target in group.targets}
    for form in group.forms:
        good = [target for target in group.targets if form not in theirs[target]]
        accepted += bool(good)
        if bool(good) == (form not in ours):
            continue
        which = "refused" if good else "accepted"
        row = next((row for row in rows if row[0] == which and row[1].fullmatch(form)), None)
        if row:
            used.add(row)
        else:
            wrong.append(f"{which}: {form}    # " + (f"{good[0]}; {ours[form]}" if good else
                                                     theirs[group.targets[-1]][form]))
    return wrong, accepted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("decode")
    parser.add_argument("ptxas")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", help="a part of the forms to try")
    options = parser.parse_args()
    groups = read_forms(os.path.join(HERE, "forms.txt"))
    rows, used = read_gaps(os.path.join(HERE, "forms-gaps.txt")), set()
    version = re.search(r"release (\d+)\.(\d+)", subprocess.run([options.ptxas, "--version"], capture_output=True,
                                                               text=True, check=True).stdout)
    newest = (int(version.group(1)) - 4, int(version.group(2)))  # CUDA 13.0 reads PTX 9.0
    everything = options.all and not options.only
    with tempfile.TemporaryDirectory() as folder:
        for group in groups:
            if options.only:
                group.forms = [form for form in group.forms if options.only in form]
            elif not options.all:
                group.forms = group.forms[::PART]
            if tuple(map(int, group.version.split("."))) > newest:
                everything = False
                skip(f"PTX {group.version}", f"this ptxas reads PTX {newest[0]}.{newest[1]}")
                continue
            wrong, accepted = check_group(options, group, rows, used, folder)
            result(f"PTX {group.version}: ptxas and the software GPU agree on {len(group.forms)} forms, of which ptxas "
                   f"accepts {accepted}, but for known gaps", "\n".join(wrong))
    if options.all:
        unused = [row for row in rows if row not in used] if everything else []
        result("every known gap is one", "\n".join(f"{which} {pattern.pattern}" for which, pattern, _ in unused))
    return plan()


if __name__ == "__main__":
    sys.exit(main())
