#!/usr/bin/env python3
"""tests/control/user_shares.py BIN: one user's connections and programs at a client manager leave room for the others'.
Speaks TAP. As root it is several users; otherwise it is one, and what another one gets is not tried.

shows: attacks: a user's idle connections, silent ones, and programs without end leave a client manager to other users
"""
import os
import resource
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import case, client_config, end, free_ports, listens, need, only_cases, read, until, write  # noqa: E402
from wire import OF_PROGRAM, Peer  # noqa: E402

BIN = os.path.abspath(sys.argv[1])
FOLDER = tempfile.mkdtemp(prefix="flyt-shares-")
ROOT = os.geteuid() == 0
GREEDY, OTHER = (65534, 65533) if ROOT else (os.geteuid(), None)
PLACES, PROGRAMS = 300, 1024
FILES = 64 + 2 * PLACES  # of a client manager with so many places
IDLE = 30


class Manager:
    """A client manager without a cluster manager: its programs wait."""

    def __init__(self, name, files):
        os.chmod(FOLDER, 0o755)
        self.socket = f"{FOLDER}/{name}.sock"
        self.config = f"{FOLDER}/{name}.conf"
        self.log = f"{FOLDER}/{name}.log"
        self.port = free_ports(1)[0]
        self.name = name
        self.configure()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([f"{BIN}/flyt-client-manager", "-c", self.config], stdout=log, stderr=log,
                                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE,
                                                                                  (files, files)))
        until(lambda: listens(self.socket), "the client manager listens")

    def configure(self, more=""):
        secret = write(f"{FOLDER}/secret", "1" * 64)
        text = client_config(self.port, "vm", f"{FOLDER}/{self.name}", self.socket, secret, mode="0666")
        write(self.config, text.replace("ipc = {", "ipc = { " + more))

    def connect(self, uid):
        """The kernel names the user who connects."""
        if ROOT:
            os.seteuid(uid)
        try:
            return Peer(self.socket)
        finally:
            if ROOT:
                os.seteuid(0)

    def greet(self, uid):
        """The peer, and what it was answered."""
        peer = self.connect(uid)
        return peer, peer.hello(OF_PROGRAM, "x")

    def attach(self, uid):
        peer, said = self.greet(uid)
        need(said and b"user" not in said, said)
        return peer, peer.attach("/bin/x")


def closed(peer):
    peer.socket.settimeout(0.1)
    try:
        return peer.socket.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def alone(manager, greeted):
    """What the greedy user gets of the places: half. It is said why there is no more."""
    while len(greeted) < PLACES:
        peer, said = manager.greet(GREEDY)
        if b"as many connections" in said:
            need(b"user %d has" % GREEDY in said and b"ipc.user-shares" in said, said)
            need(closed(peer), "a connection that was refused lasts")
            break
        need(len(said) > 60, said)
        greeted.append(peer)
    need(len(greeted) == PLACES // 2, len(greeted))


@case
def connections():
    manager, greeted, silent = Manager("connections", FILES), [], []
    try:
        alone(manager, greeted)
        if ROOT:
            others = [manager.attach(OTHER), manager.attach(0)]
        for _ in range(PLACES):
            silent.append(manager.connect(GREEDY))
        until(lambda: sum(closed(peer) for peer in silent) > PLACES - 20, "silent connections are closed")
        if ROOT:
            others += [manager.attach(OTHER), manager.attach(0)]
            need(all(b"cluster manager" in said for _, said in others), others)
        need(not closed(greeted[0]), "a connection ends before its time")
        until(lambda: closed(greeted[-1]) and closed(greeted[0]), "idle connections are closed", IDLE + 15)
        for peer in (others if ROOT else []):
            need(not closed(peer[0]), "a program's connection was closed")
        _, said = manager.greet(GREEDY)
        need(said and b"as many" not in said, said)
        need(read(manager.log).count("event=user-share") < 60, "a refused user fills the log")
    finally:
        for peer in greeted + silent:
            peer.close()
        end(manager.process)


@case
def programs():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard < 64 + 4 * PROGRAMS:
        return f"no more than {hard} descriptors"
    manager, peers = Manager("programs", 64 + 4 * PROGRAMS), []
    try:
        while len(peers) < PROGRAMS:
            peer, said = manager.attach(GREEDY)
            if b"as many as are free" in said:
                need(b"user %d has %d programs" % (GREEDY, len(peers)) in said, said)
                break
            peers.append(peer)
        need(len(peers) == PROGRAMS // 2, len(peers))
        for user in (OTHER, 0) if ROOT else ():
            peer, said = manager.attach(user)
            need(b"as many" not in said and b"too many" not in said, said)
            peers.append(peer)
        manager.configure("user-shares = false;")
        manager.process.send_signal(signal.SIGHUP)

        def free():
            peer, said = manager.attach(GREEDY)
            peers.append(peer)
            return b"as many" not in said and b"too many" not in said
        until(free, "a single user gets all where the configuration says so")
    finally:
        for peer in peers:
            peer.close()
        end(manager.process)


sys.exit(only_cases(FOLDER))
