"""values.py: the values that the cases of cases.py work on: tables of edges, crossed, and of random patterns.

A kind is what one operand is taken from: "f32", "s16", "count" … Table (kind, slot) holds one value for each lane. In
the first lanes the edges of slot 0 and slot 1 meet, each with each. All is the same in every run.
"""
import random
import struct

FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52), "tf32": (8, 23)}
WIDTHS = {"pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "b32": 4, "u32": 4, "s32": 4, "b64": 8,
          "u64": 8, "s64": 8, "b128": 16, "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "f16x2": 4, "bf16x2": 4, "u16x2": 4,
          "s16x2": 4, "f32x2": 8, "tf32": 4, "e4m3x2": 2, "e5m2x2": 2, "count": 4, "lane": 4, "clamp": 4, "few": 4,
          "few64": 8, "meta": 4, "all16": 2, "all16x2": 4, "dense": 4, "dense64": 8, "offset": 4, "zero": 4,
          "mild_f16": 4, "mild_bf16": 4, "mild_f32": 4, "mild_tf32": 4, "mild_f64": 8, "mild_f16c": 4, "mild_e4m3": 4,
          "mild_e5m2": 4, "bits": 4, "mild_s32": 4, "unit": 4, "texel": 4}


def float_edges(exponent_bits, fraction_bits):
    fraction, exponents = (1 << fraction_bits) - 1, (1 << exponent_bits) - 1
    sign, bias, one = 1 << (exponent_bits + fraction_bits), exponents >> 1, 1 << fraction_bits
    quiet = one >> 1
    positive = [0, 1, fraction, one, (exponents - 1) * one + fraction, exponents * one, bias * one, bias * one + 1,
                bias * one - 1, (bias - 1) * one, bias * one + quiet, (bias + 1) * one + (quiet >> 1)]
    return positive + [sign | x for x in positive] + [exponents * one + quiet, exponents * one + 1,
                                                       sign | exponents * one | quiet | 5,
                                                       (bias + fraction_bits) * one + 1]


EXTRA = {"f32": [0x477fe000, 0x477ff000, 0xcf000000, 0x4f800000], "f64": [0x47efffffe0000000, 0x47effffff0000000,
                                                                           0x41dfffffffc00000, 0xc1e0000000000000]}


def integer_edges(bits):
    mask = (1 << bits) - 1
    return [x & mask for x in (0, 1, 2, 3, 7, 8, 15, 31, 32, 33, 127, 128, 255, 0x5555555555555555, 0xaaaaaaaaaaaaaaaa,
                               0x0123456789abcdef, mask, mask - 1, mask >> 1, (mask >> 1) + 1, (mask >> 1) - 1,
                               (mask >> 1) + 2, 0xffff, 0x10000)]


def random_float(r, exponent_bits, fraction_bits):
    fraction, exponents = (1 << fraction_bits) - 1, (1 << exponent_bits) - 1
    sign, bias = r.getrandbits(1) << (exponent_bits + fraction_bits), exponents >> 1
    bits = r.getrandbits(fraction_bits)
    which = r.randrange(16)
    if which == 0:
        return sign | bits                                          # subnormal
    if which == 1:
        return sign | exponents << fraction_bits | (bits if r.randrange(2) else 0)
    if which <= 6:                                                  # near 1: sums cancel, products round
        return sign | (bias - 2 + r.randrange(5)) << fraction_bits | bits
    if which <= 8:
        return sign | (bias - 1 + r.randrange(3)) << fraction_bits | (bits & ~(fraction >> 4))
    if which <= 10:                                                 # of the size of integers
        return sign | (bias + r.randrange(min(66, bias))) << fraction_bits | bits
    if which == 11:                                                 # small
        return sign | r.randrange(min(8, exponents)) << fraction_bits | bits
    if which == 12:                                                 # large
        return sign | (exponents - 1 - r.randrange(min(8, exponents - 1))) << fraction_bits | bits
    return sign | r.randrange(exponents) << fraction_bits | bits


def random_integer(r, bits):
    mask = (1 << bits) - 1
    which = r.randrange(8)
    if which == 0:
        return 1 << r.randrange(bits)
    if which == 1:
        return (1 << r.randrange(bits)) - 1
    if which == 2:
        return -(1 << r.randrange(bits)) & mask
    if which == 3:
        return r.randrange(70) & mask
    if which == 4:
        return r.getrandbits(bits) >> r.randrange(bits)
    return r.getrandbits(bits)


def crossed(edges, slot, lane, draw):
    count = len(edges)
    if lane >= count * count:
        return draw()
    if slot == 0:
        return edges[lane // count]
    if slot == 1:
        return edges[lane % count]
    return edges[(lane * 7 + lane // count * (slot + 1)) % count] if slot < 4 else draw()


def bits_of(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def mild(r, exponent_bits, fraction_bits, lane):
    """For products of matrices, by warp: numbers near 1, whole numbers, numbers of many sizes, and anything."""
    bias = (1 << (exponent_bits - 1)) - 1
    warp = lane // 32 % 8
    sign = r.getrandbits(1) << (exponent_bits + fraction_bits)
    if warp == 7:
        return random_float(r, exponent_bits, fraction_bits) if r.randrange(6) == 0 else \
            sign | (bias - 1 + r.randrange(3)) << fraction_bits | r.getrandbits(fraction_bits)
    if warp == 6:
        exponent = bias + r.randrange(3)
        return sign | exponent << fraction_bits
    if warp in (4, 5):
        span = min(bias - 2, 6 if warp == 4 else 14)
        return sign | (bias - span + r.randrange(2 * span)) << fraction_bits | r.getrandbits(fraction_bits)
    return sign | (bias - 2 + r.randrange(4)) << fraction_bits | r.getrandbits(fraction_bits)


def table(kind, slot, lanes):
    """The bytes of the table."""
    r = random.Random(f"{kind} {slot}")
    width = WIDTHS[kind]
    values = []

    def pair(one, lane):
        return one(lane) | one(lane) << 16

    if kind in FLOATS:
        form = FLOATS[kind]
        edges = float_edges(*form) + EXTRA.get(kind, [])
        values = [crossed(edges, slot, lane, lambda: random_float(r, *form)) for lane in range(lanes)]
    elif kind in ("f16x2", "bf16x2"):
        form = FLOATS[kind[:-2]]
        edges = float_edges(*form)
        values = [crossed(edges, slot, lane, lambda: random_float(r, *form)) |
                  crossed(edges, slot, (lane * 3 + 1) % lanes, lambda: random_float(r, *form)) << 16
                  for lane in range(lanes)]
    elif kind == "f32x2":
        values = [random_float(r, 8, 23) | random_float(r, 8, 23) << 32 for _ in range(lanes)]
    elif kind in ("u16x2", "s16x2"):
        edges = integer_edges(16)
        values = [crossed(edges, slot, lane, lambda: random_integer(r, 16)) | random_integer(r, 16) << 16
                  for lane in range(lanes)]
    elif kind == "count":
        edges = [0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 127, 128, 255, 256, 257, 0x80000000, 0xffffffff]
        values = [crossed(edges, slot, lane, lambda: r.choice((r.randrange(80), r.randrange(300), r.getrandbits(32))))
                  for lane in range(lanes)]
    elif kind == "lane":
        values = [r.randrange(36) for _ in range(lanes)]
    elif kind == "clamp":
        values = [r.getrandbits(32) & 0x1f1f for _ in range(lanes)]
    elif kind in ("few", "few64"):
        choices = [r.getrandbits(8 * width) for _ in range(5)]
        # by warp, all alike or not
        values = [choices[lane // 32 % 5] if lane // 32 % 3 == 0 else r.choice(choices) for lane in range(lanes)]
    elif kind == "pred":
        values = [crossed([0, 1], slot, lane, lambda: r.getrandbits(1)) if lane // 32 % 4 else lane // 128 % 2
                  for lane in range(lanes)]
    elif kind == "meta":
        nibbles = (0x4, 0x8, 0x9, 0xc, 0xd, 0xe)
        values = [sum(r.choice(nibbles) << 4 * n for n in range(8)) for _ in range(lanes)]
    elif kind == "all16":
        values = [lane & 0xffff for lane in range(lanes)]
    elif kind == "all16x2":
        values = [(lane & 0xffff) | (lane * 40503 & 0xffff) << 16 for lane in range(lanes)]
    elif kind in ("dense", "dense64"):
        edges = float_edges(8, 23)
        values = edges + [r.getrandbits(14) | n << 14 for n in range(0, 1 << 18, 8)]
        half = (lanes - len(values)) // 4
        for low, high in ((-7.0, 7.0), (-130.0, 130.0), (0.25, 4.0)):
            values += [bits_of(r.uniform(low, high)) for _ in range(half)]
        while len(values) < lanes:
            values.append(bits_of(r.uniform(-1e6, 1e6)))
        values = values[:lanes]
        if kind == "dense64":
            edges = float_edges(11, 52)
            values = (edges + [random_float(r, 11, 52) for _ in range(lanes)])[:lanes]
    elif kind == "zero":
        values = [0] * lanes
    elif kind == "offset":
        values = [r.randrange(-9, 10) & 0xffffffff for _ in range(lanes)]
    elif kind == "mild_s32":
        values = [r.choice((r.getrandbits(32), r.randrange(-1000, 1000) & 0xffffffff, 0x7fffffff - r.randrange(9),
                            0x80000000 + r.randrange(9), 0)) if lane // 32 % 4 == 3 else
                  r.randrange(-100000, 100000) & 0xffffffff for lane in range(lanes)]
    elif kind == "bits":
        values = [r.getrandbits(32) for _ in range(lanes)]
    elif kind == "unit":
        values = [bits_of(r.choice((r.uniform(-0.5, 1.5), r.uniform(-0.5, 1.5), r.randrange(-48, 80) / 32,
                                    r.randrange(-96, 160) / 64, r.uniform(-3, 4)))) for _ in range(lanes)]
    elif kind == "texel":
        values = [bits_of(r.choice((r.uniform(-4, 20), r.uniform(0, 8), r.randrange(-16, 80) / 4,
                                    r.randrange(0, 4096) / 512 + 1 / 1024, r.randrange(0,
                                        16) + 0.5))) for _ in range(lanes)]
    elif kind in ("mild_f16", "mild_bf16"):
        form = FLOATS[kind[5:]]
        values = [pair(lambda n: mild(r, *form, n), lane) for lane in range(lanes)]
    elif kind == "mild_f16c":
        values = [pair(lambda n: mild(r, 5, 10, n), lane) for lane in range(lanes)]
    elif kind in ("mild_f32", "mild_tf32"):
        values = [mild(r, 8, 23, lane) for lane in range(lanes)]
    elif kind == "mild_f64":
        values = [mild(r, 11, 52, lane) for lane in range(lanes)]
    elif kind == "mild_e4m3":
        values = [sum((r.getrandbits(8) if lane // 32 % 8 == 7 else r.getrandbits(1) << 7 | r.randrange(24,
            88)) << 8 * n
                      for n in range(4)) for lane in range(lanes)]
    elif kind == "mild_e5m2":
        values = [sum((r.getrandbits(8) if lane // 32 % 8 == 7 else r.getrandbits(1) << 7 | r.randrange(40,
            84)) << 8 * n
                      for n in range(4)) for lane in range(lanes)]
    else:
        bits = 8 * width
        edges = integer_edges(bits)
        values = [crossed(edges, slot, lane, lambda: random_integer(r, bits)) for lane in range(lanes)]
    return b"".join(value.to_bytes(width, "little") for value in values)


class Tables:
    """Gives each table that is asked for its place in one file."""

    def __init__(self):
        self.places, self.blob = {}, bytearray()

    def place(self, kind, slot, lanes):
        key = (kind, slot, lanes)
        if key not in self.places:
            self.blob += b"\0" * (-len(self.blob) % 256)
            self.places[key] = len(self.blob)
            self.blob += table(kind, slot, lanes)
        return self.places[key]
