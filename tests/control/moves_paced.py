#!/usr/bin/env python3
"""How far moves are, and what they keep to; TAP on stdout.

    moves_paced.py BIN PROGRAM

shows: moving: while a program moves, flytctl shows on a terminal, in tables and as JSON, in which phase it is, how many
   bytes are copied of how many, and how fast; and counters afterwards
shows: moving: --bandwidth holds; a move for which the program would stand still for longer than --downtime is called
   off, and refused before the program is touched once it is known how fast bytes go; the program goes on
shows: moving: a move is called off while it copies
shows: moving: what a program has is copied while it goes on: at a given bandwidth it stands still for a small part of
   the time that all bytes take, and for no longer than a --downtime which is shorter than that; it is called off
   meanwhile, and the program has not stood still
shows: moving: programs and client managers of the release before move and are moved without progress; limits are
   refused by name for them, and nothing that they do not know is said to them
shows: moving: a library that reports nonsense about moves, of its own and of others, changes nothing but its own row
"""
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import wire  # noqa: E402
from moves import BIN, PROGRAM, Cluster, Program  # noqa: E402
from old_manager import Manager  # noqa: E402
from testlib import ok, sanitizer_environment, spawn, story, until  # noqa: E402

MIB = 1 << 20
HELD = 64                               # MiB that the program has besides
STILL = 25                              # ms: enough to come to rest, not to copy so much
MOVE, MOVED, REST, PROGRESS = 34, 35, 37, 38


def newest(cluster):
    return cluster.rows("move", "list")[-1]


def on_terminal(cluster, *words):
    """A command whose stderr is a terminal: the process, and a function that returns all that was shown."""
    ours, its = pty.openpty()
    process = subprocess.Popen([f"{BIN}/flytctl", *words], env=cluster.env, stdout=subprocess.PIPE, stderr=its,
                               text=True)
    os.close(its)

    def shown():
        text = b""
        try:
            while part := os.read(ours, 65536):
                text += part
        except OSError:                                     # the terminal's end
            pass
        os.close(ours)
        return text.decode()
    return process, shown


def progress(cluster, a):
    there = cluster.other(a)
    process, shown = on_terminal(cluster, "program", "migrate", str(a.id), "--to", there, "--bandwidth",
                                 f"{HELD // 2}M")
    until(lambda: newest(cluster)["phase"] == "copying" and newest(cluster)["rate"], "it copies", 20)
    row = newest(cluster)
    assert row["bandwidth"] == HELD // 2 * MIB and row["state"] == "moving", row
    assert HELD * MIB <= row["bytes_total"] < 2 * HELD * MIB and row["bytes_done"] <= row["bytes_total"], row
    assert "copying" in cluster.run("--wide", "move", "list")
    text = shown()
    assert process.wait(30) == 0, text
    said = process.communicate()[0]
    parts = re.findall(r"program \d+: copying, ([\d.]+) of ([\d.]+) MiB \((\d+) %\), ([\d.]+) MiB a second", text)
    assert len(parts) >= 3 and float(parts[0][0]) < float(parts[-1][0]) <= float(parts[-1][1]), text
    assert "is on node" in said and text.endswith("\r\x1b[K"), (said, text[-40:])
    row = newest(cluster)
    assert row["state"] == "done" and row["phase"] == "", row
    assert row["bytes_done"] == row["bytes"] == row["bytes_total"], row
    # As many bytes as the bandwidth allows in the time, and one piece more.
    assert row["outage_ms"] >= (row["bytes"] - MIB) / row["bandwidth"] * 1000, row
    a.goes_on()
    ok(f"shown {len(parts)} times on a terminal, {row['bytes'] / MIB:.0f} MiB in {row['outage_ms']:.0f} ms with at most"
       f" {HELD // 2} MiB a second")


def downtime(cluster, a):
    """The first time nobody knows how fast bytes go; then it is known before the program is touched."""
    there = cluster.other(a)
    said = cluster.run("program", "migrate", str(a.id), "--to", there, "--downtime", str(STILL), expect=7)
    assert re.search(rf"would stand still for about \d+ ms, and may for {STILL} ms: 6\d\.\d MiB are to be", said), said
    a.goes_on()
    cluster.run("program", "migrate", str(a.id), "--to", there)
    a.goes_on()
    there = cluster.other(a)
    said = cluster.run("program", "migrate", str(a.id), "--to", there, "--downtime", str(STILL), expect=7)
    assert "would stand still" in said and newest(cluster)["bytes_done"] == 0, newest(cluster)
    cluster.run("program", "migrate", str(a.id), "--to", there, "--downtime", "30000")
    # By the bandwidth alone.
    there = cluster.other(a)
    said = cluster.run("program", "migrate", str(a.id), "--to", there, "-d", "1000", "-b", "1M", expect=7)
    assert "at 1.0 MiB a second" in said, said
    said = cluster.run("program", "suspend", str(a.id), "--bandwidth", "1.5", expect=2)
    assert "size" in said, said
    assert "move-failed" in cluster.kinds()
    a.goes_on()
    ok("a move that would hold the program for longer than --downtime is called off or refused; the program goes on")


def in_rounds(cluster, a):
    """All bytes take two seconds."""
    least = HELD * MIB / (HELD // 2 * MIB) * 1000
    process, shown = on_terminal(cluster, "program", "migrate", str(a.id), "--to", cluster.other(a), "--bandwidth",
                                 f"{HELD // 2}M", "--downtime", str(int(least / 2)))
    until(lambda: newest(cluster)["phase"] == "preparing" and newest(cluster)["bytes_done"] > MIB, "it copies", 20)
    rounds = a.goes_on()
    assert newest(cluster)["phase"] == "preparing", newest(cluster)
    text = shown()
    assert process.wait(30) == 0, (text, process.communicate())
    process.communicate()
    assert re.search(r"program \d+: preparing, ([\d.]+) of ([\d.]+) MiB \((\d+) %\)", text), text
    row = newest(cluster)
    assert row["state"] == "done" and row["bytes"] >= HELD * MIB and row["outage_ms"] < least / 2, row
    a.goes_on()
    before = row["id"]
    moving = cluster.begin("program", "migrate", str(a.id), "--to", cluster.other(a), "--bandwidth", "2M")
    until(lambda: newest(cluster)["id"] != before and newest(cluster)["bytes_done"] > MIB, "it copies", 20)
    a.goes_on()
    cluster.run("move", "cancel", str(newest(cluster)["id"]))
    assert moving.wait(30) == 4
    moving.communicate()
    assert newest(cluster)["outage_ms"] == 0, newest(cluster)
    a.goes_on()
    ok(f"{row['bytes'] / MIB:.0f} MiB at {HELD // 2} MiB a second: it stood still for {row['outage_ms']:.0f} ms, and"
       f" computed {a.goes_on() - rounds} rounds since then; called off without having stood still")


def called_off(cluster, a):
    there, before = cluster.other(a), newest(cluster)["id"]
    moving = cluster.begin("program", "migrate", str(a.id), "--to", there, "--bandwidth", "2M")
    until(lambda: newest(cluster)["id"] != before and newest(cluster)["bytes_done"] > MIB, "it copies", 20)
    began = time.monotonic()
    cluster.run("move", "cancel", str(newest(cluster)["id"]))
    until(lambda: a.ask("state")[2] > 0, "it answers")
    a.goes_on()
    took = time.monotonic() - began
    assert took < 20, took                                  # all bytes would take 32 s
    assert moving.wait(30) == 4
    moving.communicate()
    counts = cluster.json("status")
    assert counts["moves_cancelled_total"] >= 1 and counts["moves_under_way"] == 0, counts
    moved = [row for row in cluster.rows("move", "list") if row["state"] == "done"]
    assert counts["moves_moved_total"] == len(moved), counts
    assert counts["moves_bytes_total"] == sum(row["bytes"] for row in moved), counts
    assert abs(counts["moves_outage_seconds_total"] * 1000 - sum(row["outage_ms"] for row in moved)) < 1, counts
    assert counts["moves_begun_total"] == len(cluster.rows("move", "list")), counts
    ok("called off while it copies: the program goes on soon; the counters are the sums of move list")


def library_before(cluster):
    """A program whose library is of minor 8, by hand: it moves, and is not moved with limits."""
    peer = wire.Peer(f"{cluster.dir}/run/client.sock")
    peer.hello(wire.OF_PROGRAM, "pid-1", minor=8)
    peer.attach("/bin/before")
    until(lambda: [row["state"] for row in cluster.rows("program", "list")] == ["running"], "it has a server")
    row = cluster.rows("program", "list")[0]
    said = cluster.run("program", "migrate", str(row["id"]), "--bandwidth", "8M", expect=9)
    assert "library of an earlier release" in said and "bandwidth" in said, said
    moving = cluster.begin("program", "migrate", str(row["id"]))
    until(lambda: cluster.rows("move", "list")[-1]["state"] == "ordered", "it is ordered")
    asked = []                                              # the client manager may hear of it a moment later

    def ordered():
        asked[:] = [peer.answer(MOVE, struct.pack(">Q", 0))]
        return struct.unpack_from(">I", asked[0]) == (0,)
    until(ordered, lambda: f"its client manager hands it on: {asked}")
    order = asked[0]
    move, = struct.unpack_from(">Q", order, 8)              # behind the status, whose text is empty
    assert move == cluster.rows("move", "list")[-1]["id"], order
    assert struct.unpack_from(">I", peer.answer(MOVE, struct.pack(">Q", move)))[0] == 0
    peer.answer(MOVED, struct.pack(">QIIIQQ", move, 2, 0, 0, 1500, 4096))
    assert moving.wait(20) == 0, moving.communicate()
    moving.communicate()
    assert cluster.rows("move", "list")[-1]["bytes_done"] == 4096
    peer.close()
    until(lambda: not cluster.rows("program", "list"), "it is gone")
    ok("a program with the library of the release before moves as before; limits are refused by name")


def liar(cluster):
    """Reports of no move, of another program's, and of its own in a flood, with numbers that cannot be."""
    def report(peer, move, phase=3, done=1 << 63, total=1, rate=0):
        return struct.unpack_from(">I", peer.answer(PROGRESS, struct.pack(">QIQQQ", move, phase, done, total, rate)))[0]

    honest, lying = [wire.Peer(f"{cluster.dir}/run/client.sock") for _ in range(2)]
    lying.hello(wire.OF_PROGRAM, "pid-1", minor=9)
    assert report(lying, 1) == 4                            # before it has attached
    for peer, name in ((honest, "/bin/honest"), (lying, "/bin/lying")):
        if peer is honest:
            peer.hello(wire.OF_PROGRAM, "pid-2", minor=9)
        peer.attach(name)
    until(lambda: [row["state"] for row in cluster.rows("program", "list")] == ["running"] * 2, "they have servers")
    ids = sorted(row["id"] for row in cluster.rows("program", "list"))      # in the order in which they have attached
    moving = [cluster.begin("program", "migrate", str(number)) for number in ids]
    until(lambda: [row["state"] for row in cluster.rows("move", "list")[-2:]] == ["ordered"] * 2, "both are ordered")
    of = {row["program"]: row["id"] for row in cluster.rows("move", "list")[-2:]}
    theirs, own = (of[number] for number in ids)
    assert report(lying, theirs) == 4 and report(lying, 1 << 63) == 4
    for i in range(500):
        assert report(lying, own, phase=i * 7919, done=(1 << 64) - 1 - i, total=i, rate=(1 << 64) - 1) == 0
    assert report(lying, own, phase=3, done=7, total=9) == 0
    rows = until(lambda: (rows := {row["id"]: row for row in cluster.rows("move", "list")})[own]["bytes_done"] == 7
                 and rows, "the last one counts")
    assert rows[theirs]["bytes_done"] == 0 and rows[theirs]["phase"] == "", rows[theirs]
    for peer in (honest, lying):
        peer.close()
    for process in moving:
        process.wait(20)
        process.communicate()
    until(lambda: not cluster.rows("program", "list"), "they are gone")
    ok("reports of no move, of another's, and a flood of nonsense change nothing else")


def manager_before():
    """A client manager of minor 8, and one of today's, by hand: what the library says to it."""
    folder = tempfile.mkdtemp(prefix="flyt-paced-")
    servers, heard = [], {}
    try:
        for i in range(2):
            servers.append(spawn(f"{folder}/server-{i}.log", f"{BIN}/cricket-rpc-server", "--gpu", "software",
                                 "--listen", f"unix://{folder}/{i}"))
            until(lambda i=i: os.path.exists(f"{folder}/{i}"), "the server listens")
        for minor in (8, 9):
            manager = Manager(f"{folder}/manager-{minor}", minor, [f"unix://{folder}/0", f"unix://{folder}/1"])
            env = {**os.environ, **sanitizer_environment(BIN), "FLYT_MANAGER": manager.path, "FLYT_SERVER": ""}
            program = subprocess.Popen([f"{BIN}/flyt-run", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       env=env, text=True)
            assert program.stdout.readline().split()[0] == "ready"
            manager.move(1)
            until(lambda m=manager: m.outcome, "it says how the move ended", 30)
            program.stdin.write("end\n")
            program.stdin.flush()
            assert program.stdout.readline().split()[:3] == ["end", "0", "0"]
            program.wait(20)
            assert manager.outcome == 2, manager.outcome    # it has moved
            heard[minor] = manager.heard
            manager.close()
    finally:
        for server in servers:
            server.terminate()
            server.wait(20)
        shutil.rmtree(folder, ignore_errors=True)
    assert PROGRESS not in heard[8] and MOVED in heard[8], heard
    assert heard[9].count(PROGRESS) >= 2 and MOVED in heard[9], heard
    ok("a library tells a client manager of the release before nothing of its progress, and one of this release does")


def main():
    with Cluster() as cluster:
        library_before(cluster)
        liar(cluster)
        a = Program(cluster, FLYT_PERF="no_rounds")
        assert a.ask("take", HELD) == [0]
        downtime(cluster, a)
        progress(cluster, a)
        called_off(cluster, a)
        a.end()
        b = Program(cluster)
        assert b.ask("take", HELD) == [0]
        in_rounds(cluster, b)
        b.end()
    manager_before()


if __name__ == "__main__":
    sys.exit(story(main))
