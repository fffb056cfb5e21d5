#!/usr/bin/env python3
"""compare.py FOLDER ONE OTHER [--all] [--only PART] [--examples N]: where the results of two drivers differ.

FOLDER is what cases.py wrote; ONE and OTHER are what tests/gpu/cases wrote. For each case that differs: how far it came
on each, the codes of its launch and end, and of each output how many lanes differ, by how much (units in the last
place, of floats), with examples: the inputs and both results in hexadecimal. --all also names the cases that are equal.

    compare.py --pack ONE OTHER FILE.xz       what it takes to make OTHER again from ONE
    compare.py --unpack ONE FILE.xz OTHER     makes it
"""
import argparse
import lzma
import os
import sys

FLOATS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "f16x2": 16, "bf16x2": 16, "f32x2": 32, "tf32": 32}
INFINITIES = {"f16": 0x7c00, "bf16": 0x7f80, "f32": 0x7f800000, "f64": 0x7ff0000000000000, "f16x2": 0x7c00,
              "bf16x2": 0x7f80, "f32x2": 0x7f800000, "tf32": 0x7f800000}


class Outcome:
    def __init__(self, line):
        self.name, self.stage, load, launch, sync, size, self.log = line.split("\t", 6)
        self.codes = (int(load), int(launch), int(sync))
        self.size, self.data = int(size), b""

    def text(self):
        load, launch, sync = self.codes
        return self.stage + (f" {load} ({self.log})" if self.stage == "refused" else
                             f", launch {launch}, end {sync}" + (f" ({self.log})" if self.log else ""))


def read_results(path):
    with open(path, "rb") as file:
        data = file.read()
    end = data.index(b"\n\n")
    results, at = {}, end + 2
    for line in data[:end].decode(errors="replace").split("\n"):
        o = Outcome(line)
        o.data = data[at:at + o.size]
        at += o.size
        results[o.name] = o
    return results


def read_meta(folder):
    meta = {}
    with open(os.path.join(folder, "meta.tsv"), encoding="utf-8") as file:
        for line in file.read().splitlines():
            name, inputs, outputs = line.split("\t")
            meta[name] = [[entry.split(":") for entry in text.split()] for text in (inputs, outputs)]
    return meta


def elements(kind, value):
    bits = FLOATS[kind]
    count = 2 if kind.endswith("x2") else 1
    return [value >> bits * n & (1 << bits) - 1 for n in range(count)]


def distance(kind, one, other):
    """Units in the last place between two floats; None where one of them is not a number or only one is infinite."""
    bits, infinity = FLOATS[kind], INFINITIES[kind]
    most = 0
    for a, b in zip(elements(kind, one), elements(kind, other)):
        sizes = [x & (1 << bits - 1) - 1 for x in (a, b)]
        if a == b:
            continue
        if max(sizes) > infinity:
            return None
        steps = [-size if x >> bits - 1 else size for x, size in zip((a, b), sizes)]
        most = max(most, abs(steps[0] - steps[1]))
    return most


def differences(one, other, inputs, outputs, blob, examples):
    lines = []
    for n, (name, kind, at, width) in enumerate(outputs):
        at, width = int(at), int(width)
        end = int(outputs[n + 1][2]) if n + 1 < len(outputs) else len(one)
        a, b = one[at:end], other[at:end]
        if a == b:
            continue
        lanes, count, most, unlike, shown = (end - at) // width, 0, 0, 0, []
        for lane in range(lanes):
            x, y = a[lane * width:lane * width + width], b[lane * width:lane * width + width]
            if x == y:
                continue
            count += 1
            x, y = int.from_bytes(x, "little"), int.from_bytes(y, "little")
            steps = distance(kind, x, y) if kind in FLOATS else None
            if steps is None:
                unlike += 1
            else:
                most = max(most, steps)
            kinds = sum(1 for line in shown if ("ulp" in line) == (steps is not None))
            if kinds < examples:
                values = []
                for source, _, place, size in inputs:
                    place, size = int(place) + lane * int(size), int(size)
                    value = int.from_bytes(blob[place:place + size], "little")
                    values.append(f"{source}={value:#0{2 * size + 2}x}")
                shown.append(f"      lane {lane}: {' '.join(values)}: {x:#0{2 * width + 2}x}, {y:#0{2 * width + 2}x}" +
                             (f" ({steps} ulp)" if steps is not None else ""))
        amount = f", at most {most} ulp" + (f", {unlike} more than that" if unlike else "") if kind in FLOATS else ""
        lines.append(f"    {name} ({kind}): {count} of {lanes} lanes{amount}")
        lines += shown
    return lines


def compare(options):
    meta = read_meta(options.folder)
    with open(os.path.join(options.folder, "inputs.bin"), "rb") as file:
        blob = file.read()
    one, other = read_results(options.one), read_results(options.other)
    counts = {"equal": 0, "differ": 0, "another end": 0, "refused by both": 0}
    for name, (inputs, outputs) in meta.items():
        if options.only not in name or name not in one or name not in other:
            continue
        a, b = one[name], other[name]
        if a.stage == b.stage == "refused":
            counts["refused by both"] += 1
            if options.all:
                print(f"refused by both: {name}: {b.text()}")
        elif a.stage != b.stage or a.codes != b.codes:
            counts["another end"] += 1
            print(f"another end: {name}: {a.text()} | {b.text()}")
        elif a.data == b.data:
            counts["equal"] += 1
            if options.all:
                print(f"equal: {name}: {a.text()}")
        else:
            counts["differ"] += 1
            print(f"differs: {name}")
            print("\n".join(differences(a.data, b.data, inputs, outputs, blob, options.examples)))
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["differ"] or counts["another end"] else 0


def exclusive(a, b):
    """a and b, bit by bit; the longer one's end as it is."""
    size = min(len(a), len(b))
    x = int.from_bytes(a[:size], "little") ^ int.from_bytes(b[:size], "little")
    return x.to_bytes(size, "little") + b[size:]


def pack(one, other):
    """The lines of OTHER, then its bytes; those of cases that ONE has with the same size exclusive-or'd with ONE's."""
    base = read_results(one)
    with open(other, "rb") as file:
        data = file.read()
    end = data.index(b"\n\n") + 2
    parts = [data[:end]]
    for name, o in read_results(other).items():
        parts.append(exclusive(base[name].data, o.data) if name in base and base[name].size == o.size else o.data)
    return b"".join(parts)


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "--pack":
        with lzma.open(sys.argv[4], "wb", preset=4) as file:
            file.write(pack(sys.argv[2], sys.argv[3]))
        return 0
    if len(sys.argv) == 5 and sys.argv[1] == "--unpack":
        with lzma.open(sys.argv[3]) as file, open(sys.argv[4], "wb") as out:
            out.write(file.read())
        data = pack(sys.argv[2], sys.argv[4])
        with open(sys.argv[4], "wb") as out:
            out.write(data)
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("one")
    parser.add_argument("other")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--examples", type=int, default=2)
    return compare(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
