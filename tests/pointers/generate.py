#!/usr/bin/env python3
"""tests/pointers/generate.py: makes random programs in which functions are reached through pointers.

    generate.py --unit NAME --seed S --programs N > UNIT.cu     programs with the seeds S to S + N - 1
    generate.py --list NAME... > units.cu                       the list of the units that are linked together

A program depends on its seed only, so a seed that fails can be made again alone. The functions of a program call each
other directly, through tables (initialised, in constant memory, or made on the stack), through pointers that they get,
through virtual methods (of objects that another kernel made, and of local ones; with one or two bases), through
pointers to methods and through lambdas. Recursion goes through all of them, until a depth is used up. Functions that
exchange values through shared memory and barriers, or by shuffles, are called by pointer from the kernel. main.cu runs
the programs; common.h says what they consist of.
"""
import argparse
import random
import sys

SIGNATURES = ("plain", "wide", "large", "quad", "tiny", "many", "real", "into", "callback")
HEADS = {
    "plain": "unsigned {name}(unsigned x, int d)",
    "wide": "wide {name}(wide w, unsigned y, int d)",
    "large": "Big {name}(Big b, int d)",
    "quad": "Quad {name}(Quad q, int d)",
    "tiny": "Tiny {name}(Tiny t, unsigned y, int d)",
    "many": "long long {name}(signed char a, short b, wide w, double f, unsigned char z, unsigned y, int d)",
    "real": "float {name}(float f, short y, unsigned char z, int d)",
    "into": "void {name}(unsigned *p, int d)",
    "callback": "unsigned {name}(unsigned x, Plain g, int d)",
}
ENTER = {
    "plain": "unsigned r = x;",
    "wide": "unsigned r = fold(w) ^ y;",
    "large": "unsigned r = shrink(b);",
    "quad": "unsigned r = four(q);",
    "tiny": "unsigned r = y ^ (t.a | t.b << 8 | t.c << 16);",
    "many": "unsigned r = (unsigned)(a * 3 + b) ^ fold(w) ^ whole(f) * 5 ^ (z + y);",
    "real": "unsigned r = whole(f * 3 - y) + z;",
    "into": "unsigned r = *p;",
    "callback": "unsigned r = x;",
}
LEAVE = {
    "plain": "return r;",
    "wide": "return spread(r) + y;",
    "large": "b.v[r % 5] = r; return b;",
    "quad": "q.v[r % 4] ^= r; return q;",
    "tiny": "t.b = (unsigned char)(r >> 3); t.c ^= (unsigned char)r; return t;",
    "many": "return (long long)(int)r * 3;",
    "real": "return real(r);",
    "into": "*p = r; return;",
    "callback": "return r;",
}
POINTERS = {kind: kind.capitalize() for kind in SIGNATURES} | {"quad": "QuadFunction", "tiny": "TinyFunction"}


class Generator:
    def __init__(self, seed):
        self.seed, self.random, self.lines = seed, random.Random(seed), []
        self.names = 0

    def put(self, text):
        self.lines.append(text)

    def chance(self, of):
        return self.random.random() < of

    def number(self, most=1 << 16):
        return self.random.randrange(1, most)

    def expression(self):
        n = self.number
        return self.random.choice([
            f"mix(r, {n()}u)", f"r * {n()}u + {n()}u", f"(r >> {n(20)}) ^ r", f"r - {n()}u", f"~r ^ {n()}u",
            f"r % {n()}u + (r << {n(16)})", f"r ^ (r / {n(97)}u)"])

    # --- the parts of a program ---

    def plan(self):
        r = self.random
        self.functions = []
        for i in range(r.choice((3, 3, 4, 4, 5, 6, 8))):
            kind = "plain" if i < 2 else r.choice(SIGNATURES)
            self.functions.append((kind, f"f{i}"))
        self.tables = {}                   # kind: how the table is kept
        for kind in SIGNATURES:
            if any(k == kind for k, _ in self.functions) and self.chance(0.7):
                self.tables[kind] = r.choice(("__device__", "__constant__"))
        self.classes = r.choice((0, 0, 1, 2, 3, 3))
        self.destructor = self.chance(0.3)
        self.pure = self.chance(0.5)
        self.exchanges = [(r.choice(("shared", "shared", "shuffle")), r.randrange(1, 32), self.number())
                          for _ in range(r.choice((0, 0, 1, 2)))]
        self.threads = r.choice((32, 64, 96))
        self.blocks = r.randint(1, 4)

    def names_of(self, kind):
        return [name for k, name in self.functions if k == kind]

    def use(self, kind, callee, d):
        """A statement: r becomes what the callee makes of it."""
        x = self.expression()
        if kind == "plain":
            return f"r += {callee}({x}, {d});"
        if kind == "wide":
            return f"r ^= fold({callee}(spread({x}), r * {self.number(9)}, {d}));"
        if kind == "large":
            return f"r += shrink({callee}(grow({x}), {d}));"
        if kind == "quad":
            return f"r ^= four({callee}(quad({x}), {d}));"
        if kind == "tiny":
            local = self.local_name()
            return (f"{{ Tiny {local} = {{ (unsigned char)r, {self.number(256)}, (unsigned char)(r >> 9) }}; "
                    f"{local} = {callee}({local}, {x}, {d}); "
                    f"r = mix(r, {local}.a + {local}.b * 7u + {local}.c * 65u); }}")
        if kind == "many":
            return (f"r += fold((wide){callee}((signed char)r, (short)(r >> 5), spread({x}), real(r >> 2), "
                    f"(unsigned char)(r >> 11), {self.number()}u, {d}));")
        if kind == "real":
            return f"r = mix(r, whole({callee}(real({x}), (short)(r % 1000), (unsigned char)r, {d})));"
        if kind == "into":
            return f"{{ unsigned t = {x}; {callee}(&t, {d}); r ^= t; }}"
        return f"r -= {callee}({x}, {self.plain_pointer()}, {d});"

    def plain_pointer(self):
        names = self.names_of("plain")
        if self.chance(0.2):
            call = f"{self.random.choice(names)}(x + {self.number()}u, d - 1)"
            return f"[](unsigned x, int d) {{ return d > 0 ? {call} : ~x; }}"
        if "plain" in self.tables and self.chance(0.5):
            return f"table_plain(r % {len(names)})"
        return self.random.choice(names)

    def local_name(self):
        self.names += 1
        return f"l{self.names}"

    def method_call(self, d):
        r = self.random
        method = r.choice(("m0", "m1"))
        how = r.random()
        local = self.local_name()
        if how < 0.5:
            if self.classes == 3 and self.chance(0.3):
                return f"r ^= side()->m2({self.expression()}, {d});"
            return f"r += object(r % {self.classes + 1})->{method}({self.expression()}, {d});"
        if how < 0.75:
            a, b = r.randint(1, self.classes), r.randint(1, self.classes)
            return (f"{{ C{a} {local}a(r); C{b} {local}b(r ^ {self.number()}u); "
                    f"B *{local} = r & {1 << r.randrange(8)} ? (B *)&{local}a : (B *)&{local}b; "
                    f"r ^= {local}->{method}(r, {d}); }}")
        return (f"{{ unsigned (B::*{local})(unsigned, int) = r & {1 << r.randrange(8)} ? &B::m0 : &B::m1; "
                f"r += (object(r % {self.classes + 1})->*{local})({self.expression()}, {d}); }}")

    def call(self, d, callback=False):
        r = self.random
        if callback and self.chance(0.5):
            return f"r += g({self.expression()}, {d});"
        if self.classes and self.chance(0.35):
            return self.method_call(d)
        kind, name = r.choice(self.functions)
        names = self.names_of(kind)
        how = r.random()
        if kind in self.tables and how < 0.5:
            return self.use(kind, f"table_{kind}(r % {len(names)})", d)
        if len(names) > 1 and how < 0.7:
            a, b = r.sample(names, 2)
            local = self.local_name()
            return (f"{{ {POINTERS[kind]} {local}[2] = {{ {a}, {b} }}; " +
                    self.use(kind, f"{local}[r >> {r.randrange(16)} & 1]", d) + " }")
        return self.use(kind, name, d)

    def statement(self):
        r = self.random
        how = r.random()
        if how < 0.4:
            return f"r = {self.expression()};"
        if how < 0.6:
            return f"if (r & {1 << r.randrange(12)}) r = {self.expression()}; else r = {self.expression()};"
        if how < 0.8:
            return f"for (int i = 0; i < {r.randint(2, 5)}; i++) r = {self.expression()};"
        size, local = r.choice((3, 8, 17)), self.local_name()
        return (f"{{ unsigned {local}[{size}]; for (unsigned i = 0; i < {size}; i++) "
                f"{local}[i] = r + i * {self.number()}u; r ^= {local}[r % {size}]; }}")

    def body(self, enter, leave, callback=False):
        lines = [f"    {enter}", f"    if (d <= 0) {{ r = {self.expression()}; {leave} }}"]
        calls = self.random.choice((0, 1, 1, 1, 2))
        for _ in range(self.random.randint(1, 2)):
            lines.append("    " + self.statement())
        for _ in range(calls):
            call = self.call("d - 1", callback)
            if self.chance(0.25):
                call = f"if (r & {1 << self.random.randrange(10)}) {{ {call} }}"
            lines.append("    " + call)
        if self.chance(0.5):
            lines.append("    " + self.statement())
        lines.append(f"    {leave}")
        return "\n".join(lines)

    def declare(self):
        for kind, name in self.functions:
            self.put(f"BOTH {HEADS[kind].format(name=name)};")
        for kind, keep in self.tables.items():
            names = ", ".join(self.names_of(kind))
            self.put(f"{keep} {POINTERS[kind]} device_{kind}[] = {{ {names} }};\n"
                     f"static const {POINTERS[kind]} host_{kind}[] = {{ {names} }};\n"
                     f"BOTH {POINTERS[kind]} table_{kind}(unsigned i)\n{{\n#ifdef __CUDA_ARCH__\n"
                     f"    return device_{kind}[i];\n#else\n    return host_{kind}[i];\n#endif\n}}")

    def declare_classes(self):
        if not self.classes:
            return
        end = " BOTH virtual ~B() { k = 0; }" if self.destructor else ""
        m1 = "BOTH virtual unsigned m1(unsigned x, int d)" + (" = 0;" if self.pure else ";")
        self.put(f"struct B {{ unsigned k; BOTH B(unsigned k) : k(k) {{}}{end} "
                 f"BOTH virtual unsigned m0(unsigned x, int d); {m1} }};")
        bases = {1: "B", 2: "C1", 3: "Side, B"}
        if self.classes == 3:
            self.put("struct Side { unsigned s[3]; BOTH Side(unsigned k) { s[2] = k; } "
                     "BOTH virtual unsigned m2(unsigned x, int d); };")
        self.overrides = {1: ["m1"] + (["m0"] if self.chance(0.5) else []), 2: ["m0"], 3: ["m0", "m1", "m2"]}
        for c in range(1, self.classes + 1):
            first = bases[c].replace("B", "B(k)").replace("C1", "C1(k + 1)").replace("Side", "Side(k ^ 5)")
            methods = " ".join(f"BOTH virtual unsigned {m}(unsigned x, int d);" for m in self.overrides[c])
            self.put(f"struct C{c} : {bases[c]} {{ unsigned own; "
                     f"BOTH C{c}(unsigned k) : {first}, own(k * {self.number()}u) {{}} {methods} }};")
        # More objects than classes: the last one is of the last class again.
        count = self.classes + 1
        self.made = [min(i + 1, self.classes) for i in range(count)]
        make = " ".join(f"to[{i}] = new {'(room[%d]) ' % i if self.chance(0.5) else ''}C{c}({self.number()}u);"
                        for i, c in enumerate(self.made))
        side = f" *as_side = (C3 *)to[{count - 1}];" if self.classes == 3 else ""
        as_side = ", Side **as_side" if self.classes == 3 else ""
        self.put(f"__device__ B *device_objects[{count}];\nstatic B *host_objects[{count}];\n"
                 f"__device__ wide device_room[{count}][16];\nstatic wide host_room[{count}][16];\n"
                 f"BOTH inline B *object(unsigned i)\n{{\n#ifdef __CUDA_ARCH__\n    return device_objects[i];\n#else\n"
                 f"    return host_objects[i];\n#endif\n}}\n"
                 f"BOTH void fill(B **to, wide (*room)[16]{as_side}) {{ {make}{side} }}")
        if self.classes == 3:
            self.put("__device__ Side *device_side;\nstatic Side *host_side;\nBOTH inline Side *side()\n{\n"
                     "#ifdef __CUDA_ARCH__\n    return device_side;\n#else\n    return host_side;\n#endif\n}")

    def define(self):
        for kind, name in self.functions:
            inline = "__noinline__ " if self.chance(0.7) else ""
            self.put(f"BOTH {inline}{HEADS[kind].format(name=name)}\n{{\n"
                     f"{self.body(ENTER[kind], LEAVE[kind], kind == 'callback')}\n}}")
        if not self.classes:
            return
        methods = [("B", "m0", "k")] + ([] if self.pure else [("B", "m1", "k + 1")])
        if self.classes == 3:
            methods.append(("Side", "m2", "s[2]"))
        for c in range(1, self.classes + 1):
            methods += [(f"C{c}", m, "own + k" if m != "m2" else "own ^ s[2]") for m in self.overrides[c]]
        for of, method, member in methods:
            self.put(f"BOTH unsigned {of}::{method}(unsigned x, int d)\n{{\n"
                     f"{self.body(f'unsigned r = x ^ ({member});', 'return r;')}\n}}")

    def define_exchanges(self):
        for i, (how, other, number) in enumerate(self.exchanges):
            if how == "shared":
                text = (f"    __shared__ unsigned s[{self.threads}];\n    s[threadIdx.x] = r;\n    __syncthreads();\n"
                        f"    unsigned o = s[threadIdx.x ^ {other}];\n    __syncthreads();\n")
            else:
                text = f"    unsigned o = __shfl_xor_sync(0xffffffff, r, {other});\n"
            self.put(f"__device__ __noinline__ unsigned exchange{i}(unsigned r)\n{{\n{text}"
                     f"    return mix(r, o + {number}u);\n}}")
        if self.exchanges:
            names = ", ".join(f"exchange{i}" for i in range(len(self.exchanges)))
            self.put(f"__device__ Exchange exchanges[] = {{ {names} }};")

    # Stages of the kernel: each is a statement on r for one thread, or the number of an exchange.
    def stages(self):
        r = self.random
        stages = []
        for i in range(r.randint(2, 3)):
            d = r.randint(2, 4)
            stages.append(self.call(str(d)))
            how = r.random()
            if how < 0.4:
                stages.append(f"r ^= taken[r % TAKEN](r, {d});")
            elif how < 0.7:
                stages.append(f"r += foreign[{r.randrange(2)}]({self.expression()}, {d});")
            if self.exchanges:
                stages.append(r.randrange(len(self.exchanges)))
        return stages

    def kernels(self):
        names = self.names_of("plain")
        taken = [self.random.choice(names) for _ in range(2)]
        stages = self.stages()
        kernel, model, each = [], [], "for (unsigned i = 0; i < threads; i++)"
        for stage in stages:
            if isinstance(stage, int):
                _, other, number = self.exchanges[stage]
                kernel.append(f"    r = exchanges[{stage}](r);")
                model.append(f"    {each} was[i] = out[i];\n"
                             f"    {each} out[i] = mix(was[i], was[i ^ {other}] + {number}u);")
            else:
                kernel.append("    " + stage)
                model.append(f"    {each} {{ unsigned r = out[i]; {stage} out[i] = r; }}")
        newline = "\n"
        if self.classes:
            fill = "device_objects, device_room" + (", &device_side" if self.classes == 3 else "")
            host_fill = "host_objects, host_room" + (", &host_side" if self.classes == 3 else "")
            self.put(f"__global__ void make_kernel() {{ fill({fill}); }}")
            made, host_made = "make_kernel<<<1, 1>>>();", f"fill({host_fill});"
        else:
            made = host_made = ""
        self.put(f"__global__ void take_kernel(Plain *to) {{ to[0] = {taken[0]}; to[1] = {taken[1]}; }}\n"
                 f"__global__ void run_kernel(const unsigned *in, unsigned *out, const Plain *taken, "
                 f"const Plain *foreign)\n{{\n    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, r = in[i];\n"
                 f"{newline.join(kernel)}\n    out[i] = r;\n}}\n"
                 f"void make() {{ {made} {host_made} }}\n"
                 f"void take(Plain *to) {{ take_kernel<<<1, 1>>>(to); }}\n"
                 f"void run(unsigned blocks, unsigned threads, const unsigned *in, unsigned *out, const Plain *taken,\n"
                 f"         const Plain *foreign)\n"
                 f"{{\n    run_kernel<<<blocks, threads>>>(in, out, taken, foreign);\n}}\n"
                 f"const Plain taken_here[TAKEN] = {{ {taken[0]}, {taken[1]} }};\n"
                 f"void model(unsigned threads, const unsigned *in, unsigned *out, const Plain *taken, "
                 f"const Plain *foreign)\n"
                 f"{{\n    unsigned was[{self.threads}];\n    (void)was, (void)taken, (void)foreign;\n"
                 f"    for (unsigned i = 0; i < threads; i++) out[i] = in[i];\n{newline.join(model)}\n}}")

    def text(self):
        self.plan()
        self.put(f"namespace program{self.seed} {{")
        self.declare()
        self.declare_classes()
        self.define()
        self.define_exchanges()
        self.kernels()
        self.put("}")
        return "\n".join(self.lines)

    def entry(self):
        n = f"program{self.seed}::"
        return (f"    {{ {self.seed}, {self.blocks}, {self.threads}, {n}make, {n}take, {n}run, {n}taken_here, "
                f"{n}model }},")


def unit(name, seed, count):
    programs = [Generator(seed + i) for i in range(count)]
    print(f"// {count} programs with the seeds {seed} to {seed + count - 1}, made by tests/pointers/generate.py")
    print('#include "common.h"\nnamespace {')
    for program in programs:
        print(program.text())
    print("}\nstatic const Program programs[] = {")
    for program in programs:
        print(program.entry())
    print(f'}};\nextern const Unit unit_{name};\nconst Unit unit_{name} = {{ "{name}", programs, {count} }};')


def unit_list(names):
    print('#include "common.h"')
    for name in names:
        print(f"extern const Unit unit_{name};")
    print(f"extern const Unit *const units[] = {{ {', '.join('&unit_' + name for name in names)} }};")
    print(f"extern const unsigned unit_count = {len(names)};")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--programs", type=int, default=50)
    parser.add_argument("--list", nargs="+")
    options = parser.parse_args()
    if options.list:
        unit_list(options.list)
    else:
        unit(options.unit, options.seed, options.programs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
