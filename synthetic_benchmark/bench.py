#!/usr/bin/env python3
"""bench.py: `make bench`. Runs the programs of this folder and writes figures, a table and a plot (docs/benchmarks.md).

    bench.py [--bin DIR] [--limits PROGRAM] [--reps N] [--only SECTION,...] [--results DIR] [--quick | --smoke]

Sections: calls, launches, copies, sweep, clients, start, steps, memory, apps, link, backlog, switches, originals,
moves, recovery. A figure is the median over the repetitions, which take turns; a ratio is taken within each repetition.
Exit status 1: a count or a result was wrong, or a program failed (a figure that misses its target is shown, and is no
error). --smoke: everything but moves and recovery once, very small; results are not kept.
"""
import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import measure
import moving
import plot
import recovering
from measure import Local, Problem, Server

M = 1 << 20
# key, what it is, target, +1: at least, -1: at most
TARGETS = [
    ("shm_call_rtt_ratio", "waited call, shared memory ÷ message to and fro", 2, -1),
    ("tcp_call_rtt_ratio", "waited call, TCP ÷ 64-byte ping-pong spun", 1.15, -1),
    ("unix_call_rtt_ratio", "waited call, unix ÷ 64-byte ping-pong spun", 1.15, -1),
    ("shm_launch_rate", "launches per second, shared memory", 5e6, 1),
    ("tcp_launch_rate", "launches per second, TCP", 2e6, 1),
    ("shm_launch_caller_ns", "caller's time in a launch, ns", 200, -1),
    ("shm_graph_caller_ns", "caller's time in the launch of a graph of 20 kernels, ns", 400, -1),
    ("malloc_free_rate", "cudaMalloc + cudaFree pairs per second", 2e6, 1),
    ("properties_rate", "cudaGetDeviceProperties per second", 1e7, 1),
    ("shm_h2d_64m_ratio", "64 MiB to the device ÷ pipelined copy", 0.8, 1),
    ("shm_d2h_64m_ratio", "64 MiB from the device ÷ pipelined copy", 0.8, 1),
    ("shm_pinned_64m_ratio", "64 MiB pinned ÷ memcpy", 0.95, 1),
    ("tcp_h2d_64m_ratio", "64 MiB to the device, TCP ÷ stream", 0.85, 1),
    ("tcp_d2h_64m_ratio", "64 MiB from the device, TCP ÷ stream", 0.85, 1),
    ("tls_h2d_64m_ratio", "64 MiB to the device, TLS ÷ TCP and the cipher", 0.85, 1),
    ("tls_d2h_64m_ratio", "64 MiB from the device, TLS ÷ TCP and the cipher", 0.85, 1),
    ("shm_h2d_64k_gbs", "64 KiB to the device, GB/s", 6, 1),
    ("other_client_p99_ratio", "waited call p99 beside a copying client ÷ alone", 5, -1),
    ("start_ratio", "process start to kernel result ÷ in process", 1.3, -1),
    ("driver_launch_rate", "launches per second, Driver API, shared memory", 5e6, 1),
    ("static_start_ratio", "static program: start to kernel result ÷ in process", 1.3, -1),
    ("torch_step_waited_calls", "calls waited for in a training step as PyTorch makes it", 4, -1),
    ("server_bytes_per_launch", "server's memory kept per launch", 0.001, -1),
    ("app_overhead_us_per_call", "programs: µs more per call than in process", 1, -1),
    ("thread_interference_us", "another thread's launch + wait beside a slow copy, µs more", 1000, -1),
    ("backlog_ok", "backlogs behind a kernel of three silences succeed", 1, 1),
    ("app_overhead_ratio", "programs: time ÷ in process, median", 1.05, -1),
    ("move_gate_launch_ratio", "launches per second with the gate of moves ÷ without it", 0.99, 1),
    ("move_freeze_64_ms", "64 busy threads come to rest, ms", 5, -1),
    ("move_direct_ratio", "bytes of a move, server to server ÷ raw streams", 0.8, 1),
    ("move_outage_over_ms", "a move between nodes: still for so long beyond written bytes ÷ stream, p95, ms", 50, -1),
    ("move_watched_ratio", "a kernel that writes rows: while its memory is copied ÷ before", 0.9, 1),
    ("move_same_node_over_ms", "a move on one node: still for so long beyond 50 µs a handle, p95, ms", 50, -1),
    ("grow_usable_ms", "memory that was added to a share is used, ms", 10, -1),
    ("checkpoint_ratio", "bytes of a checkpoint per second ÷ min(zstd -1, disk)", 0.8, 1),
    ("checkpoint_changes_ratio", "5 % of the memory changed: bytes of the file ÷ of the whole one", 0.1, -1),
    ("recovery_training_ratio", "training with a checkpoint each second ÷ without", 1.05, -1),
    ("recovery_back_s", "1 GiB is back behind the loss of the worker, s", 5, -1),
    ("recovery_read_ratio", "5 % of the memory changed: bytes read for a checkpoint ÷ the first one", 0.1, -1),
    ("recovery_written_ratio", "5 % of the memory changed: bytes written for it ÷ the first one", 0.1, -1),
]
SECTIONS = ["calls", "launches", "copies", "sweep", "clients", "start", "steps", "memory", "apps", "link", "backlog",
            "switches", "originals", "moves", "recovery"]
# sizes of a run: full, --quick, --smoke
SIZES = {
    "full":  dict(ms=300, launches=100000, caller=20000, pairs=200000, copy=64 * M, sweep_top=1 << 30,
                  grow=(1000000, 11000000),
                  link=1 << 30, apps=3, starts=9, busy=256 * M, hold=(3, 1), moves=(1, 64, 256, 1024, 4096), turns=5,
                  protected=1024, training=(200, 1024, 64), pairs_trained=20),
    "quick": dict(ms=100, launches=100000, caller=5000, pairs=50000, copy=64 * M, sweep_top=64 * M,
                  grow=(100000, 1100000),
                  link=64 * M, apps=1, starts=5, busy=256 * M, hold=(3, 1), moves=(1, 64, 256), turns=3,
                  protected=1024, training=(60, 1024, 64), pairs_trained=3),
    "smoke": dict(ms=5, launches=500, caller=200, pairs=500, copy=1 * M, sweep_top=4096, grow=(100, 300),
                  link=1 * M, apps=1, starts=1, busy=1 * M, hold=(0.1, 0.005), moves=(1, 8), turns=1,
                  protected=8, training=(8, 256, 1), pairs_trained=1),
}


class Run:
    def __init__(self, place, size, transports, servers):
        self.place, self.size, self.transports, self.servers = place, size, transports, servers
        self.values, self.notes, self.sweeps, self.problems = {}, [], {}, []
        self.device = servers["device"].gpu
        self.encrypted = ["tls"] if "tcp" in transports else []     # beside TCP, in what encryption may slow down

    def keep(self, name, value):
        self.values.setdefault(name, []).append(float(value))

    def median(self, name):
        return statistics.median(self.values[name]) if self.values.get(name) else None

    def ratio(self, above, below):
        """The median of the ratios of the repetitions; None where a part is missing."""
        pairs = [(a, b) for a, b in zip(self.values.get(above, []), self.values.get(below, [])) if b]
        return statistics.median(a / b for a, b in pairs) if pairs else None

    def program(self, gpu, transport, words, **more):
        server = Local(self.servers[gpu].gpu) if transport == "local" else self.servers[gpu]
        return measure.run(self.place, server, transport, words, **more)

    def limit(self, what):
        return self.place.limit(what, self.size["ms"])


# ---- sections: each is called once in every repetition ----

def calls(r):
    for name, what in (("line.spin", "line spin"), ("line.futex", "line futex"), ("message.spin", "message spin"),
                       ("raw.tcp.spin", "tcp spin"),
                       ("raw.tcp.block", "tcp block"),
                       ("raw.unix.spin", "unix spin"), ("raw.unix.block", "unix block")):
        found = r.limit(what)
        r.keep(name, found["p50_ns"])
        r.keep(name + ".p99", found["p99_ns"])
    for transport in r.transports + r.encrypted + ["local"]:
        found = r.program("null", transport, f"calls rtt {r.size['ms']}")
        r.keep(f"rtt.{transport}", found["p50_ns"])
        r.keep(f"rtt.{transport}.p99", found["p99_ns"])
        r.keep(f"rtt.{transport}.min", found["min_ns"])


def launches(r):
    for transport in r.transports + ["local"]:
        r.keep(f"launch.{transport}",
               r.program("null", transport, f"calls launches {r.size['launches']}")["per_second"])
        r.keep(f"graph.{transport}", r.program("null", transport, f"calls graph {r.size['caller']}")["p50_ns"])
        r.keep(f"caller.{transport}", r.program("null", transport, f"calls caller {r.size['caller']}")["p50_ns"])
    if "shm" in r.transports:
        r.keep("driver", r.program("null", "shm", f"driver launches {r.size['launches']}")["per_second"])
    r.keep("malloc", r.program("null", "best", f"calls malloc {r.size['pairs']}")["per_second"])
    r.keep("properties", r.program("null", "best", f"calls properties {r.size['pairs']}")["per_second"])


def cipher_limit(r, way):
    """GB/s of TLS at best: each byte costs both CPUs what TCP takes, and then sealing and opening."""
    return 1 / (1 / r.values[f"copy.tcp.{way}.pageable.best"][-1] + 1 / r.values["seal.best"][-1])


def copies(r):
    size, ms = r.size["copy"], r.size["ms"]
    for name in ("memcpy", "pipe", "seal"):
        found = r.limit(f"{name} {size}")
        r.keep(name, found["gbs"])
        r.keep(name + ".best", found["best_gbs"])
    for transport in r.transports + r.encrypted + ["local"]:
        for way in ("h2d", "d2h"):
            for kind in ("pageable", "pinned"):
                found = r.program("device", transport, f"calls copy {way} {kind} {size} {ms}")
                r.keep(f"copy.{transport}.{way}.{kind}", found["gbs"])
                r.keep(f"copy.{transport}.{way}.{kind}.best", found["best_gbs"])
                if transport == "tcp" and kind == "pageable":
                    lanes = int(found.get("lanes", 1)) or 1
                    r.keep(f"lanes.{way}", lanes)
                    stream = r.limit(f"stream {lanes} {size} {way}")
                    r.keep(f"stream.{way}", stream["gbs"])
                    r.keep(f"stream.{way}.best", stream["best_gbs"])
        if transport == "tls":
            for way in ("h2d", "d2h"):
                r.keep(f"tls_limit.{way}", cipher_limit(r, way))
        r.keep(f"copy64k.{transport}", r.program("device", transport, f"calls copy h2d pageable 65536 {ms}")["gbs"])
        if r.program("device", transport, f"calls check {size}")["stored"] != 1:
            raise Problem(f"bytes copied over {transport} did not come back as they were")


def sweep(r):
    if r.sweeps:
        return                                              # once: it is for the plot
    size = 4096
    while size <= r.size["sweep_top"]:
        for name, what in (("memcpy", f"memcpy {size}"), ("pipe", f"pipe {size}" if size >= 128 * 1024 else None)):
            if what and size <= 256 * M:
                r.sweeps.setdefault(name, []).append((size, r.place.limit(what, 20)["gbs"]))
        for transport in r.transports + ["local"]:
            for way in ("h2d", "d2h"):
                for kind in ("pageable", "pinned"):
                    try:
                        found = r.program("device", transport, f"calls copy {way} {kind} {size} 30")
                    except Problem as problem:
                        r.notes.append(str(problem))
                        continue
                    r.sweeps.setdefault(f"{transport} {way} {kind}", []).append((size, found["gbs"]))
        size *= 4
    for number in (1, 2, 4, 8, 16) if r.size["ms"] >= 50 else (2,):
        for transport in r.transports:
            found = r.program("null", transport, f"calls threads {number} {r.size['ms']}")
            r.keep(f"threads.{transport}.{number}", found["per_second"])


def clients(r):
    ms = r.size["ms"]
    r.keep("client.alone", r.program("device", "best", f"calls rtt {ms}")["p99_ns"])
    other = measure.start(r.place, r.servers["device"], "best", ["calls", "busy", r.size["busy"]])
    try:
        if other.stdout.readline().strip() != "running":
            raise Problem("the copying client did not start: " + other.stderr.read().strip())
        r.keep("client.beside", r.program("device", "best", f"calls rtt {ms}")["p99_ns"])
    finally:
        other.kill()
        other.communicate()
    several = [measure.start(r.place, r.servers["null"], "best", ["calls", "rtt", ms]) for _ in range(4)]
    medians = [measure.figures(p.communicate(timeout=60)[0]).get("p50_ns") for p in several]
    if None in medians:
        raise Problem("one of four clients at once failed")
    r.keep("four_clients.p50", statistics.median(medians))


def seconds_to_result(r, transport, program="calls"):
    server = Local(r.device) if transport == "local" else r.servers["device"]
    began = time.perf_counter()
    process = measure.start(r.place, server, transport, [program, "start"])
    line = process.stdout.readline()
    took = time.perf_counter() - began
    errors = process.communicate(timeout=30)[1]
    if line.strip() != "result 42":
        raise Problem(f"the first kernel over {transport} gave {line!r}: {errors.strip()}")
    return took


def start(r):
    for _ in range(r.size["starts"]):
        for transport in ["local"] + r.transports:
            r.keep(f"start.{transport}", seconds_to_result(r, transport) * 1e3)
            time.sleep(0.05)                                # the server starts the next worker: not part of this
            if transport in ("local", "shm"):
                r.keep(f"start_static.{transport}", seconds_to_result(r, transport, "calls-static") * 1e3)
                time.sleep(0.05)


def steps(r):
    """Calls that a training step waits for: what more steps wait for more, by the library's own count."""
    if "step_waited" in r.values:
        return                                              # once: it is a count, not a time
    few, many, waited = 2, 12, []
    for number in (few, many):
        errors = r.program("null", "best", f"calls step {number}", env={"FLYT_STATS": "1"})["errors"]
        match = re.search(r"flyt: \d+ calls travelled, (\d+) of them waited for", errors)
        if not match:
            raise Problem("FLYT_STATS=1 did not say how many calls a training step waited for")
        waited.append(int(match.group(1)))
    r.keep("step_waited", (waited[1] - waited[0]) / (many - few))


def memory(r):
    if "grown" in r.values:
        return                                              # once: it is a count, not a time
    first, last = r.size["grow"]
    process = measure.start(r.place, r.servers["null"], "best", ["calls", "memory", first, last], stdin=subprocess.PIPE)
    try:
        worker, sizes = None, []
        for mark in (first, last):
            if process.stdout.readline().strip() != f"at {mark}":
                raise Problem("the launching program failed: " + process.stderr.read().strip())
            worker = worker or r.servers["null"].worker(process.pid)[0]
            sizes.append(measure.resident(worker))
            process.stdin.write("\n")
            process.stdin.flush()
        process.communicate(timeout=30)
    finally:
        process.kill()
    given = r.servers["null"].null_launches(process.pid)
    if given != last:
        raise Problem(f"{last} launches were sent, the null device was given {given}")
    r.keep("grown", (sizes[1] - sizes[0]) / (last - first))


def app_programs(r):
    folder = os.path.join(os.path.dirname(r.place.programs), "cuda")
    left_out = {"forever", "vector_add-noptx"}              # never ends; must fail
    names = sorted(n for n in os.listdir(folder) if n not in left_out
                   and os.access(os.path.join(folder, n), os.X_OK)) if os.path.isdir(folder) else []
    return folder, [n for n in names if os.path.isfile(os.path.join(folder, n)) and "." not in n]


def apps(r):
    """Time of the end-to-end programs over shared memory and in process; calls as FLYT_STATS counts them."""
    if "apps" in r.values or "shm" not in r.transports:
        return
    folder, names = app_programs(r)
    if r.size["launches"] < 1000:
        names = [n for n in names if n == "vector_add"]
    ratios, more, calls_made = [], 0.0, 0
    for name in names:
        times = {"local": [], "shm": []}
        count = 0
        for _ in range(r.size["apps"]):
            for transport in times:
                server = Local(r.device) if transport == "local" else r.servers["device"]
                began = time.perf_counter()
                process = measure.start(r.place, server, transport, [os.path.join(folder, name)],
                                        env={"FLYT_STATS": "1"}, stdin=subprocess.DEVNULL)
                try:
                    errors = process.communicate(timeout=20)[1]
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                    break
                if process.returncode != 0:
                    break
                times[transport].append(time.perf_counter() - began)
                if match := re.search(r"flyt: (\d+) calls travelled.*?; (\d+) answered", errors):
                    count = int(match.group(1)) + int(match.group(2))
        if len(times["local"]) < r.size["apps"] or len(times["shm"]) < r.size["apps"]:
            r.notes.append(f"{name}: left out of the programs' figures: it failed, was skipped or ran past 20 s")
            continue
        local, shm = min(times["local"]), min(times["shm"])
        ratios.append(shm / local)
        more, calls_made = more + shm - local, calls_made + count
        r.notes.append(f"{name}: {local * 1e3:.1f} ms in process, {shm * 1e3:.1f} ms over shared memory, {count} calls")
    if ratios:
        r.keep("apps", statistics.median(ratios))
    if calls_made:
        r.keep("apps_us", more * 1e6 / calls_made)


def link(r):
    """One thread's small work beside another's large copy, over a link of 1 Gbit/s that link.c plays."""
    if "link" in r.values:
        return
    line = measure.Link(r.place, r.servers["device"].port, 125e6)
    real, server = r.servers["device"], r.servers["device"]
    try:
        class Behind:                                        # the software server, seen through the link
            gpu, uri = server.gpu, staticmethod(line.uri)
        process = measure.start(r.place, Behind, "tcp", ["calls", "beside", r.size["link"]])
        try:
            output, errors = process.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Problem("the program behind the slow link ran past 90 s")
        if process.returncode:
            raise Problem(f"the program behind the slow link failed with status {process.returncode}: {errors.strip()}")
        if real.worker(process.pid)[1] != "tcp":
            raise Problem("the program behind the slow link did not go over it")
        found = measure.figures(output)
        r.keep("link", found["interference_us"])
        r.keep("link.p99", found["beside_p99_us"])
        r.keep("link.gbs", found["copy_gbs"])
    finally:
        line.close()


def backlog(r):
    """Whatever a program queues behind a kernel that runs for three silences waits, and succeeds; the silence is a
    second here."""
    if "backlog" in r.values:
        return
    silence, (seconds, share) = {"FLYT_SILENCE": "1"}, r.size["hold"]
    program = os.path.join(os.path.dirname(r.place.programs), "liveness", "backlog")
    server, passed = Server(r.place, r.device, "backlog", silence), True
    try:
        for transport in [t for t in ("shm", "tcp") if t in r.transports] + ["local"]:
            where = Local(r.device) if transport == "local" else server
            try:
                measure.run(r.place, where, transport, [program, seconds, share], limit=300, env=silence)
            except Problem as problem:
                passed = False
                r.notes.append(f"backlog: {problem}")
    finally:
        server.stop()
    r.keep("backlog", passed)


def switch_names(r):
    """The switches of this version, as it names them itself."""
    errors = r.program("null", "best", "calls rtt 5", perf="?")["errors"]
    match = re.search(r"it has ([\w, ]+)", errors)
    return re.findall(r"no_\w+", match.group(1)) if match else []


def switches(r):
    """What each optimisation is worth: the same with it switched off; the transport chosen by itself (best), and
    TCP."""
    size, ms, count = r.size["copy"], r.size["ms"], min(r.size["launches"], 20000)
    for transport in ["best"] + (["tcp"] if "tcp" in r.transports else []):
        words = [s for s in switch_names(r) if s != "no_shm" or transport == "best"]
        for switch in [""] + (words if r.size["ms"] >= 50 else words[:1]):
            key = f"switch.{transport}.{switch or 'all_on'}"
            r.keep(key + ".launch", r.program("null", transport, f"calls launches {count}", perf=switch)["per_second"])
            r.keep(key + ".rtt", r.program("null", transport, f"calls rtt {ms}", perf=switch)["p50_ns"])
            r.keep(key + ".properties",
                   r.program("null", transport, f"calls properties {min(count, 2000)}", perf=switch)["per_second"])
            r.keep(key + ".malloc",
                   r.program("null", transport, f"calls malloc {min(count, 2000)}", perf=switch)["per_second"])
            r.keep(key + ".h2d",
                   r.program("device", transport, f"calls copy h2d pageable {size} {ms}", perf=switch)["gbs"])


ORIGINALS = {"B": "benchB 512 30 5 0", "E": "benchE 256 512 30", "F": "benchF 25 512 8", "H": "benchH 256 512 30",
             "M": "benchM 64 30 5 0", "Mem": "benchMem 512 4", "R": "benchR 25 512 8 100"}
# what is compared of each: its own main figure
ORIGINAL_FIGURE = {"B": "p50_ns", "M": "p50_ns", "F": "p50_ns", "R": "p50_ns"}


def originals(r):
    for name, words in ORIGINALS.items():
        if r.size["ms"] < 50:
            words = words.replace(" 30", " 4")
            words = words.replace("512 4", "64 4") if name == "Mem" else words.replace(" 8", " 2")
        for transport in ["local"] + r.transports:
            key = ORIGINAL_FIGURE.get(name, "time_us")
            for _ in range(3 if key == "time_us" and r.size["ms"] >= 50 else 1):
                found = r.program("device", transport, words)
                r.keep(f"original.{name}.{transport}", found[key] / (1e3 if key.endswith("_ns") else 1))
        if native := native_folder():
            env = {**os.environ, "LD_LIBRARY_PATH": native}
            done = subprocess.run([os.path.join(r.place.programs, words.split()[0])] + words.split()[1:], env=env,
                                  capture_output=True, text=True, timeout=60)
            if done.returncode == 0:
                key = ORIGINAL_FIGURE.get(name, "time_us")
                r.keep(f"original.{name}.native",
                       measure.figures(done.stdout)[key] / (1e3 if key.endswith("_ns") else 1))


def moves(r):
    moving.section(r)


def recovery(r):
    recovering.section(r)


def native_folder():
    """Where the real runtime is, on a machine with a GPU."""
    folder = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "lib64")
    return folder if os.path.exists("/dev/nvidiactl") and os.path.isdir(folder) else None


# ---- what comes out ----

def metrics(r):
    m = r.median
    found = {
        "shm_call_rtt_ratio": r.ratio("rtt.shm", "message.spin"),
        "tcp_call_rtt_ratio": r.ratio("rtt.tcp", "raw.tcp.spin"),
        "unix_call_rtt_ratio": r.ratio("rtt.unix", "raw.unix.spin"),
        "shm_launch_rate": m("launch.shm"), "tcp_launch_rate": m("launch.tcp"), "shm_launch_caller_ns": m("caller.shm"),
        "shm_graph_caller_ns": m("graph.shm"), "malloc_free_rate": m("malloc"), "properties_rate": m("properties"),
        "shm_h2d_64m_ratio": r.ratio("copy.shm.h2d.pageable.best", "pipe.best"),
        "shm_d2h_64m_ratio": r.ratio("copy.shm.d2h.pageable.best", "pipe.best"),
        "shm_pinned_64m_ratio": r.ratio("copy.shm.h2d.pinned.best", "memcpy.best"),
        "tcp_h2d_64m_ratio": r.ratio("copy.tcp.h2d.pageable.best", "stream.h2d.best"),
        "tcp_d2h_64m_ratio": r.ratio("copy.tcp.d2h.pageable.best", "stream.d2h.best"),
        "tls_h2d_64m_ratio": r.ratio("copy.tls.h2d.pageable.best", "tls_limit.h2d"),
        "tls_d2h_64m_ratio": r.ratio("copy.tls.d2h.pageable.best", "tls_limit.d2h"),
        "shm_h2d_64k_gbs": m("copy64k.shm"), "other_client_p99_ratio": r.ratio("client.beside", "client.alone"),
        "start_ratio": m("start.shm") / m("start.local") if m("start.shm") and m("start.local") else None,
        "driver_launch_rate": m("driver"), "torch_step_waited_calls": m("step_waited"),
        "static_start_ratio": r.ratio("start_static.shm", "start_static.local"),
        "server_bytes_per_launch": m("grown"), "app_overhead_us_per_call": m("apps_us"),
        "app_overhead_ratio": m("apps"),
        "thread_interference_us": m("link"), "backlog_ok": m("backlog"),
        **moving.metrics(r), **recovering.metrics(r),
    }
    return {key: value for key, value in found.items() if value is not None}


def short(value):
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor * 10:
            return f"{value / factor:.4g} {unit}"
    return f"{value:.4g}"


def print_targets(r, found):
    print(f"\n{'key':28} {'found':>10} {'target':>10}")
    for key, what, target, direction in TARGETS:
        if key not in found:
            print(f"{key:28} {'-':>10} {'':>10}  {what}: not measured (this build lacks its part, or its section did "
                  f"not run)")
            continue
        reached = (found[key] - target) * direction >= 0
        if direction > 0 and key.endswith("_ratio") and found[key] > 1.1:
            what += " (above its limit: that was disturbed, or Flyt copies less)"
        print(f"{key:28} {short(found[key]):>10} {('≥ ' if direction > 0 else '≤ ') + short(target):>10}  "
              f"{'reached' if reached else 'MISSED '}  {what}")


def print_values(r):
    print("\nfigures behind them (median; ns, GB/s, per second, ms):")
    for name in sorted(r.values):
        if not name.startswith(("switch.", "original.")):
            print(f"  {name:34} {short(r.median(name)):>10}   {len(r.values[name])} ×")
    rows = sorted({n.rsplit(".", 1)[0] for n in r.values if n.startswith("switch.")},
                  key=lambda n: (n.split(".")[1], "all_on" not in n))
    if rows:
        print(f"\nwhat each optimisation is worth\n  "
              f"{'':26}{'launch/s':>11}{'rtt ns':>11}{'properties/s':>14}{'malloc/s':>11}{'64 MiB GB/s':>13}")
        for row in rows:
            print(f"  {row[7:]:26}" + "".join(f"{short(r.median(row + '.' + c) or 0):>{w}}" for c, w in
                  (("launch", 11), ("rtt", 11), ("properties", 14), ("malloc", 11), ("h2d", 13))))
    names = sorted({n.split(".")[1] for n in r.values if n.startswith("original.")})
    if names:
        columns = [c for c in ["native", "local"] + r.transports if any(f"original.{n}.{c}" in r.values for n in names)]
        print("\nthe earlier Flyt's programs, µs\n  " + f"{'':6}" + "".join(f"{c:>12}" for c in columns))
        for name in names:
            cells = [r.median(f"original.{name}.{c}") for c in columns]
            print(f"  {name:6}" + "".join(f"{'-' if v is None else format(v, '.1f'):>12}" for v in cells))


def draw(r, path, title):
    page = plot.Page(title)
    us = lambda name: r.median(name) / 1e3 if r.median(name) else None
    page.bars("A call that waits, median", "µs", [(label, us(name)) for label, name in (
        ("cache line", "line.spin"), ("messages", "message.spin"), ("shm", "rtt.shm"),
        ("raw unix", "raw.unix.spin"), ("unix", "rtt.unix"),
        ("raw tcp", "raw.tcp.spin"), ("tcp", "rtt.tcp"), ("tls", "rtt.tls"), ("in process", "rtt.local"),
        ("futex", "line.futex"))])
    page.bars("Launches", "per second", [(t, r.median(f"launch.{t}")) for t in r.transports + ["local"]])
    sizes = [(4096, "4K"), (65536, "64K"), (M, "1M"), (16 * M, "16M"), (256 * M, "256M"), (1 << 30, "1G")]
    for way, title_ in (("h2d", "To the device"), ("d2h", "From the device")):
        for kind in ("pageable", "pinned"):
            series = {n: r.sweeps[n] for n in ("memcpy", "pipe") if n in r.sweeps}
            series.update({t: r.sweeps[f"{t} {way} {kind}"] for t in r.transports + ["local"]
                           if f"{t} {way} {kind}" in r.sweeps})
            page.lines(f"{title_}, {kind}", "GB/s by bytes", series, sizes)
    series = {t: [(n, r.median(f"threads.{t}.{n}")) for n in (1, 2, 4, 8, 16) if r.median(f"threads.{t}.{n}")]
              for t in r.transports}
    page.lines("Threads that launch and wait", "per second by threads", {t: s for t, s in series.items() if s},
               [(n, str(n)) for n in (1, 2, 4, 8, 16)])
    page.bars("Process start to first result", "ms", [(t, r.median(f"start.{t}")) for t in ["local"] + r.transports])
    for transport in ("best", "tcp"):
        page.bars(f"Launches with an optimisation off, {transport}", "per second", sorted(
            (n.split(".")[2], r.median(n)) for n in r.values if n.startswith(f"switch.{transport}.")
            and n.endswith(".launch")))
    page.write(path)


def machine(place):
    model = platform.machine()
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return (f"{model}, {os.cpu_count()} CPUs, Linux {platform.release()}, on CPUs {place.cpus[0]} and {place.cpus[1]}, "
            f"load {os.getloadavg()[0]:.1f}")


def commit():
    done = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty", "--exclude=*"], capture_output=True,
                          text=True)
    return done.stdout.strip() or "unknown"


def available(place, servers):
    """The transports that this build has; what it has not is named in the table."""
    found = []
    for transport in ("shm", "unix", "tcp"):
        try:
            measure.run(place, servers["null"], transport, "calls rtt 5")
            found.append(transport)
        except Problem as problem:
            print(f"{transport}: not measured: {problem}", file=sys.stderr)
    return found


def version():
    script = os.path.join(HERE, "..", "control-managers", "packaging", "version")
    return subprocess.run([script], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"bench.py, Flyt {version()}")
    parser.add_argument("--bin", default="bin")
    parser.add_argument("--limits", default="build/plain/tests/bench_limits")
    parser.add_argument("--programs", default="build/bench")
    parser.add_argument("--results", default=os.path.join(HERE, "results"))
    parser.add_argument("--device", default="software", choices=["software", "nvidia"],
                        help="what copies and programs run on")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--only", default="", help="sections, separated by commas")
    parser.add_argument("--quick", action="store_true", help="short measurements")
    parser.add_argument("--smoke", action="store_true", help="does everything work? nothing is kept")
    arguments = parser.parse_args()
    # A smoke run is a part of every `make check`: what takes longer, or needs a cluster, is a test of its own there.
    usual = [s for s in SECTIONS if s not in ("moves", "recovery") or not arguments.smoke]
    chosen = arguments.only.split(",") if arguments.only else usual
    if unknown := [s for s in chosen if s not in SECTIONS]:
        parser.error(f"no such section: {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    size = SIZES["smoke" if arguments.smoke else "quick" if arguments.quick else "full"]
    scratch = tempfile.mkdtemp(prefix="flyt-bench.")
    servers = {}
    try:
        place = measure.Place(arguments.bin, arguments.limits, os.path.abspath(arguments.programs), scratch)
        where = machine(place)
        for name, gpu in (("null", "null"), ("device", arguments.device)):
            servers[name] = Server(place, gpu)
        r = Run(place, size, available(place, servers), servers)
        if not r.transports:
            raise Problem("no transport works")
        for repetition in range(1 if arguments.smoke else arguments.reps):
            for section in chosen:
                print(f"repetition {repetition + 1}: {section}", file=sys.stderr, flush=True)
                try:
                    globals()[section](r)
                except Problem as problem:                   # the other sections are still worth having
                    print(f"bench.py: {section}: {problem}", file=sys.stderr)
                    r.problems.append(f"{section}: {problem}")
        found = metrics(r)
        if arguments.smoke:
            draw(r, os.path.join(scratch, "latest.svg"), "smoke")
            if r.problems:
                return 1
            print(f"{len(r.values)} figures over {', '.join(r.transports)}; every count and every result was right")
            return 0
        os.makedirs(arguments.results, exist_ok=True)
        print(f"{where}\ncommit {commit()}, {arguments.reps} repetitions")
        print_targets(r, found)
        print_values(r)
        for note in r.notes:
            print("  " + note)
        draw(r, os.path.join(arguments.results, "latest.svg"), f"Flyt {commit()}: {where}")
        with open(os.path.join(arguments.results, "latest.json"), "w") as file:
            json.dump({"commit": commit(), "machine": where, "metrics": found}, file, indent=1)
            file.write("\n")
        print(f"\nwritten: {os.path.relpath(arguments.results)}/latest.json, latest.svg")
        for problem in r.problems:
            print(f"WRONG: {problem}")
        return 1 if r.problems else 0
    except Problem as problem:
        print(f"bench.py: {problem}", file=sys.stderr)
        return 1
    finally:
        for server in servers.values():
            server.stop()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
