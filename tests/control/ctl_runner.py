"""What the tests of flytctl share: a folder, flytctl, daemons."""
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import testlib  # noqa: E402

BIN = os.path.abspath(sys.argv[1])
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CTL = os.path.join(BIN, "flytctl")
work = tempfile.mkdtemp(prefix="flyt-ctl-")
environment = {k: v for k, v in os.environ.items() if not k.startswith("FLYT")}
environment["LC_ALL"] = "C.UTF-8"
environment["FLYTCTL_SETTINGS"] = os.path.join(work, "flytctl.conf")
daemons = []


ctl = testlib.Ctl(BIN, environment=environment, limit=20)


def path(name):
    return os.path.join(work, name)


def write(name, text, mode=0o600):
    return testlib.write(path(name), text, mode)


def start(name, *arguments, extra=None):
    daemons.append(testlib.spawn(path(name + ".log"), os.path.join(BIN, name), *arguments,
                                 environment={**environment, "FLYT_LOG": "info", **(extra or {})}))
    return daemons[-1]


def start_manager(config="cluster.conf", **extra):
    """The cluster manager, when it answers; flytctl asks it from now on."""
    write("flytctl.conf", f'cluster = {{ manager = "unix://{work}/cluster.sock"; }};\n')
    process = start("flyt-cluster-manager", "--config", path(config), extra=extra)
    testlib.until(lambda: ctl("status"), lambda: "it answers: " + testlib.read(path("flyt-cluster-manager.log")))
    return process


def run(tests):
    """Calls each test, and ends the daemons. The exit status."""
    write("flytctl.conf", "")
    try:
        if testlib.run_cases(tests):
            testlib.ends_of_logs(path("flyt-cluster-manager.log"), lines=8)
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            testlib.end(daemon, 10)
        shutil.rmtree(work, ignore_errors=True)
    return testlib.plan()
