#!/usr/bin/env python3
"""tests/control/server_logs.py BIN HOLDER: logs of GPU servers, as an administrator reads them. Speaks TAP.

HOLDER is control_client_program: it takes memory, and goes on when it is given a line.

shows: flytctl server logs: of servers that run, began anew or ended, in pieces, followed, with any bytes in them
shows: flytctl server logs: where one process of a server ends, its program says that the server goes on
shows: flytctl server logs: operators read them, viewers do not; a silent or lost node is named; kept logs are few
"""
import glob
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
FOLDER = tempfile.mkdtemp(prefix="flyt-logs-")
STATE = os.path.join(FOLDER, "cluster", "state")
cluster = Local(BIN, os.path.join(FOLDER, "cluster"), "--nodes", "1", "--tls", FLYT_SOFTGPU_SMS="4")
LINE_MOST = 16384
MANY = 5000


def begin():
    """A program that uses a GPU. Its server's row."""
    begin.holder = subprocess.Popen([f"{BIN}/flyt-run", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, env=cluster.env)
    need(begin.holder.stdout.readline() == "attached\n", lambda: begin.holder.stderr.read())
    row = until(lambda: cluster.json("server", "list"), "a server")[0]
    need(row["state"] == "running", row)
    return row


def finish():
    begin.holder.communicate("\n", timeout=60)


def file_of(server):
    return glob.glob(f"{STATE}/node-*/servers/{server['id']}/log")[0]


def append(server, data):
    with open(file_of(server), "ab") as log:
        log.write(data)


def logs(server, *options, code=0):
    done = cluster.ctl.run("server", "logs", str(server["id"]), *options)
    need(done.returncode == code, done)
    return done.stdout if code == 0 else done.stderr


@case
def pieces_and_lines():
    server = begin.server = begin()
    append(server, b"".join(b"line %d of many\n" % i for i in range(MANY)) + b"without an end")
    text = logs(server)
    need(text.count("\n") >= MANY and text.endswith(f"line {MANY - 1} of many\nwithout an end\n"), text[-100:])
    need([line for line in text.splitlines() if line.startswith("line ")] == [f"line {i} of many" for i in range(MANY)],
         "a line is missing, or came twice")
    need(logs(server, "--tail", "2") == f"line {MANY - 1} of many\nwithout an end\n", logs(server, "--tail", "2"))
    need(len(logs(server, "--tail", "3000").splitlines()) == 3000, "3,000 lines")
    need(logs(server, "--tail", "0") == "" and logs(server, "--tail", "4000000") == text, "bounds")
    rows = [json.loads(line) for line in logs(server, "--tail", "2", "-j").splitlines()]
    need(rows[1] == {"server": server["id"], "node": server["node"], "text": "without an end"}, rows)


@case
def hostile_bytes_are_shown_as_such():
    server = begin.server
    append(server, b"\n\x1b]0;owned\x07 \xff\xc3( \xe2\x80\xaeright\tleft \xc3\xa9 \x00 end\r\n" + b"x" * 40000 + b"\n")
    lines = logs(server, "--tail", "2").splitlines()
    need(lines[0] == "\\x1b]0;owned\\x07 \\xff\\xc3( \\xe2\\x80\\xaeright\tleft \u00e9 \\x00 end", lines[0])
    need("".join(lines[1:]) == "x" * 40000 and max(map(len, lines)) <= LINE_MOST, [len(line) for line in lines])


@case
def followed_until_the_end():
    server = begin.server
    process = subprocess.Popen([f"{BIN}/flytctl", "server", "logs", str(server["id"]), "-f", "--tail", "0"], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cluster.env)
    time.sleep(0.2)
    begin.follower = process
    for i in range(3):
        append(server, b"new %d\n" % i)
        while "new" not in (line := process.stdout.readline()):
            need(line, lambda: process.stderr.read())
        need(line == f"new {i}\n", line)


@case
def followers_outlive_the_cluster_manager():
    server, watchers = begin.server, {}
    for words in (("events", "-f", "-n", "0", "-j"), ("server", "list", "-w", "-d", "1", "-j")):
        watchers[words[0]] = subprocess.Popen([f"{BIN}/flytctl", *words], text=True, stdout=subprocess.PIPE,
                                              stderr=subprocess.PIPE, env=cluster.env)
    need(json.loads(watchers["server"].stdout.readline()), "no picture")
    cluster.ctl("node", "drain", "node-1")
    while "node-drained" not in watchers["events"].stdout.readline():
        need(watchers["events"].poll() is None, lambda: watchers["events"].stderr.read())
    again = cluster.kill("cluster-manager")
    time.sleep(1)
    again()
    until(lambda: cluster.json("node", "list")[0]["state"] == "up", "the node comes back")
    cluster.ctl("node", "undrain", "node-1")
    append(server, b"after the cluster manager came back\n")
    kinds = []
    while "node-undrained" not in kinds:
        kinds.append(json.loads(watchers["events"].stdout.readline())["kind"])
    need("node-drained" not in kinds and "node-joined" in kinds, kinds)
    while "after the cluster" not in (line := begin.follower.stdout.readline()):
        need(line, lambda: f"logs: {begin.follower.wait()} {begin.follower.stderr.read()}")
    for name, watcher in watchers.items():
        need(watcher.poll() is None, lambda: f"{name}: {watcher.returncode} {watcher.stderr.read()}")
        watcher.send_signal(signal.SIGINT)
        problem = watcher.communicate(timeout=10)[1]
        need(problem.count("has gone") == problem.count("manager is back") == 1 and problem.count("\n") == 2, problem)


@case
def its_process_begins_anew():
    server = begin.server
    need("no log of a process before" in logs(server, "--previous", code=5), "--previous")
    begin.follower.send_signal(signal.SIGSTOP)
    append(server, b"the last words of the first\nand no end")
    os.kill(server["pid"], signal.SIGKILL)
    until(lambda: (row := cluster.json("server", "list")) and row[0]["restarts"] == 1 and row[0]["state"] == "running",
          "the server runs again")
    need("line 7 of many" in logs(server, "--previous") and "of many" not in logs(server), "the logs are not parted")
    need("does not go with" in logs(server, "-p", "-f", code=2), "-p -f")
    begin.follower.send_signal(signal.SIGCONT)
    append(server, b"said by the second\n")
    finish()
    cluster.ctl("server", "stop", str(server["id"]), "--force", expect=None)
    until(lambda: not cluster.json("server", "list"), "the server ends")
    out, problem = begin.follower.communicate(timeout=20)
    need(begin.follower.returncode == 0 and "said by the second" in out, out[-300:] + problem)
    need(out.count("the last words of the first\n") == out.count("and no end\n") == 1, out[-600:] + problem)
    need("began anew" in problem and out.count("said by the second") == 1, out[-300:] + problem)


@case
def logs_outlive_their_servers():
    server = begin.server
    kept = logs(server)
    need("said by the second\n" in kept and "event=stopping" in kept and "line 7 of many" in logs(server, "-p"), kept)
    need(logs(server, "-f") == kept, "-f of one that has ended does not end")
    need(logs(server, "--node", server["node"]) == kept, "--node")
    need("there is no node 'nowhere'" in logs(server, "--node", "nowhere", code=5), "--node nowhere")
    need("no event says on which node" in logs({"id": 123456}, code=5), "an unknown one")
    need("has no log on this node" in logs({"id": 123456}, "--node", server["node"], code=5), "an unknown one")
    need("usage" in cluster.ctl.run("server", "logs").stderr, "usage")


@case
def few_are_kept():
    """Of the last two, the last 4 KiB."""
    config = glob.glob(f"{FOLDER}/cluster/etc/node-1.conf")[0]
    write(config, re.sub(r"(?m)^node\s*[=:]?\s*\{", "\\g<0> logs-kept = 2; log-size = 4096;", read(config), count=1))
    need("logs-kept" in read(config), read(config))
    os.kill(cluster.pid("node-1"), signal.SIGHUP)
    until(lambda: "event=reloaded" in cluster.log("node-1"), lambda: cluster.log("node-1")[-500:])
    ids = [begin.server["id"]]
    for _ in range(2):
        server = begin()
        append(server, b"filler %d\n" % server["id"] * 1000)
        finish()
        cluster.ctl("server", "stop", str(server["id"]), "--force", expect=None)
        until(lambda: not cluster.json("server", "list"), "the server ends")
        ids.append(server["id"])
    need("has no log on this node" in logs({"id": ids[0]}, code=5), "the oldest is there")
    need(len(logs({"id": ids[1]})) == 4096 and f"filler {ids[2]}\n" in logs({"id": ids[2]}), "the last ones")
    need(not glob.glob(f"{STATE}/node-*/logs/{ids[0]}-*"), "files")


@case
def one_process_of_a_server_ends():
    """Its program soon learns that the server goes on, and the log has the reason."""
    server = begin()
    for pid in read(f"/proc/{server['pid']}/task/{server['pid']}/children").split():
        os.kill(int(pid), signal.SIGKILL)
    begun = time.monotonic()
    problem = begin.holder.communicate("\n", timeout=60)[1]
    took = time.monotonic() - begun
    need("the GPU server itself goes on" in problem and "as the cluster says" not in problem, problem)
    need(took < allowed(2.5, BIN), took)
    need("event=worker-ended" in logs(server) and "signal=9" in logs(server), logs(server, "--tail", "5"))
    need(cluster.json("server", "list")[0]["restarts"] == 0, "the server is another one")


@case
def who_may():
    server = begin.server = begin()
    folder, ca = f"{FOLDER}/tls", f"{FOLDER}/cluster/etc/ca"
    port = re.search(r"client\s*=\s*(\d+)", read(glob.glob(f"{FOLDER}/cluster/etc/cluster*.conf")[0])).group(1)
    for role, name in (("viewer", "vera"), ("operator", "oscar")):
        cluster.ctl("ca", "issue", ca, role, name, "--out", folder)
    shutil.copy(f"{ca}/ca.crt", folder)
    there = ("--manager", f"tcp://127.0.0.1:{port}", "--tls", folder)
    need("your role may not do this" in logs(server, *there, "--as", "vera", code=4), "a viewer may")
    need(logs(server, *there, "--as", "oscar") == logs(server), "an operator may not")


@case
def a_node_that_does_not_answer():
    server, node = begin.server, cluster.pid("node-1")
    os.kill(node, signal.SIGSTOP)
    try:
        waits = subprocess.Popen([f"{BIN}/flytctl", "server", "logs", str(server["id"])], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cluster.env)
        out, problem = waits.communicate(timeout=30)
        need(waits.returncode == 3 and not out and re.search("has not answered|has gone meanwhile", problem), problem)
    finally:
        os.kill(node, signal.SIGCONT)
    until(lambda: cluster.ctl.run("server", "logs", str(server["id"])).returncode == 0, "it answers again")
    finish()
    again = cluster.kill("node-1")
    until(lambda: cluster.json("node", "list")[0]["state"] != "up" or
          "is not connected" in cluster.ctl.run("server", "logs", str(server["id"])).stderr, "the node has gone")
    need("is not connected" in logs(server, code=3), "a node that has gone")
    again()
    until(lambda: cluster.ctl.run("server", "logs", str(server["id"])).returncode == 0, "the new one has the log")


try:
    code = only_cases()
finally:
    cluster.down()
    shutil.rmtree(FOLDER, ignore_errors=True)
sys.exit(code)
