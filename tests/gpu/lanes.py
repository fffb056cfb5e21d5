"""lanes.py: cases of what lanes do together and with memory: loads, stores, atomics, barriers, matrices from memory,
wgmma, asynchronous copies, textures; and how kernels end badly. For cases.py.

Each case is a kernel with the parameters out, in0, in1 …; A is the address of out, I the index of the thread in the
grid, T that in the block, B and C its own place in out (8 and 16 bytes for each thread). r, l, h, q, p: registers.
"""
from values import WIDTHS

REGISTERS = (".reg .pred p<8>; .reg .b16 h<40>; .reg .b32 r<160>; .reg .b64 l<40>; .reg .b128 q<4>; .reg .b64 A, B, C; "
             ".reg .b32 I, J, T, L;\n")
START = ("mov.u32 I, %ctaid.x; mov.u32 J, %ntid.x; mul.lo.u32 I, I, J; mov.u32 T, %tid.x; add.u32 I, I, T; "
         "mov.u32 L, %laneid; ld.param.u64 A, [out]; mul.wide.u32 B, I, 8; add.u64 B, B, A; mul.wide.u32 C, I, 16; "
         "add.u64 C, C, A;\n")


class Maker:
    """Collects cases; make(case class, its arguments) is called for each."""

    def __init__(self, case, tables, first):
        self.case, self.tables, self.first, self.cases = case, tables, first, []

    def add(self, name, body, inputs=(), out=0, declare="", attributes="", outputs=None, extra=(), module="", **shape):
        """inputs: (kind, slot, how many values). extra: parameters behind them."""
        number = self.first + len(self.cases)
        places = [self.tables.place(kind, slot, count) for kind, slot, count in inputs]
        values = "".join(f", .param .u64 in{n}" for n in range(len(inputs) + len(extra)))
        loads = "".join(f".reg .b64 in{n}_; ld.param.u64 in{n}_, [in{n}];\n" for n in range(len(inputs) + len(extra)))
        body = body.replace("$", str(number))
        for n in range(len(inputs) + len(extra)):
            body = body.replace(f"%in{n}", f"in{n}_")
        ptx = (module.replace("$", str(number)) + f".visible .entry k{number}(.param .u64 out{values}) "
            f"{attributes}\n{{\n" +
               declare.replace("$", str(number)) + REGISTERS + START + loads + body + "\nEND: ret;\n}\n")
        self.cases.append(self.case(
            name, ptx, ["o0"] + [f"i{place}" for place in places] + list(extra), out,
            inputs=[f"in{n}:{kind}:{place}:{WIDTHS[kind]}" for n, ((kind, _, _), place) in enumerate(zip(inputs,
                places))],
            outputs=outputs or (["out:u64:0:8"] if out else []), **shape))


REG = {1: "h", 2: "h", 4: "r", 8: "l", 16: "q"}


def width_of(kind):
    return int(kind.lstrip("abcdefghijklmnopqrstuvwxyz").partition("x")[0]) // 8 * (2 if kind.endswith("x2") else 1)


def loads_and_stores(m):
    """Every type from every space, into a register of 64 bits where PTX allows it; vectors; cache operators."""
    kinds = "b8 u8 s8 b16 u16 s16 b32 u32 s32 b64 u64 s64 f32 f64".split()

    def load(name, how, kind, space="global", before="", address="l1", count=1, declare=""):
        width = width_of(kind)
        letter = "l" if kind[0] != "f" else REG[width]
        registers = [f"{letter}{n + 4}" for n in range(count)]
        target = registers[0] if count == 1 else "{" + ", ".join(registers) + "}"
        body = f"mul.wide.u32 l0, I, {width * count}; add.u64 l1, l0, %in0;\n{before}\n{how} {target}, [{address}];\n"
        body += f"mul.wide.u32 l0, I, {8 * count}; add.u64 B, A, l0;\n"
        for n, register in enumerate(registers):
            body += f"st.global.b{64 if letter == 'l' else 8 * width} [B+{8 * n}], {register};\n"
        m.add(name, body, [(f"b{8 * width}", 0, 256 * count)], 256 * 8 * count, block=(256, 1, 1), declare=declare)

    for kind in kinds:
        width = width_of(kind)
        for how in ("global", "", "const", "volatile.global", "relaxed.gpu.global", "acquire.sys.global", "global.ca",
                    "global.cg", "global.cs", "global.lu", "global.cv", "global.nc", "global.nc.L1::no_allocate",
                    "weak.global", "global.L1::evict_last"):
            if how == "const":
                continue
            load(f"ld.{how}.{kind}".replace("..", "."), f"ld.{how}.{kind}".replace("..", "."), kind)
        load(f"ldu.global.{kind}", f"ldu.global.{kind}", kind)
        for space in ("shared", "local"):
            size = 8 * 256 if space == "shared" else 16
            mine = "mov.u64 l2, S; mul.wide.u32 l3, T, 8; add.u64 l2, l2, l3;"
            where = mine if space == "shared" else "mov.u64 l2, S;"
            move = f"ld.global.b{8 * width} {REG[width]}9, [l1]; st.{space}.b{8 * width} [l2], {REG[width]}9;"
            load(f"ld.{space}.{kind}", f"ld.{space}.{kind}", kind, before=where + move, address="l2",
                 declare=f".{space} .align 16 .b8 S[{size}];\n")
            load(f"ld.{kind} of {space}", f"ld.{kind}", kind, before=where + move + f" cvta.{space}.u64 l2, l2;",
                 address="l2", declare=f".{space} .align 16 .b8 S[{size}];\n")
        for count in (2, 4):
            if width * count <= 16 and kind[0] in "usf":
                for how in ("global", "global.nc", "volatile.global", ""):
                    load(f"ld.{how}.v{count}.{kind}".replace("..", "."), f"ld.{how}.v{count}.{kind}".replace("..",
                        "."), kind,
                         count=count)
        for how in ("global", "", "global.wb", "global.cg", "global.cs", "global.wt", "volatile.global",
            "release.gpu.global",
                    "relaxed.sys.global"):
            letter = "l" if kind[0] != "f" else REG[width]
            name = f"st.{how}.{kind}".replace("..", ".")
            m.add(name, f"mul.wide.u32 l0, I, 8; add.u64 l1, l0, %in0; ld.global.b{64 if letter == 'l' else 8 * width} "
                  f"{letter}4, [l1];\n{name} [B], {letter}4;", [("b64", 0, 256)], 2048, block=(256, 1, 1))
        for count in (2, 4):
            if width * count <= 16 and kind[0] in "usf":
                letter = "l" if kind[0] != "f" else REG[width]
                values = ", ".join([f"{letter}4", f"{letter}5"] * (count // 2))
                name = f"st.global.v{count}.{kind}"
                step = 64 if letter == "l" else 8 * width
                m.add(name, f"mul.wide.u32 l0, I, 16; add.u64 l1, l0, %in0; ld.global.b{step} {letter}4, [l1]; "
                      f"ld.global.b{step} {letter}5, [l1+8];\n{name} [C], {{{values}}};", [("b64", 0, 512)], 4096,
                      block=(256, 1, 1))
    for name, how in (("ld.global.b128", "ld.global.b128"), ("ld.b128", "ld.b128"),
                      ("ld.relaxed.gpu.global.b128", "ld.relaxed.gpu.global.b128")):
        m.add(name, f"mul.wide.u32 l0, I, 16; add.u64 l1, l0, %in0; {how} q0, [l1]; st.global.b128 [C], q0;",
              [("b128", 0, 256)], 4096, block=(256, 1, 1))


ATOMICS = [(op, kind) for ops, kinds in (
    ("add", "u32 s32 u64 f16 f16x2 bf16 bf16x2 f32 f64"), ("min max", "u32 s32 u64 s64"),
    ("inc dec", "u32"), ("and or xor", "b32 b64"), ("exch", "b32 b64 b128"), ("cas", "b16 b32 b64 b128"))
    for op in ops.split() for kind in kinds.split()]


def atomics(m):
    """Each lane has its own address, so what it reads is certain; then one address, in any order."""
    value_kind = {"b16": "u16", "b32": "u32", "b64": "u64", "s64": "s64"}
    for op, kind in ATOMICS:
        width = width_of(kind)
        letter, table = REG[width], value_kind.get(kind, kind)
        noftz = ".noftz" if "16" in kind and kind[0] in "fb" and kind != "b16" and op in ("add", "min", "max") else ""
        lanes = 2048
        for space in ("global", "shared", ""):
            for verb in ("atom", "red"):
                if verb == "red" and op in ("exch", "cas"):
                    continue
                name = f"{verb}.{space}.{op}{noftz}.{kind}".replace("..", ".")
                move = (f"mul.wide.u32 l0, I, {width}; add.u64 l1, l0, %in0; ld.global.b{8 * width} {letter}4, [l1]; "
                        f"add.u64 l1, l0, %in1; ld.global.b{8 * width} {letter}5, [l1]; add.u64 l2, l0, A;\n")
                place = "[l3]"
                if space == "shared":
                    move += f"mov.u64 l3, S; mul.wide.u32 l1, T, {width}; add.u64 l3, l3, l1; " \
                            f"st.shared.b{8 * width} [l3], " \
                            f"{letter}4;\n"
                else:
                    move += f"mov.u64 l3, l2; st.global.b{8 * width} [l3], {letter}4;\n"
                third = ""
                if op == "cas":
                    # every other lane compares with what is there
                    third = f", {letter}5"
                    move += ("and.b32 r8, I, 1; setp.ne.u32 p1, r8, 0; " + (
                        f"@p1 mov.b128 {letter}6, {letter}4; @!p1 mov.b128 {letter}6, {letter}5;\n".replace("q6", "q3")
                        .replace("q4", "q0").replace("q5", "q1") if letter == "q" else
                        f"selp.b{8 * width} {letter}6, {letter}4, {letter}5, p1;\n"))
                    move += ""
                operand = f"{letter}6{third}" if op == "cas" else f"{letter}5"
                code = f"{name} {letter}7, {place}, {operand};" if verb == "atom" else f"{name} {place}, {operand};"
                if verb == "red":
                    code += f" mov.b{8 * width} {letter}7, 0;"
                code += (f" ld.{space + '.' if space else ''}b{8 * width} {letter}8, {place}; st.global.b{8 * width} "
                         f"[l2], "
                         f"{letter}8; st.global.b{8 * width} [l2+{lanes * width}], {letter}7;")
                if letter == "q":
                    for a, b in (("q8", "q0"), ("q7", "q2"), ("q6", "q3"), ("q5", "q1"), ("q4", "q0")):
                        move, code = move.replace(a, b), code.replace(a, b)
                m.add(name, move + code, [(table, 0, lanes), (table, 1, lanes)], 2 * lanes * width, grid=(lanes // 256,
                    1, 1),
                      block=(256, 1, 1), declare=f".shared .align 16 .b8 "
                                                 f"S[{256 * width}];\n" if space == "shared" else "",
                      outputs=[f"memory:{kind}:0:{width}", f"old:{kind}:{lanes * width}:{width}"])
        if op in ("add", "min", "max", "and", "or", "xor", "inc", "dec") and kind[0] in "usb" and "f" not in kind:
            for space in ("global", "shared"):
                name = f"red.{space}.{op}.{kind} of one address"
                start = {"and": -1, "min": -1}.get(op, 0)
                body = (f"mul.wide.u32 l0, I, {width}; add.u64 l1, l0, %in0; ld.global.b{8 * width} {letter}5, [l1]; "
                        f"mov.b{8 * width} {letter}4, {start};\nsetp.eq.u32 p1, T, 0; mov.u64 l3, S; bar.sync 0;\n")
                if space == "shared":
                    body += f"@p1 st.shared.b{8 * width} [l3], {letter}4; bar.sync 0; " \
                            f"red.shared.{op}.{kind} [l3], {letter}5; " \
                            f"bar.sync 0; @p1 ld.shared.b{8 * width} {letter}6, [l3]; " \
                            f"@p1 st.global.b{8 * width} [A], {letter}6;"
                else:
                    body += (f"@p1 st.global.b{8 * width} [A], {letter}4; bar.sync 0; red.global.{op}.{kind} [A], "
                             f"{letter}5;")
                m.add(name, body, [(table, 0, 512)], 16, block=(512, 1, 1), declare=".shared .align 16 .b8 S[16];\n")
    for op in ("add", "min", "max"):
        for count, kind in ((2, "f32"), (4, "f32"), (2, "f16"), (4, "f16"), (8, "f16"), (2, "f16x2"), (4, "f16x2"), (2,
            "bf16"),
                            (8, "bf16"), (4, "bf16x2")):
            width = width_of(kind)
            if kind == "f32" and op != "add":
                continue
            noftz = "" if kind == "f32" else ".noftz"
            letter = REG[width]
            size = width * count
            one, two, old = ([f"{letter}{base + n}" for n in range(count)] for base in (4, 12, 20))
            body = f"mul.wide.u32 l0, I, {size}; add.u64 l1, l0, %in0; add.u64 l2, l0, %in1; add.u64 l3, l0, A;\n"
            for n in range(count):
                body += (f"ld.global.b{8 * width} {one[n]}, [l1+{n * width}]; st.global.b{8 * width} "
                         f"[l3+{n * width}], {one[n]}; ")
                body += f"ld.global.b{8 * width} {two[n]}, [l2+{n * width}];\n"
            name = f"atom.global.{op}{noftz}.v{count}.{kind}"
            body += f"{name} {braces(old)}, [l3], {braces(two)};\n"
            body += "".join(f"st.global.b{8 * width} [l3+{1024 * size + n * width}], {old[n]};\n" for n in range(count))
            m.add(name, body, [(kind, 0, 1024 * count), (kind, 1, 1024 * count)], 2048 * size, grid=(8, 1, 1),
                block=(128, 1, 1),
                  outputs=[f"memory:{kind}:0:{width}", f"old:{kind}:{1024 * size}:{width}"])


def meetings(m):
    """Barriers that reduce, and operations of a warp by some of its lanes."""
    for op, target, store in (("popc.u32", "r4", ""), ("and.pred", "p2", "selp.u32 r4, 1, 0, p2;"),
                              ("or.pred", "p2", "selp.u32 r4, 1, 0, p2;")):
        for barrier in ("bar", "barrier"):
            m.add(f"{barrier}.red.{op}", f"ld.param.u64 l1, [in0]; cvt.u64.u32 l0, I; add.u64 l1, l1, l0; "
                                         f"ld.global.u8 h1, [l1]; "
                  f"setp.ne.u16 p1, h1, 0; {barrier}.red.{op} {target}, 0, p1; {store} mul.wide.u32 l0, I, 4; "
                  f"add.u64 l0, l0, "
                  "A; st.global.u32 [l0], r4;", [("pred", 0, 1024)], 4096, grid=(8, 1, 1), block=(128, 1, 1))
    m.add("bar.red.popc of some warps", "shr.u32 r5, T, 6; add.u32 r5, r5, 1; setp.lt.u32 p1, L, r5; "
                                        "bar.red.popc.u32 r4, r5, 64, p1; "
          "mul.wide.u32 l0, I, 4; add.u64 l0, l0, A; st.global.u32 [l0], r4;", (), 1024, block=(256, 1, 1))
    take = "mul.wide.u32 l0, I, 4; add.u64 l1, l0, %in0; ld.global.u32 r4, [l1]; add.u64 l2, l0, A;\n"
    for mask in (0x0000ffff, 0x55555555, 0x80000001, 0x00f00000):
        guard = (f"mov.u32 r7, {mask}; shr.u32 r8, r7, L; and.b32 r8, r8, 1; setp.ne.u32 p1, r8, 0; mov.u32 r5, "
                 f"0x77777777;\n")
        for what in ("redux.sync.add.u32 r5, r4, r7", "redux.sync.min.s32 r5, r4, r7", "redux.sync.max.u32 r5, r4, r7",
                     "redux.sync.xor.b32 r5, r4, r7", "redux.sync.and.b32 r5, r4, r7", "match.any.sync.b32 r5, r4, r7",
                     "match.all.sync.b32 r5, r4, r7", "shfl.sync.idx.b32 r5, r4, 0, 0x1f, r7",
                     "shfl.sync.down.b32 r5|p3, r4, 2, 0x1f, r7", "shfl.sync.up.b32 r5|p3, r4, 1, 0, r7",
                     "shfl.sync.bfly.b32 r5|p3, r4, 1, 0x1f, r7", "shfl.sync.bfly.b32 r5|p3, r4, 16, 0x0f1f, r7",
                     "vote.sync.ballot.b32 r5, p4, r7", "activemask.b32 r5"):
            kind = "few" if "match" in what else "u32"
            # lanes that do not take part exchange nothing: a lane reads only from those of the mask
            branch = f"@!p1 bra OUT$; setp.gt.s32 p4, r4, 0; {what};\nOUT$: bar.warp.sync -1; st.global.u32 [l2], r5;"
            m.add(f"{what} of {mask:#x}", take + guard + branch, [(kind, 0, 256)], 1024, block=(256, 1, 1),
                  outputs=["out:u32:0:4"])
    m.add("elect.sync", "elect.sync r4|p1, -1; selp.u32 r5, 1, 0, p1; st.global.v2.u32 [B], {r4, r5};", (), 1024,
        block=(128, 1, 1))
    for register in ("%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z",
                     "%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid", "%lanemask_eq", "%lanemask_le", "%lanemask_lt",
                     "%lanemask_ge", "%lanemask_gt", "%dynamic_smem_size", "%total_smem_size", "%aggr_smem_size",
                     "%clusterid.x",
                     "%clusterid.y", "%nclusterid.x", "%nclusterid.y", "%cluster_ctaid.x", "%cluster_ctaid.y",
                     "%cluster_nctaid.x", "%cluster_ctarank", "%cluster_nctarank", "%nwarpid", "%nsmid", "%warpid",
                     "%reserved_smem_offset_begin", "%reserved_smem_offset_end", "%reserved_smem_offset_cap",
                     "%envreg0"):
        for cluster in ((0, 0, 0), (2, 2, 1)):
            m.add(f"mov {register}" + (" in clusters" if cluster[0] else ""),
                  f"mov.u32 r4, %ctaid.y; mov.u32 r5, %nctaid.x; mov.u32 r6, %ctaid.x; mad.lo.u32 r6, r4, r5, r6; "
                  f"mov.u32 r4, %tid.y; "
                  f"mov.u32 r5, %ntid.x; mad.lo.u32 r7, r4, r5, T; mad.lo.u32 r6, r6, 32, r7; mul.wide.u32 l0, r6, "
                  f"4; add.u64 l0, l0, A;"
                  f"mov.u32 r4, {register}; "
                  "st.global.u32 [l0], r4;", (), 8 * 32 * 4, grid=(4, 2, 1), block=(16, 2, 1), cluster=cluster,
                  shared=1000,
                  outputs=["out:u32:0:4"], declare=".shared .align 16 .b8 S[64];\n")
    cluster = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
    m.add("mapa and ld.shared::cluster", "mov.u32 r4, S; mad.lo.u32 r5, T, 4, r4; st.shared.u32 [r5], I; " + cluster +
          "mov.u32 r6, %cluster_ctarank; add.u32 r6, r6, 1; and.b32 r6, r6, 3; mapa.shared::cluster.u32 r7, r5, r6; "
          "ld.shared::cluster.u32 r8, [r7]; getctarank.shared::cluster.u32 r9, r7; st.global.v2.u32 [B], {r8, "
          "r9};\n" + cluster, (),
          8 * 32 * 8, grid=(8, 1, 1), cluster=(4, 1, 1), declare=".shared .align 16 .b8 S[128];\n")
    m.add("atom.shared::cluster", "mov.u32 r4, S; setp.eq.u32 p1, T, 0; @p1 st.shared.u32 [r4], 0; " + cluster +
          "mapa.shared::cluster.u32 r7, r4, 0; red.shared::cluster.add.u32 [r7], I; " + cluster +
          "ld.shared::cluster.u32 r8, [r7]; st.global.u32 [B], r8;\n" + cluster, (), 8 * 32 * 8, grid=(8, 1, 1),
          cluster=(4, 1, 1),
          declare=".shared .align 16 .b8 S[128];\n")
    m.add("bits of shared addresses", "mov.u32 r4, S; mov.u64 l4, S; cvt.u32.u64 r5, l4; st.global.v2.u32 [B], {r4, "
                                      "r5};", (), 256,
          declare=".shared .align 16 .b8 S[128];\n")
    m.add("mbarrier", "mov.u32 r4, S; setp.eq.u32 p1, T, 0; @p1 mbarrier.init.shared.b64 [r4], 64; bar.sync 0; "
          "mbarrier.arrive.shared.b64 l4, [r4]; mbarrier.pending_count.b64 r5, l4; setp.eq.u32 p2, r5, 1; "
          "W: mbarrier.try_wait.shared.b64 p3, [r4], l4; @!p3 bra W; mbarrier.test_wait.parity.shared.b64 p4, [r4], 0; "
          "mbarrier.test_wait.parity.shared.b64 p5, [r4], 1; selp.u32 r6, 1, 0, p4; selp.u32 r7, 2, 0, p5; add.u32 "
          "r6, r6, r7; "
          "st.global.u32 [B], r6;", (), 512, block=(64, 1, 1), declare=".shared .align 8 .b64 S;\n")
    # the words of an mbarrier are no secret to a program that looks
    m.add("words of an mbarrier", "mov.u32 r4, S; setp.ne.u32 p1, T, 0; @p1 bra END; mbarrier.init.shared.b64 [r4], 3; "
          "ld.shared.b64 l4, [r4]; st.global.b64 [A], l4; mbarrier.arrive.shared.b64 l5, [r4]; st.global.b64 [A+8], "
          "l5; "
          "ld.shared.b64 l4, [r4]; st.global.b64 [A+16], l4; mbarrier.arrive.expect_tx.shared.b64 l5, [r4], 48; "
          "ld.shared.b64 l4, [r4];"
          " st.global.b64 [A+24], l4; mbarrier.arrive.shared.b64 l5, [r4]; ld.shared.b64 l4, [r4]; st.global.b64 "
          "[A+32], l4; "
          "mbarrier.complete_tx.relaxed.cta.shared.b64 [r4], 48; ld.shared.b64 l4, [r4]; st.global.b64 [A+40], l4;"
          "mbarrier.inval.shared.b64 [r4]; ld.shared.b64 l4, [r4]; st.global.b64 [A+48], l4; ", (), 64,
          declare=".shared .align 8 .b64 S;\n")


def fill(words, table="in0"):
    """Copies words of 32 bits from the inputs to shared memory S."""
    return (f"mov.u32 r100, T; F$: setp.ge.u32 p7, r100, {words}; @p7 bra G$; mul.wide.u32 l30, r100, 4; add.u64 "
            f"l31, l30, "
            f"%{table}; ld.global.u32 r101, [l31]; mov.u64 l32, S; add.u64 l32, l32, l30; st.shared.u32 [l32], r101; "
            "add.u32 r100, r100, J; bra F$; G$: bar.sync 0;\n")


def dump(words):
    """Copies S to out."""
    return (f"bar.sync 0; mov.u32 r100, T; H$: setp.ge.u32 p7, r100, {words}; @p7 bra E$; mul.wide.u32 l30, r100, 4; "
            f"mov.u64 l32, "
            "S; add.u64 l32, l32, l30; ld.shared.u32 r101, [l32]; add.u64 l31, l30, A; st.global.u32 [l31], r101; "
            "add.u32 r100, r100, J; bra H$; E$: bar.warp.sync -1;\n")


def registers(count, first, letter="r"):
    return [f"{letter}{first + n}" for n in range(count)]


def braces(names):
    return "{" + ", ".join(names) + "}"


def tiles(m):
    """ldmatrix, stmatrix, wmma from memory."""
    shared = ".shared .align 128 .b8 S[4096];\n"
    for count in (1, 2, 4):
        for trans in ("", ".trans"):
            regs = registers(count, 4)
            store = "".join(f"mul.wide.u32 l0, T, 4; add.u64 l1, l0, A; st.global.u32 [l1+{128 * n}], {name};" for n,
                name in
                            enumerate(regs))
            # rows in an order of their own
            row = ("mul.lo.u32 r40, T, 11; and.b32 r40, r40, 31; mul.lo.u32 r40, r40, 16; mov.u32 r41, S; add.u32 "
                   "r40, r40, r41;\n")
            m.add(f"ldmatrix.x{count}{trans}", fill(256) + row +
                  f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {braces(regs)}, [r40];" + store, [("bits", 0,
                  1024)],
                  128 * count, declare=shared, outputs=["out:u32:0:4"])
            m.add(f"stmatrix.x{count}{trans}", fill(256) + row + "".join(
                f"mul.wide.u32 l0, T, 4; add.u64 l1, l0, %in1; ld.global.u32 {name}, [l1+{128 * n}];" for n, name in
                enumerate(regs)) + f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [r40], "
                    f"{braces(regs)};" + dump(256),
                [("bits", 0, 1024), ("bits", 1, 1024)], 1024, declare=shared, outputs=["out:u32:0:4"])
    # (shapes, type of a and b, registers of a, of b, of c and d by type, bytes of elements)
    whole = ("m16n16k16", "m8n32k16", "m32n8k16")
    products = [(shape, ab, c, d) for shape in whole for ab in ("f16",) for c in ("f16", "f32") for d in ("f16", "f32")]
    products += [(shape, ab, "f32", "f32") for shape in whole for ab in ("bf16",)]
    products += [(shape, ab, "s32", "s32") for shape in whole for ab in ("u8", "s8")]
    products += [("m16n16k8", "tf32", "f32", "f32"), ("m8n8k4", "f64", "f64", "f64"), ("m8n8k32", "u4", "s32", "s32"),
                 ("m8n8k32", "s4", "s32", "s32"), ("m8n8k128", "b1", "s32", "s32")]
    for shape, ab, c, d in products:
        for a_layout, b_layout in (("row", "col"), ("row", "row"), ("col", "col"), ("col", "row")):
            if shape in ("m8n8k32", "m8n8k128") and (a_layout, b_layout) != ("row", "col"):
                continue
            dims = dict(zip("mnk", (int(x) for x in shape.replace("m", " ").replace("n", " ").replace("k",
                " ").split())))

            def amount(kind, which, dims=dims, shape=shape):
                if kind == "f16":
                    return 4 if which in "cd" else 8
                if kind in ("f32", "s32"):
                    return 2 if shape in ("m8n8k32", "m8n8k128") else 8
                if kind == "f64":
                    return 1 if which in "ab" else 2
                if kind == "tf32":
                    return 4
                size = {"a": dims["m"], "b": dims["n"]}[which] * dims["k"] * {"bf16": 16, "u8": 8, "s8": 8, "u4": 4,
                    "s4": 4,
                                                                                "b1": 1}[kind] // 1024
                return size

            letter = "l" if ab == "f64" else "r"
            a, b = registers(amount(ab, "a"), 4, letter), registers(amount(ab, "b"), 14, letter)
            cs, ds = registers(amount(c, "c"), 24, letter), registers(amount(d, "d"), 34 if letter == "r" else 30,
                letter)
            op = ".xor.popc" if ab == "b1" else ""
            mid = {"f16": f"{d}.{c}", "bf16": "f32.bf16.bf16.f32", "tf32": "f32.tf32.tf32.f32",
                "f64": "f64.f64.f64.f64"}.get(
                ab, f"s32.{ab}.{ab}.s32")
            body = ""
            kind = {"f16": "mild_f16", "bf16": "mild_bf16", "tf32": "mild_tf32", "f64": "mild_f64"}.get(ab, "bits")
            ckind = {"f16": "mild_f16c", "f32": "mild_f32", "f64": "mild_f64", "s32": "mild_s32"}[c]
            for repeat in range(6):
                step = repeat * 1024
                body += (f"add.u64 l38, %in0, {step}; add.u64 l37, %in1, {step}; add.u64 l36, %in2, {step}; add.u64 "
                         f"l35, A, {step * 1};\n"
                         f"wmma.load.a.sync.aligned.{a_layout}.{shape}.{ab} {braces(a)}, [l38];\n"
                         f"wmma.load.b.sync.aligned.{b_layout}.{shape}.{ab} {braces(b)}, [l37];\n"
                         f"wmma.load.c.sync.aligned.row.{shape}.{c} {braces(cs)}, [l36];\n"
                         f"wmma.mma{op}.sync.aligned.{a_layout}.{b_layout}.{shape}.{mid} {braces(ds)}, {braces(a)}, "
                         f"{braces(b)}, "
                         f"{braces(cs)};\nwmma.store.d.sync.aligned.row.{shape}.{d} [l35], {braces(ds)};\n")
            width = {"f16": 2, "f32": 4, "s32": 4, "f64": 8}[d]
            m.add(f"wmma {a_layout}.{b_layout}.{shape}.{mid}", body, [(kind, 0, 2048), (kind, 1, 2048), (ckind, 2,
                2048)],
                  5 * 1024 + width * dims["m"] * dims["n"], outputs=[f"out:{d}:0:{width}"])
    for shape, d, ab, n_regs in (("m16n16k8", "f32", "tf32", 8),):
        del shape, d, ab, n_regs


def wgmma(m):
    """Whatever a descriptor makes of shared memory: layouts, swizzles, sizes; A from memory and from registers."""
    words = 11264                                     # 44 KiB
    head = ".shared .align 1024 .b8 S[45056];\n"

    def product(name, instruction, ab, cd, n, a_in_registers, layout, tail, seed, sparse=False):
        swizzle, leading, stride = layout
        kind = {"f16": "mild_f16", "bf16": "mild_bf16", "tf32": "mild_tf32", "e4m3": "mild_e4m3",
            "e5m2": "mild_e5m2"}.get(ab, "bits")
        ckind = {"f32": "mild_f32", "f16": "mild_f16c", "s32": "mild_s32"}[cd]
        count = n // 2 if cd != "f16" else n // 4
        d, a = registers(count, 8), registers(4, 140)
        high = f"{(swizzle << 62) | (stride >> 4) << 32 | (leading >> 4) << 16:#x}"
        b_at = 0 if a_in_registers else 12288
        body = fill(words) + "fence.proxy.async;\n"
        body += (f"mov.u32 r150, S; shr.u32 r150, r150, 4; cvt.u64.u32 l4, r150; or.b64 l4, l4, {high}; mov.u64 l5, "
                 f"l4; add.u64 l5, l5, "
                 f"{b_at >> 4};\nmul.wide.u32 l0, T, {4 * count}; add.u64 l6, l0, %in1; add.u64 l7, l0, A; "
                 f"mul.wide.u32 l8, T, 16; "
                 f"add.u64 l8, l8, %in2; mul.wide.u32 l9, T, 4; add.u64 l9, l9, %in3;\n")
        for n_, name_ in enumerate(d):
            body += f"ld.global.u32 {name_}, [l6+{4 * n_}];\n"
        for n_, name_ in enumerate(a):
            body += f"ld.global.u32 {name_}, [l8+{4 * n_}];\n"
        body += "ld.global.u32 r151, [l9]; setp.eq.u32 p0, r100, r100; bar.sync 0;\nwgmma.fence.sync.aligned;\n"
        first = braces(a) if a_in_registers else "l4"
        meta = "r151, 0, " if sparse else ""
        body += (f"{instruction} {braces(d)}, {first}, l5, {meta}{tail};\nwgmma.commit_group.sync.aligned; "
                 f"wgmma.wait_group.sync.aligned 0;\n")
        for n_, name_ in enumerate(d):
            body += f"st.global.u32 [l7+{4 * n_}], {name_};\n"
        m.add(name, body, [(kind, seed, words), (ckind, 3, 128 * count), (kind, 5, 512), ("meta", 0, 128)], 512 * count,
              block=(128, 1, 1), declare=head, outputs=[f"out:{'f16x2' if cd == 'f16' else cd}:0:4"], flags="a")

    combinations = [("f16", "f16", "f32", 16), ("f16", "f16", "f16", 16), ("bf16", "bf16", "f32", 16), ("tf32", "tf32",
        "f32", 8),
                    ("e4m3", "e4m3", "f32", 32), ("e4m3", "e5m2", "f32", 32), ("e5m2", "e4m3", "f16", 32), ("e5m2",
                        "e5m2", "f32", 32),
                    ("e4m3", "e4m3", "f16", 32), ("s8", "s8", "s32", 32), ("u8", "u8", "s32", 32), ("s8", "u8", "s32",
                        32),
                    ("u8", "s8", "s32", 32), ("b1", "b1", "s32", 256)]
    layouts = {"none": (0, 128, 256), "none far": (0, 256, 512), "none wide": (0, 1024, 128), "128B": (1, 16, 1024),
               "64B": (2, 16, 512), "32B": (3, 16, 256), "128B far": (1, 1024, 2048)}
    for a, b, cd, k in combinations:
        for n in (8, 24, 64, 256) if a == "f16" or (a, b, cd) == ("e4m3", "e4m3", "f32") else (8, 32):
            for from_registers in (False, True):
                for layout_name, layout in layouts.items():
                    if n > 64 and layout_name.endswith(("far", "wide")):
                        continue
                    transposed = ((0, 0), (1, 1), (0, 1)) if a in ("f16", "bf16") and not from_registers else \
                        ((0, 0), (0, 1)) if a in ("f16", "bf16") else ((0, 0),)
                    for ta, tb in transposed:
                        sat = ".satfinite" if cd == "s32" and a != "b1" and layout_name == "none" else ""
                        op = ".and.popc" if a == "b1" else ""
                        instruction = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{cd}.{a}.{b}{op}{sat}"
                        tail = "p0" if cd == "s32" else "p0, 1, -1" if layout_name == "64B" else "p0, 1, 1"
                        if a in ("f16", "bf16"):
                            tail += f", {tb}" if from_registers else f", {ta}, {tb}"
                        product(f"wgmma m64n{n}k{k}.{cd}.{a}.{b}{sat} {'registers' if from_registers else 'memory'} "
                                f"{layout_name} {ta}{tb}",
                                instruction, a, cd, n, from_registers, layout, tail, 4 + n % 3)
        # sparse: K is twice as large
        if a != "b1":
            for from_registers in (False, True):
                for layout_name in ("none far", "128B"):
                    instruction = f"wgmma.mma_async.sp.sync.aligned.m64n8k{2 * k}.{cd}.{a}.{b}"
                    tail = "p0" if cd == "s32" else "p0, 1, 1"
                    if a in ("f16", "bf16"):
                        tail += ", 0" if from_registers else ", 0, 0"
                    product(f"wgmma.sp m64n8k{2 * k}.{cd}.{a}.{b} {'registers' if from_registers else 'memory'} "
                            f"{layout_name}", instruction,
                            a, cd, 8, from_registers, layouts[layout_name], tail, 4, sparse=True)


def copies(m):
    """cp.async, bulk copies and reductions."""
    for size in (4, 8, 16):
        for how in ("ca", "cg") if size == 16 else ("ca",):
            for part in (None, *sorted({0, 1, 3, size - 1, size})):
                last = "" if part is None else f", {part}"
                m.add(f"cp.async.{how} {size}{last}", fill(512) + f"mov.u32 r4, S; mad.lo.u32 r4, T, {size}, r4; "
                    f"mul.wide.u32 l0, T, {size}; "
                      f"add.u64 l1, l0, %in1; cp.async.{how}.shared.global [r4], [l1], {size}{last}; "
                      f"cp.async.wait_all;" + dump(512),
                      [("bits", 0, 512), ("bits", 1, 512)], 2048, block=(128, 1, 1), declare=".shared .align 16 .b8 "
                          "S[2048];\n",
                      outputs=["out:u32:0:4"])
    wait = "W$: mbarrier.try_wait.parity.shared.b64 p2, [r5], 0; @!p2 bra W$;"
    m.add("cp.async.bulk to shared", fill(512) + "mov.u32 r4, S; mov.u32 r5, M; setp.eq.u32 p1, T, 0; @p1 "
        "mbarrier.init.shared.b64 [r5], 1; "
          "fence.proxy.async; bar.sync 0; @p1 mbarrier.arrive.expect_tx.shared.b64 l4, [r5], 1008; @p1 "
          "cp.async.bulk.shared::cluster.global."
          "mbarrier::complete_tx::bytes [r4], [%in1], 1008, [r5]; " + wait + dump(512), [("bits", 0, 512), ("bits", 1,
          512)], 2048,
          block=(64, 1, 1), declare=".shared .align 16 .b8 S[2048]; .shared .align 8 .b64 M;\n",
              outputs=["out:u32:0:4"])
    for op, kind in [(op, kind) for op in ("add", "min", "max", "inc", "dec", "and", "or", "xor") for kind in
                     ("u32", "s32", "u64", "s64", "b32", "b64", "f16", "bf16", "f32", "f64")]:
        if (kind[0] == "b" and kind != "bf16") != (op in ("and", "or", "xor")) or op in ("inc",
            "dec") and kind != "u32" or \
                kind in ("f32", "f64") and op != "add" or (op, kind) == ("add", "s64"):
            continue
        noftz = ".noftz" if kind in ("f16", "bf16") and op == "add" else ""
        table = {"f16": "f16x2", "bf16": "bf16x2", "b32": "u32", "b64": "u64"}.get(kind, kind)
        count = 2048 // WIDTHS[table]
        m.add(f"cp.reduce.async.bulk.{op}.{kind}", fill(512) + f"mov.u32 r100, T; P$: setp.ge.u32 p6, r100, 512; @p6 "
            f"bra Q$; mul.wide.u32 l30, "
              "r100, 4; add.u64 l31, l30, %in1; ld.global.u32 r101, [l31]; add.u64 l31, l30, A; st.global.u32 [l31], "
              "r101; add.u32 r100, r100,"
              " J; bra P$; Q$: fence.proxy.async; bar.sync 0; setp.ne.u32 p1, T, 0; mov.u32 r4, S; @p1 bra "
              "END;\ncp.reduce.async.bulk.global."
              f"shared::cta.bulk_group.{op}{noftz}.{kind} [A], [r4], 2048; cp.async.bulk.commit_group; "
              f"cp.async.bulk.wait_group 0;",
              [(table, 0, count), (table, 1, count)], 2048, block=(64, 1, 1), declare=".shared .align 16 .b8 "
                  "S[2048];\n",
              outputs=[f"out:{table}:0:{WIDTHS[table]}"])


FORMATS = {"u8": (1, 1), "u16": (2, 2), "u32": (3, 4), "s8": (8, 1), "s16": (9, 2), "s32": (10, 4), "f16": (16, 2),
    "f32": (32, 4)}
ADDRESS = {"wrap": 0, "clamp": 1, "mirror": 2, "border": 3}


def textures(m):
    """Fetches through texture objects, with coordinates that meet edges, centres and ties of the filter's fractions."""
    sizes = {"1": (16, 0, 0), "2": (16, 8, 0), "3": (8, 8, 4), "a1": (16, 0, 4), "a2": (16, 8, 4), "c": (8, 8, 6),
        "ac": (8, 8, 12)}
    names = {"1": "1d", "2": "2d", "3": "3d", "a1": "a1d", "a2": "a2d", "c": "cube", "ac": "acube"}

    def fetch(kind, fmt, channels, linear, address, normalized, how="", mips=1, mip_linear=0, tail="", integer=False,
        result=None, flags=0,
              opcode="tex", name=""):
        w, h, d = sizes[kind]
        code, size = FORMATS[fmt]
        whole = fmt[0] in "us" and (not linear or fmt in ("u32", "s32")) and result == "raw"
        flags |= (1 if whole else 0) | (2 if normalized else 0)
        to = ("u32" if fmt[0] == "u" else "s32") if whole else "f32"
        texels = sum(max(w >> n, 1) * max(h >> n, 1) * (d if kind in ("a1", "a2", "c", "ac") and d else max(d >> n,
            1)) for n in range(mips))
        table = {"f32": ("unit", 4), "f16": ("mild_f16", 4)}.get(fmt, ("bits", 4))
        place = m.tables.place(table[0], 40, (texels * channels * size + 3) // 4 + 16)
        spec = (f"t{kind}:{code}:{channels}:{w}:{h}:{d}:{mips}:{int(linear)}:{mip_linear}:{ADDRESS[address]}:{flags}:"
                f"{place}")
        count = {"1": 1, "2": 2, "3": 3, "a1": 1, "a2": 2, "c": 3, "ac": 3}[kind]
        lanes = 1024
        coordinate = "unit" if normalized and kind not in ("c", "ac") else "texel"
        inputs = [(coordinate, 20 + n, lanes) for n in range(count)]
        body = "mul.wide.u32 l0, I, 4;\n"
        for n in range(count):
            body += f"add.u64 l1, l0, %in{n}; ld.global.u32 r{20 + n}, [l1];\n"
            if integer:
                body += f".reg .f32 g{n}; mov.b32 g{n}, r{20 + n}; cvt.rzi.s32.f32 r{20 + n}, g{n};\n"
        body += "shr.u32 r30, I, 3; rem.u32 r30, r30, 14;\n"              # the layer: also behind the last
        coords = {"1": ["r20"], "2": ["r20", "r21"], "3": ["r20", "r21", "r22", "r22"], "a1": ["r30", "r20"],
                  "a2": ["r30", "r20", "r21", "r21"], "c": ["r20", "r21", "r22", "r22"], "ac": ["r30", "r20", "r21",
                  "r22"]}[kind]
        body += (f"{opcode}{how}.{names[kind]}.v4.{to}.{'s32' if integer else 'f32'} {{r4, r5, r6, r7}}, "
                 f"[%in{count}, {braces(coords)}]{tail};\n"
                 "st.global.v4.u32 [C], {r4, r5, r6, r7};")
        label = f"{opcode}{how}.{names[kind]}.{to} {fmt}x{channels} {'linear' if linear else 'point'} {address}" + \
            (" normalized" if normalized else "") + (" integer" if integer else "") + \
            (f" flags {flags:#x}" if flags & ~3 else "") + name
        m.add(label, body, inputs, 16 * lanes, extra=[spec], grid=(8, 1, 1), block=(128, 1, 1),
              outputs=[f"out:{to if to == 'f32' else 'u32'}:0:4"])

    for kind in sizes:
        for fmt, channels in (("f32", 1), ("f32", 4), ("u8", 4), ("s8", 2), ("u16", 1), ("s16", 4), ("f16", 4), ("u32",
            1), ("s32", 2)):
            for linear in (False, True):
                if linear and fmt in ("u32", "s32"):
                    continue
                for address in ADDRESS if fmt in ("f32", "u8") and channels != 1 or fmt == "u32" else ("clamp",):
                    for normalized in (False, True):
                        if kind in ("c", "ac") and not normalized or not normalized and address in ("wrap", "mirror"):
                            continue
                        fetch(kind, fmt, channels, linear, address, normalized)
        for fmt, channels in (("u8", 4), ("s8", 1), ("u16", 2), ("s16", 1)):
            fetch(kind, fmt, channels, False, "border", True, result="raw")
        if kind in ("1", "2", "3", "a1", "a2"):
            for address in ("clamp", "border"):
                fetch(kind, "f32", 1, False, address, False, integer=True)
        for mip_linear in (0, 1):
            for linear in (False, True):
                for level in ("0f00000000", "0f3f000000", "0f3fa00000", "0f3f400000", "0fbf800000", "0f41000000",
                    "0f3ff80000"):
                    fetch(kind, "f32", 4, linear, "clamp", True, ".level", 3, mip_linear, f", {level}",
                          name=f" mips {'linear' if mip_linear else 'point'} level {level}")
                    fetch(kind, "u8", 4, linear, "wrap", True, ".level", 3, mip_linear, f", {level}",
                          name=f" mips {'linear' if mip_linear else 'point'} level {level}")
    fetch("2", "u8", 4, False, "clamp", True, flags=0x10)
    fetch("2", "u8", 4, True, "clamp", True, flags=0x10)
    for mip_linear in (0, 1):
        for x, y in (("0f3d800000", "0f00000000"), ("0f3e000000", "0f3e000000"), ("0f3e800000", "0f3d000000"),
            ("0f00000000", "0f3e800000")):
            fetch("2", "f32", 4, True, "clamp", True, ".grad", 3, mip_linear, f", {{{x}, {y}}}, {{{y}, {x}}}",
                  name=f" gradients {x} {y} mips {'linear' if mip_linear else 'point'}")
    for letter in "rgba":
        for address in ("clamp", "wrap", "border"):
            fetch("2", "f32", 4, False, address, True, f".{letter}", opcode="tld4")
        fetch("2", "u8", 4, False, "clamp", True, f".{letter}", opcode="tld4")
        fetch("2", "u8", 4, True, "clamp", True, f".{letter}", opcode="tld4")
    # surfaces
    for mode in ("zero", "clamp"):
        for kind, names_ in (("s1", "1d"), ("s2", "2d"), ("s3", "3d")):
            w, h, d = {"s1": (16, 0, 0), "s2": (16, 8, 0), "s3": (8, 8, 4)}[kind]
            place = m.tables.place("bits", 40, 4096)
            spec = f"t{kind}:3:1:{w}:{h}:{d}:1:0:0:0:0:{place}"
            coords = {"s1": ["r20"], "s2": ["r20", "r21"], "s3": ["r20", "r21", "r22", "r22"]}[kind]
            for wide, letter in ((8, "h"), (16, "h"), (32, "r")):
                body = ("mul.wide.u32 l0, I, 4; and.b32 r20, I, 31; sub.s32 r20, r20, 5; shl.b32 r20, r20, 2; "
                        "shr.u32 r21, I, 5; and.b32 r21, r21, 15; "
                        "sub.s32 r21, r21, 3; shr.u32 r22, I, 8; sub.s32 r22, r22, 1;\n"
                        f"suld.b.{names_}.b{wide}.{mode} {letter}4, [%in0, {braces(coords)}]; "
                        f"cvt.u32.u{max(wide, 16)} r5, {letter}4; add.u64 l1, l0, A; "
                        "st.global.u32 [l1], r5;") if letter == "h" else (
                        "mul.wide.u32 l0, I, 4; and.b32 r20, I, 31; sub.s32 r20, r20, 5; shl.b32 r20, r20, 2; "
                        "shr.u32 r21, I, 5; and.b32 r21, r21, 15; "
                        "sub.s32 r21, r21, 3; shr.u32 r22, I, 8; sub.s32 r22, r22, 1;\n"
                        f"suld.b.{names_}.b{wide}.{mode} r5, [%in0, {braces(coords)}]; add.u64 l1, l0, A; "
                        f"st.global.u32 [l1], r5;")
                m.add(f"suld.b.{names_}.b{wide}.{mode}", body, (), 4096, extra=[spec], grid=(8, 1, 1), block=(128, 1,
                    1), outputs=["out:u32:0:4"])


def faults(m):
    """How kernels end badly: codes of the launch and of cuCtxSynchronize."""
    def bad(name, body, **shape):
        m.add("fault: " + name, body, shape.pop("inputs", ()), shape.pop("out", 4096), flags="s", **shape)

    for name, body in {
        "ld.global of 0": "mov.u64 l1, 0; ld.global.u32 r4, [l1]; st.global.u32 [A], r4;",
        "st.global to 0": "mov.u64 l1, 0; st.global.u32 [l1], I;",
        "st to 0": "mov.u64 l1, 0; st.u32 [l1], I;",
        "atom at 0x7fffffff0000": "mov.u64 l1, 0x7fffffff0000; atom.global.add.u32 r4, [l1], 1;",
        "ld at 2^63": "mov.u64 l1, 0x8000000000000000; ld.u32 r4, [l1]; st.global.u32 [A], r4;",
        "ld.global behind 2^48": "mov.u64 l1, 0x1000000000000; add.u64 l1, l1, A; ld.global.u32 r4, [l1]; "
                                 "st.global.u32 [A], r4;",
        "one lane of 96": "setp.eq.u32 p1, I, 77; mov.u64 l1, A; @p1 mov.u64 l1, 64; st.global.u32 [l1], I;",
        "ld.global misaligned by 2": "ld.global.u32 r4, [A+2]; st.global.u32 [A], r4;",
        "ld.global misaligned by 1 of b16": "ld.global.u16 h4, [A+1]; st.global.u16 [A], h4;",
        "st.global.u64 misaligned by 4": "st.global.u64 [A+4], A;",
        "ld.v2 misaligned by 4": "ld.global.v2.u32 {r4, r5}, [A+4]; st.global.u32 [A], r5;",
        "ld.v4 misaligned by 8": "ld.global.v4.u32 {r4, r5, r6, r7}, [A+8]; st.global.u32 [A], r7;",
        "atom misaligned": "atom.global.add.u64 l4, [A+4], 1;",
        "atom misaligned by 2": "atom.global.add.u32 r4, [A+2], 1;",
        "misaligned and out of reach": "mov.u64 l1, 3; ld.global.u32 r4, [l1]; st.global.u32 [A], r4;",
        "trap": "trap;",
        "brkpt": "brkpt;",
        "trap of one lane, others end": "setp.eq.u32 p1, I, 77; @p1 trap;",
        "trap of one lane, others wait": "setp.eq.u32 p1, I, 33; @p1 trap; bar.sync 0, 128;",
        "barrier 17": "add.u32 r4, I, 17; bar.sync r4;",
        "barrier with 33 threads": "mov.u32 r4, 33; bar.sync 0, r4;",
        "barrier with 0 threads": "mov.u32 r4, 0; bar.sync 0, r4;",
        "call of 0": "P: .callprototype _ (); mov.u64 l1, 0; call l1, (), P;",
        "call of data": "P: .callprototype _ (); call A, (), P;",
        "shfl with no lane of the mask": "setp.lt.u32 p1, L, 16; @p1 shfl.sync.idx.b32 r4, I, 0, 0x1f, 0xff; "
                                         "st.global.u32 [B], r4;",
        "exit of some before bar.sync": "setp.lt.u32 p1, T, 32; @p1 exit; bar.sync 0; st.global.u32 [B], 1;",
        "bar.sync of some lanes": "setp.lt.u32 p1, L, 7; @p1 bra X$; bar.sync 0; X$: st.global.u32 [B], 1;",
        "a constant that is written": "mov.u64 l1, K$; cvta.const.u64 l1, l1; st.u32 [l1], 7;",
        "cvta.local of 0 read by generic": "mov.u64 l1, 0; cvta.local.u64 l1, l1; ld.u32 r4, [l1]; st.global.u32 "
                                           "[B], r4;",
        "nanosleep": "nanosleep.u32 100; st.global.u32 [B], 1;",
        "discard and prefetch of 0": "mov.u64 l1, 0; prefetch.global.L1 [l1]; prefetch.global.L2 [l1]; st.global.u32 "
                                     "[B], 1;",
        "prefetchu of 0": "mov.u64 l1, 0; prefetchu.L1 [l1]; st.global.u32 [B], 1;",
        "applypriority of 0": "mov.u64 l1, 0; applypriority.global.L2::evict_normal [l1], 128; st.global.u32 [B], 1;",
        "ldmatrix misaligned": "mov.u32 r4, 8; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r5}, [r4]; st.global.u32 "
                               "[B], r5;",
        "multimem.red of plain memory": "multimem.red.relaxed.gpu.global.add.u32 [A], 1;",
        "wgmma bad layout": "st.global.u32 [B], 1;",
        "setmaxnreg of one warp": "st.global.u32 [B], 1;",
    }.items():
        bad(name, body, block=(96, 1, 1), module=".const .align 8 .b8 K$[16];\n")
    S = ".shared .align 16 .b8 S[512];\n"
    for name, body in {
        "ld.shared misaligned": "ld.shared.u32 r4, [S+2]; st.global.u32 [A], r4;",
        "st.shared misaligned": "st.shared.u32 [S+2], I;",
        "st.shared.v4 misaligned by 8": "st.shared.v4.u32 [S+8], {I, I, I, I};",
        "st.shared by generic misaligned": "mov.u64 l1, S; cvta.shared.u64 l1, l1; st.u32 [l1+2], I;",
        "ld.shared behind the allocation": "mov.u32 r5, S; ld.shared.u32 r4, [r5+512]; st.global.u32 [A], r4;",
        "ld.shared 1 KiB behind": "mov.u32 r5, S; ld.shared.u32 r4, [r5+1536]; st.global.u32 [A], r4;",
        "ld.shared 4 KiB behind": "mov.u32 r5, S; ld.shared.u32 r4, [r5+4096]; st.global.u32 [A], r4;",
        "ld.shared 64 KiB behind": "mov.u32 r5, S; add.u32 r5, r5, 65536; ld.shared.u32 r4, [r5]; st.global.u32 [A], "
                                   "r4;",
        "ld.shared at 2^31": "mov.u32 r5, 0x7ffffffc; ld.shared.u32 r4, [r5]; st.global.u32 [A], r4;",
        "st.shared at 16 MiB": "mov.u32 r5, S; add.u32 r5, r5, 0x1000000; st.shared.u32 [r5], I;",
        "st.shared::cluster at 16 MiB": "mov.u32 r5, S; add.u32 r5, r5, 0x1000000; st.shared::cluster.u32 [r5], I;",
        "mapa of rank 1 without a cluster": "mov.u32 r5, S; mapa.shared::cluster.u32 r5, r5, 1; "
                                            "st.shared::cluster.u32 [r5], I;",
        "st by generic to shared 64 KiB behind": "mov.u64 l1, S; cvta.shared.u64 l1, l1; add.u64 l1, l1, 65536; "
                                                 "st.u32 [l1], I;",
        "st by generic to shared 1 KiB behind": "mov.u64 l1, S; cvta.shared.u64 l1, l1; add.u64 l1, l1, 1536; st.u32 "
                                                "[l1], I;",
        "atom.shared misaligned": "atom.shared.add.u32 r4, [S+2], 1; st.global.u32 [A], r4;",
        "cp.async misaligned": "mov.u32 r4, S; cp.async.ca.shared.global [r4+4], [A], 16; cp.async.wait_all;",
        "cp.async from 0": "mov.u32 r4, S; mov.u64 l1, 0; cp.async.ca.shared.global [r4], [l1], 16; cp.async.wait_all;",
        "cp.async.bulk of 8 bytes": "mov.u32 r4, S; mov.u32 r5, 8; cp.async.bulk.global.shared::cta.bulk_group [A], "
                                    "[r4], r5; "
                                    "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
        "cp.async.bulk misaligned": "mov.u32 r4, S; cp.async.bulk.global.shared::cta.bulk_group [A+8], [r4], 16; "
                                    "cp.async.bulk.commit_group;"
                                    " cp.async.bulk.wait_group 0;",
        "cp.async.bulk of 0 bytes": "mov.u32 r4, S; mov.u32 r5, 0; cp.async.bulk.global.shared::cta.bulk_group [A], "
                                    "[r4], r5; "
                                    "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
        "cp.async.bulk to 0": "mov.u32 r4, S; mov.u64 l1, 0; cp.async.bulk.global.shared::cta.bulk_group [l1], [r4], "
                              "16; "
                              "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
        "mbarrier with 0 threads": "mov.u32 r4, S; mov.u32 r5, 0; mbarrier.init.shared.b64 [r4], r5;",
        "mbarrier with 2^20 threads": "mov.u32 r4, S; mov.u32 r5, 0x100000; mbarrier.init.shared.b64 [r4], r5;",
        "mbarrier misaligned": "mov.u32 r4, S; mbarrier.init.shared.b64 [r4+4], 1;",
        "mbarrier with too many arrivals": "mov.u32 r4, S; setp.ne.u32 p1, T, 0; @p1 bra END; "
                                           "mbarrier.init.shared.b64 [r4], 1; mov.u32 r5, 3; "
                                           "mbarrier.arrive.shared.b64 l4, [r4], r5; st.global.u64 [A], l4;",
        "mbarrier.arrive of what is none": "mov.u32 r4, S; st.shared.u64 [r4], 0; bar.sync 0; "
                                           "mbarrier.arrive.shared.b64 l4, [r4]; "
                                           "st.global.u64 [A], l4;",
    }.items():
        bad(name, body, block=(32, 1, 1), declare=S)
    for name, body, size in (("ld.local misaligned", "ld.local.u32 r4, [S+2]; st.global.u32 [A], r4;", 16),
                             ("ld.local 1 MiB behind", "mov.u32 r5, S; add.u32 r5, r5, 1048576; ld.local.u32 r4, "
                                                       "[r5]; st.global.u32 [A], r4;", 16),
                             ("st.local 64 KiB behind", "mov.u32 r5, S; add.u32 r5, r5, 65536; st.local.u32 [r5], I;",
                                 16),
                             ("ld.local 1 KiB behind", "mov.u32 r5, S; add.u32 r5, r5, 1024; ld.local.u32 r4, [r5]; "
                                                       "st.global.u32 [A+4], 1;", 16),
                             ("ld by generic behind local", "mov.u64 l1, S; cvta.local.u64 l1, l1; add.u64 l1, l1, "
                                                            "65536; ld.u32 r4, [l1]; "
                              "st.global.u32 [A], r4;", 16)):
        bad(name, body, block=(32, 1, 1), declare=f".local .align 8 .b8 S[{size}];\n")
    recursion = (".func f$(.param .b32 n);\n.func f$(.param .b32 n)\n{\n.reg .b32 r; .reg .b64 l; .local .align 8 "
                 ".b8 X[64]; ld.param.b32 r, [n]; "
                 "mov.u64 l, X; st.local.u32 [l+4], r; add.u32 r, r, 1;\n{ .param .b32 x; st.param.b32 [x], r; call "
                 "f$, (x); }\nld.local.u32 r, "
                 "[l+4]; st.local.u32 [l], r; ret;\n}\n")
    bad("recursion without end", "{ .param .b32 x; st.param.b32 [x], I; call f$, (x); }", module=recursion, grid=(4, 1,
        1), block=(64, 1, 1))
    done = "st.global.u32 [A], 1;"
    for name, attributes, shape in (
            ("block of 2048", "", {"block": (2048, 1, 1)}), ("block 1 x 1 x 65", "", {"block": (1, 1, 65)}),
            ("block 1 x 1 x 64", "", {"block": (1, 1, 64)}), ("block 0", "", {"block": (0, 1, 1)}), ("grid 0", "",
                {"grid": (0, 1, 1)}),
            ("grid 1 x 65536", "", {"grid": (1, 65536, 1)}), ("grid 1 x 1 x 65536", "", {"grid": (1, 1, 65536)}),
            ("grid 2^31", "", {"grid": (0x80000000, 1, 1)}), ("maxntid 64, block 128", ".maxntid 64, 1, 1",
                {"block": (128, 1, 1)}),
            ("maxntid 64, block 8 x 8", ".maxntid 64, 1, 1", {"block": (8, 8, 1)}), ("maxntid 8 x 8, block 64",
                ".maxntid 8, 8, 1",
                                                                                      {"block": (64, 1, 1)}),
            ("reqntid 64, block 32", ".reqntid 64, 1, 1", {"block": (32, 1, 1)}),
            ("reqntid 8 x 8, block 64", ".reqntid 8, 8, 1", {"block": (64, 1, 1)}),
            ("reqntid 64, block 128", ".reqntid 64, 1, 1", {"block": (128, 1, 1)}), ("shared 48 KiB", "",
                {"shared": 49152}),
            ("shared 227 KiB", "", {"shared": 227 << 10}), ("shared 228 KiB", "", {"shared": 228 << 10}),
            ("cluster 8", "", {"grid": (16, 1, 1), "cluster": (8, 1, 1)}), ("cluster 9", "", {"grid": (18, 1, 1),
                "cluster": (9, 1, 1)}),
            ("cluster 16", "", {"grid": (16, 1, 1), "cluster": (16, 1, 1)}),
            ("cluster 3 of 4 blocks", "", {"grid": (4, 1, 1), "cluster": (3, 1, 1)}),
            ("cluster 2 x 2 of 2 x 1", "", {"grid": (2, 1, 1), "cluster": (2, 2, 1)}),
            ("reqnctapercluster 2, none", ".reqnctapercluster 2, 1, 1", {"grid": (4, 1, 1)}),
            ("reqnctapercluster 2, 3 blocks", ".reqnctapercluster 2, 1, 1", {"grid": (3, 1, 1)}),
            ("reqnctapercluster 2, cluster 4", ".reqnctapercluster 2, 1, 1", {"grid": (4, 1, 1), "cluster": (4, 1, 1)}),
            ("reqnctapercluster 2, cluster 2", ".reqnctapercluster 2, 1, 1", {"grid": (4, 1, 1), "cluster": (2, 1, 1)}),
            ("explicitcluster, none", ".explicitcluster", {"grid": (4, 1, 1)}),
            ("explicitcluster, cluster 2", ".explicitcluster", {"grid": (4, 1, 1), "cluster": (2, 1, 1)}),
            ("maxclusterrank 4, cluster 8", ".explicitcluster .maxclusterrank 4", {"grid": (8, 1, 1), "cluster": (8, 1,
                1)}),
            ("maxclusterrank 4, cluster 4", ".explicitcluster .maxclusterrank 4", {"grid": (8, 1, 1), "cluster": (4, 1,
                1)}),
            ("maxnreg 24, block 1024", ".maxnreg 24", {"block": (1024, 1, 1)})):
        bad("shape: " + name, done, attributes=attributes, **shape)
    bad("many registers and 1024 threads", "\n".join(f"add.u64 l1, A, {8 * n}; ld.volatile.global.u32 r{4 + n}, "
                                                     f"[l1];" for n in range(140)) + "\n" +
        "\n".join(f"xor.b32 r{5 + n}, r{5 + n}, r{4 + n};" for n in range(139)) + "\n" +
        "\n".join(f"add.u64 l1, A, {8 * n}; st.volatile.global.u32 [l1], r{143 - n};" for n in range(140)),
        block=(1024, 1, 1), out=16384)


def all_cases(case, tables, first):
    m = Maker(case, tables, first)
    for part in (loads_and_stores, atomics, meetings, tiles, copies, wgmma, textures, faults):
        part(m)
    return m.cases
