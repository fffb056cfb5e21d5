#!/usr/bin/env python3
"""cases.py FOLDER [--ptxas PTXAS]: writes the cases that tests/gpu/cases.c runs.

FOLDER gets cases.txt (kernels), inputs.bin (the values that they work on) and meta.tsv (what inputs and outputs of each
case are, for compare.py). The forms of instructions are those of tests/ptx/forms.txt; with --ptxas only those that this
ptxas accepts for sm_90a.
"""
import argparse
import hashlib
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "ptx"))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import forms  # noqa: E402
import lanes  # noqa: E402
from values import WIDTHS, Tables  # noqa: E402

TARGET, VERSION = "sm_90a", "9.0"
HEAD = f".version {VERSION}\n.target {TARGET}\n.address_size 64\n"
LANES, DENSE = 2048, 65536
ARITHMETIC = """add sub addc subc mul mad madc mul24 mad24 sad div rem abs neg min max popc clz brev bfind fns bfe bfi
szext bmsk dp4a dp2a and or xor not cnot lop3 shf shl shr prmt fma rcp sqrt rsqrt sin cos lg2 ex2 tanh testp copysign
setp set selp slct cvt vadd vsub vabsdiff vmin vmax vshl vshr vmad vset vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2 vset2
vadd4 vsub4 vavrg4 vabsdiff4 vmin4 vmax4 vset4 mov shfl vote match redux activemask movmatrix mma""".split()
TYPES = set("""pred b8 u8 s8 b16 u16 s16 b32 u32 s32 b64 u64 s64 b128 f16 bf16 f32 f64 f16x2 bf16x2 u16x2 s16x2 f32x2
tf32 e4m3x2 e5m2x2 e4m3 e5m2 u4 s4 b1""".split())
LETTER_WIDTH = {"p": 1, "b": 1, "h": 2, "r": 4, "l": 8, "q": 16}
LETTER_KIND = {"p": "pred", "b": "b8", "h": "u16", "r": "u32", "l": "u64", "q": "b128"}
REGISTER = re.compile(r"(?<![\w%$.])([pbhrlq])(\d+)(?![\w])")


class Case:
    def __init__(self, name, ptx, params, out, grid=(1, 1, 1), block=(32, 1, 1), cluster=(0, 0, 0), shared=0, flags="-",
                 inputs=(), outputs=()):
        self.name, self.ptx, self.params, self.out = name, ptx, params, out
        self.grid, self.block, self.cluster, self.shared, self.flags = grid, block, cluster, shared, flags
        self.inputs, self.outputs = inputs, outputs


def parts(text):
    """Operands, parted at the commas outside of brackets."""
    found, depth, begin = [], 0, 0
    for at, c in enumerate(text):
        depth += (c in "{[(") - (c in "}])")
        if c == "," and not depth:
            found.append(text[begin:at].strip())
            begin = at + 1
    return found + [text[begin:].strip()] if text.strip() else []


def letter_of(kind):
    """The letter of a register of that type."""
    return None if kind in ("e4m3", "e5m2", "u4", "s4", "b1") else forms.register(kind)


MATRIX_KINDS = {"f16": "mild_f16", "bf16": "mild_bf16", "tf32": "mild_tf32", "f32": "mild_f32", "f64": "mild_f64",
                "e4m3": "mild_e4m3", "e5m2": "mild_e5m2", "s32": "mild_s32"}


class Form:
    """One instruction of registers as a case."""

    def __init__(self, text, tables):
        self.text, self.tables = text, tables
        opcode, _, rest = text.partition(" ")
        self.words = opcode.split(".")
        self.opcode = self.words[0]
        self.types = [word for word in self.words[1:] if word in TYPES]
        self.operands = parts(rest)

    def wanted(self):
        if self.opcode not in ARITHMETIC or ".v8" in self.text:
            return False
        if self.opcode == "mov" and re.search(r"%|\bv\d|\bw\d|\b[GSCFPUT]\b|WARP_SZ", self.text):
            return False
        if self.opcode in ("vote", "match", "redux", "shfl"):
            return "sync" in self.words and not re.search(r", [rl]2$", self.text)
        return True

    def kind(self, letter, operand, index):
        """What to take a source register's values from."""
        op = self.opcode
        if op == "mma":
            if operand >= 4:
                return "meta" if letter == "r" else LETTER_KIND[letter]
            types = self.types
            return MATRIX_KINDS.get(types[operand] if len(types) >= 4 else types[-1], "bits")
        if letter == "p":
            return "pred"
        if op in ("shl", "shr", "bfe", "szext", "bmsk") and operand >= 2 or op in ("shf", "bfi") and operand >= 3:
            return "count"
        if op == "fns" and operand >= 2:
            return "lane" if operand == 2 else "offset"
        if op == "shfl" and operand >= 2:
            return "lane" if operand == 2 else "clamp"
        if op == "match":
            return "few64" if letter == "l" else "few"
        if op == "slct":
            return self.types[-1] if operand == 3 else self.types[0]
        for kind in reversed(self.types):
            if letter_of(kind) == letter:
                return kind
        return LETTER_KIND[letter]

    def build(self, number):
        sources, targets = [], []           # (register, letter, kind), (register, letter)

        def rename(operand, text):
            def one(match):
                letter = match.group(1)
                if operand == 0:
                    targets.append((f"d{len(targets)}", letter))
                    return targets[-1][0]
                sources.append((f"s{len(sources)}", letter, self.kind(letter, operand, len(sources))))
                return sources[-1][0]
            return REGISTER.sub(one, text)

        operands = [rename(n, text) for n, text in enumerate(self.operands)]
        if self.opcode == "shfl" and len(self.operands) == 5 and self.operands[4].startswith("r"):
            operands[4] = "-1"
            sources.pop()
        sources = self.densify(sources)
        lanes = DENSE if any(kind.startswith(("all16", "dense")) for _, _, kind in sources) else LANES
        before, after = self.carries(sources, targets)
        code = [f".visible .entry k{number}(.param .u64 out" + "".join(f", .param .u64 in{n}" for n in range(
            len(sources))) + ")\n{", ".reg .b64 A, B; .reg .b32 I, J; .reg .b16 K;"]
        code += [f".reg .{'pred' if letter == 'p' else 'b%d' % (8 * LETTER_WIDTH[letter])} {name};"
                 for name, letter, *_ in sources + targets]
        code.append("mov.u32 I, %ctaid.x; mov.u32 J, %ntid.x; mul.lo.u32 I, I, J; mov.u32 J, %tid.x; add.u32 I, I, J;")
        inputs, params, outputs, at = [], ["o0"], [], 0
        slots = {}
        for n, (name, letter, kind) in enumerate(sources):
            width = WIDTHS[kind]
            slot = slots.setdefault(kind, 0)
            slots[kind] += 1
            place = self.tables.place(kind, slot, lanes)
            params.append(f"i{place}")
            inputs.append(f"{name}:{kind}:{place}:{width}")
            code.append(f"ld.param.u64 A, [in{n}]; mul.wide.u32 B, I, {width}; add.u64 A, A, B;")
            if letter == "p":
                code.append(f"ld.global.u8 K, [A]; setp.ne.u16 {name}, K, 0;")
            else:
                code.append(f"ld.global.b{8 * width} {name}, [A];" if 8 * width == 8 * LETTER_WIDTH[letter] else
                            f"ld.global.u{8 * width} {name}, [A];")
        for name, letter in targets:
            if letter == "p":
                code.append(f"setp.ne.u32 {name}, I, I;")
            elif letter == "q":
                code.append(f"mov.b128 {name}, {{0, 0}};" if False else "")
            elif letter != "b":
                code.append(f"mov.b{8 * LETTER_WIDTH[letter]} {name}, 0;")
        opcode = self.text.partition(" ")[0]
        code.append(f"{before}{opcode} {', '.join(operands)};{after}")
        code.append("ld.param.u64 A, [out];")
        for name, letter in targets:
            width = LETTER_WIDTH[letter]
            code.append(f"mul.wide.u32 B, I, {width}; add.u64 B, B, A;")
            code.append(f"selp.u16 K, 1, 0, {name}; st.global.u8 [B+{at}], K;" if letter == "p" else
                        f"st.global.b{8 * width} [B+{at}], {name};")
            kind = next((kind for kind in self.types if letter_of(kind) == letter), LETTER_KIND[letter])
            if self.opcode == "mma":
                kind = self.types[0] if len(self.types) >= 4 and self.types[0] != "f16" else "f16x2"
            outputs.append(f"{name}:{kind}:{at}:{width}")
            at += width * lanes
        code.append("ret;\n}")
        return Case(self.text, "\n".join(line for line in code if line) + "\n", params, at, grid=(lanes // 128, 1, 1),
                    block=(128, 1, 1), inputs=inputs, outputs=outputs)

    def densify(self, sources):
        """All values of an operand of 16 bits that is alone; many where the result is an approximation."""
        if self.opcode in ("mov", "match", "vote", "shfl", "redux"):
            return sources
        if len(sources) == 1 and WIDTHS[sources[0][2]] == 2:
            return [(sources[0][0], sources[0][1], "all16")]
        if len(sources) == 1 and sources[0][2] in ("f16x2", "bf16x2") and "approx" in self.words:
            return [(sources[0][0], sources[0][1], "all16x2")]
        if {"approx", "full"} & set(self.words) and sources[0][2] == "f32":
            return [(name, letter, "dense") for name, letter, _ in sources]
        if "approx" in self.words and sources[0][2] == "f64":
            return [(name, letter, "dense64") for name, letter, _ in sources]
        return sources

    def carries(self, sources, targets):
        subtracts = self.opcode in ("sub", "subc")
        before = after = ""
        if self.opcode in ("addc", "subc", "madc"):
            sources += [("c0", "r", "u32"), ("c1", "r", "u32")]
            before = f"{'sub' if subtracts else 'add'}.cc.u32 c0, c0, c1; "
        if "cc" in self.words:
            targets.append(("dc", "r"))
            after = f" {'subc' if subtracts else 'addc'}.u32 dc, 0, 0;"
        return before, after


def accepted(texts, ptxas):
    group = forms.Group(VERSION, [TARGET])
    group.forms = texts
    with tempfile.TemporaryDirectory() as folder:
        refused = forms.refused_by_ptxas(ptxas, group, TARGET, folder)
    return [text for text in texts if text not in refused]


def register_cases(tables, ptxas, folder):
    group = forms.read_forms(os.path.join(HERE, "..", "ptx", "forms.txt"))[0]
    made = [Form(text, tables) for text in group.forms if not text.startswith(".")]
    texts = [form.text for form in made if form.wanted()]
    if ptxas:
        mark = hashlib.sha256("\n".join(texts).encode()).hexdigest()
        kept = os.path.join(folder, "accepted.txt")
        old = open(kept, encoding="utf-8").read().splitlines() if os.path.exists(kept) else [""]
        if old[0] != mark:
            old = [mark] + accepted(texts, ptxas)
            with open(kept, "w", encoding="utf-8") as file:
                file.write("\n".join(old) + "\n")
        texts = old[1:]
    return [Form(text, tables) for text in texts]


def write(folder, cases, tables):
    with open(os.path.join(folder, "cases.txt"), "w", encoding="utf-8") as file:
        file.write(HEAD + "%%\n")
        for c in cases:
            shape = "\t".join(",".join(map(str, three)) for three in (c.grid, c.block, c.cluster))
            file.write(f"#case\t{c.name}\t{shape}\t{c.shared}\t{c.out}\t{c.flags}\t{','.join(c.params)}\n{c.ptx}")
    with open(os.path.join(folder, "meta.tsv"), "w", encoding="utf-8") as file:
        for c in cases:
            file.write(f"{c.name}\t{' '.join(c.inputs)}\t{' '.join(c.outputs)}\n")
    with open(os.path.join(folder, "inputs.bin"), "wb") as file:
        file.write(tables.blob)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--ptxas")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    tables, cases = Tables(), []
    for form in register_cases(tables, options.ptxas, options.folder):
        cases.append(form.build(len(cases)))
    cases += lanes.all_cases(Case, tables, len(cases))
    names = [c.name for c in cases]
    if len(set(names)) != len(names):
        raise SystemExit(f"two cases of one name: {[name for name in set(names) if names.count(name) > 1]}")
    write(options.folder, cases, tables)
    print(f"{len(cases)} cases, {len(tables.blob)} bytes of inputs, {sum(c.out for c in cases)} bytes of outputs")


if __name__ == "__main__":
    sys.exit(main())
