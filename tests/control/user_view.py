#!/usr/bin/env python3
"""tests/control/user_view.py BIN HOLDER: what a user sees of the GPUs of a VM: flyt-run --status. Speaks TAP.

HOLDER is control_client_program: it takes memory, and goes on when it is given a line.

shows: flyt-run --status: entitlement, servers, own programs with memory and load, or place and reason, within a second
shows: usage: the executable of a program is what the kernel says; where the client manager may not see it, it is marked
shows: flyt-run --status: programs of other users are counted only; without the cluster manager it says what is known
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import Local, allowed, case, need, only_cases, read, until, write  # noqa: E402

BIN, HOLDER = (os.path.abspath(path) for path in sys.argv[1:3])
FOLDER = tempfile.mkdtemp(prefix="flyt-view-")
NOBODY = 65534
MIB = 1 << 20
cluster = Local(BIN, os.path.join(FOLDER, "cluster"), "--nodes", "1", FLYT_SOFTGPU_SMS="4")


# A program that speaks to the client manager by hand, and says that it is another one. With 0 the kernel shows its file
# to nobody without CAP_SYS_PTRACE.
LIAR = """import ctypes, sys
sys.path.insert(0, sys.argv[1])
from wire import OF_PROGRAM, Peer
ctypes.CDLL(None).prctl(4, int(sys.argv[3]), 0, 0, 0)       # PR_SET_DUMPABLE
peer = Peer(sys.argv[2])
peer.hello(OF_PROGRAM, "pid-1")
peer.attach("/bin/" + "long/" * 100 + "innocent")
sys.stdin.read()
"""


def status(*options, code=0, user=None, **variables):
    begun = time.monotonic()
    done = subprocess.run([f"{BIN}/flyt-run", "--status", *options], capture_output=True, text=True, timeout=30,
                          env=cluster.env | variables, user=user)
    status.took = time.monotonic() - begun
    need(done.returncode == code, done)
    return done.stdout if not code or not done.stderr else done.stdout + done.stderr


def view(**options):
    return json.loads(status("--json", **options))


def begin(attached=True):
    process = subprocess.Popen([f"{BIN}/flyt-run", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=cluster.env)
    need(not attached or process.stdout.readline() == "attached\n", lambda: process.stderr.read())
    return process


def finish(process):
    out, problem = process.communicate("\n", timeout=60)
    need(process.returncode == 0, out + problem)


@case
def nothing_runs():
    seen = view()
    need(seen["complete"] and seen["vm"] == "local" and seen["sms"] == 4 and seen["gpus"] == 1 and seen["grouping"] and
         seen["servers"] == [] == seen["programs"] and seen["hidden"] == 0, seen)
    text = status()
    need("VM local: 4 SMs and 1G of 1 GPU, for all its programs together" in text, text)
    need("No program of yours" in text, text)
    need(not cluster.json("server", "list") and not cluster.json("program", "list"), "the question took a GPU")


@case
def what_runs():
    begin.first = begin()
    seen = view()
    need(status.took < allowed(1, BIN), f"{status.took} s")
    server, program = seen["servers"][0], seen["programs"][0]
    need(len(seen["servers"]) == len(seen["programs"]) == 1 and program["state"] == "running", seen)
    need(program["server"] == server["id"] and program["pid"] == begin.first.pid and program["uid"] == os.getuid() and
         program["executable"].endswith("control_client_program") and program["transport"] == "shared-memory", program)
    need(MIB <= program["memory_used"] <= server["memory_used"] <= server["memory"] and 0 <= program["busy"] <= 1, seen)
    need(server["node"] == "node-1" and server["gpus"] == ["soft-node-1-0"] and server["state"] == "running", server)
    text = status()
    need(re.search(rf"(?m)^{begin.first.pid} +running +- +{server['id']} +4 +\d+M +\d+% +\d+s +/", text), text)
    done = subprocess.run([f"{BIN}/flyt-smi", "status", "--json"], capture_output=True, text=True, env=cluster.env)
    need(json.loads(done.stdout)["programs"][0]["pid"] == begin.first.pid, done)
    until(lambda: len(cluster.json("program", "list")) == 1, "the question leaves nothing behind")


@case
def what_waits():
    cluster.ctl("vm", "set", "local", "--grouping", "off")
    second = begin(attached=False)
    until(lambda: len(view()["programs"]) == 2, "the second asks")
    row = until(lambda: [row for row in view()["programs"] if row["state"] == "waiting"], "the second waits")[0]
    need(row["pid"] == second.pid and row["position"] == 1 and "entitled" in row["why"] and row["server"] == 0, row)
    need(row["memory_used"] is None, row)
    until(lambda: (view()["programs"][0]["memory_used"] or 0) >= MIB, "the memory of one that is alone on its server")
    text = status()
    need(re.search(rf"(?m)^{second.pid} +waiting +1 +- .*\n +the servers of VM local use all", text), text)
    need([row["pid"] for row in view()["programs"]] == [begin.first.pid, second.pid], "those that run come first")
    finish(begin.first)
    need(second.stdout.readline() == "attached\n", "the second has its turn")
    begin.second = second


@case
def what_a_program_says_of_itself_is_marked():
    """In lists, and in the record of use."""
    finish(begin.second)
    cluster.ctl("vm", "set", "local", "--grouping", "on")

    def executable(dumpable):
        liar = subprocess.Popen([sys.executable, "-c", LIAR, os.path.dirname(os.path.abspath(__file__)),
                                 f"{cluster.dir}/run/client.sock", dumpable], stdin=subprocess.PIPE)
        try:
            ids = until(lambda: cluster.json("program", "list"), "the program is there")
            used = until(lambda: [row for row in cluster.json("usage", "--by", "program")
                                  if row["program"] == ids[0]["id"]], "and in the record")
            need(used[0]["executable"] == ids[0]["executable"], (used, ids))
            return ids[0]["executable"]
        finally:
            liar.communicate(b"", timeout=20)
            until(lambda: not cluster.json("program", "list"), "it has gone")
    found = executable("1")
    need(found == os.path.realpath(f"/proc/{os.getpid()}/exe"), found)
    if os.getuid() == 0:
        cluster.kill("client-manager")("setpriv", "--bounding-set=-sys_ptrace")
    found = executable("0")
    need(found.endswith("/long/innocent (said)") and found.startswith("...") and len(found) < 200, found)
    if os.getuid() == 0:
        cluster.kill("client-manager")()
    begin.second = begin()


@case
def other_users():
    if os.getuid():
        return "needs root, to be another user"
    config = f"{FOLDER}/cluster/etc/client-manager.conf"
    write(config, read(config).replace('mode = "0600"', 'mode = "0666"'))
    os.chmod(FOLDER, 0o755)
    for folder in ("cluster", "cluster/run"):
        os.chmod(f"{FOLDER}/{folder}", 0o755)
    cluster.kill("client-manager")()
    until(lambda: len(view()["programs"]) == 1, "the client manager is back")
    need("1 program of other users is not shown" in status(user=NOBODY), "a stranger's view")
    seen = view(user=NOBODY)
    need(seen["programs"] == [] and seen["hidden"] == 1, seen)
    write(config, read(config).replace("ipc = {", 'ipc = { status = "all";'))
    os.kill(cluster.pid("client-manager"), signal.SIGHUP)
    until(lambda: len(view(user=NOBODY)["programs"]) == 1, "all are shown")


@case
def nobody_answers():
    stopped = cluster.pid("cluster-manager")
    os.kill(stopped, signal.SIGSTOP)
    try:
        seen = view(code=1)
        need(status.took < allowed(1.5, BIN), f"{status.took} s")
        need(not seen["complete"] and "does not answer" in seen["message"], seen)
        need([(row["state"], row["pid"]) for row in seen["programs"]] == [("running", begin.second.pid)], seen)
        need("only a part is known: the cluster manager does not answer" in status(code=1), "the text")
    finally:
        os.kill(stopped, signal.SIGCONT)
    until(lambda: view()["complete"], "it answers again")
    again = cluster.kill("cluster-manager")
    text = until(lambda: (text := status(code=1)) and "cannot be reached" in text and text, "it is missed")
    need(f"{begin.second.pid} " in text, text)
    again()
    until(lambda: view()["complete"], "the new one answers")
    finish(begin.second)
    stopped = cluster.pid("client-manager")
    os.kill(stopped, signal.SIGSTOP)
    try:
        text = status(code=9)
        need(status.took < allowed(2, BIN) and "it is stopped or overloaded" in text, f"{status.took} s: {text}")
    finally:
        os.kill(stopped, signal.SIGCONT)
    text = status(code=9, FLYT_MANAGER="/nowhere/at.sock")
    need("/nowhere/at.sock" in text and "FLYT_SERVER" in text, text)
    need("--status stands alone" in status("x", code=125), "usage")


try:
    code = only_cases()
finally:
    cluster.down()
    shutil.rmtree(FOLDER, ignore_errors=True)
sys.exit(code)
