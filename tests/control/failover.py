#!/usr/bin/env python3
"""failover.py BIN [SECONDS]: the resource DB in a replica set of three, whose primary is lost in every way.

shows: resource DB: MongoDB loses its primary (killed, stepped down, frozen): what was said to be done is done

Three members listen on loopback. A server of several members cannot be had from PyPI, so a member is a small process
of this test that speaks MongoDB's protocol: it says who is primary, as `hello` does in a replica set, refuses commands
while it is not (NotWritablePrimary), and hands all others on to one server, which stands for what the majority has.
Elections are the test's; that a member takes back what only it had is not shown. VMs are added all the time; each
flytctl that ended well must have left its VM in the DB, and each that said that nothing was changed must not.
SECONDS: further rounds, drawn by chance, for so long (make check-long).
"""
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

HELLO = {"hello", "ismaster", "isMaster"}
OP_REPLY, OP_QUERY, OP_MSG = 1, 2004, 2013


# ---- a member, in a process of its own ----

def receive(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError
        data += more
    return data


def message(connection):
    head = receive(connection, 16)
    length, number, _, code = struct.unpack("<iiii", head)
    return number, code, receive(connection, length - 16), head


class Member:
    def __init__(self, own, ports, backend, state):
        import bson
        self.bson, self.own, self.ports, self.backend, self.state = bson, own, ports, backend, state

    def primary(self):
        with open(self.state) as file:
            index, term = map(int, file.read().split())
        return (self.ports[index] if index >= 0 else None), term

    def hello(self):
        primary, term = self.primary()
        names = [f"127.0.0.1:{port}" for port in self.ports]
        leads = primary == self.own
        reply = {"isWritablePrimary": leads, "ismaster": leads, "secondary": not leads, "setName": "rs",
                 "setVersion": 1, "hosts": names, "me": f"127.0.0.1:{self.own}", "maxBsonObjectSize": 16 << 20,
                 "maxWireVersion": 17, "minWireVersion": 0, "maxMessageSizeBytes": 48000000,
                 "maxWriteBatchSize": 100000, "ok": 1.0, "logicalSessionTimeoutMinutes": 30}
        if leads:
            reply["electionId"] = self.bson.ObjectId(struct.pack(">IQ", 0x7fffffff, term))
        if primary:
            reply["primary"] = f"127.0.0.1:{primary}"
        return reply

    def answer(self, number, code, reply):
        body = self.bson.encode(reply)
        if code == OP_QUERY:
            body, code = struct.pack("<iqii", 8, 0, 0, 1) + body, OP_REPLY
        else:
            body = struct.pack("<IB", 0, 0) + body
        return struct.pack("<iiii", 16 + len(body), 0, number, code) + body

    def serve(self, connection):
        behind = socket.create_connection(("127.0.0.1", self.backend))
        try:
            while True:
                number, code, body, head = message(connection)
                at = 5 if code == OP_MSG else 4 + body.index(b"\0", 4) - 4 + 1 + 8
                size, = struct.unpack_from("<i", body, at)
                command = next(iter(self.bson.decode(body[at:at + size])))
                if command in HELLO:
                    connection.sendall(self.answer(number, code, self.hello()))
                elif self.primary()[0] != self.own:
                    connection.sendall(self.answer(number, code, {"ok": 0.0, "code": 10107, "errmsg": "not primary",
                                                                  "codeName": "NotWritablePrimary"}))
                else:
                    behind.sendall(head + body)
                    _, _, reply, reply_head = message(behind)
                    connection.sendall(reply_head + reply)
        except (ConnectionError, OSError):
            connection.close()
            behind.close()

    def run(self):
        listener = socket.create_server(("127.0.0.1", self.own))
        print("listening", flush=True)
        while True:
            threading.Thread(target=self.serve, args=(listener.accept()[0],), daemon=True).start()


if sys.argv[1:2] == ["member"]:
    Member(int(sys.argv[2]), [int(port) for port in sys.argv[3:6]], int(sys.argv[6]), sys.argv[7]).run()

# ---- the test ----

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import hand  # noqa: E402
from hand import BIN, ctl, log, path, start, until, work, write  # noqa: E402
from testlib import cluster_config, free_ports, ok  # noqa: E402

PYTHON = f"{ROOT}/build/mongo/bin/python"
SERVER = f"{ROOT}/build/mongo/bin/secantusd-py"
AWAY, UNKNOWN = 11, 12


class Set:
    """Three members before one server."""

    def __init__(self):
        self.backend, self.ports = free_ports()[0], [free_ports()[i % 2] for i in range(3)]
        os.mkdir(path("data"))
        start("server", SERVER, "--storage-path", path("data"), "--host", "127.0.0.1", "--port", str(self.backend),
              "--cache-size", "64M", "--standalone")
        assert until(lambda: self.connects(self.backend), 40), log("server")
        self.term, self.members = 0, [None] * 3
        self.elect(0)
        for i in range(3):
            self.begin(i)

    @staticmethod
    def connects(port):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            return False

    def elect(self, index):
        """-1: nobody."""
        self.term += 1
        self.index = index
        write("state.new", f"{index} {self.term}")
        os.rename(path("state.new"), path("state"))

    def begin(self, i):
        self.members[i] = start(f"member{i}", PYTHON, os.path.abspath(__file__), "member", str(self.ports[i]),
                                *map(str, self.ports), str(self.backend), path("state"))
        assert until(lambda: "listening" in log(f"member{i}"), 20), log(f"member{i}")

    def uri(self):
        return "mongodb://" + ",".join(f"127.0.0.1:{port}" for port in self.ports) + "/flyt?replicaSet=rs"

    def killed(self):
        old = self.index
        self.members[old].kill()
        self.members[old].wait()
        time.sleep(0.7)
        self.elect((old + 1) % 3)
        time.sleep(1.5)
        self.begin(old)

    def stepped_down(self):
        old = self.index
        self.elect(-1)
        time.sleep(0.7)
        self.elect((old + 1) % 3)
        time.sleep(1)

    def frozen(self):
        old = self.index
        self.members[old].send_signal(signal.SIGSTOP)
        time.sleep(0.7)
        self.elect((old + 1) % 3)
        time.sleep(5)
        self.members[old].send_signal(signal.SIGCONT)
        time.sleep(0.5)


class Writer(threading.Thread):
    """Adds VMs, one after another, and remembers what it was told."""

    def __init__(self):
        super().__init__(daemon=True)
        self.told, self.go_on = {}, True

    def run(self):
        while self.go_on:
            name = f"vm{len(self.told)}"
            done = ctl("vm", "add", name, "--sms", "1", "--memory", "64M")
            self.told[name] = done.returncode
            time.sleep(0.05)


def manager(uri):
    ports = free_ports()
    write("cluster.conf", cluster_config(work, ports, uri, security='tls = "off";'))
    process = start("cluster", f"{BIN}/flyt-cluster-manager", "--config", path("cluster.conf"))
    ok(until(lambda: ctl("status").returncode == 0, 30), "a cluster manager serves, with a replica set")
    return process


def names():
    """Of the VMs that the DB has, as a cluster manager that has just started sees them."""
    return {row["name"] for row in json.loads(ctl("vm", "list", "--json").stdout)}


def lose(cluster, how, writer):
    before = len([code for code in writer.told.values() if code == 0])
    getattr(cluster, how)()
    ok(until(lambda: len([code for code in writer.told.values() if code == 0]) > before + 3, 30),
       f"the primary is {how.replace('_', ' ')}: VMs can be added again")


def without_majority(cluster, writer, process):
    cluster.elect(-1)
    ok(until(lambda: "db-away" in ctl("events").stdout), "nobody is primary: an event says that the DB is away")
    refused = ctl("vm", "add", "late", "--sms", "1", "--memory", "64M")
    ok(refused.returncode in (AWAY, UNKNOWN), f"a change is refused: {refused.returncode}")
    ok(ctl("vm", "list").returncode == 0 and process.poll() is None, "what is known can be looked at")
    cluster.elect(1)
    ok(until(lambda: "db-back" in ctl("events").stdout), "there is a primary: the DB is back")


def main():
    if not os.path.exists(SERVER) and subprocess.run([f"{HERE}/mongo-install"], capture_output=True).returncode:
        hand.cannot("no server that speaks MongoDB's protocol could be had")
    cluster = Set()
    process = manager(cluster.uri())
    writer = Writer()
    writer.start()
    ok(until(lambda: len(writer.told) > 3), "VMs are added")
    ways = ["killed", "stepped_down", "frozen"]
    for how in ways:
        lose(cluster, how, writer)
    without_majority(cluster, writer, process)
    limit = time.monotonic() + float(sys.argv[2]) if len(sys.argv) > 2 else 0
    while time.monotonic() < limit:
        lose(cluster, random.choice(ways), writer)
    writer.go_on = False
    writer.join(60)
    ok(process.poll() is None, "the cluster manager has gone on all the time")
    # Another one reads what the DB has.
    process.terminate()
    process.wait(20)
    manager(cluster.uri())
    there = names()
    codes = sorted(set(writer.told.values()))
    print(f"# {len(writer.told)} VMs, exit codes {({code: list(writer.told.values()).count(code) for code in codes})}")
    ok(set(codes) <= {0, AWAY, UNKNOWN}, f"each change was made, refused, or not known: {codes}")
    lost = [name for name, code in writer.told.items() if code == 0 and name not in there]
    ok(not lost, f"all that were said to be added are there: {lost}")
    kept = [name for name, code in writer.told.items() if code == AWAY and name in there]
    ok(not kept, f"none is there of which was said that nothing was changed: {kept}")


sys.exit(hand.whole(main))
