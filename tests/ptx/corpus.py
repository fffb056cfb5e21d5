#!/usr/bin/env python3
"""corpus.py PTX_READ NVCC [--long]: compiles tests/ptx/corpus/*.cu to PTX, reads it, and compares what was found with a
count made here in a simpler way. Without nvcc it skips (77). --long: every source for every architecture, also as
relocatable code; else a selection, without library.cu, in which nvcc needs 15 s of a processor for CUB and Thrust."""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from testlib import plan, result, skip, skip_all  # noqa: E402

CPLUSPLUS = {"language": "-std=c++14", "hardware": "-std=c++17", "library": "-std=c++17"}
ARCHITECTURES = [75, 80, 90, 100, 121]
TOKEN = re.compile(r'"[^"]*"|::|[;{}:]|[^\s;{}:"]+')


def cases(long):
    for name in ["language", "hardware"]:
        for architecture in ARCHITECTURES if long else [75, 90, 121]:
            for rdc in ["false", "true"]:
                if long or (rdc == "true") == (architecture == 90):
                    yield name, architecture, ["-rdc=" + rdc]
    for flags in [["-G"], ["-lineinfo"], ["-O1", "-maxrregcount=32"]]:
        yield "language", 75, flags
    for architecture in ARCHITECTURES if long else []:
        yield "library", architecture, []


def expected(text):
    """Kernels and instructions. A brace where a statement could start opens a block; elsewhere it is a vector."""
    text = re.sub(r"//.*|^\s*\.loc\s.*", "", text, flags=re.M)
    text = text.split("\t.section", 1)[0]
    instructions = vector = 0
    words = []
    for token in TOKEN.findall(text):
        if vector:
            vector += (token == "{") - (token == "}")
        elif token == "{" and (not words or ".entry" in words or ".func" in words):
            words = []
        elif token == "{":
            vector = 1
        elif token == "}":
            words = []
        elif token == ";":
            instructions += bool(words) and not words[0].startswith(".")
            words = []
        elif token == ":" and len(words) == 1:
            words = []
        else:
            words.append(token)
    return len(re.findall(r"\.entry\b", text)), instructions


def main():
    if len(sys.argv) < 3:
        print(__doc__)
        return 2
    reader, nvcc = sys.argv[1:3]
    try:
        subprocess.run([nvcc, "--version"], stdout=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError):
        return skip_all(f"no nvcc at {nvcc}")
    texts = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, architecture, flags) in enumerate(cases("--long" in sys.argv)):
            title = f"{name}.cu for compute_{architecture} {' '.join(flags)}"
            output = os.path.join(folder, f"{number}.ptx")
            compiled = subprocess.run([nvcc, "-ptx", f"-arch=compute_{architecture}", CPLUSPLUS[name],
                                       "-Wno-deprecated-gpu-targets", *flags,
                                       os.path.join(HERE, "corpus", name + ".cu"), "-o", output], capture_output=True,
                                       text=True)
            if compiled.returncode:
                if "nsupported gpu architecture" in compiled.stderr or "Unsupported" in compiled.stderr:
                    skip(title, "this nvcc does not know it")
                else:
                    result(title, f"nvcc failed\n{compiled.stderr[-800:]}")
                continue
            read = subprocess.run([reader, output], capture_output=True, text=True)
            found = re.search(r"(\d+) of them kernels, (\d+) undefined, (\d+) instructions", read.stdout)
            with open(output) as text:
                kernels, instructions = expected(text.read())
            good = (read.returncode == 0 and found and int(found[1]) == kernels and kernels > 0 and int(found[2]) == 0
                    and int(found[3]) == instructions)
            result(title, "" if good else f"counted {kernels} kernels, {instructions} instructions; "
                   f"ptx_read: {read.stdout[-300:]} {read.stderr}")
            if flags == ["-rdc=true"] and architecture == 90:
                texts.append(output)
        read = subprocess.run([reader, *texts], capture_output=True, text=True)
        good = read.returncode == 0 and len(texts) == 2
        result("both relocatable texts link", "" if good else f"{len(texts)} texts: {read.stderr}")
    return plan()


if __name__ == "__main__":
    sys.exit(main())
