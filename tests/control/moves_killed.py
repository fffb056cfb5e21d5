#!/usr/bin/env python3
"""Somebody is killed at each point of a move; TAP on stdout.

    moves_killed.py BIN PROGRAM [all|stops]

all: everybody is killed at each point; stops: everybody is stopped; else those that took most thought.

shows: moving: whoever is killed whenever, the program computes what it would have computed, on exactly one of the two
   servers, or gets error 46; the books agree with what runs, and no server's folder is left over
shows: moving: whoever is stopped for two seconds at whatever point, the program moves, and computes what it would have
   computed
"""
import glob
import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from moves import Cluster, Hold, Program  # noqa: E402
from testlib import Failed, alive, ok, story, until  # noqa: E402

ALL, STOPS = sys.argv[3:] == ["all"], sys.argv[3:] == ["stops"]
LOST = 46
POINTS = ("taken", "round", "shut", "sealed", "permitted", "settled", "moved")
PARTIES = ("source", "target", "client-manager", "cluster-manager", "source-node", "target-node", "program")
SOME = {("source", "permitted"), ("target", "permitted"), ("target", "round"), ("client-manager", "sealed"),
        ("cluster-manager", "moved")}
STOPPED_SOME = {("source", "shut"), ("client-manager", "sealed")}
STOPPED_SECONDS = 2                     # the data plane's limit on silence is 10
# The session is lost with a server that has it alone: the old one until everything is at the new one, that one later.
LOSES = {("source", "taken"), ("source", "round"), ("source", "shut"), ("target", "settled"), ("target", "moved")}


def children(pid):
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(path) as file:
                found += [int(word) for word in file.read().split()]
        except OSError:
            pass
    return found


def workers(cluster, server):
    """Processes of this server, without its listener."""
    pid = next((row["pid"] for row in cluster.rows("server", "list") if row["id"] == server), 0)
    return children(pid) if pid else []


def kill_workers(cluster, server):
    for pid in workers(cluster, server):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        until(lambda pid=pid: not alive(pid), "a worker ends")


def hit(cluster, party, program, move):
    """Kills it. A function that brings back what comes back."""
    if party in ("source", "target"):
        kill_workers(cluster, move[party])
        return lambda: None
    if party == "program":
        program.process.kill()
        program.process.wait()
        return lambda: None
    daemon = {"source-node": move["from_node"], "target-node": move["to_node"]}.get(party, party)
    return cluster.kill(daemon)


def folders(cluster):
    return {int(os.path.basename(path)) for path in glob.glob(f"{cluster.dir}/state/node-*/servers/*")}


def books(cluster):
    """What is booked is what the servers have, each of which has its folder, and nobody else has one."""
    servers = cluster.rows("server", "list")
    used = cluster.json("status")
    return (servers, used["sms_used"] == sum(row["sms"] for row in servers) and
            used["memory_used"] == sum(row["memory"] for row in servers) and
            folders(cluster) == {row["id"] for row in servers})


def quiet(cluster):
    """No move is under way, and the books are right."""
    servers, good = books(cluster)
    return good and all(row["ended"] for row in cluster.rows("move", "list"))


def verdict(cluster, program, loses):
    """What became of the program: it computes, in one place; or it has error 46."""
    error, wrong, _ = program.ask("state")
    assert wrong == 0, wrong
    if loses:
        until(lambda: program.ask("state")[0] == LOST, lambda: f"46 is expected: {program.ask('state')}", 30)
        return "error 46"
    assert error == 0, error
    program.goes_on()
    until(lambda: quiet(cluster) and len(books(cluster)[0]) == 1,
          lambda: f"one server is left: {books(cluster)} {folders(cluster)} {cluster.rows('move', 'list')}", 40)
    program.goes_on()
    node, servers = cluster.place(program)
    assert len(workers(cluster, next(iter(servers)))) >= 1, servers
    return f"on {node}"


def cell(cluster, party, point):
    hold = Hold(cluster)
    program = Program(cluster, FLYT_MOVE_HOLD=hold.folder, FLYT_LOG="error")
    here, there = cluster.place(program)[0], cluster.other(program)
    hold.at(point)
    moving = cluster.begin("program", "migrate", str(program.id), "--to", there)
    hold.reached(point)
    move = next(row for row in cluster.rows("move", "list") if not row["ended"])
    back = hit(cluster, party, program, move)
    hold.let_go(point)
    if party in ("client-manager", "cluster-manager") and point != "taken":
        until(lambda: not os.path.exists(f"{hold.folder}/{point}.here"), "it goes on without")
    back()
    try:
        code = moving.wait(60)
    except subprocess.TimeoutExpired as late:
        moving.kill()
        raise Failed("the command does not end") from late
    finally:
        moving.communicate()
    until(lambda: cluster.command("move", "list").returncode == 0 and
          all(row["state"] == "up" for row in cluster.rows("node", "list")), "the cluster is there again", 40)
    if party == "program":
        what = "both parts end"
    else:
        what = verdict(cluster, program, (party, point) in LOSES)
        if what == "error 46":
            program.process.kill()
            program.process.wait()
        elif party in ("source-node", "target-node", "client-manager") or point in ("permitted", "settled", "moved"):
            stays = (party, point) in (("target", "permitted"),)
            assert what == f"on {here if stays else there}", (what, here, there)
            assert party in ("cluster-manager", "target") or code == 0, code
        if program.process.poll() is None:
            program.end()
    until(lambda: not cluster.rows("program", "list") and quiet(cluster),
          lambda: f"{cluster.rows('program', 'list')} {books(cluster)} {folders(cluster)}"
                  f" {cluster.rows('move', 'list')}", 60)
    shutil.rmtree(hold.folder)
    ok(f"killed at {point}: {party}: {what} (exit {code})")


def pids_of(cluster, party, program, move):
    if party in ("source", "target"):
        pid = next(row["pid"] for row in cluster.rows("server", "list") if row["id"] == move[party])
        return [pid, *workers(cluster, move[party])]
    if party == "program":
        return [program.process.pid]
    return [cluster.pid({"source-node": move["from_node"], "target-node": move["to_node"]}.get(party, party))]


def stopped(cluster, party, point):
    hold = Hold(cluster)
    program = Program(cluster, FLYT_MOVE_HOLD=hold.folder, FLYT_LOG="error")
    there = cluster.other(program)
    hold.at(point)
    moving = cluster.begin("program", "migrate", str(program.id), "--to", there)
    hold.reached(point)
    move = next(row for row in cluster.rows("move", "list") if not row["ended"])
    pids = pids_of(cluster, party, program, move)
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        hold.let_go(point)
        time.sleep(STOPPED_SECONDS)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    code = moving.wait(60)
    assert code == 0, moving.communicate()
    moving.communicate()
    program.goes_on()
    until(lambda: quiet(cluster) and len(books(cluster)[0]) == 1, lambda: f"one server is left: {books(cluster)}", 40)
    assert cluster.place(program)[0] == there
    program.end()
    until(lambda: not cluster.rows("program", "list") and quiet(cluster), lambda: f"{books(cluster)}", 60)
    shutil.rmtree(hold.folder)
    ok(f"stopped for {STOPPED_SECONDS} s at {point}: {party}: it moves")


def main():
    with Cluster() as cluster:
        for point in POINTS:
            for party in PARTIES:
                if ALL or (not STOPS and (party, point) in SOME):
                    cell(cluster, party, point)
                if STOPS or (not ALL and (party, point) in STOPPED_SOME):
                    stopped(cluster, party, point)


if __name__ == "__main__":
    sys.exit(story(main))
