"""testlib.py: what tests in Python share: TAP, waiting with a limit, ports and processes, configurations of the
daemons, flytctl, and clusters of flyt-local.

    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
    from testlib import case, need, run_cases, until  # noqa: E402

A test is a list of cases (case, run_cases), or a story in which ok(…) says how far it came (ok, story).
"""
import argparse
import contextlib
import fcntl
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback

# ---- what a test found, as TAP ----


class Failed(AssertionError):
    """A test did not find what it expected."""


class Skip(Exception):
    """A case cannot run here; the text says why."""


class Tap:
    """What was printed: so many lines, so many of them `not ok`."""

    count = failed = skipped = 0


def need(condition, what):
    """what: text, or a function that makes it when it is needed."""
    if not condition:
        raise Failed(what() if callable(what) else what)


def ok(condition, what=None):
    """A line of TAP. With a text alone: what came before held, or it would have raised."""
    Tap.count += 1
    Tap.failed += what is not None and not condition
    good, what = what is None or condition, condition if what is None else what
    print(f"{'ok' if good else 'not ok'} {Tap.count} - {what}", flush=True)


def result(what, problem):
    """A line of TAP. The problem, a text, stands below it; there may be none."""
    ok(not problem, what)
    if problem:
        comment(problem)


def skip(what, why):
    Tap.count += 1
    Tap.skipped += 1
    print(f"ok {Tap.count} - {what} # SKIP {why}", flush=True)


def skip_all(why):
    """All that a test prints which cannot run here. Its exit status."""
    print(f"1..0 # SKIP {why}", flush=True)
    return 77


def comment(text):
    print("\n".join("# " + line for line in str(text).splitlines()), flush=True)


def ends_of_logs(*patterns, lines=25):
    """The last lines of these files, as comments."""
    for path in sorted(path for pattern in patterns for path in glob.glob(pattern)):
        with open(path, errors="replace") as file:
            comment("\n".join(f"{os.path.basename(path)}: {line}" for line in file.read().splitlines()[-lines:]))


def plan():
    """The last line, and the exit status of the test."""
    print(f"1..{Tap.count}", flush=True)
    return 1 if Tap.failed else 0


def totals():
    """The last line of a test that people run by hand; the exit status is 0 only when something passed."""
    passed = Tap.count - Tap.failed - Tap.skipped
    print(f"{passed} passed, {Tap.failed} failed" + (f", {Tap.skipped} skipped" if Tap.skipped else ""), flush=True)
    return 1 if Tap.failed or not Tap.count else 0


def story(function, *arguments, logs=()):
    """Calls it. An exception is one failed test, and shows the ends of these logs. The exit status."""
    try:
        function(*arguments)
    except Exception as problem:
        ok(False, f"{type(problem).__name__}: {problem}".splitlines()[0])
        comment(f"{problem}\n{traceback.format_exc()}")
        ends_of_logs(*logs)
    return plan()


cases = []


def case(function):
    """A decorator: the function is one of the module's cases."""
    cases.append(function)
    return function


def chosen(tests, first=3):
    """Those that the command line names from that word on; all when it names none."""
    return [test for test in tests if not sys.argv[first:] or test.__name__ in sys.argv[first:]]


def run_cases(tests=None, call=lambda test: test()):
    """Calls each test; one that raises Skip, or returns a text, was skipped. How many failed."""
    tests, failed = cases if tests is None else tests, Tap.failed
    for test in tests:
        name = test.__name__.replace("_", " ")
        try:
            why = call(test)
        except Skip as reason:
            why = reason
        except Exception as problem:  # a test that fails says nothing of the others
            result(name, f"{type(problem).__name__}: {problem}")
            continue
        if why:
            skip(name, why)
        else:
            ok(name)
    return Tap.failed - failed


def only_cases(folder=None, tests=None, call=lambda test: test()):
    """All that a test does which is nothing but cases. The folder goes at the end. The exit status."""
    try:
        run_cases(tests, call)
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    return plan()


# ---- waiting ----


def patience(seconds):
    """How long to wait for what must come within that time on an idle machine: as many times longer as programs wanted
    each processor in the last minute. Not for what must not happen within a time."""
    return seconds * max(1, os.getloadavg()[0] / os.cpu_count())


def until(condition, what, seconds=30):
    """Asks until the answer is true, and gives it. A question that fails, because a file is missing for example, counts
    as no. The time is that of an idle machine."""
    return within(condition, what, patience(seconds))


def allowed(seconds, bindir):
    """How long a thing may take with the programs of this folder that takes less than that on an idle machine: as
    patience, and several times as long where they have a sanitizer in them."""
    return patience(seconds) * (10 if sanitized(bindir, "thread") else 3 if sanitized(bindir, "address") else 1)


def within(condition, what, seconds):
    """As until, but the time is the clock's."""
    end = time.monotonic() + seconds
    while True:
        said = ""
        try:
            if value := condition():
                return value
        except (AssertionError, OSError, LookupError, ValueError) as error:
            said = f": {error}"
        if time.monotonic() > end:
            raise Failed(f"not within {seconds:g} s: {what() if callable(what) else what}{said}")
        time.sleep(0.02)


def soon(condition, seconds=30):
    """Whether the answer becomes true in that time."""
    try:
        within(condition, "", seconds)
    except Failed:
        return False
    return True


# ---- ports and processes ----


def free_ports(count=2):
    """Ports of this machine that nobody uses at the moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def listens(path):
    """Whether somebody accepts connections at this unix socket. The file alone may be there
    earlier, or be left over."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


def alive(pid):
    """Whether the process has any thread left. The first thread may have ended before the others, which still hold the
    process's sockets and locks."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX" or len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def unlocked(path):
    """Whether nobody holds the lock at this file. A child of a daemon that was killed may, until it runs a program of
    its own."""
    with contextlib.suppress(FileNotFoundError), open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return True


def end(process, seconds=15):
    """SIGTERM, and SIGKILL if that does not help. Its exit status."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return process.returncode


def write(path, text, mode=0o600):
    """A file with this content and these rights. Its path."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)
    return path


def read(path):
    with open(path, errors="replace") as file:
        return file.read()


def spawn(log, *command, environment=None):
    """Starts a program that writes into this file, behind what is there."""
    with open(log, "ab") as file:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment)


def bin_folder(description):
    """The folder of the built programs, for a test whose only argument is --bin."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="bin")
    return os.path.abspath(parser.parse_args().bin)


def sanitized(bindir, word=""):
    """Was this folder (build/<flavour>/bin) built with a sanitizer, or with the one of this name?"""
    flavour = os.path.basename(os.path.dirname(os.path.abspath(bindir)))
    return word in flavour and any(name in flavour for name in ("address", "thread"))


def sanitizer_environment(bindir):
    """What a program built without a sanitizer must load first to use libraries built with one."""
    for word, library in (("address", "libasan.so"), ("thread", "libtsan.so")):
        if sanitized(bindir, word):
            runtime = subprocess.run(["gcc", f"-print-file-name={library}"], capture_output=True,
                                     text=True).stdout.strip()
            # The program itself does not free everything, and CUDA's own start-up is not ours to judge. What
            # libtirpc.tsan says, cpu/common/wire.c says only where the program is built with ThreadSanitizer too.
            suppressions = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libtirpc.tsan")
            return {"LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0:exitcode=99",
                    "UBSAN_OPTIONS": "print_stacktrace=1",
                    "TSAN_OPTIONS": f"exitcode=99:suppressions={suppressions}"}
    return {}


# ---- GPU servers ----


class GpuServer:
    """cricket-rpc-server, which listens at these addresses: `uri` of the first one as it says, `uris` of all. more:
    further words of its command line; variables: of its environment. Its stderr goes into the file `log`. `with` ends
    it."""

    def __init__(self, bindir, *addresses, more=(), gpu="software", log=os.devnull, **variables):
        self.log, self.uris = log, []
        listen = [word for address in addresses for word in ("--listen", address)]
        with open(log, "a") as file:
            self.process = subprocess.Popen([os.path.join(bindir, "cricket-rpc-server"), "--gpu", gpu, *listen, *more],
                                            stdout=subprocess.PIPE, stderr=file, text=True,
                                            env=os.environ | variables)
        while len(self.uris) < len(addresses):
            line = self.process.stdout.readline()
            need(line, lambda: f"the server does not start: {read(log)}")
            self.uris += re.findall(r"listening on (\S+)", line)
        self.uri = self.uris[0]

    def end(self):
        """Its exit status."""
        return end(self.process)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


# ---- configurations of the daemons, each a text ----


def cluster_config(folder, ports=(0, 0), uri=None, name="cluster", tls="tls", ipc="", security="", more="",
                   address="127.0.0.1", state=None):
    """Of a cluster manager that keeps everything in the folder, under this name; its key in the folder `state`. ports:
    for nodes and for clients."""
    return f'''vm-resource-db = {{ uri = "{uri or f'sqlite://{folder}/{name}.db'}"; }};
ports = {{ address = "{address}"; node = {ports[0]}; client = {ports[1]}; }};
ipc = {{ frontend-socket = "{folder}/{name}.sock"; {ipc} }};
security = {{ ticket-key = "{state or folder}/{name}.key"; tls-folder = "{os.path.join(folder, tls)}"; {security} }};
{more}
'''


def node_config(bindir, port, name, state, secret="", node="", more="", address="127.0.0.1", manager="127.0.0.1",
                servers=""):
    """Of a node manager with a software GPU. secret: a file, or nothing. servers: further keys of virt-server."""
    secret = f'secret = "file:{secret}";' if secret else ""
    return f'''resource-manager = {{ address = "{manager}"; port = {port}; }};
node = {{ name = "{name}"; {secret} state-directory = "{state}"; gpu = "software"; addresses = ["{address}"]; {node} }};
virt-server = {{ program-path = "{bindir}/cricket-rpc-server"; listen-address = "{address}"; {servers} }};
{more}
'''


def client_config(port, name, state, socket_path, secret="", more="", manager="127.0.0.1", mode="0600"):
    """Of the client manager of a VM. secret: a file, or nothing."""
    secret = f'secret = "file:{secret}";' if secret else ""
    return f'''resource-manager = {{ address = "{manager}"; port = {port}; }};
vm = {{ name = "{name}"; {secret} state-directory = "{state}"; }};
ipc = {{ socket = "{socket_path}"; group = ""; mode = "{mode}"; }};
{more}
'''


# ---- flytctl ----


def flytctl(bindir, *arguments, expect=0, environment=None, stdin=None, limit=30):
    """Runs it; its exit status must be `expect` (None: any). What came back, and .json(): its stdout as such."""
    done = subprocess.run([os.path.join(bindir, "flytctl"), *arguments], capture_output=True, text=True,
                          timeout=patience(limit), input=stdin, env=environment)
    need(expect is None or done.returncode == expect,
         lambda: f"flytctl {' '.join(arguments)}: exit {done.returncode}, not {expect}\n{done.stdout}{done.stderr}")
    done.json = lambda: json.loads(done.stdout)
    return done


class Ctl:
    """flytctl with the same words before each command. ctl("node", "list") gives what it prints. `last` is all of the
    last run: returncode, stdout, stderr."""

    def __init__(self, bindir, *ahead, environment=None, limit=30):
        self.bin, self.ahead, self.environment, self.limit, self.last = bindir, ahead, environment, limit, None

    def run(self, *arguments, expect=None, **more):
        """All of a run."""
        self.last = flytctl(self.bin, *self.ahead, *arguments, expect=expect,
                            **{"environment": self.environment, "limit": self.limit, **more})
        return self.last

    def __call__(self, *arguments, expect=0, **more):
        done = self.run(*arguments, expect=expect, **more)
        need(done.stderr or not expect, f"flytctl {' '.join(arguments)}: exit {expect} without a word")
        return done.json() if "--json" in arguments else done.stdout

    def json(self, *arguments, **more):
        """What it prints as JSON: of events a list of the lines."""
        said = self("--json", *arguments, **more) if "events" not in arguments else self(*arguments, "-j", **more)
        return [json.loads(line) for line in said.splitlines()] if "events" in arguments else said

    def tries(self, *arguments):
        """json(), or None when it fails."""
        return self.last.json() if self.run("--json", *arguments).returncode == 0 and self.last.stdout.strip() else None


# ---- clusters of flyt-local ----


class Local:
    """A cluster of flyt-local in this folder. `env` is what its programs need. `with` shows the ends of its logs where
    something failed, ends it, and removes the folder."""

    def __init__(self, bindir, folder, *options, **variables):
        self.bin, self.dir, self.started = bindir, folder, []
        self.up(*options, **variables)

    def shell(self, command, **more):
        """Runs a line of a document with bash. Only the commands in it get LD_PRELOAD: bash crashes with libtsan."""
        env = dict(self.env)
        first = env.pop("LD_PRELOAD", None)
        command = f"export LD_PRELOAD={first}\n{command}" if first else command
        return subprocess.run(["bash", "-c", command], env=env, text=True, capture_output=True,
                              timeout=allowed(60, self.bin), **more)

    def up(self, *options, **variables):
        made = subprocess.run([f"{self.bin}/flyt-local", "up", "--gpu", "software", *options, self.dir],
                              capture_output=True, text=True, timeout=allowed(120, self.bin),
                              env=os.environ | variables)
        need(made.returncode == 0, made.stderr)
        # What the shell makes of the lines.
        out = subprocess.run(["bash", "-c", 'eval "$1"; env -0', "-", made.stdout], stdout=subprocess.PIPE, timeout=10)
        self.env = dict(item.split("=", 1) for item in out.stdout.decode().split("\0") if "=" in item)
        need("FLYT_SERVER" not in self.env and self.dir in self.env["FLYT_MANAGER"], self.env)
        self.env |= sanitizer_environment(self.bin)
        self.ctl = Ctl(self.bin, environment=self.env)
        self.json = self.ctl.json

    def command(self, *words):
        """flytctl, however it ends: all of a run."""
        return self.ctl.run(*words, limit=120)

    def run(self, *words, expect=0):
        """What flytctl says, on stdout and stderr."""
        done = self.command(*words)
        need(done.returncode == expect, lambda: f"{words}: {done}")
        return done.stdout + done.stderr

    def begin(self, *words):
        """flytctl, which goes on meanwhile."""
        return subprocess.Popen([f"{self.bin}/flytctl", *words], env=self.env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def rows(self, *words):
        """The rows of a list of flytctl."""
        rows = self.json(*words)
        return rows if isinstance(rows, list) else next(value for value in rows.values() if isinstance(value, list))

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        if failure:
            ends_of_logs(*self.logs())
        self.down()
        shutil.rmtree(self.dir, ignore_errors=True)

    def down(self):
        """Ends it. The exit status."""
        done = subprocess.run([f"{self.bin}/flyt-local", "down", self.dir], capture_output=True,
                              timeout=allowed(60, self.bin))
        for process in self.started:
            end(process)
        return done.returncode

    def pid(self, daemon):
        return int(read(f"{self.dir}/run/{daemon}.pid").split()[0])

    def log(self, daemon):
        return read(f"{self.dir}/log/{daemon}.log")

    def logs(self):
        """Patterns of the names of all logs."""
        return f"{self.dir}/log/*.log", f"{self.dir}/state/node-*/servers/*/log*"

    def kill(self, daemon, number=signal.SIGKILL):
        """Sends the signal, and waits until the daemon has ended. A function that starts it again as it was, behind
        the words that it is given, and waits until it serves."""
        pid = self.pid(daemon)
        command = read(f"/proc/{pid}/cmdline").split("\0")[:-1]
        environment = dict(item.split("=", 1) for item in read(f"/proc/{pid}/environ").split("\0") if "=" in item)
        os.kill(pid, number)
        until(lambda: not alive(pid), f"{daemon} ends")
        until(lambda: unlocked(f"{self.dir}/state/{daemon}/lock"), f"{daemon} gives its lock back")

        def again(*before):
            process = spawn(f"{self.dir}/log/{daemon}.log", *before, *command, environment=environment)
            since = read(f"/proc/{process.pid}/stat").rsplit(")", 1)[1].split()[19]
            write(f"{self.dir}/run/{daemon}.pid", f"{process.pid} {since}\n")
            self.started.append(process)
            sockets = {"cluster-manager": "cluster", "client-manager": "client"}
            if daemon in sockets:
                until(lambda: listens(f"{self.dir}/run/{sockets[daemon]}.sock"), f"{daemon} listens again")
            return process
        return again

    def server_pids(self):
        """Of the GPU servers, without their workers."""
        pids = [int(line.split()[1]) for state in glob.glob(f"{self.dir}/state/node-*/servers/*/state")
                for line in read(state).splitlines() if line.startswith("pid ")]
        return [pid for pid in pids if pid]
