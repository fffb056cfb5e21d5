"""What the tests of flytctl share: a folder, flytctl, daemons."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from cases import Failed, run_all

BIN = os.path.abspath(sys.argv[1])
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CTL = os.path.join(BIN, "flytctl")
work = tempfile.mkdtemp(prefix="flyt-ctl-")
environment = {k: v for k, v in os.environ.items() if not k.startswith("FLYT")}
environment["LC_ALL"] = "C.UTF-8"
environment["FLYTCTL_SETTINGS"] = os.path.join(work, "flytctl.conf")
daemons = []


def ctl(*arguments, expect=0, stdin=None, extra=None, limit=20):
    """Runs flytctl; its exit status must be `expect`. Returns stdout (parsed when --json is among the arguments)."""
    done = subprocess.run([CTL, *arguments], capture_output=True, text=True, timeout=limit, input=stdin,
                          env={**environment, **(extra or {})})
    ctl.exit, ctl.stdout = done.returncode, done.stdout
    if expect is not None and done.returncode != expect:
        raise Failed(f"flytctl {' '.join(arguments)}: exit {done.returncode}, not {expect}\n{done.stdout}{done.stderr}")
    if expect and not done.stderr:
        raise Failed(f"flytctl {' '.join(arguments)}: exit {expect} without a word")
    ctl.stderr = done.stderr
    return json.loads(done.stdout) if "--json" in arguments else done.stdout


def path(name):
    return os.path.join(work, name)


def write(name, text, mode=0o600):
    with open(path(name), "w") as out:
        out.write(text)
    os.chmod(path(name), mode)
    return path(name)


def start(name, *arguments, extra=None):
    log = open(path(name + ".log"), "ab")
    process = subprocess.Popen([os.path.join(BIN, name), *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                               env={**environment, "FLYT_LOG": "info", **(extra or {})})
    daemons.append(process)
    return process


def run(tests):
    """Calls each test, and ends the daemons. The exit status."""
    write("flytctl.conf", "")
    try:
        failures = run_all(tests)
    finally:
        for daemon in reversed(daemons):
            if daemon.poll() is None:
                daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
        log = path("flyt-cluster-manager.log")
        if failures and os.path.exists(log):
            print("# cluster manager: " + "# ".join(open(log).readlines()[-8:]))
        shutil.rmtree(work, ignore_errors=True)
    return 1 if failures else 0
