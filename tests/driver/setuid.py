#!/usr/bin/env python3
"""setuid.py BIN PROGRAM: what the environment of a setuid program can do; TAP on stdout.

shows: security: in a setuid program no variable of the caller chooses a server, writes a file or reaches NVML's helper

PROGRAM belongs to root here and has the setuid bit; a user without rights starts it. Flyt's libraries are in the
system's list, as `make install-client-lib` puts them there, and a GPU server listens where programs look without a
setting. Both are made in a mount namespace, where /etc, /run and /usr/local/lib are others.
"""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import GpuServer, plan, result, skip_all  # noqa: E402

BIN, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:3])
CALLER = 65534
GOOD = "{}: 0 1, 0, 1, 0 0 5\nnvml: 0 0 1\n"


def inside(folder):
    """Runs in the namespace: the server, and the program once per set of variables."""
    server = GpuServer(BIN, "unix:///run/flyt/server.sock")
    os.chmod("/run/flyt/server.sock", 0o666)
    privileged, plain = f"{folder}/privileged", f"{folder}/plain"
    guarded, own = f"{folder}/guarded", f"{folder}/own"
    for place, mode in ((guarded, 0o755), (own, 0o777)):
        os.mkdir(place)
        os.chmod(place, mode)

    def run(program, *arguments, **variables):
        # -k: a variable that counts may send the program to where nobody answers
        return subprocess.run(["timeout", "-k1", "20", "setpriv", f"--reuid={CALLER}", f"--regid={CALLER}",
                               "--clear-groups", program, *arguments],
                              capture_output=True, text=True, env=variables, timeout=60)

    def check(name, passed, told):
        result(name, "" if passed else str(told))

    def serves(name, *arguments, **variables):
        done = run(privileged, *arguments, **variables)
        check(name, done.stdout == GOOD.format("setuid"), done)
        return done

    serves("it uses the machine's server")
    for variable, name in (("FLYT_TRACE", "trace"), ("CUDA_LOG_FILE", "log")):
        done = run(plain, **{variable: f"{own}/{name}"})
        check(f"{variable} of a plain program makes a file", done.stdout == GOOD.format("plain") and
              os.path.getsize(f"{own}/{name}") > 0, done)
        serves(f"{variable} does not harm", **{variable: f"{guarded}/{name}"})
        check("and makes no file", not os.listdir(guarded), os.listdir(guarded))
    for variable, value in (("FLYT_SERVER", "unix:///nowhere"), ("FLYT_MANAGER", "/nowhere")):
        done = run(plain, **{variable: value, "FLYT_WAIT": "no"})
        check(f"{variable}={value} counts in a plain program", done.stdout != GOOD.format("plain"), done)
        serves("and not in a setuid one", **{variable: value, "FLYT_WAIT": "no"})
    done = run(plain, CUDA_VISIBLE_DEVICES="-1")
    check("CUDA_VISIBLE_DEVICES names no file, and counts in both",
          done.stdout.startswith("plain: 100") and
          run(privileged, CUDA_VISIBLE_DEVICES="-1").stdout.startswith("setuid: 100"), done)
    done = run(privileged, FLYT_STATS="1", FLYT_LOG="debug", FLYT_TRACE="1")
    check("nothing of the program's memory is printed for the caller", not done.stderr, done)
    serves("what the program sets itself does not count either", "own")
    server.end()
    return plan()


def main():
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        return skip_all("only root can make a setuid program and change the machine's loader")
    folder = tempfile.mkdtemp(prefix="flyt-setuid-")
    try:
        if os.statvfs(folder).f_flag & os.ST_NOSUID:
            return skip_all("the temporary folder is mounted with nosuid")
        os.chmod(folder, 0o755)
        for name, mode in (("plain", 0o755), ("privileged", 0o4755)):
            os.chmod(shutil.copy(PROGRAM, os.path.join(folder, name)), mode)
        script = ("set -e; for f in /etc /usr/local/lib; do mkdir -p $0/copy$f; cp -a $f/. $0/copy$f;"
                  " mount --bind $0/copy$f $f; done\n"
                  "mount -t tmpfs none /run; mkdir /run/flyt; mount -t tmpfs none /var/cache; umask 0\n"
                  f"FORCE=1 cpu/client/install/install-client-lib {BIN} 2> $0/installed ||"
                  " { cat $0/installed; exit 1; }\n"
                  f"exec {sys.executable} {os.path.abspath(__file__)} {BIN} $0 inside\n")
        return subprocess.run(["unshare", "-m", "sh", "-c", script, folder], timeout=300, check=False).returncode
    finally:
        shutil.rmtree(folder, ignore_errors=True)


sys.exit(inside(sys.argv[2]) if sys.argv[3:] == ["inside"] else main())
