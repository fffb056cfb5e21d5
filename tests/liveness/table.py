#!/usr/bin/env python3
"""table.py BIN BACKLOG STALLS [--silence SECONDS] [--all] [--only WORDS] [--keep DIR]: the table of docs/liveness.md,
row by row.

Two machines made of network namespaces, a GPU server on one of them, programs on the other (and on the same one, where
the transport wants that). Each row says who stalls, where, for how long, over which transport, and what becomes of it:
the program goes on with right results, or it and its worker end in bounded time. Times are in units of FLYT_SILENCE,
which is short here (--silence); with
--all every state meets every transport.

Speaks TAP; exit status 77 where neither root nor user namespaces give us network namespaces.

shows: life and death: a program that is stopped for three times the silence goes on: in twelve states, over each
   transport
shows: life and death: one thread of a program is stopped, as a debugger does, and then goes on; the program does not
   lose its server
shows: life and death: whatever waits behind a kernel that runs for three times the silence succeeds, over each
   transport
shows: life and death: a server and a program in one process that are short of processors do not take each other for
   dead
shows: life and death: a server that is stopped for less than the silence is waited for; for longer, its program is
   told in bounded time
shows: life and death: a device that stands still is waited for; a thread of the worker that hangs in our own code
   ends its session, with a reason
shows: life and death: a network that is cut for less than the silence is borne; for longer, both ends notice, also
   of a stopped program
shows: life and death: of a program that is killed no worker is left, whatever it has queued behind a kernel without end
"""
import argparse
import concurrent.futures
import ctypes
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cluster"))
import machines
from machines import Machine, descendants, send  # noqa: E402
from testlib import alive, plan, result, sanitized, sanitizer_environment, until  # noqa: E402

HERE, THERE = "near", "far"                      # the machines: the GPU server's, and the programs'
PORTS = {"tcp": 7001, "tls": 7002}
BRIDGE = machines.NETWORK + "254"               # this program's own address between them
OVER_NETWORK = ("tcp", "lanes", "tls")
TRANSPORTS = ("shm", "unix") + OVER_NETWORK + ("local",)
# State of stalls.cu, and how long its kernel runs, in silences.
STATES = {"idle": 0, "wait": 4, "ask": 4, "launch": 0, "in": 0, "out": 0, "pinned": 0, "backlog": 4, "answers": 0.1,
          "host": 0, "memory": 0, "threads": 0}
BACKLOGS = ("copy", "pageable", "pinned", "small", "launches", "parameters", "events", "host", "thread", "released")
AT_ONCE = 14
SLACK = 8                                       # seconds that a machine with much to do may be late
PATIENCE = 120  # seconds that anything may take on a busy machine, beside what a row is about


class Programs:
    def __init__(self, arguments, folder):
        self.arguments, self.folder, self.silence = arguments, folder, arguments.silence
        self.near, self.far = Machine(HERE, 1), Machine(THERE, 2)
        machines.ip(f"address add {BRIDGE}/24 dev br0")
        self.environment = {**os.environ, "FLYT_SILENCE": str(self.silence), "FLYT_LOG": "info"}
        self.socket = f"unix://{folder}/server.sock"
        words = [os.path.join(arguments.bin, "cricket-rpc-server"), "--gpu", "software", "--workers", "4",
                 "--plain-tcp", "--listen", self.socket]
        for kind, port in PORTS.items():
            words += ["--listen", f"{kind}://{self.near.address}:{port}"]
        self.log = open(os.path.join(folder, "server.log"), "w+")
        said = open(os.path.join(folder, "server.out"), "w")
        self.server = subprocess.Popen(self.near.command(*words), stdout=said, stderr=self.log, env=self.environment)
        self.addresses = until(lambda: (lines := open(said.name).read().split())
                               and [w for w in lines if "://" in w][2:] and
                               {w.split("://")[0]: w for w in lines if "://" in w}, "the server listens", PATIENCE)
        self.lock = threading.Lock()

    def start(self, transport, *words, relay=None):
        environment = {**self.environment, **sanitizer_environment(self.arguments.bin)}
        if transport == "local":
            uri = "local:software"
        elif transport in ("shm", "unix"):
            uri = self.socket
        else:
            uri = self.addresses["tls" if transport == "tls" else "tcp"]
        if transport == "unix":
            environment["FLYT_PERF"] = "no_shm"
        environment["FLYT_LANES"] = "2:65536" if transport in ("lanes", "tls") else "0"
        return Program(self, transport,
                       [os.path.join(self.arguments.bin, "flyt-run"), "--server", relay or uri, *map(str, words)],
                       environment)

    def worker(self, program):
        """The process that serves a program: the server's log names it by the program's pid."""
        if program.transport == "local":
            return program.pid
        def find():
            with open(self.log.name, errors="replace") as log:
                lines = [line for line in log if "event=session-began" in line and f"[{program.pid}] " in line]
            return int(lines[-1].split("[")[1].split("]")[0]) if lines else 0
        return until(find, "the server's log names the worker", PATIENCE)


class Program:
    def __init__(self, programs, transport, words, environment):
        self.programs, self.transport, self.state = programs, transport, None
        self.process = subprocess.Popen(programs.far.command(*words), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT,
                                        env=environment, text=True, errors="replace")
        self.pid, self.lines = self.process.pid, []       # nsenter, flyt-run and the program are one process
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
        self.lines.append(None)

    def text(self):
        return "\n".join(line for line in list(self.lines) if line is not None)

    def says(self, word, seconds=PATIENCE):
        until(lambda: word in self.lines or None in self.lines, lambda: f"it says \"{word}\": {self.text()}", seconds)
        assert word in self.lines, f"it ends and does not say \"{word}\": {self.text()}"

    def tell(self):
        """It shall come to an end."""
        try:
            self.process.stdin.write("end\n")
            self.process.stdin.flush()
        except OSError:
            pass

    def ends(self, seconds=PATIENCE):
        """Its exit status."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end within {seconds:g} s: {self.text()}") from None
        self.reader.join()
        return status

    def kill(self):
        if self.process.poll() is None:
            send(self.pid, signal.SIGCONT)
            self.process.kill()
            self.process.wait()


# ---- one thread of a process, stopped as a debugger does ----

SEIZE, INTERRUPT, DETACH, STOPPED = 0x4206, 0x4207, 17, "t"


def ptrace(request, tid, data=0):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(request, tid, None, data) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request} of {tid}")


def stop_thread(pid, tid, seconds):
    """All by one thread of ours: the system knows the tracer by its thread."""
    ptrace(SEIZE, tid)
    ptrace(INTERRUPT, tid)
    os.waitpid(tid, 0x40000000)                         # __WALL
    time.sleep(seconds)
    try:
        ptrace(DETACH, tid)
    except OSError as error:                            # its process has ended, and waits for its tracer
        os.waitpid(tid, 0x40000000)
        raise AssertionError(f"thread {tid} of {pid} ended while it was stopped") from error


# ---- a program on its way to the server ----

class Relay:
    """Between a program and the server. Of the first connection it passes on what the server says only once the program
    has been stopped, or nothing at all before: after so many (0 or 1) pieces of what the program says."""

    def __init__(self, programs, transport, pieces):
        self.pieces, self.caught, self.first = pieces, threading.Event(), True
        if transport == "unix":
            path = os.path.join(programs.folder, f"relay-{id(self)}.sock")
            self.family, self.uri = socket.AF_UNIX, "unix://" + path
            self.target = programs.socket.removeprefix("unix://")
            self.listener = socket.socket(self.family)
            self.listener.bind(path)
            self.listener.listen()
        else:
            uri = programs.addresses[transport]
            self.family, self.target = socket.AF_INET, (programs.near.address, PORTS[transport])
            self.listener = socket.create_server((BRIDGE, 0))
            self.uri = uri.replace(f"{programs.near.address}:{PORTS[transport]}",
                                   f"{BRIDGE}:{self.listener.getsockname()[1]}")
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        try:
            while True:
                near, _ = self.listener.accept()
                far = socket.socket(self.family)
                far.connect(self.target)
                first, self.first = self.first, False
                threading.Thread(target=self.pass_on, args=(near, far, first, True), daemon=True).start()
                threading.Thread(target=self.pass_on, args=(far, near, first, False), daemon=True).start()
        except OSError:
            pass

    def pass_on(self, source, sink, first, from_program):
        pieces = 0
        try:
            if first and from_program and not self.pieces:
                self.caught.set()                   # it never gets further
                source.recv(1)
                return
            while data := source.recv(65536):
                if first and from_program:
                    sink.sendall(data[:len(data) // 2])
                    pieces += 1
                    if pieces == self.pieces:
                        self.caught.set()
                        source.recv(1)
                        return
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self.listener.close()


# ---- rows ----

def goes_on(program, seconds=PATIENCE):
    program.tell()
    status = program.ends(seconds)
    assert status == 0 and "done" in program.lines, f"exit status {status}: {program.text()}"


def is_lost(program, within, what):
    """It fails with error 46, soon enough, and says why."""
    if program.state == "idle":
        program.tell()                          # else it calls nobody
    status = program.ends(within)
    assert status == 1 and "is lost" in program.text() and "(46)" in program.text(), (
        f"exit status {status} after {what}: {program.text()}")


def worker_ends(worker, within, what):
    until(lambda: not alive(worker), f"{what}, and its worker ends", within)


class Table:
    def __init__(self, programs):
        self.programs, self.silence = programs, programs.silence
        self.random = random.Random(1)
        self.stuck = set()                      # programs whose worker was made to hang

    def in_state(self, transport, state, kernel=None):
        seconds = (STATES[state] if kernel is None else kernel) * self.silence
        program = self.programs.start(transport, self.programs.arguments.stalls, state, seconds)
        program.state = state
        program.says("ready")
        worker = self.programs.worker(program)
        time.sleep(self.random.uniform(0.02, 0.3))
        return program, worker

    def stop(self, pids, silences):
        for pid in pids:
            send(pid, signal.SIGSTOP)
        time.sleep(silences * self.silence)
        for pid in pids:
            send(pid, signal.SIGCONT)

    # -- each takes (transport, state) and raises AssertionError where the row does not hold --

    def program_stopped(self, transport, state):
        program, _ = self.in_state(transport, state)
        try:
            self.stop([program.pid], 3)
            time.sleep(0.2)
            goes_on(program)
        finally:
            program.kill()

    def both_stopped(self, transport, state):
        program, worker = self.in_state(transport, state)
        try:
            self.stop({program.pid, worker}, 3)
            time.sleep(0.2)
            goes_on(program)
        finally:
            program.kill()

    def thread_stopped(self, transport, state):
        most = 6                                        # threads; the kernel must run until the last one has gone on
        program, _ = self.in_state(transport, state, kernel=1.5 * most + 1 if STATES[state] else None)
        try:
            try:
                for tid in sorted(map(int, os.listdir(f"/proc/{program.pid}/task")))[:most]:
                    stop_thread(program.pid, tid, 1.5 * self.silence)
            except AssertionError as error:
                raise AssertionError(f"{error}: {program.text()}") from error
            goes_on(program)
        finally:
            program.kill()

    def server_thread_hangs(self, transport, which):
        """One thread of the worker stands still: the device's, or one of ours. The program learns of the second."""
        program, worker = self.in_state(transport, "wait", kernel=1)
        self.stuck.add(f"[{program.pid}]")
        try:
            names = {int(tid): open(f"/proc/{worker}/task/{tid}/comm").read().strip()
                     for tid in os.listdir(f"/proc/{worker}/task")}
            ours = [tid for tid, name in names.items() if name == which]
            others = [tid for tid, name in names.items() if not name.startswith("flyt-") and tid != worker]
            with concurrent.futures.ThreadPoolExecutor(64) as pool:
                stopped = [pool.submit(stop_thread, worker, tid, 4 * self.silence)
                           for tid in (others if which == "device" else ours)]
                assert stopped, f"no thread {which}: {names}"
                if which == "device":
                    goes_on(program)
                else:
                    is_lost(program, 3 * self.silence + SLACK, f"{which} hung")
                for one in stopped:
                    one.exception()              # the process may have ended meanwhile
        finally:
            program.kill()

    def server_stopped_short(self, transport, state):
        program, worker = self.in_state(transport, state)
        try:
            self.stop([worker], 0.5)
            goes_on(program)
        finally:
            program.kill()

    def server_stopped_long(self, transport, state):
        program, worker = self.in_state(transport, state)
        try:
            send(worker, signal.SIGSTOP)
            is_lost(program, 2 * self.silence + SLACK, "its server was stopped")
            send(worker, signal.SIGCONT)
            worker_ends(worker, 2 * self.silence + SLACK, "the program has gone")
        finally:
            send(worker, signal.SIGCONT)
            program.kill()

    def server_killed(self, transport, state):
        program, worker = self.in_state(transport, state)
        try:
            send(worker, signal.SIGKILL)
            is_lost(program, SLACK, "its server was killed")
        finally:
            program.kill()

    def program_killed(self, transport, state):
        program, worker = self.in_state(transport, state, kernel=1000 if STATES[state] else 0)
        time.sleep(1)                            # by then all is full that can be
        program.kill()
        worker_ends(worker, 2 * self.silence + SLACK, "the program was killed")

    # -- these take all cases of a row at once, since they strike a machine; {case: None, or what is wrong} --

    def all_in_state(self, cases, **more):
        with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
            return list(pool.map(lambda case: self.in_state(*case, **more), cases))

    def judge_all(self, cases, programs, judge):
        def one(case, program, worker):
            try:
                judge(program, worker)
                return None
            except (AssertionError, OSError) as error:
                return f"{type(error).__name__}: {error}"
            finally:
                program.kill()
        with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
            return list(pool.map(lambda both: one(both[0], *both[1]), zip(cases, programs)))

    def cut_short(self, cases):
        programs = self.all_in_state(cases)
        self.programs.far.drop()
        time.sleep(0.25 * self.silence)
        self.programs.far.forward()
        return self.judge_all(cases, programs, lambda program, worker: goes_on(program))

    def cut(self, cases, stopped=False):
        programs = self.all_in_state(cases)
        if stopped:
            for program, _ in programs:
                send(program.pid, signal.SIGSTOP)
            time.sleep(1.5 * self.silence)      # by then its machine takes nothing more
        self.programs.far.drop()
        within = 2 * self.silence + SLACK

        def judge(program, worker):
            worker_ends(worker, within, "the network was cut")
            if not stopped:
                is_lost(program, within, "the network was cut")
        found = self.judge_all(cases, programs, judge)
        self.programs.far.forward()
        return found

    def cut_while_stopped(self, cases):
        return self.cut(cases, stopped=True)

    def starved(self, cases):
        programs = self.all_in_state(cases)
        for pid in {pid for both in programs for pid in (both[0].pid, both[1])}:
            for tid in os.listdir(f"/proc/{pid}/task"):
                os.setpriority(os.PRIO_PROCESS, int(tid), 19)
        hogs = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(4 * os.cpu_count())]
        time.sleep(4 * self.silence)
        for hog in hogs:
            hog.kill()
            hog.wait()
        return self.judge_all(cases, programs, lambda program, worker: goes_on(program))

    def attach_stopped(self, transport, stage):
        """The program is stopped in the middle of its way to the server, for longer than the server waits for its first
        call."""
        relay = Relay(self.programs, transport, {"connected": 0, "half said": 1}[stage])
        try:
            program = self.programs.start(transport, self.programs.arguments.stalls, "launch", 0, relay=relay.uri)
            try:
                relay.caught.wait(PATIENCE)
                time.sleep(0.05)
                self.stop([program.pid], (7 if transport == "tls" else 12) / self.silence)
                program.says("ready")
                goes_on(program)
            finally:
                program.kill()
        finally:
            relay.close()

    def backlog(self, transport, what):
        program = self.programs.start(transport, self.programs.arguments.backlog, 3 * self.silence, 1, what)
        try:
            status = program.ends(PATIENCE + 40 * self.silence)
            assert status == 0, f"exit status {status}: {program.text()}"
        finally:
            program.kill()


def pairs(rows, columns, every):
    """All pairs; or each row and each column at least once, turning."""
    rows, columns = list(rows), list(columns)
    if every:
        return [(c, r) for r in rows for c in columns]
    most = max(len(rows), len(columns))
    return [(columns[i % len(columns)], rows[i % len(rows)]) for i in range(most)]


def report(name, problem):
    result(name, "\n".join((problem or "").splitlines()[-15:]))


def judged(method, case):
    """None, or what is wrong."""
    try:
        method(*case)
        return None
    except (AssertionError, OSError) as error:
        return f"{type(error).__name__}: {error}"


def run(rows, at_once):
    """The cases of these rows, so many at a time: they mostly sleep."""
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        running = {pool.submit(judged, method, case): f"{name}: {case[1]}, {case[0]}" for name, method,
                   cases in rows for case in cases}
        for one in concurrent.futures.as_completed(running):
            report(running[one], one.result())


def strike(rows):
    """The cases of each row together, and nothing beside them."""
    for name, method, cases in rows:
        for case, problem in zip(cases, method(cases) if cases else []):
            report(f"{name}: {case[1]}, {case[0]}", problem)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("backlog")
    parser.add_argument("stalls")
    parser.add_argument("--silence", type=int, default=3)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--state", default="", help="only these, separated by commas")
    parser.add_argument("--keep", default="")
    arguments = parser.parse_args()
    for name in ("bin", "backlog", "stalls"):
        setattr(arguments, name, os.path.abspath(getattr(arguments, name)))
    if os.environ.get("FLYT_LIVENESS_INSIDE") != "1":
        os.environ["FLYT_LIVENESS_INSIDE"] = "1"
        machines.enter([os.path.abspath(sys.argv[0]), *sys.argv[1:]], False)
    folder = os.path.abspath(arguments.keep) if arguments.keep else tempfile.mkdtemp(prefix="flyt-liveness.")
    os.makedirs(folder, exist_ok=True)
    programs = Programs(arguments, folder)
    table = Table(programs)
    every, states, remote = arguments.all, list(STATES), [t for t in TRANSPORTS if t != "local"]
    single = [
        ("program stopped", table.program_stopped, pairs(states, TRANSPORTS, every)),
        ("program and server stopped", table.both_stopped,
         pairs(["launch", "wait", "out", "backlog", "answers"], remote, every)),
        ("one thread stopped", table.thread_stopped, pairs(["threads", "wait", "launch"], TRANSPORTS, every)),
        ("a thread of the server hangs", table.server_thread_hangs,
         pairs(["device", "flyt-completion"], remote, every)),
        ("server stopped for a short time", table.server_stopped_short, pairs(["launch", "wait", "in"], remote, every)),
        ("server stopped", table.server_stopped_long,
         pairs(["launch", "wait", "backlog", "idle", "out", "in"], remote, every)),
        ("server killed", table.server_killed, pairs(["launch", "wait", "backlog", "out", "in"], remote, every)),
        ("program killed", table.program_killed, pairs(["backlog", "wait", "answers", "out", "in"], remote, every)),
        ("program stopped while it attaches", table.attach_stopped,
         pairs(["connected", "half said"], ["unix", "tls"], every)),
        ("kernel for three silences", table.backlog, pairs(BACKLOGS, TRANSPORTS, every)),
    ]
    together = [
        ("network cut for a short time", table.cut_short,
         pairs(["launch", "wait", "out", "in", "answers", "backlog"], OVER_NETWORK, every)),
        ("network cut", table.cut, pairs(["launch", "wait", "idle", "out", "in", "backlog"], OVER_NETWORK, every)),
        ("program stopped, then network cut", table.cut_while_stopped,
         pairs(["answers", "out", "idle", "backlog"], OVER_NETWORK, every)),
        ("processors short", table.starved,
         pairs(["launch", "wait", "in", "threads", "backlog"], ("local", "shm", "tcp"), every)),
    ]

    def wanted(rows):
        chosen = arguments.state.split(",") if arguments.state else None
        return [(name, method, [case for case in cases if not chosen or case[1] in chosen]) for name, method,
                cases in rows if arguments.only in name]
    try:
        # A sanitizer's workers begin slowly: of many at once some would not answer HELLO within the short silence.
        run(wanted(single), AT_ONCE // 3 if sanitized(arguments.bin) else AT_ONCE)
        strike(wanted(together))
        programs.server.send_signal(signal.SIGTERM)
        try:
            status = programs.server.wait(15)
        except subprocess.TimeoutExpired:
            status = "none: it did not stop within 15 s of SIGTERM"
        programs.log.seek(0)
        log = programs.log.read()
        stuck = [line for line in log.splitlines() if "event=session-stuck" in line
                 and not any(program in line for program in table.stuck) or
                 any(f" signal={number} " in line for number in (signal.SIGSEGV.value, signal.SIGABRT.value))]
        report("the server stops cleanly", None if status == 0 and not stuck else f"{status}\n" + "\n".join(stuck))
    finally:
        for pid in descendants(programs.server.pid):
            send(pid, signal.SIGCONT)
            send(pid, signal.SIGKILL)
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    return plan()


if __name__ == "__main__":
    sys.exit(main())
