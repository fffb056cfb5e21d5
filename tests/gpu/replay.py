#!/usr/bin/env python3
"""replay.py FOLDER FILE...: makes cases for tests/gpu/cases of launches that the executor's tests wrote down.

Each FILE is what a program of tests/exec wrote with EXEC_TEST_RECORD=FILE (tests/exec/record.h). FOLDER gets cases.txt,
inputs.bin and meta.tsv, as from cases.py. Of launches of the same kernel of the same PTX the first three are taken, of
one program's no more than 6 MiB of memory.
"""
import os
import re
import sys

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
SAME, MOST_OUT, MOST_MEMORY = 3, 1 << 18, 6 << 20
BASE = 0x300000000000


class Launch:
    """One launch as it was written down."""

    def __init__(self, data, at):
        line, at = line_of(data, at)
        (_, self.program, self.kernel, self.grid, self.block, self.cluster, shared, flags, text, used, arguments,
         variables) = line.split()
        self.shared, self.flags, self.result = int(shared), int(flags), None
        self.arguments, self.variables = [], []
        for _ in range(int(arguments)):
            line, at = line_of(data, at)
            self.arguments.append(tuple(map(int, line.split())))
        for _ in range(int(variables)):
            line, at = line_of(data, at)
            name, address, size = line.split()
            self.variables.append((name, int(address), int(size)))
        self.ptx = data[at:at + int(text)].decode()
        at += int(text)
        self.memory = data[at:at + int(used)]
        self.end = at + int(used) + 1

    def case(self, number, blob):
        place = len(blob)
        blob += self.memory + b"\0" * (-len(self.memory) % 16)
        params = [f"v{value}" for _, value in self.arguments]
        sizes = [len(self.memory)]
        params += [f"n{self.kernel}", f"w{place}:{len(self.memory)}"]
        for name, address, size in self.variables:
            if size and BASE <= address and address - BASE + size <= len(self.memory):
                params.append(f"g{name}:{place + address - BASE}:{size}")
                sizes.append(size)
        text = re.sub(r"^\s*\.(version|target|address_size)[^\n;]*$", "", self.ptx, flags=re.M)
        if not params[0].startswith("v"):
            params.insert(0, "")
        name = f"{self.program}/{self.kernel}/{number}"
        flags = "s" if self.result else "a"
        shape = "\t".join((self.grid, self.block, self.cluster))
        line = f"#case\t{name}\t{shape}\t{self.shared}\t{sum(sizes)}\t{flags}\t{','.join(params)}\n{text}\n"
        outputs, at = [], 0
        for what, size in zip(["memory"] + [name for name, *_ in self.variables], sizes):
            outputs.append(f"{what}:u32:{at}:4")
            at += size
        return line, f"{name}\t\t{' '.join(outputs[:1])}\n"


def line_of(data, at):
    end = data.index(b"\n", at)
    return data[at:end].decode(), end + 1


def read_launches(path):
    """Those that were waited for alone."""
    with open(path, "rb") as file:
        data = file.read()
    launches, at = [], 0
    while at < len(data):
        if data.startswith(b"result ", at):
            line, at = line_of(data, at)
            launches[-1].result = int(line.split()[1])
        else:
            launches.append(Launch(data, at))
            at = launches[-1].end
    return [launch for launch in launches if launch.result is not None]


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    blob, lines, meta, seen = bytearray(), [], [], {}
    for path in sys.argv[2:]:
        room = len(blob) + MOST_MEMORY
        for launch in read_launches(path):
            key = (launch.ptx, launch.kernel)
            seen[key] = seen.get(key, 0) + 1
            if seen[key] > SAME or len(launch.memory) > MOST_OUT or launch.flags or \
                    len(blob) > room or any(size > 8 for size, _ in launch.arguments):
                continue
            line, about = launch.case(len(lines), blob)
            lines.append(line)
            meta.append(about)
    with open(os.path.join(folder, "cases.txt"), "w", encoding="utf-8") as file:
        file.write(HEAD + "%%\n" + "".join(lines))
    with open(os.path.join(folder, "inputs.bin"), "wb") as file:
        file.write(blob)
    with open(os.path.join(folder, "meta.tsv"), "w", encoding="utf-8") as file:
        file.write("".join(meta))
    print(f"{len(lines)} launches, {len(blob)} bytes of memory")


if __name__ == "__main__":
    sys.exit(main())
