"""Daemons of a cluster, started by hand for a test: a folder, certificates, configurations, logs."""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import testlib  # noqa: E402
from testlib import (Ctl, Tap, client_config, cluster_config, comment, ends_of_logs, free_ports,  # noqa: E402
                     node_config, sanitizer_environment, story)
from testlib import soon as until  # noqa: E402

BIN = os.path.abspath(sys.argv[1])
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
SUPPRESSIONS = "faketime.tsan"
work = tempfile.mkdtemp(prefix="flyt-hand-")
started = []
today = 0                               # of daemons with a clock that the test moves: days from the real one
os.environ["FLYT_LOG"] = "info"


def protocol_minor():
    """Of the control protocol; administrators of another one are refused."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "../../control-managers/common/control_prot.x")) as file:
        return int(re.search(r"const CTL_MINOR = (\d+);", file.read()).group(1))


def path(name):
    return os.path.join(work, name)


def write(name, text):
    return testlib.write(path(name), text)


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **more)


def start(name, *command, env=None):
    if os.path.exists(path(f"{name}.log")):
        os.rename(path(f"{name}.log"), path(f"{name}.log.{len(started)}"))
    started.append(testlib.spawn(path(f"{name}.log"), *command, environment=env))
    return started[-1]


def log(name):
    return testlib.read(path(f"{name}.log"))


def issue(role, name, *options):
    made = run(f"{BIN}/flytctl", "ca", "issue", path("ca"), role, name, "--out", path("tls"), *options)
    assert made.returncode == 0, made.stderr


def faked(ours, **variables):
    """ours: of a program of Flyt. A sanitizer's run-time library comes first; libfaketime has races of its own."""
    env = {**os.environ, **(sanitizer_environment(BIN) if ours else {})}
    write(SUPPRESSIONS, "race:libfaketime\ncalled_from_lib:libfaketime\n")
    os.chmod(path(SUPPRESSIONS), 0o644)
    return {**env, "LD_PRELOAD": f"{env.get('LD_PRELOAD', '')} {FAKETIME}".strip(), **variables,
            "TSAN_OPTIONS": f"{env.get('TSAN_OPTIONS', '')}:suppressions={path(SUPPRESSIONS)}"}


def on_day(day, ours=True):
    """The environment of a command for which it is this day."""
    return faked(ours, FAKETIME=f"{day:+}d")


def moved_clock():
    """The environment of a daemon whose clock is set as the file `clock` says. Its timers go on as they do."""
    return faked(True, FAKETIME_TIMESTAMP_FILE=path("clock"), FAKETIME_NO_CACHE="1", FAKETIME_DONT_FAKE_MONOTONIC="1",
                 FAKETIME_DONT_RESET="1")


def days_pass(days, *daemons):
    """For all daemons. These look at their certificates at once, and not within the hour."""
    global today
    today += days
    write("clock.new", f"{today:+}d\n")
    os.rename(path("clock.new"), path("clock"))
    for daemon in daemons:
        daemon.send_signal(signal.SIGHUP)


def issue_earlier(role, name, days):
    """A certificate as it would be today if it had been made so many days ago."""
    made = run(f"{BIN}/flytctl", "ca", "issue", path("ca"), role, name, "--out", path("tls"), "--force",
               env=on_day(today - days))
    assert made.returncode == 0, made.stderr


def revoke(role, name):
    made = run(f"{BIN}/flytctl", "ca", "revoke", path("ca"), role, name)
    shutil.copy(path("ca/ca.crl"), path("tls/ca.crl"))
    return made


ctl = Ctl(BIN, "--manager", f"unix://{work}/cluster.sock").run


def ctl_as(name, to, *words):
    """A person with a certificate asks from elsewhere."""
    return Ctl(BIN, "--manager", to, "--tls", path("tls"), "--as", name).run(*words)


def tls_keys(name):
    folder = f"{work}/tls"
    return f'tls = {{ ca = "{folder}/ca.crt"; certificate = "{folder}/{name}.crt"; key = "{folder}/{name}.key"; }};'


def certificates(*who):
    run(f"{BIN}/flytctl", "ca", "create", path("ca"))
    for role, name in who:
        issue(role, name)


def start_manager(ipc="", more="", env=None):
    """Returns the process and its ports, for nodes and for others."""
    ports = free_ports()
    write("cluster.conf", cluster_config(work, ports, ipc=ipc, security='tls = "on";', more=more))
    manager = start("cluster", f"{BIN}/flyt-cluster-manager", "--config", path("cluster.conf"), env=env)
    assert until(lambda: ctl("status").returncode == 0), log("cluster")
    return manager, ports


def start_node_and_vm(ports, env=None):
    """n1 with a software GPU, and vm1: both processes."""
    # GPU servers get the node manager's options for sanitizers, which may name this file.
    seen = f'sandbox-paths = ["{path(SUPPRESSIONS)}"];' if os.path.exists(path(SUPPRESSIONS)) else ""
    write("n1.conf", node_config(BIN, ports[0], "n1", path("n1"), node=seen, more=tls_keys("n1")))
    write("vm1.conf", client_config(ports[1], "vm1", path("vm1"), path("vm1.sock"), more=tls_keys("vm1")))
    node = start("n1", f"{BIN}/flyt-node-manager", "--config", path("n1.conf"), env=env)
    vm = start("vm1", f"{BIN}/flyt-client-manager", "--config", path("vm1.conf"), env=env)
    assert until(lambda: "event=registered" in log("n1") and "event=registered" in log("vm1")), log("n1") + log("vm1")
    return node, vm


def program_environment():
    env = {**os.environ, **sanitizer_environment(BIN), "FLYT_MANAGER": f"unix://{work}/vm1.sock"}
    env.pop("FLYT_SERVER", None)
    return env


def sanitizer_reports():
    """The logs of daemons and GPU servers that hold one, with its lines."""
    reports = []
    for file in glob.glob(path("*.log*")) + glob.glob(path("*/servers/*/log")):
        with open(file, errors="replace") as text:
            lines = text.read().splitlines()
        for at, line in enumerate(lines):
            if "Sanitizer:" in line or "runtime error:" in line:
                reports.append((file, lines[at:at + 60]))
                break
    return reports


def end_servers():
    """GPU servers, which go on without their node manager."""
    for entry in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(entry, "rb") as file:
                if f"{work}/".encode() in file.read():
                    os.kill(int(entry.split("/")[2]), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            pass


def cannot(why):
    """Ends a test that cannot run here."""
    shutil.rmtree(work, ignore_errors=True)
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def whole(function):
    """Calls it, and ends what was started. The exit status. Logs are shown where something failed."""
    try:
        status = story(function)
        if Tap.failed:
            ends_of_logs(path("*.log"), lines=12)
    finally:
        for process in started:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in started:
            process.wait(30)
        end_servers()
        reports = sanitizer_reports()
        for file, lines in reports:
            comment("\n  ".join([file, *lines]))
        shutil.rmtree(work, ignore_errors=True)
    return status or bool(reports)
