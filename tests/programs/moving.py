"""Public programs that move between two servers while they run. For tools/check-programs --moved."""

import os
import re
import subprocess
import sys
import tempfile

import trial

MOVER = os.path.join(trial.ROOT, "build/plain/tests/libmover.so")
# FLYT_PERF=no_shm: else a unix socket leads to shared memory.
WAYS = {"shm": ("unix", {}), "unix": ("unix", {"FLYT_PERF": "no_shm"}), "tcp": ("tcp", {})}
RUNS_MOST = 8


class Servers:
    """Two, each on a unix socket and a TCP port."""

    def __init__(self, folder):
        self.processes, self.uris = [], []
        for number in range(2):
            process = subprocess.Popen(
                [f"{trial.ROOT}/bin/cricket-rpc-server", "--gpu", "software"]
                + ["--listen", f"unix://{folder}/s{number}", "--listen", "tcp://127.0.0.1:0"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            lines = process.stdout.readline() + process.stdout.readline()
            self.processes.append(process)
            self.uris.append({uri.split(":")[0]: uri for uri in re.findall(r"listening on (\S+)", lines)})

    def stop(self):
        for process in self.processes:
            process.terminate()
            process.wait(20)


def said_by_mover(path):
    """(moves, refusals, the last reason) of all processes of a run."""
    if not os.path.exists(path):
        return 0, 0, ""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.split(None, 2) for line in file]
    os.unlink(path)
    return sum(int(line[0]) for line in lines), sum(int(line[1]) for line in lines), " ".join(
        line[2].strip() for line in lines if len(line) > 2)


def same(one, other):
    """Nothing says in which order the blocks of a kernel print."""
    return sorted(trial.stable(one)) == sorted(trial.stable(other))


def move_one(row, options, way, uris, log):
    """(problem, moves, refusals and the last reason). A short program runs again until it has moved often enough. None:
    it is not there."""
    extra = WAYS[way][1]
    still = trial.run(options.dir, row, uris[0], options.limit, extra=extra)
    if still is None:
        return None
    if still.problem:
        return f"without a move: {still.problem}", 0, ""
    moves = refusals = 0
    why = ""
    for attempt in range(RUNS_MOST):
        # Programs begin with a time that they use for themselves; each attempt moves closer.
        pause = still.seconds * 1e6 / (2 * options.moved) / (attempt + 1)
        moved = trial.run(options.dir, row, uris[0], options.limit, extra=extra | {
            "LD_PRELOAD": MOVER, "FLYT_TEST_MOVES": " ".join(uris), "FLYT_TEST_MOVED": log,
            "FLYT_TEST_PAUSE_US": str(int(max(pause, 500))), "FLYT_TEST_MOST": str(options.moved - moves)})
        more, refused, reason = said_by_mover(log)
        moves, refusals, why = moves + more, refusals + refused, reason or why
        if moved.problem:
            return f"moved {more} times: {moved.problem}\n{moved.output[-2000:]}", moves, why
        if not same(moved.output, still.output):
            again = trial.run(options.dir, row, uris[0], options.limit, extra=extra)
            if same(again.output, still.output):
                return f"moved {more} times: other output than without\n{moved.output[-2000:]}", moves, why
        if moves >= options.moved:
            break
    return "", moves, f"{refusals} refusals, the last: {why}" if refusals else ""


def check(rows, options):
    if not os.path.exists(MOVER):
        sys.exit(f"check-programs: no {MOVER}; make run-tests ONLY=core_moved builds it")
    counts = {"passed": 0, "failed": 0, "absent": 0}
    with tempfile.TemporaryDirectory(prefix="flyt-moved.") as folder:
        servers = Servers(folder)
        try:
            for row in rows:
                for way, (kind, _) in WAYS.items():
                    tried = move_one(row, options, way, [uris[kind] for uris in servers.uris], f"{folder}/moved")
                    state = "absent" if tried is None else "failed" if tried[0] else "passed"
                    counts[state] += 1
                    if tried is None:
                        break
                    print(f"{state:7} {row.suite:12} {row.name:24} {way:4} {tried[1]:3} moves  {tried[2]} {tried[0]}",
                          flush=True)
        finally:
            servers.stop()
    return counts
