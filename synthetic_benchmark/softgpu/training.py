#!/usr/bin/env python3
"""training.py [MODEL ...]: a training step of PyTorch on the software GPU, and on the processor.

    training.py [--bin DIR] [--warm S] [--long S] [--avx2] [MODEL ...]

Runs training_steps.py in the root file system of tests/pytorch/make-root (Debian 13's PyTorch 2.6): on the processor,
with OpenBLAS from Debian in place of the slow reference BLAS, and on the software GPU of a server on this machine with
FLYT_SOFTGPU_JIT=off and =on. All have two threads. One after the other warms up, waits until the compiler has nothing
left to do, and measures. Compiled code is kept beside the root file system: a second run has less to compile. Prints a
table as Markdown: milliseconds of the shortest step (a thread that is kept from its processor makes PyTorch's others
wait, so medians say more about other work on the machine), the ratios, the ratios of the medians, the first step, and
what the compiler still had to do after the warm-up, in seconds of processor time. With --avx2, neither has AVX-512.
Exit status 1: the losses differ; 77: no root file system.
"""
import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
ROOM = os.path.abspath(os.environ.get("FLYT_PYTORCH_ROOT") or os.path.join(ROOT, "build/pytorch"))
MODELS = ["cnn-tiny", "transformer-tiny", "cnn", "transformer"]
FORMS = ("cpu", "off", "on")
TOLERANCE = 1e-3
NONE = 77
ENTER = """set -e
mkdir -p {root}/flyt {root}/tests {root}/run/server
mount -t proc proc {root}/proc
mount --rbind /dev {root}/dev
mount --bind {bin} {root}/flyt
mount --bind {here} {root}/tests
exec chroot {root} /usr/bin/env -i {level} PATH=/usr/bin:/bin HOME=/root LC_ALL=C.UTF-8 OMP_NUM_THREADS=2 \
    XDG_RUNTIME_DIR=/run/server PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=2 \
    LD_LIBRARY_PATH=/openblas:/cudnn:/usr/lib/python3/dist-packages/torch/lib {command}
"""
AVX2 = "ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell"
# In a folder of its own, so that the tests in this root go on with what they had.
OPENBLAS = """set -e
cd {root}/tmp
chroot {root} sh -c 'cd /tmp && apt-get update && apt-get download libopenblas0-openmp libgfortran5 libquadmath0'
mkdir -p {root}/openblas.new
for package in libopenblas0-openmp libgfortran5 libquadmath0; do dpkg-deb -x $package*.deb x; done
cp -L x/usr/lib/x86_64-linux-gnu/*.so.* x/usr/lib/x86_64-linux-gnu/openblas-openmp/lib*.so.* {root}/openblas.new
rm -rf x *.deb
mv {root}/openblas.new {root}/openblas
"""


def family(first):
    """Seconds of processor time of a process and all that it started."""
    parents, ticks = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                words = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has ended meanwhile
        parents[int(name)], ticks[int(name)] = int(words[1]), int(words[11]) + int(words[12])
    members, more = set(), {first}
    while more:
        members |= more
        more = {child for child, parent in parents.items() if parent in members} - members
    return sum(ticks.get(one, 0) for one in members) / os.sysconf("SC_CLK_TCK")


class Server:
    def __init__(self, options, form):
        name = f"training-{form}-{os.getpid()}"
        os.makedirs(f"{ROOM}/root/run/server", exist_ok=True)
        self.address = f"unix:///run/server/{name}"
        self.log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(
            [f"{options.bin}/cricket-rpc-server", "--listen", f"unix://{ROOM}/root/run/server/{name}"]
            + ["--gpu", "software"], stdout=subprocess.PIPE, stderr=self.log, text=True,
            env=dict(os.environ, FLYT_SOFTGPU_JIT=form, FLYT_SOFTGPU_CACHE=f"{ROOM}/compiled",
                     **({"FLYT_SOFTGPU_CPU": "v3"} if options.avx2 else {})))
        if "listening on" not in self.process.stdout.readline():
            raise RuntimeError("the server did not start")

    def wait(self):
        """Until nothing is compiled any more: the program waits, so the compiler alone needs the processor. Returns the
        seconds of processor time that it needed."""
        began = before = family(self.process.pid)
        for _ in range(600):
            time.sleep(0.5)
            now = family(self.process.pid)
            if now - before < 0.05:
                break
            before = now
        return now - began

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


class Training:
    def __init__(self, options, form, model):
        self.form, self.server = form, None if form == "cpu" else Server(options, form)
        python = f"python3 /tests/training_steps.py {'cuda' if self.server else 'cpu'} {model} "
        python += f"{dict(cpu=2, off=3, on=options.warm)[form]} {options.long}"
        if self.server:
            python = f"/flyt/flyt-run --server {self.server.address} {python}"
        script = ENTER.format(root=shlex.quote(f"{ROOM}/root"), bin=shlex.quote(os.path.abspath(options.bin)),
                              here=shlex.quote(HERE), command=python, level=AVX2 if options.avx2 else "")
        self.process = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "bash", "-c", script],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.first = float(self.read("first")[0])
        self.steps = int(self.read("warm")[0])

    def read(self, word):
        for line in self.process.stdout:
            if line.startswith(word + " "):
                return line.split()[1:]
        raise RuntimeError(f"{self.form}: the program ended before `{word}`")

    def measure(self):
        self.left = self.server.wait() if self.server else 0
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        _, self.best, self.median, self.loss = map(float, self.read("end"))

    def stop(self):
        self.process.stdin.close()
        self.process.wait(60)
        if self.server:
            self.server.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default=os.path.join(ROOT, "bin"))
    parser.add_argument("--warm", type=float, default=60, help="seconds before measuring on the software GPU")
    parser.add_argument("--long", type=float, default=5, help="seconds of a measurement")
    parser.add_argument("--avx2", action="store_true", help="without AVX-512")
    parser.add_argument("models", nargs="*", default=MODELS)
    options = parser.parse_args()
    made = subprocess.run([os.path.join(ROOT, "tests/pytorch/make-root")], stderr=subprocess.PIPE, text=True)
    if made.returncode:
        print(f"SKIP: {(made.stderr.splitlines() or ['no root file system'])[-1]}")
        return NONE
    if not os.path.isdir(f"{ROOM}/root/openblas"):
        subprocess.run(["bash", "-c", OPENBLAS.format(root=shlex.quote(f"{ROOM}/root"))], check=True,
                       stdout=subprocess.DEVNULL)
    print("| | CPU, ms | off, ms | on, ms | off ÷ CPU | on ÷ CPU | off ÷ CPU, medians | on ÷ CPU, medians "
          "| first step: CPU, off, on, s | steps of warm-up, then compiling, s |")
    print("|---" * 10 + "|")
    wrong = []
    for model in options.models:
        runs = {}
        for form in FORMS:
            runs[form] = Training(options, form, model)
            runs[form].measure()
            runs[form].stop()
            if abs(runs[form].loss - runs["cpu"].loss) > TOLERANCE * abs(runs["cpu"].loss):
                wrong.append(f"{model}, {form}: loss {runs[form].loss}, on the processor {runs['cpu'].loss}")
        cells = [f"{runs[form].best * 1e3:.3g}" for form in FORMS]
        cells += [f"{runs[form].best / runs['cpu'].best:.1f}" for form in FORMS[1:]]
        cells += [f"{runs[form].median / runs['cpu'].median:.1f}" for form in FORMS[1:]]
        print(f"| {model} | " + " | ".join(cells) + " | " + ", ".join(f"{runs[f].first:.2f}" for f in FORMS)
              + f" | {runs['on'].steps}, {runs['on'].left:.1f} |", flush=True)
    for text in wrong:
        print(f"WRONG {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
