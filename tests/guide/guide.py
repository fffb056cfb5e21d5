"""guide.py: reads docs/setup.md as somebody does who types it.

What is executed stands in fenced blocks. The first line of each is a comment that says where:

    ```sh
    # on the GPU machine: paste it, then Ctrl-D
    sudo install -m 640 -g flyt /dev/stdin /etc/flyt/node.secret
    ```
    ```text
    …
    ```
    ```conf
    # /etc/flyt/node-manager.conf on the GPU machine
    virt-server: { listen-address = "0.0.0.0"; };
    ```

`sh`: commands, one after the other, in the login shell of that machine, which stays the same from block to block.
`text` behind it: what the last command prints: each line is among its lines, in this order; … stands for anything.
`conf`: values to be changed in that file.
A block of another language, or of a place that NOT_RUN names, is not executed.
"""
import os
import re
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GUIDE = os.path.join(TOP, "docs/setup.md")

PLACES = {
    "every machine": ("cluster", "gpu-1", "vm1"),
    "the cluster's machine": ("cluster",),
    "the GPU machine": ("gpu-1",),
    "the VM": ("vm1",),
    "one machine": ("cluster",),
}
NOT_RUN = ("a machine with NVIDIA's MPS", "the host of a virtual machine", "a virtual machine")


class Block:
    """kind: sh, conf, text. heads: the headings above it, outermost first. places: names of machines."""

    def __init__(self, kind, line, heads, lines):
        self.kind, self.line, self.heads, self.lines = kind, line, tuple(heads), lines
        self.places, self.file, self.expected = (), None, None
        if kind == "text":
            return
        first = lines[0] if lines else ""
        file = "" if kind == "sh" else r"(?P<file>[/~]\S+) "
        match = re.match(rf"^# {file}on (?P<place>[^:,]+)(?P<more>[:,].*)?$", first)
        place = match["place"].strip() if match else None
        if place not in PLACES and place not in NOT_RUN:
            raise ValueError(f"docs/setup.md:{line}: the block does not say on which machine: {first}")
        self.places = PLACES.get(place, ())
        self.file = match["file"] if kind == "conf" else None
        self.how = match["more"] or ""
        self.lines = lines[1:]

    def commands(self):
        """Each with all of its lines."""
        command = ""
        for line in self.lines:
            command += ("\n" if command else "") + line
            if command.strip() and not line.endswith("\\") and is_whole(command):
                if not command.lstrip().startswith("#"):
                    yield command.strip()
                command = ""
        if command.strip():
            raise ValueError(f"docs/setup.md:{self.line}: bash does not understand: {command}")


def is_whole(command):
    return subprocess.run(["bash", "-n", "-c", command], capture_output=True).returncode == 0


def read(path=GUIDE):
    """All blocks, in order."""
    blocks, heads, fence = [], [], None
    with open(path) as guide:
        for number, line in enumerate(guide, 1):
            line = line.rstrip("\n")
            if fence:
                indent, kind, start, lines = fence
                if line.strip() == "```":
                    if kind in ("sh", "conf", "text"):
                        blocks.append(Block(kind, start, heads, lines))
                    fence = None
                else:
                    lines.append(line[indent:] if not line[:indent].strip() else line)
            elif match := re.match(r"^( *)```(\w*)$", line):
                fence = (len(match.group(1)), match.group(2), number, [])
            elif match := re.match(r"^(#+) (.*)$", line):
                heads = heads[:len(match.group(1)) - 1] + [match.group(2)]
    for before, block in zip(blocks, blocks[1:]):
        if block.kind == "text" and before.kind == "sh":
            before.expected = [line for line in block.lines if line.strip()]
    return [block for block in blocks if block.kind != "text"]


def part(blocks, *heads):
    """Those under a heading: the last of `heads` is it or a part of it, the others are above it, in this order."""
    found = [block for block in blocks if contains(block.heads, heads)]
    if not found:
        raise ValueError(f"docs/setup.md has no part \"{' / '.join(heads)}\" with commands")
    return found


def contains(heads, wanted):
    rest = iter(heads)
    return all(any(head == want for head in rest) for want in wanted)


def matches(expected, said):
    """Whether each line of `expected` is among those printed, in order. … is anything, and spaces are alike."""
    lines = iter(said.splitlines())
    for line in expected:
        words = [".*".join(re.escape(piece) for piece in word.split("…")) for word in line.split()]
        pattern = r"\s+".join(words)
        if not any(re.fullmatch(pattern, seen.strip()) for seen in lines):
            return False
    return True


# ---- configurations ----

VALUE = re.compile(r'([\w-]+)\s*=\s*("[^"]*"|\([^)]*\)|[^;"(]+);')


def edit(text, fragment):
    """What a reader makes of a configuration who is told to have these values: groups `name: { key = value; };` in
    libconfig's syntax. A key that is there, or there as a comment, is replaced; others are added."""
    for name, body in re.findall(r"^([\w-]+)\s*:\s*\{(.*?)\};$", fragment, re.M | re.S):
        group = re.search(rf"^{re.escape(name)}\s*:\s*\{{.*?^\}};", text, re.M | re.S)
        if not group:
            text += f"\n{name}:\n{{\n}};\n"
            group = re.search(rf"^{re.escape(name)}\s*:\s*\{{.*?^\}};", text, re.M | re.S)
        changed = group.group(0)
        for key, value in VALUE.findall(body):
            line = f"    {key} = {value};"
            there = next((found for sign in ("", "#[ \t]*")
                          if (found := re.search(rf"^[ \t]*{sign}{re.escape(key)}[ \t]*=[^;]*;", changed, re.M))), None)
            if there:
                changed = changed[:there.start()] + line + changed[there.end():]
            else:
                changed = changed.replace("{\n", "{\n" + line + "\n", 1)
        text = text[:group.start()] + changed + text[group.end():]
    return text
