#!/usr/bin/env python3
"""first_steps.py: the first commands that a newcomer types, each as it stands in README.md and docs/setup.md.

shows: first steps: the commands of README.md and of docs/setup.md ("Trying it first") work as they stand there

TAP on stdout. The commands run in namespaces of their own (so ports, /run and host names are free), in a folder that
has everything of this one but the products of nvcc. ./program is a CUDA program; a server stays in the background.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PARTS = [("README.md", "By hand"), ("README.md", "A cluster"), ("docs/setup.md", "Trying it first")]
PRELUDE = r"""
set -u
n=0
mount -t tmpfs none /run && mkdir -p /run/user/1000 && mount --bind hosts /etc/hosts && ip link set lo up || exit 1
export XDG_RUNTIME_DIR=/run/user/1000 LC_ALL=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
unset ${!FLYT_@} LD_LIBRARY_PATH LD_PRELOAD MAKEFLAGS MAKELEVEL MFLAGS
make() { # setup is done: it would install packages
  [ "$*" = setup ] || command make "$@"
}
told() { # status name
  n=$((n + 1))
  if [ "$1" = 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; sed 's/^/# /' said; fi
}
"""


def commands(file, part):
    here = False
    with open(os.path.join(TOP, file)) as text:
        for line in text:
            if line.startswith("## "):
                here = line[3:].strip() == part
            elif here and (match := re.match(r"^ {4}(\S.*)$", line)):
                yield re.sub(r"\s+#.*$", "", match.group(1)).strip()


def script():
    lines, count, last = [PRELUDE], 0, None
    for file, part in PARTS:
        if file != last:  # each file is somebody's first
            lines.append("rm -f build/cuda/*\n")
        last = file
        found = list(commands(file, part))
        assert len(found) >= 3, f"only {len(found)} commands in {file}, {part}"
        for command in found:
            count += 1
            stays = command.startswith("bin/cricket-rpc-server ")
            run = f"{command} >said 2>&1 </dev/null &" if stays else f"{{ {command}\n}} >said 2>&1 </dev/null"
            wait = (
                "for i in $(seq 100); do grep -q '^ready\\|^listening' said && break; sleep 0.1; done; kill -0 $!"
                if stays
                else ""
            )
            lines.append(f"{run}\n{wait}\ntold $? {shlex.quote(f'{file}, {part}: {command}')}\n")
    return f'echo "1..{count}"\n' + "".join(lines)


def prepare(folder):
    for name in os.listdir(TOP):
        if name != "build":
            os.symlink(os.path.join(TOP, name), os.path.join(folder, name))
    os.makedirs(os.path.join(folder, "build/cuda"))
    for name in ("plain", "toolkit.mk", "version"):
        if os.path.exists(os.path.join(TOP, "build", name)):
            os.symlink(os.path.join(TOP, "build", name), os.path.join(folder, "build", name))
    os.symlink(os.path.join(TOP, "build/cuda/vector_add"), os.path.join(folder, "program"))
    with open("/etc/hosts") as known, open(os.path.join(folder, "hosts"), "w") as hosts:
        hosts.write(known.read() + "\n127.0.0.1 gpu-host\n")
    with open(os.path.join(folder, "first_steps.sh"), "w") as file:
        file.write(script())


def main():
    spaces = ["unshare", "-Urmnpf", "--kill-child", "--mount-proc"]
    if subprocess.run([*spaces, "true"], capture_output=True).returncode or not shutil.which("ip"):
        print("1..1\nok 1 - first steps # SKIP no namespaces here, or no ip")
        return 0
    folder = tempfile.mkdtemp(prefix="flyt-first-")
    try:
        prepare(folder)
        return subprocess.run([*spaces, "bash", "first_steps.sh"], cwd=folder, timeout=110).returncode
    finally:
        shutil.rmtree(folder, ignore_errors=True)


sys.exit(main())
