"""Public programs by the software GPU's interpreter and by its compiler. For tools/check-programs --compiled."""

import re

import trial
from moving import same

# One host thread: then blocks run in one order, and what the order of blocks decides is the same each time.
ONE_THREAD = {"FLYT_SOFTGPU_THREADS": "1"}
INTERPRETED = ONE_THREAD | {"FLYT_SOFTGPU_JIT": "off"}
COMPILED = {"best": ONE_THREAD | {"FLYT_SOFTGPU_JIT": "always", "FLYT_SOFTGPU_CACHE": "off"}}
with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
    if re.search(r"^flags.*\bavx512vl\b", cpuinfo.read(), re.M):  # else AVX2 is the best there is
        COMPILED["v3"] = COMPILED["best"] | {"FLYT_SOFTGPU_CPU": "v3"}
# The machine's warning when it has no compiler. Then there is nothing to compare.
ABSENT = re.compile(r".*FLYT_SOFTGPU_JIT=.*the interpreter runs.*")


def problem_of(interpreted, compiled, interpret_again):
    """Empty, or what the compiled run does wrong. If interpreted runs differ, only the rule counts."""
    if absent := ABSENT.search(compiled.output):
        return absent.group(0)
    if compiled.problem:
        return compiled.problem
    if same(compiled.output, interpreted.output) or not same(interpret_again().output, interpreted.output):
        return ""
    return "other output than the interpreter's"


def check_one(row, options):
    """[(level of vector instructions, problem, seconds of processor time)]; None: the program is not there."""

    def run(settings):
        return trial.run(options.dir, row, "local:software", options.limit, extra=settings)

    interpreted = run(INTERPRETED)
    if interpreted is None:
        return None
    if interpreted.problem:
        return [("off", interpreted.problem, interpreted.cpu)]
    tried = {level: run(settings) for level, settings in COMPILED.items()}
    return [(level, problem_of(interpreted, result, lambda: run(INTERPRETED)), result.cpu)
            for level, result in tried.items()]


def check(rows, options):
    counts = {"passed": 0, "failed": 0, "absent": 0}
    for row in rows:
        if row.rule.startswith("server:"):
            continue
        tried = check_one(row, options)
        if tried is None:
            counts["absent"] += 1
            continue
        for level, problem, seconds in tried:
            state = "failed" if problem else "passed"
            counts[state] += 1
            print(f"{state:7} {row.suite:12} {row.name:24} {level:4} {seconds:6.1f} s  {problem}", flush=True)
    return counts
