#!/usr/bin/env python3
"""compare.py: the second part of `make bench-softgpu`. Runs each kernel on the software GPU, by PoCL and as C with
OpenMP, and prints the ratios of their times.

    compare.py --programs DIR --bin DIR [--old DIR] [--rounds N] [--avx2] [CASE ...]

DIR holds cuda, opencl, openmp, cublas and openblas, as far as they could be built. The forms take turns in each round;
of each the best time of all rounds counts. Where there is a compiler (libsoftgpu-jit.so), the software GPU runs once
more with FLYT_SOFTGPU_JIT=on, and is timed once its compiler has had some seconds, as that of PoCL has before it
begins; a column says how many times faster that is. The case `empty` launches an empty kernel, and waits. --old: the
bin/ of another build, which takes turns with this one; then a column says how many times faster this one is. --avx2:
the software GPU and OpenBLAS do without AVX-512; PoCL has no setting for it. Exit status 1: a program failed, or two
forms of a kernel disagree in their result.
"""
import argparse
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
KERNELS = os.path.join(HERE, "kernels.h")
NO_DEVICE = 77
FORMS = ["cuda", "jit", "old", "opencl", "openmp"]
OURS = ("cuda", "jit", "old")
PRODUCTS = {"cublas": "cuBLAS", "cublas_jit": "cuBLAS, compiled", "openblas": "OpenBLAS"}
CASES = ["vector_add", "stencil", "collatz", "matmul", "nbody", "histogram", "black_scholes", "fma_chain", "reduction",
         "transpose", "grey"]
LAUNCHES = ["empty_1x1", "empty_1x32", "empty_16x256", "empty_row_of_1000"]
NAMES = {"cuda": "", "jit": "compiled ", "old": "old "}
# Seconds that a kernel runs before it is timed.
WARM = {"jit": "1.5", "cublas_jit": "8"}
# Results of floats differ by the order of sums.
TOLERANCE = 1e-3


class Forms:
    def __init__(self, options):
        self.options = options
        self.times = {}                  # (form, case): [best time, least CPU time]
        self.sums, self.wrong, self.absent = {}, [], {}

    def environment(self, form):
        found = dict(os.environ, OMP_WAIT_POLICY="passive")
        if self.options.avx2:
            found.update(FLYT_SOFTGPU_CPU="v3", OPENBLAS_CORETYPE="Haswell")
        if form in OURS + ("cublas", "cublas_jit"):
            place = os.path.abspath(self.options.old if form == "old" else self.options.bin)
            found.update(FLYT_SERVER="local:", FLYT_SOFTGPU_JIT="off", LD_LIBRARY_PATH=os.path.join(place, "cudart"))
            if form in ("jit", "cublas_jit"):
                found.update(FLYT_SOFTGPU_JIT="on", FLYT_SOFTGPU_CACHE="off", BENCH_WARM=WARM[form])
            if self.options.cublas:
                found["LD_LIBRARY_PATH"] += ":" + self.options.cublas
        return found

    def run(self, form, words):
        program = os.path.join(self.options.programs, "cuda" if form in OURS else form.replace("_jit", ""))
        if not os.path.exists(program):
            self.absent[form] = "not installed"
            return
        done = subprocess.run([program] + words, env=self.environment(form), stdout=subprocess.PIPE, text=True)
        if done.returncode == NO_DEVICE:
            self.absent[form] = "no CPU device of OpenCL"
            return
        if done.returncode:
            self.wrong.append(f"{form} {' '.join(words)}: exit status {done.returncode}")
            return
        for line in done.stdout.splitlines():
            case, wall, cpu, total = line.split()
            best = self.times.setdefault((form, case), [float(wall), float(cpu)])
            best[0], best[1] = min(best[0], float(wall)), min(best[1], float(cpu))
            first = self.sums.setdefault(case, float(total))
            if abs(float(total) - first) > TOLERANCE * abs(first):
                self.wrong.append(f"{form} {case}: the sum of the result is {total}, elsewhere {first}")

    def time(self, form, case):
        return self.times.get((form, case), [None, None])[0]

    def ratio(self, above, below, case, which):
        a, b = self.times.get((above, case)), self.times.get((below, case))
        return a[which] / b[which] if a and b and b[which] else None


def cell(value, form):
    return "" if value is None else format(value, form)


def print_table(forms, cases, jit, old):
    titles = ["", "software GPU, µs", "PoCL, µs", "OpenMP, µs", "÷ PoCL", "÷ OpenMP", "÷ PoCL, CPU",
              "÷ OpenMP, CPU"]
    titles += ["÷ compiled", "÷ compiled, CPU", "compiled ÷ PoCL", "compiled ÷ PoCL, CPU"] if jit else []
    titles += ["old ÷ new, CPU"] if old else []
    print("| " + " | ".join(titles) + " |")
    print("|---" * len(titles) + "|")
    for case in cases:
        row = [case] + [cell(forms.time(form, case), ".0f") for form in ("cuda", "opencl", "openmp")]
        row += [cell(forms.ratio("cuda", form, case, which), ".2f")
                for which in (0, 1) for form in ("opencl", "openmp")]
        row += [cell(forms.ratio("cuda", "jit", case, which), ".2f") for which in (0, 1)] if jit else []
        row += [cell(forms.ratio("jit", "opencl", case, which), ".2f") for which in (0, 1)] if jit else []
        row += [cell(forms.ratio("old", "cuda", case, 1), ".2f")] if old else []
        print("| " + " | ".join(row) + " |")


def print_products(forms):
    for form, name in PRODUCTS.items():
        wall, cpu = forms.times.get((form, "sgemm_1024"), (None, None))
        if wall:
            print(f"sgemm of 1024³, {name}: {wall / 1e3:.2f} ms, {2 * 1.024**3 / (wall / 1e6):.1f} GFLOP/s, "
                  f"{cpu / 1e3:.2f} ms of CPU time")
        ratio = forms.ratio(form, "openblas", "sgemm_1024", 1)
        if ratio and form != "openblas":
            print(f"{name} ÷ OpenBLAS, CPU: {ratio:.1f}")


def print_launches(forms):
    """Launches of an empty kernel, each form's best median of all rounds."""
    for case in LAUNCHES:
        told = [f"{NAMES[form]}{wall:.1f} µs, {cpu:.1f} µs of CPU time"
                for form in OURS for wall, cpu in [forms.times.get((form, case), (None, None))] if wall]
        if told:
            print(f"{case}, launch to done: {'; '.join(told)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", required=True)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--cublas", help="the folder of libcublas.so")
    parser.add_argument("--old", help="the bin/ of another build")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--avx2", action="store_true", help="without AVX-512")
    parser.add_argument("cases", nargs="*", default=CASES)
    options = parser.parse_args()
    forms = Forms(options)
    jit = os.path.exists(os.path.join(options.bin, "libsoftgpu-jit.so"))
    wanted = [f for f in FORMS if (f != "old" or options.old) and (f != "jit" or jit)]
    cases = [c for c in options.cases if c not in ("sgemm", "empty")]
    for _ in range(options.rounds):
        for case in cases:
            for form in wanted:
                forms.run(form, ([KERNELS] if form == "opencl" else []) + [case])
    print_table(forms, cases, jit, bool(options.old))
    if cases == CASES or "sgemm" in options.cases:
        for form in PRODUCTS:
            if form != "cublas_jit" or jit:
                forms.run(form, [])
        print_products(forms)
    if cases == CASES or "empty" in options.cases:
        for _ in range(options.rounds):
            for form in [f for f in OURS if f in wanted]:
                forms.run(form, ["empty"])
        print_launches(forms)
    for form, why in forms.absent.items():
        print(f"SKIP {form}: {why}")
    for text in forms.wrong:
        print(f"WRONG {text}", file=sys.stderr)
    return 1 if forms.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
